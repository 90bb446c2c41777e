"""Pictures of probe positions with the policy's likeliest moves as arrows, before and after training.

Plain data in (`Probe`), SVG out: the caller says what a packed position and an action id mean,
because this package knows no chess. White stands below; square 0 is a1, square 63 is h8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from algorithms.reports.page.svg import element

SQUARE = 45.0
SIDE = 8 * SQUARE

# Outlines of the men on a square of 45 x 45; drawn for this page.
_MEN = {
    "p": "M22.5 9a5.5 5.5 0 0 1 3.6 9.7c3.2 1.8 4.4 5 3.4 8.3h-2.2c2.8 2.2 5 5.5 5.2 10.5h-20"
    "c.2-5 2.4-8.3 5.2-10.5h-2.2c-1-3.3.2-6.5 3.4-8.3A5.5 5.5 0 0 1 22.5 9z",
    "r": "M10.5 38v-4.5h3l2-13.5h-3v-9.5h4.5v3h3.3v-3h4.4v3H28v-3h4.5v9.5h-3l2 13.5h3V38z",
    "b": "M22.5 5.5a2.7 2.7 0 0 1 1.8 4.7c4.5 3.3 6.9 7.2 6.9 11.3 0 3-1.4 5.3-3.7 6.9"
    "l1.6 4.6h4.4v5h-22v-5h4.4l1.6-4.6c-2.3-1.6-3.7-3.9-3.7-6.9 0-4.1 2.4-8 6.9-11.3"
    "a2.7 2.7 0 0 1 1.8-4.7zM22.5 15.5v8M18.5 19.5h8",
    "n": "M13.5 38c0-8 8.5-9.5 8.5-16-2.5 2.5-6 2.5-7.5 5l-3.5-.5-2-4 6-9.5c.5-2.5 2-4 4-5"
    "l.5-3.5 3 3c8.5.5 13.5 9 13.5 30.5zM18 15.2v1",
    "q": "M11.5 38v-4.5L7 14.5l7.3 8.5L17 9.5l5.5 12.5L28 9.5l2.7 13.5L38 14.5l-4.5 19V38z"
    "M12 33.5h21",
    "k": "M21 4.5h3v3h3v3h-3v4c1.5.6 2.5 2 3 3.5 5-2.5 10.5.5 10.5 5.5 0 4-3.5 7-5 9.5V38h-20"
    "v-5c-1.5-2.5-5-5.5-5-9.5 0-5 5.5-8 10.5-5.5.5-1.5 1.5-2.9 3-3.5v-4h-3v-3h3zM12.5 33h20",
}


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
    """SVG that every board of the page refers to: the empty board, six men, nothing visible itself."""
    dark = "".join(
        f"M{file * SQUARE:g} {rank * SQUARE:g}h45v45h-45z"
        for rank in range(8)
        for file in range(8)
        if (rank + file) % 2
    )
    names = [
        element(
            "text", "abcdefgh"[i], class_="square", x=i * SQUARE + 41, y=SIDE - 3, text_anchor="end"
        )
        for i in range(8)
    ] + [element("text", str(8 - i), class_="square", x=2, y=i * SQUARE + 10) for i in range(8)]
    board = element(
        "g",
        element("rect", class_="light", width=SIDE, height=SIDE),
        element("path", class_="dark", d=dark),
        *names,
        id="board",
    )
    men = [element("path", id=f"man-{letter}", d=outline) for letter, outline in _MEN.items()]
    return element("svg", element("defs", board, *men), class_="defs", width=0, height=0,
                   aria_hidden="true")  # fmt: skip


def board_svg(probe: Probe, policy: PolicyPicture) -> Markup:
    """SVG: the position with an arrow for each move of `policy`, wider and stronger when likelier.

    Raises:
        ValueError: the FEN's board has not 8 ranks of 8 squares.
    """
    label = f"{probe.kind}, after update {policy.step}: {summary(policy)}"
    return element("svg", position_svg(probe.fen), arrows_svg(policy), class_="board",
                   viewBox=f"0 0 {SIDE:g} {SIDE:g}", role="img", aria_label=label)  # fmt: skip


def position_svg(fen: str) -> Markup:
    """SVG elements of a board with its men, `SIDE` wide; they refer to `definitions`.

    Raises:
        ValueError: the FEN's board has not 8 ranks of 8 squares.
    """
    men = [
        element("use", class_="white-man" if letter.isupper() else "black-man",
                href=f"#man-{letter.lower()}", x=square % 8 * SQUARE, y=(7 - square // 8) * SQUARE)
        for square, letter in _men_of(fen)
    ]  # fmt: skip
    return Markup("").join([element("use", href="#board"), *men])


def arrows_svg(policy: PolicyPicture) -> Markup:
    """SVG elements of an arrow for each move, the likeliest on top."""
    return Markup("").join(_arrow(move) for move in reversed(policy.moves))


def summary(policy: PolicyPicture) -> str:
    """The likeliest moves with their probabilities, as text."""
    return ", ".join(f"{move.uci} {move.probability:.0%}" for move in policy.moves)


def side_to_move(fen: str) -> str:
    """White or Black, from the FEN's second field."""
    return "Black" if fen.split()[1:2] == ["b"] else "White"


def _men_of(fen: str) -> list[tuple[int, str]]:
    """(square, letter) of every man."""
    ranks = fen.split()[0].split("/") if fen.split() else []
    men, widths = [], []
    for place, rank in enumerate(ranks):
        file = 0
        for letter in rank:
            if letter in "12345678":
                file += int(letter)
            elif letter.lower() in _MEN:
                men.append(((7 - place) * 8 + file, letter))
                file += 1
            else:
                file = 99
        widths.append(file)
    if widths != [8] * 8:
        raise ValueError(f"FEN {fen[:90]!r} has no board of 8 ranks of 8 squares: pass a full FEN")
    return men


def _arrow(move: MoveChance) -> Markup:
    """A shaft and a head from the middle of one square to the middle of another."""
    x0, y0 = _middle(move.start)
    x1, y1 = _middle(move.end)
    length = math.hypot(x1 - x0, y1 - y0)
    along_x, along_y = (x1 - x0) / length, (y1 - y0) / length
    width = 3.0 + 9.0 * move.probability
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
        opacity=f"{0.45 + 0.5 * move.probability:.2f}",
    )


def _middle(square: int) -> tuple[float, float]:
    return (square % 8 + 0.5) * SQUARE, (7 - square // 8 + 0.5) * SQUARE
