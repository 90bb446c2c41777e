"""An animation in a real browser: at every time it shows the policy of that time, and nothing of the others."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from algorithms.playing.animation import HOLD, SECONDS, animation_svg
from tests.playing.test_animation import collapsing

pytestmark = [pytest.mark.slow, pytest.mark.chromium]

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
LOOK = """
onload = async () => {
const svg = document.querySelector("svg"), found = {};
svg.pauseAnimations();
for (const time of TIMES) {
  svg.setCurrentTime(time);
  await new Promise(done => setTimeout(done, 60));
  const visible = each => getComputedStyle(each).visibility === "visible" && each.textContent;
  found[time] = {
    texts: [...svg.querySelectorAll("text")].filter(visible).map(each => each.textContent),
    arrows: [...svg.querySelectorAll(".arrow")].filter(visible).length,
    cursor: svg.querySelector(".cursor").getBoundingClientRect().x,
  };
}
document.body.innerHTML = `<pre id="found">${JSON.stringify(found)}</pre>`;
};
"""


def test_the_policies_of_each_time_are_visible_and_no_others(tmp_path: Path) -> None:
    faulty = collapsing([0, 500, 1000], [0.0, 2.0, 6.0])
    cured = collapsing([0, 250], [0.0, 0.1], "cured")
    times = [share * SECONDS for share in (0.01, 0.19, 0.21, 0.39, 0.41, 0.79, 0.81, 0.99)]
    script = LOOK.replace("TIMES", json.dumps(times))
    page = tmp_path / "page.html"
    svg = animation_svg([faulty, cured])
    page.write_text(f"<!doctype html><body>{svg}<script>{script}</script>", encoding="utf-8")
    done = subprocess.run(
        [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom", "--virtual-time-budget=3000",
         f"--user-data-dir={tmp_path / 'profile'}", page.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    match = re.search(r'<pre id="found">(\{.*?)</pre>', done.stdout, re.DOTALL)
    assert match, done.stdout[:2000]
    found = json.loads(match[1])
    for time in times:
        cursor = min(1.0, time / SECONDS / (1 - HOLD)) * 1000
        shown = [text for text in found[str(time)]["texts"] if "after" in text]
        first = max(moves for moves in (0, 500, 1000) if moves <= cursor)
        second = max(moves for moves in (0, 250) if moves <= cursor)
        assert [re.sub(r"\D", "", text.partition(" scored")[0]) for text in shown] == [
            str(first), str(second),
        ], (time, shown)  # fmt: skip
        alone = first == 1000  # by then no other move has a probability of 1 %
        assert found[str(time)]["arrows"] == (1 if alone else 6) + 6
    places = [found[str(time)]["cursor"] for time in times]
    assert places == sorted(places) and places[-1] - places[0] == pytest.approx(
        322 * (1 - 0.1 / 8), abs=2
    )
