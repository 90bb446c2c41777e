"""The display of a run: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, cast

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from algorithms.core.checks import WIDTH, message_lines
from algorithms.run_folder.terminal import VisibleText, print_visibly, visible

Row = Mapping[str, float]
HISTORY = 8  # evaluations shown in the live table
PLAIN_INTERVAL_S = 10.0
SPARK = "▁▂▃▄▅▆▇█"


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


class Display:
    """Shows the rows of a run, and has no influence on it. This one shows nothing."""

    def start(self, title: str, facts: Mapping[str, str]) -> None:
        """Shows what is about to run."""

    def show(self, row: Row, status: str) -> None:
        """Shows one row of metrics.jsonl, and a line on how the run does ("" if there is none)."""

    def say(self, message: str) -> None:
        """Shows one message that must be read."""

    def stop(self) -> None:
        """Leaves the last state on the screen."""


def make_display(total_moves: int, console: Console | None = None) -> Display:
    """A live table where output is a terminal, otherwise plain lines; NO_COLOR is respected."""
    console = console or make_console()
    live = console.is_terminal and not console.is_dumb_terminal
    return LiveDisplay(total_moves, console) if live else PlainDisplay(total_moves, console)


class Clock:
    """Remaining time from the moves scored in this process; a resumed run starts its own count."""

    def __init__(self, total_moves: int) -> None:
        self.total_moves = total_moves
        self._points: deque[tuple[float, float]] = deque(maxlen=50)

    def add(self, scored_moves: float) -> None:
        """Notes that `scored_moves` have been scored by now."""
        self._points.append((time.monotonic(), scored_moves))

    def left(self) -> str:
        """Remaining time as "3:05", or "-:--" until it can be told."""
        if len(self._points) < 2:
            return "-:--"
        (start, first), (now, last) = self._points[0], self._points[-1]
        if last <= first:
            return "-:--"
        return duration((self.total_moves - last) * (now - start) / (last - first))


def duration(seconds: float) -> str:
    """Seconds as "3:05" or "2:03:05"."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def number(value: float | None, digits: int = 0) -> str:
    """A number for a narrow column: "12,345", "0.0021"; "-" for what is unknown."""
    if value is None or not math.isfinite(value):
        return "-"
    if value and abs(value) < 10**-digits / 2:
        return f"{value:.0e}"
    return f"{value:,.{digits}f}"


def percent(value: float | None) -> str:
    """A fraction as "12 %"; "-" for what is unknown."""
    return "-" if value is None or not math.isfinite(value) else f"{100 * value:.0f} %"


def sparkline(values: list[float]) -> str:
    """One block character for each value, scaled from 0 to the largest."""
    top = max(values, default=0.0) or 1.0
    return "".join(SPARK[round(max(0.0, v) / top * (len(SPARK) - 1))] for v in values)


def policy_fact(network: str, num_parameters: int, *, device: str, num_threads: int) -> str:
    """The policy and its device: "move_net medium, 148,679 parameters on cpu (1 thread)"."""
    threads = f"{num_threads} thread{'s' if num_threads > 1 else ''}"
    return f"{network}, {num_parameters:,} parameters on {device} ({threads})"


def fact_lines(facts: Mapping[str, str]) -> list[str]:
    """A line for each fact, or two where one would pass 80 columns (an engine's id, a long folder)."""
    lines = []
    for name, value in facts.items():
        line = f"  {name:<12}{value}"
        lines += [line] if len(line) <= WIDTH else [f"  {name}", f"    {value}"]
    return lines


class PlainDisplay(Display):
    """A line for each evaluation, and at least every ten seconds: for pipes and log files."""

    def __init__(self, total_moves: int, console: Console) -> None:
        self._console = console
        self._clock = Clock(total_moves)
        self._shown_at = -math.inf
        self._status = ""

    def start(self, title: str, facts: Mapping[str, str]) -> None:
        """Prints the title and one line for each fact."""
        for line in (title, *fact_lines(facts)):
            self._print(line)

    def show(self, row: Row, status: str) -> None:
        """Prints the row in 80 columns, if it has an evaluation or the last line is ten seconds old."""
        self._clock.add(row["scored_moves"])
        evaluated = "eval/regret_cp" in row
        if not evaluated and time.monotonic() - self._shown_at < PLAIN_INTERVAL_S:
            return
        self._shown_at = time.monotonic()
        parts = [
            f"update {row['step']:4.0f}",
            f"{row['scored_moves']:9,.0f}/{self._clock.total_moves:,}",
        ]
        if evaluated:
            # Both on the held-out positions: the rollout's entropy is of others, and has its name below.
            regret, entropy = row["eval/regret_cp"], row.get("eval/entropy")
            parts.append(f"regret {number(regret, 1)} cp, entropy {number(entropy, 2)}")
        elif "policy/entropy" in row:
            parts.append(f"rollout entropy {number(row['policy/entropy'], 2)}")
            parts.append(f"kl {number(row.get('policy/approx_kl'), 4)}")
        if "policy/entropy" in row:
            parts.append(f"left {self._clock.left()}")
        self._print("  ".join(parts))
        if status and status != self._status:
            self.say(status)
            self._status = status

    def say(self, message: str) -> None:
        """Prints the message."""
        for line in message_lines(message):
            self._print(line)

    def _print(self, text: str) -> None:
        # soft_wrap: a log line stays one line, however narrow the pipe claims to be.
        self._console.print(text, soft_wrap=True, markup=False)


