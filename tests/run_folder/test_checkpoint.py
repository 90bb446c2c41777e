"""Checkpoints are whole or absent, never silently wrong, and never run code."""

from __future__ import annotations

import functools
import os
import resource
import signal
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from algorithms.run_folder import checkpoint
from algorithms.run_folder.checkpoint import (
    CheckpointError,
    load,
    load_newest,
    save,
)
from tests.forks import fork, kill

ROOT = Path(__file__).parents[2]


def _save(folder: Path, update: int, *, best: bool = False, value: float = 0.5) -> Path:
    state = {"update": update, "generator": torch.get_rng_state(), "boards": np.arange(6)}
    return save(folder, update, weights={"w": torch.full((3, 2), value)}, state=state, best=best)


def test_everything_comes_back_as_it_was(tmp_path: Path) -> None:
    parameter = torch.nn.Parameter(torch.randn(3))
    optimizer = torch.optim.Adam([parameter], lr=0.1)
    parameter.sum().backward()
    optimizer.step()
    numpy_generator = np.random.default_rng(3)
    numpy_generator.random(5)
    state = {
        "optimizer": optimizer.state_dict(),
        "generator": torch.Generator().manual_seed(3).get_state(),
        "numpy": numpy_generator.bit_generator.state,
        "boards": {
            "positions": np.array([[2**64 - 1, 0]], np.uint64),
            "plies": np.array(4, np.int32),
            "none": np.zeros((0, 3), np.int16),
        },
        "text": 'a "quoted" £',
        "nested": (1, [None, True, 0.1, float("inf")], {}),
        "scalar": np.int64(7),
    }
    path = save(tmp_path, 7, weights={"p": parameter.detach()}, state=state, best=False)
    back = load(path)
    assert torch.equal(back.weights["p"], parameter.detach())
    new = torch.optim.Adam([torch.nn.Parameter(torch.zeros(3))], lr=1.0)
    new.load_state_dict(back.state["optimizer"])
    assert torch.equal(
        new.state_dict()["state"][0]["exp_avg"], optimizer.state_dict()["state"][0]["exp_avg"]
    )
    assert new.param_groups[0]["lr"] == 0.1
    assert torch.equal(back.state["generator"], state["generator"])
    restored = np.random.default_rng()
    restored.bit_generator.state = back.state["numpy"]
    assert restored.random() == numpy_generator.random()
    for name, array in state["boards"].items():
        assert back.state["boards"][name].dtype == array.dtype
        np.testing.assert_array_equal(back.state["boards"][name], array)
        assert back.state["boards"][name].shape == array.shape
    assert back.state["nested"] == state["nested"]
    assert (back.state["text"], back.state["scalar"]) == (state["text"], 7)


@settings(max_examples=30)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text()
        | hnp.arrays(np.uint8, hnp.array_shapes(max_dims=2, max_side=3)),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text(max_size=3) | st.integers(0, 9), inner, max_size=3)
            | st.tuples(inner)
        ),
        max_leaves=8,
    )
)
def test_any_nested_state_survives_packing(value: object) -> None:
    tensors: dict[str, torch.Tensor] = {}
    packed = checkpoint.pack({"x": value}, tensors)
    np.testing.assert_equal(checkpoint.unpack(packed, tensors), {"x": value})


def test_an_object_in_the_state_is_refused_by_its_path(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"'/a/b' is a PosixPath"):
        save(tmp_path, 1, weights={}, state={"a": {"b": tmp_path}}, best=False)


@pytest.mark.parametrize("name", [*checkpoint.FILES, "manifest.json"])
def test_every_flipped_bit_is_detected_and_the_file_named(tmp_path: Path, name: str) -> None:
    path = _save(tmp_path, 1)
    original = (path / name).read_bytes()
    rng = np.random.default_rng(0)
    for position in rng.choice(len(original), size=min(60, len(original)), replace=False):
        damaged = bytearray(original)
        damaged[position] ^= 1 << int(rng.integers(8))
        (path / name).write_bytes(bytes(damaged))
        with pytest.raises(CheckpointError, match=name):
            load(path)
    (path / name).write_bytes(original)
    load(path)


@pytest.mark.parametrize("name", [*checkpoint.FILES, "manifest.json"])
def test_cut_and_missing_files_are_detected_and_named(tmp_path: Path, name: str) -> None:
    path = _save(tmp_path, 1)
    original = (path / name).read_bytes()
    (path / name).write_bytes(original[: len(original) // 2])
    with pytest.raises(CheckpointError, match=name):
        load(path)
    (path / name).unlink()
    with pytest.raises(CheckpointError, match=name):
        load(path)


def test_a_damaged_newest_checkpoint_falls_back_with_a_warning(tmp_path: Path) -> None:
    _save(tmp_path, 1, value=1.0)
    newest = _save(tmp_path, 2, value=2.0)
    (newest / "model.safetensors").write_bytes(b"garbage")
    with pytest.warns(UserWarning, match=r"model\.safetensors is damaged"):
        back = load_newest(tmp_path)
    assert back.state["update"] == 1
    (tmp_path / "update-00000001" / "state.json").unlink()
    with pytest.warns(UserWarning), pytest.raises(CheckpointError, match="all 2 are damaged"):
        load_newest(tmp_path)


def test_a_newer_format_is_refused_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "FORMAT", 99)
    path = _save(tmp_path, 1)
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="format 99, this version reads 2"):
        load(path)


