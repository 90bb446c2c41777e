"""The further groups of facts: hand-computed positions, python-chess as the oracle, and who gets which columns."""

from __future__ import annotations

import itertools
from typing import Any

import chess
import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chess_env
from chess_env.move_facts import (
    FURTHER_FACTS,
    FURTHER_GROUPS,
    MOVE_FACTS,
    NUM_MOVE_FACTS,
    checked_groups,
    facts_asked,
    groups_of_columns,
    move_facts_batch,
    with_further_facts,
)
from chess_env.moves import action_to_move, move_to_action
from chess_env.rules.fen import parse_fen, to_fen
from chess_env.rules.packed import Positions
from chess_env.rules.rules import apply_batch, legal_actions_batch
from tests.move_facts.facts_oracle import move_facts
from tests.move_facts.further_oracle import further_facts
from tests.move_facts.positions import SPECIAL_FENS, random_positions, special_positions

COLUMNS = facts_asked(FURTHER_GROUPS)


def named(facts: Any) -> dict[str, int]:
    """Name -> value of the facts that are not 0."""
    return {COLUMNS[i].name: int(facts[i]) for i in np.flatnonzero(facts)}


def facts_of(fen: str, move: str, group: str) -> dict[str, int]:
    """What the kernel says of one move in one group."""
    board, position = chess.Board(fen), parse_fen(fen)[None]
    legal_ids, _ = legal_actions_batch(position)
    slot = list(legal_ids[0]).index(move_to_action(board.parse_uci(move), board.turn))
    found = move_facts_batch(position, legal_ids, asked=(group,))[0, slot, NUM_MOVE_FACTS:]
    names = [fact.name for fact in FURTHER_FACTS if fact.group == group]
    return {name: int(value) for name, value in zip(names, found, strict=True) if value}


def check_against_python_chess(positions: Positions, every: int = 1) -> int:
    """Number of moves, every so many, whose facts were compared with python-chess's and are equal."""
    legal_ids, num_legal = legal_actions_batch(positions)
    facts = move_facts_batch(positions, legal_ids, asked=FURTHER_GROUPS)
    compared = 0
    for row, fen in enumerate(map(to_fen, positions)):
        board = chess.Board(fen)
        for slot in range(row % every, num_legal[row], every):
            move = action_to_move(int(legal_ids[row, slot]), board)
            usual, more = move_facts(board, move, 0), further_facts(board, move)
            expected = [*usual, *(more.get(fact.name, 0) for fact in FURTHER_FACTS)]
            assert named(facts[row, slot]) == named(expected), f"{move} in {fen}"
            compared += 1
        assert not facts[row, num_legal[row] :].any()
    return compared


def test_an_exchange_counts_the_rook_behind_the_rook() -> None:
    # White's pawn takes on d5. Black takes with the knight f6, then with the queen d8; White takes back with the rook
    # d2 and, from behind it, the rook d1.
    found = facts_of("3q2k1/8/5n2/3p4/4P3/8/3R4/3R2K1 w - - 0 1", "e4d5", "exchange")
    assert found == {
        "exchange_1_by_knight": 1,
        "exchange_2_by_rook": 1,
        "exchange_3_by_queen": 1,
        "exchange_4_by_rook": 1,
        "exchange_last_by_mover": 1,
        "attackers_at_least_2": 1,  # knight and queen
        "defenders_at_least_2": 1,  # both rooks
    }


def test_a_king_takes_last_and_nothing_that_is_defended() -> None:
    # The queen takes on f7 beside the king; with the bishop c4 behind it the king may not take.
    alone = facts_of("6k1/5p2/8/8/8/5Q2/8/6K1 w - - 0 1", "f3f7", "exchange")
    assert alone["exchange_1_by_king"] == alone["exchange_last_by_opponent"] == 1
    assert alone["outnumbered"] == alone["mover_queen_outnumbered"] == 1
    covered = facts_of("6k1/5p2/8/8/2B5/5Q2/8/6K1 w - - 0 1", "f3f7", "exchange")
    assert covered == {}


def test_a_pin_to_the_king_and_one_to_the_queen_are_told_apart() -> None:
    # Bb5 pins the knight c6 to the king e8.
    to_king = facts_of("4k3/8/2n5/8/8/8/4B3/4K3 w - - 0 1", "e2b5", "lines")
    assert to_king == {"opponent_knight_pinned": 1, "pins": 1}
    # Bg5 pins the knight f6 to the queen d8.
    to_queen = facts_of("3q3k/8/5n2/8/8/8/3B4/K7 w - - 0 1", "d2g5", "lines")
    assert to_queen == {"opponent_pinned_to_queen": 1}
    # The king steps out of the pin of its knight.
    free = facts_of("4r1k1/8/8/8/4N3/8/8/4K3 w - - 0 1", "e1d1", "lines")
    assert free == {"unpins": 1}


