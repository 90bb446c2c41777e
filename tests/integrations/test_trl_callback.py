"""The callback for TRL: what it measures on passes of a model, against sums by hand.

transformers is not installed here, so three names of it are stood in for. Runs of the real trainer, with the same
weights to the bit with and without it, are `benchmarks/foreign`'s.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

FILE = Path(__file__).parents[2] / "algorithms" / "integrations" / "trl.py"
PROMPT, ANSWER, VOCABULARY = 3, 6, 11


@pytest.fixture
def callback_module(monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    stand_in = types.ModuleType("transformers")
    for name in ("TrainerCallback", "TrainerControl", "TrainerState"):
        setattr(stand_in, name, type(name, (), {}))
    monkeypatch.setitem(sys.modules, "transformers", stand_in)
    spec = importlib.util.spec_from_file_location("trl_doctor", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module


class Backbone(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 8)
        self.drop = nn.Dropout(0.25)

    def forward(self, input_ids: Tensor) -> Any:
        return SimpleNamespace(last_hidden_state=self.embed(input_ids))


class Model(nn.Module):
    """A model with the fused head of TRL: log-probabilities and entropies in place of logits."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.base_model = Backbone()
        self.head = nn.Linear(8, VOCABULARY)
        with torch.no_grad():
            self.head.weight.mul_(3)

    def get_output_embeddings(self) -> nn.Module:
        return self.head

    def forward(
        self, input_ids: Tensor, labels: Tensor | None = None, fused_lm_head: bool = False
    ) -> Any:
        states = self.base_model(input_ids).last_hidden_state
        logprobs = self.head(states[:, :-1]).log_softmax(-1)
        chosen = logprobs.gather(-1, input_ids[:, 1:, None]).squeeze(-1)
        return SimpleNamespace(log_probs=chosen, entropy=-(logprobs.exp() * logprobs).sum(-1))


def sampled(model: Model, temperature: float, rows: int = 400) -> tuple[Tensor, Tensor]:
    """(tokens, labels) of answers at a temperature."""
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(VOCABULARY, (rows, PROMPT), generator=generator)
    for _ in range(ANSWER):
        logits = model.head(model.base_model(tokens).last_hidden_state[:, -1]) / temperature
        tokens = torch.cat(
            [tokens, torch.multinomial(logits.softmax(-1), 1, generator=generator)], 1
        )
    labels = tokens.clone()
    labels[:, :PROMPT] = -100
    return tokens, labels


def measured(
    module: types.ModuleType, temperature: float, uses: int = 1, **changes: Any
) -> tuple[dict[str, float], Any]:
    """(the row of the log, control) after one step on answers at a temperature."""
    model = Model()
    with torch.no_grad():
        tokens, labels = sampled(model, temperature)
    args = SimpleNamespace(
        temperature=1.0, steps_per_generation=uses, num_iterations=1, gradient_accumulation_steps=1
    )
    state = SimpleNamespace(global_step=0, log_history=[{"loss": 0.0}])
    control = SimpleNamespace(should_training_stop=False)
    callback = module.DoctorCallback(**changes)
    callback.on_train_begin(args, state, control, model=model)
    callback.on_step_begin(args, state, control)
    if uses > 1:
        with torch.no_grad():
            model(input_ids=tokens, labels=labels, fused_lm_head=True)
        order = torch.randperm(len(tokens), generator=torch.Generator().manual_seed(2))
        tokens, labels = tokens[order], labels[order]
    model(input_ids=tokens, labels=labels, fused_lm_head=True)
    control = callback.on_step_end(args, state, control)
    callback.on_log(args, state, control)
    callback.on_train_end(args, state, control)
    assert not model._forward_hooks and not model.base_model._forward_hooks
    return state.log_history[-1], control


