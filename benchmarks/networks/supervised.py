"""Greedy regret of each network after the same CPU-seconds of supervised learning, on the held-out slices.

    python -m benchmarks.networks.supervised [--networks move_net resnet:small] [--seconds 60] [--seeds 1 2]

What a network can learn from what it sees, without exploration and without an engine in the loop. The built-in
evaluator scores every legal move of `--positions` positions once (half of them drawn from each of two sources of
starts, none of them held out). The loss is the cross-entropy to softmax(asinh(score / 200 cp) / 0.1). AdamW, batches of
256, and a step size that rises for 100 steps and falls to 0 with the CPU time spent. The time counts facts, forward
pass, backward pass and step on one thread, and nothing else.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from algorithms.evaluation.heldout import prepare_slice, regret_cp
from algorithms.networks.build import build_policy
from algorithms.networks.policy_net import PolicyNet
from algorithms.networks.settings import NetworkConfig
from benchmarks.records.report import print_table, save
from chess_env.evaluators import make_evaluator
from chess_env.move_facts import move_facts_batch
from chess_env.observation import encode_batch
from chess_env.positions.heldout import load_heldout
from chess_env.positions.start_positions import make_start_positions
from chess_env.rules.packed import Positions
from chess_env.rules.rules import legal_actions_batch

STARTS = "0.5*random_plies:2-60+0.5*phase_mix"
CPU = torch.device("cpu")
RATES = {"move_net": 5e-3, "transformer": 2e-3, "resnet": 2e-3}
"""Largest step size of each network. They are not tuned."""


class Data(NamedTuple):
    """Positions with a target distribution over their legal moves.

    Attributes:
        positions: uint64 [N, 8].
        legal_ids: int16 [N, L], padded with -1.
        targets: float16 [N, L], 0 on padding.
    """

    positions: Positions
    legal_ids: NDArray[np.int16]
    targets: NDArray[np.float16]


def make_data(count: int, seed: int) -> Data:
    """Labelled positions, the same for the same seed."""
    source, rng = make_start_positions(STARTS), np.random.default_rng(seed)
    positions = np.array([source.sample(rng) for _ in range(count)])
    legal_ids, num_legal = legal_actions_batch(positions)
    legal_ids = np.ascontiguousarray(legal_ids[:, : num_legal.max()])
    targets = np.zeros(legal_ids.shape, np.float16)
    evaluator = make_evaluator("builtin")
    for start in range(0, count, 512):
        for row, scores in enumerate(evaluator.score_moves(positions[start : start + 512]), start):
            wanted = np.arcsinh(np.asarray(scores, np.float64) / 200) / 0.1
            weights = np.exp(wanted - wanted.max())
            targets[row, : len(scores)] = weights / weights.sum()
    return Data(positions, legal_ids, targets)


def learn(policy: PolicyNet, data: Data, seconds: float, rate: float, seed: int) -> int:
    """Number of positions that the policy was trained on in `seconds` of CPU time."""
    optimizer = torch.optim.AdamW(policy.parameters(), lr=rate, weight_decay=0.01)
    rng, spent, seen, steps = np.random.default_rng(seed), 0.0, 0, 0
    width = (data.legal_ids >= 0).sum(1)
    while spent < seconds:
        index = rng.integers(len(data.positions), size=256)
        start = time.process_time()
        longest = int(width[index].max())
        ids = np.ascontiguousarray(data.legal_ids[index, :longest])
        positions = data.positions[index]
        facts = move_facts_batch(positions, ids) if policy.reads_move_facts else None
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, steps / 100) * (1 - spent / seconds)
        dist = policy.outputs(
            torch.from_numpy(encode_batch(positions)),
            torch.from_numpy(ids),
            1.0,
            None if facts is None else torch.from_numpy(facts),
        ).dist
        target = torch.from_numpy(data.targets[index, :longest].astype(np.float32))
        loss = -(target * dist.logprobs.masked_fill(~dist.legal, 0.0)).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        spent += time.process_time() - start
        seen, steps = seen + 256, steps + 1
    return seen


def measure(policy: PolicyNet) -> dict[str, float]:
    """Greedy regret on each held-out slice, centipawns, and the mean of the slices."""
    heldout = load_heldout()
    names = list(dict.fromkeys(heldout.slice_names))
    found = {
        name: regret_cp(
            policy, prepare_slice(heldout, name), temperature=1.0, device=CPU
        ).regret_cp_greedy
        for name in names
    }
    return found | {"four_slices": sum(found.values()) / len(found)}


def config_of(spec: str) -> NetworkConfig:
    """The network that `name` or `name:size` means."""
    name, _, size = spec.partition(":")
    given: dict[str, Any] = {"size": size} if size else {}
    return NetworkConfig(network=name, **given)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--networks", nargs="+", default=["move_net", "resnet"])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--positions", type=int, default=200_000)
    parser.add_argument("--learning-rate", type=float, default=None)
    parser.add_argument("--json", type=Path, default=None, help="write the figures here too")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    data = make_data(arguments.positions, seed=0)
    rows = []
    for spec in arguments.networks:
        for seed in arguments.seeds:
            config = config_of(spec)
            policy = build_policy(config, seed=seed, device=CPU)
            rate = arguments.learning_rate or RATES[config.network]
            seen = learn(policy, data, arguments.seconds, rate, seed)
            row = {
                "network": spec,
                "seed": seed,
                "parameters": policy.num_parameters,
                "positions_per_s": round(seen / arguments.seconds),
                **{name: round(value, 1) for name, value in measure(policy.eval()).items()},
            }
            print(row, flush=True)
            rows.append(row)
    print_table(rows)
    save(
        arguments.json,
        "supervised_networks",
        rows,
        seconds=arguments.seconds,
        positions=arguments.positions,
        starts=STARTS,
    )


if __name__ == "__main__":
    main()
