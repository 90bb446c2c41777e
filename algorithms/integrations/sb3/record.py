"""The record of MaskablePPO, with the same rows and names as this project's own runs."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from torch import Tensor

from algorithms.core.batch import RolloutBatch
from algorithms.core.batch_metrics import batch_metrics
from algorithms.integrations.sb3.boards import StepPaid
from algorithms.integrations.sb3.settings import updates_in_budget
from algorithms.regularization import Measurements, Regularizer
from algorithms.rollouts.dynamic_sampling import Collected
from algorithms.rollouts.sampler import to_device
from algorithms.rollouts.state import VecState
from algorithms.rollouts.worker import reference_logprobs
from algorithms.run_folder.stopping import Stop
from algorithms.training.observer import RunObserver, TrainingSession, count_update
from algorithms.updates.learner import Learner
from algorithms.updates.targets import Targets
from chess_env.rules.rules import hash_batch

if TYPE_CHECKING:
    from algorithms.integrations.sb3.session import SB3Session


@torch.no_grad()
def rollout_batch(
    session: TrainingSession, buffer: Any, states: list[VecState], steps: list[StepPaid]
) -> tuple[RolloutBatch, Targets]:
    """(MaskablePPO's samples, their targets) as this project's records, `positions` form.

    Args:
        session: its policy is the one that sampled.
        buffer: MaskablePPO's rollout buffer before anything was learned from it, T steps.
        states: T, the boards before each step.
        steps: T, rewards and endings of each step.
    """
    config, device = session.config, session.device
    boards, group = len(states[0].ply), config.algorithm.group_size

    def by_state(arrays: list[np.ndarray]) -> Tensor:
        return to_device(np.stack(arrays, axis=1), device)

    def by_sample(array: Any) -> Tensor:  # SB3's axes are [T, P x G]
        return to_device(np.asarray(array).reshape(-1, boards, group).swapaxes(0, 1), device)

    width = max(int(state.num_legal.max()) for state in states)
    legal_ids = by_state([state.legal_ids[:, :width] for state in states])
    actions = by_sample(buffer.actions).long()
    observed = buffer.observations  # by name where the network reads more than planes
    planes = observed["planes"] if isinstance(observed, dict) else observed
    obs = to_device(planes[:, ::group].swapaxes(0, 1), device)
    # Of every step or of none, as the scores below.
    facts = [state.move_facts[:, :width] for state in states if state.move_facts is not None]
    scored = [step.score_cp for step in steps if step.score_cp is not None]
    before = [state.score_cp for state in states if state.score_cp is not None]
    batch = RolloutBatch(
        form="positions",
        obs=obs,
        legal_ids=legal_ids,
        slots=(legal_ids.unsqueeze(2) == actions.unsqueeze(3)).int().argmax(-1),
        actions=actions,
        old_logprobs=by_sample(buffer.log_probs),
        old_legal_logprobs=torch.zeros(
            legal_ids.shape, device=device
        ),  # until it is asked for below
        rewards=by_sample(np.stack([step.rewards for step in steps])),
        terminated=by_sample(np.stack([step.terminated for step in steps])),
        truncated=by_state([step.truncated for step in steps]),
        valid=torch.ones_like(actions, dtype=torch.bool),
        ply=by_state([state.ply for state in states]),
        side=by_state([state.turn for state in states]),
        phase=by_state([state.phase for state in states]),
        temperature=config.rollout.temperature,
        policy_version=session.progress.update,
        score_cp=by_sample(np.stack(scored)) if scored else None,
        before_cp=by_state(before) if before else None,
        position_hash=by_state([hash_batch(state.positions).view(np.int64) for state in states]),
        values=by_state(list(buffer.values[:, ::group])),
        alternating=config.env.opponent is None,
        move_facts=by_state(facts) if facts else None,
    )
    size = config.optimizer.minibatch_size
    logprobs = reference_logprobs(session.policy, batch, minibatch_size=size)
    batch = dataclasses.replace(batch, old_legal_logprobs=logprobs)
    weights = config.algorithm.weights(batch)
    return batch, Targets(by_sample(buffer.advantages), weights, by_sample(buffer.returns))


def train_metrics(
    session: TrainingSession, logged: dict[str, Any], ent_coef: float
) -> dict[str, float]:
    """SB3's metrics of an update, where this project has a metric with the same meaning.

    Left out, because SB3's is another quantity: `train/approx_kl` (of the last pass alone) and
    `train/loss` (of the last minibatch).

    Args:
        session: has the settings.
        logged: SB3's names and values after the update.
        ent_coef: of this update.
    """
    algorithm, optimizer, rollout = (
        session.config.algorithm,
        session.config.optimizer,
        session.config.rollout,
    )
    states = rollout.num_envs * rollout.num_plies
    value_loss = float(logged["train/value_loss"]) / 2  # SB3's is (V - R)^2, ours half of it
    entropy = -float(logged["train/entropy_loss"])
    return {
        "train/policy_loss": float(logged["train/policy_gradient_loss"]),
        "train/value_loss": value_loss,
        "train/value_loss_weighted": algorithm.vf_coef * value_loss,
        "train/explained_variance": float(logged["train/explained_variance"]),
        "train/learning_rate": float(logged["train/learning_rate"]),
        "train/passes": float(algorithm.update_epochs),
        "train/steps": float(
            algorithm.update_epochs * math.ceil(states / optimizer.minibatch_size)
        ),
        "policy/ratio_out_of_range": float(logged["train/clip_fraction"]),
        "reg/entropy": entropy,
        "reg/entropy_weighted": -ent_coef * entropy,
        "reg/loss": -ent_coef * entropy,
    }


class SB3Callback(BaseCallback):
    """Evaluates, writes rows, checkpoints and probes, and moves the coefficient of the entropy bonus.

    Args:
        session: the run.
        observer: looks at it and writes its record.
        stop: set by a signal; the run then ends with its present update.
        say: shows warnings.
    """

    def __init__(
        self,
        session: SB3Session,
        observer: RunObserver,
        stop: Stop,
        say: Callable[[str], None],
    ) -> None:
        super().__init__()
        config = session.config
        self._learner = Learner(  # its steps are SB3's
            policy=session.policy,
            optimizer=session.model.policy.optimizer,
            algorithm=config.algorithm,
            regularizer=Regularizer(config.regularizer, config.rollout.temperature),
            controls=config.algorithm.controls(),
            settings=config.optimizer,
            behaviour=session.policy,
            shuffling=torch.Generator(),
        )
        self._session, self._env, self._ppo = session, session.env, session.model
        self._observer, self._stop, self._say = observer, stop, say
        self._updates = updates_in_budget(config)
        self._states: list[VecState] = []
        self._steps: list[StepPaid] = []
        self._collected: Collected | None = None
        self._sampled: dict[str, float] = {}
        self._rollout_s = 0.0
        self._began = self._rolled = time.monotonic()
        self._stopping = False

    def _on_training_start(self) -> None:
        """Measures the untrained policy."""
        self._observer.begin()

    def _on_rollout_start(self) -> None:
        """Finishes the update before this rollout."""
        self._stopping = self._stop.asked(self._say)
        self._finish_update(last=self._stopping)
        assert self._env.state is not None
        self._states, self._steps = [self._env.state], []
        self._began = time.monotonic()

    def _on_step(self) -> bool:
        """False where the run was asked to stop before this rollout."""
        assert self._env.state is not None and self._env.last is not None
        self._states.append(self._env.state)
        self._steps.append(self._env.last)
        return not self._stopping

    def _on_rollout_end(self) -> None:
        """Looks at what was sampled, before anything is learned from it."""
        self._rollout_s = time.monotonic() - self._began
        session, done = self._session, self._session.progress
        batch, targets = rollout_batch(
            session, self._ppo.rollout_buffer, self._states[:-1], self._steps
        )
        row = batch_metrics(batch, targets.advantages)
        row["rollout/temperature"] = batch.temperature
        measured = Measurements(
            progress=done.scored_moves / session.config.total_moves,
            update=done.update,
            entropy=row["policy/entropy"],
            entropy_normalized=row["policy/entropy_normalized"],
            kl_old=0.0,
            kl_ref=None,
        )
        self._learner.regularizer.update(measured, self._learner.controls)
        self._ppo.ent_coef = self._learner.regularizer.state.coefs["ent_coef"]
        row |= self._observer.before_update(self._learner, batch, targets)
        self._sampled, self._collected = row, Collected(batch, batch.scored_moves, batch.plies)
        self._rolled = time.monotonic()

    def _on_training_end(self) -> None:
        """Finishes the last update."""
        self._finish_update(last=True)

    def _finish_update(self, *, last: bool) -> None:
        """Writes the row of the update that has just been made; nothing where there is none."""
        if self._collected is None:
            return
        session, done = self._session, self._session.progress
        update_s = time.monotonic() - self._rolled
        row = self._sampled | train_metrics(
            session, self._ppo.logger.name_to_value, self._ppo.ent_coef
        )
        row |= self._learner.regularizer.metrics()
        row |= self._observer.after_update(row["train/learning_rate"])
        row |= count_update(session, self._collected, self._rollout_s, update_s)
        self._collected = None
        last = last or done.update >= self._updates
        if last or done.update % session.config.eval_interval_updates == 0:
            row |= self._observer.evaluate(every_slice=last)
        keep = done.update % session.config.checkpoint_interval_updates == 0
        self._observer.finish(row | self._observer.amounts(), keep=keep, last=last)
