"""A term of a user's own is one file: it trains, is logged, recorded and resumed, and nothing else is edited."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from algorithms.config.compatibility import check_settings
from algorithms.config.custom import custom_names, custom_terms
from algorithms.config.run import TrainConfig
from algorithms.exact import Exact
from algorithms.grpo import GRPO
from algorithms.regularization import Regularizer, RegularizerConfig
from algorithms.regularization.controllers import terms_of
from algorithms.regularization.term import Term
from algorithms.reports.run_files import read_metrics
from algorithms.rloo import RLOO
from algorithms.testing import check_regularizer_term
from algorithms.testing.cases import random_case
from algorithms.training.trainer import train
from chess_env.custom_objects import CustomObjectError
from chess_env.testing import ContractError
from tests.regularization.penalty import penalty_of
from tests.training.runs import Watcher, assert_same, final_state, tiny

TSALLIS = '''
"""Tsallis entropy of index 2, rewarded: the probability that two moves drawn from the policy differ."""

from algorithms.regularization.term import Term


def tsallis(coef=0.1, power=2.0):
    def estimate(dist, batch, advantages):
        return (1 - dist.probs.pow(power).sum(-1)) / (power - 1)

    return Term(name="tsallis", coef=coef, sign=-1, estimate=estimate)


fixed = 3
'''


@pytest.fixture(autouse=True)
def in_a_folder_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "my_terms.py").write_text(TSALLIS)
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("my_terms", None)


def made(*terms: str) -> tuple[Term, ...]:
    return custom_terms(RegularizerConfig(terms=terms))


def test_the_arguments_behind_the_name_reach_the_function() -> None:
    (plain,), (given,) = made("my_terms:tsallis"), made("my_terms:tsallis,coef=0.3,power=3")
    assert (plain.coef, given.coef) == (0.1, 0.3)
    case = random_case(GRPO(), dtype=torch.float64)
    probs = case.dist(case.logits).probs
    assert given.estimate is not None
    found = given.estimate(case.dist(case.logits), case.flat, case.advantages())
    torch.testing.assert_close(found, (1 - probs.pow(3).sum(-1)) / 2)


def test_it_enters_the_loss_with_its_sign_and_is_logged_raw_and_weighted() -> None:
    case = random_case(GRPO(), dtype=torch.float64)
    config = RegularizerConfig(ent_coef=0.2, terms=("my_terms:tsallis,coef=0.3",))
    dist, advantages = case.dist(case.logits), case.advantages()
    both = penalty_of(Regularizer(config, 1.3, custom_terms(config)), dist, case.flat, advantages)
    alone = penalty_of(
        Regularizer(RegularizerConfig(ent_coef=0.2), 1.3), dist, case.flat, advantages
    )
    bonus = 1 - dist.probs.square().sum(-1)
    torch.testing.assert_close(both[0], alone[0] - 0.3 * bonus)
    torch.testing.assert_close(both[1]["reg/tsallis"], bonus)
    torch.testing.assert_close(both[1]["reg/tsallis_weighted"], -0.3 * bonus)
    assert {name for name in both[1] if "tsallis" not in name} == set(alone[1])


def test_a_run_with_it_is_recorded_and_goes_on_as_if_it_had_not_been_stopped(
    tmp_path: Path,
) -> None:
    regularizer = RegularizerConfig(ent_coef=0.1, terms=("my_terms:tsallis,coef=0.5",))

    def config(name: str, **changes: Any) -> TrainConfig:
        changes = {"algorithm": GRPO(group_size=4), "regularizer": regularizer, **changes}
        return tiny(tmp_path / name, updates=2, diagnostics_interval_updates=1, **changes)

    whole = train(config("whole"), display=Watcher())
    half = config("parts")
    train(dataclasses.replace(half, total_moves=half.total_moves // 2), display=Watcher())
    train(half, resume=True, display=Watcher())
    assert_same(final_state(tmp_path / "parts"), final_state(tmp_path / "whole"))
    rows = read_metrics(whole.run_dir)[1:]
    assert all(0 < row["reg/tsallis"] < 1 for row in rows)
    assert all(row["grad_share/tsallis"] > 0 for row in rows)
    record = json.loads((whole.run_dir / "config.json").read_text())
    assert record["regularizer"]["terms"] == ["my_terms:tsallis,coef=0.5"]
    environment = json.loads((whole.run_dir / "environment.json").read_text())
    assert "my_terms:tsallis" in environment["own_objects"]
    without = train(
        config("without", regularizer=RegularizerConfig(ent_coef=0.1)), display=Watcher()
    )
    assert without.regret_cp_end != whole.regret_cp_end


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("my_terms:no_such", "my_terms"),
        ("no_such_module:tsallis", "no_such_module"),
        ("tsallis", "has not the form module:Name"),
        ("my_terms:tsallis,weight=1", "cannot be made: .*weight"),
        ("my_terms:tsallis,coef", "'coef' is no argument: write KEY=VALUE"),
        ("my_terms:fixed", "cannot be made"),
        ("pathlib:Path", "made a .*Path: expected a Term"),
    ],
)
def test_what_is_no_term_is_refused_before_anything_runs(text: str, message: str) -> None:
    config = TrainConfig(GRPO(), RegularizerConfig(terms=(text,)))
    with pytest.raises(CustomObjectError, match=message):
        check_settings(config)


def test_two_terms_of_one_name_are_refused() -> None:
    twice = made("my_terms:tsallis", "my_terms:tsallis")
    with pytest.raises(ValueError, match="give each a name of its own"):
        Regularizer(RegularizerConfig(), 1.0, twice)


def test_a_term_says_what_does_not_go_together_with_it() -> None:
    (term,) = made("my_terms:tsallis")
    named = RegularizerConfig(terms=("my_terms:tsallis,coef=1",))
    assert custom_names(TrainConfig(GRPO(), named)) == [
        ("regularizer.terms", "my_terms:tsallis", "imports")
    ]
    check_settings(TrainConfig(Exact(), RegularizerConfig(terms=("my_terms:tsallis",))))
    sampled = dataclasses.replace(term, averages_samples=True, needs_drift=True)
    sys.modules["my_terms"].tsallis = lambda: sampled  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="an estimate from sampled moves means nothing"):
        check_settings(TrainConfig(Exact(), RegularizerConfig(terms=("my_terms:tsallis",))))
    with pytest.warns(UserWarning, match="tsallis has no effect in rloo"):
        check_settings(TrainConfig(RLOO(), RegularizerConfig(terms=("my_terms:tsallis",))))


def test_custom_and_built_in_terms_keep_the_contract() -> None:
    check_regularizer_term(made("my_terms:tsallis")[0])
    for settings in (
        RegularizerConfig(ent_coef=0.1, kl_old_coef=0.1, kl_cov_coef=0.1, repo_coef=0.1),
        RegularizerConfig(ent_estimator="sampled", kl_old_estimator="weighted_k3", repo_r_coef=1),
    ):
        for term in terms_of(settings):
            if not term.needs_reference:
                check_regularizer_term(term)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sign": 2}, "the sign 1"),
        ({"name": "my term"}, "fit for a metric's name"),
        ({"estimate": lambda dist, batch, a: dist.probs}, r"must be \[N\]"),
        ({"estimate": lambda dist, batch, a: dist.entropy().detach()}, "depend on the learner"),
        (
            {"estimate": lambda dist, batch, a: dist.entropy() / dist.entropy().max()},
            "other states",
        ),
        ({"estimate": lambda dist, batch, a: dist.probs.log().sum(-1)}, "finite"),
    ],
)
def test_a_broken_term_is_told_which_rule_broke(changes: dict[str, Any], sentence: str) -> None:
    (term,) = made("my_terms:tsallis")
    with pytest.raises(ContractError, match=sentence):
        check_regularizer_term(dataclasses.replace(term, **changes))
