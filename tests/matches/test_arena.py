"""Matches: the rules by python-chess, pairs, seeds, batches, endings, engines that die."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Sequence
from typing import Any

import chess
import numpy as np
import pytest

from chess_env.evaluators import EngineError
from chess_env.games.players import FunctionPlayer, MixedPlayer, RandomPlayer, make_player
from chess_env.matches.arena import draw_openings, play_match
from chess_env.matches.match_result import Game, MatchResult
from chess_env.positions.start_positions import PositionList, make_start_positions
from chess_env.rules.fen import pack_fens, to_fen
from chess_env.rules.rules import hash_batch
from tests.env.material import MaterialEvaluator
from tests.env.replay import replay

BOOK = make_start_positions("openings")


def fixed(*fens: str) -> PositionList:
    return PositionList("fixed", pack_fens(fens))


def match(
    first: Any,
    second: Any,
    *,
    openings: Any = BOOK,
    pairs: int = 4,
    plies: int = 120,
    seed: int = 3,
    **options: Any,
) -> MatchResult:
    return play_match(
        make_player(first),
        make_player(second),
        openings=openings,
        pairs=pairs,
        max_plies=plies,
        seed=seed,
        **options,
    )


def essence(games: Sequence[Game]) -> list[tuple[Any, ...]]:
    return [
        (g.pair, to_fen(g.opening), g.first_is_white, g.points, g.ending, g.actions.tolist())
        for g in games
    ]


@pytest.mark.parametrize(
    ("first", "second", "openings", "pairs", "plies"),
    [
        ("random", "random", "openings", 10, 300),
        ("random", "material", "random_plies:2-40", 12, 300),
        ("material@random=0.3", "material@random=0.9", "phase_mix", 15, 300),
        ("builtin", "material", "phase_mix", 12, 80),
    ],
)
def test_python_chess_replays_every_game_and_agrees(
    first: str, second: str, openings: str, pairs: int, plies: int
) -> None:
    source = make_start_positions(openings)
    result = match(first, second, openings=source, pairs=pairs, plies=plies)
    assert len(result.games) == 2 * pairs
    for game in result.games:
        leads = (game.final_lead_cp, game.first_best_lead_cp, game.second_best_lead_cp)
        assert (game.ending, game.points, *leads) == replay(game, plies)


def test_each_pair_plays_its_own_opening_twice_with_colours_swapped() -> None:
    games = match("random", "random", pairs=6).games
    for one, other in zip(games[::2], games[1::2], strict=True):
        assert one.pair == other.pair
        np.testing.assert_array_equal(one.opening, other.opening)
        assert one.first_is_white != other.first_is_white
        # In the first of them the match's first player has the move.
        assert one.first_is_white == chess.Board(to_fen(one.opening)).turn
        assert one.actions.tolist() != other.actions.tolist()
    assert len({to_fen(game.opening) for game in games}) == 6


def test_a_match_repeats_itself_whatever_the_number_of_boards() -> None:
    players = "material@random=0.3", "random"
    whole = match(*players, pairs=7)
    for max_boards in (2, 5, 6):
        assert essence(match(*players, pairs=7, max_boards=max_boards).games) == essence(
            whole.games
        )
    other = match(*players, pairs=7, seed=4)
    assert essence(other.games) != essence(whole.games)


def test_a_match_can_be_continued() -> None:
    whole = match("random", "material", pairs=5)
    begun = match("random", "material", pairs=2)
    joined = begun.joined(match("random", "material", pairs=3, first_pair=2))
    assert essence(joined.games) == essence(whole.games)
    with pytest.raises(ValueError, match=r"pairs \[0, 1\].*no continuation"):
        joined.joined(begun)


def scripted(*lines: str) -> FunctionPlayer:
    """Plays, of the moves given, the first that is legal."""

    def play(board: chess.Board, rng: np.random.Generator) -> chess.Move:
        moves = [chess.Move.from_uci(text) for text in lines]
        return next(move for move in moves if board.is_legal(move))

    return FunctionPlayer(play)


@pytest.mark.parametrize(
    ("ending", "fen", "moves", "plies"),
    [
        ("checkmate", "6k1/5ppp/8/8/8/8/8/R3K3 w - - 0 1", ("a1a8",), 1),
        ("stalemate", "k7/8/8/8/8/8/1Q6/7K w - - 0 1", ("b2b6",), 1),
        ("insufficient_material", "4k3/8/8/8/8/8/3q4/4K3 w - - 0 1", ("e1d2",), 1),
        ("fifty_moves", "4k3/4p3/8/8/8/8/4P3/4K3 w - - 98 80", ("e1d1", "e8d8"), 2),
        ("threefold_repetition", chess.STARTING_FEN, ("g1f3", "g8f6", "f3g1", "f6g8"), 8),
        ("ply_limit", "4k3/4p3/8/8/8/8/4P3/4K3 w - - 0 1", ("e1d1", "e8d8", "d1c1"), 3),
    ],
)
def test_every_way_to_end_is_told_apart(
    ending: str, fen: str, moves: tuple[str, ...], plies: int
) -> None:
    player = scripted(*moves)
    limit = 3 if ending == "ply_limit" else 40
    result = match(player, player, openings=fixed(fen), pairs=1, plies=limit)
    one, other = result.games
    assert (one.ending, other.ending) == (ending, ending)
    assert (len(one.actions), len(other.actions)) == (plies, plies)
    assert (one.points, other.points) == ((1, 0) if ending == "checkmate" else (0.5, 0.5))


def test_a_player_that_looks_at_repetitions_is_told_of_them() -> None:
    class Shuffler(RandomPlayer):
        def __init__(self) -> None:
            self.seen: list[list[int]] = []

        def choose_with_history(self, positions: Any, repetitions: Any, rngs: Any) -> Any:
            self.seen.append(repetitions.tolist())
            return scripted("g1f3", "g8f6", "f3g1", "f6g8").choose(positions, rngs)

    player = Shuffler()
    match(player, player, openings=fixed(chess.STARTING_FEN), pairs=1)
    # Two games of eight plies; at each ply one of the two sides is asked in each game.
    assert player.seen == [[0]] * 8 + [[1]] * 8


def test_the_rule_50_clock_of_an_opening_goes_on_in_the_game() -> None:
    player = scripted("e1d1", "e8d8", "d1e1", "d8e8")
    clock_at_97 = "4k3/4p3/8/8/8/8/4P3/4K3 w - - 97 80"
    game = match(player, player, openings=fixed(clock_at_97), pairs=1).games[0]
    assert (game.ending, len(game.actions)) == ("fifty_moves", 3)


def test_openings_are_distinct_and_those_of_a_longer_match_begin_alike() -> None:
    few, many = draw_openings(BOOK, 1, 5), draw_openings(BOOK, 1, 200)
    np.testing.assert_array_equal(few, many[:5])
    assert len(set(hash_batch(many).tolist())) == 200
    with pytest.raises(ValueError, match=r"'initial' have about 1 distinct positions: 2 pairs"):
        draw_openings(make_start_positions("initial"), 1, 2)


@pytest.mark.parametrize(
    "wrong", [{"pairs": 0}, {"seed": -1}, {"plies": 0}, {"first_pair": -1}, {"max_boards": 1}]
)
def test_a_match_that_makes_no_sense_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="expected pairs and plies of at least 1"):
        match("random", "random", **wrong)


def test_an_illegal_action_stops_the_match_and_names_the_player() -> None:
    class Cheat(RandomPlayer):
        name = "cheat"

        def choose(self, positions: Any, rngs: Any) -> Any:
            return np.full(len(positions), 1857)

    with pytest.raises(RuntimeError, match=r"'cheat' played illegal action 1857"):
        match("random", Cheat())


class DyingPlayer(RandomPlayer):
    """Plays randomly until it is asked about one of the poisoned positions (by hash), or by the n-th call."""

    name = "dying"

    def __init__(self, *, poison: int | None = None, dead: bool = False, **more: Any) -> None:
        self.poison, self.dead = poison, dead
        self.evaluator = more.get("evaluator", MaterialEvaluator())  # stands for its engines

    def choose(self, positions: Any, rngs: Any) -> Any:
        if self.dead:
            raise EngineError("no engine starts any more")
        actions = super().choose(positions, rngs)  # draws before it fails, as a real player may
        if self.poison in hash_batch(positions).tolist():
            error = EngineError("killed by signal 9")
            error.failed = {"some FEN": "killed by signal 9"}
            raise error
        return actions


@pytest.mark.parametrize(("side", "is_mixed"), [(0, False), (1, False), (1, True)])
def test_a_pair_that_an_engine_lost_is_void_and_played_again(side: int, is_mixed: bool) -> None:
    def dying(poison: int | None) -> Any:
        player = DyingPlayer(poison=poison)
        return MixedPlayer(player, 0.0) if is_mixed else player  # which draws before it asks

    poison = int(hash_batch(draw_openings(BOOK, 3, 5)[2:3])[0])
    players: list[Any] = ["material", dying(poison)]
    healthy: list[Any] = ["material", dying(None)]
    if side:
        players.reverse()
        healthy.reverse()
    result, without = match(*players, pairs=5), match(*healthy, pairs=5)
    assert [(void.pair, void.attempt) for void in result.void] == [(2, 0)]
    assert "killed by signal 9" in result.void[0].reason
    assert result.counts()["void_pairs"] == 1
    assert [game.attempt for game in result.games] == [0, 0, 0, 0, 1, 1, 0, 0, 0, 0]
    # The pair got an opening that no other has; nothing else changed.
    assert len({to_fen(game.opening) for game in result.games}) == 5
    untouched = [0, 1, 2, 3, 6, 7, 8, 9]
    assert essence([result.games[k] for k in untouched]) == essence(
        [without.games[k] for k in untouched]
    )
    for game in result.games:
        assert (game.ending, game.points) == replay(game, 120)[:2]


def test_a_player_that_does_not_show_its_engines_loses_every_board_it_was_asked_about() -> None:
    poison = int(hash_batch(draw_openings(BOOK, 3, 3)[1:2])[0])
    result = match("material", DyingPlayer(poison=poison, evaluator=None), pairs=3)
    assert [(void.pair, void.attempt) for void in result.void] == [(0, 0), (1, 0), (2, 0)]
    assert [game.pair for game in result.games] == [0, 0, 1, 1, 2, 2]


def test_a_match_without_a_working_engine_ends_with_its_last_words() -> None:
    with pytest.raises(EngineError, match=r"void 3 times.*dying: no engine starts any more"):
        match("random", DyingPlayer(dead=True))


@pytest.mark.stockfish
def test_a_killed_stockfish_changes_no_game_and_is_counted() -> None:
    undisturbed = match("engine:nodes=1", "material", pairs=2, plies=24)
    engine = make_player("engine:nodes=1")
    calls = 0

    class Killer:
        name = "material"

        def choose(self, positions: Any, rngs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls % 5 == 0:
                os.kill(engine.evaluator.engine_pids()[0], signal.SIGKILL)
            return make_player("material").choose(positions, rngs)

        def close(self) -> None:
            pass

    try:
        result = match(engine, Killer(), pairs=2, plies=24)
    finally:
        engine.close()
    assert essence(result.games) == essence(undisturbed.games)
    assert result.engine_restarts >= 2
    assert result.counts()["engine_restarts"] == result.engine_restarts


@pytest.mark.slow
@pytest.mark.stockfish
def test_stockfish_beats_material_and_mixing_in_random_moves_weakens_it() -> None:
    scores = [
        np.mean(match(f"engine:nodes=1@random={share}", "material", pairs=15).pair_points()) / 2
        for share in (0.0, 0.9)
    ]
    assert scores[0] > 0.9
    assert scores[1] < 0.5
    endings = Counter(game.ending for game in match("engine:nodes=1", "random", pairs=10).games)
    assert endings["checkmate"] >= 18
