"""The moves of a trained policy in one position: their probabilities, and one of them."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from algorithms.core.distribution import MaskedCategorical
from algorithms.networks.policy_net import PolicyNet
from algorithms.playing.position_sets import facts_of
from algorithms.playing.requests import Answer, Request
from chess_env.games.reference_game import observation
from chess_env.moves import action_to_move, legal_actions


class PolicyMoves:
    """Answers requests with the moves of one policy; no state between them."""

    def __init__(self, policy: PolicyNet) -> None:
        self._policy = policy

    @torch.inference_mode()
    def __call__(self, request: Request) -> Answer:
        """The policy's moves and one of them, chosen as the request says."""
        board = request.position.board
        actions = legal_actions(board)
        if len(actions) == 0:
            return Answer((), (), None)
        planes = observation(board, request.position.repetitions)
        facts = None
        if self._policy.reads_move_facts:
            facts = torch.from_numpy(facts_of(request.position, actions))
        dist = self._policy.outputs(
            torch.from_numpy(planes)[None],
            torch.from_numpy(actions)[None],
            request.temperature or 1.0,
            facts,
        ).dist
        moves = [action_to_move(int(action), board) for action in actions]
        ranked = torch.sort(dist.logprobs[0], descending=True, stable=True).indices.tolist()
        if request.searchmoves is not None:
            ranked = [slot for slot in ranked if moves[slot] in request.searchmoves]
        slot = _choose(dist.logprobs[0], ranked, request)
        probs = dist.probs[0].tolist()
        return Answer(tuple(moves[i] for i in ranked), tuple(probs[i] for i in ranked), moves[slot])


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
