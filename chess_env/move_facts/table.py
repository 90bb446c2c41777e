"""The F = `NUM_MOVE_FACTS` facts of a legal move, named once: what the rules say of it, before and after.

They are facts of the rules alone: what moves, what it takes, what attacks what, and what the position
after the move allows. No man has a value here, except for an order: P < N < B < R < Q < K decides which
of several attackers is the least, and for "a lesser man" knight and bishop are equal.

A fact is one row of `MOVE_FACTS`, and one line of the kernel that computes it (`kernel.py`).

`FURTHER_FACTS` are computed where somebody asks for their group by name (`FactsAsked`). They look further: along
an exchange, through the men on a line, and at what the opponent can reply. Their encoder is `further.py`.
"""

from __future__ import annotations

import itertools
from collections import namedtuple
from collections.abc import Sequence
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


def _at_least(name: str, numbers: Sequence[int], meaning: str) -> dict[str, str]:
    """Facts that a number is at least so large, one for each."""
    return {f"{name}_at_least_{n}": f"at least {n} {meaning}" for n in numbers}


_SIDES = {"mover": "the mover's", "opponent": "the opponent's"}

_FORCED = {
    "pawn": "man",
    "minor": "knight or a larger man",
    "rook": "rook or a queen",
    "queen": "queen",
}
"""What is won at least, undefended or by a lesser man."""

MOST_SQUARES = 32
"""Up to it the squares are counted that the men of a kind attack."""


def _structure(side: str, men: str) -> list[MoveFact]:
    """The pawns of one side, the squares that its men attack, and what covers its king."""
    centre = "d4, e4, d5 and e5"
    pawns = {
        "isolated": "with no other on the files beside them",
        "doubled": "with another before them on their file",
        "backward": "with none level or behind on the files beside, and whose next square an enemy pawn attacks",
        "connected": "that another defends or stands beside",
        "passed": "that no enemy pawn can stop or take, the foremost of their file",
    }
    counts = {
        **{f"{name}_pawns": (8, f"{men} pawns {what}") for name, what in pawns.items()},
        "passed_pawns_blocked": (8, f"{men} passed pawns that a man stands before"),
        "passed_rank": (
            6,
            f"ranks that the furthest of {men} passed pawns has left behind; 0 without one",
        ),
        "passed_own_king": (7, f"steps of {men} king to the square before that pawn"),
        "passed_their_king": (7, "steps of the other king to that square"),
        **{
            f"{kind}_squares": (
                MOST_SQUARES,
                f"squares that {men} {kind}s attack, not those of own men or that an enemy pawn attacks; "
                f"{MOST_SQUARES} at most",
            )
            for kind in KINDS[1:5]
        },
        **{
            f"{kind}s_near_king": (8, f"squares beside the other king that {men} {kind}s attack")
            for kind in KINDS[1:5]
        },
        "king_shield": (8, f"{men} pawns on its ranks 2 to 4, on the king's file and those beside"),
        "centre_pawns": (4, f"{men} pawns on {centre}"),
        "centre_squares": (4, f"squares of {centre} that {men} men attack"),
    }
    there = (
        {"king_file_open": f"no pawn of {men[:-2]} is on its king's file"}
        | _at_least("bishops", (2,), f"of {men} men are bishops")
        | _at_least(
            "outposts",
            (1, 2),
            f"of {men} knights and bishops are defended by a pawn where no enemy pawn can ever attack",
        )
        | _at_least("open_rooks", (1, 2), f"of {men} rooks have no pawn on their file")
        | _at_least(
            "half_open_rooks", (1, 2), f"of {men} rooks have only enemy pawns on their file"
        )
    )
    found = [MoveFact(f"{side}_{name}", "structure", *row) for name, row in counts.items()]
    return found + _rows("structure", {f"{side}_{name}": what for name, what in there.items()})


