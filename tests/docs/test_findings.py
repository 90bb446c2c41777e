"""The pages of findings and open questions read the records of their benchmarks rightly."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.learning.four_algorithms import command
from benchmarks.learning.questions import QUESTIONS
from benchmarks.records.four_algorithms import Judgement
from docs.pages import findings, result
from docs.pages.writing.figures import phases, prices
from docs.pages.writing.markdown import with_network


def column(prices: dict[str, float]) -> dict[str, Any]:
    spreads = {at: {"iqm": value, "low": value, "high": value} for at, value in prices.items()}
    return {"nats_per_100_cp": spreads}


def test_a_question_without_an_answer_is_refused_and_so_is_an_answer_without_a_question() -> None:
    asked = result("questions")["questions"]
    with pytest.raises(ValueError, match=r"says nothing of \['a_new_one'\]"):
        findings.open_questions({**asked, "a_new_one": asked["sync_interval"]})
    with pytest.raises(KeyError, match="sync_interval"):
        findings.open_questions({k: v for k, v in asked.items() if k != "sync_interval"})


def test_a_recorded_command_without_a_network_is_shown_with_resnet() -> None:
    assert with_network("chess-lab compare grpo") == "chess-lab compare grpo --network resnet"
    named = "chess-lab compare grpo --network move_net --out runs/a"
    assert with_network(named) == named


def test_the_pages_show_the_commands_that_their_benchmarks_print() -> None:
    for network, name in findings.COMPARISONS.items():
        assert with_network(result(name)["command"]) == command(network)
    recorded = result("questions")["questions"]
    for question in QUESTIONS:
        assert with_network(recorded[question.name]["command"]) == question.command()


def test_a_difference_is_bold_where_its_interval_excludes_zero() -> None:
    away = {"difference": -0.5, "low": -0.7, "high": -0.3}
    assert findings.difference(away) == "**-0.50 (-0.70 to -0.30)**"
    assert findings.difference(away | {"high": 0.1}) == "-0.50 (-0.70 to +0.10)"
    assert findings.difference(None) == "–"


def test_a_claim_on_both_networks_stands_first_and_one_on_a_single_network_names_it() -> None:
    recorded = result("four_algorithms")
    # The same runs with the names of two algorithms exchanged, as if from another network.
    swapped = {"grpo": "ppo", "ppo": "grpo"}
    cells = []
    for cell in recorded["cells"]:
        name, _, treatment = cell["column"].partition("+")
        cells.append(cell | {"column": f"{swapped.get(name, name)}+{treatment}"})
    claims = findings.judged({"resnet": recorded, "other": recorded | {"cells": cells}})
    where = [each.where for each in claims]
    assert where == sorted(where, key=["both", "only on resnet", "only on other", "neither"].index)
    assert set(where) == {"both", "only on resnet", "only on other", "neither"}
    says = "PPO keeps more entropy than GRPO at equal regret"
    own = [each for each in claims if each.claim.says == says]
    assert [each.where for each in own] == ["only on resnet"] * 3
    assert "| only on resnet |" in findings.both_table(claims)
    assert findings.counts(claims)[0] == f"{where.count('both')} hold on both"
    assert findings.counts(claims)[-1].endswith("are reversed on one of them")


def test_the_margin_of_a_claim_is_bold_where_it_holds() -> None:
    holds = Judgement("holds", 0.5, 0.3, 0.7, level=40)
    assert findings.margin(holds, 2) == "**+0.50 (+0.30 to +0.70)** at 40 %"
    turned = Judgement("reversed", -5.0, -7.0, -3.0)
    assert findings.margin(turned, 1) == "-5.0 (-7.0 to -3.0) reversed"
    assert findings.margin(Judgement("cannot tell"), 1) == "not compared"


def test_a_step_size_that_broke_is_said_in_the_table_of_tuning() -> None:
    tuned = {"learning_rate": 1e-3, "percent_of_start": {"0.001": 40.0, "0.002": 50.0}}
    broke = {"learning_rate": 1e-3, "percent_of_start": {"0.001": 41.0}}
    text = findings.tuning_table({"tuning": {"grpo": tuned, "rloo": broke}})
    assert "| grpo | 0.001 | 40.0 | 50.0 |" in text and "| rloo | 0.001 | 41.0 | broken |" in text


def test_entropy_at_every_step_size_is_bold_where_the_step_size_was_chosen() -> None:
    four = {
        "families": {"regularization none": {"quantities": [{"level_percent": {"a": 40, "b": 35, "c": None}}]}},
        "tuning": {"grpo": {"learning_rate": 0.002}},
        "tuning_runs": {
            "grpo": {
                "0.001": [{"entropy_at_percent": {"35": 0.5}}, {"entropy_at_percent": {"35": None}}],
                "0.002": [{"entropy_at_percent": {"35": 0.5}}, {"entropy_at_percent": {"35": 0.7}}],
                "0.004": [],
            }
        },
    }  # fmt: skip
    text = findings.rate_table(four)
    assert "| entropy at 35 %, nats | 0.001 | 0.002 | 0.004 |" in text
    assert "| grpo | not reached | **0.60** | not reached |" in text


def test_prices_are_read_where_all_columns_of_one_pass_have_one() -> None:
    columns = {
        "grpo update_epochs=1": column({"90": 1.0, "80": 2.0, "70": 3.0}),
        "rloo update_epochs=1": column({"90": 1.0, "80": 4.0}),
        "grpo update_epochs=2": column({"90": 1.0, "80": 5.0, "70": 3.0}),
        "rloo update_epochs=2": column({}),
    }
    assert findings.price_level(columns) == 80
    text = findings.price_table(columns)
    assert "| grpo | 2.00 (2.00 to 2.00) | 5.00 (5.00 to 5.00) |" in text
    assert "| rloo | 4.00 (4.00 to 4.00) | not reached |" in text
    with pytest.raises(ValueError, match="no level of"):
        findings.price_level({"rloo update_epochs=1": column({})})


def test_figures_come_out_the_same_twice() -> None:
    run = {"regret_cp": [384.0, 200.0], "entropy": [3.4, 1.0]}
    columns = {"grpo update_epochs=1": column({"80": 2.0})}
    first, second = ((phases({"no bonus": {"grpo": [run]}}), prices(columns, 80)) for _ in range(2))
    assert first == second
    assert all("grpo" in figure for figure in first)
