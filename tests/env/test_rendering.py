"""Rendering: every mode says the same position."""

from __future__ import annotations

import warnings
from xml.etree import ElementTree

import chess
import numpy as np
import pytest

from chess_env.env import ChessSelfPlayEnv
from chess_env.games import rendering

SCHOLARS_MATE = ("e2e4", "e7e5", "d1h5", "b8c6", "f1c4", "g8f6", "h5f7")


def mated() -> chess.Board:
    board = chess.Board()
    for uci in SCHOLARS_MATE:
        board.push_uci(uci)
    return board


def square(image: np.ndarray, name: str) -> np.ndarray:
    index = chess.parse_square(name)
    top = rendering.MARGIN_PIXELS + (7 - index // 8) * rendering.SQUARE_PIXELS
    left = rendering.MARGIN_PIXELS + index % 8 * rendering.SQUARE_PIXELS
    return image[top : top + rendering.SQUARE_PIXELS, left : left + rendering.SQUARE_PIXELS]


def test_text_shows_men_turn_and_last_move() -> None:
    lines = rendering.ansi(mated()).splitlines()
    assert lines[1] == "7  p p p p . Q p p"
    assert lines[-1] == "Black to move, last move h5f7"


def test_svg_is_well_formed_and_marks_check() -> None:
    text = rendering.svg(mated(), size=200)
    assert ElementTree.fromstring(text).attrib["width"] == "200"
    assert "check" in text and text != rendering.svg(chess.Board(), size=200)


def test_pixels_show_each_man_in_its_colour_and_mark_squares() -> None:
    image = rendering.rgb_array(mated())
    assert image.shape == (416, 416, 3) and image.dtype == np.uint8
    assert tuple(square(image, "f7")[0, 0]) == rendering.LAST_LIGHT
    assert tuple(square(image, "e8")[0, 0]) == rendering.CHECK
    assert tuple(square(image, "a1")[0, 0]) == rendering.DARK
    assert tuple(square(image, "e5")[36, 24]) == rendering.BLACK_MEN
    assert tuple(square(image, "e4")[36, 24]) == rendering.WHITE_MEN


def test_all_kinds_of_men_look_different() -> None:
    board = chess.Board("8/8/8/8/8/8/8/8 w - - 0 1")
    pictures = []
    for piece in chess.PIECE_TYPES:
        for color in chess.COLORS:
            board.set_piece_map({chess.A1: chess.Piece(piece, color)})
            pictures.append(square(rendering.rgb_array(board), "a1").tobytes())
    assert len(set(pictures)) == 12


@pytest.mark.parametrize("render_mode", ["ansi", "rgb_array"])
def test_the_environment_renders_in_its_mode(render_mode: str) -> None:
    env = ChessSelfPlayEnv(evaluator="none", render_mode=render_mode)
    env.reset(seed=0)
    expected = getattr(rendering, render_mode)(env.board)
    np.testing.assert_array_equal(env.render(), expected)
    assert env.svg().startswith("<svg")


def test_rendering_without_a_mode_warns_and_gives_nothing() -> None:
    env = ChessSelfPlayEnv(evaluator="none")
    env.reset(seed=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert env.render() is None
    assert "render_mode" in str(caught[0].message)
