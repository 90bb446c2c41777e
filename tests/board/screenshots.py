"""Pictures of the page for docs/board.md: python -m tests.board.screenshots [FOLDER [FAULTY CURED]].

The runs, for the picture of two of them, are those of `chess-lab causes run`.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

from PIL import Image

from tests.board.browser import Tab, chromium, tab
from tests.board.test_command import board_process

FOLDER = Path(__file__).parents[2] / "docs" / "figures" / "board"
ITALIAN = "e2e4,e7e5,g1f3,b8c6,f1c4"
VIEWS: dict[str, dict[str, Any]] = {
    "play": {"viewport": {"width": 1200, "height": 860}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1200, "height": 860}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 375, "height": 812}, "color_scheme": "light"},
}
STATES = {
    "play": f"policy=example&you=both&moves={ITALIAN}",
    "dark": f"policy=example&you=both&moves={ITALIAN}&t=0.3",
    "phone": f"policy=example&you=both&moves={ITALIAN}",
}


def take(browser: Any, url: str, folder: Path) -> list[Path]:
    """The pictures written to a folder, of a server that offers `example`."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, view in VIEWS.items():
        with tab(browser, url, **view) as page:
            page.open(STATES[name])
            written.append(_saved(page, folder / f"{name}.png"))
    return written


def take_training(browser: Any, url: str, runs: tuple[str, str], folder: Path) -> Path:
    """The picture of two runs beside each other in the middle of their training."""
    with tab(browser, url, viewport={"width": 1200, "height": 1090}) as page:
        page.open(f"policy={runs[0]}&beside={runs[1]}&you=both&set=heldout&n=0")
        page.page.wait_for_selector("#set-steps:not([hidden])", timeout=60_000)
        page.page.wait_for_selector("#charts figure")
        last = int(page.page.get_attribute("#cursor", "max"))
        page.page.fill("#cursor", str(last // 2))
        page.page.wait_for_timeout(1_000)
        return _saved(page, folder / "training.png")


def _saved(page: Tab, path: Path) -> Path:
    page.page.evaluate("() => document.activeElement.blur()")
    picture = Image.open(io.BytesIO(page.page.screenshot())).convert("RGB")
    # 256 colours are enough for flat areas, at half of the bytes.
    few = picture.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
    return path


def main() -> None:
    """Writes the pictures; the scores in them are Stockfish's where it is found."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    runs = sys.argv[2:4]
    with chromium() as browser:
        with board_process("--port", "0") as (_, url):
            written = take(browser, url, folder)
        if runs:
            with board_process("--port", "0", *runs) as (_, url):
                written.append(take_training(browser, url, (runs[0], runs[1]), folder))
    for path in written:
        print(f"{path.stat().st_size:,} bytes: {path}")


if __name__ == "__main__":
    main()
