"""Pictures of positions with a policy's likeliest moves as arrows: on the report page, and on the board.

Plain data in (`Probe`), SVG out: the caller says what a packed position and an action id mean. Boards are read and men
drawn by python-chess; nothing else of chess is known here. Square 0 is a1, square 63 is h8.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from markupsafe import Markup

from algorithms.reports.page.charts import element

SQUARE = 45.0
SIDE = 8 * SQUARE

_STYLE = re.compile(r'style="fill: ?(#?\w+); stroke: ?(#?\w+);"')


@dataclass(frozen=True)
class MoveChance:
    """A move and how likely the policy plays it.

    Attributes:
        start: square 0 .. 63 that it leaves.
        end: square 0 .. 63 that it reaches.
        uci: its name, `e7e8n` for instance.
        probability: 0 to 1.
    """

    start: int
    end: int
    uci: str
    probability: float


@dataclass(frozen=True)
class PolicyPicture:
    """The moves of a policy in a position.

    Attributes:
        step: updates done.
        entropy: −Σ π ln π over all legal moves, nats.
        moves: the likeliest moves, likeliest first.
    """

    step: int
    entropy: float
    moves: Sequence[MoveChance]


@dataclass(frozen=True)
class Probe:
    """A probe position before and after training.

    Attributes:
        kind: "opening", "forced", ...
        fen: the position; its first two fields are read.
        num_legal: how many legal moves there are.
        before: the earliest policy on record.
        after: the latest.
    """

    kind: str
    fen: str
    num_legal: int
    before: PolicyPicture
    after: PolicyPicture


def definitions() -> Markup:
    """SVG that every board of a page refers to: squares, their names, python-chess's men; nothing visible itself."""
    import chess.svg  # a page without boards does not need it

    dark = "".join(
        f"M{file * SQUARE:g} {rank * SQUARE:g}h45v45h-45z"
        for rank in range(8)
        for file in range(8)
        if (rank + file) % 2
    )
    squares = element(
        "g",
        element("rect", class_="light", width=SIDE, height=SIDE),
        element("path", class_="dark", d=dark),
        id="board-squares",
    )
    # As attributes, because the pages' security policy lets no style attribute pass.
    men = [
        Markup(_STYLE.sub(r'fill="\1" stroke="\2"', re.sub(r' class="[^"]*"', "", drawn)))
        for drawn in chess.svg.PIECES.values()
    ]
    return element(
        "svg",
        element("defs", squares, _square_names("white"), _square_names("black"), *men),
        class_="defs",
        width=0,
        height=0,
        aria_hidden="true",
    )


def board_svg(probe: Probe, policy: PolicyPicture) -> Markup:
    """SVG: the position with an arrow for each move of `policy`, wider and stronger when likelier.

    Raises:
        ValueError: the FEN's board has not 8 ranks of 8 squares.
    """
    label = f"{probe.kind}, after update {policy.step}: {summary(policy)}"
    return position_svg(probe.fen, policy.moves, label=label)


def position_svg(
    fen: str,
    arrows: Sequence[MoveChance],
    *,
    label: str,
    black_below: bool = False,
    marks: Mapping[int, str] = MappingProxyType({}),
) -> Markup:
    """SVG of a position; it refers to `definitions`, which must be on the page once.

    Args:
        fen: its first field is read.
        arrows: moves, likeliest first; wider and stronger when likelier.
        label: the picture in words.
        black_below: Black's side is below, not White's.
        marks: square 0 .. 63 -> class of the mark on it.

    Raises:
        ValueError: the FEN's board has not 8 ranks of 8 squares.
    """
    return element(
        "svg",
        position_elements(fen, black_below=black_below, marks=marks),
        arrow_elements(arrows, black_below),
        class_="board",
        viewBox=f"0 0 {SIDE:g} {SIDE:g}",
        role="img",
        aria_label=label,
    )


