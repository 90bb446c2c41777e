"""The probe set is what it says: fixed, complete, whole, and of the rules that are played by."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from algorithms.diagnostics.probe_set import (
    KINDS,
    PROBES_PATH,
    contents_sha256,
    load_probe_set,
    read_probe_set,
)
from benchmarks.positions.probe_build import FORCED_FEN, WIDEST_FEN, heldout_rows, rebuild
from chess_env.positions.heldout import SLICE_NAMES, load_heldout
from chess_env.rules.fen import to_fen
from chess_env.rules.rules import ONGOING, children, status_batch

ROOT = Path(__file__).parents[2]


def stored() -> dict[str, np.ndarray]:
    with np.load(PROBES_PATH) as file:
        return {name: file[name] for name in file.files}


def test_the_set_has_six_positions_of_each_slice_a_forced_one_and_the_widest() -> None:
    probes = load_probe_set()
    assert len(probes) == 26 and PROBES_PATH.stat().st_size < 10_000
    counts = {kind: int(probes.of_kind(kind).sum()) for kind in KINDS}
    assert counts == dict.fromkeys(KINDS[:4], 6) | {"forced": 1, "widest": 1}
    assert probes.num_legal[probes.of_kind("forced")].tolist() == [1]
    assert probes.num_legal[probes.of_kind("widest")].tolist() == [218]
    assert (probes.num_legal[:24] >= 2).all()
    assert [to_fen(position) for position in probes.positions[24:]] == [FORCED_FEN, WIDEST_FEN]
    assert (status_batch(probes.positions) == ONGOING).all()
    assert len({position.tobytes() for position in probes.positions}) == 26


def test_its_first_positions_and_their_scores_are_rows_of_the_held_out_table() -> None:
    probes, heldout = load_probe_set(), load_heldout()
    rows = np.concatenate([heldout_rows(heldout, name, 6) for name in SLICE_NAMES])
    assert (probes.positions[:24] == heldout.positions[rows]).all()
    for index, row in enumerate(rows):
        scores = heldout.scores_cp(int(row))
        assert (probes.child_score_cp[index, : len(scores)] == scores).all()
        assert not probes.child_score_cp[index, len(scores) :].any()
    assert probes.evaluator_id == heldout.evaluator_id


def test_legal_moves_and_scores_of_the_special_positions_are_those_of_the_rules() -> None:
    probes = load_probe_set()
    for index in (24, 25):
        families, actions = children(probes.positions[index])
        assert probes.legal_ids[index, : len(actions)].tolist() == actions.tolist()
        mates = status_batch(families) == 1
        scores = probes.child_score_cp[index, : len(actions)]
        assert (scores[mates] == 10_000).all() and (scores[~mates] < 10_000).all()
    assert mates.any()


def test_the_digest_speaks_for_every_array_its_shape_and_its_dtype() -> None:
    contents = stored()
    digest = str(contents.pop("sha256"))
    assert contents_sha256(contents) == digest == load_probe_set().sha256
    for name, array in contents.items():
        if array.dtype.kind == "U":
            other = np.array(np.char.replace(array, "s", "S"))
        else:
            other = array.copy()
            other.flat[0] += 1
        assert contents_sha256(contents | {name: other}) != digest, name
    ids = contents["legal_ids"]
    assert contents_sha256(contents | {"legal_ids": ids.astype(np.int32)}) != digest
    assert contents_sha256(contents | {"legal_ids": ids.reshape(-1)}) != digest


def test_a_damaged_or_missing_set_is_refused_with_the_command_that_rebuilds_it(
    tmp_path: Path,
) -> None:
    path, command = tmp_path / "probes.npz", r"benchmarks\.positions\.probe_build --rebuild"
    with pytest.raises(FileNotFoundError, match=f"missing; .*{command}"):
        read_probe_set(path)
    path.write_bytes(PROBES_PATH.read_bytes()[:-100])
    with pytest.raises(ValueError, match=f"cannot be read.*{command}"):
        read_probe_set(path)
    changed = stored()
    changed["child_score_cp"] = changed["child_score_cp"].copy()
    changed["child_score_cp"][3, 2] += 1
    np.savez(path, **changed)
    with pytest.raises(ValueError, match=f"is damaged: .*SHA-256.*{command}"):
        read_probe_set(path)


def test_a_set_of_other_rules_is_refused(tmp_path: Path) -> None:
    changed = stored()
    changed["legal_ids"] = changed["legal_ids"].copy()
    changed["legal_ids"][5, 0] += 1
    changed["sha256"] = np.array(contents_sha256(changed))
    np.savez(tmp_path / "probes.npz", **changed)
    with pytest.raises(ValueError, match="position 5 .* other legal moves by these rules"):
        read_probe_set(tmp_path / "probes.npz")


def test_a_rebuild_by_another_judge_is_refused_and_leaves_the_old_set(tmp_path: Path) -> None:
    path = tmp_path / "probes.npz"
    path.write_bytes(b"old")
    with pytest.raises(ValueError, match="one set needs one judge"):
        rebuild(path, evaluator_name="builtin")
    assert path.read_bytes() == b"old"


@pytest.mark.stockfish
@pytest.mark.slow
def test_a_rebuild_gives_the_committed_set_again(tmp_path: Path) -> None:
    path = tmp_path / "probes.npz"
    rebuild(path, evaluator_name="stockfish-v1:depth=8")
    assert read_probe_set(path).sha256 == load_probe_set().sha256


@pytest.mark.slow
def test_the_command_describes_the_set() -> None:
    command = [sys.executable, "-m", "benchmarks.positions.probe_build"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert load_probe_set().sha256 in said
    assert "widest: 1 positions, 218 legal moves" in said
