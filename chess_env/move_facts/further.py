"""The further facts of every legal move, compiled: `table.FURTHER_FACTS` for N boards x L moves, group by group.

They say nothing of the game before the position, and are written behind the facts of `kernel.py` by a kernel of their
own, so that nobody pays for groups that were not asked for. All is seen from the replier's side after the move: its
men are OWN and move up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import carray
from numpy.typing import NDArray

from chess_env.jit import inlined, kernel, stack_words
from chess_env.move_facts.kernel import NO_KIND, ROOM, Attacks, Facts, attacks_of, kind_at, reach_of
from chess_env.move_facts.table import FURTHER_GROUPS, MOST_SQUARES
from chess_env.move_facts.table import FURTHER_INDEX as X
from chess_env.moves import ACTION_FROM, ACTION_TO
from chess_env.rules.bitboards import (
    BETWEEN,
    KING,
    KNIGHT,
    U0,
    U1,
    U2,
    U8,
    beside,
    bishop_attacks,
    fill_down,
    fill_up,
    flip_vertical,
    lowest_square,
    pawn_attacks_down,
    popcount,
    rook_attacks,
    square_bit,
)
from chess_env.rules.movegen import (
    apply,
    attackers_of,
    checkers_of,
    legal_actions_of,
    slider_attackers,
)
from chess_env.rules.packed import (
    BISHOPS,
    KINGS,
    KNIGHTS,
    OWN,
    PAWNS,
    QUEENS,
    ROOKS,
    STATE,
    Positions,
    en_passant_square,
    occupied_squares,
)

LAST_RANK = np.uint64(0xFF << 56)
_CENTRE = np.uint64(0x0000001818000000)
_RANKS_2_TO_4 = np.uint64(0x00000000FFFFFF00)

Actions = NDArray[np.int16]


@inlined
def _all_attackers(position: Positions, square: int, occupied: np.uint64) -> np.uint64:
    """uint64: men of both sides that attack the square, or do behind others that attack it; none behind a king."""
    seen = attackers_of(position, square, occupied)
    while True:
        through = occupied & ~(seen & ~position[KINGS])
        more = seen | slider_attackers(position, square, through, occupied)
        if more == seen:
            return seen
        seen = more


@inlined
def _write_outnumbered(
    child: Positions, side: np.uint64, attackers: Attacks, first: int, out: Facts
) -> None:
    """Writes which men of a side more men attack than defend, from column `first` on."""
    occupied = occupied_squares(child)
    left = side & attackers.all & ~child[KINGS]
    while left:
        square = lowest_square(left)
        left &= left - U1
        seen = _all_attackers(child, square, occupied)
        if popcount(seen & ~side) > popcount(seen & side):
            out[first + kind_at(child, square_bit(square))] = 1


@inlined
def _least_kind(position: Positions, men: np.uint64) -> int:
    """int64: the least kind among some men, of which there is one."""
    kind = 0
    while position[kind] & men == U0:
        kind += 1
    return kind


@inlined
def _write_exchange(
    child: Positions, end: int, replier: Attacks, mover: Attacks, out: Facts
) -> None:
    """Writes the group `exchange`."""
    occupied, own = occupied_squares(child), child[OWN]
    seen = _all_attackers(child, end, occupied)
    attackers, defenders = popcount(seen & own), popcount(seen & ~own)
    out[X.outnumbered] = attackers > defenders
    for number in range(2, 4):
        out[X.attackers_at_least_2 + number - 2] = attackers >= number
        out[X.defenders_at_least_2 + number - 2] = defenders >= number
    _write_outnumbered(child, occupied ^ own, replier, X.mover_pawn_outnumbered, out)
    _write_outnumbered(child, own, mover, X.opponent_pawn_outnumbered, out)
    side, captures, left = own, 0, occupied
    while True:
        seen = attackers_of(child, end, left) & left
        mine = seen & side
        if mine == U0:
            break
        kind = _least_kind(child, mine)
        if kind == KINGS and seen & ~side:
            break
        if captures < 4:
            out[X.exchange_1_by_pawn + 6 * captures + kind] = 1
        captures += 1
        if kind == KINGS:
            break
        mine &= child[kind]
        left ^= mine & (~mine + U1)
        side = ~side
    out[X.exchange_last_by_opponent] = captures & 1
    out[X.exchange_last_by_mover] = captures > 0 and captures & 1 == 0


@inlined
def _shields(
    square: int, men: np.uint64, diagonal: np.uint64, straight: np.uint64, occupied: np.uint64
) -> np.uint64:
    """uint64: those of `men` that alone stand between the square and one of the sliders."""
    found = U0
    snipers = bishop_attacks(square, U0) & diagonal | rook_attacks(square, U0) & straight
    while snipers:
        between = BETWEEN[square, lowest_square(snipers)] & occupied
        if between & (between - U1) == U0:
            found |= between & men
        snipers &= snipers - U1
    return found


@inlined
def _before_king(position: Positions, king: np.uint64, men: np.uint64, by: np.uint64) -> np.uint64:
    """uint64: those of `men` that alone stand between the king (a bitboard) and a slider of `by`."""
    queens = position[QUEENS]
    return _shields(
        lowest_square(king),
        men,
        (position[BISHOPS] | queens) & by,
        (position[ROOKS] | queens) & by,
        occupied_squares(position),
    )


@inlined
def _before_queens(position: Positions, men: np.uint64, by: np.uint64) -> np.uint64:
    """uint64: those of `men` that alone stand between a queen of theirs and a bishop or rook of `by`."""
    found, queens = U0, position[QUEENS] & men
    while queens:
        found |= _shields(
            lowest_square(queens),
            men,
            position[BISHOPS] & by,
            position[ROOKS] & by,
            occupied_squares(position),
        )
        queens &= queens - U1
    return found


class Pinned(NamedTuple):
    """Men before any move, uint64 each, in the view of the side to move.

    Attributes:
        own: of the side to move, pinned to their king.
        own_to_queen: of the side to move, pinned to a queen of theirs.
        their: of the other side, pinned to their king.
    """

    own: np.uint64
    own_to_queen: np.uint64
    their: np.uint64


@inlined
def _pinned_of(position: Positions) -> Pinned:
    own = position[OWN]
    their = occupied_squares(position) ^ own
    kings = position[KINGS]
    return Pinned(
        _before_king(position, kings & own, own, their),
        _before_queens(position, own, their),
        _before_king(position, kings & their, their, own),
    )


@inlined
def _opened(position: Positions, child: Positions, sliders: np.uint64) -> np.uint64:
    """uint64: squares that the child's `sliders` attack and did not attack before, from the same squares."""
    before, now = flip_vertical(occupied_squares(position)), occupied_squares(child)
    found = U0
    left = sliders & (child[BISHOPS] | child[QUEENS])
    while left:
        square = lowest_square(left)
        left &= left - U1
        found |= bishop_attacks(square, now) & ~bishop_attacks(square, before)
    left = sliders & (child[ROOKS] | child[QUEENS])
    while left:
        square = lowest_square(left)
        left &= left - U1
        found |= rook_attacks(square, now) & ~rook_attacks(square, before)
    return found


