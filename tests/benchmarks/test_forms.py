"""The forms of the vector environment: all callers draw the same moves, and pages say what was not measured."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.forms.__main__ import COMPARISONS, ROOT, compared
from benchmarks.forms.player import CALLERS
from docs.pages import benchmarks as page
from tests.env.vector_play import NUM_ENVS, make


def test_all_callers_draw_the_same_move_for_the_same_number() -> None:
    dense, bits = make(), make(mask="bits")
    rng = np.random.default_rng(0)
    _, info = dense.reset(seed=0)
    _, other = bits.reset(seed=0)
    for _ in range(60):
        told = info | {"action_mask_bits": other["action_mask_bits"]}
        uniforms = rng.random(NUM_ENVS)
        chosen = [choose(told, uniforms) for choose in CALLERS.values()]
        assert all(np.array_equal(each, chosen[0]) for each in chosen)
        *_, info = dense.step(chosen[0])
        *_, other = bits.step(chosen[0])


def test_every_comparison_begins_with_the_default_of_the_other_commit() -> None:
    for forms in COMPARISONS.values():
        assert forms[0].is_before and forms[0].options == {}
        assert not any(form.is_before for form in forms[1:])


@pytest.mark.slow
def test_the_forms_play_the_same_games_in_processes_of_their_own() -> None:
    rows = compared(ROOT, "one mask at a time", num_envs=4, plies=400, rounds=2)
    assert [row["form"] for row in rows] == [
        "default (before)",
        "observation='positions', copy=False, mask='bits'",
    ]
    assert rows[0]["ratio"] == 1.0 and rows[1]["plies_per_cpu_s"] > 0


def test_a_page_says_which_command_has_not_been_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("docs.pages", "docs.pages.benchmarks"):
        monkeypatch.setattr(f"{module}.ROOT", tmp_path)
    assert page.measured("forms", "forms --before X") == (
        "**Not measured yet**: `python -m benchmarks.forms --before X --json benchmarks/results/forms.json`"
    )
    assert page.by_table("peers", ("games", "ppo")) == {"games": "", "ppo": ""}
    (tmp_path / "benchmarks" / "results").mkdir(parents=True)
    rows = [{"table": "games", "peer": "a", "plies": 1200}, {"table": "ppo", "trainer": "b"}]
    (tmp_path / "benchmarks" / "results" / "peers.json").write_text(json.dumps({"rows": rows}))
    assert page.by_table("peers", ("games", "ppo")) == {
        "games": "| peer | plies |\n| --- | --- |\n| a | 1,200 |",
        "ppo": "| trainer |\n| --- |\n| b |",
    }
