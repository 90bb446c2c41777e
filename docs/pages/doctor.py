"""Tables and figures of docs/doctor.md: the doctor's rules as they are declared, and how often it is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scipy.special import betaincinv

from algorithms.doctor import RULES
from algorithms.doctor.confidence import RIGHT_OF
from docs.pages import result
from docs.pages.figures import Cells, shares
from docs.pages.markdown import table

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
    rows = cells()
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
        f"doctor/{name}.svg": shares(f"doctor_{name}", title, cells, columns)
        for name, (title, cells, columns) in drawn.items()
    }


def cells() -> Rows:
    """The cells of the matrix, as `benchmarks.doctor.judge` wrote them."""
    found: Rows = result("doctor_matrix")["cells"]
    return found


def rules() -> str:
    """A line for each rule, as it is declared."""
    return table(
        ["cause", "named if", "ruled out by", "harmless where"],
        [(f"`{r.name}`", r.concludes, r.refuted_by, r.harmless) for r in RULES],
    )


def needs() -> str:
    """What each rule needs, and what logs it."""
    rows = []
    for rule in RULES:
        needs = " or ".join(", ".join(f"`{name}`" for name in metrics) for metrics in rule.needs)
        hidden = ", ".join(f"`{name}`" for name in rule.hidden_by) or "none"
        rows.append((f"`{rule.name}`", needs, rule.logged_by, hidden))
    return table(["cause", "needs", "logged by", "hidden by"], rows)


def confidences() -> str:
    """How often each finding was right on some seeds, by the size of the effect."""
    return table(
        ["cause", "size below 1", "1 to 2", "2 and more"],
        [
            (f"`{name}`", *(f"{right} of {of}" for right, of in bands))
            for name, bands in RIGHT_OF.items()
        ],
    )


def rates() -> str:
    """Each figure, with what is wanted, and what it was on the seed that the rules were chosen on."""
    judged, chosen = (result(name)["rates"] for name in ("doctor_matrix", "doctor_chosen"))

    def share(hits: int, of: int) -> str:
        return f"{hits} of {of} ({hits / of:.1%})" if of else "not measured"

    return table(
        [
            "figure",
            "wanted",
            "the five seeds",
            "seed 901",
        ],
        [
            (name, wanted, share(hits, of), share(*chosen.get(name, (0, 0))[:2]))
            for name, (hits, of, wanted) in judged.items()
        ],
    )


def calibration() -> str:
    """A line for each band of confidence, with the share's exact binomial interval."""

    def shown(right: int, of: int) -> tuple[str, str]:
        if not of:
            return "none", ""
        low = float(betaincinv(right, of - right + 1, 0.025)) if right else 0.0
        high = float(betaincinv(right + 1, of - right, 0.975)) if right < of else 1.0
        return f"{right / of:.1%}", f"{low:.1%} to {high:.1%}"

    return table(
        ["confidence", "mean", "right", "share", "95 % interval"],
        [
            (band, f"{mean:.1%}", f"{right} of {of}", *shown(right, of))
            for band, mean, right, of in result("doctor_matrix")["calibration"]
        ],
    )


def sizes(suffix: str = "") -> str:
    """A line for each cause: right first, and what the fault did to regret, at each size."""
    lines: dict[str, list[str]] = {}
    for row in sized(cells(), suffix):
        cause = row["name"].removesuffix(f"{suffix}-{row['size']}")
        harm, said = row["harm"], list(row["said"]["all"].values())
        right = round(right_share(row) * len(said))
        line = lines.setdefault(cause, ["" for _ in SIZES])
        did = f"{harm['difference_cp']:+.0f} cp, {harm['harm']}" if harm["seeds"] else "no twin"
        line[SIZES.index(row["size"])] = f"{right} of {len(said)} ({did})"
    header = ["cause", *SIZES[:-1], "harmless: not called harmful"]
    return table(header, [(f"`{name}`", *line) for name, line in lines.items()])


def pairs() -> str:
    """A line for each pair: how often both were named, and what was named first."""
    lines = []
    for row in cells():
        if row["group"] != "pair":
            continue
        said = list(row["said"]["all"].values())
        both = sum(set(row["expected"]) <= {c[0] for c in each["causes"]} for each in said)
        firsts = ", ".join(sorted({f"`{first_named(each)}`" for each in said}))
        lines.append((row["name"].replace("+", " and "), f"{both} of {len(said)}", firsts))
    return table(["pair", "both named", "named first"], lines)


def algorithms() -> str:
    """A line for each fault under another algorithm."""
    lines = []
    for row in cells():
        if row["group"] != "algorithm" or not row["harm"]["seeds"]:
            continue
        said = list(row["said"]["all"].values())
        right = sum(first_named(each) in row["expected"] for each in said)
        verdicts = ", ".join(sorted({each["verdict"] for each in said}))
        harm = row["harm"]
        lines.append((row["name"], f"{harm['difference_cp']:+.0f} cp, {harm['harm']}",
                      f"{right} of {len(said)}", verdicts))  # fmt: skip
    return table(["algorithm and fault", "against the twin", "right first", "verdict"], lines)


def missed() -> str:
    """A line for each answer of a cell that was not named rightly, or of healthy runs that were not called so."""
    found = []
    for row in cells():
        harm = row["harm"]["harm"] if row["harm"] else "healthy"
        answers: dict[str, list[str]] = {}
        for seed, said in row["said"]["all"].items():
            is_wrong = row["expected"] and first_named(said) not in row["expected"]
            is_right_to_be_silent = harm == "harmless" and row["size"] != "full"
            is_called_ill = row["group"] == "healthy" and said["verdict"] != "healthy"
            if is_called_ill or (is_wrong and not is_right_to_be_silent):
                names = ", ".join(cause[0] for cause in said["causes"]) or "nothing"
                answers.setdefault(f"{said['verdict']}, named {names}", []).append(seed)
        for answer, seeds in answers.items():
            of = f"{len(seeds)} of {len(row['said']['all'])} seeds ({', '.join(seeds)})"
            found.append(f"- `{row['name']}` ({harm}): {answer}, on {of}")
    return "\n".join(found) or "Nothing in this matrix."


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


def shared(hits: Sequence[bool]) -> float:
    """Share of True; NaN of nothing."""
    return sum(hits) / len(hits) if hits else float("nan")
