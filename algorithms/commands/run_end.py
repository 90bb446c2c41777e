"""The end of a run on the terminal: its result, and the commands that come next."""

from __future__ import annotations

import shlex
import shutil
import signal
import sys
from collections.abc import Container, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from algorithms.commands.result_files import write_json
from algorithms.core.checks import WIDTH

if TYPE_CHECKING:
    from algorithms.pretraining.loop import PretrainResult
    from algorithms.training.result import TrainResult

Step = tuple[Sequence[str], str]
"""The words of a command after the program's name, and its purpose."""


def end_of_run(
    result: TrainResult | PretrainResult, json: Path | None, further: Sequence[str]
) -> int:
    """Exit code; prints the result, what stopped the run, and the commands that go on from it.

    Args:
        result: of the run.
        json: the file that --json names.
        further: the last lines.
    """
    print("\n".join(["", *result.lines()]))
    write_json(json, result.to_dict())
    stopped_by, code = result.stopped_by, code_of(result)
    if stopped_by is not None:
        print(f"stopped{' by' if code else ':'} {stopped_by}")
    print("\n".join(further))
    return code


def code_of(result: TrainResult | PretrainResult) -> int:
    """Exit code of a run: 0, or that of the signal that stopped it."""
    name = result.stopped_by
    return 128 + signal.Signals[name].value if name and name in signal.Signals.__members__ else 0


def after_training(
    run_dir: Path,
    begin: Sequence[str],
    *,
    resume: bool,
    smoke: bool,
    trusting: Container[str] = (),
) -> list[str]:
    """Lines that name the next three commands after `chess-lab train`.

    Args:
        run_dir: the run folder.
        begin: the words that begin such a run: its name, and the settings that have one.
        resume: whether a signal ended it and it can go on.
        smoke: whether it was a run of a few seconds.
        trusting: commands that use code from outside the project which the run's settings name.
    """
    run = str(run_dir)

    def on(command: str, *words: str) -> list[str]:
        return [command, *words, run, *(["--trust"] if command in trusting else [])]

    report, play = (("report", run), "one HTML page"), (on("board"), "play it in the browser")
    if resume:
        goes_on = on("train", "--resume"), "goes on"
        return next_commands(goes_on, (("diagnose", run), "how it does so far"), report)
    if smoke:
        judge = [*on("eval"), "--positions"], "its single moves"
        return next_commands((("train", *begin), "a real run: minutes"), report, judge)
    return next_commands(report, (on("eval"), "its strength in games: minutes"), play)


def after_pretraining(
    run_dir: Path, *, stopped: bool, smoke: bool, trusting: Container[str] = ()
) -> list[str]:
    """Lines that name the next three commands after `chess-lab pretrain`; arguments as of `after_training`."""
    run, best = str(run_dir), str(run_dir / "checkpoints" / "best")

    def trust(command: str) -> list[str]:
        return ["--trust"] if command in trusting else []

    judge = ("eval", best, *trust("eval"), "--positions"), "its single moves"
    report = ("report", run), "one HTML page"
    if stopped:
        first: Step = ("pretrain", "--resume", run, *trust("pretrain")), "goes on"
    elif smoke:
        first = ("pretrain",), "a real run"
    else:
        first = ("train", "grpo", "--init-from", best), "goes on by self-play"
    return next_commands(first, judge, report)


def with_trust(arguments: Sequence[str]) -> str:
    """The command line with --trust, to be copied."""
    return f"    {shlex.join([*program(), *arguments, '--trust'])}"


def next_commands(*steps: Step) -> list[str]:
    """Lines that can be copied: one command each, with its purpose where 80 columns are enough."""
    commands = [_folded(shlex.join([*program(), *words])) for words, _ in steps]
    notes = [f"  # {note}" for _, note in steps]
    width = max(map(len, commands))
    fits = 2 + width + max(map(len, notes)) <= WIDTH
    return ["next:"] + [
        f"  {command:<{width}}{note}" if fits else f"  {command}"
        for command, note in zip(commands, notes, strict=True)
    ]


def _folded(command: str) -> str:
    """The command, continued on a second line before its last option where it would pass 80 columns."""
    head, option, tail = command.rpartition(" --")
    if 2 + len(command) <= WIDTH or not option:
        return command
    return f"{head} \\\n    --{tail}"


def program() -> list[str]:
    """The words to type for `chess-lab` here: its path or module where PATH does not find the one that was started."""
    started, known = Path(sys.argv[0]), shutil.which("chess-lab")
    if started.name == "chess-lab":
        same = known is not None and Path(known).resolve() == started.resolve()
        return ["chess-lab" if same else str(started)]
    if started.name == "cli.py" and known is None:
        return [sys.executable, "-P", "-m", "algorithms.cli"]
    return ["chess-lab"]
