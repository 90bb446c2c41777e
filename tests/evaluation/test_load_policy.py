"""A policy is found wherever its weights lie, with the network that they belong to."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from algorithms.config import files as config_file
from algorithms.evaluation.load_policy import load_policy
from algorithms.networks.build import build_policy, read_weights
from algorithms.networks.policy_net import PolicyNet
from algorithms.networks.settings import NetworkConfig, PrecisionConfig
from algorithms.run_folder import checkpoint
from tests.evaluation.policies import SMALL as RUN_SIZE
from tests.evaluation.policies import saved_run, small_policy
from tests.training.runs import tiny

SMALL = NetworkConfig(network="resnet", channels=8, blocks=2, head_dim=4)
COARSE = PrecisionConfig(head_dtype="bfloat16")


def write_run(folder: Path, config: NetworkConfig = SMALL) -> PolicyNet:
    policy = build_policy(SMALL, seed=1, device=torch.device("cpu"), critic=True)
    weights = policy.state_dict()
    checkpoint.save(folder / "checkpoints", 3, weights=weights, state={}, best=True)
    run = dataclasses.replace(tiny(folder), policy=config, precision=COARSE)
    config_file.save(run, folder / "config.json")
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
    assert (found.config, found.precision) == (SMALL, COARSE)


def test_weights_alone_say_how_large_the_network_is(tmp_path: Path) -> None:
    policy = write_run(tmp_path)
    file = tmp_path / "alone.safetensors"
    save_file(policy.state_dict(), file)
    found = load_policy(str(file))
    assert_same_network(found, policy)
    assert (found.config, found.precision) == (SMALL, PrecisionConfig())
    shipped = load_policy("warm")
    assert shipped.state_dict().keys() == read_weights("warm").keys()


def test_a_run_whose_settings_are_another_network_is_refused(tmp_path: Path) -> None:
    write_run(tmp_path, NetworkConfig(network="resnet", channels=16, blocks=1, head_dim=4))
    with pytest.raises(ValueError, match="another network than expected"):
        load_policy(str(tmp_path))


@pytest.mark.parametrize("critic", [False, True])
def test_a_policy_is_found_in_its_run_its_checkpoint_and_its_file(
    tmp_path: Path, critic: bool
) -> None:
    run = saved_run(tmp_path / "run", seed=3, critic=critic)
    own = small_policy(3, critic=critic).state_dict()
    latest = run / "checkpoints" / "latest"
    for place in (run, latest, latest.resolve(), latest / "model.safetensors"):
        policy = load_policy(str(place))
        assert policy.state_dict().keys() == own.keys()
        assert all(torch.equal(tensor, own[name]) for name, tensor in policy.state_dict().items())
        assert policy.config == RUN_SIZE
        assert not policy.training


def test_the_newest_good_checkpoint_of_a_run_is_played(tmp_path: Path) -> None:
    run = saved_run(tmp_path / "run", seed=3)
    broken = run / "checkpoints" / "update-00000002"
    shutil.copytree(run / "checkpoints" / "update-00000001", broken)
    (broken / "model.safetensors").write_bytes(b"cut")
    with pytest.warns(UserWarning, match="falling back to the previous checkpoint"):
        policy = load_policy(str(run))
    assert torch.equal(policy.action_bias, small_policy(3).action_bias)


def test_what_is_no_policy_is_refused_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "other.safetensors"
    save_file({"weight": torch.zeros(3)}, file)
    with pytest.raises(ValueError, match=r"other\.safetensors' holds no policy of this project"):
        load_policy(str(file))
    with pytest.raises(ValueError, match="'nowhere' cannot be read .* give a run folder"):
        load_policy("nowhere")
    run = saved_run(tmp_path / "run", seed=0)
    model = load_file(run / "checkpoints" / "latest" / "model.safetensors")
    save_file({**model, "action_bias": torch.zeros(7)}, file)
    with pytest.raises(ValueError, match="another network .*action_bias"):
        load_policy(str(file))
    save_file({**model, "action_bias": model["action_bias"] * float("nan")}, file)
    with pytest.raises(ValueError, match=r"not finite \(action_bias\)"):
        load_policy(str(file))
    (run / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config\.json is not a readable run configuration"):
        load_policy(str(run))
