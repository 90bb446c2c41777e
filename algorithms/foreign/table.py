"""A table of any trainer: its names are given by `--map theirs=ours`, or are those of `QUANTITIES`."""

from collections.abc import Mapping

from algorithms.foreign.trainer import QUANTITIES, Column, Trainer


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
