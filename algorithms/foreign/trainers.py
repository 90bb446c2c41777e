"""The trainers whose logs are read, by the names that `--from` takes; and a table of any other.

Its names are given by `--map theirs=ours`, or are those of `QUANTITIES`.
"""

from collections.abc import Mapping

from algorithms.foreign.openrlhf import OPENRLHF
from algorithms.foreign.prime_rl import PRIME_RL
from algorithms.foreign.sb3 import SB3
from algorithms.foreign.trainer import QUANTITIES, Column, Trainer
from algorithms.foreign.trl import TRL
from algorithms.foreign.verl import VERL

TRAINERS: dict[str, Trainer] = {each.name: each for each in (TRL, VERL, OPENRLHF, PRIME_RL, SB3)}


def table(names: Mapping[str, str]) -> Trainer:
    """The reader of a plain table.

    Args:
        names: theirs -> ours; `step` is ours too.

    Raises:
        ValueError: one of ours does not exist.
    """
    for theirs, ours in names.items():
        if ours not in QUANTITIES and ours != "step":
            known = ", ".join(["step", *QUANTITIES])
            raise ValueError(f"--map {theirs}={ours}: there is no {ours!r}; there are {known}")
    steps = tuple(theirs for theirs, ours in names.items() if ours == "step")
    columns = {theirs: Column(ours) for theirs, ours in names.items() if ours != "step"}
    return Trainer(
        name="table",
        title="a table",
        checked="names given by hand",
        unit="sample",
        steps=(*steps, "step", "_step", "Step"),
        columns={name: Column(name) for name in QUANTITIES} | columns,
    )
