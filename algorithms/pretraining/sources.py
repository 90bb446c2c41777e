"""Which labels a run learns from: opened, and made where they are missing."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from algorithms.pretraining import labels, pgn_labels
from algorithms.pretraining.config import LabelConfig
from algorithms.pretraining.console import PretrainDisplay
from algorithms.pretraining.pgn_games import GameCounts
from algorithms.pretraining.shards import ShardFolder
from algorithms.training.run_log import lock_folder
from algorithms.training.stopping import Stop
from chess_env.evaluators import make_evaluator
from chess_env.start_positions import make_start_positions


class Labels(Protocol):
    """Where labelled positions come from.

    Attributes:
        folder: the shards.
    """

    folder: ShardFolder

    @property
    def name(self) -> str:
        """What labelled the moves."""
        ...

    def make(self, display: PretrainDisplay, stop: Stop) -> dict[str, int]:
        """Counts of shards `made`, `remade` and `kept`; ends early where a stop is asked for."""
        ...

    def sizes(self) -> list[int]:
        """Positions in each shard that is learned from."""
        ...

    def games(self) -> GameCounts:
        """What was found in a file of games; all 0 without one."""
        ...


@dataclasses.dataclass
class EvaluatorLabels:
    """Positions from walks, their legal moves scored by an evaluator; `Labels`."""

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
        ValueError: an unknown evaluator or source, or a file of games that cannot be read.
        ShardError: the folder holds other labels.
    """
    folder = config.labels_dir or run_dir / "labels"
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


def prepare(found: Labels, display: PretrainDisplay, stop: Stop) -> dict[str, Any]:
    """The fields of `PretrainResult` that are about labels, after making what is missing.

    Raises:
        RunFolderError: another process is making the same labels.
    """
    began = time.monotonic()
    before = sum(found.sizes())
    found.folder.folder.mkdir(parents=True, exist_ok=True)
    with lock_folder(found.folder.folder):
        counts = found.make(display, stop)
    spent, positions = time.monotonic() - began, sum(found.sizes())
    if counts["remade"]:
        display.say(f"WARNING: {counts['remade']} damaged shards of labels were made anew")
    if counts["made"]:
        rate = (positions - before) / spent
        display.say(f"labelled {positions - before:,} positions in {spent:.1f} s ({rate:,.0f}/s)")
    return {
        "labels": found.name,
        "labelled_positions": positions,
        "games": dataclasses.asdict(found.games()),
        **{f"shards_{name}": count for name, count in counts.items()},
        "label_s": spent,
    }
