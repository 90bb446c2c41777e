"""What a browser sends to the board: questions about a game, and games as PGN."""

from __future__ import annotations

import json
from pathlib import Path

import chess

from algorithms.board.pgn import read_pgn, write_pgn
from algorithms.board.positions import (
    BadRequestError,
    body_of,
    facts_of,
    game_at,
    game_of,
    temperature_of,
)
from benchmarks.reliability.fuzz.chess_targets import FENS, GAMES, PGN_WORDS
from benchmarks.reliability.fuzz.judge import Target
from benchmarks.reliability.fuzz.recipes import Choices, damaged

_WORDS = (
    *b'null true -1 1e999 NaN 1.5 "" [] {} "at" "fen" "moves" "temperature" "e2e4" "0000" "e7e8q" "\\ud800"'.split(),
    b'{"moves":[',
    b"[" * 50,
)


def board_question(scratch: Path) -> Target:
    """A question about a place in a game; what is told of it is what python-chess says of the same moves."""
    seeds = [json.dumps({"fen": fen, "moves": [], "temperature": 0.5}).encode() for fen in FENS] + [
        b'{"moves": ["e2e4", "e7e5", "g1f3", "b8c6"], "at": 2, "policy": "x", "temperature": 1}'
    ]

    def check(data: bytes) -> str | None:
        try:
            values = body_of(data)
            game, temperature = game_of(values), temperature_of(values)
        except BadRequestError as error:
            return str(error)
        assert 0 <= temperature <= 5
        board = chess.Board(game.fen or chess.STARTING_FEN)
        for move in game.moves[: game.at]:
            board.push_uci(move)
        told = facts_of(game)
        assert told["fen"] == board.fen() and len(told["men"]) == 64
        if told["over"] is None:
            legal = {move["uci"] for move in told["legal"]}
            assert legal == {move.uci() for move in board.legal_moves}
        return None

    return Target(check, lambda choices: damaged(seeds, choices, _WORDS))


def board_pgn(scratch: Path) -> Target:
    """A game as a user pastes it; an accepted one is the same after it is written and read again."""

    def check(data: bytes) -> str | None:
        try:
            found = read_pgn(data.decode("utf-8", "replace"))
        except BadRequestError as error:
            return str(error)
        moves = tuple(found["moves"])
        text = write_pgn(game_at(found["fen"] or None, moves, len(moves)), white="a", black="b")
        if moves:
            again = read_pgn(text)
            assert again["moves"] == [*moves] and again["note"] == ""
        return None

    def make(choices: Choices) -> bytes:
        return damaged(GAMES, choices, PGN_WORDS)

    return Target(check, make)
