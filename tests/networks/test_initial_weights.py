"""A run starts from the weights it is given, wherever they lie, or says what is wrong with them."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from algorithms.config import files as config_file
from algorithms.config.run import TrainConfig
from algorithms.evaluation.load_policy import load_policy
from algorithms.networks import build
from algorithms.networks.build import (
    build_policy,
    config_of,
    initialise,
    read_weights,
    scale_logits,
    shipped_names,
)
from algorithms.networks.policy_net import PolicyNet
from algorithms.networks.settings import SIZES, NetworkConfig
from algorithms.ppo import PPO
from algorithms.regularization import RegularizerConfig
from algorithms.run_folder import checkpoint
from algorithms.training.session import Session
from algorithms.training.trainer import train
from chess_env.move_facts import FURTHER_GROUPS
from chess_env.observation import NUM_PLANES
from tests.training.runs import Watcher, assert_same, tiny

SMALL = NetworkConfig(network="resnet", channels=8, blocks=1, head_dim=8)


def policy_with(seed: int, *, critic: bool = False, config: NetworkConfig = SMALL) -> PolicyNet:
    return build_policy(config, seed=seed, device=torch.device("cpu"), critic=critic)


def weights_of(policy: PolicyNet) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in policy.state_dict().items()}


def checkpoint_in(folder: Path, update: int, policy: PolicyNet) -> Path:
    return checkpoint.save(folder, update, weights=policy.state_dict(), state={}, best=False)


def in_run_folder(folder: Path, policy: PolicyNet) -> str:
    checkpoint_in(folder / "run" / "checkpoints", 3, policy_with(8))
    checkpoint_in(folder / "run" / "checkpoints", 7, policy)
    return str(folder / "run")


def in_checkpoint_folder(folder: Path, policy: PolicyNet) -> str:
    found = checkpoint_in(folder / "run" / "checkpoints", 3, policy)
    checkpoint_in(folder / "run" / "checkpoints", 7, policy_with(8))
    return str(found)


def in_file(folder: Path, policy: PolicyNet) -> str:
    save_file(policy.state_dict(), folder / "some.safetensors")
    return str(folder / "some.safetensors")


def in_file_with_record(folder: Path, policy: PolicyNet) -> str:
    path = Path(in_file(folder, policy))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_suffix(".sha256").write_text(f"{digest}  {path.name}\n")
    return str(path)


PLACES = [in_run_folder, in_checkpoint_folder, in_file, in_file_with_record]


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in place of that of the policies that come with the project."""
    folder = tmp_path / "shipped"
    folder.mkdir()
    monkeypatch.setattr(build, "SHIPPED", folder)
    return folder


@pytest.mark.parametrize("place", PLACES)
def test_weights_are_read_from_wherever_they_lie(
    tmp_path: Path, place: Callable[[Path, PolicyNet], str]
) -> None:
    source = policy_with(1)
    policy = policy_with(0)
    initialise(policy, place(tmp_path, source))
    assert_same(weights_of(policy), weights_of(source))


def test_a_shipped_policy_is_read_by_its_name(shipped: Path) -> None:
    assert shipped_names() == []
    source, policy = policy_with(1), policy_with(0)
    Path(in_file_with_record(shipped, source)).rename(shipped / "tepid.safetensors")
    (shipped / "some.sha256").rename(shipped / "tepid.sha256")
    assert shipped_names() == ["tepid"]
    initialise(policy, "tepid")
    assert_same(weights_of(policy), weights_of(source))


@pytest.mark.parametrize("record", ["0" * 64 + "  some.safetensors\n", "", "\n"])
def test_weights_that_are_not_those_of_their_record_are_refused(
    tmp_path: Path, record: str
) -> None:
    path = Path(in_file(tmp_path, policy_with(1)))
    path.with_suffix(".sha256").write_text(record)
    policy = policy_with(0)
    before = weights_of(policy)
    with pytest.raises(ValueError, match=r"damaged: its SHA-256 is not that in some\.sha256"):
        initialise(policy, str(path))
    assert_same(weights_of(policy), before)


