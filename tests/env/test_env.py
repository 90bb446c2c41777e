"""`ChessSelfPlayEnv`: Gymnasium's rules, observations, rewards, endings, seeds, and errors."""

from __future__ import annotations

import warnings
from typing import Any

import chess
import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_env_sb3

import chess_env
from chess_env.env import ChessSelfPlayEnv
from chess_env.evaluators import Evaluator
from chess_env.moves import move_to_action
from chess_env.observation import PLANE_INDEX, PLANES, encode_batch
from chess_env.rewards import value
from chess_env.rules.fen import pack_board
from chess_env.rules.rules import (
    CHECKMATE,
    STALEMATE,
    phase_batch,
)
from chess_env.vector_env import ChessSelfPlayVectorEnv
from tests.env.material import MaterialEvaluator
from tests.env.playing import ILLEGAL, SHUFFLE, make, play


def play_randomly(env: ChessSelfPlayEnv, seed: int, max_plies: int = 400) -> list[Any]:
    """All that reset and step returned in one game of random legal moves."""
    rng = np.random.default_rng(seed)
    obs, info = env.reset(seed=seed)
    record: list[Any] = [(obs, info)]
    for _ in range(max_plies):
        action = rng.choice(info["legal_ids"][: info["num_legal"]])
        obs, reward, terminated, truncated, info = env.step(action)
        record.append((obs, reward, terminated, truncated, info))
        if terminated or truncated:
            break
    return record


@pytest.mark.parametrize(
    ("evaluator", "opponent", "illegal_action"),
    [
        ("none", None, "terminate"),
        ("none", "random", "resample"),
        (MaterialEvaluator(), None, "resample"),
        (MaterialEvaluator(), "random", "terminate"),
    ],
)
def test_gymnasiums_check_env_passes_without_a_warning(
    evaluator: str | Evaluator, opponent: str | None, illegal_action: str
) -> None:
    assert chess_env.ENV_ID in gym.registry
    env = gym.make(
        "ChessSelfPlay-v0", evaluator=evaluator, opponent=opponent, illegal_action=illegal_action
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)


@pytest.mark.parametrize(
    ("evaluator", "opponent", "illegal_action"),
    [
        ("none", None, "resample"),
        ("none", "random", "terminate"),
        ("builtin", "random", "resample"),
    ],
)
def test_every_number_in_info_has_the_dtype_of_the_vector_environment_and_one_shape(
    evaluator: str, opponent: str | None, illegal_action: str
) -> None:
    arguments: dict[str, Any] = {"evaluator": evaluator, "opponent": opponent, "move_facts": True,
                                 "illegal_action": illegal_action, "max_plies": 12}  # fmt: skip
    vector = ChessSelfPlayVectorEnv(num_envs=1, **arguments)
    _, batched = vector.reset(seed=0)
    vector.close()
    wanted = {name: (values.dtype, values.shape[1:]) for name, values in batched.items()}
    # Boards in lockstep show facts of as many moves as they have, a single one leaves room for the most there can be.
    wanted["move_facts"] = batched["move_facts"].dtype, (218, batched["move_facts"].shape[2])
    env = ChessSelfPlayEnv(**arguments)
    infos = [step[-1] for seed in range(2) for step in play_randomly(env, seed)]
    env.reset(options={"fen": chess.STARTING_FEN})
    for info in [*infos, env.step(ILLEGAL)[-1]]:
        found = {name: (value.dtype, value.shape) for name, value in info.items()}
        assert found == wanted
    # Gymnasium's own vector environment makes arrays of numbers of them.
    sync = gym.make_vec("ChessSelfPlay-v0", 2, vectorization_mode="sync", **arguments)
    _, info = sync.reset(seed=0)
    assert [name for name, values in info.items() if values.dtype == object] == []
    sync.close()
    env.close()


def test_sb3s_check_env_only_finds_that_the_planes_are_no_photograph() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env_sb3(make())
    # SB3 takes any uint8 [C, H, W] for an image; its CnnPolicy is not meant for 8 x 8 boards.
    harmless = ("image", "CnnPolicy", "channels")
    assert [w for w in caught if not any(word in str(w.message) for word in harmless)] == []


def test_a_game_survives_gym_make_with_its_wrappers() -> None:
    env = gym.make("chess_env:ChessSelfPlay-v0", evaluator="none", max_plies=3)
    obs, info = env.reset(seed=0)
    assert obs in env.observation_space
    for ply in range(1, 4):
        action = env.action_space.sample(mask=info["action_mask"])
        obs, _, terminated, truncated, info = env.step(action)
        assert (terminated, truncated, info["ply"]) == (False, ply == 3, ply)
    assert env.unwrapped.evaluator_id == "none"  # type: ignore[attr-defined]
    env.close()


def test_the_first_observation_shows_all_men_from_the_movers_side() -> None:
    env = make()
    obs, info = env.reset(seed=0)
    assert obs.dtype == np.uint8 and obs.shape == (len(PLANES), 8, 8)
    assert obs[PLANE_INDEX.mover_pawn : PLANE_INDEX.opponent_king + 1].sum() == 32
    # Both kings on the e-file, the mover's below.
    assert obs[PLANE_INDEX.mover_king, 0, 4] == 1 and obs[PLANE_INDEX.opponent_king, 7, 4] == 1
    assert all((obs[i] == 1).all() for i, plane in enumerate(PLANES) if "_castles_" in plane.name)
    assert (info["turn"], info["ply"], info["phase"], info["num_legal"]) == (1, 0, 0, 20)
    obs, *_, info = play(env, "e2e4")
    assert info["turn"] == 0 and obs[PLANE_INDEX.opponent_king, 7, 4] == 1
    # White's e4 pawn, seen from Black's side: fifth row.
    assert obs[PLANE_INDEX.opponent_pawn, 4, 4] == 1