def test_samples_of_the_policy_are_as_surprising_as_its_entropy(
    callback_module: types.ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    row, control = measured(callback_module, 1.0, stop=True)
    assert abs(row["doctor/surprise_gap"]) < 0.05
    assert row["doctor/inverse_temperature"] == pytest.approx(1.0, abs=0.15)
    assert row["doctor/dropout"] == 0.25 and "doctor/first_ratio_std" not in row
    assert "come, as far as can be told, from the policy" in capsys.readouterr().out
    assert not control.should_training_stop


def test_another_temperature_is_measured_said_and_stops_the_run_on_request(
    callback_module: types.ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    row, control = measured(callback_module, 2.0, stop=True)
    assert row["doctor/surprise_gap"] > 0.05
    assert row["doctor/inverse_temperature"] == pytest.approx(0.5, abs=0.15)
    assert "do NOT come from the policy that learns" in capsys.readouterr().out
    assert control.should_training_stop
    _, control = measured(callback_module, 2.0)
    assert not control.should_training_stop


def test_the_first_ratio_is_one_where_both_passes_agree_whatever_the_order_of_the_rows(
    callback_module: types.ModuleType,
) -> None:
    row, _ = measured(callback_module, 1.0, uses=4)
    assert row["doctor/first_ratio_std"] < 1e-6


def test_a_pass_of_the_reference_is_not_taken_for_the_old_log_probabilities(
    callback_module: types.ModuleType,
) -> None:
    model, callback = Model(), callback_module.DoctorCallback()
    with torch.no_grad():
        tokens, labels = sampled(model, 1.0, 4)
    for uses in (1, 2):
        args = SimpleNamespace(
            temperature=1.0,
            steps_per_generation=uses,
            num_iterations=1,
            gradient_accumulation_steps=1,
        )
        state = SimpleNamespace(global_step=0, log_history=[{"loss": 0.0}])
        callback.on_train_begin(args, state, None, model=model)
        callback.on_step_begin(args, state, None)
        with torch.no_grad():
            if uses > 1:
                model(input_ids=tokens, labels=labels, fused_lm_head=True)
            own = model.head.bias.clone()
            model.head.bias[0] += 3.0  # adapters off: another policy
            model(input_ids=tokens, labels=labels, fused_lm_head=True)
            model.head.bias.copy_(own)
        model(input_ids=tokens, labels=labels, fused_lm_head=True)
        callback.on_step_end(args, state, None)
        callback.on_log(args, state, None)
        callback.on_train_end(args, state, None)
        row = state.log_history[-1]
        assert row.get("doctor/first_ratio_std", 0.0) < 1e-6
        assert ("doctor/first_ratio_std" in row) is (uses > 1)


def test_the_inverse_temperature_is_the_most_likely_one(callback_module: types.ModuleType) -> None:
    generator = torch.Generator().manual_seed(3)
    logits = 3 * torch.randn(4000, VOCABULARY, generator=generator)
    for factor in (0.4, 1.0, 2.5):
        chosen = torch.multinomial((factor * logits).softmax(-1), 1, generator=generator).squeeze(
            -1
        )
        found = callback_module._inverse_temperature(logits, chosen)
        assert found == pytest.approx(factor, rel=0.1)
        steps = torch.tensor([found - 0.02, found, found + 0.02])
        likelihoods = [
            float((step * logits).log_softmax(-1).gather(-1, chosen[:, None]).mean())
            for step in steps
        ]
        assert max(likelihoods) == likelihoods[1]


def test_passes_of_the_generation_and_later_uses_of_a_batch_are_left_alone(
    callback_module: types.ModuleType,
) -> None:
    model, callback = Model(), callback_module.DoctorCallback()
    args = SimpleNamespace(
        temperature=1.0, steps_per_generation=4, num_iterations=1, gradient_accumulation_steps=1
    )
    state = SimpleNamespace(global_step=3, log_history=[{"loss": 0.0}])
    callback.on_train_begin(args, state, None, model=model)
    callback.on_step_begin(args, state, None)
    with torch.no_grad():
        tokens, labels = sampled(model, 1.0, 4)
    model(input_ids=tokens, labels=labels, fused_lm_head=True)
    callback.on_step_end(args, state, None)
    callback.on_log(args, state, None)
    assert state.log_history == [{"loss": 0.0}]
