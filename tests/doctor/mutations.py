"""Ways in which a record is damaged: what is missing from it, and what stands in it that no run writes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping

from tests.doctor.rows import Rows, columns, keeping, without

LEAST_ROWS = 9
"""A beginning with fewer rows may hold too little of a fault."""


def drop_columns(rows: Rows, rng: random.Random) -> Rows:
    """Any number of metrics is missing."""
    names = columns(rows)
    return without(rows, *rng.sample(names, rng.randint(min(1, len(names)), len(names))))


def drop_a_few(rows: Rows, rng: random.Random) -> Rows:
    """One to three metrics are null."""
    names = columns(rows)
    return without(rows, *rng.sample(names, min(len(names), rng.randint(1, 3))), null=True)


def drop_a_group(rows: Rows, rng: random.Random) -> Rows:
    """All metrics with a prefix are missing, or all others."""
    prefixes = sorted({name.split("/")[0] for name in columns(rows)} or {"none"})
    prefix, keep = rng.choice(prefixes), rng.random() < 0.3
    return keeping(rows, lambda name: (name.split("/")[0] == prefix) == keep)


def drop_from_an_update_on(rows: Rows, rng: random.Random) -> Rows:
    """A metric ends somewhere in the first half, or begins somewhere in the second."""
    name, at = rng.choice(columns(rows) or ["none"]), rng.randint(0, len(rows))
    before = 2 * at > len(rows)
    return [row if (i < at) != before else without([row], name)[0] for i, row in enumerate(rows)]


def drop_rows(rows: Rows, rng: random.Random) -> Rows:
    """Any of the rows are missing but the last."""
    share = rng.random()
    return [row for row in rows[:-1] if rng.random() < share] + rows[-1:]


def drop_the_beginning(rows: Rows, rng: random.Random) -> Rows:
    """The first row is missing at least."""
    return rows[rng.randint(1, max(1, len(rows))) :]


def drop_the_end(rows: Rows, rng: random.Random) -> Rows:
    """The run is at an earlier update."""
    return rows[: rng.randint(min(LEAST_ROWS, len(rows)), len(rows))]


def spoil(rows: Rows, rng: random.Random) -> Rows:
    """A metric has values that no run writes."""
    name = rng.choice(columns(rows) or ["none"])
    odd = [None, math.nan, math.inf, -math.inf, -1.0, 0, 1e300, -1e300, 1e-300]
    return [
        row | ({name: rng.choice(odd)} if name in row and rng.random() < 0.5 else {})
        for row in rows
    ]


def spoil_the_steps(rows: Rows, rng: random.Random) -> Rows:
    """Steps are missing, are no numbers, or go back."""
    odd = [None, math.nan, math.inf, -1, 0, 3, 2.5]
    return [row | {"step": rng.choice(odd)} if rng.random() < 0.2 else row for row in rows]


def append_another_run(rows: Rows, rng: random.Random) -> Rows:
    """The rows of a run stand there twice, whole or in part."""
    return rows + rows[rng.randint(0, max(0, len(rows) - 1)) :]


Mutation = Callable[[Rows, random.Random], Rows]

REMOVALS: Mapping[str, Mutation] = {
    each.__name__: each
    for each in (
        drop_columns, drop_a_few, drop_a_group, drop_from_an_update_on, drop_rows,
        drop_the_beginning,
    )
}  # fmt: skip
"""None of these may make a faulty record healthy."""

SPOILERS: Mapping[str, Mutation] = {
    each.__name__: each for each in (spoil, spoil_the_steps, append_another_run, drop_the_end)
}
