"""`chess-lab compare`: algorithms side by side, over seeds, with what may be claimed."""

from __future__ import annotations

import argparse
import functools
import shlex
from collections.abc import Sequence
from pathlib import Path

from algorithms.commands.result_files import write_json
from algorithms.commands.run_end import program
from algorithms.comparison.executors.choice import add_options
from algorithms.core.messages import Parser, complain

EXAMPLES = (
    "chess-lab compare grpo rloo --out runs/two",
    "chess-lab compare grpo ppo rloo delightful_pg --seeds 8 --out runs/four",
    "chess-lab compare grpo --grid group_size=4,8 --out runs/groups",
)
SMOKE_MOVES, SMOKE_SEEDS = 2_048, 2


def run(arguments: Sequence[str]) -> int:
    """Exit code: 0 where all runs ran, 1 where some broke or it was refused, 130, 143 or 129 after a signal."""
    options = make_parser().parse_intermixed_args(list(arguments))
    from algorithms.comparison.compare import StoppedError, compare
    from algorithms.comparison.executors.nodes import ClusterError
    from algorithms.comparison.grid import GridError
    from algorithms.comparison.jobs import MixedError
    from algorithms.comparison.plan import Plan
    from algorithms.comparison.tuning import TuningError
    from chess_env.evaluators import EngineError

    default = Plan(("grpo",))
    budget = SMOKE_MOVES if options.smoke else default.budget_moves
    seeds = SMOKE_SEEDS if options.smoke else default.num_seeds
    try:
        plan = Plan(
            presets=tuple(options.names),
            causes=tuple(options.causes),
            grid=tuple(options.grid),
            num_seeds=seeds if options.seeds is None else options.seeds,
            first_seed=options.first_seed,
            budget_moves=budget if options.budget_moves is None else options.budget_moves,
            form=options.form,
            gamma=options.gamma,
            evaluator=options.evaluator,
            treatments=tuple(options.regularization.split(",")),
            ent_coef=options.ent_coef,
            grad_share=options.grad_share,
            tune=options.tune,
            controls=options.controls,
            allow_mixed=options.allow_mixed,
            smoke=options.smoke,
            network=options.network or default.network,
            cause_network=options.network or default.cause_network,
        )
        write_json(options.json, {})  # a path that cannot be written should fail before the runs
        say = functools.partial(print, flush=True)
        result = compare(
            plan, options.out, jobs=options.jobs, ray=options.ray, cell_cpus=options.cell_cpus,
            say=say, retry_failed=options.retry_failed,
        )  # fmt: skip
    except StoppedError as stopped:
        again = shlex.join([*program(), "compare", *arguments])
        print(f"{stopped}; the same command continues:\n  {again}")
        return stopped.exit_code
    except (
        ValueError,
        OSError,
        ImportError,
        ClusterError,
        EngineError,
        GridError,
        MixedError,
        TuningError,
    ) as error:
        complain("chess-lab compare", error)
        return 1
    print("\n".join(result.lines()))
    write_json(options.json, result.values)
    return 1 if result.broken else 0


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
        "names",
        nargs="*",
        metavar="NAME",
        help="presets, such as grpo ppo rloo delightful_pg, or module:Name of your own",
    )
    add(
        "--out",
        type=Path,
        required=True,
        help="folder of the comparison; the same call continues it",
    )
    add("--causes", nargs="+", default=[], metavar="NAME",
        help="causes of collapse, each beside its cured twin")  # fmt: skip
    add("--grid", nargs="+", default=[], metavar="KEY=V1,V2",
        help="settings to vary, such as group_size=4,8")  # fmt: skip
    add("--seeds", type=int, help="seeds of every column (8)")
    add("--first-seed", type=int, default=1, help="the seeds follow on this one (1)")
    add("--budget-moves", type=int, help="scored moves of each run (150000)")
    add_options(parser, jobs=1)
    add(
        "--network",
        metavar="NAME",
        help=f"network of all columns: {', '.join(SIZES)}, or module:Name of your own ({DEFAULT_NETWORK}; "
        "resnet for --causes)",
    )
    add("--form", default="positions", help="positions or games")
    add("--gamma", type=float, help="discount per ply in all columns (0 in positions, 1 in games)")
    add("--evaluator", default="builtin", help="who scores positions (builtin)")
    add("--regularization", default="none,equal,share",
        help="how entropy is regularised: any of none,equal,share,preset (none,equal,share)")  # fmt: skip
    add("--ent-coef", type=float, default=0.03, help="the coefficient of `equal` (0.03)")
    add("--grad-share", type=float, default=0.2,
        help="share of bonus and policy gradient norms that the bonus has in `share` (0.2)")  # fmt: skip
    add("--tune", action="store_true", help="choose each column's learning rate on tuning seeds")
    add("--controls", action="store_true", help="add pairs of columns that must coincide")
    add("--allow-mixed", action="store_true", help="compare runs that are not comparable")
    add("--retry-failed", action="store_true", help="run cells that failed before once more")
    add("--smoke", action="store_true",
        help="tiny networks, 2048 moves, 2 seeds, half a minute: to see that it works")  # fmt: skip
    add("--json", type=Path, help="also write the result to this file")
    return parser
