"""What of the causes holds on another network too, from the matrices of both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from algorithms.collapse.causes import CAUSES
from algorithms.collapse.causes.architectures import ARCHITECTURES, FIRST
from algorithms.collapse.causes.cause import Cause
from benchmarks.records.causes import held_together, summary
from docs.pages.markdown import spread, table

Matrix = Mapping[str, Any]


def check_predicates(cause: Cause, found: Mapping[str, Any]) -> None:
    """Raises ValueError where the matrix was run with other predicates than the code has now."""
    if [str(p) for p in cause.predicates] != [p["predicate"] for p in found["predicates"]]:
        file = f"the matrix on {cause.network}"
        raise ValueError(
            f"{cause.name}: {file} was made with other predicates than the code has: run it again"
        )


def both_networks(first: Matrix, other: Matrix) -> str:
    """A row for each cause: seeds on which its predicates hold and the doctor is right, on either network."""
    classes = {name: cause.doctor_class for name, cause in CAUSES.items()}
    pairs = zip(*(summary(each["causes"], classes) for each in (first, other)), strict=True)
    columns = ("predicates held (all)", "doctor right")
    rows = [
        (f"[{a['cause']}](#{a['cause']})", *(row[name] for name in columns for row in (a, b)))
        for a, b in pairs
    ]
    networks = (FIRST, other["settings"]["network"])
    said = [
        f"{what}, {name}"
        for what in ("all predicates held", "doctor right first")
        for name in networks
    ]
    return table(["cause", *said], rows)


def held_on(matrix: Matrix) -> list[str]:
    """The causes whose predicates all hold on every seed."""
    causes = matrix["causes"].items()
    return [n for n, found in causes if held_together(found) == len(found["diagnoses"]["on"])]


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
