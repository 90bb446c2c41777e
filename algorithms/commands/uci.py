"""`chess-lab uci`: a trained policy as a chess engine for any GUI."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from algorithms.commands.parser import Parser
from algorithms.commands.result_files import TRUST_HELP
from algorithms.core.checks import nearest
from algorithms.run_folder.atomic_files import UntrustedError
from algorithms.run_folder.stopping import SIGNALS
from algorithms.run_folder.terminal import complain

if TYPE_CHECKING:
    from algorithms.playing.uci_threads import Thinker

_SHIPPED = Path(__file__).parents[1] / "networks" / "shipped"
_HOW = "give `chess-lab uci CHECKPOINT` to a chess GUI, which writes UCI commands to it"
_THREE_MEN = "8/8/8/4k3/8/3K4/4P3/8 w - - 0 1"
EXAMPLES = (
    "chess-lab uci warm",
    "chess-lab uci runs/mine/checkpoints/best",
)


def run(arguments: Sequence[str]) -> NoReturn:
    """Speaks UCI and ends the process.

    Its exit code is 0 after `quit` or the end of input, 1 where there is no policy or no input, 130
    after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP.
    """
    options = make_parser().parse_args(list(arguments))
    source, trust = options.checkpoint, options.trust
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # it is for a shell's background job
            signal.signal(number, _leave)

    from algorithms.playing.uci_threads import serve

    try:
        if sys.stdin is None or sys.stdout is None:
            raise ValueError(f"standard input or output is closed: {_HOW}")
        name, output = f"chess-lab {_plain(source)}", sys.stdout.buffer
        heard = serve(name, lambda: _load(source, trust), sys.stdin.buffer, output)
        look_for(source)  # the input may have ended before it was tried to load what is not there
        if not heard:
            raise ValueError(f"the input ended before any command: {_HOW}")
        code = 0
    except UntrustedError as error:
        from algorithms.commands.run_end import with_trust

        complain("chess-lab uci", f"{error}:\n{with_trust(['uci', *arguments])}")
        code = 1
    except (ValueError, RuntimeError, OSError, ImportError) as error:
        complain("chess-lab uci", error)
        code = 1
    # Not by returning: a thread may be waiting for a line or importing torch, and the interpreter
    # aborts or hangs where it is taken down under one of those.
    sys.stderr.flush()
    os._exit(code)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    """Ends the process on the spot."""
    # Not by an exception: see the end of `run`. All that was said has been flushed.
    os._exit(128 + number)


def make_parser() -> argparse.ArgumentParser:
    """The parser of its options."""
    parser = Parser(
        prog="chess-lab uci",
        description="A trained policy as a UCI engine: give this command to a chess GUI. It plays "
        "the policy's most probable move; the UCI option Temperature draws moves instead (100: with "
        "the policy's own probabilities). A move is one forward pass on the CPU; limits of time, "
        "depth and nodes are ignored. The UCI option Search looks at the policy's first moves two "
        "plies ahead. That is stronger and no longer the policy alone: `chess-lab eval` and the board "
        "stay without it.",
        epilog="options, GUIs and what is ignored: docs/play.md",
    )
    parser.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        help='a run folder, a checkpoint folder, a .safetensors file, or "example", "warm" or "warm_move_net", which '
        "come with the project",
    )
    parser.add_argument("--trust", action="store_true", help=TRUST_HELP)
    return parser


def _plain(source: str) -> str:
    """The checkpoint's name for people, in printable ASCII."""
    name = Path(source).name or Path(source).resolve().name
    return "".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in name)


def is_shipped(source: str) -> bool:
    """Whether it is the name of a policy that comes with the project."""
    return _SHIPPED.joinpath(f"{source}.safetensors").exists()


def look_for(source: str) -> None:
    """Raises ValueError where there is nothing of that name: a GUI may start engines in another folder."""
    if not Path(source).exists() and not is_shipped(source):
        near = nearest(source, [path.stem for path in _SHIPPED.glob("*.safetensors")])
        meant = f"; did you mean {near!r}?" if near else ""
        raise ValueError(
            f"{source!r} cannot be read: there is no such file, folder or policy, looked for from {str(Path.cwd())!r} "
            f"(a GUI may start engines in a folder of its own: give it the full path){meant}"
        )


def _load(source: str, trust: bool) -> Thinker:
    look_for(source)
    import torch

    from algorithms.config.foreign import Trust
    from algorithms.evaluation.load_policy import load_policy
    from algorithms.playing.conversation import Request
    from algorithms.playing.policy_moves import PolicyMoves
    from algorithms.playing.position import reached
    from chess_env.evaluators import make_evaluator

    torch.set_num_threads(1)  # one position at a time: a second thread only costs
    thinker = PolicyMoves(load_policy(source, Trust(trust)), make_evaluator("builtin"))
    # Before `readyok`: what the first moves would take longer, from compiling to torch's first calls, and in an
    # ending the tables of three men.
    for fen, moves, search in ((None, (), 0), (None, ("e2e4",), 0), (_THREE_MEN, (), 1)):
        thinker(Request(reached(fen, moves), 1.0, 0, None, None, search))
    return thinker
