"""A run ends with a sentence on what was learned, says that it ends, and fits 80 columns."""

from __future__ import annotations

import pytest

from algorithms.run_folder.stopping import Stop
from algorithms.training.result import learned


@pytest.mark.parametrize(
    ("start", "end", "told_apart", "says"),
    [
        (384.7, 99.8, True, "Learned: on positions kept out of training a move costs 99.8 "
         "centipawns on average, down from 384.7."),
        (99.8, 384.7, True, "Got worse: on positions kept out of training a move costs 384.7 "
         "centipawns on average, up from 99.8."),
        (384.7, 384.5, True, "Hardly anything learned yet: on positions kept out of training a move "
         "costs 384.5 centipawns on average, and 384.7 before."),
        (384.7, 384.2, False, "Nothing can be said to be learned: on positions kept out of training "
         "a move costs 384.2 centipawns, and 384.7 before."),
    ],
)  # fmt: skip
def test_one_sentence_says_what_was_learned(
    start: float, end: float, told_apart: bool, says: str
) -> None:
    lines = learned(start, end, told_apart=told_apart)
    assert " ".join(line.strip() for line in lines) == says
    assert max(map(len, lines)) <= 80


def test_a_stop_is_said_once() -> None:
    said: list[str] = []
    stop = Stop()
    assert not stop.asked(said.append) and said == []
    stop.name = "SIGINT"
    assert stop.asked(said.append) and stop.asked(said.append)
    assert said == ["SIGINT: a last evaluation and a checkpoint, then the end (once more: at once)"]
