"""A pretraining run learns, stops where it should, and is continued without changing a step."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from algorithms.config import files as config_file
from algorithms.config.run import OptimizerConfig
from algorithms.pretraining import config as configuration
from algorithms.pretraining import labels
from algorithms.pretraining.config import PretrainConfig
from algorithms.pretraining.label_files import ShardError, ShardFolder
from algorithms.pretraining.loop import pretrain
from algorithms.pretraining.supervised import Minibatch, Plateau, Pretraining, StepMeans, Stream
from algorithms.reports.run_files import read_metrics
from algorithms.run_folder import checkpoint
from algorithms.run_folder.atomic_files import RunFolderError, lock_folder
from algorithms.updates.learner import NonFiniteError
from chess_env.observation import NUM_PLANES
from tests.pretraining.runs import SMALL, Quiet, tiny, tiny_labels
from tests.training.runs import assert_same, rows_without_time, stop_at


def state_of(run_dir: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Weights and state of the newest checkpoint, without what a clock decides."""
    newest = checkpoint.load_newest(run_dir / "checkpoints")
    state = dict(newest.state)
    clock = ("wall_s", "cpu_s")
    state["progress"] = {k: v for k, v in state["progress"].items() if k not in clock}
    return newest.weights, state


def test_a_run_leaves_its_folder_complete(pretrained: Path) -> None:
    assert configuration.load(pretrained / "config.json") == tiny(pretrained)
    rows = read_metrics(pretrained)
    assert [row["step"] for row in rows] == [0, 2, 4, 6, 8, 10, 12]
    assert [row["step"] for row in rows if "eval/regret_cp" in row] == [0, 4, 8, 12]
    assert rows[-1]["plies"] == 12 * 32
    rates = [row["train/learning_rate"] for row in rows if row["step"] >= 8]
    assert rates[1:] == pytest.approx([1e-3, 1e-3]) and rates[0] > 1e-3  # step 8 is the last before
    assert {"eval/endgame/regret_cp", "eval/decided/regret_cp"} <= rows[-1].keys()
    assert (pretrained / "environment.json").exists()
    assert checkpoint.load(pretrained / "checkpoints" / "best").weights
    assert checkpoint.load_newest(pretrained / "checkpoints").path.name == "update-00000012"


def test_the_loss_falls_and_held_out_regret_with_it(tmp_path: Path) -> None:
    config = tiny(tmp_path, total_steps=40, lr_decay_steps=40, eval_interval_steps=20)
    result = pretrain(
        dataclasses.replace(config, labels=tiny_labels(num_positions=256)), display=Quiet()
    )
    rows = read_metrics(tmp_path)
    losses = [row["pretrain/kl"] for row in rows if row["step"] > 0]
    assert losses[-1] < 0.9 * losses[0]
    assert result.regret_cp_greedy_end < 0.9 * 384
    assert result.regret_cp_end < result.regret_cp_start
    assert result.stopped_by is None and result.steps == 40


def test_the_first_row_says_what_the_untrained_policy_says(pretrained: Path) -> None:
    first = read_metrics(pretrained)[1]
    # An untrained policy is nearly uniform, and the cross-entropy is the KL plus the targets' entropy.
    assert first["pretrain/loss"] == pytest.approx(
        first["pretrain/kl"] + first["pretrain/target_entropy"], abs=1e-5
    )
    assert first["pretrain/entropy"] > 0.9 * first["pretrain/loss"]
    assert first["train/learning_rate"] == pytest.approx((1e-2 + (1e-3 - 1e-2) / 8) * 2 / 3)


