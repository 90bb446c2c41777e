"""Pictures of the page for docs/board.md: python -m tests.board.screenshots [FOLDER]."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

from PIL import Image

from tests.board.browser import chromium, tab
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
            page.page.evaluate("() => document.activeElement.blur()")
            picture = Image.open(io.BytesIO(page.page.screenshot()))
            written.append(folder / f"{name}.png")
            # 256 colours are enough for flat areas, at half of the bytes.
            few = picture.convert("RGB").quantize(
                256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE
            )
            few.save(written[-1], optimize=True)
    return written


def main() -> None:
    """Writes the pictures; the scores in them are Stockfish's where it is found."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    with chromium() as browser, board_process("--port", "0", "example") as (_, url):
        for path in take(browser, url, folder):
            print(f"{path.stat().st_size:,} bytes: {path}")


if __name__ == "__main__":
    main()
