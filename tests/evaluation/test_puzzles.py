"""Puzzles and suites solved in lockstep, against python-chess one by one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import chess
import numpy as np
import pytest

from algorithms.evaluation import epd_suites, puzzles
from algorithms.evaluation.policy_player import PolicyPlayer
from algorithms.evaluation.puzzles import PuzzleTally, solve, table, to_dict
from chess_env.games.players import FunctionPlayer, Player, RandomPlayer, make_player
from chess_env.moves import action_to_move, move_to_action
from chess_env.positions.epd_suites import EpdFile
from chess_env.positions.puzzles import PuzzleFile
from chess_env.rules.fen import parse_fen
from tests.small import make_policy

FILE = Path(__file__).parents[1] / "positions" / "puzzles.csv"
LINES = FILE.read_text(encoding="utf-8").splitlines()[1:]


def solved(player: Player, path: Path = FILE, size: int = 16) -> list[bool]:
    file = PuzzleFile(path)
    found = [each for batch in file.batches(size) for each in solve(player, batch, seed=0).tolist()]
    file.close()
    assert file.left_out.total == 0
    return found


def by_python_chess(
    choose: Callable[[chess.Board, int], chess.Move], lines: list[str]
) -> list[bool]:
    """Which puzzles are solved by a function of (board, line number)."""
    found = []
    for number, line in enumerate(lines, start=2):
        fields = line.split(",")
        board, right = chess.Board(fields[1]), True
        for ply, word in enumerate(fields[2].split()):
            move = board.parse_uci(word)
            if ply % 2:
                chosen = choose(board, number)
                board.push(chosen)
                mates = board.is_checkmate()
                board.pop()
                right = mates or chosen == move
                if mates or not right:
                    break
            board.push(move)
        found.append(right)
    return found


def alone(player: Player) -> Callable[[chess.Board, int], chess.Move]:
    """A player asked about one position at a time."""
    rngs: dict[int, np.random.Generator] = {}

    def choose(board: chess.Board, number: int) -> chess.Move:
        rng = rngs.setdefault(number, np.random.default_rng([0, number]))
        (action,) = player.choose(parse_fen(board.fen())[None], [rng])
        return action_to_move(int(action), board)

    return choose


def first_check(board: chess.Board, rng: object) -> chess.Move:
    """A capture that checks, a check, a capture, or any move: the first by its name."""
    return min(
        board.legal_moves,
        key=lambda move: (-2 * board.gives_check(move) - board.is_capture(move), move.uci()),
    )


@pytest.mark.parametrize("size", [1, 16, 64])
def test_a_function_solves_what_it_solves_one_by_one(size: int) -> None:
    found = solved(FunctionPlayer(first_check), size=size)
    assert found == by_python_chess(lambda board, number: first_check(board, None), LINES)
    assert 0 < sum(found) < len(found)


@pytest.mark.parametrize(
    "make",
    [
        lambda: make_player("builtin"),
        lambda: make_player("material"),
        lambda: RandomPlayer(),
        lambda: make_player("builtin@random=0.3"),
        lambda: PolicyPlayer(make_policy(3), temperature=0.0, label="tiny"),
        lambda: PolicyPlayer(make_policy(3), temperature=1.0, label="tiny"),
    ],
)
def test_players_solve_what_they_solve_one_by_one(make: Callable[[], Player]) -> None:
    assert solved(make()) == by_python_chess(alone(make()), LINES)


@pytest.mark.stockfish
def test_stockfish_solves_what_it_solves_one_by_one() -> None:
    player = make_player("engine:nodes=1")
    try:
        found = solved(player)
        assert found == by_python_chess(alone(player), LINES)
        assert sum(found) > 20
    finally:
        player.close()


def scripted(moves: str) -> FunctionPlayer:
    """Plays these moves in turn."""
    words = iter(moves.split())
    return FunctionPlayer(lambda board, rng: chess.Move.from_uci(next(words)))


def puzzle(path: Path, fen: str, moves: str) -> Path:
    path.write_text(f"x,{fen},{moves},1500,,,,,,\n")
    return path


MATES = "6k1/5ppp/8/8/8/8/8/RR2K3 b - - 0 1"
"""After ...h6 both rooks mate."""
PAWN = "7k/P7/8/8/8/8/8/6K1 b - - 0 1"
STEPS = "4k3/3p4/8/4P3/8/8/8/4K3 b - - 0 1"
CASTLES = "4k3/8/8/8/8/8/p7/R3K2R b KQ - 0 1"


@pytest.mark.parametrize(
    ("fen", "line", "played", "right"),
    [
        (MATES, "g8h8 a1a8", "a1a8", True),
        (MATES, "g8h8 a1a8", "b1b8", True),  # another mate
        (MATES, "g8h8 a1a8", "a1a7", False),
        (MATES, "g8h8 a1a7 h8g8 a7a8", "b1b8", True),  # a mate before the line's end
        (MATES, "g8h8 a1a7 h8g8 a7a8", "a1a7 b1b8", True),
        (MATES, "g8h8 a1a7 h8g8 a7a6", "a1a7 a7a5", False),
        (PAWN, "h8g7 a7a8n", "a7a8n", True),
        (PAWN, "h8g7 a7a8n", "a7a8q", False),
        (PAWN, "h8g7 a7a8q", "a7a8q", True),
        (STEPS, "d7d5 e5d6", "e5d6", True),
        (STEPS, "d7d5 e5d6", "e5e6", False),
        (CASTLES, "e8e7 e1g1", "e1g1", True),
        (CASTLES, "e8e7 e1c1", "e1g1", False),
    ],
)
def test_a_line_is_solved_by_its_own_moves_or_by_a_mate(
    fen: str, line: str, played: str, right: bool, tmp_path: Path
) -> None:
    path = puzzle(tmp_path / "one.csv", fen, line)
    assert solved(scripted(played), path) == [right]


class Told:
    """Plays the line, and keeps what it is told of the game."""

    name = "told"

    def __init__(self, moves: str) -> None:
        self._moves = iter(moves.split())
        self.games: list[tuple] = []

    def choose_in_games(self, positions, games, rngs):
        self.games.append((list(games.moves[0]), int(games.repetitions[0])))
        white = not int(positions[0, 7]) >> 10 & 1
        return np.array([move_to_action(chess.Move.from_uci(next(self._moves)), white)])

    def choose(self, positions, rngs):
        pytest.fail("it looks at games")

    def close(self) -> None:
        pass


def test_a_player_is_told_the_line_so_far_and_nothing_before_it(tmp_path: Path) -> None:
    fen, line = "4k3/8/8/8/8/8/7r/R3K3 w Q - 5 40", "a1b1 h2h3 b1a1 h3h2 a1b1 h2h4"
    told = Told("h2h3 h3h2 h2h4")
    assert solved(told, puzzle(tmp_path / "one.csv", fen, line)) == [True]
    # Its third position occurred after the first move: the white rook's first step cost the castling right.
    assert [len(moves) for moves, _ in told.games] == [1, 3, 5]
    assert [repetitions for _, repetitions in told.games] == [0, 0, 1]


def test_an_illegal_choice_is_an_error_that_names_the_player(tmp_path: Path) -> None:
    class Wrong(Told):
        def choose_in_games(self, positions, games, rngs):
            return np.array([0])

    path = puzzle(tmp_path / "one.csv", PAWN, "h8g7 a7a8n")
    with pytest.raises(RuntimeError, match="'told' played illegal action 0 in"):
        solved(Wrong(""), path)


def test_bands_and_shares_are_counted_by_hand() -> None:
    tally = PuzzleTally(2)
    ratings = np.array([1000, 1249, 1250, 2999])
    batch = puzzles.PuzzleBatch(
        np.zeros((4, 8), np.uint64),
        np.zeros((4, 2), np.int16),
        np.full(4, 2),
        ratings,
        np.arange(4),
    )
    tally.add(batch, [np.array([True, False, True, False]), np.ones(4, np.bool_)])
    assert tally.total == 4
    assert tally.bands() == [(1000, 2, [1, 2]), (1250, 1, [1, 1]), (2750, 1, [0, 1])]
    lines = table(["a", "b"], tally)
    assert lines[1].split() == ["1000-1249", "2", "50.0", "(9.5-90.5)", "100.0", "(34.2-100.0)"]
    assert "half at of b cannot be told: all are solved" in lines
    assert max(map(len, lines)) <= 79
    first, second = to_dict(["a", "b"], tally)
    assert (first["puzzles"], first["solved"], first["share"]) == (4, 2, 0.5)
    assert [band["from"] for band in first["bands"]] == [1000, 1250, 2750]
    assert second["half_solved"]["rating"] is None


SUITE = r"""
6k1/5ppp/8/8/8/8/8/R3K3 w Q - bm Ra8# Kf2;
6k1/5ppp/8/8/8/8/8/R3K3 w Q - am Ra8;
6k1/5ppp/8/8/8/8/8/R3K3 w Q - dm 1;
7k/8/5K2/8/8/8/8/6Q1 w - - dm 2;
6k1/5ppp/8/8/8/8/8/R3K3 w Q - c8 "10 4"; c9 "a1a7 a1a8";
"""


@pytest.mark.parametrize(
    ("moves", "points"),
    [
        ("a1a8 a1a8 a1a8 g1g7 a1a8", [1, 0, 1, 1, 0.4]),
        ("e1f2 a1b1 a1a7 g1g2 a1a7", [1, 1, 0, 1, 1]),
        ("e1e2 e1c1 e1c1 g1a1 e1c1", [0, 1, 0, 0, 0]),
    ],
)
def test_points_of_a_suite_are_those_of_the_moves(
    moves: str, points: list[float], tmp_path: Path
) -> None:
    path = tmp_path / "suite.epd"
    path.write_text(SUITE)
    file = EpdFile(path)
    (batch,) = file.batches(16)
    found = epd_suites.solve(scripted(moves), batch, seed=0)
    assert found.tolist() == points
    tally = epd_suites.EpdTally(1)
    tally.add(batch, [found])
    assert tally.rows()[-1] == ("all", 5, [sum(points)])
    assert [row[:2] for row in tally.rows()[:-1]] == [
        ("bm", 1),
        ("am", 1),
        ("dm", 2),
        ("graded", 1),
    ]
    assert epd_suites.to_dict(["me"], tally)[0]["kinds"][-1]["share"] == sum(points) / 5


def test_more_than_three_players_stand_below_and_long_names_take_several_lines() -> None:
    names = ["a", "builtin", "/usr/games/stockfish (movetime_ms=40)", "x" * 40]
    tally = PuzzleTally(4)
    batch = puzzles.PuzzleBatch(
        np.zeros((1, 8), np.uint64), np.zeros((1, 2), np.int16), np.full(1, 2), np.full(1, 900), np.ones(1)
    )  # fmt: skip
    tally.add(batch, [np.ones(1, np.bool_)] * 4)
    lines = table(names, tally)
    assert max(map(len, lines)) <= 79
    heads = [line.split() for line in lines[:3]]
    assert heads == [
        ["/usr/games/"],
        ["stockfish"],
        ["rating", "puzzles", "a", "builtin", "(movetime_ms=40)"],
    ]
    assert [line.split()[0] for line in lines if line.startswith("all")] == ["all", "all"]