FURTHER_FACTS = (
    *_rows(
        "exchange",
        {
            f"exchange_{n}_by_{kind}": f"capture {n} of the exchange on the destination is by a {kind}"
            for n in range(1, 5)
            for kind in KINDS
        }
        | {
            "exchange_last_by_opponent": "the opponent makes the last capture of that exchange",
            "exchange_last_by_mover": "the mover makes the last capture of that exchange",
            "outnumbered": "more men attack the destination than defend it, those behind others included",
        }
        | _at_least("attackers", (2, 3), "men attack the destination, those behind others included")
        | _at_least("defenders", (2, 3), "men defend the destination, those behind others included")
        | {
            f"{side}_{kind}_outnumbered": f"{men} {kind} is attacked, by more men than defend it"
            for side, men in _SIDES.items()
            for kind in KINDS[:5]
        },
    ),
    *_rows(
        "lines",
        {
            "origin_pinned_to_king": "before the move, the man was pinned to its king",
            "origin_pinned_to_queen": "before the move, a bishop or rook pinned the man to its queen",
            "destination_pinned_to_king": "the man that moved is pinned to its king",
            "destination_pinned_to_queen": "a bishop or rook pins the man that moved to its queen",
        }
        | {
            f"{side}_{kind}_pinned": f"{men} {kind} is pinned to its king"
            for side, men in _SIDES.items()
            for kind in KINDS[:5]
        }
        | {
            f"{side}_pinned_to_queen": f"a man of {men[:-2]} is pinned to its queen"
            for side, men in _SIDES.items()
        }
        | {
            f"{side}_can_discover": f"a man of {men[:-2]} alone stands between its slider and the other king"
            for side, men in _SIDES.items()
        }
        | {
            "pins": "a man of the opponent is pinned to its king and was not",
            "lets_go": "a man of the opponent was pinned to its king and is not",
            "binds": "another man of the mover is pinned to its king and was not",
            "unpins": "another man of the mover was pinned to its king and is not",
        }
        | {
            f"discovers_{kind}": f"another slider of the mover attacks a {kind} and did not from its square"
            for kind in KINDS
        }
        | {
            f"exposes_{kind}": f"a slider of the opponent attacks another {kind} and did not from its square"
            for kind in KINDS[:5]
        },
    ),
    *_rows(
        "threats",
        {
            f"threatens_{kind}": f"the man that moved attacks a {kind} that is undefended or larger than it"
            for kind in KINDS
        }
        | _at_least("threatens", (2, 3), "such men are attacked by the man that moved")
        | {
            name: meaning
            for side, men in _SIDES.items()
            for name, meaning in (
                _at_least(f"{side}_loose", (2, 3), f"of {men} men are attacked and not defended")
                | _at_least(
                    f"{side}_threatened",
                    (1, 2, 3),
                    f"of {men} men are attacked and undefended, or attacked by a lesser man",
                )
            ).items()
        }
        | {
            "threatens_check": "the opponent is not in check; if it passed, the mover could give check",
            "threatens_mate": "the opponent is not in check; if it passed, the mover could give mate",
        },
    ),
    *_rows(
        "replies",
        {"reply_mates": "a reply gives mate"}
        | _at_least("reply_checks", (1, 2, 4), "replies give check")
        | {
            "reply_checks_safely": "a reply gives check on a square that the mover did not attack",
            "reply_checks_and_takes": "a reply takes and gives check",
            "reply_promotes": "a reply promotes a pawn",
            "reply_takes_back": "a reply takes the man that moved",
        }
        | {f"reply_takes_{kind}": f"a reply takes a {kind}" for kind in KINDS[:5]}
        | {
            f"reply_wins_{kind}": f"a reply takes a {kind} that is undefended or larger than the taker"
            for kind in KINDS[:5]
        }
        | _at_least("reply_targets", (2, 3), "squares hold a man that a reply takes")
        | {
            "replies_by_king_only": "there are replies, and all are moves of the king",
            "replies_take_only": "there are replies, and all of them take",
        }
        | {f"replies_at_most_{n}": f"the opponent has at most {n} legal moves" for n in (2, 5, 12)},
    ),
    *_rows(
        "kings",
        {
            name: meaning
            for side, men in _SIDES.items()
            for name, meaning in _at_least(
                f"{side}_king_squares", (1, 2, 3, 4), f"squares are open to {men} king"
            ).items()
        },
    ),
    *(
        MoveFact(f"{side}_king_squares", "kings", 8, f"squares that are open to {men} king")
        for side, men in _SIDES.items()
    ),
    *_rows(
        "answers",
        {"compels_mate": "after every reply the mover can give mate"}
        | {
            f"compels_{men}": f"after every reply the mover can give mate or win a {what}"
            for men, what in _FORCED.items()
        }
        | {
            f"gains_{men}": f"after every reply the mover can give mate or win a {what}, larger than what it took"
            for men, what in _FORCED.items()
        }
        | {
            f"yields_{men}": f"a reply takes a {what}, and no answer wins as large a man"
            for men, what in _FORCED.items()
        }
        | {
            f"saving_replies_at_most_{n}": f"after all replies but {n} the mover can win a knight or a larger man, and "
            "one larger than the reply took"
            for n in (1, 2, 4)
        }
        | {
            f"evasions_at_most_{n}": f"gives check or threatens mate, and at most {n} of the replies avoid the mate"
            for n in (1, 2)
        },
    ),
    *(fact for side, men in _SIDES.items() for fact in _structure(side, men)),
)
"""Facts that are there on request, in their order behind those of `MOVE_FACTS`. All but `origin_...` are of the
position after the move.

Groups: `exchange` (who takes in turn on the destination, the least man first, until a side has none; a king takes
last and takes nothing that is defended; pins are not looked at), `lines` (pins, and attacks that the move
opens), `threats` (of the mover), `replies` (legal moves of the opponent), `kings` (squares that a king can step
to: no own man is there, and no man of the other side attacks it; castling aside), `answers` (what a move forces: it
looks three plies ahead, at every reply and every answer to it), `structure` (pawns, squares attacked and kings of both
sides). In `answers` the mover wins what it attacks undefended or by a lesser man, the man that has just taken, where it
can take back, and a queen where a pawn can promote on a square that is not attacked; men that are pinned to their king
attack nothing. In check it wins by legal moves. A reply that promotes counts as taking a queen, one that mates as
taking more.
"""

