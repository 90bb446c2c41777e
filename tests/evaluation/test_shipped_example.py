"""What the shipped policy `example` is said to be worth, measured anew."""

from __future__ import annotations

import pytest
import torch

from algorithms.evaluation.load_policy import load_policy
from algorithms.evaluation.policy_player import GREEDY, PolicyPlayer
from algorithms.evaluation.regret import MAIN_SLICE, prepare_slice, regret_cp
from chess_env.games.players import make_player
from chess_env.matches.arena import MATCH_PLIES, play_match
from chess_env.positions.heldout import load_heldout
from chess_env.positions.start_positions import make_start_positions
from tests.small import CPU


def test_its_most_probable_move_loses_at_most_fifty_centipawns() -> None:
    part = prepare_slice(load_heldout(), MAIN_SLICE)
    found = regret_cp(load_policy("example"), part, temperature=1.0, device=CPU)
    assert found.regret_cp_greedy <= 50


@pytest.mark.slow
@pytest.mark.parametrize(("opponent", "least"), [("random", 0.99), ("material", 0.97)])
def test_it_wins_its_games_and_hardly_ever_repeats(opponent: str, least: float) -> None:
    torch.set_num_threads(1)
    player = PolicyPlayer(load_policy("example"), temperature=GREEDY, label="example")
    match = play_match(
        player, make_player(opponent), openings=make_start_positions("openings"),
        pairs=50, seed=0, max_plies=MATCH_PLIES,
    )  # fmt: skip
    counts = match.counts()
    assert (counts["wins"] + counts["draws"] / 2) / counts["games"] >= least
    if opponent == "random":
        draws = counts["draw_causes"]
        assert "stalemate" not in draws and draws.get("threefold_repetition", 0) <= 2
