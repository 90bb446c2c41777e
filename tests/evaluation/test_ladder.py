"""The ladder: where it goes, where it stays, and what an error leaves."""

from __future__ import annotations

import numpy as np
import pytest

from algorithms.evaluation.strength import FULL_RUNGS, LADDER, PROBE_PAIRS, START, climb, rungs_here
from chess_env.evaluators import EngineError
from chess_env.games.players import make_player
from chess_env.matches.match_result import Game, MatchResult


def fake_match(opponent: str, score: float, pairs: int, first_pair: int) -> MatchResult:
    """Pairs of which each gives the points nearest to the score, with the rest carried on."""
    games, owed = [], 0.0
    for pair in range(first_pair, first_pair + pairs):
        for _ in range(2):
            owed += score
            points = min(1.0, max(0.0, round(owed * 2) / 2))
            owed -= points
            games.append(
                Game(
                    pair=pair, attempt=0, opening=np.zeros(8, np.uint64), first_is_white=True,
                    actions=np.zeros(4, np.int16), points=points, ending="checkmate",
                    final_lead_cp=0, first_best_lead_cp=0, second_best_lead_cp=0,
                )
            )  # fmt: skip
    return MatchResult("policy", opponent, tuple(games), (), 0)


def climbed(
    scores: dict[str, float], pairs: int = 100
) -> tuple[list[tuple[str, int, int]], dict[str, MatchResult]]:
    """(what was played in order, what was found) where the policy has these true scores."""
    played: list[tuple[str, int, int]] = []

    def play(opponent: str, count: int, first_pair: int) -> MatchResult:
        played.append((opponent, count, first_pair))
        return fake_match(opponent, scores[opponent], count, first_pair)

    found: dict[str, MatchResult] = {}
    climb(tuple(scores), play, pairs=pairs, found=found)
    return played, found


SCORES = dict(zip(LADDER, (1.0, 0.95, 0.9, 0.8, 0.7, 0.3, 0.1, 0.0, 0.0, 0.0), strict=True))


def test_a_stronger_policy_goes_up_until_its_score_falls_below_one_half() -> None:
    played, found = climbed(SCORES)
    probed = [LADDER[k] for k in (3, 4, 5)]
    assert played[:3] == [(name, PROBE_PAIRS, 0) for name in probed]
    # The two rungs on both sides of one half are played on, from where they stopped.
    assert sorted(played[3:]) == sorted((name, 90, 10) for name in probed[1:])
    assert {name: len(match.pair_points()) for name, match in found.items()} == {
        probed[0]: 10,
        probed[1]: 100,
        probed[2]: 100,
    }


def test_a_weaker_policy_goes_down_and_stops_at_the_end_of_the_ladder() -> None:
    weak = dict.fromkeys(LADDER, 0.0) | {"random": 0.4, LADDER[1]: 0.3}
    played, found = climbed(weak)
    assert [name for name, _, first in played if first == 0] == list(LADDER[3::-1])
    full = {name for name, match in found.items() if len(match.pair_points()) == 100}
    assert full == {"random", LADDER[1]}
    strong, _ = climbed(dict.fromkeys(LADDER, 0.9))
    assert [name for name, _, first in strong if first == 0] == list(LADDER[3:])
    assert len(full) == FULL_RUNGS


def test_few_games_are_not_exceeded() -> None:
    played, found = climbed(SCORES, pairs=4)
    assert {count for _, count, _ in played} == {4}
    assert all(len(match.pair_points()) == 4 for match in found.values())


def test_without_stockfish_the_rungs_that_need_none_are_left() -> None:
    assert rungs_here(has_stockfish=True) == LADDER
    assert rungs_here(has_stockfish=False) == ("random", "material", "builtin")
    assert START in rungs_here(has_stockfish=False)
    for name in rungs_here(has_stockfish=False):
        make_player(name).close()


def test_what_was_played_before_an_error_is_kept() -> None:
    def play(opponent: str, count: int, first_pair: int) -> MatchResult:
        if opponent != START:
            raise EngineError("died")
        return fake_match(opponent, 0.8, count, first_pair)

    found: dict[str, MatchResult] = {}
    with pytest.raises(EngineError, match="died"):
        climb(LADDER, play, pairs=100, found=found)
    assert list(found) == [START]


@pytest.mark.stockfish
def test_every_rung_is_a_player() -> None:
    for name in LADDER:
        player, chance, share = name.partition("@")
        # An engine that another rung starts too is not started again for each share of chance.
        make_player(f"random@{share}" if chance else player).close()
    assert {name.partition("@")[0] for name in LADDER} <= set(LADDER)
