"""The networks of this project: planes and facts in, logits and values out, from the first weights on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from algorithms.core.distribution import MaskedCategorical
from algorithms.evaluation.load_policy import load_policy
from algorithms.networks.build import build_policy
from algorithms.networks.move_net import AttentionBlock, MixerBlock
from algorithms.networks.settings import SIZES, NetworkConfig, PrecisionConfig
from algorithms.testing.network_contract import states
from tests.networks.readers import READERS, make, shaken, small
from tests.small import CPU

EVERY = ("resnet", *READERS)


@pytest.mark.parametrize("size", SIZES["move_net"])
@pytest.mark.parametrize("network", EVERY)
def test_the_first_policy_is_nearly_uniform_and_not_quite(network: str, size: Any) -> None:
    obs, legal_ids, facts = states()
    spreads = []
    for seed in range(3):
        policy = build_policy(NetworkConfig(network=network, size=size), seed=seed, device=CPU)
        logits = policy(obs, legal_ids, facts)
        dist = MaskedCategorical(logits, legal_ids >= 0, 1.0)
        assert (dist.entropy() > 0.97 * (legal_ids >= 0).sum(-1).log()).all()
        spreads += [
            float(row[ids >= 0].detach().std()) for row, ids in zip(logits, legal_ids, strict=True)
        ]
    assert 0.08 < sum(spreads) / len(spreads) < 0.3


@pytest.mark.parametrize("network", EVERY)
def test_every_parameter_learns_and_the_network_can_memorise_moves(network: str) -> None:
    policy = small(network)
    before = {name: value.detach().clone() for name, value in policy.named_parameters()}
    obs, legal_ids, facts = states()
    targets = torch.tensor([[3], [7], [2], [11]])
    goals = torch.tensor([0.5, -0.5, 1.0, 0.0])
    optimizer = torch.optim.Adam(policy.parameters(), 1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        logits, values = policy.logits_and_values(obs, legal_ids, facts)
        dist = MaskedCategorical(logits, legal_ids >= 0, 1.0)
        assert values is not None
        loss = -dist.gather(targets).mean() + (values - goals).square().mean()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1
    for name, value in policy.named_parameters():
        assert not torch.equal(before[name], value), f"{name} was never updated"


@pytest.mark.parametrize("network", EVERY)
def test_a_critic_leaves_the_policy_s_weights_alone_and_says_zero_at_first(network: str) -> None:
    config = NetworkConfig(network=network, channels=16, blocks=1, head_dim=8)
    plain = build_policy(config, seed=5, device=CPU)
    beside = build_policy(config, seed=5, device=CPU, critic=True)
    theirs = beside.state_dict()
    assert all(torch.equal(value, theirs[name]) for name, value in plain.state_dict().items())
    extra = set(theirs) - set(plain.state_dict())
    assert extra and all(name.startswith("value_head.") for name in extra)
    assert set(theirs) == {name for name, _ in beside.named_parameters()}
    obs, legal_ids, facts = states()
    values = beside.outputs(obs, legal_ids, 1.0, facts).values
    assert values is not None and values.tolist() == [0.0] * 4
    assert plain.values(obs, legal_ids, facts) is None
    assert torch.equal(beside(obs, legal_ids, facts), plain(obs, legal_ids, facts))


def test_the_critic_reads_the_mean_and_the_largest_of_the_legal_moves() -> None:
    policy = shaken(make("move_net"))
    obs, legal_ids, facts = states()
    seen: list[torch.Tensor] = []
    assert policy.value_head is not None
    policy.value_head.register_forward_hook(lambda module, args, output: seen.append(args[0]))
    policy.values(obs, legal_ids, facts)
    squares = policy.squares(obs)
    for row in range(4):
        legal = legal_ids[row : row + 1, legal_ids[row] >= 0]
        read = facts[row : row + 1, legal_ids[row] >= 0]
        alone = policy.head(squares[row : row + 1], legal, read, torch.float32).features
        expected = torch.cat([squares[row].mean(0), alone.mean(0), alone.amax(0)])
        torch.testing.assert_close(seen[0][row], expected)


@pytest.mark.parametrize("network", READERS)
def test_values_depend_on_the_facts_and_neither_on_order_nor_on_padding(network: str) -> None:
    policy = shaken(make(network))
    obs, legal_ids, facts = states()
    values = policy.values(obs, legal_ids, facts)
    assert values is not None and values.std() > 0
    order = torch.arange(legal_ids.shape[1]).flip(0)
    turned = policy.values(obs, legal_ids[:, order], facts[:, order])
    ids = torch.nn.functional.pad(legal_ids, (0, 170), value=-1)
    longer = policy.values(obs, ids, torch.nn.functional.pad(facts, (0, 0, 0, 170), value=255))
    torch.testing.assert_close(turned, values)
    torch.testing.assert_close(longer, values)
    other = policy.values(obs, legal_ids, torch.where(facts == 0, 1, facts))
    assert other is not None and (other != values).all()
    over = legal_ids.clone()
    over[0] = -1
    ended = policy.values(obs, over, facts)
    assert ended is not None and ended.isfinite().all()
    torch.testing.assert_close(ended[1:], values[1:])


@pytest.mark.parametrize("network", READERS)
def test_missing_and_misshapen_facts_are_refused(network: str) -> None:
    policy = make(network)
    obs, legal_ids, facts = states()
    for ask in (policy, policy.values, lambda *given: policy.outputs(*given[:2], 1.0, *given[2:])):
        with pytest.raises(ValueError, match="reads the facts of each move and is given none"):
            ask(obs, legal_ids)
        with pytest.raises(ValueError, match=r"move_facts has shape \(4, .*expected \(4, "):
            ask(obs, legal_ids, facts[:, :-1])
    outputs = policy.outputs(obs, legal_ids, 1.0, facts)
    assert torch.equal(outputs.dist.logprobs.exp() > 0, legal_ids >= 0)


@pytest.mark.parametrize("block", [MixerBlock, AttentionBlock])
@pytest.mark.parametrize("channels", [8, 24, 50])
def test_a_block_is_the_identity_at_first_and_mixes_squares_later(
    block: Any, channels: int
) -> None:
    layer = block(channels)
    x = torch.randn(2, 64, channels, generator=torch.Generator().manual_seed(0))
    assert torch.equal(layer(x), x)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.1)
            parameter.mul_(torch.linspace(-1, 1, parameter.numel()).view_as(parameter))
    changed = x.clone()
    changed[0, 5] += torch.linspace(-1, 1, channels)
    gap = (layer(changed) - layer(x)).abs().amax(-1)
    assert (gap[0] > 0).all() and not gap[1].any()


@pytest.mark.parametrize("network", EVERY)
def test_dropout_acts_in_training_mode_only(network: str) -> None:
    policy = small(network, dropout=0.5)
    obs, legal_ids, facts = states()
    assert not torch.equal(policy(obs, legal_ids, facts), policy(obs, legal_ids, facts))
    policy.eval()
    assert torch.equal(policy(obs, legal_ids, facts), policy(obs, legal_ids, facts))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("network", READERS)
def test_a_coarse_head_is_a_little_off_and_says_that_it_may_be(network: str, dtype: Any) -> None:
    config = NetworkConfig(network=network, size="tiny")
    obs, legal_ids, facts = states()
    exact = build_policy(config, seed=0, device=CPU)
    coarse = build_policy(config, seed=0, device=CPU, precision=PrecisionConfig(head_dtype=dtype))
    assert coarse.reduced_precision(CPU) and not exact.reduced_precision(CPU)
    gap = exact(obs, legal_ids, facts) - coarse(obs, legal_ids, facts)
    assert gap.dtype == torch.float32 and 0 < gap.abs().max() < 0.01


def test_a_move_net_without_blocks_is_told_from_its_file_too(tmp_path: Path) -> None:
    policy = make("move_net", blocks=0)
    save_file(policy.state_dict(), tmp_path / "some.safetensors")
    assert load_policy(str(tmp_path / "some.safetensors")).config == policy.config
