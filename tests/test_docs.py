"""What the pages say is there is there, and the code they show runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
README = (ROOT / "README.md").read_text()
CODE_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def slug(heading: str) -> str:
    """The anchor a forge gives to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def broken_links(page: Path, text: str) -> list[str]:
    """Relative links and images of a Markdown page that lead to no file or no heading."""
    prose = CODE_BLOCK.sub("", text)
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file) if file else page
        if not target.exists():
            broken.append(link)
        elif anchor and target.suffix == ".md":
            content = text if target == page else target.read_text()
            headings = re.findall(r"^#+ (.*)$", content, re.MULTILINE)
            if anchor not in map(slug, headings):
                broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    assert broken_links(page, page.read_text()) == []


def test_no_line_of_prose_begins_with_a_percent_sign_which_the_site_takes_for_a_comment() -> None:
    lost = [
        f"{page.relative_to(ROOT)}: {line}"
        for page in PAGES
        for line in page.read_text().splitlines()
        if line.startswith("%") and not line.startswith(("%%", "% solved"))  # in code
    ]
    assert not lost


def test_the_link_check_catches_a_dead_link_and_a_dead_anchor() -> None:
    text = "# Here\n[a](no-such-file.md) [b](#here) [c](#there) [d](LICENSE)\n"
    assert broken_links(ROOT / "README.md", text) == ["no-such-file.md", "#there"]


@pytest.mark.slow
def test_the_python_code_in_the_readme_runs_as_it_stands(tmp_path: Path) -> None:
    blocks = [code for language, code in CODE_BLOCK.findall(README) if language == "python"]
    assert blocks
    for code in blocks:
        script = tmp_path / "readme.py"
        script.write_text(code)
        done = subprocess.run(
            [sys.executable, str(script)],
            cwd=tmp_path,
            # beside another busy program torch's waiting threads take the cores from those that they wait for
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_WAIT_POLICY": "PASSIVE"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout
        if "MaskablePPO" in code:
            means = re.findall(r"mean reward ([-+][\d.]+)", done.stdout)
            assert float(means[-1]) > float(means[0]) + 0.2


@pytest.mark.slow
def test_the_batch_that_is_followed_through_the_code_has_the_shapes_that_are_stated(
    tmp_path: Path,
) -> None:
    page = (ROOT / "docs" / "where_does_it_go.md").read_text(encoding="utf-8")
    cells = re.findall(r"^```\{code-cell\}[^\n]*\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(cells) > 5
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", "\n".join(cells)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    shown = dict(re.findall(r"^(\w+) +\((\d+, [\d, ]+)\)", done.stdout, re.MULTILINE))
    assert re.fullmatch(r"12, \d+, 8, 8", shown["obs"])  # of a minibatch
    assert shown["rewards"] == "8, 3, 4" and shown["slots"] == "12, 4"
    assert "entropy (12,)" in done.stdout


def test_every_make_command_in_the_pages_is_in_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        name for page in PAGES for name in re.findall(r"`make ([a-z][\w-]*)", page.read_text())
    }
    assert named
    assert named - targets == set()


def test_the_readme_says_how_to_call_the_command_before_it_uses_it() -> None:
    first = README.index("source .venv/bin/activate")
    bare = re.search(r"^chess-lab ", README, re.MULTILINE)
    assert bare and first < bare.start()


def test_the_tree_of_folders_names_only_what_exists() -> None:
    page = (ROOT / "docs" / "where_does_it_go.md").read_text()
    (tree,) = (code for language, code in CODE_BLOCK.findall(page) if "chess_env/  " in code)
    missing, parents = [], [ROOT]
    for line in filter(str.strip, tree.splitlines()):
        depth = (len(line) - len(line.lstrip())) // 2
        names = re.match(r"\s*((?:[\w./-]+,? )*[\w./-]+)(?:\s{2,}|$)", line)
        assert names, line
        parents = parents[: depth + 1]
        paths = [parents[depth] / name.rstrip(",") for name in names[1].split()]
        missing += [str(path.relative_to(ROOT)) for path in paths if not path.exists()]
        parents.append(paths[-1])
    assert missing == []
