"""`chess-lab remedies`: a matrix that runs, goes on where it was stopped, and takes an algorithm from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from algorithms.collapse.remedies import REMEDIES
from algorithms.collapse.trial import TWIN, UNTREATED
from algorithms.commands.remedies import _say
from tests.commands.lab import ENV, chess_lab
from tests.comparison.test_remedy_verdicts import fault
from tests.test_extending_page import FILE, PAGE


def started(folder: Path, *more: str) -> subprocess.Popen[str]:
    words = ("remedies", "run", "--faults", "stale_behaviour", "--smoke", "--out", "m", *more)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "algorithms.cli", *words], cwd=folder, text=True,
        env={**os.environ, **ENV}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def test_the_list_names_every_remedy_within_80_columns() -> None:
    code, out, _ = chess_lab("remedies", "list")
    assert code == 0 and [line.split()[0] for line in out.splitlines()[1:]] == list(REMEDIES)
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--faults", "staleness"], "--faults is 'staleness'"),
        (["--remedies", "tiss"], "remedy is 'tiss'"),
        (["--remedies", "tis", "tis"], "--remedies gives a name twice"),
        (["--first-seed", "1899"], "never reported"),
        (["--seeds", "1"], "--seeds is 1"),
        (["--network", "transformer"], "--network is 'transformer'"),
        (["--remedies", "nowhere:Mine"], "nowhere"),
        (["--repeat", "nowhere"], "nowhere does not exist"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(
    words: list[str], message: str, tmp_path: Path
) -> None:
    code, _, err = chess_lab("remedies", "run", "--out", str(tmp_path / "m"), *words)
    assert code in (1, 2) and message in err
    assert not (tmp_path / "m").exists()


def test_what_is_no_matrix_is_said(tmp_path: Path) -> None:
    code, _, err = chess_lab("remedies", "show", str(tmp_path))
    assert code == 2 and "give the folder of a finished" in err


@pytest.mark.slow
def test_a_matrix_that_was_stopped_goes_on_and_takes_an_algorithm_from_outside(
    tmp_path: Path,
) -> None:
    (tmp_path / "my_algorithm.py").write_text(dict(FILE.findall(PAGE))["my_algorithm.py"])
    remedies = ("--remedies", "tis", "my_algorithm:SignPG", "one_pass")
    first = started(tmp_path, *remedies)
    cells = tmp_path / "m" / "harm" / "cells.json"
    while not cells.exists() or '"finished"' not in cells.read_text():
        assert first.poll() is None
        time.sleep(0.2)
    first.send_signal(signal.SIGTERM)
    said = first.communicate(timeout=60)[0]
    assert first.returncode == 143 and "the same command continues" in said
    again = started(tmp_path, *remedies, "--json", "out.json")
    said = again.communicate(timeout=300)[0]
    assert again.returncode == 0, said
    assert "2 cells, 1 finished before, 1 to run" in said
    assert "2 seeds are too few for a cure among 2 remedies, which takes 7" in said
    found = json.loads((tmp_path / "out.json").read_text())
    trials = found["trials"]["stale_behaviour"]
    assert set(trials) == {UNTREATED, TWIN, "tis", "my_algorithm:SignPG"}
    assert all([row["seed"] for row in rows] == [3001, 3002] for rows in trials.values())
    assert "the run is like that already" in found["skipped"]["stale_behaviour"]["one_pass"]
    assert {each["remedy"] for each in found["verdicts"]["stale_behaviour"]} == set(trials) - {
        UNTREATED,
        TWIN,
    }
    shown = chess_lab("remedies", "show", str(tmp_path / "m"))
    assert shown.code == 0 and "my_algorithm:SignPG" in shown.out


def matrix(folder: Path, **trials: object) -> str:
    """The file of a finished matrix."""
    path = folder / "earlier.json"
    path.write_text(json.dumps({"trials": trials}))
    return str(path)


def test_a_repeat_of_nothing_or_of_named_remedies_is_refused(tmp_path: Path) -> None:
    cures = matrix(tmp_path, stale_behaviour=fault(tis=80.0))
    for words, message in (
        (["--repeat", cures, "--faults", "kl_trap"], "nothing cures kl_trap"),
        (["--repeat", cures, "--remedies", "tis"], "--repeat takes them from its matrix"),
    ):
        code, _, err = chess_lab("remedies", "run", "--out", str(tmp_path / "m"), *words)
        assert code == 2 and message in " ".join(err.split())
        assert not (tmp_path / "m").exists()


@pytest.mark.slow
def test_what_cured_in_one_matrix_is_repeated_on_another_network_and_nothing_else(
    tmp_path: Path,
) -> None:
    earlier = matrix(
        tmp_path,
        stale_behaviour=fault(tis=80.0, exact_bonus=0.0),
        loss_budget=fault(exact_bonus=80.0, tis=0.0),
    )
    words = ("--repeat", earlier, "--network", "resnet", "--smoke", "--out", str(tmp_path / "m"))
    code, _, err = chess_lab("remedies", "run", *words, "--json", str(tmp_path / "out.json"))
    assert code == 0, err
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["plan"]["network"] == "resnet"
    assert {name: set(rows) for name, rows in found["trials"].items()} == {
        "stale_behaviour": {UNTREATED, TWIN, "tis"},
        "loss_budget": {UNTREATED, TWIN, "exact_bonus"},
    }


def test_a_matrix_is_shown_within_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    found = {
        "plan": {"network": "move_net", "start": "warm"}, "seeds": [1] * 12, "broken": [],
        "trials": {"stale_behaviour": fault(truncated_ratio=80.0)},
        "skipped": {"stale_behaviour": {"off_policy": "x: " + "a reason that is long " * 8}},
    }  # fmt: skip
    _say(found, None)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("  cures       truncated_ratio") for line in lines)
    assert " ".join("\n".join(lines).split()).count("a reason that is long") == 8
