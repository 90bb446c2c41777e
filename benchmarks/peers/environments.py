"""An environment for each peer, made once and kept."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

INSTALL_LIMIT_S = 1800
_OF_PIP = ("subprocess-exited-with-error", "metadata-generation-failed")


class NotInstalledError(RuntimeError):
    """An environment that could not be made; the message is the reason."""


def python_of(cache: Path, name: str, requirements: Sequence[str]) -> Path:
    """The Python of the environment with these packages.

    Args:
        cache: the folder of all environments.
        name: of this one.
        requirements: what pip installs, with versions. An environment that has been made of the same ones is kept.

    Raises:
        NotInstalledError: it could not be made.
    """
    folder = cache / name
    binary = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    stamp = folder / "requirements.txt"
    wanted = "".join(f"{each}\n" for each in requirements)
    if stamp.exists() and stamp.read_text() == wanted:
        return binary
    _run([sys.executable, "-m", "venv", "--clear", str(folder)], cache)
    pip = [str(binary), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    _run([*pip, *requirements], cache)
    stamp.write_text(wanted)
    return binary


def reason_of(output: str, cache: Path) -> str:
    """The line of a program's output that says what went wrong, without the folder of this machine.

    That is the last line with an exception, or else the first with an error, or else the last one. What pip says of
    every failure alike is passed over.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    exceptions = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b.*:", line)]
    errors = [
        line
        for line in lines
        if re.match(r"(error|fatal)\b", line, re.IGNORECASE) and not line.endswith(_OF_PIP)
    ]
    said = [*exceptions[-1:], *errors[:1], *lines[-1:], "it said nothing"][0]
    said = said.replace(str(cache), "CACHE")
    return said if len(said) <= 200 else f"{said[:197]}..."


def _run(command: Sequence[str], cache: Path) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", timeout=INSTALL_LIMIT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise NotInstalledError(f"not installed within {INSTALL_LIMIT_S} s") from error
    except OSError as error:
        raise NotInstalledError(str(error).replace(str(cache), "CACHE")) from error
    if done.returncode:
        raise NotInstalledError(reason_of(done.stdout, cache))
