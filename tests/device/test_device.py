"""What must hold wherever the network runs: on the CPU by default, on a GPU with `--device cuda`."""

from __future__ import annotations

import copy
import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from algorithms import PRESETS
from algorithms.config.run import OptimizerConfig, RolloutConfig
from algorithms.core.distribution import MaskedCategorical
from algorithms.networks.build import build_policy, choose_device, compile_trunk
from algorithms.networks.settings import NetworkConfig, PrecisionConfig
from algorithms.reports.run_files import read_metrics
from algorithms.rollouts.sampling import planes_of
from algorithms.testing.network_contract import states
from algorithms.training.session import Session
from algorithms.training.trainer import train
from chess_env.observation import encode_batch
from chess_env.rules.fen import pack_fens
from tests.networks.readers import READERS, make, shaken
from tests.training.runs import Watcher, tiny

FENS = [
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
    "8/8/8/8/3pP3/8/8/K2k4 b - e3 0 1",
]


@pytest.mark.parametrize("name", ["tpu", "cuda:1", "CPU", ""])
def test_a_device_that_is_not_known_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"device is '{name}': expected one of auto, cpu, cuda"):
        choose_device(name)


@pytest.mark.gpu  # on the CPU `tests/diagnostics/test_signal_chain.py` trains every preset
@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_trains_and_its_sampler_and_learner_agree(
    preset: str, device: torch.device, tmp_path: Path
) -> None:
    algorithm, regularizer = PRESETS[preset]
    config = tiny(tmp_path / "run", algorithm=algorithm, regularizer=regularizer, preset=preset)
    form = "games" if algorithm.needs().whole_games else "positions"
    rollout = dataclasses.replace(config.rollout, temperature=1.3, form=form)
    moves = 1_024 if algorithm.needs().all_moves else 128
    config = dataclasses.replace(config, device=device.type, rollout=rollout, total_moves=moves)
    train(config, display=Watcher())
    rows = read_metrics(tmp_path / "run")
    assert len(rows) >= 2
    # Above float32's rounding only where the trunk runs in 16 bits, on CUDA.
    bound = 1e-5 if device.type == "cpu" else 0.1
    assert all(row["ratio/mismatch"] <= bound for row in rows if "ratio/mismatch" in row)
    assert all(row["train/skipped_steps"] == 0 for row in rows if "train/skipped_steps" in row)
    assert all(math.isfinite(row["train/loss"]) for row in rows if "train/loss" in row)


def test_planes_made_on_the_device_are_the_environments(device: torch.device) -> None:
    positions, repetitions = np.array(pack_fens(FENS)), np.array([0, 2], dtype=np.uint8)
    packed = torch.from_numpy(positions.view(np.int64)).to(device)
    found = planes_of(packed, torch.from_numpy(repetitions).to(device))
    assert np.array_equal(found.cpu().numpy(), encode_batch(positions, repetitions))


