"""What docs/causes.md and its pages say is what was measured, and a matrix of causes is recorded rightly."""

from __future__ import annotations

import re
from typing import Any

import pytest

from algorithms.collapse import CAUSES, COMPOSITES
from algorithms.collapse.cause import Cause
from benchmarks.records import causes as causes_record
from docs.pages import ROOT
from docs.pages import causes as page

CURVE = {"moves": [0, 1024], "regret_cp": [300.0, 200.0], "entropy": [2.0, 1.0]}


def result(cause: Cause, named: list[str], **readings: float | None) -> dict[str, Any]:
    """What a run of the cause could have written; readings that are not given are 0."""
    asked = [each.reading for each in (*cause.predicates, *cause.published)]
    said = [{"name": name, "evidence": f"{name} was measured"} for name in named]
    return {
        "readings": {name: readings.get(name, 0.0) for name in asked},
        "diagnosis": {"verdict": "impaired" if named else "healthy", "causes": said},
        "result": {"wall_s": 30.0},
        "curve": CURVE,
        "commit": "abc",
    }


def matrix(network: str = "resnet") -> dict[str, Any]:
    """All causes on two seeds."""
    causes = {}
    for name, first in CAUSES.items():
        cause = first.on_network(network)
        sides = {
            "on": [result(cause, [cause.doctor_class]) for _ in range(2)],
            "cured": [result(cause, []), result(cause, [])],
        }
        causes[name] = causes_record.record(cause, sides)
    composites = {
        name: causes_record.record(cause, {"on": [result(cause, ["no_signal"]), None]})
        for name, cause in COMPOSITES.items()
    }
    return {
        "settings": {
            "network": network, "seeds": [1, 2], "seeds_from": None, "composite_seeds": [1, 2],
            "jobs": 2, "commit": "abc",
        },
        "machine": {"processor": "a processor", "cores": 2},
        "failed": ["xkbkwo4s-on-2"],
        "causes": causes,
        "composites": composites,
        "wall": {**causes_record.wall(causes), "elapsed_s": 600.0},
    }  # fmt: skip


def test_a_predicate_is_judged_against_the_twin_of_the_same_seed_and_a_broken_run_fails_it() -> (
    None
):
    cause = CAUSES["update_epochs"]  # ess below .5 and .3 apart, entropy below .55 and .25 apart
    ess, entropy = "median ratio/ess", "last eval/entropy"
    on = [result(cause, [], **{ess: v, entropy: 0.5}) for v in (0.4, 0.4, 0.6, 0.1)]
    twins = [result(cause, [], **{ess: v, entropy: 1.0}) for v in (0.9, 0.6, 0.95)]
    ess_held, entropy_held = causes_record.held(cause, {"on": on, "cured": [*twins, None]})
    assert ess_held["holds"] == [True, False, False, False]  # .2 apart; not below; no twin
    assert entropy_held["holds"] == [True, True, True, False]


DOCS = ROOT / "docs"


def test_every_class_of_several_causes_is_explained_and_every_cause_has_a_page() -> None:
    classes = [cause.doctor_class for cause in CAUSES.values()]
    overview = (DOCS / "causes.md").read_text(encoding="utf-8")
    explained = re.findall(r"^\*\*(\w+)\*\* \(`", overview, re.MULTILINE)
    assert {name for name in classes if classes.count(name) > 1} == set(explained)
    for name in CAUSES:
        start = f"# {name}\n\n<!-- table causes.section {name} -->\n"
        assert (DOCS / "causes" / f"{name}.md").read_text(encoding="utf-8").startswith(start)
    earlier = (DOCS / "causes" / "earlier_runs.md").read_text(encoding="utf-8")
    assert re.findall(r"^<!-- table causes\.composite (\w+) -->$", earlier, re.MULTILINE) == list(
        COMPOSITES
    )


def test_a_cause_that_did_not_hold_on_every_seed_is_said_to_be_not_reproduced() -> None:
    for name, found in page.matrix("causes")["causes"].items():
        if causes_record.held_together(found) < len(found["curves"]["on"]):
            text = (DOCS / "causes" / f"{name}.md").read_text(encoding="utf-8")
            assert "**Not reproduced:**" in text, name


def test_the_readme_counts_the_faults_as_the_matrices_do() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (said,) = re.findall(r"On `move_net`[^.]* no harm[^.]*", readme)
    resnet, move_net = re.findall(r"(\d+) make .*?(\d+) more .*?(\d+) do no harm", page.counted())
    assert re.findall(r"\d+", said) == [*move_net, *resnet]


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of the recorded matrices."""
    monkeypatch.setattr(
        page, "matrix", {"causes": matrix(), "causes_move_net": matrix("move_net")}.__getitem__
    )


@pytest.mark.usefixtures("made_up")
def test_the_page_says_what_failed_and_what_was_missed() -> None:
    said = page.how_it_was_run("causes")
    assert "| pairs | 34 of 17 faults |\n| seeds | 1, 2 |\n| commit | `abc` |" in said
    assert "| broken runs | xkbkwo4s-on-2 |" in said
    assert "| 2 | broken run | broken run | broken run |" in page.composite("xkbkwo4s")
    assert "All predicates hold for 0 of 2 seeds." in page.section("kl_trap")


@pytest.mark.usefixtures("made_up")
def test_the_matrix_on_another_network_stands_beside_the_first() -> None:
    row = "| [low_precision](causes/low_precision.md) | no harm | no harm |"
    assert row in page.overview()
    assert page.counted().endswith("was seen on every seed in 0 of 34 cases.")
    assert "| kl_trap | `last eval/entropy` |" in page.other_bounds()


def test_a_matrix_of_other_causes_or_predicates_is_refused() -> None:
    short = matrix()
    del short["causes"]["kl_trap"]
    with pytest.raises(ValueError, match=r"causes.json and the code differ .*kl_trap"):
        page.check("causes", short)
    for network in ("resnet", "move_net"):
        old = matrix(network)
        old["causes"]["kl_trap"]["predicates"][0]["predicate"] = "late reg/kl_old above 9"
        with pytest.raises(
            ValueError, match=f"kl_trap: the matrix on {network} was made with other"
        ):
            page.check("causes", old)
