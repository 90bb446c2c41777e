"""The console that shows runs."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from typing import IO, Any, cast

from rich.console import Console


class Output:
    """Standard output, and nothing after a write that failed: no run ends because it cannot be shown.

    A pipe whose reader has gone is the exception: whoever closed it wants the run to end.
    """

    def write(self, text: str) -> None:
        """Writes the text."""
        self._try(sys.stdout.write, text)

    def flush(self) -> None:
        """Flushes the output."""
        self._try(sys.stdout.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stdout, name)

    def _try(self, act: Callable[..., object], *arguments: str) -> None:
        try:
            act(*arguments)
        except BrokenPipeError:
            raise
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())  # also for what is still in its buffer
            os.close(nowhere)
            with contextlib.suppress(OSError):  # it may be the same disk or terminal
                print(
                    f"standard output is lost ({error.strerror}): the run goes on", file=sys.stderr
                )


def make_console() -> Console:
    """A console on standard output, as long as that can be written to."""
    return Console(file=cast(IO[str], Output()), highlight=False)
