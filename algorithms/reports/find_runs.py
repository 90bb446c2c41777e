"""Where run folders are."""

from __future__ import annotations

import os
from pathlib import Path

from algorithms.reports.run_files import RunFileError, printable
from algorithms.run_folder.files import METRICS_FILE

# Where `chess-lab compare` keeps the runs on its tuning seeds.
NEVER_REPORTED = ("tuning", "calibration")


def find_run_folders(root: Path) -> tuple[list[Path], list[str]]:
    """(run folders, notes): the folders with a metrics.jsonl at `root` or below, sorted by path.

    A symbolic link below `root` is not followed; each such link that is a folder or a metrics.jsonl is
    noted. Inside a run folder no further run is looked for, nor in a folder of `NEVER_REPORTED` name.

    Raises:
        RunFileError: `root` is no folder.
    """
    if not root.is_dir():
        what = "is a file" if root.exists() else "does not exist"
        raise RunFileError(f"{str(root)!r} {what}: give a run folder or a folder of run folders")
    found: list[Path] = []
    notes: list[str] = []
    for folder, below, files in os.walk(root, followlinks=False):
        here = Path(folder)
        links = [name for name in below if (here / name).is_symlink()]
        record = here / METRICS_FILE
        if METRICS_FILE in files and record.is_symlink():
            links.append(METRICS_FILE)
        elif METRICS_FILE in files:
            found.append(here)
            below.clear()
        hidden = [name for name in below if name in NEVER_REPORTED and (here / name).is_dir()]
        below[:] = [name for name in below if name not in hidden]
        notes += [
            f"{printable(str((here / name).relative_to(root)))} was left out: what is chosen on tuning "
            "seeds is not reported. Give that folder itself to see its runs."
            for name in hidden
        ]
        notes += [
            f"{printable(str((here / name).relative_to(root)))} is a symbolic link and was not followed."
            for name in sorted(links)
            if here not in found
        ]
    return sorted(found), sorted(notes)
