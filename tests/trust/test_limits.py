"""What a file claims costs nothing, what it holds is read up to a limit, and nobody waits for a pipe."""

from __future__ import annotations

import json
import os
import shutil
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from algorithms.config.files import read_settings
from algorithms.networks.build import read_weights
from algorithms.reports.probe_files import read_probe
from algorithms.reports.run_files import RunFileError, find_run_folders, read_run
from algorithms.run_folder.checkpoint import CheckpointError, checkpoints, load
from algorithms.run_folder.reading import (
    JSON_LIMITS,
    load_json,
    parse_arrays,
    parse_json,
    read_file,
    read_lines,
)
from tests.commands.lab import chess_lab
from tests.reports.run_folders import config, learning_rows, write_run
from tests.trust.bombs import (
    MEBI,
    claims_a_terabyte,
    in_zip,
    nested,
    npy,
    put_in,
    safetensors,
    wide,
)

MOST_ECHO = 200


@contextmanager
def cheap(most_bytes: int = 100 * MEBI, seconds: float = 5.0) -> Iterator[None]:
    """Asserts that what Python and NumPy allocate inside, and the processor time, stay below bounds."""
    tracemalloc.start()
    began = time.process_time()
    try:
        yield
        assert time.process_time() - began < seconds
        assert tracemalloc.get_traced_memory()[1] < most_bytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("text", [nested(), nested(150), b'{"a":' * 5_000, b"1" * 5_000, b"\xff{}"])
def test_json_that_is_nested_too_deeply_or_is_none_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError) as error:
        parse_json(text)
    assert len(str(error.value)) < MOST_ECHO


def test_json_is_read_up_to_its_limits(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(nested(JSON_LIMITS.deepest))
    assert load_json(path)
    path.write_text(json.dumps({"k" * 200: 1}))
    assert load_json(path)
    path.write_text(json.dumps({"k" * 201: 1}))
    with pytest.raises(ValueError, match="has 201 characters"):
        load_json(path)
    path.write_bytes(wide())
    with cheap(10 * MEBI), pytest.raises(ValueError, match="is larger than 4,194,304 bytes"):
        load_json(path)


@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl", "weights.safetensors"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_nobody_waits_for_a_pipe_or_reads_a_device(tmp_path: Path, name: str, kind: str) -> None:
    path = tmp_path / name
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    readers: dict[str, Callable[[], object]] = {
        "config.json": lambda: read_settings(path),
        "metrics.jsonl": lambda: read_lines(path),
        "weights.safetensors": lambda: read_weights(str(path)),
    }
    with pytest.raises(ValueError, match="is a pipe or a device|is no file"):
        readers[name]()


def test_a_file_with_a_hole_of_a_terabyte_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "big"
    path.touch()
    os.truncate(path, 2**40)
    with cheap(10 * MEBI):
        with pytest.raises(ValueError, match="is larger than"):
            read_file(path, 2**31)
        with pytest.raises(ValueError, match="line 1 is damaged: it has more than 1,048,576 bytes"):
            read_lines(path)


def test_a_header_that_claims_a_terabyte_costs_nothing() -> None:
    arrays = {
        "a terabyte": npy("<f4", (2**38,)),
        "an axis too long": npy("<f4", (2**62, 2**62)),
        "a negative axis": npy("<f4", (-1,)),
        "wide text": npy("<U250000000", (1000,)),
    }
    for name, data in arrays.items():
        with cheap(10 * MEBI), pytest.raises(ValueError) as error:
            parse_arrays(in_zip({"a.npy": data}), ["a"], 4096)
        assert len(str(error.value)) < 2 * MOST_ECHO, name


def test_an_archive_that_unpacks_to_more_than_it_may_is_not_unpacked(tmp_path: Path) -> None:
    packed = in_zip({"a.npy": npy("<f4", (8, MEBI), bytes(32 * MEBI))})
    assert len(packed) < MEBI
    with cheap(10 * MEBI), pytest.raises(ValueError, match="it unpacks to 33,554,560 bytes"):
        parse_arrays(packed, ["a"], 2**20)
    (tmp_path / "00000000.npz").write_bytes(packed)
    with cheap(10 * MEBI), pytest.raises(ValueError, match="unpacks to 33,554,560 bytes"):
        read_probe(tmp_path / "00000000.npz")


@pytest.mark.parametrize(
    "data", [claims_a_terabyte(), safetensors(None, length=2**40), safetensors(None, length=2**63)]
)
def test_weights_that_claim_a_terabyte_cost_nothing(
    run_dir: Path, tmp_path: Path, data: bytes
) -> None:
    (tmp_path / "a.safetensors").write_bytes(data)
    with cheap(10 * MEBI), pytest.raises(ValueError, match="cannot be read"):
        read_weights(str(tmp_path / "a.safetensors"))
    shutil.copytree(checkpoints(run_dir / "checkpoints")[-1], tmp_path / "checkpoint")
    put_in(tmp_path / "checkpoint", "trainer.safetensors", data)
    with cheap(10 * MEBI), pytest.raises(CheckpointError, match="not written by this program"):
        load(tmp_path / "checkpoint")


def test_a_pipe_as_a_record_leaves_the_other_runs_on_the_page(tmp_path: Path) -> None:
    write_run(tmp_path / "good", learning_rows(), config())
    write_run(tmp_path / "bad", learning_rows(), config())
    (tmp_path / "bad" / "metrics.jsonl").unlink()
    os.mkfifo(tmp_path / "bad" / "metrics.jsonl")
    assert len(find_run_folders(tmp_path)[0]) == 2
    with pytest.raises(RunFileError, match="is a pipe or a device"):
        read_run(tmp_path / "bad")
    answer = chess_lab("report", tmp_path)
    assert answer.code == 0 and answer.out.startswith("1 run,")