@inlined
def _write_lines(
    position: Positions, child: Positions, action: int, pinned: Pinned, out: Facts
) -> None:
    """Writes the group `lines`; `pinned` are those of `position`, before the move."""
    origin, landed = square_bit(ACTION_FROM[action]), square_bit(ACTION_TO[action] ^ 56)
    own, kings = child[OWN], child[KINGS]
    moved = occupied_squares(child) ^ own
    out[X.origin_pinned_to_king] = pinned.own & origin != U0
    out[X.origin_pinned_to_queen] = pinned.own_to_queen & origin != U0
    mine = _before_king(child, kings & moved, moved, own)
    theirs = _before_king(child, kings & own, own, moved)
    to_queen = _before_queens(child, moved, own)
    out[X.destination_pinned_to_king] = mine & landed != U0
    out[X.destination_pinned_to_queen] = to_queen & landed != U0
    for kind in range(5):
        out[X.mover_pawn_pinned + kind] = mine & child[kind] != U0
        out[X.opponent_pawn_pinned + kind] = theirs & child[kind] != U0
    out[X.mover_pinned_to_queen] = to_queen != U0
    out[X.opponent_pinned_to_queen] = _before_queens(child, own, moved) != U0
    out[X.mover_can_discover] = _before_king(child, kings & own, moved, moved) != U0
    out[X.opponent_can_discover] = _before_king(child, kings & moved, own, own) != U0
    mine_before, theirs_before = flip_vertical(pinned.own), flip_vertical(pinned.their)
    out[X.pins] = theirs & ~theirs_before != U0
    out[X.lets_go] = theirs_before & ~theirs & own != U0
    out[X.binds] = mine & ~mine_before & ~landed != U0
    out[X.unpins] = mine_before & ~mine & ~flip_vertical(origin) != U0
    # A rook that has castled, as the man that moved, was not there before.
    stood = flip_vertical(position[OWN])
    discovered = _opened(position, child, moved & stood & ~landed) & own
    exposed = _opened(position, child, own) & moved & ~landed
    for kind in range(6):
        out[X.discovers_pawn + kind] = discovered & child[kind] != U0
    for kind in range(5):
        out[X.exposes_pawn + kind] = exposed & child[kind] != U0


