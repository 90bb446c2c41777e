"""Everything that decides a run, as nested frozen dataclasses, checked where they are built.

The algorithm's own dataclass is its configuration: `TrainConfig.algorithm` holds it as it is. The
`Attributes:` lines below are the help texts of the command line.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from algorithms.config.sections import (
    EnvConfig,
    MatchConfig,
    OptimizerConfig,
    RolloutConfig,
)
from algorithms.core.checks import Count, Rule, check_fields, require
from algorithms.networks.settings import NetworkConfig, PrecisionConfig, tiny
from algorithms.regularization import RegularizerConfig

__all__ = [
    "ALL_MOVES_GUESS",
    "EnvConfig",
    "MatchConfig",
    "NetworkConfig",
    "OptimizerConfig",
    "PrecisionConfig",
    "RegularizerConfig",
    "RolloutConfig",
    "TrainConfig",
    "smoke",
]

Seed = Annotated[
    int,
    Rule(lambda seed: seed < 2**63, "it must be below 2**63"),
    Rule(lambda seed: seed >= 0, "it must be at least 0"),
]

Kept = Annotated[
    int | str,
    Rule(
        lambda kept: kept == "all" or (type(kept) is int and kept >= 2),
        'it must be "all" or a number of at least 2, for the first policy and the last',
    ),
]

ALL_MOVES_GUESS = 40
"""Legal moves of a position (a high guess), for a run that scores all of them and has no figure yet."""


@dataclass(frozen=True)
class TrainConfig:
    """One training run.

    Attributes:
        algorithm: the algorithm with its hyperparameters.
        regularizer: entropy bonus and KL penalties.
        policy: the network.
        precision: where the network computes below float32.
        rollout: how moves are sampled.
        env: the game and its rewards.
        optimizer: step size, minibatches and the like.
        match: games against other players during the run.
        total_moves: budget in scored moves (every sampled move that was given a reward counts). It
            is never exceeded, except where all legal moves are scored: then the last rollout may
            have more than any before it.
        eval_interval_updates: updates between evaluations on the held-out positions.
        diagnostics_interval_updates: updates between the costly diagnostics (gradient shares and
            predicted entropy changes).
        checkpoint_interval_updates: updates between checkpoints.
        checkpoint_keep: how many policies of the run to keep as weights alone, in RUN/snapshots, spread evenly over
            `total_moves` from the untrained to the last; "all" keeps that of every checkpoint. By default none
            is kept beside the two newest checkpoints and the best one.
        seed: seeds weights, sampling, minibatch order and the boards.
        device: "auto" (CUDA where present), "cpu" or "cuda".
        compile: compute the network's trunk by torch.compile, on CUDA only. It pays for large networks and
            minibatches; the first updates take up to a minute longer.
        num_shards: parts into which the boards and each minibatch are divided. What a run learns depends on
            them, and not on how many processes carry them (`--num-processes`, `torchrun`).
        num_threads: CPU threads of the network; a network this small gains little from a second
            one, and the engines need the other cores.
        preflight: look for faults on the first rollout, before anything is learned from it, and do
            not start a run that has one.
        track: mirror metrics.jsonl to "wandb" (offline by default) or "tensorboard".
        init_from: weights to start from in place of random ones: a run folder (its newest
            checkpoint), a checkpoint folder, a .safetensors file, or "example", "warm" or "warm_move_net", which
            come with the project. The reference policy of the KL terms is then this one too.
        run_dir: the run folder; None makes runs/<preset or algorithm>-<date>-<time>.
        preset: the entry of `PRESETS`, or the module:Name, that the run started from: a label, which
            decides nothing.
        cause: the cause of collapse that `chess-lab causes run` switched on: also a label.
    """

    # `Any` and not the algorithm's type: one configuration serves every algorithm, and the command
    # line reads the fields from the dataclass that it finds here.
    algorithm: Any
    regularizer: RegularizerConfig = field(default_factory=RegularizerConfig)
    policy: NetworkConfig = field(default_factory=NetworkConfig)
    precision: PrecisionConfig = field(default_factory=PrecisionConfig)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    env: EnvConfig = field(default_factory=EnvConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    match: MatchConfig = field(default_factory=MatchConfig)
    total_moves: Count = 300_000
    eval_interval_updates: Count = 10
    diagnostics_interval_updates: Count = 10
    checkpoint_interval_updates: Count = 20
    checkpoint_keep: Kept | None = None
    seed: Seed = 0
    device: Literal["auto", "cpu", "cuda"] = "auto"
    compile: bool = False
    num_shards: Count = 1
    num_threads: Count = 1
    preflight: bool = True
    track: Literal["wandb", "tensorboard"] | None = None
    init_from: str | None = None
    run_dir: Path | None = None
    preset: str | None = None
    cause: str | None = None

    def settled(self) -> TrainConfig:
        """The same run with a number for each setting that the network decides; this is recorded."""
        return dataclasses.replace(self, optimizer=self.optimizer.settled(self.policy))

    @property
    def label(self) -> str:
        """Name of the run: its cause, its preset, or its algorithm, in at most 200 characters."""
        return (self.cause or self.preset or str(self.algorithm.name))[:200]

    def __post_init__(self) -> None:
        require(
            dataclasses.is_dataclass(self.algorithm) and not isinstance(self.algorithm, type),
            f"algorithm is {self.algorithm!r}: give an instance such as GRPO(group_size=8)",
        )
        check_fields(self)


def smoke(config: TrainConfig) -> TrainConfig:
    """The same run made small enough for a few seconds: a check of the parts, not of learning.

    The algorithm keeps its settings; the budget is that of two rollouts at least.
    """
    rollout = dataclasses.replace(config.rollout, num_envs=16, num_plies=4)
    states = rollout.num_envs * rollout.num_plies
    algorithm = config.algorithm
    samples = ALL_MOVES_GUESS if algorithm.needs().all_moves else algorithm.group_size
    return dataclasses.replace(
        config,
        policy=tiny(config.policy),
        rollout=rollout,
        total_moves=max(2_048, 2 * states * samples),
        eval_interval_updates=2,
        diagnostics_interval_updates=2,
        checkpoint_interval_updates=2,
        match=dataclasses.replace(config.match, games=2, interval_updates=10**6),
    )
