"""Everything that decides a run, as nested frozen dataclasses, checked where they are built.

The algorithm's own dataclass is its configuration: `TrainConfig.algorithm` holds it as it is. The
`Attributes:` lines below are the help texts of the command line.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from algorithms.core.checks import require, require_choice, require_count
from algorithms.regularization import RegularizerConfig
from algorithms.training.policy import PolicyConfig
from chess_env.own_objects import spec_of
from chess_env.rewards import reward_text

ALL_MOVES_GUESS = 40
"""Legal moves of a position, on the large side, while a run that scores them all has no figure."""


def _require_positive(name: str, value: float) -> None:
    """Raises ValueError naming the field, unless its value is finite and above 0."""
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} is {value!r}: it must be above 0; set it to a positive number")


def _require_count(name: str, value: int) -> None:
    """Raises ValueError naming the field, unless its value is a whole number above 0."""
    require_count(name, value, 1, "it must be a whole number above 0")


@dataclass(frozen=True)
class RolloutConfig:
    """How moves are sampled.

    Attributes:
        form: "positions": group_size moves are sampled from the same position at every ply, and
            the first one is played on; "games": group_size whole games from the same start.
        num_envs: boards P (positions form) or start positions P (games form) side by side.
        num_plies: plies T played on every board in one rollout; one rollout scores up to
            num_envs x num_plies x group_size moves.
        temperature: softmax temperature of sampling AND learning; higher is more random.
        train_sides: games form only: learn from "both" sides' moves, or from those of the side
            that is to move at the start ("start").
        teacher_fraction: share of the opponent's plies, in [0, 1], that are played by the
            evaluator's best move; needs the games form and train_sides "start".
        sync_interval_updates: the policy that samples is brought up to date every so many updates;
            above 1 the rollouts are stale and the ratio is not 1 at the first step.
    """

    form: Literal["positions", "games"] = "positions"
    num_envs: int = 64
    num_plies: int = 4
    temperature: float = 1.0
    train_sides: Literal["both", "start"] = "both"
    teacher_fraction: float = 0.0
    sync_interval_updates: int = 1

    def __post_init__(self) -> None:
        require_choice("rollout.form", self.form, ("positions", "games"))
        _require_count("rollout.num_envs", self.num_envs)
        _require_count("rollout.num_plies", self.num_plies)
        _require_positive("rollout.temperature", self.temperature)
        require_choice("rollout.train_sides", self.train_sides, ("both", "start"))
        require(
            self.train_sides == "both" or self.form == "games",
            f"rollout.train_sides is {self.train_sides!r} and rollout.form {self.form!r}: streams of "
            "positions have no start player; set rollout.form to games, or train_sides to both",
        )
        _require_count("rollout.sync_interval_updates", self.sync_interval_updates)
        require(
            0 <= self.teacher_fraction <= 1,
            f"rollout.teacher_fraction is {self.teacher_fraction}: it is a share, in [0, 1]",
        )
        require(
            self.teacher_fraction == 0 or (self.form, self.train_sides) == ("games", "start"),
            f"rollout.teacher_fraction is {self.teacher_fraction}: a teacher plays plies that nobody "
            "learns from; set rollout.form to games and rollout.train_sides to start",
        )


@dataclass(frozen=True)
class EnvConfig:
    """The game and its rewards.

    Attributes:
        evaluator: who scores positions: "auto" (Stockfish where found, otherwise the built-in
            evaluator), "stockfish", "stockfish:depth=6", "stockfish:nodes=5000", "builtin", or
            "module:Name" of your own.
        num_engines: Stockfish processes; about one for each core is best.
        reward: terms of `chess_env.rewards` or of your own, such as "win_prob_delta",
            "win_prob_delta+0.5*cp_delta" or "module:name"; None means win_prob_delta.
        start_positions: where games start, e.g. "initial", "random_plies:2-40", "openings",
            "phase_mix", "decided", "fens:PATH", a mixture "0.7*phase_mix+0.3*decided", or
            "module:Name" of your own.
        max_plies: a game is cut (truncated, not ended) this many plies after its start position;
            fewer means more different starts. None: rollout.num_plies, so every rollout begins
            with fresh starts.
        cache: None, "memory", or the path of an sqlite file that keeps scores between runs.
        opponent: who answers inside every step, of `chess_env.players`: "random", "builtin",
            "stockfish:nodes=1", any of them with "@random=SHARE" behind it. Only the learner's moves
            are then sampled, scored and counted, one for each position. None: self-play.
    """

    evaluator: str = "auto"
    num_engines: int = 2
    reward: str | None = None
    start_positions: str = "random_plies:2-40"
    max_plies: int | None = None
    cache: str | None = None
    opponent: str | None = None

    def __post_init__(self) -> None:
        # The record of a run is text: a class or function is kept as its name, module:Name.
        object.__setattr__(self, "reward", reward_text(self.reward))
        for name in ("evaluator", "start_positions"):
            if not isinstance(getattr(self, name), str):
                object.__setattr__(self, name, spec_of(getattr(self, name), f"env.{name}"))
        _require_count("env.num_engines", self.num_engines)
        if self.max_plies is not None:
            _require_count("env.max_plies", self.max_plies)
        require(
            self.evaluator != "none",
            "env.evaluator is 'none': training needs scores; "
            "set it to auto, stockfish:depth=4 or builtin",
        )


@dataclass(frozen=True)
class OptimizerConfig:
    """How the weights move (Adam).

    Attributes:
        learning_rate: Adam's step size at the start; raising it learns and collapses faster.
        lr_final: the step size at the end of the budget (linear in between); None means constant.
        warmup_updates: updates over which the step size rises linearly from 0.
        max_grad_norm: the gradient is scaled down to this norm where it is longer.
        minibatch_size: positions in one optimizer step; all moves of a position stay together.
        frozen_layers: modules or parameters of the network that are not trained, by the beginning of
            their names (stem, square_bias, body, body.0, norm, from_vector, to_vector, ...).
    """

    learning_rate: float = 2e-3
    lr_final: float | None = 0.0
    warmup_updates: int = 0
    max_grad_norm: float = 1.0
    minibatch_size: int = 32
    frozen_layers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _require_positive("optimizer.learning_rate", self.learning_rate)
        _require_positive("optimizer.max_grad_norm", self.max_grad_norm)
        _require_count("optimizer.minibatch_size", self.minibatch_size)
        require(
            self.lr_final is None or 0 <= self.lr_final < math.inf,
            f"optimizer.lr_final is {self.lr_final!r}: it must be a finite number, at least 0, or "
            "None for constant",
        )
        require(
            self.warmup_updates >= 0,
            f"optimizer.warmup_updates is {self.warmup_updates}: it must be at least 0",
        )

    def learning_rate_at(self, update: int, progress: float) -> float:
        """Step size of update `update` (from 0) when `progress` (0..1) of the budget is used."""
        final = self.learning_rate if self.lr_final is None else self.lr_final
        rate = self.learning_rate + (final - self.learning_rate) * min(1.0, progress)
        return rate * min(1.0, (update + 1) / (self.warmup_updates + 1))


@dataclass(frozen=True)
class MatchConfig:
    """Short matches during the run, of the policy's most probable moves.

    Attributes:
        opponents: players of `chess_env.players`, e.g. random material builtin; none: no matches.
        games: in each match, even: every opening is played with both colours.
        interval_updates: updates between matches; one more is played at the end.
    """

    opponents: tuple[str, ...] = ()
    games: int = 40
    interval_updates: int = 200

    def __post_init__(self) -> None:
        _require_count("match.games", self.games)
        _require_count("match.interval_updates", self.interval_updates)
        require(
            self.games % 2 == 0,
            f"match.games is {self.games}: every opening is played twice; set it to an even number",
        )


@dataclass(frozen=True)
class TrainConfig:
    """One training run.

    Attributes:
        algorithm: the algorithm with its hyperparameters.
        regularizer: entropy bonus and KL penalties.
        policy: the network.
        rollout: how moves are sampled.
        env: the game and its rewards.
        optimizer: how the weights move.
        match: games against other players during the run.
        total_moves: budget in scored moves (every sampled move that was given a reward counts). It
            is never overdrawn, except where all legal moves are scored: then by what the last
            rollout has more than any before it.
        eval_interval_updates: updates between evaluations on the held-out positions.
        diagnostics_interval_updates: updates between the costly diagnostics (gradient shares and
            predicted entropy changes).
        checkpoint_interval_updates: updates between checkpoints.
        seed: seeds weights, sampling, minibatch order and the boards.
        device: "auto" (CUDA where present), "cpu" or "cuda".
        num_threads: CPU threads of the network; a network this small gains little from a second
            one, and the engines need the other cores.
        preflight: look for faults on the first rollout, before anything is learned from it, and do
            not start a run that has one.
        track: mirror metrics.jsonl to "wandb" (offline by default) or "tensorboard".
        init_from: weights to start from in place of random ones: a run folder (its newest
            checkpoint), a checkpoint folder, a .safetensors file, or "warm", which comes with the
            project. The reference policy of the KL terms is then this one too.
        run_dir: the run folder; None makes runs/<preset or algorithm>-<date>-<time>.
        trainer: whose loop learns: "own" (this project's), or "sb3": MaskablePPO of sb3-contrib on
            the same boards and network, for algorithm ppo only.
        preset: the entry of `PRESETS`, or the module:Name, that the run started from: a label, which
            decides nothing.
        cause: the cause of collapse that `chess-lab causes run` switched on: a label too.
    """

    # `Any` and not the algorithm's type: one configuration serves every algorithm, and the command
    # line reads the fields from the dataclass that it finds here.
    algorithm: Any
    regularizer: RegularizerConfig = field(default_factory=RegularizerConfig)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    env: EnvConfig = field(default_factory=EnvConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    match: MatchConfig = field(default_factory=MatchConfig)
    total_moves: int = 300_000
    eval_interval_updates: int = 10
    diagnostics_interval_updates: int = 10
    checkpoint_interval_updates: int = 20
    seed: int = 0
    device: Literal["auto", "cpu", "cuda"] = "auto"
    num_threads: int = 1
    preflight: bool = True
    track: Literal["wandb", "tensorboard"] | None = None
    init_from: str | None = None
    run_dir: Path | None = None
    trainer: Literal["own", "sb3"] = "own"
    preset: tyro.conf.Suppress[str | None] = None
    cause: tyro.conf.Suppress[str | None] = None

    @property
    def label(self) -> str:
        """What the run is called: its cause, its preset, or its algorithm."""
        return self.cause or self.preset or str(self.algorithm.name)

    def __post_init__(self) -> None:
        require(
            dataclasses.is_dataclass(self.algorithm) and not isinstance(self.algorithm, type),
            f"algorithm is {self.algorithm!r}: give an instance such as GRPO(group_size=8)",
        )
        _require_count("total_moves", self.total_moves)
        _require_count("eval_interval_updates", self.eval_interval_updates)
        _require_count("diagnostics_interval_updates", self.diagnostics_interval_updates)
        _require_count("checkpoint_interval_updates", self.checkpoint_interval_updates)
        _require_count("num_threads", self.num_threads)
        require(self.seed < 2**63, f"seed is {self.seed}: it must be below 2**63")
        require(self.seed >= 0, f"seed is {self.seed}: it must be at least 0")
        require_choice("device", self.device, ("auto", "cpu", "cuda"))
        require_choice("trainer", self.trainer, ("own", "sb3"))
        if self.track is not None:
            require_choice("track", self.track, ("wandb", "tensorboard"))


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
        policy=dataclasses.replace(config.policy, channels=16, blocks=1),
        rollout=rollout,
        total_moves=max(2_048, 2 * states * samples),
        eval_interval_updates=2,
        diagnostics_interval_updates=2,
        checkpoint_interval_updates=2,
        match=dataclasses.replace(config.match, games=2, interval_updates=10**6),
    )


@dataclass(frozen=True)
class TrainOptions:
    """Options of `chess-lab train NAME`.

    Attributes:
        config: the run.
        smoke: a run of a few seconds with a tiny network, to see that everything works.
        resume: continue the run in this folder; it keeps its settings.
        like: a new run with the settings of the run in this folder, but for those given here.
        json: also write the result to this file.
    """

    # The empty name puts the run's own settings at the top level: --total-moves, --env.evaluator.
    config: Annotated[TrainConfig, tyro.conf.arg(name="")]
    smoke: bool = False
    resume: Path | None = None
    like: Path | None = None
    json: Path | None = None
