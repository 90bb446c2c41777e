"""A run that cannot be read whole, questions that make no sense, and bounds: a sentence, and the rest works."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from algorithms.board.training import FollowedRun, row_text
from algorithms.evaluation.snapshot_policies import thinned
from chess_env.evaluators import Evaluator
from tests.board.conftest import Slider
from tests.board.served import answer, refusal, serving


@pytest.mark.usefixtures("looks_at_once")
def test_what_is_damaged_is_named_and_the_rest_works(
    trained: tuple[Path, Path], tmp_path: Path, builtin: Evaluator
) -> None:
    run = Path(shutil.copytree(trained[0], tmp_path / "run", symlinks=True))
    folder = run / "snapshots"
    shutil.rmtree(run / "checkpoints")
    (folder / "update-00000001" / "model.safetensors").write_bytes(b"short")
    manifest = folder / "update-00000002" / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"format": 99}))
    (folder / "partial-00000009-1").mkdir()
    with serving([str(run)], None) as (_, client):
        told = answer(client, "/api/training/look", policy=str(run))
        assert [stop["update"] for stop in told["stops"]] == [0, 1, 3, 4]
        said = "\n".join(told["notes"])
        assert "update-00000002" in said and "1 being written or removed" in said
        curve = answer(client, "/api/training/curve", policy=str(run))
        assert [point["update"] for point in curve["points"]] == [0, 3, 4]
        assert "update-00000001/model.safetensors is damaged" in curve["notes"][0]
        assert curve["points"][0]["regret_cp"] is None
        found = answer(client, "/api/view", policy=str(run), update=1)
        assert found["view"] is None and "is damaged" in found["problem"]
        gone = answer(client, "/api/view", policy=str(run), update=2)
        assert gone["problem"] == "The run has no policy of update 2 on disk."
        assert answer(client, "/api/view", policy=str(run), update=4)["view"]["moves"]
        animated = answer(client, "/api/training/animation", policy=str(run))
        assert animated["svg"].startswith("<svg")


@pytest.mark.parametrize(
    ("path", "code", "question", "said"),
    [
        ("/api/view", 400, {"update": -1}, "update is -1: expected a number of updates."),
        ("/api/view", 400, {"update": True}, "update is True"),
        ("/api/view", 400, {"update": "1"}, "update is '1'"),
        ("/api/reply", 409, {"update": 77}, "The run has no policy of update 77 on disk."),
        ("/api/training/positions", 400, {"set": "all"}, "set is 'all': expected probe or heldout."),
        ("/api/training/animation", 400, {"temperature": 0}, "At temperature 0 nothing moves"),
        ("/api/training/animation", 400, {"fen": "7k/5Q2/6K1/8/8/8/8/8 b - - 0 1"}, "no legal move"),
        ("/api/training/animation", 409, {"beside": "none"}, "There is no policy 'none' here"),
        ("/api/training/curve", 400, {"moves": ["e2e5"]}, "move 1, 'e2e5', is not legal"),
        *((f"/api/training/{name}", 409, {"policy": "none", "set": "probe"}, "There is no policy")
          for name in ("look", "curve", "positions", "animation")),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(
    over: Slider, path: str, code: int, question: dict[str, Any], said: str
) -> None:
    assert said in refusal(over.client, path, code, **({"policy": over.run} | question))


def test_a_policy_that_is_no_run_has_nothing_to_slide_over(builtin: Evaluator) -> None:
    with serving(["example"], builtin) as (_, client):
        told = answer(client, "/api/training/look", policy="example")
        assert told["stops"] == [] and told["row"] == ""
        assert answer(client, "/api/training/curve", policy="example") == {
            "points": [],
            "notes": [],
        }
        said = refusal(client, "/api/training/positions", 409, policy="example", set="probe")
        assert said == "example has no policies of its training."
        said = refusal(client, "/api/training/animation", 409, policy="example")
        assert said == "example has no policies of its training."


def test_of_many_policies_as_many_as_fit_are_taken_evenly() -> None:
    assert thinned(range(3), 5) == (0, 1, 2) and thinned(range(5), 5) == (0, 1, 2, 3, 4)
    taken = thinned(range(1001), 101)
    assert taken == tuple(range(0, 1001, 10))
    steps = np.diff(thinned(range(777), 200))
    assert len(steps) == 199 and set(steps.tolist()) == {3, 4}


def test_a_folder_is_not_looked_at_more_often_than_once_in_a_second(
    trained: tuple[Path, Path],
) -> None:
    run = FollowedRun(str(trained[0]))
    begun = time.monotonic()
    found = [run.look() for _ in range(50)]
    assert found[0] and not any(found[1:]) and time.monotonic() - begun < 1.0


def test_the_line_of_a_row_says_what_is_in_it() -> None:
    assert row_text(3, -1, None, {}) == ""
    assert row_text(3, 24, 3840, {4: (1.0, 1.0)}) == "update 3 of 24, 3,840 scored moves"
    assert row_text(12, 24, None, {4: (1.0, 1.0), 10: (None, 1.234)}) == (
        "update 12 of 24, - scored moves · mean over the held-out positions after update 10: "
        "regret - cp, entropy 1.23 nats"
    )


def test_a_name_that_no_folder_can_have_is_no_run(tmp_path: Path) -> None:
    for name in ("a" * 5000, str(tmp_path / "none"), str(tmp_path)):
        run = FollowedRun(name)
        run.look()
        assert run.stops == () and run.told()["row"] == ""


def test_a_name_that_is_no_utf_8_is_offered_like_every_other(trained: tuple[Path, Path]) -> None:
    odd = "caf\udce9"  # as Python reads the byte E9 in the name of a folder
    with serving([odd, str(trained[0])], None) as (_, client):
        states = client.get("/api/policies").json()["policies"]
        assert [state["name"] for state in states] == [odd, str(trained[0])]
        # A browser sends the lone surrogate as it came: escaped.
        found = client.post(
            "/api/view",
            content=json.dumps({"policy": odd}),
            headers={"content-type": "application/json"},
        ).json()
        assert found["view"] is None and "cannot be opened" in found["problem"]
        assert answer(client, "/api/view", policy=str(trained[0]))["view"]["moves"]
