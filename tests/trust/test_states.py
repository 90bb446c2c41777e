"""A checkpoint whose manifest fits and whose state was made up is refused before a kernel sees its boards."""

from __future__ import annotations

import copy
import dataclasses
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from algorithms.config.files import load
from algorithms.pretraining.label_files import LabelledPositions, ShardError, from_bytes
from algorithms.run_folder import checkpoint
from algorithms.training.session import Session
from chess_env.rules.fen import pack_fens
from tests.commands.lab import chess_lab

NOT_OURS = "holds a state that is not of this run"
OTHERS: tuple[Any, ...] = (
    None, "x", True, -1, float("nan"), [], {}, (), {"a": 1}, np.zeros(3), torch.zeros(2, 2),
)  # fmt: skip
HISTORY_LENGTH, PLY = 0, 2  # columns of the boards' counters
Change = Callable[[dict[str, Any]], Any]


@pytest.fixture
def session(honest: Path) -> Iterator[Session]:
    """The honest run's, before it goes on."""
    session = Session(load(honest / "config.json"), fresh=False)
    yield session
    session.close()


@pytest.fixture
def sent(honest: Path) -> checkpoint.Checkpoint:
    """The honest run's newest checkpoint."""
    return checkpoint.load_newest(honest / "checkpoints")


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all entries of nested values, those that hold others too."""
    entries = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list | tuple):
        entries = enumerate(value)
    for key, inner in entries:
        yield (*path, key)
        if not isinstance(value, tuple):
            yield from leaves(inner, (*path, key))


def parent_of(state: dict[str, Any], path: tuple[Any, ...]) -> Any:
    for key in path[:-1]:
        state = state[key]
    return state


def test_another_kind_of_value_in_any_entry_is_refused_or_taken_and_never_an_accident(
    session: Session, sent: checkpoint.Checkpoint
) -> None:
    refused, paths = 0, list(leaves(sent.state))
    assert ("shards", 0, "vec", "positions") in paths and (
        "optimizer",
        "state",
        0,
        "exp_avg",
    ) in paths
    asked = 0
    for number, path in enumerate(paths):
        if isinstance(parent_of(sent.state, path), tuple):
            continue
        for other in OTHERS[number % 4 :: 4]:  # each entry has a few of the kinds
            asked += 1
            state = copy.deepcopy(sent.state)
            parent_of(state, path)[path[-1]] = other
            try:
                session.load(sent.path, sent.weights, state, print)
            except ValueError as error:
                assert len(str(error)) < 700
                refused += 1
    assert refused > 0.7 * asked > 100


def counter(column: int, value: int) -> Change:
    def change(vec: dict[str, Any]) -> None:
        vec["counters"][1, column] = value

    return change


def word(index: int, value: int) -> Change:
    def change(vec: dict[str, Any]) -> None:
        vec["positions"][0, index] = value

    return change


IMPOSSIBLE: dict[str, Change] = {
    # The kernels would write and read behind their arrays.
    "a history of a billion positions": counter(HISTORY_LENGTH, 10**9),
    "a history of less than none": counter(HISTORY_LENGTH, -5),
    "no history": counter(HISTORY_LENGTH, 0),
    "a history longer than the clock": counter(HISTORY_LENGTH, 120),
    "plies below zero": counter(PLY, -1),
    "plies that overflow": counter(PLY, 2**40),
    "no king": word(5, 0),
    "kings everywhere": word(5, 2**64 - 1),
    "pawns on the last rank": word(0, 2**64 - 1),
    "queens everywhere": word(4, 2**64 - 1),
    "another number of boards": lambda vec: vec.update(positions=vec["positions"][:1]),
    "no history at all": lambda vec: vec.pop("history"),
    "generators that are none": lambda vec: vec.update(rngs="[1, 2]"),
    "generators without end": lambda vec: vec.update(rngs="[" * 100_000),
    "a generator's state that is no number": lambda vec: vec.update(
        rngs=vec["rngs"].replace('"inc": ', '"inc": -1')
    ),
    "scores of another kind": lambda vec: vec.update(score_cp=vec["score_cp"].astype(float)),
    "ended of another size": lambda vec: vec.update(ended=np.zeros(7, np.bool_)),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_boards_that_no_game_leads_to_are_refused(
    name: str, session: Session, sent: checkpoint.Checkpoint
) -> None:
    state = copy.deepcopy(sent.state)
    IMPOSSIBLE[name](state["shards"][0]["vec"])
    with pytest.raises(ValueError, match=NOT_OURS):
        session.load(sent.path, sent.weights, state, print)


def test_what_follows_from_the_positions_is_computed_and_not_taken(
    session: Session, sent: checkpoint.Checkpoint
) -> None:
    state = copy.deepcopy(sent.state)
    state["shards"][0]["vec"]["legal_ids"][:] = 1857
    state["shards"][0]["vec"]["counters"][:, [1, 3, 4]] = (
        10**6
    )  # repetitions, status, number of legal moves
    session.load(sent.path, sent.weights, state, print)
    taken = session.worker.parts[0].vec.get_state()
    for name, value in sent.state["shards"][0]["vec"].items():
        assert np.array_equal(taken[name], value), name


@pytest.mark.parametrize(
    "change",
    [
        lambda state: counter(HISTORY_LENGTH, 10**9)(state["shards"][0]["vec"]),
        lambda state: state.pop("seen"),
        lambda state: state["progress"].update(update="many"),
        lambda state: state.update(temperature=0.0),
    ],
)
def test_resume_refuses_a_strangers_state_in_one_message(
    change: Change, honest: Path, sent: checkpoint.Checkpoint, tmp_path: Path
) -> None:
    folder = tmp_path / "sent"
    shutil.copytree(honest, folder, symlinks=True)
    before = (folder / "metrics.jsonl").read_bytes()
    state = copy.deepcopy(sent.state)
    change(state)
    shutil.rmtree(folder / "checkpoints")
    checkpoint.save(folder / "checkpoints", 2, weights=sent.weights, state=state, best=True)
    answer = chess_lab("train", "--resume", folder, "--total-moves", "64")
    assert answer.code == 1 and "Traceback" not in answer.err
    assert NOT_OURS in " ".join(answer.err.split())
    assert (folder / "metrics.jsonl").read_bytes() == before


def test_labels_of_impossible_positions_are_refused() -> None:
    positions = pack_fens(["4k3/8/8/8/8/8/8/4K2R w - - 0 1"] * 2)
    good = LabelledPositions(
        positions, np.zeros(3, np.int32), np.zeros(0, np.int16), np.zeros(2, np.int16)
    )
    assert len(from_bytes(good.to_bytes(), "it")) == 2
    no_king = positions.copy()
    no_king[1, 5] = 0
    for changes in (
        {"positions": no_king},
        {"offsets": np.array([5, 0, 0], np.int32)},
        {"offsets": np.zeros(3)},
    ):
        with pytest.raises(ShardError, match="it is inconsistent"):
            from_bytes(dataclasses.replace(good, **changes).to_bytes(), "it")
