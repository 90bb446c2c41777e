"""What a run's bonus and KL pull towards: the first-order condition, and a sentence where it is not known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from algorithms import PRESETS
from algorithms.config import files as config_file
from algorithms.config.foreign import Trust
from algorithms.config.run import EnvConfig, RolloutConfig, TrainConfig
from algorithms.networks.policy_net import PolicyNet
from algorithms.playing.position import reached
from algorithms.playing.pull import NoOptimumError, load_pull
from algorithms.playing.view import PositionView, view_of
from algorithms.regularization import Regularizer, RegularizerConfig
from algorithms.run_folder import checkpoint
from chess_env.evaluators import make_evaluator
from chess_env.games.reference_game import observation
from chess_env.moves import move_to_action
from chess_env.rewards import value
from tests.evaluation.policies import SMALL, small_policy

TEMPERATURE = 0.7
POSITION = reached(None, ("e2e4", "e7e5", "d1h5", "e8e7"))  # of which one move mates


def run_folder(
    folder: Path, *, preset: str = "rloo", reference: PolicyNet | None = None, **terms: Any
) -> str:
    """A run whose checkpoint has other coefficients than its settings: a tenth of them."""
    config = TrainConfig(
        PRESETS[preset][0],
        RegularizerConfig(**terms),
        policy=SMALL,
        preset=preset,
        run_dir=folder,
        rollout=RolloutConfig(temperature=TEMPERATURE),
        env=EnvConfig(evaluator="builtin"),
    )
    folder.mkdir()
    config_file.save(config, folder / "config.json")
    state = Regularizer(config.regularizer, TEMPERATURE).state
    later = state.moved(**{name: coef / 10 for name, coef in state.coefs.items()})
    checkpoint.save(
        folder / "checkpoints",
        1,
        weights=small_policy(0).state_dict(),
        state={
            "regularizer": later.to_dict(),
            "reference": None if reference is None else reference.state_dict(),
        },
        best=True,
    )
    return str(folder)


def view(source: str) -> PositionView:
    evaluator = make_evaluator("builtin", 1)
    try:
        return view_of(
            small_policy(0), POSITION, temperature=1.0, evaluator=evaluator, pull=load_pull(source)
        )
    finally:
        evaluator.close()


def reference_logprobs(policy: PolicyNet) -> dict[str, float]:
    board = POSITION.board
    moves = list(board.legal_moves)
    actions = torch.tensor([[move_to_action(move, board.turn) for move in moves]])
    with torch.no_grad():
        logits = policy(torch.from_numpy(observation(board, 0))[None], actions)[0].double()
    logprobs = torch.log_softmax(logits / TEMPERATURE, 0).tolist()
    return dict(zip((move.uci() for move in moves), logprobs, strict=True))


@pytest.mark.parametrize(("bonus", "beta"), [(0.5, 0.0), (0.0, 0.8), (0.5, 0.8)])
def test_no_small_change_of_the_optimum_gains_anything(
    tmp_path: Path, bonus: float, beta: float
) -> None:
    anchor = small_policy(7)
    source = run_folder(
        tmp_path / "run", reference=anchor if beta else None, ent_coef=bonus, kl_ref_coef=beta
    )
    found = view(source)
    ref = reference_logprobs(anchor)
    share = {move.uci: move.optimum or 0.0 for move in found.moves}
    assert sum(share.values()) == pytest.approx(1.0)
    reward = {
        move.uci: float(value(move.score_cp) + value(move.score_cp, "mate")) for move in found.moves
    }
    # d/d pi of E R - beta KL + c H, with the coefficients of the checkpoint: the same for every move.
    c, b = bonus / 10, beta / 10
    slopes = [
        reward[uci] + b * ref[uci] - (b + c) * (np.log(p) + 1)
        for uci, p in share.items()
        if p > 1e-12
    ]
    assert len(slopes) > 10
    np.testing.assert_allclose(slopes, slopes[0], atol=1e-5)
    assert found.optimum_entropy == pytest.approx(
        -sum(p * np.log(p) for p in share.values() if p > 0), abs=1e-9
    )


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"preset": "grpo", "ent_coef": 0.1}, "grpo divides its advantages by their spread"),
        ({"ent_coef": 0.0}, "neither an entropy bonus nor a KL"),
        ({"ent_coef": 0.1, "ent_estimator": "sampled"}, "terms of entropy and KL is not known"),
        ({"kl_ref_coef": 0.1}, "does not hold the reference policy"),
    ],
)
def test_a_run_without_a_known_optimum_says_why(
    tmp_path: Path, settings: dict[str, Any], why: str
) -> None:
    with pytest.raises(NoOptimumError, match=why):
        load_pull(run_folder(tmp_path / "run", **settings))


def test_weights_without_a_run_and_files_without_a_state_say_so(tmp_path: Path) -> None:
    with pytest.raises(NoOptimumError, match="No run is known of these weights"):
        load_pull("warm")
    source = run_folder(tmp_path / "run", ent_coef=0.1)
    folder = tmp_path / "run" / "checkpoints"
    checkpoint.save(folder, 2, weights=small_policy(0).state_dict(), state={}, best=False)
    with pytest.raises(NoOptimumError, match="cannot be read: it holds no such state"):
        load_pull(source)


def test_a_run_that_names_code_of_its_own_is_not_followed(tmp_path: Path) -> None:
    source = run_folder(tmp_path / "run", ent_coef=0.1, terms=("nowhere.at_all:term",))
    with pytest.raises(NoOptimumError, match="name parts from outside the project, so"):
        load_pull(source)
    with pytest.raises(NoOptimumError, match="cannot be read"):  # it is tried, and is not there
        load_pull(source, Trust(everything=True))
