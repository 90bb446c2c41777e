"""A run ends with a sentence on what was learned, says that it ends, and fits 80 columns."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from algorithms.run_folder.console import LiveDisplay, PlainDisplay
from algorithms.run_folder.stopping import Stop
from algorithms.training.result import learned

STOCKFISH = "stockfish-15.1;net=nn-ad9b42354671;Hash=1;Threads=1;depth=4;pure;v1"


@pytest.mark.parametrize(
    ("start", "end", "told_apart", "says"),
    [
        (384.7, 99.8, True, "Learned: on positions kept out of training a move costs 99.8 "
         "centipawns on average, down from 384.7."),
        (99.8, 384.7, True, "Got worse: on positions kept out of training a move costs 384.7 "
         "centipawns on average, up from 99.8."),
        (384.7, 384.5, True, "Hardly anything learned yet: on positions kept out of training a move "
         "costs 384.5 centipawns on average, and 384.7 before."),
        (384.7, 384.2, False, "Nothing can be said to be learned: on positions kept out of training "
         "a move costs 384.2 centipawns, and 384.7 before."),
    ],
)  # fmt: skip
def test_one_sentence_says_what_was_learned(
    start: float, end: float, told_apart: bool, says: str
) -> None:
    lines = learned(start, end, told_apart=told_apart)
    assert " ".join(line.strip() for line in lines) == says
    assert max(map(len, lines)) <= 80


def test_a_stop_is_said_once() -> None:
    said: list[str] = []
    stop = Stop()
    assert not stop.asked(said.append) and said == []
    stop.name = "SIGINT"
    assert stop.asked(said.append) and stop.asked(said.append)
    assert said == ["SIGINT: a last evaluation and a checkpoint, then the end (once more: at once)"]


@pytest.mark.parametrize("kind", [PlainDisplay, LiveDisplay])
def test_what_a_display_prints_line_by_line_fits_80_columns(
    kind: type[PlainDisplay] | type[LiveDisplay],
) -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=False, highlight=False)
    display = kind(10_000_000, console)
    display.start("grpo on chess self-play, seed 0", {"rewards": STOCKFISH, "policy": "small"})
    row = {
        "step": 19_500.0, "scored_moves": 9_876_543.0, "policy/entropy": 3.21,
        "policy/approx_kl": 0.00213, "eval/regret_cp": 384.7, "eval/regret_cp_greedy": 298.2,
        "eval/entropy": 3.36, "eval/entropy_normalized": 0.998,
    }  # fmt: skip
    display.show(row, "entropy falls faster than the bonus can hold it: " + "long " * 20)
    display.stop()
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert STOCKFISH in text
    assert max(map(len, text.splitlines())) <= 80