def test_a_man_that_moves_along_its_pin_was_pinned_and_is() -> None:
    found = facts_of("4r1k1/8/8/8/4R3/8/8/4K3 w - - 0 1", "e4e5", "lines")
    assert found == {
        "origin_pinned_to_king": 1,
        "destination_pinned_to_king": 1,
        "mover_rook_pinned": 1,
    }


def test_a_discovered_attack_names_what_the_slider_behind_attacks() -> None:
    # The knight leaves d4: the rook d1 attacks the queen d8, and the queen the rook.
    found = facts_of("3q2k1/8/8/8/3N4/8/8/3R2K1 w - - 0 1", "d4b5", "lines")
    assert found == {"discovers_queen": 1, "exposes_rook": 1}
    # The other way round: Black's rook d8 sees the queen d1 when the knight leaves.
    exposed = facts_of("3r2k1/8/8/8/3N4/8/8/3Q2K1 w - - 0 1", "d4b5", "lines")
    assert exposed == {"origin_pinned_to_queen": 1, "discovers_rook": 1, "exposes_queen": 1}


def test_a_knight_forks_king_and_queen() -> None:
    found = facts_of("4k3/8/8/1N1q4/8/8/8/4K3 w - - 0 1", "b5c7", "threats")
    assert found == {
        "threatens_king": 1,
        "threatens_queen": 1,
        "threatens_at_least_2": 1,
        "opponent_threatened_at_least_1": 1,  # the queen
    }


def test_a_threat_of_mate_is_one_if_the_opponent_passed() -> None:
    # Rd1: then Rd8 mates behind the pawns.
    found = facts_of("6k1/5ppp/8/8/8/8/5PPP/R5K1 w - - 0 1", "a1d1", "threats")
    assert found == {"threatens_check": 1, "threatens_mate": 1}
    # With a pawn at h6 the king has a way out.
    found = facts_of("6k1/5pp1/7p/8/8/8/5PPP/R5K1 w - - 0 1", "a1d1", "threats")
    assert found == {"threatens_check": 1}


def test_a_reply_that_mates_is_seen() -> None:
    # The rook leaves the first rank: Black's rook mates on d1.
    found = facts_of("3r2k1/5ppp/8/8/8/8/5PPP/R5K1 w - - 0 1", "a1a2", "replies")
    assert found == {"reply_mates": 1, "reply_checks_at_least_1": 1, "reply_checks_safely": 1}
    # Guarded by the rook, d1 is a check that loses the rook.
    kept = facts_of("3r2k1/5ppp/8/8/8/8/5PPP/R5K1 w - - 0 1", "a1b1", "replies")
    assert kept == {"reply_checks_at_least_1": 1}


def test_replies_say_what_they_take_and_win() -> None:
    # The queen goes where pawn and knight take it; the knight f6 takes the defended pawn e4 too. The pawn has 2 moves,
    # the knight 7 and the king 2 (e7, f8).
    found = facts_of("4k3/8/2p2n2/Q7/4P3/3P4/8/4K3 w - - 0 1", "a5d5", "replies")
    assert found == {
        "reply_takes_queen": 1,
        "reply_wins_queen": 1,
        "reply_takes_pawn": 1,
        "reply_takes_back": 1,
        "reply_targets_at_least_2": 1,
        "replies_at_most_12": 1,
    }


def test_squares_of_a_king_are_not_those_behind_it_on_the_line_of_a_check() -> None:
    # Rook to e1 checks e8: e7 is on its line, and d8, f8, d7, f7 are open. White's g1 has f1, h1, f2, g2, h2.
    found = facts_of("4k3/8/8/8/8/8/8/3R2K1 w - - 0 1", "d1e1", "kings")
    assert (found["opponent_king_squares"], found["mover_king_squares"]) == (4, 5)
    assert found["opponent_king_squares_at_least_4"] == 1
    # A king in the corner, the rook on the rank beside it.
    mated = facts_of("7k/R7/8/8/8/8/8/1R4K1 w - - 0 1", "b1b8", "kings")
    assert "opponent_king_squares" not in mated and "opponent_king_squares_at_least_1" not in mated


