"""docs/reliability.md: the promises and their tests, and the matrix of faults with its counts."""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence
from typing import Any

from docs.pages import ROOT, result
from docs.pages.reliability.faults import FAULTS, Fault, Measure
from docs.pages.writing.markdown import filled, table, tables

_MODULES = "benchmarks.reliability"

PROMISED: dict[str, Sequence[str]] = {
    "P1": FAULTS[0].tests,
    "P2": (
        "env/test_vector_rules.py::test_equal_seeds_give_equal_streams_and_rows_do_not_depend_on_the_batch",
        "training/test_trainer.py::test_equal_seeds_give_equal_runs_and_another_seed_another",
        "evaluators/test_builtin.py::test_golden_scores_are_equal_on_every_machine",
        "golden/test_signature.py",
    ),
    "P3": (
        "training/test_presets_resume.py",
        "training/test_controlled_runs.py::test_a_run_that_is_stopped_and_continued_equals_one_that_is_not",
        "training/test_trainer.py::test_a_killed_run_continues_as_if_nothing_had_happened",
    ),
    "P4": tuple(
        test for fault in FAULTS if fault.key in ("L2", "F-1", "F-2", "F-4") for test in fault.tests
    ),
    "P5": next(fault.tests for fault in FAULTS if fault.key == "F-6"),
    "P6": tuple(
        f"trust/test_{name}.py"
        for name in (
            "names_in_a_folder",
            "files_outside",
            "pickles",
            "states",
            "limits",
            "page_in_a_browser",
        )
    ),
    "P7": next(fault.tests for fault in FAULTS if fault.key == "T-1"),
}
"""Promise -> its tests, as in `Fault.tests`."""


def pages() -> dict[str, str]:
    """{path: text} of the page."""
    text = filled(
        "reliability",
        tests={promise: links(tests) for promise, tests in PROMISED.items()},
        faults=faults_table(),
        measures=[(m.name, command(m), rows(m)) for m in _measures() if rows(m)],
        tables=tables,
    )
    return {"docs/reliability.md": text}


def _measures() -> list[Measure]:
    return [fault.measure for fault in FAULTS if fault.measure is not None]


def faults_table() -> str:
    """A line for each row of the matrix."""
    lines = []
    for fault in FAULTS:
        times, came = _counted(fault)
        lines.append((fault.key, fault.what, fault.how, times, came))
    return table(["row", "fault", "injected how, and what must come of it", "times", "result"], lines)  # fmt: skip


def _counted(fault: Fault) -> tuple[str, str]:
    """(how many times, what came of it) of a row."""
    if fault.not_run:
        return "0", f"**not run**: {fault.not_run}"
    times = [f"{count(fault.tests)} tests"] if fault.tests else []
    came = [f"tests: {links(fault.tests)}"] if fault.tests else []
    if fault.measure is not None:
        found = rows(fault.measure)
        if found:
            times.append(_sums(found, fault.measure.times))
            came.append(_sums(found, fault.measure.wrong))
        else:
            came.append(f"**not measured**: {command(fault.measure)}")
    return "; ".join(times) or "0", "; ".join(came)


def _sums(found: Sequence[dict[str, Any]], columns: Sequence[str]) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')}: {sum(row[name] for row in found):,}" for name in columns
    )


def command(measure: Measure) -> str:
    """The command that writes a record, in backticks; a sentence where its module is not there."""
    path = ROOT / _MODULES.replace(".", "/") / measure.name
    if not (path.with_suffix(".py").exists() or (path / "__main__.py").exists()):
        return "its benchmark is not built yet"
    record = f"benchmarks/results/{measure.name}.json"
    return f"`python -m {_MODULES}.{measure.name} --json {record}`"


def rows(measure: Measure) -> list[dict[str, Any]]:
    """The rows of a record; empty where it was not made."""
    try:
        found: list[dict[str, Any]] = result(measure.name)["rows"]
    except FileNotFoundError:
        return []
    return found


def links(tests: Sequence[str]) -> str:
    """The files of tests as links, each with the number of its test functions that are meant."""
    files: dict[str, list[str]] = {}
    for test in tests:
        files.setdefault(test.partition("::")[0], []).append(test)
    shown = []
    for path, own in files.items():
        name = path.rpartition("/")[2].removeprefix("test_").removesuffix(".py").replace("_", " ")
        shown.append(f"[{name}](../tests/{path}) ({count(own)})")
    return ", ".join(shown)


def count(tests: Sequence[str]) -> int:
    """Number of test functions; a function that takes many cases is one.

    Raises:
        ValueError: a file has no such function.
    """
    number = 0
    for test in tests:
        path, _, name = test.partition("::")
        known = functions(path)
        if name and name not in known:
            raise ValueError(
                f"docs/pages/reliability/faults.py names {name}, which tests/{path} has not"
            )
        number += 1 if name else len(known)
    return number


@functools.cache
def functions(path: str) -> frozenset[str]:
    """Names of the test functions of a file in `tests`."""
    tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
    return frozenset(
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )
