"""`chess-lab eval --positions`: what it prints and writes, and what it refuses."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import numpy as np
import pytest

from algorithms.evaluation.load_policy import run_temperature
from algorithms.reports.noise import load_noise, noise_line
from chess_env.positions.heldout import SLICE_NAMES, Heldout, load_heldout
from tests.commands.lab import evaluate


@pytest.fixture
def few_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two slices of six positions of the table: intervals of all four take seconds."""
    whole = load_heldout()
    names = SLICE_NAMES[1:3]
    rows = np.concatenate([whole.indices(name)[:6] for name in names])
    scores = [whole.scores_cp(row) for row in rows]
    few = Heldout(
        positions=whole.positions[rows],
        slice_of=np.repeat(np.arange(2, dtype=np.int8), 6),
        slice_names=names,
        offsets=np.cumsum([0, *map(len, scores)]).astype(np.int32),
        child_score_cp=np.concatenate(scores),
        evaluator_id=whole.evaluator_id,
    )
    monkeypatch.setattr("chess_env.positions.heldout.load_heldout", lambda: few)


measure = functools.partial(evaluate, "--positions")


@pytest.mark.usefixtures("few_positions")
def test_positions_are_measured_without_games_and_written(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chess_env.evaluators.find_stockfish", lambda: pytest.fail("no engine"))
    file = tmp_path / "found.json"
    answer = measure(run_dir, "--temperature", 0.5, "--json", file, "--seed", 4)
    said = answer.out.splitlines()
    assert answer.code == 0 and said[0] == f"{run_dir}, held-out positions, seed 4"
    assert said[1] == "judged by Stockfish 15.1, depth 8"
    assert said[2] == f"scored by {load_heldout().evaluator_id}"
    for name in ("middlegame", "endgame"):
        assert noise_line(load_heldout().evaluator_id, name) in said
    assert max(map(len, said[1:])) <= 79
    found = json.loads(file.read_text())
    assert (found["error"], found["seed"]) == ("", 4)
    assert found["evaluator_id"] == load_heldout().evaluator_id
    assert found["noise"] == load_noise()
    entries = found["positions"]
    asked = [(entry["slice"], entry["chooser"], entry["temperature"]) for entry in entries]
    choosers = [("greedy", 0.0), ("T=0.5", 0.5), ("uniform", None)]
    assert asked == [(name, *chooser) for name in ("middlegame", "endgame") for chooser in choosers]
    for entry in entries:
        assert entry["num_positions"] == 6
        assert entry["regret_cp_low"] <= entry["regret_cp"] <= entry["regret_cp_high"]
    low, high = entries[0]["regret_cp_low"], entries[0]["regret_cp_high"]
    figures = f"regret cp  {entries[0]['regret_cp']:.1f} ({low:.1f}-{high:.1f}) "
    assert next(line for line in said if line.startswith("regret cp")).startswith(figures)


def test_the_temperature_is_that_of_the_run_where_there_is_one(
    run_dir: Path, tmp_path: Path
) -> None:
    assert run_temperature("warm") is None
    config = json.loads((run_dir / "config.json").read_text())
    config["rollout"]["temperature"] = 1.3
    del config["sha256"]  # it is edited
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert run_temperature(str(tmp_path)) == 1.3
    assert run_temperature(str(run_dir)) == 1.0
    checkpoint = next((run_dir / "checkpoints").glob("update-*"))
    assert run_temperature(str(checkpoint)) == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--opponents", "random"], "--opponents is of games"),
        (["--temperature", "-1"], "--temperature is -1"),
        (["--temperature", "nan"], "--temperature is nan"),
        (["--temperature", "0.5", "--temperature", "0.5"], "names 0.5 twice"),
    ],
)
def test_a_request_that_makes_no_sense_is_an_error(
    run_dir: Path, arguments: list[str], message: str
) -> None:
    said = measure(run_dir, *arguments)
    assert said.code == 1
    assert message in said.err
    assert said.out == ""
