"""`chess-lab report`: run folders as one page that opens offline in any browser."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from algorithms.commands.parser import Parser
from algorithms.run_folder.atomic_files import replace_file
from algorithms.run_folder.terminal import complain

if TYPE_CHECKING:
    from algorithms.reports.page import Claims, RunGroup
    from algorithms.reports.run_files import RunRecord

EXAMPLES = (
    "chess-lab report runs/mine",
    "chess-lab report runs/mine runs/other",
    "chess-lab report runs --out runs/all.html",
)
DEFAULT_NAME = "report.html"


def run(arguments: Sequence[str]) -> int:
    """Exit code: 0, or 1 where no page could be made; writes the page and prints its path."""
    options = make_parser().parse_args(list(arguments))
    try:
        root = options.dirs[0] if len(options.dirs) == 1 else _parent(options.dirs)
        out = _checked_target(options.out or root / DEFAULT_NAME)
        runs, page = make_page(root, options.dirs)
        _write(out, page)
    except ValueError as error:
        complain("chess-lab report", error)
        return 1
    size_kb = len(page.encode()) / 1000
    print(f"{runs} run{'' if runs == 1 else 's'}, {size_kb:,.0f} kB: {out}")
    return 0


def make_parser() -> argparse.ArgumentParser:
    """The parser of its options."""
    parser = Parser(
        prog="chess-lab report",
        description="Curves, causes, gradient shares, boards, settings and provenance of runs, as "
        "one HTML file that needs no network.",
    )
    parser.add_argument(
        "dirs", type=Path, nargs="+", metavar="DIR", help="a run folder, or a folder of them"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help=f"default: DIR/{DEFAULT_NAME}; of several, in the folder that holds them all",
    )
    return parser


def _parent(dirs: Sequence[Path]) -> Path:
    """The folder that holds them all."""
    return Path(os.path.commonpath([folder.resolve().parent for folder in dirs]))


def make_page(root: Path, dirs: Sequence[Path]) -> tuple[int, str]:
    """(number of runs shown, HTML) of run folders and folders of run folders.

    Of several runs one that cannot be read is left out and named on the page.

    Args:
        root: the folder that names the page and that names of runs are relative to.
        dirs: `root` alone, or several at or below it.

    Raises:
        ValueError: there is no run, or none that can be read, or one of `dirs` is no folder.
    """
    from algorithms.reports.page import PageNotes, build_page, group_columns
    from algorithms.reports.run_files import RunFileError, find_run_folders, read_run

    folders, notes = [], []
    for given in dirs:
        below, said = find_run_folders(given)
        if not below:
            linked = f" ({' '.join(said)})" if said else ""
            raise ValueError(
                f"no metrics.jsonl in or below {str(given)!r}{linked}: train first, for example "
                "`chess-lab train grpo --run-dir DIR`"
            )
        folders += below if given == root else [folder.resolve() for folder in below]
        notes += said
    runs, broken = [], []
    for folder in dict.fromkeys(folders):
        try:
            name = folder.relative_to(root).as_posix() if folder != root else root.resolve().name
            runs.append(read_run(folder, name))
        except RunFileError as error:
            broken.append(str(error))
    if not runs:
        raise ValueError("; ".join(broken))
    notes += [f"Left out: {reason}" for reason in broken]
    groups = group_columns(runs)
    page_notes = PageNotes(
        diagnoses=_diagnoses(runs, notes),
        probes=_probes(runs, notes),
        presets=_presets(groups),
        claims=_claims(root, groups, notes),
        notes=notes,
    )
    return len(runs), build_page(root.resolve().name or str(root), runs, page_notes)


def _diagnoses(runs: Sequence[RunRecord], notes: list[str]) -> dict[str, Mapping[str, Any]]:
    """The doctor's page_notes by the run's folder; a run that it cannot judge is noted."""
    from algorithms.doctor import diagnose

    found: dict[str, Mapping[str, Any]] = {}
    for run in runs:
        try:
            found[str(run.path)] = diagnose(run.rows).to_dict()
        except (ValueError, OSError) as error:
            notes.append(f"{run.name}: not diagnosed ({error}).")
    return found


def _probes(runs: Sequence[RunRecord], notes: list[str]) -> dict[str, Any]:
    """Pictures of the probe positions by the run's folder; a record that cannot be read is noted."""
    from algorithms.reports.probe_files import FOLDER

    found = {}
    for run in runs:
        folder = run.path / FOLDER
        if not folder.is_dir():
            continue
        # numba and python-chess take a second to load; a run without probes does not need them.
        from algorithms.diagnostics.probe_pictures import probe_pictures

        if folder.is_symlink() or any(file.is_symlink() for file in folder.iterdir()):
            notes.append(f"{run.name}: {FOLDER} is or holds a symbolic link and was not followed.")
            continue
        try:
            found[str(run.path)] = probe_pictures(run.path)
        except (ValueError, OSError) as error:
            notes.append(f"{run.name}: no boards ({error}).")
    return found


def _claims(root: Path, groups: Sequence[RunGroup], notes: list[str]) -> list[Claims]:
    """What the comparison that made the folder came to; without one, an analysis of each group's runs.

    The runs of a comparison are not analysed a second time: it said beforehand which columns are
    compared, and corrected for their number.
    """
    from algorithms.comparison.analysis import MAX_COLUMNS, compare_found
    from algorithms.reports.page import comparison_file, family_claims, read_claims
    from algorithms.reports.run_files import RunFileError

    path = comparison_file(root)
    if path is not None:
        try:
            return read_claims(path, groups)
        except RunFileError as error:
            notes.append(f"No claims: {error}")
            return []
    claims = []
    for group in groups:
        family = compare_found({column.name: column.runs for column in group.columns})
        if family is not None:
            claims += family_claims(family, group)
        elif len(group.columns) > MAX_COLUMNS:
            notes.append(
                f"Nothing is claimed of the {len(group.columns)} columns of one task: with more than "
                f"{MAX_COLUMNS} the correction for their number leaves next to nothing. Give a folder of fewer."
            )
    return claims


def _presets(groups: Sequence[RunGroup]) -> dict[str, Mapping[str, str]]:
    """What a run of the preset's name has by itself, by the first run's folder, for each group of a single column."""
    alone = [group.columns[0].runs[0] for group in groups if len(group.columns) == 1]
    if not alone:
        return {}
    from algorithms import PRESETS
    from algorithms.config.files import to_dict
    from algorithms.config.names import named_run
    from algorithms.reports.tasks import flatten

    return {
        str(run.path): flatten(to_dict(named_run(run.label).settled()))
        for run in alone
        if run.label in PRESETS
    }


def _checked_target(out: Path) -> Path:
    """`out`, if a page may be written there: it must be an .html file, so that no record is replaced."""
    if out.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"--out {str(out)!r} does not end in .html: give the name of a page")
    if out.is_dir():
        raise ValueError(f"--out {str(out)!r} is a folder: give the name of a page in it")
    return out


def _write(out: Path, page: str) -> None:
    """Writes the page whole or not at all."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        replace_file(out, page.encode())
    except OSError as error:
        raise ValueError(
            f"{str(out)!r} cannot be written ({error.strerror}): choose another --out"
        ) from None
