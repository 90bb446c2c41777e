"""All the parts of a run, built from its configuration, and their state for a checkpoint."""

from __future__ import annotations

import copy
import dataclasses
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import chess_env  # noqa: F401 - registers ChessSelfPlay-v0
from algorithms.config.compatibility import check_settings
from algorithms.config.custom import custom_terms
from algorithms.config.run import ALL_MOVES_GUESS, TrainConfig
from algorithms.core.checks import require
from algorithms.networks.build import (
    build_policy,
    choose_device,
    compile_trunk,
    initialise,
    other_planes,
    scale_logits,
    trained_parameters,
)
from algorithms.networks.policy_net import PolicyNet
from algorithms.processes import Processes, Shards
from algorithms.regularization import Measurements, Regularizer, Signals
from algorithms.rollouts.collect import Collected
from algorithms.rollouts.worker import OneAtATime, RolloutWorker, Shard
from algorithms.run_folder.atomic_files import cut
from algorithms.run_folder.progress import EvaluatorUsage, Progress
from algorithms.run_folder.recorded_state import check_temperature, not_ours, state_of_run
from algorithms.updates.learner import Learner, ShardedPasses, WholePasses, make_optimizer
from chess_env.evaluators import make_evaluator
from chess_env.observation import NUM_PLANES
from chess_env.threads import usable_cores

WINDOW = 262_144
"""States that are remembered as seen; older ones count as new again."""

_NONE = np.iinfo(np.int64).min
"""Stands where there is no state yet."""


