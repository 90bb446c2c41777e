"""What is asked of a run by its record, whoever's loop trains it."""

from __future__ import annotations

from typing import Protocol

import torch

from algorithms.training.config import TrainConfig
from algorithms.training.policy import PolicyNet
from algorithms.training.progress import Progress, Questions
from algorithms.training.seen_positions import SeenPositions
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
    questions: Questions
    progress: Progress
    seen: SeenPositions
