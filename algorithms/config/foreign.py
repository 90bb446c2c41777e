"""Names in a configuration from outside this project: code, programs, and files that it writes.

People send each other run folders. Whoever made the folder chose such names in its config.json, so they are used
only if the user names them too, or says that the folder is trusted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from algorithms.core.checks import WIDTH, shown
from algorithms.run_folder.atomic_files import UntrustedError
from chess_env.evaluators import is_foreign_evaluator
from chess_env.games.players import is_foreign_player
from chess_env.positions.start_positions import foreign_sources
from chess_env.rewards import parse_sum

Use = Literal["imports", "starts", "writes"]
_MOST_NAMES = 10  # that a message lists


class ForeignName(NamedTuple):
    """A value of a configuration that leads out of this project.

    Attributes:
        setting: dotted, such as "env.evaluator".
        value: module:Name, a program's evaluator or a path.
        use: how it is used: its module is imported, its program started, or its file written.
    """

    setting: str
    value: str
    use: Use


def _code(name: str) -> Iterator[tuple[str, Use]]:
    if ":" in name:
        yield name, "imports"


def _term(text: str) -> Iterator[tuple[str, Use]]:
    yield text.partition(",")[0], "imports"


def _reward(text: str) -> Iterator[tuple[str, Use]]:
    for name in parse_sum(text):
        yield from _code(name)


def _starts(spec: str) -> Iterator[tuple[str, Use]]:
    for name in foreign_sources(spec):
        yield name, "imports"


def _evaluator(name: str) -> Iterator[tuple[str, Use]]:
    if is_foreign_evaluator(name):
        yield name, "starts" if "path" in name else "imports"


def _player(name: str) -> Iterator[tuple[str, Use]]:
    if is_foreign_player(name):
        named = name.partition("@random=")[0]
        yield named, "starts" if "path" in named else "imports"


def _cache(path: str) -> Iterator[tuple[str, Use]]:
    if path != "memory":
        yield path, "writes"


def _path(path: str) -> Iterator[tuple[str, Use]]:
    yield path, "writes"


ALGORITHM = "algorithm.name"
"""Given by a name in front of the command line; every other setting has a flag."""

LEADING_OUT: dict[str, Callable[[str], Iterator[tuple[str, Use]]]] = {
    ALGORITHM: _code,
    "policy.network": _code,
    "regularizer.terms": _term,
    "env.evaluator": _evaluator,
    "env.reward": _reward,
    "env.start_positions": _starts,
    "env.opponent": _player,
    "match.opponents": _player,
    "env.cache": _cache,
    "labels.evaluator": _evaluator,
    "labels.start_positions": _starts,
    "labels.labels_dir": _path,
}
"""Setting of `chess-lab train` or `pretrain` -> the foreign names in its text."""


def foreign_names(values: Mapping[str, Any]) -> list[ForeignName]:
    """All names of a configuration from outside this project; nothing is imported or looked up.

    Args:
        values: of a config.json, of either kind of run.

    Raises:
        ValueError: a reward or a mixture of start positions that cannot be read.
    """
    return [
        ForeignName(setting, name, use)
        for setting, of_text in LEADING_OUT.items()
        for text in _texts(_value_at(values, setting))
        for name, use in of_text(text)
    ]


def trusting_commands(values: Mapping[str, Any]) -> set[str]:
    """The commands of `chess-lab` that are refused a run with these settings unless it is trusted."""
    settings = {name.setting for name in foreign_names(values)}
    goes_on = {"train", "pretrain"} if settings else set()
    return goes_on | ({"board", "eval", "uci"} if "policy.network" in settings else set())


@dataclasses.dataclass(frozen=True)
class Trust:
    """The names from outside this project that a folder's configuration may use.

    Attributes:
        everything: whether it may use all of its names.
        replaced: settings for which the user gives a value, so that the folder's is not used.
        algorithm: the one that the user names; it is allowed as the folder's algorithm and nowhere else.
    """

    everything: bool = False
    replaced: frozenset[str] = frozenset()
    algorithm: str | None = None

    def allows(self, name: ForeignName) -> bool:
        """Whether this name may be followed."""
        return (
            self.everything
            or name.setting in self.replaced
            or (name.setting == ALGORITHM and name.value == self.algorithm)
        )


NO_TRUST = Trust()


def require_trust(path: Path, names: Iterable[ForeignName], trust: Trust) -> None:
    """Checks that all names may be used.

    Args:
        path: the config.json that has them.
        names: about to be used.
        trust: the names that the user allows.

    Raises:
        UntrustedError: one may not; the message shows each.
    """
    refused = [name for name in names if not trust.allows(name)]
    if refused:
        lines = [line for each in refused[:_MOST_NAMES] for line in _lines(each)]
        if len(refused) > _MOST_NAMES:
            lines.append(f"    and {len(refused) - _MOST_NAMES:,} more names")
        listed = "".join(f"\n{line}" for line in lines)
        raise UntrustedError(
            f"{path} names what is not part of this project. Opening it{listed}\n"
            "Whoever made the folder chose that. Look at it first. `--trust` allows it (in Python: "
            "`trust=Trust(everything=True)`)"
        )


def _lines(name: ForeignName) -> list[str]:
    """What following the name does: one line, or the value on a line of its own where 80 columns are too few."""
    does, value = f"    {name.use} {name.setting}", shown(name.value)
    fits = len(does) + 1 + len(value) <= WIDTH
    return [f"{does} {value}"] if fits else [does, f"      {value}"]


def _value_at(values: Any, setting: str) -> Any:
    for part in setting.split("."):
        values = values.get(part) if isinstance(values, Mapping) else None
    return values


def _texts(value: Any) -> Iterator[str]:
    """Every string in JSON values, the names in an object included: settings may be written in several ways."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(key)
            yield from _texts(inner)
    elif isinstance(value, Sequence):
        for inner in value:
            yield from _texts(inner)
