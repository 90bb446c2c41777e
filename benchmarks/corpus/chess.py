"""Packs the runs of the doctor's matrix into a part of the corpus: records, settings and labels.

    python -m benchmarks.corpus.chess runs/sealed --part sealed --out benchmarks/data/corpus/chess_sealed.tar.xz

Columns of a clock are left out, and numbers have six digits. Two packs of the same runs are equal byte by byte.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.doctor.faults import SOUND
from benchmarks.doctor.matrix import PARTS, Job, is_sound, jobs, read, regrets

COLUMNS = "columns.json"
"""Stands for metrics.jsonl in a packed run."""


def label(part: str, job: Job, runs: Path) -> dict[str, Any]:
    """What is known of a run; `held_out` is minus the regret at the end, centipawns."""
    kind, twin = PARTS[part][job.kind], Job(part, SOUND, job.start, job.seed)
    start_cp, end_cp = regrets(read(runs / job.name))
    twin_start_cp, twin_end_cp = regrets(read(runs / twin.name))
    return {
        "kind": job.name.rpartition("__")[0],
        "seed": job.seed,
        "fault": not is_sound(job.kind),
        "stage": kind.stage,
        "cause": kind.cause,
        "twin": twin.name.rpartition("__")[0],
        "held_out": round(-end_cp, 2),
        "nothing_learned": round(-start_cp, 2),
        "harm": round((end_cp - twin_end_cp) / twin_start_cp, 4),
        "in_log": True,
    }


@contextlib.contextmanager
def archive(path: Path) -> Iterator[tarfile.TarFile]:
    """A packed part, to read; nothing in it leaves the folder that it is unpacked to.

    The Python 3.11.2 of Debian 12 does not know `filter="data"` yet.
    """
    with tarfile.open(path) as found:
        found.extraction_filter = getattr(tarfile, "data_filter", None)
        yield found


def packed(runs: Mapping[str, Mapping[str, bytes]]) -> bytes:
    """A .tar.xz of folders: name of the run -> name of the file -> its bytes."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:xz", preset=9) as tar:
        for name, files in sorted(runs.items()):
            for file, content in sorted(files.items()):
                member = tarfile.TarInfo(f"{name}/{file}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return archive.getvalue()


def columns(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """The rows column by column, "" where a row lacks it: half as large as line by line once packed."""
    names = dict.fromkeys(name for row in rows for name in row if not name.startswith("time/"))
    return json.dumps(
        {name: [_short(row.get(name, "")) for row in rows] for name in names}
    ).encode()


def lines(packed_columns: bytes) -> str:
    """metrics.jsonl of `columns`."""
    table = json.loads(packed_columns)
    rows = zip(*table.values(), strict=True)
    kept = (
        {name: value for name, value in zip(table, row, strict=True) if value != ""} for row in rows
    )
    return "".join(json.dumps(row) + "\n" for row in kept)


def _short(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def settings(path: Path) -> bytes:
    """The settings of a run, without the folder in which it was made and the checksum of all that."""
    values = {**json.loads(path.read_text()), "run_dir": None}
    values.pop("sha256", None)
    return json.dumps(values).encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("--part", choices=PARTS, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    found = {
        job.name: {
            COLUMNS: columns(read(options.runs / job.name)),
            "config.json": settings(options.runs / job.name / "config.json"),
            "label.json": json.dumps(label(options.part, job, options.runs)).encode(),
        }
        for job in jobs(options.part)
    }
    options.out.write_bytes(packed(found))
    print(f"{len(found)} runs, {options.out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
