"""One shard's boards and random numbers: what a rollout needs of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from algorithms.config.run import TrainConfig
from algorithms.core.batch import RolloutBatch
from algorithms.rollouts.dynamic_sampling import Collected, collect_live
from algorithms.rollouts.games import collect_games
from algorithms.rollouts.positions import collect_positions, start_rollout
from algorithms.rollouts.sampler import Sampler
from algorithms.rollouts.state import VecState

if TYPE_CHECKING:
    from chess_env.vector_env import ChessSelfPlayVectorEnv

# The first shard's samples are those of a run that is not divided.
_NEXT_SEED = 0x9E3779B97F4A7C15

MakeSampler = Callable[[torch.Generator], Sampler]


class Shard:
    """A part of a run's boards.

    Args:
        number: which shard, from 0.
        vec: its boards, which the caller closes.
        config: of the run.
        device: where the networks run.

    Attributes:
        vec: the boards.
        boards: as they stand between two rollouts; None before `start`.
        sampling: generator of the samples, on the device.
    """

    def __init__(
        self, number: int, vec: ChessSelfPlayVectorEnv, config: TrainConfig, device: torch.device
    ) -> None:
        self.vec = vec
        self.boards: VecState | None = None
        seed = (config.seed + number * _NEXT_SEED) % 2**63
        self.sampling = torch.Generator(device).manual_seed(seed)
        self._first_board = number * vec.num_envs
        self._config, self._needs = config, config.algorithm.needs()

    def start(self) -> None:
        """Puts fresh games on the boards: those that they have in a run that is not divided."""
        self.boards = start_rollout(self.vec, self._config.seed + self._first_board)

    def collect(self, make_sampler: MakeSampler, affordable: Callable[[int], bool]) -> Collected:
        """Plays on: sampled moves with their rewards.

        Args:
            make_sampler: makes the behaviour policy with its temperature, given the generator.
            affordable: whether the budget allows one more rollout of this shard after so many of its moves.
        """
        sampler = make_sampler(self.sampling)
        first = self.roll(sampler, self._config.rollout.num_plies)
        if not self._needs.live_groups:
            return Collected(first, first.scored_moves, first.plies)
        return collect_live(first, lambda count: self.roll_groups(sampler, count), affordable)

    def roll(self, sampler: Sampler, num_plies: int) -> RolloutBatch:
        """A rollout of up to `num_plies` plies."""
        settings = self._config.rollout
        group_size = self._config.algorithm.group_size
        if settings.form == "games":
            return collect_games(
                self.vec,
                sampler,
                num_plies=num_plies,
                group_size=group_size,
                train_sides=settings.train_sides,
                teacher_fraction=settings.teacher_fraction,
            )
        assert self.boards is not None
        batch, self.boards = collect_positions(
            self.vec,
            sampler,
            self.boards,
            num_plies=num_plies,
            group_size=None if self._needs.all_moves else group_size,
        )
        return batch

    def roll_groups(self, sampler: Sampler, count: int) -> RolloutBatch:
        """A rollout with about `count` groups: in `positions` form a ply gives one on each board."""
        settings = self._config.rollout
        plies = settings.num_plies
        if settings.form == "positions":
            plies = min(plies, -(-count // self.vec.num_envs))
        return self.roll(sampler, plies)

    def state_dict(self) -> dict[str, Any]:
        """Everything that this shard's next rollouts depend on, for a checkpoint."""
        return {"sampling": self.sampling.get_state(), "vec": self.vec.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from `state_dict()`.

        Raises:
            RuntimeError: another kind of device sampled.
            ValueError: the boards are in no position of a game.
        """
        self.sampling.set_state(state["sampling"])
        _, info = self.vec.set_state(state["vec"])
        self.boards = VecState.of(self.vec, info)