FURTHER_GROUPS = tuple(dict.fromkeys(fact.group for fact in FURTHER_FACTS))
FURTHER_INDEX: Any = _namedtuple("FurtherIndex", [fact.name for fact in FURTHER_FACTS])(
    *(
        [fact.name for fact in FURTHER_FACTS if fact.group == group].index(name)
        for name, group, _, _ in FURTHER_FACTS
    )
)
"""Each further fact's place within its group, by its name."""

FactsAsked = bool | tuple[str, ...]
"""Which facts somebody wants: none (False), `MOVE_FACTS` (True), or these and the further groups that are named."""


def facts_asked(asked: FactsAsked) -> tuple[MoveFact, ...]:
    """The columns of the facts that are asked for, in their order; that of the groups' names has no effect."""
    if asked is False:
        return ()
    names = () if asked is True else asked
    return MOVE_FACTS + tuple(fact for fact in FURTHER_FACTS if fact.group in names)


def checked_groups(named: Any, what: str) -> tuple[str, ...]:
    """Names of further groups, each once, in the order of the table.

    Args:
        named: a list or tuple of them.
        what: is set to it, for the message.

    Raises:
        ValueError: it is something else, or there is no such group.
    """
    names = tuple(named) if isinstance(named, list | tuple) else (named,)
    for name in names:
        if name not in FURTHER_GROUPS:
            raise ValueError(
                f"{what} names {name!r}: expected groups of facts, any of {', '.join(FURTHER_GROUPS)}"
            )
    return tuple(group for group in FURTHER_GROUPS if group in names)


def groups_of_columns(count: int) -> tuple[str, ...] | None:
    """The further groups that make `count` columns with `MOVE_FACTS`; None where none do, or two choices of them do.

    Weights are read by it where no file names their groups. None, one, all but one and all are told by their number.
    """
    choices = (itertools.combinations(FURTHER_GROUPS, n) for n in range(len(FURTHER_GROUPS) + 1))
    found = [each for each in itertools.chain(*choices) if len(facts_asked(each)) == count]
    return found[0] if len(found) == 1 else None