def test_a_pawn_that_goes_ahead_is_passed_and_leaves_a_backward_one() -> None:
    # After b5 nothing stops that pawn; c3 has no other beside or behind it, and d5 attacks c4. The bishop does not
    # count f4, nor the rook b5 and c1. Black's e5 is passed, d5 is not, and each stands beside the other.
    found = facts_of("5k2/8/8/3pp3/1P6/2P5/8/1RB2K2 w - - 0 1", "b4b5", "structure")
    mover = {
        "backward_pawns": 1,
        "passed_pawns": 1,
        "passed_rank": 4,
        "passed_own_king": 5,
        "passed_their_king": 4,
        "bishop_squares": 6,
        "rook_squares": 4,
        "centre_squares": 1,
        "king_file_open": 1,
    }
    opponent = {
        "connected_pawns": 2,
        "passed_pawns": 1,
        "passed_rank": 3,
        "passed_own_king": 4,
        "passed_their_king": 3,
        "king_shield": 1,
        "centre_pawns": 2,
        "centre_squares": 2,
        "king_file_open": 1,
    }
    sides = (("mover", mover), ("opponent", opponent))
    assert found == {f"{side}_{name}": n for side, facts in sides for name, n in facts.items()}


SAVING = {f"saving_replies_at_most_{n}": 1 for n in (1, 2, 4)}


def test_a_quiet_fork_wins_a_rook_after_every_reply() -> None:
    # Nc7 attacks both rooks; no reply takes the knight or gives check.
    found = facts_of("r3r1k1/8/8/3N4/8/8/5PPP/5BK1 w - - 0 1", "d5c7", "answers")
    forced = itertools.product(("compels", "gains"), ("pawn", "minor", "rook"))
    assert found == {f"{name}_{man}": 1 for name, man in forced} | SAVING
    # A bishop on d8 takes the knight, which nobody guards.
    found = facts_of("r2br1k1/8/8/3N4/8/8/5PPP/5BK1 w - - 0 1", "d5c7", "answers")
    assert found == {"yields_pawn": 1, "yields_minor": 1} | SAVING


def test_a_man_that_can_be_taken_back_is_yielded_only_to_a_lesser_one() -> None:
    # The rook goes to d5, where the pawn c4 guards it: a rook that takes it is taken back, a bishop is less.
    by_rook = facts_of("3r2k1/8/8/8/2P5/8/8/3R2K1 w - - 0 1", "d1d5", "answers")
    assert "yields_pawn" not in by_rook
    by_bishop = facts_of("6k1/8/8/8/2P5/5b2/8/3R2K1 w - - 0 1", "d1d5", "answers")
    assert {name for name in by_bishop if name.startswith("yields")} == {
        "yields_pawn",
        "yields_minor",
        "yields_rook",
    }


def test_a_threat_of_mate_that_one_reply_stops_leaves_one_evasion() -> None:
    # Rb1 threatens Rb8#. Of Kf8, Kh8, a6 and a5 the first alone stops it.
    found = facts_of("6k1/p7/6K1/8/8/8/8/R7 w - - 0 1", "a1b1", "answers")
    assert found == {"evasions_at_most_1": 1, "evasions_at_most_2": 1} | SAVING
    # Without Kf8, a square that the bishop on a3 guards, nothing does.
    found = facts_of("6k1/p7/6K1/8/8/B7/8/R7 w - - 0 1", "a1b1", "answers")
    assert found["compels_mate"] == found["gains_queen"] == found["evasions_at_most_1"] == 1


def test_the_kernel_equals_python_chess_on_every_move_of_special_positions() -> None:
    # With the colours exchanged they have the same facts, another test says.
    assert check_against_python_chess(special_positions()[: len(SPECIAL_FENS)]) > 400


def test_the_kernel_equals_python_chess_on_moves_of_random_positions() -> None:
    # The oracle takes 5 ms for a move; those of one position differ little.
    assert check_against_python_chess(random_positions(24, seed=3), every=3) > 200


@settings(max_examples=8)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_the_kernel_equals_python_chess_along_a_game_of_captures(seed: int, plies: int) -> None:
    rng = np.random.default_rng(seed)
    position = parse_fen(chess.STARTING_FEN)[None]
    for _ in range(plies):
        legal_ids, num_legal = legal_actions_batch(position)
        if not num_legal[0]:
            return
        facts = move_facts_batch(position, legal_ids, asked=("threats",))[0, : num_legal[0]]
        # Moves that attack much, so that men hang, are pinned and are forked.
        weights = 1.0 + 5.0 * facts[:, NUM_MOVE_FACTS:].sum(1)
        slot = rng.choice(num_legal[0], p=weights / weights.sum())
        position = apply_batch(position, legal_ids[0, slot : slot + 1].astype(np.int64))
    if legal_actions_batch(position)[1][0]:
        assert check_against_python_chess(position, every=3) > 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_kernel_equals_python_chess_on_every_move_of_many_positions() -> None:
    assert check_against_python_chess(random_positions(1000, seed=4)) > 20_000


