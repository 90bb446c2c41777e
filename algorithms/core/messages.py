"""Messages for people: lines of at most 80 columns."""

from __future__ import annotations

import re
import sys
import textwrap

WIDTH = 80
"""Columns that every terminal has."""

_TIED = "\0"  # in place of a blank at which a line may not end


def message_lines(text: str, indent: str = "  ") -> list[str]:
    """The text in lines of at most 80 columns; a word that is longer than that has its own line.

    Lines that begin with blanks stay as they are: they are rows of a table, or commands to be copied. What stands
    between backticks stays on one line.

    Args:
        text: one or more lines.
        indent: in front of what a line is continued with.
    """
    lines = []
    for line in text.split("\n"):
        tied = re.sub(r"`[^`]*`", lambda code: code[0].replace(" ", _TIED), line)
        wrapped = textwrap.wrap(
            tied, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )  # fmt: skip
        kept = line.startswith(" ") or not wrapped
        lines += [line] if kept else [each.replace(_TIED, " ") for each in wrapped]
    return lines


def complain(command: str, error: object) -> None:
    """Prints what is wrong to the standard error.

    Args:
        command: whose message it is, such as "chess-lab train".
        error: what is wrong and what to do.
    """
    print("\n".join(message_lines(f"{command}: {error}")), file=sys.stderr)
