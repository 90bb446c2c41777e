"""The Dockerfile names what is there; `.ci/dockerfile_steps.py` runs it where no container can be built."""

from __future__ import annotations

import functools
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
IGNORED = (ROOT / ".dockerignore").read_text(encoding="utf-8")
SETUP = "make setup"


def loaded() -> ModuleType:
    path = ROOT / ".ci" / "dockerfile_steps.py"
    spec = importlib.util.spec_from_file_location("dockerfile_steps", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["dockerfile_steps"] = module
    spec.loader.exec_module(module)
    return module


dockerfile = loaded()
STEPS = dockerfile.steps(TEXT)
AT_SETUP = next(at for at, step in enumerate(STEPS) if step == ("RUN", SETUP))


@functools.cache
def copied(source: str) -> list[str]:
    """Paths of the files in the clone that a COPY takes."""
    return dockerfile.copied(source, IGNORED)


def sources(steps: list) -> list[str]:
    return [word for step in steps if step.name == "COPY" for word in step.words[:-1]]


def test_every_source_of_a_copy_is_there_and_sent() -> None:
    assert len(sources(STEPS)) >= 7
    assert [name for name in sources(STEPS) if not copied(name)] == []


def test_every_command_of_make_is_a_target_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z-]+)", TEXT.replace('"make", "', "make ")))
    assert {"setup", "test", "train"} <= named <= targets | {"stockfish"}  # that of apt-get
    assert STEPS[-1].name == "CMD" and STEPS[-1].words == ["make", "train"]


def test_what_set_up_reads_is_copied_before_it_and_the_sources_are_copied_after_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {"Makefile", ".ci/setup", "pyproject.toml", "constraints.txt"}
    needed |= {project["readme"], *project["license-files"]}
    assert set(sources(STEPS[:AT_SETUP])) == needed
    assert sources(STEPS[AT_SETUP:]) == ["."]


def test_the_packages_and_the_programs_are_not_made_by_the_superuser() -> None:
    (user,) = (at for at, step in enumerate(STEPS) if step.name == "USER")
    assert STEPS[user].text not in ("root", "0") and user < AT_SETUP
    made = [step.text for step in STEPS[:user] if step.name == "RUN"]
    assert made[0].startswith("apt-get update") and f" {STEPS[user].text}" in made[1]
    owned = f"--chown={STEPS[user].text}:{STEPS[user].text} "
    assert all(step.text.startswith(owned) for step in STEPS if step.name == "COPY")


def test_python_is_one_that_the_project_is_tested_with() -> None:
    workflow = (ROOT / ".github" / "workflows").glob("*.yml")
    versions = re.findall(r'"(3\.\d+)"', "".join(path.read_text() for path in workflow))
    tag = STEPS[0].text.removeprefix("python:")
    assert STEPS[0].name == "FROM" and tag.split("-")[0] in versions


def test_what_is_left_out_git_leaves_out_too() -> None:
    def plain(text: str) -> set[str]:
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        return {line.removeprefix("**/").strip("/") for line in lines}

    by_git = plain((ROOT / ".gitignore").read_text(encoding="utf-8"))
    assert plain(IGNORED) - by_git == {".git", ".venv-*"}
    assert any(name.startswith(".venv-") for name in by_git)


def test_the_tests_and_what_they_read_are_sent_and_what_is_made_here_is_not() -> None:
    sent = set(copied("."))
    here = Path(__file__).relative_to(ROOT).as_posix()
    assert {here, "chess_lab.py", "docs/start.md", "tests/conftest.py", ".ci/setup"} <= sent
    assert {f".ci/{path.name}" for path in (ROOT / ".ci").glob("*.py")} <= sent
    assert not any("__pycache__" in name or name.startswith((".git/", ".venv")) for name in sent)


@pytest.mark.parametrize(
    ("path", "left_out"),
    [
        (".git/config", True),
        (".github/workflows/ci.yml", False),
        (".gitignore", False),
        (".venv/bin/python", True),
        (".venv-trl/x", True),
        ("runs/mine/config.json", True),
        ("tests/runs/x.py", False),
        ("algorithms/core/__pycache__/batch.cpython-311.pyc", True),
        ("docs/api/index.md", True),
        ("docs/start.md", False),
        ("tests/build/x.py", False),
    ],
)
def test_a_path_is_left_out_as_docker_would(path: str, left_out: bool) -> None:
    assert dockerfile.left_out(path, IGNORED) is left_out


def test_steps_are_read_over_several_lines_and_an_unknown_one_is_refused() -> None:
    text = '# a\nRUN one \\\n  && two\n\nCOPY --chown=a:a b ./\nCMD ["x", "y z"]\n'
    run, copy, cmd = dockerfile.steps(text)
    assert run == ("RUN", "one && two") and copy.words == ["b", "./"] and cmd.words == ["x", "y z"]
    with pytest.raises(ValueError, match="ADD is none of ARG, CMD"):
        dockerfile.steps("ADD a b")


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    script = ROOT / ".ci" / "dockerfile_steps.py"
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2 and "is not empty: name another folder" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
