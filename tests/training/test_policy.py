from __future__ import annotations

from collections.abc import Callable

import chess
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from algorithms.core.distribution import MaskedCategorical
from algorithms.training.policy import PolicyConfig, PolicyNet, build_policy
from chess_env.fen import pack_fens
from chess_env.moves import ACTION_FROM, ACTION_PROMOTION, ACTION_TO, move_to_action
from chess_env.observation import PLANES, encode_batch
from chess_env.rules import legal_actions_batch

CPU = torch.device("cpu")
FENS = [
    chess.STARTING_FEN,
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 90 80",
    "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1",
]
PolicyOf = Callable[..., PolicyNet]


def inputs(fens: list[str]) -> tuple[Tensor, Tensor]:
    positions = pack_fens(fens)
    legal_ids, num_legal = legal_actions_batch(positions)
    obs = encode_batch(positions, np.zeros(len(fens), np.uint8))
    return torch.from_numpy(obs), torch.from_numpy(legal_ids[:, : num_legal.max()])


def test_a_row_depends_neither_on_its_batch_nor_on_the_padding(policy_of: PolicyOf) -> None:
    policy = policy_of()
    obs, legal_ids = inputs(FENS)
    together = policy(obs, legal_ids)
    for row in range(len(FENS)):
        padded = F.pad(legal_ids[row : row + 1], (0, 5), value=-1)
        alone = policy(obs[row : row + 1], padded)[0, : legal_ids.shape[1]]
        legal = legal_ids[row] >= 0
        torch.testing.assert_close(alone[legal], together[row][legal], atol=1e-6, rtol=1e-5)


def test_a_logit_is_the_product_of_its_from_and_to_vectors_plus_biases(policy_of: PolicyOf) -> None:
    policy = policy_of()
    with torch.no_grad():
        policy.promotion_bias.copy_(torch.arange(len(policy.promotion_bias)))
    obs, legal_ids = inputs(FENS)
    features: list[Tensor] = []
    policy.body.register_forward_hook(lambda module, args, output: features.append(output))
    logits = policy(obs, legal_ids)
    for row, ids in enumerate(legal_ids.tolist()):
        for slot, action in enumerate(ids):
            if action < 0:
                continue
            start, end = int(ACTION_FROM[action]), int(ACTION_TO[action])
            origin = policy.from_vector(policy.norm(features[0][row, :, start // 8, start % 8]))
            target = policy.to_vector(policy.norm(features[0][row, :, end // 8, end % 8]))
            expected = origin @ target * policy.config.head_dim**-0.5
            expected += policy.action_bias[action] + float(ACTION_PROMOTION[action])
            torch.testing.assert_close(logits[row, slot], expected, atol=1e-5, rtol=1e-5)


def test_under_promotions_can_be_told_from_the_queen() -> None:
    policy = build_policy(PolicyConfig(channels=8, blocks=1), seed=0, device=CPU)
    with torch.no_grad():
        policy.promotion_bias[chess.KNIGHT] = 5.0
    obs, legal_ids = inputs(["8/P7/8/8/8/8/8/K6k w - - 0 1"])
    moves = [chess.Move.from_uci(text) for text in ("a7a8q", "a7a8n", "a7a8r")]
    slots = [legal_ids[0].tolist().index(move_to_action(move, chess.WHITE)) for move in moves]
    queen, knight, rook = policy(obs, legal_ids)[0, slots].tolist()
    assert knight == pytest.approx(queen + 5.0)
    assert rook == pytest.approx(queen)


def test_the_first_policy_is_nearly_uniform() -> None:
    policy = build_policy(PolicyConfig(), seed=0, device=CPU)
    obs, legal_ids = inputs(FENS)
    dist = MaskedCategorical(policy(obs, legal_ids), legal_ids >= 0, 1.0)
    assert (dist.normalized_entropy() > 0.98).all()


def test_the_default_network_has_about_three_hundred_thousand_parameters() -> None:
    policy = build_policy(PolicyConfig(), seed=0, device=CPU)
    assert 250_000 < policy.num_parameters < 400_000


def test_planes_enter_scaled_to_at_most_one(policy_of: PolicyOf) -> None:
    policy = policy_of()
    largest = torch.tensor([float(plane.high) for plane in PLANES])
    assert torch.equal(largest * policy.plane_scale.flatten(), torch.ones(len(PLANES)))


def test_a_seed_gives_the_same_weights_and_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    first = build_policy(PolicyConfig(channels=8, blocks=1), seed=5, device=CPU)
    assert torch.equal(torch.rand(2), expected)
    second = build_policy(PolicyConfig(channels=8, blocks=1), seed=5, device=CPU)
    third = build_policy(PolicyConfig(channels=8, blocks=1), seed=6, device=CPU)
    assert torch.equal(first.stem.weight, second.stem.weight)
    assert not torch.equal(first.stem.weight, third.stem.weight)


def test_every_parameter_learns_and_the_network_can_memorise_moves() -> None:
    policy = build_policy(PolicyConfig(channels=16, blocks=2), seed=0, device=CPU)
    before = {name: value.detach().clone() for name, value in policy.named_parameters()}
    obs, legal_ids = inputs(FENS)
    legal = legal_ids >= 0
    targets = torch.tensor([[3], [7], [2], [11]])
    optimizer = torch.optim.Adam(policy.parameters(), 1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        dist = MaskedCategorical(policy(obs, legal_ids), legal, 1.0)
        loss = -dist.gather(targets).mean()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1
    for name, value in policy.named_parameters():
        assert not torch.equal(before[name], value), f"{name} was never updated"


def test_only_weights_are_saved(policy_of: PolicyOf) -> None:
    names = set(policy_of().state_dict())
    assert names == {name for name, _ in policy_of().named_parameters()}


@pytest.mark.parametrize("name", ["channels", "blocks", "head_dim"])
def test_a_network_without_extent_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is 0"):
        PolicyConfig(**{name: 0})
