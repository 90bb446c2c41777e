"""Writes docs/causes.md and its figures from the matrices of causes: python docs/causes_page.py [--check].

The first matrix (benchmarks/results/causes.json) judges the causes, the second (doctor.json, if it is
there) the doctor; benchmarks/learning/causes.py makes both.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from algorithms.collapse.causes import CAUSES, COMPOSITES
from algorithms.collapse.causes.cause import Cause
from algorithms.config.files import differences
from benchmarks.causes_figures import draw
from benchmarks.causes_tables import counted, how_it_was_run, judged_doctor, spread, table

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
MATRIX, DOCTOR = RESULTS / "causes.json", RESULTS / "doctor.json"
PAGE = ROOT / "docs" / "causes.md"
FIGURES = ROOT / "docs" / "figures" / "causes"

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
    "kl_trap": "the doctor's matrix was run first, when the predicate asked for the mean KL of the last quarter. That "
    "held on four seeds of five: on seed 36813 the KL reaches 64 nats and falls to .02 before that quarter; entropy is "
    ".2 nats by then. The cause is the excursion, whenever it comes, so the maximum is asked for now.",
}
"""Cause -> what of its predicates was changed in view of an earlier matrix, and why."""

SHARED_CLASSES = {
    "forward_mismatch": "Dropout, noise and rounding all scatter the learner's log-odds around the "
    "sampler's. How far depends on the network and its weights, so the size of the scatter names "
    "none of them, and coarse rounding is fixed noise like any other. Two passes that differ "
    "(`step0/repeat_error`) speak for something random; the doctor says so in its evidence. The cure "
    "is one forward pass for both.",
    "sampled_entropy_bonus": "`kl_trap` holds the sampled bonus. The penalty against it is the same "
    "estimate with the opposite sign, so the record shows one quantity under two coefficients. The "
    "doctor adds the KL to its evidence where it pulls the other way.",
    "no_signal": "All three end in groups of equal rewards, which give no advantage. That few different "
    "moves were sampled can be the cause or what the missing signal has led to. The doctor says "
    "in its evidence which of the three the first updates look like.",
}
"""Class -> why the record cannot tell its causes apart."""

INTRO = """# Causes of entropy collapse, reproduced

<!-- written by docs/causes_page.py -->

A **cause** is a named change of a healthy run that makes it collapse, or learn nothing. Its **cured twin** is the
same run without the change, with the same seed. A **predicate** says what must be seen: a number read off the run's
record, the side of a bound on which it lies, and its least distance from the twin's. It holds for a seed where the
run lies beyond the bound, the twin does not, and the two are that far apart. The predicates are in the code of the
commit that ran them (`algorithms/collapse/causes/`).

