"""The command line before the parser reads it: the run that is meant, and wrong names."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from algorithms.config.foreign import Trust
from algorithms.core.checks import require_choice
from algorithms.core.messages import complain

if TYPE_CHECKING:
    from tyro.constructors import ConstructorRegistry

Options = TypeVar("Options")


def take(option: str, arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """(the value given to an option, the arguments without both); the value is None where it is not given.

    Such an option decides what the others mean, so it is read first.
    """
    value, kept, skip = None, [], False
    for position, argument in enumerate(arguments):
        name, equals, given = argument.partition("=")
        if skip:
            skip = False
        elif name == option and equals:
            value = given
        elif name == option and position + 1 < len(arguments):
            value, skip = arguments[position + 1], True
        else:
            kept.append(argument)
    return value, kept


def trust_in(arguments: Sequence[str]) -> Trust:
    """The names that a folder's configuration may use, by the command line that opens it.

    A setting that is given here replaces the folder's, and `module:Name` in front replaces its algorithm.

    Args:
        arguments: of `chess-lab train` or `pretrain`, under their names of today.
    """
    flags = [argument.partition("=")[0] for argument in arguments if argument.startswith("--")]
    names = [flag[2:].replace("-", "_") for flag in flags]
    # `pretrain` leaves the name of the section out.
    given = {*arguments[:1], *names, *(f"labels.{name}" for name in names)}
    return Trust("--trust" in arguments, frozenset(given))


def parse(
    options: Options, arguments: Sequence[str], *, prog: str, command: str, description: str
) -> Options:
    """The options with what the arguments change.

    Args:
        options: a dataclass whose `config` has the settings.
        arguments: of the command line.
        prog: what the help calls the command.
        command: what an error calls it.
        description: the help's first sentences.

    Raises:
        SystemExit: of code 2, after an error that is printed; of code 0 after the help.
    """
    import tyro

    from algorithms.commands.completion import settings_of

    try:
        check_choices(arguments, options.config)  # type: ignore[attr-defined]
    except ValueError as error:
        complain(command, error)
        raise SystemExit(2) from None  # the parser's own code for a line that makes no sense
    return tyro.cli(
        type(options),
        args=_unknown_apart(arguments, {each.flag for each in settings_of(options)}),
        default=options,
        prog=prog,
        description=description,
        config=(tyro.conf.FlagCreatePairsOff,),
        registry=_negated_help(),
    )


def negated(text: str) -> str:
    """The help of `--no-X`, from the help of X."""
    return f"turn this off: {text}"


def _negated_help() -> ConstructorRegistry:
    """A rule for the parser: a switch that is on has only the flag `--no-X`, whose help says what X does."""
    import tyro
    from tyro.constructors import ConstructorRegistry, StructConstructorSpec, StructTypeInfo

    registry, asking = ConstructorRegistry(), False

    @registry.struct_rule
    def rule(info: StructTypeInfo) -> StructConstructorSpec | None:
        nonlocal asking
        if asking or not dataclasses.is_dataclass(info.type):
            return None
        asking = True  # for the parser's own rules, which are asked inside this one
        try:
            spec = ConstructorRegistry.get_struct_spec(info)
        finally:
            asking = False
        if not isinstance(spec, StructConstructorSpec):
            return None
        hint = tyro.conf.arg(help_behavior_hint="(on without this flag)")
        fields = []
        for field in spec.fields:
            if field.default is True:
                kind: Any = Annotated[field.type, hint]
                text = _negated_later(field.helptext)
                field = dataclasses.replace(field, type=kind, helptext=text)
            fields.append(field)
        return dataclasses.replace(spec, fields=tuple(fields))

    return registry


def _negated_later(text: str | Callable[[], str | None] | None) -> Callable[[], str]:
    """`negated` of a text that may be found only when it is shown."""
    return lambda: negated((text() if callable(text) else text) or "")


def _unknown_apart(arguments: Sequence[str], known: set[str]) -> list[str]:
    """The arguments with `--flag=value` in two where the flag is none: the parser then suggests one."""
    found: list[str] = []
    for argument in arguments:
        flag, equals, value = argument.partition("=")
        apart = flag.startswith("--") and equals and flag not in known
        found += [flag, value] if apart else [argument]
    return found


def check_choices(arguments: Sequence[str], config: Any) -> None:
    """Looks at every `--section.setting value` whose setting has named choices.

    Unknown flags are left to the parser, which suggests flags itself.

    Args:
        arguments: of the command line.
        config: the nested dataclass that they set.

    Raises:
        ValueError: a value is none of its setting's choices; the message names the nearest.
    """
    for position, argument in enumerate(arguments):
        if not argument.startswith("--"):
            continue
        flag, equals, value = argument.partition("=")
        if not equals:
            value = arguments[position + 1] if position + 1 < len(arguments) else ""
        choices = choices_of(config, flag[2:].replace("-", "_").split("."))
        if choices and value:
            require_choice(flag, value, choices)


def choices_of(config: Any, path: list[str]) -> tuple[str, ...]:
    """The named choices of a setting; empty where it has none, or is not there.

    Args:
        config: the nested dataclass that has it.
        path: names of the sections and of the setting in them, with underscores.
    """
    if not dataclasses.is_dataclass(config) or isinstance(config, type):
        return ()
    hints = typing.get_type_hints(type(config))
    if path[0] not in hints:
        return ()
    if len(path) > 1:
        return choices_of(getattr(config, path[0]), path[1:])
    hint = hints[path[0]]
    kinds = [hint, *typing.get_args(hint)]
    names = [name for k in kinds if typing.get_origin(k) is Literal for name in typing.get_args(k)]
    return (*map(str, names), "None") if names and type(None) in kinds else tuple(map(str, names))
