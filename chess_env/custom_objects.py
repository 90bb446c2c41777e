"""Objects of a user's own, named `module:Name`: the one place where such a name is resolved.

An evaluator, a reward term, a source of start positions, a policy network or an algorithm may be written
outside this project and given by name. The module is imported as Python does, and the current folder is
searched too (last, so that a file there never hides an installed package).
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

_SPEC = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_MAIN = "__main__"
_SHOWN = 200
_PROJECT = Path(__file__).resolve().parents[1]
_NOT_OWN = (
    Path(sysconfig.get_path("stdlib")), *(_PROJECT / room for room in ("algorithms", "chess_env", "chess_lab.py")),
)  # fmt: skip


class CustomObjectError(ValueError):
    """A name `module:Name` that leads to nothing usable; the message says what to change."""


def shown(value: object) -> str:
    """`repr(value)`, cut behind 200 characters: what a message repeats of an input."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def meant(name: str, known: Iterable[str]) -> str:
    """The end of an error on a name that is none of `known`: the one that was probably meant; or empty."""
    import difflib  # only where something is wrong

    near = difflib.get_close_matches(name.casefold(), known, n=1, cutoff=0.55)
    return f"; did you mean {near[0]!r}?" if near else ""


def is_spec(text: object) -> bool:
    """True for a string that has the form `module:Name`; whether it exists is another question."""
    return isinstance(text, str) and _SPEC.fullmatch(text) is not None


def load_object(spec: str, what: str) -> Any:
    """The object that `module:Name` names; dots go into packages and into classes.

    Args:
        spec: `module:Name`.
        what: what the object is wanted for, for messages, such as "evaluator".

    Raises:
        CustomObjectError: not of that form, there is no such module or name, or the module raises when imported.
    """
    if not is_spec(spec):
        hint = (
            ": it was defined inside a function, where nobody else can find it; move it to the top level"
            if "<" in spec
            else ""
        )
        raise CustomObjectError(f"{what} {shown(spec)} has not the form module:Name{hint}")
    module_name, _, name = spec.partition(":")
    found: Any = _module(module_name, spec, what)
    for part in name.split("."):
        if not hasattr(found, part):
            raise CustomObjectError(_no_name(found, part, spec, what))
        found = getattr(found, part)
    return found


def make_object(spec: str, what: str, members: Iterable[str]) -> Any:
    """The object that `module:Name` names, made without arguments where that is a class or a function.

    Args:
        spec: `module:Name`.
        what: what the object is wanted for, for messages.
        members: names of the attributes that it must have.

    Raises:
        CustomObjectError: it cannot be found or made, or lacks one of the members.
    """
    members = tuple(members)
    found = load_object(spec, what)
    if isinstance(found, type) or (callable(found) and missing_members(found, members)):
        try:
            inspect.signature(found).bind()
        except TypeError as error:
            raise CustomObjectError(
                f"{what} {shown(spec)} cannot be made without arguments ({error}): give them defaults, or name a "
                "function that makes it"
            ) from error
        found = found()
    if missing := missing_members(found, members):
        raise CustomObjectError(
            f"{what} {shown(spec)} is a {type(found).__name__} without {', '.join(missing)}: "
            f"it needs {', '.join(members)}"
        )
    return found


def missing_members(found: object, members: Iterable[str]) -> list[str]:
    """Those of the attribute names `members` that an object does not have."""
    return [name for name in members if not hasattr(found, name)]


def protocol_members(protocol: type) -> tuple[str, ...]:
    """Names of the public attributes and methods that a Protocol asks for."""
    names = (*getattr(protocol, "__annotations__", {}), *vars(protocol))
    return tuple(dict.fromkeys(name for name in names if not name.startswith("_")))


