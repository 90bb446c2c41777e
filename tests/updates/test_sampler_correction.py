"""Samples of another policy than the learner, weighed by truncated importance sampling or IcePop."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.config.compatibility import check_settings
from algorithms.config.run import OptimizerConfig, TrainConfig
from algorithms.core.algorithm import Critic, Needs
from algorithms.exact import Exact
from algorithms.grpo import GRPO
from algorithms.updates.training_batch import corrected
from tests.small import VecOf, make_batch, make_policy
from tests.updates.recording_algorithm import (
    RecordingAlgorithm,
    critic_and_batch,
    flat_weights,
    run,
)

LOG_RATIOS = torch.tensor([[math.log(0.25), math.log(0.5), 0.0, math.log(1.5), math.log(8.0)]])
KINDS = ("tis", "icepop")


def weights_of(kind: Any, **bounds: float) -> list[float]:
    """The corrections of five samples whose learner / sampler is .25, .5, 1, 1.5 and 8."""
    valid = torch.ones(1, 5, dtype=torch.bool)
    sampler = torch.full((1, 5), -2.0)
    settings = OptimizerConfig(sampler_correction=kind, **bounds)
    return corrected(sampler + LOG_RATIOS, sampler, valid, settings)[0].tolist()


def test_tis_clamps_the_weight_and_icepop_leaves_the_sample_out() -> None:
    assert weights_of("tis") == pytest.approx([0.25, 0.5, 1.0, 1.5, 2.0])
    assert weights_of("tis", correction_low=0.4, correction_high=1.2) == pytest.approx(
        [0.4, 0.5, 1.0, 1.2, 1.2]
    )
    bounds = {"correction_low": 0.4, "correction_high": 1.6}
    assert weights_of("icepop", **bounds) == pytest.approx([0.0, 0.5, 1.0, 1.5, 0.0])
    assert weights_of("icepop")[-1] == 0.0 and weights_of("icepop")[3] == pytest.approx(1.5)


@given(seed=st.integers(0, 2**31), kind=st.sampled_from(KINDS))
@settings(max_examples=30)
def test_with_open_bounds_the_expected_gradient_of_the_sampler_s_moves_is_the_learner_s(
    seed: int, kind: Any
) -> None:
    generator = np.random.default_rng(seed)
    learner, sampler, rewards = generator.normal(size=(3, 6))
    pi, mu = (np.exp(each) / np.exp(each).sum() for each in (learner, sampler))
    log_pi, log_mu = (torch.from_numpy(np.log(each))[None] for each in (pi, mu))
    open_bounds = OptimizerConfig(sampler_correction=kind, correction_low=0.0, correction_high=1e12)
    weights = corrected(log_pi, log_mu, torch.ones(1, 6, dtype=torch.bool), open_bounds)[0].numpy()
    scores = np.eye(6) - pi  # row a: the gradient of log pi(a) at the logits
    found = (mu * weights * rewards) @ scores
    np.testing.assert_allclose(found, (pi * rewards) @ scores, rtol=1e-10, atol=1e-13)


def test_what_is_not_valid_is_not_looked_at() -> None:
    valid = torch.tensor([[True, False]])
    junk = torch.tensor([[-1.0, torch.nan]])
    settings = OptimizerConfig(sampler_correction="tis")
    assert corrected(junk, junk, valid, settings).tolist() == [[1.0, 0.0]]


def test_where_the_learner_sampled_itself_a_correction_changes_nothing() -> None:
    batch = make_batch()
    for kind in KINDS:
        plain, kept = make_policy(), make_policy()
        metrics = run(kept, batch, GRPO(), rate=0.1, sampler_correction=kind)
        run(plain, batch, GRPO(), rate=0.1)
        torch.testing.assert_close(flat_weights(kept), flat_weights(plain), rtol=1e-4, atol=1e-6)
        assert metrics["correction/weight_mean"] == pytest.approx(1.0, abs=1e-5)
        assert metrics["correction/out_of_bounds"] == 0.0


def test_the_ratio_starts_at_one_and_the_correction_carries_the_gap() -> None:
    batch, policy = make_batch(), make_policy()
    hot = dataclasses.replace(batch, temperature=2.0)  # the learner's, not the sampler's
    plain = run(policy, hot, GRPO())
    assert plain["ratio/std_first_minibatch"] > 0.01
    metrics = run(policy, hot, GRPO(), sampler_correction="tis")
    assert metrics["ratio/std_first_minibatch"] < 1e-5
    assert metrics["ratio/mismatch"] > 0.1
    assert metrics["correction/weight_mean"] != pytest.approx(1.0, abs=1e-3)
    beyond = run(policy, hot, GRPO(), sampler_correction="icepop")["correction/out_of_bounds"]
    assert 0.0 <= beyond < 1.0


def test_a_critic_s_loss_is_not_weighed(vec_of: VecOf) -> None:
    policy, batch = critic_and_batch(vec_of)
    shifted = dataclasses.replace(batch, old_logprobs=batch.old_logprobs - 0.5)
    algorithm = RecordingAlgorithm(Needs(critic=Critic(vf_coef=0.7)))
    plain = run(policy, shifted, algorithm)
    metrics = run(policy, shifted, algorithm, sampler_correction="tis")
    assert metrics["train/value_loss"] == pytest.approx(plain["train/value_loss"])
    factor = metrics["train/policy_loss"] / plain["train/policy_loss"]
    assert factor == pytest.approx(math.exp(0.5), rel=1e-4)


def test_impossible_corrections_are_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match="nothing is corrected.*tis or icepop"):
        OptimizerConfig(correction_high=2.0)
    with pytest.raises(ValueError, match="the weight has no range"):
        OptimizerConfig(sampler_correction="tis", correction_low=3.0)
    with pytest.raises(ValueError, match="expected one of 'none', 'tis', 'icepop'"):
        OptimizerConfig(sampler_correction="tis,icepop")  # type: ignore[arg-type]
    exact = TrainConfig(Exact(), optimizer=OptimizerConfig(sampler_correction="tis"))
    with pytest.raises(ValueError, match="nothing was drawn that could be corrected"):
        check_settings(exact)
    twice = RecordingAlgorithm(Needs(corrects_sampler=True))
    with pytest.raises(ValueError, match="corrected twice"):
        check_settings(dataclasses.replace(exact, algorithm=twice))
