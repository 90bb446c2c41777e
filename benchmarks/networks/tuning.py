"""Step size and bonus that suit each algorithm on each network, chosen by one rule on seeds of their own.

    python -m benchmarks.networks.tuning --out runs/networks --json benchmarks/results/network_tuning.json

The rule. Runs of half a CPU-minute with the built-in evaluator, seeds 11 and 12. First the step size, from half, one
and two times the network's own; while the best is the lowest or the highest that was tried, the next one by a factor
of two is tried too, at most twice. Then the bonus at that step size, from half, one and two times the preset's; a
preset without one tries none, and half and one times that of `rloo`. Best is the lowest mean of the held-out regret of
the sampled move among what never falls below .3 nats of held-out entropy on either seed; where nothing stays above
it, what keeps the most.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from algorithms.networks.settings import LEARNING_RATES
from algorithms.presets import FADING_BONUS, PRESETS
from benchmarks.networks.by_cpu_time import ALGORITHMS, NETWORKS, Column, Settings, kept, measure
from benchmarks.records.report import print_table, save

SEEDS = (11, 12)
MINUTES = 0.5
LEAST_ENTROPY = 0.3
WIDENED = 2
RATE, FIRST, LAST = "optimizer.learning_rate", "regularizer.ent_coef", "regularizer.ent_coef_final"


def best(tried: Sequence[tuple[Settings, list[dict[str, Any]]]]) -> Settings:
    """The settings that the rule chooses.

    Args:
        tried: (settings, their rows, one a seed).
    """

    def lowest(rows: list[dict[str, Any]]) -> float:
        return min(float(row["lowest_entropy"]) for row in rows)

    broad = [(s, rows) for s, rows in tried if lowest(rows) >= LEAST_ENTROPY]
    if not broad:
        return max(tried, key=lambda each: lowest(each[1]))[0]
    return min(broad, key=lambda each: statistics.mean(r["regret_cp"] for r in each[1]))[0]


def bonuses(algorithm: str) -> list[tuple[float, float]]:
    """(first, last) entropy coefficients to try."""
    own = PRESETS[algorithm][1]
    if own.ent_coef == 0:
        assert FADING_BONUS.ent_coef_final is not None  # it fades
        pairs = [(f * FADING_BONUS.ent_coef, f * FADING_BONUS.ent_coef_final) for f in (0.5, 1)]
        return [(0.0, 0.0), *pairs]
    last = own.ent_coef if own.ent_coef_final is None else own.ent_coef_final
    return [(factor * own.ent_coef, factor * last) for factor in (0.5, 1, 2)]


class Search:
    """The runs of one algorithm on one network.

    Args:
        out: folder of the runs.
        column: what is trained.
    """

    def __init__(self, out: Path, column: Column) -> None:
        self.out, self.column = out, column
        self.tried: list[tuple[Settings, list[dict[str, Any]]]] = []

    def run(self, settings: Settings) -> None:
        """None; every seed with these settings, unless they were run before."""
        if any(settings == before for before, _ in self.tried):
            return
        rows = [measure(self.out, self.column, MINUTES, seed, settings) for seed in SEEDS]
        print(*rows, sep="\n", flush=True)
        self.tried.append((settings, rows))

    def chosen(self) -> Settings:
        """The settings that the rule chooses; runs what it needs."""
        network = self.column.network.partition(":")[0]
        own = LEARNING_RATES[network]
        pairs = bonuses(self.column.algorithm)
        first, last = pairs[1] if pairs[0][0] else pairs[0]
        rates = [own / 2, own, own * 2]
        for rate in rates:
            self.run({RATE: rate, FIRST: first, LAST: last})
        for _ in range(WIDENED):
            rate = best(self.tried)[RATE]
            if rate not in (min(rates), max(rates)):
                break
            rates.append(rate / 2 if rate == min(rates) else rate * 2)
            self.run({RATE: rates[-1], FIRST: first, LAST: last})
        rate = best(self.tried)[RATE]
        for first, last in pairs:
            self.run({RATE: rate, FIRST: first, LAST: last})
        return best([(s, rows) for s, rows in self.tried if s[RATE] == rate])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/networks"))
    parser.add_argument("--algorithms", nargs="+", default=list(ALGORITHMS))
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS))
    parser.add_argument("--json", type=Path, default=None, help="what it holds of others is kept")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    asked = set(itertools.product(options.algorithms, options.networks))
    rows = [
        row for row in kept(options.json, "rows") if (row["algorithm"], row["network"]) not in asked
    ]
    names = {(algorithm, network.partition(":")[0]) for algorithm, network in asked}
    chosen = [
        each
        for each in kept(options.json, "chosen")
        if (each["algorithm"], each["network"]) not in names
    ]
    for network in options.networks:
        for algorithm in options.algorithms:
            search = Search(options.out, Column(algorithm, network, "builtin"))
            settings, name = search.chosen(), network.partition(":")[0]
            chosen.append({"algorithm": algorithm, "network": name, "settings": settings})
            print(chosen[-1], flush=True)
            rows += [row for _, own in search.tried for row in own]
            save(options.json, "network_tuning", rows, chosen=chosen, least_entropy=LEAST_ENTROPY)
    print_table(rows)


if __name__ == "__main__":
    main()