@inlined
def _larger(position: Positions, kind: int) -> np.uint64:
    """uint64: men of both sides that are larger than a kind, where knight and bishop are equal."""
    found = U0
    for other in range(kind + 1, 6):
        found |= position[other]
    return found & ~position[BISHOPS] if kind == KNIGHTS else found


@inlined
def _under_lesser(position: Positions, attackers: Attacks) -> np.uint64:
    """uint64: men but for kings that a lesser man attacks."""
    lesser = attackers.pawn
    found = (position[KNIGHTS] | position[BISHOPS]) & lesser
    lesser |= attackers.knight | attackers.bishop
    found |= position[ROOKS] & lesser
    return found | position[QUEENS] & (lesser | attackers.rook)


class CheckSquares(NamedTuple):
    """Where the men of the side to move must be to check the other king, uint64 each.

    Attributes:
        pawn, knight, diagonal, straight: a man of such a kind or way there gives check.
        hidden: men of the side to move that may hide a slider's check. Not all do.
    """

    pawn: np.uint64
    knight: np.uint64
    diagonal: np.uint64
    straight: np.uint64
    hidden: np.uint64


@inlined
def _check_squares(position: Positions) -> CheckSquares:
    own, occupied = position[OWN], occupied_squares(position)
    king = position[KINGS] & ~own
    square = lowest_square(king)
    diagonal, straight = bishop_attacks(square, occupied), rook_attacks(square, occupied)
    hidden = (diagonal | straight) & own
    if slider_attackers(position, square, occupied & ~hidden, own) == U0:
        hidden = U0
    return CheckSquares(pawn_attacks_down(king), KNIGHT[square], diagonal, straight, hidden)


@inlined
def _may_check(position: Positions, action: int, squares: CheckSquares) -> bool:
    """Whether a legal move may give check; False is sure."""
    start, end = ACTION_FROM[action], ACTION_TO[action]
    moved, landed = square_bit(start), square_bit(end)
    if squares.hidden & moved:
        return True
    if position[PAWNS] & moved:
        is_special = end >= 56 or end == en_passant_square(position)
        return is_special or squares.pawn & landed != U0
    if position[KNIGHTS] & moved:
        return squares.knight & landed != U0
    if position[KINGS] & moved:
        return abs(end - start) == 2
    if squares.diagonal & landed and (position[BISHOPS] | position[QUEENS]) & moved:
        return True
    return squares.straight & landed != U0 and (position[ROOKS] | position[QUEENS]) & moved != U0


@kernel
def _checks(
    position: Positions,
    actions: Actions,
    count: int,
    gives_check: NDArray[np.bool_],
    after: Positions,
    spare: Actions,
) -> tuple[int, bool]:
    """(int64: how many of the legal moves give check, whether one gives mate).

    Args:
        position: packed.
        actions: its legal moves.
        count: how many.
        gives_check: where it is written which do.
        after: uint64 [8], scratch.
        spare: scratch.
    """
    squares = _check_squares(position)
    checks, mates = 0, False
    for slot in range(count):
        gives_check[slot] = False
        if _may_check(position, actions[slot], squares):
            apply(position, actions[slot], after)
            if checkers_of(after):
                gives_check[slot] = True
                checks += 1
                mates = mates or legal_actions_of(after, spare) == 0
    return checks, mates


@inlined
def _passed(position: Positions, out: Positions) -> None:
    """Writes the position with the other side to move, seen by it."""
    for kind in range(6):
        out[kind] = flip_vertical(position[kind])
    out[OWN] = flip_vertical(occupied_squares(position) ^ position[OWN])
    rights = position[STATE] & np.uint64(15)
    out[STATE] = rights >> U2 | (rights & np.uint64(3)) << U2


