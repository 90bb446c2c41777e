"""A position over training is what the policy of each snapshot plays there; the sets are those of the evaluation."""

from __future__ import annotations

import shutil
from pathlib import Path

import chess
import numpy as np
import pytest
import torch

from algorithms.evaluation.regret import prepare_slice, regret_cp
from algorithms.evaluation.snapshot_policies import SnapshotPolicies, snapshots
from algorithms.playing.conversation import Request
from algorithms.playing.over_training import (
    OverTraining,
    most_changed,
    over_training,
    recorded_probes,
)
from algorithms.playing.policy_moves import PolicyMoves
from algorithms.playing.position import heldout_sets, one_position, probe_set, reached
from algorithms.training.trainer import train
from chess_env.moves import action_to_move
from chess_env.positions.heldout import load_heldout
from chess_env.rules.fen import to_fen
from tests.env.playing import SHUFFLE
from tests.evaluation.policies import small_policy
from tests.networks.facts_net import facts_policy
from tests.training.runs import Watcher, tiny

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a snapshot and a probe record of updates 0, 2 and 4."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    config = tiny(
        folder, checkpoint_keep=3, checkpoint_interval_updates=9, diagnostics_interval_updates=2
    )
    train(config, display=Watcher())
    return folder


def by_hand(probs: list[list[list[float]]]) -> OverTraining:
    """Policies on positions with two moves each, of which the second loses 100 cp."""
    table = heldout_sets()["endgame"]
    at = type(table)(
        names=tuple(f"position {row}" for row in range(len(probs[0]))),
        positions=table.positions[: len(probs[0])],
        obs=table.obs[: len(probs[0])],
        legal_ids=np.tile(np.array([0, 9], np.int16), (len(probs[0]), 1)),
        move_facts=table.move_facts[: len(probs[0]), :2],
        regret_cp=np.tile([0.0, 100.0], (len(probs[0]), 1)),
    )
    steps = np.arange(len(probs))
    with np.errstate(divide="ignore"):
        return OverTraining(steps * 10, steps, np.log(probs), 1.0, at)


def test_entropy_choice_regret_and_change_by_hand() -> None:
    found = by_hand(
        [[[0.5, 0.5], [1.0, 0.0]], [[0.25, 0.75], [1.0, 0.0]], [[0.0, 1.0], [0.9, 0.1]]]
    )
    quarter = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75))
    np.testing.assert_allclose(found.entropy[:, 0], [np.log(2), quarter, 0.0])
    np.testing.assert_allclose(found.chosen_prob, [[0.5, 1.0], [0.75, 1.0], [1.0, 0.9]])
    np.testing.assert_allclose(found.regret_cp[:, 0], [50.0, 75.0, 100.0])
    np.testing.assert_allclose(found.change, [0.5, 0.1])
    np.testing.assert_allclose(found.only(1).change, [0.1])
    assert found.only(1).at.legal_ids.tolist() == [[0, 9]]
    assert found.only(1).at.names == ("position 1",) and found.only(0).entropy.shape == (3, 1)
    other = by_hand([[[0.5, 0.5]], [[0.8, 0.2]]])
    assert [(each is found, row) for each, row in most_changed([found, other])] == [
        (True, 0), (False, 0), (True, 1),
    ]  # fmt: skip


def test_each_policy_is_what_is_played_in_that_position(run_dir: Path) -> None:
    rng, policies = np.random.default_rng(0), SnapshotPolicies()
    every = snapshots(run_dir).every
    games: list[tuple[str, ...]] = [(), SHUFFLE, (*SHUFFLE, *SHUFFLE, "g1f3")]
    for _ in range(12):
        board = chess.Board()
        for _ in range(int(rng.integers(1, 40))):
            moves = list(board.legal_moves)
            if not moves:
                break
            board.push(moves[int(rng.integers(len(moves)))])
        if any(board.legal_moves):
            games.append(tuple(move.uci() for move in board.move_stack))
    for moves in games:
        position = reached(None, moves)
        found = over_training(every, policies, one_position(position), 0.7)
        for i, each in enumerate(every):
            answer = PolicyMoves(policies(each))(Request(position, 0.7, 1, 0, None))
            ids = found.at.legal_ids[0]
            own = {action_to_move(int(id_), position.board): p for id_, p in zip(
                ids, found.probs[i, 0], strict=True)}  # fmt: skip
            assert own == pytest.approx(dict(zip(answer.moves, answer.probs, strict=True)))
            chosen = ids[found.probs[i, 0].argmax()]
            assert action_to_move(int(chosen), position.board) == answer.best


