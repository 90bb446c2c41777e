"""What is installed is what was meant, and the light entrances stay light."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import pytest

import chess_env
from benchmarks.corpus.chess import archive
from tests.foreign.logs import trl_rows, trl_state

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = ("chess_env", "algorithms")
ENTRANCE = "chess_lab.py"
SHIPPED = "algorithms/networks/shipped"

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


def cpu_seconds(code: str) -> float:
    """User + system time of a run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run_python(code)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("code", ["import chess_env", HELP], ids=["import chess_env", "--help"])
def test_a_light_entrance_loads_no_torch_and_takes_under_one_second(code: str) -> None:
    heavy = {
        "torch",
        "huggingface_hub",
        "stable_baselines3",
        "wandb",
        "tensorboard",
        "matplotlib",
        "starlette",
        "uvicorn",
    }
    report = "\nimport sys\nprint('loaded:', *sys.modules)"
    loaded = run_python(code + report).stdout.rpartition("loaded:")[2].split()
    assert heavy.isdisjoint(loaded)
    assert any(cpu_seconds(code) < 1.0 for _ in range(5))  # some may still compile bytecode


def test_help_names_its_commands() -> None:
    shown = run_python(HELP).stdout
    assert "train" in shown
    assert "check" in shown


def build_wheel(source: Path, target: Path) -> Path:
    """The wheel of the sources in `source`, built in `target` without the network."""
    code = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", code, str(target)],
        cwd=source, capture_output=True, check=True, timeout=120,
    )  # fmt: skip
    (wheel,) = target.glob("chess_selfplay_lab-*.whl")
    return wheel


def copy_sources(source: Path) -> None:
    """Copies what a wheel is built from, so that no build folder is left in the clone."""
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in ("pyproject.toml", "README.md", "LICENSE", ENTRANCE):
        shutil.copy(ROOT / name, source)


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Names in a wheel built from a copy of the sources with one more policy."""
    source = tmp_path_factory.mktemp("source")
    copy_sources(source)
    (source / SHIPPED).mkdir(exist_ok=True)
    for suffix in (".safetensors", ".sha256"):
        (source / SHIPPED / f"one_more{suffix}").touch()
    for folder in ("tests", "examples", "benchmarks", "docs"):
        (source / folder).mkdir()
        (source / folder / "__init__.py").touch()
    return zipfile.ZipFile(build_wheel(source, tmp_path_factory.mktemp("wheel"))).namelist()


def test_the_wheel_has_two_packages_and_the_entrance_at_its_top(wheel_names: list[str]) -> None:
    top = {name.split("/")[0] for name in wheel_names}
    assert {name for name in top if not name.endswith(".dist-info")} == {*PACKAGES, ENTRANCE}


def test_an_editable_install_puts_the_clone_on_the_path_and_copies_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; from hatchling.build import build_editable; print(build_editable(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    with zipfile.ZipFile(tmp_path / done.stdout.split()[-1]) as wheel:
        files = [name for name in wheel.namelist() if ".dist-info/" not in name]
        assert [wheel.read(name).decode().split() for name in files] == [[str(ROOT)]]
        assert files[0].endswith(".pth")
        (scripts,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
        assert "chess-lab = chess_lab:main" in wheel.read(scripts).decode()


def test_the_wheel_has_every_module_and_data_file_of_the_packages(wheel_names: list[str]) -> None:
    expected = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    }
    assert expected - set(wheel_names) == set()
    page = {"algorithms/board/static/board.js", "algorithms/board/templates/board.html.j2"}
    assert {"chess_env/py.typed", "chess_env/positions/heldout.npz", *page} <= expected


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


def needed_by(roots: list[str]) -> set[str]:
    """The distributions that pip would install for these requirements, by their names here."""
    names: set[str] = set()
    todo = list(roots)
    while todo:
        requirement, _, marker = todo.pop().partition(";")
        name = re.split(r"[^\w.-]", requirement.strip())[0].lower().replace("_", "-")
        if name in names or "extra" in marker:
            continue
        try:
            more = metadata.requires(name)
        except metadata.PackageNotFoundError:
            assert marker, f"{name} is needed and not installed"  # for another platform
            continue
        names.add(name)
        todo += more or []
    return names


def link_distributions(names: set[str], folder: Path) -> None:
    """Puts links to these distributions, and to nothing else of this environment, into `folder`."""
    here = Path(sysconfig.get_path("purelib"))
    for name in names:
        for file in metadata.files(name) or []:
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not (folder / top).exists():
                (folder / top).symlink_to(here / top)


def requirements(extra: str) -> list[str]:
    """What `pip install .[EXTRA]` asks for, without what this project names of itself; "" is no extra."""
    groups = PROJECT["project"]["optional-dependencies"]
    found = list(PROJECT["project"]["dependencies"])
    todo = [extra] if extra else []
    while todo:
        for requirement in groups[todo.pop()]:
            own = re.fullmatch(rf"{PROJECT['project']['name']}\[([\w,]+)\]", requirement)
            todo += own[1].split(",") if own else []
            found += [] if own else [requirement]
    return found


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel."""
    source = tmp_path_factory.mktemp("source")
    copy_sources(source)
    return build_wheel(source, tmp_path_factory.mktemp("wheel"))


