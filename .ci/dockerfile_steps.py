"""The steps of the Dockerfile where no container can be built: in an empty folder and an empty environment.

    python .ci/dockerfile_steps.py FOLDER [--keep NAME ...] [--then COMMAND ...]

COPY, WORKDIR, ENV, ARG and RUN are followed. `/chess` of the image is FOLDER/chess, and Python is that of this script.
Steps that need the image are not: FROM, USER, and each RUN that changes the system (apt-get, useradd), also where the
user might. A line says what was run and what was not. `--keep PIP_CERT` hands a variable of this environment on;
`--then` runs commands afterwards.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
HOME = "/chess"
"""The folder of the image in which everything lies."""
OF_THE_SYSTEM = ("apt-get", "useradd")
KNOWN = ("ARG", "CMD", "COPY", "ENV", "FROM", "RUN", "USER", "WORKDIR")


class Step(NamedTuple):
    """An instruction of a Dockerfile.

    Attributes:
        name: in capitals, such as RUN.
        text: all that stands behind it, in one line.
    """

    name: str
    text: str

    @property
    def words(self) -> list[str]:
        """What stands behind it without its options; of CMD the list of its words."""
        if self.text.startswith("["):
            return list(json.loads(self.text))
        return [word for word in shlex.split(self.text) if not word.startswith("--")]


def steps(text: str) -> list[Step]:
    """The instructions of a Dockerfile, in order.

    Raises:
        ValueError: one is none of `KNOWN`.
    """
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    found = []
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        name, _, rest = line.strip().partition(" ")
        if name and name not in KNOWN:
            raise ValueError(
                f"{name} is none of {', '.join(KNOWN)}: add it to .ci/dockerfile_steps.py"
            )
        if name:
            found.append(Step(name, " ".join(rest.split())))
    return found


def left_out(path: str, ignored: str) -> bool:
    """Whether the lines of a .dockerignore leave out a path, or a folder that it is in."""
    parts = path.split("/")
    patterns = [line for line in ignored.splitlines() if line and not line.startswith("#")]
    for pattern in patterns:
        anywhere = pattern.startswith("**/")
        for end in range(1, len(parts) + 1):
            tried = parts[end - 1] if anywhere else "/".join(parts[:end])
            same_depth = anywhere or pattern.count("/") == end - 1
            if same_depth and fnmatch.fnmatchcase(tried, pattern.removeprefix("**/")):
                return True
    return False


def copied(source: str, ignored: str) -> list[str]:
    """Paths of the files in the clone that a COPY of `source` takes."""
    start = ROOT / source
    files = [start] if start.is_file() else [path for path in start.rglob("*") if path.is_file()]
    names = sorted(path.relative_to(ROOT).as_posix() for path in files)
    return [name for name in names if not left_out(name, ignored)]


def main() -> None:
    """Follows the Dockerfile; ends with the exit code of the first command that fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="is made; must not be there, or be empty")
    parser.add_argument("--keep", action="append", default=[], metavar="NAME")
    parser.add_argument("--then", action="append", default=[], metavar="COMMAND")
    options = parser.parse_args()
    folder = options.folder.resolve()
    if folder.exists() and any(folder.iterdir()):
        parser.error(f"{folder} is not empty: name another folder")
    home, ignored = folder / "home", (ROOT / ".dockerignore").read_text(encoding="utf-8")
    home.mkdir(parents=True)
    python = str(Path(sys.base_prefix) / "bin")
    env = {"HOME": str(home), "PATH": f"{python}:/usr/local/bin:/usr/bin:/bin:/usr/games"}
    env |= {name: os.environ[name] for name in options.keep}
    here = folder
    todo = [*steps((ROOT / "Dockerfile").read_text(encoding="utf-8"))]
    for step in [*todo, *(Step("RUN", command) for command in options.then)]:
        began = time.monotonic()
        if step.name in ("FROM", "USER", "CMD") or any(word in step.text for word in OF_THE_SYSTEM):
            print(f"NOT RUN  {step.name} {step.text}", flush=True)
            continue
        if step.name == "WORKDIR":
            here = Path(step.text.replace(HOME, str(folder / HOME[1:])))
            here.mkdir(parents=True, exist_ok=True)
        elif step.name in ("ENV", "ARG"):
            for word in step.words:
                name, _, value = word.partition("=")
                value = value.replace("$PATH", env["PATH"])
                env[name] = value.replace(HOME, str(folder / HOME[1:]))
        elif step.name == "COPY":
            *sources, target = step.words
            for source in sources:
                for name in copied(source, ignored):
                    inside = Path(name).relative_to(source)  # "." where the source is a file
                    end = here / target / (Path(name).name if target.endswith("/") else inside)
                    end.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(ROOT / name, end)
        else:
            done = subprocess.run(["/bin/sh", "-c", step.text], cwd=here, env=env, check=False)
            if done.returncode:
                sys.exit(f"FAILED   {step.name} {step.text}: exit code {done.returncode}")
        print(f"run      {step.name} {step.text} ({time.monotonic() - began:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
