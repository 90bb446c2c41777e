"""A trial: one fault under one remedy on several seeds, and what each run came to on held-out positions."""

from __future__ import annotations

import dataclasses
import signal
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch

from algorithms.collapse import CAUSES
from algorithms.collapse.cause import baseline
from algorithms.collapse.experiment import session_with, smaller
from algorithms.collapse.faults import Fault
from algorithms.collapse.remedies import remedy_of
from algorithms.config.run import TrainConfig
from algorithms.core.checks import require_choice
from algorithms.networks.settings import NetworkConfig
from algorithms.reports.run_files import read_metrics
from algorithms.run_folder.console import Display
from algorithms.training.trainer import train
from algorithms.updates.learner import NonFiniteError

Start = Literal["warm", "cold"]
STARTS: tuple[Start, ...] = ("warm", "cold")
"""Where the runs begin: the network's warm policy, or random weights at the network's own step size."""

UNTREATED, TWIN = "untreated", "twin"
"""In place of a remedy's name: the run with the fault, and the run without it."""

SOUND = "sound"
"""In place of a fault's name: the run that every cause differs from."""

NEVER = 10**9


@dataclasses.dataclass(frozen=True)
class Trial:
    """What is run.

    Attributes:
        fault: a name of `CAUSES`, or `SOUND`.
        remedy: as of `remedy_of`, or `UNTREATED` or `TWIN`.
        network: a name of `ARCHITECTURES`.
        start: where it begins.
        smoke: a few seconds, to see that the parts work.
    """

    fault: str
    remedy: str
    network: str
    start: Start
    smoke: bool = False

    def config(self, seed: int) -> TrainConfig:
        """The settings of its run on a seed: evaluated at start and end alone.

        Raises:
            ValueError: an unknown name, or the remedy changes nothing here or cannot go with the fault.
        """
        require_choice("fault", self.fault, (*CAUSES, SOUND))
        require_choice("start", self.start, STARTS)
        if self.fault == SOUND:
            config = baseline(self.network)
        else:
            cause = CAUSES[self.fault].on_network(self.network)
            config = cause.config(cured=self.remedy == TWIN, seed=seed)
        if self.start == "cold":
            config = from_random_weights(config, self.network)
        if self.smoke:
            config = smaller(config)
        config = dataclasses.replace(
            config,
            seed=seed,
            cause=None,
            device="cpu",
            preflight=False,
            signal_chain="off",
            eval_interval_updates=NEVER,
            diagnostics_interval_updates=NEVER,
            checkpoint_interval_updates=NEVER,
            env=dataclasses.replace(config.env, num_engines=1, num_threads=1),
        )
        if self.remedy in (UNTREATED, TWIN):
            return config
        return remedy_of(self.remedy).treated(config)

    @property
    def broken(self) -> Fault | None:
        """The fault of its runs that no setting can make."""
        is_sound = self.fault == SOUND or self.remedy == TWIN
        return None if is_sound else CAUSES[self.fault].on_network(self.network).fault


def from_random_weights(config: TrainConfig, network: str) -> TrainConfig:
    """A cause's run from random weights, at a step size that is as much larger as the network's own is."""
    optimizer, warm_rate = config.optimizer, baseline(network).optimizer.learning_rate
    own_rate = NetworkConfig(network=network).learning_rate
    assert optimizer.learning_rate is not None and warm_rate is not None
    faster = optimizer.learning_rate * own_rate / warm_rate
    optimizer = dataclasses.replace(optimizer, learning_rate=faster)
    return dataclasses.replace(config, init_from=None, optimizer=optimizer)


def run_trial(
    trial: Trial, seeds: Iterable[int], scratch: Path
) -> tuple[list[dict[str, Any]], str | None]:
    """(rows, the signal that ended the trial early or None); the runs' folders, below `scratch`, are removed.

    A row has `seed`, and of the held-out positions `start_cp` and `end_cp` (regret), `entropy` at the end (nats) and
    `pass_at_8`; of a run that broke `seed` and `error`.

    Raises:
        ValueError: as of `Trial.config`.
    """
    torch.set_num_threads(1)
    scratch.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for seed in seeds:
        config = trial.config(seed)
        with tempfile.TemporaryDirectory(dir=scratch) as kept:
            run_dir = Path(kept) / "run"

            try:
                result = train(
                    dataclasses.replace(config, run_dir=run_dir),
                    make_session=session_with(trial.broken),
                    display=Display(),
                )
            except NonFiniteError as error:
                rows.append({"seed": seed, "error": str(error)})
                continue
            if result.stopped_by in signal.Signals.__members__:
                return rows, result.stopped_by
            rows.append({"seed": seed, **_held_out(read_metrics(run_dir))})
    return rows, None


def _held_out(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The held-out figures of a record."""
    first, *_, last = [row for row in rows if "eval/regret_cp" in row]
    return {
        "start_cp": round(first["eval/regret_cp"], 2),
        "end_cp": round(last["eval/regret_cp"], 2),
        "entropy": round(last["eval/entropy"], 4),
        "pass_at_8": round(last["eval/pass_at_8"], 4),
    }
