"""docs/causes.md, from the matrices of causes.

The first matrix (benchmarks/results/causes.json) judges the causes, the second (causes_move_net.json, if it is
there) the causes on another network; `benchmarks.learning.causes` makes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from algorithms.collapse.causes import CAUSES, COMPOSITES
from algorithms.collapse.causes.cause import Cause
from algorithms.config.files import differences
from benchmarks.records.causes import held_together
from docs.pages import result
from docs.pages.causes.elsewhere import (
    both_networks,
    check_predicates,
    held_on,
    other_bounds,
    other_settings,
    signatures,
)
from docs.pages.writing.figures import pair
from docs.pages.writing.markdown import filled, number, spread, table

Matrix = Mapping[str, Any]

NOT_REPRODUCED: dict[str, str] = {
    "zjij66xd": "the trap itself. Theirs fell below 1.5 nats after some 650 updates at this learning rate; "
    "64 of ours leave the policy near uniform. `kl_trap` shows it within minutes.",
    "low_precision": "the collapse. The rounding is there in every update, but with logits of this size it "
    "moves no ratio out of its range: entropy and regret end where the twin's do.",
    "clip_asymmetry": "a loss of entropy. A tight upper bound stops what raises moves, and with it the "
    "learning: the run keeps more entropy than its twin and more regret.",
}
"""Cause or composite -> why a predicate or a published figure of it does not come out here."""

CHANGED: dict[str, str] = {
    "kl_trap": "an earlier matrix was run when the predicate asked for the mean KL of the last quarter. That held on "
    "four seeds of five: on seed 36813 the KL reaches 64 nats and falls to .02 before that quarter; entropy is .2 nats"
    " by then. The cause is the excursion, whenever it comes, so the maximum is asked for now. The twin had the "
    "exact bonus of the same weight and got worse; it and the run were made again when the twin got a bonus with "
    "which it learns. Its entropy falls by that, so the bound of the last predicate is lower (1 nat, before 2.2).",
    "sampled_entropy_bonus": "the twin had the exact bonus of the same weight and got worse. It has one with "
    "which it learns now, and both runs were made again; "
    "on `move_net` the bound of the last entropy is lower, as the twin spends more.",
}
"""Cause -> what of its predicates was changed in view of an earlier matrix, and why."""


NOT_ELSEWHERE: dict[str, str] = {
    "sampled_entropy_bonus": "the collapse comes as on `resnet`: entropy is spent, and regret ends above its start. "
    "What does not come is the logged number: it falls with the entropy, and never leaves the range of an entropy.",
}
"""Cause -> what of it does not hold on the other network, and why."""


def pages() -> dict[str, str]:
    """{path: text} of the page."""
    return {"docs/causes.md": page(*matrices())}


def matrices() -> tuple[Matrix, Matrix | None]:
    """The matrix that judges the causes; if it is there, that of the other network."""

    def there(name: str) -> Matrix | None:
        try:
            return result(name)
        except FileNotFoundError:
            return None

    return result("causes"), there("causes_move_net")


def figures() -> dict[str, str]:
    """{path: SVG} of every cause against its twin."""
    return {
        f"docs/figures/causes/{name}.svg": pair(name, found["curves"])
        for name, found in result("causes")["causes"].items()
    }


def page(first: Matrix, other: Matrix | None) -> str:
    """The text of the page.

    Args:
        first: the matrix that judges the causes.
        other: the one that judges the causes on another network, or None.

    Raises:
        ValueError: a matrix has other causes than the code, or other predicates, or a name in
            NOT_REPRODUCED is no cause's.
    """
    unknown = sorted({*NOT_REPRODUCED, *NOT_ELSEWHERE} - set(CAUSES) - set(COMPOSITES))
    if unknown:
        raise ValueError(f"NOT_REPRODUCED has {unknown}: expected names of causes")
    files = (("causes.json", first), ("causes_move_net.json", other))
    for file, matrix in files:
        if matrix is not None and set(matrix["causes"]) != set(CAUSES):
            odd = sorted(set(matrix["causes"]) ^ set(CAUSES))
            raise ValueError(
                f"{file} and the code differ in the causes {odd}: run the matrix again, whole"
            )
    said = (
        number, overview, sharing, switched_on, in_both, signature, verdict, published,
        found_and_missed, both_networks, other_bounds, other_settings, held_on, signatures,
    )  # fmt: skip
    return filled(
        "causes",
        first=first,
        other=other,
        CAUSES=CAUSES,
        COMPOSITES=COMPOSITES,
        NOT_REPRODUCED=NOT_REPRODUCED,
        NOT_ELSEWHERE=NOT_ELSEWHERE,
        **{each.__name__: each for each in said},
    )


def overview(causes: Mapping[str, Any]) -> str:
    """A row for each cause."""
    rows = []
    for name, found in causes.items():
        cause, held = CAUSES[name], held_together(found)
        every = f"{held} of {len(found['curves']['on'])}"
        rows.append((f"[{name}](#{name})", cause.title, cause.doctor_class, every))
    return table(["cause", "what it is", "doctor's class", "all predicates held"], rows)


def sharing(doctor_class: str) -> str:
    """The causes that the doctor calls by one name."""
    return ", ".join(f"`{c.name}`" for c in CAUSES.values() if c.doctor_class == doctor_class)


def switched_on(cause: Cause) -> list[str]:
    """What the cause changes against its twin."""
    with_it, without = (cause.config(cured=cured, seed=0) for cured in (False, True))
    found = [
        f"`{name}`: {was} → {now}"
        for name, (was, now) in differences(without, with_it).items()
        if name not in ("cause", "seed")
    ]
    by_code = cause.fault is not None and not cause.fault_in_twin
    return [*found, f"by code: {cause.fault_says}"] if by_code else found


def in_both(cause: Cause) -> list[str]:
    """What both runs of a pair have besides."""
    both = [f"`{name}` {value}" for name, value in cause.shared.items()]
    return [*both, cause.fault_says] if cause.fault is not None and cause.fault_in_twin else both


def signature(cause: Cause, found: Mapping[str, Any]) -> str:
    """The predicates and what was measured.

    Raises:
        ValueError: the matrix was run with other predicates than the code has now.
    """
    rows = []
    check_predicates(cause, found)
    for predicate, judged in zip(cause.predicates, found["predicates"], strict=True):
        values = found["readings"][predicate.reading]
        rows.append(
            (
                f"`{predicate.reading}`",
                f"{predicate.beyond}, {predicate.margin:g} apart",
                spread(values["on"]),
                spread(values["cured"]),
                f"{sum(judged['holds'])} of {len(judged['holds'])}",
            )
        )
    return table(["signature", "predicate", "cause", "cured twin", "held"], rows)


def verdict(cause: Cause, found: Mapping[str, Any]) -> str:
    """Whether the predicates hold, and why not, and what of them was changed."""
    held, seeds = held_together(found), len(found["curves"]["on"])
    text = f"All predicates hold for {held} of {seeds} seeds."
    missing = NOT_REPRODUCED.get(cause.name)
    if missing or held < seeds:
        text += f" **Not reproduced:** {missing or 'why is not known.'}"
    changed = CHANGED.get(cause.name)
    return f"{text} **Changed:** {changed}" if changed else text


def published(cause: Cause, found: Mapping[str, Any]) -> str:
    """Figures of others beside ours."""
    rows = [
        (
            figure.quantity,
            f"{figure.theirs} ({figure.source})",
            f"{spread(found['readings'][figure.reading]['on'])} (`{figure.reading}`)",
        )
        for figure in cause.published
    ]
    return table(["published", "theirs", "ours"], rows)


def found_and_missed(cause: Cause, found: Mapping[str, Any], seeds: Sequence[int]) -> str:
    """What of a composite's causes the doctor named on each seed, and what besides."""
    rows = []
    for seed, said in zip(seeds, found["diagnoses"]["on"], strict=True):
        named = said or []
        right = [each for each in named if each in cause.composite]
        missed = [each for each in cause.composite if each not in named]
        besides = [each for each in named if each not in cause.composite]
        shown = [", ".join(each) or "–" for each in (right, missed, besides)]
        rows.append((str(seed), *(shown if said is not None else ["broken run"] * 3)))
    return table(["seed", "found", "missed", "besides"], rows)