def position_elements(
    fen: str, *, black_below: bool = False, marks: Mapping[int, str] = MappingProxyType({})
) -> Markup:
    """SVG elements of a board with its men, `SIDE` wide; arguments and errors as of `position_svg`."""
    men = [
        element("use", href=f"#{man}", x=x - SQUARE / 2, y=y - SQUARE / 2)
        for square, man in _men_of(fen)
        for x, y in [_middle(square, black_below)]
    ]
    marked = [
        element("rect", class_=f"mark {kind}", x=x - SQUARE / 2, y=y - SQUARE / 2, width=SQUARE, height=SQUARE)
        for square, kind in marks.items()
        for x, y in [_middle(square, black_below)]
    ]  # fmt: skip
    names = f"#names-{'black' if black_below else 'white'}"
    # The names are above the men, which would cover half of a letter.
    squares, named = element("use", href="#board-squares"), element("use", href=names)
    return Markup("").join([squares, *marked, *men, named])


def arrow_elements(moves: Sequence[MoveChance], black_below: bool = False) -> Markup:
    """SVG elements of an arrow for each move, the likeliest, which comes first, on top."""
    return Markup("").join(_arrow(move, black_below) for move in reversed(moves))


def summary(policy: PolicyPicture) -> str:
    """The likeliest moves with their probabilities, as text."""
    return ", ".join(f"{move.uci} {move.probability:.0%}" for move in policy.moves)


def side_to_move(fen: str) -> str:
    """White or Black, from the FEN's second field."""
    return "Black" if fen.split()[1:2] == ["b"] else "White"


def _square_names(below: str) -> Markup:
    """The letters of the files and the numbers of the ranks, for the side that is below."""
    files, ranks = ("abcdefgh", "87654321") if below == "white" else ("hgfedcba", "12345678")
    letters = [
        element("text", name, class_="square", x=i * SQUARE + 44, y=SIDE - 2, text_anchor="end")
        for i, name in enumerate(files)
    ]
    numbers = [
        element("text", name, class_="square", x=2, y=i * SQUARE + 10)
        for i, name in enumerate(ranks)
    ]
    return element("g", *letters, *numbers, id=f"names-{below}")


def _men_of(fen: str) -> list[tuple[int, str]]:
    """(square, name of the drawing) of every man, from the eighth rank to the first."""
    import chess

    try:
        men = chess.BaseBoard(fen.partition(" ")[0]).piece_map()
    except ValueError:
        raise ValueError(
            f"FEN {fen[:90]!r} has no board of 8 ranks of 8 squares: pass a full FEN"
        ) from None
    return [
        (square, f"{chess.COLOR_NAMES[man.color]}-{chess.piece_name(man.piece_type)}")
        for square in chess.SQUARES_180
        if (man := men.get(square)) is not None
    ]


def _arrow(move: MoveChance, black_below: bool) -> Markup:
    """A shaft and a head from the middle of one square to the middle of another."""
    x0, y0 = _middle(move.start, black_below)
    x1, y1 = _middle(move.end, black_below)
    length = math.hypot(x1 - x0, y1 - y0)
    along_x, along_y = (x1 - x0) / length, (y1 - y0) / length
    # By the probability itself most of a broad policy would look alike.
    weight = math.sqrt(move.probability)
    width = 2.0 + 10.0 * weight
    head = 8.0 + 1.3 * width
    neck_x, neck_y = x1 - along_x * head, y1 - along_y * head
    half = head * 0.55
    corners = (
        f"{x1:.1f},{y1:.1f} {neck_x - along_y * half:.1f},{neck_y + along_x * half:.1f} "
        f"{neck_x + along_y * half:.1f},{neck_y - along_x * half:.1f}"
    )
    return element(
        "g",
        element("title", f"{move.uci} {move.probability:.1%}"),
        element("line", x1=x0, y1=y0, x2=neck_x, y2=neck_y, stroke_width=width),
        element("polygon", points=corners),
        class_="arrow",
        data_move=move.uci[:4],
        opacity=f"{0.25 + 0.7 * weight:.2f}",
    )


def _middle(square: int, black_below: bool) -> tuple[float, float]:
    file, rank = square % 8, square // 8
    column, row = (7 - file, rank) if black_below else (file, 7 - rank)
    return (column + 0.5) * SQUARE, (row + 0.5) * SQUARE
