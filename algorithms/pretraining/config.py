"""Everything that decides a pretraining run; the `Attributes:` lines are the command line's help."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from algorithms.config import files as config_file
from algorithms.config.files import build
from algorithms.config.foreign import NO_TRUST, Trust, foreign_names, require_trust
from algorithms.config.run import Engines, OptimizerConfig, Threads
from algorithms.core.checks import Count, Rule, at_most, check_fields, require, whole_number
from algorithms.networks.settings import NetworkConfig, PrecisionConfig, tiny
from algorithms.run_folder.atomic_files import closed_object, replace_file
from chess_env.evaluators import of_version

LOOP = config_file.PRETRAIN
TEMPERATURE = 1.0
"""Temperature of the softmax that is learned and evaluated; config.json has it for those who load the policy."""

# Beside these everything decides the stream of minibatches, the steps, or what a label means.
RESUME_MAY_CHANGE = frozenset(
    {
        "total_steps",
        "plateau",
        "patience_evals",
        "min_improvement_cp",
        "log_interval_steps",
        "eval_interval_steps",
        "track",
        "device",
        "num_threads",
        "run_dir",
        "labels.num_engines",
        "labels.labels_dir",
    }
)

Whole = Annotated[int, whole_number(0, "it is a whole number")]
ShardSize = Annotated[Count, at_most(10_000_000, "a shard is made in memory")]


def at_least(least: float) -> Rule:
    """The rule of a finite number >= `least`."""
    return Rule(lambda value: least <= value < math.inf, f"set it to a finite number >= {least}")


@dataclass(frozen=True)
class LabelConfig:
    """The labelled positions.

    Attributes:
        start_positions: source of the positions that walks start from, e.g. "phase_mix",
            "random_plies:2-40", "openings", "fens:PATH".
        evaluator: scores the legal moves: "builtin", "stockfish:depth=4", or "auto" (Stockfish
            where found). Stockfish judges better and is a hundred times slower. Unused with --pgn.
        num_engines: Stockfish processes; about one for each core is best. The built-in evaluator uses all cores.
        walk_plies: plies played on from each drawn start; every position on the way is labelled. 0
            labels the starts alone.
        random_move_fraction: share of those plies, in [0, 1], that are uniformly random; the others
            are the evaluator's best move.
        num_positions: positions to label, or with --pgn to read at most.
        shard_size: positions in one file.
        label_seed: seeds starts and walks; runs that share it can share `labels_dir`.
        labels_dir: folder of the shards; None means `labels` in the run folder.
        pgn: a file of games (.pgn; packed as .zst, .gz, .bz2 or .xz) to learn from in place of an evaluator.
        min_rating: games in which either player has a lower rating, or none, are left out; 0 takes all.
        skip_plies: plies at the start of each game that are not learned from.
    """

    start_positions: str = "phase_mix"
    evaluator: str = "builtin"
    num_engines: Engines = 2
    walk_plies: Whole = 8
    random_move_fraction: Annotated[
        float, Rule(lambda share: 0 <= share <= 1, "set it in [0.0, 1.0]")
    ] = 0.25
    num_positions: Count = 262_144
    shard_size: ShardSize = 8_192
    label_seed: Whole = 0
    labels_dir: Path | None = None
    pgn: Path | None = None
    min_rating: Whole = 0
    skip_plies: Whole = 8

    def __post_init__(self) -> None:
        check_fields(self)
        require(
            self.evaluator != "none",
            "evaluator is 'none': labels need scores; set it to auto, stockfish:depth=4 or builtin",
        )
        # The version is written out: a later one would give other labels.
        object.__setattr__(self, "evaluator", of_version(self.evaluator))

    @property
    def num_shards(self) -> int:
        """Files that hold `num_positions`, the last one perhaps more than are missing."""
        return -(-self.num_positions // self.shard_size)


@dataclass(frozen=True)
class PretrainConfig:
    """One pretraining run.

    Attributes:
        labels: the labelled positions.
        target: what the policy learns: "soft" (a softmax over all legal moves of 2 Win% - 1 of
            their clipped scores), "best" (the best move; equal ones share), or "played" (the move
            of the game; the only one with --pgn).
        target_temperature: of the softmax of "soft"; lower is nearer to the best move alone.
        target_clip_cp: scores are clipped to this many centipawns for "soft".
        policy: the network.
        precision: where the network computes below float32.
        optimizer: step size, minibatches and the like; the step size rises over `warmup_updates` steps and falls to
            `lr_final` at step `lr_decay_steps`.
        lr_decay_steps: steps after which the step size stays at `optimizer.lr_final`; it does not
            depend on `total_steps`, so a longer run repeats a shorter one.
        total_steps: budget in optimizer steps.
        plateau: end the run where held-out regret no longer falls.
        patience_evals: evaluations without an improvement that make a plateau; they count from step
            `lr_decay_steps` on, because a smaller step size still lowers the regret before.
        min_improvement_cp: fall of eval/regret_cp, centipawns, that counts as an improvement.
        log_interval_steps: steps between rows of metrics.jsonl.
        eval_interval_steps: steps between evaluations on the held-out positions, each with a
            checkpoint; a multiple of `log_interval_steps`.
        seed: seeds the weights and the order of the minibatches.
        device: "auto" (CUDA where present), "cpu" or "cuda".
        num_threads: CPU threads of the network.
        track: mirror metrics.jsonl to "wandb" (offline by default) or "tensorboard".
        init_from: weights to start from in place of random ones: a run folder, a checkpoint folder,
            a .safetensors file, or the name of a shipped policy.
        run_dir: the run folder; None makes runs/pretrain-<date>-<time>.
    """

    labels: LabelConfig = field(default_factory=LabelConfig)
    target: Literal["soft", "best", "played"] = "soft"
    target_temperature: Annotated[float, at_least(1e-6)] = 0.02
    target_clip_cp: Count = 1_000
    policy: NetworkConfig = field(default_factory=NetworkConfig)
    precision: PrecisionConfig = field(default_factory=PrecisionConfig)
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(
            learning_rate=2e-3, lr_final=1e-4, warmup_updates=100, minibatch_size=128
        )
    )
    lr_decay_steps: Count = 5_000
    total_steps: Count = 20_000
    plateau: bool = True
    patience_evals: Count = 6
    min_improvement_cp: Annotated[float, at_least(0.0)] = 0.5
    log_interval_steps: Count = 50
    eval_interval_steps: Count = 250
    seed: Whole = 0
    device: Literal["auto", "cpu", "cuda"] = "auto"
    num_threads: Threads = 1
    track: Literal["wandb", "tensorboard"] | None = None
    init_from: str | None = None
    run_dir: Path | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        correction = self.optimizer.sampler_correction
        require(
            correction == "none",
            f"optimizer.sampler_correction is {correction!r}: pretraining learns from labels and nothing is sampled; "
            "leave it at none",
        )
        require(
            (self.target == "played") == (self.labels.pgn is not None),
            f"target is {self.target!r} and pgn {self.labels.pgn}: games have the move played and no "
            "scores; set target to played with a pgn file, and to soft or best without one",
        )
        require(
            self.eval_interval_steps % self.log_interval_steps == 0,
            f"eval_interval_steps is {self.eval_interval_steps} and log_interval_steps "
            f"{self.log_interval_steps}: an evaluation is part of a row; set it to a multiple",
        )
        require(
            self.policy.dropout == 0,
            f"policy.dropout is {self.policy.dropout}: pretraining runs the policy in evaluation "
            "mode, as reinforcement learning does; set it to 0",
        )


def smoke(config: PretrainConfig) -> PretrainConfig:
    """The same run made small enough for a few seconds: a check of the parts, not of learning."""
    return dataclasses.replace(
        config,
        labels=dataclasses.replace(config.labels, num_positions=1_024, shard_size=512),
        policy=tiny(config.policy),
        optimizer=dataclasses.replace(config.optimizer, warmup_updates=5, minibatch_size=64),
        lr_decay_steps=30,
        total_steps=40,
        log_interval_steps=10,
        eval_interval_steps=20,
    )


def to_dict(config: PretrainConfig) -> dict[str, Any]:
    """The configuration as JSON values, marked as one of `chess-lab pretrain`."""
    values = json.loads(json.dumps(dataclasses.asdict(config), default=str))
    label = {"loop": LOOP, "algorithm": {"name": LOOP}, "temperature": TEMPERATURE}
    return {**label, **values}


def from_dict(values: dict[str, Any]) -> PretrainConfig:
    """The configuration that `to_dict` wrote.

    Raises:
        ValueError: that of another kind of run, an unknown field, or a value out of range.
    """
    label = [values.pop(name, None) for name in ("loop", "algorithm", "temperature")]
    require(
        label[0] == LOOP,
        "it is the configuration of a run of `chess-lab train`: continue that with "
        "`chess-lab train --resume`",
    )
    config: PretrainConfig = build(PretrainConfig, values)
    return config


def save(config: PretrainConfig, path: Path) -> None:
    """Writes the configuration as readable JSON, in one atomic step: a run is lost without it."""
    replace_file(path, closed_object(to_dict(config)))


def load(path: Path, trust: Trust = NO_TRUST) -> PretrainConfig:
    """The configuration in a folder's JSON file, to be run.

    Args:
        path: the config.json.
        trust: names from outside the project that it may use.

    Raises:
        ValueError: it cannot be read; the message names the file.
        UntrustedError: it names code, a program or a file outside that `trust` does not allow.
    """
    values = config_file.read_settings(path)
    require_trust(path, foreign_names(values), trust)
    return load_record(path)


def load_record(path: Path) -> PretrainConfig:
    """The configuration in a JSON file, to be compared; ValueError names the file where it cannot be read."""
    try:
        return from_dict(config_file.read_settings(path))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is not a readable pretraining configuration: {error}") from error


def check_resumable(old: PretrainConfig, new: PretrainConfig) -> None:
    """Raises ValueError where `new` differs from the run's own settings in more than it may."""
    config_file.refuse_changes(to_dict(old), to_dict(new), RESUME_MAY_CHANGE)