@inlined
def _write_threats(
    child: Positions, end: int, replier: Attacks, mover: Attacks, out: Facts
) -> None:
    """Writes the group `threats`, but for what the mover could do if the opponent passed."""
    own = child[OWN]
    moved = occupied_squares(child) ^ own
    aimed = reach_of(child, end) & own
    aimed &= ~replier.all | _larger(child, kind_at(child, square_bit(end)))
    for kind in range(6):
        out[X.threatens_pawn + kind] = aimed & child[kind] != U0
    for number in range(2, 4):
        out[X.threatens_at_least_2 + number - 2] = popcount(aimed) >= number
    for side in range(2):
        if side == 0:
            men, attackers, defenders = moved & ~child[KINGS], replier, mover
            first_loose, first_threatened = (
                X.mover_loose_at_least_2,
                X.mover_threatened_at_least_1,
            )
        else:
            men, attackers, defenders = own & ~child[KINGS], mover, replier
            first_loose = X.opponent_loose_at_least_2
            first_threatened = X.opponent_threatened_at_least_1
        loose = men & attackers.all & ~defenders.all
        count = popcount(loose)
        for number in range(2, 4):
            out[first_loose + number - 2] = count >= number
        count = popcount(loose | men & _under_lesser(child, attackers))
        for number in range(1, 4):
            out[first_threatened + number - 1] = count >= number


@inlined
def _taken(position: Positions, action: int, kind: int) -> int:
    """int64: the kind of the man that a legal move by a man of `kind` takes; `NO_KIND` where it takes nothing."""
    landed = square_bit(ACTION_TO[action])
    if occupied_squares(position) & ~position[OWN] & landed:
        return kind_at(position, landed)
    passing = en_passant_square(position)
    return PAWNS if kind == PAWNS and passing and ACTION_TO[action] == passing else NO_KIND


@inlined
def _is_won(kind: int, taken: int, defended: np.uint64) -> bool:
    """Whether a man of `kind` takes one that is undefended, or larger where knight and bishop are equal."""
    return defended == U0 or (taken > kind and not (kind == KNIGHTS and taken == BISHOPS))


@inlined
def _write_replies(
    child: Positions,
    end: int,
    mover: Attacks,
    replies: Actions,
    count: int,
    gives_check: NDArray[np.bool_],
    out: Facts,
) -> None:
    """Writes the group `replies`, but for the number of checks and whether one is mate."""
    moved = occupied_squares(child) ^ child[OWN]
    targets, captures, king_moves = U0, 0, 0
    for slot in range(count):
        action = replies[slot]
        man, landed = square_bit(ACTION_FROM[action]), square_bit(ACTION_TO[action])
        kind = kind_at(child, man)
        king_moves += int(kind == KINGS)
        taken = _taken(child, action, kind)
        if taken != NO_KIND:
            captures += 1
            targets |= landed
            out[X.reply_takes_pawn + taken] = 1
            if _is_won(kind, taken, mover.all & landed):
                out[X.reply_wins_pawn + taken] = 1
            # En passant takes the man that has just moved.
            if ACTION_TO[action] == end or not moved & landed:
                out[X.reply_takes_back] = 1
        if kind == PAWNS and ACTION_TO[action] >= 56:
            out[X.reply_promotes] = 1
        if gives_check[slot]:
            if mover.all & landed == U0:
                out[X.reply_checks_safely] = 1
            if taken != NO_KIND:
                out[X.reply_checks_and_takes] = 1
    for number in range(2, 4):
        out[X.reply_targets_at_least_2 + number - 2] = popcount(targets) >= number
    out[X.replies_by_king_only] = count > 0 and king_moves == count
    out[X.replies_take_only] = count > 0 and captures == count
    out[X.replies_at_most_2] = count <= 2
    out[X.replies_at_most_5] = count <= 5
    out[X.replies_at_most_12] = count <= 12


