"""Columns share what a fair comparison shares, and a mistake is answered before anything runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from algorithms import PRESETS
from algorithms.commands import train
from algorithms.commands.run_options import given, with_settings
from algorithms.comparison.plan import Plan
from algorithms.comparison.variants import Variant, make_variants, mixed_settings, train_arguments
from algorithms.config.run import TrainConfig
from algorithms.networks.settings import DEFAULT_NETWORK
from tests.commands.lab import chess_lab
from tests.comparison.fake_grid import config_of

OWN = "algorithms.networks.residual:ResidualPolicy"
FOUR = ("grpo", "ppo", "rloo", "delightful_pg")


def test_all_columns_share_budget_network_starts_and_credit_horizon() -> None:
    variants = make_variants(Plan(FOUR))
    assert [variant.name for variant in variants[:4]] == [f"{name}+none" for name in FOUR]
    assert len(variants) == 12 and mixed_settings(variants) == []
    for variant in variants:
        config = variant.config
        assert config.algorithm.gamma == 0 and config.algorithm.group_size == 8
        states = config.rollout.num_envs * config.rollout.num_plies
        assert config.optimizer.minibatch_size == states and config.rollout.form == "positions"
    assert {c.config.regularizer.ent_coef for c in variants if c.family == "none"} == {0}
    assert {c.config.regularizer.ent_coef for c in variants if c.family == "equal"} == {0.03}


def test_in_games_the_credit_reaches_the_end_of_the_game_in_all_columns() -> None:
    variants = make_variants(Plan(FOUR, form="games", treatments=("none",)))
    assert {variant.config.algorithm.gamma for variant in variants} == {1.0}
    assert {
        getattr(variant.config.algorithm, "credit", "return_to_go") for variant in variants
    } == {"return_to_go"}
    assert {variant.config.rollout.form for variant in variants} == {"games"}


def test_a_presets_other_regularisation_stays_and_its_own_bonus_is_an_option() -> None:
    none, preset = make_variants(Plan(("kl_cov",), treatments=("none", "preset")))
    assert none.config.regularizer.kl_cov_coef == preset.config.regularizer.kl_cov_coef == 1.0
    (grpo,) = make_variants(Plan(("grpo",), treatments=("preset",)))
    assert grpo.config.regularizer == PRESETS["grpo"][1]


def test_the_grid_multiplies_the_columns_that_have_the_setting() -> None:
    plan = Plan(
        ("grpo", "ppo"), grid=("advantage_scale=group,none", "temperature=1"), treatments=("none",)
    )
    names = [variant.name for variant in make_variants(plan)]
    assert names == [
        "grpo+advantage_scale=group+temperature=1.0+none",
        "grpo+advantage_scale=none+temperature=1.0+none",
        "ppo+temperature=1.0+none",
    ]


@pytest.mark.parametrize(
    ("plan", "which"),
    [
        (Plan(FOUR, treatments=("equal",)), 1),
        (Plan(("dapo",), form="games", grid=("live_groups=False,true",), treatments=("none",)), 0),
    ],
)
def test_the_arguments_of_a_column_make_its_run(plan: Plan, which: int) -> None:
    config = dataclasses.replace(make_variants(plan)[which].config, seed=7)
    arguments = train_arguments(config)
    default = TrainConfig(*PRESETS[arguments[1]], preset=arguments[1])
    settings = given(train.make_parser(default), arguments[2:], default)
    assert with_settings(default, settings, command="") == config
    assert config_of(arguments) == config


def test_an_own_term_is_compared_with_none() -> None:
    own = "tests.config.custom_parts:tsallis,coef=0.05"
    plan = Plan(("grpo",), grid=(f"terms=none;{own}",), treatments=("none",))
    without, with_term = make_variants(plan)
    assert without.name == "grpo+terms=none+none"
    assert with_term.name == "grpo+terms=tests.config.custom_parts-tsallis,coef=0.05+none"
    assert [v.config.regularizer.terms for v in (without, with_term)] == [(), (own,)]
    arguments = train_arguments(with_term.config)
    assert arguments[arguments.index("--regularizer.terms") + 1] == own
    assert "--regularizer.terms" not in train_arguments(without.config)


@pytest.mark.parametrize(
    ("listed", "values"),
    [
        ("fens:/x/(a,b).epd,phase_mix", ["fens:/x/(a,b).epd", "phase_mix"]),
        ("'fens:/x/a,b.epd',decided", ["fens:/x/a,b.epd", "decided"]),
        ("fens:/o'brien/a.epd;fens:/x,y.epd", ["fens:/o'brien/a.epd", "fens:/x,y.epd"]),
        ("fens:/x(1.epd,decided", ["fens:/x(1.epd", "decided"]),
    ],
)
def test_the_values_of_a_grid_may_have_commas_in_brackets_and_quotes(
    listed: str, values: list[str]
) -> None:
    plan = Plan(
        ("grpo",), grid=(f"start_positions={listed}",), treatments=("none",), allow_mixed=True
    )
    assert [each.config.env.start_positions for each in make_variants(plan)] == values


def test_columns_that_differ_in_what_they_share_are_named() -> None:
    (variant,) = make_variants(Plan(("grpo",), treatments=("none",)))
    other = variant.with_settings({"policy.channels": 32, "total_moves": 10_000})
    other = dataclasses.replace(other, name="other")
    assert isinstance(other, Variant)
    assert mixed_settings([variant, other]) == [
        "the columns differ in policy.channels (None in grpo+none, 32 in other)",
        "the columns differ in total_moves (150000 in grpo+none, 10000 in other)",
    ]


@pytest.mark.parametrize("network", ["resnet", DEFAULT_NETWORK, OWN])
def test_the_network_of_the_plan_is_that_of_all_columns_and_named_in_their_arguments(
    network: str,
) -> None:
    for variant in make_variants(Plan(("grpo", "ppo"), treatments=("none",), network=network)):
        assert variant.config.policy.network == network
        arguments = train_arguments(variant.config)
        assert arguments[2:4] == ("--policy.network", network)
        assert config_of(arguments) == variant.config


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "no column"),
        ("../grpo", "NAME is '../grpo': expected one of"),
        ("grop", "did you mean 'grpo'?"),
        ("grpo grpo", "more than once"),
        ("grpo grpo,group_size=8", "NAME is 'group_size=8': expected a preset; --grid varies"),
        ("grpo --seeds 0", "--seeds is 0"),
        ("grpo --seeds 3 --first-seed 999", "seeds [1000, 1001] are those of tuning"),
        ("grpo --first-seed -1", "--first-seed is -1"),
        (f"grpo --seeds {10**18}", f"--seeds is {10**18} and --first-seed"),
        (f"grpo --first-seed {10**30}", f"--first-seed {10**30}"),
        (
            "grpo --budget-moves 100",
            "--budget-moves is 100 and one rollout of grpo+none scores 256",
        ),
        ("grpo --budget-moves 0", "--budget-moves is 0"),
        ("grpo --grid grop_size=4,8", "did you mean 'group_size'?"),
        ("grpo --grid seed=4,8", "--grid is 'seed'"),
        ("grpo --grid group_size", "--grid is 'group_size': expected a setting and its values"),
        ("grpo --grid group_size=four", "'four' is no number"),
        ("grpo --grid group_size=4,4", "two columns would have one name"),
        ("grpo --grid advantage_scale=grup", "did you mean 'group'?"),
        ("grpo --grid live_groups=yes", "expected one of 'True', 'False'"),
        ("grpo --grid ent_coef=0,1", "give --regularization preset"),
        ("grpo --grid channels=16,32", "differ in policy.channels (16 in"),
        ("grpo --grid total_moves=5000,9000", "--allow-mixed compares them anyway"),
        ("rloo --grid update_epochs=1,2", "RLOO is strictly on-policy"),
        ("exact --form games", "set rollout.form to positions"),
        ("ppo --gamma 0.5", "gamma is 0.5 with 8 samples per position"),
        ("grpo --network resnett", "--network is 'resnett': expected one of"),
        (f"grpo --network {OWN}s", "it defines ResidualBlock, ResidualPolicy"),
        ("grpo --regularization none,none", "give each treatment once"),
        ("grpo --evaluator stokfish", "'stokfish'"),
        ("grpo --grad-share 1", "--grad-share is 1.0"),
        ("--causes temperature_mismatc", "did you mean 'temperature_mismatch'?"),
    ],
)
def test_a_mistake_is_answered_before_anything_runs(
    arguments: str, message: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    code, _, error = chess_lab("compare", *arguments.split(), "--out", out)
    assert code == 1
    assert message in error and "Traceback" not in error
    assert not out.exists()
