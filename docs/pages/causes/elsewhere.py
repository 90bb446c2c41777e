"""What of the causes holds on another network too, from the matrices of both."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from algorithms.collapse.causes import CAUSES
from algorithms.collapse.causes.architectures import ARCHITECTURES, FIRST
from algorithms.collapse.causes.cause import Cause
from benchmarks.records.causes import held_together, summary
from docs.pages.writing.markdown import spread, table

Matrix = Mapping[str, Any]


def check_predicates(cause: Cause, found: Mapping[str, Any]) -> None:
    """Raises ValueError where the matrix was run with other predicates than the code has now."""
    if [str(p) for p in cause.predicates] != [p["predicate"] for p in found["predicates"]]:
        file = f"the matrix on {cause.network}"
        raise ValueError(
            f"{cause.name}: {file} was made with other predicates than the code has: run it again"
        )


def both_networks(first: Matrix, other: Matrix) -> str:
    """A row for each cause: seeds on which its predicates hold, and regret, on either."""
    matrices = {FIRST: first, other["settings"]["network"]: other}
    rows = []
    for a, b in zip(*(summary(each["causes"]) for each in matrices.values()), strict=True):
        name = a["cause"]
        said = [row["predicates held (all)"] for row in (a, b)]
        beyond = [f"{regret_gap(each['causes'][name]):+.0f}" for each in matrices.values()]
        rows.append((f"[{name}](#{name})", *said, *beyond))
    columns = ("held", "cp over the twin")
    return table(["cause", *(f"{what}: {name}" for what in columns for name in matrices)], rows)


def regret_gap(found: Mapping[str, Any]) -> float:
    """cp by which a cause's run ends at a higher regret than its twin of the same seed; median over the seeds."""
    runs = zip(found["curves"]["on"], found["curves"]["cured"], strict=True)
    ends = [(on["regret_cp"][-1], cured["regret_cp"][-1]) for on, cured in runs if on and cured]
    return statistics.median(on - cured for on, cured in ends)


def signatures(found: Mapping[str, Any]) -> str:
    """What was measured of the predicates of a cause, with how many seeds they held on."""
    return "; ".join(
        f"`{each['predicate'].split(',')[0]}`: {spread(values['on'])}, {sum(each['holds'])} of {len(each['holds'])}"
        for each in found["predicates"]
        for values in [found["readings"][" ".join(each["predicate"].split()[:2])]]
    )


def held_on(matrix: Matrix) -> list[str]:
    """The causes whose predicates all hold on every seed."""
    causes = matrix["causes"].items()
    return [n for n, found in causes if held_together(found) == len(found["curves"]["on"])]


def other_bounds(other: Matrix) -> str:
    """The predicates that have another bound on the other network, and what was measured there."""
    rows, network = [], other["settings"]["network"]
    for name, found in other["causes"].items():
        cause = CAUSES[name].on_network(network)
        check_predicates(cause, found)
        for was, now in zip(CAUSES[name].predicates, cause.predicates, strict=True):
            values = found["readings"][now.reading]
            bounds = [f"{p.beyond}, {p.margin:g} apart" for p in (was, now)]
            if was != now:
                measured = map(spread, (values["on"], values["cured"]))
                rows.append((name, f"`{now.reading}`", *bounds, *measured))
    return table(["cause", "signature", FIRST, network, "measured", "in the cured twin"], rows)


def other_settings(other: Matrix) -> str:
    """The causes whose settings are others there, with these."""
    changed = ARCHITECTURES[other["settings"]["network"]].changed
    said = [
        f"`{cause}` {', '.join(f'`{name}` {value}' for name, value in settings.items())}"
        f"{' (the twin)' if side == 'cured' else ''}"
        for cause, sides in changed.items()
        for side, settings in sides.items()
    ]
    return "; ".join(said)
