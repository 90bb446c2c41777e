"""MaskablePPO of sb3-contrib on this project's boards, network and record: the outside baseline.

The same run as `train` makes for algorithm ppo, with the loop, buffer, advantages and update of
Stable-Baselines3 in place of this project's. sb3-contrib is imported only where a run begins.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import torch

import chess_env  # noqa: F401 - registers ChessSelfPlay-v0
from algorithms.config.run import TrainConfig
from algorithms.core.checks import require
from algorithms.integrations.sb3.settings import (
    PLANES_ALONE,
    maskable_ppo_arguments,
    moves_per_update,
    updates_in_budget,
)
from algorithms.networks.build import reads_move_facts
from algorithms.networks.device import choose_device
from algorithms.networks.policy_net import PolicyNet
from algorithms.rollouts.seen_positions import SeenPositions
from algorithms.run_folder.console import Display, make_display
from algorithms.run_folder.progress import EvaluatorUsage, Progress
from algorithms.run_folder.stopping import stop_on_signal
from algorithms.training.observer import RowReader, RunObserver, new_run_dir, observer_of
from algorithms.training.result import TrainResult, describe, result_of
from chess_env.evaluators import Evaluator, make_evaluator

if TYPE_CHECKING:
    from algorithms.integrations.sb3.boards import BoardsVecEnv

PACKAGES = ("stable_baselines3", "sb3_contrib")
"""Their versions are part of the run's record."""


@dataclasses.dataclass
class SB3Session:
    """The parts of a run of MaskablePPO; a `TrainingSession`.

    Attributes:
        config: the settings of the run.
        model: the MaskablePPO.
        env: its boards.
        policy: the network inside it.
        device, evaluator, usage, progress, seen: as of `TrainingSession`.
    """

    config: TrainConfig
    model: Any
    env: BoardsVecEnv
    policy: PolicyNet
    device: torch.device
    evaluator: Evaluator
    usage: EvaluatorUsage
    progress: Progress = dataclasses.field(default_factory=Progress)
    seen: SeenPositions = dataclasses.field(default_factory=SeenPositions)

    def state(self) -> dict[str, Any]:
        """The contents of a checkpoint beside the weights: too little to continue the run."""
        return {"loop": self.config.loop, "evaluator": self.evaluator.id}

    def close(self) -> None:
        """Ends the boards and the evaluator."""
        self.env.close()
        self.evaluator.close()


def make_sb3_session(config: TrainConfig) -> SB3Session:
    """A MaskablePPO with this run's boards, network and settings, ready to learn.

    SB3 seeds the global generators of Python, NumPy and torch.

    Raises:
        ValueError: settings that MaskablePPO cannot have.
        ModuleNotFoundError: sb3-contrib is not installed; the message says how to install it.
    """
    require(
        config.loop == "sb3",
        f"loop is {config.loop!r}: this is MaskablePPO's; set loop to sb3",
    )
    config = config.settled()
    arguments = maskable_ppo_arguments(config)
    try:
        from sb3_contrib import MaskablePPO

        from algorithms.integrations.sb3.boards import BoardsVecEnv
        from algorithms.integrations.sb3.policy import NetworkPolicy
    except ImportError as error:
        raise ModuleNotFoundError(
            f"MaskablePPO needs the package sb3-contrib ({error}): "
            'run pip install -e ".[sb3]" in the clone'
        ) from error
    device, env = choose_device(config.device), config.env
    evaluator = make_evaluator(env.evaluator, env.num_engines, env.cache)
    try:
        vec: Any = gym.make_vec(
            "ChessSelfPlay-v0",
            num_envs=config.rollout.num_envs,
            evaluator=evaluator,
            reward=env.reward,
            start_positions=env.start_positions,
            max_plies=env.max_plies or config.rollout.num_plies,
            opponent=env.opponent,
            move_facts=reads_move_facts(config.policy),
        )
        boards = BoardsVecEnv(
            vec,
            config.algorithm.group_size if env.opponent is None else None,
            legal_ids=config.policy.network not in PLANES_ALONE,
        )
        model = MaskablePPO(
            NetworkPolicy,
            boards,
            policy_kwargs={
                "config": config.policy,
                "precision": config.precision,
                "seed": config.seed,
                "temperature": config.rollout.temperature,
                "frozen_layers": config.optimizer.frozen_layers,
                "init_from": config.init_from,
            },
            device=device,
            **arguments,
        )
    except BaseException:
        evaluator.close()
        raise
    assert isinstance(model.policy, NetworkPolicy)
    net = model.policy.net
    return SB3Session(config, model, boards, net, device, evaluator, EvaluatorUsage(evaluator))


def train_sb3(
    config: TrainConfig,
    *,
    resume: bool = False,
    display: Display | None = None,
    watch: RowReader | None = None,
) -> TrainResult:
    """The result of a run by MaskablePPO, which is trained until the budget is used or a signal comes.

    The run folder is that of `train`: settings, environment, metrics, checkpoints of the weights. It
    has no preflight, leaves out metrics that SB3 does not give, and cannot be continued.

    Args:
        config: the run, with `loop` "sb3".
        resume: as of `train`; here it is an error.
        display: shows the run; None chooses a live table or plain lines.
        watch: is given every row of the record and returns a line on how the run does.

    Raises:
        ValueError: a setting that MaskablePPO cannot have, a budget below one rollout, or `resume`.
        ModuleNotFoundError: sb3-contrib is not installed.
        RunFolderError: the folder holds another run, or another process writes it.
    """
    require(
        not resume,
        f"{config.run_dir} is a run of MaskablePPO, which cannot be continued: begin anew",
    )
    config = config.settled()
    updates = updates_in_budget(config)
    run_dir = config.run_dir or new_run_dir(config)
    display = display or make_display(config.total_moves)
    threads = torch.get_num_threads()
    torch.set_num_threads(config.num_threads)
    observer: RunObserver | None = None
    session: SB3Session | None = None
    try:
        session = make_sb3_session(config)
        observer = observer_of(session, run_dir, display, watch, resume_at=None)
        describe(session, display, run_dir, resumed=False, packages=PACKAGES)
        with stop_on_signal() as stop:
            from stable_baselines3.common.logger import Logger

            from algorithms.integrations.sb3.record import SB3Callback

            callback = SB3Callback(session, observer, stop, display.say)
            session.model.set_logger(Logger(folder=None, output_formats=[]))
            # Without an interval SB3's logger keeps its values for the record to read.
            session.model.learn(
                updates * moves_per_update(config), callback=callback, log_interval=None
            )
        return result_of(session, observer.last_regret(), run_dir, stopped_by=stop.name)
    finally:
        display.stop()
        if observer is not None:
            observer.close()
        if session is not None:
            session.close()
        torch.set_num_threads(threads)
