"""The further facts of moves on a python-chess board: the oracle of the compiled ones."""

from __future__ import annotations

from collections.abc import Callable

import chess

from chess_env.move_facts.table import KINDS

_ORDER = {chess.PAWN: 0, chess.KNIGHT: 1, chess.BISHOP: 1, chess.ROOK: 2, chess.QUEEN: 3, chess.KING: 4}  # fmt: skip
_DIAGONAL, _STRAIGHT = (chess.BISHOP, chess.QUEEN), (chess.ROOK, chess.QUEEN)

Found = dict[str, int]


def further_facts(board: chess.Board, move: chess.Move) -> dict[str, int]:
    """All further facts of a legal move by name, those that are 0 left out or not."""
    after = board.copy(stack=False)
    after.push(move)
    return {name: n for group in _GROUPS for name, n in group(board, after, move).items()}


def _kind(board: chess.Board, square: chess.Square) -> chess.PieceType:
    kind = board.piece_type_at(square)
    assert kind is not None
    return kind


def _least_first(board: chess.Board, squares: chess.SquareSet) -> list[chess.Square]:
    """By kind, and of one kind by the square as the side to move sees the board."""
    flip = 0 if board.turn == chess.WHITE else 56
    return sorted(squares, key=lambda square: (_kind(board, square), square ^ flip))


def _all_attackers(board: chess.Board, color: chess.Color, square: chess.Square) -> chess.SquareSet:
    """Men that attack the square, or do behind others that attack it; none behind a king."""
    men = board.copy(stack=False)
    found = chess.SquareSet()
    while True:
        seen = men.attackers(chess.WHITE, square) | men.attackers(chess.BLACK, square)
        seen = chess.SquareSet(s for s in seen if s not in found)
        if not seen:
            return found & board.occupied_co[color]
        found |= seen
        for each in seen:
            if _kind(board, each) != chess.KING:
                men.remove_piece_at(each)


def _captures(after: chess.Board, square: chess.Square) -> list[chess.PieceType]:
    """Kinds that capture in turn on the square, the side to move first."""
    men, side, kinds = after.copy(stack=False), after.turn, []
    while mine := _least_first(men, men.attackers(side, square)):
        kind = _kind(men, mine[0])
        if kind == chess.KING and men.attackers(not side, square):
            break
        kinds.append(kind)
        if kind == chess.KING:
            break
        men.remove_piece_at(mine[0])
        side = not side
    return kinds


def _exchange(board: chess.Board, after: chess.Board, move: chess.Move) -> Found:
    square = move.to_square
    kinds = _captures(after, square)
    found = {f"exchange_{n}_by_{KINDS[kind - 1]}": 1 for n, kind in enumerate(kinds[:4], start=1)}
    found["exchange_last_by_opponent"] = len(kinds) % 2
    found["exchange_last_by_mover"] = int(len(kinds) > 0 and len(kinds) % 2 == 0)
    attackers = len(_all_attackers(after, after.turn, square))
    defenders = len(_all_attackers(after, not after.turn, square))
    found["outnumbered"] = int(attackers > defenders)
    for number in (2, 3):
        found[f"attackers_at_least_{number}"] = int(attackers >= number)
        found[f"defenders_at_least_{number}"] = int(defenders >= number)
    for side, color in (("opponent", after.turn), ("mover", not after.turn)):
        for man in chess.SquareSet(after.occupied_co[color] & ~after.kings):
            against = len(_all_attackers(after, not color, man))
            attacked = after.is_attacked_by(not color, man)
            if attacked and against > len(_all_attackers(after, color, man)):
                found[f"{side}_{KINDS[_kind(after, man) - 1]}_outnumbered"] = 1
    return found


