"""The labels that a run learns from: opened, and made where they are missing."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

from algorithms.pretraining import labels, pgn_labels
from algorithms.pretraining.config import LabelConfig
from algorithms.pretraining.console import PretrainDisplay
from algorithms.pretraining.pgn_games import GameCounts
from algorithms.pretraining.shards import ShardFolder
from algorithms.run_folder.files import RunFolderError, lock_folder
from algorithms.run_folder.stopping import Stop
from chess_env.evaluators import make_evaluator
from chess_env.positions.start_positions import make_start_positions

LOCK_POLL_S = 0.5


class Labels(Protocol):
    """A source of labelled positions.

    Attributes:
        folder: the shards.
    """

    folder: ShardFolder

    @property
    def name(self) -> str:
        """Name of the evaluator or file that gave the labels."""
        ...

    def make(self, display: PretrainDisplay, stop: Stop) -> dict[str, int]:
        """Counts of shards `made`, `remade` and `kept`; ends early where a stop is asked for."""
        ...

    def sizes(self) -> list[int]:
        """Positions in each shard that is learned from."""
        ...

    def games(self) -> GameCounts:
        """Counts of a file of games; all 0 without one."""
        ...


@dataclasses.dataclass
class EvaluatorLabels:
    """Positions from walks, their legal moves scored by an evaluator; `Labels`.

    Attributes:
        config: the settings.
        evaluator: scores the moves; the caller closes it.
        source: of the start positions of the walks.
        folder: where the shards are.
    """

    config: LabelConfig
    evaluator: Any
    source: Any
    folder: ShardFolder

    @property
    def name(self) -> str:
        """The evaluator's id."""
        return str(self.evaluator.id)

    def make(self, display: PretrainDisplay, stop: Stop) -> dict[str, int]:
        """See `Labels.make`."""
        total = self.config.num_shards * self.config.shard_size
        with display.labelling("labelling positions", total) as bar:
            return labels.make_shards(
                self.folder,
                self.config,
                self.source,
                self.evaluator,
                report=bar.to,
                stopped=lambda: stop.name is not None,
            )

    def sizes(self) -> list[int]:
        """See `Labels.sizes`."""
        return self.folder.sizes()[: self.config.num_shards]

    def games(self) -> GameCounts:
        """See `Labels.games`."""
        return GameCounts()


@contextmanager
def opened(config: LabelConfig, run_dir: Path) -> Iterator[Labels]:
    """The labels that `config` asks for; engines end with the block.

    Raises:
        ValueError: an unknown evaluator or source, a file of games that cannot be read, or a
            `labels_dir` that cannot be a folder.
        ShardError: the folder holds other labels.
    """
    folder = config.labels_dir or run_dir / "labels"
    _check_folder(folder, config.labels_dir)
    if config.pgn is not None:
        identity = pgn_labels.identity_of(config, config.pgn)
        yield pgn_labels.PgnLabels(config, config.pgn, ShardFolder(folder, identity))
        return
    evaluator = make_evaluator(config.evaluator, config.num_engines)
    try:
        source = make_start_positions(config.start_positions, evaluator=evaluator)
        identity = labels.identity_of(config, source, evaluator)
        yield EvaluatorLabels(config, evaluator, source, ShardFolder(folder, identity))
    finally:
        evaluator.close()


def _check_folder(folder: Path, labels_dir: Path | None) -> None:
    """Raises ValueError where a file stands in the way, before anything is made."""
    parents = () if labels_dir is None else folder.parents  # the run folder has a check of its own
    there = next((path for path in (folder, *parents) if path.exists()), folder)
    if there.exists() and not there.is_dir():
        raise ValueError(
            f"labels cannot be kept in {str(folder)!r}: {str(there)!r} is a file, a folder is "
            "needed; choose another --labels-dir"
        )


def prepare(found: Labels, display: PretrainDisplay, stop: Stop) -> dict[str, Any]:
    """The fields of `PretrainResult` that are about labels, after making what is missing.

    Where another process is making the same labels, it waits for that process.
    """
    began, counts = time.monotonic(), {"made": 0, "remade": 0, "kept": 0}
    folder = found.folder
    folder.folder.mkdir(parents=True, exist_ok=True)
    lock = _wait_for_lock(folder.folder, display, stop)
    if lock is not None:
        with lock:
            folder.reload()
            before = sum(found.sizes())
            counts = found.make(display, stop)
            spent, made = time.monotonic() - began, sum(found.sizes()) - before
        if counts["made"]:
            display.say(f"labelled {made:,} positions in {spent:.1f} s ({made / spent:,.0f}/s)")
    if counts["remade"]:
        display.say(f"WARNING: {counts['remade']} damaged shards of labels were made anew")
    return {
        "labels": found.name,
        "labelled_positions": sum(found.sizes()),
        "games": dataclasses.asdict(found.games()),
        **{f"shards_{name}": count for name, count in counts.items()},
        "label_s": time.monotonic() - began,
    }


def _wait_for_lock(folder: Path, display: PretrainDisplay, stop: Stop) -> IO[str] | None:
    """The folder's lock; None where a stop was asked for while another process held it."""
    said = False
    while stop.name is None:
        try:
            return lock_folder(folder)
        except RunFolderError as error:
            if not said:
                display.say(f"waiting for the labels: {error}")
            said = True
            time.sleep(LOCK_POLL_S)
    return None
