"""A run beside its twin, and beside runs of the same settings."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from algorithms import PRESETS
from algorithms.commands.diagnose import written
from algorithms.config import files as config_file
from algorithms.config.run import EnvConfig, TrainConfig
from algorithms.doctor import diagnose, diagnose_run, pace
from algorithms.doctor.diagnosis import AS_USUAL, CANNOT_TELL, LEARNS, SLOW
from tests.doctor.rows import record, without_chain, write
from tests.doctor.signatures import SIGNATURES

DEFAULT = TrainConfig(*PRESETS["grpo"], env=EnvConfig(evaluator="builtin")).settled()


def recorded(config: TrainConfig) -> Any:
    """As config.json has it."""
    return json.loads(json.dumps(config_file.to_dict(config)))


TWIN = [pace.curve_of(record(regret_cp=(300.0, 120.0)))]


@pytest.mark.parametrize(
    ("end", "share", "verdict"),
    [
        (120.0, 1.0, AS_USUAL),
        (134.0, 166 / 180, AS_USUAL),
        (136.0, 164 / 180, SLOW),
        (210.0, 0.5, SLOW),
    ],
)
def test_a_run_that_ends_a_twentieth_of_its_start_above_its_twin_is_slower(
    end: float, share: float, verdict: str
) -> None:
    found = diagnose(record(regret_cp=(300.0, end)), TWIN)
    assert found.verdict == verdict and found.pace is not None
    assert found.pace.share == pytest.approx(share)
    assert found.exit_code == (1 if verdict == SLOW else 0)
    assert f"it learned {share:.0%} of what its twin did" in found.line()


def test_a_run_without_a_twin_is_not_said_to_learn_as_such_runs_do() -> None:
    assert diagnose(record()).verdict == LEARNS
    blind = without_chain(record(regret_cp=(300.0, 120.0)))
    assert diagnose(blind, TWIN).verdict not in (AS_USUAL, LEARNS)


def test_a_run_that_keeps_up_has_not_lost_by_spending_its_entropy_fast() -> None:
    large: dict[str, Any] = {
        "policy/approx_kl": 0.105,
        "grad_share/entropy": 0.01,
        "reg/ent_coef": 0.01,
    }
    rows = record(12, regret_cp=(300.0, 170.0), entropy=(2.8, 0.7), **large)
    cause = "weak_entropy_high_lr"

    def told(end: float | None) -> tuple[str, bool]:
        others = [] if end is None else [pace.curve_of(record(12, regret_cp=(300.0, end)))]
        found = diagnose(rows, others)
        return found.verdict, cause in [each.name for each in found.untold]

    assert told(None) == (CANNOT_TELL, True)
    assert told(120.0) == (CANNOT_TELL, True)
    assert told(160.0) == (AS_USUAL, False)


def test_others_that_scatter_allow_as_much() -> None:
    ends = (90.0, 120.0, 150.0)  # a standard deviation of 30
    others = [pace.curve_of(record(regret_cp=(300.0, end))) for end in ends]
    assert diagnose(record(regret_cp=(300.0, 200.0)), others).verdict == AS_USUAL
    assert diagnose(record(regret_cp=(300.0, 215.0)), others).verdict == SLOW


def test_a_run_is_compared_at_as_many_moves_and_not_with_others_that_ended_long_before() -> None:
    half = record(8, regret_cp=(300.0, 210.0))
    found = diagnose(half, [pace.curve_of(record(16, regret_cp=(300.0, 120.0)))]).pace
    assert found is not None and found.share == pytest.approx(1.0)
    assert (
        diagnose(record(32 // 2, regret_cp=(300.0, 120.0)), [pace.curve_of(record(4))]).pace is None
    )


def test_such_runs_have_the_same_settings_but_for_what_changes_no_more_than_a_seed() -> None:
    entries = json.loads(pace.SUCH_RUNS.read_text("utf-8"))
    assert {entry["settings"]["algorithm.name"] for entry in entries} >= {
        "grpo",
        "rloo",
        "ppo",
        "exact",
    }
    config = DEFAULT

    def found(config: TrainConfig, moves: float = 300_000) -> int:
        curves, others = pace.such_runs(recorded(config), moves)
        assert not others
        return len(curves)

    assert found(config) >= 3
    assert found(dataclasses.replace(config, seed=77, device="cpu", num_threads=3)) >= 3
    stockfish = dataclasses.replace(config.env, evaluator="stockfish")
    assert found(dataclasses.replace(config, env=stockfish)) >= 3
    deeper = dataclasses.replace(config.env, evaluator="stockfish:depth=9")
    assert found(dataclasses.replace(config, env=deeper)) == 0
    assert found(config, 1e9) == 0  # nobody went as far
    assert found(dataclasses.replace(config, init_from="warm")) == 0
    slower = dataclasses.replace(config.optimizer, learning_rate=1e-4)
    assert found(dataclasses.replace(config, optimizer=slower)) == 0
    assert pace.such_runs({}, 10) == pace.such_runs({"seed": 1}, 10) == ([], {})


def test_the_nearest_budget_that_is_as_large_is_taken() -> None:
    config = recorded(DEFAULT)
    short, long = (pace.such_runs(config, moves)[0][0][0][-1] for moves in (40_000, 60_000))
    assert short < 50_000 < long
    for moves, regret_cp in pace.such_runs(config, 40_000)[0]:
        assert len(moves) == len(regret_cp) and np.all(np.diff(moves) > 0)


def test_a_run_with_another_bonus_is_compared_with_the_usual_one_and_only_found_slower(
    tmp_path: Path,
) -> None:
    usual, ent_coef = DEFAULT.regularizer, 4 * DEFAULT.regularizer.ent_coef
    changed = dataclasses.replace(usual, ent_coef=ent_coef, ent_coef_final=ent_coef)
    config = recorded(dataclasses.replace(DEFAULT, regularizer=changed))
    curves, others = pace.such_runs(config, 40_000)
    assert others == {
        "regularizer.ent_coef": usual.ent_coef,
        "regularizer.ent_coef_final": usual.ent_coef_final,
    }
    theirs = float(np.mean([regret_cp[-1] for _, regret_cp in curves]))
    for end, verdict in ((theirs, LEARNS), (theirs + 60, SLOW)):
        rows = record(regret_cp=(float(curves[0][1][0]), end))
        for row in rows:
            row["scored_moves"] *= 40  # the curves' budget
        folder = write(tmp_path / verdict, rows)
        (folder / "config.json").write_text(json.dumps(config))
        found = diagnose_run(folder)
        assert found.verdict == verdict and (found.pace is None) == (verdict == LEARNS)
    assert f"of what 3 runs with regularizer.ent_coef {usual.ent_coef}" in found.line()


def test_a_folder_is_compared_with_its_twins_folder(tmp_path: Path) -> None:
    mine = write(tmp_path / "mine", record(regret_cp=(300.0, 200.0)))
    twin = write(tmp_path / "twin", record(regret_cp=(300.0, 120.0)))
    assert diagnose_run(mine).verdict == LEARNS
    assert diagnose_run(mine, twin).verdict == SLOW
    with pytest.raises(ValueError):
        diagnose_run(mine, tmp_path / "nobody")


def test_a_remedy_that_is_in_force_already_is_not_given_again(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", SIGNATURES["the same starts"].rows)
    (cause,) = diagnose_run(folder).causes
    assert cause.verdict.confirm.endswith("--env.start-positions random_plies:2-40")  # type: ignore[union-attr]
    settings = {"env": {"start_positions": "random_plies:2-40"}}
    (folder / "config.json").write_text(json.dumps(settings))
    (cause,) = diagnose_run(folder).causes
    assert cause.verdict.confirm == "" and "in force" in cause.verdict.remedy  # type: ignore[union-attr]
    assert "to confirm" not in "\n".join(written(diagnose_run(folder), "run"))
