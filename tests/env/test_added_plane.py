"""An observation plane is a row of `PLANES`: one of each kind is added to a copy and trained on."""

from __future__ import annotations

import difflib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from chess_env.observation import NUM_PLANES

ROOT = Path(__file__).parents[2]
PACKAGES = ("chess_env", "algorithms")

# (file, the line that follows, the lines that are added). In the middle of the table: were a number of a
# plane written down anywhere, it would then be another plane's.
EDITS = (
    (
        "chess_env/observation.py",
        '    Plane("en_passant", 1,',
        '    Plane("black_to_move", 1, "1 where the mover is Black", Everywhere(10, 1)),',
    ),
    (
        "chess_env/observation.py",
        "PLANES = (",
        """def heavy_men(position: Positions) -> np.uint64:
    return (position[packed.ROOKS] | position[packed.QUEENS]) & ~position[packed.OWN]""",
    ),
    (
        "chess_env/observation.py",
        '    Plane(\n        "repetitions",',
        '    Plane("heavy_men", 1, "1 where the opponent has a rook or a queen", OnSquares(heavy_men)),',
    ),
)

COMPARE = """
import chess, numpy as np, torch
import chess_env
from algorithms.rollouts.sampling import planes_of
from chess_env.observation import NUM_PLANES, PLANE_INDEX, encode_batch
from chess_env.positions.start_positions import RandomPlies
from chess_env.rules.fen import to_fens

rng = np.random.default_rng(0)
source = RandomPlies(0, 120, exclude_heldout=False)
positions = np.array([source.sample(rng) for _ in range(200)])
repetitions = rng.integers(0, 4, len(positions)).astype(np.uint8)
compiled = encode_batch(positions, repetitions)
packed = torch.from_numpy(positions.view(np.int64))
on_device = planes_of(packed, torch.from_numpy(repetitions)).numpy()
boards = [chess.Board(fen) for fen in to_fens(positions)]
assert np.array_equal(compiled, on_device)
black = np.array([not board.turn for board in boards])
assert 0 < black.sum() < len(boards)
heavy = compiled[:, [PLANE_INDEX.opponent_rook, PLANE_INDEX.opponent_queen]].max(1)
assert heavy.any() and (compiled[:, PLANE_INDEX.heavy_men] == heavy).all()
assert (compiled[:, PLANE_INDEX.black_to_move] == black[:, None, None]).all()
print(chess_env.__file__, NUM_PLANES)
"""


def python(folder: Path, *arguments: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=500
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def sources(folder: Path) -> dict[str, list[str]]:
    """Lines of each Python file of the two packages."""
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8").splitlines()
        for package in PACKAGES
        for path in (folder / package).rglob("*.py")
    }


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both packages, in which the plane was added."""
    folder = tmp_path_factory.mktemp("added_plane")
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")  # machine code of the kernels as they were
        shutil.copytree(ROOT / package, folder / package, ignore=ignored)
    for name, following, line in EDITS:
        text = (folder / name).read_text(encoding="utf-8")
        assert text.count(f"\n{following}") == 1, (name, following)
        edited = text.replace(f"\n{following}", f"\n{line}\n{following}")
        (folder / name).write_text(edited, encoding="utf-8")
    return folder


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_plane_of_each_kind_is_added_by_one_row(copy: Path) -> None:
    path, planes = python(copy, "-c", COMPARE).split()
    before = python(ROOT, "-c", "from chess_env.observation import *; print(NUM_PLANES)")
    assert Path(path).parents[1] == copy and int(planes) == int(before) + 2

    run_dir = copy / "run"
    python(
        copy, "-m", "algorithms.cli", "train", "grpo", "--smoke", "--env.evaluator", "builtin",
        "--device", "cpu", "--run-dir", str(run_dir),
    )  # fmt: skip
    assert list(run_dir.glob("checkpoints/*/manifest.json"))

    # Nothing else was edited, before or by what ran.
    was, now = sources(ROOT), sources(copy)
    assert was.keys() == now.keys()
    changed = [
        (name, line)
        for name, lines in now.items()
        if lines != was[name]
        for line in difflib.ndiff(was[name], lines)
        if line[0] in "+-"
    ]
    added = [(name, f"+ {line}") for name, _, lines in EDITS for line in lines.splitlines()]
    assert sorted(changed) == sorted(added)


def test_the_page_on_extending_shows_these_rows() -> None:
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    assert [lines for _, _, lines in EDITS if f"\n{lines}\n" not in page] == []


def test_the_number_of_planes_is_written_down_nowhere() -> None:
    folders = ("chess_env", "algorithms", "tests", "examples", "docs/tutorials")
    files = [
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*.*")
        if path.suffix in {".py", ".md"}
    ]
    written = re.compile(rf"\b{NUM_PLANES}(?:, 8, 8| \* 64|, 64\]| planes)")
    found = [
        f"{path.relative_to(ROOT)}: {match}"
        for path in [*files, ROOT / "docs" / "extending.md", ROOT / "README.md"]
        for match in written.findall(path.read_text(encoding="utf-8"))
    ]
    assert len(files) > 100
    assert found == []
