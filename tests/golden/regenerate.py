"""Rewrites the golden curves: `make golden`, or `python -m tests.golden.regenerate [PRESET ...]`.

Without a name the signatures too; `--signatures` writes them alone. Say in the commit why they changed, and declare a
new signature in the changelog. `--batches` also plays the rollouts anew.
"""

from __future__ import annotations

import json
import sys

import torch

from algorithms import PRESETS
from algorithms.training.signature import combined, signatures
from tests.golden import batches, curves


def main(arguments: list[str]) -> None:
    torch.set_num_threads(1)
    if arguments == ["--signatures"]:
        save_signatures()
        return
    names = [name for name in arguments if name != "--batches"]
    unknown = sorted(set(names) - set(PRESETS))
    if unknown:
        sys.exit(f"error: no such preset: {', '.join(unknown)}; there are {', '.join(PRESETS)}")
    if "--batches" in arguments:
        batches.save()
        print(f"{batches.PATH}: {batches.PATH.stat().st_size:,} bytes")
    for name in names or PRESETS:
        curves.save(name, curves.compute(name))
        print(curves.path_of(name))
    if not names:
        save_signatures()
        for name in curves.stored() - set(PRESETS):
            curves.path_of(name).unlink()
            print(f"{curves.path_of(name)}: removed, there is no such preset")


def save_signatures() -> None:
    """Writes the signature of every preset, and the one of all."""
    found = signatures()
    text = json.dumps({"signature": combined(list(found.values())), "presets": found}, indent=1)
    curves.SIGNATURES.write_text(text + "\n", encoding="utf-8")
    print(curves.SIGNATURES)


if __name__ == "__main__":
    main(sys.argv[1:])