def _shields(
    board: chess.Board,
    target: chess.Square,
    men: chess.Color,
    sliders: chess.Color,
    diagonal: tuple[chess.PieceType, ...],
    straight: tuple[chess.PieceType, ...],
) -> chess.SquareSet:
    """Squares of men of a colour that alone stand between a square and a slider of a colour."""
    found = chess.SquareSet()
    lines = board.bishops | board.rooks | board.queens
    for slider in chess.SquareSet(board.occupied_co[sliders] & lines):
        ray = chess.SquareSet.ray(target, slider)
        if not ray:
            continue
        is_straight = (
            chess.square_file(target) == chess.square_file(slider)
            or chess.square_rank(target) == chess.square_rank(slider)
        )  # fmt: skip
        between = chess.SquareSet.between(target, slider) & board.occupied
        if _kind(board, slider) in (straight if is_straight else diagonal) and len(between) == 1:
            found |= between & board.occupied_co[men]
    return found


def _before_king(board: chess.Board, king: chess.Color, men: chess.Color) -> chess.SquareSet:
    """Men of a colour that alone stand between a king and a slider of the other colour than the king's."""
    square = board.king(king)
    assert square is not None
    return _shields(board, square, men, not king, _DIAGONAL, _STRAIGHT)


def _before_queens(board: chess.Board, color: chess.Color) -> chess.SquareSet:
    found = chess.SquareSet()
    for queen in board.pieces(chess.QUEEN, color):
        found |= _shields(board, queen, color, not color, (chess.BISHOP,), (chess.ROOK,))
    return found


def _opened(
    board: chess.Board, after: chess.Board, color: chess.Color, end: chess.Square
) -> chess.SquareSet:
    """Squares that sliders of a colour attack and did not before, from the same squares."""
    found = chess.SquareSet()
    for square in chess.SquareSet(after.occupied_co[color]):
        stood = board.piece_at(square) == after.piece_at(square) and square != end
        if stood and _kind(after, square) in (chess.BISHOP, chess.ROOK, chess.QUEEN):
            found |= after.attacks(square) - board.attacks(square)
    return found


def _lines(board: chess.Board, after: chess.Board, move: chess.Move) -> Found:
    mover, replier, end = board.turn, after.turn, move.to_square
    own_before, their_before = (_before_king(board, side, side) for side in (mover, replier))
    own, their = (_before_king(after, side, side) for side in (mover, replier))
    to_queen = _before_queens(after, mover)
    found = {
        "origin_pinned_to_king": move.from_square in own_before,
        "origin_pinned_to_queen": move.from_square in _before_queens(board, mover),
        "destination_pinned_to_king": end in own,
        "destination_pinned_to_queen": end in to_queen,
        "mover_pinned_to_queen": bool(to_queen),
        "opponent_pinned_to_queen": bool(_before_queens(after, replier)),
        "mover_can_discover": bool(_before_king(after, replier, mover)),
        "opponent_can_discover": bool(_before_king(after, mover, replier)),
        "pins": bool(their - their_before),
        "lets_go": bool((their_before - their) & after.occupied_co[replier]),
        "binds": bool(own - own_before - chess.SquareSet.from_square(end)),
        "unpins": bool(own_before - own - chess.SquareSet.from_square(move.from_square)),
    }
    for side, pinned in (("mover", own), ("opponent", their)):
        for square in pinned:
            found[f"{side}_{KINDS[_kind(after, square) - 1]}_pinned"] = True
    for square in _opened(board, after, mover, end) & after.occupied_co[replier]:
        found[f"discovers_{KINDS[_kind(after, square) - 1]}"] = True
    for square in _opened(board, after, replier, end) & after.occupied_co[mover]:
        if square != end:
            found[f"exposes_{KINDS[_kind(after, square) - 1]}"] = True
    return {name: int(value) for name, value in found.items()}


