"""A comparison from its plan to its claims, on runs that follow a formula."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from algorithms.comparison import compare as comparing
from algorithms.comparison.compare import ComparisonResult, compare
from algorithms.comparison.jobs import MixedError
from algorithms.comparison.plan import TRIED_RATES, Plan
from algorithms.comparison.tuning import TuningError
from algorithms.config.run import TrainConfig
from algorithms.networks.settings import DEFAULT_NETWORK, LEARNING_RATES, SIZES
from algorithms.run_folder.atomic_files import closed_object
from tests.comparison.fake_grid import Curve, FakeGrid

BROADER = {"delightful_pg": 1.0}
NONE = ("none",)


def curve(name: str, config: TrainConfig) -> Curve:
    """Regret falls from 400 to 200 cp, entropy by a nat for each 100 cp; more of it with some."""
    extra = BROADER.get(config.algorithm.name, 0.0) + 0.01 * config.seed
    return [(400.0, 3.4), (300.0, 2.0 + extra), (200.0, 1.0 + extra)]


@pytest.fixture
def grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGrid:
    fake = FakeGrid(curve, out=tmp_path)
    monkeypatch.setattr(comparing, "run_grid", fake)
    return fake


def run(grid: FakeGrid, plan: Plan) -> ComparisonResult:
    return compare(plan, grid.out, say=lambda line: None)


def compared(grid: FakeGrid, *columns: str, **settings: Any) -> ComparisonResult:
    """The columns without regularisation."""
    return run(grid, Plan(columns, treatments=NONE, **settings))


def claims_of(result: ComparisonResult, family: str, which: int = 0) -> list[str]:
    said: list[str] = result.values["families"][family]["quantities"][which]["claims"]
    return said


def test_eight_seeds_carry_the_claim_that_is_true_and_no_other(grid: FakeGrid) -> None:
    plan = Plan(("grpo", "rloo", "delightful_pg"), treatments=NONE)
    result = run(grid, plan)
    assert len(grid.ran) == 24
    family = result.values["families"]["regularization none"]
    entropy, regret = family["quantities"]
    assert set(entropy["level_percent"].values()) == {50}
    (equal, ours, theirs) = entropy["comparisons"]
    assert equal["difference"] == 0 and ours["difference"] == pytest.approx(-1.0)
    said = entropy["claims"]
    assert said[0].startswith("2 of 3 differences in held-out entropy (nats) may be claimed over 8")
    assert "grpo+none (at 50 % of the starting regret) against rloo+none" in said[1]
    assert "identical" in said[1]
    assert said[2].startswith(
        "grpo+none (at 50 % of the starting regret) has lower held-out entropy"
    )
    assert regret["claims"][0].startswith("nothing differs")
    assert json.loads((grid.out / "comparison.json").read_text()) == json.loads(
        json.dumps(result.values)
    )
    # Seeds 1 to 8: the interquartile mean of 1 + .01 seed is 1.045.
    assert family["columns"][0]["entropy"]["iqm"] == pytest.approx(1.045)
    assert family["columns"][0]["percent_of_start"]["iqm"] == pytest.approx(50.0)
    provenance = result.values["provenance"]
    assert provenance["commits_of_the_runs"] == ["abc"] and provenance["packages"]["torch"]
    assert "not tuned: each network's own" in result.values["tuning_says"]


def test_two_seeds_carry_nothing_and_the_summary_says_so(grid: FakeGrid) -> None:
    result = compared(grid, "grpo", "delightful_pg", num_seeds=2)
    assert claims_of(result, "regularization none")[0].startswith("nothing: 2 seeds cannot carry")
    text = "\n".join(result.lines())
    assert "delightful_pg+none  50.0 [50.0, 50.0]" in text and "nothing: 2 seeds" in text


def test_one_seed_is_run_and_compared_with_nothing(grid: FakeGrid) -> None:
    result = compared(grid, "grpo", "rloo", num_seeds=1)
    assert claims_of(result, "regularization none")[0].startswith("nothing: a comparison needs two")
    assert "grpo+none  50.0  " in "\n".join(result.lines())


def test_a_broken_cell_is_named_and_its_seed_is_left_out_of_every_column(grid: FakeGrid) -> None:
    grid.breaks = frozenset({"rloo+none/seed-3"})
    result = compared(grid, "grpo", "rloo", num_seeds=4)
    (broken,) = result.broken
    assert broken["cell"] == "rloo+none/seed-3" and "seed-3.log" in broken["reason"]
    family = result.values["families"]["regularization none"]
    assert family["seeds"] == [1, 2, 4]
    assert family["left_out"] == [
        "seeds [3] are left out of all columns: a run is missing or broken there"
    ]
    assert all(each["seeds"] == 3 for each in family["quantities"][1]["comparisons"])
    assert "BROKEN rloo+none/seed-3" in "\n".join(result.lines())


def test_a_column_that_is_broken_everywhere_costs_the_others_no_seed(grid: FakeGrid) -> None:
    grid.breaks = frozenset(f"ppo+none/seed-{seed}" for seed in (1, 2, 3))
    result = compared(grid, "grpo", "rloo", "ppo", num_seeds=3)
    family = result.values["families"]["regularization none"]
    assert family["seeds"] == [1, 2, 3]
    assert family["left_out"] == ["ppo+none is left out: 0 of its 3 seeds are usable"]
    assert len(result.broken) == 3


@pytest.mark.parametrize("text", ["", '{"step": 0}\n', '{"step"\n{}\n', None])
def test_a_record_that_cannot_be_read_is_broken_and_not_a_crash(
    grid: FakeGrid, text: str | None
) -> None:
    plan = Plan(("grpo", "rloo"), treatments=NONE, num_seeds=3)
    run(grid, plan)
    path = grid.out / "runs" / "grpo+none" / "seed-2" / "metrics.jsonl"
    if text is None:
        lines = path.read_text().replace('"eval/entropy": 3.4', '"eval/entropy": null')
        path.write_text(lines)
    else:
        path.write_text(text)
    result = run(grid, plan)
    assert [each["cell"] for each in result.broken] == ["grpo+none/seed-2"]


def test_a_run_with_other_settings_than_asked_for_is_broken(grid: FakeGrid) -> None:
    plan = Plan(("grpo", "rloo"), treatments=NONE, num_seeds=3)
    run(grid, plan)
    path = grid.out / "runs" / "grpo+none" / "seed-2" / "config.json"
    other = json.loads(path.read_text().replace('"clip_range": 0.2', '"clip_range": 0.3'))
    path.write_bytes(closed_object({name: other[name] for name in other if name != "sha256"}))
    (broken,) = run(grid, plan).broken
    assert "algorithm.clip_range 0.3, not 0.2" in broken["reason"]


def test_different_evaluators_are_refused_with_the_reason_unless_allowed(grid: FakeGrid) -> None:
    grid.evaluator = lambda name: "builtin-v2" if name == "rloo+none/seed-2" else "builtin-v1"
    plan = Plan(("grpo", "rloo"), treatments=NONE, num_seeds=2)
    with pytest.raises(MixedError, match=r"different evaluators: builtin-v1 .*; builtin-v2 \(rloo"):
        run(grid, plan)
    result = run(grid, dataclasses.replace(plan, allow_mixed=True))
    assert len(result.values["mixed"]) == 1 and result.values["plan"]["allow_mixed"] is True
    assert "NOT COMPARABLE" in "\n".join(result.lines())


def test_different_held_out_start_values_on_a_seed_are_refused(grid: FakeGrid) -> None:
    def other_start(name: str, config: TrainConfig) -> Curve:
        start = 401.0 if name == "rloo+none/seed-2" else 400.0 + config.seed / 10
        return [(start, 3.4), (200.0, 1.0)]

    grid.curve = other_start
    with pytest.raises(MixedError, match="seed 2 grpo.none starts at .* 400.200 cp and rloo"):
        compared(grid, "grpo", "rloo", num_seeds=2)


def test_a_folder_with_runs_of_another_budget_is_refused_before_anything_runs(
    grid: FakeGrid,
) -> None:
    compared(grid, "grpo", num_seeds=2, budget_moves=4096)
    before = list(grid.ran)
    with pytest.raises(
        MixedError, match="budget in scored moves 4096, and this comparison has 8192"
    ):
        compared(grid, "rloo", num_seeds=2, budget_moves=8192)
    assert grid.ran == before


def test_tuning_chooses_on_seeds_that_are_not_reported(grid: FakeGrid) -> None:
    best = {"grpo": 1e-3, "rloo": 4e-3}

    def tuned(name: str, config: TrainConfig) -> Curve:
        off = abs(config.optimizer.learning_rate - best.get(config.algorithm.name, 0.0))
        return [(400.0, 3.4), (200.0 + 1e4 * off, 1.0)]

    grid.curve = tuned
    grid.breaks = frozenset({"rloo+learning_rate=0.002/seed-1001"})
    result = compared(grid, "grpo", "rloo", num_seeds=2, tune=True)
    tuning = result.values["tuning"]
    assert {name: each["learning_rate"] for name, each in tuning.items()} == best
    assert list(tuning["rloo"]["percent_of_start"]) == ["0.001", "0.004", "0.008", "0.016", "0.032"]
    assert tuning["grpo"]["percent_of_start"]["0.002"] == pytest.approx(100 * 210 / 400)
    assert {each["seed"] for each in result.values["cells"]} == {1, 2}
    assert {each["percent_of_start"] for each in result.values["cells"]} == {50.0}
    assert "grpo 0.001, rloo 0.004" in "\n".join(result.lines())
    assert [each["cell"] for each in result.broken] == ["tuning/rloo+learning_rate=0.002/seed-1001"]
    grid.breaks = frozenset(
        f"cispo+learning_rate={rate:g}/seed-1000" for rate in TRIED_RATES[DEFAULT_NETWORK]
    )
    with pytest.raises(TuningError, match="cispo: no learning rate"):
        compared(grid, "cispo", tune=True)


@pytest.mark.parametrize("network", SIZES)
def test_a_networks_own_step_size_lies_between_those_that_are_tried(network: str) -> None:
    tried = Plan(("grpo",), network=network).tried_rates
    assert tried == TRIED_RATES[network] and list(tried) == sorted(tried)
    assert tried[0] < LEARNING_RATES[network] < tried[-1]


def test_a_network_of_ones_own_tries_the_step_sizes_of_resnet() -> None:
    named = "tests.config.custom_parts:Linear"
    assert Plan(("grpo",), network=named).tried_rates == TRIED_RATES["resnet"]


def test_equal_shares_come_from_norms_that_are_linear_in_the_coefficient(grid: FakeGrid) -> None:
    pull = {"grpo": 1.25, "rloo": 5.0}
    grid.norms = lambda config: pull[config.algorithm.name]
    plan = Plan(("grpo", "rloo"), treatments=("equal", "share"), num_seeds=2, grad_share=0.2)
    result = run(grid, plan)
    found = {n: each["ent_coef"] for n, each in result.values["calibration"].items()}
    # s / ((1 - s) q) = .25 / 1.25 and .25 / 5
    assert found == {"grpo": pytest.approx(0.2), "rloo": pytest.approx(0.05)}
    share = {c["name"]: c for c in result.values["families"]["regularization share"]["columns"]}
    equal = {c["name"]: c for c in result.values["families"]["regularization equal"]["columns"]}
    assert [c["grad_share"] for c in share.values()] == pytest.approx([0.2, 0.2])
    assert {c["ent_coef"] for c in equal.values()} == {0.03}
    assert equal["grpo+equal"]["grad_share"] == pytest.approx(0.0375 / 1.0375)


@pytest.mark.parametrize(("off", "verdict"), [(0.0, True), (0.3, True), (3.0, False)])
def test_controls_say_whether_they_coincide_and_how_closely(
    grid: FakeGrid, off: float, verdict: bool
) -> None:
    def close(name: str, config: TrainConfig) -> Curve:
        shift = off if name.startswith("control+rloo") else 0.0
        return [(400.0, 3.4), (300.0 + shift, 2.0), (200.0, 1.0 + shift)]

    grid.curve = close
    result = compared(grid, "grpo", num_seeds=3, controls=True)
    again, cispo, rloo = result.values["controls"]
    assert again["coincides"] and "identical on seeds (1, 2)" in again["sentence"]
    assert cispo["coincides"] is True and rloo["coincides"] is verdict
    assert rloo["early_percent"] == pytest.approx(off / 4)
    assert rloo["largest_entropy"] == pytest.approx(off)
    assert ("DO NOT COINCIDE" in rloo["sentence"]) is not verdict
    assert "control+cispo/seed-3" not in grid.ran


def test_a_repeat_that_is_off_by_anything_does_not_coincide(grid: FakeGrid) -> None:
    def off(name: str, config: TrainConfig) -> Curve:
        return [(400.0, 3.4), (300.0 + 1e-9 * name.startswith("control+again"), 2.0)]

    grid.curve = off
    result = compared(grid, "grpo", num_seeds=2, controls=True)
    assert result.values["controls"][0]["coincides"] is False


def test_a_cause_is_compared_with_its_cured_twin(grid: FakeGrid) -> None:
    grid.curve = lambda name, config: [(200.0, 2.8), (150.0 if "cured" in name else 190.0, 1.0)]
    plan = Plan((), causes=("temperature_mismatch",), num_seeds=2)
    result = run(grid, plan)
    asked: dict[str, Any] = {name: " ".join(each) for name, each in grid.arguments.items()}
    assert asked == {
        "causes/temperature_mismatch/seed-1": "causes run temperature_mismatch --seed 1",
        "causes/temperature_mismatch/seed-2": "causes run temperature_mismatch --seed 2",
        "causes/temperature_mismatch-cured/seed-1": "causes run temperature_mismatch --seed 1 --cured",
        "causes/temperature_mismatch-cured/seed-2": "causes run temperature_mismatch --seed 2 --cured",
    }
    (regret,) = result.values["families"]["cause temperature_mismatch"]["quantities"][1:]
    assert regret["comparisons"][0]["difference"] == pytest.approx(20.0)


def test_causes_are_compared_on_the_network_that_is_asked_for(grid: FakeGrid) -> None:
    plan = Plan((), causes=("fixed_positions",), num_seeds=2, cause_network="move_net")
    run(grid, plan)
    assert {arguments[-2:] for arguments in grid.arguments.values()} == {("--network", "move_net")}
    with pytest.raises(ValueError, match="--network with --causes is 'transformer': expected"):
        Plan((), causes=("fixed_positions",), cause_network="transformer")
