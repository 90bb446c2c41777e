"""Rewrites the golden curves: `make golden`, or `python -m tests.golden.regenerate [PRESET ...]`.

Say in the commit why they changed. `--batches` also plays the rollouts anew.
"""

from __future__ import annotations

import sys

import torch

from algorithms import PRESETS
from tests.golden import batches, curves


def main(arguments: list[str]) -> None:
    torch.set_num_threads(1)
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
        for name in curves.stored() - set(PRESETS):
            curves.path_of(name).unlink()
            print(f"{curves.path_of(name)}: removed, there is no such preset")


if __name__ == "__main__":
    main(sys.argv[1:])
