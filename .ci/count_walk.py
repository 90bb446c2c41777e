"""What a smoke run of GRPO walks through, and how large the tree is: count_walk.py [TREE] [--json].

The run is that of `chess-lab train grpo --smoke --env.evaluator builtin`, under a profiler, in the tree and with the
Python that runs this script. Counted are the project's files that were imported, its functions that were called at
least once (comprehensions and lambdas too; what numba compiled is not seen), and both for the rooms of the learning
path; then the lines and files of the tree.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

LEARNING_PATH = ("rollouts", "updates", "core", "regularization", "networks")
KINDS = {
    "product": ("chess_env", "algorithms"),
    "tests": ("tests",),
    "benchmarks": ("benchmarks",),
    "docs code": ("docs",),
}


def sizes(tree: Path) -> dict[str, dict[str, int]]:
    """Kind of code -> its Python files and lines."""
    found = {}
    for kind, folders in KINDS.items():
        files = [
            path
            for folder in folders
            for path in (tree / folder).rglob("*.py")
            if "_build" not in path.parts
        ]
        lines = sum(path.read_bytes().count(b"\n") for path in files)
        found[kind] = {"files": len(files), "lines": lines}
    return found


def walk(tree: Path) -> dict[str, Any]:
    """What the smoke run imported and called; it runs in this process."""
    os.chdir(tree)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.path.insert(0, str(tree))
    rooms = tuple(f"{tree}{os.sep}{room}{os.sep}" for room in ("algorithms", "chess_env"))
    called: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code not in called:
            called.add(frame.f_code)

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        arguments = ["train", "grpo", "--smoke", "--env.evaluator", "builtin"]
        threading.setprofile(note)
        sys.setprofile(note)
        try:
            from algorithms.cli import main

            code = main([*arguments, "--run-dir", f"{folder}/run"])
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
    if code != 0:
        raise SystemExit(f"the smoke run ended with code {code}")
    files = {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}
    imported = {path for path in files if path.startswith(rooms)}
    functions = {
        (code.co_filename, code.co_firstlineno, code.co_qualname)
        for code in called
        if code.co_filename.startswith(rooms) and code.co_name != "<module>"
    }
    learning = tuple(f"{tree}{os.sep}algorithms{os.sep}{room}{os.sep}" for room in LEARNING_PATH)
    return {
        "imported": len(imported),
        "functions": len(functions),
        "learning_imported": sum(path.startswith(learning) for path in imported),
        "learning_called": len({path for path, *_ in functions if path.startswith(learning)}),
    }


def main() -> None:
    """Prints the counts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tree", nargs="?", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    options = parser.parse_args()
    tree = options.tree.resolve()
    found = walk(tree) | {"sizes": sizes(tree)}
    if options.json:
        print(json.dumps(found))
        return
    print("GRPO smoke run")
    print(f"  {found['imported']:>6,} project files imported")
    print(f"  {found['learning_imported']:>6,} of them in {', '.join(LEARNING_PATH)},")
    print(f"  {found['learning_called']:>6,} of which a function was called")
    print(f"  {found['functions']:>6,} project functions called")
    print("Python code")
    for kind, size in found["sizes"].items():
        print(f"  {size['lines']:>6,} lines in {size['files']:>3} files of {kind}")


if __name__ == "__main__":
    main()
