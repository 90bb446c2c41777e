"""The environment of a run: versions, commit, processor; and the CPU time that it has used."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from algorithms.run_folder.atomic_files import edited_files, load_json, replace_json
from chess_env.custom_objects import source_record

PACKAGES = ("torch", "numpy", "numba", "gymnasium", "chess", "safetensors", "rich")


def versions(packages: tuple[str, ...] = PACKAGES) -> dict[str, str | None]:
    """Version of each installed package, None where it is missing; imports nothing."""
    return {name: _version(name) for name in packages}


@functools.cache
def _version(package: str) -> str | None:
    try:
        return metadata.version(package)  # parses all that the package says of itself
    except metadata.PackageNotFoundError:
        return None


def record(
    *,
    evaluator: str,
    device: str,
    num_threads: int,
    packages: tuple[str, ...] = (),
    own: tuple[str, ...] = (),
) -> dict[str, Any]:
    """JSON values for environment.json: everything beside the configuration that influences a run.

    Args:
        evaluator: id of what scores the moves.
        device: where the network runs.
        num_threads: of torch.
        packages: whose versions matter beside those of every run.
        own: module:Name of what is not this project's; the record has a hash of each one's file.
    """
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "evaluator": evaluator,
        "device": device,
        "torch_threads": num_threads,
        "own_objects": {spec: source_record(spec) for spec in own},
        "git": git_state(),
        "python": platform.python_version(),
        "packages": versions((*PACKAGES, *packages)),
        "platform": platform.platform(),
        "cpu": cpu_name(),
        "cpu_count": os.cpu_count(),
    }


def write_record(path: Path, values: dict[str, Any], *, resumed: bool) -> list[str]:
    """Replaces environment.json; a resumed run keeps its first record, appends to `resumed`.

    Returns the files of a user's own that were edited since the run's last process.
    """
    edited: list[str] = []
    if resumed and path.exists():
        try:
            first = load_json(path)
        except ValueError as error:  # only a record: a damaged one must not hold up the run
            warnings.warn(f"{path} is damaged ({error}); it is begun anew", stacklevel=2)
            first = {}
        before = [first, *first.get("resumed", [])]
        edited = edited_files([before[-1], values])
        values = {**first, "resumed": [*before[1:], values]}
    replace_json(path, values)
    return edited


def git_state() -> dict[str, Any] | None:
    """{"commit": hash or None before the first, "dirty": bool}; None outside a git clone."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        commit = _git(root, "rev-parse", "--verify", "--quiet", "HEAD") or None
        return {"commit": commit, "dirty": bool(_git(root, "status", "--porcelain"))}
    except (OSError, subprocess.TimeoutExpired):  # git is not installed, or its disk hangs
        return None


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=10).stdout.strip()


def cpu_name() -> str:
    """The processor's name as the system gives it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def cpu_seconds() -> float:
    """CPU seconds used by this process, its ended children and its running ones (the engines).

    Running children are counted on Linux only; elsewhere they enter when they end.
    """
    ended = os.times()
    total = time.process_time() + ended.children_user + ended.children_system
    if not sys.platform.startswith("linux"):
        return total
    tick = os.sysconf("SC_CLK_TCK")
    for stat in _stat_of_children():
        try:
            # The second field, the command in parentheses, may itself hold spaces.
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):  # ended between the listing and the reading
            continue
        if int(fields[1]) == os.getpid():
            total += (int(fields[11]) + int(fields[12])) / tick
    return total


def _stat_of_children() -> Iterable[Path]:
    """Files among which are those of the children: theirs alone where the kernel lists them, else all processes'."""
    children: list[str] = []
    for task in Path("/proc/self/task").iterdir():
        try:
            children += (task / "children").read_text().split()
        except OSError:
            if task.exists():  # a kernel without such lists, and not a thread that has just ended
                return Path("/proc").glob("[0-9]*/stat")
    return [Path("/proc", pid, "stat") for pid in children]
