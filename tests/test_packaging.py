"""What is installed is what was meant, and the light entrances stay light."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import chess_env

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = ("chess_env", "algorithms")
SHIPPED = "algorithms/training/shipped"

HELP = """
import sys
from algorithms.cli import main
sys.argv = ["chess-lab", "--help"]
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
"""


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )


def least_cpu_seconds(code: str, runs: int = 5) -> float:
    """Smallest user + system time of several runs: the first may still compile bytecode."""
    times = []
    for _ in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run_python(code)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


@pytest.mark.parametrize("code", ["import chess_env", HELP], ids=["import chess_env", "--help"])
def test_a_light_entrance_loads_no_torch_and_takes_under_one_second(code: str) -> None:
    heavy = {"torch", "stable_baselines3", "wandb", "tensorboard", "matplotlib"}
    report = "\nimport sys\nprint('loaded:', *sys.modules)"
    loaded = run_python(code + report).stdout.rpartition("loaded:")[2].split()
    assert heavy.isdisjoint(loaded)
    assert least_cpu_seconds(code) < 1.0


def test_help_names_its_commands() -> None:
    shown = run_python(HELP).stdout
    assert "train" in shown
    assert "check" in shown


def test_the_declared_packages_are_those_in_the_tree() -> None:
    in_tree = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for package in PACKAGES
        for path in (ROOT / package).rglob("__init__.py")
    }
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == in_tree


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Names in a wheel built from a copy of the sources with one more policy, without the network."""
    source = tmp_path_factory.mktemp("source")
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    (source / SHIPPED).mkdir(exist_ok=True)
    for suffix in (".safetensors", ".sha256"):
        (source / SHIPPED / f"one_more{suffix}").touch()
    for folder in ("tests", "examples", "benchmarks", "docs"):
        (source / folder).mkdir()
        (source / folder / "__init__.py").touch()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    target = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    ]
    subprocess.run(
        [*command, "--wheel-dir", str(target), str(source)],
        capture_output=True,
        check=True,
        timeout=120,
    )
    (wheel,) = target.glob("chess_selfplay_lab-*.whl")
    return zipfile.ZipFile(wheel).namelist()


def test_the_wheel_has_two_packages_and_nothing_else_at_its_top(wheel_names: list[str]) -> None:
    top = {name.split("/")[0] for name in wheel_names}
    assert {name for name in top if not name.endswith(".dist-info")} == set(PACKAGES)


def test_the_wheel_has_every_module_and_data_file_of_the_packages(wheel_names: list[str]) -> None:
    expected = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    }
    assert expected - set(wheel_names) == set()
    assert {"chess_env/py.typed", "chess_env/heldout.npz"} <= expected


def test_the_wheel_has_the_policies_that_come_with_the_project(wheel_names: list[str]) -> None:
    assert {f"{SHIPPED}/one_more.safetensors", f"{SHIPPED}/one_more.sha256"} <= set(wheel_names)


def test_the_project_cannot_be_uploaded_by_accident() -> None:
    assert "Private :: Do Not Upload" in PROJECT["project"]["classifiers"]


def test_every_direct_dependency_is_pinned_in_the_constraints() -> None:
    pinned = {
        line.split("==")[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line and not line.startswith("#")
    }
    extras = PROJECT["project"]["optional-dependencies"].values()
    wanted = {
        requirement.split(">=")[0].lower()
        for group in (PROJECT["project"]["dependencies"], *extras)
        for requirement in group
        if not requirement.startswith(PROJECT["project"]["name"])
    }
    assert wanted - pinned == set()


def test_the_version_is_the_same_everywhere() -> None:
    version = PROJECT["project"]["version"]
    assert chess_env.__version__ == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
