"""A run ends with a sentence on what was learned and commands that can be copied."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from algorithms.training import ending
from algorithms.training.console import LiveDisplay, PlainDisplay
from algorithms.training.stopping import Stop

STOCKFISH = "stockfish-15.1;net=nn-ad9b42354671;Hash=1;Threads=1;depth=4;pure;v1"
RUN = Path("runs/grpo-20300101-120000-seed0")


@pytest.mark.parametrize(
    ("start", "end", "told_apart", "says"),
    [
        (384.7, 99.8, True, "Learned: on positions kept out of training a move costs 99.8 "
         "centipawns on average, down from 384.7."),
        (99.8, 384.7, True, "Got worse: on positions kept out of training a move costs 384.7 "
         "centipawns on average, up from 99.8."),
        (384.7, 384.2, False, "Nothing can be said to be learned: on positions kept out of training "
         "a move costs 384.2 centipawns, and 384.7 before."),
    ],
)  # fmt: skip
def test_one_sentence_says_what_was_learned(
    start: float, end: float, told_apart: bool, says: str
) -> None:
    lines = ending.learned(start, end, told_apart=told_apart)
    assert " ".join(line.strip() for line in lines) == says
    assert max(map(len, lines)) <= 80


def commands(lines: list[str]) -> list[str]:
    assert lines[0] == "next:"
    assert max(map(len, "\n".join(lines).splitlines())) <= 80
    whole = "\n".join(lines[1:]).replace(" \\\n   ", "")  # as a shell reads them
    return [line.split("#")[0].strip() for line in whole.splitlines()]


def test_the_next_commands_fit_the_kind_of_run() -> None:
    def after(*, stopped: bool = False, smoke: bool = False, own: bool = True) -> list[str]:
        lines = ending.after_training(RUN, "rloo", stopped=stopped, smoke=smoke, own=own)
        return [line.removeprefix("chess-lab ") for line in commands(lines)]

    whole = [f"report {RUN}", f"eval {RUN}", f"uci {RUN}"]
    assert after() == after(own=False) == whole
    assert after(stopped=True) == [f"train --resume {RUN}", f"diagnose {RUN}", f"report {RUN}"]
    assert after(stopped=True, own=False) == whole  # MaskablePPO's runs cannot be continued
    assert after(smoke=True) == ["train rloo", f"report {RUN}", f"eval {RUN} --positions"]


def test_the_next_commands_after_pretraining_go_on_from_its_best_policy() -> None:
    best = RUN / "checkpoints" / "best"
    first = f"chess-lab train grpo --init-from {best}"
    assert commands(ending.after_pretraining(RUN, stopped=False, smoke=False))[0] == first
    resume = f"chess-lab pretrain --resume {RUN}"
    assert commands(ending.after_pretraining(RUN, stopped=True, smoke=False))[0] == resume
    # A smoke run's network is smaller than that of `train grpo`, which could not start from it.
    smoke = commands(ending.after_pretraining(RUN, stopped=False, smoke=True))
    assert smoke[0] == "chess-lab pretrain"


def test_commands_can_be_copied_whatever_the_folder_and_the_way_they_were_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (line,) = ending.next_commands((("report", "my run"), "one page"))[1:]
    assert line == "  chess-lab report 'my run'  # one page"
    monkeypatch.setattr("sys.argv", [".venv/bin/chess-lab", "train", "grpo"])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ending.program() == ".venv/bin/chess-lab"
    program = tmp_path / "chess-lab"
    program.touch(mode=0o755)
    assert ending.program() == ".venv/bin/chess-lab"  # PATH finds another one
    monkeypatch.setattr("sys.argv", [str(program)])
    assert ending.program() == "chess-lab"
    monkeypatch.setattr("sys.argv", ["algorithms/cli.py"])
    assert ending.program() == "chess-lab"


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