@inlined
def _write_kings(child: Positions, replier: Attacks, mover: Attacks, out: Facts) -> None:
    """Writes the group `kings`."""
    own, occupied = child[OWN], occupied_squares(child)
    moved = occupied ^ own
    # Sliders see through a king that is in check; the mover's is not.
    king = child[KINGS] & own
    guarded = mover.all
    if guarded & king:
        guarded = attacks_of(child, moved, occupied ^ king, False).all
    opponent = popcount(KING[lowest_square(king)] & ~own & ~guarded)
    mine = popcount(KING[lowest_square(child[KINGS] & moved)] & ~moved & ~replier.all)
    out[X.mover_king_squares], out[X.opponent_king_squares] = mine, opponent
    for number in range(1, 5):
        out[X.mover_king_squares_at_least_1 + number - 1] = mine >= number
        out[X.opponent_king_squares_at_least_1 + number - 1] = opponent >= number


@inlined
def _largest_won(position: Positions, actions: Actions, count: int) -> int:
    """int64: the largest man that a legal move wins: 1 a pawn, 2 a knight or bishop, 3 a rook, 4 a queen; 0 none."""
    occupied = occupied_squares(position)
    defended = attacks_of(position, occupied ^ position[OWN], occupied, False).all
    largest = 0
    for slot in range(count):
        action = actions[slot]
        kind = kind_at(position, square_bit(ACTION_FROM[action]))
        taken = _taken(position, action, kind)
        if taken != NO_KIND and _is_won(kind, taken, defended & square_bit(ACTION_TO[action])):
            largest = max(largest, 1 if taken == PAWNS else 2 if taken < ROOKS else taken)
    return largest


@inlined
def _size(kind: int) -> int:
    """int64: 1 a pawn, 2 a knight or bishop, 3 a rook, 4 a queen, 5 a king; 0 for `NO_KIND`."""
    return 0 if kind == NO_KIND else 1 if kind == PAWNS else 2 if kind < ROOKS else kind


@inlined
def _largest(position: Positions, men: np.uint64) -> int:
    """int64: the size of the largest of some men, no kings among them; 0 for none."""
    for kind in range(QUEENS, -1, -1):
        if position[kind] & men:
            return _size(kind)
    return 0


@inlined
def _can_take(square: np.uint64, mine: Attacks, theirs: Attacks) -> bool:
    """Whether a man can take on a square; a king takes nothing that is defended."""
    others = mine.pawn | mine.knight | mine.bishop | mine.rook | mine.queen
    return (others | mine.king & ~theirs.all) & square != U0


@kernel
def _write_answers(
    child: Positions,
    replies: Actions,
    count: int,
    mate_looms: bool,
    gives_check: NDArray[np.bool_],
    scratch: NDArray[np.uint64],
    answers: Actions,
    spare: Actions,
    out: Facts,
) -> None:
    """Writes the group `answers` of a move that leaves `count` replies, at least one.

    Args:
        child: packed.
        replies: its legal moves.
        count: how many.
        mate_looms: the move gives check, or the mover could give mate if the opponent passed. Nowhere else is a mate
            after every reply looked for, which would take longer than all the rest.
        gives_check: scratch.
        scratch: uint64 [2, 8].
        answers: scratch.
        spare: scratch.
        out: where it is written.
    """
    reply = scratch[0]
    always, beyond, yielded, saving, evasions = 5, 5, 0, 0, 0
    for slot in range(count):
        action = replies[slot]
        kind = kind_at(child, square_bit(ACTION_FROM[action]))
        landed = square_bit(ACTION_TO[action] ^ 56)
        taken = _size(_taken(child, action, kind))
        if kind == PAWNS and ACTION_TO[action] >= 56:
            kind, taken = QUEENS, 4
        apply(child, action, reply)
        men, own = occupied_squares(reply), reply[OWN]
        checked = checkers_of(reply) != U0
        num_answers, mates = 0, False
        if mate_looms or checked:
            num_answers = legal_actions_of(reply, answers)
        if mate_looms:
            _, mates = _checks(reply, answers, num_answers, gives_check, scratch[1], spare)
        if checked:
            won, back = _largest_won(reply, answers, num_answers), False
            for answer in range(num_answers):
                back = back or square_bit(ACTION_TO[answers[answer]]) == landed
            if num_answers == 0:
                taken = 5
        else:
            kings, enemies = reply[KINGS], men ^ own
            free = enemies & ~_before_king(reply, kings & enemies, enemies, own)
            theirs = attacks_of(reply, free, men, False)
            free = own & ~_before_king(reply, kings & own, own, enemies)
            mine = attacks_of(reply, free, men, True)
            attacked = _under_lesser(reply, mine) | mine.all & ~theirs.all
            won, back = _largest(reply, attacked & enemies), _can_take(landed, mine, theirs)
            promoting = (reply[PAWNS] & free) << U8 & ~men | mine.pawn & enemies
            if promoting & ~theirs.all & LAST_RANK:
                won = 4
        if taken and back:
            won = max(won, _size(kind))
        if mates:
            won = 5
        always, beyond = min(always, won), min(beyond, won if won > taken else 0)
        yielded = max(yielded, taken if taken > won else 0)
        saving += int(won < 2 or won <= taken)
        evasions += int(not mates)
    out[X.compels_mate] = always == 5
    for step in range(4):
        out[X.compels_pawn + step] = always > step
        out[X.gains_pawn + step] = beyond > step
        out[X.yields_pawn + step] = yielded > step
    out[X.saving_replies_at_most_1] = saving <= 1
    out[X.saving_replies_at_most_2] = saving <= 2
    out[X.saving_replies_at_most_4] = saving <= 4
    out[X.evasions_at_most_1] = mate_looms and evasions <= 1
    out[X.evasions_at_most_2] = mate_looms and evasions <= 2


