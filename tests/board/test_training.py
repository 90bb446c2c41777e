"""Over training the page's answers are the library's for every policy of a run, and what is wrong is a sentence."""

from __future__ import annotations

import dataclasses
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from algorithms.evaluation.load_policy import load_policy
from algorithms.evaluation.snapshot_policies import (
    CHECKPOINTS,
    RecordTail,
    SnapshotPolicies,
    snapshots,
)
from algorithms.playing.animation import Panel, animation_svg
from algorithms.playing.over_training import most_changed, over_training, recorded_probes
from algorithms.playing.position import heldout_sets, one_position, probe_set, reached
from algorithms.playing.pull import NoOptimumError, Pull, load_pull
from algorithms.playing.view import view_of, view_of_recorded
from algorithms.regularization import RegularizerConfig
from algorithms.rloo import RLOO
from algorithms.training.trainer import train
from chess_env.evaluators import Evaluator
from chess_env.moves import action_to_move
from chess_env.rules.fen import to_fen
from tests.board.conftest import Slider
from tests.board.served import answer, serving
from tests.playing.test_view import random_positions
from tests.training.runs import Watcher, tiny


def pull_of(source: Path) -> Pull | None:
    try:
        return load_pull(str(source))
    except NoOptimumError:
        return None


def test_the_slider_has_every_policy_on_disk_in_order(over: Slider) -> None:
    told = answer(over.client, "/api/training/look", policy=over.run)
    every = snapshots(Path(over.run)).every
    assert [(stop["update"], stop["scored_moves"]) for stop in told["stops"]] == [
        (each.update, each.scored_moves) for each in every
    ]
    assert len(every) == 5 and told["notes"] == []
    assert told["row"] == told["stops"][-1]["row"]
    for row in RecordTail(Path(over.run)).read()[0]:
        if "eval/entropy" in row:
            said = told["stops"][int(row["step"] or 0)]["row"]
            assert (
                f"regret {row['eval/regret_cp']:.1f} cp, entropy {row['eval/entropy']:.2f} nats"
                in said
            )
    again = answer(over.client, "/api/training/look", policy=over.run, tag=told["tag"])
    assert again == {"tag": told["tag"]}
    other = answer(over.client, "/api/training/look", policy=over.run, tag="of another server")
    assert other == told


def test_every_number_under_every_policy_is_the_library_s(over: Slider, builtin: Evaluator) -> None:
    games = random_positions(3, seed=8)
    for name in (over.run, over.other):
        for each in snapshots(Path(name)).every:
            policy = load_policy(str(each.path))
            whole = Path(name, CHECKPOINTS, each.path.name)
            pull = pull_of(whole) if whole.exists() else None
            for number, moves in enumerate(games):
                temperature = (0.0, 0.4, 1.0)[number]
                found = answer(over.client, "/api/view", policy=name, moves=moves,
                               update=each.update, temperature=temperature)  # fmt: skip
                view = view_of(policy, reached(None, moves), temperature=temperature,
                               evaluator=builtin, pull=pull)  # fmt: skip
                wanted = dataclasses.asdict(view) | {
                    "moves": [*map(dataclasses.asdict, view.moves)]
                }
                assert found["view"] == wanted and found["problem"] == ""


def test_the_curve_is_that_of_the_library(over: Slider, builtin: Evaluator) -> None:
    every, policies = snapshots(Path(over.run)).every, SnapshotPolicies()
    for moves in random_positions(3, seed=9):
        position = reached(None, moves)
        points = answer(
            over.client, "/api/training/curve", policy=over.run, moves=moves, temperature=0.7
        )["points"]
        curves = over_training(every, policies, one_position(position), 0.7)
        assert [point["update"] for point in points] == curves.updates.tolist()
        assert [point["scored_moves"] for point in points] == curves.scored_moves.tolist()
        for i, (point, each) in enumerate(zip(points, every, strict=True)):
            view = view_of(policies(each), position, temperature=0.7, evaluator=builtin, pull=None)
            assert point["entropy"] == view.entropy and point["regret_cp"] == view.regret_cp
            assert (point["san"], point["uci"], point["probability"]) == (
                view.moves[0].san, view.moves[0].uci, view.moves[0].probability,
            )  # fmt: skip
            assert point["entropy"] == pytest.approx(curves.entropy[i, 0], abs=1e-5)
            assert point["probability"] == pytest.approx(curves.chosen_prob[i, 0], abs=1e-6)
            chosen = curves.at.legal_ids[0, curves.logprobs[i, 0].argmax()]
            assert point["uci"] == action_to_move(int(chosen), position.board).uci()


