"""`chess-lab board`: play against policies in the browser, and see what they make of a position."""

from __future__ import annotations

import argparse
import importlib.util
import socket
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from algorithms.commands.parser import Parser
from algorithms.commands.result_files import TRUST_HELP
from algorithms.commands.uci import is_shipped, look_for
from algorithms.core.checks import message_lines
from algorithms.run_folder.stopping import signals_raise
from algorithms.run_folder.terminal import complain

EXAMPLES = (
    "chess-lab board",
    "chess-lab board runs/mine runs/other --no-browser",
)
DEFAULT_PORT = 8300
SHIPPED = "example"
MOST_SCORES = 200_000
"""Scores that are kept, of about 6,000 positions; some 30 MB."""
_OF_A_RUN = ("config.json", "metrics.jsonl", "manifest.json", "checkpoints", "snapshots")
_NEEDED = ("starlette", "uvicorn")


def run(arguments: Sequence[str]) -> int:
    """Exit code: 1 where the page cannot be served, 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP."""
    options = make_parser().parse_args(list(arguments))
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        how = "install the extra: `pip install -e '.[board]'` in the clone"
        complain("chess-lab board", f"{' and '.join(missing)} cannot be imported: {how}")
        return 1
    from algorithms.board.server import bound

    try:
        for source in options.runs:
            look_for(source)
            if not is_shipped(source):
                _check_folder(Path(source))
        with bound(options.host, options.port) as listening, signals_raise():
            return _serve(options, listening)
    except (ValueError, RuntimeError, OSError, ImportError) as error:
        complain("chess-lab board", error)
        return 1


def make_parser() -> argparse.ArgumentParser:
    """The parser of its options."""
    parser = Parser(
        prog="chess-lab board",
        description="A page in the browser: play against policies, and see what they make of a position. "
        "It is served on this machine alone until Ctrl-C.",
        epilog="what the page shows: docs/board.md",
    )
    parser.add_argument(
        "runs",
        metavar="RUN",
        nargs="*",
        help="a run folder, a checkpoint folder, a .safetensors file, or the name of a policy that comes with the "
        f'project; default: "{SHIPPED}"',
    )
    parser.add_argument(
        "--port",
        type=_port,
        default=DEFAULT_PORT,
        metavar="N",
        help=f"default: {DEFAULT_PORT}; 0 for any free one",
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="of this machine, under which others may open the page, without a password; default: 127.0.0.1, this "
        "machine alone",
    )
    parser.add_argument("--no-browser", action="store_true", help="open no browser")
    parser.add_argument(
        "--evaluator",
        default="auto",
        metavar="NAME",
        help='scores the moves, such as "builtin" or "stockfish:depth=8"; "none" shows no scores; default: auto, '
        "Stockfish where it is found",
    )
    parser.add_argument(
        "--trust",
        action="store_true",
        help=TRUST_HELP + ", and its terms and reward, for what they pull towards",
    )
    return parser


def _check_folder(path: Path) -> None:
    """Raises ValueError where a folder has nothing of a run; a run that has begun may have no policy yet."""
    if path.is_dir() and not any((path / name).exists() for name in _OF_A_RUN):
        runs = sorted(str(file.parent) for file in path.glob("*/config.json"))
        meant = f", such as {runs[-1]!r}" if runs else ", once its training has begun"
        raise ValueError(
            f"{str(path)!r} is no run folder: it has none of {', '.join(_OF_A_RUN)}; give a run folder{meant}"
        )


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: expected a number from 0 to 65535")
    return int(text)


def _serve(options: argparse.Namespace, listening: socket.socket) -> int:
    """Serves the page until a signal raises."""
    from algorithms.board.app import make_app
    from algorithms.board.policies import BoardPolicies
    from algorithms.board.server import address, can_show_pages, known_hosts, serve
    from algorithms.board.training import Training
    from algorithms.config.foreign import Trust
    from chess_env.evaluators import CachedEvaluator, make_evaluator

    url = address(listening, options.host)
    evaluator = None
    if options.evaluator != "none":
        evaluator = make_evaluator(options.evaluator, num_engines=1, cache="memory")
        if isinstance(evaluator, CachedEvaluator):
            evaluator.memory_entries = MOST_SCORES
    trust = Trust(options.trust)
    policies = BoardPolicies(options.runs or [SHIPPED], evaluator, trust)
    training = Training(policies, trust)

    def ready() -> None:
        print("\n".join(message_lines(f"the board: {url} (Ctrl-C ends it)")), flush=True)
        if not options.no_browser and can_show_pages():
            webbrowser.open(url)

    try:
        policies.load_all()
        app = make_app(policies, training, known_hosts(options.host, listening.getsockname()[1]))
        serve(app, listening, ready=ready)
    finally:
        training.close()
        policies.close()
        if evaluator is not None:
            evaluator.close()
    return 0
