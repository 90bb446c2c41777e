"""What docs/coming_from.md and docs/papers.md name of this project exists."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from algorithms import ALGORITHMS, PRESETS
from algorithms.config.run import TrainConfig

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("coming_from.md", "papers.md")
SETTING = re.compile(
    r"`((?:algorithm|env|match|optimizer|policy|precision|regularizer|rollout)\.\w+)\b"
)
OPTION = re.compile(r"`--([a-z]+\.[a-z-]+|[a-z]+(?:-[a-z]+)*)\b")
METRIC = re.compile(r"`((?:entropy|eval|policy|reg|rollout|time|train)/\w+)`")


def settings() -> set[str]:
    """Every setting of a run as `section.name`, those of all algorithms among them."""
    config = TrainConfig(*PRESETS["grpo"])
    names = {
        f"algorithm.{field.name}"
        for kind in ALGORITHMS.values()
        for field in dataclasses.fields(kind)
    }  # type: ignore[arg-type]
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            names |= {f"{field.name}.{part.name}" for part in dataclasses.fields(value)}
        names.add(field.name)
    return names


def second_columns(page: str) -> str:
    """The second cell of each row of a page's tables."""
    rows = re.findall(r"^\|.*\|$", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE)
    return "\n".join(row.split(" | ")[1] for row in rows if row.count(" | ") >= 2)


@pytest.mark.parametrize("page", PAGES)
def test_every_setting_that_is_named_exists(page: str) -> None:
    named = set(SETTING.findall(second_columns(page)))
    assert len(named) > 8
    assert named - settings() == set()


def test_every_option_beside_one_of_cleanrl_exists() -> None:
    named = {name.replace("-", "_") for name in OPTION.findall(second_columns("coming_from.md"))}
    commands_own = {"resume"}  # of the command line alone
    assert len(named) > 10
    assert named - settings() - commands_own - {"algorithm", "optimizer"} == set()


def test_every_metric_beside_one_of_another_library_is_defined() -> None:
    defined = (DOCS / "metrics.md").read_text(encoding="utf-8")
    named = set(METRIC.findall(second_columns("coming_from.md")))
    assert len(named) > 12
    assert [name for name in sorted(named) if f"`{name}`" not in defined] == []