@inlined
def _distance(one: int, other: int) -> int:
    """int64: moves of a king between two squares of an empty board."""
    return max(abs((one >> 3) - (other >> 3)), abs((one & 7) - (other & 7)))


@inlined
def _write_structure(position: Positions, attacks: Attacks, others: Attacks, out: Facts) -> None:
    """Writes the group `structure` of the side to move, whose pawns move up.

    Args:
        position: packed.
        attacks: of the side to move.
        others: of the other side.
        out: where its columns begin; 0 stands there.
    """
    own, occupied = position[OWN], occupied_squares(position)
    pawns, their_pawns = position[PAWNS] & own, position[PAWNS] & ~own
    king = lowest_square(position[KINGS] & own)
    their_king = lowest_square(position[KINGS] & ~own)
    before = fill_down(pawns) >> U8
    doubled = pawns & before
    out[X.mover_isolated_pawns] = popcount(pawns & ~beside(fill_up(fill_down(pawns))))
    out[X.mover_doubled_pawns] = popcount(doubled)
    out[X.mover_backward_pawns] = popcount(pawns & ~fill_up(beside(pawns)) & (others.pawn >> U8))
    out[X.mover_connected_pawns] = popcount(pawns & (attacks.pawn | beside(pawns)))
    passed = pawns & ~doubled & ~(fill_down(their_pawns | beside(their_pawns)) >> U8)
    out[X.mover_passed_pawns] = popcount(passed)
    out[X.mover_passed_pawns_blocked] = popcount(passed << U8 & occupied)
    while passed & (passed - U1):
        passed &= passed - U1
    if passed:  # the furthest one
        square = lowest_square(passed)
        out[X.mover_passed_rank] = square >> 3
        out[X.mover_passed_own_king] = _distance(square + 8, king)
        out[X.mover_passed_their_king] = _distance(square + 8, their_king)

    outposts = (position[KNIGHTS] | position[BISHOPS]) & own & attacks.pawn
    outposts &= ~(fill_down(beside(their_pawns)) >> U8)
    rooks = position[ROOKS] & own & ~fill_up(fill_down(pawns))
    half_open = rooks & fill_up(fill_down(their_pawns))
    bishops = position[BISHOPS] & own
    out[X.mover_bishops_at_least_2] = bishops & (bishops - U1) != U0
    for number in range(1, 3):
        out[X.mover_outposts_at_least_1 + number - 1] = popcount(outposts) >= number
        out[X.mover_open_rooks_at_least_1 + number - 1] = popcount(rooks & ~half_open) >= number
        out[X.mover_half_open_rooks_at_least_1 + number - 1] = popcount(half_open) >= number
    free, ring = ~own & ~others.pawn, KING[their_king]
    for number, seen in enumerate((attacks.knight, attacks.bishop, attacks.rook, attacks.queen)):
        out[X.mover_knight_squares + number] = min(MOST_SQUARES, popcount(seen & free))
        out[X.mover_knights_near_king + number] = popcount(seen & ring)

    file = fill_up(fill_down(square_bit(king)))
    out[X.mover_king_shield] = popcount((file | beside(file)) & pawns & _RANKS_2_TO_4)
    out[X.mover_king_file_open] = file & pawns == U0
    out[X.mover_centre_pawns] = popcount(pawns & _CENTRE)
    out[X.mover_centre_squares] = popcount(attacks.all & _CENTRE)