def _threats(board: chess.Board, after: chess.Board, move: chess.Move) -> Found:
    mover, replier, end = board.turn, after.turn, move.to_square
    found = dict.fromkeys(("threatens_check", "threatens_mate"), 0)
    aimed = 0
    for square in after.attacks(end) & after.occupied_co[replier]:
        kind = _kind(after, square)
        larger = _ORDER[kind] > _ORDER[_kind(after, end)]
        if larger or not after.is_attacked_by(replier, square):
            aimed += 1
            found[f"threatens_{KINDS[kind - 1]}"] = 1
    for number in (2, 3):
        found[f"threatens_at_least_{number}"] = int(aimed >= number)
    for side, color in (("mover", mover), ("opponent", replier)):
        loose = threatened = 0
        for square in chess.SquareSet(after.occupied_co[color] & ~after.kings):
            attackers = after.attackers(not color, square)
            is_loose = bool(attackers) and not after.attackers(color, square)
            order = _ORDER[_kind(after, square)]
            lesser = any(_ORDER[_kind(after, attacker)] < order for attacker in attackers)
            loose += is_loose
            threatened += is_loose or lesser
        for number in (2, 3):
            found[f"{side}_loose_at_least_{number}"] = int(loose >= number)
        for number in (1, 2, 3):
            found[f"{side}_threatened_at_least_{number}"] = int(threatened >= number)
    if not after.is_check():
        passed = after.copy(stack=False)
        passed.push(chess.Move.null())
        for threat in passed.legal_moves:
            if passed.gives_check(threat):
                found["threatens_check"] = 1
                then = passed.copy(stack=False)
                then.push(threat)
                found["threatens_mate"] |= int(then.is_checkmate())
    return found


def _replies(board: chess.Board, after: chess.Board, move: chess.Move) -> Found:
    mover = board.turn
    replies = list(after.legal_moves)
    checks = [reply for reply in replies if after.gives_check(reply)]
    takes = [reply for reply in replies if after.is_capture(reply)]
    found = {f"reply_checks_at_least_{n}": len(checks) >= n for n in (1, 2, 4)}
    found |= {f"replies_at_most_{n}": len(replies) <= n for n in (2, 5, 12)}
    targets = {reply.to_square for reply in takes}
    found |= {f"reply_targets_at_least_{n}": len(targets) >= n for n in (2, 3)}
    by_king = all(_kind(after, reply.from_square) == chess.KING for reply in replies)
    found |= {
        "reply_mates": any(_mates(after, reply) for reply in checks),
        "reply_checks_safely": any(
            not after.is_attacked_by(mover, reply.to_square) for reply in checks
        ),
        "reply_checks_and_takes": any(reply in checks for reply in takes),
        "reply_promotes": any(reply.promotion for reply in replies),
        "reply_takes_back": any(
            reply.to_square == move.to_square or after.is_en_passant(reply) for reply in takes
        ),
        "replies_by_king_only": bool(replies) and by_king,
        "replies_take_only": bool(replies) and len(takes) == len(replies),
    }
    for reply in takes:
        taken = after.piece_type_at(reply.to_square) or chess.PAWN  # en passant
        larger = _ORDER[taken] > _ORDER[_kind(after, reply.from_square)]
        found[f"reply_takes_{KINDS[taken - 1]}"] = True
        if larger or not after.is_attacked_by(mover, reply.to_square):
            found[f"reply_wins_{KINDS[taken - 1]}"] = True
    return {name: int(value) for name, value in found.items()}


def _mates(board: chess.Board, move: chess.Move) -> bool:
    after = board.copy(stack=False)
    after.push(move)
    return after.is_checkmate()


def _kings(board: chess.Board, after: chess.Board, move: chess.Move) -> Found:
    found: Found = {}
    for side, color in (("mover", not after.turn), ("opponent", after.turn)):
        king = after.king(color)
        assert king is not None
        without = after.copy(stack=False)
        without.remove_piece_at(king)
        steps = chess.SquareSet(chess.BB_KING_ATTACKS[king] & ~after.occupied_co[color])
        count = sum(not without.is_attacked_by(not color, square) for square in steps)
        found[f"{side}_king_squares"] = count
        for number in (1, 2, 3, 4):
            found[f"{side}_king_squares_at_least_{number}"] = int(count >= number)
    return found


_STEPS = {chess.PAWN: 1, chess.KNIGHT: 2, chess.BISHOP: 2, chess.ROOK: 3, chess.QUEEN: 4}


