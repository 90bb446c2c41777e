"""Pictures of a board: text, SVG, and a pixel array drawn with NumPy alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import chess
import chess.svg
import numpy as np
from numpy.typing import NDArray

SQUARE_PIXELS = 48
MARGIN_PIXELS = 16

LIGHT, DARK = (240, 217, 181), (181, 136, 99)
LAST_LIGHT, LAST_DARK = (205, 210, 106), (170, 162, 58)
CHECK = (224, 92, 80)
FRAME, LETTERING = (48, 46, 43), (215, 212, 208)
WHITE_MEN, BLACK_MEN = (252, 251, 247), (46, 43, 40)

# 12 x 12 drawings; each dot is SQUARE_PIXELS / 16 pixels wide.
_MEN = {
    chess.PAWN: """
        ............
        .....##.....
        ....####....
        ....####....
        .....##.....
        ....####....
        .....##.....
        .....##.....
        ....####....
        ...######...
        ..########..
        ..########..""",
    chess.KNIGHT: """
        ....#.......
        ....###.....
        ...######...
        ..##.#####..
        .##########.
        ####..#####.
        .##..######.
        ....######..
        ...######...
        ...#######..
        ..########..
        ..########..""",
    chess.BISHOP: """
        .....##.....
        .....##.....
        ....####....
        ...###.##...
        ...##.###...
        ...######...
        ....####....
        .....##.....
        ....####....
        .....##.....
        ..########..
        .##########.""",
    chess.ROOK: """
        ............
        .##.####.##.
        .##.####.##.
        .##########.
        ..########..
        ...######...
        ...######...
        ...######...
        ...######...
        ..########..
        .##########.
        .##########.""",
    chess.QUEEN: """
        .....##.....
        #....##....#
        ##...##...##
        .#..####..#.
        .##.####.##.
        .##########.
        ..########..
        ..########..
        ...######...
        ..########..
        ..########..
        .##########.""",
    chess.KING: """
        .....##.....
        ...######...
        .....##.....
        .##..##..##.
        ####.##.####
        ############
        ############
        .####..####.
        ..########..
        ...######...
        ..########..
        .##########.""",
}

# 3 x 5 lettering of the frame.
_GLYPHS = {
    "a": "... .## #.# #.# .##",
    "b": "#.. ##. #.# #.# ##.",
    "c": "... .## #.. #.. .##",
    "d": "..# .## #.# #.# .##",
    "e": ".## #.# ### #.. .##",
    "f": ".## #.. ##. #.. #..",
    "g": ".## #.# .## ..# ##.",
    "h": "#.. ##. #.# #.# #.#",
    "1": ".#. ##. .#. .#. ###",
    "2": "##. ..# .#. #.. ###",
    "3": "##. ..# .#. ..# ##.",
    "4": "#.# #.# ### ..# ..#",
    "5": "### #.. ##. ..# ##.",
    "6": ".## #.. ##. #.# .#.",
    "7": "### ..# .#. .#. .#.",
    "8": ".#. #.# .#. #.# .#.",
}


def ansi(board: chess.Board) -> str:
    """The board as text, White below, one letter a man (capitals are White's), then whose move it is."""
    rows = str(board).splitlines()
    lines = [f"{8 - row}  {men}" for row, men in enumerate(rows)]
    last = f", last move {board.peek().uci()}" if board.move_stack else ""
    turn = chess.COLOR_NAMES[board.turn].capitalize()
    return "\n".join([*lines, "", "   a b c d e f g h", f"{turn} to move{last}", ""])


def svg(board: chess.Board, *, size: int = 400) -> str:
    """The board as an SVG document, White below; the last move and a check are marked."""
    return chess.svg.board(
        board,
        lastmove=board.peek() if board.move_stack else None,
        check=board.king(board.turn) if board.is_check() else None,
        size=size,
    )


@lru_cache(maxsize=1)
def _stamps() -> dict[int, tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """Piece type -> (body, outline), bool [48, 48] each."""
    stamps = {}
    dot = SQUARE_PIXELS // 16
    for piece, drawing in _MEN.items():
        dots = np.array([[c == "#" for c in line.strip()] for line in drawing.split()], np.bool_)
        body = np.zeros((SQUARE_PIXELS, SQUARE_PIXELS), np.bool_)
        body[2 * dot : 14 * dot, 2 * dot : 14 * dot] = np.kron(dots, np.ones((dot, dot), np.bool_))
        grown = body.copy()
        for axis in (0, 1):
            grown = grown | np.roll(grown, 1, axis) | np.roll(grown, -1, axis)
        stamps[piece] = (body, grown & ~body)
    return stamps


def _write(image: NDArray[np.uint8], text: str, row: int, column: int) -> None:
    """Draws one character of the frame centred on a pixel."""
    dots = np.array([[c == "#" for c in line] for line in _GLYPHS[text].split()], np.bool_)
    dots = np.kron(dots, np.ones((2, 2), np.bool_))
    top, left = row - dots.shape[0] // 2, column - dots.shape[1] // 2
    image[top : top + dots.shape[0], left : left + dots.shape[1]][dots] = LETTERING


def _square_color(board: chess.Board, square: int) -> tuple[int, int, int]:
    is_light = bool(chess.BB_LIGHT_SQUARES & chess.BB_SQUARES[square])
    if board.is_check() and square == board.king(board.turn):
        return CHECK
    if board.move_stack and square in (board.peek().from_square, board.peek().to_square):
        return LAST_LIGHT if is_light else LAST_DARK
    return LIGHT if is_light else DARK


def rgb_array(board: chess.Board) -> NDArray[np.uint8]:
    """uint8 [416, 416, 3]: the board as pixels, White below; the last move and a check are coloured."""
    side = 8 * SQUARE_PIXELS + 2 * MARGIN_PIXELS
    image = np.empty((side, side, 3), np.uint8)
    image[:] = FRAME
    for square in chess.SQUARES:
        top = MARGIN_PIXELS + (7 - chess.square_rank(square)) * SQUARE_PIXELS
        left = MARGIN_PIXELS + chess.square_file(square) * SQUARE_PIXELS
        cell = image[top : top + SQUARE_PIXELS, left : left + SQUARE_PIXELS]
        cell[:] = _square_color(board, square)
        piece = board.piece_at(square)
        if piece is not None:
            body, outline = _stamps()[piece.piece_type]
            cell[body] = WHITE_MEN if piece.color else BLACK_MEN
            cell[outline] = BLACK_MEN if piece.color else WHITE_MEN
    for index in range(8):
        middle = MARGIN_PIXELS + index * SQUARE_PIXELS + SQUARE_PIXELS // 2
        for edge in (MARGIN_PIXELS // 2, side - MARGIN_PIXELS // 2):
            _write(image, "abcdefgh"[index], edge, middle)
            _write(image, "87654321"[index], middle, edge)
    return image


RENDERERS: dict[str, Callable[[chess.Board], Any]] = {
    "ansi": ansi,
    "rgb_array": rgb_array,
    "svg": svg,
}
"""Render mode -> its function of a board."""
