"""The engine's options: their names, bounds and meanings."""

from __future__ import annotations

import dataclasses

from algorithms.playing.uci.protocol import SetOption, shown

MOST_MOVES = 218
"""`chess_env.rules.movegen.MAX_LEGAL`, repeated here so that `uci` is answered before numba is loaded."""

_LONGEST_NUMBER = 12  # characters; int() itself refuses only above 4,300 digits


@dataclasses.dataclass(frozen=True)
class Spin:
    """An option that is a whole number.

    Attributes:
        name: as the GUI shows it.
        default: value at the start.
        low: smallest value.
        high: largest value.
        meaning: one sentence for people.
    """

    name: str
    default: int
    low: int
    high: int
    meaning: str

    @property
    def line(self) -> str:
        """What the engine says of it after `uci`."""
        return (
            f"option name {self.name} type spin default {self.default} "
            f"min {self.low} max {self.high}"
        )


TEMPERATURE = Spin(
    "Temperature", 0, 0, 1000,
    "In percent. 0: the most probable move is played; 100: moves are drawn with the policy's own "
    "probabilities (softmax temperature 1); between, sharper; above, flatter.",
)  # fmt: skip
TOP_K = Spin(
    "TopK", 0, 0, MOST_MOVES,
    "Where Temperature is above 0: only the so many most probable moves are drawn from; 0: all.",
)  # fmt: skip
SEED = Spin(
    "Seed", -1, -1, 2**31 - 1,
    "Where Temperature is above 0: the same seed plays the same move in the same position of a "
    "game; -1: drawn anew every time.",
)  # fmt: skip
MULTI_PV = Spin(
    "MultiPV", 1, 1, MOST_MOVES,
    "1: the move that is played is shown; more: so many of the most probable moves.",
)  # fmt: skip

SPINS = (TEMPERATURE, TOP_K, SEED, MULTI_PV)


class OptionError(ValueError):
    """An option stays as it is; the message says why."""


class Options:
    """The values of `SPINS` now."""

    def __init__(self) -> None:
        self._values = {spin.name.lower(): spin.default for spin in SPINS}

    def __getitem__(self, spin: Spin) -> int:
        """The option's value."""
        return self._values[spin.name.lower()]

    def set(self, command: SetOption) -> None:
        """Changes a value.

        Raises:
            OptionError: there is no such option, or the value is no whole number in its range.
        """
        known = {spin.name.lower(): spin for spin in SPINS}
        spin = known.get(command.name.lower())
        if spin is None:
            names = ", ".join(spin.name for spin in SPINS)
            raise OptionError(
                f"option {shown(command.name)} is unknown and ignored; known: {names}"
            )
        value = _whole_number(command.value)
        if value is None or not spin.low <= value <= spin.high:
            raise OptionError(
                f"option {spin.name} stays {self[spin]}: {shown(command.value)} is not a whole "
                f"number from {spin.low} to {spin.high}"
            )
        self._values[spin.name.lower()] = value


def _whole_number(text: str) -> int | None:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(text) <= _LONGEST_NUMBER):
        return None
    return int(text)