_GROUPS = FURTHER_GROUPS.index
_EXCHANGE, _LINES, _THREATS = _GROUPS("exchange"), _GROUPS("lines"), _GROUPS("threats")
_REPLIES, _KINGS, _ANSWERS = _GROUPS("replies"), _GROUPS("kings"), _GROUPS("answers")
_STRUCTURE = _GROUPS("structure")


@kernel
def write_further_facts(
    rows: NDArray[np.int64],
    positions: Positions,
    legal_ids: Actions,
    first: NDArray[np.int64],
    facts: Facts,
) -> None:
    """Writes further facts of all legal moves on the boards `rows` to `facts` uint8 [N, L, F], where 0 stands.

    Args:
        rows: int64 [n].
        positions: uint64 [N, 8].
        legal_ids: int16 [N, L or more], padded with -1 at the end.
        first: int64 [G], the column where each group begins; -1 for a group that is not asked for.
        facts: the output.
    """
    child = carray(stack_words(8), 8, np.uint64)
    after = carray(stack_words(8), 8, np.uint64)
    passed = carray(stack_words(8), 8, np.uint64)
    scratch = carray(stack_words(16), (2, 8), np.uint64)
    replies = carray(stack_words(ROOM), ROOM, np.int16)
    spare = carray(stack_words(ROOM), ROOM, np.int16)
    answers = carray(stack_words(ROOM), ROOM, np.int16)
    gives_check = carray(stack_words(ROOM), ROOM, np.bool_)
    for row in rows:
        position = positions[row]
        pinned = _pinned_of(position)
        for slot in range(facts.shape[1]):
            action = legal_ids[row, slot]
            if action < 0:
                break
            out, end = facts[row, slot], ACTION_TO[action] ^ 56
            apply(position, action, child)
            men, own = occupied_squares(child), child[OWN]
            replier = attacks_of(child, own, men, True)
            mover = attacks_of(child, men ^ own, men, False)
            if first[_EXCHANGE] >= 0:
                _write_exchange(child, end, replier, mover, out[first[_EXCHANGE] :])
            if first[_LINES] >= 0:
                _write_lines(position, child, action, pinned, out[first[_LINES] :])
            if first[_REPLIES] >= 0:
                written = out[first[_REPLIES] :]
                count = legal_actions_of(child, replies)
                checks, mates = _checks(child, replies, count, gives_check, after, spare)
                written[X.reply_mates] = mates
                written[X.reply_checks_at_least_1] = checks >= 1
                written[X.reply_checks_at_least_2] = checks >= 2
                written[X.reply_checks_at_least_4] = checks >= 4
                _write_replies(child, end, mover, replies, count, gives_check, written)
            if first[_KINGS] >= 0:
                _write_kings(child, replier, mover, out[first[_KINGS] :])
            checked = mover.all & child[KINGS] & own != U0
            threats, mates = 0, False
            if not checked and (first[_THREATS] >= 0 or first[_ANSWERS] >= 0):
                _passed(child, passed)
                count = legal_actions_of(passed, replies)
                threats, mates = _checks(passed, replies, count, gives_check, after, spare)
            if first[_THREATS] >= 0:
                written = out[first[_THREATS] :]
                _write_threats(child, end, replier, mover, written)
                written[X.threatens_check] = threats > 0
                written[X.threatens_mate] = mates
            if first[_ANSWERS] >= 0:
                count = legal_actions_of(child, replies)
                if count:
                    written, looms = out[first[_ANSWERS] :], checked or mates
                    _write_answers(
                        child, replies, count, looms, gives_check, scratch, answers, spare, written
                    )
            if first[_STRUCTURE] >= 0:
                written = out[first[_STRUCTURE] :]
                _write_structure(child, replier, mover, written[X.opponent_isolated_pawns :])
                _passed(child, passed)
                men, own = occupied_squares(passed), passed[OWN]
                mover = attacks_of(passed, own, men, True)
                replier = attacks_of(passed, men ^ own, men, False)
                _write_structure(passed, mover, replier, written)
