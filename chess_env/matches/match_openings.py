"""The openings of a match: one for each pair, none twice, and others for pairs that are played again."""

from __future__ import annotations

import numpy as np

from chess_env.matches.match_result import MatchResult
from chess_env.positions.derived_positions import MAX_TRIES
from chess_env.positions.start_positions import StartPositions
from chess_env.rules.packed import Positions
from chess_env.rules.rules import hash_batch

# What a random generator of a match is for; the first numbers after the seed. `arena` has the next one.
_OPENINGS, _REPLAYED_OPENING = range(2)


def draw_openings(source: StartPositions, seed: int, count: int) -> Positions:
    """uint64 [count, 8]: distinct openings; those of a smaller count are the first of a larger one.

    Distinct, because two players without randomness repeat their games from an opening seen before, and
    a repeated game is no evidence.

    Raises:
        ValueError: the source has fewer distinct positions than asked for.
    """
    rng = np.random.default_rng([seed, _OPENINGS])
    found: dict[int, Positions] = {}
    misses = 0
    while len(found) < count:
        position = source.sample(rng)
        known = len(found)
        found.setdefault(_key(position), position)
        misses = misses + 1 if len(found) == known else 0
        if misses >= MAX_TRIES:
            raise ValueError(
                f"openings {source.name!r} have about {len(found)} distinct positions: {count} pairs need "
                "as many; play fewer games, or use openings with more variety such as 'random_plies:2-40'"
            )
    return np.array(list(found.values()), np.uint64)


class MatchOpenings:
    """Hands each pair of a match its opening, and another each time that the pair became void.

    Args:
        source: of positions.
        seed: of the match.
        first_pair: number of the first pair that is played.
        pairs: how many.
        before: the part of the match that was played, where there is one. A pair that became void in it may
            have taken an opening that is due only now.

    Raises:
        ValueError: fewer distinct openings than pairs, those of the earlier part included; or the earlier
            part has pairs that are none.
    """

    def __init__(
        self,
        source: StartPositions,
        seed: int,
        first_pair: int,
        pairs: int,
        before: MatchResult | None = None,
    ) -> None:
        later = [game.pair for game in before.games if game.pair >= first_pair] if before else []
        if later:
            raise ValueError(
                f"the earlier part of the match has pair {later[0]}: expected pairs below {first_pair}, "
                "the first one that is played now"
            )
        self._source, self._seed = source, seed
        self._drawn = draw_openings(source, seed, first_pair + pairs)
        keys = [_key(opening) for opening in self._drawn]
        played = set(keys[:first_pair])
        if before is not None:
            played = {_key(game.opening) for game in before.games}
        # Of pairs that were played or will be; a void pair gives its own up.
        self._used = played.union(keys[first_pair:])
        self._known = played.union(keys)
        numbers = range(first_pair, first_pair + pairs)
        self._of = {pair: self._drawn[pair] for pair in numbers if keys[pair] not in played}
        for pair in numbers:
            if pair not in self._of:
                self._of[pair] = self._other(pair, 0)

    def first(self, pair: int) -> Positions:
        """uint64 [8]: where the pair begins."""
        return self._of[pair]

    def another(self, pair: int, attempt: int) -> Positions:
        """uint64 [8]: where the pair, which became void `attempt` times, begins again."""
        self._used.discard(_key(self._of[pair]))
        self._of[pair] = self._other(pair, attempt)
        return self._of[pair]

    def _other(self, pair: int, attempt: int) -> Positions:
        rng = np.random.default_rng([self._seed, _REPLAYED_OPENING, pair, attempt])
        found = next(
            (
                position
                for position in (self._source.sample(rng) for _ in range(MAX_TRIES))
                if _key(position) not in self._known
            ),
            None,
        )
        if found is None:
            # Every opening there is was drawn: one that a void pair gave up, at worst this pair's own.
            found = next(opening for opening in self._drawn if _key(opening) not in self._used)
        self._used.add(_key(found))
        self._known.add(_key(found))
        return found


def _key(position: Positions) -> int:
    return int(hash_batch(position[None])[0])
