"""The vector environment's own rules: info, autoreset modes, FENs, look-ahead, state, errors."""

from __future__ import annotations

import itertools
from typing import Any

import chess
import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from chess_env.moves import action_to_move, move_to_action
from chess_env.rules.rules import THREEFOLD, TWOFOLD
from chess_env.vector_env import ChessSelfPlayVectorEnv
from tests.env.material import MaterialEvaluator
from tests.env.vector_play import NUM_ENVS, choose, make

SHUFFLE_UCI = ("g1f3", "g8f6", "f3g1", "f6g8")


def test_masks_can_be_sampled_from_by_gymnasium() -> None:
    env = make()
    _, info = env.reset(seed=0)
    actions = env.action_space.sample(mask=tuple(info["action_mask"]))
    _, _, _, _, info = env.step(actions)
    assert not info["illegal_action"].any()
    assert np.array_equal(env.action_masks(), info["action_mask"].astype(bool))


def test_calls_share_no_memory() -> None:
    env = make(evaluator=MaterialEvaluator())
    rng = np.random.default_rng(0)
    observations, info = env.reset(seed=0)
    kept: list[Any] = [observations, *(v for v in info.values() if isinstance(v, np.ndarray))]
    for _ in range(3):
        observations, rewards, terminated, truncated, info = env.step(choose(info, rng, 0.0))
        new = [observations, rewards, terminated, truncated]
        new += [v for v in info.values() if isinstance(v, np.ndarray)]
        for first, second in itertools.product(kept, new):
            assert not np.shares_memory(first, second)
        kept = new


def test_next_step_autoreset_pays_zero_and_ignores_the_action() -> None:
    env = make(max_plies=2, autoreset_mode="NextStep", evaluator=MaterialEvaluator())
    assert env.metadata["autoreset_mode"] is gym.vector.AutoresetMode.NEXT_STEP
    rng = np.random.default_rng(0)
    _, info = env.reset(seed=0)
    for _ in range(2):
        _, _, _, truncated, info = env.step(choose(info, rng, 0.0))
    assert truncated.all()
    assert (info["ply"] == 2).all()
    _, rewards, terminated, truncated, info = env.step(np.full(NUM_ENVS, 1857))
    assert (info["ply"] == 0).all()
    assert not (rewards.any() or terminated.any() or truncated.any())
    assert not info["illegal_action"].any()


def test_disabled_autoreset_asks_for_a_reset_of_the_ended_boards() -> None:
    env = make(autoreset_mode="Disabled")
    _, info = env.reset(seed=0)
    actions = info["legal_ids"][:, 0].astype(int)
    actions[2] = 1857
    _, rewards, terminated, _, _ = env.step(actions)
    assert terminated.tolist() == [False, False, True, False, False]
    assert rewards[2] == -1.0
    with pytest.raises(ResetNeeded, match="2"):
        env.step(actions)
    mask = np.array([False, False, True, False, False])
    _, info = env.reset(options={"reset_mask": mask})
    assert info["ply"].tolist() == [1, 1, 0, 1, 1]


def test_each_board_starts_from_its_own_fen() -> None:
    env = make()
    board = chess.Board()
    fens = []
    for move in list(board.legal_moves)[:NUM_ENVS]:
        after = board.copy()
        after.push(move)
        fens.append(after.fen())
    _, info = env.reset(options={"fens": fens})
    assert env.fens() == fens
    before = env.get_state()
    for bad in (fens[:2], [*fens[:4], "junk"], [*fens[:4], "7k/5QK1/8/8/8/8/8/8 b - - 0 1"], "one"):
        with pytest.raises(ValueError, match=r"FEN|over|string"):
            env.reset(options={"fens": bad})
        assert np.array_equal(env.get_state()["positions"], before["positions"])


def test_illegal_actions_can_raise_and_nothing_moves() -> None:
    env = make(illegal_action="raise")
    _, info = env.reset(seed=0)
    actions = info["legal_ids"][:, 0].astype(int)
    actions[3] = 1857
    with pytest.raises(ValueError, match="action 1857 is illegal"):
        env.step(actions)
    assert (env.games.boards.ply == 0).all()
    with pytest.raises(ValueError, match="-1"):
        env.step(np.full(NUM_ENVS, -1))
    with pytest.raises(ValueError, match="whole numbers"):
        env.step(np.zeros(NUM_ENVS))


@pytest.mark.parametrize(("twofold", "last", "status"), [(False, 7, THREEFOLD), (True, 3, TWOFOLD)])
def test_repetition_is_found_after_the_eighth_ply_or_the_fourth(
    twofold: bool, last: int, status: int
) -> None:
    env = make(num_envs=1, illegal_action="raise", twofold=twofold)
    env.reset(seed=0)
    board = chess.Board()
    for ply in range(last + 1):
        move = chess.Move.from_uci(SHUFFLE_UCI[ply % 4])
        action = move_to_action(move, board.turn)
        looked = env.score_actions(np.array([[action]]))
        observations, _, terminated, _, info = env.step([action])
        board.push(move)
        assert looked["terminated"][0, 0] == terminated[0] == (ply == last)
        if ply == 3 and not twofold:
            assert observations[0, 17].min() == 1  # the second occurrence
    assert info["final_info"]["status"][0] == status


