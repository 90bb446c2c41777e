"""The signal chain: its identities hold in every sound update, and each fault breaks its own link."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from algorithms import PRESETS
from algorithms.collapse.faults import learner_temperature, sampler_keeps_noise
from algorithms.config.run import EnvConfig, OptimizerConfig, RolloutConfig, TrainConfig
from algorithms.core.batch import RolloutBatch
from algorithms.diagnostics.entropy_prediction import sampled_pull
from algorithms.diagnostics.signal_chain import (
    Audit,
    HeldoutMoves,
    SignalChain,
    _cosine,
    _Replay,
)
from algorithms.networks.settings import NetworkConfig
from algorithms.regularization import RegularizerConfig
from algorithms.reports.run_files import read_metrics
from algorithms.training import observer
from algorithms.training.session import Session
from algorithms.training.trainer import train
from chess_env.evaluators import EngineError
from chess_env.evaluators.builtin import BuiltinEvaluator
from chess_env.rules.fen import pack_fens
from chess_env.rules.rules import legal_actions_batch
from tests.training.runs import Watcher, assert_same, final_state
from tests.updates.learners import learner_of

IDENTITIES = ("signal/reward", "signal/ratio", "signal/step")
MOVE_NET = NetworkConfig(network="move_net", size="tiny")

Fault = Callable[[Session], None]


def measured(
    folder: Path,
    preset: str = "grpo",
    fault: Fault = lambda session: None,
    *,
    updates: int = 2,
    algorithm: dict[str, Any] = {},  # noqa: B006 - only read
    **changes: Any,
) -> list[dict[str, float]]:
    """The rows of a run with this fault, every update of which is measured."""
    instance, regularizer = PRESETS[preset]
    instance = dataclasses.replace(instance, **algorithm)
    form: Any = "games" if instance.needs().whole_games else "positions"
    rollout = changes.pop("rollout", RolloutConfig(form=form, num_envs=16, num_plies=2))
    samples = 32 if instance.needs().all_moves else instance.group_size
    rollouts = 1 if instance.needs().tempered is None else 2  # of an update
    defaults: dict[str, Any] = {
        "regularizer": regularizer,
        "policy": MOVE_NET,
        "env": EnvConfig(evaluator="builtin", num_threads=1),
        "optimizer": OptimizerConfig(lr_final=None, minibatch_size=8),
        "total_moves": updates * rollouts * rollout.num_envs * rollout.num_plies * samples,
        "diagnostics_interval_updates": 1,
        "eval_interval_updates": 100,
        "device": "cpu",
        "preflight": False,
        "seed": 5,
    }
    config = TrainConfig(instance, rollout=rollout, run_dir=folder, **defaults | changes)

    def make_session(settings: TrainConfig, **built: Any) -> Session:
        session = Session(settings, **built)
        fault(session)
        return session

    train(config, make_session=make_session, display=Watcher())
    return [row for row in read_metrics(folder) if "signal/vanished" in row]


def values(rows: list[dict[str, float]], name: str) -> list[float]:
    return [row[f"signal/{name}"] for row in rows]


def mean(rows: list[dict[str, float]], name: str) -> float:
    return float(np.mean(values(rows, name)))


@pytest.mark.parametrize("preset", PRESETS)
def test_reward_ratio_and_step_lose_nothing_in_a_sound_update_of(
    preset: str, tmp_path: Path
) -> None:
    algorithm, regularizer = PRESETS[preset]
    form: Any = "games" if algorithm.needs().whole_games else "positions"
    rollout = RolloutConfig(form=form, num_envs=8, num_plies=2, temperature=1.3)
    # With this seed the second update is measured, which begins at a policy that is not uniform.
    once = {"rollout": rollout, "preflight": True, "diagnostics_interval_updates": 2}
    row, *_ = measured(tmp_path / "run", preset, **once)
    assert row["step"] == 2
    for name in IDENTITIES:
        assert row[name] == pytest.approx(1.0, abs=1e-3), name
    assert row["ratio/mismatch"] <= 1e-5 and row["train/skipped_steps"] == 0
    assert math.isfinite(row["train/loss"])
    known = algorithm.needs().group_scale is not None and not regularizer.repo_coef
    assert ("signal/advantages" in row) == (known and preset != "gspo")
    assert row.get("signal/advantages", 1.0) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(
    "changes",
    [
        {"rollout": RolloutConfig(form="games", num_envs=4, num_plies=6)},
        {"policy": NetworkConfig(network="resnet", channels=16, blocks=1, head_dim=8)},
        {"policy": NetworkConfig(network="transformer", size="tiny")},
        {"num_shards": 2},
        {"signal_chain": "full"},
        {"optimizer": OptimizerConfig(frozen_layers=("embedding",), warmup_updates=3)},
        {"preset": "exact", "algorithm": {"forward_kl_temperature": 0.1}},
    ],
    ids=[
        "games",
        "resnet",
        "transformer",
        "shards",
        "full",
        "frozen layers",
        "forward KL",
    ],
)
def test_nothing_is_lost_either_with(changes: dict[str, Any], tmp_path: Path) -> None:
    rows = measured(tmp_path / "run", **changes)
    assert len(rows) >= 2
    for row in rows:
        for name in IDENTITIES:
            assert row[name] == pytest.approx(1.0, abs=1e-3), name
    if "algorithm" in changes:  # its loss has no clip, and is not made of the advantages
        assert values(rows, "clip") == pytest.approx([1.0] * len(rows))


@pytest.mark.parametrize(
    "reward, least", [("regret", 0.999), ("win_prob_delta", 0.999), ("asinh400_delta", 0.85)]
)
def test_another_sound_reward_loses_little(reward: str, least: float, tmp_path: Path) -> None:
    env = EnvConfig(evaluator="builtin", reward=reward, num_threads=1)
    rows = measured(tmp_path / "run", env=env)
    assert least < mean(rows, "reward") <= 1.0 + 1e-3
    assert values(rows, "reward") == pytest.approx(values(rows, "reward_expected"), abs=1e-3)


@pytest.mark.stockfish
def test_nothing_is_lost_with_stockfish(tmp_path: Path) -> None:
    env = EnvConfig(evaluator="stockfish:depth=4", num_engines=1)
    rollout = RolloutConfig(num_envs=4, num_plies=2)
    rows = measured(tmp_path / "run", env=env, rollout=rollout)
    assert len(rows) == 2
    for row in rows:
        assert [row[name] for name in IDENTITIES] == pytest.approx([1.0] * 3, abs=1e-3)


def test_a_run_is_the_same_to_the_bit_whether_it_is_measured_or_not(tmp_path: Path) -> None:
    for name in ("full", "off"):
        rollout = RolloutConfig(num_envs=8, num_plies=2)
        measured(tmp_path / name, "ppo", signal_chain=name, rollout=rollout)
    assert_same(final_state(tmp_path / "full"), final_state(tmp_path / "off"))


def on_rewards(change: Callable[[torch.Tensor, RolloutBatch], torch.Tensor]) -> Fault:
    """A fault that changes the rewards of every rollout."""

    def fault(session: Session) -> None:
        session.worker.transforms.append(
            lambda batch: dataclasses.replace(batch, rewards=change(batch.rewards, batch))
        )

    return fault


def shuffled(rewards: torch.Tensor, batch: RolloutBatch) -> torch.Tensor:
    order = torch.randperm(rewards.numel(), generator=torch.Generator().manual_seed(0))
    return rewards.reshape(-1)[order].reshape(rewards.shape)


def wrong_for_black(rewards: torch.Tensor, batch: RolloutBatch) -> torch.Tensor:
    return torch.where(batch.side.unsqueeze(-1) == 1, rewards, -rewards)


class HalfWrong(BuiltinEvaluator):
    """An evaluator of a user's own that scores every second position with the wrong sign."""

    def _score_ongoing(self, positions: NDArray[np.uint64]) -> NDArray[np.int32]:
        scores = super()._score_ongoing(positions)
        return np.where(np.bitwise_count(positions[:, 6]) % 2 == 1, scores, -scores)


