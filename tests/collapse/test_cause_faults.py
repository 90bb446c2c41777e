"""A fault does to a session exactly what it says, and nothing but a cause's own run has one."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from algorithms.collapse import CAUSES, COMPOSITES, experiment, faults
from algorithms.config.run import EnvConfig, RolloutConfig, TrainConfig
from algorithms.core.batch import RolloutBatch
from algorithms.networks.build import scale_logits
from algorithms.networks.policy_net import PolicyNet
from algorithms.networks.settings import NetworkConfig, PrecisionConfig
from algorithms.training.session import Session
from tests.collapse.bits import differing, equal, weights
from tests.training.faults import SMALL, session_of

ROOT = Path(__file__).parents[2]
POLICIES = {"resnet": SMALL, "move_net": NetworkConfig(network="move_net", size="tiny")}
ACTION_BIAS = {"resnet": "action_bias", "move_net": "head.action_bias"}
LINEAR_IN = {
    "resnet": {"to_vector.weight", "to_vector.bias", "action_bias", "promotion_bias"},
    "move_net": {
        "head.score.weight", "head.to_vector.weight", "head.to_vector.bias", "head.action_bias",
        "head.promotion_bias",
    },
}  # fmt: skip
"""Network -> the names of the parameters that its logits are linear in."""


def moved(session: Session) -> None:
    """Another policy, as after an update."""
    with torch.no_grad():
        for parameter in session.policy.parameters():
            parameter.add_(0.01)


def plain_batches(count: int = 1, **changes: Any) -> list[RolloutBatch]:
    with session_of(3, spread=1.0, **changes) as session:
        return [session.rollout().batch for _ in range(count)]


def test_a_learners_temperature_changes_only_the_number_in_the_batch() -> None:
    plain = plain_batches(2)
    with session_of(3, spread=1.0) as session:
        faults.learner_temperature(0.5)(session)
        assert session.learner.behaviour is session.policy and session.worker.temperature == 1.0
        for expected in plain:
            batch = session.rollout().batch
            assert batch.temperature == 0.5 and expected.temperature == 1.0
            assert differing(batch, expected) == {"temperature"}
        assert session.worker.temperature == 1.0  # what samples stays where it was


SAMPLERS: dict[str, Callable[[Session], None]] = {
    "precision": faults.sampler_precision(head_dtype="bfloat16"),
    "dropout": faults.sampler_drops_features,
    "noise": faults.sampler_keeps_noise(0.8),
}


@pytest.mark.parametrize("name", list(SAMPLERS))
@pytest.mark.parametrize("network", POLICIES)
def test_a_samplers_fault_leaves_the_learner_alone_and_follows_its_weights(
    name: str, network: str
) -> None:
    bias = ACTION_BIAS[network]
    with session_of(3, spread=1.0, policy=POLICIES[network]) as session:
        config, before = session.policy.config, weights(session.policy)
        SAMPLERS[name](session)
        session.rollout()
        assert equal(weights(session.policy), before) == set(before)
        assert session.policy.config == config and not session.policy.training
        assert session.learner.behaviour is not session.policy
        assert not any(p.requires_grad for p in session.learner.behaviour.parameters())
        moved(session)
        session.progress.update += 1
        session.rollout()
        own, learner = weights(session.learner.behaviour), weights(session.policy)
        assert not equal(learner, before)
        assert set(own) - equal(own, learner) == ({bias} if name == "noise" else set())


def recomputed(policy: PolicyNet, batch: RolloutBatch) -> torch.Tensor:
    """float32 `[P, T, L]` log-probabilities ply by ply, in the shapes in which they were sampled."""
    facts = batch.move_facts
    with torch.no_grad():
        found = [
            policy.outputs(
                batch.obs[:, t], batch.legal_ids[:, t], 1.0, None if facts is None else facts[:, t]
            ).dist.logprobs
            for t in range(batch.obs.shape[1])
        ]
    return torch.stack(found, 1)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_a_coarser_head_samples_and_its_logprobs_are_kept(policy: NetworkConfig) -> None:
    with session_of(3, spread=1.0, policy=policy) as session:
        faults.sampler_precision(head_dtype="bfloat16")(session)
        batch = session.rollout().batch
        assert session.learner.behaviour.precision == PrecisionConfig(head_dtype="bfloat16")
        legal = batch.legal_ids >= 0
        kept = batch.old_legal_logprobs[legal]
        assert torch.equal(kept, recomputed(session.learner.behaviour, batch)[legal])
        off = (kept - recomputed(session.policy, batch)[legal]).abs().max()
        assert 1e-5 < off < 0.1


@pytest.mark.parametrize("plain", POLICIES.values(), ids=POLICIES)
def test_dropout_is_drawn_anew_in_every_pass_of_the_sampler_alone(plain: NetworkConfig) -> None:
    policy = dataclasses.replace(plain, dropout=0.5)
    with session_of(3, spread=1.0, policy=policy) as session:
        faults.sampler_drops_features(session)
        batch = session.rollout().batch
        assert session.learner.behaviour.training and not session.policy.training
        legal = batch.legal_ids >= 0
        twice = [recomputed(session.learner.behaviour, batch)[legal] for _ in range(2)]
        assert not torch.equal(*twice)
        learner = [recomputed(session.policy, batch)[legal] for _ in range(2)]
        assert torch.equal(*learner)


def noise(session: Session) -> torch.Tensor:
    sampler, learner = (
        policy.logit_factors().action_bias.detach()
        for policy in (session.learner.behaviour, session.policy)
    )
    return sampler - learner


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_noise_is_the_same_in_every_rollout_and_of_the_size_that_it_says(
    policy: NetworkConfig,
) -> None:
    found = []
    for seed in (3, 3, 4):
        with session_of(seed, policy=policy) as session:
            faults.sampler_keeps_noise(0.8)(session)
            batch = session.rollout().batch
            found.append(noise(session))
            legal = batch.legal_ids >= 0
            again = recomputed(session.learner.behaviour, batch)[legal]
            assert torch.equal(again, batch.old_legal_logprobs[legal])
            moved(session)
            session.rollout()
            torch.testing.assert_close(noise(session), found[-1], atol=1e-6, rtol=0)
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])
    assert float(found[0].std()) == pytest.approx(0.8, rel=0.05)
    assert abs(float(found[0].mean())) < 0.06  # 3 standard errors of 1,858 values


def squashed(batch: RolloutBatch, session: Session) -> torch.Tensor:
    faults.squashed_reward(20.0)(session)
    (squash,) = session.worker.transforms
    return squash(batch).rewards


def test_a_squashed_reward_is_the_change_of_tanh_by_hand() -> None:
    with session_of(3) as session:
        batch = session.rollout().batch
        before, after = torch.zeros_like(batch.before_cp), torch.zeros_like(batch.score_cp)
        before[0], after[0, :, :3] = 0, torch.tensor([20, -20, 900], dtype=after.dtype)
        before[1], after[1] = 20, -20
        before[2], after[2] = 2_000, 1_000  # a rook and more, and no reward to see it by
        rewards = squashed(dataclasses.replace(batch, before_cp=before, score_cp=after), session)
    assert rewards.dtype == batch.rewards.dtype and rewards.shape == batch.rewards.shape
    torch.testing.assert_close(rewards[0, 0, :3], torch.tensor([0.761594, -0.761594, 1.0]))
    torch.testing.assert_close(rewards[1], torch.full_like(rewards[1], -1.523188))
    assert (rewards[2] == 0).all()


def test_a_squashed_reward_in_games_is_that_of_each_move() -> None:
    rollout = RolloutConfig(form="games", num_envs=2, num_plies=2)
    with session_of(3, rollout=rollout) as session:
        batch = session.rollout().batch
        assert batch.before_cp.shape == batch.score_cp.shape
        scores = {"before_cp": torch.full_like(batch.before_cp, 20),
                  "score_cp": torch.full_like(batch.score_cp, -20)}  # fmt: skip
        rewards = squashed(dataclasses.replace(batch, **scores), session)
    torch.testing.assert_close(rewards, torch.full_like(rewards, -1.523188))


def test_a_squashed_reward_changes_nothing_but_the_rewards() -> None:
    (plain,) = plain_batches()
    with session_of(3, spread=1.0) as session:
        faults.squashed_reward(20.0)(session)
        assert differing(session.rollout().batch, plain) == {"rewards"}


@pytest.mark.parametrize("factor", [8.0, 3.0])
@pytest.mark.parametrize("network", POLICIES)
def test_a_scaled_start_multiplies_every_logit(factor: float, network: str) -> None:
    with session_of(3, spread=1.0, policy=POLICIES[network]) as session:
        with torch.no_grad():
            for seed, parameter in enumerate(session.policy.logit_factors().others):
                parameter.normal_(generator=torch.Generator().manual_seed(seed))
        flat = session.rollout().batch.flat()
        legal, before = flat.legal_ids >= 0, weights(session.policy)
        with torch.no_grad():
            plain = session.policy(flat.obs, flat.legal_ids, flat.move_facts)[legal]
            scale_logits(session.policy, factor)
            sharp = session.policy(flat.obs, flat.legal_ids, flat.move_facts)[legal]
        if factor == 8.0:  # a power of two rounds nowhere
            assert torch.equal(sharp, 8.0 * plain)
        torch.testing.assert_close(sharp, factor * plain)
        assert set(before) - equal(before, weights(session.policy)) == LINEAR_IN[network]


def tiny_session(name: str, *, cured: bool, monkeypatch: pytest.MonkeyPatch) -> Session:
    """What `run_cause` hands to the trainer, of a small network on two boards."""
    made: list[Session] = []

    class Done(Exception):
        pass

    def no_training(config: TrainConfig, *, make_session: Any, watch: Any) -> None:
        small = dataclasses.replace(
            config, init_from=None, policy=SMALL, device="cpu", env=EnvConfig(evaluator="builtin"),
            rollout=dataclasses.replace(config.rollout, num_envs=2, num_plies=1),
        )  # fmt: skip
        made.append(make_session(small, fresh=True))
        raise Done

    monkeypatch.setattr(experiment, "train", no_training)
    with pytest.raises(Done):
        experiment.run_cause((CAUSES | COMPOSITES)[name], cured=cured, seed=0)
    made[0].close()
    return made[0]


def is_plain(session: Session) -> bool:
    """Whether it is what `Session(config)` makes: the policy plays, nothing stands in between."""
    fresh = Session(session.config)
    fresh.close()
    stale = session.config.rollout.sync_interval_updates > 1
    assert (fresh.learner.behaviour is fresh.policy) != stale
    one, other = weights(session.policy), weights(fresh.policy)
    behaviours = session.learner.behaviour, fresh.learner.behaviour
    return (
        vars(session).keys() == vars(fresh).keys()
        and vars(session.worker).keys() == vars(fresh.worker).keys()
        and not session.worker.transforms
        and not session.worker.after_sync
        and (behaviours[0] is session.policy) == (behaviours[1] is fresh.policy)
        and behaviours[0].training == behaviours[1].training
        and behaviours[0].config == behaviours[1].config
        and behaviours[0].precision == behaviours[1].precision
        and equal(one, other) == set(one)
    )


@pytest.mark.parametrize("name", list(CAUSES | COMPOSITES))
def test_a_fault_is_in_the_run_of_its_cause_and_in_no_other(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cause = (CAUSES | COMPOSITES)[name]
    with_it = tiny_session(name, cured=False, monkeypatch=monkeypatch)
    assert with_it.config.checkpoint_keep == 20
    assert is_plain(with_it) == (cause.fault is None)
    if not cause.composite:
        twin = tiny_session(name, cured=True, monkeypatch=monkeypatch)
        assert is_plain(twin)


def test_nothing_outside_the_laboratory_can_reach_a_fault() -> None:
    reach = re.compile(r"(from|import)\s+algorithms\.collapse\b")
    found = set()
    for path in [*(ROOT / "algorithms").rglob("*.py"), *(ROOT / "chess_env").rglob("*.py")]:
        where = path.relative_to(ROOT).as_posix()
        if where.startswith("algorithms/collapse/"):
            continue
        text = path.read_text(encoding="utf-8")
        assert "collapse.faults" not in text, where
        if where.startswith("algorithms/comparison/"):  # it compares what the causes' settings do
            continue
        if reach.search(text):
            found.add(where)
    # One lists the causes' names for a shell and runs none of them.
    names = ("causes", "compare", "completion", "remedies")
    assert found == {f"algorithms/commands/{name}.py" for name in names}


def test_the_streams_of_a_faulty_run_are_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    for _ in range(2):
        torch.rand(7)  # whatever the process has drawn before
        tiny_session("dropout_in_rollout", cured=False, monkeypatch=monkeypatch)
        drawn.append(torch.rand(4))
    assert torch.equal(*drawn)
