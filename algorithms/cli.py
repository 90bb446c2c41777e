"""`chess-lab`: the command line. Every command is imported when it runs, not before."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any, NoReturn

from algorithms.commands import COMMANDS
from algorithms.commands.result_files import UnwritableError
from algorithms.core.checks import canonical, nearest
from algorithms.run_folder.atomic_files import UntrustedError
from algorithms.run_folder.stopping import exit_code, raise_outside_imports
from algorithms.run_folder.terminal import complain, printing_visibly
from algorithms.run_folder.trackers import unfinished

USAGE = """usage: chess-lab COMMAND [options]

Chess self-play as a laboratory for entropy collapse.

commands:
{commands}

`chess-lab COMMAND --help` lists the options of a command.
`chess-lab --version` says which version this is."""

DISTRIBUTION = "chess-selfplay-lab"

EXTRAS = dict.fromkeys(("docstring_parser", "jinja2", "rich", "safetensors", "shtab", "torch"), "train") | {
    "huggingface_hub": "hub", "ray": "ray", "sb3_contrib": "sb3",
}  # fmt: skip
"""Module -> the extra that brings it: `pip install .` alone is the environment and the doctor."""

MEANT = {
    "download": "pull", "engine": "uci", "evaluate": "eval", "finetune": "train", "gui": "board", "learn": "train",
    "play": "board", "plot": "report", "run": "train", "serve": "board", "sweep": "compare", "upload": "push",
    "web": "board",
}  # fmt: skip
"""What a command is called elsewhere -> ours, which is suggested."""

# They import torch, which takes seconds in which nothing would be seen.
SLOW_TO_LOAD = ("train", "pretrain", "eval")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code of the command line `argv` (the process's own where None)."""
    try:
        with printing_visibly(), raise_outside_imports():
            return _run(argv)
    except BrokenPipeError:  # the reader of the output has what it wanted (`| head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


def _run(argv: Sequence[str] | None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    warnings.showwarning, sys.excepthook = _show_warning, _show_fault
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        listed = "\n".join(f"  {name:<11}{text}" for name, text in COMMANDS.items())
        print(USAGE.format(commands=listed))
        return 0 if arguments else 2
    if arguments[0] in ("--version", "-V", "-v", "version"):
        return _print_version()
    name = canonical(arguments[0], COMMANDS)
    if name is None:
        known = ", ".join(COMMANDS)
        near = MEANT.get(arguments[0]) or nearest(arguments[0], COMMANDS)
        meant = f": did you mean {near!r}?" if near else ";"
        complain("chess-lab", f"unknown command {arguments[0]!r}{meant} known: {known}")
        return 2
    arguments[0] = name
    asked_for_help = any(argument in ("-h", "--help", "--help-all") for argument in arguments)
    if name in SLOW_TO_LOAD and not asked_for_help and sys.stderr.isatty():
        print("loading ...", file=sys.stderr)
    try:
        command = importlib.import_module(f"algorithms.commands.{name}")
        code: int = command.run(arguments[1:])
        if asked_for_help and code == 0:
            _print_examples(command)
        return code
    except SystemExit as stop:  # the parsers' way out, after an error or the options' help
        if asked_for_help and not stop.code:
            _print_examples(command)
        raise
    except KeyboardInterrupt as stop:
        print("interrupted", file=sys.stderr)
        return exit_code(stop)[1]
    except BrokenPipeError:
        raise
    except UntrustedError as error:
        from algorithms.commands.run_end import with_trust

        complain(f"chess-lab {name}", f"{error}:\n{with_trust(arguments)}")
        return 1
    except UnwritableError as error:
        complain(f"chess-lab {name}", error)
        return 1
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        extra = f"pip install -e '.[{EXTRAS[error.name]}]'"
        complain(
            f"chess-lab {name}", f"{error.name} is not installed: {extra} in the clone brings it"
        )
        return 1
    except Exception as error:  # of whatever kind, where it comes from a user's own code
        from chess_env.custom_objects import place_of

        if not place_of(error):
            raise  # a fault of this project's own: its traceback is for us
        complain(f"chess-lab {name}", error)
        return 1


def _print_version() -> int:
    try:
        print(f"chess-lab {version(DISTRIBUTION)}")
    except PackageNotFoundError:  # run from a clone's files alone
        complain("chess-lab", f"{DISTRIBUTION} is not installed: pip install -e .")
        return 1
    return 0


def _print_examples(command: ModuleType) -> None:
    print("\n".join(["", "examples:", *(f"  {line}" for line in command.EXAMPLES)]))


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """A warning for people in 80 columns, without the source line that raised it."""
    complain("warning", message)


def _show_fault(*error: Any) -> None:
    """Python's traceback of an error that nobody caught, which may repeat a stranger's text."""
    with printing_visibly():
        sys.__excepthook__(*error)


def leave(code: int) -> NoReturn:
    """Ends the process with that exit code.

    One of several processes of a run ends at once, when all is written and closed: threads of torch.distributed have
    aborted such a process while the interpreter was taken apart, and so a finished run looked like a failed one. So
    does one with an unfinished tracker: W&B waits at the interpreter's end until it reaches its server.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 or unfinished:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    leave(main())
