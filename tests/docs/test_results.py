"""The tables of docs/results.md say what the committed results say."""

from __future__ import annotations

from typing import Any

import pytest

from docs.pages import results


def row(**changes: Any) -> dict[str, Any]:
    values = {"games": 400, "greedy_regret_cp": 50.0, "random_score": 0.99, "material_score": 0.97}
    return values | changes


def against_random(**draws: int) -> list[dict[str, Any]]:
    other = {"opponent": "material", "draw_causes": {"stalemate": 9, "threefold_repetition": 9}}
    return [other, {"opponent": "random", "draw_causes": draws}]


def test_each_line_of_what_is_wanted_holds_at_its_bound_and_fails_beyond_it() -> None:
    at_bounds = results.wanted(row(), against_random(threefold_repetition=2))
    assert [held for _, _, held in at_bounds] == [True] * 5
    beyond = row(greedy_regret_cp=50.1, random_score=0.989, material_score=0.969)
    draws = against_random(threefold_repetition=3, stalemate=1)
    assert [held for _, _, held in results.wanted(beyond, draws)] == [False] * 5


def test_the_arms_of_a_comparison_are_lines_with_a_figure_for_each_seed() -> None:
    def arm(name: str, seed: int, regret_cp: float) -> dict[str, Any]:
        regrets = {"eval/regret_cp": regret_cp, "eval/regret_cp_greedy": regret_cp / 2}
        return {"arm": name, "seed": seed, "cpu_s": 60 * seed, "eval/entropy": 0.5, **regrets}

    rows = [arm(name, seed, 100.0 + seed) for seed in (1, 2) for name in ("pretrained", "rl")]
    assert results.arms_table(rows).splitlines()[2:] == [
        "| pretrained | 101.0, 102.0 | 50.5, 51.0 | 0.50, 0.50 | 1, 2 |",
        "| then RL | 101.0, 102.0 | 50.5, 51.0 | 0.50, 0.50 | 1, 2 |",
    ]


def test_a_difference_is_better_worse_or_not_told_apart() -> None:
    def verdict(low: float, high: float) -> str:
        row = {
            "control": "continued", "metric": "eval/regret_cp", "difference_cp": (low + high) / 2,
            "low": low, "high": high, "rl_is_better": high < 0,
        }  # fmt: skip
        return results.differences_table([row]).splitlines()[2].split("|")[4].strip()

    found = [verdict(-9, -1), verdict(-1, 1), verdict(1, 9)]
    assert found == ["yes", "not told apart", "**no**"]


def ply(**changes: Any) -> dict[str, Any]:
    start = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
    return {
        "fen": start,
        "by_policy": True,
        "san": "e4",
        "score_cp": 30,
        "probability": 0.5,
        "best_san": "d4",
        "best_score_cp": 90,
    } | changes


def test_the_game_says_what_a_better_move_was_worth_and_what_was_answered() -> None:
    rows = [ply(), {"fen": "", "by_policy": False, "san": "e5", "score_cp": 0}, {"fen": ""}]
    assert (
        results.game_table(rows).splitlines()[2]
        == "| 1. e4 | 0.50 | +0.3 | d4 (60 cp better) | e5 |"
    )
    same = [ply(best_san="e4", best_score_cp=30), {"fen": ""}]
    assert results.game_table(same).splitlines()[2] == "| 1. e4 | 0.50 | +0.3 | the same |  |"


@pytest.mark.parametrize(
    ("score_cp", "said"),
    [
        (10_000, "mate"),
        (9_997, "mates in 3 plies"),
        (-9_998, "is mated in 2 plies"),
        (-150, "-1.5"),
    ],
)
def test_scores_are_pawns_and_mates_count_plies(score_cp: int, said: str) -> None:
    assert results.score(score_cp) == said


def test_the_first_large_lead_is_the_board_after_the_move_that_made_it() -> None:
    rows = [ply(score_cp=100), ply(score_cp=600), {"fen": "after"}, {"fen": "end"}]
    assert results.first_lead(rows)["fen"] == "after"
    assert results.first_lead([ply(score_cp=0), {"fen": "end"}])["fen"] == "end"
