"""What is asked of a run by its record, whoever's loop trains it."""

from __future__ import annotations

from typing import Protocol

import torch

from algorithms.config.run import TrainConfig
from algorithms.networks.policy_net import PolicyNet
from algorithms.rollouts.seen_positions import SeenPositions
from algorithms.run_folder.progress import EvaluatorUsage, Progress
from chess_env.evaluators import Evaluator


class Learner(Protocol):
    """A run's parts that evaluation, accounts and report look at.

    Attributes:
        config: what was asked for.
        policy: the network that is evaluated.
        device: where it lives.
        evaluator: who scores the moves.
        questions: what the evaluator was asked.
        progress: what has been done.
        seen: positions that were trained on.
    """

    config: TrainConfig
    policy: PolicyNet
    device: torch.device
    evaluator: Evaluator
    usage: EvaluatorUsage
    progress: Progress
    seen: SeenPositions