def test_a_run_without_snapshots_has_what_it_recorded_of_a_probe_position(
    over: Slider, builtin: Evaluator
) -> None:
    on_disk = {each.update for each in snapshots(Path(over.other)).every}
    row = 3
    fen = to_fen(probe_set().positions[row])
    question = {"policy": over.other, "fen": fen, "temperature": 0.5}
    points = answer(over.client, "/api/training/curve", **question)["points"]
    curves = recorded_probes(Path(over.other), 0.5).only(row)
    assert [point["update"] for point in points] == curves.updates.tolist() == [0, 1, 2, 3]
    assert {point["update"] for point in points if not point["recorded"]} == on_disk
    assert len(on_disk) < 4
    for i, point in enumerate(points):
        assert point["entropy"] == pytest.approx(curves.entropy[i, 0], abs=1e-4)
        assert point["probability"] == pytest.approx(curves.chosen_prob[i, 0], abs=1e-5)
        if not point["recorded"]:
            continue
        view = view_of_recorded(
            curves.logprobs[i, 0], reached(fen, ()), temperature=0.5, evaluator=builtin
        )
        found = answer(over.client, "/api/view", **question, update=point["update"])["view"]
        wanted = dataclasses.asdict(view) | {"moves": [*map(dataclasses.asdict, view.moves)]}
        assert found == wanted and found["regret_cp"] == point["regret_cp"]
        assert found["regret_cp"] is not None and found["entropy"] == point["entropy"]
    elsewhere = answer(over.client, "/api/training/curve", **question | {"fen": ""})["points"]
    assert {point["update"] for point in elsewhere} == on_disk


