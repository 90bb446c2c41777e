"""What the cost model predicts for 8 GPUs with 512 engine cores. Nobody has measured it.

    python -m benchmarks.scale.prediction

It joins two measurements: of one process with one GPU (benchmarks/results/gpu.json) all but its evaluator, and of the
fitted model (benchmarks/results/cost_model.json) engines, positions of a state and exchange of gradients. Each of the
processes carries as many boards as the one that was measured.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from algorithms.networks.settings import NetworkConfig
from benchmarks.gpu import CASES, PLIES
from benchmarks.networks.sizes import counts
from benchmarks.records.command_line import ROOT
from benchmarks.records.report import print_table
from benchmarks.scale.model import Machines, Work, rollout_s

GPUS, ENGINE_CORES = 8, 512
ENGINE = "stockfish:depth=4"
PREDICTED = ("move_net-medium-wider", "resnet-large-wide", "resnet-256x20-compiled-4096")
"""Of `benchmarks.gpu`: the networks in their widest rollout."""


def rows_of(cost: Mapping[str, Any], gpu: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each network: plies a second with one engine core for each GPU, and with all of them.

    Args:
        cost: the record of `benchmarks.scale.cost`.
        gpu: that of `benchmarks.gpu`.
    """
    measured = dict(zip(CASES, gpu["rows"], strict=True))
    return [row_of(name, measured[name], cost["settings"]) for name in PREDICTED]


def row_of(name: str, measured: Mapping[str, Any], fitted: Mapping[str, Any]) -> dict[str, Any]:
    """A row: `name` is the case, `measured` its row of one GPU, `fitted` the settings of the cost model's record."""
    case = CASES[name]
    one_s = measured["boards"] * PLIES / measured["plies_per_s"]
    shares = {
        stage: measured[f"{stage}_percent"] / 100 * one_s
        for stage in ("environment", "forward", "update", "rest")
    }
    network_s = shares["environment"] + shares["forward"]
    work = _work(case.policy, measured["boards"] * GPUS, case.minibatch_size * GPUS, fitted)
    exchange = fitted["coefficients"]["update"][-2:]
    exchange_s = work.steps * (exchange[0] + exchange[1] * work.parameters)
    found = {}
    for cores in (GPUS, ENGINE_CORES):
        machines = Machines(
            GPUS, cores // GPUS, cores + GPUS, fitted["position_us"][ENGINE] / 1e6, overlaps=True
        )
        rollout = rollout_s(work, machines, network_s, fitted["coefficients"]["crowding"])
        found[cores] = (rollout, rollout + shares["update"] + exchange_s + shares["rest"])
    rollout, whole = found[ENGINE_CORES]
    return {
        "network": measured["network"],
        "boards": measured["boards"] * GPUS,
        "minibatch": case.minibatch_size * GPUS,
        f"plies_per_s, {GPUS} engine cores": _hundreds(work.states / found[GPUS][1]),
        f"plies_per_s, {ENGINE_CORES} engine cores": _hundreds(work.states / whole),
        "rollout_percent": round(100 * rollout / whole),
        "update_percent": round(100 * shares["update"] / whole),
        "gradients_percent": round(100 * exchange_s / whole),
    }


def _hundreds(rate: float) -> int:
    return 100 * round(rate / 100)


def _work(policy: NetworkConfig, boards: int, minibatch: int, fitted: Mapping[str, Any]) -> Work:
    states = boards * PLIES
    parameters, multiply_adds = counts(policy)
    positions = states * fitted["positions_a_state"]
    return Work(states, PLIES, states / minibatch, positions, multiply_adds, parameters)


def main() -> None:
    cost, gpu = (
        json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())
        for name in ("cost_model", "gpu")
    )
    print_table(rows_of(cost, gpu))


if __name__ == "__main__":
    main()
