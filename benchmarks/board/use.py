"""A training run beside the server, and long use of the page, after which the server's memory is read."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from benchmarks.records.command_line import command_of, updates_of

TABS = 3
_DRAWN = """() => {
  window.curves_drawn = 0;
  const seen = new MutationObserver(() => { window.curves_drawn += 1; });
  seen.observe(document.getElementById("charts"), {childList: true});
}"""


@contextmanager
def trained_beside(folder: Path) -> Iterator[Path]:
    """The folder of a run with default settings that learns until the end of the context.

    Raises:
        RuntimeError: it ended before, or did not begin in five minutes.
    """
    run = folder / "beside"
    command = command_of("train", "grpo", "--total-moves", "100000000")
    with (folder / "beside.log").open("w") as log:
        process = subprocess.Popen([*command, "--run-dir", str(run)], stdout=log, stderr=log)
        try:
            end = time.monotonic() + 300
            while updates_of(run) < 1:
                if process.poll() is not None or time.monotonic() > end:
                    said = (folder / "beside.log").read_text()[-500:]
                    raise RuntimeError(f"the training run beside does not learn: {said}")
                time.sleep(0.5)
            yield run
            if process.poll() is not None:
                raise RuntimeError("the training run beside ended before the measurement did")
        finally:
            process.terminate()
            process.wait()


def alone() -> nullcontext[None]:
    """In place of `trained_beside`: no run."""
    return nullcontext()


def highest_memory_mb(pid: int) -> float:
    """MB of a process at its highest; NaN where the system does not say."""
    status = Path(f"/proc/{pid}/status")
    found = re.search(r"VmHWM:\s+(\d+)", status.read_text()) if status.exists() else None
    return int(found[1]) / 1000 if found else float("nan")


def engines_memory_mb(pid: int) -> float:
    """MB of its children at their highest, together."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    own = children.read_text().split() if children.exists() else []
    return sum(highest_memory_mb(int(child)) for child in own)


def used_long(
    browser: Any, url: str, runs: tuple[Path, Path], pid: int, positions: int
) -> list[float]:
    """MB of the server at its highest, first and after every tenth round.

    In a round, each of three tabs with two runs beside each other goes on to another position of the held-out table,
    and draws it under all policies of both; every fifth time, at another temperature too.

    Args:
        browser: Playwright's.
        url: of a server that offers the runs.
        runs: their folders.
        pid: of the server.
        positions: for each tab.
    """
    context, memory = browser.new_context(), [highest_memory_mb(pid)]
    pages = [context.new_page() for _ in range(TABS)]
    for number, page in enumerate(pages):
        page.set_default_timeout(120_000)
        first = f"&set=heldout&n={number * positions}"
        page.goto(f"{url}#policy={runs[0]}&beside={runs[1]}&you=both{first}")
        page.wait_for_selector("#set-steps:not([hidden])")
        page.wait_for_selector("#charts figure")
        page.evaluate(_DRAWN)
    for number in range(positions):
        for page in pages:
            _changed(page, lambda page=page: page.click("#set-next"))
            if number % 5 == 0:
                value = str((0.5, 1.5)[number // 5 % 2])
                _changed(page, lambda page=page, value=value: page.fill("#temperature", value))
        if number % 10 == 9:
            memory.append(highest_memory_mb(pid))
    context.close()
    return memory


def _changed(page: Any, act: Any) -> None:
    """Acts, and waits until the curves are drawn anew."""
    count = page.evaluate("window.curves_drawn")
    act()
    page.wait_for_function("count => window.curves_drawn > count", arg=count, polling=20)
