"""The command `chess-lab`, beside the package `algorithms`: it can say when another package has that name."""

from __future__ import annotations

import importlib.util
import sys
import textwrap
from pathlib import Path


def main() -> int:
    """Exit code of the command line of this process."""
    try:
        return _run()
    except KeyboardInterrupt:  # before the command line was there to take it
        print("interrupted", file=sys.stderr)
        return 130


def _run() -> int:
    ours = Path(__file__).resolve().with_name("algorithms")
    spec = importlib.util.find_spec("algorithms")
    places = [] if spec is None else spec.submodule_search_locations or [str(spec.origin)]
    found = list(map(str, places))
    if [Path(place).resolve() for place in found] != [ours]:
        said = (
            f"chess-lab: `import algorithms` finds {', '.join(found) or 'nothing'}, not {ours}: "
            "take the folder that it is in out of PYTHONPATH, or give that package another name"
        )
        lines = textwrap.wrap(
            said, 80, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )  # fmt: skip
        print("\n".join(lines), file=sys.stderr)
        return 1
    from algorithms.run_folder.stopping import raise_outside_imports

    with raise_outside_imports():
        from algorithms.cli import leave
        from algorithms.cli import main as run

        leave(run())


if __name__ == "__main__":
    sys.exit(main())
