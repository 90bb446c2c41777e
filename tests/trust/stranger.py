"""A run folder as a stranger would send it: its config.json names code and programs that leave a mark."""

from __future__ import annotations

import itertools
import json
import shlex
import shutil
from pathlib import Path
from typing import Any

from tests.commands.lab import Answer, chess_lab

_NUMBERS = itertools.count()


class Stranger:
    """Attributes: the folder they sent, the mark that their code leaves, their module and their program."""

    def __init__(self, honest: Path, home: Path) -> None:
        self.home, self.folder, self.mark = home, home / "sent", home / "mark"
        shutil.copytree(honest, self.folder, symlinks=True)
        # A module is imported once in a process, so each has a name of its own.
        self.module = f"stranger_{next(_NUMBERS)}"
        (home / f"{self.module}.py").write_text(f"open({str(self.mark)!r}, 'w').close()\n")
        self.program = home / "engine.sh"
        self.program.write_text(f"#!/bin/sh\ntouch {shlex.quote(str(self.mark))}\n")
        self.program.chmod(0o755)

    def named(self, value: Any) -> Any:
        """The value with this stranger's module and program in it."""
        text = json.dumps(value).replace("MODULE", self.module)
        return json.loads(text.replace("PROGRAM", str(self.program)))

    def says(self, setting: str, value: Any) -> Any:
        """What the folder's config.json has from now on for a dotted setting."""
        path, value = self.folder / "config.json", self.named(value)
        values = json.loads(path.read_text())
        values.pop("sha256", None)  # a stranger leaves it out, or makes another
        *sections, last = setting.split(".")
        section = values
        for name in sections:
            section = section[name]
        section[last] = value
        path.write_text(json.dumps(values))
        return value

    @property
    def got_in(self) -> bool:
        """Whether any of their code has run."""
        return self.mark.exists()


def offered(answer: Answer) -> list[str]:
    """The words behind `chess-lab` of the command that a refusal prints as its last line."""
    words = shlex.split(answer.err.splitlines()[-1])
    return words[words.index("-m") + 2 :] if "-m" in words else words[1:]


def follow(answer: Answer) -> Answer:
    """The answer to the command that a refusal prints."""
    return chess_lab(*offered(answer))
