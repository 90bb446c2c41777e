"""How long a frame of the slider takes, over a run with a policy of every update."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

from benchmarks.records.command_line import command_of

POLICIES = 50
_FRAME = """([index, count]) => {
  const said = document.getElementById("cursor").getAttribute("aria-valuetext");
  return Number(document.getElementById("cursor").value) === index && window.frames_seen > count && said !== "";
}"""
_COUNT = """() => {
  window.frames_seen = 0;
  const seen = new MutationObserver(() => { window.frames_seen += 1; });
  seen.observe(document.getElementById("picture"), {childList: true});
}"""


def trained(folder: Path, policies: int) -> Path:
    """A run with that many policies, of the default network; its boards are few, which no frame depends on."""
    run = folder / "run"
    settings = {
        "--rollout.num-envs": 8,
        "--rollout.num-plies": 1,
        "--algorithm.group-size": 4,
        "--total-moves": 32 * (policies - 1),
        "--checkpoint-keep": "all",
        "--checkpoint-interval-updates": 1,
        "--eval-interval-updates": policies,
        "--env.evaluator": "builtin",
        "--optimizer.minibatch-size": 8,
        "--run-dir": run,
    }
    given = [str(part) for pair in settings.items() for part in pair]
    command = command_of("train", "grpo", *given)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return run


def frames_s(browser: Any, url: str, run: Path, *, at_once: bool) -> list[float]:
    """Seconds from a change of the slider to another picture, over all policies of the run in turn.

    Args:
        browser: Playwright's.
        url: of a server that offers the run.
        run: the folder.
        at_once: slide before the curves are there, so that each policy must be loaded.
    """
    page, taken = browser.new_context().new_page(), []
    if at_once:
        page.route("**/api/training/curve", lambda route: route.abort())
    page.goto(f"{url}#policy={run}&you=both&moves=e2e4{',c7c5' if at_once else ''}&cursor=0")
    page.wait_for_function("() => document.querySelector('#moves tbody tr') !== null", polling=5)
    if not at_once:
        page.wait_for_selector("#charts figure", timeout=60_000)
    page.evaluate(_COUNT)
    last = int(page.get_attribute("#cursor", "max"))
    for index in range(1, last + 1):
        count = page.evaluate("window.frames_seen")
        start = time.perf_counter()
        page.locator("#cursor").fill(str(index))
        page.wait_for_function(_FRAME, arg=[index, count], polling=5)
        taken.append(time.perf_counter() - start)
    page.context.close()
    return taken
