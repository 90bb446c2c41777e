"""The F = `NUM_MOVE_FACTS` facts of a legal move, named once: what the rules say of it, before and after.

They are facts of the rules alone: what moves, what it takes, what attacks what, and what the position
after the move allows. No man has a value here, except for an order: P < N < B < R < Q < K decides which
of several attackers is the least, and for "a lesser man" knight and bishop are equal.

A fact is one row of `MOVE_FACTS`, and one line in each of its two encoders: the compiled kernel
(`kernel.py`) and the readable one on a python-chess board (`reference.py`).
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

KINDS = ("pawn", "knight", "bishop", "rook", "queen", "king")
REPLY_LIMITS = (1, 3, 8, 20, 30)


class MoveFact(NamedTuple):
    """One fact of a move: its name, its group, its largest value (0 is the smallest), and what it says."""

    name: str
    group: str
    high: int
    meaning: str


def _rows(group: str, names: dict[str, str], high: int = 1) -> list[MoveFact]:
    return [MoveFact(name, group, high, meaning) for name, meaning in names.items()]


def _loose(side: str, men: str) -> list[MoveFact]:
    """What stands loose on one side after the move."""
    found: dict[str, str] = {}
    for kind in KINDS[:5]:
        found[f"{side}_{kind}_loose"] = f"{men} {kind} is attacked and not defended"
    for kind in KINDS[:5]:
        found[f"{side}_{kind}s_loose"] = (
            f"two or more of {men} {kind}s are attacked and not defended"
        )
    for kind in KINDS[1:5]:
        found[f"{side}_{kind}_under_lesser"] = f"{men} {kind} is attacked by a lesser man"
    return _rows("loose", found)


MOVE_FACTS = (
    *_rows(
        "move",
        {f"moves_{kind}": f"a {kind} moves" for kind in KINDS}
        | {"takes_nothing": "the move takes nothing"}
        | {f"takes_{kind}": f"the move takes a {kind}" for kind in KINDS[:5]}
        | {f"promotes_to_{kind}": f"a pawn becomes a {kind}" for kind in KINDS[1:5]}
        | {"castles": "the move castles", "en_passant": "the move takes en passant"}
        | {
            f"origin_attacked_by_{kind}": f"before the move, the origin's least attacker is a {kind}"
            for kind in KINDS
        }
        | {"origin_defended": "before the move, another man of the mover defends the origin"},
    ),
    *_rows(
        "after",
        {
            f"attacked_by_{kind}": f"the opponent's least man that attacks the destination is a {kind}"
            for kind in KINDS
        }
        | {"attacked_twice": "two or more men of the opponent attack the destination"}
        | {
            f"defended_by_{kind}": f"the mover's least man that defends the destination is a {kind}"
            for kind in KINDS
        }
        | {"defended_twice": "two or more men of the mover defend the destination"}
        | {
            "gives_check": "the opponent is in check",
            "gives_double_check": "two men give check",
            "checkmates": "the opponent is checkmated",
            "stalemates": "the opponent has no legal move and is not in check",
            "insufficient_material": "neither side can mate any more",
            "rule50_limit": "the rule-50 clock stands at the limit that ends the game (100; 150 with fifty_move=False)",
            "repeats": "the position after the move has occurred before in the game",
            "repeats_twice": "the position after the move has occurred at least twice before in the game",
        }
        | {
            f"replies_at_most_{n}": f"the opponent has at most {n} legal moves"
            for n in REPLY_LIMITS
        }
        | {
            f"attacks_{kind}": f"the man that moved attacks a {kind} of the opponent"
            for kind in KINDS
        },
    ),
    *_loose("mover", "the mover's"),
    *_loose("opponent", "the opponent's"),
    MoveFact(
        "mover_king_ring", "loose", 8, "squares beside the mover's king that the opponent attacks"
    ),
    MoveFact(
        "opponent_king_ring",
        "loose",
        8,
        "squares beside the opponent's king that the mover attacks",
    ),
    MoveFact("mover_squares", "loose", 64, "squares that the mover's men attack"),
    MoveFact("opponent_squares", "loose", 64, "squares that the opponent's men attack"),
    MoveFact("mover_men_attacked", "loose", 16, "men of the mover that are attacked"),
    MoveFact("opponent_men_attacked", "loose", 16, "men of the opponent that are attacked"),
)
"""All facts in their order. Groups: `move` (of the move itself), `after` (of its man and its game, after it), `loose`
(of all men, after it)."""

NUM_MOVE_FACTS = len(MOVE_FACTS)
GROUPS = tuple(dict.fromkeys(fact.group for fact in MOVE_FACTS))

_namedtuple: Any = namedtuple  # a type checker wants the names as literals
FACT_INDEX: Any = _namedtuple("FactIndex", [fact.name for fact in MOVE_FACTS])(
    *range(NUM_MOVE_FACTS)
)
"""Each fact's number by its name, `FACT_INDEX.castles`; compiled kernels read it as a constant."""
