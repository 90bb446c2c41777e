"""How many moves a run may still score."""

from __future__ import annotations

from dataclasses import dataclass

from algorithms.config.run import ALL_MOVES_GUESS, TrainConfig
from algorithms.run_folder.progress import Progress


@dataclass(frozen=True)
class Budget:
    """The budget of a run, in scored moves.

    Attributes:
        config: of the run.
        progress: what it has done.
    """

    config: TrainConfig
    progress: Progress

    @property
    def moves_per_rollout(self) -> int:
        """Moves that the next rollout may score: at most; where all legal moves are scored, the most so far.

        The number of legal moves is not known in advance. Where all are scored, the first rollout is
        taken to have `ALL_MOVES_GUESS` for each state, and the last one may exceed the budget if it
        has more legal moves than any before it.
        """
        rollout, algorithm = self.config.rollout, self.config.algorithm
        plies = rollout.num_plies
        if rollout.form == "games":
            plies = min(plies, self.config.env.max_plies or plies)
            if rollout.train_sides == "start":
                plies = -(-plies // 2)
        if algorithm.needs().all_moves:
            guess = rollout.num_envs * plies * ALL_MOVES_GUESS
            return self.progress.largest_rollout or guess
        return int(rollout.num_envs * plies * algorithm.group_size)

    def left(self, unaccounted: int = 0) -> bool:
        """Whether another rollout fits, after `unaccounted` moves beyond those in the progress."""
        left = self.config.total_moves - self.progress.scored_moves - unaccounted
        return left >= self.moves_per_rollout

    def check(self) -> None:
        """Raises ValueError where not even one rollout fits."""
        if self.moves_per_rollout > self.config.total_moves:
            all_moves = self.config.algorithm.needs().all_moves
            samples = "legal moves" if all_moves else "group_size"
            raise ValueError(
                f"total_moves is {self.config.total_moves:,}, one rollout scores up to "
                f"{self.moves_per_rollout:,} (num_envs x num_plies x {samples}): "
                "raise total_moves or make the rollout smaller"
            )

    @property
    def spent_share(self) -> float:
        """Spent share of the budget, in [0, 1]."""
        return min(1.0, self.progress.scored_moves / self.config.total_moves)
