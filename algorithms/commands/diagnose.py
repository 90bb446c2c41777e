"""`chess-lab diagnose`: what came of a run, where its signal is lost, and what its record says of known causes.

Runs of other trainers too, as far as their logs tell.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import shlex
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from algorithms.commands.parser import Parser
from algorithms.core.checks import times
from algorithms.run_folder.atomic_files import CONFIG_FILE, METRICS_FILE
from algorithms.run_folder.terminal import complain

if TYPE_CHECKING:
    from algorithms.doctor import Diagnosis
    from algorithms.doctor.findings import Finding
    from algorithms.doctor.signal_chain import SignalChain
    from algorithms.foreign import ForeignDiagnosis

EXAMPLES = (
    "chess-lab diagnose runs/mine",
    "chess-lab diagnose runs/mine --twin runs/first",
    "chess-lab diagnose outputs/checkpoint-500/trainer_state.json",
)
SOURCES = ("trl", "verl", "openrlhf", "prime-rl", "sb3")
RUNS = Path("runs")
_WIDTH = 79  # and the end of the line


def run(arguments: Sequence[str]) -> int:
    """Exit code: 0 nothing found, 1 a stage or cause did harm or nothing was learned, 2 unreadable, 3 untold."""
    parser = make_parser()
    options = parser.parse_args(list(arguments))
    if options.json and options.ruled_out:
        parser.error("--json has all reasons already: leave --ruled-out out")
    below = _runs_below(options.run_dir or RUNS)
    if options.run_dir is None:
        if not below:
            parser.error("RUN is missing: give a run folder, or the log of another trainer")
        options.run_dir = max(below, key=lambda run: (run / METRICS_FILE).stat().st_mtime)
        print(f"the newest run below {RUNS}: {options.run_dir}", file=sys.stderr)
    elif (
        below
        and options.run_dir not in below
        and not (options.source or options.map or options.twin)
    ):
        return _each(below, as_json=options.json)

    if not options.run_dir.exists():
        complain(parser.prog, f"{options.run_dir} does not exist: give a run folder, or a log")
        return 2
    is_foreign = options.source or options.map or options.config or not _is_ours(options.run_dir)
    if is_foreign and options.twin:
        parser.error("--twin compares two runs of this project")
    names = dict(pair.partition("=")[::2] for pair in options.map)
    if not all(names.values()):
        parser.error("--map takes THEIRS=OURS")
    try:
        diagnosis: Diagnosis | ForeignDiagnosis
        if is_foreign:
            from algorithms.foreign import diagnose_log, read_log

            log = read_log(options.run_dir, options.source, names, options.config)
            diagnosis = diagnose_log(log)
            lines = written_foreign(diagnosis, reasons=options.ruled_out)
        else:
            from algorithms.doctor import diagnose_run

            diagnosis = diagnose_run(options.run_dir, options.twin)
            folder = shlex.quote(str(options.run_dir))
            lines = written(diagnosis, folder, reasons=options.ruled_out)
    except (ValueError, OSError) as error:
        complain("chess-lab diagnose", error)
        return 2
    print(json.dumps(diagnosis.to_dict(), indent=2) if options.json else "\n".join(lines))
    return diagnosis.exit_code


def _runs_below(root: Path) -> list[Path]:
    """Run folders at `root` or below."""
    from algorithms.reports.run_files import find_run_folders

    return find_run_folders(root)[0] if root.is_dir() else []


def _each(runs: Sequence[Path], *, as_json: bool) -> int:
    """Exit code, the worst of all: 2, 1, 3, 0; prints a paragraph on each run."""
    from algorithms.doctor import diagnose_run

    codes, found = set(), {}
    for run in runs:
        try:
            diagnosis = diagnose_run(run, None)
        except (ValueError, OSError) as error:
            complain("chess-lab diagnose", error)
            codes.add(2)
            continue
        codes.add(diagnosis.exit_code)
        found[str(run)] = diagnosis.to_dict()
        if not as_json:
            print("\n".join([str(run), *_wrapped(diagnosis.line(), "   ", "   ")]))
    if as_json:
        print(json.dumps(found, indent=2))
    return next(code for code in (2, 1, 3, 0) if code in codes)


def _is_ours(path: Path) -> bool:
    """Whether it is a run folder of this project, or was meant to be one."""
    from algorithms.foreign.files import LogError, find, rows
    from algorithms.foreign.trainers import TRAINERS

    record = path / METRICS_FILE
    if path.is_file() or (path.suffix and not path.exists()):
        return False
    try:
        if not record.is_file():  # where there is no other log either the message is about ours
            return record.is_dir() or not find(path)
        names = {name for row in itertools.islice(rows(record, []), 50) for name in row}
    except (LogError, OSError):
        return True
    if "scored_moves" in names or (path / CONFIG_FILE).exists():
        return True
    return not any(len(trainer.known(names)) > 1 for trainer in TRAINERS.values())


def make_parser() -> argparse.ArgumentParser:
    """The parser of its options."""
    parser = Parser(
        prog="chess-lab diagnose",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Reads RUN/metrics.jsonl and says whether the run learned, what became of its\n"
        "entropy, at which stage of the update the learning signal is lost, and which\n"
        "known causes are named, cannot be told or are ruled out. Its settings are read\n"
        "only to find runs that had the same, and remedies that are in force already.\n"
        "\n"
        "RUN can also be a log of another trainer (TRL, verl, OpenRLHF, prime-rl,\n"
        "Stable-Baselines3), or any table: trainer_state.json, lines of JSON, CSV, a\n"
        "TensorBoard folder, an export of W&B.",
        epilog="exit codes:\n"
        "  0  the run learns, no stage loses the signal, and every known cause is ruled\n"
        "     out or did no harm\n"
        "  1  a stage loses the signal or a cause did harm, or the run does not learn,\n"
        "     gets worse, loses its entropy without return or falls behind such runs\n"
        "  2  the record cannot be read\n"
        "  3  nothing was found, and the record does not tell enough to say more",
    )
    parser.add_argument(
        "run_dir",
        metavar="RUN",
        nargs="?",
        type=Path,
        help=f"a run folder, a folder of them, or the log of another trainer (the newest below {RUNS})",
    )
    parser.add_argument(
        "--twin",
        metavar="RUN",
        type=Path,
        help="a run that it should keep up with: the same without what you suspect",
    )
    parser.add_argument(
        "--ruled-out", action="store_true", help="also say why each cause is ruled out"
    )
    parser.add_argument(
        "--from",
        dest="source",
        choices=SOURCES,
        help="which trainer wrote the log; it is guessed otherwise, and said",
    )
    parser.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="THEIRS=OURS",
        help="what a column of a table is, as H=entropy; may be given several times",
    )
    parser.add_argument("--config", type=Path, help="the other trainer's options, as JSON or YAML")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def written(diagnosis: Diagnosis, run: str, *, reasons: bool = False) -> list[str]:
    """The diagnosis for people: outcome, causes, what cannot be told, what is ruled out, notes.

    Args:
        diagnosis: the doctor's.
        run: what the commands call the run folder.
        reasons: say of each cause that is ruled out why it is.
    """
    lines = [
        f"verdict: {diagnosis.verdict}",
        "",
        *_outcome(diagnosis),
        "",
        *_stages(diagnosis.chain),
        *_findings(diagnosis, run, reasons, "update"),
    ]
    if (tried := diagnosis.tried) is not None:
        says = f"tried against {tried.cause}: {tried.says} (docs/remedies.md)"
        lines += ["", *_wrapped(says, "", " " * 3)]
        lines.append(f"   {'to try':<12}{tried.command.replace('RUN', run)}")
    return lines


def written_foreign(diagnosis: ForeignDiagnosis, *, reasons: bool = False) -> list[str]:
    """The diagnosis of another trainer's log for people."""
    log, outcome = diagnosis.log, diagnosis.outcome
    evaluations = len(log.values("eval_reward"))
    apart = "every step" if log.gap == 1 else f"{log.gap:g} steps apart"
    apart = "steps counted by rows" if log.is_counted else apart
    by = ", guessed by its names" if log.guessed else ""
    read = (
        f"a log of {log.trainer.title} ({log.format}{by}): {log.num_updates} updates, {apart}, "
        f"{evaluations} evaluations"
    )
    unit = f"nats {'an' if log.trainer.unit == 'action' else 'a'} {log.trainer.unit}"
    count = len(diagnosis.untold)
    untold = f" ({count} cause{'s' if count > 1 else ''} cannot be told)" if count else ""
    lines = [f"verdict: {diagnosis.verdict}{untold}", *_wrapped(f"read: {read}", "", " " * 3), ""]
    lines += [f"outcome: {outcome.learning}, entropy {outcome.entropy}"]
    for name, change, unit_of in (
        ("reward", outcome.reward, outcome.judged_by.replace("eval_reward", "in the evaluation")),
        ("entropy", outcome.nats, unit),
    ):
        known = not math.isnan(change.before)
        lines += _item(
            name,
            f"{change.before:.3g} -> {change.after:.3g} {unit_of.replace('reward', 'in training')}"
            if known
            else "not in the log",
        )
    return lines + _findings(diagnosis, "RUN", reasons, "step")


