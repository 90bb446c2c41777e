"""A run's own probe: what its rows say, what its files hold, and how both survive a stop."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from algorithms.core.algorithm import Controls
from algorithms.diagnostics import update_diagnostics
from algorithms.diagnostics.entropy_prediction import exact_rewards
from algorithms.diagnostics.probe_metrics import change_metrics
from algorithms.diagnostics.probe_set import load_probe_set
from algorithms.diagnostics.update_diagnostics import PolicyProbe
from algorithms.networks.policy_net import PolicyNet
from algorithms.reports.probe_files import probe_path, read_probes
from algorithms.reports.run_files import read_metrics
from algorithms.training.trainer import train
from tests.small import CPU, make_policy
from tests.training.runs import Watcher, rows_without_time, tiny

TEMPERATURE = 1.3


def moved(policy: PolicyNet) -> PolicyNet:
    other = copy.deepcopy(policy)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter += 0.02 * torch.randn(parameter.shape, generator=generator)
    return other


def test_a_look_is_the_policy_s_own_distribution_at_the_temperature() -> None:
    probe, policy = PolicyProbe(None, TEMPERATURE, CPU), make_policy()
    found = probe.look(policy)
    ids = torch.tensor(probe.probes.legal_ids)
    own = policy.outputs(probe.states.obs, ids, TEMPERATURE).dist.logprobs.detach()
    assert found.dtype == np.float64 and found.shape == (26, 218)
    np.testing.assert_allclose(found, own.numpy(), atol=1e-5)
    np.testing.assert_allclose(np.exp(found).sum(-1), 1.0, atol=1e-14)
    assert found[24, 0] == 0.0  # the forced move


def test_a_probe_s_metrics_are_those_of_the_change_on_its_set_by_kind_and_from_the_start() -> None:
    probe, policy = PolicyProbe("regret", TEMPERATURE, CPU), make_policy(spread=2.5)
    first, second = probe.look(policy), probe.look(moved(policy))
    probe.start_from(probe.look(make_policy(seed=5)).astype(np.float32))
    assert probe.start is not None
    controls = Controls(clip_low=0.02, clip_high=0.03)
    found = probe.metrics(torch.from_numpy(first), torch.from_numpy(second), controls)
    probes, rewards = (
        load_probe_set(),
        exact_rewards(load_probe_set().legal_ids, load_probe_set().child_score_cp, "regret"),
    )
    change = change_metrics(
        probes.legal_ids >= 0, first, second, rewards, clip_low=0.02, clip_high=0.03
    )
    assert change.items() <= found.items()
    told = ("covariance", "expected_reward_regret", "mass_risen_rare", "mass_moved_p_01_10")
    assert all(change[f"probe/{name}"] for name in told)
    assert 0 < found["probe/blocked_high"] < 1 and 0 < found["probe/blocked_low"] < 1
    rows = [(np.exp(second[i, :n]), np.exp(probe.start[i, :n]))
            for i, n in enumerate(probes.num_legal) if n >= 2]  # fmt: skip
    assert len(rows) == 25
    distances = [(now * np.log(now / start)).sum() for now, start in rows]
    assert found["probe/kl_start"] == pytest.approx(np.mean(distances), rel=1e-9)
    entropies = np.array([-(now * np.log(now)).sum() for now, _ in rows])
    assert found["probe/entropy"] == pytest.approx(entropies.mean(), rel=1e-9)
    for kind, span in {"opening": slice(0, 6), "decided": slice(18, 24), "widest": [24]}.items():
        assert found[f"probe/entropy_{kind}"] == pytest.approx(entropies[span].mean())
    assert "probe/entropy_forced" not in found


def test_a_policy_that_has_not_moved_is_at_no_distance_from_its_start() -> None:
    probe, policy = PolicyProbe(None, TEMPERATURE, CPU), make_policy(spread=2.5)
    logprobs = probe.look(policy)
    same = torch.from_numpy(logprobs)
    assert "probe/kl_start" not in probe.metrics(same, same, Controls())
    probe.start_from(logprobs.astype(np.float32))
    found = probe.metrics(same, same, Controls())
    assert found["probe/kl_step"] == 0.0
    assert 0 <= found["probe/kl_start"] < 1e-12


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run_dir = tmp_path_factory.mktemp("probed") / "run"
    train(tiny(run_dir, updates=4, diagnostics_interval_updates=2), display=Watcher())
    return run_dir


def test_a_run_keeps_its_policy_at_every_look_and_its_rows_agree_with_it(whole: Path) -> None:
    rows, kept, probes = read_metrics(whole), read_probes(whole), load_probe_set()
    assert kept.updates.tolist() == [0, 2, 4]
    assert kept.sheet.set_sha256 == probes.sha256 and kept.sheet.kinds == probes.kinds
    assert [row["step"] for row in rows if "probe/entropy" in row] == [2, 4]
    free = probes.num_legal >= 2
    logs = np.where(np.isnan(kept.logprobs), 0.0, kept.logprobs).astype(np.float64)
    probs = np.where(np.isnan(kept.logprobs), 0.0, np.exp(logs))
    for index, update in enumerate(kept.updates[1:].tolist(), start=1):
        entropy = -(probs[index] * logs[index]).sum(-1)[free].mean()
        distance = (probs[index] * (logs[index] - logs[0])).sum(-1)[free].mean()
        assert rows[update]["probe/entropy"] == pytest.approx(entropy, abs=1e-6)
        assert rows[update]["probe/kl_start"] == pytest.approx(distance, abs=1e-6)
    first, last = (rows[update]["probe/kl_start"] for update in (2, 4))
    assert first is not None and last is not None and 0 < first < last


def test_a_continued_run_writes_what_an_unbroken_one_does(whole: Path, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    train(tiny(run_dir, updates=3, diagnostics_interval_updates=2), display=Watcher())
    probe_path(run_dir, 2).write_bytes(b"kept as it is")  # before the checkpoint
    shutil.copy(probe_path(whole, 2), probe_path(run_dir, 6))  # after it
    config = tiny(run_dir, updates=4, diagnostics_interval_updates=2)
    train(config, resume=True, display=Watcher())
    assert probe_path(run_dir, 2).read_bytes() == b"kept as it is"
    assert not probe_path(run_dir, 6).exists()
    for update in (0, 4):
        path = probe_path(run_dir, update)
        assert path.read_bytes() == probe_path(whole, update).read_bytes()
    assert rows_without_time(run_dir)[4] == rows_without_time(whole)[4]


def test_without_its_start_a_continued_run_says_what_it_leaves_out(tmp_path: Path) -> None:
    run_dir, seen = tmp_path / "run", Watcher()
    train(tiny(run_dir, updates=1, diagnostics_interval_updates=1), display=Watcher())
    probe_path(run_dir, 0).unlink()
    config = tiny(run_dir, updates=2, diagnostics_interval_updates=1)
    train(config, resume=True, display=seen)
    assert any(
        "probe/kl_start is left out" in said and "00000000.npz is missing" in said
        for said in seen.messages
    )
    rows = read_metrics(run_dir)
    assert "probe/kl_start" in rows[1] and "probe/kl_start" not in rows[2]
    assert "probe/kl_step" in rows[2]


def test_a_full_disk_costs_a_probe_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, seen = update_diagnostics.write_probe, Watcher()

    def sometimes(run_dir: Path, update: int, *rest: object) -> Path:
        if update == 1:
            raise OSError(28, "No space left on device")
        return write(run_dir, update, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(update_diagnostics, "write_probe", sometimes)
    result = train(tiny(tmp_path / "run", updates=2, diagnostics_interval_updates=1), display=seen)
    assert result.updates == 2
    assert read_probes(tmp_path / "run").updates.tolist() == [0, 2]
    assert [said for said in seen.messages if "00000001.npz could not be written (No space" in said]