def listed(client: TestClient, **question: Any) -> dict[str, Any]:
    """The list when it is made."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found = answer(client, "/api/training/positions", **question)
        assert found["problem"] == "" and 0 <= found["progress"] <= 1
        if found["positions"] is not None:
            return found
        time.sleep(0.02)
    raise AssertionError(found)


def test_the_positions_are_sorted_by_what_changed_most(over: Slider) -> None:
    every, policies = snapshots(Path(over.run)).every, SnapshotPolicies()
    ends = [every[0], every[-1]]
    for name, sets in (("probe", [probe_set()]), ("heldout", [*heldout_sets().values()])):
        found = listed(over.client, policy=over.run, set=name)
        curves = [over_training(ends, policies, at, 1.0) for at in sets]
        wanted = [
            {"name": each.at.names[row], "fen": to_fen(each.at.positions[row]),
             "change": float(each.change[row])}
            for each, row in most_changed(curves)
        ]  # fmt: skip
        assert found["positions"] == wanted and len(wanted) == sum(map(len, sets))
        changes = [each["change"] for each in wanted]
        assert changes == sorted(changes, reverse=True) and changes[0] > 0


def test_the_animation_is_that_of_the_library(over: Slider) -> None:
    found = answer(over.client, "/api/training/animation", policy=over.run, beside=over.other,
                   moves=["e2e4"], temperature=0.7)  # fmt: skip
    at, policies = one_position(reached(None, ["e2e4"])), SnapshotPolicies()
    panels = [
        Panel(Path(name).name, over_training(snapshots(Path(name)).every, policies, at, 0.7))
        for name in (over.run, over.other)
    ]
    assert found["svg"] == str(animation_svg(panels))


def test_the_policy_at_the_slider_moves(over: Slider) -> None:
    found = answer(over.client, "/api/reply", policy=over.run, update=0, temperature=0)
    best = load_policy(str(snapshots(Path(over.run)).every[0].path))
    view = view_of(best, reached(None, ()), temperature=0.0, evaluator=None, pull=None)
    assert found["moves"] == [view.moves[0].uci] and found["at"] == 1


@pytest.mark.usefixtures("looks_at_once")
def test_a_run_that_is_trained_is_followed(
    trained: tuple[Path, Path], tmp_path: Path, builtin: Evaluator
) -> None:
    live = tmp_path / "live"
    with serving([str(live)], builtin) as (policies, client):
        assert policies.states()[0]["state"] == "failed"
        nothing = answer(client, "/api/training/look", policy=str(live))
        assert (nothing["stops"], nothing["row"], nothing["health"]) == ([], "", "")
        live.mkdir()
        for name in ("config.json", "environment.json"):
            shutil.copy(trained[0] / name, live / name)
        lines = (trained[0] / "metrics.jsonl").read_bytes().splitlines(keepends=True)
        (live / "metrics.jsonl").write_bytes(b"".join(lines[:2]))
        (live / "snapshots").mkdir()
        first = answer(client, "/api/training/look", policy=str(live), tag=nothing["tag"])
        assert first["row"].startswith("update 1 of 1, 64 scored moves") and first["stops"] == []
        shutil.copytree(
            trained[0] / "snapshots" / "update-00000000", live / "snapshots" / "update-00000000"
        )
        second = answer(client, "/api/training/look", policy=str(live), tag=first["tag"])
        assert [stop["update"] for stop in second["stops"]] == [0]
        found = answer(client, "/api/view", policy=str(live), update=0)
        assert found["view"]["moves"] and found["problem"] == ""
        (live / "metrics.jsonl").write_bytes(b"".join(lines))
        shutil.rmtree(live / "snapshots")
        shutil.copytree(trained[0] / "snapshots", live / "snapshots")
        third = answer(client, "/api/training/look", policy=str(live), tag=second["tag"])
        assert [stop["update"] for stop in third["stops"]] == [0, 1, 2, 3, 4]
        assert third["row"].startswith("update 4 of 4, 256 scored moves")


@pytest.mark.parametrize("path", ["view", "reply", "training/curve", "training/positions"])
def test_a_page_that_was_open_before_the_server_began_is_answered(
    trained: tuple[Path, Path], path: str
) -> None:
    run = str(trained[0])
    with serving([run], None) as (_, client):
        found = answer(client, f"/api/{path}", policy=run, update=1, set="probe")
        if path == "training/curve":
            assert [point["update"] for point in found["points"]] == [0, 1, 2, 3, 4]
        else:
            assert found["problem"] == ""


def test_the_coefficients_that_are_named_are_those_of_the_policy_that_is_shown(
    tmp_path: Path, builtin: Evaluator
) -> None:
    run = tmp_path / "pulled"
    bonus = RegularizerConfig(ent_coef=0.1, ent_coef_final=0.01)
    tiny_run = tiny(run, algorithm=RLOO(group_size=4), regularizer=bonus, checkpoint_keep="all")
    train(tiny_run, display=Watcher())
    coefs = []
    with serving([str(run)], builtin) as (_, client):
        for each in snapshots(run).every:
            whole = run / CHECKPOINTS / each.path.name
            pull = pull_of(whole) if whole.exists() else None
            found = answer(client, "/api/view", policy=str(run), update=each.update)
            assert (found["pull"] is None) == (pull is None)
            assert (found["view"]["optimum_entropy"] is None) == (pull is None)
            if pull is not None:
                assert found["pull"] == {"ent_coef": pull.ent_coef, "kl_ref_coef": pull.kl_ref_coef}
                coefs.append(pull.ent_coef)
    assert 2 <= len(coefs) < 5 and len(set(coefs)) == len(coefs)