class Session:
    """The parts of one run.

    Args:
        config: what to build.
        fresh: start from the weights of `config.init_from`; a continued run has its own.
        processes: that carry the run; None for this one alone.

    Raises:
        ValueError: settings that cannot go together; no engine has been started then.

    Attributes:
        config: the settings of the run.
        shards: the parts of the run, and the processes that carry them.
        device: where the network computes.
        learner: learns from batches.
        worker: plays and records batches.
        evaluator: scores positions.
        usage: counts the evaluator's queries.
        progress: what the run has done so far.
        seen: positions that were trained on.
        last_kl_old: `reg/kl_old` of the last update, nats; before the first that of the first rollout, and None
            before it was looked at.
    """

    def __init__(
        self, config: TrainConfig, *, fresh: bool = True, processes: Processes | None = None
    ) -> None:
        check_sizes(config)  # first: the other check makes a batch of such groups
        check_settings(config)
        self.shards = Shards(config.num_shards, processes or Processes())
        self.config = config = config.settled()
        self.device = choose_device(config.device)
        require(
            not config.compile or self.device.type == "cuda",
            f"compile is on and the run computes on {self.device.type}: leave --compile out, or run on CUDA",
        )
        custom = custom_terms(config.regularizer)
        regularizer = Regularizer(config.regularizer, config.rollout.temperature, custom)
        self.learner = self._make_learner(regularizer, fresh)
        needs_reference = regularizer.needs_reference or config.algorithm.needs().reference
        reference = copy_of(self.policy) if needs_reference else None
        if config.compile:  # all of them, since a compiled pass rounds otherwise in 16 bits
            for policy in {self.policy, self.learner.behaviour, reference}:
                if policy is not None:
                    compile_trunk(policy, num_boards=self._boards_of_shard)
        env = config.env
        here = self.shards.processes.count_here
        self._env_threads = env.num_threads or max(1, usable_cores() // here)
        self.evaluator = make_evaluator(
            env.evaluator, env.num_engines, env.cache, num_threads=self._env_threads
        )
        self.usage = EvaluatorUsage(self.evaluator, self.shards.processes.gather)
        try:
            several = len(self.shards.own) > 1
            asked = OneAtATime(self.evaluator) if several else self.evaluator
            parts = [
                Shard(number, self._make_boards(asked), config, self.device)
                for number in self.shards.own
            ]
        except BaseException:
            self.evaluator.close()
            raise
        self.worker = RolloutWorker(
            parts,
            self.learner,
            config,
            self.device,
            shards=self.shards,
            reference=reference,
            needs_learner=regularizer.needs_learner,
        )
        self._parts_states: list[dict[str, Any]] | None = None
        self._threads_before = torch.get_num_threads()
        torch.set_num_threads(config.num_threads)
        self.progress = Progress()
        self.seen = SeenPositions()
        self.last_kl_old: float | None = None

    def _make_learner(self, regularizer: Regularizer, fresh: bool) -> Learner:
        config, algorithm = self.config, self.config.algorithm
        policy = build_policy(
            config.policy,
            seed=config.seed,
            device=self.device,
            critic=algorithm.needs().critic is not None,
            precision=config.precision,
        ).eval()  # a policy that drops features at random is another one in every forward pass
        if fresh and config.init_from is not None:
            initialise(policy, config.init_from)
        if fresh and config.init_logit_scale != 1.0:
            scale_logits(policy, config.init_logit_scale)
        trained = trained_parameters(policy, config.optimizer.frozen_layers)
        return Learner(
            policy=policy,
            optimizer=make_optimizer(trained, config.optimizer.full_learning_rate),
            algorithm=algorithm,
            regularizer=regularizer,
            controls=algorithm.controls(),
            settings=config.optimizer,
            behaviour=copy_of(policy) if config.rollout.sync_interval_updates > 1 else policy,
            # Of its own, because sampling runs on the device and minibatches are drawn on the CPU.
            shuffling=torch.Generator().manual_seed(config.seed),
            passes=WholePasses() if self.shards.count == 1 else ShardedPasses(self.shards),
        )

    @property
    def _boards_of_shard(self) -> int:
        config = self.config
        games_per_start = config.algorithm.group_size if config.rollout.form == "games" else 1
        return config.rollout.num_envs // config.num_shards * games_per_start

    def _make_boards(self, evaluator: Any) -> Any:
        """The boards of one shard, which ask the evaluator."""
        config, env = self.config, self.config.env
        return gym.make_vec(
            "ChessSelfPlay-v0",
            num_envs=self._boards_of_shard,
            evaluator=evaluator,
            reward=env.reward,
            start_positions=env.start_positions,
            max_plies=env.max_plies or config.rollout.num_plies,
            twofold=env.twofold,
            opponent=env.opponent,
            move_facts=self.policy.reads_move_facts,
            num_threads=self._env_threads,
            # The planes are made where the network runs.
            observation="positions",
            mask="ids",
        )

    @property
    def policy(self) -> PolicyNet:
        """The network that learns and is evaluated."""
        return self.learner.policy

    @property
    def moves_per_rollout(self) -> int:
        """Moves that the next rollout may score: at most; where all legal moves are scored, the most so far."""
        largest, needs = self.progress.largest_rollout, self.config.algorithm.needs()
        return largest if needs.all_moves and largest else moves_of_first_rollout(self.config)

    def affords(self, unaccounted: int = 0) -> bool:
        """Whether the budget has another rollout, after `unaccounted` moves beyond those in the progress."""
        left = self.config.total_moves - self.progress.scored_moves - unaccounted
        return left >= self.moves_per_rollout

    def rollout(self) -> Collected:
        """The next rollout: sampled moves with their rewards."""
        return self.worker.collect(self.progress.update, self.affords)

    @property
    def scheduled_rate(self) -> float:
        """Step size of the next update by the settings."""
        return self.learner.settings.learning_rate_at(self.progress.update, self._spent)

    @property
    def _spent(self) -> float:
        """Share of the budget that is used."""
        return min(1.0, self.progress.scored_moves / self.config.total_moves)

    def control(self, seen: Mapping[str, float]) -> Signals:
        """Sets step size, clip bounds and regulariser for this point of the run; what its controllers say.

        Temperature and reference change at once, and hold from the next rollout on.

        Args:
            seen: `policy_metrics` of the fresh rollout.
        """
        learner = self.learner
        measured = Measurements(
            progress=self._spent,
            update=self.progress.update,
            entropy=seen["policy/entropy"],
            entropy_normalized=seen["policy/entropy_normalized"],
            kl_old=self.last_kl_old or 0.0,
            kl_ref=seen.get("policy/kl_ref"),
        )
        learner.learning_rate = self.scheduled_rate
        signals = learner.regularizer.update(measured, learner.controls)
        learner.controls = signals.controls
        self.worker.temperature = signals.temperature
        if signals.refresh_reference and self.worker.reference is not None:
            self.worker.reference.load_state_dict(self.policy.state_dict())
        return signals

    def gather_boards(self) -> None:
        """Takes the state of all shards from the processes that carry them, for the next `state()`."""
        self._parts_states = self.shards.gather([part.state_dict() for part in self.worker.parts])

    def state(self) -> dict[str, Any]:
        """Everything beside the weights that the rest of the run depends on.

        Of the shards, as of the last `gather_boards` where several processes carry them.
        """
        if self.shards.processes.count == 1:
            self.gather_boards()
        assert self._parts_states is not None
        return {**self._beside_boards(), "shards": self._parts_states}

    def load(
        self,
        path: Path,
        weights: dict[str, torch.Tensor],
        state: dict[str, Any],
        say: Callable[[str], None],
    ) -> None:
        """Continues from a checkpoint's weights and `state()`.

        Args:
            path: of the checkpoint, for messages.
            weights: the policy's.
            state: of `state()`; where an older version wrote it, this run's own stands for what it lacks.
            say: shows what it lacks.

        Raises:
            ValueError: another evaluator gave the rewards, the network's shape differs, another kind
                of device sampled, or the state is none that `state()` could have returned.
        """
        sampling, own = self.worker.parts[0].sampling.get_state(), self._beside_boards()
        networks = {name for name in ("reference", "behaviour") if own[name] is not None}
        own["shards"] = [{"sampling": sampling, "vec": {}}] * self.shards.count
        state = state_of_run(
            path,
            state,
            own,
            needed={"seen", "evaluator", "shuffling", "shards", *networks},
            trained=self.learner.trained,
            say=say,
        )
        if state["evaluator"] != self.evaluator.id:
            raise ValueError(
                f"{path} was rewarded by {cut(state['evaluator'])!r}, this process would reward with "
                f"{self.evaluator.id!r}: install that engine (or set STOCKFISH_PATH), "
                "or start a new run"
            )
        if any(each["sampling"].shape != sampling.shape for each in state["shards"]):
            raise ValueError(  # each kind of device has a generator of its own
                f"{path} sampled on another kind of device than {self.device.type}: continue the "
                "run with --device of that kind, or start a new one"
            )
        try:
            self.policy.load_state_dict(weights)
        except RuntimeError as error:
            raise ValueError(
                f"{path} holds another network than the configuration "
                f"{other_planes(weights, self.config.policy) or f'({cut(error)})'}"
            ) from error
        try:
            self.progress = Progress(**state["progress"])
            self.last_kl_old = state["last_kl_old"]
            check_temperature(state["temperature"])
            self.seen = SeenPositions.from_array(state["seen"])
            self.learner.load_state_dict(state)
            self.worker.load_state_dict(state)
            for part, number in zip(self.worker.parts, self.shards.own, strict=True):
                part.load_state_dict(state["shards"][number])
        except (ValueError, RuntimeError) as error:  # impossible boards, generators, weights
            raise not_ours(path, error) from error

    def _beside_boards(self) -> dict[str, Any]:
        return {
            "progress": dataclasses.asdict(self.progress),
            "last_kl_old": self.last_kl_old,
            "seen": self.seen.to_array(),
            "evaluator": self.evaluator.id,
            **self.learner.state_dict(),
            **self.worker.state_dict(),
        }

    def close(self) -> None:
        """Closes the boards and the engines, and gives the process its threads back."""
        torch.set_num_threads(self._threads_before)
        for part in self.worker.parts:
            part.vec.close()
        self.evaluator.close()


def copy_of(policy: PolicyNet) -> PolicyNet:
    """A copy of the policy, of which nothing is trained."""
    return copy.deepcopy(policy).requires_grad_(False)


def moves_of_first_rollout(config: TrainConfig) -> int:
    """Moves that a run's first rollout may score.

    The number of legal moves is not known in advance. Where all are scored, the first rollout is taken to have
    `ALL_MOVES_GUESS` for each state, and the last one may exceed the budget if it has more than any before it.
    """
    rollout, algorithm, plies = config.rollout, config.algorithm, config.rollout.num_plies
    if rollout.form == "games":
        plies = min(plies, config.env.max_plies or plies)
        if rollout.train_sides == "start":
            plies = -(-plies // 2)
    all_moves = algorithm.needs().all_moves
    return rollout.num_envs * plies * (ALL_MOVES_GUESS if all_moves else int(algorithm.group_size))


def check_sizes(config: TrainConfig) -> None:
    """Refuses a rollout that the budget or the machine cannot hold, and warns of more engines or threads than cores.

    Raises:
        ValueError: not even one rollout fits into the budget, or its planes alone are larger than the memory.
    """
    rollout, env, algorithm, cores = config.rollout, config.env, config.algorithm, usable_cores()
    needed, all_moves = moves_of_first_rollout(config), algorithm.needs().all_moves
    require(
        needed <= config.total_moves,
        f"total_moves is {config.total_moves:,}, one rollout scores up to {needed:,} (num_envs x num_plies x "
        f"{'legal moves' if all_moves else 'group_size'}): raise total_moves or make the rollout smaller",
    )
    # 4 bytes of each sample are its reward alone.
    planes = rollout.num_envs * rollout.num_plies * NUM_PLANES * 64 + 4 * needed
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    require(
        planes < memory,
        f"rollout.num_envs is {rollout.num_envs:,}, rollout.num_plies {rollout.num_plies:,} and group_size "
        f"{algorithm.group_size:,}: the planes and rewards of one rollout alone take {planes / 2**30:,.1f} GiB, and "
        f"this machine has {memory / 2**30:,.1f}; lower one of them",
    )
    useless = [("num_threads", config.num_threads)]
    # The engines of a cluster count its cores themselves.
    if not str(env.evaluator).startswith("ray:"):
        useless.append(("env.num_engines", env.num_engines))
        useless.append(("env.num_threads", env.num_threads or 1))
    for name, count in useless:
        if count > max(2, cores):
            warnings.warn(
                f"{name} is {count} and {cores} cores are there: each computes on one core, and more are not "
                f"faster; set --{name.replace('_', '-')} to {cores}",
                stacklevel=2,
            )


class SeenPositions:
    """The positions of the last `WINDOW` states of a run, as hashes: 4 MB, however long the run is.

    Two different positions of a window share a 64-bit hash less than once in 10^8 windows.
    """

    def __init__(self) -> None:
        # Full and changed in place: arrays of megabytes that come and go leave holes in the memory of the process.
        self._ring = np.full(WINDOW, _NONE)  # the newest one stands before `_next`
        self._next = 0
        self._num_states = 0
        self._sorted = np.full(WINDOW, _NONE)

    def fraction(self, position_hash: Tensor) -> float:
        """Share of the states whose position was seen before; the states are remembered.

        Seen before means: among the `WINDOW` states before this call, or earlier in this call. The
        order of the states inside a call does not matter. NaN for no state.

        Args:
            position_hash: int64, any shape: the states that are trained on, not padding.
        """
        hashes = position_hash.detach().reshape(-1).cpu().numpy()
        if not len(hashes):
            return float("nan")
        distinct = np.unique(hashes)
        place = np.searchsorted(self._sorted, distinct)
        known = self._sorted[np.minimum(place, WINDOW - 1)] == distinct
        self._remember(hashes[-WINDOW:])
        return (len(hashes) - int(np.count_nonzero(~known))) / len(hashes)

    def _remember(self, newest: NDArray[np.int64]) -> None:
        self._ring[(self._next + np.arange(len(newest))) % WINDOW] = newest
        self._next = (self._next + len(newest)) % WINDOW
        self._num_states = min(self._num_states + len(newest), WINDOW)
        self._sorted[:] = self._ring
        self._sorted.sort()

    def to_array(self) -> NDArray[np.int64]:
        """int64 `[min(states, WINDOW)]`, oldest first, for a checkpoint."""
        return np.roll(self._ring, -self._next)[WINDOW - self._num_states :]

    @classmethod
    def from_array(cls, hashes: NDArray[np.int64]) -> SeenPositions:
        """The inverse of `to_array`, from its int64 `[n]`."""
        seen = cls()
        seen._remember(hashes[-WINDOW:])
        return seen
