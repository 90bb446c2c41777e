"""Steps that are not finite: they are counted, and the first is kept in a file."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

from safetensors.torch import save
from torch import Tensor

from algorithms.core.batch import FlatBatch


class NonFiniteError(RuntimeError):
    """Several steps in a row had a loss or gradient that is not finite."""


@dataclasses.dataclass
class NonFiniteGuard:
    """Counts skipped steps across updates and stops a run that no longer learns.

    Attributes:
        max_in_row: this many non-finite steps in a row raise.
        in_row: non-finite steps since the last good one.
        total: non-finite steps of the whole run.
    """

    max_in_row: int = 3
    in_row: int = 0
    total: int = 0

    def record(self, finite: bool, description: str) -> None:
        """Counts one step.

        Raises:
            NonFiniteError: it was the `max_in_row`-th non-finite step in a row.
        """
        self.in_row = 0 if finite else self.in_row + 1
        self.total += not finite
        if self.in_row >= self.max_in_row:
            raise NonFiniteError(
                f"{self.in_row} updates in a row were not finite ({description}); the weights are "
                "still the last finite ones. Lower the learning rate or max_grad_norm, raise the "
                "temperature if it is far below 1, and check the rewards for NaN"
            )

    def state_dict(self) -> dict[str, int]:
        """The counters, for a checkpoint."""
        return dataclasses.asdict(self)

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continues from `state_dict()`."""
        self.max_in_row, self.in_row, self.total = (
            state["max_in_row"],
            state["in_row"],
            state["total"],
        )


@dataclasses.dataclass(frozen=True)
class NonFiniteDump:
    """Writes the first minibatch of a run whose loss or gradient is not finite.

    Later ones are only counted: one is enough to find the cause, and a run that fails for hours must
    not fill the disk.

    Attributes:
        folder: `<run folder>/bad_batches`.
        say: shows a message to the user.
    """

    folder: Path
    say: Callable[[str], None]

    def keep(self, update: int, batch: FlatBatch, tensors: dict[str, Tensor], reason: str) -> None:
        """Writes `update-N.safetensors` and `update-N.json`, unless the run has one already.

        Args:
            update: updates done before this one.
            batch: the minibatch, as the losses saw it.
            tensors: what came with it (advantages, weights).
            reason: the numbers that were not finite.
        """
        if self.folder.exists():
            return
        path = self.folder / f"update-{update}.safetensors"
        values = {name: value for name, value in vars(batch).items() if isinstance(value, Tensor)}
        content = {
            name: value.detach().cpu().contiguous().clone()
            for name, value in (values | tensors).items()
        }
        note = {
            "update": update,
            "reason": reason,
            "temperature": batch.temperature,
            "states": batch.num_states,
            "read with": "safetensors.torch.load_file; fields as in core/batch.py, FlatBatch",
        }
        try:
            self.folder.mkdir(parents=True)
            path.write_bytes(save(content))  # `save_file` hides the system's error
            path.with_suffix(".json").write_text(json.dumps(note, indent=2) + "\n", "utf-8")
        except OSError as error:
            self.say(f"WARNING: {path} could not be written ({error.strerror}); {reason}")
            return
        self.say(
            f"WARNING: a step was left out, it is not finite ({reason}); its minibatch is in {path}"
        )
