"""The figures of the doctor's matrix: how often it is right, by size, pair, algorithm and what is logged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from algorithms.doctor import RULES
from algorithms.doctor.confidence import BANDS as SIZES_FROM
from algorithms.doctor.confidence import SEEDS, band_of

CellRow = Mapping[str, Any]
Said = Mapping[str, Any]
BANDS = ((0.0, 0.7), (0.7, 0.9), (0.9, 0.97), (0.97, 1.0))


class Rate(NamedTuple):
    """A share and what is wanted of it.

    Attributes:
        hits: how often it happened.
        of: how often it could.
        wanted: "at least .98", in words.
    """

    hits: int
    of: int
    wanted: str = ""


def _all(
    rows: Iterable[CellRow], level: str = "all", is_seed: Callable[[int], bool] = lambda seed: True
) -> list[tuple[CellRow, Said]]:
    return [
        (row, said)
        for row in rows
        for seed, said in row["said"][level].items()
        if is_seed(int(seed))
    ]


def _names(said: Said) -> list[str]:
    return [cause[0] for cause in said["causes"]]


def _harmful(said: Said) -> list[str]:
    return [cause[0] for cause in said["causes"] if cause[1]]


def _right(row: CellRow, said: Said) -> bool:
    return _names(said)[:1] != [] and _names(said)[0] in row["expected"]


def _rate(pairs: Sequence[tuple[CellRow, Said]], holds: Any, wanted: str) -> Rate:
    return Rate(sum(bool(holds(row, said)) for row, said in pairs), len(pairs), wanted)


def _group(rows: Sequence[CellRow], *groups: str) -> list[CellRow]:
    return [row for row in rows if row["group"] in groups]


def _did(rows: Sequence[CellRow], harm: str) -> list[CellRow]:
    return [row for row in rows if row["harm"] and row["harm"]["harm"] == harm]


def _healthy(row: CellRow, said: Said) -> bool:
    return bool(said["verdict"] == "healthy")


def _wrongly(row: CellRow, said: Said) -> bool:
    return any(name not in (*row["expected"], *row["also"]) for name in _names(said))


def rates(rows: Sequence[CellRow]) -> dict[str, Rate]:
    """Every figure by its name."""
    sizes = _group(rows, "size")
    full = _all([row for row in sizes if row["size"] == "full"])
    milder = _all(_did([row for row in sizes if row["size"] in ("half", "third")], "harmful"))
    harmless = _all(_did([row for row in sizes if row["size"] == "harmless"], "harmless"))
    pairs = _all(_group(rows, "pair"))
    healthy = _all(_group(rows, "healthy"))
    twins = _all(_group(rows, "twin"))
    others = _all(_did(_group(rows, "algorithm"), "harmful"))
    every_other = _all(_group(rows, "algorithm"))
    later = _all(_group(rows, "late", "resumed"))
    audit = _all(_did(_group(rows, "audit"), "harmful"))
    found = {
        "full size: right first": _rate(full, _right, "at least .98"),
        "half and third, harmful: right first": _rate(milder, _right, "at least .80"),
        "half and third, harmful: healthy": _rate(milder, _healthy, "0"),
        "harmless sizes: called harmful": _rate(harmless, lambda _, s: _harmful(s), "at most .05"),
        "half and third, harmless: called harmful": _rate(
            _all(_did([row for row in sizes if row["size"] in ("half", "third")], "harmless")),
            lambda _, s: _harmful(s),
            "",
        ),
        "pairs: both named": _rate(
            pairs, lambda r, s: set(r["expected"]) <= set(_names(s)), "at least .70"
        ),
        "pairs: the first is one of the two": _rate(pairs, _right, "at least .95"),
        "pairs: one named that is not there": _rate(pairs, _wrongly, "at most .05"),
        "healthy runs: a cause named": _rate(healthy, lambda _, s: _names(s), "at most .03"),
        "healthy runs: not learning": _rate(
            healthy, lambda _, s: s["learning"] in ("not learning", "getting worse"), "at most .05"
        ),
        "healthy runs: healthy": _rate(healthy, _healthy, ""),
        "cured twins: a cause named": _rate(twins, lambda _, s: _names(s), ""),
        "other algorithms, harmful: right first": _rate(others, _right, "at least .80"),
        "other algorithms, harmful: healthy": _rate(others, _healthy, "0"),
        "other algorithms, harmful: wrongly named": _rate(others, _wrongly, "0"),
        "other algorithms, whatever the harm: wrongly named": _rate(every_other, _wrongly, ""),
        "milder faults of an audit, harmful: right first": _rate(audit, _right, "at least .80"),
        "milder faults of an audit, harmful: healthy": _rate(audit, _healthy, "0"),
        "late and continued: right first": _rate(later, _right, ""),
        "late and continued: begins within 2 updates of 21": _rate(
            later,
            lambda r, s: any(c[0] in r["expected"] and abs(c[3] - 21) <= 2 for c in s["causes"]),
            "",
        ),
    }
    return found | _levels(rows)


def _levels(rows: Sequence[CellRow]) -> dict[str, Rate]:
    """The figures of records with parts missing."""
    found = {}
    faulty = _did(_group(rows, "size", "algorithm", "late", "resumed", "audit"), "harmful")
    for level in [] if not rows else [name for name in rows[0]["said"] if name != "all"]:
        pairs = _all(faulty, level)
        found[f"{level}: healthy"] = _rate(pairs, _healthy, "0")
        found[f"{level}: wrongly named"] = _rate(pairs, _wrongly, "at most .02")
        still = whole = 0
        for row in faulty:
            if set(row["expected"]) <= set(row["lacking"][level]):
                continue
            for seed, said in row["said"]["all"].items():
                if _right(row, said):
                    whole += 1
                    still += _right(row, row["said"][level][seed])
        found[f"{level}: named where its columns remain"] = Rate(still, whole, "at least .90")
    return found


def calibration(rows: Sequence[CellRow]) -> list[tuple[str, float, int, int]]:
    """(band, mean confidence, findings that were right, findings), of seeds that no confidence was taken from."""
    found = []
    for low, high in BANDS:
        inside = [
            (confidence, name in (*row["expected"], *row["also"]))
            for row, said in _all(rows, is_seed=lambda seed: seed not in SEEDS)
            for name, _, confidence, _, _ in said["causes"]
            if low <= confidence < high or high == 1.0 == confidence
        ]
        mean = sum(c for c, _ in inside) / len(inside) if inside else 0.0
        found.append((f"{low:.2f} to {high:.2f}", mean, sum(r for _, r in inside), len(inside)))
    return found


def by_rule(rows: Sequence[CellRow]) -> dict[str, tuple[tuple[int, int], ...]]:
    """Cause -> (findings that were right, findings) for each band of sizes, on `SEEDS`: what `RIGHT_OF` holds."""
    found = {rule.name: [[0, 0] for _ in range(len(SIZES_FROM) + 1)] for rule in RULES}
    for row, said in _all(rows, is_seed=SEEDS.__contains__):
        for name, _, _, _, size in said["causes"]:
            cell = found[name][band_of(size)]
            cell[0] += name in (*row["expected"], *row["also"])
            cell[1] += 1
    return {name: tuple((right, of) for right, of in cells) for name, cells in found.items()}


def table(found: Mapping[str, Rate]) -> list[str]:
    """A line for each figure."""
    return [
        f"{name:<60}{rate.hits:>5} of {rate.of:<5}"
        f"{rate.hits / rate.of if rate.of else float('nan'):>7.3f}  {rate.wanted}"
        for name, rate in found.items()
    ]