@pytest.mark.parametrize(
    "fault, at_most",
    [
        (on_rewards(lambda rewards, _: -rewards), -0.999),
        (on_rewards(shuffled), 0.5),
        (on_rewards(wrong_for_black), 0.8),
        (on_rewards(lambda rewards, _: torch.tanh(20 * rewards)), 0.9),
    ],
    ids=["negated", "shuffled", "wrong for Black", "squashed"],
)
def test_wrong_rewards_break_the_reward_link_alone(
    fault: Fault, at_most: float, tmp_path: Path
) -> None:
    rows = measured(tmp_path / "run", fault=fault)
    assert mean(rows, "reward") < at_most
    assert values(rows, "ratio") == pytest.approx([1.0] * 2, abs=1e-3)
    assert values(rows, "step") == pytest.approx([1.0] * 2, abs=1e-3)


def test_a_users_evaluator_that_is_wrong_for_half_of_the_positions_breaks_the_reward_link(
    tmp_path: Path,
) -> None:
    env = EnvConfig(evaluator=f"{__name__}:HalfWrong", num_threads=1)
    rows = measured(tmp_path / "run", env=env)
    assert mean(rows, "reward") < 0.5
    assert values(rows, "step") == pytest.approx([1.0] * 2, abs=1e-3)


def test_a_reward_for_games_alone_is_not_compared_with_what_a_move_is_worth(tmp_path: Path) -> None:
    env = EnvConfig(evaluator="builtin", reward="outcome", num_threads=1)
    rows = measured(tmp_path / "run", env=env)
    assert rows and not any("signal/reward" in row for row in rows)


