"""A diagnosis ends with the remedy that the matrix supports, and with none where it supports none."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from algorithms import PRESETS, cli
from algorithms.collapse.remedies import REMEDIES
from algorithms.commands.diagnose import written
from algorithms.config import files as config_file
from algorithms.config.run import TrainConfig
from algorithms.doctor import RULES, diagnose_run, tried
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
    """A function that takes the entry of fixed_positions."""

    def put(entry: Any) -> None:
        path = tmp_path / "tried.json"
        path.write_text(
            json.dumps({"remedies": 22, "seeds": 12, "causes": {"fixed_positions": entry}})
        )
        monkeypatch.setattr(tried, "TRIED", path)

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
    found = tried.tried_against("fixed_positions", config)
    assert found is not None and found.command.endswith("--optimizer.learning-rate 0.00075")
    assert tried.tried_against("fixed_positions", {}) is None  # the number is not on record


def test_another_algorithm_takes_over_what_the_trial_took_over(known: Any) -> None:
    entry = {
        "algorithm": "rloo",
        "keeps": ["group_size", "credit"],
        "settings": {"regularizer.ent_coef": 0.0},
    }
    known({**ENTRY, **entry, "times": {}})
    config = {"preset": "grpo", "algorithm": {"group_size": 4, "update_epochs": 2}}
    found = tried.tried_against("fixed_positions", config)
    assert found is not None
    assert found.command == (
        "chess-lab train rloo --like RUN --regularizer.ent-coef 0.0 --algorithm.group-size 4"
    )
    assert tried.tried_against("fixed_positions", {**config, "preset": "rloo"}) is None


def test_nothing_is_said_of_a_remedy_in_force_or_a_cause_without_one(
    tmp_path: Path, known: Any
) -> None:
    known({**ENTRY, "times": {}})
    assert tried.tried_against("fixed_positions", {"algorithm": {"live_groups": True}}) is None
    assert tried.tried_against("kl_trap", {}) is None
    assert diagnose_run(write(tmp_path / "sound", record())).tried is None


def test_train_accepts_the_commands_that_are_shipped(
    tmp_path: Path, asked: list[TrainConfig]
) -> None:
    algorithm, regularizer = PRESETS["grpo"]
    config = TrainConfig(algorithm, regularizer, preset="grpo")
    config_file.save(config, tmp_path / "config.json")
    settings = config_file.to_dict(config)
    settings["regularizer"]["ent_controller"] = "floor"  # so that no remedy is in force
    causes = json.loads(tried.TRIED.read_text())["causes"]
    for cause in causes:
        found = tried.tried_against(cause, settings)
        assert found is not None
        words = shlex.split(found.command.replace("RUN", shlex.quote(str(tmp_path))))
        assert cli.main(words[1:]) == 1
    assert len(asked) == len(causes)
    bonus = asked[list(causes).index("loss_budget")].regularizer
    assert regularizer.ent_coef_final is not None and bonus.ent_coef_final is None


def test_what_is_shipped_are_remedies_for_causes_of_the_doctor() -> None:
    shipped = json.loads(tried.TRIED.read_text())
    names = {rule.name for rule in RULES}
    for cause, entry in shipped["causes"].items():
        remedy = REMEDIES[entry["remedy"]]
        assert cause in names and entry["algorithm"] == remedy.algorithm
        assert (entry["settings"], entry["times"]) == (dict(remedy.settings), dict(remedy.times))
        for trial in entry["trials"]:
            assert trial["verdict"] in ("cures", "helps") and trial["high"] < 0 < trial["cost_cp"]
