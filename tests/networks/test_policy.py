from __future__ import annotations

from typing import Any

import chess
import numpy as np
import pytest
import torch
from torch import Tensor

from algorithms.networks.build import build_policy
from algorithms.networks.settings import NetworkConfig, PrecisionConfig
from chess_env.moves import ACTION_FROM, ACTION_PROMOTION, ACTION_TO, move_to_action
from chess_env.observation import PLANES, encode_batch
from chess_env.rules.fen import pack_fens
from chess_env.rules.rules import legal_actions_batch
from tests.small import CPU, make_policy

FENS = [
    chess.STARTING_FEN,
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 90 80",
    "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1",
]


def inputs(fens: list[str]) -> tuple[Tensor, Tensor]:
    positions = pack_fens(fens)
    legal_ids, num_legal = legal_actions_batch(positions)
    obs = encode_batch(positions, np.zeros(len(fens), np.uint8))
    return torch.from_numpy(obs), torch.from_numpy(legal_ids[:, : num_legal.max()])


def test_a_logit_is_the_product_of_its_from_and_to_vectors_plus_biases() -> None:
    policy = make_policy()
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
            expected = origin @ target * policy.config.dimensions.head_dim**-0.5
            expected += policy.action_bias[action] + float(ACTION_PROMOTION[action])
            torch.testing.assert_close(logits[row, slot], expected, atol=1e-5, rtol=1e-5)


def test_under_promotions_can_be_told_from_the_queen() -> None:
    policy = build_policy(NetworkConfig(network="resnet", channels=8, blocks=1), seed=0, device=CPU)
    with torch.no_grad():
        policy.promotion_bias[chess.KNIGHT] = 5.0
    obs, legal_ids = inputs(["8/P7/8/8/8/8/8/K6k w - - 0 1"])
    moves = [chess.Move.from_uci(text) for text in ("a7a8q", "a7a8n", "a7a8r")]
    slots = [legal_ids[0].tolist().index(move_to_action(move, chess.WHITE)) for move in moves]
    queen, knight, rook = policy(obs, legal_ids)[0, slots].tolist()
    assert knight == pytest.approx(queen + 5.0)
    assert rook == pytest.approx(queen)


def test_planes_enter_scaled_to_at_most_one() -> None:
    policy = make_policy()
    largest = torch.tensor([float(plane.high) for plane in PLANES])
    assert torch.equal(largest * policy.plane_scale.flatten(), torch.ones(len(PLANES)))


def test_a_seed_gives_the_same_weights_and_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    first = build_policy(NetworkConfig(network="resnet", channels=8, blocks=1), seed=5, device=CPU)
    assert torch.equal(torch.rand(2), expected)
    second = build_policy(NetworkConfig(network="resnet", channels=8, blocks=1), seed=5, device=CPU)
    third = build_policy(NetworkConfig(network="resnet", channels=8, blocks=1), seed=6, device=CPU)
    assert torch.equal(first.stem.weight, second.stem.weight)
    assert not torch.equal(first.stem.weight, third.stem.weight)


def test_values_alone_are_those_beside_the_distribution() -> None:
    policy = build_policy(
        NetworkConfig(network="resnet", channels=8, blocks=1), seed=5, device=CPU, critic=True
    )
    assert policy.value_head is not None
    torch.nn.init.normal_(policy.value_head[-1].weight)  # type: ignore[arg-type]
    obs, legal_ids = inputs(FENS)
    beside, alone = policy.outputs(obs, legal_ids, 1.0).values, policy.values(obs, legal_ids)
    assert beside is not None and alone is not None
    assert torch.equal(beside, alone) and beside.std() > 0
    assert torch.equal(policy.outputs(obs, legal_ids, 2.0).dist.logprobs.exp() > 0, legal_ids >= 0)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_coarse_head_or_softmax_is_a_little_off_and_says_that_it_may_be(dtype: str) -> None:
    obs, legal_ids = inputs(FENS)
    config = NetworkConfig(network="resnet", channels=8, blocks=1)
    exact = build_policy(config, seed=0, device=CPU)
    assert not exact.reduced_precision(CPU)
    expected = exact.outputs(obs, legal_ids, 1.0).dist.probs
    for changes in ({"head_dtype": dtype}, {"logprob_dtype": dtype}):
        precision = PrecisionConfig(**changes)
        coarse = build_policy(config, seed=0, device=CPU, precision=precision)
        assert coarse.reduced_precision(CPU)
        dist = coarse.outputs(obs, legal_ids, 1.0).dist
        assert dist.logprobs.dtype == torch.float32
        assert 0 < (dist.probs - expected).abs().max() < 0.01
        dist.gather(torch.zeros(4, 1)).sum().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in coarse.parameters())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"head_dtype": "float8"}, "head_dtype is 'float8': expected one of 'float32'"),
        ({"autocast_dtype": "float32"}, "autocast_dtype is 'float32'"),
    ],
)
def test_precision_and_dropout_out_of_range_are_refused(
    changes: dict[str, Any], message: str
) -> None:
    make = NetworkConfig if "dropout" in changes else PrecisionConfig
    with pytest.raises(ValueError, match=message):
        make(**changes)
