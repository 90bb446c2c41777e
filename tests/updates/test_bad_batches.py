"""What an update does with numbers that are not finite, coarse, or stale."""

from __future__ import annotations

import functools
import json
import resource
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from algorithms.networks.build import build_policy
from algorithms.networks.policy_net import PolicyNet
from algorithms.networks.settings import NetworkConfig, PrecisionConfig
from algorithms.rollouts.collect import start_rollout
from algorithms.updates.learner import NonFiniteDump
from algorithms.updates.training_batch import Targets
from chess_env.observation import NUM_PLANES
from tests.rollouts.play import play_positions
from tests.small import CPU, VecOf, make_batch, make_policy
from tests.updates.recording_algorithm import RecordingAlgorithm, run


def test_the_first_bad_minibatch_of_a_run_is_kept_and_said(tmp_path: Path) -> None:
    batch, algorithm, said = make_batch(), RecordingAlgorithm(), list[str]()
    spoiled = batch.rewards.clone()
    spoiled[0, 0, 0] = torch.nan
    targets = Targets(spoiled, algorithm.weights(batch))
    bad = NonFiniteDump(tmp_path / "bad_batches", said.append)
    for number in (7, 8):
        keep_bad = functools.partial(bad.keep, number)
        changes = {"targets": targets, "minibatch_size": 4, "keep_bad": keep_bad}
        metrics = run(make_policy(), batch, algorithm, **changes)
        assert metrics["train/skipped_steps"] == 1
    kept = sorted(path.name for path in bad.folder.iterdir())
    assert kept == ["update-7.json", "update-7.safetensors"]
    tensors = load_file(bad.folder / "update-7.safetensors")
    assert tensors["obs"].shape == (4, NUM_PLANES, 8, 8)
    assert tensors["advantages"].isnan().sum() == 1
    note = json.loads((bad.folder / "update-7.json").read_text())
    assert note["update"] == 7 and "nan" in note["reason"]
    assert len(said) == 1 and str(bad.folder / "update-7.safetensors") in said[0]


def test_a_bad_batch_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / "file").write_text("")
    bad = NonFiniteDump(tmp_path / "file" / "bad_batches", said.append)
    bad.keep(3, make_batch().flat(), {}, "loss nan")
    assert len(said) == 1 and "could not be written" in said[0]


def test_a_full_disk_costs_the_bad_batch_and_not_the_run(tmp_path: Path) -> None:
    said: list[str] = []
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        NonFiniteDump(tmp_path / "bad_batches", said.append).keep(
            3, make_batch().flat(), {}, "loss nan"
        )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert len(said) == 1 and "could not be written (File too large)" in said[0]


@pytest.mark.parametrize("changes", [{"head_dtype": "bfloat16"}, {"logprob_dtype": "float16"}])
def test_a_coarse_policy_on_the_cpu_still_learns_at_ratio_one(
    vec_of: VecOf, changes: dict[str, Any]
) -> None:
    config, precision = (
        NetworkConfig(network="resnet", channels=8, blocks=1),
        PrecisionConfig(**changes),
    )
    policy = build_policy(config, seed=0, device=CPU, precision=precision)
    vec = vec_of(4)
    batch, _ = play_positions(vec, policy, start_rollout(vec, 0))
    metrics = run(policy, batch, RecordingAlgorithm())
    assert metrics["ratio/std"] < 0.01
    assert metrics["ratio/mismatch"] < 0.05


def test_a_stale_batch_is_relabelled_by_the_policy_that_sampled_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch, learner = make_batch(), make_policy()
    with torch.no_grad():
        learner.action_bias.mul_(1.2)
    exact = run(learner, batch, RecordingAlgorithm())
    monkeypatch.setattr(PolicyNet, "reduced_precision", lambda self, device: True)
    stale = run(learner, batch, RecordingAlgorithm(), behaviour=make_policy())
    assert stale["ratio/std"] == pytest.approx(exact["ratio/std"], rel=1e-3)
    assert run(learner, batch, RecordingAlgorithm())["ratio/std"] < 1e-5 < exact["ratio/std"]
