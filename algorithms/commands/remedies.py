"""`chess-lab remedies`: which remedy cures which fault, and what it costs."""

from __future__ import annotations

import argparse
import json
import shlex
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from algorithms.commands.parser import Parser, whole
from algorithms.commands.result_files import write_json
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
    start.add_argument(
        "--faults", nargs="+", metavar="NAME", help="causes, as `causes list` names them, and sound"
    )
    start.add_argument(
        "--remedies", nargs="+", metavar="NAME",
        help="some of those that `list` names, and module:Name of algorithms of your own",
    )  # fmt: skip
    start.add_argument(
        "--repeat", type=Path, metavar="MATRIX",
        help="only what cures in this matrix, the folder or file of an earlier run: say, on another --network",
    )  # fmt: skip
    start.add_argument("--out", type=Path, required=True, help="folder; the same call continues it")
    start.add_argument("--retry-failed", action="store_true", help="run trials that failed again")
    add_options(start, jobs=1)
    show = commands.add_parser("show", help="what a matrix came to")
    show.add_argument("out", type=Path, metavar="OUT", help="folder of `run`, or its remedies.json")
    for each in (start, show):
        each.add_argument("--json", type=Path, help="also write rows and verdicts to this file")
    trial = commands.add_parser("trial", help="one fault under one remedy; `run` starts them")
    trial.add_argument(
        "fault", metavar="FAULT", help="a cause, as `causes list` names it, or sound"
    )
    trial.add_argument(
        "remedy",
        metavar="REMEDY",
        help="one that `remedies list` names, or module:Name of an algorithm of your own",
    )
    _add_where(trial)
    trial.add_argument(
        "--run-dir", type=Path, required=True, help="for the runs, which are removed"
    )
    trial.add_argument("--json", type=Path, required=True, help="the file of its rows")
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

    print(f"{'remedy':<16}what is changed")
    print("\n".join(f"{each.name:<16}{each.title}" for each in REMEDIES.values()))
    return 0


def _run(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    from algorithms.comparison.executors import open_executor
    from algorithms.comparison.remedy_runs import (
        RESULT_FILE,
        RemedyPlan,
        StoppedMatrixError,
        run_matrix,
    )
    from algorithms.run_folder.atomic_files import replace_json

    given: dict[str, Any] = {
        "num_seeds": 2 if options.smoke else options.seeds,
        "first_seed": options.first_seed,
        "smoke": options.smoke,
    }
    given |= {
        name: tuple(value)
        for name in ("faults", "remedies")
        if (value := getattr(options, name)) is not None
    }
    if options.network is not None:
        given["network"] = options.network
    if options.repeat is not None:
        if options.remedies is not None:
            raise ValueError("--remedies: --repeat takes them from its matrix; leave one out")
        cells = _cures(_read(options.repeat), options.faults)
        given |= {
            "faults": tuple(dict.fromkeys(fault for fault, _ in cells)),
            "remedies": tuple(dict.fromkeys(remedy for _, remedy in cells)),
            "cells": cells,
        }
    plan = RemedyPlan(start=options.start, **given)
    write_json(options.json, {})  # a path that cannot be written should fail before the runs
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    where = open_executor(out, jobs=jobs_of(options), ray=options.ray, cell_cpus=options.cell_cpus)
    try:
        with where as executor:
            found = run_matrix(plan, out, executor, retry_failed=options.retry_failed)
    except StoppedMatrixError as stopped:
        again = shlex.join([*program(), "remedies", *arguments])
        print(f"{stopped.grid.stopped_by}: stopped; the same command continues:\n  {again}")
        return stopped.grid.exit_code
    replace_json(out / RESULT_FILE, found)
    print("\n".join(_shown(found)))
    write_json(options.json, _judged(found))
    return 1 if found["broken"] else 0


def _show(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    found = _read(options.out)
    print("\n".join(_shown(found)))
    write_json(options.json, _judged(found))
    return 0


def _read(out: Path) -> dict[str, Any]:
    """A finished matrix, from its folder or its file."""
    from algorithms.comparison.remedy_runs import RESULT_FILE

    path = out / RESULT_FILE if out.is_dir() else out
    if not path.exists():
        raise ValueError(
            f"{path} does not exist: give the folder of a finished `chess-lab remedies run`"
        )
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if "trials" not in found:
        raise ValueError(
            f"{path} holds no trials: give the folder of a finished `chess-lab remedies run`"
        )
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
            f"nothing cures {', '.join(faults or ['any fault'])} in the matrix of --repeat: there is nothing to repeat"
        )
    return cells


def _judged(found: Mapping[str, Any]) -> dict[str, Any]:
    from algorithms.comparison.remedy_verdicts import checks, effects

    verdicts = {
        fault: [each.to_dict() for each in effects(trials, fault)]
        for fault, trials in found["trials"].items()
    }
    return {**found, "verdicts": verdicts, "checks": vars(checks(found["trials"]))}


def _shown(found: Mapping[str, Any]) -> list[str]:
    """The verdicts for people: a block for each fault, what cures first."""
    from algorithms.comparison.remedy_verdicts import MARGIN_CP, effects

    plan = found["plan"]
    order = ("cures", "helps", "cannot tell", "nothing", "harms")
    lines = [
        "",
        f"{plan['network']}, {plan['start']} start, {len(found['seeds'])} seeds:",
        "held-out regret at the end, against the untreated run, cp",
    ]
    for fault, trials in found["trials"].items():
        lines += ["", fault]
        for each in sorted(
            effects(trials, fault), key=lambda e: (order.index(e.verdict), e.change_cp)
        ):
            ends = (
                ""
                if each.interval is None
                else f" ({each.interval.low:+.0f} to {each.interval.high:+.0f})"
            )
            lines.append(f"  {each.verdict:<12}{each.remedy:<16}{each.change_cp:+6.0f}{ends}")
        for remedy, why in found["skipped"].get(fault, {}).items():
            lines += textwrap.wrap(
                why.partition(": ")[2] or why, 80,
                initial_indent=f"  {'not run':<12}{remedy:<16}", subsequent_indent=" " * 30,
            )  # fmt: skip
    lines += [
        "",
        f"cures: better than untreated, and at most {MARGIN_CP:g} cp above the run without the fault",
    ]
    return [*lines, *(f"FAILED {line}" for line in found["broken"])]


def _trial(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    from algorithms.collapse.trial import Trial, run_trial
    from algorithms.networks.settings import DEFAULT_NETWORK
    from algorithms.run_folder import environment

    write_json(options.json, {})
    network = options.network or DEFAULT_NETWORK
    trial = Trial(options.fault, options.remedy, network, options.start, options.smoke)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    options.run_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.run_dir) as scratch:
        result = run_trial(trial, seeds, Path(scratch))
    if result.stopped_by is None:
        values = {**vars(trial), "rows": result.rows, "git": environment.git_state()}
        write_json(options.json, values)
    return result.exit_code
