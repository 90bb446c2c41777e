"""Tables and figures of docs/causes.md and docs/causes: what each cause is, and what the matrices measured of it.

The first matrix (benchmarks/results/causes.json) judges the causes, the second (causes_move_net.json) the causes on
another network; `benchmarks.learning.causes` makes them.
"""

from __future__ import annotations

import functools
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from algorithms.collapse import CAUSES, COMPOSITES
from algorithms.collapse.cause import FIRST, Cause
from algorithms.config.files import differences
from algorithms.doctor.metric_rows import FORCED_UP, LOST, MetricRows, RunOutcome, outcome_of
from algorithms.doctor.pace import HARM
from benchmarks.records.causes import held_together
from docs.pages import result
from docs.pages.figures import pair
from docs.pages.markdown import number, spread, table

Matrix = Mapping[str, Any]
Found = Mapping[str, Any]
"""What a matrix has of one cause."""


def figures() -> dict[str, str]:
    """{name: SVG} of every cause against its twin."""
    causes = matrix("causes")["causes"].items()
    return {f"causes/{name}.svg": pair(name, found["curves"]) for name, found in causes}


@functools.cache
def matrix(name: str) -> Matrix:
    """A matrix of benchmarks/results.

    Raises:
        ValueError: it has other causes or other predicates than the code.
    """
    found = result(name)
    check(name, found)
    return found


def check(name: str, found: Matrix) -> None:
    """Raises ValueError where a matrix has other causes or other predicates than the code."""
    if odd := sorted(set(found["causes"]) ^ set(CAUSES)):
        raise ValueError(
            f"{name}.json and the code differ in the causes {odd}: run the matrix again, whole"
        )
    network = found["settings"].get("network", FIRST)
    for each, of_cause in found["causes"].items():
        predicates = [str(p) for p in CAUSES[each].on_network(network).predicates]
        if predicates != [p["predicate"] for p in of_cause["predicates"]]:
            raise ValueError(
                f"{each}: the matrix on {network} was made with other predicates than the code has: run it again"
            )


def how_it_was_run(name: str) -> str:
    """On which seeds, at which commit, on what machine and how long."""
    found = matrix(name)
    settings, machine, wall = found["settings"], found["machine"], found["wall"]
    pairs = sum(len(each["diagnoses"]["on"]) for each in found["causes"].values())
    origin, again = settings["seeds_from"], settings.get("run_again", {})
    rows = [
        ("pairs", f"{pairs} of {len(found['causes'])} faults"),
        ("seeds", ", ".join(map(str, settings["seeds"]))),
        (
            "seeds from",
            f"different groups of four hexadecimal digits of `{origin}`" if origin else "",
        ),
        ("commit", f"`{settings['commit']}`"),
        *((f"{name}, run again", f"`{commit}`") for name, commit in again.items()),
        ("machine", f"{machine['processor']}, {machine['cores']} cores"),
        ("runs at a time", f"{settings['jobs']}, one thread each"),
        ("a run, median", f"{number(wall['median_s'])} s"),
        ("in all", f"{wall['elapsed_s'] / 60:.0f} minutes"),
        ("broken runs", ", ".join(found["failed"]) or "none"),
    ]
    return table(["", ""], [row for row in rows if row[1]])


def overview() -> str:
    """A row for each cause: what it does on either network, in words, then in numbers."""
    first, other = (matrix(name)["causes"] for name in ("causes", "causes_move_net"))
    networks = (FIRST, matrix("causes_move_net")["settings"]["network"])
    rows = [
        (f"[{name}](causes/{name}.md)", *words, CAUSES[name].title, *nats, *regrets)
        for name in first
        for words, nats, regrets in [zip(does(first[name]), does(other[name]), strict=True)]
    ]
    numbers = [f"{what}: {name}" for what in ("nats", "cp (twin)") for name in networks]
    return table(["fault", *networks, "what is switched on", *numbers], rows)


def counted() -> str:
    """How many causes do what, on either network, and on how many their predicates hold, in two sentences."""
    said = []
    for name in ("causes", "causes_move_net"):
        found = matrix(name)
        words = Counter(does(each)[0].split(",")[0] for each in found["causes"].values())
        network = found["settings"].get("network", FIRST)
        said.append(
            f"on `{network}` {words['collapses']} make entropy collapse, {words['harms']} more cost play and "
            f"{words['no harm']} do no harm"
        )
    pairs = [
        each for name in ("causes", "causes_move_net") for each in matrix(name)["causes"].values()
    ]
    whole = sum(map(_holds, pairs))
    return (
        f"**Of {len(CAUSES)} faults, {'; '.join(said)}.** What was expected of each was seen on every seed in "
        f"{whole} of {len(pairs)} cases."
    )


