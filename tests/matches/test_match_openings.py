"""The openings of a match when engines die: none twice, and what was finished is kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chess_env.evaluators import EngineError
from chess_env.games.players import RandomPlayer
from chess_env.matches.arena import MatchOpenings, draw_openings, play_match
from chess_env.matches.match_result import MatchResult
from chess_env.positions.start_positions import StartPositions, make_start_positions
from chess_env.rules.rules import hash_batch

BOOK = make_start_positions("openings")
FEW = make_start_positions("openings@fixed=12")


class Fragile(RandomPlayer):
    """Loses every game with an opening whose hash was given, and after a number of calls all of them."""

    name = "fragile"

    def __init__(self, *poison: int, calls: float = float("inf"), error: Any = EngineError) -> None:
        self.poison, self.calls, self.error = set(poison), calls, error

    def choose(self, positions: Any, rngs: Any) -> Any:
        self.calls -= 1
        if self.calls < 0:
            raise self.error("the engine cannot be used")
        if self.poison & set(keys(positions)):
            raise EngineError("killed")
        return super().choose(positions, rngs)


def keys(positions: Any) -> list[int]:
    return [int(key) for key in hash_batch(np.asarray(positions))]


def played(result: MatchResult) -> list[int]:
    return keys([game.opening for game in result.games[::2]])


def match(
    player: Any, pairs: int, *, openings: StartPositions = BOOK, seed: int = 0, **more: Any
) -> MatchResult:
    return play_match(
        RandomPlayer(),
        player,
        openings=openings,
        pairs=pairs,
        seed=seed,
        max_plies=8,
        **({"max_boards": 2} | more),
    )


def test_without_a_void_pair_the_openings_are_those_that_were_drawn() -> None:
    drawn = draw_openings(BOOK, 5, 30)
    given = MatchOpenings(BOOK, 5, 0, 30)
    np.testing.assert_array_equal([given.first(k) for k in range(30)], drawn)
    begun = match(RandomPlayer(), 10, seed=5)
    later = MatchOpenings(BOOK, 5, 10, 20, begun)
    np.testing.assert_array_equal([later.first(k) for k in range(10, 30)], drawn[10:])


@pytest.mark.parametrize("seed", range(4))
def test_pairs_played_again_have_openings_that_no_other_pair_has(seed: int) -> None:
    given = MatchOpenings(BOOK, seed, 0, 300)
    drawn = set(keys([given.first(pair) for pair in range(300)]))
    again = keys([given.another(pair, 1) for pair in range(100)])
    assert len(set(again)) == 100
    assert not drawn & set(again)


@pytest.mark.parametrize("seed", range(4))
def test_a_continued_match_plays_no_opening_of_the_earlier_part_again(seed: int) -> None:
    drawn = draw_openings(BOOK, seed, 10)
    probe = match(Fragile(*keys(drawn)), 10, seed=seed)
    assert {game.attempt for game in probe.games} == {1}
    # Ten pairs with openings that a match of 10 has not drawn; one of 300 has drawn most of them.
    assert set(played(probe)) & set(keys(draw_openings(BOOK, seed, 300)))
    rest = match(Fragile(), 290, seed=seed, first_pair=10, before=probe, max_boards=512)
    assert len(set(played(probe.joined(rest)))) == 300
    same = match(Fragile(), 290, seed=seed, first_pair=10, before=probe, max_boards=64)
    assert played(rest) == played(same)


def test_where_every_opening_is_drawn_a_void_pair_s_own_is_free_and_no_other() -> None:
    drawn = keys(draw_openings(FEW, 0, 12))
    given = MatchOpenings(FEW, 0, 0, 12)
    assert keys([given.another(7, 1)]) == [drawn[7]]
    # A part of eight pairs has taken an opening that is due later: what its void pair gave up is left.
    begun = match(Fragile(drawn[2]), 8, openings=FEW)
    assert drawn[2] not in played(begun)
    rest = match(Fragile(), 4, openings=FEW, first_pair=8, before=begun)
    assert sorted(played(begun.joined(rest))) == sorted(drawn)


def test_an_earlier_part_with_later_pairs_is_refused() -> None:
    begun = match(RandomPlayer(), 3)
    with pytest.raises(ValueError, match="has pair 2: expected pairs below 2"):
        match(RandomPlayer(), 3, first_pair=2, before=begun)


@pytest.mark.parametrize("error", [EngineError, KeyboardInterrupt])
def test_the_finished_pairs_of_a_match_that_ends_early_are_kept(error: type) -> None:
    kept: list[MatchResult] = []
    # Two games of eight plies, of which the fragile player has four in each: eight calls, two at a time.
    with pytest.raises(error):
        match(Fragile(calls=30, error=error), 20, keep=kept.append)
    (part,) = kept
    whole = match(RandomPlayer(), 20)
    assert 0 < len(part.games) < 40
    assert len(part.games) % 2 == 0
    assert [game.actions.tolist() for game in part.games] == [
        game.actions.tolist() for game in whole.games[: len(part.games)]
    ]


def test_a_match_without_a_finished_pair_keeps_nothing_and_a_whole_one_is_only_returned() -> None:
    kept: list[MatchResult] = []
    with pytest.raises(EngineError, match="void 3 times"):
        match(Fragile(calls=0), 4, keep=kept.append)
    match(RandomPlayer(), 2, keep=kept.append)
    assert kept == []
