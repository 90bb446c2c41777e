"""A policy is found wherever its weights lie, with the network that they belong to."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from algorithms.playing.load_policy import load_policy
from algorithms.training import checkpoint, config_file
from algorithms.training.initial_weights import read_weights
from algorithms.training.policy import PolicyConfig, PolicyNet, build_policy
from tests.training.runs import tiny

SMALL = PolicyConfig(channels=8, blocks=2, head_dim=4, head_dtype="bfloat16")


def write_run(folder: Path, config: PolicyConfig = SMALL) -> PolicyNet:
    policy = build_policy(SMALL, seed=1, device=torch.device("cpu"), critic=True)
    weights = policy.state_dict()
    checkpoint.save(folder / "checkpoints", 3, weights=weights, state={}, best=True)
    config_file.save(dataclasses.replace(tiny(folder), policy=config), folder / "config.json")
    return policy


def assert_same_network(found: PolicyNet, expected: PolicyNet) -> None:
    assert not found.training
    for name, tensor in expected.state_dict().items():
        torch.testing.assert_close(found.state_dict()[name], tensor, rtol=0, atol=0)


@pytest.mark.parametrize("part", ["", "checkpoints/update-00000003", "checkpoints/best"])
def test_a_run_and_its_checkpoints_have_the_settings_of_the_run(tmp_path: Path, part: str) -> None:
    policy = write_run(tmp_path)
    found = load_policy(str(tmp_path / part))
    assert_same_network(found, policy)
    assert found.config == SMALL


def test_weights_alone_say_how_large_the_network_is(tmp_path: Path) -> None:
    policy = write_run(tmp_path)
    file = tmp_path / "alone.safetensors"
    save_file(policy.state_dict(), file)
    found = load_policy(str(file))
    assert_same_network(found, policy)
    assert found.config == dataclasses.replace(SMALL, head_dtype="float32")
    shipped = load_policy("warm")
    assert shipped.state_dict().keys() == read_weights("warm").keys()


def test_what_is_no_policy_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no-such-run"):
        load_policy("no-such-run")
    file = tmp_path / "other.safetensors"
    save_file({"weight": torch.zeros(3)}, file)
    with pytest.raises(ValueError, match=r"other\.safetensors.*no policy network"):
        load_policy(str(file))
    write_run(tmp_path / "run", PolicyConfig(channels=16, blocks=1, head_dim=4))
    with pytest.raises(ValueError, match="another network than its settings"):
        load_policy(str(tmp_path / "run"))


def test_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    weights = dict(build_policy(SMALL, seed=1, device=torch.device("cpu")).state_dict())
    weights["action_bias"] = torch.full_like(weights["action_bias"], float("nan"))
    save_file(weights, tmp_path / "nan.safetensors")
    with pytest.raises(ValueError, match="not finite in action_bias"):
        load_policy(str(tmp_path / "nan.safetensors"))
