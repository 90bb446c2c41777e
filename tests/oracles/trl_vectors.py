"""Writes what TRL computes on random tensors: `.venv-trl/bin/python tests/oracles/trl_vectors.py [FILE]`.

It runs in its own environment (`make trl-env`), never in the project's, and imports nothing of ours.

TRL's trainers cannot be built without a language model, a tokenizer and a data set. What is called
here are nevertheless their own, unchanged methods: `object.__new__` makes a trainer without running
`__init__`, its attributes are the fields of TRL's own config object with TRL's own defaults, and
only the three things around the arithmetic are replaced: generation returns prepared completions,
the reward functions return prepared numbers, and the language model returns prepared logits (scored
by TRL's `selective_log_softmax_and_entropy`). So one flow runs from rewards through
`_generate_and_score_completions` (advantages) to `_compute_loss` and its gradient.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import defaultdict
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer
from trl.trainer.utils import selective_log_softmax_and_entropy

SEED = 20260
GROUPS, GROUP_SIZE, LENGTH, VOCABULARY = 3, 4, 5, 6
TEMPERATURE = 1.3
DTYPES = {"float64": torch.float64, "float32": torch.float32}

# name: (trainer, config, settings that differ from TRL's defaults). Every setting that enters the
# arithmetic is stored beside the result.
CASES: dict[str, tuple[type, type, dict[str, Any]]] = {
    "grpo": (GRPOTrainer, GRPOConfig, {"loss_type": "grpo", "scale_rewards": "group"}),
    "dr_grpo": (GRPOTrainer, GRPOConfig, {"loss_type": "dr_grpo", "scale_rewards": "none"}),
    "dapo": (GRPOTrainer, GRPOConfig,
             {"loss_type": "dapo", "scale_rewards": "group", "epsilon_high": 0.28}),
    "cispo": (GRPOTrainer, GRPOConfig,
              {"loss_type": "cispo", "scale_rewards": "group", "epsilon_high": 2.0}),
    "grpo_batch_scale": (GRPOTrainer, GRPOConfig, {"loss_type": "grpo", "scale_rewards": "batch"}),
    "rloo": (RLOOTrainer, RLOOConfig, {}),
}  # fmt: skip
STORED_SETTINGS = ("loss_type", "scale_rewards", "epsilon", "epsilon_high", "max_completion_length")


class PreparedLogits:
    """Stands where TRL expects a language model: the logits of every completion token are given."""

    is_gradient_checkpointing = False
    training = True

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits

    def __call__(self, input_ids: Tensor, labels: Tensor, **_: Any) -> SimpleNamespace:
        length = self.logits.shape[1]
        logprobs, entropy = selective_log_softmax_and_entropy(
            self.logits, labels[:, -length:].clamp(min=0), temperature=TEMPERATURE
        )
        return SimpleNamespace(log_probs=logprobs, entropy=entropy)


def make_inputs(seed: int) -> dict[str, Tensor]:
    """Float64 tensors: logits of learner and behaviour, ragged completions, rewards in groups."""
    generator = torch.Generator().manual_seed(seed)
    batch = GROUPS * GROUP_SIZE
    shape = (batch, LENGTH, VOCABULARY)
    logits = 1.5 * torch.randn(shape, generator=generator, dtype=torch.float64)
    old_logits = logits + 0.6 * torch.randn(shape, generator=generator, dtype=torch.float64)
    lengths = torch.randint(1, LENGTH + 1, (batch,), generator=generator)
    lengths[0] = LENGTH
    return {
        "logits": logits,
        "old_logits": old_logits,
        "lengths": lengths,
        "tokens": torch.randint(0, VOCABULARY, (batch, LENGTH), generator=generator),
        "rewards": torch.randn(batch, generator=generator, dtype=torch.float64),
        # TRL's word for a completion without any reward is NaN; ours is a member that is not valid.
        "scored": torch.rand(batch, generator=generator, dtype=torch.float64) > 0.35,
    }


def equally_long(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors with nothing cut off."""
    return inputs | {"lengths": torch.full_like(inputs["lengths"], LENGTH)}


