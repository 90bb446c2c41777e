from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from algorithms.commands.report import make_page
from algorithms.commands.report import run as report
from algorithms.config.changes import changed
from algorithms.config.files import to_dict
from algorithms.config.names import named_run
from algorithms.reports.run_files import (
    RunFileError,
    find_run_folders,
    printable,
    read_metrics,
    read_run,
)
from tests.reports.run_folders import config, row, write_run


def test_a_series_has_the_rows_with_the_metric_and_nan_for_null(tmp_path: Path) -> None:
    rows = [row(0, eval__entropy=3.0), row(1, reg__kl_old=0.5), row(2, eval__entropy=None)]
    run = read_run(write_run(tmp_path / "a", rows, config(seed=7)))
    entropy = run.series("eval/entropy")
    assert entropy.step.tolist() == [0, 2]
    assert entropy.scored_moves.tolist() == [0.0, 200.0]
    assert np.array_equal(entropy.value, [3.0, np.nan], equal_nan=True)
    assert entropy.finite.tolist() == [3.0]
    assert len(run.series("no/such")) == 0
    assert (run.seed, run.label, run.name) == (7, "grpo", "a")
    assert run.metrics("reg/") == ["reg/kl_old"]
    assert any("1 values are null" in note for note in run.notes)
    assert read_metrics(tmp_path / "a") == rows


@pytest.mark.parametrize("torn", ['{"step": 2, "eval/ent', "\0\0\0", "{"])
def test_a_last_line_cut_by_a_kill_is_left_out_and_noted(tmp_path: Path, torn: str) -> None:
    folder = write_run(tmp_path / "a", [row(0), row(1)])
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(torn)
    run = read_run(folder)
    assert [r["step"] for r in run.rows] == [0, 1]
    assert any("cut off" in note for note in run.notes)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no complete row"),
        ('{"step": 0}\n{"step": 1, \n{"step": 2}\n', "line 2 is damaged"),
        ('{"step": 0}\n{"step": \n', "line 2 is damaged"),
        ("[1, 2]\n", "expected an object of metrics"),
        ('{"step": 0, "eval/entropy": "high"}\n', "'eval/entropy' is 'high', expected a number"),
        ('{"scored_moves": 0}\n', "step is None"),
        ('{"step": 1}\n{"step": 1}\n', "a whole number above 1"),
        ('{"step": 0.5}\n', "step is 0.5"),
        ('{"step": NaN}\n', "step is nan"),
        ('{"step": 1e300}\n', "step is 1e"),
    ],
)
def test_any_other_damage_is_an_error_with_file_and_reason(
    tmp_path: Path, text: str, what: str
) -> None:
    (tmp_path / "metrics.jsonl").write_text(text)
    with pytest.raises(RunFileError, match=r"metrics\.jsonl") as raised:
        read_run(tmp_path)
    assert what in str(raised.value)


def test_bytes_that_are_no_text_and_a_missing_record_are_named(tmp_path: Path) -> None:
    with pytest.raises(RunFileError, match="cannot be read"):
        read_run(tmp_path)
    (tmp_path / "metrics.jsonl").write_bytes(b'{"step": 0}\n\xff\n')
    with pytest.raises(RunFileError, match="no UTF-8 text"):
        read_run(tmp_path)


def test_infinities_and_numbers_too_long_for_a_float_count_as_null(tmp_path: Path) -> None:
    long = "1" + "0" * 400
    text = f'{{"step": 0, "a": Infinity, "b": {long}, "c": 1e999, "d": 2}}\n'
    (tmp_path / "metrics.jsonl").write_text(text)
    values = read_metrics(tmp_path)[0]
    assert values == {"step": 0.0, "a": None, "b": None, "c": None, "d": 2.0}


def test_a_page_is_made_of_values_near_the_largest_float_and_says_that_they_were_left_out(
    tmp_path: Path,
) -> None:
    values = [1e308, -1e308, 1.7e308, 1e-300]
    rows = [row(step, eval__regret_cp=value) for step, value in enumerate(values)]
    folder = write_run(tmp_path / "a", rows, config())
    _, page = make_page(folder, [folder])
    assert "3 values lie beyond 1e+100, as no measurement does." in page
    read = read_run(folder).series("eval/regret_cp").value
    assert np.array_equal(read, [np.nan, np.nan, np.nan, 1e-300], equal_nan=True)


def test_several_folders_make_one_page_in_the_folder_that_holds_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a/one", "a/two", "b", "c"):
        write_run(tmp_path / name, [row(step) for step in range(3)], config(seed=ord(name[-1])))
    monkeypatch.chdir(tmp_path)
    assert report(["a", "b", "a/one"]) == 0
    assert "3 runs" in capsys.readouterr().out
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"<h1>{tmp_path.name}</h1>" in page and "a/two" in page
    assert report(["a", "nothing"]) == 1 and "'nothing' does not exist" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["grpo", "gspo"])
def test_a_run_of_a_name_differs_from_it_in_nothing_but_what_was_changed(
    tmp_path: Path, name: str
) -> None:
    # The network decides the step size, and gspo plays whole games: both are the name's own.
    asked = changed(named_run(name), {"regularizer.ent_coef": 0.125}).settled()
    folder = write_run(tmp_path / "a", [row(0), row(1)], to_dict(asked))
    _, page = make_page(folder, [folder])
    differ = page.partition("Settings that differ")[2].partition("<details")[0]
    assert re.findall(r'<th scope="row">(.*?)</th>', differ) == ["regularizer.ent_coef"]


def test_missing_settings_are_a_note_and_damaged_ones_an_error(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "a"))
    assert run.config == {}
    assert run.notes == ("config.json is missing.",)
    assert (run.label, run.seed) == ("a", None)
    for text, what in (("{", "damaged"), ("[]", "expected an object")):
        (tmp_path / "a" / "config.json").write_text(text)
        with pytest.raises(RunFileError, match=what):
            read_run(tmp_path / "a")


def test_runs_are_found_at_any_depth_and_links_are_not_followed(tmp_path: Path) -> None:
    outside = write_run(tmp_path / "outside" / "secret")
    root = tmp_path / "root"
    first = write_run(root / "b" / "seed-1")
    write_run(first / "inner")
    second = write_run(root / "a")
    write_run(root / "tuning" / "x")
    (root / "link").symlink_to(outside.parent)
    (root / "half").mkdir()
    (root / "half" / "metrics.jsonl").symlink_to(outside / "metrics.jsonl")
    folders, notes = find_run_folders(root)
    assert folders == [second, first]
    assert [note.partition(" ")[0] for note in notes] == ["half/metrics.jsonl", "link", "tuning"]
    assert find_run_folders(root / "tuning")[0] == [root / "tuning" / "x"]
    (second / "config.json").symlink_to(outside / "environment.json")
    with pytest.raises(RunFileError, match="symbolic link"):
        read_run(second)


def test_a_place_that_is_no_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunFileError, match="does not exist"):
        find_run_folders(tmp_path / "none")
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFileError, match="is a file"):
        find_run_folders(tmp_path / "file")


def test_control_and_direction_characters_become_a_mark() -> None:
    assert printable("a\x00b\u202ec\udcffd é") == "a\ufffdb\ufffdc\ufffdd é"
    assert json.dumps(printable("plain")) == '"plain"'