def test_every_further_fact_occurs_and_none_exceeds_its_largest_value() -> None:
    positions = np.concatenate([special_positions(), random_positions(1000, seed=2)])
    legal_ids, _ = legal_actions_batch(positions)
    legal_ids = np.ascontiguousarray(legal_ids[:, :60])
    seen = move_facts_batch(positions, legal_ids, asked=FURTHER_GROUPS).max(axis=(0, 1))
    assert (seen <= np.array([fact.high for fact in COLUMNS])).all()
    assert not [
        fact.name
        for fact, most in zip(COLUMNS, seen, strict=True)
        if not most and fact in FURTHER_FACTS
    ]


def test_the_usual_facts_are_the_first_columns_and_a_group_is_the_same_whoever_else_is_asked_for() -> (
    None
):
    positions = special_positions()
    half = len(positions) // 2
    legal_ids, _ = legal_actions_batch(positions)
    usual = move_facts_batch(positions, legal_ids)
    every = move_facts_batch(positions, legal_ids, asked=FURTHER_GROUPS)
    assert usual.shape[-1] == NUM_MOVE_FACTS == len(MOVE_FACTS)
    assert np.array_equal(every[..., :NUM_MOVE_FACTS], usual)
    assert np.array_equal(every[:half], every[half:])  # the colours exchanged
    assert np.array_equal(with_further_facts(usual, positions, legal_ids, FURTHER_GROUPS), every)
    assert with_further_facts(usual, positions, legal_ids, True) is usual
    for group in FURTHER_GROUPS:
        alone = move_facts_batch(positions, legal_ids, asked=(group,))
        kept = [i for i, fact in enumerate(COLUMNS) if fact in MOVE_FACTS or fact.group == group]
        assert np.array_equal(alone, every[..., kept])


def test_the_usual_choices_of_groups_are_told_by_their_number_of_columns() -> None:
    told = []
    for size in range(len(FURTHER_GROUPS) + 1):
        for groups in itertools.combinations(FURTHER_GROUPS, size):
            found = groups_of_columns(len(facts_asked(groups)))
            assert found in (groups, None)
            told += [] if found is None else [size]
    most = len(FURTHER_GROUPS)
    assert [told.count(size) for size in (0, 1, most - 1, most)] == [1, most, most, 1]
    assert groups_of_columns(len(facts_asked(FURTHER_GROUPS[:-1]))) == FURTHER_GROUPS[:-1]
    assert groups_of_columns(NUM_MOVE_FACTS + 1) is None


def test_names_of_groups_are_put_in_order_and_unknown_ones_are_refused() -> None:
    assert checked_groups(["replies", "lines", "replies"], "facts") == ("lines", "replies")
    with pytest.raises(
        ValueError, match="facts names 'reply': expected groups of facts, any of exchange"
    ):
        checked_groups(("lines", "reply"), "facts")


@pytest.mark.parametrize("value", [1, "lines", None, [], ("loose",)])
def test_an_environment_refuses_what_names_no_group(value: Any) -> None:
    with pytest.raises(ValueError, match="move_facts (is|names) .*: expected .*exchange, lines"):
        gym.make(chess_env.ENV_ID, evaluator="none", move_facts=value)


def test_a_vector_board_and_a_single_environment_give_the_same_groups() -> None:
    asked: Any = {"evaluator": "none", "move_facts": ["replies", "exchange"]}
    vec: Any = gym.make_vec(chess_env.ENV_ID, num_envs=1, **asked)
    env = gym.make(chess_env.ENV_ID, **asked)
    (_, info), (_, alone) = vec.reset(seed=5), env.reset(seed=5)
    for _ in range(12):
        found = info["move_facts"][0]
        assert found.shape[1] == len(facts_asked(("exchange", "replies")))
        assert np.array_equal(found, alone["move_facts"][: len(found)])
        action = int(info["legal_ids"][0, info["num_legal"][0] // 2])
        info, alone = vec.step(np.array([action]))[-1], env.step(action)[-1]
