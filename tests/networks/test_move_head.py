"""The head that reads each legal move: its formula by hand, and what a logit must not depend on."""

from __future__ import annotations

import torch
from torch import Tensor

from algorithms.networks.move_net import MoveHead, padded
from algorithms.testing.network_contract import states
from chess_env.move_facts import NUM_MOVE_FACTS
from chess_env.moves import ACTION_FROM, ACTION_PROMOTION, ACTION_TO, FROM_TO_ACTION

FLOAT = torch.float32
A1, B3, H1, H8 = 0, 17, 7, 63


def made(channels: int, width: int, seed: int = 0) -> MoveHead:
    """A head whose every weight is drawn, those among them that are 0 at first."""
    torch.manual_seed(seed)
    head = MoveHead(channels, width)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.normal_(0.0, 0.5)
    return head


def squares_of(head: MoveHead, rows: int) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    channels = head.from_features.in_features
    return torch.randn(rows, 64, channels, generator=generator)


def test_every_logit_is_the_formula_written_out() -> None:
    head, (_, legal_ids, facts) = made(6, 10), states()
    squares = squares_of(head, len(legal_ids))
    found = head(squares, legal_ids, facts, FLOAT)
    high = 1 / head.fact_scale
    for row, ids in enumerate(legal_ids.tolist()):
        for slot, action in enumerate(ids):
            if action < 0:
                continue
            origin = squares[row, int(ACTION_FROM[action])]
            target = squares[row, int(ACTION_TO[action])]
            features = torch.relu(
                head.from_features(origin)
                + head.to_features(target)
                + head.board_features(squares[row].mean(0))
                + head.action_features[action]
                + head.fact_features(facts[row, slot] / high)
            )
            logit = head.score(features)[0]
            logit = logit + head.from_vector(origin) @ head.to_vector(target) * 5**-0.5
            logit = logit + head.action_bias[action]
            logit = logit + head.promotion_bias[int(ACTION_PROMOTION[action])]
            torch.testing.assert_close(found.logits[row, slot], logit, rtol=1e-4, atol=1e-4)


def test_the_features_of_the_moves_are_in_their_slots() -> None:
    head, (_, legal_ids, facts) = made(6, 10), states()
    found = head(squares_of(head, len(legal_ids)), legal_ids, facts, FLOAT)
    spread = padded(found.features, found.slots, legal_ids.shape)
    assert spread.shape == (*legal_ids.shape, 10)
    assert torch.equal(spread[legal_ids >= 0], found.features)
    assert not spread[legal_ids < 0].any() and not found.logits[legal_ids < 0].any()


def test_every_column_of_the_facts_is_read() -> None:
    head = made(4, 6)
    squares, ids = squares_of(head, 1), torch.zeros(1, 1, dtype=torch.int16)
    facts = torch.zeros(1, 1, NUM_MOVE_FACTS, dtype=torch.uint8)
    with torch.no_grad():
        head.board_features.bias.fill_(30.0)  # no feature is cut off
        without = head(squares, ids, facts, FLOAT).logits
        for column in range(NUM_MOVE_FACTS):
            facts.zero_()
            facts[..., column] = 1
            assert not torch.equal(head(squares, ids, facts, FLOAT).logits, without), column


def test_a_row_without_legal_moves_and_a_batch_without_any_are_answered() -> None:
    head, (_, legal_ids, facts) = made(5, 8), states()
    squares = squares_of(head, len(legal_ids))
    expected = head(squares, legal_ids, facts, FLOAT).logits
    over = legal_ids.clone()
    over[1] = -1
    found = head(squares, over, facts, FLOAT).logits
    assert not found[1].any()
    torch.testing.assert_close(found[[0, 2, 3]], expected[[0, 2, 3]])
    assert not head(squares, torch.full_like(legal_ids, -1), facts, FLOAT).logits.any()


def test_a_coarse_product_is_a_little_off_and_a_gradient_is_there() -> None:
    head, (_, legal_ids, facts) = made(5, 8), states()
    squares = squares_of(head, len(legal_ids))
    exact = head(squares, legal_ids, facts, FLOAT).logits
    for dtype in (torch.bfloat16, torch.float16):
        coarse = head(squares, legal_ids, facts, dtype).logits
        assert coarse.dtype == FLOAT
        assert 0 < (coarse - exact).abs().max() < 0.03 * exact.abs().max()
        head.zero_grad()
        coarse.square().sum().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in head.parameters())


def test_the_gradient_of_what_is_gathered_is_that_of_finite_differences() -> None:
    head, (_, legal_ids, facts) = made(3, 4).double(), states()
    squares = squares_of(head, 2).double().requires_grad_()
    head.action_features.requires_grad_(False)  # most of them are not asked for
    head.action_bias.requires_grad_(False)
    ids, read = legal_ids[2:, :9], facts[2:, :9]
    assert torch.autograd.gradcheck(
        lambda x: head(x, ids, read, FLOAT).logits, (squares,), eps=1e-6, atol=1e-6
    )


def test_the_board_of_a_move_is_that_of_its_row() -> None:
    head = made(2, 4)
    squares = squares_of(head, 3)
    facts = torch.zeros(3, 2, NUM_MOVE_FACTS, dtype=torch.uint8)
    action = int(FROM_TO_ACTION[A1, H8])
    ids = torch.tensor([[action, -1], [-1, action], [action, action]])
    logits = head(squares, ids, facts, FLOAT).logits
    alone = [head(squares[i : i + 1], ids[i : i + 1], facts[:1], FLOAT).logits[0] for i in range(3)]
    torch.testing.assert_close(logits, torch.stack(alone))
    assert len({round(float(logit), 4) for logit in logits[ids >= 0]}) == 3
