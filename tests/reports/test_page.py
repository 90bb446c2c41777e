from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import pytest

from algorithms.reports.page import (
    MoveChance,
    PageNotes,
    PolicyPicture,
    Probe,
    build_page,
    comparison_file,
    read_claims,
)
from algorithms.reports.run_files import RunFileError, RunRecord, read_run
from algorithms.reports.tasks import flatten
from tests.reports.page_text import Tags, text_of
from tests.reports.run_folders import (
    ENVIRONMENT,
    config,
    learning_rows,
    row,
    run_of,
    write_run,
)

EVIL = '"><script>alert(1)</script><img src=x onerror=alert(2)>'


@pytest.fixture
def four_runs(tmp_path: Path) -> list[RunRecord]:
    runs = []
    for preset, end in (("grpo", 200.0), ("rloo", 100.0)):
        for seed in (1, 2):
            folder = tmp_path / f"{preset}-{seed}"
            write_run(folder, learning_rows(end), config(preset, seed))
            runs.append(read_run(folder))
    return runs


def test_the_page_asks_for_nothing_and_runs_nothing(four_runs: list[RunRecord]) -> None:
    page = build_page("runs", four_runs)
    tags = Tags(page)
    assert tags.open == []
    assert {"script", "link", "img", "iframe", "object", "embed", "base", "form"}.isdisjoint(
        tag for tag, _ in tags.found
    )
    attributes = [(name, value) for _, found in tags.found for name, value in found.items()]
    assert [
        name for name, _ in attributes if name.startswith("on") or name in ("src", "style")
    ] == []
    assert all(value.startswith("#") for name, value in attributes if name == "href")
    assert re.findall(r"(?:https?:)?//|url\(|@import", page) == []
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert f'content="{policy}"' in page


def test_the_headline_says_who_ended_where_and_how_many_seeds_there_are(
    four_runs: list[RunRecord],
) -> None:
    text = text_of(build_page("runs", four_runs))
    assert "4 runs in 2 columns. Lowest held-out regret at the end: rloo, 100 centipawns" in text
    assert "With 2 seeds in a column, a difference between columns may be chance" in text
    assert "400 → 100 25% of the start" in text
    assert "3.00 → 2.00" in text


def test_one_run_is_told_by_itself_beside_its_preset(tmp_path: Path) -> None:
    run = run_of(tmp_path / "a", ent_coef=0.35)
    presets = {str(run.path): flatten(config(ent_coef=0.1, seed=9))}
    text = text_of(build_page("a", [run], PageNotes(presets=presets)))
    assert "Held-out regret fell from 400 to 100 centipawns per move." in text
    assert "Held-out entropy fell from 3.00 to 2.00 nats." in text
    assert "setting the preset grpo regularizer.ent_coef 0.1 0.35 " in text
    assert "No probe positions are on record." in text
    assert "No diagnosis was made" in text
    assert "5c299d56d63d with changes the built-in evaluator (v1) (builtin-v1) cpu" in text
    assert "chess-lab train grpo --seed 1" in text


