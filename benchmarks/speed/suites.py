"""Lines a second of the readers of puzzles and EPD suites, and what they hold in memory.

    python -m benchmarks.speed.suites [--json benchmarks/results/suites.json]

The files are made up: 500,000 lines drawn from some true ones, plain and packed by gzip. Each is read whole, batch by
batch, by one process pinned to one core. A row has CPU seconds, the median over the rounds, and the peak of what Python
holds while a tenth of the file and the whole of it are read. "python-chess" reads the puzzles with a board for each.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import os
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chess
import numpy as np

from benchmarks.records.report import print_table, save
from chess_env.positions.epd_suites import EpdFile
from chess_env.positions.puzzles import PuzzleFile

LINES = 500_000
READABLE = 2_000
BATCH = 128
HEADER = "PuzzleId,FEN,Moves,Rating,RatingDeviation,Popularity,NbPlays,Themes,GameUrl,OpeningTags"
PUZZLES = (
    "00008,r6k/pp2r2p/4Rp1Q/3p4/8/1N1P2R1/PqP2bPP/7K b - - 0 24,f2g3 e6e7 b2b1 b3c1 b1c1 h6c1,1913,75,94,6230,"
    "crushing hangingPiece long middlegame,https://lichess.org/787zsVup/black#48,",
    "0000D,5rk1/1p3ppp/pq3b2/8/8/1P1Q1N2/P4PPP/3R2K1 w - - 2 27,d3d6 f8d8 d6d8 f6d8,1518,74,96,28160,"
    "advantage endgame short,https://lichess.org/F8M8OS71#53,",
    "0009B,r2qr1k1/b1p2ppp/pp4n1/P1P1p3/4P1n1/B2P2Pb/3NBP1P/RN1QR1K1 b - - 1 16,b6c5 e2g4 h3g4 d1g4,1107,74,87,562,"
    "advantage middlegame short,https://lichess.org/4MWQCxQ6/black#32,Kings_Pawn_Game "
    "Kings_Pawn_Game_Leonardis_Variation",
)  # fmt: skip
EPD = (
    '1kr5/3n4/q3p2p/p2n2p1/PppB1P2/5BP1/1P2Q2P/3R2K1 w - - bm f5; id "a.001"; c0 "f5=10, Be5+=2, Bf2=3, Bg4=2"; '
    'c7 "f5 Be5+ Bf2 Bg4"; c8 "10 2 3 2"; c9 "f4f5 d4e5 d4f2 f3g4";',
    '2rr3k/pp3pp1/1nnqbN1p/3pN3/2pP4/2P3Q1/PPB4P/R4RK1 w - - bm Qg6; id "b;001";',
    "rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR w KQkq - 0 2 am Ke2 f3;",
)
Reader = Callable[[Path], int]


def read_puzzles(path: Path) -> int:
    file = PuzzleFile(path)
    read = sum(map(len, file.batches(BATCH)))
    assert not file.left_out.total, file.left_out.first
    return read


def read_epd(path: Path) -> int:
    file = EpdFile(path)
    read = sum(map(len, file.batches(BATCH)))
    assert not file.left_out.total + file.not_judged.total, file.left_out.first
    return read


def by_python_chess(path: Path) -> int:
    with path.open(encoding="utf-8") as file:
        for line in itertools.islice(file, 1, 1 + READABLE):
            fields = line.split(",")
            board = chess.Board(fields[1])
            assert board.is_valid()
            for word in fields[2].split():
                board.push_uci(word)
    return READABLE


def peak_kb(read: Reader, path: Path) -> int:
    tracemalloc.start()
    read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak // 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=None, help="write the figures here too")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    drawn = np.random.default_rng(options.seed).integers(0, 3, LINES).tolist()
    with tempfile.TemporaryDirectory() as folder:
        files: dict[str, Path] = {}
        for name, head, lines in (("puzzles", [HEADER], PUZZLES), ("EPD", [], EPD)):
            text = "\n".join([*head, *(lines[k] for k in drawn)]) + "\n"
            files[name] = Path(folder) / name
            files[name].write_text(text, encoding="utf-8")
            files[f"{name}, a tenth"] = Path(folder) / f"{name}.tenth"
            part = "\n".join([*head, *(lines[k] for k in drawn[: LINES // 10])])
            files[f"{name}, a tenth"].write_text(part, encoding="utf-8")
        for size in ("", ", a tenth"):
            packed = files[f"puzzles, gzip{size}"] = Path(folder) / f"packed{size}"
            packed.write_bytes(gzip.compress(files[f"puzzles{size}"].read_bytes(), 6))
        contestants: dict[str, tuple[Reader, Path]] = {
            "puzzles": (read_puzzles, files["puzzles"]),
            "puzzles, gzip": (read_puzzles, files["puzzles, gzip"]),
            "EPD": (read_epd, files["EPD"]),
            "puzzles, python-chess": (by_python_chess, files["puzzles"]),
        }
        read_puzzles(files["puzzles, a tenth"])  # compiled, and in the cache
        read_epd(files["EPD, a tenth"])
        rates: dict[str, list[float]] = {name: [] for name in contestants}
        for _ in range(options.rounds):
            for name, (read, path) in contestants.items():
                start = time.process_time()
                rates[name].append(read(path) / (time.process_time() - start))
        rows = []
        for name, found in rates.items():
            row: dict[str, Any] = {"reader": name}
            row |= {"lines_per_cpu_second": round(statistics.median(found))}
            row |= {"lowest": round(min(found)), "highest": round(max(found))}
            row |= {"peak_kb_of_a_tenth": "", "peak_kb": ""}
            if f"{name}, a tenth" in files:
                read, path = contestants[name]
                row["peak_kb_of_a_tenth"] = peak_kb(read, files[f"{name}, a tenth"])
                row["peak_kb"] = peak_kb(read, path)
            rows.append(row)
    print_table(rows)
    save(options.json, "suites", rows, rounds=options.rounds, lines=LINES, batch=BATCH)


if __name__ == "__main__":
    main()