def test_the_distribution_on_the_device_is_that_of_the_cpu(device: torch.device) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(64, 218, generator=generator, dtype=torch.float64)
    legal = torch.arange(218) < torch.randint(1, 219, (64, 1), generator=generator)
    here = MaskedCategorical(logits, legal, 1.3)
    there = MaskedCategorical(logits.to(device), legal.to(device), 1.3)
    torch.testing.assert_close(there.logprobs.cpu(), here.logprobs, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(there.entropy().cpu(), here.entropy(), rtol=1e-12, atol=1e-12)
    uniform = torch.zeros_like(logits).masked_fill(~legal, -math.inf)
    torch.testing.assert_close(there.kl(uniform.to(device)).cpu(), here.kl(uniform))
    slots = there.sample(4, torch.Generator(device).manual_seed(0))
    assert bool(legal.to(device).gather(-1, slots).all())


@pytest.mark.gpu
def test_a_16_bit_trunk_changes_logits_by_little_on_cuda() -> None:
    cuda = torch.device("cuda")
    obs = planes_of(
        torch.from_numpy(np.array(pack_fens(FENS)).view(np.int64)).to(cuda),
        torch.zeros(2, dtype=torch.uint8, device=cuda),
    )
    legal_ids = torch.arange(30, dtype=torch.int16, device=cuda).expand(2, 30)
    precisions = [PrecisionConfig(autocast=on) for on in (False, True)]
    full, half = (
        build_policy(NetworkConfig(network="resnet"), seed=0, device=cuda, precision=each)
        for each in precisions
    )
    with torch.no_grad():
        gap = (full(obs, legal_ids) - half(obs, legal_ids)).abs().max()
    assert 0 < float(gap) < 0.05


@pytest.mark.gpu
@pytest.mark.parametrize("network", READERS)
def test_cuda_answers_as_the_cpu_does_and_a_16_bit_trunk_nearly_so(network: str) -> None:
    policy = shaken(make(network))
    asked = states()
    expected = policy(*asked)
    there = [each.cuda() for each in asked]
    for autocast, bound in ((False, 1e-3), (True, 0.3)):
        policy.precision = PrecisionConfig(autocast=autocast)
        logits, values = policy.cuda().logits_and_values(*there)
        assert values is not None and values.isfinite().all()
        assert (logits.cpu() - expected).abs().max() < bound


@pytest.mark.gpu
@pytest.mark.parametrize("network", ["resnet", *READERS])
def test_a_compiled_trunk_answers_nearly_as_it_does_otherwise_and_a_copy_is_not_compiled(
    network: str,
) -> None:
    config = NetworkConfig(network=network, channels=16, blocks=1, head_dim=8)
    policy = build_policy(config, seed=0, device=torch.device("cuda"))
    asked = [each.cuda() for each in states()]
    expected, names = policy(*asked).detach(), list(policy.state_dict())
    compile_trunk(policy, num_boards=len(asked[0]))
    found = policy(*asked)
    found.sum().backward()
    assert (found - expected).abs().max() < 0.05
    with torch.no_grad():  # of a ply: recorded, then replayed
        plies = [policy(*asked).clone() for _ in range(4)]
        assert all(torch.equal(ply, plies[0]) for ply in plies)
        assert (plies[0] - expected).abs().max() < 0.05
        half = [each[: len(each) // 2] for each in asked]
        assert (policy(*half) - expected[: len(half[0])]).abs().max() < 0.05
    assert list(policy.state_dict()) == names
    assert torch.equal(copy.deepcopy(policy)(*asked), expected)
    with torch.no_grad():  # a replay reads the weights as they are
        for parameter in policy.trunk().parameters():
            parameter.add_(0.1)
        found, other = policy(*asked), copy.deepcopy(policy)(*asked)
    assert not torch.equal(found, plies[0])
    assert (found - other).abs().max() < 0.05 * (1 + other.abs().max())


def test_a_sound_update_loses_nothing_of_the_learning_signal(
    tmp_path: Path, device: torch.device
) -> None:
    config = tiny(tmp_path / "run", device=device.type, diagnostics_interval_updates=1)
    train(config, display=Watcher())
    rows = [row for row in read_metrics(tmp_path / "run") if "signal/step" in row]
    near = 1e-3 if device.type == "cpu" else 0.1  # autocast rounds to 16 bits
    for row in rows:
        for link in ("reward", "ratio", "step"):
            assert row[f"signal/{link}"] == pytest.approx(1.0, abs=near), link
    assert len(rows) == 4


@pytest.mark.gpu
def test_a_compiled_run_learns_and_its_sampler_and_learner_agree(tmp_path: Path) -> None:
    # The diagnostics take several gradients through one forward pass.
    config = tiny(tmp_path / "run", device="cuda", compile=True, diagnostics_interval_updates=1)
    train(config, display=Watcher())
    rows = [row for row in read_metrics(tmp_path / "run") if "train/loss" in row]
    assert len(rows) == 4
    assert all(row["ratio/mismatch"] <= 0.1 and row["train/skipped_steps"] == 0 for row in rows)


@pytest.mark.gpu
def test_a_run_that_does_not_fit_the_memory_says_so_with_numbers(tmp_path: Path) -> None:
    total = torch.cuda.mem_get_info()[1]
    large = NetworkConfig(network="resnet", channels=256, blocks=20)
    optimizer = OptimizerConfig(minibatch_size=1024)
    rollout = RolloutConfig(num_envs=1024, num_plies=2)
    config = tiny(
        tmp_path / "run",
        device="cuda",
        policy=large,
        rollout=rollout,
        optimizer=optimizer,
        total_moves=8192,
        preflight=False,
    )
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(2**30 / total)
    try:
        with pytest.raises(
            RuntimeError, match=r"GiB.*optimizer.minibatch_size 1,024.*num_envs 1,024"
        ):
            train(config, display=Watcher())
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.mark.gpu
def test_the_optimizer_of_cuda_is_fused_and_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    half, whole = 2 * 64, 4 * 64
    train(tiny(tmp_path / "run", device="cuda", total_moves=half), display=Watcher())
    config = tiny(tmp_path / "run", device="cuda", total_moves=whole)
    result = train(config, resume=True, display=Watcher())
    assert result.updates == 4
    session = Session(config)
    try:
        assert session.learner.optimizer.param_groups[0]["fused"]
    finally:
        session.close()


def test_compile_is_refused_on_the_cpu(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="compile is on and the run computes on cpu"):
        train(tiny(tmp_path / "run", compile=True), display=Watcher())


def test_a_network_without_blocks_has_nothing_to_compile() -> None:
    policy = build_policy(NetworkConfig(size="medium"), seed=0, device=torch.device("cpu"))
    with pytest.raises(ValueError, match="move_net medium has no trunk to compile"):
        compile_trunk(policy, num_boards=1)