def test_an_epoch_shows_every_position_once_and_the_next_one_in_another_order(
    pretrained: Path,
) -> None:
    config = configuration.load(pretrained / "config.json")
    folder = ShardFolder(pretrained / "labels", manifest_identity(pretrained))
    stream = Stream(config, folder, folder.sizes(), torch.device("cpu"))
    assert stream.steps_per_epoch == 6
    epochs = [[stream.minibatch(step).obs for step in range(6 * e, 6 * e + 6)] for e in range(2)]
    shown = [sorted(row.numpy().tobytes() for obs in epoch for row in obs) for epoch in epochs]
    assert len(shown[0]) == 192 and shown[0] == shown[1]
    assert not torch.equal(torch.cat(epochs[0]), torch.cat(epochs[1]))
    again = Stream(config, folder, folder.sizes(), torch.device("cpu")).minibatch(8)
    assert torch.equal(again.obs, epochs[1][2])


def manifest_identity(run_dir: Path) -> dict[str, Any]:
    identity: dict[str, Any] = checkpoint.load_newest(run_dir / "checkpoints").state["labels"]
    return identity


@pytest.mark.parametrize("cut", [4, 7])
def test_a_run_continued_is_bit_for_bit_the_run_that_was_not_interrupted(
    pretrained: Path, tmp_path: Path, cut: int
) -> None:
    run_dir = tmp_path / "run"
    config = tiny(run_dir)
    pretrain(dataclasses.replace(config, total_steps=cut), display=Quiet())
    pretrain(config, resume=True, display=Quiet())
    weights, state = state_of(pretrained)
    own_weights, own_state = state_of(run_dir)
    assert_same(own_weights, weights)
    for name in ("optimizer", "plateau", "guard", "labels"):
        assert_same(own_state[name], state[name], name)
    if cut == 4:  # at 7 there is one more row, that of the early end
        final = rows_without_time(pretrained)[-1]
        assert rows_without_time(run_dir)[-1] == final


def test_what_an_older_version_did_not_write_has_its_default_and_is_said(
    pretrained: Path, tmp_path: Path
) -> None:
    config = tiny(tmp_path)
    pretrain(dataclasses.replace(config, total_steps=4), display=Quiet())
    found = checkpoint.load_newest(tmp_path / "checkpoints")
    del found.state["plateau"]["stale_evals"], found.state["guard"]
    saved = {"weights": found.weights, "state": found.state}
    checkpoint.save(tmp_path / "checkpoints", 4, **saved, best=True)
    values = config_file.read_settings(tmp_path / "config.json")
    del values["plateau"], values["labels"]["pgn"]
    (tmp_path / "config.json").write_text(json.dumps(values))
    display = Quiet()
    pretrain(config, resume=True, display=display)
    said = [line for line in display.messages if "older version" in line]
    assert [line.split(" has no ")[1].split(":")[0] for line in said] == [
        "labels.pgn, plateau",
        "guard, plateau.stale_evals",
    ]
    assert_same(state_of(tmp_path)[0], state_of(pretrained)[0])
    del found.state["labels"]
    checkpoint.save(tmp_path / "checkpoints", 14, **saved, best=True)
    with pytest.raises(
        ValueError, match=r"update-00000014 holds a state.*state has no \['labels'\]"
    ):
        pretrain(config, resume=True, display=display)


def test_a_stop_is_asked_for_by_a_signal_while_learning_and_while_labelling(
    tmp_path: Path, pretrained: Path
) -> None:
    run_dir, interrupt = tmp_path / "run", stop_at(0, 6)
    config = tiny(run_dir)
    result = pretrain(config, display=Quiet(interrupt))
    assert (result.stopped_by, result.steps, result.labelled_positions) == ("SIGINT", 0, 0)
    result = pretrain(config, resume=True, display=Quiet(interrupt))
    assert result.stopped_by == "SIGINT" and result.steps in (6, 7)
    result = pretrain(config, resume=True, display=Quiet())
    assert (result.stopped_by, result.steps) == (None, 12)
    assert_same(state_of(run_dir)[0], state_of(pretrained)[0])


def test_a_plateau_needs_patience_and_slow_improvements_add_up() -> None:
    plateau = Plateau()
    seen = []
    for regret_cp in (100.0, 99.5, 99.0, 98.9, 98.9, 120.0):
        plateau.see(regret_cp, min_improvement_cp=1.0)
        seen.append((plateau.best_cp, plateau.stale_evals))
    assert seen == [(100, 0), (100, 1), (99, 0), (99, 1), (99, 2), (99, 3)]


