from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from algorithms.comparison.analysis import analyse
from algorithms.comparison.readings import summary_of
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
from algorithms.reports.statistics import share_interval
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


def test_the_page_asks_for_nothing_and_runs_its_own_script_alone(
    four_runs: list[RunRecord],
) -> None:
    page = build_page("runs", four_runs)
    tags = Tags(page)
    assert tags.open == []
    assert tags.count("script") == 1
    assert {"link", "img", "iframe", "object", "embed", "base", "form"}.isdisjoint(
        tag for tag, _ in tags.found
    )
    attributes = [(name, value) for _, found in tags.found for name, value in found.items()]
    assert [
        name for name, _ in attributes if name.startswith("on") or name in ("src", "style")
    ] == []
    addresses = {value.partition(",")[0] for name, value in attributes if name == "href"}
    assert addresses <= {"#board-squares", "data:text/csv;charset=utf-8"}
    assert re.findall(r"(?:https?:)?//|url\(|@import", page) == []
    policy = "default-src 'none'; "
    for tag in ("style", "script"):
        text = re.search(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        policy += f"{tag}-src 'sha256-{digest}'; "
    policy += "base-uri 'none'; form-action 'none'"
    assert f'content="{policy}"' in page


def test_the_headline_says_who_ended_where_and_how_many_seeds_there_are(
    four_runs: list[RunRecord],
) -> None:
    text = text_of(build_page("runs", four_runs))
    assert "4 runs in 2 columns. Lowest held-out regret at the end: rloo, 100 centipawns" in text
    assert "With 2 seeds in a column, a difference between columns may be chance" in text
    assert "400 → 100 25.0 % of the start [25.0, 25.0]" in text
    assert "3.00 → 2.00 [2.00, 2.00]" in text
    assert "2 runs, seeds 1, 2 Interquartile means over the seeds [95 % intervals]." in text


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


def test_a_figure_s_numbers_can_be_saved_and_no_name_becomes_a_formula(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "a", learning_rows(), config("=1+1")))
    page = build_page("a", [run])
    address = re.search(r'download="Held-out regret.csv" href="([^"]*)"', page)[1]
    rows = list(csv.reader(io.StringIO(unquote(address.partition(",")[2]))))
    assert rows[0] == ["name", "moves", "eval/regret_cp", "low", "high"]
    assert {name for name, *_ in rows[1:]} == {"'=1+1"}
    looks = [
        (one["scored_moves"], one["eval/regret_cp"]) for one in run.rows if "eval/regret_cp" in one
    ]
    assert [(float(x), float(y)) for _, x, y, *_ in rows[1:]] == looks


def figures_over(page: str, over: str, title: str) -> list[str]:
    found = re.findall(rf'<figure data-over="{over}".*?</figure>', page, re.DOTALL)
    return [figure for figure in found if f"<h3>{title}</h3>" in figure]


def numbers_of(figure: str) -> list[list[str]]:
    address = re.search(r'href="data:text/csv[^,]*,([^"]*)"', figure)[1]
    return list(csv.reader(io.StringIO(unquote(address))))


def test_a_curve_is_drawn_over_moves_updates_and_seconds(tmp_path: Path) -> None:
    runs = [
        read_run(
            write_run(
                tmp_path / f"{seed}",
                [row | {"time/wall_s": pace * row["step"]} for row in learning_rows()],
                config(seed=seed),
            )
        )
        for seed, pace in ((1, 2.0), (2, 4.0))
    ]
    page = build_page("a", runs)
    for over, label, last in (
        ("moves", "moves scored", 500),
        ("updates", "updates", 5),
        ("seconds", "seconds of the run, pauses left out", 15),  # the mean of 10 and 20
    ):
        (figure,) = figures_over(page, over, "Held-out regret")
        assert f">{label}</text>" in figure
        assert (" hidden>" in figure.partition("\n")[0]) == (over != "moves")
        numbers = numbers_of(figure)
        assert numbers[0][1] == over and float(numbers[-1][1]) == last


def test_a_run_without_seconds_on_record_is_named_where_curves_are_over_seconds(
    tmp_path: Path,
) -> None:
    timed = [row | {"time/wall_s": 2.0 * row["step"]} for row in learning_rows()]
    runs = [
        read_run(write_run(tmp_path / "a", timed, config("grpo"))),
        read_run(write_run(tmp_path / "b", learning_rows(), config("rloo"))),
    ]
    (both,) = figures_over(build_page("a", runs), "seconds", "Held-out regret")
    assert "time/wall_s is not on record in: rloo." in both
    assert {name for name, *_ in numbers_of(both)[1:]} == {"grpo"}
    (alone,) = figures_over(build_page("a", runs[1:]), "seconds", "Held-out regret")
    assert "time/wall_s is not on record in: rloo." in alone and "<svg" not in alone
    assert "CSV" not in alone


