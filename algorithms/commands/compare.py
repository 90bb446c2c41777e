"""`chess-lab compare`: algorithms side by side, over seeds, with what may be claimed."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from algorithms.commands.parser import Parser, whole
from algorithms.commands.result_files import try_path, write_json
from algorithms.commands.run_end import program
from algorithms.comparison.executors import add_options
from algorithms.core.checks import canonical
from algorithms.run_folder.terminal import complain

if TYPE_CHECKING:
    from algorithms.comparison.plan import Plan

EXAMPLES = (
    "chess-lab compare grpo rloo --out runs/two",
    "chess-lab compare grpo ppo rloo delightful_pg --seeds 8 --out runs/four",
    "chess-lab compare grpo --grid group_size=4,8 --out runs/groups",
)
SMOKE_MOVES, SMOKE_SEEDS = 2_048, 2
OF_PRESETS = (
    "grid", "budget_moves", "form", "gamma", "evaluator", "treatments", "ent_coef", "grad_share", "tune", "controls",
)  # fmt: skip
"""Options that the runs of causes do not read: they have settings of their own."""


def run(arguments: Sequence[str]) -> int:
    """Exit code: 0 where all runs ran, 1 where some broke or it was refused, 130, 143 or 129 after a signal."""
    options = make_parser().parse_intermixed_args(list(arguments))
    from algorithms.collapse import CAUSES
    from algorithms.comparison.compare import compare
    from algorithms.comparison.grid import StoppedError
    from algorithms.comparison.plan import Plan
    from algorithms.config.names import NAMES

    # A value that was not given is left to the plan, which has the defaults.
    names = [field.name for field in dataclasses.fields(Plan)]
    given = {k: v for k, v in vars(options).items() if k in names and v is not None}
    if options.smoke:
        given = {"budget_moves": SMOKE_MOVES, "num_seeds": SMOKE_SEEDS, **given}
    if options.network is not None:
        given["cause_network"] = options.network
    given |= options.seeds or {}
    try:
        given |= {
            "presets": tuple(
                canonical(name, NAMES) or name
                for word in options.presets
                for name in word.split(",")
            ),
            "causes": tuple(canonical(name, CAUSES) or name for name in options.causes),
        }
        for name in ("grid", "treatments"):
            if name in given:
                given[name] = tuple(given[name])
        plan = Plan(**given)
        out = options.out or Path(
            "runs", "-".join(["compare", *map(_in_a_name, (*plan.presets, *plan.causes))])
        )
        _check_used(plan, given)
        try_path("--json", options.json)
        say = functools.partial(print, flush=True)
        result = compare(
            plan,
            out,
            jobs=options.jobs,
            ray=options.ray,
            cell_cpus=options.cell_cpus,
            say=say,
            retry_failed=options.retry_failed,
        )
    except StoppedError as stopped:
        again = shlex.join([*program(), "compare", *arguments])
        print(f"{stopped}; the same command continues:\n  {again}")
        return stopped.grid.exit_code
    except (ValueError, RuntimeError, OSError, ImportError) as error:
        complain("chess-lab compare", error)
        return 1
    print("\n".join(result.lines()))
    write_json(options.json, result.values)
    return 1 if result.broken else 0


def _seeds(text: str) -> dict[str, int]:
    """The settings that a text means: a number of seeds, or 1,2,3."""
    if "," not in text:
        return {"num_seeds": whole(text)}
    first, *others = (whole(part) for part in text.split(","))
    if others != list(range(first + 1, first + 1 + len(others))):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no row of seeds that follow each other: give how many (3), or 1,2,3"
        )
    return {"num_seeds": 1 + len(others), "first_seed": first}


def _in_a_name(name: str) -> str:
    """A preset, a cause or module:Name as part of a folder's name."""
    return re.sub(r"[^\w.]+", "_", name)


def _check_used(plan: Plan, given: Mapping[str, Any]) -> None:
    """Raises ValueError where an option was given that this comparison does not read."""
    flags = {"treatments": "regularization"}
    for name in OF_PRESETS:
        if given.get(name) and not plan.presets:
            flag = flags.get(name, name).replace("_", "-")
            raise ValueError(f"--{flag} is of presets, and causes alone are compared: leave it out")
    needed = {"grad_share": {"share"}, "ent_coef": {"equal", "share"}}
    for name, treatments in needed.items():
        if name in given and not treatments & set(plan.treatments):
            flag, wanted = name.replace("_", "-"), " or ".join(sorted(treatments))
            raise ValueError(
                f"--{flag} is of {wanted}: give it in --regularization, or leave this out"
            )


def make_parser() -> argparse.ArgumentParser:
    """The parser of its options."""
    from algorithms.networks.settings import DEFAULT_NETWORK, SIZES

    parser = Parser(
        prog="chess-lab compare",
        description="Algorithms side by side: a grid of runs that can be continued, paired over common "
        "seeds, and what may be claimed. docs/comparison.md says what is kept equal.",
    )
    add = parser.add_argument
    add(
        "presets",
        nargs="*",
        metavar="NAME",
        help="presets, such as grpo ppo rloo delightful_pg, or module:Name of your own",
    )
    add(
        "--out",
        type=Path,
        help="folder of the comparison; the same call continues it (runs/compare-NAMES)",
    )
    add(
        "--causes",
        nargs="+",
        default=[],
        metavar="NAME",
        help="causes of collapse, each beside its cured twin",
    )
    add(
        "--grid",
        nargs="+",
        metavar="KEY=V1,V2",
        help="settings to vary, such as group_size=4,8",
    )
    add(
        "--seeds",
        type=_seeds,
        metavar="N",
        help="how many seeds every column has, or which: 8, or 1,2,3 (8)",
    )
    add("--first-seed", type=whole, help="the seeds follow on this one (1)")
    add("--budget-moves", type=whole, help="scored moves of each run (150000)")
    add_options(parser, jobs=1)
    add(
        "--network",
        metavar="NAME",
        help=f"network of all columns: {', '.join(SIZES)}, or module:Name of your own ({DEFAULT_NETWORK}; "
        "resnet for --causes)",
    )
    add("--form", help="positions (the default) or games")
    add("--gamma", type=float, help="discount per ply in all columns (0 in positions, 1 in games)")
    add("--evaluator", help="who scores positions (builtin)")
    add(
        "--regularization",
        dest="treatments",
        type=lambda text: text.split(","),
        help="how entropy is regularised: any of none,equal,share,preset (none,equal,share)",
    )
    add("--ent-coef", type=float, help="the coefficient of `equal` (0.03)")
    add(
        "--grad-share",
        type=float,
        help="share of bonus and policy gradient norms that the bonus has in `share` (0.2)",
    )
    add("--tune", action="store_true", help="choose each column's learning rate on tuning seeds")
    add("--controls", action="store_true", help="add pairs of columns that must coincide")
    add("--allow-mixed", action="store_true", help="compare runs that are not comparable")
    add("--retry-failed", action="store_true", help="run cells that failed before once more")
    add(
        "--smoke",
        action="store_true",
        help="tiny networks, 2048 moves, 2 seeds, half a minute: to see that it works",
    )
    add("--json", type=Path, help="also write the result to this file")
    return parser
