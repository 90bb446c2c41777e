"""Everything that decides a run, as nested frozen dataclasses, checked where they are built.

The algorithm's own dataclass is its configuration: `TrainConfig.algorithm` holds it as it is. The
`Attributes:` lines below are the help texts of the command line.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from algorithms.core.checks import (
    AboveZero,
    Count,
    NotNegative,
    Positive,
    Rule,
    Share,
    at_most,
    check_fields,
    check_numbers,
    require,
)
from algorithms.networks.settings import NetworkConfig, PrecisionConfig, tiny
from algorithms.regularization import RegularizerConfig
from chess_env.custom_objects import spec_of
from chess_env.evaluators import of_version
from chess_env.rewards import DEFAULT_REWARD, SUCCESS, reward_text

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


Threads = Annotated[Count, at_most(1_024, "a thread needs a core of its own")]
Engines = Annotated[Count, at_most(10_000, "an engine needs a core of its own")]


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
        greedy_fraction: positions form only: share of the plies, in [0, 1], that are played on with
            the policy's most probable move instead of its first sample; samples and rewards do not
            change. A broad policy then still visits the positions that its greedy play leads to.
        sync_interval_updates: the policy that samples is brought up to date every so many updates;
            above 1 the rollouts are stale and the ratio is not 1 at the first step.
    """

    form: Literal["positions", "games"] = "positions"
    num_envs: Count = 64
    num_plies: Count = 4
    temperature: Positive = 1.0
    train_sides: Literal["both", "start"] = "both"
    teacher_fraction: Share = 0.0
    greedy_fraction: float = 0.0
    sync_interval_updates: Count = 1

    def __post_init__(self) -> None:
        check_fields(self, "rollout")
        require(
            self.train_sides == "both" or self.form == "games",
            f"rollout.train_sides is {self.train_sides!r} and rollout.form {self.form!r}: streams of "
            "positions have no start player; set rollout.form to games, or train_sides to both",
        )
        require(
            0 <= self.greedy_fraction <= 1
            and (self.greedy_fraction == 0 or self.form == "positions"),
            f"rollout.greedy_fraction is {self.greedy_fraction} and rollout.form {self.form!r}: it is a "
            "share, in [0, 1], and games are played with the moves that are learned from; set it to 0, or "
            "rollout.form to positions",
        )
        require(
            self.teacher_fraction == 0 or (self.form, self.train_sides) == ("games", "start"),
            f"rollout.teacher_fraction is {self.teacher_fraction}: a teacher plays plies that nobody "
            "learns from; set rollout.form to games and rollout.train_sides to start",
        )


DEFAULT_STARTS = "0.85*random_plies:2-40+0.15*decided"
"""A policy that never sees won positions draws them later, by repetition and stalemate (docs/environment.md)."""


@dataclass(frozen=True)
class EnvConfig:
    """The game and its rewards.

    Attributes:
        evaluator: scores positions: "auto" (Stockfish where found, otherwise the built-in
            evaluator), "stockfish", "stockfish:depth=6", "stockfish:nodes=5000", "builtin", any of them with
            "-v1" behind its first word, as in "stockfish-v1:depth=4", for the scores before version 2, or
            "module:Name" of your own. "ray:" before one of them, as in "ray:stockfish:depth=6", asks
            engines on all machines of a Ray cluster (docs/scaling.md).
        num_engines: Stockfish processes; about one for each core is best. With "ray:" the engines of the whole
            cluster.
        num_threads: threads of the boards and of the built-in evaluator in each process of a run; they change no
            result. None: one for each core, which the processes of one machine share.
        reward: terms of `chess_env.rewards` or of your own, such as "win_prob_delta",
            "win_prob_delta+0.5*cp_delta" or "module:name"; None means win_prob_delta+mate_delta, or success
            where the algorithm learns from success and failure alone.
        start_positions: where games start, e.g. "initial", "random_plies:2-40", "openings",
            "phase_mix", "decided", "bare_kings", "fens:PATH", a mixture "0.7*phase_mix+0.3*decided", or
            "module:Name" of your own.
        max_plies: a game is cut (truncated, not ended) this many plies after its start position;
            fewer means more different starts. None: rollout.num_plies, so every rollout begins
            with fresh starts.
        twofold: the second occurrence of a position ends a game as a draw, as in an engine's search, not the third.
        cache: None, "memory", or the path of an sqlite file that keeps scores between runs.
        opponent: answers inside every step, a player of `chess_env.games.players`: "random", "builtin",
            "stockfish:nodes=1", any of them with "@random=SHARE" behind it. Only the learner's moves
            are then sampled, scored and counted, one for each position. None: self-play.
    """

    evaluator: str = "auto"
    num_engines: Engines = 2
    num_threads: Threads | None = None
    reward: str | None = None
    start_positions: str = DEFAULT_STARTS
    max_plies: Count | None = None
    twofold: bool = False
    cache: str | None = None
    opponent: str | None = None

    def __post_init__(self) -> None:
        # The record of a run is text: a class or function is kept as its name, module:Name.
        # What stands for a version or for terms is written out: later it may stand for others.
        object.__setattr__(self, "reward", reward_text(self.reward))
        for name in ("evaluator", "start_positions"):
            if not isinstance(getattr(self, name), str):
                object.__setattr__(self, name, spec_of(getattr(self, name), f"env.{name}"))
        object.__setattr__(self, "evaluator", of_version(self.evaluator))
        check_fields(self, "env")
        require(
            self.evaluator != "none",
            "env.evaluator is 'none': training needs scores; "
            "set it to auto, stockfish:depth=4 or builtin",
        )


