"""What diagnostics cost, as a share of an update (rollout, targets and optimizer steps).

    python -m benchmarks.speed.diagnostics [--json benchmarks/results/diagnostics.json]

Default settings on both networks, built-in evaluator, one thread, CPU time of this process. Every round does
the same update on the same batch from the same weights twice, with and without what is measured inside
it, in alternating order, and times what comes around it alone. Bounds: what every update pays at most 5 %
of an update without it; what is looked at every 10 updates, and the signal chain, at most 10 % each averaged over
them.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from algorithms import PRESETS
from algorithms.config.run import EnvConfig, RolloutConfig, TrainConfig
from algorithms.core.batch import RolloutBatch
from algorithms.core.metrics import batch_metrics
from algorithms.diagnostics.signal_chain import Look, SignalChain
from algorithms.diagnostics.update_diagnostics import PolicyProbe, ProbeRecord, UpdateDiagnostics
from algorithms.evaluation.regret import MAIN_SLICE, prepare_slice
from algorithms.networks.settings import NetworkConfig
from algorithms.training.observer import audit_of, moves_of
from algorithms.training.session import SeenPositions, Session
from algorithms.updates.training_batch import TrainingBatch, make_targets
from algorithms.updates.update import UpdateMetrics, update
from benchmarks.records.report import print_table, save
from chess_env.positions.heldout import load_heldout

INTERVAL = 10
WARM_UP = 2
CPU = torch.device("cpu")
LIMITS = {"every update": 5.0, f"every {INTERVAL} updates": 10.0, "signal chain": 10.0}


class Loop:
    """Rollout and update of one preset, without logging or evaluation.

    Args:
        preset: its name.
        network: its kind.
        num_envs: boards.
        seed: of weights, boards and samples.
    """

    def __init__(self, preset: str, network: str, num_envs: int, seed: int) -> None:
        rollout = RolloutConfig(num_envs=num_envs)
        env = EnvConfig(evaluator="builtin", num_threads=1)
        config = TrainConfig(
            *PRESETS[preset],
            policy=NetworkConfig(network=network),
            rollout=rollout,
            env=env,
            seed=seed,
            device="cpu",
        )
        self.session = Session(config)
        self.learner = self.session.learner
        self.session.worker.start()

    def rollout(self) -> RolloutBatch:
        """The next batch."""
        return self.session.rollout().batch

    def update(
        self, batch: RolloutBatch, rate: float, diagnostics: UpdateDiagnostics | None = None
    ) -> dict[str, float]:
        """Trains on the batch; what the diagnostics saw around it."""
        learner = self.learner
        learner.learning_rate = rate
        targets = make_targets(learner.algorithm, learner.regularizer, batch)
        seen: dict[str, float] = {}
        if diagnostics is not None:
            seen = diagnostics.before(learner, batch, targets)
        update(learner, batch, targets)
        return seen | (diagnostics.after(learner.policy, rate) if diagnostics is not None else {})


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of `work` and what it returned."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def one_round(
    loop: Loop,
    diagnostics: UpdateDiagnostics,
    chain: SignalChain,
    record: ProbeRecord,
    seen: SeenPositions,
    *,
    first: str,
    second: str,
) -> dict[str, float]:
    """CPU seconds of the parts of one update, done once `with` and once `without` its metrics."""
    times: dict[str, float] = {}
    learner = loop.learner
    rate = learner.settings.full_learning_rate
    times["rollout"], batch = seconds(loop.rollout)
    targets = make_targets(learner.algorithm, learner.regularizer, batch)
    times["metrics"], _ = seconds(lambda: batch_metrics(batch, targets.advantages))
    times["seen"], _ = seconds(lambda: seen.fraction(batch.position_hash))
    times["before"], _ = seconds(lambda: diagnostics.before(learner, batch, targets))
    weights, moments = learner.policy.state_dict(), learner.optimizer.state_dict()
    start = copy.deepcopy((weights, moments, learner.shuffling.get_state()))
    temperature = loop.session.worker.temperature
    times["chain"], look = seconds(
        lambda: Look(chain, learner, batch, targets, temperature=temperature, update=0, rate=rate)
    )

    def at_step(training: TrainingBatch, accumulated: list[torch.Tensor]) -> None:
        times["chain"] += seconds(lambda: look.step(training, accumulated))[0]

    update(learner, batch, targets, on_step=at_step)
    times["chain"] += seconds(look.metrics)[0]
    for kind in (first, second):
        learner.policy.load_state_dict(start[0])
        learner.optimizer.load_state_dict(copy.deepcopy(start[1]))
        learner.shuffling.set_state(start[2])
        if kind == "with":
            times[kind], _ = seconds(lambda: loop.update(batch, rate))
        else:
            with mock.patch.object(UpdateMetrics, "add_loss", lambda *args: None):
                times[kind], _ = seconds(lambda: loop.update(batch, rate))
    times["after"], _ = seconds(lambda: diagnostics.after(learner.policy, rate))
    logprobs = diagnostics.logprobs
    assert logprobs is not None
    times["written"], _ = seconds(lambda: record.write(1, logprobs))
    return times


def measure(preset: str, network: str, num_envs: int, rounds: int, seed: int = 0) -> dict[str, Any]:
    """Medians over the rounds, and the shares of an update."""
    loop = Loop(preset, network, num_envs, seed)
    facts = loop.session.policy.reads_move_facts
    probe = PolicyProbe(None, loop.session.config.rollout.temperature, CPU, move_facts=facts)
    diagnostics = UpdateDiagnostics(probe)
    config = loop.session.config
    audit, heldout = audit_of(config.env), prepare_slice(load_heldout(), MAIN_SLICE)
    chain = SignalChain(audit, moves_of(heldout, loop.session.policy, audit.worth), seed=seed)
    seen = SeenPositions()
    kept = []
    with tempfile.TemporaryDirectory() as folder:
        record = ProbeRecord(Path(folder), probe, print)
        record.begin(loop.learner.policy)
        for number in range(rounds + WARM_UP):
            first, second = ("with", "without") if number % 2 else ("without", "with")
            times = one_round(loop, diagnostics, chain, record, seen, first=first, second=second)
            kept += [times] if number >= WARM_UP else []
    loop.session.close()
    audit.close()
    middle = {name: statistics.median(times[name] for times in kept) for name in kept[0]}
    inside = statistics.median(times["with"] - times["without"] for times in kept)
    update_s = middle["rollout"] + middle["without"]
    every = inside + middle["metrics"] + middle["seen"]
    interval = middle["before"] + middle["after"] + middle["written"]
    return {
        "preset": preset,
        "network": network,
        "update_ms": round(1000 * update_s),
        "of_it_rollout_ms": round(1000 * middle["rollout"]),
        "every_update_ms": round(1000 * every, 1),
        "every_update_percent": round(100 * every / update_s, 1),
        "interval_ms": round(1000 * interval),
        "interval_percent_averaged": round(100 * interval / INTERVAL / update_s, 1),
        "chain_ms": round(1000 * middle["chain"]),
        "chain_percent_averaged": round(100 * middle["chain"] / INTERVAL / update_s, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--presets", nargs="+", default=["grpo", "ppo", "exact"])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--smoke", action="store_true", help="tiny, to see that it works")
    parser.add_argument("--json", type=Path, default=None, help="write the figures here too")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rounds, num_envs = (2, 8) if arguments.smoke else (arguments.rounds, 64)
    networks = ("move_net",) if arguments.smoke else ("move_net", "resnet")
    rows = [
        measure(preset, network, num_envs, rounds)
        for network in networks
        for preset in arguments.presets
    ]
    print_table(rows)
    save(arguments.json, "diagnostics", rows, rounds=rounds, num_envs=num_envs, limits=LIMITS)
    if not arguments.smoke and any(
        row["every_update_percent"] > LIMITS["every update"]
        or row["interval_percent_averaged"] > LIMITS[f"every {INTERVAL} updates"]
        or row["chain_percent_averaged"] > LIMITS["signal chain"]
        for row in rows
    ):
        raise SystemExit(f"over the limits {LIMITS}")


if __name__ == "__main__":
    main()
