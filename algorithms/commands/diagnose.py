"""`chess-lab diagnose`: what a run's record says of collapse and its causes."""

from __future__ import annotations

import argparse
import json
import shlex
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from algorithms.run_folder.messages import complain

if TYPE_CHECKING:
    from algorithms.collapse.doctor import Diagnosis

EXAMPLES = (
    "chess-lab diagnose runs/mine",
    "chess-lab diagnose runs/mine --json",
)


def run(arguments: Sequence[str]) -> int:
    """Exit code: 0 where all is well, 1 where a cause or a collapse was found, 2 where nothing could be read."""
    options = make_parser().parse_args(list(arguments))

    from algorithms.collapse.doctor import diagnose_run

    try:
        diagnosis = diagnose_run(options.run_dir)
    except (ValueError, OSError) as error:
        complain("chess-lab diagnose", error)
        return 2
    if options.json:
        print(json.dumps(diagnosis.to_dict(), indent=2))
    else:
        print("\n".join(written(diagnosis, shlex.quote(str(options.run_dir)))))
    return diagnosis.exit_code


def make_parser() -> argparse.ArgumentParser:
    """The parser of its options."""
    parser = argparse.ArgumentParser(
        prog="chess-lab diagnose",
        description="Reads RUN/metrics.jsonl and names the likeliest cause of what it shows. No "
        "setting of the run is looked at.",
        epilog="exit code: 0 all well, 1 a cause or a collapse found, 2 the record cannot be read",
    )
    parser.add_argument("run_dir", metavar="RUN", type=Path, help="a run folder")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def written(diagnosis: Diagnosis, run: str) -> list[str]:
    """The diagnosis for people; `run` is what the commands call the run folder."""
    lines = [f"verdict: {diagnosis.verdict}"]
    for rank, cause in enumerate(diagnosis.causes, 1):
        lines += [
            "",
            f"{rank}. {cause.name} (confidence {cause.confidence:.0%})",
            *_item("measured", cause.measured),
            *_item("without it", cause.without),
            *_item("remedy", cause.remedy),
            f"   {'to confirm':<12}{cause.confirm.replace('RUN', run)}",  # one line, to be copied
        ]
    if diagnosis.notes:
        lines.append("")
    for note in diagnosis.notes:
        lines += textwrap.wrap(note, 79, initial_indent="- ", subsequent_indent="  ")
    return lines


def _item(name: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, 79, initial_indent=f"   {name:<12}", subsequent_indent=" " * 15,
        break_on_hyphens=False,
    )  # fmt: skip
