"""The tree keeps its order: imports go one way, some packages stay light, files stay readable."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from algorithms.commands import COMMANDS

ROOT = Path(__file__).parents[1]
MAX_LINES = 300
MAX_PARAMETERS = 7
# A user gives a constructor only what differs from its defaults; a kernel is given arrays and scalars, because
# numba knows no records of them.
CONSTRUCTORS = {"__init__", "__new__"}
KERNELS = {"kernel", "inlined", "intrinsic"}

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
    "algorithms.reports.page.boards": {"torch", *(GAME - {"chess"})},  # python-chess draws the men
    "algorithms.run_folder": {"torch"},
    "algorithms.run_folder.checkpoint": set(),
    "algorithms.run_folder.trackers": set(),  # TensorBoard's writer is torch's
    "algorithms.cli": set(),
    "algorithms.moved": set(),
}
# What stands outside the order: packages that only hold rooms, and the tables of old names.
OUTSIDE = {"chess_env", "algorithms", "chess_env.moved", "algorithms.moved"}


def rooms() -> dict[str, int]:
    """Room or module -> its row in the table of CONTRIBUTING.md, from the first to the last."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("## The rooms")[2].partition("\n\nA folder")[0]
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
    others = {"__init__", "cli", "moved", "presets"}
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
        ("algorithms.run_folder.log", "import torch"),
        ("algorithms.rollouts.games", "from algorithms.updates.targets import make_targets"),
        ("algorithms.training.trainer", "from algorithms import cli"),
        ("algorithms.training.trainer", "from algorithms.playing.uci import engine"),
        ("algorithms.playing.position", "from algorithms.collapse import doctor"),
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
        ("algorithms.rollouts.games", "from chess_env.vector_env import ChessSelfPlayVectorEnv"),
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


def long_signatures(source: str, module: str) -> dict[str, int]:
    """Functions with more than `MAX_PARAMETERS`, by their full names, constructors and kernels left out."""
    found = {}
    todo: list[tuple[str, ast.AST]] = [(module, ast.parse(source))]
    while todo:
        home, node = todo.pop()
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            home = f"{home}.{node.name}"
        todo += [(home, child) for child in ast.iter_child_nodes(node)]
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        given = node.args
        names = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
        names += [a.arg for a in (given.vararg, given.kwarg) if a]
        decorators = {
            name.id
            for decorator in node.decorator_list
            for name in ast.walk(decorator)
            if isinstance(name, ast.Name)
        }
        number = len(names) - (names[:1] in (["self"], ["cls"]))
        if number > MAX_PARAMETERS and node.name not in CONSTRUCTORS and not decorators & KERNELS:
            found[home] = number
    return found


def test_no_function_has_more_parameters_than_one_can_keep_in_mind() -> None:
    found = {
        name: number
        for path in library_files()
        for name, number in long_signatures(path.read_text(), module_name(path)).items()
    }
    assert found == {}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(a, b, c, d, e, f, g): ...", []),
        ("def f(a, b, /, c, d, *, e, f, g, h): ...", ["m.f"]),
        ("def f(a, b, c, d, e, f, *args, **kwargs): ...", ["m.f"]),
        ("class C:\n    def f(self, a, b, c, d, e, f, g): ...", []),
        ("class C:\n    async def f(self, a, b, c, d, e, f, g, h): ...", ["m.C.f"]),
        ("class C:\n    def __init__(self, a, b, c, d, e, f, g, h): ...", []),
        ("def f():\n    def g(a, b, c, d, e, f, g, h): ...", ["m.f.g"]),
        ("@kernel\ndef f(a, b, c, d, e, f, g, h): ...", []),
        ("@cache\ndef f(a, b, c, d, e, f, g, h): ...", ["m.f"]),
    ],
)
def test_the_counter_of_parameters_finds_every_kind_of_function(
    source: str, names: list[str]
) -> None:
    assert list(long_signatures(source, "m")) == names


def test_an_algorithm_fits_on_one_screen() -> None:
    long = {}
    for path in (ROOT / "algorithms").glob("*.py"):
        if path.stem not in algorithm_modules():
            continue
        code_lines = len(path.read_text().splitlines())
        if code_lines > 80:
            long[path.name] = code_lines
    assert long == {}


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


def test_no_folder_has_more_modules_than_one_can_look_over() -> None:
    counts: dict[str, int] = {}
    for path in library_files():
        if path.name != "__init__.py":
            folder = str(path.parent.relative_to(ROOT))
            counts[folder] = counts.get(folder, 0) + 1
    crowded = {folder: number for folder, number in counts.items() if number > 12}
    crowded.pop("algorithms", None)  # the catalogue: one file for each algorithm
    # One module for each command, and five that commands share.
    assert crowded.pop("algorithms/commands", 0) <= len(COMMANDS) + 5
    assert crowded == {}


def test_the_walkthrough_reads_ten_files_and_1400_lines() -> None:
    page = (ROOT / "docs" / "walkthrough.md").read_text(encoding="utf-8")
    files = re.findall(r"^\| [a-z ]+ \| `([\w/]+\.py)` \|", page, re.MULTILINE)
    assert len(files) == len(set(files)) == 10
    assert sum(len((ROOT / file).read_text().splitlines()) for file in files) <= 1400


def test_every_file_that_where_does_it_go_names_is_there() -> None:
    page = (ROOT / "docs" / "where_does_it_go.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:algorithms|chess_env|docs)/[^`]*)`", page))
    assert len(named) > 15
    assert [name for name in named if not list(ROOT.glob(name.rstrip("/")))] == []
