"""Start positions from files: one FEN a line."""

from __future__ import annotations

import errno
import stat
from pathlib import Path

import numpy as np

from chess_env.custom_objects import shown
from chess_env.positions.heldout import is_heldout
from chess_env.rules.fen import parse_fen
from chess_env.rules.packed import Positions
from chess_env.rules.rules import ONGOING, STATUS_NAMES, status_batch

_LONGEST_LINE = 4096  # characters


def read_fens(path: str | Path) -> Positions:
    """uint64 [K, 8]: the positions of a FEN file, without those of the held-out table.

    Raises:
        ValueError: Unreadable file, an illegal or finished position (names the line), or nothing left.
    """
    path = Path(path)
    found: list[bytes] = []
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe or a device may have no end
            raise OSError(errno.EINVAL, "it is no file")
        with path.open(encoding="utf-8-sig") as file:
            number = 0
            while line := file.readline(_LONGEST_LINE):
                number += 1
                whole = line.endswith("\n") or len(line) < _LONGEST_LINE
                fen = line.strip() if whole else line
                while not whole:
                    rest = file.readline(_LONGEST_LINE)
                    whole = rest.endswith("\n") or not rest
                position = _position(fen, f"{path}, line {number}")
                if position is not None and not is_heldout(position):
                    found.append(position.tobytes())
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"cannot read position file {shown(str(path))} ({_why(error)}); give a UTF-8 text file with one FEN a line"
        ) from error
    if not found:
        raise ValueError(f"{path} holds no usable position: expected one FEN a line")
    return np.frombuffer(b"".join(found), np.uint64).reshape(-1, 8).copy()


def _why(error: OSError | UnicodeDecodeError) -> str:
    return str(error) if isinstance(error, UnicodeDecodeError) else str(error.strerror)


def _position(fen: str, where: str) -> Positions | None:
    """uint64 [8]: the position in a line; None where it holds none."""
    if not fen or fen.startswith("#"):
        return None
    try:
        position = parse_fen(fen)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    status = int(status_batch(position[None])[0])
    if status != ONGOING:
        raise ValueError(
            f"{where}: the game is already over in {fen!r} ({STATUS_NAMES[status]}); remove the line"
        )
    return position
