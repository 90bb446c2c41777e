"""The examples run from a clone as they stand, through their one switch for speed."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLAIN_SB3 = ROOT / "examples" / "train_sb3_move_facts.py"
SB3 = [PLAIN_SB3, ROOT / "examples" / "train_sb3_maskable_ppo.py"]
SINGLE_FILE = ROOT / "examples" / "grpo_single_file.py"
EXAMPLES = sorted({*(ROOT / "examples").glob("train_*.py")} - {*SB3})  # those have no run folder
EXAMPLES.append(ROOT / "examples" / "pretrain.py")
COMPARISON = ROOT / "examples" / "compare_algorithms.py"
NOTEBOOK = ROOT / "examples" / "first_ten_minutes.ipynb"


def test_there_is_an_example() -> None:
    assert ROOT / "examples" / "train_grpo.py" in EXAMPLES


@pytest.mark.parametrize(
    "path", [*EXAMPLES, COMPARISON, *SB3, SINGLE_FILE], ids=lambda path: path.stem
)
def test_an_example_says_how_it_is_tried_in_seconds(path: Path) -> None:
    assert "--smoke" in (ast.get_docstring(ast.parse(path.read_text())) or "")


def run_alone(script: Path, folder: Path, *arguments: str, timeout: int) -> str:
    """What the script prints; isolated: neither the working folder nor PYTHONPATH may help it."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, str(script), "--smoke", *arguments], cwd=folder, capture_output=True,
        env=environment | {"OMP_NUM_THREADS": "1"}, text=True, timeout=timeout,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_uninstalled_from_another_folder(path: Path, tmp_path: Path) -> None:
    run_dir = tmp_path / "a run"
    printed = run_alone(path, tmp_path, "--run-dir", str(run_dir), timeout=110)
    assert f"run folder: {run_dir}" in printed
    assert re.search(
        r"^  policy      move_net tiny, [\d,]+ parameters on \w+ \(1 thread\)$", printed, re.M
    )
    assert (run_dir / "metrics.jsonl").read_text().count("\n") > 2
    assert json.loads((run_dir / "environment.json").read_text())["evaluator"]


@pytest.mark.slow
def test_the_comparison_runs_uninstalled_from_another_folder(tmp_path: Path) -> None:
    out = tmp_path / "a comparison"
    printed = run_alone(COMPARISON, tmp_path, "--out", str(out), timeout=200)
    assert f"result: {out / 'comparison.json'}" in printed
    assert "nothing: " in printed
    assert len(json.loads((out / "comparison.json").read_text())["cells"]) == 4


def test_the_example_of_plain_sb3_uses_nothing_of_the_algorithms() -> None:
    tree = ast.parse(PLAIN_SB3.read_text())
    imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported += [name.name for node in ast.walk(tree) if isinstance(node, ast.Import)
                 for name in node.names]  # fmt: skip
    assert "sb3_contrib" in imported
    assert not [name for name in imported if name and name.startswith("algorithms")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "said"),
    [(SB3[0], "ep_rew_mean"), (SB3[1], "held-out regret after:")],
    ids=["plain", "ours"],
)
def test_an_example_of_sb3_runs_uninstalled_from_another_folder(
    path: Path, said: str, tmp_path: Path
) -> None:
    printed = run_alone(path, tmp_path, timeout=110)
    assert said in printed and "total_timesteps" in printed


@pytest.mark.slow
def test_the_example_in_one_file_runs_uninstalled_from_another_folder(tmp_path: Path) -> None:
    printed = run_alone(SINGLE_FILE, tmp_path, timeout=110)
    rows = re.findall(r"^ +(\d) .*moves.*reward.*entropy.*loss", printed, re.M)
    assert rows == ["1", "2", "3"]
    assert "regret_cp" in printed


@pytest.mark.slow
def test_the_notebook_of_the_first_ten_minutes_runs_in_its_folder_and_holds_no_output(
    tmp_path: Path,
) -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4 and notebook["metadata"]["kernelspec"]["name"] == "python3"
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert cells and not any(cell["outputs"] or cell["execution_count"] for cell in cells)
    done = subprocess.run(
        [sys.executable, "-P", "-c", "\n".join("".join(cell["source"]) for cell in cells)],
        cwd=tmp_path, capture_output=True, text=True, timeout=280,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "collapse: sampled_entropy_bonus" in done.stdout
    rewards = [float(x) for x in re.findall(r"moves, mean reward ([+-][\d.]+)", done.stdout)]
    assert len(rewards) > 4 and rewards[-1] > rewards[0]
