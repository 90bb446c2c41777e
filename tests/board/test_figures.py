"""The figures of docs/board.md are those that were measured, and the measured ones keep the bounds."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_on_the_board_has_the_measured_figures_and_they_keep_the_bounds() -> None:
    record = json.loads((ROOT / "benchmarks" / "results" / "board.json").read_text())
    median_ms = {row["what"]: round(1000 * row["median_s"]) for row in record["rows"]}
    settings = record["settings"]
    text = " ".join((ROOT / "docs" / "board.md").read_text(encoding="utf-8").split())
    assert settings["policies"] == 50 and settings["updates_trained_beside"] > 0
    assert median_ms["page"] < 1000 and median_ms["move answered"] < 200
    assert max(settings["server_mb"]) < 500
    for said in (
        f"the page is there after {median_ms['page']} ms at the median",
        f"a move is answered after {median_ms['move answered']} ms",
        f"a frame takes {median_ms['frame, its policy loaded']} ms",
        f"and {median_ms['frame, after the curves']} ms once the curves are there",
        f"The server had {settings['server_mb'][0]} MB at first and at most {max(settings['server_mb'])} MB",
        f"Stockfish had {settings['engine_mb']} MB",
    ):
        assert said in text
    frames = [taken for what, taken in median_ms.items() if what.startswith("frame")]
    assert len(frames) == 2 and max(frames) < 100
