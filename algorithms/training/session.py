"""All the parts of a run, built from its configuration, and their state for a checkpoint."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch

import chess_env  # noqa: F401 - registers ChessSelfPlay-v0
from algorithms.config.compatibility import check_settings
from algorithms.config.run import ALL_MOVES_GUESS, TrainConfig
from algorithms.core.algorithm import Algorithm, Controls
from algorithms.core.batch import RolloutBatch
from algorithms.core.batch_metrics import policy_metrics
from algorithms.networks.build import build_policy, trained_parameters
from algorithms.networks.device import choose_device
from algorithms.networks.policy_net import PolicyNet
from algorithms.networks.weights import initialise
from algorithms.regularization import Measurements, Regularizer, Signals
from algorithms.rollouts.dynamic_sampling import Collected, collect_live
from algorithms.rollouts.games import collect_games
from algorithms.rollouts.positions import collect_positions, reference_logprobs, start_rollout
from algorithms.rollouts.seen_positions import SeenPositions
from algorithms.rollouts.state import VecState
from algorithms.run_folder.progress import EvaluatorUsage, Progress
from algorithms.updates.nonfinite import NonFiniteGuard
from chess_env.evaluators import make_evaluator


class Session:
    """The parts of one run.

    Args:
        config: what to build.
        fresh: start from the weights of `config.init_from`; a continued run has its own.

    Raises:
        ValueError: settings that cannot go together; no engine has been started then.

    Attributes:
        policy, optimizer, algorithm, needs, controls, regularizer, guard: what learns.
        behaviour: what plays: the policy itself, or a copy that is brought up to date at intervals.
        temperature: of the next rollouts.
        evaluator, vec: what scores, and the boards.
        questions: what the evaluator was asked.
        progress: what has been done.
        seen: positions that were trained on.
        last_kl_old: `reg/kl_old` of the last update, nats; None before the first.
    """

    def __init__(self, config: TrainConfig, *, fresh: bool = True) -> None:
        check_settings(config)
        self.config = config
        self.device = choose_device(config.device)
        self.algorithm: Algorithm = config.algorithm
        self.needs = self.algorithm.needs()
        self.controls: Controls = config.algorithm.controls()
        self.temperature = config.rollout.temperature
        self.regularizer = Regularizer(config.regularizer, self.temperature)
        self.guard = NonFiniteGuard()
        self.policy: PolicyNet = build_policy(
            config.policy,
            seed=config.seed,
            device=self.device,
            critic=self.needs.critic is not None,
        ).eval()  # a policy that drops features at random is another one in every forward pass
        if fresh and config.init_from is not None:
            initialise(self.policy, config.init_from)
        trained = trained_parameters(self.policy, config.optimizer.frozen_layers)
        self.behaviour = self.policy
        if config.rollout.sync_interval_updates > 1:
            self.behaviour = self._copy_of_policy()
        self.reference: PolicyNet | None = None
        if self.regularizer.needs_reference:
            self.reference = self._copy_of_policy()
        self.optimizer = torch.optim.Adam(trained, lr=config.optimizer.learning_rate)
        # Two generators, because sampling runs on the device and minibatches are drawn on the CPU.
        self.sampling = torch.Generator(self.device).manual_seed(config.seed)
        self.shuffling = torch.Generator().manual_seed(config.seed)
        env = config.env
        self._max_plies = env.max_plies or config.rollout.num_plies
        self.evaluator = make_evaluator(env.evaluator, env.num_engines, env.cache)
        self.usage = EvaluatorUsage(self.evaluator)
        try:
            self.vec: Any = gym.make_vec(
                "ChessSelfPlay-v0",
                num_envs=config.rollout.num_envs * self._games_per_start(),
                evaluator=self.evaluator,
                reward=env.reward,
                start_positions=env.start_positions,
                max_plies=self._max_plies,
                opponent=env.opponent,
            )
        except BaseException:
            self.evaluator.close()
            raise
        self._threads_before = torch.get_num_threads()
        torch.set_num_threads(config.num_threads)
        self.boards: VecState | None = None
        self.progress = Progress()
        self.seen = SeenPositions()
        self.last_kl_old: float | None = None

    def _copy_of_policy(self) -> PolicyNet:
        return copy.deepcopy(self.policy).requires_grad_(False)

    def _games_per_start(self) -> int:
        return self.algorithm.group_size if self.config.rollout.form == "games" else 1

    @property
    def moves_per_rollout(self) -> int:
        """What one rollout may score: the most, or, of all legal moves, the most seen so far.

        The number of legal moves is not known before they are there. Where all are scored, the
        first rollout is taken to have `ALL_MOVES_GUESS` for each state, and the last one may
        overdraw the budget by what it has more than any before it.
        """
        rollout = self.config.rollout
        plies = rollout.num_plies
        if rollout.form == "games":
            plies = min(plies, self._max_plies)
            if rollout.train_sides == "start":
                plies = -(-plies // 2)
        if self.needs.all_moves:
            guess = rollout.num_envs * plies * ALL_MOVES_GUESS
            return self.progress.largest_rollout or guess
        return rollout.num_envs * plies * self.algorithm.group_size

    def budget_left(self, unaccounted: int = 0) -> bool:
        """Whether another rollout fits, after `unaccounted` moves beyond those in the progress."""
        left = self.config.total_moves - self.progress.scored_moves - unaccounted
        return left >= self.moves_per_rollout

    def check_budget(self) -> None:
        """Raises ValueError where not even one rollout fits into the budget."""
        if self.moves_per_rollout > self.config.total_moves:
            samples = "legal moves" if self.needs.all_moves else "group_size"
            raise ValueError(
                f"total_moves is {self.config.total_moves:,}, one rollout scores up to "
                f"{self.moves_per_rollout:,} (num_envs x num_plies x {samples}): "
                "raise total_moves or make the rollout smaller"
            )

    def start(self) -> None:
        """Puts fresh games on the boards."""
        self.boards = start_rollout(self.vec, self.config.seed)

    def rollout(self) -> Collected:
        """Plays on with the behaviour policy: sampled moves with their rewards."""
        self._sync()
        first = self._collect(self.config.rollout.num_plies)
        collected = Collected(first, first.scored_moves, first.plies)
        if self.needs.live_groups:
            collected = collect_live(first, self._collect_groups, self.budget_left)
        size, batch = self.config.optimizer.minibatch_size, collected.batch
        if self.reference is not None:
            batch = batch.with_reference(
                reference_logprobs(self.reference, batch, minibatch_size=size)
            )
        if self.regularizer.needs_learner:
            learner = reference_logprobs(self.policy, batch, minibatch_size=size)
            batch = dataclasses.replace(batch, learner_legal_logprobs=learner)
        return dataclasses.replace(collected, batch=batch)

    def _sync(self) -> None:
        """Brings a behaviour policy of its own up to date where its time has come."""
        interval = self.config.rollout.sync_interval_updates
        if self.behaviour is not self.policy and self.progress.update % interval == 0:
            self.behaviour.load_state_dict(self.policy.state_dict())

    @property
    def sampling_policy(self) -> PolicyNet:
        """What must be equal to the sampler of a fresh rollout: the learner, where it was synced."""
        synced = self.progress.update % self.config.rollout.sync_interval_updates == 0
        return self.policy if synced else self.behaviour

    def _collect_groups(self, count: int) -> RolloutBatch:
        """A rollout with about `count` groups: in `positions` form a ply gives one on each board."""
        settings = self.config.rollout
        if settings.form == "games":
            return self._collect(settings.num_plies)
        return self._collect(min(settings.num_plies, -(-count // settings.num_envs)))

    def _collect(self, num_plies: int) -> RolloutBatch:
        settings, interval = self.config.rollout, self.config.rollout.sync_interval_updates
        shared: dict[str, Any] = {
            "num_plies": num_plies,
            "group_size": None if self.needs.all_moves else self.algorithm.group_size,
            "temperature": self.temperature,
            "generator": self.sampling,
            "device": self.device,
            "policy_version": self.progress.update // interval * interval,
        }
        if settings.form == "games":
            sides, share = settings.train_sides, settings.teacher_fraction
            return collect_games(
                self.vec, self.behaviour, train_sides=sides, teacher_fraction=share, **shared
            )
        assert self.boards is not None
        batch, self.boards = collect_positions(
            self.vec,
            self.behaviour,
            self.boards,
            greedy_fraction=settings.greedy_fraction,
            **shared,
        )
        return batch

    @property
    def spent_share(self) -> float:
        """Spent share of the budget, in [0, 1]."""
        return min(1.0, self.progress.scored_moves / self.config.total_moves)

    def reading(self, batch: RolloutBatch, *, kl_at_start: float) -> Measurements:
        """What the regulariser's controllers read on a fresh rollout; arguments as of `control`."""
        seen = policy_metrics(batch)
        return Measurements(
            progress=self.spent_share,
            update=self.progress.update,
            entropy=seen["policy/entropy"],
            entropy_normalized=seen["policy/entropy_normalized"],
            kl_old=kl_at_start if self.last_kl_old is None else self.last_kl_old,
            kl_ref=seen.get("policy/kl_ref"),
        )

    def control(
        self, batch: RolloutBatch, *, kl_at_start: float
    ) -> tuple[dict[str, float], Signals]:
        """Moves step size and regulariser to this point of the run; (what is in force, signals).

        Temperature and reference are taken over at once: they hold from the next rollout on.

        Args:
            batch: the fresh rollout.
            kl_at_start: mean KL(learner || sampler) before the first update, nats.
        """
        done, share = self.progress, self.spent_share
        rate = self.config.optimizer.learning_rate_at(done.update, share)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        reading = self.reading(batch, kl_at_start=kl_at_start)
        signals = self.regularizer.update(reading, self.controls)
        self.temperature = signals.temperature
        if signals.refresh_reference and self.reference is not None:
            self.reference.load_state_dict(self.policy.state_dict())
        return {"train/learning_rate": rate, "rollout/temperature": batch.temperature}, signals

    def state(self) -> dict[str, Any]:
        """Everything beside the weights that the rest of the run depends on."""
        return {
            "progress": dataclasses.asdict(self.progress),
            "optimizer": self.optimizer.state_dict(),
            "controls": self.controls.state_dict(),
            "regularizer": self.regularizer.state_dict(),
            "guard": self.guard.state_dict(),
            "temperature": self.temperature,
            "last_kl_old": self.last_kl_old,
            "reference": None if self.reference is None else self.reference.state_dict(),
            "behaviour": None if self.behaviour is self.policy else self.behaviour.state_dict(),
            "seen": self.seen.to_array(),
            "sampling": self.sampling.get_state(),
            "shuffling": self.shuffling.get_state(),
            "vec": self.vec.get_state(),
            "evaluator": self.evaluator.id,
        }

    def load(self, path: Path, weights: dict[str, torch.Tensor], state: dict[str, Any]) -> None:
        """Continues from a checkpoint's weights and `state()`.

        Raises:
            ValueError: another evaluator gave the rewards, the network's shape differs, or another
                kind of device sampled.
        """
        if state["evaluator"] != self.evaluator.id:
            raise ValueError(
                f"{path} was rewarded by {state['evaluator']!r}, this process would reward with "
                f"{self.evaluator.id!r}: install that engine (or set STOCKFISH_PATH), "
                "or start a new run"
            )
        try:
            self.policy.load_state_dict(weights)
        except RuntimeError as error:
            raise ValueError(
                f"{path} holds another network than the configuration: {error}"
            ) from error
        self.progress = Progress(**state["progress"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.controls.load_state_dict(state["controls"])
        self.regularizer.load_state_dict(state["regularizer"])
        self.guard.load_state_dict(state["guard"])
        self.temperature = state["temperature"]
        self.last_kl_old = state["last_kl_old"]
        self.seen = SeenPositions.from_array(state["seen"])
        if self.reference is not None:
            self.reference.load_state_dict(state["reference"])
        if self.behaviour is not self.policy:
            self.behaviour.load_state_dict(state["behaviour"])
        try:
            self.sampling.set_state(state["sampling"])
        except RuntimeError as error:  # each kind of device has a generator of its own
            raise ValueError(
                f"{path} sampled on another kind of device than {self.device.type}: continue the "
                "run with --device of that kind, or start a new one"
            ) from error
        self.shuffling.set_state(state["shuffling"])
        _, info = self.vec.set_state(state["vec"])
        self.boards = VecState.of(self.vec, info)

    def close(self) -> None:
        """Ends the boards and the engines, and gives the process its threads back."""
        torch.set_num_threads(self._threads_before)
        self.vec.close()
        self.evaluator.close()
