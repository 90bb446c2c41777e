"""Cutting a question into batches, and what becomes of a batch whose worker is slow or lost."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chess_env.evaluators.cluster.batches import LARGEST, LEAST, SMALLEST, Batch, Question


@given(st.integers(0, 3000), st.integers(1, 64))
def test_the_batches_cover_every_row_once_and_in_order(count: int, workers: int) -> None:
    question = Question(count, workers)
    while batch := question.take():
        question.answer(batch, "scores")
    rows = [row for batch in question.taken for row in range(batch.start, batch.stop)]
    assert rows == list(range(count))
    assert not question.open


def test_batches_are_large_at_first_and_small_at_the_end() -> None:
    question = Question(10_000, workers=2)
    sizes = []
    while batch := question.take():
        sizes.append(batch.stop - batch.start)
    assert sizes[0] == LARGEST
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-2] == SMALLEST


def test_many_workers_share_a_short_question() -> None:
    question = Question(128, workers=64)
    sizes = []
    while batch := question.take():
        sizes.append(batch.stop - batch.start)
    assert sizes == [LEAST] * 32


def test_a_lost_batch_is_handed_out_before_new_ones() -> None:
    question = Question(100, workers=1)
    first, _ = question.take(), question.take()
    assert first is not None
    question.lose(first)
    assert question.take() is first
    assert first.lost == 1 and first.held == 1


def test_a_late_batch_goes_to_a_second_worker_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    question, now = Question(LEAST, workers=1), time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    batch = question.take()
    assert batch is not None
    assert question.take_late(0.001) is None
    now += 1.0 + 4 * LEAST * 0.001 + 0.001
    assert question.take_late(None) is None  # nothing is known of how long one takes
    assert question.take_late(0.001) is batch
    now += 100.0
    assert question.take_late(0.001) is None


def test_the_first_answer_to_a_batch_counts_and_the_second_changes_nothing() -> None:
    question = Question(LEAST, workers=1)
    batch = question.take()
    assert isinstance(batch, Batch)
    batch.held = 2
    question.answer(batch, "first")
    assert not question.open
    question.answer(batch, "second")
    assert batch.reply == "first" and question.answered == LEAST and batch.held == 0


def test_a_batch_with_an_answer_is_not_asked_again_when_its_second_worker_ends() -> None:
    question = Question(LEAST, workers=1)
    batch = question.take()
    assert batch is not None
    batch.held = 2
    question.answer(batch, "scores")
    question.lose(batch)
    assert question.take() is None
