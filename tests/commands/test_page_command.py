from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from algorithms.cli import main
from algorithms.diagnostics.probe_pictures import probe_pictures
from algorithms.reports.probe_files import ProbeSheet, write_probe
from chess_env.rules.fen import pack_fens
from chess_env.rules.rules import legal_actions_batch
from tests.commands.lab import chess_lab
from tests.reports.page_text import text_of
from tests.reports.run_folders import config, write_run

FENS = ["rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", "7k/8/8/8/8/8/p7/7K b - - 0 1"]


def sheet() -> ProbeSheet:
    positions = pack_fens(FENS)
    legal_ids, _ = legal_actions_batch(positions)
    return ProbeSheet(("opening", "endgame"), legal_ids, positions, "0" * 64)


def write_looks(run_dir: Path, first_probability: float = 0.9) -> None:
    """A uniform policy at update 0; after update 5 the first legal move has `first_probability`."""
    legal = sheet().legal_ids >= 0
    counts = legal.sum(1, keepdims=True)
    uniform = np.where(legal, -np.log(counts), np.nan)
    write_probe(run_dir, 0, uniform, 1.0, sheet())
    with np.errstate(divide="ignore"):  # a probability of 0 has log-probability -inf
        later = np.where(legal, np.log((1 - first_probability) / (counts - 1)), np.nan)
    later[:, 0] = np.log(first_probability)
    write_probe(run_dir, 5, later, 1.0, sheet())


def test_a_folder_of_runs_becomes_a_page_in_it(tmp_path: Path) -> None:
    first = write_run(tmp_path / "out" / "grpo" / "seed-1", config=config())
    write_looks(first)
    broken = write_run(tmp_path / "out" / "broken", config=config(seed=2))
    (broken / "metrics.jsonl").write_text("{}\n{}\n")
    code, out, _ = chess_lab("report", tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    assert "grpo/seed-1" in page
    assert "Left out:" in page
    assert "metrics.jsonl, line 1: step is None" in page
    assert 'class="board"' in page
    assert code == 0 and "1 run," in out
    assert main(["report", str(tmp_path / "out")]) == 0  # the page itself is no run
    assert (tmp_path / "out" / "report.html").read_text() == page


def test_a_single_run_is_compared_with_its_preset(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", config=config(ent_coef=0.777))
    assert main(["report", str(run), "--out", str(tmp_path / "new" / "page.html")]) == 0
    page = (tmp_path / "new" / "page.html").read_text()
    assert "the preset" in page
    assert "0.777" in page
    assert not (run / "report.html").exists()


@pytest.mark.parametrize(
    ("files", "out", "what"),
    [
        ({}, None, "no metrics.jsonl in or below"),
        ({"metrics.jsonl": '{"step": 0}\n', "config.json": "{"}, None, "config.json is damaged"),
        ({"metrics.jsonl": '{"step": 0}\n'}, "metrics.jsonl", "does not end in .html"),
        ({"metrics.jsonl": '{"step": 0}\n', "x.html/y": ""}, "x.html", "is a folder"),
        ({"metrics.jsonl": '{"step": 0}\n'}, "metrics.jsonl/x.html", "cannot be written"),
    ],
)
def test_what_cannot_be_shown_is_said_and_nothing_is_written(
    tmp_path: Path, files: dict[str, str], out: str | None, what: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    target = [] if out is None else ["--out", str(tmp_path / out)]
    code, _, error = chess_lab("report", tmp_path, *target)
    assert code == 1
    assert error.startswith("chess-lab report: ")
    assert what in error
    after = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    code, _, err = chess_lab("report", tmp_path / "none")
    assert code == 1 and "does not exist" in err
    assert list(tmp_path.iterdir()) == []


def test_links_out_of_the_folder_are_not_followed_and_are_noted(tmp_path: Path) -> None:
    secret = write_run(tmp_path / "secret", config=config("ppo"))
    write_looks(secret)
    run = write_run(tmp_path / "out" / "a", config=config())
    (tmp_path / "out" / "b").symlink_to(secret)
    (run / "probes").symlink_to(secret / "probes")
    assert main(["report", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "b is a symbolic link and was not followed" in page
    assert "a: probes is or holds a symbolic link and was not followed" in page
    assert 'class="board"' not in page
    assert page.count('<article class="card') == 1


def test_probes_that_cannot_be_read_are_a_note(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", config=config())
    write_looks(run)
    (run / "probes" / "00000005.npz").write_bytes(b"no zip")
    assert main(["report", str(run)]) == 0
    page = (run / "report.html").read_text()
    assert "a: no boards (" in page
    assert 'class="board"' not in page


def test_pictures_have_the_likeliest_moves_from_the_movers_own_side(tmp_path: Path) -> None:
    write_looks(tmp_path)
    opening, endgame = probe_pictures(tmp_path)
    assert (opening.kind, opening.num_legal, opening.fen) == ("opening", 20, FENS[0])
    assert (opening.before.step, opening.after.step) == (0, 5)
    assert opening.before.entropy == pytest.approx(np.log(20))
    first = opening.after.moves[0]
    assert (first.uci, first.start, first.end) == ("b1a3", 1, 16)
    assert first.probability == pytest.approx(0.9)
    assert len(opening.after.moves) == 4
    assert [m.probability for m in opening.before.moves] == pytest.approx([0.05] * 4)
    # Black's a2 stands on its own seventh rank: the squares must come back to White's view.
    moves = {m.uci: (m.start, m.end) for p in (endgame.before, endgame.after) for m in p.moves}
    assert moves["a2a1q"] == (8, 0)


def test_the_runs_of_a_comparison_have_the_claims_that_it_made(tmp_path: Path) -> None:
    for name in ("grpo", "rloo"):
        for seed in (1, 2):
            write_run(tmp_path / "runs" / f"{name}+none" / f"seed-{seed}", None, config(name, seed))
    family = {"seeds": [1, 2], "quantities": [], "left_out": ["grpo+none is left out: so"],
              "columns": [{"name": "grpo+none"}, {"name": "rloo+none"}]}  # fmt: skip
    values = {"families": {"none": family}, "broken": [], "mixed": [], "controls": [],
              "tuning_says": "not tuned"}  # fmt: skip
    (tmp_path / "comparison.json").write_text(json.dumps(values))
    for folder in (tmp_path, tmp_path / "runs"):
        assert chess_lab("report", folder).code == 0
        text = text_of((folder / "report.html").read_text())
        assert "Left out (2 seeds) grpo is left out: so Learning rates not tuned" in text
        assert "nothing: a comparison needs" not in text
    (tmp_path / "comparison.json").write_text("{")
    assert chess_lab("report", tmp_path).code == 0
    assert "No claims:" in text_of((tmp_path / "report.html").read_text())


def test_more_columns_than_can_be_corrected_for_are_named(tmp_path: Path) -> None:
    for at in range(13):
        write_run(tmp_path / f"{at}", None, config(ent_coef=float(at)))
    assert chess_lab("report", tmp_path).code == 0
    page = text_of((tmp_path / "report.html").read_text())
    assert "Nothing is claimed of the 13 columns of one task" in page