def test_a_file_of_a_checkpoint_is_verified_against_the_manifest_beside_it(tmp_path: Path) -> None:
    file = checkpoint_in(tmp_path / "checkpoints", 1, policy_with(1)) / "model.safetensors"
    assert_same(read_weights(str(file)), weights_of(policy_with(1)))
    original, rng = file.read_bytes(), np.random.default_rng(0)
    for position in rng.integers(len(original), size=200):
        data = bytearray(original)
        data[position] ^= 1 << int(rng.integers(8))
        file.write_bytes(bytes(data))
        with pytest.raises(ValueError, match="its SHA-256 differs from the manifest"):
            read_weights(str(file))
    moved = tmp_path / "moved.safetensors"  # a copy elsewhere has no manifest to hold it against
    moved.write_bytes(original)
    assert_same(read_weights(str(moved)), weights_of(policy_with(1)))


def test_what_is_no_weights_is_refused_with_what_would_be(shipped: Path, tmp_path: Path) -> None:
    in_file_with_record(shipped, policy_with(1))
    (tmp_path / "truncated.safetensors").write_bytes(b"\x00\x01")
    (tmp_path / "empty").mkdir()
    (tmp_path / "no_checkpoints" / "checkpoints").mkdir(parents=True)
    for name in ("nowhere", "truncated.safetensors", "empty", "no_checkpoints"):
        with pytest.raises(ValueError, match=r"give a run folder, .* a shipped policy \(some\)"):
            read_weights(str(tmp_path / name))


@pytest.mark.parametrize(
    "config",
    [
        NetworkConfig(network="resnet", channels=16, blocks=1, head_dim=8),
        NetworkConfig(network="resnet", channels=8, blocks=2, head_dim=8),
    ],
)
def test_another_network_is_refused_and_the_policy_left_as_it_was(
    tmp_path: Path, config: NetworkConfig
) -> None:
    source = in_file(tmp_path, policy_with(1, config=config))
    with pytest.raises(ValueError, match="another network than the one configured"):
        initialise(policy_with(0), source)


@pytest.mark.parametrize(
    ("source", "configured", "made_with", "said"),
    [
        ("warm", NetworkConfig(), "resnet", "give --policy.network resnet"),
        (
            "example",
            NetworkConfig(network="resnet"),
            "move_net",
            "give --policy.network move_net --policy.channels 64 --policy.blocks 0 --policy.head-dim 384 "
            f"--policy.facts {' '.join(FURTHER_GROUPS)}",
        ),
        (
            "warm_move_net",
            NetworkConfig(size="large"),
            "move_net",
            "give --policy.network move_net --policy.size medium",
        ),
        (
            "warm",
            SMALL,
            "resnet",
            "give --policy.network resnet --policy.channels 64 --policy.blocks 4 --policy.head-dim 32",
        ),
    ],
)
def test_weights_of_another_network_are_refused_with_its_name_and_the_options_that_ask_for_it(
    source: str, configured: NetworkConfig, made_with: str, said: str
) -> None:
    with pytest.raises(ValueError, match=f"{made_with} of channels 64") as caught:
        initialise(policy_with(0, config=configured), source)
    assert str(caught.value).endswith(said) and configured.network in str(caught.value)


@pytest.mark.parametrize("network", SIZES)
def test_weights_of_before_a_new_plane_are_refused_with_what_to_do_and_doing_it_keeps_the_policy(
    network: str, tmp_path: Path
) -> None:
    config = NetworkConfig(network=network, size="tiny")  # type: ignore[arg-type]
    trained, file = policy_with(1, config=config), tmp_path / "fewer.safetensors"
    name = "stem.weight" if network == "resnet" else "embedding.planes.weight"
    weights = weights_of(trained)
    weights[name] = weights[name][:, :-1].contiguous()
    save_file(weights, file)
    said = (
        rf"trained with {NUM_PLANES - 1} planes, here are {NUM_PLANES}\): .* "
        rf"insert a column of zeros into its {name}"
    )
    with pytest.raises(ValueError, match=said):
        initialise(policy_with(0, config=config), str(file))
    with pytest.raises(ValueError, match=said):
        load_policy(str(file))
    weights[name] = torch.cat([weights[name], torch.zeros_like(weights[name][:, :1])], 1)
    save_file(weights, file)
    with torch.no_grad():
        trained.state_dict()[name][:, -1] = 0.0
    loaded = load_policy(str(file))
    assert all(
        torch.equal(tensor, loaded.state_dict()[each])
        for each, tensor in trained.state_dict().items()
    )


@pytest.mark.parametrize("network", SIZES)
@pytest.mark.parametrize("critic", [False, True])
def test_weights_tell_their_network_and_its_dimensions(network: str, critic: bool) -> None:
    for size in SIZES[network]:
        config = NetworkConfig(network=network, size=size)  # type: ignore[arg-type]
        found = config_of(policy_with(0, critic=critic, config=config).state_dict(), "here")
        assert (found.network, found.dimensions) == (network, config.dimensions)