def test_a_run_ends_at_a_plateau_and_goes_on_where_that_is_switched_off(tmp_path: Path) -> None:
    config = tiny(tmp_path, total_steps=40, patience_evals=2, min_improvement_cp=1_000.0)
    result = pretrain(config, display=Quiet())
    # The first evaluation that counts is at the end of the decay, step 8; then two without a fall.
    assert result.steps == 16 and str(result.stopped_by).startswith("plateau: 2 evaluations")
    assert pretrain(config, resume=True, display=Quiet()).steps == 16
    longer = dataclasses.replace(config, plateau=False, total_steps=20)
    assert pretrain(longer, resume=True, display=Quiet()).steps == 20


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 1}, "seed 0 -> 1"),
        ({"target": "best"}, "target 'soft' -> 'best'"),
        ({"labels": tiny_labels(walk_plies=4)}, "labels.walk_plies 3 -> 4"),
        ({"labels": tiny_labels(num_positions=500)}, "labels.num_positions 192 -> 500"),
    ],
)
def test_a_continued_run_keeps_its_settings(
    pretrained: Path, changes: dict[str, Any], message: str
) -> None:
    config = dataclasses.replace(tiny(pretrained), **changes)
    with pytest.raises(ValueError, match=message):
        pretrain(config, resume=True, display=Quiet())


def test_a_folder_with_a_run_is_not_written_over(pretrained: Path) -> None:
    with pytest.raises(RunFolderError, match="holds a run already: continue it with --resume"):
        pretrain(tiny(pretrained), display=Quiet())


def test_two_runs_share_labels_that_are_the_same_and_no_others(
    pretrained: Path, tmp_path: Path
) -> None:
    shared = tiny_labels(labels_dir=pretrained / "labels")
    config = tiny(tmp_path / "b", labels=shared, seed=1, total_steps=2)
    result = pretrain(config, display=Quiet())
    assert (result.shards_made, result.shards_kept) == (0, 3)
    other = dataclasses.replace(shared, walk_plies=2)
    with pytest.raises(ShardError, match="walk_plies 3, wanted 2"):
        pretrain(tiny(tmp_path / "c", labels=other), display=Quiet())


def test_a_run_waits_for_labels_that_another_process_is_making(
    pretrained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labels, "LOCK_POLL_S", 0.01)
    folder = tmp_path / "labels"
    folder.mkdir()
    lock = lock_folder(folder)

    class Other(Quiet):
        def say(self, message: str) -> None:
            super().say(message)
            if message.startswith("waiting for the labels"):
                for path in (pretrained / "labels").glob("*.*"):
                    (folder / path.name).write_bytes(path.read_bytes())
                lock.close()  # the other process has made them

    display = Other()
    config = tiny(tmp_path / "run", labels=tiny_labels(labels_dir=folder), total_steps=2)
    result = pretrain(config, display=display)
    assert (result.shards_made, result.shards_kept) == (0, 3)
    assert sum("is being written by process" in message for message in display.messages) == 1


def test_a_shard_damaged_between_two_processes_is_made_anew_and_said(tmp_path: Path) -> None:
    pretrain(tiny(tmp_path, total_steps=2), display=Quiet())
    (tmp_path / "labels" / "shard-00001.npz").write_bytes(b"nonsense")
    display = Quiet()
    result = pretrain(tiny(tmp_path), resume=True, display=display)
    assert result.shards_remade == 1
    assert any("1 damaged shards of labels were made anew" in m for m in display.messages)


def test_a_run_is_not_continued_on_labels_made_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny(tmp_path, total_steps=2)
    pretrain(config, display=Quiet())
    monkeypatch.setattr(labels, "BOARDS", 1)
    elsewhere = dataclasses.replace(config.labels, labels_dir=tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="learned from labels of"):
        pretrain(dataclasses.replace(config, labels=elsewhere), resume=True, display=Quiet())


