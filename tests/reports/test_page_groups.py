"""A page of runs of several tasks: nobody wins across them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from algorithms.comparison.analysis import compare_found
from algorithms.reports.page import (
    Claims,
    PageNotes,
    build_page,
    family_claims,
    group_columns,
    read_claims,
)
from algorithms.reports.run_files import RunRecord, read_run
from tests.reports.page_text import Tags, matrices, text_of
from tests.reports.run_folders import config, learning_rows, write_run


def runs_of(folder: Path, preset: str, end: float, seeds: int = 2, **settings: object) -> list:
    """Runs of one column, seed by seed a centipawn worse."""
    runs = []
    for seed in range(1, seeds + 1):
        own = config(preset, seed, **{"total_moves": 500, **settings})
        runs.append(read_run(write_run(folder / f"seed-{seed}", learning_rows(end + seed), own),
                             f"{folder.name}/seed-{seed}"))  # fmt: skip
    return runs


@pytest.fixture
def unlike(tmp_path: Path) -> list[RunRecord]:
    return [
        *runs_of(tmp_path / "a", "grpo", 200.0),
        *runs_of(tmp_path / "b", "rloo", 100.0),
        *runs_of(tmp_path / "c", "grpo", 20.0, init_from="warm"),
    ]


def test_no_winner_is_named_across_tasks_and_each_has_its_own(unlike: list[RunRecord]) -> None:
    page = build_page("x", unlike)
    text = text_of(page)
    head = text[: text.index("Group A ")]
    assert (
        "6 runs in 2 groups that cannot be compared: they differ in start weights. A has “grpo” "
        "and “rloo” (4 runs); B has “grpo” (2 runs). So no winner is named across the groups"
    ) in head
    assert "Lowest" not in head
    assert "group runs columns start weights A 4 grpo; rloo random B 2 grpo warm" in head
    first, second = re.split("Group B start weights: warm", text[len(head) :])
    assert "4 runs in 2 columns. Lowest held-out regret at the end: rloo, 102 centipawns" in first
    assert "Held-out regret fell from 400 to 22 centipawns per move." in second
    assert "Lowest" not in second


def test_charts_do_not_mix_tasks_and_a_page_of_one_task_has_no_groups(
    unlike: list[RunRecord],
) -> None:
    page = build_page("x", unlike)
    tags = Tags(page)
    assert tags.open == []
    over_moves = r'<figure data-over="moves">\s*<figcaption><h4>Held-out regret</h4>'
    assert len(re.findall(over_moves, page)) == 2
    one = build_page("x", unlike[:4])
    assert "Group A" not in one
    assert "4 runs in 2 columns. Lowest held-out regret at the end: rloo" in text_of(one)


def found_claims(runs: list[RunRecord]) -> list[Claims]:
    claims = []
    for group in group_columns(runs):
        family = compare_found({column.name: column.runs for column in group.columns})
        claims += [] if family is None else family_claims(family, group)
    return claims


def test_each_group_has_the_matrix_of_its_own_columns(tmp_path: Path) -> None:
    runs = [
        *runs_of(tmp_path / "a", "grpo", 200.0, seeds=6),
        *runs_of(tmp_path / "b", "delightful_pg", 100.0, seeds=6),
        *runs_of(tmp_path / "c", "grpo", 20.0, total_moves=501),
    ]
    page = build_page("x", runs, PageNotes(claims=found_claims(runs)))
    entropy, regret = matrices(page)
    assert entropy[0] == regret[0] == ["", "delightful_pg"]
    assert regret[1] == ["grpo", "● +25 +25 to +25 higher: claimed"]
    assert entropy[1][1].endswith("at 60 % lower: claimed")
    assert '<th scope="col">delightful_<wbr>pg</th>' in page
    assert '<th scope="row">grpo</th>' in page
    text = text_of(page)
    assert "lower is better. The difference may be claimed. ● may" in text
    assert "Lowest held-out regret at the end: delightful_pg, 104 centipawns" in text
    assert "That it is lower may be claimed." in text
    assert "may be chance" not in text
    assert Tags(page).open == []


def test_a_comparison_keeps_its_own_pairs_under_the_names_of_the_page(tmp_path: Path) -> None:
    runs = [
        *runs_of(tmp_path / "grpo+none", "grpo", 200.0, seeds=6),
        *runs_of(tmp_path / "dr_grpo+none", "dr_grpo", 100.0, seeds=6, init_from="warm"),
    ]
    found = compare_found({"grpo+none": runs[:6], "dr_grpo+none": runs[6:]})
    values = {"families": {"regularization none": found}, "broken": [], "mixed": ["mixed: budgets"],
              "controls": [], "tuning_says": "not tuned"}  # fmt: skip
    path = tmp_path / "comparison.json"
    import json

    path.write_text(json.dumps(values))
    claims = read_claims(path, group_columns(runs))
    # The two had other start weights: the pair is shown, and not claimed.
    regret = claims[1]
    assert regret.matrix is not None and regret.group == ""
    assert regret.matrix.rows[0][1][0].verdict == "not comparable: other start weights"
    assert (regret.matrix.rows[0][0], list(regret.matrix.header)) == ("A: grpo", ["B: dr_grpo"])
    assert regret.sentences[1].startswith("A: grpo has higher final held-out regret")
    assert "than B: dr_grpo (" in regret.sentences[1]

    alike = [*runs[:6], *runs_of(tmp_path / "same" / "dr_grpo+none", "dr_grpo", 100.0, seeds=6)]
    claims = read_claims(path, group_columns(alike))
    assert [one.group for one in claims[:2]] == ["A", "A"]
    assert claims[1].sentences[1].startswith("grpo has higher final held-out regret")
    assert [one.matrix is None for one in claims] == [False, False, True, True]
    assert "grpo+none" in read_claims(path)[1].sentences[1]
