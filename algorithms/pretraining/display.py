"""The display of pretraining: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from algorithms.core.checks import message_lines
from algorithms.run_folder.console import (
    PLAIN_INTERVAL_S,
    Display,
    Row,
    fact_lines,
    make_console,
    number,
)
from algorithms.run_folder.terminal import print_visibly


class Bar:
    """The progress of a task; its last state stays on the screen.

    Args:
        console: a bar where it is a terminal, otherwise a line at least every ten seconds.
        title: of the task.
        total: its size.
        done: its progress at the start.
    """

    def __init__(self, console: Console, title: str, total: int, done: int = 0) -> None:
        self._console, self._title, self._total, self._done = console, title, total, done
        self._shown_at = time.monotonic()
        self._bar: Progress | None = None
        if console.is_terminal and not console.is_dumb_terminal:
            self._bar = Progress(
                TextColumn(title),
                BarColumn(10),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[text]}"),
                console=console,
            )
            self._task = self._bar.add_task(title, total=total, completed=done, text="")
            self._bar.start()
            print_visibly()  # as in the table of a training run

    @property
    def live(self) -> bool:
        """Whether it is redrawn in place, so that what it said before is gone."""
        return self._bar is not None

    def to(self, done: int, text: str = "", *, say: bool = False) -> None:
        """Moves the bar to `done`; as plain lines, prints where `say` or where it is time."""
        self._done = done
        if self._bar is not None:
            self._bar.update(self._task, completed=done, text=text)
        elif say or time.monotonic() - self._shown_at >= PLAIN_INTERVAL_S:
            self._shown_at = time.monotonic()
            line = f"{self._title} {done:,}/{self._total:,}  {text}".rstrip()
            self._console.print(line, soft_wrap=True, markup=False)

    def stop(self) -> None:
        """Leaves the bar as it is."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def __enter__(self) -> Bar:
        """The bar itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stops it."""
        self.stop()


class PretrainDisplay(Display):
    """The rows of a pretraining run, and the bars beside it.

    Args:
        total_steps: budget in optimizer steps.
        console: None means standard output; NO_COLOR is respected.
    """

    def __init__(self, total_steps: int, console: Console | None = None) -> None:
        self._console = console or make_console()
        self._total = total_steps
        self._steps: Bar | None = None
        self._evaluated = ""

    def start(self, title: str, facts: Mapping[str, str]) -> None:
        """Prints the title and one line for each fact."""
        for line in (title, *fact_lines(facts)):
            self.say(line)

    def labelling(self, title: str, total: int) -> Bar:
        """A bar over `total` positions."""
        return Bar(self._console, title, total)

    def show(self, row: Row, status: str) -> None:
        """Shows the row; as plain lines, if it has an evaluation or the last is ten seconds old."""
        evaluated = "eval/regret_cp" in row
        if evaluated:
            self._evaluated = (
                f"regret {number(row['eval/regret_cp'], 1)} cp, "
                f"greedy {number(row['eval/regret_cp_greedy'], 1)} cp"
            )
        step = int(row["step"])
        if self._steps is None and step > 0:  # the bar of the labels has gone by then
            self._steps = Bar(self._console, "step", self._total, step)
        loss = f"loss {number(row.get('pretrain/loss', math.nan), 3)}"
        speed = f"{number(row.get('time/positions_per_s', math.nan))} positions/s"
        if self._steps is None:
            self.say(f"before the first step: {self._evaluated}")
        elif self._steps.live:  # redrawn in place and 80 columns wide
            self._steps.to(step, f"{loss}  {self._evaluated}")
        else:
            parts = [loss, speed, *([self._evaluated] if evaluated else [])]
            self._steps.to(step, "  ".join(parts), say=evaluated)

    def say(self, message: str) -> None:
        """Prints the message."""
        for line in message_lines(message):
            self._console.print(line, soft_wrap=True, markup=False)

    def stop(self) -> None:
        """Leaves the last state on the screen."""
        if self._steps is not None:
            self._steps.stop()