class LiveDisplay(Display):
    """A table of 80 columns that is redrawn in place."""

    def __init__(self, total_moves: int, console: Console) -> None:
        self._console = console
        self._clock = Clock(total_moves)
        self._evaluations: list[dict[str, float]] = []
        self._row: dict[str, float] = {}
        self._status = ""
        self._live = Live(console=console, auto_refresh=False, transient=False)

    def start(self, title: str, facts: Mapping[str, str]) -> None:
        """Prints the title and the facts once, above the table."""
        self._console.print(Text(title, style="bold"))
        for line in fact_lines(facts):
            self._console.print(Text(line), soft_wrap=True)
        self._live.start()
        print_visibly()  # it shows above the table what others print, and understands escape sequences in it

    def show(self, row: Row, status: str) -> None:
        """Redraws the table with the row; a value that the row lacks keeps its last one."""
        self._status = status
        self._clock.add(row["scored_moves"])
        self._row.update(row)
        if "eval/regret_cp" in row:
            self._evaluations.append(dict(self._row))
        self._live.update(self.render(), refresh=True)

    def say(self, message: str) -> None:
        """Prints the message above the table."""
        for line in message_lines(message):
            self._console.print(Text(line, style="yellow"), soft_wrap=True)

    def stop(self) -> None:
        """Leaves the last table on the screen."""
        self._live.stop()

    def render(self) -> RenderableType:
        """The table as it stands."""
        parts = [Text(), self._progress(), Text(), self._figures(), Text(), self._history()]
        if self._status:
            parts += [Text(), Text(self._status)]
        return Group(*parts)

    def _progress(self) -> RenderableType:
        moves, total = self._row.get("scored_moves", 0.0), self._clock.total_moves
        line = Table.grid(padding=(0, 1), expand=False)
        for width in (30, 6, 26, 14):
            line.add_column(width=width, no_wrap=True)
        line.add_row(
            ProgressBar(total=total, completed=min(moves, total), width=30),
            percent(moves / total),
            f"{moves:,.0f} of {total:,} moves",
            Text(f"{self._clock.left()} left", style="bold"),
        )
        return line

    def _figures(self) -> RenderableType:
        value = self._row.get
        columns = (
            ("rollout", 22, [
                ("entropy", f"{number(value('policy/entropy'), 2)} nats"),
                ("normalized", number(value("policy/entropy_normalized"), 2)),
                ("kl", number(value("policy/approx_kl"), 4)),
                ("clip low", percent(value("policy/clip_fraction_low"))),
                ("clip high", percent(value("policy/clip_fraction_high"))),
            ]),
            ("learning", 23, [
                ("reward", number(value("rollout/reward_mean"), 3)),
                ("loss", number(value("train/loss"), 3)),
                ("grad norm", number(value("train/grad_norm"), 2)),
                ("learning rate", number(value("train/learning_rate"), 5)),
                ("update", number(value("step"))),
            ]),
            ("speed", 25, [
                ("plies/s", number(value("time/plies_per_s"))),
                ("moves/s", number(value("time/moves_per_s"))),
                ("evaluations/s", number(value("time/evaluations_per_s"))),
                ("cache hits", percent(value("rollout/cache_hit_fraction"))),
                ("cpu time", duration(value("time/cpu_s", 0.0))),
            ]),
        )  # fmt: skip
        grid = Table.grid(padding=(0, 2))
        cells = []
        for title, width, lines in columns:
            cell = Table(box=None, padding=0, show_header=True, width=width, pad_edge=False)
            cell.add_column(title, style="dim", header_style="bold cyan")
            cell.add_column(justify="right")
            for name, text in lines:
                cell.add_row(name, text)
            cells.append(cell)
        grid.add_row(*cells)
        return grid

    def _history(self) -> RenderableType:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold cyan", pad_edge=False)
        names = ("update", "moves", "regret_cp", "of start", "greedy_cp", "entropy", "normalized")
        for name in names:
            table.add_column(name, justify="right")
        start = self._evaluations[0]["eval/regret_cp"] if self._evaluations else math.nan
        for row in self._evaluations[-HISTORY:]:
            table.add_row(
                number(row["step"]),
                number(row["scored_moves"]),
                Text(number(row["eval/regret_cp"], 1), style="bold"),
                percent(row["eval/regret_cp"] / start),
                number(row["eval/regret_cp_greedy"], 1),
                number(row["eval/entropy"], 2),
                number(row["eval/entropy_normalized"], 2),
            )
        curve = sparkline([row["eval/regret_cp"] for row in self._evaluations][-60:])
        label = Text.assemble(("held-out positions", "bold cyan"), ("   regret ", "dim"), curve)
        return Group(label, table)
