"""Files from people one does not know, read within limits: bytes, JSON and arrays.

Memory is taken for what a file holds, and never for what it says that it holds.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import stat
import sys
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray


class JsonLimits(NamedTuple):
    """What JSON may be.

    Attributes:
        most_bytes: of the text; the values take up to thirty times as much.
        deepest: levels of nesting: who walks through the values may do it by recursion.
        longest_key: characters: dotted names are put together from keys.
        longest_text: characters.
        longest_number: digits of a whole number.
    """

    most_bytes: int
    deepest: int
    longest_key: int = 200
    longest_text: int = sys.maxsize
    longest_number: int = sys.maxsize


JSON_LIMITS = JsonLimits(4 * 2**20, 100)
CONFIG_LIMITS = JsonLimits(256 * 1024, 20, longest_text=1000, longest_number=30)
"""Of a config.json, which has about 3,000 bytes and 3 levels."""

LONGEST_LINE_BYTES = 2**20
_SHOWN = 200


def cut(text: object) -> str:
    """`str(text)`, cut behind 200 characters: what messages repeat of an input."""
    said = str(text)
    return said if len(said) <= _SHOWN else f"{said[:_SHOWN]}..."


@contextlib.contextmanager
def open_file(path: Path) -> Iterator[IO[bytes]]:
    """The file, open for reading.

    Raises:
        OSError: it cannot be opened.
        ValueError: it is a pipe or a device, from which one might read for ever.
    """
    with open(path, "rb", opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(f"{cut(path)} is a pipe or a device, a file is needed")
        yield file


def _without_waiting(path: str, flags: int) -> int:
    # A pipe would wait for somebody to write into it.
    return os.open(path, flags | (os.O_NONBLOCK if os.name == "posix" else 0))


def read_file(path: Path, most_bytes: int) -> bytes:
    """The content of a file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is larger than `most_bytes`, or no file.
    """
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most_bytes:
            raise ValueError(f"{cut(path)} is larger than {most_bytes:,} bytes, as no such file is")
        return file.read(size)


def read_lines(path: Path) -> bytes:
    """The content of a file of lines, whose size is not limited.

    Raises:
        OSError: it cannot be read.
        ValueError: a line is longer than `LONGEST_LINE_BYTES`, or it is no file.
    """
    with open_file(path) as file:
        number = 0
        while line := file.readline(LONGEST_LINE_BYTES + 1):
            number += 1
            if len(line) > LONGEST_LINE_BYTES:
                raise ValueError(
                    f"{path}, line {number} is damaged: it has more than {LONGEST_LINE_BYTES:,} bytes; "
                    "take the line out"
                )
        file.seek(0)
        return file.read()


def parse_json(data: bytes | str, limits: JsonLimits = JSON_LIMITS) -> Any:
    """The values in JSON text.

    Args:
        data: of the file, whose size has been looked at; bytes are UTF-8.
        limits: how deep values may be nested, and how long keys, texts and numbers may be.

    Raises:
        ValueError: it is no JSON, or exceeds the limits.
    """
    too_deep = ValueError(f"values are nested more than {limits.deepest} levels deep")
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        values = json.loads(text, parse_int=lambda digits: _whole(digits, limits))
    except RecursionError:
        raise too_deep from None
    level, depth = [values], 0
    while level:
        level, depth = list(_inside(level, limits)), depth + 1
        if depth > limits.deepest:
            raise too_deep
    return values


def _whole(digits: str, limits: JsonLimits) -> int:
    if len(digits) > limits.longest_number:
        raise ValueError(
            f"a number has {len(digits):,} digits, at most {limits.longest_number} are read"
        )
    return int(digits)


def load_json(path: Path, limits: JsonLimits = JSON_LIMITS) -> Any:
    """The values in a JSON file.

    Raises:
        OSError: it cannot be read.
        ValueError: as of `read_file` and `parse_json`.
    """
    return parse_json(read_file(path, limits.most_bytes), limits)


def _inside(level: Iterable[Any], limits: JsonLimits) -> Iterator[Any]:
    """The objects and lists that lie in those of a level."""
    for value in level:
        inner: Iterable[Any] = ()
        if isinstance(value, dict):
            longest = max(value, key=len, default="")
            if len(longest) > limits.longest_key:
                raise ValueError(
                    f"the key {longest[:40]!r}... has {len(longest):,} characters, at most "
                    f"{limits.longest_key} are read"
                )
            inner = value.values()
        elif isinstance(value, list):
            inner = value
        for each in inner:
            if isinstance(each, dict | list):
                yield each
            elif isinstance(each, str) and len(each) > limits.longest_text:
                raise ValueError(
                    f"the text {each[:40]!r}... has {len(each):,} characters, at most {limits.longest_text} are read"
                )


def parse_arrays(data: bytes, names: Sequence[str], most_bytes: int) -> dict[str, NDArray[Any]]:
    """The arrays, `[...]` of any shape, of these names in an .npz file.

    Args:
        data: of the file.
        names: of the arrays that are wanted.
        most_bytes: what all arrays of the file may take unpacked.

    Raises:
        ValueError: it is no such file, an array is missing or holds Python objects, or the arrays are larger.
    """
    import numpy as np  # not at the top: most readers of a run folder do without it

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            unpacked = sum(entry.file_size for entry in entries)
            if unpacked > most_bytes:
                raise ValueError(f"it unpacks to {unpacked:,} bytes, more than {most_bytes:,}")
            for entry in entries:
                with archive.open(entry) as array:
                    _check_claim(array, entry.file_size)
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            missing = [name for name in names if name not in file.files]
            if missing:
                raise ValueError(f"it has no {', '.join(missing)}")
            return {name: file[name] for name in names}
    except Exception as error:  # zipfile and NumPy raise many kinds for a damaged file
        raise ValueError(f"it is no archive of these arrays: {cut(error)}") from error


def _check_claim(array: IO[bytes], size: int) -> None:
    """Raises ValueError where an .npy file claims more than its size: NumPy takes the memory before it reads."""
    import numpy as np

    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    version = np.lib.format.read_magic(array)
    if version not in read:
        raise ValueError(f"an array has format {version}, expected (1, 0) or (2, 0)")
    shape, _, dtype = read[version](array)
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > size:
        raise ValueError(f"an array claims the shape {shape} of {dtype} and has {size:,} bytes")
