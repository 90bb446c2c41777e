"""The tree keeps its order: imports go one way, some packages stay light, files stay readable."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAX_LINES = 320

# A module may import from its own layer and from those before it. The longest prefix decides.
LAYERS = {
    "chess_env": 0,
    "algorithms.core": 1,
    "algorithms": 2,  # the algorithms themselves, one file each, and regularization
    "algorithms.training": 3,
    "algorithms.pretraining": 4,
    "algorithms.testing": 4,  # contracts that a user runs on parts of their own
    "algorithms.collapse": 4,
    "algorithms.playing": 4,
    "algorithms.commands": 5,
    "algorithms.cli": 6,
}
LEARNING = {"torch", "algorithms", "stable_baselines3", "sb3_contrib", "wandb", "tensorboard"}
GAME = {"chess", "chess_env", "gymnasium", "stable_baselines3", "sb3_contrib", "wandb"}
# Imports that are forbidden, however deep in a function they stand. The longest prefix decides.
FORBIDDEN = {
    "chess_env": LEARNING,
    "algorithms.core": GAME,
    "algorithms": GAME,
    "algorithms.training": set(),
    "algorithms.pretraining": set(),
    "algorithms.testing": set(),
    "algorithms.collapse": set(),
    "algorithms.playing": set(),
    "algorithms.commands": set(),
    "algorithms.cli": set(),
    "algorithms.reports": {"torch", *GAME},
}


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
    own = deciding_prefix(module, LAYERS)
    found = []
    for name in sorted(imported_modules(source, module, is_package)):
        other = deciding_prefix(name, LAYERS)
        # `from algorithms import core` names the parent too, which is no upward import.
        if own and other and name != "algorithms" and LAYERS[other] > LAYERS[own]:
            found.append(f"{module} imports {name}, which comes after it in the import order")
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
        ("algorithms.core.advantages", "from algorithms.training import update"),
        ("algorithms.core.advantages", "import algorithms.grpo"),
        ("algorithms.core.advantages", "from .. import grpo"),
        ("algorithms.core.advantages", "def f():\n    import gymnasium"),
        ("algorithms.grpo", "from algorithms.training.config import TrainConfig"),
        ("algorithms.grpo", "import chess"),
        ("algorithms.regularization", "from chess_env.moves import NUM_ACTIONS"),
        ("algorithms.training.trainer", "from algorithms import cli"),
        ("algorithms.training.trainer", "from algorithms.playing import engine"),
        ("chess_env.env", "import torch.nn"),
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
        ("algorithms.training.rollout", "from chess_env.vector_env import ChessSelfPlayVectorEnv"),
        ("chess_env.env", "import chess\nimport gymnasium\nfrom chess_env import moves"),
    ],
)
def test_the_checker_lets_a_downward_import_pass(module: str, source: str) -> None:
    assert violations(source, module) == []


def test_no_file_is_longer_than_one_sitting() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in all_files()
    }
    assert {name: lines for name, lines in lengths.items() if lines > MAX_LINES} == {}


def test_an_algorithm_fits_on_one_screen() -> None:
    long = {}
    for path in (ROOT / "algorithms").glob("*.py"):
        if path.name in ("__init__.py", "cli.py", "presets.py"):
            continue
        code_lines = len(path.read_text().splitlines())
        if code_lines > 80:
            long[path.name] = code_lines
    assert long == {}


def test_no_file_is_called_utils() -> None:
    vague = {"utils.py", "util.py", "helpers.py", "misc.py", "common.py"}
    assert [str(path) for path in all_files() if path.name in vague] == []
