"""What docstrings say: shapes of arrays that come back, units, errors that are raised, and where a source is."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

ARRAY = re.compile(r"\b(NDArray|Tensor|Positions|Actions|Index|Float32)\b")
"""In a return annotation: what comes back has a shape."""

SHAPE = re.compile(r"\[[^\]]+\]|\b[Ss]calars?\b|\bshape\b|\b[Ss]haped like\b")

SAYS_NONE = re.compile(r"^None\b")
"""A method whose answer is always None has no shape, whatever the protocol allows."""

CITED = re.compile(r"[A-Z]\w+(?:(?:,| and)? (?:et al\.|[A-Z]\w+))*,? \(?(?:19|20)\d\d\b")
"""Authors and a year."""

LINK = re.compile(r"arXiv:\d{4}\.\d{4,5}|doi:10\.\d{4,}/\S|https?://\S")

HAS_A_UNIT = re.compile(
    r"(^|_)(time|times|timeout|duration|delay|elapsed|seconds|score|scores|regret|lead|memory)$"
)
"""Names of numbers that mean nothing without their unit, and do not end in one (`_cp`, `_ms`, `_s`, `_mb`)."""

UNIT = re.compile(
    r"centipawn|\bcp\b|second|\bms\b|\bMB\b|\bbytes\b|\bElo\b|0 to 1|\bunits?\b", re.IGNORECASE
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def public_functions() -> Iterator[tuple[str, Function, str]]:
    """(where it is, the function, its docstring) of every public function and method."""
    for package in ("chess_env", "algorithms"):
        for path in sorted((ROOT / package).rglob("*.py")):
            where = str(path.relative_to(ROOT))
            yield from _inside(ast.parse(path.read_text(encoding="utf-8")), where)


def _inside(node: ast.AST, where: str) -> Iterator[tuple[str, Function, str]]:
    for child in ast.iter_child_nodes(node):
        if getattr(child, "name", "_").startswith("_"):
            continue
        if isinstance(child, ast.ClassDef):
            yield from _inside(child, where)
        elif isinstance(child, Function):
            yield f"{where}:{child.lineno} {child.name}", child, ast.get_docstring(child) or ""


def missing_shape(function: Function, text: str) -> list[str]:
    """The annotation of arrays or tensors that the function returns, where their shape is not said."""
    returns = ast.unparse(function.returns) if function.returns else ""
    own = ARRAY.search(returns) and "Callable" not in returns
    return [returns] if own and not (SHAPE.search(text) or SAYS_NONE.match(text)) else []


def unnamed_errors(function: Function, text: str) -> list[str]:
    """What the function raises itself and its docstring does not name."""
    raised = {
        ast.unparse(error.func if isinstance(error, ast.Call) else error)
        for error in _errors_that_leave(function)
    }
    # A function that makes the error has a small letter: some error must be named then.
    wanted = {name if name[0].isupper() else "Error" for name in raised if "." not in name}
    return sorted(name for name in wanted if name not in text)


def _errors_that_leave(node: ast.AST) -> Iterator[ast.expr]:
    """What is raised by the function itself, outside the body of a `try` that handles errors."""
    handled = set(map(id, node.body)) if isinstance(node, ast.Try) and node.handlers else set()
    for child in ast.iter_child_nodes(node):
        if id(child) in handled or isinstance(child, Function):
            continue
        if isinstance(child, ast.Raise) and child.exc is not None:
            yield child.exc
        yield from _errors_that_leave(child)


def unitless_numbers(function: Function, text: str) -> list[str]:
    """What the function takes or returns that needs a unit, has none in its name, and none is said."""
    if UNIT.search(text):
        return []
    given = [*function.args.args, *function.args.kwonlyargs]
    named = [(each.arg, each.annotation) for each in given] + [(function.name, function.returns)]
    numbers = re.compile(rf"\bfloat\b|{ARRAY.pattern}")
    return [
        name
        for name, annotation in named
        if HAS_A_UNIT.search(name) and annotation and numbers.search(ast.unparse(annotation))
    ]


def unlinked_sources() -> Iterator[str]:
    """Where a public docstring, of a module or a class too, names authors and a year but no way to the text."""
    for package in ("chess_env", "algorithms"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                name = getattr(node, "name", "module")
                if isinstance(node, ast.Module | ast.ClassDef | Function) and name[0] != "_":
                    text = ast.get_docstring(node) or ""
                    if CITED.search(text) and not LINK.search(text):
                        yield f"{path.relative_to(ROOT)}: {name}"


@pytest.mark.parametrize("missing", [missing_shape, unnamed_errors, unitless_numbers])
def test_docstrings_say_shapes_errors_and_units(missing: Callable[..., list[str]]) -> None:
    every = list(public_functions())
    silent = {where: found for where, *rest in every if (found := missing(*rest))}
    assert len(every) > 900
    assert not silent, "\n".join(f"{where}: {found}" for where, found in silent.items())


def test_docstrings_that_name_a_publication_say_where_it_is() -> None:
    silent = list(unlinked_sources())
    assert not silent, "\n".join(silent)


def test_the_check_finds_a_missing_shape_a_missing_error_and_a_missing_unit() -> None:
    source = '''
def silent(timeout: float) -> Tensor:
    """The values."""
    raise ValueError("no")

def said(timeout: float) -> Tensor:
    """`[N]` values, after `timeout` seconds.

    Raises:
        ValueError: always.
    """
    raise ValueError("no")
'''
    silent, said = (
        (function, text) for _, function, text in _inside(ast.parse(source), "example.py")
    )
    assert missing_shape(*silent) == ["Tensor"] and unnamed_errors(*silent) == ["ValueError"]
    assert unitless_numbers(*silent) == ["timeout"]
    assert missing_shape(*said) == unnamed_errors(*said) == unitless_numbers(*said) == []