def test_rewards_that_are_all_equal_keep_nothing(tmp_path: Path) -> None:
    rows = measured(tmp_path / "run", "dr_grpo", on_rewards(lambda rewards, _: 0 * rewards))
    assert values(rows, "reward") == [0.0] * 2 and min(values(rows, "draw")) > 0.3
    assert all(value is None for value in values(rows, "credit"))


def test_rewards_are_unharmed_by_another_unit_or_a_constant_of_the_position(tmp_path: Path) -> None:
    def moved(rewards: torch.Tensor, batch: RolloutBatch) -> torch.Tensor:
        return 3 * rewards + batch.ply.unsqueeze(-1)

    rows = measured(tmp_path / "run", fault=on_rewards(moved))
    assert values(rows, "reward") == pytest.approx([1.0] * 2, abs=1e-3)


@pytest.mark.parametrize(
    ("fault", "scale"),
    # A uniform policy is the same at every temperature.
    [(learner_temperature(1.5), 8.0), (sampler_keeps_noise(1.5), 1.0)],
    ids=["temperature", "noise in the sampler, from random weights"],
)
def test_a_sampler_that_is_not_the_learner_breaks_the_ratio_link_alone(
    fault: Fault, scale: float, tmp_path: Path
) -> None:
    rows = measured(tmp_path / "run", fault=fault, init_logit_scale=scale)
    assert mean(rows, "ratio") < 0.9
    assert values(rows, "reward") == pytest.approx([1.0] * 2, abs=1e-3)
    assert values(rows, "step") == pytest.approx([1.0] * 2, abs=1e-3)


def frozen(session: Session) -> None:
    session.learner.optimizer.step = lambda: None  # type: ignore[method-assign]


def large_eps(session: Session) -> None:
    session.learner.optimizer = torch.optim.Adam(session.learner.trained, lr=1e-3, eps=0.1)


def decayed(session: Session) -> None:
    session.learner.optimizer = torch.optim.AdamW(
        session.learner.trained, lr=1e-3, weight_decay=100.0
    )


def gradients_lost(session: Session) -> None:
    """Those of all parameters but the last ones are 0, and the optimizer never knows."""
    for parameter in session.learner.trained[:-2]:
        parameter.register_hook(torch.zeros_like)


def half_the_batch(session: Session) -> None:
    """The gradient is of half of what it should be, as where one of two processes is not heard."""
    backward = session.learner.passes.backward

    def lossy(policy: Any, loss: torch.Tensor) -> None:
        backward(policy, loss)
        for number, parameter in enumerate(session.learner.trained):
            if number % 2 and parameter.grad is not None:
                parameter.grad.zero_()

    session.learner.passes.backward = lossy  # type: ignore[method-assign]


