"""The Python code of docs/run_folder.md runs as it stands, and the page names every file of a run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from algorithms.training.trainer import train
from tests.training.runs import Watcher, tiny

PAGE = (Path(__file__).parents[2] / "docs" / "run_folder.md").read_text(encoding="utf-8")
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_code_runs_and_the_table_has_every_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("collapse", "cured"):
        seed = {"collapse": 0, "cured": 1}[name]
        config = tiny(Path("runs") / name, checkpoint_keep=2, seed=seed)
        train(config, display=Watcher())
    table = set(re.findall(r"^\| `([\w.]+)` \|", PAGE, re.MULTILINE))
    on_disk = {path.name for path in Path("runs/collapse").iterdir() if path.name[0] != "."}
    assert on_disk <= table
    exec("\n".join(CODE.findall(PAGE)), {})
    said = capsys.readouterr().out
    assert "    256 scored moves: " in said and "5 rows, " in said
    assert Path("collapse.svg").read_text().count("without it") == 2
