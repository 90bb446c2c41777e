"""`chess-lab train`: trains a policy by self-play, or continues a run."""

from __future__ import annotations

import dataclasses
import os
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from algorithms.commands import run_end
from algorithms.commands.result_files import write_json
from algorithms.commands.run_end import code_of, end_of_run
from algorithms.core.messages import complain
from algorithms.run_folder.files import CONFIG_FILE

if TYPE_CHECKING:
    from algorithms.config.run import TrainConfig

EXAMPLES = (
    "chess-lab train grpo",
    "chess-lab train rloo --seed 1 --total-moves 50000 --run-dir runs/mine",
    "chess-lab train ppo --smoke --env.evaluator builtin",
)


@dataclasses.dataclass(frozen=True)
class Start:
    """The run that the first words of the command line mean.

    Attributes:
        config: the run, before the settings that follow.
        arguments: the settings that follow.
        prog: what the help calls the command.
        resumed: the folder of the run that goes on.
        preset: the settings that were asked for by name.
    """

    config: TrainConfig
    arguments: Sequence[str]
    prog: str = "chess-lab train"
    resumed: Path | None = None
    preset: str | None = None


def run(arguments: Sequence[str]) -> int:
    """Exit code of the training: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP, 1 on error, otherwise 0.

    Also 0 where a controller ended the run: its settings asked for that, the run is complete, and
    a script that makes many runs should go on. `stopped_by` in the result tells.
    """
    # With --num-threads above 1, waiting OpenMP threads would otherwise burn the cores that the
    # engines need; torch reads this when it is first imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from algorithms.collapse.doctor import Watch
    from algorithms.commands.arguments import parse, take
    from algorithms.config import run as configuration
    from algorithms.config.files import to_dict
    from algorithms.config.foreign import trusting_commands
    from algorithms.integrations.loops import LOOPS
    from algorithms.moved import flags_today
    from algorithms.processes import check_division, joined_processes
    from algorithms.processes.launch import launch, launched, restarted
    from algorithms.reports.run_files import read_metrics

    arguments = flags_today(arguments)
    try:
        start = _start(arguments)
        if start is None:
            return _usage(arguments)
        config, resume = start.config, start.resumed is not None
        if "--smoke" in arguments and not resume:
            config = configuration.smoke(config)
        options = parse(
            configuration.TrainOptions(config),
            start.arguments,
            prog=start.prog,
            command="chess-lab train",
            description="Train by self-play. A run folder under runs/ keeps everything.",
        )
        write_json(options.json, {})  # a path that cannot be written should fail before the run
        loop, config = LOOPS[options.config.loop], options.config
        if options.num_processes > 1 and not launched():
            loop.check(config)
            check_division(config.num_shards, options.num_processes)
            return launch(["train", *take("--num-processes", arguments)[1]], options.num_processes)
        if restarted() and config.run_dir is not None and (config.run_dir / CONFIG_FILE).exists():
            resume = True
        so_far = [] if start.resumed is None else read_metrics(start.resumed, begun=False)
        with joined_processes() as processes:
            leads = processes.rank == 0
            together = {"processes": processes} if processes.count > 1 else {}
            result = loop.train(config, resume=resume, watch=Watch(so_far), **together)
    except (ValueError, RuntimeError, OSError, ImportError) as error:
        # The errors that a user can mend say what is wrong and how; no traceback is needed.
        complain("chess-lab train", error)
        return 1
    if not leads:
        return code_of(result)

    def further(stopped: bool) -> list[str]:
        begin = [result.algorithm, *(("--preset", start.preset) if start.preset else ())]
        can_resume, smoke = stopped and loop.resumes, options.smoke
        return run_end.after_training(
            result.run_dir, begin, resume=can_resume, smoke=smoke,
            trusting=trusting_commands(to_dict(options.config)),
        )  # fmt: skip

    return end_of_run(result, options.json, further)


def _start(arguments: Sequence[str]) -> Start | None:
    """The run that is meant; None where no run is named."""
    from algorithms.commands.arguments import take
    from algorithms.config.names import NAMES

    resumed, like = take("--resume", arguments)[0], take("--like", arguments)[0]
    if resumed is not None and like is not None:
        raise ValueError("--resume continues a run, --like begins one: leave one of them out")
    if resumed is not None:
        return _resumed(Path(resumed), arguments)
    if like is not None:
        return _like(Path(like), arguments)
    if arguments and (arguments[0] in NAMES or ":" in arguments[0]):
        return _named(arguments[0], arguments[1:])
    return None


def _resumed(folder: Path, arguments: Sequence[str]) -> Start:
    """The run in a folder, which goes on there."""
    config, arguments = _loaded(folder, arguments)
    return Start(dataclasses.replace(config, run_dir=folder), arguments, resumed=folder)


def _like(folder: Path, arguments: Sequence[str]) -> Start:
    """A new run with the settings of that in a folder."""
    config, arguments = _loaded(folder, arguments)
    # A fault of `chess-lab causes` is in no setting: this run is the one without it.
    config = dataclasses.replace(config, run_dir=None, cause=None, preflight=True)
    return Start(config, arguments)


def _loaded(folder: Path, arguments: Sequence[str]) -> tuple[TrainConfig, Sequence[str]]:
    """(the configuration in a folder, the arguments without the name of its run)."""
    from algorithms.commands.arguments import trust_in
    from algorithms.config.files import load

    config = load(folder / CONFIG_FILE, trust_in(arguments))
    if arguments[0] == config.label:
        return config, arguments[1:]
    if not arguments[0].startswith("-"):
        raise ValueError(
            f"{folder} holds a run of {config.label}, not {arguments[0]}: leave the name out"
        )
    return config, arguments


def _named(name: str, arguments: Sequence[str]) -> Start:
    """The run of a name, or of a name and --preset."""
    from algorithms.commands.arguments import take
    from algorithms.config.names import STRONG, named_run, strong
    from algorithms.core.checks import require_choice

    config = named_run(name)
    preset, arguments = take("--preset", arguments)
    if preset is not None:
        require_choice("--preset", preset, (STRONG,))
        config = strong(config)
    return Start(config, arguments, prog=f"chess-lab train {name}", preset=preset)


def _usage(arguments: Sequence[str]) -> int:
    """Exit code; prints what can be trained, and what a wrong name is near to."""
    from algorithms.config.names import NAMES
    from algorithms.core.checks import require_choice

    if arguments and not arguments[0].startswith("-"):
        try:
            require_choice("NAME", arguments[0], NAMES)
        except ValueError as error:
            complain("chess-lab train", error)
    known = textwrap.fill(
        " ".join(NAMES), 79, initial_indent="NAME:  ", subsequent_indent="       "
    )
    print(f"usage: chess-lab train NAME [options]\n"
          f"       chess-lab train MODULE:CLASS [options]\n"
          f"       chess-lab train exact --preset strong [changes]\n"
          f"       chess-lab train --resume RUN_DIR\n"
          f"       chess-lab train --like RUN_DIR [changes]\n{known}\n"
          f"`chess-lab train NAME --help` lists the options.")  # fmt: skip
    return 0 if any(a in ("-h", "--help") for a in arguments) else 2