@pytest.mark.parametrize(
    "fault, at_most",
    [
        (frozen, 1e-6), (large_eps, 0.2), (decayed, 0.5), (gradients_lost, 0.5), (half_the_batch, 0.7),
    ],
)  # fmt: skip
def test_a_step_that_is_not_adams_breaks_the_step_link_alone(
    fault: Fault, at_most: float, tmp_path: Path
) -> None:
    rows = measured(tmp_path / "run", fault=fault, updates=1, init_logit_scale=8.0)
    assert max(values(rows, "step")) <= at_most
    for name in ("reward", "ratio"):
        assert values(rows, name) == pytest.approx([1.0], abs=1e-3)


@dataclasses.dataclass(frozen=True)
class Negated(type(PRESETS["dr_grpo"][0])):  # type: ignore[misc]
    """Advantages with the wrong sign."""

    name = "negated"

    def advantages(self, batch: RolloutBatch) -> torch.Tensor:
        return -super().advantages(batch)


def test_advantages_with_the_wrong_sign_break_the_credit_link_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PRESETS, "negated", (Negated(advantage_scale="none"), RegularizerConfig()))
    rows = measured(tmp_path / "run", "negated")
    for name in ("credit", "advantages"):
        assert values(rows, name) == pytest.approx([-1.0] * 2, abs=1e-3)
    for name in ("reward", "ratio", "step"):
        assert values(rows, name) == pytest.approx([1.0] * 2, abs=1e-3)


def test_a_bonus_that_outweighs_the_rewards_breaks_the_objective_link_alone(tmp_path: Path) -> None:
    bonus = RegularizerConfig(ent_coef=3.0)
    # A uniform policy has no more entropy to gain.
    rows = measured(tmp_path / "run", regularizer=bonus, init_logit_scale=8.0)
    assert mean(rows, "objective") < 0.5
    for name in IDENTITIES:
        assert [row[name] for row in rows] == pytest.approx([1.0] * 2, abs=1e-3)


def test_the_full_form_sees_a_clip_that_throws_most_away(tmp_path: Path) -> None:
    settings = {"clip_range": 0.001, "clip_range_high": 0.001, "update_epochs": 2}
    narrow = measured(tmp_path / "narrow", algorithm=settings, signal_chain="full", updates=1)
    wide = {"clip_range": 1.0, "clip_range_high": 100.0, "update_epochs": 2}
    open_ = measured(tmp_path / "open", algorithm=wide, signal_chain="full", updates=1)
    assert mean(narrow, "clip") < 0.7
    assert values(open_, "clip") == pytest.approx([1.0], abs=0.02)


@pytest.mark.parametrize("temperature", [0.5, 4.0])
def test_what_a_clip_keeps_is_no_other_at_another_temperature(
    temperature: float, tmp_path: Path
) -> None:
    rollout = RolloutConfig(num_envs=16, num_plies=2, temperature=temperature)
    wide = {"clip_range": 1.0, "clip_range_high": 100.0}
    rows = measured(tmp_path / "run", algorithm=wide, rollout=rollout)
    assert values(rows, "clip") == pytest.approx([1.0] * 2, abs=0.02)


def test_in_a_collapsed_policy_the_signal_has_vanished_and_the_step_alone_is_measured(
    tmp_path: Path,
) -> None:
    def collapse(session: Session) -> None:
        with torch.no_grad():
            for parameter in session.policy.parameters():
                parameter.mul_(30.0)

    rows = measured(tmp_path / "run", fault=collapse, updates=1)
    assert values(rows, "vanished") == [1.0]
    assert not {"signal/draw", "signal/reward", "signal/objective"} & rows[0].keys()
    assert values(rows, "step") == pytest.approx([1.0], abs=1e-3)


def test_a_step_gains_on_heldout_positions_what_its_gradient_predicts(tmp_path: Path) -> None:
    rows = measured(
        tmp_path / "run", "exact", updates=3, rollout=RolloutConfig(num_envs=64, num_plies=1)
    )
    assert len(rows) >= 2
    for row in rows:
        assert row["signal/gain"] > 0
        assert row["signal/gain_measured"] == pytest.approx(row["signal/gain"], rel=0.5)


def test_a_run_whose_second_evaluator_is_not_there_goes_on_without_the_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: Any, **__: Any) -> None:
        raise EngineError("there is no engine on this machine")

    monkeypatch.setattr(observer, "make_evaluator", missing)
    assert measured(tmp_path / "run") == []
    assert [row["step"] for row in read_metrics(tmp_path / "run")] == [0, 1, 2]


