"""A program in a process of its own that is asked by a line and answers with a line of JSON."""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class ContestantError(RuntimeError):
    """The program ended; the message is the last line that it wrote to standard error."""


class Contestant:
    """A program that runs until it is closed.

    Args:
        command: the program and its arguments.
        folder: where it runs.
        environment: its variables.
    """

    def __init__(
        self, command: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> None:
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._process = subprocess.Popen(
            list(command), cwd=folder, env=dict(environment), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
        )  # fmt: skip

    def answer(self) -> dict[str, Any]:
        """The next line that is JSON; a library may print lines of its own.

        Raises:
            ContestantError: the program ended instead.
        """
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        code = self._process.wait()
        self._errors.seek(0)
        said = [line.strip() for line in self._errors if line.strip()]
        raise ContestantError(said[-1] if said else f"ended with exit code {code}")

    def ask(self, question: object) -> dict[str, Any]:
        """The answer to a line; raises as `answer`."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # `answer` says why it ended
            self._process.stdin.write(f"{question}\n")
            self._process.stdin.flush()
        return self.answer()

    def close(self) -> None:
        """Ends it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()
