"""`chess-lab`: the command line. Every command imports what it needs when it runs, not before."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shlex
import signal
import sys
import textwrap
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

USAGE = """usage: chess-lab COMMAND [options]

Chess self-play as a laboratory for entropy collapse.

commands:
{commands}

`chess-lab COMMAND --help` lists the options of a command."""


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code of the command line `argv` (the process's own where None)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    warnings.showwarning = _show_warning
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        listed = "\n".join(f"  {name:<8}{text}" for name, (text, _) in COMMANDS.items())
        print(USAGE.format(commands=listed))
        return 0 if arguments else 2
    if arguments[0] not in COMMANDS:
        known = ", ".join(COMMANDS)
        print(f"chess-lab: unknown command {arguments[0]!r}; known: {known}", file=sys.stderr)
        return 2
    try:
        return COMMANDS[arguments[0]][1](arguments[1:])
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except JsonPathError as error:
        print(f"chess-lab {arguments[0]}: {error}", file=sys.stderr)
        return 1


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """A warning as one line for people, without the source line that raised it."""
    print(f"warning: {message}", file=sys.stderr)


class JsonPathError(Exception):
    """The file named by --json cannot be written."""


def write_json(path: Path | None, values: dict[str, Any]) -> None:
    """Writes a command's result to `path` where one was given.

    Raises:
        JsonPathError: it cannot be written; names the path and what to do.
    """
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise JsonPathError(
            f"--json {str(path)!r} cannot be written ({error.strerror}): give the path of a file"
        ) from None


# --- train ---------------------------------------------------------------------------------------


def train(arguments: Sequence[str]) -> int:
    """Trains; exit code 130 after Ctrl-C, 143 after SIGTERM, 1 on error, otherwise 0.

    Also 0 where a controller ended the run: its settings asked for that, the run is complete, and
    a script that goes through many runs should go on. The result's `stopped_by` tells.
    """
    # With --num-threads above 1, waiting OpenMP threads would otherwise burn the cores that the
    # engines need; torch reads this when it is first imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import tyro

    from algorithms import PRESETS
    from algorithms.core.checks import require_choice
    from algorithms.training import config as configuration
    from algorithms.training import config_file, trainer
    from algorithms.training.choices import check_choices

    prog = "chess-lab train"
    try:
        resumed = _value_of("--resume", arguments)
        if resumed is not None:
            config = config_file.load(Path(resumed) / "config.json")
            config = dataclasses.replace(config, run_dir=Path(resumed))
            if arguments[0] == config.label:
                arguments = arguments[1:]
            elif not arguments[0].startswith("-"):
                raise ValueError(f"{resumed} holds a run of {config.label}, not {arguments[0]}")
        elif arguments and arguments[0] in PRESETS:
            algorithm, regularizer = PRESETS[arguments[0]]
            config = configuration.TrainConfig(algorithm, regularizer, preset=arguments[0])
            prog, arguments = f"{prog} {arguments[0]}", arguments[1:]
        else:
            if arguments and not arguments[0].startswith("-"):
                try:
                    require_choice("NAME", arguments[0], PRESETS)
                except ValueError as error:
                    print(f"chess-lab train: {error}", file=sys.stderr)
            known = textwrap.fill(
                " ".join(PRESETS), 79, initial_indent="NAME:  ", subsequent_indent="       "
            )
            print(f"usage: chess-lab train NAME [options]\n"
                  f"       chess-lab train --resume RUN_DIR\n{known}\n"
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
        result = trainer.train(options.config, resume=options.resume is not None)
    except (ValueError, RuntimeError, OSError, ImportError) as error:
        # The errors that a user can mend say what is wrong and how; no traceback is needed.
        print(f"chess-lab train: {error}", file=sys.stderr)
        return 1
    print("\n".join(["", *result.lines()]))
    write_json(options.json, result.to_dict())
    if result.stopped_by is None:
        return 0
    if result.stopped_by not in signal.Signals.__members__:
        print(f"stopped: {result.stopped_by}")
        return 0
    folder = shlex.quote(str(result.run_dir))
    print(f"stopped by {result.stopped_by}; continue: chess-lab train --resume {folder}")
    return 128 + signal.Signals[result.stopped_by].value


def _value_of(option: str, arguments: Sequence[str]) -> str | None:
    """The value given to an option that decides what the other options mean."""
    for position, argument in enumerate(arguments):
        if argument.startswith(f"{option}="):
            return argument.split("=", 1)[1]
        if argument == option and position + 1 < len(arguments):
            return arguments[position + 1]
    return None


# --- check ---------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Finding:
    """One line of `chess-lab check`.

    Attributes:
        name: what was looked at.
        state: "ok", "optional" (missing, but everything runs) or "missing" (training cannot run).
        detail: what was found.
        remedy: what to do about it; empty where nothing is needed.
        values: the figures for --json.
    """

    name: str
    state: str
    detail: str
    remedy: str = ""
    values: dict[str, Any] = dataclasses.field(default_factory=dict)


def check(arguments: Sequence[str]) -> int:
    """Says what is installed, what was found and how to mend what is missing; 0 when usable."""
    parser = argparse.ArgumentParser(
        prog="chess-lab check", description="What is installed, and how to fix what is missing."
    )
    parser.add_argument("--json", type=Path, help="also write the findings to this file")
    options = parser.parse_args(list(arguments))
    version = ".".join(map(str, sys.version_info[:3]))
    findings = [Finding("python", "ok", version, values={"version": version}), *_check_packages()]
    usable = all(finding.state != "missing" for finding in findings)
    if usable:
        for look in (_check_stockfish, _check_cuda, _check_cache, _check_heldout):
            findings.append(look())
    marks = {"ok": "ok      ", "optional": "optional", "missing": "MISSING "}
    for finding in findings:
        print(f"{marks[finding.state]}  {finding.name:<12} {finding.detail}")
        if finding.remedy:
            print(f"{'':24}-> {finding.remedy}")
    usable = all(finding.state != "missing" for finding in findings)
    print(
        "ready: chess-lab train grpo" if usable else "not usable yet: see the lines marked MISSING"
    )
    write_json(
        options.json, {"usable": usable, "findings": [dataclasses.asdict(f) for f in findings]}
    )
    return 0 if usable else 1


def _check_packages() -> list[Finding]:
    from algorithms.training import machine

    optional = {"sb3-contrib": "sb3", "wandb": "wandb", "tensorboard": "tensorboard"}
    findings = []
    for name, version in machine.versions((*machine.PACKAGES, *optional)).items():
        if version is not None:
            findings.append(Finding(name, "ok", version, values={"version": version}))
        elif name in optional:
            remedy = f'pip install -e ".[{optional[name]}]"'
            findings.append(Finding(name, "optional", "not installed", remedy))
        else:
            findings.append(Finding(name, "missing", "not installed", "pip install -e ."))
    return findings


def _check_stockfish() -> Finding:
    from chess_env.evaluators import EngineError, find_stockfish
    from chess_env.evaluators.process import HANDSHAKE_TIMEOUT_S, EngineProcess, shake_hands

    remedy = "apt-get install stockfish, brew install stockfish, or set STOCKFISH_PATH"
    try:
        path = find_stockfish()
        if path is None:
            detail = "not found: the built-in evaluator gives the rewards"
            return Finding("stockfish", "optional", detail, remedy)
        engine = EngineProcess(path)
        try:
            handshake = shake_hands(engine, HANDSHAKE_TIMEOUT_S)
            engine.send(b"position startpos\ngo movetime 300\n")
            reply = engine.read_until(b"bestmove .*", timeout_s=10.0) or ""
        finally:
            engine.end()
    except EngineError as error:
        return Finding("stockfish", "missing", str(error), remedy)
    speeds = [line.split(" nps ")[1].split()[0] for line in reply.splitlines() if " nps " in line]
    if not speeds:
        return Finding("stockfish", "missing", f"{path} did not search: {reply[-200:]!r}", remedy)
    network = handshake.options["evalfile"].default if "evalfile" in handshake.options else "none"
    values = {
        "path": str(path),
        "version": handshake.name,
        "network": network,
        "nodes_per_s": int(speeds[-1]),
    }
    detail = f"{handshake.name}, network {network}, {values['nodes_per_s']:,} nodes/s ({path})"
    return Finding("stockfish", "ok", detail, values=values)


def _check_cuda() -> Finding:
    import torch

    if torch.cuda.is_available():
        name = torch.cuda.get_device_name()
        return Finding("cuda", "ok", f"{name}, CUDA {torch.version.cuda}", values={"device": name})
    built = torch.version.cuda
    if built is None:
        return Finding(
            "cuda", "optional", "this torch is built for the CPU only",
            "with an NVIDIA card: pip install torch from its CUDA index (pytorch.org)",
        )  # fmt: skip
    return Finding("cuda", "optional", f"torch has CUDA {built} but sees no device",
                   "check the driver with nvidia-smi")  # fmt: skip


def _check_cache() -> Finding:
    import chess_env
    from chess_env import rules  # noqa: F401 - drops machine code of older sources

    folder = Path(chess_env.__file__).parent / "__pycache__"
    compiled = len(list(folder.glob("*.nbi")))
    values = {"compiled": compiled}
    if compiled:
        return Finding("numba cache", "ok", f"{compiled} compiled functions", values=values)
    return Finding(
        "numba cache", "ok", "empty: the first run compiles for about a minute", values=values
    )


def _check_heldout() -> Finding:
    from chess_env.heldout import load_heldout

    try:
        heldout = load_heldout()
    except (OSError, ValueError) as error:
        return Finding("held-out set", "missing", str(error), "git checkout chess_env/heldout.npz")
    slices = ", ".join(heldout.slice_names)
    return Finding("held-out set", "ok", f"{len(heldout):,} positions ({slices})")


COMMANDS: dict[str, tuple[str, Callable[[Sequence[str]], int]]] = {
    "train": ("train a policy by self-play, or continue a run", train),
    "check": ("say what is installed and how to fix what is missing", check),
}

if __name__ == "__main__":
    sys.exit(main())
