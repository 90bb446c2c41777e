"""Labelled positions are what the evaluator says of positions that look like games."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from algorithms.pretraining import labels
from algorithms.pretraining.config import LabelConfig
from algorithms.pretraining.label_files import LabelledPositions, ShardFolder
from algorithms.pretraining.labels import EvaluatorLabels, label_shard, walks_identity
from algorithms.run_folder.stopping import Stop
from chess_env.evaluators import make_evaluator
from chess_env.positions.start_positions import PositionList, make_start_positions
from chess_env.rules import rules
from chess_env.rules.fen import parse_fen, to_fen
from chess_env.rules.rules import hash_batch, legal_actions_batch, status_batch
from tests.env.material import MaterialEvaluator
from tests.pretraining.runs import Quiet, tiny_labels


def never() -> bool:
    return False


def ignore(done: int) -> None:
    pass


def labelled(config: LabelConfig, index: int = 0, source: Any = None) -> LabelledPositions:
    source = source or make_start_positions(config.start_positions)
    found = label_shard(config, source, MaterialEvaluator(), index, report=ignore, stopped=never)
    assert found is not None
    return found


class StopsLater(Stop):
    """A stop that is asked for when it is looked at for the third time."""

    looks = 0

    @property
    def name(self) -> str | None:  # type: ignore[override]
        self.looks += 1
        return "SIGTERM" if self.looks > 2 else None


def make(
    folder: Path, config: LabelConfig, stop: Stop | None = None
) -> tuple[dict[str, int], list[bytes]]:
    """(counts, bytes of the shards) of one process."""
    source, evaluator = make_start_positions(config.start_positions), MaterialEvaluator()
    shards = ShardFolder(folder, walks_identity(config, source, evaluator))
    found = EvaluatorLabels(config, evaluator, source, shards)
    counts = found.make(Quiet(), stop or Stop())
    return counts, [path.read_bytes() for path in sorted(folder.glob("shard-*.npz"))]


def test_every_legal_move_has_the_evaluators_score() -> None:
    shard = labelled(tiny_labels())
    assert len(shard) == 64
    scores = MaterialEvaluator().score_moves(shard.positions)
    assert (np.concatenate(scores) == shard.child_score_cp).all()
    _, num_legal = legal_actions_batch(shard.positions)
    assert (np.diff(shard.offsets) == num_legal).all()
    assert (num_legal >= 2).all() and (status_batch(shard.positions) == 0).all()


def test_walks_go_on_from_their_starts_by_best_moves_and_random_ones() -> None:
    start = parse_fen("6k1/8/8/3q4/4P3/8/8/6K1 w - - 0 1")
    config = tiny_labels(walk_plies=1, random_move_fraction=0.0, shard_size=64)
    best = labelled(config, source=PositionList("one", start[None]))
    at_start = (best.positions == start).all(axis=1)
    assert at_start.sum() == 32
    after = {to_fen(position).split()[0] for position in best.positions[~at_start]}
    assert after == {"6k1/8/8/3P4/8/8/8/6K1"}
    mixed = labelled(
        tiny_labels(walk_plies=1, random_move_fraction=1.0, shard_size=64),
        source=PositionList("one", start[None]),
    )
    assert len(np.unique(hash_batch(mixed.positions))) > 3


def test_without_a_walk_only_starts_are_labelled() -> None:
    start = parse_fen("6k1/8/8/3q4/4P3/8/8/6K1 w - - 0 1")
    shard = labelled(tiny_labels(walk_plies=0), source=PositionList("one", start[None]))
    assert (shard.positions == start).all()


def test_a_walk_never_labels_a_held_out_position(monkeypatch: pytest.MonkeyPatch) -> None:
    start = parse_fen("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1")
    children, _ = rules.children(start)
    held_out = frozenset(hash_batch(children[:10]).tolist())
    monkeypatch.setattr(labels, "heldout_hashes", lambda: held_out)
    config = tiny_labels(walk_plies=1, random_move_fraction=1.0, shard_size=256)
    shard = labelled(config, source=PositionList("one", start[None]))
    found = set(hash_batch(shard.positions).tolist())
    assert found.isdisjoint(held_out)
    assert len(found) == 1 + 10


def test_a_shard_depends_on_its_number_and_seed_and_on_nothing_else() -> None:
    first = labelled(tiny_labels())
    assert labelled(tiny_labels()).to_bytes() == first.to_bytes()
    assert labelled(tiny_labels(num_positions=10_000)).to_bytes() == first.to_bytes()
    assert labelled(tiny_labels(), index=1).to_bytes() != first.to_bytes()
    assert labelled(tiny_labels(label_seed=1)).to_bytes() != first.to_bytes()


def test_labelling_that_was_stopped_is_continued_to_the_same_shards(tmp_path: Path) -> None:
    config = tiny_labels()
    whole_counts, whole = make(tmp_path / "whole", config)
    assert whole_counts == {"made": 3, "remade": 0, "kept": 0} and len(whole) == 3
    counts, part = make(tmp_path / "part", config, StopsLater())
    assert counts["made"] == len(part) < 3
    counts, continued = make(tmp_path / "part", config)
    assert continued == whole and counts["kept"] == len(part)


def test_a_damaged_shard_is_made_anew_and_counted(tmp_path: Path) -> None:
    _, whole = make(tmp_path, tiny_labels())
    (tmp_path / "shard-00001.npz").write_bytes(b"nonsense")
    counts, mended = make(tmp_path, tiny_labels())
    assert counts == {"made": 0, "remade": 1, "kept": 2} and mended == whole


def test_more_positions_are_added_to_those_that_are_there(tmp_path: Path) -> None:
    _, few = make(tmp_path, tiny_labels(num_positions=100))
    counts, more = make(tmp_path, tiny_labels(num_positions=200))
    assert (counts["kept"], counts["made"]) == (2, 2) and more[:2] == few


def test_a_source_whose_content_changed_is_another_source(tmp_path: Path) -> None:
    fens = tmp_path / "some.fens"
    config = tiny_labels(start_positions=f"fens:{fens}", num_positions=64)
    fens.write_text("6k1/8/8/3q4/4P3/8/8/6K1 w - - 0 1\n")
    make(tmp_path / "labels", config)
    fens.write_text("6k1/8/8/3q4/4P3/8/8/7K w - - 0 1\n")
    with pytest.raises(RuntimeError, match="start_positions_sha256"):
        make(tmp_path / "labels", config)


@pytest.mark.stockfish
def test_stockfish_labels_what_it_scores(tmp_path: Path) -> None:
    with make_evaluator("stockfish:depth=1", num_engines=1) as evaluator:
        config = tiny_labels(num_positions=16, shard_size=16)
        source = make_start_positions(config.start_positions)
        found = label_shard(config, source, evaluator, 0, report=ignore, stopped=never)
        assert found is not None
        assert (
            np.concatenate(evaluator.score_moves(found.positions)) == found.child_score_cp
        ).all()
        assert "stockfish" in walks_identity(config, source, evaluator)["evaluator"]
