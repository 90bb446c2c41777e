"""docs/environment.md: the environment's docstring, and the tables of its planes and of the facts of a move."""

from __future__ import annotations

from chess_env.move_facts import GROUPS, MOVE_FACTS, NUM_MOVE_FACTS
from chess_env.observation import PLANES
from docs.pages.writing.markdown import filled, table


def pages() -> dict[str, str]:
    """{path: text} of the page."""
    facts = {
        group: table(
            ["column", "name", "range", "it says"],
            [
                (str(column), f"`{fact.name}`", f"0-{fact.high}", fact.meaning)
                for column, fact in enumerate(MOVE_FACTS)
                if fact.group == group
            ],
        )
        for group in GROUPS
    }
    planes = table(
        ["plane", "name", "range", "it says"],
        [
            (str(number), f"`{plane.name}`", f"0-{plane.high}", plane.meaning)
            for number, plane in enumerate(PLANES)
        ],
    )
    text = filled("environment", planes=planes, facts=facts, num_facts=NUM_MOVE_FACTS)
    return {"docs/environment.md": text}
