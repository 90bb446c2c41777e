"""`chess-lab check`: what is installed, and how to install what is missing; how an evaluator pays obvious moves."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from algorithms.commands.parser import Parser
from algorithms.commands.result_files import try_path, write_json
from algorithms.core.checks import message_lines
from algorithms.run_folder.terminal import complain

EXAMPLES = (
    "chess-lab check",
    "chess-lab check --json check.json",
    "chess-lab check --evaluator builtin",
)


@dataclasses.dataclass(frozen=True)
class Check:
    """One line of `chess-lab check`.

    Attributes:
        name: what was checked.
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


def run(arguments: Sequence[str]) -> int:
    """Exit code: 0 if training can run, or the evaluator was judged, otherwise 1; prints what was found."""
    parser = make_parser()
    options = parser.parse_args(list(arguments))
    if options.evaluator is not None:
        return _judge_evaluator(options)
    for flag, value in (("--reward", options.reward), ("--positions", options.positions)):
        if value is not None:
            parser.error(f"{flag} is about an evaluator: add --evaluator NAME")
    try_path("--json", options.json)
    return _check_installation(options.json)


def _check_installation(json_path: Path | None) -> int:
    version = ".".join(map(str, sys.version_info[:3]))
    here = str(Path(__file__).resolve().parents[1])  # the clone that runs, where there are several
    checks = [
        Check("python", "ok", version, values={"version": version}),
        Check("algorithms", "ok", here, values={"path": here}),
        *_check_packages(),
    ]
    usable = all(check.state != "missing" for check in checks)
    if usable:
        for look in (_check_stockfish, _check_cuda, _check_cache, _check_heldout):
            checks.append(look())
    marks = {"ok": "ok      ", "optional": "optional", "missing": "MISSING "}
    for check in checks:
        columns = f"{marks[check.state]}  {check.name:<12} "
        lines = message_lines(check.detail, indent=" " * 23, head=columns)
        if check.remedy:
            lines += message_lines(check.remedy, indent=" " * 27, head=f"{'':24}-> ")
        print("\n".join(lines))
    usable = all(check.state != "missing" for check in checks)
    print(
        "ready: chess-lab train grpo" if usable else "not usable yet: see the lines marked MISSING"
    )
    write_json(json_path, {"usable": usable, "findings": [dataclasses.asdict(f) for f in checks]})
    return 0 if usable else 1


def _judge_evaluator(options: argparse.Namespace) -> int:
    """Exit code 0, however the moves are paid; 1 where the evaluator could not be asked."""
    from algorithms.commands.obvious_report import report

    try_path("--json", options.json)
    try:
        lines, values = report(options.evaluator, options.reward, options.positions)
    except (ValueError, RuntimeError, OSError) as error:
        complain("chess-lab check", error)
        return 1
    # Written before it is printed: the reader of the output may be gone.
    write_json(options.json, values)
    print("\n".join(lines))
    return 0


def make_parser() -> argparse.ArgumentParser:
    """The parser of its options."""
    parser = Parser(
        prog="chess-lab check",
        description="What is installed, and how to fix what is missing. With --evaluator only this: does the "
        "environment pay the right move most in positions whose right and wrong moves are proven?",
        epilog="A position is paid right where the best paid right move gets at least .01 more than every "
        "wrong move. The exit code is 0 however many are.",
    )
    add = parser.add_argument
    add(
        "--evaluator",
        metavar="NAME",
        help="judge this evaluator's rewards on the set of obvious moves: builtin, stockfish:depth=4, ...",
    )
    add(
        "--reward",
        metavar="SUM",
        help="with --evaluator: a sum of reward terms, such as win_prob_delta+0.5*cp_delta "
        "(default: the environment's)",
    )
    add(
        "--positions",
        type=Path,
        metavar="FILE",
        help="with --evaluator: another set, from `python -m benchmarks.positions.obvious_build`",
    )
    add("--json", type=Path, help="also write the findings to this file")
    return parser


def _check_packages() -> list[Check]:
    from algorithms.run_folder import environment

    optional = {"sb3-contrib": "sb3", "wandb": "wandb", "tensorboard": "tensorboard", "ray": "ray"}
    checks = []
    for name, version in environment.versions((*environment.PACKAGES, *optional)).items():
        if version is not None:
            checks.append(Check(name, "ok", version, values={"version": version}))
        elif name in optional:
            remedy = f'pip install -e ".[{optional[name]}]"'
            checks.append(Check(name, "optional", "not installed", remedy))
        else:
            checks.append(Check(name, "missing", "not installed", 'pip install -e ".[train]"'))
    return checks


def _check_stockfish() -> Check:
    from chess_env.evaluators import EngineError, find_stockfish
    from chess_env.evaluators.process import HANDSHAKE_TIMEOUT_S, EngineProcess, shake_hands

    remedy = "apt-get install stockfish, brew install stockfish, or set STOCKFISH_PATH"
    try:
        path = find_stockfish()
        if path is None:
            detail = "not found: the built-in evaluator gives the rewards"
            return Check("stockfish", "optional", detail, remedy)
        engine = EngineProcess(path)
        try:
            handshake = shake_hands(engine, HANDSHAKE_TIMEOUT_S)
            engine.send(b"position startpos\ngo movetime 300\n")
            reply = engine.read_until(b"bestmove .*", timeout_s=10.0) or ""
        finally:
            engine.end()
    except EngineError as error:
        return Check("stockfish", "missing", str(error), remedy)
    speeds = [line.split(" nps ")[1].split()[0] for line in reply.splitlines() if " nps " in line]
    if not speeds:
        return Check("stockfish", "missing", f"{path} did not search: {reply[-200:]!r}", remedy)
    network = handshake.options["evalfile"].default if "evalfile" in handshake.options else "none"
    values = {
        "path": str(path),
        "version": handshake.name,
        "network": network,
        "nodes_per_s": int(speeds[-1]),
    }
    detail = f"{handshake.name}, network {network}, {values['nodes_per_s']:,} nodes/s ({path})"
    return Check("stockfish", "ok", detail, values=values)


def _check_cuda() -> Check:
    import torch

    if torch.cuda.is_available():
        name = torch.cuda.get_device_name()
        return Check("cuda", "ok", f"{name}, CUDA {torch.version.cuda}", values={"device": name})
    built = torch.version.cuda
    if built is None:
        return Check(
            "cuda", "optional", "this torch is built for the CPU only",
            "with an NVIDIA card: pip install torch from its CUDA index (pytorch.org)",
        )  # fmt: skip
    return Check("cuda", "optional", f"torch has CUDA {built} but sees no device",
                   "check the driver with nvidia-smi")  # fmt: skip


def _check_cache() -> Check:
    import chess_env

    folder = Path(chess_env.__file__).parent
    compiled = len(list(folder.rglob("*.nbi")))
    values = {"compiled": compiled}
    if compiled:
        return Check("numba cache", "ok", f"{compiled} compiled functions", values=values)
    return Check(
        "numba cache", "ok", "empty: the first run compiles for about a minute", values=values
    )


def _check_heldout() -> Check:
    from chess_env.positions.heldout import load_heldout

    try:
        heldout = load_heldout()
    except (OSError, ValueError) as error:
        return Check(
            "held-out set", "missing", str(error), "git checkout chess_env/positions/heldout.npz"
        )
    slices = ", ".join(heldout.slice_names)
    return Check("held-out set", "ok", f"{len(heldout):,} positions ({slices})")
