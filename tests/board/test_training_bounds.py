"""Long runs and long use: what is shown, read at once and kept has bounds, and the page is answered meanwhile."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from algorithms.board import training as training_module
from algorithms.board.policies import BoardPolicies
from algorithms.board.training import FollowedRun
from algorithms.evaluation.snapshot_policies import RecordTail
from algorithms.playing.position import probe_set
from algorithms.reports.probe_files import probe_path, read_probe, write_probe
from chess_env.evaluators import Evaluator
from chess_env.rules.fen import to_fen
from tests.board.served import answer, serving, wait_until_loaded

RECORDED, SHOWN = 60, 40


@pytest.fixture(scope="module")
def long_run(trained: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose record and probes go on after its last checkpoint, up to update 60."""
    run = Path(shutil.copytree(trained[1], tmp_path_factory.mktemp("long") / "run", symlinks=True))
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    probe = read_probe(probe_path(run, 3))
    with (run / "metrics.jsonl").open("a") as record:
        for update in range(4, RECORDED):
            row = last | {"step": update, "scored_moves": 64 * update}
            record.write(json.dumps(row) + "\n")
            write_probe(run, update, probe.logprobs[0], probe.temperature, probe.sheet)
    return run


def test_of_many_recorded_policies_as_many_as_fit_are_shown_and_others_ask_between(
    long_run: Path, builtin: Evaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_module, "MOST_STOPS", SHOWN)
    asked = []
    ask: Callable[..., Any] = BoardPolicies.ask
    monkeypatch.setattr(
        BoardPolicies, "ask", lambda self, question: asked.append(question) or ask(self, question)
    )
    with serving([str(long_run)], builtin) as (_, client):
        answer(client, "/api/training/look", policy=str(long_run))
        fen = to_fen(probe_set().positions[3])
        points = answer(client, "/api/training/curve", policy=str(long_run), fen=fen)["points"]
        assert len(asked) >= len(points)  # a question each: no other one waits for all of them
        recorded = [point["update"] for point in points if point["recorded"]]
        assert SHOWN - 5 < len(recorded) <= SHOWN and recorded[-1] == RECORDED - 1
        assert np.diff([point["update"] for point in points]).max() <= 3  # evenly
        view = answer(client, "/api/view", policy=str(long_run), fen=fen, update=recorded[19])
        assert (
            view["view"]["entropy"]
            == points[[p["update"] for p in points].index(recorded[19])]["entropy"]
        )


def test_a_long_record_is_read_piece_by_piece_and_says_the_same(
    long_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = FollowedRun(str(long_run))
    most: list[int] = []
    read = RecordTail.read

    def watched(self: RecordTail, most_bytes: int = -1) -> Any:
        found = read(self, most_bytes)
        most.append(len(found[0]))
        return found

    assert whole.look()
    monkeypatch.setattr(training_module, "_MOST_BYTES", 2**14)
    monkeypatch.setattr(RecordTail, "read", watched)
    pieces = FollowedRun(str(long_run))
    assert pieces.look() and len(most) > 5 and max(most) < RECORDED / 4 and sum(most) == RECORDED
    ours, theirs = pieces.told(), whole.told()
    assert {**ours, "tag": ""} == {**theirs, "tag": ""} and ours["health"] and ours["row"]
    assert pieces.scored_moves == whole.scored_moves and len(pieces.scored_moves) == RECORDED


@pytest.mark.usefixtures("looks_at_once")
def test_a_run_whose_first_snapshot_comes_before_its_first_checkpoint_is_loaded_later(
    trained: tuple[Path, Path], tmp_path: Path
) -> None:
    run = Path(shutil.copytree(trained[0], tmp_path / "early", symlinks=True))
    shutil.move(run / "checkpoints", tmp_path / "later")
    shutil.move(run / "snapshots" / "update-00000004", tmp_path / "newest")
    with serving([str(run)], None) as (policies, client):
        told = answer(client, "/api/training/look", policy=str(run))
        wait_until_loaded(policies)
        assert told["stops"] and policies.states()[0]["state"] == "failed"
        shutil.move(tmp_path / "later", run / "checkpoints")
        shutil.move(tmp_path / "newest", run / "snapshots" / "update-00000004")
        answer(client, "/api/training/look", policy=str(run), tag=told["tag"])
        wait_until_loaded(policies)
        assert policies.states()[0]["state"] == "ready"
