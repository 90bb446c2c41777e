"""Tables and the figure of docs/corpus.md: what the corpus holds, and what doctors of logs say of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docs.pages import result
from docs.pages.figures import flagged
from docs.pages.markdown import table

PARTS = {
    "chess_open": "this project's, with the signal chain",
    "chess_sealed": "the same, other faults, sizes and seeds",
    "chess_sound": "the same without a fault: other algorithms, step sizes, bonuses, groups, starts",
    "chess_bonuses": "bonuses somewhat or much too large, and the same without",
    "chess_early_open": "this project's, from before the signal chain",
    "chess_early_sealed": "the same, other seeds",
    "trl_open": "TRL 1.16.0",
    "trl_sealed": "the same, other sizes and seeds",
    "trl_callback": "those of `trl_sealed` once more, with the callback",
    "sb3_open": "Stable-Baselines3 and sb3-contrib 2.9.2",
    "sb3_sealed": "the same, other sizes and seeds",
    "sb3_callback": "those of `sb3_sealed` once more, with the callback",
}
OURS = "chess-lab diagnose"
GROUPS = {
    "sound: flagged": "sound",
    "any fault: flagged": "faulty",
    "any harmful: flagged": "harmful",
}


def figures() -> dict[str, str]:
    """{path: SVG} of the figures."""
    panels = {part: answers(part) for part in result("corpus_rivals")["counts"]}
    return {"corpus.svg": flagged("corpus", panels)}


def parts() -> str:
    """A line for each part."""
    lines = []
    for name, what in PARTS.items():
        found = _rates(name)
        sound, faulty, harmful = (found.get(figure, {"of": 0})["of"] for figure in GROUPS)
        lines.append((f"`{name}`", what, sound + faulty, sound, faulty, harmful))
    return table(["part", "runs of", "runs", "sound", "faulty", "harmful"], lines)


def answers(part: str) -> list[tuple[str, str, dict[str, tuple[int, int]]]]:
    """(doctor, what it flags by, group -> (flagged, of)) of every doctor, this project's first."""
    ours = {
        group: (row["count"], row["of"])
        for figure, group in GROUPS.items()
        if (row := _rates(part)[figure])
    }
    found = result("corpus_rivals")
    others = [
        (
            f"{each['tool']} {found['versions'][each['tool']]}",
            each["reading"],
            {group: (each[f"{group}_flagged"], each[group]) for group in GROUPS.values()},
        )
        for each in found["counts"][part]
    ]
    return [(OURS, "verdict of harm", ours), *others]


def rivals(part: str) -> str:
    """A line for each doctor and the way it is read: what it flags of the runs of a part."""
    lines = [
        (f"`{doctor}`" if doctor == OURS else doctor, by, *(f"{hits} of {of}" for hits, of in groups.values()))
        for doctor, by, groups in answers(part)
    ]  # fmt: skip
    return table(["doctor", "flags by", *GROUPS.values()], lines)


def rates(*parts: str) -> str:
    """A line for each figure, a column for each part."""

    def share(row: Mapping[str, Any]) -> str:
        return f"{row['count']} of {row['of']} ({row['low']:.0%} to {row['high']:.0%})"

    columns = [_rates(part) for part in parts]
    return table(
        ["figure", *(part.replace("_", ", ") for part in parts)],
        [
            (figure, *(share(column[figure]) if figure in column else "none" for column in columns))
            for figure in columns[0]
        ],
    )


def _rates(part: str) -> dict[str, Mapping[str, Any]]:
    return {row["figure"]: row for row in result(f"corpus_{part}")["rows"]}