def test_score_actions_is_what_step_pays_and_asks_the_engine_once() -> None:
    evaluator = MaterialEvaluator()
    env = make(evaluator=evaluator, start_positions="random_plies:10-60", num_envs=16)
    rng = np.random.default_rng(0)
    _, info = env.reset(seed=3)
    for _ in range(40):
        candidates = np.stack([choose(info, rng, 0.0) for _ in range(4)], axis=1)
        calls = evaluator.calls
        looked = env.score_actions(candidates)
        assert evaluator.calls == calls + 1
        _, rewards, terminated, _, info = env.step(candidates[:, 0])
        assert evaluator.calls <= calls + 1 + int(terminated.any())
        assert np.array_equal(looked["rewards"][:, 0].astype(np.float64), rewards)
        assert np.array_equal(looked["terminated"][:, 0], terminated)
        after = np.where(terminated, 0, -looked["score_cp"][:, 0])
        assert np.array_equal(np.where(terminated, 0, info["score_cp"]), after)


def test_score_actions_refuses_illegal_actions_and_opponents() -> None:
    env = make(num_envs=1, evaluator=MaterialEvaluator())
    env.reset(seed=0)
    with pytest.raises(ValueError, match="illegal"):
        env.score_actions(np.array([[1857]]))
    versus = make(num_envs=1, opponent="random")
    versus.reset(seed=0)
    with pytest.raises(ValueError, match="opponent=None"):
        versus.score_actions(np.array([[0]]))


def test_score_actions_takes_one_row_of_whole_numbers_for_each_board() -> None:
    env = make(num_envs=2)
    with pytest.raises(ResetNeeded):
        env.score_actions(np.zeros((2, 1), int))
    _, info = env.reset(seed=0)
    legal = info["legal_ids"][:, :1]
    for wrong in (np.resize(legal, (4000, 1)), legal[:, 0], legal.astype(float), legal[:1]):
        with pytest.raises(ValueError, match=r"whole numbers \[2, G\]"):
            env.score_actions(wrong)


def test_score_actions_refuses_games_that_wait_for_a_restart() -> None:
    env = make(max_plies=1, autoreset_mode="NEXT_STEP")
    _, info = env.reset(seed=0)
    env.step(info["legal_ids"][:, 0])
    with pytest.raises(ResetNeeded, match="over"):
        env.score_actions(info["legal_ids"][:, :1])


class FailingEvaluator(MaterialEvaluator):
    """Material until told to fail, as an engine may."""

    fails = False

    def evaluate(self, positions: Any) -> Any:
        if self.fails:
            raise RuntimeError("no engine")
        return super().evaluate(positions)


def test_a_failed_reset_or_step_leaves_nothing_to_play_on() -> None:
    evaluator = FailingEvaluator()
    env = make(evaluator=evaluator)
    _, info = env.reset(seed=0)
    state = env.get_state()
    actions = info["legal_ids"][:, 0]
    for act in (lambda: env.reset(seed=1), lambda: env.step(actions)):
        env.set_state(state)
        evaluator.fails = True
        with pytest.raises(RuntimeError, match="no engine"):
            act()
        evaluator.fails = False
        for use in (lambda: env.step(actions), env.get_state):
            with pytest.raises(ResetNeeded):
                use()
    env.reset(seed=0)
    env.step(actions)


def test_a_restarted_board_reports_the_opening_reply_of_its_new_game() -> None:
    env = make(opponent="random", learner_color="black", max_plies=3)
    _, info = env.reset(seed=0)
    _, _, _, truncated, info = env.step(info["legal_ids"][:, 0])
    assert truncated.all()
    assert (info["ply"] == 1).all()
    assert (info["opponent_action"] >= 0).all()
    assert (info["opponent_action"] != info["final_info"]["opponent_action"]).any()
    for row, fen in enumerate(env.fens()):
        board = chess.Board()
        board.push(action_to_move(int(info["opponent_action"][row]), board))
        assert board.fen() == fen


def test_a_restored_state_goes_on_exactly() -> None:
    def run(env: ChessSelfPlayVectorEnv, info: dict[str, Any], steps: int) -> list[Any]:
        rng = np.random.default_rng(5)
        record = []
        for _ in range(steps):
            observations, rewards, *_, info = env.step(choose(info, rng, 0.02))
            record.append((observations, rewards, info["action_mask"]))
        return record

    arguments = {"start_positions": "random_plies:2-40", "evaluator": MaterialEvaluator()}
    env = make(**arguments, max_plies=8)
    _, info = env.reset(seed=1)
    run(env, info, 20)
    state = env.get_state()
    other = make(**arguments, max_plies=8)
    _, restored_info = other.set_state(state)
    _, info = env.set_state(state)
    assert np.array_equal(info["action_mask"], restored_info["action_mask"])
    for mine, theirs in zip(run(env, info, 30), run(other, restored_info, 30), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))


def test_a_state_of_another_number_of_boards_is_refused_by_its_numbers() -> None:
    few, many = make(num_envs=2), make(num_envs=5)
    few.reset(seed=0)
    many.reset(seed=0)
    before = many.fens()
    with pytest.raises(ValueError, match="the state holds 2 boards, this environment 5"):
        many.set_state(few.get_state())
    assert many.fens() == before


def test_equal_seeds_give_equal_streams_and_rows_do_not_depend_on_the_batch() -> None:
    arguments = {"start_positions": "random_plies:2-40"}
    small, large = make(num_envs=2, **arguments), make(num_envs=7, **arguments)
    for _ in range(3):
        few, _ = small.reset(seed=[11, 13])
        many, _ = large.reset(seed=[1, 2, 11, 3, 13, 4, 5])
        assert np.array_equal(few, many[[2, 4]])
        few, _ = small.reset()
        many, _ = large.reset()
        assert np.array_equal(few, many[[2, 4]])


def test_a_step_before_reset_is_refused_and_frames_are_one_per_board() -> None:
    env = make(render_mode="ansi")
    with pytest.raises(ResetNeeded):
        env.step(np.zeros(NUM_ENVS, int))
    env.reset(seed=0)
    frames = env.render()
    assert frames is not None
    assert [frame.count("r n b q k b n r") for frame in frames] == [1] * NUM_ENVS
