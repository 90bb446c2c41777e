"""What is shown: a bar on a terminal, plain lines in a pipe."""

from __future__ import annotations

import io

from rich.console import Console

from algorithms.pretraining.display import PretrainDisplay

ROW = {"step": 10, "pretrain/loss": 2.5, "time/positions_per_s": 700.0}
EVALUATED = {**ROW, "eval/regret_cp": 123.4, "eval/regret_cp_greedy": 80.0}


def shown(terminal: bool) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=80, highlight=False)
    display = PretrainDisplay(20, console)
    with display.labelling("labelling positions", 100) as bar:
        bar.to(100, say=True)
    for row in (EVALUATED | {"step": 0}, ROW, EVALUATED | {"step": 20}):
        display.show(row, "")
    display.stop()
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_pipe_gets_plain_lines_of_what_was_evaluated() -> None:
    text = shown(terminal=False)
    assert "\x1b" not in text
    assert text.splitlines() == [
        "labelling positions 100/100",
        "before the first step: regret 123.4 cp, greedy 80.0 cp",
        "step 20/20  loss 2.500  700 positions/s  regret 123.4 cp, greedy 80.0 cp",
    ]


def test_a_terminal_gets_bars() -> None:
    text = shown(terminal=True)
    assert "\x1b" in text and "━" in text
    assert "100/100" in text and "20/20" in text
    assert "loss 2.500  regret 123.4 cp, greedy 80.0 cp" in text
