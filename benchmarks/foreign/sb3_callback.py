"""Whether the callback for Stable-Baselines3 changes a run, what it costs, and which faults its columns name.

    python -m benchmarks.foreign.sb3_callback --seeds 1 2 3 --json benchmarks/results/foreign_sb3_callback.json

Each run is made without the callback and with it, in turn; weights are compared to the bit. Time is that of the
processor, on one thread. `hot` and `cold` draw the actions at a temperature of 1.7 and .6 and store the
log-probabilities of the policy that learns; `hot_stored` stores those of the distribution that it draws from. `dropout`
and `batch_norm` have such a layer.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.logger import configure
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import FlattenExtractor
from torch import nn
from torch.distributions import Categorical

from algorithms.foreign import diagnose_log, read_log
from algorithms.integrations.sb3_callback import DoctorCallback
from benchmarks.foreign.sb3_runs import CART, MASK, Task, make_envs
from benchmarks.records.report import print_table, save

ROLLOUTS = 25


def drawn(base: type, temperature: float, stored: bool = False) -> type:
    """A policy that draws its actions at a temperature; `stored`: and says the log-probabilities of that."""

    class Drawn(base):  # type: ignore[misc,valid-type]
        def forward(self, obs: Any, deterministic: bool = False, action_masks: Any = None) -> Any:
            given = (obs,) if action_masks is None else (obs, action_masks)
            own = self.get_distribution(*given).distribution
            other = Categorical(logits=own.logits / temperature)
            actions = other.sample()
            said = other if stored else own
            return actions, self.predict_values(obs), said.log_prob(actions)

    return Drawn


class Extractor(FlattenExtractor):
    """One layer of 64 and what `last` makes."""

    def __init__(self, observation_space: Any, last: Callable[[], nn.Module]) -> None:
        super().__init__(observation_space)
        self.layers = nn.Sequential(nn.LazyLinear(64), nn.Tanh(), last())
        self.layers(self.flatten(torch.zeros(2, self._features_dim)))
        self._features_dim = 64

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return self.layers(self.flatten(observations))


def with_layer(last: Callable[[], nn.Module]) -> dict[str, Any]:
    """Options of a policy with a layer that computes otherwise in training mode."""
    return {
        "features_extractor_class": Extractor,
        "features_extractor_kwargs": {"last": last},
    }


class Fault(NamedTuple):
    """A kind of run: the doctor's name of its cause, the sampler's temperature, and options of the policy."""

    cause: str = ""
    temperature: float = 1.0
    stored: bool = False
    policy: Callable[[], dict[str, Any]] = dict


FAULTS = {
    "sound": Fault(),
    "hot": Fault("temperature_mismatch", 1.7),
    "hot_stored": Fault("temperature_mismatch", 1.7, stored=True),
    "cold": Fault("temperature_mismatch", 0.6),
    "dropout": Fault("forward_mismatch", policy=lambda: with_layer(lambda: nn.Dropout(0.25))),
    "batch_norm": Fault("forward_mismatch", policy=lambda: with_layer(lambda: nn.BatchNorm1d(64))),
}
ALGORITHMS: dict[str, tuple[Any, Task, type, dict[str, Any]]] = {
    "ppo": (PPO, CART, ActorCriticPolicy, dict(CART.options)),
    "maskable_ppo": (MaskablePPO, MASK, MaskableActorCriticPolicy, dict(MASK.options)),
    "a2c": (A2C, CART, ActorCriticPolicy, {"n_steps": 16, "learning_rate": 2e-3}),
}


def run(
    algorithm: str, fault: Fault, seed: int, callback: DoctorCallback | None
) -> tuple[float, Any, Any]:
    """(seconds of the processor, the weights, the diagnosis)."""
    make, task, base, options = ALGORITHMS[algorithm]
    policy = base if fault.temperature == 1 else drawn(base, fault.temperature, fault.stored)
    model = make(policy, make_envs(task, "", 100 * seed), seed=100 * seed, device="cpu",
                 policy_kwargs=fault.policy(), **options)  # fmt: skip
    rollouts = ROLLOUTS * (8 if algorithm == "a2c" else 1)
    with tempfile.TemporaryDirectory() as folder:
        model.set_logger(configure(folder, ["csv"]))
        begin = time.process_time()
        steps = task.n_envs * options["n_steps"] * rollouts
        model.learn(steps, callback, log_interval=rollouts // ROLLOUTS)
        seconds = time.process_time() - begin
        model.logger.close()
        found = diagnose_log(read_log(Path(folder) / "progress.csv"))
    return seconds, model.policy.state_dict(), found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--kinds", nargs="*", default=list(FAULTS))
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for seed in options.seeds:
        for algorithm in ALGORITHMS:
            for kind in options.kinds:
                off, weights, _ = run(algorithm, FAULTS[kind], seed, None)
                on, same, found = run(algorithm, FAULTS[kind], seed, DoctorCallback())
                named = [each.name for each in found.causes if each.is_harmful]
                medians = {
                    name: round(float(np.median(found.log.values(name))), 4)
                    for name in ("surprise_gap", "inverse_temperature", "first_ratio_std")
                }
                rows.append({
                    "algorithm": algorithm, "kind": kind, "seed": seed, "cause": FAULTS[kind].cause,
                    "named": ", ".join(named), **medians, "time": round(on / off, 3), "seconds": round(off, 2),
                    "same_weights": all(torch.equal(weights[name], same[name]) for name in weights),
                })  # fmt: skip
    same = sum(row["same_weights"] for row in rows)
    median = round(statistics.median(row["time"] for row in rows), 3)
    faulty = [row for row in rows if row["cause"]]
    named = sum(row["named"].split(", ")[0] == row["cause"] for row in faulty)
    wrong = sum("mismatch" in row["named"] for row in rows if not row["cause"])
    print_table(rows)
    print(
        f"the same weights: {same} of {len(rows)}; time with it: {median} times that without; named first: {named} of "
        f"{len(faulty)}; sound and accused of it: {wrong} of {len(rows) - len(faulty)}"
    )
    save(
        options.json,
        "foreign_sb3_callback",
        rows,
        same=same,
        of=len(rows),
        median_time=median,
        named_first=named,
        faulty=len(faulty),
        sound_accused=wrong,
        sound=len(rows) - len(faulty),
    )


if __name__ == "__main__":
    main()
