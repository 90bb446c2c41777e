"""A diagnosis ends with the remedy that the matrix supports, and with none where it supports none."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from algorithms import PRESETS, cli
from algorithms.collapse.remedies import REMEDIES
from algorithms.collapse.trial import STARTS
from algorithms.commands.diagnose import written
from algorithms.config import files as config_file
from algorithms.config.run import TrainConfig
from algorithms.doctor import RULES, diagnose_run, matrices
from tests.doctor.rows import record, write
from tests.doctor.signatures import SIGNATURES

ENTRY = {
    "remedy": "fresh",
    "title": "fresh starts",
    "algorithm": "",
    "keeps": [],
    "settings": {"algorithm.live_groups": True},
    "times": {"optimizer.learning_rate": 0.25},
    "trials": [
        {"fault": "fixed_positions", "start": "warm", "cost_cp": 64.4, "change_cp": -31.2, "low": -40.0,
         "high": -20.6, "verdict": "helps"},
    ],
}  # fmt: skip


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that takes the entries of fixed_positions: from the warm start, and by start."""

    def put(warm: Any, **other: Any) -> None:
        path = tmp_path / "tried.json"
        causes = {"fixed_positions": {"warm": warm, **other}}
        path.write_text(json.dumps({"remedies": 22, "seeds": 12, "causes": causes}))
        monkeypatch.setattr(matrices, "TRIED", path)

    return put


def test_the_end_of_a_diagnosis_says_what_was_tried_and_gives_the_command(
    tmp_path: Path, known: Any
) -> None:
    known({**ENTRY, "times": {}})
    folder = write(tmp_path / "run", SIGNATURES["the same starts"].rows)
    found = diagnose_run(folder)
    assert found.causes[0].is_harmful and found.tried is not None
    lines = written(found, "runs/mine")
    assert lines[-1] == "   to try      chess-lab train --like runs/mine --algorithm.live-groups"
    said = " ".join(" ".join(lines).split())
    assert (
        "of 22 remedies tried on runs that kept the fault, on 12 seeds, fresh (fresh starts) is among the best"
        in said
    )
    assert "fixed_positions, warm start: -31 cp (-40 to -21) of the 64 that it cost" in said
    assert max(len(line) for line in lines if "chess-lab" not in line) <= 80
    assert found.to_dict()["tried"]["remedy"] == "fresh"


def test_a_factor_is_applied_to_what_the_run_has(known: Any) -> None:
    known(ENTRY)
    config = {"algorithm": {"live_groups": False}, "optimizer": {"learning_rate": 0.003}}
    found = matrices.tried_against("fixed_positions", config)
    assert found is not None and found.command.endswith("--optimizer.learning-rate 0.00075")
    assert matrices.tried_against("fixed_positions", {}) is None  # the number is not on record


def test_another_algorithm_takes_over_what_the_trial_took_over(known: Any) -> None:
    entry = {
        "algorithm": "rloo",
        "keeps": ["group_size", "credit"],
        "settings": {"regularizer.ent_coef": 0.0},
    }
    known({**ENTRY, **entry, "times": {}})
    config = {"preset": "grpo", "algorithm": {"group_size": 4, "update_epochs": 2}}
    found = matrices.tried_against("fixed_positions", config)
    assert found is not None
    assert found.command == (
        "chess-lab train rloo --like RUN --regularizer.ent-coef 0.0 --algorithm.group-size 4"
    )
    assert matrices.tried_against("fixed_positions", {**config, "preset": "rloo"}) is None


def test_a_run_is_told_what_was_tried_from_its_own_start(known: Any) -> None:
    cold = {**ENTRY, "remedy": "other", "settings": {"algorithm.group_size": 16}, "times": {}}

    def named(init_from: str | None) -> str | None:
        found = matrices.tried_against("fixed_positions", {"init_from": init_from})
        return None if found is None else found.remedy

    known({**ENTRY, "times": {}}, cold=cold)
    assert (named("warm_move_net"), named(None)) == ("fresh", "other")
    known({**ENTRY, "times": {}}, cold=None)  # does harm from there, and nothing helps
    assert (named("warm_move_net"), named(None)) == ("fresh", None)
    known({**ENTRY, "times": {}})  # does no harm from there
    assert (named("warm_move_net"), named(None)) == ("fresh", "fresh")


def test_nothing_is_said_of_a_remedy_in_force_or_a_cause_without_one(
    tmp_path: Path, known: Any
) -> None:
    known({**ENTRY, "times": {}})
    assert matrices.tried_against("fixed_positions", {"algorithm": {"live_groups": True}}) is None
    assert matrices.tried_against("kl_trap", {}) is None
    assert diagnose_run(write(tmp_path / "sound", record())).tried is None


def test_train_accepts_the_commands_that_are_shipped(
    tmp_path: Path, asked: list[TrainConfig]
) -> None:
    algorithm, regularizer = PRESETS["grpo"]
    config = TrainConfig(algorithm, regularizer, preset="grpo")
    config_file.save(config, tmp_path / "config.json")
    settings = config_file.to_dict(config)
    settings["regularizer"]["ent_controller"] = "floor"  # so that no remedy is in force
    commands, bonuses = {}, {}
    for cause, entries in json.loads(matrices.TRIED.read_text())["causes"].items():
        for start in entries:
            settings["init_from"] = None if start == "cold" else "warm_move_net"
            found = matrices.tried_against(cause, settings)
            assert (found is None) == (entries[start] is None)
            if found is not None:
                commands[cause, start] = found.command
    for command in set(commands.values()):
        words = shlex.split(command.replace("RUN", shlex.quote(str(tmp_path))))
        assert cli.main(words[1:]) == 1
        bonuses[command] = asked[-1].regularizer
    assert len(asked) == len(bonuses)
    assert regularizer.ent_coef_final is not None
    assert bonuses[commands["loss_budget", "warm"]].ent_coef_final is None


def test_what_is_shipped_are_remedies_for_causes_of_the_doctor() -> None:
    shipped = json.loads(matrices.TRIED.read_text())
    names = {rule.name for rule in RULES}
    entries = [
        (cause, start, entry)
        for cause, tried_from in shipped["causes"].items()
        for start, entry in tried_from.items()
        if entry is not None
    ]
    assert {start for _, start, _ in entries} == set(STARTS)
    for cause, start, entry in entries:
        remedy = REMEDIES[entry["remedy"]]
        assert cause in names and entry["algorithm"] == remedy.algorithm
        assert (entry["settings"], entry["times"]) == (dict(remedy.settings), dict(remedy.times))
        for trial in entry["trials"]:
            assert (
                trial["start"] == start
                and trial["verdict"] in ("cures", "helps")
                and trial["high"] < 0 < trial["cost_cp"]
            )


def test_what_was_tried_against_a_bonus_is_not_said_of_a_kl(tmp_path: Path) -> None:
    bonus = record(**{"signal/objective": [0.2, 0.3] * 8, "grad_share/entropy": 0.5})
    found = diagnose_run(write(tmp_path / "bonus", bonus))
    assert found.causes[0].name == "loss_budget" and found.tried is not None
    anchored = {"reg/kl_old_weighted": 0.9, "reg/kl_old_coef": 30.0, "grad_share/entropy": 0.05}
    kl = record(**{"signal/objective": [0.2, 0.3] * 8} | anchored)
    found = diagnose_run(write(tmp_path / "kl", kl))
    assert found.causes[0].name == "loss_budget" and found.tried is None
