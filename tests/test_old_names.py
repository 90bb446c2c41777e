"""What was written for version 0.1.0 still works: its import paths warn and lead to where things are now.

`tests/v0_1_0` holds docs/extending.md and the examples as they were; nothing there is edited.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import chess_env.moved
from algorithms.config import files
from algorithms.config.run import TrainConfig
from algorithms.grpo import GRPO
from algorithms.moved import MOVED, flags_today
from algorithms.pretraining import config as pretraining
from algorithms.reports.run_files import read_run

ROOT = Path(__file__).parents[1]
OLD = ROOT / "tests" / "v0_1_0"
FILE = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = dict(FILE.findall((OLD / "extending.md").read_text(encoding="utf-8")))
EXAMPLES = sorted((OLD / "examples").glob("*.py"))
HOMES = {**chess_env.moved.MOVED, **MOVED}
ENV = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def run(folder: Path, *arguments: str, timeout: int = 280) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=ENV, capture_output=True, text=True, timeout=timeout
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of the old page."""
    there = tmp_path_factory.mktemp("extending")
    for name, code in BLOCKS.items():
        (there / name).write_text(code)
    return there


@pytest.mark.parametrize("old", sorted(HOMES))
def test_an_old_module_warns_and_leads_to_one_that_is_there(old: str) -> None:
    sys.modules.pop(old, None)
    with pytest.warns(FutureWarning, match=rf"{re.escape(old)} has moved: import from"):
        module = importlib.import_module(old)
    homes = [importlib.import_module(home) for home in HOMES[old]]
    for home in homes:
        public = [name for name in vars(home) if not name.startswith("_")]
        assert all(hasattr(module, name) for name in public)
    with pytest.raises(AttributeError, match=f"module '{old}' has no attribute 'nothing_of_it'"):
        _ = module.nothing_of_it


@pytest.mark.filterwarnings("default:.* has moved")
def test_every_import_of_the_old_page_and_examples_finds_its_names() -> None:
    sources = [*BLOCKS.values(), *(path.read_text() for path in EXAMPLES)]
    found = 0
    for node in (n for text in sources for n in ast.walk(ast.parse(text))):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        if node.module.partition(".")[0] not in ("algorithms", "chess_env"):
            continue
        module = importlib.import_module(node.module)
        for alias in node.names:
            getattr(module, alias.name)
            found += 1
    assert found > 40


def test_the_warning_names_the_line_that_imports(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text("import sys\nfrom algorithms.training.config import TrainConfig\n")
    said = run(tmp_path, str(script)).stderr
    assert f"{script}:2: FutureWarning: algorithms.training.config has moved" in said


def test_an_old_name_costs_nothing_until_it_is_asked_for() -> None:
    code = "import sys, algorithms; print('chess_env' in sys.modules, 'torch' in sys.modules)"
    assert run(ROOT, "-c", code).stdout.split() == ["False", "False"]


def leaves(values: dict[str, Any], prefix: str = "") -> dict[str, str]:
    found = {}
    for key, value in values.items():
        inner = isinstance(value, dict)
        found |= leaves(value, f"{prefix}{key}.") if inner else {f"{prefix}{key}": repr(value)}
    return found


@pytest.mark.filterwarnings("ignore:.* of today")
@pytest.mark.parametrize("name", ["grpo", "sb3"])
def test_an_old_config_json_is_read_with_every_setting(name: str) -> None:
    path = OLD / "runs" / name / "config.json"
    old = json.loads(path.read_text())
    new = json.loads(json.dumps(files.to_dict(files.load(path))))
    assert new["loop"] == {"own": "native", "sb3": "sb3"}[old.pop("trainer")]
    for dtype in ("autocast", "autocast_dtype", "head_dtype", "logprob_dtype"):
        assert new["precision"][dtype] == old["policy"].pop(dtype)
    assert old["policy"].pop("network") is None and new["policy"]["network"] == "resnet"
    assert leaves(old).items() <= leaves(new).items()
    assert files.load_network(path).policy.channels == old["policy"]["channels"]


def test_an_old_config_json_of_a_pretraining_run_is_read() -> None:
    path = OLD / "runs" / "pretrain" / "config.json"
    with pytest.warns(
        FutureWarning, match="read as those of today: trainer is called loop; policy.autocast is"
    ):
        config = pretraining.load(path)
    assert config.policy.channels == 16 and config.precision.autocast
    with pytest.raises(ValueError, match="that of a pretraining run"):
        files.load(path)


def test_an_old_setting_is_read_as_an_argument_and_as_a_flag() -> None:
    with pytest.warns(FutureWarning, match="trainer is called loop now"):
        assert TrainConfig(GRPO(), trainer="own").loop == "native"  # type: ignore[call-arg]
    with pytest.warns(FutureWarning, match="loop 'own' is called 'native' now"):
        assert TrainConfig(GRPO(), loop="own").loop == "native"  # type: ignore[arg-type]
    with pytest.warns(FutureWarning):
        flags = flags_today(["--trainer", "own", "--seed", "1"])
        assert flags == ["--loop", "native", "--seed", "1"]
    with pytest.warns(FutureWarning):
        assert flags_today(["--trainer=sb3"]) == ["--loop=sb3"]
    with pytest.warns(FutureWarning, match="policy.head_dtype is called precision.head_dtype now"):
        old = "--policy.head-dtype bfloat16 --policy.no-autocast --policy.channels 8"
        new = "--precision.head-dtype bfloat16 --precision.no-autocast --policy.channels 8"
        assert flags_today(old.split()) == new.split()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = ["--env.reward", "own", "--no-preflight", "--optimizer.learning-rate", "1", "own"]
        assert flags_today(kept) == kept


def test_a_report_calls_the_settings_of_an_old_run_as_those_of_a_new_one(tmp_path: Path) -> None:
    shutil.copy(OLD / "runs" / "grpo" / "config.json", tmp_path)
    (tmp_path / "metrics.jsonl").write_text('{"step": 0, "eval/regret_cp": 400.0}\n')
    with pytest.warns(FutureWarning):
        assert read_run(tmp_path).config["loop"] == "native"


@pytest.mark.slow
def test_the_parts_of_the_old_page_keep_their_contracts_and_train(folder: Path) -> None:
    run(folder, "check_mine.py")
    page = (OLD / "extending.md").read_text(encoding="utf-8")
    options = dict(re.findall(r"`(--[\w.-]+) (my_\w+:\w+|win_prob_delta\+\S+)`", page))
    assert len(options) == 4
    own = " ".join(word for option in options.items() for word in option)
    small = "--total-moves 64 --rollout.num-envs 4 --rollout.num-plies 1 --device cpu --run-dir r"
    command = f"train my_algorithm:SignPG {own} {small}"
    run(folder, "-m", "algorithms.cli", *shlex.split(command))
    assert '"name": "my_algorithm:SignPG"' in (folder / "r" / "config.json").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_old_example_runs_as_it_stands(path: Path, tmp_path: Path) -> None:
    option = "--out" if path.stem == "compare_algorithms" else "--run-dir"
    run(tmp_path, str(path), "--smoke", option, str(tmp_path / "r"), timeout=600)
    assert any((tmp_path / "r").iterdir())
