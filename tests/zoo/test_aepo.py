"""AEPO against its formula; its further rollout: which groups, at which temperature, and what it costs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from algorithms.aepo import AEPO, with_tempered
from algorithms.config.compatibility import check_settings
from algorithms.config.run import EnvConfig, RolloutConfig, TrainConfig
from algorithms.core.algorithm import Critic, Needs, Tempered
from algorithms.core.batch import RolloutBatch
from algorithms.core.distribution import MaskedCategorical
from algorithms.doctor import diagnose
from algorithms.grpo import GRPO
from algorithms.reports.run_files import read_metrics
from algorithms.rollouts.collect import (
    Collected,
    collect_positions,
    collect_tempered,
    start_rollout,
)
from algorithms.rollouts.sampling import Sampler
from algorithms.testing.cases import random_case
from algorithms.training.trainer import train
from tests.small import VecOf, make_batch, make_policy
from tests.training.runs import (
    Watcher,
    assert_same,
    final_state,
    rows_without_time,
    stopped_and_straight,
    tiny,
)
from tests.zoo.by_hand import by_group, log_softmax, loss_of, rollout, samples
from tests.zoo.case_loss import batch_loss
from tests.zoo.plain import Plain

SLICE = Tempered(share=0.25, ent_target=1.0, temperature_low=0.8, temperature_high=1.2)


# The loss.


def relative(rewards: list[float]) -> list[float]:
    if len(rewards) < 2:
        return [0.0] * len(rewards)
    mean = sum(rewards) / len(rewards)
    std = (sum((reward - mean) ** 2 for reward in rewards) / (len(rewards) - 1)) ** 0.5
    return [(reward - mean) / (std + 1e-4) for reward in rewards]


def test_successes_of_a_tempered_group_get_one_and_the_others_are_grpo_s() -> None:
    rewards = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    valid = torch.tensor([[True, True], [True, False], [True, True]])
    found = with_tempered(rewards, valid, torch.tensor([False, True, True]), "none")
    assert found.tolist() == [[0.5, -0.5], [1.0, 0.0], [1.0, 1.0]]


def test_tempered_groups_have_no_part_in_the_batch_s_scale() -> None:
    rewards = torch.tensor([[1.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    valid = torch.ones(2, 2, dtype=torch.bool)
    found = with_tempered(rewards, valid, torch.tensor([False, True]), "batch")
    alone = with_tempered(rewards[:1], valid[:1], torch.tensor([False]), "batch")
    assert torch.equal(found[:1], alone)


@given(seed=st.integers(0, 2**31), rate=st.sampled_from([0.2, 0.6]))
@settings(max_examples=40)
def test_advantages_are_those_of_the_definition(seed: int, rate: float) -> None:
    case = samples(seed, 8, rate=rate)
    tempered = np.random.default_rng(seed).random(5) < 0.5
    valid = case.valid & ~(tempered[:, None] & (case.rewards == 0))
    valid[0, 0] |= not valid.any()
    advantages = by_group(relative, case.rewards, valid, -1)
    advantages[tempered] = valid[tempered]
    batch = rollout(case.old, case.slots, case.rewards, valid)
    batch = dataclasses.replace(batch, tempered=torch.from_numpy(tempered)[:, None])
    np.testing.assert_allclose(AEPO().advantages(batch)[:, 0], advantages, rtol=1e-10, atol=1e-14)


@given(seed=st.integers(0, 2**31), tempering=st.sampled_from([0.5, 0.8, 1.2, 2.0]))
@settings(max_examples=40)
def test_the_expected_step_is_towards_the_tempered_policy_and_moves_entropy_as_the_temperature_says(
    seed: int, tempering: float
) -> None:
    """Where all moves succeed minus the gradient is pi_T - pi, counted out over the samples."""
    old = np.random.default_rng(seed).normal(size=5)
    probs, drawn = np.exp(log_softmax(old)), np.exp(log_softmax(old / tempering))
    step = np.zeros(5)
    for move in range(5):
        batch = rollout(old[None], np.array([[move]]), np.ones((1, 1)))
        batch = dataclasses.replace(batch, tempered=torch.ones(1, 1, dtype=torch.bool))
        step -= drawn[move] * loss_of(AEPO(), batch, old[None])[1][0]
    np.testing.assert_allclose(step, drawn - probs, atol=1e-12)
    surprise = -np.log(probs)
    entropy_gradient = probs * (surprise - probs @ surprise)
    assert (entropy_gradient @ step > 0) == (tempering > 1)


def test_without_tempered_samples_it_is_grpo_to_the_bit() -> None:
    plain = AEPO(tempered_share=0.0)
    assert plain.needs().tempered is None
    case = random_case(plain, seed=2)
    logits = (case.logits + 0.3).requires_grad_()
    found = []
    for algorithm in (plain, AEPO(), GRPO(reduction="sample_mean")):
        loss = batch_loss(dataclasses.replace(case, algorithm=algorithm), logits)
        found.append((loss, torch.autograd.grad(loss, logits)[0]))
    for other in found[1:]:
        assert torch.equal(found[0][0], other[0]) and torch.equal(found[0][1], other[1])


# The further rollout.


def with_rewards(batch: RolloutBatch, rewards: list[list[float]], entropy: float) -> RolloutBatch:
    """The batch with these rewards in all states of each board, and about this entropy in all states."""
    spread = torch.tensor(rewards)[:, None].expand_as(batch.rewards).clone()
    uniform = torch.full((*batch.side.shape, 8), -entropy)
    return dataclasses.replace(
        batch,
        rewards=spread,
        old_legal_logprobs=uniform + torch.log(torch.tensor(np.exp(entropy) / 8)),
        legal_ids=torch.arange(8, dtype=torch.int16).expand(*batch.side.shape, 8),
        move_facts=None,
    )


FAIL, MIXED, SUCCEED = [0.0] * 4, [1.0, 0.0, 0.0, 1.0], [1.0] * 4
LEFT = make_batch(seed=0)  # 4 boards, 3 plies, 4 samples
FURTHER = make_batch(seed=1)


def noting(asked: list[Any], answer: Any) -> Callable[..., Any]:
    """A function that notes its arguments and always gives this answer."""

    def answering(*what: Any) -> Any:
        asked.append(what)
        return answer

    return answering


def collected(
    entropy: float, rewards: list[list[float]], asked: list[Any], **changes: Any
) -> Collected:
    first = with_rewards(LEFT, [FAIL, MIXED, SUCCEED, FAIL], entropy)
    further = with_rewards(FURTHER, rewards, entropy)
    arguments: dict[str, Any] = {
        "settings": SLICE,
        "roll": noting(asked, further),
        "affordable": noting(asked, True),
        "generator": torch.Generator().manual_seed(0),
    }
    return collect_tempered(first, **arguments | changes)


ENTROPY = float(np.log(8))


@pytest.mark.parametrize(
    ("target", "tempering", "groups"),
    [(ENTROPY + 0.01, 1.2, 3), (ENTROPY - 0.01, 0.8, 2)],
    ids=["below the target", "above it"],
)
def test_entropy_against_its_target_chooses_temperature_and_size_of_the_slice(
    target: float, tempering: float, groups: int
) -> None:
    """Of 12 groups a quarter is drawn anew; a quarter gives way, or half of that, rounded up."""
    asked: list[Any] = []
    found = collected(
        ENTROPY, [MIXED] * 4, asked, settings=dataclasses.replace(SLICE, ent_target=target)
    )
    assert asked == [(48,), (tempering, 3)]
    assert found.metrics == {
        "rollout/extra_rollouts": 1.0,
        "rollout/hot_rollouts": float(tempering > 1),
        "rollout/tempered_groups": groups,
        "rollout/tempered_samples": 2 * groups,
    }
    assert found.batch.tempered is not None and found.batch.tempered.sum() == groups


def test_entropy_exactly_at_the_target_counts_as_too_low() -> None:
    exact = float(-(torch.full((8,), 1 / 8).log() / 8).double().sum())
    first = with_rewards(LEFT, [FAIL] * 4, ENTROPY)
    uniform = torch.full((*LEFT.side.shape, 8), 1 / 8).log()
    first = dataclasses.replace(first, old_legal_logprobs=uniform)
    asked: list[Any] = []
    further = dataclasses.replace(first, rewards=first.rewards + 0)
    collect_tempered(
        first,
        dataclasses.replace(SLICE, ent_target=exact),
        noting(asked, further),
        lambda moves: True,
        torch.Generator().manual_seed(0),
    )
    assert asked == [(1.2, 3)]


def members(batch: RolloutBatch, values: Tensor) -> list[Any]:
    return values.reshape(-1, *values.shape[2:]).tolist()


def test_successes_of_groups_with_both_come_over_and_all_else_stays_as_it_was() -> None:
    found = collected(
        ENTROPY,
        [FAIL, MIXED, SUCCEED, FAIL],
        [],
        settings=dataclasses.replace(SLICE, ent_target=9.0),
    )
    first, batch = with_rewards(LEFT, [FAIL, MIXED, SUCCEED, FAIL], ENTROPY), found.batch
    assert batch.tempered is not None
    places = batch.tempered.reshape(-1).nonzero().squeeze(-1).tolist()
    assert len(places) == 3
    able = sorted(members(FURTHER, FURTHER.actions)[3:6])  # those of its second board
    assert sorted(members(batch, batch.actions)[place] for place in places) == able
    for place in places:
        assert members(batch, batch.valid)[place] == [True, False, False, True]
    assert found.metrics["rollout/tempered_samples"] == 6.0 == batch.valid[batch.tempered].sum()
    kept = [place for place in range(12) if place not in places]
    for name in ("actions", "old_logprobs", "rewards", "valid", "obs", "position_hash"):
        ours, theirs = (getattr(each, name) for each in (first, batch))
        assert [members(first, ours)[k] for k in kept] == [members(batch, theirs)[k] for k in kept]
    assert batch.temperature == first.temperature


def test_every_scored_move_of_both_rollouts_counts() -> None:
    found = collected(ENTROPY, [MIXED] * 4, [])
    assert (found.scored_moves, found.plies) == (2 * 48, 2 * 12)
    assert found.batch.scored_moves == 48 - 2 * 2


@pytest.mark.parametrize("rewards", [[FAIL] * 4, [SUCCEED] * 4])
def test_a_further_rollout_without_both_replaces_nothing_and_counts(
    rewards: list[list[float]],
) -> None:
    found = collected(ENTROPY, rewards, [])
    assert found.metrics["rollout/tempered_groups"] == 0
    assert found.batch.tempered is not None and not found.batch.tempered.any()
    assert found.scored_moves == 96 and found.batch.valid.all()


def test_where_the_budget_allows_no_further_rollout_nothing_is_replaced() -> None:
    asked: list[Any] = []
    found = collected(ENTROPY, [MIXED] * 4, asked, affordable=lambda moves: False)
    assert asked == [] and found.scored_moves == 48
    assert found.metrics["rollout/extra_rollouts"] == 0.0 == found.metrics["rollout/hot_rollouts"]
    assert found.batch.tempered is not None and not found.batch.tempered.any()


def test_the_slice_is_drawn_by_the_generator_given() -> None:
    places = []
    for seed in (0, 0, 1, 2):
        generator = torch.Generator().manual_seed(seed)
        batch = collected(ENTROPY, [MIXED] * 4, [], generator=generator).batch
        assert batch.tempered is not None
        places.append((batch.tempered.tolist(), batch.actions.tolist()))
    assert places[0] == places[1] and len({str(place) for place in places}) == 3


@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
def test_a_reward_that_is_not_finite_is_an_error(broken: float) -> None:
    with pytest.raises(ValueError, match="3 of 48 rewards are not finite"):
        collected(ENTROPY, [[broken, 0, 0, 1]] + [MIXED] * 3, [])


def test_moves_are_drawn_at_the_tempering_and_recorded_at_the_rollout_s_temperature(
    vec_of: VecOf,
) -> None:
    batches = []
    for tempering in (1.0, 0.1):
        vec, generator = vec_of(5), torch.Generator().manual_seed(0)
        sampler = Sampler(make_policy(), 1.3, generator, torch.device("cpu"), tempering=tempering)
        state = start_rollout(vec, 1)
        batches.append(collect_positions(vec, sampler, state, num_plies=1, group_size=400)[0])
    plain, cold = batches
    assert cold.temperature == 1.3
    assert torch.equal(plain.old_legal_logprobs, cold.old_legal_logprobs)
    assert torch.equal(cold.old_logprobs, cold.old_legal_logprobs.gather(-1, cold.slots))
    for batch, tempering in ((plain, 1.0), (cold, 0.1)):
        expected = torch.softmax(batch.old_legal_logprobs / tempering, -1)
        drawn = torch.nn.functional.one_hot(batch.slots, expected.shape[-1]).double().mean(-2)
        assert (drawn - expected).abs().max() < 0.1
    assert (
        plain.old_legal_logprobs.exp() - torch.softmax(plain.old_legal_logprobs / 0.1, -1)
    ).abs().max() > 0.3


def test_a_tempering_of_one_draws_what_was_drawn_before() -> None:
    dist = MaskedCategorical(torch.randn(6, 5), torch.ones(6, 5, dtype=torch.bool), 1.3)
    policy = make_policy()
    sampler = Sampler(policy, 1.3, torch.Generator().manual_seed(4), torch.device("cpu"))
    expected = dist.sample(7, torch.Generator().manual_seed(4))
    assert torch.equal(sampler.draw(dist, 7), expected)


# Settings and runs.


NOTHING = Needs()


@dataclasses.dataclass(frozen=True)
class Asking(Plain):
    """Plain REINFORCE with needs that do not go together.

    Attributes:
        group_size: samples of a position.
        update_epochs: passes.
        asked: its needs.
    """

    asked: Needs = NOTHING

    def needs(self) -> Needs:
        return self.asked


def config_of(algorithm: Any, form: Any = "positions") -> TrainConfig:
    return TrainConfig(
        algorithm,
        rollout=RolloutConfig(form=form),
        env=EnvConfig(evaluator="builtin", reward="success"),
    )


def test_games_are_refused_with_the_reason() -> None:
    check_settings(config_of(AEPO()))
    with pytest.raises(ValueError, match=r"so that no game is a success; set rollout.form to pos"):
        check_settings(config_of(AEPO(), "games"))


@pytest.mark.parametrize(
    "other", [{"live_groups": True}, {"critic": Critic()}, {"all_moves": True}]
)
def test_needs_that_do_not_go_with_tempered_samples_are_refused(other: dict[str, Any]) -> None:
    algorithm = Asking(asked=Needs(tempered=SLICE, **other))
    with pytest.raises(
        ValueError, match=r"successes at another temperature.*switch one of the two"
    ):
        check_settings(config_of(algorithm))


RUN: dict[str, Any] = {
    "algorithm": AEPO(group_size=4, tempered_share=0.3, ent_target=9.0),
    "env": EnvConfig(evaluator="builtin", max_plies=6, reward="success"),
    "total_moves": 4 * 64,
}


def test_a_run_that_is_stopped_and_continued_equals_one_that_is_not(tmp_path: Path) -> None:
    _, stopped, straight = stopped_and_straight(tmp_path, 2, **RUN | {"total_moves": 6 * 64})
    keys = ("rollout/tempered_samples", "rollout/tempered_groups", "policy/entropy")
    for a, b in zip(rows_without_time(stopped)[1:], rows_without_time(straight)[1:], strict=True):
        assert [a[key] for key in keys] == [b[key] for key in keys]
    assert sum(row["rollout/tempered_samples"] for row in rows_without_time(straight)[1:]) > 0


@pytest.mark.parametrize("shards", [1, 2])
def test_two_runs_of_one_seed_are_equal_and_every_scored_move_counts(
    tmp_path: Path, shards: int
) -> None:
    for name in ("one", "other"):
        train(tiny(tmp_path / name, num_shards=shards, **RUN), display=Watcher())
    assert_same(final_state(tmp_path / "one"), final_state(tmp_path / "other"))
    rows = rows_without_time(tmp_path / "one")[1:]
    before = 0.0
    for row in rows:
        further = 8 * 4 * (row["rollout/extra_rollouts"] > 0)  # a ply on each of 8 boards
        assert row["scored_moves"] - before == 64 + further
        before = row["scored_moves"]
        assert row["rollout/hot_rollouts"] == row["rollout/extra_rollouts"]


@pytest.mark.parametrize("target", [0.0, 9.0])
def test_preflight_and_doctor_find_in_it_what_they_find_without_tempered_samples(
    tmp_path: Path, target: float
) -> None:
    """Its ratios begin at 1, for tempered samples are recorded at the temperature that is learned at."""
    found = {}
    for share in (0.0, 0.5):
        algorithm = AEPO(group_size=4, tempered_share=share, ent_target=target)
        run = tiny(tmp_path / str(share), **RUN | {"algorithm": algorithm})
        train(run, display=Watcher())
        rows: list[Any] = read_metrics(tmp_path / str(share))
        found[share] = {finding.name for finding in diagnose(rows).causes}
        assert rows[1]["step0/ratio_error"] < 1e-5
        assert all(row["ratio/max_first_minibatch"] < 1 + 1e-5 for row in rows[1:])
        if share:
            assert any(row["rollout/tempered_samples"] > 0 for row in rows[1:])
    assert found[0.5] <= found[0.0]
