"""The facts of legal moves: hand-computed ones, python-chess as the oracle, history, padding, both environments."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import chess
import gymnasium as gym
import numpy as np
import pytest

import chess_env
from chess_env.games.reference_game import identity
from chess_env.move_facts import (
    FACT_INDEX,
    GROUPS,
    MOVE_FACTS,
    NUM_MOVE_FACTS,
    move_facts_batch,
)
from chess_env.moves import NUM_ACTIONS, action_to_move, move_to_action
from chess_env.rules.fen import pack_fens, parse_fen, to_fen
from chess_env.rules.packed import Positions
from chess_env.rules.rules import hash_batch, legal_actions_batch
from tests.move_facts.facts_oracle import move_facts
from tests.move_facts.positions import SPECIAL_FENS, random_positions, special_positions

# `MOVE_FACTS_POSITIONS=100000 pytest -m slow tests/move_facts` looks at more.
SLOW_POSITIONS = int(os.environ.get("MOVE_FACTS_POSITIONS", "1000"))


def named(facts: Any) -> dict[str, int]:
    """Name -> value of the facts that are not 0."""
    return {MOVE_FACTS[i].name: int(facts[i]) for i in np.flatnonzero(facts)}


def facts_of(fen: str, move: str) -> dict[str, int]:
    """What the kernel says of one move."""
    board = chess.Board(fen)
    position = parse_fen(fen)[None]
    legal_ids, _ = legal_actions_batch(position)
    action = move_to_action(board.parse_uci(move), board.turn)
    slot = int(np.flatnonzero(legal_ids[0] == action)[0])
    return named(move_facts_batch(position, legal_ids)[0, slot])


def check_against_python_chess(positions: Positions) -> int:
    """Number of moves whose facts were compared with python-chess's and are equal."""
    legal_ids, num_legal = legal_actions_batch(positions)
    facts = move_facts_batch(positions, legal_ids)
    for row, fen in enumerate(map(to_fen, positions)):
        board = chess.Board(fen)
        for slot in range(num_legal[row]):
            move = action_to_move(int(legal_ids[row, slot]), board)
            expected = move_facts(board, move, 0)
            assert named(facts[row, slot]) == named(expected), f"{move} in {fen}"
        assert not facts[row, num_legal[row] :].any()
    return int(num_legal.sum())


def test_a_capture_into_a_loose_queen_has_these_facts_and_no_others() -> None:
    # White: Kg1, Rd1; Black: Kg8, pawns f7 g7 h7, queen d5. The rook takes the queen; nothing can take back.
    assert facts_of("6k1/5ppp/8/3q4/8/8/8/3R2K1 w - - 0 1", "d1d5") == {
        "moves_rook": 1,
        "takes_queen": 1,
        "origin_attacked_by_queen": 1,
        "replies_at_most_8": 1,  # Kf8, Kh8; f6, f5, g6, g5, h6, h5
        "replies_at_most_20": 1,
        "replies_at_most_30": 1,
        "mover_squares": 19,  # 14 of the rook, 5 of the king, none shared
        "opponent_squares": 9,  # of the king f8 h8 f7 g7 h7; of the pawns e6 f6 g6 h6
    }


def test_a_back_rank_mate_is_a_check_without_replies() -> None:
    found = facts_of("6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1", "d1d8")
    assert found["checkmates"] == found["gives_check"] == found["attacks_king"] == 1
    assert found["replies_at_most_1"] == 1
    assert found["opponent_king_ring"] == 1  # f8: the rook does not see through the king
    assert "stalemates" not in found and "gives_double_check" not in found


@pytest.mark.parametrize(
    ("fen", "move", "expected"),
    [
        ("4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 2", "e5d6", {"en_passant", "takes_pawn", "moves_pawn"}),
        ("4k3/P7/8/8/8/8/8/4K3 w - - 0 1", "a7a8q", {"promotes_to_queen", "gives_check"}),
        ("4k3/P7/8/8/8/8/8/4K3 w - - 0 1", "a7a8n", {"promotes_to_knight", "takes_nothing"}),
        ("4k3/8/8/8/8/8/8/4K2R w K - 0 1", "e1g1", {"castles", "moves_king", "takes_nothing"}),
        ("3rkr2/3p1p2/8/4N3/8/8/4R3/4K3 w - - 0 1", "e5f7", {"gives_check", "takes_pawn"}),
        ("4k3/8/8/8/4N3/8/8/4RK2 w - - 0 1", "e4f6", {"gives_double_check", "gives_check"}),
        ("7k/8/6K1/8/8/5Q2/8/8 w - - 0 1", "f3f7", {"stalemates"}),
        ("7k/8/8/8/8/8/6p1/K6B w - - 0 1", "h1g2", {"insufficient_material"}),
        ("6k1/8/8/8/8/8/8/K6R w - - 99 80", "h1h2", {"rule50_limit"}),
        ("4k3/8/3p4/4r3/8/8/1B6/4K3 w - - 0 1", "b2e5", {"attacked_by_pawn", "mover_bishop_loose"}),
    ],
)
def test_special_moves_are_told_apart(fen: str, move: str, expected: set[str]) -> None:
    assert expected <= set(facts_of(fen, move))


