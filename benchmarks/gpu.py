"""Training on CUDA: plies a second, where the time goes, and how near an update comes to the card's arithmetic.

    python -m benchmarks.gpu [--json benchmarks/results/gpu.json] [--cases resnet-256x20-compiled ...]

Every case is `chess-lab train grpo` with the built-in evaluator on all cores, update by update. After its first
updates, which are shown as the warm-up, four are timed; the device is waited for at the end of each stage. One more is
watched by torch's profiler for the share of the time in which the device computed nothing. The arithmetic of an update
is counted by torch's FLOP counter on the same update without torch.compile: forward and backward passes over the
minibatches, and the pass that recomputes the old log-probabilities. It is compared with a product of two bfloat16
matrices of 8,192 x 8,192 random numbers, timed on the same card first.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import dataclasses
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from algorithms.config.run import EnvConfig, OptimizerConfig, RolloutConfig, TrainConfig
from algorithms.core.batch import RolloutBatch
from algorithms.networks.build import DEVICES, choose_device
from algorithms.networks.settings import NetworkConfig, PrecisionConfig
from algorithms.presets import PRESETS
from algorithms.training.session import Session
from algorithms.updates.training_batch import Targets, make_targets
from algorithms.updates.update import update
from benchmarks.records.report import print_table, save
from chess_env.games.scoring import ScoresLater

TIMED_UPDATES = 4
PLIES = 8
MATRIX = 8_192
NO_END = 10**12
BESIDE = "evaluator, beside"
LEARNING_RATE = 1e-4
"""With resnet's own, 2e-3, a trunk of 256 channels and 20 blocks has no finite gradient after a step or two."""

LARGE = NetworkConfig(network="resnet", channels=256, blocks=20)


@dataclasses.dataclass(frozen=True)
class Case:
    """One row of the table.

    Attributes:
        policy: the network.
        num_envs: boards.
        minibatch_size: states of one optimizer step.
        autocast: the trunk in bfloat16; else float32, its convolutions in TF32 (torch's default).
        compile: the trunk by torch.compile.
        device: where the network computes; on "cpu" with one thread, which is the default.
    """

    policy: NetworkConfig
    num_envs: int
    minibatch_size: int
    autocast: bool = True
    compile: bool = False
    device: str = "cuda"

    @property
    def config(self) -> TrainConfig:
        """The run."""
        algorithm, regularizer = PRESETS["grpo"]
        return TrainConfig(
            algorithm=algorithm,
            regularizer=regularizer,
            policy=self.policy,
            precision=PrecisionConfig(autocast=self.autocast),
            rollout=RolloutConfig(num_envs=self.num_envs, num_plies=PLIES),
            env=EnvConfig(evaluator="builtin"),
            optimizer=OptimizerConfig(
                minibatch_size=self.minibatch_size, learning_rate=LEARNING_RATE
            ),
            total_moves=NO_END,
            device=self.device,  # type: ignore[arg-type] # one of DEVICES
            compile=self.compile,
        )


CASES = {
    "move_net-medium-cpu": Case(NetworkConfig(), 64, 32, device="cpu"),
    "move_net-medium": Case(NetworkConfig(), 64, 32),
    "move_net-medium-wide": Case(NetworkConfig(), 1024, 1024),
    "move_net-medium-wider": Case(NetworkConfig(), 4096, 4096),
    "resnet-large-cpu": Case(NetworkConfig(network="resnet", size="large"), 64, 32, device="cpu"),
    "resnet-large": Case(NetworkConfig(network="resnet", size="large"), 64, 32),
    "resnet-large-wide": Case(NetworkConfig(network="resnet", size="large"), 1024, 1024),
    "resnet-256x20-float32": Case(LARGE, 1024, 1024, autocast=False),
    "resnet-256x20": Case(LARGE, 1024, 1024),
    "resnet-256x20-compiled": Case(LARGE, 1024, 1024, compile=True),
    "resnet-256x20-compiled-4096": Case(LARGE, 1024, 4096, compile=True),
}


