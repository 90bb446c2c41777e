"""Players that know the game so far: what they are told, by python-chess; who seeks a repetition and who avoids it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import chess
import chess.engine
import numpy as np
import pytest

from chess_env.games.players import (
    FunctionPlayer,
    GreedyPlayer,
    MixedPlayer,
    RandomPlayer,
    ask,
    make_player,
)
from chess_env.games.so_far import GamesInPlay, GamesSoFar
from chess_env.matches.arena import play_match
from chess_env.moves import action_to_move, move_to_action
from chess_env.positions.start_positions import PositionList, make_start_positions
from chess_env.rules.fen import pack_board, pack_fens, to_fen
from tests.env.material import MaterialEvaluator

QUEEN_UP = "6k1/5pp1/7p/8/8/8/5PPP/3Q2K1 w - - 0 1"


def played(fen: str, *ucis: str) -> tuple[Any, GamesSoFar]:
    """(uint64 [1, 8] the position after the moves, its game)."""
    in_play = GamesInPlay(pack_fens([fen]), [GreedyPlayer(MaterialEvaluator())])
    everywhere, board = np.arange(1), chess.Board(fen)
    for uci in ucis:
        move = chess.Move.from_uci(uci)
        actions = np.array([move_to_action(move, board.turn)])
        in_play.play(everywhere, actions)
        board.push(move)
    return in_play.boards.positions.copy(), in_play.so_far(everywhere)


def choice(player: Any, fen: str, *ucis: str) -> chess.Move:
    """The move that a player makes at the end of a game."""
    positions, games = played(fen, *ucis)
    rngs = [np.random.default_rng(0)]
    action = ask(player, positions, games.repetitions, rngs, games=games)[0]
    return action_to_move(int(action), chess.Board(to_fen(positions[0])))


def after(fen: str, ucis: Sequence[str], move: chess.Move) -> chess.Board:
    board = chess.Board(fen)
    for uci in ucis:
        board.push_uci(uci)
    board.push(move)
    return board


def test_python_chess_agrees_on_what_is_kept_of_random_games() -> None:
    source, rng = make_start_positions("phase_mix"), np.random.default_rng(5)
    starts = np.array([source.sample(rng) for _ in range(15)], np.uint64)
    in_play = GamesInPlay(starts, [GreedyPlayer(MaterialEvaluator())])
    boards, everywhere = in_play.boards, np.arange(15)
    theirs = [chess.Board(to_fen(start)) for start in starts]
    roots = [board.copy(stack=False) for board in theirs]  # after the last capture or pawn move
    active = everywhere
    for _ in range(120):
        actions = RandomPlayer().choose(boards.positions[active], [rng] * len(active))
        in_play.play(active, actions)
        for row, action in zip(active.tolist(), actions.tolist(), strict=True):
            board = theirs[row]
            board.push(action_to_move(action, board))
            if board.halfmove_clock == 0:
                roots[row] = board.copy(stack=False)
        active = active[boards.status[active] == 0]
        games = in_play.so_far(active)
        for at, row in enumerate(active.tolist()):
            assert to_fen(games.starts[at]) == roots[row].fen(en_passant="legal")
            replayed = roots[row].copy()
            for action in games.moves[at]:
                replayed.push(action_to_move(action, replayed))
            assert replayed.fen(en_passant="legal") == theirs[row].fen(en_passant="legal")
            assert games.occurred(at, pack_board(theirs[row])[None]).all()
    assert len(active) > 2 and max(map(len, games.moves)) > 20


def test_a_winning_player_avoids_a_position_that_has_occurred_and_a_losing_one_seeks_it() -> None:
    moves = ("d1d2", "g8f8", "d2d1", "f8g8", "d1d2", "g8f8")
    greedy = GreedyPlayer(MaterialEvaluator())
    for count in range(2, len(moves) + 1, 2):
        board = after(QUEEN_UP, moves[:count], choice(greedy, QUEEN_UP, *moves[:count]))
        assert not board.is_repetition(2)
    # The other side is a queen down.
    for count in (3, 5):
        board = after(QUEEN_UP, moves[:count], choice(greedy, QUEEN_UP, *moves[:count]))
        assert board.is_repetition(2)


def test_the_last_move_before_a_fifty_move_draw_is_worth_a_draw() -> None:
    fen = QUEEN_UP.replace("- 0 1", "- 99 80")
    greedy = GreedyPlayer(MaterialEvaluator())
    winning = after(fen, (), choice(greedy, fen))
    assert winning.halfmove_clock == 0 and not winning.is_fifty_moves()
    losing = "6k1/5ppp/8/8/8/8/q4PPP/6K1 w - - 99 80"
    drawn = after(losing, (), choice(greedy, losing))
    assert drawn.is_fifty_moves()


def test_mate_on_the_hundredth_ply_is_mate() -> None:
    fen = "6k1/5ppp/8/8/8/8/8/R3K3 w - - 99 80"
    assert choice(GreedyPlayer(MaterialEvaluator()), fen) == chess.Move.from_uci("a1a8")


def test_a_mixed_player_hands_each_board_its_own_game_on() -> None:
    class Noting(RandomPlayer):
        seen: Any = None

        def choose_in_games(self, positions: Any, games: GamesSoFar, rngs: Any) -> Any:
            self.seen = [list(moves) for moves in games.moves]
            return self.choose(positions, rngs)

    one, game = played(QUEEN_UP, "d1d2", "g8f8")
    other, more = played(QUEEN_UP)
    games = GamesSoFar(
        np.concatenate([more.starts, game.starts, more.starts]),
        [*more.moves, *game.moves, *more.moves],
        np.concatenate([more.hashes, game.hashes, more.hashes]),
        np.concatenate([more.lengths, game.lengths, more.lengths]),
        np.zeros(3, np.int64),
    )
    noting = Noting()
    rngs = [np.random.default_rng(seed) for seed in (1, 2, 3)]
    chosen = [np.random.default_rng(seed).random() >= 0.4 for seed in (1, 2, 3)]
    assert True in chosen and False in chosen
    ask(
        MixedPlayer(noting, 0.4),
        np.concatenate([other, one, other]),
        games.repetitions,
        rngs,
        games=games,
    )
    expected = [[], list(game.moves[0]), []]
    assert noting.seen == [moves for moves, own in zip(expected, chosen, strict=True) if own]


def shuffling(board: chess.Board, rng: np.random.Generator) -> chess.Move:
    """Moves the king to and fro."""
    moves = [move for move in board.legal_moves if move.from_square == board.king(board.turn)]
    return sorted(moves, key=lambda move: (move.to_square // 8, move.uci()))[-1]


def test_a_match_tells_its_players_the_game_so_far() -> None:
    class Blind:
        name = "blind"

        def __init__(self) -> None:
            self.greedy = GreedyPlayer(MaterialEvaluator())

        def choose(self, positions: Any, rngs: Any) -> Any:
            return self.greedy.choose(positions, rngs)

        def close(self) -> None: ...

    opening = PositionList("queen up", pack_fens([QUEEN_UP]))
    endings = []
    for player in (Blind(), GreedyPlayer(MaterialEvaluator())):
        result = play_match(
            player, FunctionPlayer(shuffling), openings=opening, pairs=1, seed=0, max_plies=60
        )
        endings.append((result.games[0].ending, len(result.games[0].actions)))
    # A queen up against a king that shuffles: who does not know the game repeats it.
    assert endings[0][0] == "threefold_repetition"
    assert endings[1][0] != "threefold_repetition" or endings[1][1] > 2 * endings[0][1]


@pytest.mark.stockfish
def test_an_engine_is_told_what_a_client_tells_it() -> None:
    """The same moves as python-chess's client gets that sends each whole game and clears before each move."""
    source, rng = make_start_positions("phase_mix"), np.random.default_rng(7)
    starts = np.array([source.sample(rng) for _ in range(16)], np.uint64)
    engine, greedy = make_player("engine:nodes=400"), GreedyPlayer(MaterialEvaluator())
    in_play = GamesInPlay(starts, [engine])
    boards, everywhere = in_play.boards, np.arange(16)
    theirs = [chess.Board(to_fen(start)) for start in starts]
    active, compared, told_more = everywhere, 0, 0
    try:
        with chess.engine.SimpleEngine.popen_uci(str(engine.evaluator.path)) as client:
            client.configure({"Hash": 1, "Threads": 1})
            for ply in range(30):
                if not len(active):
                    break
                games = in_play.so_far(active)
                actions = greedy.choose(
                    boards.positions[active], []
                )  # shuffles, so positions repeat
                if ply % 3 == 2:
                    positions = boards.positions[active]
                    asked = ask(engine, positions, games.repetitions, [], games=games)
                    told_more += (asked != engine.choose(positions, [])).sum()
                    for action, row in zip(asked.tolist(), active.tolist(), strict=True):
                        limit = chess.engine.Limit(nodes=400)
                        move = client.play(theirs[row], limit, game=object()).move
                        assert move == action_to_move(action, theirs[row])
                        compared += 1
                in_play.play(active, actions)
                for row, action in zip(active.tolist(), actions.tolist(), strict=True):
                    theirs[row].push(action_to_move(int(action), theirs[row]))
                active = active[boards.status[active] == 0]
    finally:
        engine.close()
    assert compared >= 40
    assert told_more >= 1  # the history is heard, or this test would compare nothing