def does(found: Found) -> tuple[str, str, str]:
    """(What a cause does by the doctor's measures, entropy start to end, regret likewise), medians over the seeds."""
    runs = [run for run in found["curves"]["on"] if run]
    outcomes = [_outcome(run) for run in runs]
    entropy = Counter(outcome.entropy for outcome in outcomes).most_common(1)[0][0]
    start, end = (statistics.median(run["regret_cp"][at] for run in runs) for at in (0, -1))
    nats = [statistics.median(run["entropy"][at] for run in runs) for at in (0, -1)]
    harm = regret_gap(found)
    word = "harms" if harm > HARM * start else "no harm"
    if entropy == LOST:
        word = "collapses"
    elif entropy == FORCED_UP:
        word += ", entropy forced up"
    regret = f"{start:.0f} → {end:.0f} ({end - harm:.0f})"
    return word, f"{nats[0]:.2f} → {nats[1]:.2f}", regret


def _outcome(run: Mapping[str, Sequence[float]]) -> RunOutcome:
    rows = [
        {"step": float(step), "eval/regret_cp": regret, "eval/entropy": entropy}
        for step, (regret, entropy) in enumerate(zip(run["regret_cp"], run["entropy"], strict=True))
    ]
    return outcome_of(MetricRows(rows))


def regret_gap(found: Found) -> float:
    """cp by which a cause's run ends at a higher regret than its twin of the same seed; median over the seeds."""
    runs = zip(found["curves"]["on"], found["curves"]["cured"], strict=True)
    ends = [(on["regret_cp"][-1], cured["regret_cp"][-1]) for on, cured in runs if on and cured]
    return statistics.median(on - cured for on, cured in ends)


def other_bounds() -> str:
    """The predicates that have another bound on the other network, and what was measured there."""
    other = matrix("causes_move_net")
    rows, network = [], other["settings"]["network"]
    for name, found in other["causes"].items():
        both = CAUSES[name].predicates, CAUSES[name].on_network(network).predicates
        for was, now in zip(*both, strict=True):
            if was != now:
                values = found["readings"][now.reading]
                bounds = [f"{p.beyond}, {p.margin:g} apart" for p in (was, now)]
                rows.append(
                    (
                        name,
                        f"`{now.reading}`",
                        *bounds,
                        spread(values["on"]),
                        spread(values["cured"]),
                    )
                )
    return table(["cause", "signature", FIRST, network, "measured", "in the cured twin"], rows)


def section(name: str) -> str:
    """All of a cause that is not in its heading: what it is, what was measured of it, remedy and commands."""
    cause, found = CAUSES[name], matrix("causes")["causes"][name]
    calls_it = f" The doctor calls it `{cause.doctor_class}`." if cause.doctor_class != name else ""
    stopped = (
        ", which `--preflight` stops before the first update" if cause.blocked_by_preflight else ""
    )
    parts = [
        f"{cause.title}{stopped}. {cause.because}",
        f"**Remedy:** {cause.remedy}.{calls_it}",
        f"```console\nchess-lab causes run {name}\nchess-lab causes run {name} --cured\n```",
        f"![entropy and regret of {name} and its twin](../figures/causes/{name}.svg)",
        settings(cause),
        signature(cause, found),
        "" if _holds(found) else f"All predicates hold for {_held(found)} seeds.",
        published(cause, found),
    ]
    return "\n\n".join(filter(None, parts))


def composite(name: str) -> str:
    """All of a composite that is not in its heading."""
    cause, first = COMPOSITES[name], matrix("causes")
    found = first["composites"][name]
    parts = [
        f"{cause.title}. {cause.because}",
        f"**Remedy:** {cause.remedy}.",
        f"```console\nchess-lab causes run {name}\n```",
        published(cause, found),
        f"Expected: {', '.join(cause.composite)}.",
        found_and_missed(cause, found, first["settings"]["composite_seeds"]),
    ]
    return "\n\n".join(filter(None, parts))


def settings(cause: Cause) -> str:
    """What the cause changes against its twin, and what both runs have besides."""
    with_it, without = (cause.config(cured=cured, seed=0) for cured in (False, True))
    rows = [
        (f"`{name}`", was, now)
        for name, (was, now) in differences(without, with_it).items()
        if name not in ("cause", "seed")
    ]
    if cause.fault is not None:
        rows.append(("by code", "", cause.fault_says))
    rows += [(f"`{name}`", value, value) for name, value in cause.shared.items()]
    return table(["setting", "cured twin", "with the fault"], rows)


def signature(cause: Cause, found: Found) -> str:
    """The predicates and what was measured."""
    rows = []
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


def published(cause: Cause, found: Found) -> str:
    """Figures of others beside ours; empty where there are none."""
    rows = [
        (
            figure.quantity,
            f"{figure.theirs} ({figure.source})",
            f"{spread(found['readings'][figure.reading]['on'])} (`{figure.reading}`)",
        )
        for figure in cause.published
    ]
    return table(["[figures of others](measured.md)", "theirs", "ours"], rows) if rows else ""


def found_and_missed(cause: Cause, found: Found, seeds: list[int]) -> str:
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


def _holds(found: Found) -> bool:
    return held_together(found) == len(found["curves"]["on"])


def _held(found: Found) -> str:
    return f"{held_together(found)} of {len(found['curves']['on'])}"
