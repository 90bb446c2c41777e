"""`chess-lab`: the command line. Every command is imported when it runs, not before."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import warnings
from collections.abc import Sequence

from algorithms.commands.json_file import JsonPathError

USAGE = """usage: chess-lab COMMAND [options]

Chess self-play as a laboratory for entropy collapse.

commands:
{commands}

`chess-lab COMMAND --help` lists the options of a command."""

# Command -> what it does. Each is the function `run` of the module of its name in algorithms/commands.
COMMANDS = {
    "train": "train a policy by self-play, or continue a run",
    "pretrain": "learn from labelled positions or from games, before training",
    "compare": "run algorithms side by side over seeds, and say what may be claimed",
    "report": "make one HTML page of a run, or of a folder of runs",
    "causes": "list, show or run the causes of entropy collapse",
    "diagnose": "say what a run's record shows, and its likeliest cause",
    "uci": "play: a trained policy as a UCI engine for a chess GUI",
    "eval": "measure a policy's strength in games against a ladder of opponents",
    "check": "say what is installed and how to fix what is missing",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code of the command line `argv` (the process's own where None)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    warnings.showwarning = _show_warning
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        listed = "\n".join(f"  {name:<10}{text}" for name, text in COMMANDS.items())
        print(USAGE.format(commands=listed))
        return 0 if arguments else 2
    if arguments[0] not in COMMANDS:
        known = ", ".join(COMMANDS)
        print(f"chess-lab: unknown command {arguments[0]!r}; known: {known}", file=sys.stderr)
        return 2
    command = importlib.import_module(f"algorithms.commands.{arguments[0]}")
    try:
        code: int = command.run(arguments[1:])
        return code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except BrokenPipeError:  # the reader of the output has what it wanted (`| head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except JsonPathError as error:
        print(f"chess-lab {arguments[0]}: {error}", file=sys.stderr)
        return 1


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """A warning as one line for people, without the source line that raised it."""
    print(f"warning: {message}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
