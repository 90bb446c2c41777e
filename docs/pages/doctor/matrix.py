"""The figures of docs/doctor.md: how often the doctor is right, by size, pair, algorithm and what is logged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from docs.pages import result
from docs.pages.writing.shares import Cells, shared, shares

Rows = Sequence[Mapping[str, Any]]
SIZES = ("full", "half", "third", "harmless")
_FAULTY = ("size", "algorithm", "late", "resumed", "audit")
_PAIR_COLUMNS = {
    "both": "both\nnamed",
    "first": "first is one\nof the two",
    "no third": "no third\nnamed",
}


def figures() -> dict[str, str]:
    """{path: SVG} of the figures."""
    rows = result("doctor_matrix")["cells"]
    dot = "dot: harmful"
    drawn = {
        "resnet": (f"resnet: share of seeds that are right; {dot}", by_size(rows, ""), _plain(SIZES)),
        "move_net": (
            f"move_net: share of seeds that are right; {dot}", by_size(rows, "-move_net"), _plain(SIZES),
        ),
        "pairs": ("share of seeds", by_pair(rows), _PAIR_COLUMNS),
        "algorithms": (f"share of seeds that are right; {dot}", *by_algorithm(rows)),
        "levels": ("harmful faults: share of runs that are right", *by_level(rows)),
    }  # fmt: skip
    return {
        f"docs/figures/doctor/{name}.svg": shares(f"doctor_{name}", title, cells, columns)
        for name, (title, cells, columns) in drawn.items()
    }


def _plain(names: Sequence[str]) -> dict[str, str]:
    return {name: name for name in names}


def by_size(rows: Rows, suffix: str) -> Cells:
    """Cause -> size -> (share of seeds that were right first, what the fault did)."""
    found: dict[str, dict[str, tuple[float, str]]] = {}
    for row in sized(rows, suffix):
        cause = row["name"].removesuffix(f"{suffix}-{row['size']}")
        found.setdefault(cause, {})[row["size"]] = (right_share(row), row["harm"]["harm"])
    return found


def by_pair(rows: Rows) -> Cells:
    """Pair -> column -> share of seeds."""
    found = {}
    for row in (row for row in rows if row["group"] == "pair"):
        named = [[cause[0] for cause in said["causes"]] for said in row["said"]["all"].values()]
        there = set(row["expected"])
        found[row["name"].replace("+", " and ")] = {
            "both": (shared([there <= set(names) for names in named]), ""),
            "first": (shared([bool(names) and names[0] in there for names in named]), ""),
            "no third": (shared([set(names) <= there | {*row["also"]} for names in named]), ""),
        }
    return found


def by_algorithm(rows: Rows) -> tuple[Cells, dict[str, str]]:
    """(fault -> preset -> share of seeds that were right first, the presets)."""
    found: dict[str, dict[str, tuple[float, str]]] = {}
    presets: dict[str, str] = {}
    for row in (row for row in rows if row["group"] == "algorithm"):
        preset = row["algorithm"]
        presets[preset] = preset.replace("_", "\n")
        fault = row["name"].removeprefix(f"{preset}-")
        found.setdefault(fault, {})[preset] = (right_share(row), row["harm"]["harm"])
    return found, presets


def by_level(rows: Rows) -> tuple[Cells, dict[str, str]]:
    """(class of cause -> level -> share of harmful runs that were right first, the levels).

    Where what is logged cannot tell a cause, the cell is empty.
    """
    faulty = [
        r for r in rows if r["group"] in _FAULTY and r["harm"] and r["harm"]["harm"] == "harmful"
    ]
    levels = {
        name: name.replace(", ", ",\n", 1).replace(" missing", "\nmissing")
        for name in rows[0]["said"]
    }
    hits: dict[str, dict[str, list[bool]]] = {}
    for row in faulty:
        for level, said in row["said"].items():
            if level != "all" and set(row["expected"]) <= set(row["lacking"][level]):
                continue
            right = [first_named(each) in row["expected"] for each in said.values()]
            hits.setdefault(row["expected"][0], {}).setdefault(level, []).extend(right)
    cells = {
        cause: {level: (shared(right), "") for level, right in of_cause.items()}
        for cause, of_cause in sorted(hits.items())
    }
    return cells, levels


def sized(rows: Rows, suffix: str) -> list[Mapping[str, Any]]:
    """The cells of causes at their sizes, on the network of that suffix."""
    found = [row for row in rows if row["group"] == "size"]
    return [row for row in found if ("-move_net-" in row["name"]) == bool(suffix)]


def first_named(said: Mapping[str, Any]) -> str:
    """The cause that is named first, or "none"."""
    return said["causes"][0][0] if said["causes"] else "none"


def right_share(row: Mapping[str, Any]) -> float:
    """Share of the seeds that are right: the right cause is first, or no cause is called harmful where none is.

    At full size the cause is to be named whether it did harm or not.
    """
    said = list(row["said"]["all"].values())
    right = [first_named(each) in row["expected"] for each in said]
    full = row["group"] == "size" and row["size"] == "full"
    if row["size"] == "harmless" or (row["harm"]["harm"] == "harmless" and not full):
        silent = [not any(cause[1] for cause in each["causes"]) for each in said]
        right = (
            silent
            if row["size"] == "harmless"
            else [a or b for a, b in zip(right, silent, strict=True)]
        )
    return shared(right)
