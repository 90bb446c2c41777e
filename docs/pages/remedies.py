"""Tables and figures of docs/remedies.md: what each remedy does against each fault."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from algorithms.collapse.remedies import REMEDIES
from algorithms.collapse.trial import SOUND, TWIN, UNTREATED
from algorithms.reports.statistics import interquartile_mean
from docs.pages import ROOT, result
from docs.pages.figures import heat_map
from docs.pages.markdown import table

STARTS = {"warm": "from the warm policy", "cold": "from random weights"}
SAMPLER = ("temperature_mismatch", "dropout_in_rollout", "forward_mismatch", "stale_behaviour")
ORDER = ("cures", "helps", "nothing", "cannot tell", "harms")


def figures() -> dict[str, str]:
    """{path: SVG} of the figures."""
    return {f"remedies_{start}.svg": _drawn(start) for start in _measured()}


def _measured() -> list[str]:
    """The starts that were run."""
    results = ROOT / "benchmarks" / "results"
    return [start for start in STARTS if (results / f"remedies_{start}.json").exists()]


def _drawn(start: str) -> str:
    found = result(f"remedies_{start}")
    cells: dict[str, dict[str, tuple[str, str, str]]] = {name: {} for name in REMEDIES}
    for fault, effects in found["verdicts"].items():
        for each in effects:
            ends = each["interval"]
            interval = "" if ends is None else f"{ends[0]:+.0f} to {ends[1]:+.0f}"
            cells[each["remedy"]][fault] = (each["verdict"], f"{each['change_cp']:+.0f}", interval)
    return heat_map(f"remedies_{start}", {name: row for name, row in cells.items() if row})


def best(start: str) -> str:
    """A line for each fault: its harm, the remedy that does most, and how many do what."""
    found = result(f"remedies_{start}")
    lines = []
    for fault, effects in found["verdicts"].items():
        if fault == SOUND:
            continue
        trials = found["trials"][fault]
        ends = {side: _end(trials[side]) for side in (UNTREATED, TWIN)}
        helping = [each for each in effects if each["verdict"] in ("cures", "helps")]
        first = min(helping, key=lambda each: each["change_cp"], default=None)
        counts = {verdict: sum(each["verdict"] == verdict for each in effects) for verdict in ORDER}
        lines.append(
            (
                f"[{fault}](causes/{fault}.md)",
                f"{ends[UNTREATED]:.0f}, {ends[TWIN]:.0f}",
                "none" if first is None else f"`{first['remedy']}` {_change(first)}, {first['verdict']}",
                ", ".join(f"`{each['remedy']}`" for each in effects if each["verdict"] == "cures") or "none",
                ", ".join(f"{number} {verdict}" for verdict, number in counts.items() if number),
            )
        )  # fmt: skip
    header = ["fault", "regret at the end, twin's, cp", "does most, cp", "cure", "all remedies"]
    return table(header, lines)


CORRECTIONS = ("tis", "icepop", "dppo")


def corrections() -> str:
    """A line for each fault of the sampler and start: what it costs, and what each correction wins back."""
    lines = []
    for start in _measured():
        found = result(f"remedies_{start}")
        for fault in (name for name in found["verdicts"] if name in SAMPLER):
            cost = _end(found["trials"][fault][UNTREATED]) - _end(found["trials"][fault][TWIN])
            by_name = {each["remedy"]: each for each in found["verdicts"][fault]}
            cells = (
                f"{_change(by_name[name])}, {-100 * by_name[name]['change_cp'] / cost:.0f} %"
                for name in CORRECTIONS
            )
            lines.append((fault, STARTS[start], f"{cost:.0f}", *cells))
    header = ["fault", "start", "costs, cp", *(f"`{name}`, cp" for name in CORRECTIONS)]
    return table(header, lines)


def repeated(start: str) -> str:
    """A line for each fault of which something cures on move_net: what that does on resnet."""
    found = result(f"remedies_{start}_resnet")
    lines = []
    for fault, effects in found["verdicts"].items():
        trials = found["trials"][fault]
        ends = (_end(trials[UNTREATED]), _end(trials[TWIN]))
        lines.append(
            (
                f"[{fault}](causes/{fault}.md)",
                f"{ends[0]:.0f}, {ends[1]:.0f}",
                *(
                    ", ".join(
                        f"`{each['remedy']}` {_change(each)}"
                        for each in effects
                        if each["verdict"] in verdicts
                    )
                    or "none"
                    for verdicts in (("cures",), ("helps",), ("nothing", "cannot tell", "harms"))
                ),
            )
        )
    header = ["fault", "regret at the end, twin's, cp", "cure here too", "help", "do not help"]
    return table(header, lines)


def side_effects(start: str) -> str:
    """A line for each remedy: what it changes, and what it does to the sound run."""
    effects = result(f"remedies_{start}")["verdicts"][SOUND]
    lines = []
    for each in effects:
        remedy = REMEDIES[each["remedy"]]
        lines.append(
            (f"`{remedy.name}`", remedy.title, remedy.source, _change(each), each["verdict"],
             f"{each['entropy']:.2f}", f"{each['pass_at_8']:.3f}")
        )  # fmt: skip
    header = [
        "remedy",
        "what is changed",
        "recommended in",
        "sound run, cp",
        "verdict",
        "entropy, nats",
        "pass@8",
    ]
    return table(header, lines)


def not_run(start: str) -> str:
    """A line for each reason for which a remedy was not run against some faults."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for fault, skipped in result(f"remedies_{start}")["skipped"].items():
        for remedy, why in skipped.items():
            reasons.setdefault((remedy, why.removeprefix(f"{remedy}: ")), []).append(fault)
    return table(
        ["remedy", "not run against", "because"],
        [(f"`{remedy}`", ", ".join(faults), why) for (remedy, why), faults in reasons.items()],
    )


def how(start: str) -> str:
    """How the matrix was run, and how its verdicts do where the truth is known."""
    found = result(f"remedies_{start}")
    seeds, checks = found["seeds"], found["checks"]
    trials = sum(len(rows) for by_remedy in found["trials"].values() for rows in by_remedy.values())
    harmless = [name for name, share in found["harm"].items() if name not in found["trials"]]
    commits = " and ".join(f"`{commit[:7]}`" for commit in found["commits"])
    return (
        f"{trials:,} runs {STARTS[start]} on `{found['plan']['network']}`, seeds {seeds[0]} to {seeds[-1]}, at "
        f"{commits}. Left out, since they did no harm on seeds "
        f"{', '.join(map(str, found['harm_seeds']))}: {', '.join(f'`{name}`' for name in harmless) or 'none'}. With "
        f"treated and untreated runs swapped at random, {checks['claiming']} of {checks['swapped']:,} faults claimed "
        f"anything; of {checks['planted']} remedies made to lower the regret by 20 cp and do nothing else, "
        f"{checks['seen']} were seen."
    )


def _end(rows: list[Mapping[str, Any]]) -> float:
    return float(interquartile_mean([row["end_cp"] for row in rows if "end_cp" in row]))


def _change(each: Mapping[str, Any]) -> str:
    ends = each["interval"]
    return f"{each['change_cp']:+.0f}" + (
        "" if ends is None else f" ({ends[0]:+.0f} to {ends[1]:+.0f})"
    )
