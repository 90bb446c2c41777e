"""What the commands say fits into 80 columns, but for what is copied: a command, a path, a name."""

from __future__ import annotations

import io
import shlex
from typing import Any

import pytest
from rich.console import Console

from algorithms.collapse import CAUSES
from algorithms.collapse.experiment import CauseOutcome
from algorithms.core.checks import WIDTH, message_lines
from algorithms.doctor import diagnose
from algorithms.run_folder.console import LiveDisplay, PlainDisplay
from tests.commands.lab import unwrapped, wrapped_answer
from tests.doctor.rows import record
from tests.doctor.signatures import SIGNATURES


def too_wide(text: str) -> list[str]:
    """Lines of more than 80 columns that could have been broken: they hold more than one word."""
    return [line for line in text.splitlines() if len(line) > WIDTH and len(line.split()) > 1]


@pytest.mark.parametrize("case", SIGNATURES)
def test_the_outcome_of_a_cause_s_run_fits_80_columns(case: str) -> None:
    cause = CAUSES["weak_entropy_high_lr"]
    diagnosis = diagnose(record(**SIGNATURES[case].changes))
    readings = dict.fromkeys((each.reading for each in cause.predicates), 1 / 3)
    result: Any = None  # the lines do not read it
    lines = CauseOutcome(cause, False, 0, result, readings, diagnosis).lines()
    assert any(line.startswith("  doctor: ") for line in lines)
    assert too_wide("\n".join(lines)) == []


@pytest.mark.parametrize(
    "line",
    [
        "trian",
        "train grpo --policy.size huge",
        "train grpo --env.evaluator stockfsh",
        "train grpo --env.evaluator stockfish:path=/no/such/engine",
        "train ppo --preset strong",
        "train grpo --json /proc/x",
        "compare grpo --seeds 0 --out no-such-folder",
        "diagnose no-such-run",
        "causes show no_such_cause",
        "causes run kl_trap --network transformer",
        "eval example --games 3",
        "completion tcsh",
    ],
)
def test_a_common_mistake_is_answered_in_lines_of_80_columns(line: str) -> None:
    answer = wrapped_answer(*shlex.split(line))
    assert answer.code in (1, 2) and answer.err.startswith(("chess-lab", "usage: chess-lab"))
    assert too_wide(answer.out + answer.err) == []


def test_rows_code_and_long_words_stay_whole() -> None:
    row, code, path = "    " + "row " * 30, "`chess-lab " + "x" * 50 + " y`", "/" + "p" * 90
    text = f"{'word ' * 14}{code} and {path} end\n{row}\n\nlast"
    first, *lines, second, empty, last = message_lines(text)
    assert first == ("word " * 14).strip() and (second, empty, last) == (row, "", "last")
    assert lines == [f"  {code} and", f"  {path}", "  end"]
    assert unwrapped("\n".join(message_lines(text))) == text


def test_what_a_run_says_beside_its_rows_is_wrapped() -> None:
    for display in (LiveDisplay, PlainDisplay):
        stream = io.StringIO()
        display(10, Console(file=stream, width=200, highlight=False)).say("WARNING: " + "why " * 60)
        lines = stream.getvalue().splitlines()
        assert len(lines) == 4 and max(map(len, lines)) <= WIDTH