def test_a_shard_damaged_while_the_run_learns_is_named(tmp_path: Path) -> None:
    def damage(row: Mapping[str, float]) -> None:
        if row["step"] == 2:
            for path in (tmp_path / "labels").glob("shard-*.npz"):
                path.write_bytes(b"nonsense")

    with pytest.raises(ShardError, match=r"npz is damaged: start again \(--resume\)"):
        pretrain(tiny(tmp_path), display=Quiet(damage))
    assert pretrain(tiny(tmp_path), resume=True, display=Quiet()).shards_remade == 3


def test_frozen_layers_keep_their_weights(tmp_path: Path) -> None:
    optimizer = OptimizerConfig(learning_rate=1e-2, minibatch_size=32, frozen_layers=("stem",))
    config = tiny(tmp_path, optimizer=optimizer, total_steps=4)
    before = Pretraining(config).policy.state_dict()
    pretrain(config, display=Quiet())
    after = state_of(tmp_path)[0]
    assert torch.equal(after["stem.weight"], before["stem.weight"])
    assert not torch.equal(after["to_vector.weight"], before["to_vector.weight"])


def test_a_step_follows_the_gradient_of_the_cross_entropy() -> None:
    session = Pretraining(tiny(None))
    legal_ids = torch.tensor([[0, 5, 9], [3, 7, -1]], dtype=torch.int16)
    targets = torch.tensor([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0]])
    obs = torch.zeros((2, NUM_PLANES, 8, 8), dtype=torch.uint8)
    logits = session.policy(obs, legal_ids).detach().masked_fill(legal_ids < 0, -1e9)
    expected = torch.nn.functional.cross_entropy(logits, targets)  # PyTorch's own, soft labels
    means = StepMeans()
    session.step(Minibatch(obs, legal_ids, targets, 5), means)
    found = means.metrics()
    assert found["pretrain/loss"] == pytest.approx(float(expected), abs=1e-6)
    assert (session.progress.plies, session.progress.scored_moves) == (2, 5)
    entropy = -sum(p * np.log(p) for p in (0.2, 0.5, 0.3)) / 2
    assert found["pretrain/target_entropy"] == pytest.approx(entropy, abs=1e-6)


def test_a_run_whose_loss_is_no_number_stops_with_finite_weights() -> None:
    session = Pretraining(tiny(None))
    legal_ids = torch.tensor([[0, 5]], dtype=torch.int16)
    obs = torch.zeros((1, NUM_PLANES, 8, 8), dtype=torch.uint8)
    bad = Minibatch(obs, legal_ids, torch.tensor([[float("nan"), 1.0]]), 2)
    means = StepMeans()
    with pytest.raises(NonFiniteError, match="loss nan"):
        for _ in range(3):
            session.step(bad, means)
    assert means.metrics() == {"train/skipped_steps": 2.0}
    assert all(torch.isfinite(p).all() for p in session.policy.parameters())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": "played"}, "set target to played with a pgn file"),
        ({"labels": {"pgn": Path("x.pgn")}}, "target is 'soft'"),
        ({"target_temperature": 0.0}, "target_temperature is 0.0"),
        ({"eval_interval_steps": 75}, "set it to a multiple"),
        ({"policy": dataclasses.replace(SMALL, dropout=0.1)}, "set it to 0"),
        ({"labels": {"random_move_fraction": 1.5}}, "random_move_fraction is 1.5"),
        ({"labels": {"shard_size": 0}}, "shard_size is 0"),
        ({"labels": {"evaluator": "none"}}, "labels need scores"),
        ({"min_improvement_cp": -1.0}, "min_improvement_cp is -1.0"),
    ],
)
def test_a_setting_out_of_range_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        if isinstance(changes.get("labels"), dict):
            changes = {"labels": tiny_labels(**changes["labels"])}
        dataclasses.replace(PretrainConfig(), **changes)
