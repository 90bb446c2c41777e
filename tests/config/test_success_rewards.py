"""Algorithms that learn from success or failure: which reward their runs have, and which they refuse."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
import pytest

from algorithms.comparison.plan import Plan
from algorithms.comparison.variants import make_variants, train_arguments
from algorithms.config.compatibility import check_settings
from algorithms.config.names import named_run
from algorithms.config.run import EnvConfig, TrainConfig
from algorithms.core.advantages import require_success
from algorithms.core.algorithm import Needs
from algorithms.grpo import GRPO
from algorithms.maxrl import MaxRL
from algorithms.regularization import RegularizerConfig
from algorithms.testing import check_algorithm
from chess_env.rewards import DEFAULT_REWARD
from tests.commands.lab import chess_lab
from tests.zoo.plain import Plain

HERE = "tests.config.test_success_rewards"


@dataclasses.dataclass(frozen=True)
class Solver(Plain):
    """REINFORCE on success and failure.

    Attributes:
        group_size: samples of a position.
        update_epochs: passes.
    """

    name: ClassVar[str] = "solver"

    def needs(self) -> Needs:
        return Needs(success_rewards=True)

    def advantages(self, batch: Any) -> Any:
        require_success(batch, self.name)
        return super().advantages(batch)


def keeps_the_queen(after_cp: Any, before_cp: Any) -> Any:
    """A term of a user's own that pays 0 or 1."""
    return (after_cp > before_cp - 900).astype(np.float32)


def half(after_cp: Any, before_cp: Any) -> Any:
    """One that does not."""
    return np.full(len(after_cp), 0.5, np.float32)


def with_reward(reward: Any) -> TrainConfig:
    return TrainConfig(MaxRL(), env=EnvConfig(evaluator="builtin", reward=reward))


def test_a_run_by_name_is_paid_for_success_where_its_algorithm_needs_that() -> None:
    assert named_run(f"{HERE}:Solver").env.reward == "success"
    assert named_run("grpo").env.reward == "win_prob_delta+mate_delta"
    check_settings(named_run(f"{HERE}:Solver"))
    check_settings(with_reward(None))
    assert with_reward(None).env.reward == "success"
    assert TrainConfig(GRPO(), env=EnvConfig(evaluator="builtin")).env.reward == DEFAULT_REWARD


@pytest.mark.parametrize(
    "reward", ["win_prob_delta", "0.5*success", "success+mate_delta", DEFAULT_REWARD, "regret"]
)
def test_a_reward_that_pays_other_amounts_is_refused_with_the_remedy(reward: str) -> None:
    message = r"maxrl learns from success or failure, and env.reward '.*' pays other amounts: set --env.reward success"
    with pytest.raises(ValueError, match=message):
        check_settings(with_reward(reward))


@pytest.mark.parametrize("reward", ["success", "outcome", keeps_the_queen])
def test_rewards_of_0_and_1_are_accepted_those_of_a_user_s_own_among_them(reward: Any) -> None:
    check_settings(with_reward(reward))


def test_a_kl_term_may_not_change_the_rewards() -> None:
    regularizer = RegularizerConfig(
        kl_ref_coef=0.1, kl_ref_placement="reward", kl_ref_estimator="k1"
    )
    config = dataclasses.replace(with_reward("success"), regularizer=regularizer)
    with pytest.raises(
        ValueError, match="would change its rewards: set the term's placement to loss"
    ):
        check_settings(config)
    check_settings(dataclasses.replace(config, algorithm=GRPO()))


def test_the_contract_serves_such_an_algorithm_with_successes() -> None:
    check_algorithm(Solver())


def test_it_trains_by_its_name_alone_and_refuses_what_a_reward_of_one_s_own_pays_besides(
    tmp_path: Any,
) -> None:
    least = ("--smoke", "--total-moves", "64", "--rollout.num-plies", "1")
    start = ("train", f"{HERE}:Solver", *least, "--env.evaluator", "builtin", "--run-dir")
    code, _, error = chess_lab(*start, tmp_path / "good")
    assert code == 0, error
    code, _, error = chess_lab(*start, tmp_path / "bad", "--env.reward", f"{HERE}:half")
    assert code == 1
    assert "a reward is 0.5: solver learns from success (1) and failure (0)" in " ".join(
        error.split()
    )


def test_a_comparison_gives_its_columns_one_reward_or_says_that_they_differ() -> None:
    alone = make_variants(Plan((f"{HERE}:Solver",), treatments=("none",)))
    assert alone[0].config.env.reward == "success"
    assert "--env.reward" not in train_arguments(alone[0].config)
    with pytest.raises(ValueError, match="the columns differ in env.reward .*success in"):
        make_variants(Plan(("grpo", f"{HERE}:Solver"), treatments=("none",)))
    both = make_variants(
        Plan(("grpo", f"{HERE}:Solver"), grid=("reward=success",), treatments=("none",))
    )
    assert {each.config.env.reward for each in both} == {"success"}
