"""The console that shows runs."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import IO, Any, cast

from rich.console import Console
from rich.segment import Segment

from algorithms.core.terminal import VisibleText, visible


class Output:
    """Standard output, and nothing after a write that failed: no run ends because it cannot be shown.

    A pipe whose reader has gone is the exception: whoever closed it wants the run to end.
    """

    def __init__(self) -> None:
        # The console moves the cursor, so it writes to the stream inside; its texts are made visible before.
        self._stream = sys.stdout.stream if isinstance(sys.stdout, VisibleText) else sys.stdout

    def write(self, text: str) -> None:
        """Writes the text."""
        self._try(self._stream.write, text)

    def flush(self) -> None:
        """Flushes the output."""
        self._try(self._stream.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _try(self, act: Callable[..., object], *arguments: str) -> None:
        try:
            act(*arguments)
        except BrokenPipeError:
            raise
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())  # also for what is still in its buffer
            os.close(nowhere)
            with contextlib.suppress(OSError):  # it may be the same disk or terminal
                print(
                    f"standard output is lost ({error.strerror}): the run goes on", file=sys.stderr
                )


class _VisibleConsole(Console):
    """A console whose texts are shown as `visible` shows them; the escape sequences are its own alone."""

    def render(self, *args: Any, **kwargs: Any) -> Iterator[Segment]:
        for text, style, control in super().render(*args, **kwargs):
            yield Segment(text if control else visible(text), style, control)


def make_console() -> Console:
    """A console on standard output, as long as that can be written to."""
    return _VisibleConsole(file=cast(IO[str], Output()), highlight=False)
