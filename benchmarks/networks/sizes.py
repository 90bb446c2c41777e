"""Counts parameters and multiply-adds of every network in every size, and prints them as a Markdown table.

    python -m benchmarks.networks.sizes --json benchmarks/results/network_sizes.json

Nothing is timed: the counts are the same on every machine.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from algorithms.networks.build import NETWORKS, build_policy
from algorithms.networks.settings import SIZES, NetworkConfig
from benchmarks.records.report import print_table, save
from chess_env.move_facts import NUM_MOVE_FACTS
from chess_env.observation import NUM_PLANES

LEGAL_MOVES = 35
"""Of the position that is counted: about the mean of a game."""


def main() -> None:
    """None; prints the table, and writes it where --json is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, default=None, help="also write the counts here")
    rows = table()
    print_table(rows)
    save(parser.parse_args().json, "network_sizes", rows, legal_moves=LEGAL_MOVES)


def table() -> list[dict[str, Any]]:
    """One row for each network and size: its dimensions, and what `counts` says of it."""
    rows: list[dict[str, Any]] = []
    for network, sizes in SIZES.items():
        for size, dimensions in sizes.items():
            config = NetworkConfig(network=network, size=size)  # type: ignore[arg-type]
            parameters, multiply_adds = counts(config)
            rows.append(
                {"network": network, "size": size}
                | dimensions._asdict()
                | {
                    "move facts": "yes" if NETWORKS[network].reads_move_facts else "no",
                    "parameters, thousand": round(parameters / 1e3),
                    "multiply-adds a position, million": round(multiply_adds / 1e6, 2),
                }
            )
    return rows


def counts(config: NetworkConfig) -> tuple[int, int]:
    """(parameters, multiply-adds of the matrix products for one position), both without a critic."""
    policy = build_policy(config, seed=0, device=torch.device("cpu"))
    obs = torch.zeros(1, NUM_PLANES, 8, 8, dtype=torch.uint8)
    legal_ids = torch.arange(LEGAL_MOVES, dtype=torch.int16)[None]
    facts = torch.zeros(1, LEGAL_MOVES, NUM_MOVE_FACTS, dtype=torch.uint8)
    # The counter knows the matrix products of attention, and not the CPU's fused form of them.
    with (
        sdpa_kernel(SDPBackend.MATH),
        FlopCounterMode(display=False) as counter,
        torch.no_grad(),
    ):
        policy(obs, legal_ids, facts if policy.reads_move_facts else None)
    return policy.num_parameters, counter.get_total_flops() // 2


if __name__ == "__main__":
    main()