def test_html_in_any_name_or_value_is_inert(tmp_path: Path) -> None:
    folder = write_run(
        tmp_path / "a",
        [*learning_rows(), row(6, **{f"grad_share/{EVIL}": 0.5, EVIL: 1.0})],
        config(f"../{EVIL}", cause=EVIL, **{EVIL: EVIL}),
        ENVIRONMENT | {"evaluator": EVIL, "command": [EVIL], "packages": {EVIL: EVIL}, "git": EVIL},
    )
    run = read_run(folder, f"../../{EVIL}")
    cause = {name: EVIL for name in ("name", "evidence", "remedy", "confirm")}
    cause |= {"confidence": 0.5, "harmful": True, "size": 1.0, "since_update": 1}
    untold = {"name": EVIL, "missing": [EVIL], "because": EVIL, "logged_by": EVIL}
    outcome = {"learning": EVIL, "entropy": EVIL, "notes": [EVIL], "regret_cp": None,
               "regret_change_95": None, "entropy_nats": None}  # fmt: skip
    diagnosis = {
        "verdict": EVIL, "outcome": outcome, "causes": [cause], "cannot_tell": [untold],
        "ruled_out": [{"name": EVIL, "because": EVIL}], "notes": [EVIL],
        "stages": {"measured": 3, "lost": [{"stage": EVIL, "since_update": 1, "kept": 0.5}]},
    }  # fmt: skip
    policy = PolicyPicture(0, 1.0, [MoveChance(0, 8, EVIL, 0.5)])
    probe = Probe(EVIL, "8/8/8/8/8/8/8/R7 w", 3, policy, policy)
    where = str(folder)
    page_notes = PageNotes(
        diagnoses={where: diagnosis},
        probes={where: [probe]},
        presets={where: {EVIL: EVIL}},
        notes=[EVIL],
    )
    tags = Tags(build_page(EVIL, [run, run_of(tmp_path / "b")], page_notes))
    assert tags.open == []
    assert tags.count("script") == tags.count("img") == 0
    assert not any("onerror" in found for _, found in tags.found)


def test_pictures_of_positions_name_the_command_that_shows_more_of_them(tmp_path: Path) -> None:
    run = run_of(tmp_path / "a run")
    policy = PolicyPicture(0, 1.0, [MoveChance(0, 8, "a1a2", 0.5)])
    probes = {str(run.path): [Probe("endgame", "8/8/8/8/8/8/8/R7 w", 3, policy, policy)]}
    text = text_of(build_page("a", [run], PageNotes(probes=probes)))
    assert f"chess-lab board '{run.path}'" in text
    assert "chess-lab board" not in text_of(build_page("a", [run]))


def test_a_metric_nobody_has_is_a_sentence_and_no_empty_chart(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "a", [row(0), row(1, other__metric=1.0)], config()))
    page = build_page("a", [run])
    assert "<svg" not in page
    text = text_of(page)
    assert "Held-out regret (eval/regret_cp): not on record in any run." in text
    assert "eval/entropy and eval/regret_cp are not both on record" in text
    assert "Share of the gradient (grad_share/…): not on record" in text
    assert "neither regret nor entropy can be told" in text


def test_nulls_alone_draw_nothing_and_among_numbers_leave_a_gap(tmp_path: Path) -> None:
    rows = [row(i, reg__kl_old=None, eval__entropy=None if i == 2 else 3.0) for i in range(5)]
    text = text_of(build_page("a", [read_run(write_run(tmp_path / "a", rows, config()))]))
    assert "(reg/kl_old): not on record in any run." in text
    assert "A gap is a value that was not finite." in text
    assert "6 values are null" in text


def test_a_page_without_a_run_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one"):
        build_page("a", [])


def test_claims_of_a_comparison_are_shown_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    assert comparison_file(tmp_path) is None
    quantity = {"quantity": "final regret", "claims": ["nothing: <b>"], "not_compared": ["a | b"]}
    family = {"seeds": [1, 2], "quantities": [quantity], "left_out": []}
    values = {"families": {"none": family}, "broken": [{"cell": "c", "reason": "r"}], "mixed": [],
              "controls": [], "tuning_says": "not tuned"}  # fmt: skip
    import json

    path = tmp_path / "comparison.json"
    path.write_text(json.dumps(values))
    assert comparison_file(tmp_path) == path
    claims = read_claims(path)
    assert [(c.subject, list(c.sentences)) for c in claims] == [
        ("final regret (2 seeds)", ["nothing: <b>", "a | b"]),
        ("Broken runs", ["c: r"]),
        ("Learning rates", ["not tuned"]),
    ]
    page = build_page("a", [run_of(tmp_path / "a")], PageNotes(claims=claims))
    assert "nothing: &lt;b&gt;" in page
    for damaged in ("{", '{"families": 3}', "[]"):
        path.write_text(damaged)
        with pytest.raises(RunFileError, match=r"comparison\.json"):
            read_claims(path)
