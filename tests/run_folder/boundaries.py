"""A run that ends itself by SIGKILL at any of the points at which it changes a file of its folder.

A forked process counts what it does to the files below a folder: opening to write, each write to the system,
truncating, fsync, making and removing folders, links and files, renaming. It kills itself before the n-th, or half-way
through it where it is a write. Linux alone.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import hashlib
import io
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from algorithms import cli
from algorithms.reports.run_files import read_metrics
from algorithms.run_folder import checkpoint

_SMOKE = ("train", "grpo", "--smoke", "--env.evaluator", "builtin", "--device", "cpu", "--seed", "5",
          "--rollout.num-envs", "16", "--rollout.num-plies", "2", "--algorithm.group-size", "8",
          "--checkpoint-interval-updates", "1")  # fmt: skip

_CALLS = (
    "mkdir",
    "rmdir",
    "unlink",
    "remove",
    "rename",
    "replace",
    "symlink",
    "link",
    "truncate",
    "fsync",
)


def command(run_dir: Path, updates: int = 3) -> list[str]:
    """A run of 256 moves an update, each with a checkpoint; with three the oldest of them are removed."""
    return [*_SMOKE, "--total-moves", str(256 * updates), "--run-dir", str(run_dir)]


@dataclass(frozen=True)
class Kill:
    """Where a run ends itself: at its `at`-th change of a file, before it or half-way through a write."""

    at: int
    torn: bool = False


class Boundaries:
    """The changes that this process makes below a folder from `install` on.

    Args:
        folder: whose files count.
        kill: when the process ends itself; None never.
        record: gets a line for each change; None for none.
        delay_s: what each change takes besides, as on a slow disk, seconds.
    """

    def __init__(
        self,
        folder: Path,
        kill: Kill | None = None,
        record: Path | None = None,
        delay_s: float = 0.0,
    ) -> None:
        self._delay_s = delay_s
        self._folder, self._kill, self._count = os.path.abspath(folder), kill, 0
        self._record = None if record is None else os.open(record, os.O_WRONLY | os.O_CREAT)
        self._open = io.open

    def install(self) -> None:
        """Counts from now on, for the rest of the process."""
        for name in _CALLS:
            setattr(os, name, self._counted(name, getattr(os, name)))
        io.open = builtins.open = self.open  # type: ignore[assignment]

    def counts(self, path: Any) -> bool:
        """Whether a path, or an open file, lies below the folder."""
        name = os.readlink(f"/proc/self/fd/{path}") if isinstance(path, int) else os.fspath(path)
        name = os.path.abspath(name)
        return name == self._folder or name.startswith(self._folder + os.sep)

    def comes(self, what: str, path: Any, half: Callable[[], Any] | None = None) -> None:
        """None where the process lives on; `half` does half of what comes."""
        self._count += 1
        time.sleep(self._delay_s)
        if self._record is not None:
            name = os.readlink(f"/proc/self/fd/{path}") if isinstance(path, int) else str(path)
            os.write(self._record, f"{what} {os.path.relpath(name, self._folder)}\n".encode())
        if self._kill is not None and self._count == self._kill.at:
            if self._kill.torn and half is not None:
                half()
            os.kill(os.getpid(), signal.SIGKILL)

    def _counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def counted(*arguments: Any, **options: Any) -> Any:
            # The second name is the one that appears. A name relative to an open folder is of `shutil.rmtree`.
            path = (
                arguments[1] if name in ("rename", "replace", "symlink", "link") else arguments[0]
            )
            if options.get("dir_fd") is not None or self.counts(path):
                self.comes(name, path)
            return call(*arguments, **options)

        return counted

    def open(
        self, file: Any, mode: str = "r", buffering: int = -1, *rest: Any, **options: Any
    ) -> Any:
        """As `io.open`, of files that count what is written to the system."""
        if not set(mode) & set("wax+") or isinstance(file, int) or not self.counts(file):
            return self._open(file, mode, buffering, *rest, **options)
        self.comes("open", file)
        raw = _Counted(self, file, mode.replace("b", "").replace("t", ""))
        if buffering == 0:
            return raw
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, *rest, **options)


class _Counted(io.FileIO):
    """A file whose writes are counted."""

    def __init__(self, boundaries: Boundaries, file: Any, mode: str) -> None:
        super().__init__(file, mode)
        self._boundaries = boundaries

    def write(self, data: Any) -> int:
        whole, write = bytes(data), super().write
        self._boundaries.comes("write", self.fileno(), lambda: write(whole[: len(whole) // 2]))
        return write(whole)

    def truncate(self, size: int | None = None) -> int:
        self._boundaries.comes("truncate", self.fileno())
        return super().truncate(size)


def begun(arguments: Sequence[object], log: Path, boundaries: Boundaries | None = None) -> int:
    """Process id of a fork of this process that runs a command of `chess-lab`.

    Args:
        arguments: of the command.
        log: gets what it prints.
        boundaries: that it counts.
    """
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        written = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(written, 1)
        os.dup2(written, 2)
        # pytest has others.
        sys.stdout, sys.stderr = (os.fdopen(number, "w", 1, closefd=False) for number in (1, 2))
        if boundaries is not None:
            boundaries.install()
        code = _main(arguments)
    finally:
        os._exit(code)


def ended(process: int) -> int:
    """Exit code of a process, negative for a signal; waits for it."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def straight(arguments: Sequence[object]) -> None:
    """Runs a command in this process, which has loaded everything for its forks then."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = _main(arguments)
    if code:
        raise RuntimeError(out.getvalue())


def _main(arguments: Sequence[object]) -> int:
    try:
        return cli.main([str(each) for each in arguments])
    except SystemExit as left:
        return int(left.code or 0)


def changes(arguments: Sequence[object], run_dir: Path) -> list[str]:
    """What a command does to the files of a folder, in order: "write config.json"."""
    record, log = run_dir.with_suffix(".changes"), run_dir.with_suffix(".log")
    code = ended(begun(arguments, log, Boundaries(run_dir, record=record)))
    if code:
        raise RuntimeError(log.read_text())
    return record.read_text().splitlines()


def kills(found: Sequence[str]) -> Iterator[Kill]:
    """Every kill of a command that makes these changes."""
    for number, what in enumerate(found, start=1):
        yield Kill(number)
        if what.startswith("write "):
            yield Kill(number, torn=True)


def killed(arguments: Sequence[object], run_dir: Path, kill: Kill) -> None:
    """Runs a command that ends itself there.

    Raises:
        RuntimeError: it did not.
    """
    log = run_dir.with_suffix(".log")
    code = ended(begun(arguments, log, Boundaries(run_dir, kill)))
    if code != -signal.SIGKILL:
        raise RuntimeError(
            f"{kill} did not end the run, which ended with {code}: {log.read_text()}"
        )


def gone_on(arguments: Sequence[object], run_dir: Path) -> str:
    """How a killed run was brought to its end: "--resume", or "the same command" where that is refused.

    Args:
        arguments: of the command that began it.
        run_dir: its folder.

    Raises:
        RuntimeError: neither goes on.
    """
    log = run_dir.with_suffix(".log")
    if ended(begun(["train", "--resume", run_dir], log)) == 0:
        return "--resume"
    if ended(begun(arguments, log)) == 0:
        return "the same command"
    raise RuntimeError(f"neither command goes on: {log.read_text()}")


def outcome(run_dir: Path) -> dict[str, Any]:
    """What a run came to, without what a clock decides: its rows, weights, state, names of files, and links."""
    newest = checkpoint.load_newest(run_dir / "checkpoints").path
    state = dict(json.loads((newest / "state.json").read_text())["$dict"])
    progress = dict(state["progress"]["$dict"])
    state["progress"] = {name: progress[name] for name in ("update", "plies", "scored_moves")}
    names = [
        f"{path.relative_to(run_dir)}{f' -> {os.readlink(path)}' if path.is_symlink() else ''}"
        for path in run_dir.rglob("*")
    ]
    return {
        "rows": [
            {k: v for k, v in row.items() if not k.startswith(("time/", "step0/"))}
            for row in read_metrics(run_dir)
        ],
        "tensors": [
            hashlib.sha256((newest / name).read_bytes()).hexdigest()
            for name in ("model.safetensors", "trainer.safetensors")
        ],
        "state": state,
        # What a kill left of a checkpoint is removed with the next one, which may not come.
        "files": sorted(name for name in names if "partial-" not in name),
    }


def clear(run_dir: Path) -> None:
    """Removes a run and what belongs to it."""
    shutil.rmtree(run_dir, ignore_errors=True)
    for suffix in (".log", ".changes"):
        run_dir.with_suffix(suffix).unlink(missing_ok=True)