def label_of(found: Any) -> str:
    """`module:Name` of a class or function, whether or not that name leads back to it.

    Raises:
        CustomObjectError: an object that has no name of its own.
    """
    module, name = getattr(found, "__module__", None), getattr(found, "__qualname__", None)
    if not (isinstance(module, str) and isinstance(name, str)):
        raise CustomObjectError(
            f"{found!r} has no name: give a class or a function, which can be found again as module:Name"
        )
    return f"{module}:{name}"


def spec_of(found: Any, what: str) -> str:
    """`module:Name` of a class or function, by which `load_object` finds it again.

    Args:
        found: the class or function.
        what: what it is used for, for messages.

    Raises:
        CustomObjectError: it has no name, or the name leads to something else (a lambda, a class inside a function).
    """
    label = label_of(found)
    if load_object(label, what) is not found:
        raise CustomObjectError(
            f"{what} {shown(label)} is not what that name leads to: define it at the top level"
        )
    return label


def why_not_found_again(label: str) -> str:
    """What keeps another process from finding `module:Name`; empty where nothing does."""
    if not is_spec(label):
        return "it was defined inside a function"
    if label.startswith(f"{_MAIN}:"):
        return "it was defined in the script or session that was started (__main__)"
    return ""


def source_record(spec: str) -> dict[str, str | None]:
    """{"module", "file", "sha256"} of the file behind `module:Name`; file and hash None without one."""
    name = spec.partition(":")[0]
    file = getattr(sys.modules.get(name), "__file__", None)
    path = None if file is None else Path(file)
    if path is None or not path.is_file():
        return {"module": name, "file": None, "sha256": None}
    return {
        "module": name,
        "file": str(path),
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }


def explained(error: BaseException) -> str:
    """What an error says, and the line of a user's own code that it comes from, where there is one."""
    text, place = str(error), place_of(error)
    # Errors of these kinds say for people what is wrong; the text of others, such as a KeyError's, needs its kind.
    if not text or (
        place and not isinstance(error, (ValueError, RuntimeError, OSError, ImportError))
    ):
        text = f"{type(error).__name__}{': ' if text else ''}{text}"
    return text if place in text else f"{text}{place}"


def place_of(error: BaseException) -> str:
    """The file and line of the innermost call of code that is neither this project's nor installed; or empty."""
    if error.__cause__ is not None and (place := place_of(error.__cause__)):
        return place
    places = [
        (frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    own = [(file, line) for file, line in places if _is_own(file)]
    return f" ({own[-1][0]}, line {own[-1][1]})" if own else ""


def _is_own(file: str) -> bool:
    path = Path(file)
    return (
        not file.startswith("<")
        and not {"site-packages", "dist-packages"} & {*path.parts}
        and not any(path.is_relative_to(room) for room in _NOT_OWN)
    )


def _module(name: str, spec: str, what: str) -> ModuleType:
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
        importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    # Whatever the user's code raises while it is imported is shown where it was raised.
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name and _is_parent(error.name, name):
            raise CustomObjectError(
                f"{what} {shown(spec)}: there is no module {shown(error.name)}, neither installed nor in {here}: start "
                "in its folder, or add that to PYTHONPATH"
            ) from error
        raise CustomObjectError(
            f"{what} {shown(spec)}: importing {name[:_SHOWN]} fails with {type(error).__name__}: {error}"
            f"{place_of(error)}"
        ) from error


def _is_parent(missing: str, name: str) -> bool:
    return name == missing or name.startswith(f"{missing}.")


def _no_name(found: Any, part: str, spec: str, what: str) -> str:
    if getattr(found, "__name__", None) == _MAIN:
        return (
            f"{what} {shown(spec)} was defined in the script or session that was started then: only that script can "
            f"find it again; put {part} into a module of its own"
        )
    public = [
        name
        for name, value in vars(found).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == found.__name__
    ]
    defined = f"it defines {', '.join(sorted(public))}" if public else "it defines no name"
    file = getattr(found, "__file__", None)
    return f"{what} {shown(spec)}: {file or found!r} has no {part}; {defined}"