def test_a_network_that_reads_facts_is_told_what_occurred() -> None:
    policy = facts_policy()
    position = reached(None, (*SHUFFLE, "g1f3", "g8f6"))
    answer = PolicyMoves(policy)(Request(position, 1.0, 0, 0, None))
    found = np.exp(one_position(position).logprobs(policy, 1.0)[0])
    assert sorted(found, reverse=True) == pytest.approx(answer.probs)


def test_regret_on_the_held_out_table_is_that_of_the_evaluation() -> None:
    policy, table = small_policy(3), heldout_sets()["random_2_40"]
    logprobs = table.logprobs(policy, 1.3)[None].astype(np.float64)
    found = OverTraining(np.array([0]), np.array([0]), logprobs, 1.3, table)
    prepared = prepare_slice(load_heldout(), "random_2_40")
    expected = regret_cp(policy, prepared, temperature=1.3, device=CPU)
    np.testing.assert_allclose(found.regret_cp[0], expected.per_position_cp, atol=1e-3)
    free = prepared.num_legal >= 2
    np.testing.assert_allclose(
        found.entropy[0][free], expected.per_position_entropy[free], atol=1e-5
    )


def test_a_position_of_a_table_has_its_regret_alone_as_in_the_set() -> None:
    for at in (heldout_sets()["middlegame"], probe_set()):
        row = len(at) - 2
        alone = one_position(reached(to_fen(at.positions[row]), ()))
        slots = at.legal_ids[row] >= 0
        assert alone.legal_ids[0].tolist() == at.legal_ids[row][slots].tolist()
        assert alone.regret_cp[0].tolist() == at.regret_cp[row][slots].tolist()
        policy = small_policy(1)
        np.testing.assert_allclose(
            alone.logprobs(policy, 1.0)[0], at.logprobs(policy, 1.0)[row][slots], atol=1e-5
        )
    assert np.isnan(one_position(reached(None, ())).regret_cp).all()
    with pytest.raises(ValueError, match="no legal move"):
        one_position(reached("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1", ()))


@pytest.mark.parametrize("temperature", [None, 0.4, 2.0])
def test_what_a_run_recorded_is_what_its_snapshots_do(
    run_dir: Path, temperature: float | None
) -> None:
    recorded = recorded_probes(run_dir, temperature)
    every = snapshots(run_dir).every
    found = over_training(every, SnapshotPolicies(), probe_set(), recorded.temperature)
    assert recorded.updates.tolist() == found.updates.tolist() == [0, 2, 4]
    assert recorded.scored_moves.tolist() == found.scored_moves.tolist() == [0, 128, 256]
    np.testing.assert_allclose(recorded.probs, found.probs, atol=1e-5)
    np.testing.assert_allclose(recorded.entropy, found.entropy, atol=1e-4)
    assert recorded.change.argmax() == found.change.argmax() and recorded.change.max() > 0


def test_a_damaged_policy_is_left_out_with_a_note(run_dir: Path, tmp_path: Path) -> None:
    spoiled = Path(shutil.copytree(run_dir, tmp_path / "spoiled", symlinks=True))
    (spoiled / "snapshots" / "update-00000002" / "model.safetensors").write_bytes(b"short")
    every = snapshots(spoiled).every
    found = over_training(every, SnapshotPolicies(), probe_set(), 1.0)
    assert found.updates.tolist() == [0, 4]
    assert (
        len(found.notes) == 1 and "update-00000002/model.safetensors is damaged" in found.notes[0]
    )
    with pytest.raises(ValueError, match="no policy of the run can be loaded. .*is damaged"):
        over_training(every[1:2], SnapshotPolicies(), probe_set(), 1.0)
    with pytest.raises(ValueError, match="temperature is 0"):
        over_training(every, SnapshotPolicies(), probe_set(), 0)
    with pytest.raises(FileNotFoundError, match="holds no probe"):
        recorded_probes(tmp_path)
