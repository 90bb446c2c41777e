"""`chess-lab causes`: lists, shows and runs the causes of collapse."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from algorithms.commands.parser import Parser, whole
from algorithms.commands.result_files import try_path, write_json
from algorithms.commands.run_end import code_of, next_commands
from algorithms.core.checks import WIDTH, canonical, message_lines
from algorithms.run_folder.terminal import complain

if TYPE_CHECKING:
    from algorithms.collapse.cause import Cause

EXAMPLES = (
    "chess-lab causes list",
    "chess-lab causes run sampled_entropy_bonus --smoke",
    "chess-lab causes run loss_budget --size half",
)
_RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
MATRICES = {
    "resnet": _RESULTS / "causes.json",
    "move_net": _RESULTS / "causes_move_net.json",
}
"""Network -> committed file with the results of all causes on it."""


def run(arguments: Sequence[str]) -> int:
    """Exit code: 0; 1 where a run could not be made, 2 for a command line that makes no sense."""
    options = make_parser().parse_args(list(arguments))

    from algorithms.core.checks import require_choice

    if options.command == "list":
        print("\n".join(listed()))
        return 0
    from algorithms.collapse import CAUSES, COMPOSITES
    from algorithms.collapse.cause import ARCHITECTURES

    known = CAUSES | COMPOSITES
    options.name = canonical(options.name, known) or options.name
    try:
        require_choice("NAME", options.name, known)
        if options.command == "run":
            require_choice("--network", options.network, ARCHITECTURES)
        cause = known[options.name]
        if options.command == "run":
            cause = cause.on_network(options.network).at_size(options.size)
    except ValueError as error:
        complain("chess-lab causes", error)
        return 2
    if options.command == "show":
        print("\n".join(shown(cause, {name: measured(name, cause.name) for name in MATRICES})))
        return 0
    return _start(cause, options)


def make_parser() -> argparse.ArgumentParser:
    """The parser of its options."""
    parser = Parser(
        prog="chess-lab causes",
        description="Causes of entropy collapse that can be switched on, each with a cured twin.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="list | show | run")
    commands.add_parser("list", help="name them")
    show = commands.add_parser("show", help="what is switched on, what others measured, the remedy")
    show.add_argument("name", metavar="NAME", help="a cause, as `list` names it")
    start = commands.add_parser("run", help="run one, or its cured twin")
    start.add_argument("name", metavar="NAME", help="a cause, as `list` names it")
    start.add_argument("--cured", action="store_true", help="run the twin without the cause")
    # The names are checked later: to offer them here would load torch for --help.
    start.add_argument("--network", default="resnet", help="resnet (default) or move_net")
    start.add_argument("--size", default="full", help="full (default), half, third or harmless")
    start.add_argument("--seed", type=whole, default=0, help="of everything that is random")
    start.add_argument(
        "--num-engines", type=whole, help="threads of its boards and evaluator; no score changes"
    )
    start.add_argument("--smoke", action="store_true", help="a few seconds: do the parts work?")
    start.add_argument(
        "--preflight",
        action="store_true",
        help="let the preflight stop it where it finds the fault",
    )
    start.add_argument("--run-dir", type=Path, help="a new folder; else one under runs/ is made")
    start.add_argument("--json", type=Path, help="also write the outcome to this file")
    return parser


def _start(cause: Cause, options: argparse.Namespace) -> int:
    from algorithms.collapse.cause import FIRST, FULL
    from algorithms.collapse.experiment import run_cause
    from algorithms.training.preflight import PreflightError

    try_path("--json", options.json)
    try:
        outcome = run_cause(
            cause,
            cured=options.cured,
            seed=options.seed,
            run_dir=options.run_dir,
            preflight=options.preflight,
            smoke=options.smoke,
            num_engines=options.num_engines,
        )
    except PreflightError as error:
        remedy = (
            "This is what the preflight is for. To see what the run does, leave --preflight out."
        )
        complain("chess-lab causes", f"{error}\n{remedy}")
        return 1
    except (ValueError, RuntimeError, OSError) as error:
        complain("chess-lab causes", error)
        return 1
    print("\n".join(["", *outcome.lines(), f"  run folder: {outcome.result.run_dir}"]))
    run = str(outcome.result.run_dir)
    twin = ("causes", "run", cause.name, *(() if options.cured else ("--cured",)))
    twin += () if options.network == FIRST else ("--network", options.network)
    twin += () if options.size == FULL else ("--size", options.size)
    says = "the run with the cause" if options.cured else "the twin without the cause"
    print("\n".join(next_commands(
        (("diagnose", run), "the cause, from the record alone"),
        (("report", run), "one HTML page"),
        *(() if cause.composite else ((twin, says),)),
    )))  # fmt: skip
    write_json(options.json, outcome.to_dict())
    return code_of(outcome.result)


def listed() -> list[str]:
    """Lines of at most 80 columns: each cause, each composite, and the causes that the doctor calls by one name."""
    from algorithms.collapse import CAUSES, COMPOSITES

    lines = [f"{'cause':<23}what is switched on"]
    lines += [f"{cause.name:<23}{cause.title}" for cause in CAUSES.values()]
    lines += ["", "several at once, in runs of an earlier project (docs/causes/earlier_runs.md):"]
    lines += [f"{cause.name:<23}{cause.title}" for cause in COMPOSITES.values()]
    lines += ["", "one name of the doctor's for causes that no record tells apart:"]
    of_class: dict[str, list[str]] = {}
    for cause in CAUSES.values():
        of_class.setdefault(cause.doctor_class, []).append(cause.name)
    for name, members in of_class.items():
        lines += [f"{name}: {', '.join(members)}"] if len(members) > 1 else []
    return lines


def shown(cause: Cause, runs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """All that is known of a cause.

    Args:
        cause: the cause.
        runs: network -> its entry in the committed matrix; empty where there is none.
    """
    from algorithms.collapse.cause import FIRST

    others = {} if cause.composite else {n: cause.on_network(n) for n in runs if n != FIRST}
    changed = _changed(cause)
    lines = [f"{cause.name}: {cause.title}", "", *_wrapped(cause.because), ""]
    lines += ["switched on, against the cured twin:"]
    lines += [f"  {name}: {was} -> {now}" for name, (was, now) in changed.items()]
    for network, other in others.items():
        lines += [
            f"  {name} on {network}: {was} -> {now}"
            for name, (was, now) in _changed(other).items()
            if changed.get(name) != (was, now)
        ]
    if cause.fault is not None:
        lines.append(f"  fault: {cause.fault_says}")
    called = ", ".join(cause.composite) or cause.doctor_class
    lines += ["", *message_lines(f"the doctor calls it {called}")]
    lines += _sizes(cause)
    if cause.blocked_by_preflight:
        lines.append(
            "with --preflight it is stopped before the first update, as `chess-lab train` would"
        )
    if cause.predicates:
        lines += ["", "predicates (all must hold, and fail for the twin of the same seed):"]
    for position, predicate in enumerate(cause.predicates):
        lines.append(f"  {predicate}")
        ours = _median(runs[FIRST], predicate.reading)
        lines += [f"    ours{ours}"] if ours else []
        for network, other in others.items():
            there = other.predicates[position]
            wanted = "" if there == predicate else f", {there.beyond} and {there.margin:g} apart"
            ours = _median(runs[network], predicate.reading)
            if wanted:  # both do not fit into a line
                lines += [f"    on {network}{wanted}"]
                lines += [f"      ours{ours}"] if ours else []
            elif ours:
                lines += [f"    on {network}{ours}"]
    if cause.published:
        lines += ["", "figures of others (docs/causes/measured.md), and ours:"]
    for figure in cause.published:
        lines += [f"  {figure.quantity}:", f"    {figure.theirs} ({figure.source})"]
        ours = _median(runs[FIRST], figure.reading) or ": not run yet"
        line = f"    ours, {figure.reading}{ours}"
        fits = len(line) <= WIDTH
        lines += [line] if fits else [f"    ours, {figure.reading}:", f"      {ours[2:]}"]
        for network in others:
            ours = _median(runs[network], figure.reading)
            lines += [f"    ours on {network}{ours}"] if ours else []
    lines += ["", "remedy:", *_wrapped(cause.remedy)]
    lines += ["", f"chess-lab causes run {cause.name}"]
    if not cause.composite:
        lines.append(f"chess-lab causes run {cause.name} --cured")
        lines += [f"on another network: --network {network}" for network in others]
    return lines


def _sizes(cause: Cause) -> list[str]:
    """Each size but the full one, with what is different there, in the run with the cause and in its twin."""
    from algorithms.collapse.cause import SIZES
    from algorithms.config.files import differences

    lines = []
    for size in SIZES.get(cause.name, {}):
        own = cause.at_size(size)
        on, off = (
            differences(cause.config(cured=cured, seed=0), own.config(cured=cured, seed=0))
            for cured in (False, True)
        )
        found = [own.fault_says] if own.fault_says != cause.fault_says else []
        for name in dict.fromkeys((*on, *off)):
            if name != "cause":
                both = on.get(name, off.get(name)) == off.get(name)
                now = (on.get(name) or off[name])[1]
                where = " in both" if name in on and both else "" if name in on else " in the twin"
                found.append(f"{name} {now}{where}")
        lines += textwrap.wrap(f"{size}: {', '.join(found)}", 79, initial_indent="  ",
                               subsequent_indent="    ", break_on_hyphens=False)  # fmt: skip
    return (
        ["", "smaller (--size; the predicates are those of the full size):", *lines]
        if lines
        else []
    )


def _changed(cause: Cause) -> dict[str, tuple[Any, Any]]:
    """{setting: (its value without the cause, with it)}."""
    from algorithms.collapse.cause import baseline
    from algorithms.config.files import differences

    without = baseline(cause.network) if cause.composite else cause.config(cured=True, seed=0)
    found = differences(without, cause.config(cured=False, seed=0))
    return {name: values for name, values in found.items() if name != "cause"}


def measured(network: str, name: str) -> dict[str, Any]:
    """A cause's readings in the committed matrix of a network; empty where it has none."""
    path = MATRICES[network]
    if not path.exists():
        return {}
    matrix: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return dict((matrix["causes"] | matrix.get("composites", {})).get(name, {}))


def _median(runs: Mapping[str, Any], reading: str) -> str:
    found = runs.get("readings", {}).get(reading)
    if not found:
        return ""
    on, off = (sorted(v for v in found.get(side, ()) if v is not None) for side in ("on", "cured"))

    def middle(values: list[float]) -> str:
        return f"{values[len(values) // 2]:.3g}" if values else "not measured"

    twin = f", cured {middle(off)}" if "cured" in found else ""
    seeds = len(found["on"])
    return f": {middle(on)}{twin} ({f'medians of {seeds} seeds' if seeds > 1 else 'one seed'})"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 79, initial_indent="  ", subsequent_indent="  ")