def test_the_newest_two_and_the_best_are_kept(tmp_path: Path) -> None:
    for update in range(1, 7):
        _save(tmp_path, update, best=update == 2)
    assert [p.name[-1] for p in checkpoint.directories(tmp_path)] == ["2", "5", "6"]
    assert (tmp_path / "latest").resolve().name == "update-00000006"
    assert load(tmp_path / "best").state["update"] == 2


def test_a_header_that_claims_a_terabyte_is_refused(tmp_path: Path) -> None:
    path = _save(tmp_path, 1)
    contents = {f: (path / f).read_bytes() for f in checkpoint.FILES}
    header = b'{"w":{"dtype":"F32","shape":[250000000000],"data_offsets":[0,1000000000000]}}'
    contents["model.safetensors"] = len(header).to_bytes(8, "little") + header
    (path / "model.safetensors").write_bytes(contents["model.safetensors"])
    (path / "manifest.json").write_bytes(checkpoint.manifest(contents, update=1, best=False))
    with pytest.raises(CheckpointError, match="not written by this program"):
        load(path)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"format": 2},
        {"format": 2, "files": []},
        {"format": 2, "files": {"model.safetensors": None}},
        {"format": 2, "files": {"model.safetensors": {"bytes": "3", "sha256": "0"}}},
    ],
)
def test_a_manifest_that_fits_itself_and_says_nothing_of_the_files_is_refused(
    tmp_path: Path, values: dict[str, object]
) -> None:
    path = _save(tmp_path, 1)
    (path / "manifest.json").write_bytes(checkpoint.closed(values))
    with pytest.raises(CheckpointError, match="manifest.json"):
        load(path)


@pytest.mark.parametrize("state", [b"[]", b"3", b'{"$tuple": []}'])
def test_a_state_that_is_no_object_was_not_written_by_this_program(
    tmp_path: Path, state: bytes
) -> None:
    path = _save(tmp_path, 1)
    contents = {name: (path / name).read_bytes() for name in checkpoint.FILES} | {
        "state.json": state
    }
    (path / "state.json").write_bytes(state)
    (path / "manifest.json").write_bytes(checkpoint.manifest(contents, update=1, best=False))
    with pytest.raises(CheckpointError, match="was not written by this program"):
        load(path)


def write_for_ever(folder: Path) -> None:
    for update in range(1, 100_000):
        checkpoint.save(
            folder, update, weights={"w": torch.full((200_000,), float(update))},
            state={"update": update}, best=update % 3 == 0,
        )  # fmt: skip


def test_a_kill_at_any_instant_leaves_an_intact_newest_checkpoint(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        writer = fork(functools.partial(write_for_ever, folder))
        deadline = time.monotonic() + 60
        while not (folder / "latest").exists():  # before it there is none that could be intact
            assert time.monotonic() < deadline
        time.sleep(float(rng.uniform(0.0, 0.3)))
        kill(writer)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # not even a fall-back is needed
            back = load_newest(folder)
        update = back.state["update"]
        assert float(back.weights["w"][0]) == update > 0
        assert load(folder / "latest").state["update"] in (update, update - 1)
        _save(folder, update + 1)  # the next writer sweeps what was left half-written
        assert not list(folder.glob("partial-*"))


def test_damaged_newer_checkpoints_give_way_to_the_resumed_run(tmp_path: Path) -> None:
    for update in (10, 20):
        _save(tmp_path, update, best=update == 20)
    _save(tmp_path, 15)
    assert [p.name[-2:] for p in checkpoint.directories(tmp_path)] == ["10", "15"]
    assert load(tmp_path / "latest").state["update"] == 15


def test_a_full_disk_names_path_and_size_and_keeps_the_previous_one(tmp_path: Path) -> None:
    _save(tmp_path, 1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(CheckpointError, match=r"update-00000002 .* needs 4,\d+,\d+ bytes"):
            save(tmp_path, 2, weights={"w": torch.zeros(1_000_000)}, state={}, best=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert load_newest(tmp_path).state["update"] == 1
    assert not list(tmp_path.glob("partial-*"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_what_a_kill_after_a_checkpoint_left_undone_is_done_when_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for update in range(3):
        save(tmp_path, update, weights={}, state={}, best=update == 1)
    process = os.fork()
    if process == 0:
        monkeypatch.setattr(checkpoint, "point", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        save(tmp_path, 3, weights={}, state={}, best=True)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL
    assert os.readlink(tmp_path / "latest") == "update-00000002"
    (tmp_path / "partial-00000004-1").mkdir()  # and of a later kill
    checkpoint.settle(tmp_path, 3)
    assert not list(tmp_path.glob("partial-*"))
    assert os.readlink(tmp_path / "latest") == os.readlink(tmp_path / "best") == "update-00000003"
    assert [path.name for path in checkpoint.directories(tmp_path)] == [
        "update-00000002", "update-00000003",
    ]  # fmt: skip
