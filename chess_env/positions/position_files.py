"""Start positions from files: one FEN a line."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from chess_env.positions.heldout import is_heldout
from chess_env.rules.fen import parse_fen
from chess_env.rules.packed import Positions
from chess_env.rules.rules import ONGOING, STATUS_NAMES, status_batch


def read_fens(path: str | Path) -> Positions:
    """uint64 [K, 8]: the positions of a FEN file, without those of the held-out table.

    Raises:
        ValueError: Unreadable file, an illegal or finished position (names the line), or nothing left.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"cannot read position file {str(path)!r} ({error}); give a UTF-8 text file with one FEN a line"
        ) from error
    positions = []
    for number, line in enumerate(text.splitlines(), start=1):
        fen = line.strip()
        if not fen or fen.startswith("#"):
            continue
        try:
            position = parse_fen(fen)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        status = int(status_batch(position[None])[0])
        if status != ONGOING:
            raise ValueError(
                f"{path}, line {number}: the game is already over in {fen!r} ({STATUS_NAMES[status]}); "
                "remove the line"
            )
        if not is_heldout(position):
            positions.append(position)
    if not positions:
        raise ValueError(f"{path} holds no usable position: expected one FEN a line")
    return np.array(positions, np.uint64)
