"""`chess-lab train`: trains a policy by self-play, or continues a run."""

from __future__ import annotations

import argparse
import dataclasses
import os
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from algorithms.commands import run_end
from algorithms.commands.parser import Parser, whole
from algorithms.commands.result_files import try_path
from algorithms.commands.run_end import code_of, end_of_run
from algorithms.core.checks import canonical
from algorithms.run_folder.atomic_files import CONFIG_FILE
from algorithms.run_folder.terminal import complain

if TYPE_CHECKING:
    from algorithms.config.run import TrainConfig

EXAMPLES = (
    "chess-lab train grpo",
    "chess-lab train rloo --seed 1 --total-moves 50000 --run-dir runs/mine",
    "chess-lab train ppo --smoke --env.evaluator builtin",
)
USAGE = """chess-lab train NAME [options]
       chess-lab train MODULE:CLASS [options]
       chess-lab train exact --preset strong [changes]
       chess-lab train --resume RUN_DIR
       chess-lab train [NAME] --like RUN_DIR [changes]"""
CHANGED_MOST = (
    "total_moves",
    "optimizer.learning_rate",
    "regularizer.ent_coef",
    "seed",
    "run_dir",
    "algorithm.group_size",
    "policy.network",
    "rollout.form",
    "env.evaluator",
    "init_from",
    "device",
    "track",
)
"""Settings that --help shows, in this order; --help-all shows all."""


def run(arguments: Sequence[str]) -> int:
    """Exit code of the training: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP, 1 on error, otherwise 0.

    Also 0 where a controller ended the run: its settings asked for that, the run is complete, and
    a script that makes many runs should go on. `stopped_by` in the result tells.
    """
    # With --num-threads above 1, waiting OpenMP threads would otherwise burn the cores that the
    # engines need; torch reads this when it is first imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # Which run is meant decides which settings there are, so its options are taken out first.
    options, words = which_run().parse_known_args(list(arguments))
    name = words.pop(0) if words and not words[0].startswith("-") else None
    if name == "help":
        name, options.help = None, True

    from algorithms.commands.run_options import given, with_settings
    from algorithms.config.compatibility import check_settings
    from algorithms.config.files import to_dict
    from algorithms.config.foreign import trusting_commands
    from algorithms.config.run import smoke
    from algorithms.doctor import Watch
    from algorithms.processes import check_division, joined_processes
    from algorithms.processes.launch import launch, launched, restarted
    from algorithms.reports.run_files import metric_rows
    from algorithms.training.trainer import train

    try:
        begun = whole = _begun(options, name, words)
        if begun is not None and options.smoke:
            begun = smoke(begun)
        if options.help or options.help_all:
            make_parser(begun, everything=options.help_all).print_help()
            return 0
        if begun is None:
            return _usage(name, words if options.preset is None else [options.preset, *words])
        _check_one_name(name, words)
        settings = given(make_parser(begun), words, begun)
        start = None if whole is None else settings.get("init_from", whole.init_from)
        if whole is not None and start is not None and not _is_tiny(start):
            begun = dataclasses.replace(begun, policy=whole.policy)
        config = with_settings(begun, settings, command="chess-lab train")
        _check_used(config, settings)
        try_path("--json", options.json)
        if options.num_processes > 1 and not launched():
            check_settings(config)
            check_division(config.num_shards, options.num_processes)
            return launch(["train", *arguments], options.num_processes)
        resume = options.resume is not None
        if restarted() and config.run_dir is not None and (config.run_dir / CONFIG_FILE).exists():
            resume = True
        watch = Watch(() if options.resume is None else metric_rows(options.resume))
        with joined_processes() as processes:
            leads = processes.rank == 0
            result = train(config, resume=resume, watch=watch, processes=processes)
    except (ValueError, RuntimeError, OSError, ImportError) as error:
        # The errors that a user can mend say what is wrong and how; no traceback is needed.
        complain("chess-lab train", error)
        return 1
    if not leads:
        return code_of(result)

    further = run_end.after_training(
        result.run_dir,
        [result.algorithm, *(("--preset", options.preset) if options.preset else ())],
        resume=code_of(result) > 0,
        smoke=options.smoke,
        trusting=trusting_commands(to_dict(config)),
    )
    return end_of_run(result, options.json, further)


def which_run() -> Parser:
    """The parser of the options that say which run is meant, and what becomes of its result."""
    parser = Parser(prog="chess-lab train", usage=USAGE, add_help=False, allow_abbrev=False)
    add = parser.add_argument
    add("-h", "--help", action="store_true", help="show this: the settings that people change most")
    add("--help-all", action="store_true", help="show all settings")
    add(
        "--preset", metavar="NAME", help='"strong": the settings for playing strength (exact, grpo)'
    )
    add("--resume", type=Path, metavar="RUN_DIR", help="continue this run; it keeps its settings")
    add(
        "--like",
        type=Path,
        metavar="RUN_DIR",
        help="a new run with the settings of this one, but for those given here; a NAME in front brings its own "
        "algorithm and regulariser",
    )
    add(
        "--smoke",
        action="store_true",
        help="a run of a few seconds with a tiny network, to see that everything works",
    )
    add(
        "--trust",
        action="store_true",
        help="use what the folder's settings name: code, programs, files outside it",
    )
    add(
        "--num-processes",
        type=whole,
        default=1,
        metavar="N",
        help="processes on this machine that carry the run's shards, each with engines of its own; set "
        "--num-shards to a multiple of it. For several machines: `torchrun`",
    )
    add("--json", type=Path, metavar="FILE", help="also write the result to this file")
    return parser