def test_the_limit_of_the_rule_50_clock_is_150_without_the_fifty_move_rule() -> None:
    positions = pack_fens(["6k1/8/8/8/8/8/8/K6R w - - 99 80", "6k1/8/8/8/8/8/8/K6R w - - 149 80"])
    legal_ids, num_legal = legal_actions_batch(positions)
    facts = move_facts_batch(positions, legal_ids, fifty_move=False)[..., FACT_INDEX.rule50_limit]
    assert not facts[0].any()
    assert facts[1].sum() == num_legal[1]


def test_the_kernel_equals_python_chess_on_every_move_of_special_positions() -> None:
    # With the colours exchanged they have the same facts, another test says.
    assert check_against_python_chess(special_positions()[: len(SPECIAL_FENS)]) > 400


def test_the_kernel_equals_python_chess_on_every_move_of_random_positions() -> None:
    assert check_against_python_chess(random_positions(60, seed=1)) > 1000


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_kernel_equals_python_chess_on_every_move_of_many_positions() -> None:
    for start in range(0, SLOW_POSITIONS, 1000):
        count = min(1000, SLOW_POSITIONS - start)
        assert check_against_python_chess(random_positions(count, seed=1000 + start)) > 20 * count


def test_every_fact_occurs_and_none_exceeds_its_largest_value() -> None:
    positions = np.concatenate([special_positions(), random_positions(1500, seed=2)])
    legal_ids, _ = legal_actions_batch(positions)
    seen = move_facts_batch(positions, legal_ids).max(axis=(0, 1))
    highs = np.array([fact.high for fact in MOVE_FACTS])
    assert (seen <= highs).all()
    never = {MOVE_FACTS[i].name for i in np.flatnonzero(seen == 0)}
    assert never == {"repeats", "repeats_twice"}  # these need a history


def test_names_are_unique_and_groups_stand_together() -> None:
    names = [fact.name for fact in MOVE_FACTS]
    assert len(set(names)) == NUM_MOVE_FACTS
    assert GROUPS == ("move", "after", "loose")
    groups = [fact.group for fact in MOVE_FACTS]
    assert groups == sorted(groups, key=GROUPS.index)


def test_facts_do_not_depend_on_the_colour_that_moves() -> None:
    positions = special_positions()
    half = len(positions) // 2
    legal_ids, _ = legal_actions_batch(positions)
    facts = move_facts_batch(positions, legal_ids)
    assert np.array_equal(legal_ids[:half], legal_ids[half:])
    assert np.array_equal(facts[:half], facts[half:])


def test_facts_do_not_depend_on_padding_or_on_the_other_boards() -> None:
    positions = special_positions()[:6]
    legal_ids, num_legal = legal_actions_batch(positions)
    whole = move_facts_batch(positions, legal_ids)
    width = int(num_legal.max())
    trimmed = move_facts_batch(positions, np.ascontiguousarray(legal_ids[:, :width]))
    assert np.array_equal(whole[:, :width], trimmed)
    for row in range(len(positions)):
        alone = move_facts_batch(positions[row : row + 1], legal_ids[row : row + 1])
        assert np.array_equal(alone[0], whole[row])


def test_a_game_that_is_over_has_no_facts() -> None:
    mated = pack_fens(["7k/5KQ1/8/8/8/8/8/8 b - - 0 1"])
    legal_ids, num_legal = legal_actions_batch(mated)
    assert num_legal[0] == 0
    assert not move_facts_batch(mated, legal_ids).any()


def test_no_boards_have_no_facts() -> None:
    none = np.zeros((0, 8), np.uint64)
    assert move_facts_batch(none, np.zeros((0, 5), np.int16)).shape == (0, 5, NUM_MOVE_FACTS)


