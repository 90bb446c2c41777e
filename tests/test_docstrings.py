"""What docstrings say: the shapes of arrays that come back, and where a source is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

ARRAY = re.compile(r"\b(NDArray|Tensor|Positions|Actions|Index|Float32)\b")
"""In a return annotation: what comes back has a shape."""

RETURNED = re.compile(rf"->[^:]*{ARRAY.pattern}")

SHAPE = re.compile(r"\[[^\]]+\]|\b[Ss]calars?\b|\bshape\b|\b[Ss]haped like\b")

SAYS_NONE = re.compile(r"^None\b")
"""A method whose answer is always None has no shape, whatever the protocol allows."""

CITED = re.compile(r"[A-Z]\w+(?:(?:,| and)? (?:et al\.|[A-Z]\w+))*,? \(?(?:19|20)\d\d\b")
"""Authors and a year."""

LINK = re.compile(r"arXiv:\d{4}\.\d{4,5}|doi:10\.\d{4,}/\S|https?://\S")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules(about: re.Pattern[str]) -> Iterator[tuple[str, ast.Module]]:
    """(where it is, its tree) of every module in whose text that is found: the others need no parsing."""
    for package in ("chess_env", "algorithms"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if about.search(text := path.read_text(encoding="utf-8")):
                yield str(path.relative_to(ROOT)), ast.parse(text)


def public_functions() -> Iterator[tuple[str, Function, str]]:
    """(where it is, the function, its docstring) of every public one, where any returns an array."""
    for where, tree in modules(RETURNED):
        yield from _inside(tree, where)


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


def unlinked_sources() -> Iterator[str]:
    """Where a public docstring, of a module or a class too, names authors and a year but no way to the text."""
    for where, tree in modules(CITED):
        for node in ast.walk(tree):
            name = getattr(node, "name", "module")
            if isinstance(node, ast.Module | ast.ClassDef | Function) and name[0] != "_":
                text = ast.get_docstring(node) or ""
                if CITED.search(text) and not LINK.search(text):
                    yield f"{where}: {name}"


def test_docstrings_say_the_shapes_of_the_arrays_that_come_back() -> None:
    every = list(public_functions())
    silent = {where: found for where, *rest in every if (found := missing_shape(*rest))}
    assert every
    assert not silent, "\n".join(f"{where}: {found}" for where, found in silent.items())


def test_docstrings_that_name_a_publication_say_where_it_is() -> None:
    silent = list(unlinked_sources())
    assert not silent, "\n".join(silent)


def test_the_check_finds_a_missing_shape() -> None:
    source = '''
def silent(timeout: float) -> Tensor:
    """The values."""

def said(timeout: float) -> Tensor:
    """`[N]` values, after `timeout` seconds."""
'''
    silent, said = (
        (function, text) for _, function, text in _inside(ast.parse(source), "example.py")
    )
    assert missing_shape(*silent) == ["Tensor"] and missing_shape(*said) == []