def make_parser(*configs: TrainConfig | None, everything: bool = True) -> Parser:
    """The parser of all its options.

    Args:
        configs: runs whose settings it has; none or None: those that every run has.
        everything: whether its help shows all settings.
    """
    from algorithms.commands.run_options import add_settings
    from algorithms.config.names import NAMES, named_run

    known = textwrap.fill(" ".join(NAMES), 74)
    parser = Parser(
        prog="chess-lab train",
        usage=USAGE,
        description=f"Train by self-play. A run folder under runs/ keeps everything. NAME is one of\n{known}",
        epilog="A flag may be written by its end alone: --ent-coef, --lr.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[which_run()],
        add_help=False,
        allow_abbrev=False,
    )
    runs = [config or named_run("grpo") for config in configs or (None,)]
    shown = None if everything else [*CHANGED_MOST, *(s for run in runs for s in _own(run))]
    add_settings(parser, runs, shown)
    return parser


def _own(config: TrainConfig) -> list[str]:
    """The settings of an algorithm of the user's own, which no page lists."""
    fields = dataclasses.fields(config.algorithm) if ":" in (config.preset or "") else ()
    return [f"algorithm.{field.name}" for field in fields]


def _check_used(config: TrainConfig, settings: dict[str, Any]) -> None:
    """Raises ValueError where a setting was given that this run does not read."""
    for name in ("match.games", "match.interval_updates"):
        if name in settings and not config.match.opponents:
            flag = name.replace("_", "-")
            raise ValueError(f"--{flag} is of matches, and there are none: give --match.opponents")


def _begun(
    options: argparse.Namespace, name: str | None, words: Sequence[str]
) -> TrainConfig | None:
    """The run that is meant, before the settings that follow; None where none is named.

    Raises:
        ValueError: it cannot be read, or an option was given that has no meaning for it.
    """
    from algorithms.config.names import NAMES, STRONG, named_run, strong
    from algorithms.core.checks import require, require_choice

    require(
        options.num_processes >= 1, f"--num-processes is {options.num_processes}: give 1 or more"
    )
    if options.resume is not None and options.like is not None:
        raise ValueError("--resume continues a run, --like begins one: leave one of them out")
    if options.resume is not None:
        config = dataclasses.replace(
            _loaded(options.resume, options, name, words), run_dir=options.resume
        )
        require(not options.smoke, "--resume keeps the size of the run: leave --smoke out")
    elif options.like is not None:
        config = _loaded(options.like, options, name, words)
        # A fault of `chess-lab causes` is in no setting: this run is the one without it.
        config = dataclasses.replace(config, run_dir=None, cause=None, preflight=True)
    else:
        require(not options.trust, "--trust is about a folder: it needs --resume or --like")
        name = name and (canonical(name, NAMES) or name)
        if name is None or (name not in NAMES and ":" not in name):
            return None
        config = named_run(name)
    if options.preset is not None:
        folder = options.resume or options.like
        require(folder is None, f"--preset begins a run, and {folder} has settings: leave one out")
        options.preset = canonical(options.preset, (STRONG,)) or options.preset
        require_choice("--preset", options.preset, (STRONG,))
        config = strong(config)
    return config


def _is_tiny(start: str) -> bool:
    """Whether weights are known to be of a smoke run, whose network this one then has too."""
    from algorithms.config.files import read_settings
    from algorithms.evaluation.load_policy import config_of_run

    path = config_of_run(Path(start))
    policy = None if path is None else read_settings(path).get("policy")
    return isinstance(policy, dict) and policy.get("size") == "tiny"


def _loaded(
    folder: Path, options: argparse.Namespace, name: str | None, words: Sequence[str]
) -> TrainConfig:
    """The configuration in a folder; `name` is that of its run, with --like perhaps of another, or None."""
    from algorithms.commands.run_options import trust_in
    from algorithms.config.files import label_of, load, read_settings
    from algorithms.config.names import NAMES, named_run

    path, trust = folder / CONFIG_FILE, trust_in(words, name, everything=options.trust)
    held = label_of(read_settings(path))
    differs = name is not None and canonical(name, held) is None
    if name is not None and differs and options.like is not None:
        return load(path, trust, named_run(canonical(name, NAMES) or name))
    config = load(
        path, trust
    )  # first: what the folder may not name is refused before its algorithm is compared
    if differs:
        raise ValueError(
            f"{folder} holds a run of {held[-1]}, not {name}: leave the name out, or begin a run of {name} from its "
            f"weights, `chess-lab train {name} --like {folder} --init-from {folder}`"
        )
    return config


def _check_one_name(name: str | None, words: Sequence[str]) -> None:
    """Raises ValueError where a second name follows the first."""
    from algorithms.config.names import NAMES

    if name is not None and words and (other := canonical(words[0], NAMES)):
        raise ValueError(
            f"a run has one NAME: `chess-lab compare {name} {other} --out DIR` runs both"
        )


def _usage(name: str | None, words: Sequence[str]) -> int:
    """Exit code; prints what can be trained, and what a wrong name is near to."""
    from algorithms.config.names import NAMES
    from algorithms.core.checks import require_choice

    if name is not None:
        try:
            require_choice("NAME", name, NAMES)
        except ValueError as error:
            complain("chess-lab train", error)
    elif words:
        meant = next((found for word in words if (found := canonical(word, NAMES))), "NAME")
        complain(
            "chess-lab train", f"the NAME comes first, before any option: `chess-lab train {meant}`"
        )
    known = textwrap.fill(
        " ".join(NAMES), 79, initial_indent="NAME:  ", subsequent_indent="       "
    )
    print(f"usage: {USAGE}\n{known}\n`chess-lab train NAME --help` lists the options.")
    return 2
