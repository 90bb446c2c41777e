"""A run ends with commands that fit its kind and can be copied."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import pytest

from algorithms.commands import run_end
from algorithms.config.files import to_dict
from algorithms.config.foreign import trusting_commands
from algorithms.config.names import named_run

RUN = Path("runs/grpo-20300101-120000-seed0")


def commands(lines: list[str]) -> list[str]:
    assert lines[0] == "next:"
    assert max(map(len, "\n".join(lines).splitlines())) <= 80
    whole = "\n".join(lines[1:]).replace(" \\\n   ", "")  # as a shell reads them
    return [line.split("#")[0].strip() for line in whole.splitlines()]


def test_the_next_commands_fit_the_kind_of_run() -> None:
    def after(*, resume: bool = False, smoke: bool = False) -> list[str]:
        lines = run_end.after_training(RUN, ["rloo"], resume=resume, smoke=smoke)
        return [line.removeprefix("chess-lab ") for line in commands(lines)]

    whole = [f"report {RUN}", f"eval {RUN}", f"board {RUN}"]
    assert after() == whole
    assert after(resume=True) == [f"train --resume {RUN}", f"diagnose {RUN}", f"report {RUN}"]
    assert after(smoke=True) == ["train rloo", f"report {RUN}", f"eval {RUN} --positions"]


def test_the_next_commands_of_a_run_with_own_parts_ask_for_the_trust_that_they_need() -> None:
    after = functools.partial(
        run_end.after_training, RUN, ["rloo"], trusting={"train", "board", "eval"}
    )
    assert commands(after(resume=True, smoke=False))[0] == f"chess-lab train --resume {RUN} --trust"
    assert (
        commands(after(resume=False, smoke=True))[2] == f"chess-lab eval {RUN} --trust --positions"
    )
    assert commands(after(resume=False, smoke=False))[2] == f"chess-lab board {RUN} --trust"
    stopped = run_end.after_pretraining(RUN, stopped=True, smoke=False, trusting={"pretrain"})
    assert commands(stopped)[0] == f"chess-lab pretrain --resume {RUN} --trust"
    grpo = to_dict(named_run("grpo"))
    assert trusting_commands(grpo) == set()
    own = grpo | {"policy": {"network": "mine:Net"}}
    assert trusting_commands(own) == {"train", "pretrain", "board", "eval", "uci"}


def test_the_next_commands_after_pretraining_go_on_from_its_best_policy() -> None:
    best = RUN / "checkpoints" / "best"
    first = f"chess-lab train grpo --init-from {best}"
    assert commands(run_end.after_pretraining(RUN, stopped=False, smoke=False))[0] == first
    resume = f"chess-lab pretrain --resume {RUN}"
    assert commands(run_end.after_pretraining(RUN, stopped=True, smoke=False))[0] == resume
    # A smoke run's network is smaller than that of `train grpo`, which could not start from it.
    smoke = commands(run_end.after_pretraining(RUN, stopped=False, smoke=True))
    assert smoke[0] == "chess-lab pretrain"


def test_commands_can_be_copied_whatever_the_folder_and_the_way_they_were_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (line,) = run_end.next_commands((("report", "my run"), "one page"))[1:]
    assert line == "  chess-lab report 'my run'  # one page"
    monkeypatch.setattr("sys.argv", [".venv/bin/chess-lab", "train", "grpo"])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run_end.program() == [".venv/bin/chess-lab"]
    monkeypatch.setattr("sys.argv", ["algorithms/cli.py"])
    assert run_end.program() == [sys.executable, "-P", "-m", "algorithms.cli"]
    monkeypatch.setattr("sys.argv", [".venv/bin/chess-lab", "train", "grpo"])
    program = tmp_path / "chess-lab"
    program.touch(mode=0o755)
    assert run_end.program() == [".venv/bin/chess-lab"]  # PATH finds another one
    monkeypatch.setattr("sys.argv", [str(program)])
    assert run_end.program() == ["chess-lab"]
    monkeypatch.setattr("sys.argv", ["algorithms/cli.py"])
    assert run_end.program() == ["chess-lab"]