def test_a_critic_that_the_source_lacks_stays_as_it_is_initialised(tmp_path: Path) -> None:
    source, policy = policy_with(1), policy_with(0, critic=True)
    fresh = weights_of(policy)
    initialise(policy, in_file(tmp_path, source))
    critic = {name for name in fresh if name.startswith("value_head.")}
    assert critic
    assert_same(weights_of(policy), weights_of(source) | {name: fresh[name] for name in critic})


def test_a_critic_is_taken_over_where_both_have_one_and_left_out_where_the_policy_has_none(
    tmp_path: Path,
) -> None:
    source = policy_with(1, critic=True)
    with torch.no_grad():
        for name, parameter in source.named_parameters():
            parameter.add_(1.0 if name.startswith("value_head.") else 0.0)
    path = in_file(tmp_path, source)
    both, without = policy_with(0, critic=True), policy_with(0)
    initialise(both, path)
    initialise(without, path)
    assert_same(weights_of(both), weights_of(source))
    assert_same(weights_of(without), weights_of(policy_with(1)))


def session_from(config: TrainConfig) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Weights of (policy, reference) of a session."""
    session = Session(config)
    try:
        assert session.worker.reference is not None
        return weights_of(session.policy), weights_of(session.worker.reference)
    finally:
        session.close()


def test_policy_and_kl_reference_of_a_run_start_at_the_given_weights(tmp_path: Path) -> None:
    source = policy_with(1)
    regularizer, path = RegularizerConfig(kl_ref_coef=0.1), in_file(tmp_path, source)
    config = tiny(tmp_path / "run", updates=1, init_from=path, regularizer=regularizer)
    policy, reference = session_from(config)
    assert_same(policy, weights_of(source))
    assert_same(reference, weights_of(source))
    train(config, display=Watcher())
    first = checkpoint.load(tmp_path / "run" / "checkpoints" / "update-00000000")
    assert_same(first.weights, weights_of(source))
    assert_same(first.state["reference"], weights_of(source))


def test_a_scale_of_the_first_logits_is_the_reference_s_too_and_no_continued_run_s(
    tmp_path: Path,
) -> None:
    source = policy_with(1)
    config = tiny(
        tmp_path, init_from=in_file(tmp_path, source), init_logit_scale=8.0,
        regularizer=RegularizerConfig(kl_ref_coef=0.1),
    )  # fmt: skip
    with contextlib.closing(Session(config, fresh=False)) as continued:
        again = weights_of(continued.policy)
    scale_logits(source, 8.0)
    policy, reference = session_from(config)
    assert_same(policy, weights_of(source))
    assert_same(reference, weights_of(source))
    assert_same(again, weights_of(policy_with(config.seed, config=config.policy)))


def test_a_critic_joins_a_policy_that_was_trained_without_one(tmp_path: Path) -> None:
    train(tiny(tmp_path / "first", updates=1), display=Watcher())
    trained = checkpoint.load_newest(tmp_path / "first" / "checkpoints").weights
    ppo, first = PPO(group_size=4, gamma=0.0), str(tmp_path / "first")
    second = tiny(tmp_path / "second", updates=1, init_from=first, algorithm=ppo)
    train(second, display=Watcher())
    start = checkpoint.load(tmp_path / "second" / "checkpoints" / "update-00000000").weights
    assert_same({name: start[name] for name in trained}, trained)
    assert any(name.startswith("value_head.") for name in start)


def test_a_source_that_cannot_be_read_starts_no_engine_and_no_run(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="init_from 'nowhere' cannot be read"):
        train(tiny(tmp_path / "run", init_from="nowhere"), display=Watcher())
    assert not (tmp_path / "run").exists()


def test_the_configuration_keeps_where_the_weights_came_from(tmp_path: Path) -> None:
    config = tiny(tmp_path, init_from="warm", cause="kl_trap")
    config_file.save(config, tmp_path / "config.json")
    assert config_file.load(tmp_path / "config.json") == config
    values = config_file.to_dict(config)
    assert (values["init_from"], values["cause"]) == ("warm", "kl_trap")
    del values["init_from"], values["cause"]  # a configuration of before them
    old = config_file.from_dict(values)
    assert (old.init_from, old.cause) == (None, None)
