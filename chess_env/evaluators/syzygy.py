"""Scores from Syzygy endgame files that a user has, read by python-chess.

Where to get them: https://syzygy-tables.info. They know win, draw and loss under the fifty-move rule (`.rtbw`) and the
plies to the next capture or pawn move (`.rtbz`), and not the distance to mate.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Any

import chess
import chess.syzygy
import numpy as np
from numpy.typing import NDArray

from chess_env.custom_objects import shown
from chess_env.evaluators.uci import MAX_CP, EngineError
from chess_env.rules.fen import to_fen
from chess_env.rules.packed import KINGS, RIGHTS_MASK, STATE

WIN_CP = 8_900
"""A win is this less the plies to the next capture or pawn move, at most 100: the fewer are left, the better."""

UNPROVEN_CP = 8_700
"""Scores that nothing proves are cut to it beside Syzygy scores, so that none is above a win."""

_MAGIC = {".rtbw": chess.Board.tbw_magic, ".rtbz": chess.Board.tbz_magic}
_LONGEST_DTZ = 100
_WIN = 2


class SyzygyTables:
    """The Syzygy files of one folder.

    Files are checked for their size, their first bytes and their list of men. Damage further on is an error where it
    makes values that cannot be; python-chess does not check the checksum, so a wrong value that could be is not seen.

    Args:
        folder: holds `.rtbw` files and the `.rtbz` files to them; other files and folders in it are ignored.

    Attributes:
        digest: 12 hexadecimal digits, of the names and sizes of the files; part of an evaluator's id.
        most_men: of the positions that the files know, kings included.

    Raises:
        ValueError: no such folder, no Syzygy file in it, or a file that is none, by its name.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise ValueError(
                f"syzygy={shown(str(folder))}: there is no such folder; name the one that holds the .rtbw and .rtbz "
                "files"
            )
        files = sorted(
            path
            for path in self.folder.iterdir()
            if path.suffix in _MAGIC and chess.syzygy.is_tablename(path.stem)
        )
        if not any(path.suffix == ".rtbw" for path in files):
            raise ValueError(
                f"syzygy={shown(str(folder))}: no Syzygy file such as KQvK.rtbw is in this folder; fetch some from "
                "syzygy-tables.info"
            )
        for path in files:
            _check_file(path)
        named = "\n".join(f"{path.name} {path.stat().st_size}" for path in files)
        self.digest = blake2b(named.encode(), digest_size=6).hexdigest()
        self.most_men = max(len(path.stem) - 1 for path in files)
        self._tables = chess.syzygy.open_tablebase(str(self.folder))

    def probe(self, positions: NDArray[np.uint64]) -> tuple[NDArray[np.bool_], NDArray[np.int32]]:
        """(bool [N] whether the files know the position, int32 [N] its score; 0 where they do not).

        A win scores 8900 less the plies to the next capture or pawn move (1 to 100), a loss minus that, a draw 0. A win
        that the fifty-move rule makes a draw scores 0. The clock of a position is not looked at. Unknown is what no
        file holds: more men, castling rights, a material whose `.rtbw` or, for a win, `.rtbz` is not there; and
        positions without a legal move, which the rules decide.

        Args:
            positions: uint64 [N, 8], packed.

        Raises:
            EngineError: a file is damaged.
        """
        known = np.zeros(len(positions), np.bool_)
        scores = np.zeros(len(positions), np.int32)
        men = np.bitwise_count(np.bitwise_or.reduce(positions[:, : KINGS + 1], axis=1))
        may_castle = (positions[:, STATE] & RIGHTS_MASK) != 0
        for row in np.flatnonzero((men <= self.most_men) & ~may_castle).tolist():
            score = self._score(chess.Board(to_fen(positions[row])))
            if score is not None:
                known[row], scores[row] = True, score
        return known, scores

    def _score(self, board: chess.Board) -> int | None:
        if not any(board.generate_legal_moves()):
            return None
        board.halfmove_clock = 0
        try:
            wdl = self._tables.probe_wdl(board)
            if abs(wdl) < _WIN:
                return 0
            dtz = self._tables.probe_dtz(board)
        except chess.syzygy.MissingTableError:
            return None
        except Exception as error:  # of damaged bytes python-chess makes any
            raise self._damaged(board, f"{type(error).__name__}: {error}") from error
        if abs(wdl) != _WIN or wdl * dtz <= 0 or abs(dtz) > _LONGEST_DTZ:
            raise self._damaged(board, f"they say wdl {wdl} and dtz {dtz}")
        return WIN_CP - dtz if dtz > 0 else -WIN_CP - dtz

    def _damaged(self, board: chess.Board, reason: str) -> EngineError:
        return EngineError(
            f"The Syzygy files in {str(self.folder)!r} cannot be read for {board.fen()!r} ({reason}): a file is "
            "damaged; fetch the files of this material again, or leave syzygy=... out"
        )

    def close(self) -> None:
        """Closes the files."""
        self._tables.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as its folder: the copy opens the files again."""
        return SyzygyTables, (str(self.folder),)


def below_wins(scores: NDArray[np.int32]) -> NDArray[np.int32]:
    """int32 [N]: scores that no table gave, centipawns cut to +-8700; mates stay as they are.

    Args:
        scores: int32 [N], centipawns; mate in n moves is +-(10000 - n).
    """
    cut = np.clip(scores, -UNPROVEN_CP, UNPROVEN_CP)
    return np.where(np.abs(scores) > MAX_CP, scores, cut).astype(np.int32)


def _check_file(path: Path) -> None:
    """Raises ValueError for a file that is none, or whose men are not those of its name.

    python-chess searches for ever for men that a damaged file names and a board has not
    (tests/evaluators/test_syzygy.py).
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(64)
    fault = ""
    if size % 64 != 16 or head[:4] != _MAGIC[path.suffix]:
        fault = f"{size} bytes, begins with {head[:4].hex() or 'nothing'}"
    elif _listed_men(path, head) not in _named_men(path.stem):
        fault = "it lists other men than its name"
    if fault:
        raise ValueError(
            f"{str(path)!r} is no whole Syzygy file ({fault}): fetch it again, or take it out of the folder"
        )


def _named_men(name: str) -> tuple[set[tuple[int, ...]], ...]:
    """The codes of the men in a name such as KRvK: kind 1 to 6, black plus 8; without pawns also colours exchanged."""
    white, black = (
        [chess.PIECE_SYMBOLS.index(letter.lower()) for letter in part] for part in name.split("v")
    )
    men = white + [kind | 8 for kind in black]
    named = ({tuple(sorted(men))}, {tuple(sorted(code ^ 8 for code in men))})
    return named[:1] if "P" in name else named


def _listed_men(path: Path, head: bytes) -> set[tuple[int, ...]]:
    """The codes of the men in the lists of a file's head: of each side to move, and of four files of pawns."""
    white, black = path.stem.split("v")
    num_men, has_pawns = len(path.stem) - 1, "P" in path.stem
    num_orders = 1 + ("P" in white and "P" in black)
    lists = set()
    for group in range(4 if has_pawns else 1):
        start = 5 + group * (num_men + num_orders) + num_orders
        men = head[start : start + num_men]
        lists.add(tuple(sorted(code & 15 for code in men)))
        if path.suffix == ".rtbw" and white != black:  # otherwise both sides share the first list
            lists.add(tuple(sorted(code >> 4 for code in men)))
    return lists
