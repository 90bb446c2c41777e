"""A callback for TRL's GRPOTrainer and RLOOTrainer that logs what their log lacks. One file, to be copied.

It imports torch and transformers alone. A hook on the model reads the logits of passes that the trainer makes anyway;
nothing is drawn, no weight changes. Checked with TRL 1.16.0 and transformers 5.24.0.

    trainer = GRPOTrainer(..., callbacks=[DoctorCallback()])

`state.log_history`, and so trainer_state.json, gets

- `doctor/surprise_gap`: mean of -log p less the exact entropy of fresh samples, nats a token: 0 where the samples come
  from the policy that learns, above where they are drawn hotter, below where they are drawn colder or filtered;
- `doctor/inverse_temperature`: b where softmax(b * logits) explains the samples best: 1 if the temperatures agree;
- `doctor/first_ratio_std`: standard deviation of the log-ratio before the first step on a batch, nats, where the
  trainer computes old log-probabilities (more than one step a batch): 0 where both passes compute the same policy;
- `doctor/dropout`: the largest dropout that is on while the learner computes.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from transformers import (  # type: ignore[import-not-found,unused-ignore]
    TrainerCallback,
    TrainerControl,
    TrainerState,
)

TOKENS = 512
"""Sampled tokens that are looked at in a pass: with a large vocabulary all of them would take time and memory."""

SURE, HARMFUL_NATS, FIRST_UPDATES = 5.0, 0.05, 10
"""Standard errors and nats from which a gap is said and, on request, stops the run; pooled over so many passes."""


class DoctorCallback(TrainerCallback):  # type: ignore[misc,unused-ignore]
    """Measures samples before the first step on them.

    Args:
        stop: end the run where the samples surely do not come from the policy that learns.
    """

    def __init__(self, stop: bool = False) -> None:
        self._stop = stop
        self._fresh = self._recomputes = False
        self._said = False
        self._temperature = 1.0
        self._old: dict[bytes, Tensor] = {}
        self._measured: dict[str, list[float]] = {}
        self._gaps: list[Tensor] = []
        self._updates = 0
        self._hidden: Tensor | None = None
        self._hooks: list[Any] = []

    def on_train_begin(
        self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Begins to listen."""
        self._temperature = args.temperature
        model = kwargs["model"]
        self._hooks = [
            model.register_forward_hook(self._look, with_kwargs=True),
            model.base_model.register_forward_hook(self._keep),
        ]

    def on_train_end(
        self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Ends it."""
        for hook in self._hooks:
            hook.remove()

    def on_step_begin(
        self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """A batch is fresh until the first step on it."""
        serves = args.steps_per_generation * args.num_iterations
        self._fresh = state.global_step * args.gradient_accumulation_steps % serves == 0
        # Where one step uses the batch up, the trainer takes the learner's own log-probabilities for the old ones.
        self._recomputes = args.gradient_accumulation_steps % serves != 0
        if self._fresh:
            self._old.clear()

    def on_step_end(
        self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> TrainerControl:
        """Says at the first update what was found, and stops where that was asked for."""
        if not self._fresh or not self._gaps:
            return control
        self._fresh, self._updates = False, self._updates + 1
        gaps = torch.cat(self._gaps)
        error = float(gaps.std() / math.sqrt(len(gaps))) or 1e-9
        gap = float(gaps.mean())
        is_off = abs(gap) > max(SURE * error, HARMFUL_NATS)
        if self._updates == 1 or (is_off and not self._said):
            what = "do NOT come from" if is_off else "come, as far as can be told, from"
            print(
                f"doctor: the samples {what} the policy that learns: they are {gap:+.3f} nats a token more surprising "
                f"than its own (standard error {error:.3f}, {len(gaps)} tokens)"
            )
            self._said = is_off
        if is_off and self._stop:
            control.should_training_stop = True
        if self._updates >= FIRST_UPDATES:
            self._gaps = self._gaps[-FIRST_UPDATES:]
        return control

    def on_log(
        self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Adds the means since the last row to the row of training."""
        if state.log_history and "loss" in state.log_history[-1]:
            means = {name: sum(each) / len(each) for name, each in self._measured.items()}
            state.log_history[-1].update(means)
            self._measured.clear()

    @torch.no_grad()
    def _look(self, model: Any, inputs: Any, kwargs: dict[str, Any], output: Any) -> None:
        labels, tokens = kwargs.get("labels"), kwargs.get("input_ids")
        if not self._fresh or labels is None or tokens is None or not kwargs.get("fused_lm_head"):
            return  # a pass of the generation
        valid = labels[:, 1:] != -100
        if not output.log_probs.requires_grad:
            # The first one is that of the old log-probabilities; with adapters one of the reference follows. The
            # learner's rows come in another order.
            if self._recomputes:
                for row, values in zip(
                    tokens.cpu().numpy(), output.log_probs.float().cpu(), strict=True
                ):
                    self._old.setdefault(row.tobytes(), values)
            return
        logprobs = output.log_probs.detach().float()
        old = [self._old.get(row.tobytes()) for row in tokens.cpu().numpy()]
        if old and all(row is not None for row in old):
            ratios = (logprobs.cpu() - torch.stack(old))[valid.cpu()]  # type: ignore[arg-type]
            self._note("doctor/first_ratio_std", float(ratios.std()))
        on = [m.p for m in model.modules() if isinstance(m, torch.nn.Dropout) and m.training]
        self._note("doctor/dropout", max(on, default=0.0))
        if output.entropy is None:
            return
        gaps = (-logprobs - output.entropy.float())[valid]
        self._gaps.append(gaps.cpu())
        self._note("doctor/surprise_gap", float(gaps.mean()))
        places = valid.flatten().nonzero().squeeze(-1)
        places = places[:: math.ceil(len(places) / TOKENS) or 1]
        hidden, self._hidden = self._hidden, None
        if hidden is not None:
            head = model.get_output_embeddings()
            some = head(hidden[:, :-1].flatten(0, 1)[places]).float() / self._temperature
            chosen = tokens[:, 1:].flatten()[places]
            self._note("doctor/inverse_temperature", _inverse_temperature(some, chosen))

    def _keep(self, model: Any, inputs: Any, output: Any) -> None:
        """States before the head, of a pass that has a gradient."""
        states = getattr(output, "last_hidden_state", None)
        if self._fresh and states is not None and states.requires_grad:
            self._hidden = states.detach()

    def _note(self, name: str, value: float) -> None:
        self._measured.setdefault(name, []).append(value)


def _inverse_temperature(logits: Tensor, chosen: Tensor) -> float:
    """b of the largest likelihood of the tokens under softmax(b * logits), by Newton's method."""
    factor, logprobs = 1.0, logits.log_softmax(-1)
    seen = logprobs.gather(-1, chosen[:, None]).squeeze(-1).mean()
    for _ in range(8):
        weights = (factor * logprobs).softmax(-1)
        mean = (weights * logprobs).sum(-1)
        spread = (weights * logprobs.square()).sum(-1) - mean.square()
        step = float((seen - mean.mean()) / spread.mean().clamp_min(1e-9))
        factor = min(max(factor + min(max(step, -0.5), 0.5), 0.05), 20.0)
    return factor