def _wins(board: chess.Board) -> int:
    """The step of the largest man that a move wins; 0 for none."""
    won = [0]
    for move in board.legal_moves:
        if board.is_capture(move):
            taken = board.piece_type_at(move.to_square) or chess.PAWN  # en passant
            larger = _ORDER[taken] > _ORDER[_kind(board, move.from_square)]
            if larger or not board.is_attacked_by(not board.turn, move.to_square):
                won.append(_STEPS[taken])
    return max(won)


def _after_reply(then: chess.Board, reply: chess.Move, taken: int, taker: int) -> int:
    """The step of the largest man that an answer wins or takes back; 0 for none."""
    mover, square = then.turn, reply.to_square
    if then.is_check():
        won = _wins(then)
        back = any(move.to_square == square for move in then.legal_moves)
    else:
        won = 0
        pinned = {color: _before_king(then, color, color) for color in chess.COLORS}

        def attackers_of(color: chess.Color, square: chess.Square) -> list[chess.PieceType]:
            return [_kind(then, each) for each in then.attackers(color, square) - pinned[color]]

        for man in chess.SquareSet(then.occupied_co[not mover] & ~then.kings):
            attackers = attackers_of(mover, man)
            lesser = any(_ORDER[each] < _ORDER[_kind(then, man)] for each in attackers)
            if lesser or (attackers and not attackers_of(not mover, man)):
                won = max(won, _STEPS[_kind(then, man)])
        for pawn in then.pieces(chess.PAWN, mover) - pinned[mover]:
            step = pawn + (8 if mover else -8)
            ends = [step] if not then.piece_at(step) else []
            ends += then.attacks(pawn) & then.occupied_co[not mover]
            if any(end // 8 in (0, 7) and not attackers_of(not mover, end) for end in ends):
                won = max(won, 4)
        defended = bool(attackers_of(not mover, square))
        back = any(each != chess.KING or not defended for each in attackers_of(mover, square))
    return max(won, taker) if taken and back else won


def _answered(board: chess.Board, after: chess.Board, move: chess.Move) -> Found:
    replies = list(after.legal_moves)
    if not replies:
        return {}
    looms = after.is_check() or _threats(board, after, move)["threatens_mate"] == 1
    outcomes, evasions = [], 0
    for reply in replies:
        then = after.copy(stack=False)
        then.push(reply)
        taken = 0
        if after.is_capture(reply):
            taken = (_STEPS | {chess.KING: 5})[after.piece_type_at(reply.to_square) or chess.PAWN]
        taker = (_STEPS | {chess.KING: 5})[_kind(after, reply.from_square)]
        if reply.promotion:
            taken = taker = 4
        won = _after_reply(then, reply, taken, taker)
        mates = looms and any(
            _mates(then, answer) for answer in then.legal_moves if then.gives_check(answer)
        )
        evasions += not mates
        outcomes.append((5 if mates else won, 5 if then.is_checkmate() else taken))
    saving = sum(won < 2 or won <= taken for won, taken in outcomes)
    found = {"compels_mate": int(all(won == 5 for won, _ in outcomes))}
    for step, name in enumerate(("pawn", "minor", "rook", "queen"), start=1):
        found[f"compels_{name}"] = int(all(won >= step for won, _ in outcomes))
        found[f"gains_{name}"] = int(all(won >= step and won > taken for won, taken in outcomes))
        found[f"yields_{name}"] = int(any(taken >= step and taken > won for won, taken in outcomes))
    found |= {f"saving_replies_at_most_{n}": int(saving <= n) for n in (1, 2, 4)}
    return found | {f"evasions_at_most_{n}": int(looms and evasions <= n) for n in (1, 2)}


def _structure(board: chess.Board, after: chess.Board, move: chess.Move) -> Found:
    sides = (("mover", not after.turn), ("opponent", after.turn))
    return {f"{side}_{name}": n for side, color in sides for name, n in _side(after, color).items()}


def _side(board: chess.Board, color: chess.Color) -> Found:
    """The structure of one colour; ranks are counted as it sees them, from 0."""
    up = 1 if color else -1

    def place(square: chess.Square) -> tuple[int, int]:
        rank = chess.square_rank(square)
        return chess.square_file(square), rank if color else 7 - rank

    pawns = board.pieces(chess.PAWN, color)
    own, their = ([place(each) for each in board.pieces(chess.PAWN, c)] for c in (color, not color))
    foremost = [p for p in own if not any(q[0] == p[0] and q[1] > p[1] for q in own)]
    passed = [p for p in foremost if not any(abs(q[0] - p[0]) <= 1 and q[1] > p[1] for q in their)]
    by_pawn = {
        place(s) for each in board.pieces(chess.PAWN, not color) for s in board.attacks(each)
    }

    def near(p: tuple[int, int]) -> list[int]:
        return [q[1] for q in own if abs(q[0] - p[0]) == 1]

    def before(square: chess.Square) -> bool:
        return board.piece_at(square + 8 * up) is not None

    found = {
        "isolated_pawns": sum(not near(p) for p in own),
        "doubled_pawns": len(own) - len(foremost),
        "backward_pawns": sum((p[0], p[1] + 1) in by_pawn and all(r > p[1] for r in near(p)) for p in own),
        "connected_pawns": sum(any(r in (p[1], p[1] - 1) for r in near(p)) for p in own),
        "passed_pawns": len(passed),
        "passed_pawns_blocked": sum(before(each) for each in pawns if place(each) in passed),
    }  # fmt: skip
    kings = board.king(color), board.king(not color)
    assert kings[0] is not None and kings[1] is not None
    if passed:
        first = max(passed, key=lambda p: (p[1], p[0]))
        stop = next(each for each in pawns if place(each) == first) + 8 * up
        found["passed_rank"] = first[1]
        found["passed_own_king"] = chess.square_distance(stop, kings[0])
        found["passed_their_king"] = chess.square_distance(stop, kings[1])
    for kind, name in ((2, "knight"), (3, "bishop"), (4, "rook"), (5, "queen")):
        seen = {s for each in board.pieces(kind, color) for s in board.attacks(each)}
        free = [s for s in seen if board.color_at(s) != color and place(s) not in by_pawn]
        found[f"{name}_squares"] = min(32, len(free))
        found[f"{name}s_near_king"] = sum(chess.square_distance(s, kings[1]) == 1 for s in seen)
    file = chess.square_file(kings[0])
    centre = (chess.D4, chess.E4, chess.D5, chess.E5)
    found["king_shield"] = sum(abs(f - file) <= 1 and 1 <= rank <= 3 for f, rank in own)
    found["centre_pawns"] = sum(square in pawns for square in centre)
    found["centre_squares"] = sum(board.is_attacked_by(color, square) for square in centre)
    found["king_file_open"] = int(all(f != file for f, _ in own))
    found["bishops_at_least_2"] = int(len(board.pieces(chess.BISHOP, color)) >= 2)
    minors = board.pieces(chess.KNIGHT, color) | board.pieces(chess.BISHOP, color)
    guarded = {s for each in pawns for s in board.attacks(each)}
    outposts = [
        place(s)
        for s in minors
        if s in guarded and not any(abs(q[0] - place(s)[0]) == 1 and q[1] > place(s)[1] for q in their)
    ]  # fmt: skip
    free_files = [
        f for f, _ in map(place, board.pieces(chess.ROOK, color)) if all(f != p[0] for p in own)
    ]
    half_open = [f for f in free_files if any(f == p[0] for p in their)]
    for name, count in (
        ("outposts", len(outposts)),
        ("open_rooks", len(free_files) - len(half_open)),
        ("half_open_rooks", len(half_open)),
    ):
        for number in (1, 2):
            found[f"{name}_at_least_{number}"] = int(count >= number)
    return found


_GROUPS: tuple[Callable[[chess.Board, chess.Board, chess.Move], Found], ...] = (
    _exchange, _lines, _threats, _replies, _kings, _answered, _structure,
)  # fmt: skip
