"""Makes the policies from which the runs of the causes start: `python -m benchmarks.learning.warm`.

Each is a little better than chance, with 2.3 nats of entropy where uniform has 3.4: its logits begin nine
or ten times as large as usual and are then trained for nine updates. At random initialisation all logits
are so nearly equal that several faults cannot be seen.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from pathlib import Path
from typing import NamedTuple

import torch

from algorithms import PRESETS
from algorithms.config.run import EnvConfig, OptimizerConfig, TrainConfig
from algorithms.evaluation.regret import MAIN_SLICE, prepare_slice, regret_cp
from algorithms.networks.build import SHIPPED, build_policy, initialise
from algorithms.networks.policy_net import PolicyNet
from algorithms.networks.settings import NetworkConfig
from algorithms.regularization import RegularizerConfig
from algorithms.training.trainer import train
from benchmarks.learning.ship import ship
from chess_env.positions.heldout import load_heldout


class Warm(NamedTuple):
    """A shipped policy that is a little better than chance.

    Attributes:
        name: of the shipped policy.
        sharpened: factor on its first logits.
    """

    name: str
    sharpened: float


WARM = {"resnet": Warm("warm", 9.0), "move_net": Warm("warm_move_net", 10.0)}
"""Network -> its policy. The factor of move_net was chosen for the regret and the entropy of `warm`."""


def settings(network: str, run_dir: Path) -> TrainConfig:
    """The run that makes a network's; the same on every machine up to the rounding of float32."""
    return TrainConfig(
        PRESETS["dr_grpo"][0],
        RegularizerConfig(ent_coef=0.03),
        policy=NetworkConfig(network=network),
        env=EnvConfig(
            evaluator="builtin-v1", reward="win_prob_delta", start_positions="random_plies:2-40"
        ),
        optimizer=OptimizerConfig(learning_rate=1e-3),
        total_moves=20_000,
        init_logit_scale=WARM[network].sharpened,
        run_dir=run_dir,
        device="cpu",
    )


def rebuild(network: str, folder: Path) -> None:
    """Trains it and writes its weights and their SHA-256 into `folder`."""
    warm = WARM[network]
    with tempfile.TemporaryDirectory() as scratch:
        run_dir = Path(scratch) / warm.name
        train(settings(network, run_dir))
        ship(run_dir / "checkpoints" / "latest" / "model.safetensors", warm.name, folder)


@torch.no_grad()
def describe(policy: PolicyNet) -> dict[str, float]:
    """Measures of a warm policy on the held-out slice random_2_40.

    `logit_std` is the mean over positions of the standard deviation of the legal logits;
    `entropy_<T>` the mean entropy at temperature T, nats; `uniform` the mean of ln(legal moves);
    `regret_cp` that of temperature 1.
    """
    part = prepare_slice(load_heldout(), MAIN_SLICE)
    cpu = torch.device("cpu")
    (inputs,) = part.inputs(policy, cpu, len(part.obs))
    logits = policy(*inputs)
    legal = torch.from_numpy(part.legal_ids) >= 0
    free = part.num_legal >= 2
    spread = [float(z[m].std()) for z, m, f in zip(logits, legal, free, strict=True) if f]
    at = {t: regret_cp(policy, part, temperature=t, device=cpu) for t in (1.0, 1.3)}
    return {
        "logit_std": sum(spread) / len(spread),
        "entropy_1.0": at[1.0].entropy,
        "entropy_1.3": at[1.3].entropy,
        "uniform": sum(math.log(n) for n in part.num_legal[free]) / int(free.sum()),
        "regret_cp": at[1.0].regret_cp,
    }


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.learning.warm",
        description="The shipped policies that the causes start from.",
    )
    parser.add_argument("--network", choices=WARM, default="resnet", help="whose policy")
    parser.add_argument("--rebuild", action="store_true", help="make it anew (half a minute)")
    parser.add_argument("--out", type=Path, default=SHIPPED, help="folder to write or read")
    arguments = parser.parse_args()
    network = arguments.network
    if arguments.rebuild:
        rebuild(network, arguments.out)
    path = arguments.out / f"{WARM[network].name}.safetensors"
    config = settings(network, arguments.out).policy
    policy = build_policy(config, seed=0, device=torch.device("cpu"))
    initialise(policy, str(path))
    print(f"{path}: {path.stat().st_size:,} bytes")
    for name, value in describe(policy.eval()).items():
        print(f"  {name:<12} {value:.3f}")


if __name__ == "__main__":
    main()