The healthy run: `grpo` with an exact entropy bonus of .2, 40 updates of 1,024 scored moves, from the committed policy
`warm`, which is a little better than chance and sure enough of itself (2.3 nats, where uniform has 3.4) for a
fault of the sampler to show. The built-in evaluator gives the rewards. A cause
starts from there; what both runs of a pair have besides stands in its section. Regret and entropy are held-out
(`eval/…`; definitions: [metrics](metrics.md)). `first`, `last`, `min`, `max`, `mean` and `median` are over the rows
of the record, `early` and `late` means of its first and last quarter, `gain` is last minus first.
"""


def held_together(found: Mapping[str, Any]) -> int:
    """Seeds for which all predicates of a cause hold."""
    return sum(map(all, zip(*(each["holds"] for each in found["predicates"]), strict=True)))


def changes(old: Any, new: Any) -> list[str]:
    """A line for each setting that differs."""
    skipped = ("cause", "seed")
    return [
        f"- `{name}`: {was} → {now}"
        for name, (was, now) in differences(old, new).items()
        if name not in skipped
    ]


def switched_on(cause: Cause) -> str:
    """What the cause changes against its twin, and what both have."""
    with_it, without = (cause.config(cured=cured, seed=0) for cured in (False, True))
    lines = changes(without, with_it)
    if cause.fault is not None and not cause.fault_in_twin:
        lines.append(f"- by code: {cause.fault_says}")
    both = [f"`{name}` {value}" for name, value in cause.shared.items()]
    if cause.fault is not None and cause.fault_in_twin:
        both.append(cause.fault_says)
    text = "Switched on, against the twin:\n\n" + "\n".join(lines) + "\n"
    return text + (f"\nBoth runs: {', '.join(both)}.\n" if both else "")


def signature(cause: Cause, found: Mapping[str, Any]) -> str:
    """The predicates and what was measured.

    Raises:
        ValueError: the matrix was run with other predicates than the code has now.
    """
    rows = []
    if [str(p) for p in cause.predicates] != [p["predicate"] for p in found["predicates"]]:
        raise ValueError(
            f"{cause.name}: {MATRIX.name} was made with other predicates than the code has: run it again"
        )
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
    return table(("signature", "predicate", "cause", "cured twin", "held"), rows)


def published(cause: Cause, found: Mapping[str, Any]) -> str:
    """Figures of others beside ours; empty where there are none."""
    rows = [
        (
            figure.quantity,
            f"{figure.theirs} ({figure.source})",
            f"{spread(found['readings'][figure.reading]['on'])} (`{figure.reading}`)",
        )
        for figure in cause.published
    ]
    return table(("published", "theirs", "ours"), rows) if rows else ""


def doctor_says(cause: Cause, found: Mapping[str, Any], second: Mapping[str, Any] | None) -> str:
    """What the doctor named, and an example of its evidence."""
    on, cured = found["diagnoses"]["on"], found["diagnoses"]["cured"]
    text = (
        f"**Doctor** (right: {cause.doctor_class}): named first {counted(on)} of {len(on)}; "
        f"of the twins {counted(cured)}."
    )
    if second is not None:
        named = second["causes"][cause.name]["diagnoses"]
        text += f" In the doctor's matrix: {counted(named['on'])}; of the twins {counted(named['cured'])}."
    example = next((said for said in found["evidence"]["on"] if said), None)
    return text + (f" For example: {example}." if example else "") + "\n"


def section(cause: Cause, found: Mapping[str, Any], second: Mapping[str, Any] | None) -> str:
    """The part of the page about one cause."""
    held, seeds = held_together(found), len(found["diagnoses"]["on"])
    verdict = f"All predicates hold for {held} of {seeds} seeds."
    missing = NOT_REPRODUCED.get(cause.name)
    if missing or held < seeds:
        verdict += f" **Not reproduced:** {missing or 'why is not known.'}"
    if cause.name in CHANGED:
        verdict += f" **Changed:** {CHANGED[cause.name]}"
    parts = [
        f"## {cause.name}\n\n{cause.title}. {cause.because}\n",
        switched_on(cause),
        f"![entropy and regret of {cause.name} and its twin](figures/causes/{cause.name}.svg)\n",
        signature(cause, found) + f"\n{verdict}\n",
        published(cause, found),
        doctor_says(cause, found, second),
        f"**Remedy:** {cause.remedy}.\n",
        f"```console\nchess-lab causes run {cause.name} --no-preflight\n"
        f"chess-lab causes run {cause.name} --cured\n```\n",
    ]
    if cause.blocked_by_preflight:
        parts.append("Without `--no-preflight` the preflight stops it before the first update.\n")
    return "\n".join(part for part in parts if part)


def doctor_section(first: Mapping[str, Any], second: Mapping[str, Any] | None) -> str:
    """What the doctor is worth, and which causes it does not tell apart."""
    parts = [
        "## The doctor\n\n`chess-lab diagnose RUN` names causes from `metrics.jsonl` alone. Bold: right. "
        "A broken run counts as wrong.\n"
    ]
    if second is not None:
        parts += [
            f"**The doctor's matrix**, run once to judge it: {how_it_was_run(second)}",
            judged_doctor(second),
        ]
    if first["settings"]["seeds_from"]:
        known = (
            "The rules were fixed before it was run, once, on seeds that its commit's hash gave; their "
            "bounds were set in view of runs of the same causes on other seeds."
        )
    else:
        known = "The bounds of the rules were set in view of such runs, so this flatters."
    whose = "The" if second is None else "The predicates'"
    parts += [
        f"**{whose} matrix.** {known}\n",
        judged_doctor(first),
        "### Causes that share a class\n",
    ]
    for name, why in SHARED_CLASSES.items():
        members = ", ".join(f"`{c.name}`" for c in CAUSES.values() if c.doctor_class == name)
        parts.append(f"**{name}** ({members}). {why}\n")
    return "\n".join(parts)


def composite_section(composites: Mapping[str, Any], seeds: Sequence[int]) -> str:
    """The part of the page about the runs with several causes."""
    parts = [
        "## Several at once: the post-mortem runs\n\nTheir coefficients, our network, a few minutes "
        "each; there is no twin. The doctor is judged by the set of classes that it finds. "
        "`chess-lab causes show NAME` has all settings.\n"
    ]
    for name, found in composites.items():
        cause, rows = COMPOSITES[name], []
        for seed, said in zip(seeds, found["diagnoses"]["on"], strict=True):
            named = said or []
            right = [each for each in named if each in cause.composite]
            missed = [each for each in cause.composite if each not in named]
            besides = [each for each in named if each not in cause.composite]
            shown = [", ".join(each) or "–" for each in (right, missed, besides)]
            rows.append((str(seed), *(shown if said is not None else ["broken run"] * 3)))
        parts += [
            f"### {name}\n\n{cause.title}. {cause.because}\n",
            published(cause, found),
            f"Expected: {', '.join(cause.composite)}.\n",
            table(("seed", "found", "missed", "besides"), rows),
        ]
        if name in NOT_REPRODUCED:
            parts.append(f"**Not reproduced:** {NOT_REPRODUCED[name]}\n")
        parts += [
            f"**Remedy:** {cause.remedy}.\n",
            f"```console\nchess-lab causes run {name} --no-preflight\n```\n",
        ]
    return "\n".join(part for part in parts if part)


def overview(causes: Mapping[str, Any]) -> str:
    """A row for each cause."""
    rows = [
        (
            f"[{name}](#{name})",
            CAUSES[name].title,
            CAUSES[name].doctor_class,
            f"{held_together(found)} of {len(found['diagnoses']['on'])}",
        )
        for name, found in causes.items()
    ]
    return table(("cause", "what it is", "doctor's class", "all predicates held"), rows)


def render(first: Mapping[str, Any], second: Mapping[str, Any] | None) -> str:
    """The whole page.

    Args:
        first: the matrix that judges the causes.
        second: the one that judges the doctor, or None.

    Raises:
        ValueError: a matrix has other causes than the code, or other predicates, or a name in
            NOT_REPRODUCED is no cause's.
    """
    unknown = sorted(set(NOT_REPRODUCED) - set(CAUSES) - set(COMPOSITES))
    if unknown:
        raise ValueError(f"NOT_REPRODUCED has {unknown}: expected names of causes")
    for file, matrix in ((MATRIX, first), (DOCTOR, second)):
        if matrix is not None and set(matrix["causes"]) != set(CAUSES):
            odd = sorted(set(matrix["causes"]) ^ set(CAUSES))
            raise ValueError(
                f"{file.name} and the code differ in the causes {odd}: run the matrix again, whole"
            )
    parts = [INTRO, how_it_was_run(first), overview(first["causes"]), doctor_section(first, second)]
    parts += [section(CAUSES[name], found, second) for name, found in first["causes"].items()]
    if first["composites"]:
        parts.append(composite_section(first["composites"], first["settings"]["composite_seeds"]))
    return "\n".join(parts)


def loaded(path: Path) -> dict[str, Any] | None:
    """A matrix; None where the file is not there."""
    matrix: dict[str, Any] | None = None
    if path.exists():
        matrix = json.loads(path.read_text(encoding="utf-8"))
    return matrix


def main() -> None:
    """None; writes page and figures, or with --check only compares the page."""
    first = loaded(MATRIX)
    if first is None:
        raise SystemExit(
            f"{MATRIX} is not there: make it with benchmarks/learning/causes.py --json"
        )
    text = render(first, loaded(DOCTOR))
    if "--check" in sys.argv:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
            raise SystemExit(f"{PAGE.name} differs from the results: run docs/causes_page.py")
        return
    for name, found in first["causes"].items():
        draw(FIGURES / f"{name}.svg", name, found["curves"])
    PAGE.write_text(text, encoding="utf-8")
    print(f"written to {PAGE.relative_to(ROOT)}, figures to {FIGURES.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
