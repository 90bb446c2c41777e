"""The command: see the package."""

from __future__ import annotations

import argparse

import docs.pages as package
from docs.pages import NAMES, ROOT, draw, render, stale


def main() -> None:
    """Writes pages and figures, or with --check only compares the pages."""
    parser = argparse.ArgumentParser(
        prog="python -m docs.pages",
        description=package.__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument(
        "--check", action="store_true", help="fail where a page is not what is there"
    )
    options = parser.parse_args()
    if unknown := sorted(set(options.names) - set(NAMES)):
        parser.error(
            f"no page is called {', '.join(unknown)}: expected names of {', '.join(NAMES)}"
        )
    for name in options.names or NAMES:
        if options.check:
            if found := stale(name):
                raise SystemExit(
                    f"{', '.join(found)}: not what `python -m docs.pages {name}` writes"
                )
            continue
        for path, text in (render(name) | draw(name)).items():
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_text(text, encoding="utf-8")
            print(f"written to {path}")


if __name__ == "__main__":
    main()
