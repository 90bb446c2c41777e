"""Scores of real Stockfish: right, pure, and of every legal move."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import threading

import chess
import chess.engine
import numpy as np
import pytest

from chess_env import moves
from chess_env.evaluators import StockfishEvaluator, find_stockfish
from chess_env.rules import fen

pytestmark = pytest.mark.stockfish

MATED = "rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3"
STALEMATE = "7k/5Q2/6K1/8/8/8/8/8 b - - 0 1"
BARE_KINGS = "8/8/4k3/8/8/3K4/8/8 w - - 0 1"
MANY_MOVES = "R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KB1 w - - 0 1"
PROMOTIONS = "rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8"
BLACK_PROMOTES = "rnbqk2r/ppp1nNpp/8/2b5/8/2P5/PP1pBPPP/RNBQ1K1R b kq - 1 8"


def ask_one_at_a_time(positions: np.ndarray) -> list[int]:
    """Scores by a plain client that shares no code with the pool: write, wait for bestmove, next."""
    engine = subprocess.Popen(
        [str(find_stockfish())], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert engine.stdin and engine.stdout
    scores = []
    with engine:
        engine.stdin.write("setoption name Hash value 1\n")
        for text in fen.engine_fens(positions):
            engine.stdin.write(f"ucinewgame\nposition fen {text.decode()}\ngo depth 4\n")
            while not (line := engine.stdout.readline()).startswith("bestmove"):
                if " score " in line:
                    kind, number = line.split(" score ")[1].split()[:2]
            mate = 10_000 - int(number) if int(number) > 0 else -10_000 - int(number)
            scores.append(mate if kind == "mate" else int(number))
        engine.stdin.write("quit\n")
    return scores


def test_scores_equal_those_of_a_plain_client(
    stockfish: StockfishEvaluator, positions: np.ndarray
) -> None:
    assert stockfish.evaluate(positions[:40]).tolist() == ask_one_at_a_time(positions[:40])


def test_scores_do_not_depend_on_order_pool_size_or_form(
    stockfish: StockfishEvaluator, positions: np.ndarray
) -> None:
    positions = positions[::2]
    scores = stockfish.evaluate(positions)
    order = np.random.default_rng(0).permutation(len(positions))
    assert stockfish.evaluate(positions[order]).tolist() == scores[order].tolist()
    assert stockfish.evaluate(fen.to_fens(positions)).tolist() == scores.tolist()
    with StockfishEvaluator(num_engines=3) as three:
        assert three.evaluate(positions[order]).tolist() == scores[order].tolist()
    assert len(set(scores.tolist())) > 30, "the sample tells scores apart"


def test_rule_endings_are_decided_without_the_engine(stockfish: StockfishEvaluator) -> None:
    for pid in stockfish.engine_pids():
        os.kill(pid, signal.SIGSTOP)
    try:
        assert stockfish.evaluate([MATED, STALEMATE, BARE_KINGS]).tolist() == [-10_000, 0, 0]
        kings, mated, stalemate = stockfish.score_moves([BARE_KINGS, MATED, STALEMATE])
        assert kings.tolist() == [0] * 8 and not len(mated) and not len(stalemate)
    finally:
        for pid in stockfish.engine_pids():
            os.kill(pid, signal.SIGCONT)


def test_mate_in_one_scores_just_below_the_mate_score(stockfish: StockfishEvaluator) -> None:
    back_rank = "6k1/5ppp/8/8/8/8/8/R3K3 w Q - 0 1"
    mated_in_one = "7k/R7/8/8/8/8/8/1R4K1 b - - 0 1"
    assert stockfish.evaluate([back_rank]).tolist() == [9_999]
    with StockfishEvaluator(depth=8, num_engines=1) as deeper:
        assert deeper.evaluate([mated_in_one]).tolist() == [-9_999]


def test_illegal_fens_never_reach_an_engine(stockfish: StockfishEvaluator) -> None:
    engines = stockfish.engine_pids()
    for text in ("8/8/8/8/8/8/8/8 w - - 0 1", "x" * 100_000, MATED + "\nquit", "", "startpos"):
        with pytest.raises(ValueError, match=r"positions\[1\]") as error:
            stockfish.evaluate([MATED, text])
        assert len(str(error.value)) < 1000
    assert stockfish.engine_pids() == engines


@pytest.mark.parametrize("text", [MANY_MOVES, PROMOTIONS, BLACK_PROMOTES])
def test_every_legal_move_is_scored_in_the_order_of_the_legal_actions(
    stockfish: StockfishEvaluator, text: str
) -> None:
    (scores,) = stockfish.score_moves([text])
    board = chess.Board(text)
    board.halfmove_clock = (
        0  # a score is of the position without its clocks; Stockfish 17.1 damps by them
    )
    actions = moves.legal_actions(board)
    assert scores.dtype == np.int32 and len(scores) == len(actions)
    with chess.engine.SimpleEngine.popen_uci(str(stockfish.path)) as engine:
        infos = engine.analyse(board, chess.engine.Limit(depth=1), multipv=256)
    by_action = {}
    for info in infos:
        child = board.copy()
        child.push(info["pv"][0])
        score = info["score"].relative
        if child.is_game_over(claim_draw=False):
            value = 10_000 if child.is_checkmate() else 0
        elif score.is_mate():
            value = score.score(mate_score=10_000) + (score.mate() > 0)
        else:
            value = score.score()
        by_action[moves.move_to_action(info["pv"][0], board.turn)] = value
    assert scores.tolist() == [by_action[action] for action in actions.tolist()]


def test_move_scores_do_not_depend_on_order_or_on_what_was_asked_between(
    stockfish: StockfishEvaluator, positions: np.ndarray
) -> None:
    first = stockfish.score_moves(positions[:30])
    stockfish.evaluate(positions[60:90])
    again = stockfish.score_moves(positions[:30][::-1])[::-1]
    assert [scores.tolist() for scores in first] == [scores.tolist() for scores in again]
    assert [len(scores) for scores in first] == [
        chess.Board(text).legal_moves.count() for text in fen.to_fens(positions[:30])
    ]
    deeper = stockfish.score_moves(positions[:3], depth=3)
    assert [len(scores) for scores in deeper] == [len(scores) for scores in first[:3]]
    assert any(a.tolist() != b.tolist() for a, b in zip(deeper, first, strict=False))


def test_a_pickled_evaluator_gives_the_same_scores(
    stockfish: StockfishEvaluator, positions: np.ndarray
) -> None:
    with pickle.loads(pickle.dumps(stockfish)) as copy:
        assert copy.id == stockfish.id
        assert copy.evaluate(positions[:5]).tolist() == stockfish.evaluate(positions[:5]).tolist()


def test_counters_count(stockfish: StockfishEvaluator, positions: np.ndarray) -> None:
    before = stockfish.counters()
    stockfish.evaluate(np.concatenate([positions[:50], positions[:50]]))
    after = stockfish.counters()
    assert after["queries"] - before["queries"] == 100
    assert after["unique_queries"] - before["unique_queries"] == 50
    assert 0 <= after["engine_cpu_s"] - before["engine_cpu_s"] < 5
    assert after["engine_cpu_s"] > 0 and after["engine_restarts"] == before["engine_restarts"]


def test_the_fast_mode_is_named_in_the_id(positions: np.ndarray) -> None:
    with StockfishEvaluator(num_engines=1, pure=False) as fast:
        assert ";fast;" in fast.id
        scores = fast.evaluate(positions)
        assert fast.evaluate(positions[:1]).tolist() and len(scores) == len(positions)
        assert fast.counters()["engine_restarts"] == 0


def test_threads_may_share_an_evaluator(
    stockfish: StockfishEvaluator, positions: np.ndarray
) -> None:
    expected = stockfish.evaluate(positions).tolist()
    results: dict[int, list[int]] = {}

    def ask(first: int) -> None:
        results[first] = stockfish.evaluate(positions[first : first + 30]).tolist()

    threads = [threading.Thread(target=ask, args=(first,)) for first in range(0, 120, 30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [score for first in sorted(results) for score in results[first]] == expected


def test_many_queries_do_not_fill_the_pipes(positions: np.ndarray) -> None:
    flags = (np.arange(8, dtype=np.uint64)[:, None] % np.uint64(2)) << np.uint64(10)
    many = np.concatenate([positions] * 8)
    many[:, 7] ^= np.repeat(flags, len(positions))  # both colours of each position
    with StockfishEvaluator(nodes=1, num_engines=1) as evaluator:
        job_queries = fen.engine_fens(many)
        answers, error = evaluator._ask(
            job_queries, "nodes 1", 1, lambda _, reply: len(reply), 30.0
        )
    assert error is None and len(answers) == len(many) == 960 and min(answers) > 0