@dataclass(frozen=True)
class OptimizerConfig:
    """The optimizer (Adam).

    Attributes:
        learning_rate: Adam's step size at the start; raising it learns and collapses faster. None: the
            network's own (docs/networks.md).
        lr_final: the step size at the end of the budget (linear in between); None means constant.
        warmup_updates: updates over which the step size rises linearly from 0.
        max_grad_norm: the gradient is scaled down to this norm where it is longer.
        minibatch_size: positions in one optimizer step; all moves of a position stay together.
        frozen_layers: modules or parameters of the network that are not trained, by the beginning of
            their names (resnet: stem, square_bias, body, body.0, norm, from_vector, to_vector, ...; move_net and
            transformer: embedding, body, body.0, norm, head, head.fact_features, ...).
        sampler_correction: weigh a sample's policy loss with learner / sampler as they are before the first
            step: clamped to its bounds (`tis`), or 0 outside of them (`icepop`). It costs a forward pass.
        correction_low: lower bound of that weight; None: 0 (tis), 0.5 (icepop).
        correction_high: upper bound, inf: none; None: 2 (tis), 5 (icepop).
    """

    learning_rate: Positive | None = None
    lr_final: NotNegative | None = 0.0
    warmup_updates: Annotated[int, Rule(lambda n: n >= 0, "it must be at least 0")] = 0
    max_grad_norm: Positive = 1.0
    minibatch_size: Count = 32
    frozen_layers: tuple[str, ...] = ()
    sampler_correction: Literal["none", "tis", "icepop"] = "none"
    correction_low: NotNegative | None = None
    correction_high: AboveZero | None = None

    def __post_init__(self) -> None:
        check_fields(self, "optimizer")
        if self.sampler_correction == "none":
            require(
                self.correction_low is None and self.correction_high is None,
                f"optimizer.correction_low is {self.correction_low} and correction_high {self.correction_high}, and "
                "nothing is corrected: set optimizer.sampler_correction to tis or icepop, or leave them out",
            )
            return
        low, high = self.correction_bounds
        require(
            low <= high,
            f"optimizer.correction_low is {low} and correction_high {high}: the weight has no range; set "
            "correction_low <= correction_high",
        )

    @property
    def correction_bounds(self) -> tuple[float, float]:
        """(lower, upper) bound of learner / sampler in the correction that is on."""
        low, high = (0.0, 2.0) if self.sampler_correction == "tis" else (0.5, 5.0)
        low = low if self.correction_low is None else self.correction_low
        return low, high if self.correction_high is None else self.correction_high

    def settled(self, policy: NetworkConfig) -> OptimizerConfig:
        """These settings, with the network's own step size where none is given."""
        if self.learning_rate is not None:
            return self
        return dataclasses.replace(self, learning_rate=policy.learning_rate)

    @property
    def full_learning_rate(self) -> float:
        """The step size at the start, after the warm-up.

        Raises:
            ValueError: it is still None: no network has decided it.
        """
        if self.learning_rate is None:
            raise ValueError(
                "optimizer.learning_rate is None: give a number, or take OptimizerConfig.settled(policy)"
            )
        return self.learning_rate

    def learning_rate_at(self, update: int, progress: float) -> float:
        """Step size of update `update` (from 0) when `progress` (0..1) of the budget is used."""
        first = self.full_learning_rate
        final = first if self.lr_final is None else self.lr_final
        rate = first + (final - first) * min(1.0, progress)
        return rate * min(1.0, (update + 1) / (self.warmup_updates + 1))


@dataclass(frozen=True)
class MatchConfig:
    """Short matches during the run, of the policy's most probable moves.

    Attributes:
        opponents: players of `chess_env.games.players`, e.g. random material builtin; none: no matches.
        games: in each match, even: every opening is played with both colours.
        interval_updates: updates between matches; one more is played at the end.
    """

    opponents: tuple[str, ...] = ()
    games: Count = 40
    interval_updates: Count = 200

    def __post_init__(self) -> None:
        check_fields(self, "match")
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
        precision: where the network computes below float32.
        rollout: how moves are sampled.
        env: the game and its rewards.
        optimizer: step size, minibatches and the like.
        match: games against other players during the run.
        total_moves: budget in scored moves (every sampled move that was given a reward counts). It
            is never exceeded, except where all legal moves are scored: then the last rollout may
            have more than any before it.
        eval_interval_updates: updates between evaluations on the held-out positions.
        diagnostics_interval_updates: updates between the costly diagnostics (gradient shares, predicted
            entropy changes, and the signal chain, whose updates are drawn: one of every so many).
        signal_chain: compare each stage of the measured updates with the true policy gradient
            (docs/metrics.md): "brief" looks at the losses at the first and the middle step, "full" at every
            step (about twice as long), "off" not at all.
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
        init_logit_scale: factor on the logits of the start weights: above 1 the run starts surer of its moves,
            and no better.
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
    signal_chain: Literal["brief", "full", "off"] = "brief"
    checkpoint_interval_updates: Count = 20
    checkpoint_keep: Kept | None = None
    seed: Seed = 0
    device: Literal["auto", "cpu", "cuda"] = "auto"
    compile: bool = False
    num_shards: Count = 1
    num_threads: Threads = 1
    preflight: bool = True
    track: Literal["wandb", "tensorboard"] | None = None
    init_from: str | None = None
    init_logit_scale: Positive = 1.0
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
        if self.env.reward is None:  # what it stands for may change later, and is written out
            reward = SUCCESS if self.algorithm.needs().success_rewards else DEFAULT_REWARD
            object.__setattr__(self, "env", dataclasses.replace(self.env, reward=reward))
        check_fields(self)
        check_numbers(self.algorithm, "algorithm")


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