def environment(wheel: Path, home: Path, extra: str, tools: Sequence[str] = ()) -> Path:
    """The `bin` of an environment with the wheel and what it declares, with an extra, and nothing else."""
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(home)], check=True, timeout=120
    )
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "install",
         "--no-deps", "--no-index", "--quiet", str(wheel)],
        check=True, timeout=120,
    )  # fmt: skip
    (site,) = home.glob("lib/python*/site-packages")
    link_distributions(needed_by([*requirements(extra), *tools]), site)
    return home / "bin"


@pytest.fixture(scope="module")
def clean(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment with what trains, and the tools of the tests."""
    return environment(
        built, tmp_path_factory.mktemp("clean") / "env", "train", ["pytest", "hypothesis"]
    )


def run_clean(
    command: list[str], folder: Path, timeout: int = 900
) -> subprocess.CompletedProcess[str]:
    """A command in another folder, with nothing of the clone within reach."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        command, cwd=folder, env=kept | {"OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=timeout,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.mark.slow
def test_without_an_extra_there_is_no_torch_and_the_doctor_reads_a_log(
    built: Path, tmp_path: Path
) -> None:
    path = environment(built, tmp_path / "env", "")
    absent = (
        "import importlib.util as u; print([u.find_spec(n) for n in ('torch', 'rich', 'ruff')])"
    )
    assert (
        run_clean([str(path / "python"), "-c", absent], tmp_path).stdout == "[None, None, None]\n"
    )
    log = trl_state(tmp_path / "log", trl_rows("sound__1"))
    said = run_clean([str(path / "chess-lab"), "diagnose", str(log)], tmp_path).stdout
    assert said.startswith("verdict: as expected")
    assert run_clean([str(path / "python"), "-c", "import chess_env"], tmp_path).stdout == ""
    (tmp_path / "suite.epd").write_text("8/8/8/8/8/4k3/8/4K2R w K - bm O-O;")
    measures = ("", " --positions", " --endings", " --epd suite.epd")
    for command in ("train grpo --smoke", *(f"eval warm{each}" for each in measures), "board"):
        done = subprocess.run(
            [str(path / "chess-lab"), *command.split()],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        extra = "board" if command == "board" else "train"
        assert done.returncode == 1 and f"pip install -e '.[{extra}]'" in " ".join(
            done.stderr.split()
        )
        assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("extra", "modules"),
    [
        ("train", "algorithms.training.trainer algorithms.commands.run_options"),
        ("board", "algorithms.board.app"),
        ("hub", "huggingface_hub algorithms.commands.hub"),
        ("sb3", "algorithms.integrations.sb3"),
    ],
)
def test_an_extra_brings_what_its_part_imports(
    extra: str, modules: str, built: Path, tmp_path: Path
) -> None:
    path = environment(built, tmp_path / "env", extra)
    imports = "; ".join(f"import {module}" for module in modules.split())
    run_clean([str(path / "python"), "-c", imports], tmp_path)


@pytest.mark.slow
def test_a_source_distribution_builds_the_same_wheel(built: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    copy_sources(source)
    code = "import sys; from hatchling.build import build_sdist; print(build_sdist(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=source, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    with archive(tmp_path / done.stdout.split()[-1]) as packed:
        packed.extractall(tmp_path / "unpacked")
    (again,) = (tmp_path / "unpacked").iterdir()
    names = zipfile.ZipFile(build_wheel(again, tmp_path / "wheel")).namelist()
    assert sorted(names) == sorted(zipfile.ZipFile(built).namelist())


@pytest.mark.slow
@pytest.mark.timeout(1800)  # numba compiles everything anew in a new environment
def test_the_wheel_trains_evaluates_and_reports_from_another_folder(
    clean: Path, tmp_path: Path
) -> None:
    lab, python = str(clean / "chess-lab"), str(clean / "python")
    where = "import chess_env, algorithms; print(chess_env.__file__, algorithms.__file__)"
    for file in run_clean([python, "-c", where], tmp_path).stdout.split():
        assert Path(file).is_relative_to(clean.parent)
    absent = "import importlib.util as u; print([u.find_spec(n) for n in ('sb3_contrib', 'ruff')])"
    assert run_clean([python, "-c", absent], tmp_path).stdout == "[None, None]\n"
    assert "usage: chess-lab" in run_clean([lab, "--help"], tmp_path).stdout
    smoke = [lab, "train", "grpo", "--smoke", "--env.evaluator", "builtin", "--run-dir", "run"]
    said = run_clean(smoke, tmp_path).stdout
    assert f"{lab} report run" in said  # PATH does not know this one
    run_clean([lab, "report", "run"], tmp_path)
    assert "<svg" in (tmp_path / "run" / "report.html").read_text()
    judged = run_clean([lab, "eval", "warm", "--positions"], tmp_path).stdout
    assert "warm, held-out positions" in judged
    shown = run_clean([lab, "causes", "show", "temperature_mismatch"], tmp_path).stdout
    assert shown.startswith("temperature_mismatch: ")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_tests_pass_on_the_wheel_in_another_folder(clean: Path, tmp_path: Path) -> None:
    chosen = ("core/test_advantages.py", "core/test_losses.py", "positions/test_heldout.py")
    for name in ("core/conftest.py", *chosen):
        (tmp_path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "tests" / name, tmp_path / "tests" / name)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    names = [f"tests/{name}" for name in chosen]
    done = run_clean([str(clean / "python"), "-m", "pytest", "-q", *names], tmp_path)
    assert " passed" in done.stdout and "failed" not in done.stdout
