"""All the parts of a run, built from its configuration, and their state for a checkpoint."""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

import chess_env  # noqa: F401 - registers ChessSelfPlay-v0
from algorithms.core.algorithm import Controls
from algorithms.core.batch import RolloutBatch
from algorithms.regularization import Regularizer
from algorithms.training.config import TrainConfig
from algorithms.training.policy import PolicyNet, build_policy
from algorithms.training.rollout import (
    RolloutState,
    collect_games,
    collect_positions,
    reference_logprobs,
    start_rollout,
)
from algorithms.training.update import StepGuard
from chess_env.evaluators import make_evaluator


@dataclass
class Progress:
    """What a run has done, over all its processes.

    Attributes:
        update: updates done.
        plies: plies played.
        scored_moves: sampled moves that were given a reward: what the budget counts.
        evaluations: positions the evaluator was asked for, repeated and cached ones included.
        engine_queries: positions that the engine (or the built-in search) really scored.
        wall_s: seconds since the start, pauses between processes left out.
        cpu_s: CPU seconds of trainer and engines.
        best_regret_cp: lowest eval/regret_cp so far.
        start_regret_cp: regret of each held-out position before the first update; empty before it.
        entropy_min: lowest eval/entropy so far, nats.
    """

    update: int = 0
    plies: int = 0
    scored_moves: int = 0
    evaluations: int = 0
    engine_queries: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    best_regret_cp: float = float("inf")
    start_regret_cp: np.ndarray = field(default_factory=lambda: np.zeros(0))
    entropy_min: float = float("inf")


def choose_device(name: str) -> torch.device:
    """The device that "auto", "cpu" or "cuda" means here; ValueError where CUDA is absent."""
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            "device is 'cuda' but torch sees no CUDA device (`chess-lab check` says more): "
            "use --device auto or --device cpu"
        )
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


class Session:
    """The parts of one run.

    Args:
        config: what to build.

    Attributes:
        policy, optimizer, algorithm, controls, regularizer, guard: what learns.
        evaluator, vec: what plays and scores.
        progress: what has been done.
    """

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.device = choose_device(config.device)
        self._threads_before = torch.get_num_threads()
        torch.set_num_threads(config.num_threads)
        self.algorithm = config.algorithm
        self.controls: Controls = config.algorithm.controls()
        self.regularizer = Regularizer(config.regularizer)
        self.guard = StepGuard()
        self.policy: PolicyNet = build_policy(config.policy, seed=config.seed, device=self.device)
        self.reference: PolicyNet | None = None
        if self.regularizer.needs_reference:
            self.reference = copy.deepcopy(self.policy).requires_grad_(False)
        self.optimizer = torch.optim.Adam(
            self.policy.parameters(), lr=config.optimizer.learning_rate
        )
        # Two generators, because sampling runs on the device and minibatches are drawn on the CPU.
        self.sampling = torch.Generator(self.device).manual_seed(config.seed)
        self.shuffling = torch.Generator().manual_seed(config.seed)
        env = config.env
        self._max_plies = env.max_plies or config.rollout.num_plies
        self.evaluator = make_evaluator(env.evaluator, env.num_engines, env.cache)
        try:
            self.vec: Any = gym.make_vec(
                "ChessSelfPlay-v0",
                num_envs=config.rollout.num_envs * self._games_per_start(),
                evaluator=self.evaluator,
                reward=env.reward,
                start_positions=env.start_positions,
                max_plies=self._max_plies,
            )
        except BaseException:
            self.evaluator.close()
            raise
        self.boards: RolloutState | None = None
        self.progress = Progress()
        self._counted = 0, 0

    def _games_per_start(self) -> int:
        return self.algorithm.group_size if self.config.rollout.form == "games" else 1

    @property
    def moves_per_rollout(self) -> int:
        """The most moves that one rollout can score."""
        rollout = self.config.rollout
        plies = rollout.num_plies
        if rollout.form == "games":
            plies = min(plies, self._max_plies)
            if rollout.train_sides == "start":
                plies = -(-plies // 2)
        return rollout.num_envs * plies * self.algorithm.group_size

    def check_budget(self) -> None:
        """Raises ValueError where not even one rollout fits into the budget."""
        if self.moves_per_rollout > self.config.total_moves:
            raise ValueError(
                f"total_moves is {self.config.total_moves:,}, one rollout scores up to "
                f"{self.moves_per_rollout:,} (num_envs x num_plies x group_size): "
                "raise total_moves or make the rollout smaller"
            )

    def start(self) -> None:
        """Puts fresh games on the boards."""
        self.boards = start_rollout(self.vec, self.config.seed)

    def rollout(self) -> RolloutBatch:
        """Plays on with the current policy: sampled moves with their rewards."""
        settings = self.config.rollout
        shared: dict[str, Any] = {
            "num_plies": settings.num_plies,
            "group_size": self.algorithm.group_size,
            "temperature": settings.temperature,
            "generator": self.sampling,
            "device": self.device,
            "policy_version": self.progress.update,
        }
        if settings.form == "positions":
            assert self.boards is not None
            batch, self.boards = collect_positions(self.vec, self.policy, self.boards, **shared)
        else:
            batch = collect_games(self.vec, self.policy, train_sides=settings.train_sides, **shared)
        if self.reference is not None:
            size = self.config.optimizer.minibatch_size
            batch = batch.with_reference(
                reference_logprobs(self.reference, batch, minibatch_size=size)
            )
        return batch

    def new_counters(self) -> dict[str, float]:
        """The evaluator's counters; adds what is new in them to the progress."""
        counters = {name: float(value) for name, value in self.evaluator.counters().items()}
        asked, scored = int(counters["queries"]), int(counters["unique_queries"])
        self.progress.evaluations += asked - self._counted[0]
        self.progress.engine_queries += scored - self._counted[1]
        self._counted = asked, scored
        return counters

    def state(self) -> dict[str, Any]:
        """Everything beside the weights that the rest of the run depends on."""
        return {
            "progress": dataclasses.asdict(self.progress),
            "optimizer": self.optimizer.state_dict(),
            "controls": self.controls.state_dict(),
            "regularizer": self.regularizer.state_dict(),
            "guard": self.guard.state_dict(),
            "reference": None if self.reference is None else self.reference.state_dict(),
            "sampling": self.sampling.get_state(),
            "shuffling": self.shuffling.get_state(),
            "vec": self.vec.get_state(),
            "evaluator": self.evaluator.id,
        }

    def load(self, path: Path, weights: dict[str, torch.Tensor], state: dict[str, Any]) -> None:
        """Continues from a checkpoint's weights and `state()`.

        Raises:
            ValueError: the run was rewarded by another evaluator, or the network's shape differs.
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
        if self.reference is not None:
            self.reference.load_state_dict(state["reference"])
        self.sampling.set_state(state["sampling"])
        self.shuffling.set_state(state["shuffling"])
        _, info = self.vec.set_state(state["vec"])
        self.boards = RolloutState.of(self.vec, info)

    def close(self) -> None:
        """Ends the boards and the engines, and gives the process its threads back."""
        torch.set_num_threads(self._threads_before)
        self.vec.close()
        self.evaluator.close()
