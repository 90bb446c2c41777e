"""`chess-lab remedies`: which remedy cures which fault, and what it costs."""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from algorithms.commands.parser import Parser, whole
from algorithms.commands.result_files import try_path, write_json
from algorithms.commands.run_end import program
from algorithms.comparison.executors import add_options, jobs_of
from algorithms.run_folder.terminal import complain

EXAMPLES = (
    "chess-lab remedies run --out runs/remedies --jobs 2",
    "chess-lab remedies run --repeat runs/remedies --network resnet --out runs/two",
    "chess-lab remedies show runs/remedies",
)


def run(arguments: Sequence[str]) -> int:
    """Exit code: 0; 1 where a trial failed, 2 for a command line that makes no sense, 130 or 143 after a signal."""
    options = make_parser().parse_args(list(arguments))
    commands = {"list": _list, "run": _run, "show": _show, "trial": _trial}
    try:
        return commands[options.command](options, arguments)
    except BrokenPipeError:
        raise  # `| head`: no error
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        complain("chess-lab remedies", error)
        return 2 if isinstance(error, ValueError) else 1


def make_parser() -> argparse.ArgumentParser:
    """The parser of its options."""
    parser = Parser(
        prog="chess-lab remedies",
        description="Remedies tried against every fault that does harm: what each does to the held-out regret, on "
        "the same seeds with and without it.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="list | run | show")
    commands.add_parser("list", help="name them")
    start = commands.add_parser("run", help="run the matrix, or continue it")
    _add_where(start)
    add = start.add_argument
    add("--faults", nargs="+", metavar="NAME", help="causes, as `causes list` has them, and sound")
    add("--remedies", nargs="+", metavar="NAME",
        help="some of those that `list` names, and module:Name of algorithms of your own")  # fmt: skip
    add("--repeat", type=Path, metavar="MATRIX",
        help="only what cures in this matrix, a folder or file: say, on another --network")  # fmt: skip
    add("--out", type=Path, required=True, help="folder; the same call continues it")
    add("--retry-failed", action="store_true", help="run trials that failed again")
    add_options(start, jobs=1)
    show = commands.add_parser("show", help="what a matrix came to")
    show.add_argument("out", type=Path, metavar="OUT", help="folder of `run`, or its remedies.json")
    for each in (start, show):
        each.add_argument("--json", type=Path, help="also write rows and verdicts to this file")
    trial = commands.add_parser("trial", help="one fault under one remedy; `run` starts them")
    add = trial.add_argument
    add("fault", metavar="FAULT", help="a cause, as `causes list` names it, or sound")
    add("remedy", metavar="REMEDY",
        help="one that `remedies list` names, or module:Name of an algorithm of your own")  # fmt: skip
    _add_where(trial)
    add("--run-dir", type=Path, required=True, help="for the runs, which are removed")
    add("--json", type=Path, required=True, help="the file of its rows")
    return parser


def _add_where(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--start", choices=("warm", "cold"), default="warm",
        help="from the network's warm policy (default), or from random weights")  # fmt: skip
    add("--network", help="move_net (default) or resnet")
    add("--seeds", type=whole, default=12, help="of each trial (12)")
    add("--first-seed", type=whole, default=3001, help="the others follow it (3001)")
    add("--smoke", action="store_true", help="tiny runs on two seeds: do the parts work?")


def _list(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    from algorithms.collapse.remedies import REMEDIES

    for name, title in [
        ("remedy", "what is changed"),
        *((n, r.title) for n, r in REMEDIES.items()),
    ]:
        print(f"{name:<16}{title}")
    return 0


def _run(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    from algorithms.comparison import remedy_runs
    from algorithms.comparison.executors import open_executor
    from algorithms.comparison.grid import StoppedError
    from algorithms.run_folder.atomic_files import replace_json

    lists = {name: getattr(options, name) for name in ("faults", "remedies")}
    given: dict[str, Any] = {name: tuple(each) for name, each in lists.items() if each is not None}
    given |= {"network": options.network} if options.network else {}
    if options.repeat is not None:
        if options.remedies is not None:
            raise ValueError("--remedies: --repeat takes them from its matrix; leave one out")
        cells = _cures(_read(options.repeat), options.faults)
        given |= {
            "faults": tuple(dict.fromkeys(fault for fault, _ in cells)),
            "remedies": tuple(dict.fromkeys(remedy for _, remedy in cells)),
            "cells": cells,
        }
    plan = remedy_runs.RemedyPlan(
        options.start, num_seeds=2 if options.smoke else options.seeds, first_seed=options.first_seed,
        smoke=options.smoke, **given,
    )  # fmt: skip
    try_path("--json", options.json)
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    where = open_executor(out, jobs=jobs_of(options), ray=options.ray, cell_cpus=options.cell_cpus)
    try:
        with where as executor:
            found = remedy_runs.run_matrix(plan, out, executor, retry_failed=options.retry_failed)
    except StoppedError as stopped:
        again = shlex.join([*program(), "remedies", *arguments])
        print(f"{stopped.grid.stopped_by}: stopped; the same command continues:\n  {again}")
        return stopped.grid.exit_code
    replace_json(out / remedy_runs.RESULT_FILE, found)
    _say(found, options.json)
    return 1 if found["broken"] else 0


def _show(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    _say(_read(options.out), options.json)
    return 0


def _read(out: Path) -> dict[str, Any]:
    """A finished matrix, from its folder or its file."""
    from algorithms.comparison.remedy_runs import RESULT_FILE

    path = out / RESULT_FILE if out.is_dir() else out
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if "trials" not in found:
        what = "holds no trials" if path.exists() else "does not exist"
        raise ValueError(f"{path} {what}: give the folder of a finished `chess-lab remedies run`")
    return found


def _cures(found: Mapping[str, Any], faults: Sequence[str] | None) -> tuple[tuple[str, str], ...]:
    """(fault, remedy) of what cures, of these faults or of all."""
    from algorithms.comparison.remedy_verdicts import effects

    cells = tuple(
        (fault, each.remedy)
        for fault, trials in found["trials"].items()
        for each in effects(trials, fault)
        if each.verdict == "cures" and (faults is None or fault in faults)
    )
    if not cells:
        raise ValueError(
            f"nothing cures {', '.join(faults or ['any fault'])} in the matrix of --repeat"
        )
    return cells


def _say(found: Mapping[str, Any], path: Path | None) -> None:
    """Prints the verdicts, a block for each fault, what cures first; `path` gets them and the rows."""
    from algorithms.comparison.remedy_verdicts import MARGIN_CP, effects

    verdicts = {fault: effects(trials, fault) for fault, trials in found["trials"].items()}
    plan = found["plan"]
    order = ("cures", "helps", "cannot tell", "nothing", "harms")
    lines = [
        "",
        f"{plan['network']}, {plan['start']} start, {len(found['seeds'])} seeds:",
        "held-out regret at the end, against the untreated run, cp",
    ]
    for fault, own in verdicts.items():
        lines += ["", fault]
        for each in sorted(own, key=lambda e: (order.index(e.verdict), e.change_cp)):
            within = each.interval
            ends = "" if within is None else f" ({within.low:+.0f} to {within.high:+.0f})"
            lines.append(f"  {each.verdict:<12}{each.remedy:<16}{each.change_cp:+6.0f}{ends}")
        for remedy, why in found["skipped"].get(fault, {}).items():
            lines += textwrap.wrap(
                why.partition(": ")[2] or why, 80,
                initial_indent=f"  {'not run':<12}{remedy:<16}", subsequent_indent=" " * 30,
            )  # fmt: skip
    cures = f"cures: better than untreated, and at most {MARGIN_CP:g} cp above the run without the fault"
    print(*lines, "", cures, *(f"FAILED {line}" for line in found["broken"]), sep="\n")
    shown = {fault: [each.to_dict() for each in own] for fault, own in verdicts.items()}
    write_json(path, {**found, "verdicts": shown})


def _trial(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    from algorithms.collapse.trial import Trial, run_trial
    from algorithms.networks.settings import DEFAULT_NETWORK
    from algorithms.run_folder import environment

    try_path("--json", options.json)
    network = options.network or DEFAULT_NETWORK
    trial = Trial(options.fault, options.remedy, network, options.start, options.smoke)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    options.run_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.run_dir) as scratch:
        rows, stopped_by = run_trial(trial, seeds, Path(scratch))
    if stopped_by is not None:
        return 128 + signal.Signals[stopped_by].value
    write_json(options.json, {**vars(trial), "rows": rows, "git": environment.git_state()})
    return 0
