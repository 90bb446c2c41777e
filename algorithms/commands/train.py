"""`chess-lab train`: trains a policy by self-play, or continues a run."""

from __future__ import annotations

import dataclasses
import os
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from algorithms.commands import run_end
from algorithms.commands.run_end import end_of_run
from algorithms.run_folder.files import write_json

EXAMPLES = (
    "chess-lab train grpo",
    "chess-lab train rloo --seed 1 --total-moves 50000 --run-dir runs/mine",
    "chess-lab train ppo --smoke --env.evaluator builtin",
)

STRONG_FOR = "grpo"
"""The one algorithm that `--preset strong` was measured with."""


def run(arguments: Sequence[str]) -> int:
    """Trains; exit code 130 after Ctrl-C, 143 after SIGTERM, 1 on error, otherwise 0.

    Also 0 where a controller ended the run: its settings asked for that, the run is complete, and
    a script that goes through many runs should go on. The result's `stopped_by` tells.
    """
    # With --num-threads above 1, waiting OpenMP threads would otherwise burn the cores that the
    # engines need; torch reads this when it is first imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import tyro

    from algorithms.collapse.doctor import Watch
    from algorithms.commands.arguments import check_choices
    from algorithms.config import files as config_file
    from algorithms.config import run as configuration
    from algorithms.config.names import NAMES, STRONG, named_run, strong
    from algorithms.core.checks import require_choice
    from algorithms.integrations.sb3.session import train_sb3
    from algorithms.moved import flags_today
    from algorithms.reports.run_files import read_metrics
    from algorithms.training import trainer

    prog, settings = "chess-lab train", None
    arguments = flags_today(arguments)
    try:
        resumed, like = value_of("--resume", arguments), value_of("--like", arguments)
        if resumed is not None and like is not None:
            raise ValueError("--resume continues a run, --like begins one: leave one of them out")
        if resumed is not None:
            config = config_file.load(Path(resumed) / "config.json")
            config = dataclasses.replace(config, run_dir=Path(resumed))
            if arguments[0] == config.label:
                arguments = arguments[1:]
            elif not arguments[0].startswith("-"):
                raise ValueError(
                    f"{resumed} holds a run of {config.label}, not {arguments[0]}: "
                    "leave the name out"
                )
        elif like is not None:
            config = config_file.load(Path(like) / "config.json")
            # A fault of `chess-lab causes` is in no setting: this run is the one without it.
            config = dataclasses.replace(config, run_dir=None, cause=None, preflight=True)
        elif arguments and (arguments[0] in NAMES or ":" in arguments[0]):
            config = named_run(arguments[0])
            prog, arguments = f"{prog} {arguments[0]}", arguments[1:]
            settings = value_of("--preset", arguments)
            if settings is not None:
                require_choice("--preset", settings, (STRONG,))
                if config.preset != STRONG_FOR:
                    raise ValueError(
                        f"--preset {settings} was made for {STRONG_FOR} and measured with it, not for "
                        f"{config.label}: run `chess-lab train {STRONG_FOR} --preset {settings}`, or give "
                        "the settings one by one"
                    )
                config = strong(config)
                arguments = _without("--preset", arguments)
        else:
            if arguments and not arguments[0].startswith("-"):
                try:
                    require_choice("NAME", arguments[0], NAMES)
                except ValueError as error:
                    print(f"chess-lab train: {error}", file=sys.stderr)
            known = textwrap.fill(
                " ".join(NAMES), 79, initial_indent="NAME:  ", subsequent_indent="       "
            )
            print(f"usage: chess-lab train NAME [options]\n"
                  f"       chess-lab train MODULE:CLASS [options]\n"
                  f"       chess-lab train grpo --preset strong [changes]\n"
                  f"       chess-lab train --resume RUN_DIR\n"
                  f"       chess-lab train --like RUN_DIR [changes]\n{known}\n"
                  f"`chess-lab train NAME --help` lists the options.")  # fmt: skip
            return 0 if any(a in ("-h", "--help") for a in arguments) else 2
        if "--smoke" in arguments and resumed is None:
            config = configuration.smoke(config)
        try:
            check_choices(arguments, config)
        except ValueError as error:
            print(f"chess-lab train: {error}", file=sys.stderr)
            return 2  # the parser's own code for a command line that makes no sense
        options = tyro.cli(
            configuration.TrainOptions,
            args=list(arguments),
            default=configuration.TrainOptions(config),
            prog=prog,
            description="Train by self-play. A run folder under runs/ keeps everything.",
            config=(tyro.conf.FlagCreatePairsOff,),
        )
        write_json(options.json, {})  # a path that cannot be written should fail before the run
        so_far = [] if resumed is None else read_metrics(Path(resumed))
        if options.config.loop == "native":
            result = trainer.train(options.config, resume=resumed is not None, watch=Watch(so_far))
        elif resumed is None:
            result = train_sb3(options.config, watch=Watch(so_far))
        else:
            raise ValueError(
                f"{resumed} is a run of MaskablePPO, which cannot be continued: begin anew"
            )
    except (ValueError, RuntimeError, OSError, ImportError) as error:
        # The errors that a user can mend say what is wrong and how; no traceback is needed.
        print(f"chess-lab train: {error}", file=sys.stderr)
        return 1

    def further(stopped: bool) -> list[str]:
        smoke, own = options.smoke, options.config.loop == "native"
        begin = [result.algorithm, *(("--preset", settings) if settings else ())]
        return run_end.after_training(result.run_dir, begin, stopped=stopped, smoke=smoke, own=own)

    return end_of_run(result, options.json, further)


def value_of(option: str, arguments: Sequence[str]) -> str | None:
    """The value given to an option that decides what the other options mean."""
    for position, argument in enumerate(arguments):
        if argument.startswith(f"{option}="):
            return argument.split("=", 1)[1]
        if argument == option and position + 1 < len(arguments):
            return arguments[position + 1]
    return None


def _without(option: str, arguments: Sequence[str]) -> list[str]:
    """The arguments without an option and its value."""
    kept, skip = [], False
    for argument in arguments:
        if not skip and argument != option and not argument.startswith(f"{option}="):
            kept.append(argument)
        skip = argument == option
    return kept
