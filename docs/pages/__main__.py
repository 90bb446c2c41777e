"""The command: see the package."""

from __future__ import annotations

import argparse

import docs.pages as package
from docs.pages import ROOT, chosen, drawn, filled, stale


def main() -> None:
    """Writes pages and their figures, or with --check only compares the pages."""
    parser = argparse.ArgumentParser(
        prog="python -m docs.pages",
        description=package.__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a page, or a folder of pages")
    parser.add_argument(
        "--check", action="store_true", help="fail where a table is not what is there"
    )
    options = parser.parse_args()
    try:
        pages = chosen(options.names)
    except ValueError as error:
        parser.error(str(error))
    if options.check:
        if old := [name for name, path in pages.items() if stale(path)]:
            raise SystemExit(
                f"{', '.join(old)}: not what `python -m docs.pages {' '.join(old)}` writes"
            )
        return
    for name, page in pages.items():
        text = filled(page.read_text(encoding="utf-8"))
        for path, content in {page: text, **drawn(name)}.items():
            path.write_text(content, encoding="utf-8")
            print(f"written to {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