def _findings(
    diagnosis: Diagnosis | ForeignDiagnosis, run: str, reasons: bool, counted: str
) -> list[str]:
    """Causes, what cannot be told, what is ruled out, notes; `counted` is what the log counts."""
    lines = []
    for title, harmful in (("causes", True), ("present, harmless at this size", False)):
        causes = [cause for cause in diagnosis.causes if cause.is_harmful is harmful]
        if causes:
            lines += ["", f"{title}:"]
        for cause in causes:
            lines += _cause(1 + diagnosis.causes.index(cause), cause, run, counted)
    if diagnosis.untold:
        lines += ["", "cannot tell:", *_untold(diagnosis.untold)]
    if diagnosis.ruled_out:
        lines += ["", *_ruled_out(diagnosis, reasons)]
    if diagnosis.notes:
        lines += ["", "notes:", *(line for note in diagnosis.notes for line in _listed(note))]
    return lines


def _outcome(diagnosis: Diagnosis) -> list[str]:
    from algorithms.doctor.metric_rows import UNKNOWN

    outcome = diagnosis.outcome
    (before, after), (low, high), nats = outcome.regret_cp, outcome.interval, outcome.entropy_nats
    regret = entropy = "not known: it takes two evaluations (--eval-interval-updates)"
    if not math.isnan(before):
        regret = f"{before:.0f} -> {after:.0f} cp: {outcome.change:+.0%} (95% interval {low:+.0%} to {high:+.0%})"
        if outcome.learning == UNKNOWN:
            regret += "; the evaluations scatter too much"
    if not math.isnan(nats[0]):
        entropy = f"{nats[0]:.2f} -> {nats[1]:.2f} nats"
    lines = [f"outcome: {diagnosis.state}", *_item("regret", regret), *_item("entropy", entropy)]
    if diagnosis.pace is not None:
        lines += _item("pace", str(diagnosis.pace))
    if outcome.turned_at is not None:
        lines += _item(
            "turned", f"regret was lowest at update {outcome.turned_at} and rose after it"
        )
    return lines + [line for note in outcome.notes for line in _listed(note, margin=3)]


