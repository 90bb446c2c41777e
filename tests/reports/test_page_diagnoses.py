"""What the page says of a diagnosis: outcome, causes and what cannot be told, run by run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from algorithms.reports.page import PageNotes, build_page
from algorithms.reports.run_files import RunRecord
from tests.reports.page_text import text_of
from tests.reports.run_folders import run_of

OUTCOME = {
    "learning": "learning",
    "entropy": "spent on learning",
    "regret_cp": [300.0, 150.0],
    "regret_change_95": [-0.56, -0.44],
    "entropy_nats": [2.8, 1.25],
    "notes": ["pass@8 fell"],
}
CAUSE = {
    "name": "loss_budget", "confidence": 0.914, "harmful": True, "size": 2.25, "since_update": 20,
    "evidence": "80% of the gradient", "remedy": "lower ent_coef", "confirm": "chess-lab train --like RUN",
}  # fmt: skip
HARMLESS = CAUSE | {"name": "sharp_optimum", "harmful": False, "size": 0.9, "since_update": 1}
DIAGNOSIS = {
    "verdict": "impaired",
    "outcome": OUTCOME,
    "stages": {"measured": 9, "lost": [{"stage": "objective", "since_update": 4, "kept": 0.213}]},
    "causes": [CAUSE, HARMLESS],
    "ruled_out": [{"name": "no_signal", "because": "0% of the groups are dead"}],
    "cannot_tell": [
        {"name": name, "missing": missing, "because": because, "logged_by": "every run"}
        for name, missing, because in (
            ("clip_asymmetry", ["clip/a", "clip/b"], ""),
            ("update_epochs", [], "cure loss_budget first"),
            ("weak_entropy_high_lr", [], "cure loss_budget first"),
        )
    ],
    "notes": ["a peak is noise"],
}


def shown(*pairs: tuple[RunRecord, dict[str, Any]]) -> str:
    """The text of the section on the doctor."""
    diagnoses = {str(run.path): diagnosis for run, diagnosis in pairs}
    text = text_of(build_page("a", [run for run, _ in pairs], PageNotes(diagnoses=diagnoses)))
    return text[text.index("Outcome and causes") : text.index("How far an update")]


def test_outcome_causes_and_what_cannot_be_told_come_in_that_order(tmp_path: Path) -> None:
    text = shown((run_of(tmp_path / "a"), DIAGNOSIS))
    wanted = (
        "grpo impaired learning, entropy spent on learning "
        "300 → 150 (−50%, 95 % interval −56% to −44%) 2.80 → 1.25 "
        "objective, from update 4: 0.21 of it is kept pass@8 fell",
        "grpo loss_ budget 2.2 × the least harmful 91% 20 80% of the gradient lower ent_coef "
        f"chess-lab train --like {tmp_path / 'a'}",
        "sharp_ optimum harmless at this size 91% 1 80% of the gradient",
        "grpo clip_asymmetry clip/a clip/b every run",
        "update_epochs, weak_entropy_high_lr cure loss_budget first",
        "Ruled out, and why (1)",
        "no_ signal 0% of the groups are dead",
        "grpo: a peak is noise",
    )
    places = [text.index(each) for each in wanted]
    assert places == sorted(places)


def test_a_healthy_run_has_an_outcome_and_neither_causes_nor_doubts(tmp_path: Path) -> None:
    healthy = DIAGNOSIS | {"verdict": "learning, no known cause found", "causes": [], "cannot_tell": [],
                           "notes": [], "stages": {"measured": 9, "lost": []}}  # fmt: skip
    text = shown((run_of(tmp_path / "a"), healthy))
    assert "grpo learning, no known cause found learning, entropy spent on learning" in text
    assert "at no stage" in text
    assert "No cause is named." in text and "each cause is named or ruled out" in text
    assert "The doctor's notes" not in text


def test_what_is_not_known_is_said_in_words(tmp_path: Path) -> None:
    nothing = {"learning": "cannot tell", "entropy": "cannot tell", "regret_cp": None,
               "regret_change_95": None, "entropy_nats": None, "notes": []}  # fmt: skip
    text = shown((run_of(tmp_path / "a"), DIAGNOSIS | {"outcome": nothing}))
    assert "whether it learns is not known, what became of its entropy is not known" in text
    assert text.count("not on record twice") == 2


def test_the_card_names_the_cause_how_sure_it_is_and_what_to_do(tmp_path: Path) -> None:
    ill, well = run_of(tmp_path / "ill", seed=1), run_of(tmp_path / "well", seed=2)
    healthy = DIAGNOSIS | {"verdict": "learning, no known cause found", "causes": [HARMLESS]}
    diagnoses = {str(ill.path): DIAGNOSIS, str(well.path): healthy}
    alone = text_of(build_page("a", [ill], PageNotes(diagnoses=diagnoses)))
    says = "doctor impaired cause loss_ budget 91% what to do: lower ent_coef"
    assert f"{says} command to confirm it chess-lab train --like {ill.path}" in alone
    card = text_of(build_page("a", [ill, well], PageNotes(diagnoses=diagnoses)))
    card = card[: card.index("Outcome and causes")]
    assert "loss_ budget up to 91%, in 1 of 2 runs what to do: lower ent_coef" in card
    assert "impaired (1 of 2)" in card and "sharp" not in card


def test_a_run_has_one_name_and_one_colour_on_the_whole_page(tmp_path: Path) -> None:
    runs = [
        run_of(tmp_path / name, ent_coef=coefficient)
        for name, coefficient in (("x", 0.1), ("y", 0.3))
    ]
    diagnoses = {str(run.path): DIAGNOSIS for run in runs}
    page = build_page("a", runs, PageNotes(diagnoses=diagnoses))
    for place, name in enumerate(("grpo, ent_coef 0.1", "grpo, ent_coef 0.3")):
        broken = name.replace("_", "_<wbr>")
        assert f'class="card c{place} k{place}">\n<h2>{name}<' in page
        assert f'data-run="k{place}"' in page and f'<th scope="row">{name}<' in page
        colours = re.findall(rf'class="line (c\d k\d)"[^>]*/></svg> ?(?:{name}|{broken})<', page)
        assert len(colours) > 5 and set(colours) == {f"c{place} k{place}"}