def chain(seed: int) -> SignalChain:
    empty = torch.zeros(0)
    return SignalChain(
        Audit(BuiltinEvaluator, None), HeldoutMoves(empty, empty, None, empty), seed=seed
    )


def test_one_of_every_ten_updates_is_measured_and_at_no_regular_place() -> None:
    drawn = [update for update in range(2000) if chain(3).measures(update, 10)]
    assert [update // 10 for update in drawn] == list(range(200))
    places = Counter(update % 10 for update in drawn)
    assert set(places) == set(range(10)) and max(places.values()) < 45
    assert drawn != [update for update in range(2000) if chain(4).measures(update, 10)]
    assert all(chain(3).measures(update, 1) for update in range(20))


def test_the_pull_of_sampled_moves_is_the_gradient_of_their_score_function() -> None:
    logits = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    logits.requires_grad_()
    slots, credit = torch.tensor([[0, 2], [1, 1], [3, 0]]), torch.randn(3, 2).double()
    logprobs = logits.log_softmax(-1)
    (wanted,) = torch.autograd.grad((credit * logprobs.gather(-1, slots)).sum(), logits)
    assert torch.allclose(sampled_pull(slots, credit, logprobs.exp()), wanted)
    assert float(_cosine(wanted.reshape(-1), -2 * wanted.reshape(-1))) == pytest.approx(-1.0)


def test_the_replayed_steps_are_those_of_torchs_adam() -> None:
    from tests.small import make_policy

    policy = make_policy()
    learner = learner_of(policy, PRESETS["grpo"][0])
    learner.optimizer = torch.optim.Adam(learner.trained, lr=0.01)
    generator = torch.Generator().manual_seed(0)

    def step(replay: _Replay | None) -> None:
        for parameter in learner.trained:
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        if replay is not None:
            replay.step()
        torch.nn.utils.clip_grad_norm_(learner.trained, learner.settings.max_grad_norm)
        learner.optimizer.step()

    step(None)
    replay = _Replay(learner, learner.trained, 0.01)
    for _ in range(3):
        step(replay)
    moved = torch.cat([parameter.detach().reshape(-1) for parameter in learner.trained])
    assert torch.allclose(replay.moved, moved, atol=1e-6)
    assert not torch.allclose(replay.before, moved, atol=1e-3)


def test_a_run_that_is_to_succeed_is_judged_by_success() -> None:
    worths = {
        reward: Audit(BuiltinEvaluator, reward).worth
        for reward in ("success", "win_prob_delta", "win_prob_delta+mate_delta", "success+outcome")
    }
    assert worths == {
        "success": "success",
        "win_prob_delta": "win_prob_delta",
        "win_prob_delta+mate_delta": "win_prob_delta+mate_delta",
        "success+outcome": "win_prob_delta",
    }
    positions = pack_fens(["4k3/8/8/3q4/4P3/8/8/4K3 w - - 0 1"])  # exd5 wins the queen
    legal_ids, count = legal_actions_batch(positions)
    legal_ids = legal_ids[:, : count[0]]
    audit = Audit(BuiltinEvaluator, "success")
    worth, paid = audit.truth(positions, legal_ids, np.zeros(legal_ids.shape, bool))
    audit.close()
    assert torch.equal(worth, paid) and paid.sum() == 1


def test_the_audit_knows_mates_and_draws_and_takes_a_known_end_for_a_draw() -> None:
    # White mates by Ra8; any other move goes on.
    positions = pack_fens(["6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1"])
    legal_ids, count = legal_actions_batch(positions)
    legal_ids = legal_ids[:, : count[0]]
    audit = Audit(BuiltinEvaluator, "outcome")
    worth, paid = audit.truth(positions, legal_ids, np.zeros(legal_ids.shape, bool))
    assert paid[0].sum() == 1 and worth[0].argmax() == paid[0].argmax()
    ended = np.zeros(legal_ids.shape, bool)
    ended[0, :3] = True
    drawn, _ = audit.truth(positions, legal_ids, ended)
    audit.close()
    assert len(set(drawn[0, :3].tolist()) - {float(worth[0].max())}) == 1
    assert torch.equal(drawn[0, 3:], worth[0, 3:])