def test_observations_masks_and_phases_equal_the_rules_core_in_a_random_game() -> None:
    env = make()
    record = play_randomly(env, seed=0)
    assert len(record) > 20
    replay = env.board.root()
    for (obs, *_, info), move in zip(record, [*env.board.move_stack, None], strict=True):
        board = chess.Board(replay.fen())
        packed = pack_board(board)[None]
        occurrences = env_occurrences(env.board, info["ply"])
        np.testing.assert_array_equal(
            obs, encode_batch(packed, np.array([occurrences - 1], np.uint8))[0]
        )
        assert info["phase"] == phase_batch(packed)[0]
        legal = sorted(move_to_action(move, board.turn) for move in board.legal_moves)
        assert np.flatnonzero(info["action_mask"]).tolist() == legal
        assert info["legal_ids"][: info["num_legal"]].tolist() == legal
        assert (info["legal_ids"][info["num_legal"] :] == -1).all()
        if move is not None:
            replay.push(move)
    assert replay.fen(en_passant="legal") == env.fen()


def env_occurrences(final: chess.Board, ply: int) -> int:
    """How often the position after `ply` plies of a game had then occurred, by python-chess."""
    board = final.root()
    for move in final.move_stack[:ply]:
        board.push(move)
    count = 1
    while board.is_repetition(count + 1):
        count += 1
    return count


def test_action_masks_agree_with_the_info_and_nothing_shares_memory() -> None:
    env = make()
    _, info = env.reset(seed=0)
    np.testing.assert_array_equal(env.action_masks(), info["action_mask"].astype(bool))
    _, again = env.reset(seed=0)
    for key in ("action_mask", "legal_ids"):
        assert not np.shares_memory(info[key], again[key])


def test_a_reset_without_seed_goes_on_with_the_stream() -> None:
    env = make(start_positions="random_plies:4-8")

    def starts() -> list[str]:
        return [(env.reset(seed=seed), env.fen())[1] for seed in (3, None, None, None, None)]

    fens = starts()
    assert len(set(fens)) == 5
    assert starts() == fens


def test_the_default_reward_is_minus_the_next_value_minus_this_one() -> None:
    env = make(evaluator=MaterialEvaluator())
    _, info = env.reset(options={"fen": "4k3/8/8/3q4/4P3/8/8/4K3 w - - 0 1"})
    assert info["score_cp"] == 100 - 900
    assert info["reward_win_prob_delta"] == 0
    _, reward, terminated, _, info = play(env, "e4d5")
    assert not terminated and info["score_cp"] == -100
    assert reward == float(-value(-100) - value(-800)) > 0.9
    assert info["reward_win_prob_delta"] == reward


def test_mate_is_worth_1_to_the_mating_side_and_ends_the_game() -> None:
    env = make(evaluator=MaterialEvaluator(), reward={"win_prob_delta": 1, "outcome": 10})
    env.reset(options={"fen": "6k1/5ppp/8/8/8/8/8/R3K3 w - - 0 1"})
    _, reward, terminated, truncated, info = play(env, "a1a8")
    assert (terminated, truncated) == (True, False)
    assert info["status"] == CHECKMATE and info["score_cp"] == -10_000
    assert info["num_legal"] == 0 and info["action_mask"].sum() == 0
    assert info["reward_outcome"] == 1
    assert reward == float(np.float32(1 - value(200)) + np.float32(10))


def test_a_draw_has_value_0_however_good_the_position_looked() -> None:
    env = make(evaluator=MaterialEvaluator())
    env.reset(options={"fen": "7k/8/6K1/8/8/8/8/5Q2 w - - 0 1"})
    _, reward, terminated, _, info = play(env, "f1f7")
    assert terminated and info["status"] == STALEMATE and info["score_cp"] == 0
    assert reward == float(-value(900))


def test_without_an_engine_only_the_outcome_is_paid_and_no_score_is_shown() -> None:
    env = make()
    env.reset()
    for uci in ("f2f3", "e7e5", "g2g4"):
        _, reward, _, _, info = play(env, uci)
        assert reward == 0 and "score_cp" not in info
    _, reward, terminated, _, info = play(env, "d8h4")
    assert terminated and reward == 1 and info["reward_outcome"] == 1


def test_regret_compares_the_move_with_the_best_one() -> None:
    env = make(evaluator=MaterialEvaluator(), reward="regret")
    fen = "4k3/8/8/3q4/4P3/8/8/4K3 w - - 0 1"
    env.reset(options={"fen": fen})
    assert play(env, "e4d5")[1] == 0
    env.reset(options={"fen": fen})
    assert play(env, "e4e5")[1] == float(value(-800) - value(100))


def test_the_evaluator_is_asked_once_per_step() -> None:
    evaluator = MaterialEvaluator()
    env = make(evaluator=evaluator)
    env.reset()
    for number, uci in enumerate(SHUFFLE, start=2):
        play(env, uci)
        assert evaluator.calls == number