def _stages(chain: SignalChain) -> list[str]:
    from algorithms.doctor.signal_chain import NEEDED, STAGES

    if chain.losses:
        first = chain.losses[0]
        lines = _wrapped(f"stages: {first}", "", " " * 3)
        lines += [*_item("means", first.stage.title), *_item("look at", first.stage.look_at)]
        later = ", ".join(f"{loss.stage.name} ({loss.kept:.2f})" for loss in chain.losses[1:])
        return lines + (_item("also lost", f"{later}: it may follow from that") if later else [])
    if chain.measured < NEEDED:
        seen = f"{chain.measured} updates have all stages, {NEEDED} are needed"
        by = "--signal-chain brief, every --diagnostics-interval-updates"
        return [f"stages: not measured: {seen}", *_item("logged by", by)]
    names = ", ".join(stage.name for stage in STAGES)
    return _wrapped(
        f"stages: none loses the signal ({names}; {chain.measured} updates measured)", "", " " * 3
    )


def _cause(place: int, cause: Finding, run: str, counted: str) -> list[str]:
    from algorithms.doctor.findings import Named, rerun

    found = cause.verdict
    assert isinstance(found, Named)
    since = f"from {counted} {found.since} on"
    if cause.is_harmful and counted == "update":
        since = f"{times(found.size)} x the least that did harm; {since}"
    sure = "" if math.isnan(cause.confidence) else f" (confidence {cause.confidence:.0%})"
    # A run with all the same settings repeats a fault that is in the code.
    label = "once mended" if found.confirm == rerun() else "to confirm"
    return [
        f"{place}. {cause.name}{f' at `{cause.stage}`' if cause.stage else ''}{sure}",
        *_item("measured", found.measured),
        *_item("without it", found.without),
        *_item("effect" if counted == "update" else "since", since),
        *_item("remedy", found.remedy),
        # One line, to be copied.
        *([f"   {label:<12}{found.confirm.replace('RUN', run)}"] if found.confirm else []),
    ]


def _untold(causes: Sequence[Finding]) -> list[str]:
    """Causes that cannot be told for one reason stand together."""
    from algorithms.doctor.findings import Untold

    together: dict[tuple[str, str, str], list[str]] = {}
    for cause in causes:
        assert isinstance(cause.verdict, Untold)
        missing = ", ".join(cause.verdict.missing)
        logged_by = cause.logged_by if missing else ""
        together.setdefault((cause.verdict.because, missing, logged_by), []).append(cause.name)
    lines = []
    for (because, missing, logged_by), names in together.items():
        lines += _listed(f"{', '.join(names)}{': ' if because else ''}{because}")
        if missing:
            lines += _item("missing", missing)
        if logged_by:
            lines += _item("logged by", logged_by)
    return lines


def _ruled_out(diagnosis: Diagnosis | ForeignDiagnosis, reasons: bool) -> list[str]:
    from algorithms.doctor.findings import RuledOut

    causes = diagnosis.ruled_out
    counted = f"ruled out: {len(causes)} of {len(diagnosis.findings)} causes"
    if not reasons:
        names = ", ".join(cause.name for cause in causes)
        return [f"{counted} (--ruled-out says why)", *_wrapped(names, " " * 3, " " * 3)]
    lines = [counted]
    for cause in causes:
        assert isinstance(cause.verdict, RuledOut)
        lines += _listed(f"{cause.name}: {cause.verdict.because}")
    return lines


def _item(name: str, text: str) -> list[str]:
    return _wrapped(text, f"   {name:<12}", " " * 15)


def _listed(text: str, margin: int = 0) -> list[str]:
    return _wrapped(text, " " * margin + "- ", " " * (margin + 2))


def _wrapped(text: str, first: str, later: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=first, subsequent_indent=later, break_on_hyphens=False
    )
