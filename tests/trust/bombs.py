"""Small files that say, or unpack to, far more than they hold; and files of another kind than their name says."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

MEBI = 2**20


class _Leaves:
    """What writes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.mark), "w")


def pickled(mark: Path) -> bytes:
    """A pickle that makes the file `mark` as soon as it is read."""
    return pickle.dumps(_Leaves(mark))


def in_zip(entries: Mapping[str, bytes]) -> bytes:
    """A zip archive, packed."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return file.getvalue()


def pickled_array(mark: Path) -> bytes:
    """An .npy file of Python objects, which is a pickle behind a header."""
    file = io.BytesIO()
    np.lib.format.write_array(file, np.array([_Leaves(mark)], object), allow_pickle=True)
    return file.getvalue()


def npy(descr: str, shape: tuple[int, ...], data: bytes = b"") -> bytes:
    """An .npy file whose header claims this dtype and shape, whatever follows."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": descr, "fortran_order": False, "shape": shape}
    )
    return file.getvalue() + data


def safetensors(header: Mapping[str, Any] | None, *, length: int | None = None) -> bytes:
    """A .safetensors file of a header alone; `length` is what it claims for that."""
    text = json.dumps(header or {}).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text


def claims_a_terabyte() -> bytes:
    """A .safetensors file of 100 bytes with one tensor of a tebibyte."""
    return safetensors({"a": {"dtype": "F32", "shape": [2**38], "data_offsets": [0, 2**40]}})


def nested(levels: int = 200_000) -> bytes:
    """JSON: lists in lists."""
    return b"[" * levels + b"]" * levels


def wide(objects: int = 3_000_000) -> bytes:
    """JSON of 9 MB that takes 200 MB as Python objects."""
    return b'{"a":[' + b"{}," * objects + b"{}]}"


def put_in(checkpoint: Path, name: str, data: bytes) -> None:
    """None; replaces a file of a checkpoint and makes its manifest fit."""
    (checkpoint / name).write_bytes(data)
    values = json.loads((checkpoint / "manifest.json").read_text())
    del values["sha256"]
    values["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    values["sha256"] = hashlib.sha256(_canonical(values)).hexdigest()
    (checkpoint / "manifest.json").write_bytes(_canonical(values))


def _canonical(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, indent=1, sort_keys=True).encode() + b"\n"
