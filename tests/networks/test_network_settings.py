"""Which network, how large, and what of it older settings meant."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
import torch

from algorithms import cli
from algorithms.commands import train
from algorithms.commands.run_options import given, with_settings
from algorithms.config import files
from algorithms.config.names import named_run
from algorithms.config.run import smoke
from algorithms.networks.build import NETWORKS, build_policy, reads_move_facts
from algorithms.networks.settings import SIZES, Dimensions, NetworkConfig
from tests.small import CPU


def test_a_size_gives_the_numbers_and_a_number_that_is_given_goes_before_it() -> None:
    assert NetworkConfig(network="resnet").dimensions == Dimensions(64, 4, 32)
    assert NetworkConfig(network="resnet", size="large").dimensions == Dimensions(64, 6, 32)
    mixed = NetworkConfig(network="move_net", size="tiny", head_dim=8)
    assert mixed.dimensions == Dimensions(32, 0, 8)
    assert NetworkConfig(network="move_net", blocks=2).dimensions.blocks == 2
    assert NetworkConfig(network="move_net", size="large", blocks=0).dimensions.blocks == 0


@pytest.mark.parametrize(
    ("settings", "label"),
    [
        ({"network": "move_net"}, "move_net medium"),
        ({"network": "resnet", "size": "large"}, "resnet large"),
        (
            {"network": "resnet", "channels": 32, "blocks": 2},
            "resnet medium (channels 32, blocks 2)",
        ),
        ({"network": "move_net", "blocks": 0}, "move_net medium (blocks 0)"),
        ({"network": "mine:Net"}, "mine:Net"),
        ({"network": "mine:Net", "size": "small"}, "mine:Net small"),
        ({"network": "mine:Net", "head_dim": 8}, "mine:Net (head_dim 8)"),
    ],
)
def test_the_label_names_the_network_its_size_and_the_numbers_that_were_given(
    settings: dict[str, Any], label: str
) -> None:
    assert NetworkConfig(**settings).label == label


def test_every_network_has_the_same_sizes_and_larger_ones_have_more_parameters() -> None:
    assert list(SIZES) == list(NETWORKS)
    for network, sizes in SIZES.items():
        assert list(sizes) == ["tiny", "small", "medium", "large"]
        configs = [NetworkConfig(network=network, size=size) for size in sizes]  # type: ignore[arg-type]
        counts = [build_policy(config, seed=0, device=CPU).num_parameters for config in configs]
        assert counts == sorted(set(counts))


def test_whether_a_network_reads_move_facts_is_known_without_building_it() -> None:
    for network in NETWORKS:
        config = NetworkConfig(network=network, size="tiny")
        policy = build_policy(config, seed=0, device=CPU)
        assert reads_move_facts(config) is policy.reads_move_facts
    assert reads_move_facts(NetworkConfig(network="move_net"))
    assert not reads_move_facts(NetworkConfig(network="resnet"))
    assert not reads_move_facts(NetworkConfig(network="tests.config.custom_parts:Linear"))
    assert reads_move_facts(NetworkConfig(network="tests.zoo.test_contracts:Facts"))
    with pytest.raises(ValueError, match="has no NoSuch"):
        reads_move_facts(NetworkConfig(network="tests.config.custom_parts:NoSuch"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"network": "move-net"}, "policy.network is 'move-net': .*did you mean 'move_net'"),
        ({"network": "resnet50"}, "did you mean 'resnet'"),
        ({"network": "Transformer"}, "did you mean 'transformer'"),
        ({"size": "huge"}, "size is 'huge': expected one of 'tiny', 'small', 'medium', 'large'"),
        ({"network": "resnet", "blocks": 0}, "blocks is 0: resnet needs a trunk.*move_net"),
        ({"network": "transformer", "blocks": 0}, "blocks is 0: transformer needs a trunk"),
        ({"network": "some:Net", "blocks": 0}, "blocks is 0: some:Net needs a trunk"),
        ({"network": "move_net", "blocks": -1}, "blocks is -1"),
        ({"channels": 0}, "channels is 0: .*set channels >= 1"),
        ({"channels": 16.5}, "channels is 16.5"),
        ({"head_dim": -3}, "head_dim is -3"),
    ],
)
def test_what_makes_no_network_is_refused_with_a_remedy(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        NetworkConfig(**settings)


def test_a_configuration_is_written_with_its_size_and_read_again() -> None:
    policy = NetworkConfig(network="move_net", size="small", head_dim=16)
    config = dataclasses.replace(named_run("grpo"), policy=policy)
    written = json.loads(json.dumps(files.to_dict(config)))
    assert written["policy"] == {
        "network": "move_net", "size": "small", "channels": None, "blocks": None, "head_dim": 16,
        "dropout": 0.0, "facts": [],
    }  # fmt: skip
    assert files.from_dict(written) == config


def test_the_command_line_takes_network_and_size() -> None:
    words = ["--policy.network", "move_net", "--policy.size", "small", "--policy.blocks", "1"]
    grpo = named_run("grpo")
    found = with_settings(grpo, given(train.make_parser(grpo), words, grpo), command="")
    assert found.policy == NetworkConfig(network="move_net", size="small", blocks=1)


def test_the_command_line_names_what_is_near(capsys: pytest.CaptureFixture[str]) -> None:
    for flag, value, near in (("size", "smal", "small"), ("network", "move-net", "move_net")):
        with pytest.raises(SystemExit):
            cli.main(["train", "grpo", f"--policy.{flag}", value])
        assert f"did you mean '{near}'" in " ".join(capsys.readouterr().err.split())


def test_a_smoke_run_takes_the_smallest_size_of_the_same_network() -> None:
    policy = NetworkConfig(network="move_net", channels=100, blocks=7)
    small = smoke(dataclasses.replace(named_run("grpo"), policy=policy)).policy
    assert small == NetworkConfig(network="move_net", size="tiny")


def test_a_custom_network_is_handed_numbers() -> None:
    config = NetworkConfig(network="tests.networks.test_network_settings:Keeps", size="small")
    policy: Any = build_policy(config, seed=0, device=CPU)
    assert policy.config is config
    assert policy.network.config[:3] == (32, 2, 32)


class Keeps(torch.nn.Linear):
    """A network that does nothing but keep what it is made with."""

    def __init__(self, config: NetworkConfig, *, critic: bool) -> None:
        super().__init__(1, 1)
        self.config = (config.channels, config.blocks, config.head_dim)


def test_the_weights_of_the_residual_network_are_those_of_before() -> None:
    policy = build_policy(
        NetworkConfig(network="resnet", channels=16, blocks=1), seed=5, device=CPU
    )
    assert list(policy.state_dict()) == EXPECTED_NAMES
    found = {name: float(policy.state_dict()[name].double().sum()) for name in EXPECTED_SUMS}
    assert found == pytest.approx(EXPECTED_SUMS, rel=1e-5)


EXPECTED_NAMES = [
    "square_bias",
    "action_bias",
    "promotion_bias",
    "stem.weight",
    "stem.bias",
    "body.0.first.weight",
    "body.0.first.bias",
    "body.0.pooled.weight",
    "body.0.pooled.bias",
    "body.0.second.weight",
    "body.0.second.bias",
    "norm.weight",
    "norm.bias",
    "from_vector.weight",
    "from_vector.bias",
    "to_vector.weight",
    "to_vector.bias",
]
EXPECTED_SUMS = {
    "stem.weight": -13.587369685374142,
    "stem.bias": 0.40696151461452246,
    "body.0.first.weight": -3.2012148526555393,
    "body.0.first.bias": 0.21585024769592565,
    "body.0.second.bias": 0.1288809406105429,
    "norm.weight": 16.0,
    "from_vector.weight": 3.2644885036861524,
    "from_vector.bias": 0.3316193222999573,
    "to_vector.weight": -0.9511940916563617,
    "to_vector.bias": 0.8289723098278046,
}
