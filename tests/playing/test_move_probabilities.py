"""The probabilities of all moves of a position, in one call."""

from __future__ import annotations

from pathlib import Path

import chess
import pytest

from algorithms.evaluation.load_policy import load_policy
from algorithms.playing.policy_moves import move_probabilities
from tests.training.runs import Watcher, tiny, train


def test_every_legal_move_has_its_probability() -> None:
    fen = "r3k2r/8/8/8/8/8/P7/R3K2R w KQkq - 0 1"
    found = move_probabilities("warm", fen)
    assert set(found) == {move.uci() for move in chess.Board(fen).legal_moves}
    assert sum(found.values()) == pytest.approx(1, abs=1e-5)
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert max(move_probabilities("warm", fen, temperature=0.1).values()) > max(found.values())


def test_a_network_and_its_name_give_the_same_and_it_is_left_as_it_is() -> None:
    network = load_policy("example").train()
    assert move_probabilities(network, None, ["e2e4"]) == move_probabilities(
        "example", "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1"
    )
    assert network.training


def test_a_run_folder_answers_and_the_end_of_a_game_has_no_move(tmp_path: Path) -> None:
    train(tiny(tmp_path / "run", updates=1), display=Watcher())
    assert len(move_probabilities(str(tmp_path / "run"))) == 20
    assert move_probabilities("warm", "7k/5KQ1/8/8/8/8/8/8 b - - 0 1") == {}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("exmaple",), "did you mean 'example'"),
        (("warm", "no fen"), "illegal FEN 'no fen'"),
        (("warm", None, ["e2e5"]), "'e2e5', is not legal"),
    ],
)
def test_what_cannot_be_answered_is_refused(arguments: tuple, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        move_probabilities(*arguments)


def test_a_temperature_of_0_is_refused() -> None:
    with pytest.raises(ValueError, match="temperature is 0"):
        move_probabilities("warm", temperature=0)
