"""The live table fits 80 columns; a pipe gets plain lines; NO_COLOR is respected."""

from __future__ import annotations

import io
import math

import pytest
from rich.console import Console

from algorithms.run_folder.console import (
    LiveDisplay,
    PlainDisplay,
    duration,
    make_display,
    number,
    policy_fact,
    sparkline,
)

ROW = {
    "step": 1234.0, "plies": 123_456.0, "scored_moves": 987_654.0, "policy/entropy": 3.21,
    "policy/entropy_normalized": 0.954, "policy/approx_kl": 0.00213,
    "policy/clip_fraction_low": 0.031, "policy/clip_fraction_high": 0.052,
    "rollout/reward_mean": -0.3219, "rollout/cache_hit_fraction": 0.127, "train/loss": -12.345,
    "train/grad_norm": 123.45, "train/learning_rate": 0.00085, "time/plies_per_s": 12_345.0,
    "time/moves_per_s": 98_765.0, "time/evaluations_per_s": 87_654.0, "time/cpu_s": 45_296.0,
    "eval/regret_cp": 1362.5, "eval/regret_cp_greedy": 1298.2, "eval/entropy": 3.36,
    "eval/entropy_normalized": 0.998,
}  # fmt: skip


def _console(*, terminal: bool) -> tuple[Console, io.StringIO]:
    stream = io.StringIO()
    return Console(file=stream, width=80, force_terminal=terminal, highlight=False), stream


def test_the_table_fits_80_columns_with_its_largest_numbers() -> None:
    console, stream = _console(terminal=False)
    display = LiveDisplay(1_000_000, console)
    for step in range(70):
        display._row.update({**ROW, "step": float(step)})
        display._evaluations.append(dict(display._row))
    console.print(display.render())
    text = stream.getvalue()
    assert max(map(len, text.splitlines())) <= 80 and "…" not in text
    for shown in ("3.21 nats", "0.95", "0.0021", "3 %", "5 %", "12,345", "87,654", "13 %",
                  "12:34:56", "987,654 of 1,000,000 moves", "1,362.5", "100 %", "1,298.2"):  # fmt: skip
        assert shown in text, shown
    # One name for one quantity: entropy_normalized in both tables, and the flag --optimizer.learning-rate.
    assert text.count("normalized") == 2 and text.count("learning rate") == 1


def test_the_policy_is_said_with_its_network_and_where_it_computes() -> None:
    one = policy_fact("move_net medium", 148_679, device="cpu", num_threads=1)
    assert one == "move_net medium, 148,679 parameters on cpu (1 thread)"
    assert policy_fact("mine:Net", 9, device="cuda", num_threads=16).endswith(
        "on cuda (16 threads)"
    )


def test_a_pipe_gets_plain_lines_and_a_terminal_the_table() -> None:
    console, stream = _console(terminal=False)
    display = make_display(1_000_000, console)
    assert isinstance(display, PlainDisplay)
    display.start("a run", {"rewards": "builtin"})
    display.show({"step": 0.0, "scored_moves": 0.0, "eval/regret_cp": 362.0}, "")
    display.show({k: v for k, v in ROW.items() if not k.startswith("eval/")}, "")  # too soon
    display.show(ROW, "")
    lines = stream.getvalue().splitlines()
    assert len(lines) == 4 and "\x1b" not in stream.getvalue()
    assert "regret 362.0 cp, entropy -" in lines[2]
    held_out = f"regret 1,362.5 cp, entropy {ROW['eval/entropy']:.2f}"
    assert held_out in lines[3] and ROW["eval/entropy"] != ROW["policy/entropy"]
    assert isinstance(make_display(10, _console(terminal=True)[0]), LiveDisplay)


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    colour = "\x1b[1;36m"  # the bold cyan of the column titles
    for value, coloured in (("", True), ("1", False)):
        monkeypatch.setenv("NO_COLOR", value)
        monkeypatch.setenv("TERM", "xterm-256color")
        console, stream = _console(terminal=True)
        display = LiveDisplay(1_000_000, console)
        display.start("a run", {})
        display.show(ROW, "")
        display.stop()
        assert (colour in stream.getvalue()) == coloured


def test_numbers_keep_their_meaning_in_a_narrow_column() -> None:
    assert [number(v, 4) for v in (0.0021, 0.00001, 0.0, None, math.nan)] == [
        "0.0021", "1e-05", "0.0000", "-", "-",
    ]  # fmt: skip
    assert [duration(s) for s in (0, 59.6, 3_725)] == ["0:00", "1:00", "1:02:05"]
    assert sparkline([360, 180, 0]) == "█▅▁" and sparkline([]) == ""


LONG = (
    "doctor: collapse: sampled_entropy_bonus (97%), saturated_controller (95%); reward the exact entropy "
    "(regularizer.ent_estimator exact)"
)


@pytest.mark.parametrize("status", ["trial 3: fell behind", LONG])
def test_the_watcher_s_line_fits_80_columns_in_the_table_and_in_a_pipe(status: str) -> None:
    console, table = _console(terminal=False)
    live = LiveDisplay(1_000_000, console)
    live._row.update(ROW)
    live._status = status
    console.print(live.render())
    console, pipe = _console(terminal=False)
    PlainDisplay(1_000_000, console).show(ROW, status)
    for text in (table.getvalue(), pipe.getvalue()):
        assert max(map(len, text.splitlines())) <= 80
        assert status in " ".join(text.split())
        assert text.count("doctor") == status.count("doctor")  # nobody else's name before it
