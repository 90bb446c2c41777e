"""docs/doctor.md: what the doctor says, its rules as they are declared, and how often it is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from algorithms.collapse.doctor import RULES
from algorithms.collapse.doctor.confidence import RIGHT_OF
from algorithms.collapse.doctor.confidence import SEEDS as CONFIDENCE_SEEDS
from algorithms.reports.student_t import beta_quantile
from benchmarks.doctor.cells import cells
from benchmarks.doctor.judge import rules_hash
from docs.pages import result
from docs.pages.doctor.matrix import SIZES, Rows, figures, first_named, right_share, sized
from docs.pages.writing.markdown import filled, table

SEEDS = 5

__all__ = ["figures", "pages"]


def pages() -> dict[str, str]:
    """{path: text} of the page."""
    matrix, chosen = result("doctor_matrix"), result("doctor_chosen")
    rows = matrix["cells"]
    text = filled(
        "doctor",
        rules=rules_table(),
        needs=needs_table(),
        confidences=confidence_table(),
        confidence_seeds=CONFIDENCE_SEEDS,
        rates=rates_table(matrix["rates"], chosen["rates"]),
        chosen=chosen["settings"],
        calibration=calibration_table(matrix["calibration"]),
        sizes=sizes_table(rows, ""),
        sizes_elsewhere=sizes_table(rows, "-move_net"),
        pairs=pairs_table(rows),
        algorithms=algorithms_table(rows),
        missed=missed(rows),
        settings={**matrix["settings"], **counts(rows)},
        complete=is_complete(rows),
        words={name: in_words(rate) for name, rate in matrix["rates"].items()},
        machine=matrix["machine"],
        rules_now=rules_hash(),
    )
    return {"docs/doctor.md": text}


def counts(rows: Rows) -> dict[str, int]:
    """How many seeds the causes were run on, and how many pairs and healthy runs there are."""
    groups = [row["group"] for row in rows]
    return {
        "seeds_of_causes": len({s for r in rows if r["group"] == "size" for s in r["regret_cp"]}),
        "pairs": groups.count("pair"),
        "healthy": groups.count("healthy"),
    }


def is_complete(rows: Rows) -> bool:
    """Whether every cell has been run, and the causes on all seeds."""
    return len(rows) == len(cells()) and all(
        len(row["regret_cp"]) == (1 if row["group"] == "healthy" else SEEDS) for row in rows
    )


def in_words(rate: Sequence[Any]) -> str:
    """The words `3 of 185`, or `none of 185` for 0."""
    hits, of, _ = rate
    return f"{hits or 'none'} of {of}"


def rules_table() -> str:
    """A line for each rule, as it is declared."""
    return table(
        ["cause", "named if", "ruled out by", "harmless where"],
        [(f"`{r.name}`", r.concludes, r.refuted_by, r.harmless) for r in RULES],
    )


def needs_table() -> str:
    """What each rule needs, and what logs it."""
    rows = []
    for rule in RULES:
        needs = " or ".join(", ".join(f"`{name}`" for name in metrics) for metrics in rule.needs)
        hidden = ", ".join(f"`{name}`" for name in rule.hidden_by) or "none"
        rows.append((f"`{rule.name}`", needs, rule.logged_by, hidden))
    return table(["cause", "needs", "logged by", "hidden by"], rows)


def confidence_table() -> str:
    """How often each finding was right on some seeds, by the size of the effect."""
    return table(
        ["cause", "size below 1", "1 to 2", "2 and more"],
        [
            (f"`{name}`", *(f"{right} of {of}" for right, of in bands))
            for name, bands in RIGHT_OF.items()
        ],
    )


def rates_table(judged: Mapping[str, Sequence[Any]], chosen: Mapping[str, Sequence[Any]]) -> str:
    """Each figure, with what is wanted, and what it was on the seed that the rules were chosen on."""

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


def calibration_table(bands: Sequence[Sequence[Any]]) -> str:
    """A line for each band of confidence, with the share's exact binomial interval."""

    def shown(right: int, of: int) -> tuple[str, str]:
        if not of:
            return "none", ""
        low = beta_quantile(0.025, right, of - right + 1) if right else 0.0
        high = beta_quantile(0.975, right + 1, of - right) if right < of else 1.0
        return f"{right / of:.1%}", f"{low:.1%} to {high:.1%}"

    return table(
        ["confidence", "mean", "right", "share", "95 % interval"],
        [
            (band, f"{mean:.1%}", f"{right} of {of}", *shown(right, of))
            for band, mean, right, of in bands
        ],
    )


def sizes_table(rows: Rows, suffix: str) -> str:
    """A line for each cause: right first, and what the fault did to regret, at each size."""
    lines: dict[str, list[str]] = {}
    for row in sized(rows, suffix):
        cause = row["name"].removesuffix(f"{suffix}-{row['size']}")
        harm, said = row["harm"], list(row["said"]["all"].values())
        right = round(right_share(row) * len(said))
        line = lines.setdefault(cause, ["" for _ in SIZES])
        did = f"{harm['difference_cp']:+.0f} cp, {harm['harm']}" if harm["seeds"] else "no twin"
        line[SIZES.index(row["size"])] = f"{right} of {len(said)} ({did})"
    header = ["cause", *SIZES[:-1], "harmless: not called harmful"]
    return table(header, [(f"`{name}`", *line) for name, line in lines.items()])


def pairs_table(rows: Rows) -> str:
    """A line for each pair: how often both were named, and what was named first."""
    lines = []
    for row in rows:
        if row["group"] != "pair":
            continue
        said = list(row["said"]["all"].values())
        both = sum(set(row["expected"]) <= {c[0] for c in each["causes"]} for each in said)
        firsts = ", ".join(sorted({f"`{first_named(each)}`" for each in said}))
        lines.append((row["name"].replace("+", " and "), f"{both} of {len(said)}", firsts))
    return table(["pair", "both named", "named first"], lines)


def algorithms_table(rows: Rows) -> str:
    """A line for each fault under another algorithm."""
    lines = []
    for row in rows:
        if row["group"] != "algorithm" or not row["harm"]["seeds"]:
            continue
        said = list(row["said"]["all"].values())
        right = sum(first_named(each) in row["expected"] for each in said)
        verdicts = ", ".join(sorted({each["verdict"] for each in said}))
        harm = row["harm"]
        lines.append((row["name"], f"{harm['difference_cp']:+.0f} cp, {harm['harm']}",
                      f"{right} of {len(said)}", verdicts))  # fmt: skip
    return table(["algorithm and fault", "against the twin", "right first", "verdict"], lines)


def missed(rows: Rows) -> list[str]:
    """A line for each answer of a cell that was not named rightly, or of healthy runs that were not called so."""
    found = []
    for row in rows:
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
            found.append(f"`{row['name']}` ({harm}): {answer}, on {of}")
    return found
