"""How often a doctor is right on the runs of the corpus.

    python -m benchmarks.corpus.score chess_sealed
    python -m benchmarks.corpus.score trl_sealed --doctor "some-doctor {log}"
    python -m benchmarks.corpus.score runs/trl/open

A run is *harmful* where its held-out score is below its twin's by more than 5 % of what the twin gained over a policy
that learns nothing; in chess, by more than 5 % of the regret at the start. Another doctor is a command: it flags a log
by an exit code of 1, calls it good by 0, and cannot tell by any other; where it prints JSON with `causes`, the first
one's `name` is what it names.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from algorithms.doctor import diagnose_run
from algorithms.doctor.diagnosis import AS_USUAL, LEARNS, UNMEASURED
from algorithms.foreign import diagnose_log, read_log
from algorithms.foreign.diagnosis import AS_EXPECTED, CANNOT_TELL
from benchmarks.corpus.chess import COLUMNS, archive, lines
from benchmarks.records.report import Row, rate, save

DATA = Path(__file__).parents[1] / "data" / "corpus"
HARMFUL = 0.05
OURS = "metrics.jsonl"
LOGS = ("trainer_state.json", "progress.csv", OURS)


class Said(NamedTuple):
    """What a doctor says of a log.

    Attributes:
        verdict: in its words.
        flagged: whether something is wrong; None where it cannot tell.
        named: the cause it names first, "" for none.
        ruled_out: causes that it rules out.
    """

    verdict: str
    flagged: bool | None
    named: str
    ruled_out: tuple[str, ...] = ()


def ours(log: Path, config: Path | None = None) -> Said:
    """This project's doctor, with the trainer's options where they are given."""
    if log.name == OURS:
        run = diagnose_run(log.parent)
        flagged = None if run.verdict == UNMEASURED else run.verdict not in (AS_USUAL, LEARNS)
        named = [cause.name for cause in run.causes if cause.is_harmful]
        return Said(run.verdict, flagged, named[0] if named else "")
    found = diagnose_log(read_log(log, config=config))
    harmful = [cause.name for cause in found.causes if cause.is_harmful]
    flagged = None if found.verdict == CANNOT_TELL else found.verdict != AS_EXPECTED
    return Said(
        found.verdict, flagged, harmful[0] if harmful else "", tuple(each.name for each in found.ruled_out)
    )  # fmt: skip


def other(command: str) -> Callable[[Path], Said]:
    """A doctor that is a command with `{log}` in it."""

    def say(log: Path) -> Said:
        words = [word.replace("{log}", str(log)) for word in shlex.split(command)]
        done = subprocess.run(words, capture_output=True, text=True)
        try:
            causes = json.loads(done.stdout)["causes"]
            named = str(causes[0]["name"]) if causes else ""
        except (ValueError, KeyError, TypeError, IndexError):
            named = ""
        return Said(str(done.returncode), {0: False, 1: True}.get(done.returncode), named)

    return say


@contextlib.contextmanager
def opened(runs: Path) -> Iterator[Path]:
    """The folder of runs, `runs` itself or what is packed in it; a packed one goes with the context."""
    if not runs.is_file():
        yield runs
        return
    with tempfile.TemporaryDirectory() as scratch:
        with archive(runs) as packed:
            packed.extractall(scratch)
        for path in Path(scratch).glob(f"*/{COLUMNS}"):
            path.with_name(OURS).write_text(lines(path.read_bytes()))
            path.unlink()
        yield Path(scratch)


def scored(folder: Path, doctor: Callable[[Path], Said]) -> Iterator[dict[str, Any]]:
    """A row for each log: its label, whether it did harm, and what the doctor says."""
    labels = {
        path.parent: json.loads(path.read_text()) for path in sorted(folder.glob("*/label.json"))
    }
    scores = {(label["kind"], label["seed"]): label["held_out"] for label in labels.values()}
    for run, label in labels.items():
        fault, harm = label.get("fault", bool(label["cause"])), harm_of(label, scores)
        said = doctor(next(run / name for name in LOGS if (run / name).exists()))
        yield {
            "kind": label["kind"], "seed": label["seed"], "fault": fault, "cause": label["cause"],
            "in_log": label["in_log"], "harm": round(harm, 3), "harmful": fault and harm > HARMFUL,
            "verdict": said.verdict, "flagged": said.flagged, "named": said.named,
            "right": bool(said.named) and said.named in (label["cause"], label.get("also")),
            "true_ruled_out": label["cause"] in said.ruled_out,
        }  # fmt: skip


def harm_of(label: dict[str, Any], scores: dict[tuple[str, int], float]) -> float:
    """How far the run stays behind its twin, as a share of what learning gives; 0 where the twin is not there."""
    if label.get("harm") is not None:
        return float(label["harm"])
    twin = scores.get((label["twin"], label["seed"]), label["held_out"])
    floor = label.get("nothing_learned", 0.0)
    return float((twin - label["held_out"]) / max(abs(twin - floor), 1e-9))


def rates(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """How often the doctor is right, with 95 % intervals."""
    sound = [row for row in rows if not row["fault"]]
    faults = [row for row in rows if row["fault"]]
    shown = [row for row in faults if row["in_log"]]
    harmful = [row for row in shown if row["harmful"]]
    figures: list[tuple[str, list[dict[str, Any]], Callable[[Row], bool]]] = [
        ("sound: flagged", sound, lambda row: row["flagged"] is True),
        ("sound: cannot tell", sound, lambda row: row["flagged"] is None),
        ("fault that a stock log can show: named first", [row for row in shown if row["cause"]],
         lambda row: row["right"]),
        ("any harmful: named first", [row for row in faults if row["harmful"] and row["cause"]],
         lambda row: row["right"]),
        ("harmful, and a stock log can show it: flagged", harmful, lambda row: row["flagged"] is True),
        ("any fault: flagged", faults, lambda row: row["flagged"] is True),
        ("any harmful: flagged", [row for row in faults if row["harmful"]], lambda row: row["flagged"] is True),
        ("any harmful: called good", [row for row in faults if row["harmful"]], lambda row: row["flagged"] is False),
        ("all: another cause first", list(rows), lambda row: row["named"] != "" and not row["right"]),
        ("harmful: the true cause ruled out", [row for row in faults if row["harmful"]],
         lambda row: row["true_ruled_out"]),
    ]  # fmt: skip
    return [rate(*figure) for figure in figures if figure[1]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "runs", help="a part of the corpus, a folder of runs, or one packed as .tar.xz"
    )
    parser.add_argument("--doctor", default=None, metavar="COMMAND")
    parser.add_argument("--config", action="store_true", help="let ours read each run's args.json")
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    doctor = (
        other(options.doctor)
        if options.doctor
        else lambda log: ours(log, log.with_name("args.json") if options.config else None)
    )
    part = DATA / f"{options.runs}.tar.xz"
    with opened(part if part.is_file() else Path(options.runs)) as folder:
        rows = list(scored(folder, doctor))
    if not rows:
        parts = ", ".join(sorted(each.name.split(".")[0] for each in DATA.glob("*.tar.xz")))
        parser.error(
            f"{options.runs} holds no labelled run: expected one of {parts}, or such a folder"
        )
    for row in rows:
        if row["flagged"] is not row["harmful"] or row["named"] not in ("", row["cause"]):
            print(row)
    print(*rates(rows), sep="\n")
    name = Path(options.runs).name.removesuffix(".tar.xz")
    save(options.json, "corpus", rates(rows), part=name, doctor=options.doctor or "ours")


if __name__ == "__main__":
    main()
