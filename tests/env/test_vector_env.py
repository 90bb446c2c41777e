"""The compiled vector environment against the readable single one, and its own rules."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import chess_env  # noqa: F401 - registers the environment
from chess_env.env import ChessSelfPlayEnv
from chess_env.games import arguments as games_arguments
from tests.env.material import MaterialEvaluator
from tests.env.vector_play import NUM_ENVS, choose, make


def assert_same_info(vector: dict[str, Any], row: int, single: dict[str, Any]) -> None:
    for key, value in single.items():
        assert np.array_equal(vector[key][row], value), (key, vector[key][row], value)


CONDITIONS = {
    "outcome only": {"start_positions": "random_plies:100-200"},
    "scored": {"evaluator": MaterialEvaluator, "max_plies": 100},
    "several terms": {
        "evaluator": MaterialEvaluator,
        "reward": {"cp_delta": 0.5, "regret": 1.0, "outcome": 2.0},
        "max_plies": 12,
    },
    "random starts, ply limit": {
        "evaluator": MaterialEvaluator,
        "start_positions": "random_plies:2-40",
        "max_plies": 9,
    },
    "automatic draws only": {
        "fifty_move": False,
        "threefold": False,
        "start_positions": "random_plies:200-300",
    },
    "second occurrence": {"twofold": True, "start_positions": "bare_kings"},
    "opponent": {"evaluator": MaterialEvaluator, "opponent": "random", "max_plies": 30},
    "opponent, fixed colour": {
        "opponent": "random",
        "learner_color": "black",
        "start_positions": "random_plies:0-5",
    },
    "endgames": {"start_positions": "random_plies:60-120", "evaluator": MaterialEvaluator},
}


@pytest.mark.parametrize(
    ("condition", "illegal_action"),
    [*zip(CONDITIONS, itertools.cycle(("terminate", "resample", "resample", "terminate")))],
)
def test_every_board_equals_a_single_environment_bit_by_bit(
    condition: str, illegal_action: str
) -> None:
    arguments: dict[str, Any] = CONDITIONS[condition] | {"illegal_action": illegal_action}
    evaluator = arguments.pop("evaluator", None)
    vector = make(**arguments, evaluator=evaluator() if evaluator else "none")
    singles = [
        ChessSelfPlayEnv(**arguments, evaluator=evaluator() if evaluator else "none")
        for _ in range(NUM_ENVS)
    ]
    seed = 100
    observations, info = vector.reset(seed=seed)
    for row, env in enumerate(singles):
        observation, single_info = env.reset(seed=seed + row)
        assert np.array_equal(observations[row], observation)
        assert_same_info(info, row, single_info)
    rng = np.random.default_rng(7)
    endings = 0
    for step in range(250):
        if step >= 60 and endings:
            break
        actions = choose(info, rng, illegal_share=0.02)
        observations, rewards, terminated, truncated, info = vector.step(actions)
        for row, env in enumerate(singles):
            observation, reward, ends, cut, single_info = env.step(int(actions[row]))
            assert (float(rewards[row]), bool(terminated[row]), bool(truncated[row])) == (
                reward,
                ends,
                cut,
            )
            if ends or cut:
                endings += 1
                assert info["_final_obs"][row]
                assert np.array_equal(info["final_obs"][row], observation)
                assert_same_info(info["final_info"], row, single_info)
                observation, single_info = env.reset()
                transition = ("reward_", "illegal_action", "opponent_action", "action_played")
                single_info = {k: v for k, v in single_info.items() if not k.startswith(transition)}
            assert np.array_equal(observations[row], observation)
            assert_same_info(info, row, single_info)
    assert endings > 0
    vector.close()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the evaluators that environments make."""
    names: list[str] = []

    def note(name: str, num_engines: int, num_threads: int | None) -> MaterialEvaluator:
        names.append(name)
        return MaterialEvaluator()

    monkeypatch.setattr(games_arguments, "make_evaluator", note)
    return names


@pytest.mark.parametrize("reward", ["outcome", {"outcome": 0.5}, "-2*outcome"])
def test_auto_starts_no_evaluator_where_no_reward_reads_a_score(
    reward: Any, made: list[str]
) -> None:
    arguments: dict[str, Any] = {"evaluator": "auto", "reward": reward}
    single, vector = ChessSelfPlayEnv(**arguments), make(**arguments)
    for env in (single, vector):
        _, info = env.reset(seed=0)
        assert "score_cp" not in info and env.evaluator_id == "none"
        assert [name for name in info if name.startswith("reward_")] == ["reward_outcome"]
    assert made == []


def test_an_evaluator_is_made_where_anything_reads_a_score(made: list[str]) -> None:
    starts = "0.5*initial+0.5*random_plies:2-40@balanced=900"
    for arguments in (
        {},
        {"reward": "outcome+0.1*cp_delta"},
        {"reward": "regret"},
        {"reward": "outcome", "evaluator": "builtin"},
        {"reward": "outcome", "start_positions": starts},
    ):
        made.clear()
        _, info = make(**{"evaluator": "auto", **arguments}).reset(seed=0)
        assert len(made) == 1 and "score_cp" in info
