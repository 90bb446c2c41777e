"""`chess-lab pretrain`: learns from labelled positions or from games, or continues such a run."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from algorithms.commands import run_end
from algorithms.commands.parser import Parser
from algorithms.commands.result_files import try_path
from algorithms.commands.run_end import code_of, end_of_run
from algorithms.run_folder.atomic_files import CONFIG_FILE
from algorithms.run_folder.terminal import complain

if TYPE_CHECKING:
    from algorithms.pretraining.config import PretrainConfig

EXAMPLES = (
    "chess-lab pretrain",
    "chess-lab pretrain --smoke --run-dir runs/start",
    "chess-lab pretrain --pgn games.pgn.zst",
)
CHANGED_MOST = (
    "labels.evaluator",
    "labels.num_positions",
    "labels.pgn",
    "labels.min_rating",
    "target",
    "policy.network",
    "optimizer.learning_rate",
    "total_steps",
    "seed",
    "device",
    "track",
    "init_from",
    "run_dir",
)
"""Settings that --help shows; --help-all shows all."""
_OF_LABELS: tuple[str, ...] = (
    "evaluator",
    "num_engines",
    "start_positions",
    "walk_plies",
    "random_move_fraction",
    "label_seed",
)
_OF_GAMES: tuple[str, ...] = ("min_rating", "skip_plies")


def run(arguments: Sequence[str]) -> int:
    """Exit code of the pretraining: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP, 1 on error, otherwise 0."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as `chess-lab train`
    options, words = which_run().parse_known_args(list(arguments))

    from algorithms.commands.run_options import given, trust_in, with_settings
    from algorithms.config.foreign import trusting_commands
    from algorithms.core.checks import require
    from algorithms.pretraining import config as configuration
    from algorithms.pretraining.loop import pretrain

    try:
        config = configuration.PretrainConfig()
        if options.resume is not None:
            trust = trust_in(words, None, everything=options.trust)
            config = configuration.load(options.resume / CONFIG_FILE, trust)
            config = dataclasses.replace(config, run_dir=options.resume)
            require(not options.smoke, "--resume keeps the size of the run: leave --smoke out")
        require(
            options.resume is not None or not options.trust,
            "--trust is about a folder: it needs --resume",
        )
        if options.smoke:
            config = configuration.smoke(config)
        if options.help or options.help_all:
            make_parser(config, everything=options.help_all).print_help()
            return 0
        settings = given(make_parser(config), words, config)
        if "labels.pgn" in settings and options.resume is None:
            # Games have one kind of target; without this `--pgn FILE` alone would contradict itself.
            settings = {"target": "played", **settings}
        config = with_settings(config, settings, command="chess-lab pretrain")
        _check_used(config, settings)
        try_path("--json", options.json)
        result = pretrain(config, resume=options.resume is not None)
    except (ValueError, RuntimeError, OSError, ImportError) as error:
        complain("chess-lab pretrain", error)
        return 1

    further = run_end.after_pretraining(
        result.run_dir,
        stopped=code_of(result) > 0,
        smoke=options.smoke,
        trusting=trusting_commands(configuration.to_dict(config)),
    )
    return end_of_run(result, options.json, further)


def which_run() -> Parser:
    """The parser of the options that say which run is meant, and what becomes of its result."""
    parser = Parser(prog="chess-lab pretrain", add_help=False, allow_abbrev=False)
    parser.usage = "chess-lab pretrain [options]"
    add = parser.add_argument
    add("-h", "--help", action="store_true", help="show this: the settings that people change most")
    add("--help-all", action="store_true", help="show all settings")
    add("--resume", type=Path, metavar="RUN_DIR", help="continue this run; it keeps its settings")
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
    add("--json", type=Path, metavar="FILE", help="also write the result to this file")
    return parser


def make_parser(config: PretrainConfig | None = None, *, everything: bool = True) -> Parser:
    """The parser of all its options.

    Args:
        config: the run whose settings it has; None: one that begins.
        everything: whether its help shows all settings.
    """
    from algorithms.commands.run_options import add_settings
    from algorithms.pretraining.config import PretrainConfig

    start = which_run()
    parser = Parser(
        prog=start.prog,
        usage=start.usage,
        description="Learn from scored positions, or from games. A run folder keeps everything.",
        epilog="A flag may be written by its end alone: --network, --lr.",
        parents=[start],
        add_help=False,
        allow_abbrev=False,
    )
    add_settings(parser, [config or PretrainConfig()], None if everything else CHANGED_MOST)
    return parser


def _check_used(config: PretrainConfig, settings: dict[str, Any]) -> None:
    """Raises ValueError where a setting was given that this run does not read."""
    unread, why = _OF_GAMES, "is of games: it needs --pgn"
    if config.labels.pgn is not None:
        unread, why = _OF_LABELS, "labels positions, and games have none: leave it or --pgn out"
    for name in unread:
        if f"labels.{name}" in settings:
            raise ValueError(f"--{name.replace('_', '-')} {why}")
    for name in ("target_temperature", "target_clip_cp"):
        if name in settings and config.target != "soft":
            flag = name.replace("_", "-")
            raise ValueError(
                f"--{flag} is of --target soft, and the target is {config.target}: leave it out"
            )
