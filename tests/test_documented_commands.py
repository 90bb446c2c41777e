"""Every command and option that the pages name exists, and every command is documented."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
import runpy
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from algorithms.cli import COMMANDS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    *(p for p in DOCS.rglob("*.md") if not {"_build", "api"} & set(p.relative_to(DOCS).parts)),
]
FENCE = re.compile(r"^( *)```(?:console|sh)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`((?:\.venv/bin/)?chess-lab [a-z][^`]*)`")
OPTION = re.compile(r"(?<![\w-])--[a-z][\w.-]*")
SUBCOMMANDS = {"train": ["grpo", "ppo"], "causes": ["list", "show", "run"]}


def commands_of(text: str) -> list[str]:
    """Command lines of chess-lab in a page: those of its console blocks, and those in its prose."""
    lines = [
        line for _, block in FENCE.findall(text) for line in block.replace("\\\n", " ").splitlines()
    ]
    found = [*lines, *INLINE.findall(FENCE.sub("", text).replace("\n", " "))]
    found = [line.strip().removeprefix("$ ").removeprefix(".venv/bin/") for line in found]
    return [line.partition("   #")[0] for line in found if re.match(r"chess-lab [a-z]", line)]


COMMAND_LINES = sorted({line for page in PAGES for line in commands_of(page.read_text("utf-8"))})


def help_text(*arguments: str) -> str:
    """What `chess-lab ARGUMENTS --help` prints, every option in it."""
    command = importlib.import_module(f"algorithms.commands.{arguments[0]}")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        everything = "--help-all" if arguments[0] in ("train", "pretrain") else "--help"
        command.run([*arguments[1:], everything])
    return printed.getvalue()


def named_in_texts(pattern: str) -> set[str]:
    """What matches in pages, the Makefile and the sources."""
    folders = ("algorithms", "chess_env", "benchmarks", "docs")
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    texts = [*PAGES, ROOT / "Makefile", ROOT / "CONTRIBUTING.md", *sources]
    return {name for path in texts for name in re.findall(pattern, path.read_text("utf-8"))}


def test_every_module_that_is_to_be_run_exists() -> None:
    modules = named_in_texts(r"python -m ((?:benchmarks|docs)[\w.]*\w)")
    assert {"docs.pages", "benchmarks.learning.strong", "benchmarks.speed.vector_env"} <= modules
    homes = {name: ROOT / name.replace(".", "/") for name in modules}
    missing = {
        name
        for name, path in homes.items()
        if not path.with_suffix(".py").exists() and not (path / "__main__.py").exists()
    }
    assert missing == set()


def test_every_script_that_is_named_exists() -> None:
    files = named_in_texts(r"\b(?:benchmarks|docs)/[\w/]+\.py\b")
    assert files
    assert {name for name in files if not (ROOT / name).exists()} == set()


@cache
def options_of(name: str) -> frozenset[str]:
    """All options of a command."""
    texts = [help_text(name)]
    texts += [help_text(name, sub) for sub in SUBCOMMANDS.get(name, [])]
    return frozenset(option for text in texts for option in OPTION.findall(text))


def test_command_lines_are_found_in_blocks_and_in_prose() -> None:
    page = "```console\nchess-lab eval x --games 2   # two\nmake test\n```\n and `chess-lab uci warm`.\n"
    assert commands_of(page) == ["chess-lab eval x --games 2", "chess-lab uci warm"]


def test_every_command_is_documented_with_its_own_words() -> None:
    start = (DOCS / "start.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `chess-lab (\w+)` \| (.*?) \|", start, re.MULTILINE))
    assert list(rows) == list(COMMANDS)
    different = {name for name in COMMANDS if rows[name] != COMMANDS[name]}
    assert different == {"eval"}  # which has two things to say
    assert {line.split()[1] for line in COMMAND_LINES} == set(COMMANDS)


def test_the_start_page_says_how_the_bare_command_gets_on_the_path_before_it_uses_it() -> None:
    start = (DOCS / "start.md").read_text(encoding="utf-8")
    before = start.partition("\nchess-lab ")[0]
    assert "source .venv/bin/activate" in before
    assert "`.venv/bin/chess-lab`" in start and "`python -P -m algorithms.cli`" in start


@pytest.mark.slow
def test_the_commands_of_the_front_page_lead_to_a_compared_collapse(tmp_path: Path) -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    block = page.partition("<!-- five commands -->\n```console\n")[2].partition("```")[0]
    setup, *commands = block.splitlines()
    assert setup == "make setup" and len(commands) <= 4
    said = []
    for command in commands:
        words = shlex.split(command)
        assert words[0] == ".venv/bin/chess-lab"
        words += ["--smoke"] if "--cured" in words else []  # what is claimed is of the other
        done = subprocess.run(
            [sys.executable, "-m", "algorithms.cli", *words[1:]],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=900,
        )
        found_a_cause = words[1] == "diagnose" and done.returncode == 1  # its documented exit code
        assert done.returncode == 0 or found_a_cause, done.stderr
        said.append(done.stdout)
    assert "verdict: collapse" in said[2] and "sampled_entropy_bonus" in said[2]
    report = (tmp_path / "runs" / "pair" / "report.html").read_text(encoding="utf-8")
    assert "sampled_entropy_bonus" in report and "sampled_entropy_bonus-cured" in report


OTHER_MODULES = sorted(
    {
        (module, options)
        for page in PAGES
        for module, options in re.findall(
            r"python -m ((?:benchmarks|docs)\.[\w.]*\w)((?: +--[a-z][\w-]*(?: [\w./]+)?)+)",
            page.read_text("utf-8").replace("\\\n", " "),
        )
    }
)


@pytest.mark.filterwarnings("ignore:.*found in sys.modules after import")
@pytest.mark.parametrize(("module", "options"), OTHER_MODULES)
def test_every_option_of_another_module_exists(
    module: str, options: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [module, "--help"])
    with pytest.raises(SystemExit) as left:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    assert not left.value.code
    known_here = set(OPTION.findall(capsys.readouterr().out))
    assert set(OPTION.findall(options)) - known_here == set()
