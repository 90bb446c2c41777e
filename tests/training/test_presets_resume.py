"""A run of every preset that is stopped and continued equals one that is not."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from algorithms import PRESETS
from algorithms.config.run import RolloutConfig
from algorithms.testing.cases import forms_of
from tests.training.runs import stopped_and_straight

# The forms of rollout in turn, where they serve: what a form keeps is the same for every algorithm.
RUNS = [
    (name, form if form in forms_of(algorithm) else forms_of(algorithm)[0])
    for (name, (algorithm, _)), form in zip(
        PRESETS.items(), itertools.cycle(("positions", "games"))
    )
]


def resumed(folder: Path, name: str, form: Any) -> None:
    """Raises where the two runs do not end in the same state, to the bit, or the stopped one was not stopped early."""
    algorithm, regularizer = PRESETS[name]
    rollout = RolloutConfig(form=form, num_envs=8 if form == "positions" else 2, num_plies=2)
    group = 80 if algorithm.needs().all_moves else algorithm.group_size
    stopped_and_straight(
        folder, 1, algorithm=algorithm, regularizer=regularizer, rollout=rollout,
        total_moves=5 * rollout.num_envs * rollout.num_plies * group,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "form"), RUNS, ids=lambda part: part)
def test_a_stopped_run_of_every_preset_equals_one_that_was_not(
    tmp_path: Path, name: str, form: str
) -> None:
    resumed(tmp_path, name, form)
