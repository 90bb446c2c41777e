"""`chess-lab pretrain`: learns from labelled positions or from games, or continues such a run."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

from algorithms.commands import run_end
from algorithms.commands.result_files import write_json
from algorithms.commands.run_end import end_of_run
from algorithms.core.messages import complain
from algorithms.run_folder.files import CONFIG_FILE

EXAMPLES = (
    "chess-lab pretrain",
    "chess-lab pretrain --smoke --run-dir runs/start",
    "chess-lab pretrain --pgn games.pgn.zst",
)


def run(arguments: Sequence[str]) -> int:
    """Exit code of the pretraining: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP, 1 on error, otherwise 0."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as `chess-lab train`
    from algorithms.commands.arguments import parse, take, trust_in
    from algorithms.config.foreign import trusting_commands
    from algorithms.moved import flags_today
    from algorithms.pretraining import config as configuration
    from algorithms.pretraining.loop import pretrain

    arguments = flags_today(arguments)
    try:
        resumed, games = take("--resume", arguments)[0], take("--pgn", arguments)[0]
        config = configuration.PretrainConfig()
        if resumed is not None:
            config = configuration.load(Path(resumed) / CONFIG_FILE, trust_in(arguments))
            config = dataclasses.replace(config, run_dir=Path(resumed))
        elif games is not None:
            # Games have one kind of target; without this `--pgn FILE` alone would contradict itself.
            labels = dataclasses.replace(config.labels, pgn=Path(games))
            config = dataclasses.replace(config, labels=labels, target="played")
        if "--smoke" in arguments and resumed is None:
            config = configuration.smoke(config)
        options = parse(
            configuration.PretrainOptions(config),
            arguments,
            prog="chess-lab pretrain",
            command="chess-lab pretrain",
            description="Learn from scored positions, or from games. A run folder keeps everything.",
        )
        write_json(options.json, {})  # a path that cannot be written should fail before the run
        result = pretrain(options.config, resume=resumed is not None)
    except (ValueError, RuntimeError, OSError, ImportError) as error:
        complain("chess-lab pretrain", error)
        return 1

    def further(stopped: bool) -> list[str]:
        return run_end.after_pretraining(
            result.run_dir, stopped=stopped, smoke=options.smoke,
            trusting=trusting_commands(configuration.to_dict(options.config)),
        )  # fmt: skip

    return end_of_run(result, options.json, further)