def make_trainer(kind: type, config: Any, inputs: dict[str, Tensor], rewards: Tensor) -> Any:
    """A trainer of TRL's with prepared generation and rewards, and the attributes `__init__` sets."""
    trainer = object.__new__(kind)
    trainer.__dict__.update(vars(config))
    completions = [
        row[:length].tolist()
        for row, length in zip(inputs["tokens"], inputs["lengths"].tolist(), strict=True)
    ]
    prompts = [[0] for _ in completions]
    generated: tuple[Any, ...] = (prompts, completions, [""] * len(completions))
    if kind is GRPOTrainer:
        generated = (prompts, completions, None, [""] * len(completions), None, {}, None, None)
    by_mode = {"train": defaultdict(list), "eval": defaultdict(list)}
    trainer.__dict__.update(
        args=config,
        epsilon_low=config.epsilon,
        epsilon_high=config.epsilon if config.epsilon_high is None else config.epsilon_high,
        accelerator=SimpleNamespace(
            device=torch.device("cpu"),
            num_processes=1,
            process_index=0,
            is_main_process=False,
            sync_gradients=True,
            gather=lambda value: value,
            gather_for_metrics=lambda value: value,
            reduce=lambda value, reduction: value,
            autocast=nullcontext,
        ),
        current_gradient_accumulation_steps=1,
        environment_factories=None,
        environments=None,
        tools=[],
        reward_funcs=[None],
        reward_func_names=["prepared"],
        reward_weights=torch.ones(1, dtype=rewards.dtype),
        num_generations_eval=config.num_generations,
        aux_loss_enabled=False,
        use_adaptive_entropy=False,
        _entropy_bonus_enabled=False,
        _tokenizer=SimpleNamespace(pad_token_id=0),
        _metrics=by_mode,
        _logs={name: [] for name in ("prompt", "completion", "advantages", "images")}
        | {"rewards": defaultdict(list), "extra": defaultdict(list)},
        _pending_extra_logs=defaultdict(list),
        _pending_metrics=defaultdict(list),
        _generate=lambda prompts: generated,
        _calculate_rewards=lambda *_: rewards.unsqueeze(1).clone(),
    )
    return trainer


def run_case(name: str, dtype: torch.dtype, inputs: dict[str, Tensor]) -> dict[str, Any]:
    """Advantages, loss and gradient of one case, as TRL computes them in `dtype`."""
    kind, config_kind, settings = CASES[name]
    torch.set_default_dtype(dtype)  # TRL divides counts by counts, which gives the default dtype
    rewards = inputs["rewards"].to(dtype)
    lengths = {} if kind is RLOOTrainer else {"max_completion_length": LENGTH + 2}
    batch = GROUPS * GROUP_SIZE
    with tempfile.TemporaryDirectory() as folder:
        config = config_kind(
            output_dir=folder,
            use_cpu=True,
            bf16=False,
            report_to="none",
            num_generations=GROUP_SIZE,
            per_device_train_batch_size=batch,
            temperature=TEMPERATURE,
            beta=0.0,
            **lengths,
            **settings,
        )
    trainer = make_trainer(kind, config, inputs, rewards)
    rows = [{"prompt": ""} for _ in range(batch)]

    # RLOO is strictly on-policy here: its behaviour is the learner itself.
    behaviour = inputs["logits" if kind is RLOOTrainer else "old_logits"].to(dtype)
    trainer.model = PreparedLogits(behaviour[:, : int(inputs["lengths"].max())])
    scored = trainer._generate_and_score_completions(rows)
    if kind is GRPOTrainer:
        old_logprobs, _, _ = trainer._get_per_token_logps_and_entropies(
            trainer.model,
            torch.cat([scored["prompt_ids"], scored["completion_ids"]], 1),
            torch.cat([scored["prompt_mask"], scored["completion_mask"]], 1),
            scored["completion_ids"].shape[1],
        )
        scored["old_per_token_logps"] = old_logprobs

    logits = inputs["logits"].to(dtype, copy=True).requires_grad_()
    loss = trainer._compute_loss(PreparedLogits(logits), scored)
    loss.backward()
    assert loss.dtype == dtype and logits.grad is not None and logits.grad.dtype == dtype
    partly = rewards.masked_fill(~inputs["scored"], torch.nan)
    partial = make_trainer(kind, config, inputs, partly)
    partial.model = trainer.model
    measured = trainer._metrics["train"]
    return {
        "settings": {key: vars(config)[key] for key in STORED_SETTINGS if key in vars(config)},
        "advantages": scored["advantages"].tolist(),
        "advantages_partly_scored": partial._generate_and_score_completions(rows)[
            "advantages"
        ].tolist(),
        "loss": loss.item(),
        "gradient": logits.grad.tolist(),
        "clip_fraction_low": measured.get("clip_ratio/low_mean", [None])[0],
        "clip_fraction_high": measured.get("clip_ratio/high_mean", [None])[0],
        "entropy_mean": measured["entropy"][0],
    }


def make_vectors() -> dict[str, Any]:
    """Everything that is stored."""
    inputs = make_inputs(SEED)
    equal = equally_long(inputs)
    return {
        "made_by": "tests/oracles/trl_vectors.py",
        "versions": {
            name: version(name) for name in ("trl", "torch", "transformers", "accelerate")
        },
        "seed": SEED,
        "groups": GROUPS,
        "group_size": GROUP_SIZE,
        "temperature": TEMPERATURE,
        "inputs": {name: value.tolist() for name, value in inputs.items()},
        "results": {
            dtype_name: {
                name: run_case(name, dtype, inputs)
                | {"loss_equal_lengths": run_case(name, dtype, equal)["loss"]}
                for name in CASES
            }
            for dtype_name, dtype in DTYPES.items()
        },
    }


def main() -> None:
    """Writes the vectors to the file named on the command line, or to the committed one."""
    default = Path(__file__).with_name("trl_vectors.json")
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    torch.set_num_threads(1)
    path.write_text(json.dumps(make_vectors(), separators=(",", ":")) + "\n")
    print(f"{path}: TRL {version('trl')}, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
