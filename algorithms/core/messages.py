"""Messages for people: lines of at most 80 columns."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from typing import NoReturn

WIDTH = 80
"""Columns that every terminal has."""

_TIED = "\0"  # in place of a blank at which a line may not end


def message_lines(text: str, indent: str = "  ", head: str = "") -> list[str]:
    """The text in lines of at most 80 columns; a word that is longer than that has its own line.

    Lines that begin with blanks stay as they are: they are rows of a table, or commands to be copied. What stands
    between backticks stays on one line.

    Args:
        text: one or more lines.
        indent: in front of the lines in which a line is continued.
        head: in front of every line of the text, such as the first columns of a table.
    """
    lines = []
    for line in text.split("\n"):
        tied = re.sub(r"`[^`]*`", lambda code: code[0].replace(" ", _TIED), line)
        wrapped = textwrap.wrap(
            tied, WIDTH, initial_indent=head, subsequent_indent=indent, break_long_words=False,
            break_on_hyphens=False,
        )  # fmt: skip
        kept = line.startswith(" ") or not wrapped
        lines += [head + line] if kept else [each.replace(_TIED, " ") for each in wrapped]
    return lines


def complain(command: str, error: object) -> None:
    """Prints what is wrong to the standard error.

    Args:
        command: whose message it is, such as "chess-lab train".
        error: what is wrong and what to do.
    """
    print("\n".join(message_lines(f"{command}: {error}")), file=sys.stderr)


class Parser(argparse.ArgumentParser):
    """A parser of options whose errors are in lines of at most 80 columns."""

    def error(self, message: str) -> NoReturn:
        """Prints the usage and the error, and ends the process with code 2."""
        self.print_usage(sys.stderr)
        complain(f"{self.prog}: error", message)
        self.exit(2)
