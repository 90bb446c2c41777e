"""UCI in both directions: what an engine says to the project, and what a GUI says to `chess-lab uci`."""

from __future__ import annotations

import io
import queue
from pathlib import Path
from typing import Any

import chess
import numpy as np

from benchmarks.reliability.fuzz.judge import Target
from benchmarks.reliability.fuzz.recipes import Choices, damaged
from chess_env.evaluators.uci import (
    MATE_SCORE,
    EngineError,
    Handshake,
    action_of_uci,
    parse_best_move,
    parse_move_scores,
    parse_score,
)

HANDSHAKE = (
    b"Stockfish 15.1 by the Stockfish developers (see AUTHORS file)\nid name Stockfish 15.1\nid author T. Romstad\n\n"
    b"option name Debug Log File type string default \noption name Threads type spin default 1 min 1 max 512\n"
    b"option name Hash type spin default 16 min 1 max 33554432\noption name Clear Hash type button\n"
    b"option name MultiPV type spin default 1 min 1 max 500\noption name UCI_Chess960 type check default false\n"
    b"option name Style type combo default Normal var Solid var Normal\nuciok\n"
)
REPLIES = (
    b"info string NNUE evaluation using nn-ad9b42354671.nnue enabled\n"
    b"info depth 1 seldepth 1 multipv 1 score cp 38 nodes 20 nps 20000 time 1 pv d2d4\n"
    b"info depth 2 seldepth 2 multipv 1 score cp 82 nodes 40 time 1 pv d2d4 a7a6",
    b"info depth 5 seldepth 6 multipv 1 score mate 2 nodes 190 pv e2e4 e7e5\ninfo depth 6 score mate -1 pv a1a2",
    b"info depth 3 score cp -12 upperbound nodes 5 pv a7a8q\ninfo depth 3 score cp 10034 lowerbound nodes 9 pv e1g1",
    b"info depth 1 multipv 1 score cp 5 pv e2e4\ninfo depth 1 multipv 2 score mate 1 pv d2d4\n"
    b"info depth 1 multipv 3 score mate -3 pv g1f3",
    b"info depth 0 score cp 0\n",
)
_WORDS = (
    *b"info depth score cp mate lowerbound pv nodes e2e4 a7a8q 0000 -10000 200 -200".split(),
    *b"min max default type spin var uciok".split(),
    b" multipv 1 ",
    b"\n",
    b"\r\n",
    b"info depth 1 score cp 1 pv e2e4\n",
    b"option name X type spin default 1 min 2 max 1\n",
)
_OPTIONS = {"Threads": 1, "Hash": 16, "MultiPV": 218}


def uci_engine(scratch: Path) -> Target:
    """An engine's answers to `uci` and to `go`; a score lies between those of being mated and of mating."""
    readers = (_score, _move_scores, _best_move)

    def check(data: bytes) -> str | None:
        if b"option name" in data or b"id name" in data:
            try:
                Handshake.parse(data.decode("utf-8", "replace")).commands(_OPTIONS).decode()
            except (ValueError, EngineError) as error:
                return str(error)
            return None
        refusals = []
        for reader in readers:
            try:
                reader(data)
            except ValueError as error:
                refusals.append(str(error))
        return max(refusals, key=len) if len(refusals) == len(readers) else None

    def make(choices: Choices) -> bytes:
        return damaged((HANDSHAKE,) if choices.below(4) == 0 else REPLIES, choices, _WORDS)

    return Target(check, make)


def _score(reply: bytes) -> None:
    score = parse_score(reply)
    assert abs(score) <= MATE_SCORE, score
    assert np.array([score], np.int32)[0] == score


def _move_scores(reply: bytes) -> None:
    for score in parse_move_scores(reply).values():
        assert abs(score) <= MATE_SCORE, score


def _best_move(reply: bytes) -> None:
    action = action_of_uci(False).get(parse_best_move(reply))
    if action is None:
        raise ValueError("no move of the action table")  # as `StockfishEvaluator.best_moves` has it


GUI = (
    b"uci\nsetoption name Temperature value 100\nsetoption name Seed value 7\nisready\nucinewgame\n"
    b"position startpos moves e2e4 e7e5\ngo movetime 100\n",
    b"isready\nposition fen r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1 moves e1g1 e8c8\n"
    b"go searchmoves f1f8 g1h1\nstop\nquit\n",
    b"position startpos\ngo infinite\nisready\nstop\ngo ponder\nponderhit\ngo depth 3\n",
    b"setoption name MultiPV value 3\nsetoption name TopK value 2\nposition fen 7k/5Q2/6K1/8/8/8/8/8 b - - 0 1\ngo\n",
    b"debug on\nregister later\nxyzzy go\nposition startpos moves e2e4 e2e4\ngo wtime 1000 btime 1000\n",
)
_GUI_WORDS = (
    *b"uci isready ucinewgame stop ponderhit quit go infinite ponder searchmoves position startpos fen moves".split(),
    *b"e2e4 e7e8Q e1g1 0000 setoption name value Temperature MultiPV Seed TopK".split(),
    b"\n",
    b"\r\n",
    b"\ngo\n",
    b"\nisready\n",
)
_SAYS = ("id", "option", "uciok", "readyok", "bestmove", "info")
_MOST_INPUT = 2048  # bytes: each of thousands of `go` takes a millisecond
_MOST_LINE = 2000  # characters: the 218 moves of a MultiPV are in lines of their own


def uci_commands(scratch: Path) -> Target:
    """What a GUI writes: each `isready` and `go` is answered, by lines of UCI, and the end of the input ends it.

    All is as in `serve` but for its threads, one of which would stay with every input: the lines are read first, and
    each move is computed when it is asked for.
    """
    import torch

    from algorithms.networks.build import build_policy
    from algorithms.networks.settings import NetworkConfig
    from algorithms.playing.policy_moves import PolicyMoves
    from algorithms.playing.uci import engine
    from algorithms.playing.uci.conversation import Conversation
    from algorithms.playing.uci.protocol import Go, Word

    torch.set_num_threads(1)
    network = NetworkConfig(network="resnet", channels=8, blocks=1, head_dim=8)
    thinker = PolicyMoves(build_policy(network, seed=0, device=torch.device("cpu")))

    def check(data: bytes) -> str | None:
        heard: list[Any] = []
        engine._read(io.BytesIO(data), heard.append)
        loaded = len(data) % (len(heard) + 1)
        events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for event in (*heard[:loaded], engine._Loaded(), *heard[loaded:]):
            events.put(event)
        said = io.BytesIO()
        talk = Conversation("fuzz", lambda request: events.put(thinker(request)))
        engine._converse(talk, events, said)
        lines = said.getvalue().decode("ascii").splitlines()
        for line in lines:
            assert line.isprintable() and len(line) <= _MOST_LINE, line[:300]
            assert line.split(" ")[0] in _SAYS, line[:300]
        moves = [line.split(" ")[1] for line in lines if line.startswith("bestmove ")]
        assert all(move == "(none)" or chess.Move.from_uci(move) for move in moves)
        if Word.QUIT not in heard:
            assert lines.count("readyok") == heard.count(Word.IS_READY), lines[-5:]
            assert len(moves) == sum(isinstance(command, Go) for command in heard), lines[-5:]
        complaints = [line for line in lines if line.startswith("info string")]
        return max(complaints, key=len) if complaints else None

    return Target(check, lambda choices: damaged(GUI, choices, _GUI_WORDS)[:_MOST_INPUT])