def test_legal_ids_of_other_boards_are_an_error() -> None:
    positions = special_positions()
    legal_ids, _ = legal_actions_batch(positions)
    with pytest.raises(ValueError, match=r"legal_ids .* expected int16 \[32, L\]"):
        move_facts_batch(positions, legal_ids[:3])
    with pytest.raises(ValueError, match=r"history .* history_length"):
        move_facts_batch(positions, legal_ids, hash_batch(positions)[:, None])


SHUFFLE = ("g1f3", "g8f6", "f3g1", "f6g8")


def test_a_move_back_repeats_and_the_second_time_repeats_twice() -> None:
    env = gym.make_vec(
        chess_env.ENV_ID, num_envs=1, evaluator="none", move_facts=True, threefold=False
    )
    _, info = env.reset(seed=0)
    board, seen = chess.Board(), Counter([identity(chess.Board())])
    recurrences = []
    for ply in range(12):
        facts, legal_ids = info["move_facts"][0], info["legal_ids"][0]
        for slot in range(int(info["num_legal"][0])):
            move = action_to_move(int(legal_ids[slot]), board)
            board.push(move)
            earlier = seen[identity(board)]
            board.pop()
            found = facts[slot, FACT_INDEX.repeats], facts[slot, FACT_INDEX.repeats_twice]
            assert found == (earlier >= 1, earlier >= 2), (ply, move)
        move = chess.Move.from_uci(SHUFFLE[ply % 4])
        action = move_to_action(move, board.turn)
        recurrences.append(int(facts[list(legal_ids).index(action), FACT_INDEX.repeats]))
        board.push(move)
        seen[identity(board)] += 1
        _, _, _, _, info = env.step(np.array([action]))
    # The fourth ply brings the initial position back, every ply after it some position.
    assert recurrences == [0, 0, 0, *[1] * 9]


def assert_same_facts(found: Any, padded: Any) -> None:
    """Those of one board among others, `[L, F]`, and of a single environment, `[218, F]`."""
    assert np.array_equal(found, padded[: len(found)]) and not padded[len(found) :].any()


def test_a_vector_board_and_a_single_environment_give_the_same_facts_through_whole_games() -> None:
    arguments = {
        "evaluator": "none",
        "start_positions": "random_plies:0-60",
        "max_plies": 24,
        "move_facts": True,
    }
    vec: Any = gym.make_vec(chess_env.ENV_ID, num_envs=2, **arguments)
    envs = [gym.make(chess_env.ENV_ID, **arguments) for _ in range(2)]
    _, info = vec.reset(seed=3)
    infos = [env.reset(seed=3 + row)[1] for row, env in enumerate(envs)]
    rng = np.random.default_rng(0)
    ended = 0
    for _ in range(30):
        for row in range(2):
            assert infos[row]["move_facts"].shape == (218, NUM_MOVE_FACTS)
            assert_same_facts(info["move_facts"][row], infos[row]["move_facts"])
        assert info["move_facts"].shape == (2, info["num_legal"].max(), NUM_MOVE_FACTS)
        # Kings and knights first: games that go back and forth.
        actions = [
            int(info["legal_ids"][row, rng.integers(info["num_legal"][row])]) for row in range(2)
        ]
        _, _, _, _, info = vec.step(np.array(actions))
        for row, env in enumerate(envs):
            _, _, terminated, truncated, infos[row] = env.step(actions[row])
            if terminated or truncated:
                ended += 1
                last = info["final_info"]["move_facts"][row]
                assert_same_facts(last, infos[row]["move_facts"])
                infos[row] = env.reset()[1]
    assert ended >= 2


def test_an_environment_that_was_not_asked_has_no_facts_and_the_same_games() -> None:
    def game(**more: Any) -> tuple[list[Any], bool]:
        env: Any = gym.make_vec(chess_env.ENV_ID, num_envs=2, evaluator="none", **more)
        obs, info = env.reset(seed=1)
        seen = [obs]
        for _ in range(5):
            obs, _, _, _, info = env.step(info["legal_ids"][:, 0].astype(np.int64))
            seen.append(obs)
        return seen, "move_facts" in info

    plain, without = game()
    asked, with_facts = game(move_facts=True)
    assert (without, with_facts) == (False, True)
    assert all(np.array_equal(one, other) for one, other in zip(plain, asked, strict=True))


def test_the_action_table_has_a_slot_for_each_fact_of_the_busiest_position() -> None:
    busiest = pack_fens(["R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KB1 w - - 0 1"])
    legal_ids, num_legal = legal_actions_batch(busiest)
    assert num_legal[0] == 218 and legal_ids.max() < NUM_ACTIONS
    assert move_facts_batch(busiest, legal_ids)[0].any(axis=-1).all()
