"""The findings on four algorithms as claims, and which of them a comparison bears out.

They were read from the runs on `resnet`, and written down before `move_net` was run on the judged seeds.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from algorithms.comparison.grid_runs import GridRun
from algorithms.comparison.plan import TUNING_SEEDS
from algorithms.comparison.readings import LEVELS, UnreadableError, read_run
from algorithms.reports import difference_interval, interquartile_mean

Quantity = Literal["entropy", "entropy_end", "regret_end"]
Verdict = Literal["holds", "reversed", "cannot tell"]

ALGORITHMS = {"grpo": "GRPO", "ppo": "PPO", "rloo": "RLOO", "delightful_pg": "Delightful PG"}
BONUSES = {
    "none": "no bonus",
    "equal": "one coefficient for all",
    "share": "one share of the gradient for all",
}
"""Treatment -> what it is called."""

MORE_ENTROPY = (
    ("delightful_pg", "ppo"), ("delightful_pg", "rloo"), ("delightful_pg", "grpo"),
    ("ppo", "grpo"), ("rloo", "grpo"),
)  # fmt: skip
# Which of the two keeps more depends on the bonus.
PPO_AND_RLOO = (("rloo", "ppo", "none"), ("rloo", "ppo", "equal"), ("ppo", "rloo", "share"))


@dataclasses.dataclass(frozen=True)
class Claim:
    """A sum of columns that lies above a bound.

    Attributes:
        says: the claim in words.
        bonus: how entropy was regularised, in words.
        quantity: "entropy": held-out, nats, where all its columns have come down to one share of their starting
            regret, the deepest that all runs reach; "entropy_end": at the end, nats; "regret_end": held-out regret
            at the end, % of the start.
        weights: column -> its factor in the sum.
        above: the bound.
        presumes: a claim without which this one means nothing; where that does not hold this one is not compared.
    """

    says: str
    bonus: str
    quantity: Quantity
    weights: Mapping[str, float]
    above: float = 0.0
    presumes: Claim | None = None


@dataclasses.dataclass(frozen=True)
class Judgement:
    """What a comparison shows of a claim.

    Attributes:
        verdict: "holds" or "reversed" where the interval excludes 0, otherwise "cannot tell".
        margin: interquartile mean over the seeds of sum less bound; None where it cannot be formed.
        low, high: its 95 % interval.
        level: percent of the starting regret at which entropy was read; None for what is read at the end.
    """

    verdict: Verdict
    margin: float | None = None
    low: float | None = None
    high: float | None = None
    level: int | None = None


def _more_entropy(ours: str, theirs: str, treatment: str) -> Claim:
    says = f"{ALGORITHMS[ours]} keeps more entropy than {ALGORITHMS[theirs]} at equal regret"
    weights = {f"{ours}+{treatment}": 1.0, f"{theirs}+{treatment}": -1.0}
    return Claim(says, BONUSES[treatment], "entropy", weights)


def _less_regret(ours: str, theirs: str) -> Claim:
    says = f"{ALGORITHMS[ours]} ends at less regret than {ALGORITHMS[theirs]}"
    return Claim(says, BONUSES["none"], "regret_end", {f"{theirs}+none": 1.0, f"{ours}+none": -1.0})


def _bonus_regret(name: str, treatment: str, *, more: bool) -> Claim:
    says = f"{ALGORITHMS[name]} ends at {'more' if more else 'less'} regret with the bonus"
    sign = 1.0 if more else -1.0
    weights = {f"{name}+{treatment}": sign, f"{name}+none": -sign}
    return Claim(says, BONUSES[treatment], "regret_end", weights)


CLAIMS = (
    *(_more_entropy(*pair, treatment) for treatment in BONUSES for pair in MORE_ENTROPY),
    *(_more_entropy(*pair) for pair in PPO_AND_RLOO),
    *(_less_regret("ppo", name) for name in ("grpo", "rloo", "delightful_pg")),
    *(_less_regret(name, "grpo") for name in ("rloo", "delightful_pg")),
    *(_bonus_regret("delightful_pg", treatment, more=True) for treatment in ("equal", "share")),
    *(
        _bonus_regret(name, treatment, more=False)
        for name in ("grpo", "ppo", "rloo")
        for treatment in ("equal", "share")
    ),
    Claim(
        "More than half of Delightful PG's lead in entropy over PPO is gone",
        BONUSES["share"],
        "entropy",
        {"delightful_pg+none": 1.0, "ppo+none": -1.0, "delightful_pg+share": -2.0, "ppo+share": 2.0},
        presumes=_more_entropy("delightful_pg", "ppo", "none"),
    ),
    Claim("Delightful PG ends with over a nat",
          BONUSES["none"], "entropy_end", {"delightful_pg+none": 1.0}, above=1.0),
    Claim("GRPO ends with more than .07 nats",
          BONUSES["none"], "entropy_end", {"grpo+none": 1.0}, above=0.07),
    Claim("GRPO learns: it ends below the starting regret",
          BONUSES["none"], "regret_end", {"grpo+none": -1.0}, above=-100.0),
)  # fmt: skip
"""What docs/findings.md says of the four algorithms."""


def judge(claim: Claim, values: Mapping[str, Any]) -> Judgement:
    """What a comparison shows of the claim, over the seeds on which all of its columns ran.

    Args:
        claim: of `CLAIMS`.
        values: of comparison.json.
    """
    if claim.presumes is not None and judge(claim.presumes, values).verdict != "holds":
        return Judgement("cannot tell")
    runs = {
        name: {cell["seed"]: cell for cell in values["cells"] if cell["column"] == name}
        for name in claim.weights
    }
    seeds = [seed for seed in values["seeds"] if all(seed in own for own in runs.values())]
    level = None
    if claim.quantity == "entropy":
        level = _deepest([runs[name][seed] for name in runs for seed in seeds])
        if level is None:
            return Judgement("cannot tell")
    if len(seeds) < 2:
        return Judgement("cannot tell")
    sums = [
        sum(w * _read(claim.quantity, runs[name][seed], level) for name, w in claim.weights.items())
        for seed in seeds
    ]
    margins = np.array(sums) - claim.above
    interval = difference_interval(margins)
    low, high = float(interval.low), float(interval.high)
    verdict: Verdict = "holds" if low > 0 else "reversed" if high < 0 else "cannot tell"
    return Judgement(verdict, float(interquartile_mean(margins)), low, high, level)


def tuning_runs(folder: Path, rates: Sequence[float]) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """{algorithm: {step size: [a run for each tuning seed]}}: its seed, regret at the end and entropies.

    A run that broke is not in it.

    Args:
        folder: of the tuning runs, in that of the comparison.
        rates: the step sizes.
    """
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for name in ALGORITHMS:
        for rate in rates:
            runs = []
            for seed in TUNING_SEEDS:
                own = folder / f"{name}+learning_rate={rate:g}" / f"seed-{seed}"
                with contextlib.suppress(UnreadableError):
                    run = read_run(GridRun(own.name, (), own), name, seed, None)
                    values = run.to_dict()
                    kept = {key: values[key] for key in ("percent_of_start", "entropy_at_percent")}
                    runs.append({"seed": seed, **kept, "entropy_end": run.entropy[-1]})
            found.setdefault(name, {})[f"{rate:g}"] = runs
    return found


def stands_on(judgements: Mapping[str, Judgement]) -> str:
    """On which networks a claim holds: "both", "only on NAME" or "neither".

    Args:
        judgements: of one claim: network -> what its comparison shows.
    """
    networks = [name for name, each in judgements.items() if each.verdict == "holds"]
    if len(networks) == len(judgements):
        return "both"
    return f"only on {networks[0]}" if networks else "neither"


def _deepest(cells: Sequence[Mapping[str, Any]]) -> int | None:
    """The deepest level that all these runs reach; None where there is none."""
    reached = [
        level
        for level in LEVELS
        if all(cell["entropy_at_percent"][str(level)] is not None for cell in cells)
    ]
    return min(reached, default=None)


def _read(quantity: Quantity, cell: Mapping[str, Any], level: int | None) -> float:
    """The quantity of one run; `level` is that of "entropy"."""
    read = {
        "entropy": lambda: cell["entropy_at_percent"][str(level)],
        "entropy_end": lambda: cell["entropy"][-1],
        "regret_end": lambda: cell["percent_of_start"],
    }
    return float(read[quantity]())
