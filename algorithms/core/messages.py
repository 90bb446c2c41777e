"""Messages for people: lines of at most 80 columns."""

from __future__ import annotations

import difflib
import re
import sys
import textwrap
from collections.abc import Iterable

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


SAME = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp32": "float32",
    "gpu": "cuda",
    "tb": "tensorboard",
}
"""Names that everybody knows under another one."""


def canonical(name: str, known: Iterable[str]) -> str | None:
    """The known name that is this one but for capitals, dashes and underscores; None where there is none."""
    names = list(known)
    if name in names:
        return name
    found = [each for each in names if _folded(each) == _folded(name)]
    return found[0] if len(found) == 1 else None


def nearest(name: str, known: Iterable[str], cutoff: float = 0.55) -> str | None:
    """The known name that was probably meant; None where none is as near as `cutoff` (0 to 1)."""
    names = list(known)
    meant = SAME.get(name.casefold(), name)
    found = canonical(meant, names)
    if found is None:
        by_folded = {_folded(each): each for each in names}
        near = difflib.get_close_matches(_folded(meant), by_folded, n=1, cutoff=cutoff)
        found = by_folded[near[0]] if near else None
    return found


def _folded(name: str) -> str:
    return name.casefold().replace("-", "_")
