"""Matches: game pairs with colours swapped, all games in lockstep on the compiled boards.

A match is a function of its players, openings and seed. Each pair has its own opening, each player in each
game its own random generator, and neither depends on how many boards run together, so a match can be cut
into parts, repeated, or continued with more pairs. Games end by the rules alone (mate, stalemate,
insufficient material, the first claimable threefold repetition or fifty-move draw) or at the ply limit;
nothing is adjudicated. Players that look at it are told the game so far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chess_env.evaluators import EngineError, Evaluator
from chess_env.games.players import Player, material_cp
from chess_env.games.so_far import GamesInPlay
from chess_env.matches.match_result import PLY_LIMIT, Game, MatchResult, VoidPair
from chess_env.positions.start_positions import MAX_TRIES, StartPositions, distinct_positions
from chess_env.rules.packed import Positions
from chess_env.rules.rules import CHECKMATE, ONGOING, STATUS_NAMES, hash_batch

Index = NDArray[np.int64]

# What a random generator of a match is for: the first number after the seed.
_OPENINGS, _REPLAYED_OPENING, _PLAYER = range(3)


def draw_openings(source: StartPositions, seed: int, count: int) -> Positions:
    """uint64 [count, 8]: distinct openings; those of a smaller count are the first of a larger one.

    Distinct, because two players without randomness repeat their games from an opening seen before, and
    a repeated game is no evidence.

    Raises:
        ValueError: the source has fewer distinct positions than asked for.
    """
    found = distinct_positions(source, np.random.default_rng([seed, _OPENINGS]), count)
    if len(found) < count:
        raise ValueError(
            f"openings {source.name!r} have about {len(found)} distinct positions: {count} pairs need "
            "as many; play fewer games, or use openings with more variety such as 'random_plies:2-40'"
        )
    return found


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


MATCH_PLIES = 300
"""The ply limit of matches that are reported: 150 moves of each player after the opening."""

MAX_REPLAYS = 3
"""A pair that an engine lost this many times in a row ends the match."""


class _Pair(NamedTuple):
    """One pair to play: its number, which try it is, its opening (uint64 [8])."""

    number: int
    attempt: int
    opening: Positions


def play_match(
    first: Player,
    second: Player,
    *,
    openings: StartPositions,
    pairs: int,
    seed: int,
    max_plies: int,
    first_pair: int = 0,
    before: MatchResult | None = None,
    keep: Callable[[MatchResult], None] | None = None,
    max_boards: int = 512,
) -> MatchResult:
    """The match of `pairs` game pairs between two players.

    Args:
        first: the player whose points are counted.
        second: its opponent.
        openings: where games start; every pair gets an opening of its own.
        pairs: how many; two games each.
        seed: of openings and players, at least 0.
        max_plies: a game that goes on after this many plies is drawn; reported matches have `MATCH_PLIES`.
        first_pair: number of the first pair, to continue a match of that many pairs with the same seed.
        before: the match that is continued; without it an opening can come again that a void pair of it got.
        keep: called where the match ends early, by an engine that stays dead or by Ctrl-C, with the pairs
            that were finished, if any. Where games are cut off, all that run beside them are dropped too:
            those that have ended by then are the short ones, which is no fair sample.
        max_boards: games that advance together; speed and memory only.

    Raises:
        ValueError: no pair, a negative seed, no plies, fewer distinct openings than pairs, or a match
            `before` that has later pairs.
        RuntimeError: a player chose an illegal action.
        EngineError: a pair became void `MAX_REPLAYS` times in a row; names the engine's last words.
    """
    if pairs < 1 or seed < 0 or max_plies < 1 or first_pair < 0 or max_boards < 2:
        raise ValueError(
            f"pairs={pairs}, seed={seed}, max_plies={max_plies}, first_pair={first_pair}, "
            f"max_boards={max_boards}: expected pairs and plies of at least 1, a seed and a first pair of "
            "at least 0, and at least the 2 boards of a pair"
        )
    given = MatchOpenings(openings, seed, first_pair, pairs, before)
    players, at_once = (first, second), max_boards // 2
    restarts = sum(map(_engine_restarts, players))
    games: dict[int, tuple[Game, Game]] = {}
    void: list[VoidPair] = []

    def played() -> MatchResult:
        return MatchResult(
            first.name,
            second.name,
            tuple(game for number in sorted(games) for game in games[number]),
            tuple(sorted(void, key=lambda pair: (pair.pair, pair.attempt))),
            sum(map(_engine_restarts, players)) - restarts,
        )

    todo = [
        _Pair(number, 0, given.first(number)) for number in range(first_pair, first_pair + pairs)
    ]
    try:
        while todo:
            table, todo = todo[:at_once], todo[at_once:]
            finished, lost = _Table(players, table, seed, max_plies).play()
            games |= finished
            void += lost
            for pair in lost:  # again, behind the others
                number, attempt = pair.pair, pair.attempt + 1
                if attempt >= MAX_REPLAYS:
                    raise EngineError(
                        f"pair {number} of {first.name} v {second.name} became void {MAX_REPLAYS} times, last: "
                        f"{pair.reason}"
                    )
                todo.append(_Pair(number, attempt, given.another(number, attempt)))
    except BaseException:
        if games and keep is not None:
            keep(played())
        raise
    return played()


def _evaluator_of(player: Player) -> Evaluator | None:
    """What a player, or the one behind a mixed player, asks for its moves; None where it asks nobody."""
    return getattr(getattr(player, "player", player), "evaluator", None)


def _engine_restarts(player: Player) -> int:
    evaluator = _evaluator_of(player)
    return 0 if evaluator is None else int(evaluator.counters().get("engine_restarts", 0))


class _Table:
    """The boards of some pairs: rows 2i and 2i + 1 are pair i, with the first player to move on row 2i."""

    def __init__(
        self, players: tuple[Player, Player], pairs: Sequence[_Pair], seed: int, max_plies: int
    ) -> None:
        self.players, self.pairs, self.max_plies = players, pairs, max_plies
        rows = 2 * len(pairs)
        self.everywhere: Index = np.arange(rows)
        openings = np.array([pair.opening for pair in pairs], np.uint64)
        self.in_play = GamesInPlay(np.repeat(openings, 2, axis=0), players)
        self.boards = self.in_play.boards
        white_to_move = self.boards.white_to_move(self.everywhere)
        self.first_is_white = white_to_move == (self.everywhere % 2 == 0)
        self.rngs = [
            [
                np.random.default_rng([seed, _PLAYER, pair.number, pair.attempt, game, side])
                for pair in pairs
                for game in range(2)
            ]
            for side in range(2)
        ]
        self.moves = np.full((max_plies, rows), -1, np.int16)
        self.best_lead_cp = np.zeros((2, rows), np.int64)
        self.games: dict[int, Game] = {}
        self.void: dict[int, str] = {}  # index of a pair -> reason

    def play(self) -> tuple[dict[int, tuple[Game, Game]], list[VoidPair]]:
        """(the two games of each pair by its number, the pairs that became void)."""
        active = self.everywhere
        for ply in range(self.max_plies):
            # All games of a table are at the same ply, so the row's parity says whose turn it is.
            mover = (active + ply) % 2
            lead_cp = material_cp(self.boards.positions[active])
            self.best_lead_cp[mover, active] = np.maximum(self.best_lead_cp[mover, active], lead_cp)
            actions = np.full(len(self.everywhere), -1)
            for side in range(2):
                rows = active[mover == side]
                if len(rows):
                    self._ask(side, rows, actions)
            if self.void:
                active = active[[row // 2 not in self.void for row in active.tolist()]]
            self.moves[ply, active] = actions[active]
            self.in_play.play(active, actions[active])
            over = self.boards.status[active] != ONGOING
            for row in active[over].tolist():
                self._finish(row, ply + 1)
            active = active[~over]
            if not len(active):
                break
        for row in active.tolist():
            self._finish(row, self.max_plies)
        finished, void = {}, []
        for index, pair in enumerate(self.pairs):
            if index in self.void:
                void.append(VoidPair(pair.number, pair.attempt, self.void[index]))
            else:
                finished[pair.number] = (self.games[2 * index], self.games[2 * index + 1])
        return finished, void

    def _ask(self, side: int, rows: Index, actions: Index) -> None:
        """Writes the player's actions for `rows`, or makes pairs void that its engine lost."""
        player, lost, reason = self.players[side], rows[:0], ""
        # Copies of the generators' states, for a player that has engines which may fail.
        before = [
            self.rngs[side][row].bit_generator.state
            for row in (rows.tolist() if _evaluator_of(player) is not None else ())
        ]
        try:
            actions[rows] = self.in_play.ask(player, rows, self.rngs[side])
        except EngineError as error:
            lost, reason = rows, f"{player.name}: {error}"
            if error.failed and before:  # some positions only: which, is found by asking one by one
                for row, state in zip(rows.tolist(), before, strict=True):
                    self.rngs[side][row].bit_generator.state = state
                lost, reason = self._ask_singly(side, rows, actions)
        for row in lost.tolist():
            self.void.setdefault(row // 2, reason)

    def _ask_singly(self, side: int, rows: Index, actions: Index) -> tuple[Index, str]:
        """Writes the actions of those rows that get one; the others, and why they do not."""
        player, lost, reason = self.players[side], [], ""
        for row in rows:
            try:
                actions[row] = self.in_play.ask(player, np.array([row]), self.rngs[side])[0]
            except EngineError as error:
                lost.append(row)
                reason = f"{player.name}: {error}"
        return np.array(lost, np.int64), reason

    def _finish(self, row: int, plies: int) -> None:
        """Ends the game on a row after `plies`."""
        pair = self.pairs[row // 2]
        status = int(self.boards.status[row])
        last_mover = (row + plies - 1) % 2
        lead_cp = int(material_cp(self.boards.positions[row : row + 1])[0])
        self.games[row] = Game(
            pair=pair.number,
            attempt=pair.attempt,
            opening=pair.opening,
            first_is_white=bool(self.first_is_white[row]),
            actions=self.moves[:plies, row].copy(),
            points=0.5 if status != CHECKMATE else 1.0 - last_mover,
            ending=PLY_LIMIT if status == ONGOING else STATUS_NAMES[status],
            # Material is seen from the side to move, which is not the one that moved last.
            final_lead_cp=lead_cp if last_mover else -lead_cp,
            first_best_lead_cp=int(self.best_lead_cp[0, row]),
            second_best_lead_cp=int(self.best_lead_cp[1, row]),
        )
