"""The moves of a trained policy in one position: their probabilities, and one of them."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import math
from collections.abc import Sequence

import chess
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from algorithms.config.foreign import NO_TRUST, Trust
from algorithms.core.checks import require
from algorithms.core.distribution import MaskedCategorical
from algorithms.evaluation.load_policy import load_policy
from algorithms.networks.build import usual_torch
from algorithms.networks.policy_net import PolicyNet
from algorithms.playing.conversation import Answer, Request
from algorithms.playing.position import GamePosition, facts_of, is_ordinary, reached, read_by
from algorithms.playing.two_plies import look_ahead
from chess_env.evaluators.protocol import Evaluator
from chess_env.games.reference_game import observation
from chess_env.moves import action_to_move, legal_actions
from chess_env.rules.fen import pack_board


@dataclasses.dataclass(frozen=True)
class Seen:
    """What a policy makes of one position.

    Attributes:
        actions: int16 `[L]`, ids of the legal moves, ascending.
        moves: the same as moves.
        dist: `[1, L]` over them, at the temperature asked for.
        value: the critic's, reward units, side to move's view; None without a critic.
    """

    actions: NDArray[np.int16]
    moves: tuple[chess.Move, ...]
    dist: MaskedCategorical
    value: float | None

    @property
    def ranked(self) -> list[int]:
        """The slots, most probable first; of equally probable moves the lower action."""
        return torch.sort(self.dist.logprobs[0], descending=True, stable=True).indices.tolist()


@torch.inference_mode()
def seen_by(policy: PolicyNet, position: GamePosition, temperature: float) -> Seen:
    """What the policy makes of a position that has a legal move; one forward pass.

    Args:
        policy: in evaluation mode, on the CPU.
        position: with what its game tells of it.
        temperature: of the softmax, above 0.
    """
    board = position.board
    actions = legal_actions(board)
    facts = None
    if policy.reads_move_facts:
        facts = read_by(policy, facts_of(position, actions), pack_board(board)[None], actions[None])
    outputs = policy.outputs(
        torch.from_numpy(observation(board, position.repetitions))[None],
        torch.from_numpy(actions)[None],
        temperature,
        facts,
    )
    moves = tuple(action_to_move(int(action), board) for action in actions)
    value = None if outputs.values is None else float(outputs.values[0])
    return Seen(actions, moves, outputs.dist, value)


@usual_torch()
def move_probabilities(
    policy: PolicyNet | str,
    fen: str | None = None,
    moves: Sequence[str] = (),
    *,
    temperature: float = 1.0,
    trust: Trust = NO_TRUST,
) -> dict[str, float]:
    """{move in UCI's notation: its probability} of every legal move of a position, the most probable first.

    Args:
        policy: what `load_policy` takes (a run folder, a checkpoint, a .safetensors file, a shipped policy's name), or
            a network; it is left as it is.
        fen: the position; None for the initial one.
        moves: played from there, in UCI's notation; a policy sees repetitions.
        temperature: of the softmax, above 0.
        trust: names of the user's own that the run may use.

    Returns:
        Probabilities that add up to 1; empty where the game is over.

    Raises:
        ValueError: no such policy, a FEN or a move that is not legal, or a temperature that is not above 0.
    """
    require(
        0 < temperature < math.inf, f"temperature is {temperature}: give a finite number above 0"
    )
    position = reached(fen, moves)
    if not any(position.board.legal_moves):
        return {}
    network = load_policy(policy, trust) if isinstance(policy, str) else copy.deepcopy(policy)
    seen = seen_by(network.cpu().eval(), position, temperature)
    probs = seen.dist.probs[0].tolist()
    return {seen.moves[slot].uci(): probs[slot] for slot in seen.ranked}


class PolicyMoves:
    """Answers requests with the moves of one policy; no state between them.

    Args:
        policy: in evaluation mode, on the CPU.
        evaluator: of the moves' scores, and of the search where one is asked for; None leaves both out.
    """

    def __init__(self, policy: PolicyNet, evaluator: Evaluator | None = None) -> None:
        self._policy, self._evaluator = policy, evaluator

    def __call__(self, request: Request) -> Answer:
        """The policy's moves and one of them, chosen as the request says."""
        if not any(request.position.board.legal_moves):
            return Answer((), (), None)
        seen = seen_by(self._policy, request.position, request.temperature or 1.0)
        moves, ranked = seen.moves, seen.ranked
        if request.searchmoves is not None:
            ranked = [slot for slot in ranked if moves[slot] in request.searchmoves]
        probs = seen.dist.probs[0].tolist()
        shown = tuple(moves[i] for i in ranked), tuple(probs[i] for i in ranked)
        board, scores = request.position.board, None
        if self._evaluator is not None and is_ordinary(board):
            if request.search:
                first = [int(seen.actions[i]) for i in ranked[: request.search]]
                lines = look_ahead(request.position, first, self._evaluator)
                return Answer(*shown, lines[0].moves[0], lines=lines)
            every = self._evaluator.score_moves(pack_board(board)[None])[0].tolist()
            scores = tuple(every[i] for i in ranked)
        slot = _choose(seen.dist.logprobs[0], ranked, request)
        return Answer(*shown, moves[slot], scores)


def _choose(logprobs: Tensor, ranked: list[int], request: Request) -> int:
    """One of the slots `ranked` (most probable first), as the request says."""
    if request.temperature == 0:
        return ranked[0]
    kept = ranked[: request.top_k] if request.top_k else ranked
    # The log-probabilities are already at the temperature: 1 only divides by the sum of those kept.
    among = MaskedCategorical(logprobs[kept], torch.ones(len(kept), dtype=torch.bool), 1.0)
    return kept[int(among.sample(1, _generator(request)))]


def _generator(request: Request) -> torch.Generator:
    """A source of chance that depends on the seed and the position, and on nothing that came before."""
    generator = torch.Generator()
    if request.seed is None:
        generator.seed()
        return generator
    # With the counters in it, so that a position that comes back in a game gets a new draw.
    text = f"{request.seed} {request.position.board.fen(en_passant='legal')}"
    digest = hashlib.sha256(text.encode()).digest()
    return generator.manual_seed(int.from_bytes(digest[:8], "big") >> 1)
