"""The parts of a run that are a user's own: its algorithm, found by name, and the names of all such parts."""

from __future__ import annotations

import ast
import dataclasses
from typing import Any

from algorithms.config.foreign import ForeignName, foreign_names
from algorithms.core.algorithm import Algorithm
from algorithms.core.checks import require_choice, shown, split_list
from algorithms.regularization import RegularizerConfig
from algorithms.regularization.term import Term
from chess_env.custom_objects import (
    CustomObjectError,
    label_of,
    load_object,
    missing_members,
    protocol_members,
    why_not_found_again,
)

MEMBERS = protocol_members(Algorithm)
"""Members of an algorithm; `group_size` and `update_epochs` may be fields or properties."""


def algorithm_class(spec: str) -> Any:
    """The class that `module:Name` names.

    Raises:
        CustomObjectError: it cannot be found, or is no frozen dataclass with the members of an `Algorithm`; the
            message says what is missing.
    """
    found = load_object(spec, "algorithm")
    subject = f"algorithm {shown(spec)}"
    if not isinstance(found, type):
        raise CustomObjectError(
            f"{subject} is a {type(found).__name__}: name the class, its fields are set by --algorithm.FIELD"
        )
    if not dataclasses.is_dataclass(found):
        raise CustomObjectError(
            f"{subject} is no dataclass: put @dataclasses.dataclass(frozen=True) above it"
        )
    if not found.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise CustomObjectError(f"{subject} is a dataclass that can change: make it frozen=True")
    fields = {field.name for field in dataclasses.fields(found)}
    missing = [name for name in missing_members(found, MEMBERS) if name not in fields]
    if missing:
        raise CustomObjectError(
            f"{subject} has no {', '.join(missing)}: an algorithm has {', '.join(MEMBERS)} "
            "(algorithms/core/algorithm.py says what each is)"
        )
    return found


def default_algorithm(spec: str) -> Any:
    """An instance with the default values of its fields.

    Raises:
        CustomObjectError: as of `algorithm_class`, or a field has no default.
    """
    found = algorithm_class(spec)
    without = [
        field.name
        for field in dataclasses.fields(found)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    if without:
        raise CustomObjectError(
            f"algorithm {shown(spec)} has no default for {', '.join(without)}: give each field one, the command "
            "line starts from it"
        )
    return found()


def recorded_name(algorithm: Any) -> str:
    """The name in config.json: a key of `ALGORITHMS`, or `module:Name` of a class outside it."""
    from algorithms import ALGORITHMS

    name = str(algorithm.name)
    return name if ALGORITHMS.get(name) is type(algorithm) else label_of(type(algorithm))


def named_class(name: str) -> Any:
    """The class that `recorded_name` named.

    Raises:
        ValueError: there is no such algorithm.
    """
    from algorithms import ALGORITHMS

    if ":" in name:
        return algorithm_class(name)
    require_choice("algorithm", name, ALGORITHMS)
    return ALGORITHMS[name]


def custom_terms(regularizer: RegularizerConfig) -> tuple[Term, ...]:
    """The terms of a user's own that the regulariser's settings name.

    Raises:
        CustomObjectError: a name cannot be found, its arguments do not fit, or it makes no `Term`.
    """
    return tuple(map(_custom_term, regularizer.terms))


def _custom_term(text: str) -> Term:
    name, *settings = split_list(text, ",")
    make, subject = load_object(name, "regularizer.terms"), f"regularizer.terms {shown(text)}"
    arguments: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = (part.strip() for part in setting.partition("="))
        if not equals:
            raise CustomObjectError(f"{subject}: {shown(setting)} is no argument: write KEY=VALUE")
        arguments[key] = _literal(value)
    try:
        term = make(**arguments)
    except TypeError as error:
        raise CustomObjectError(
            f"{subject} cannot be made: {error}; name a function that makes a Term of these arguments"
        ) from error
    if not isinstance(term, Term):
        raise CustomObjectError(
            f"{subject} made a {type(term).__name__}: expected a Term (algorithms/regularization/term.py)"
        )
    return term


def _literal(text: str) -> Any:
    """A number, True, False or None; anything else is a string."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def custom_names(config: Any) -> list[ForeignName]:
    """Every module:Name that a run imports from outside this project, as its record names it."""
    values = {**dataclasses.asdict(config), "algorithm": {"name": recorded_name(config.algorithm)}}
    return [name for name in foreign_names(values) if name.use == "imports"]


def cannot_be_resumed(config: Any) -> str:
    """A sentence on the parts of a run that another process cannot find again; empty where it finds all."""
    for setting, name, _ in custom_names(config):
        why = why_not_found_again(name)
        if why:
            return (
                f"{setting} {name} cannot be found by another process ({why}): `chess-lab train --resume`, `eval` "
                "and `uci` will not work on this run; put it into a module and import it from there"
            )
    return ""
