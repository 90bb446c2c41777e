"""A run's probe tensors: its policy on the fixed probe positions, at every look. NumPy alone.

    RUN/probes/00000000.npz   the initial policy
    RUN/probes/00000010.npz   after update 10, and so on

Each file holds `update`, `temperature`, `logprobs` (float32 [M, 218], NaN on padding), and what the
columns and rows mean: `kinds`, `legal_ids`, `positions` and `set_sha256`, so that one file can be
read by itself.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from algorithms.run_folder.atomic_files import read_file, replace_file

FOLDER = "probes"
_NAME = re.compile(r"(\d{8,})\.npz")
_ARRAYS = ("update", "temperature", "logprobs", "kinds", "legal_ids", "positions", "set_sha256")


@dataclass(frozen=True, eq=False)
class ProbeSheet:
    """What the rows and columns of the log-probabilities stand for.

    Attributes:
        kinds: M names: opening, middlegame, endgame, decided, forced, widest.
        legal_ids: int16 `[M, L]` action ids (seen by the player who moves), padded with -1.
        positions: uint64 `[M, 8]`, packed as in `chess_env`.
        set_sha256: hexadecimal digest of the set of positions.
    """

    kinds: tuple[str, ...]
    legal_ids: NDArray[np.int16]
    positions: NDArray[np.uint64]
    set_sha256: str


@dataclass(frozen=True, eq=False)
class Probes:
    """A policy on fixed positions in the course of a run.

    Attributes:
        updates: int64 `[U]`, ascending: after which update; 0 is the initial policy.
        logprobs: float32 `[U, M, L]` log-probabilities in nats at `temperature`; NaN on padding.
        temperature: of the softmax, the run's first one.
        sheet: what M and L stand for.
    """

    updates: NDArray[np.int64]
    logprobs: NDArray[np.float32]
    temperature: float
    sheet: ProbeSheet


def probe_path(run_dir: Path, update: int) -> Path:
    """Where the file of one update lies."""
    return run_dir / FOLDER / f"{update:08d}.npz"


def write_probe(
    run_dir: Path, update: int, logprobs: ArrayLike, temperature: float, sheet: ProbeSheet
) -> Path:
    """Path of the file written for `update`; one that is there is replaced, whole or not at all.

    Args:
        run_dir: the run folder.
        update: updates done.
        logprobs: `[M, L]`, nats; what stands on padding is replaced by NaN.
        temperature: the softmax's.
        sheet: what M and L stand for.

    Raises:
        ValueError: the log-probabilities have another shape than the legal moves.
        OSError: the file cannot be written.
    """
    values = np.asarray(logprobs, np.float32)
    if values.shape != sheet.legal_ids.shape:
        raise ValueError(
            f"logprobs have shape {values.shape} and legal_ids {sheet.legal_ids.shape}: expected a "
            "value for every slot"
        )
    data = io.BytesIO()
    np.savez_compressed(
        data,
        update=np.int64(update),
        temperature=np.float64(temperature),
        logprobs=np.where(sheet.legal_ids >= 0, values, np.float32(np.nan)),
        kinds=np.array(sheet.kinds),
        legal_ids=sheet.legal_ids,
        positions=sheet.positions,
        set_sha256=np.array(sheet.set_sha256),
    )
    path = probe_path(run_dir, update)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, data.getvalue())
    return path


def read_probe(path: Path) -> Probes:
    """One file, as a record with U = 1.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not such a file, or damaged; the message names it.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: this run wrote no probe there")
    try:
        with np.load(io.BytesIO(read_file(path)), allow_pickle=False) as stored:
            file = {name: stored[name] for name in _ARRAYS}
        probes = Probes(
            updates=file["update"].reshape(1),
            logprobs=file["logprobs"][None],
            temperature=float(file["temperature"]),
            sheet=ProbeSheet(
                kinds=tuple(str(kind) for kind in file["kinds"]),
                legal_ids=file["legal_ids"],
                positions=file["positions"],
                set_sha256=str(file["set_sha256"]),
            ),
        )
    except (
        OSError,
        ValueError,
        TypeError,
        KeyError,
        EOFError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise ValueError(
            f"{path} cannot be read ({error}): delete it to go on without this update"
        ) from error
    sheet, rows = probes.sheet, len(probes.sheet.kinds)
    consistent = (
        sheet.positions.shape == (rows, 8)
        and sheet.legal_ids.shape[:1] == (rows,)
        and probes.logprobs.shape[1:] == sheet.legal_ids.shape
        and np.array_equal(
            np.isnan(probes.logprobs[0]) & (sheet.legal_ids < 0), sheet.legal_ids < 0
        )
    )
    if not consistent:
        raise ValueError(f"{path} is inconsistent: delete it to go on without this update")
    return probes


def probed_updates(run_dir: Path) -> list[int]:
    """Updates that the run has a file for, ascending; empty where there is none."""
    names = (_NAME.fullmatch(path.name) for path in (run_dir / FOLDER).glob("*.npz"))
    return sorted(int(name[1]) for name in names if name)


def read_probes(run_dir: Path, updates: Sequence[int] = ()) -> Probes:
    """Probe tensors of a run, in the order of the updates.

    Args:
        run_dir: the run folder.
        updates: those to read, ascending, as of `probed_updates`; none for all of them.

    Raises:
        FileNotFoundError: the run has none.
        ValueError: a file is damaged, or two are of different positions or temperatures; the
            message names the file.
    """
    updates = updates or probed_updates(run_dir)
    if not updates:
        raise FileNotFoundError(
            f"{run_dir / FOLDER} holds no probe: it was cut off before its first look"
        )
    every = [read_probe(probe_path(run_dir, update)) for update in updates]
    first = every[0]
    for update, probes in zip(updates, every, strict=True):
        path = probe_path(run_dir, update)
        if int(probes.updates[0]) != update:
            raise ValueError(
                f"{path} says that it is of update {int(probes.updates[0])}: it was renamed or "
                "copied; delete it"
            )
        if probes.sheet.set_sha256 != first.sheet.set_sha256:
            raise ValueError(
                f"{path} and {probe_path(run_dir, updates[0])} are of different sets of positions: "
                "the run was continued with another version; delete the files of one of them"
            )
        if probes.temperature != first.temperature:
            raise ValueError(
                f"{path} was measured at temperature {probes.temperature}, "
                f"{probe_path(run_dir, updates[0])} at {first.temperature}: they are of two runs"
            )
    return Probes(
        updates=np.array(updates, np.int64),
        logprobs=np.concatenate([probes.logprobs for probes in every]),
        temperature=first.temperature,
        sheet=first.sheet,
    )
