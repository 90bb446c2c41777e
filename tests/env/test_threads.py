"""Threads change no result, and none is left."""

from __future__ import annotations

import gc
import multiprocessing
import threading
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import chess_env
from chess_env.threads import MANY_THREADS, Threads

BOARDS = 1_100  # enough for two parts of everything that is divided


def boards(num_threads: int | None, **settings: Any) -> Any:
    arguments = {"evaluator": "builtin", "start_positions": "random_plies:0-40", "max_plies": 2}
    return gym.make_vec(
        chess_env.ENV_ID, num_envs=BOARDS, num_threads=num_threads, **(arguments | settings)
    )


def ours() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("chess-env")]


def played(vec: Any, plies: int = 3) -> list[Any]:
    """Everything that the environment says while games go on and end, copied."""
    said, rng = [vec.reset(seed=3)], np.random.default_rng(0)
    for _ in range(plies):
        info = said[-1][-1]
        draws = rng.random((BOARDS, 2)) * info["num_legal"][:, None]
        actions = np.take_along_axis(info["legal_ids"], draws.astype(np.int64), 1)
        scored = vec.score_actions(actions)
        said.append((scored, *vec.step(actions[:, 0])))
    return said


def assert_same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(found, dict):
        assert found.keys() == expected.keys()
        for name in found:
            assert_same(found[name], expected[name])
    elif isinstance(found, tuple | list):
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("observation", ["planes", "positions"])
def test_threads_change_nothing_that_the_environment_says(observation: str) -> None:
    seen = []
    for num_threads in (1, 2, 3, 4):
        vec = boards(num_threads, observation=observation, move_facts=True)
        seen.append(played(vec))
        assert bool(ours()) is (num_threads > 1)
        vec.close()
        assert not ours()
    for other in seen[1:]:
        assert_same(other, seen[0])


def test_an_array_that_the_caller_holds_is_not_written_again() -> None:
    held, twin = boards(1, evaluator="none", move_facts=True), boards(2, evaluator="none")
    kept, rng = [], np.random.default_rng(1)
    observations, info = held.reset(seed=5)
    twin.reset(seed=5)
    for _ in range(4):
        # A part of an array, by way of another view of it, holds it too.
        kept.append((observations[1:].view(np.int8), info["move_facts"][::2], info["action_mask"]))
        kept.append(tuple(array.copy() for array in kept[-1]))
        slots = (rng.random(BOARDS) * info["num_legal"]).astype(np.int64)
        actions = info["legal_ids"][np.arange(BOARDS), slots]
        observations, *_, info = held.step(actions)
        same, *_ = twin.step(actions)
        np.testing.assert_array_equal(observations, same)
    for array, copy in zip(kept[::2], kept[1::2], strict=True):
        assert_same(array, copy)
    held.close()
    twin.close()


def test_the_last_observations_hold_nothing_but_games_that_ended() -> None:
    # An opponent that moves first in half of the games has them end at different steps.
    vec = boards(2, evaluator="none", move_facts=True, max_plies=3, opponent="random")
    ended = 0
    _, info = vec.reset(seed=2)
    for _ in range(6):
        *_, info = vec.step(info["legal_ids"][:, 0].astype(np.int64))
        if "final_obs" in info:
            left_out = ~info["_final_obs"]
            assert left_out.any()
            for array in (info["final_obs"], info["final_info"]["move_facts"]):
                assert not array[left_out].any()
                array[:] = 1  # the next ones are other arrays
            ended += len(left_out) - left_out.sum()
    assert ended
    vec.close()


def in_a_child(vec: Any, answer: Any) -> None:
    answer.send([np.asarray(step[-2]).sum() for step in played(vec, 1)[1:]])


def test_the_child_of_a_fork_starts_threads_of_its_own() -> None:
    vec = boards(2)
    expected = [np.asarray(step[-2]).sum() for step in played(vec, 1)[1:]]
    assert ours()
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe()
    child = context.Process(target=in_a_child, args=(vec, theirs))
    child.start()
    assert mine.poll(60), "the child waits for threads that it does not have"
    assert mine.recv() == expected
    child.join(10)
    assert child.exitcode == 0
    vec.close()


def test_the_parts_are_all_rows_in_their_order() -> None:
    threads = Threads(3)
    for rows, least, number in ((0, 8, 1), (15, 8, 1), (16, 8, 6), (1000, 8, 9), (7, 1, 3)):
        parts = threads.over(rows, lambda part: part, least=least)
        assert len(parts) == number
        assert [row for part in parts for row in range(rows)[part]] == list(range(rows))
    threads.close()
    many = Threads(MANY_THREADS)
    assert len(many.over(1000, lambda part: part, least=8)) == MANY_THREADS
    many.close()
    assert not ours()


def test_a_part_of_a_thread_that_is_late_is_done_by_another() -> None:
    threads, last_is_done = Threads(2), threading.Event()

    def run(part: slice) -> bool:
        if part.stop == 64:
            last_is_done.set()
        # The first part of the same thread.
        return part.start != 32 or last_is_done.wait(60)

    assert threads.over(64, run, least=1) == [True] * 6
    threads.close()


def test_threads_that_nobody_closes_end_with_their_owner() -> None:
    threads = Threads(3)
    threads.over(64, lambda part: part, least=1)
    left = ours()
    assert len(left) == 2
    del threads
    gc.collect()
    for thread in left:
        thread.join(60)
        assert not thread.is_alive()


def failing(part: slice) -> None:
    if part.start:
        raise KeyError(f"of the part from {part.start}")


def test_the_first_error_in_a_part_is_the_callers_and_the_threads_go_on() -> None:
    threads = Threads(2)
    with pytest.raises(KeyError, match="of the part from 20"):
        threads.over(64, failing, least=1)
    assert sum(threads.over(64, lambda part: part.stop - part.start, least=1)) == 64
    threads.close()


@pytest.mark.parametrize("make", [Threads, lambda number: boards(number, evaluator="none")])
@pytest.mark.parametrize("number", [0, -1, 1.5, True, "2"])
def test_a_number_of_threads_that_is_none_is_refused(
    make: Callable[[Any], object], number: Any
) -> None:
    with pytest.raises(ValueError, match=r"num_threads is .*: expected a whole number from 1 on"):
        make(number)
