"""The end of an error about a name that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def suggestion(name: str, known: Iterable[str]) -> str:
    """'did you mean ...? known are ...': the nearest known name, where one is near, and all."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    question = f"did you mean {near[0]!r}? " if near else ""
    return f"{question}known are {', '.join(names)}"
