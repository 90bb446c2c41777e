"""The tree keeps its order: imports go one way, some packages stay light."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

LEARNING = {"torch", "algorithms", "stable_baselines3", "sb3_contrib", "wandb", "tensorboard"}
GAME = {"chess", "chess_env", "gymnasium", "stable_baselines3", "sb3_contrib", "wandb"}
# Imports that are forbidden, however deep in a function they stand. The longest prefix decides.
FORBIDDEN: dict[str, set[str]] = {
    "chess_env": LEARNING,
    "algorithms": set(),
    **{f"algorithms.{path.stem}": GAME for path in (ROOT / "algorithms").glob("[!_]*.py")},
    "algorithms.core": GAME,
    "algorithms.regularization": GAME,
    "algorithms.reports": {"torch", *GAME},
    "algorithms.reports.page.diagrams": {
        "torch",
        *(GAME - {"chess"}),
    },  # python-chess draws the men
    "algorithms.doctor": {"torch"},
    "algorithms.foreign": {"torch"},
    "algorithms.run_folder": {"torch"},
    "algorithms.run_folder.checkpoint": set(),
    "algorithms.run_folder.recorded_state": set(),
    "algorithms.run_folder.snapshots": set(),
    "algorithms.run_folder.trackers": set(),  # TensorBoard's writer is torch's
    "algorithms.cli": set(),
}
# What stands outside the order: packages that only hold rooms.
OUTSIDE = {"chess_env", "algorithms"}


def rooms() -> dict[str, int]:
    """Room or module -> its row in the table of CONTRIBUTING.md, from the first to the last."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("## The rooms")[2].partition("\n## ")[0]
    found: dict[str, int] = {}
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("|")][2:]
    for row, cell in enumerate(rows):
        package, listed, modules = cell.partition("(")
        if listed:
            (home,) = re.findall(r"`([\w.]+)`", package)
            names = [f"{home}.{module}" for module in re.findall(r"`(\w+)`", modules)]
        else:
            names = re.findall(r"`([\w.]+)`", cell)
        found.update(dict.fromkeys(names, row))
        if "the algorithms" in cell:
            found.update({f"algorithms.{name}": row for name in algorithm_modules()})
    return found


def algorithm_modules() -> list[str]:
    """Modules with one algorithm each."""
    others = {"__init__", "cli", "presets"}
    return [path.stem for path in (ROOT / "algorithms").glob("*.py") if path.stem not in others]


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def deciding_prefix(module: str, table: dict) -> str | None:
    matches = [prefix for prefix in table if module == prefix or module.startswith(prefix + ".")]
    return max(matches, key=len, default=None)


def imported_modules(source: str, module: str, is_package: bool = False) -> set[str]:
    """Absolute names of all that `module` imports; `from a import b` gives a and a.b."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".") if is_package else module.split(".")[:-1]
                parents = parents[: len(parents) - (node.level - 1)]
                base = ".".join([*parents, base] if base else parents)
            names.add(base)
            names.update(f"{base}.{alias.name}" for alias in node.names)
    return names


def violations(source: str, module: str, is_package: bool = False) -> list[str]:
    table = rooms()
    own = deciding_prefix(module, table)
    found = [] if own or module in OUTSIDE else [f"{module} is in no room of the table"]
    for name in sorted(imported_modules(source, module, is_package)):
        other = deciding_prefix(name, table)
        # Beside counts as backward: two rooms of one row know nothing of each other.
        if own and other and own != other and table[other] >= table[own]:
            found.append(f"{module} imports {name}, which does not come before it")
        forbidden = FORBIDDEN[deciding_prefix(module, FORBIDDEN) or module]
        if name.split(".")[0] in forbidden:
            found.append(f"{module} imports {name}, which is forbidden there")
    return found


def library_files() -> list[Path]:
    return sorted(
        path for package in ("chess_env", "algorithms") for path in (ROOT / package).rglob("*.py")
    )


def all_files() -> list[Path]:
    rest = (
        path
        for folder in ("tests", "benchmarks", "examples", "docs")
        for path in (ROOT / folder).rglob("*.py")
    )
    return [*library_files(), *sorted(rest)]


def test_imports_go_one_way_and_stay_out_of_forbidden_packages() -> None:
    found = [
        message
        for path in library_files()
        for message in violations(path.read_text(), module_name(path), path.name == "__init__.py")
    ]
    assert len(library_files()) > 10
    assert found == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("algorithms.core.advantages", "from algorithms.updates import update"),
        ("algorithms.core.advantages", "import algorithms.grpo"),
        ("algorithms.core.advantages", "from .. import grpo"),
        ("algorithms.core.advantages", "def f():\n    import gymnasium"),
        ("algorithms.grpo", "from algorithms.config.run import TrainConfig"),
        ("algorithms.grpo", "import chess"),
        ("algorithms.grpo", "from algorithms.regularization import Regularizer"),
        ("algorithms.regularization", "from chess_env.moves import NUM_ACTIONS"),
        ("algorithms.run_folder.run_log", "import torch"),
        ("algorithms.rollouts.collect", "from algorithms.updates.update import update"),
        ("algorithms.training.trainer", "from algorithms import cli"),
        ("algorithms.training.trainer", "from algorithms.playing import uci_threads"),
        ("algorithms.playing.position", "from algorithms.collapse import cause"),
        ("algorithms.doctor.diagnosis", "import torch"),
        ("algorithms.new_room.thing", "import math"),
        ("chess_env.env", "import torch.nn"),
        ("chess_env.rules.fen", "from chess_env.evaluators import Evaluator"),
        ("chess_env.evaluators.cache", "from algorithms import core"),
        ("algorithms.reports.load", "import torch"),
    ],
)
def test_the_checker_catches_a_forbidden_import(module: str, source: str) -> None:
    assert violations(source, module)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("algorithms.core.advantages", "import torch\nfrom algorithms.core import batch"),
        ("algorithms.core.advantages", "from . import batch"),
        ("algorithms.grpo", "from algorithms.core.advantages import group_relative"),
        ("algorithms.run_folder.checkpoint", "import torch"),
        ("algorithms.rollouts.collect", "from chess_env.vector_env import ChessSelfPlayVectorEnv"),
        ("chess_env.env", "import chess\nimport gymnasium\nfrom chess_env import moves"),
    ],
)
def test_the_checker_lets_a_downward_import_pass(module: str, source: str) -> None:
    assert violations(source, module) == []


def test_no_file_is_called_utils() -> None:
    vague = {"utils.py", "util.py", "helpers.py", "misc.py", "common.py"}
    assert [str(path) for path in all_files() if path.name in vague] == []


def test_every_room_of_the_table_is_in_the_tree_and_every_package_in_the_table() -> None:
    table = rooms()
    for name in table:
        path = ROOT / name.replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").exists(), name
    packages = {module_name(path) for path in library_files() if path.name == "__init__.py"}
    assert {name for name in packages if not deciding_prefix(name, table)} == {
        "chess_env",
        "algorithms",
    }


def test_every_file_that_where_does_it_go_names_is_there() -> None:
    page = (ROOT / "docs" / "where_does_it_go.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:algorithms|chess_env|docs)/[^`]*)`", page))
    assert len(named) > 15
    assert [name for name in named if not list(ROOT.glob(name.rstrip("/")))] == []