class Stages:
    """Seconds of each stage of the main thread; a stage inside another one counts for itself alone.

    What other threads do meanwhile is counted apart, under `BESIDE`.

    Args:
        device: is waited for at the end of each stage.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.seconds: dict[str, float] = {}
        self._inside: list[float] = []

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Counts what is done inside."""
        if threading.current_thread() is not threading.main_thread():
            began = time.perf_counter()
            yield
            self.seconds[BESIDE] = self.seconds.get(BESIDE, 0.0) + time.perf_counter() - began
            return
        self._inside.append(0.0)
        began = time.perf_counter()
        yield
        wait(self.device)
        spent = time.perf_counter() - began
        self.seconds[name] = self.seconds.get(name, 0.0) + spent - self._inside.pop()
        if self._inside:
            self._inside[-1] += spent

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, as a stage."""

        def call(*args: Any, **kwargs: Any) -> Any:
            with self.stage(name):
                return function(*args, **kwargs)

        return call


class Training:
    """Updates of one run, with their stages timed.

    Args:
        config: of the run.
    """

    def __init__(self, config: TrainConfig) -> None:
        self.session = Session(config)
        self.stages = Stages(self.session.device)
        self.plies = self.scored_moves = 0
        vec, evaluator = self.session.worker.parts[0].vec.unwrapped, self.session.evaluator
        for owner, name, stage in (
            (vec, "step", "environment"),
            (vec, "score_actions", "environment"),
            (evaluator, "evaluate", "evaluator"),
            (evaluator, "score_moves", "evaluator"),
        ):
            setattr(owner, name, self.stages.timed(stage, getattr(owner, name)))
        # A rollout ends when the last answer has come.
        self._found, ScoresLater.found = (
            ScoresLater.found,
            self.stages.timed("evaluator", ScoresLater.found),
        )
        self.session.worker.start()

    def close(self) -> None:
        """Ends the run."""
        ScoresLater.found = self._found  # type: ignore[method-assign]
        self.session.close()

    def rollout(self) -> tuple[RolloutBatch, Targets]:
        """A rollout and what is learned from it."""
        policy = self.session.policy
        outputs = policy.outputs
        policy.outputs = self.stages.timed("forward", outputs)  # type: ignore[method-assign]
        try:
            collected = self.session.rollout()
        finally:
            del policy.outputs  # the method again
        self.plies += collected.plies
        self.scored_moves += collected.scored_moves
        learner = self.session.learner
        return collected.batch, make_targets(
            learner.algorithm, learner.regularizer, collected.batch
        )

    def update(self) -> float:
        """Seconds of a whole update, its rollout included."""
        began = time.perf_counter()
        with self.stages.stage("rest"):
            batch, targets = self.rollout()
            with self.stages.stage("update"):
                update(self.session.learner, batch, targets)
            self.session.progress.update += 1
        return time.perf_counter() - began

    def flop_of_update(self) -> float:
        """Floating-point operations of one update, by torch's counter; nothing is trained."""
        batch, targets = self.rollout()
        # A copy is never compiled: the counter does not see inside.
        learner = copy.deepcopy(self.session.learner)
        with FlopCounterMode(display=False) as counter:
            update(learner, batch, targets)
        return float(counter.get_total_flops())

    def idle_share(self) -> float:
        """Share of one update's wall time in which the device ran no kernel."""
        with profile(activities=[ProfilerActivity.CUDA]) as watched:
            spent = self.update()
        busy_us = sum(event.self_device_time_total for event in watched.key_averages())
        return 1 - busy_us / 1e6 / spent


def measure(case: Case, matrix_flop_per_s: float) -> dict[str, Any]:
    """A row of the table."""
    where = choose_device(case.device)
    if where.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    training = Training(case.config)
    try:
        # Equal parts of a rollout are one size or two, and each is compiled.
        warm_s = sum(training.update() for _ in range(2))
        training.stages.seconds.clear()
        training.plies = 0
        spent = [training.update() for _ in range(TIMED_UPDATES)]
        plies, stages = training.plies, dict(training.stages.seconds)
        cuda = where.type == "cuda"
        memory_gb = torch.cuda.max_memory_allocated() / 1e9 if cuda else None
        idle = training.idle_share() if cuda else None
        update_flop_per_s = training.flop_of_update() * TIMED_UPDATES / stages["update"]
    finally:
        training.close()
    whole = sum(spent)
    names = ("environment", "evaluator", "forward", "update", "rest")
    shares = {f"{name}_percent": round(100 * stages.get(name, 0.0) / whole) for name in names}
    shares["evaluator_beside_percent"] = round(100 * stages.get(BESIDE, 0.0) / whole)
    size = case.policy
    label = f"{size.network} {size.dimensions.channels}x{size.dimensions.blocks}"
    precision = "bfloat16" if case.autocast and where.type == "cuda" else "float32"
    return {
        "network": label,
        "device": where.type,
        "precision": precision + (", compiled" if case.compile else ""),
        "boards": case.num_envs,
        "minibatch": case.minibatch_size,
        "plies_per_s": round(plies / whole),
        "update_s": round(statistics.median(spent), 3),
        **shares,
        "device_idle_percent": None if idle is None else round(100 * idle),
        "update_tflop_per_s": round(update_flop_per_s / 1e12, 2),
        "percent_of_matrix_product": round(100 * update_flop_per_s / matrix_flop_per_s, 1),
        "memory_gb": None if memory_gb is None else round(memory_gb, 2),
        "warm_up_s": round(warm_s, 1),
    }


def matrix_product(device: torch.device, size: int) -> float:
    """Floating-point operations a second of a bfloat16 matrix product, the median of 20."""
    left, right = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    seconds = []
    for _ in range(25):
        wait(device)
        began = time.perf_counter()
        left @ right
        wait(device)
        seconds.append(time.perf_counter() - began)
    return float(2 * size**3 / statistics.median(seconds[5:]))


def wait(device: torch.device) -> None:
    """None; returns when the device has done all it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--device", choices=DEVICES, default=None, help="of all cases alike")
    parser.add_argument("--matrix", type=int, default=MATRIX, help="rows of the product")
    parser.add_argument("--json", type=Path, default=None, help="write the figures here too")
    options = parser.parse_args()
    device = choose_device(options.device or "cuda")
    torch.manual_seed(0)
    rate = matrix_product(device, options.matrix)
    card = torch.cuda.get_device_name(device) if device.type == "cuda" else "none"
    print(f"{card}: {rate / 1e12:.3g} TFLOP/s in a bfloat16 matrix product", flush=True)
    rows = []
    for name in options.cases:
        case = dataclasses.replace(CASES[name], device=options.device or CASES[name].device)
        rows.append(measure(case, rate))
        print({"case": name, **rows[-1]}, flush=True)
    print_table(rows)
    save(
        options.json,
        "gpu",
        rows,
        date=time.strftime("%Y-%m-%d"),
        card=card,
        torch=torch.__version__,
        matrix_product_tflop_per_s=round(rate / 1e12),
    )


if __name__ == "__main__":
    main()