def test_averages_over_seeds_are_those_that_compare_prints(tmp_path: Path) -> None:
    ends = (40.0, 100.0, 120.0, 140.0, 400.0)  # of 400, in percent: 10, 25, 30, 35, 100
    runs = [
        read_run(write_run(tmp_path / f"{seed}", learning_rows(end), config(seed=seed)))
        for seed, end in enumerate(ends)
    ]
    column = analyse(
        ["grpo"],
        {"grpo": {s: summary_of(r.rows, "grpo", s, "") for s, r in enumerate(runs)}},
        range(5),
    )
    told = column["columns"][0]["percent_of_start"]
    assert told["iqm"] == pytest.approx(0.3 * 25 + 0.4 * 30 + 0.3 * 35)
    page = build_page("a", runs)
    text = text_of(page)
    assert f"400 → 120 30.0 % of the start [{told['low']:.1f}, {told['high']:.1f}]" in text
    assert text.index("At the end") < text.index("Learning")
    address = re.search(r'download="Held-out regret at the end.csv" href="([^"]*)"', page)[1]
    _, _, middle, low, high = unquote(address).splitlines()[1].split(",")
    assert (float(middle), float(low), float(high)) == pytest.approx(
        (told["iqm"], told["low"], told["high"]), rel=1e-5
    )


def test_the_share_of_runs_that_end_so_low_is_drawn_where_a_column_has_several(
    tmp_path: Path,
) -> None:
    ends = {"grpo": (40.0, 100.0, 120.0, 400.0), "rloo": (200.0, 360.0), "ppo": (20.0,)}
    runs = [
        read_run(
            write_run(tmp_path / f"{name}-{seed}", learning_rows(end), config(name, seed=seed))
        )
        for name, column in ends.items()
        for seed, end in enumerate(column)
    ]
    page = build_page("a", runs)
    address = re.search(r'download="Share of the runs[^"]*.csv" href="([^"]*)"', page)[1]
    rows = list(csv.reader(io.StringIO(unquote(address.partition(",")[2]))))[1:]
    assert {name for name, *_ in rows} == {"grpo", "rloo"}  # one run has no share

    def share(name: str, percent: float) -> tuple[float, ...]:
        """At a threshold: the share, and its interval."""
        found = [each[2:] for each in rows if each[0] == name and float(each[1]) <= percent]
        return tuple(map(float, found[-1]))

    # grpo's ends are 10, 25, 30 and 100 % of the start, rloo's 50 and 90 %
    assert [share("grpo", at)[0] for at in (5, 10, 27, 30, 99, 100)] == [
        0,
        0.25,
        0.5,
        0.75,
        0.75,
        1,
    ]
    assert [share("rloo", at)[0] for at in (49, 50, 90, 100)] == [0, 0.5, 1, 1]
    assert share("grpo", 30)[1:] == pytest.approx(
        (share_interval(3, 4).low, share_interval(3, 4).high), rel=1e-5
    )
    assert "Share of the runs" not in build_page("a", runs[-1:])


def test_figures_with_nothing_to_say_are_sentences_or_left_out(tmp_path: Path) -> None:
    rows = [
        row(i, clip__up_p_01_10=0.0, grad_share__policy=1.0, entropy__measured=(-1) ** i * 0.01,
            entropy__dh_tabular=1e-6, policy__clip_fraction_low=0.0)
        for i in range(4)
    ]  # fmt: skip
    run = read_run(write_run(tmp_path / "a", rows, config()))
    policy = PolicyPicture(0, 0.0, [MoveChance(0, 8, "a1a2", 1.0)])
    forced = Probe("forced", "8/8/8/8/8/8/8/R7 w", 1, policy, policy)
    page = build_page("a", [run], PageNotes(probes={str(run.path): [forced]}))
    text = text_of(page)
    assert "Rises that meet the upper clip (clip/up_…): 0 throughout, in every run." in text
    assert "(policy/clip_fraction_low): 0 throughout, in every run." in text
    assert (
        "From the advantages alone (entropy/dh_tabular): at most 1e−6 nats × advantage, next to nothing"
        in text
    )
    assert "no term beside the policy's is on record" in text
    assert "forced" not in text and '<svg class="chart"' not in page[page.index("More figures") :]


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
    assert (tags.count("script"), tags.count("img")) == (1, 0)
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
    assert "Share of the gradient (grad_share/…): no term beside the policy's is on record" in text
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
        ("Nothing", ["final regret (2 seeds): <b> a | b"]),
        ("Broken runs", ["c: r"]),
        ("Learning rates", ["not tuned"]),
    ]
    page = build_page("a", [run_of(tmp_path / "a")], PageNotes(claims=claims))
    assert "final regret (2 seeds): &lt;b&gt; a | b" in page
    for damaged in ("{", '{"families": 3}', "[]"):
        path.write_text(damaged)
        with pytest.raises(RunFileError, match=r"comparison\.json"):
            read_claims(path)
