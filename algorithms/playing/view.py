"""A position as a policy sees it: every number that the board shows of it."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import torch

from algorithms.core.distribution import MaskedCategorical
from algorithms.diagnostics.probe_metrics import Floats, entropy
from algorithms.evaluation.move_quality import measure
from algorithms.evaluation.policy_player import GREEDY
from algorithms.evaluation.regret import HeldoutSlice, move_regret_cp
from algorithms.networks.policy_net import PolicyNet
from algorithms.playing.policy_moves import Seen, seen_by
from algorithms.playing.position import GamePosition
from algorithms.playing.pull import Pull
from chess_env.evaluators.protocol import Evaluator, scores_of
from chess_env.games.reference_game import observation
from chess_env.moves import action_to_move, legal_actions
from chess_env.rules.fen import pack_board
from chess_env.rules.rules import children


@dataclasses.dataclass(frozen=True)
class MoveView:
    """One legal move.

    Attributes:
        uci: its name, castling as the king's two-square step.
        san: its name for people.
        probability: by the policy, at the view's temperature.
        score_cp: the evaluator's after the move, the mover's view; None without an evaluator.
        regret_cp: of the move (`evaluation.heldout.move_regret_cp`); None without an evaluator.
        optimum: its probability under what the run's bonus and KL pull towards; None where that is not known.
    """

    uci: str
    san: str
    probability: float
    score_cp: int | None
    regret_cp: float | None
    optimum: float | None


@dataclasses.dataclass(frozen=True)
class PositionView:
    """What a policy makes of a position.

    Attributes:
        moves: every legal one, most probable first; none where the game is over.
        temperature: of the softmax; 0 for the policy that always plays its most probable move.
        entropy: −Σ π ln π over the legal moves, nats; 0 where there is none.
        effective_moves: exp(entropy).
        value: the critic's, reward units, the mover's view; None without a critic or a legal move.
        regret_cp: Σ π regret, as `eval/regret_cp`; None without an evaluator or a legal move.
        optimum_entropy: of the optimum, nats; None where that is not known.
    """

    moves: tuple[MoveView, ...]
    temperature: float
    entropy: float
    effective_moves: float
    value: float | None
    regret_cp: float | None
    optimum_entropy: float | None


def view_of(
    policy: PolicyNet,
    position: GamePosition,
    *,
    temperature: float,
    evaluator: Evaluator | None,
    pull: Pull | None,
) -> PositionView:
    """What the policy makes of the position.

    Args:
        policy: in evaluation mode, on the CPU.
        position: with what its game tells of it.
        temperature: `GREEDY` (0) or above.
        evaluator: scores the position after each move, whatever occurred before; None leaves scores out.
        pull: of the policy's run; it is left out without an evaluator.

    Raises:
        ValueError: the temperature is negative or not finite, or the policy's probabilities are not finite.
        EngineError: the evaluator failed.
    """
    if not (math.isfinite(temperature) and temperature >= 0):
        raise ValueError(f"temperature is {temperature}: expected a finite number of at least 0")
    if not any(position.board.legal_moves):
        return PositionView((), temperature, 0.0, 1.0, None, None, None)
    seen = seen_by(policy, position, temperature or 1.0)
    return _view(seen, position, temperature, evaluator, pull)


def view_of_recorded(
    logprobs: Floats, position: GamePosition, *, temperature: float, evaluator: Evaluator | None
) -> PositionView:
    """What a policy made of the position, by what was recorded of it; a critic's value is not.

    Args:
        logprobs: `[L]` of the legal moves in the order of their action ids, nats, at the temperature; at 1 for
            `GREEDY`.
        position: with a legal move.
        temperature: `GREEDY` (0) or above.
        evaluator: as of `view_of`.

    Raises:
        ValueError: there are not as many as legal moves, or one is not finite.
        EngineError: the evaluator failed.
    """
    board = position.board
    actions = legal_actions(board)
    if len(logprobs) != len(actions):
        raise ValueError(f"{len(logprobs)} log-probabilities for {len(actions)} legal moves")
    logits = torch.from_numpy(np.asarray(logprobs, np.float64))[None]
    dist = MaskedCategorical(logits, torch.ones_like(logits, dtype=torch.bool), 1.0)
    moves = tuple(action_to_move(int(action), board) for action in actions)
    return _view(Seen(actions, moves, dist, None), position, temperature, evaluator, None)


def _view(
    seen: Seen,
    position: GamePosition,
    temperature: float,
    evaluator: Evaluator | None,
    pull: Pull | None,
) -> PositionView:
    probs = _probabilities(seen, temperature)
    scored = None if evaluator is None else _scored(position, seen, evaluator)
    regrets = None if scored is None else move_regret_cp(scored)[0]
    optimum = None if pull is None or scored is None else pull.optimum(position, scored)
    moves = [
        MoveView(
            uci=seen.moves[slot].uci(),
            san=position.board.san(seen.moves[slot]),
            probability=float(probs[slot]),
            score_cp=None if scored is None else int(scored.child_score_cp[0, slot]),
            regret_cp=None if regrets is None else float(regrets[slot]),
            optimum=None if optimum is None else float(optimum[slot]),
        )
        for slot in seen.ranked
    ]
    nats = 0.0 if temperature == GREEDY else float(seen.dist.entropy()[0])
    return PositionView(
        moves=tuple(moves),
        temperature=temperature,
        entropy=nats,
        effective_moves=math.exp(nats),
        value=seen.value,
        regret_cp=None if scored is None else float(measure(probs[None], scored)["regret_cp"][0]),
        optimum_entropy=None if optimum is None else _entropy_of(optimum),
    )


def _probabilities(seen: Seen, temperature: float) -> Floats:
    """float64 `[L]`; 1 for the most probable move if greedy.

    Raises:
        ValueError: one is not finite.
    """
    probs = seen.dist.probs[0].double().numpy()
    if not np.isfinite(probs).all():
        raise ValueError("the policy's probabilities are not finite here: use another checkpoint")
    if temperature == GREEDY:
        probs = np.zeros_like(probs)
        probs[seen.ranked[0]] = 1.0
    return probs


def _scored(position: GamePosition, seen: Seen, evaluator: Evaluator) -> HeldoutSlice:
    """The position alone, with the score after each legal move, as a slice of the held-out table has it."""
    packed = pack_board(position.board)
    after, _ = children(packed)
    return HeldoutSlice(
        name="board",
        obs=observation(position.board, position.repetitions)[None],
        legal_ids=seen.actions[None],
        child_score_cp=-scores_of(evaluator, after).astype(np.float64)[None],
        num_legal=np.array([len(seen.actions)]),
        positions=packed[None],
    )


def _entropy_of(probs: Floats) -> float:
    with np.errstate(divide="ignore"):  # a move may have no mass at all
        logprobs = np.log(probs)[None]
    return float(entropy(logprobs, probs[None] > 0)[0])
