"""Our PPO against sb3-contrib's MaskablePPO: held-out regret at the end and wall time, seed by seed.

    python -m benchmarks.peers.ppo --only one_ply_move_net --json benchmarks/results/peers_ppo.json
    python -m benchmarks.peers.ppo --smoke

Same boards, evaluator, reward, network, first weights, schedules and budget in scored moves on both sides, one thread
each. `one_ply` has eight moves of a position at gamma 0, as `chess-lab compare` runs them; `versus` one move of a
position at gamma .5, against an opponent that answers inside the step. These are the two cases in which SB3's
advantages, which know one player, are right. The two take turns, each run in a process of its own; a seed takes some
ten minutes.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from algorithms.collapse.cause import applied
from algorithms.comparison.variants import train_arguments, with_intervals
from algorithms.config.names import named_run
from algorithms.config.run import TrainConfig
from algorithms.networks.build import reads_move_facts
from algorithms.reports.pairwise import compare
from algorithms.reports.run_files import read_metrics
from algorithms.reports.statistics import Scores
from benchmarks.records.command_line import ROOT, chess_lab
from benchmarks.records.report import print_table, save

OURS, THEIRS = "this project's PPO", "MaskablePPO of sb3-contrib"
STAGES = ("time/rollout_s", "time/update_s")

# One rollout is one minibatch, so both go over the very same samples in every step.
_ONE_PLY: dict[str, Any] = {
    "algorithm.group_size": 8, "algorithm.gamma": 0.0, "total_moves": 98_304,
    "rollout.num_envs": 32, "rollout.num_plies": 1, "optimizer.minibatch_size": 32,
    "regularizer.ent_coef": 0.35, "regularizer.ent_coef_final": 0.09,
}  # fmt: skip
# Chosen in five runs of our PPO on seed 1, with the residual network. Gamma .99 and 32 plies came from 384 to 262 cp,
# these to 144; a bonus of .35 stayed at 380, and `builtin` without random moves at 370 or above in 90,000 moves.
_VERSUS: dict[str, Any] = {
    "algorithm.gamma": 0.5, "env.opponent": "builtin@random=0.5", "env.max_plies": 16,
    "rollout.num_envs": 32, "rollout.num_plies": 16, "optimizer.minibatch_size": 128,
    "optimizer.learning_rate": 1e-3, "total_moves": 131_072,
    "regularizer.ent_coef": 0.01, "regularizer.ent_coef_final": 0.01,
}  # fmt: skip
_RESNET = {"policy.network": "resnet", "policy.channels": 32, "policy.blocks": 2}
_MOVE_NET = {"policy.network": "move_net"}
MODES = {
    "one_ply": _ONE_PLY | _RESNET,
    "versus": _VERSUS | _RESNET,
    "one_ply_move_net": _ONE_PLY | _MOVE_NET,
    "versus_move_net": _VERSUS | _MOVE_NET,
}


class Run(NamedTuple):
    """What a run took and came to.

    Attributes:
        seed: of the run.
        wall_s: the whole process.
        learning_s: its rollouts and updates, without evaluations and without what only writes the record.
        regret_cp: held-out, at the end.
        entropy: held-out, at the end, nats.
    """

    seed: int
    wall_s: float
    learning_s: float
    regret_cp: float
    entropy: float


def config_of(mode: str, *, smoke: bool) -> TrainConfig:
    """Our run at any seed; MaskablePPO is given the same numbers."""
    settings = MODES[mode] | {"env.evaluator": "builtin", "env.num_engines": 1}
    if smoke:
        tiny = {"policy.size": "tiny", "policy.channels": None, "policy.blocks": None}
        settings |= tiny | {"total_moves": 1_024}
    return with_intervals(applied(named_run("ppo"), settings)).settled()


def ours(mode: str, seed: int, *, smoke: bool) -> Run:
    """A run of `chess-lab train`."""
    with tempfile.TemporaryDirectory() as scratch:
        folder, began = Path(scratch) / "run", time.perf_counter()
        arguments = train_arguments(config_of(mode, smoke=smoke))
        chess_lab(*arguments, "--seed", str(seed), "--run-dir", str(folder))
        return run_of(seed, time.perf_counter() - began, read_metrics(folder))


def run_of(seed: int, wall_s: float, rows: Sequence[Mapping[str, float | None]]) -> Run:
    """What a run took and came to, from its record."""
    learning_s = sum(row.get(name) or 0.0 for row in rows for name in STAGES)
    last = [row for row in rows if row.get("eval/regret_cp") is not None][-1]
    return Run(seed, wall_s, learning_s, float(last["eval/regret_cp"]), float(last["eval/entropy"]))


def theirs(mode: str, seed: int, *, smoke: bool) -> Run:
    """A run of MaskablePPO, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.peers.ppo", "--theirs", mode, "--seed", str(seed)]
    began = time.perf_counter()
    done = subprocess.run(
        command + ["--smoke"] * smoke, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    found = json.loads(done.stdout.splitlines()[-1])
    return Run(seed, time.perf_counter() - began, **found)


def maskable_ppo(config: TrainConfig) -> tuple[Any, Any]:
    """(the model with this run's boards, network and numbers, the callback that moves its entropy bonus)."""
    import gymnasium as gym
    from sb3_contrib import MaskablePPO
    from stable_baselines3.common.callbacks import BaseCallback

    import chess_env  # noqa: F401 - registers ChessSelfPlay-v0
    from algorithms.integrations.sb3 import BoardsVecEnv, NetworkPolicy

    algorithm, optimizer, rollout, env = (
        config.algorithm, config.optimizer, config.rollout, config.env,
    )  # fmt: skip
    vec: Any = gym.make_vec(
        "ChessSelfPlay-v0", num_envs=rollout.num_envs, evaluator=env.evaluator, reward=env.reward,
        start_positions=env.start_positions, max_plies=env.max_plies or rollout.num_plies,
        opponent=env.opponent, move_facts=reads_move_facts(config.policy),
    )  # fmt: skip
    moves = algorithm.group_size if env.opponent is None else None
    states = rollout.num_envs * rollout.num_plies
    updates = config.total_moves // (states * algorithm.group_size)

    def rate(remaining: float) -> float:  # SB3 asks after a rollout was collected, ours before it
        update = max(0, round((1 - remaining) * updates) - 1)
        return optimizer.learning_rate_at(update, update / updates)

    model = MaskablePPO(
        NetworkPolicy,
        BoardsVecEnv(vec, moves),
        policy_kwargs={
            "config": config.policy, "seed": config.seed, "temperature": rollout.temperature,
        },
        learning_rate=rate,
        n_steps=rollout.num_plies,
        batch_size=min(optimizer.minibatch_size, states) * algorithm.group_size,
        n_epochs=algorithm.update_epochs,
        gamma=algorithm.gamma,
        gae_lambda=algorithm.gae_lambda,
        clip_range=algorithm.clip_range,
        normalize_advantage=algorithm.normalize_advantages,
        vf_coef=algorithm.vf_coef / 2,  # of (V - R)^2, ours of half of it
        max_grad_norm=optimizer.max_grad_norm,
        seed=config.seed,
        device="cpu",
    )  # fmt: skip

    class Bonus(BaseCallback):
        """The entropy bonus of each update, on the straight line that ours takes."""

        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            first, last = config.regularizer.ent_coef, config.regularizer.ent_coef_final
            done = (self.num_timesteps - states * algorithm.group_size) / config.total_moves
            self.model.ent_coef = first if last is None else first + (last - first) * done

    return model, Bonus()


def trained(config: TrainConfig) -> dict[str, float]:
    """{"learning_s", "regret_cp", "entropy"} of a run of MaskablePPO in this process."""
    import torch

    from algorithms.evaluation.regret import MAIN_SLICE, prepare_slice, regret_cp
    from chess_env.positions.heldout import load_heldout

    torch.set_num_threads(1)
    model, bonus = maskable_ppo(config)
    began = time.perf_counter()
    model.learn(config.total_moves, callback=bonus)
    learning_s = time.perf_counter() - began
    heldout = prepare_slice(load_heldout(), MAIN_SLICE)
    found = regret_cp(
        model.policy.net, heldout, temperature=config.rollout.temperature, device=model.device
    )
    return {"learning_s": learning_s, "regret_cp": found.regret_cp, "entropy": found.entropy}


def rows_of(
    mode: str, moves: int, own: Sequence[Run], other: Sequence[Run]
) -> list[dict[str, Any]]:
    """The row of each trainer, from runs that belong together by their place."""
    columns = [
        Scores(name, tuple(run.seed for run in runs), np.array([run.regret_cp for run in runs]))
        for name, runs in ((OURS, own), (THEIRS, other))
    ]
    interval = compare(columns, higher_is_better=False)[0].interval if len(own) > 1 else None
    rows = []
    for name, runs in ((OURS, own), (THEIRS, other)):
        regrets = [run.regret_cp for run in runs]
        ratios = [b.learning_s / a.learning_s for a, b in zip(runs, other, strict=True)]
        rows.append({
            "comparison": mode,
            "trainer": name,
            "scored_moves": moves,
            "seeds": len(runs),
            "wall_s": round(statistics.median(run.wall_s for run in runs), 1),
            "learning_s": round(statistics.median(run.learning_s for run in runs), 1),
            "times_faster_than_MaskablePPO": f"{statistics.median(ratios):.2f}",
            "regret_cp": f"{statistics.median(regrets):.1f} ({min(regrets):.1f} to {max(regrets):.1f})",
            "entropy": round(statistics.fmean(run.entropy for run in runs), 3),
            "regret_minus_theirs_95": (
                f"{interval.low:.2f} to {interval.high:.2f}" if interval and name == OURS else ""
            ),
        })  # fmt: skip
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=tuple(MODES), help="one of the comparisons")
    parser.add_argument("--seeds", type=int, default=6, help="pairs of runs of each")
    parser.add_argument("--smoke", action="store_true", help="tiny runs, to see that it works")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--theirs", choices=tuple(MODES), help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.theirs:
        config = config_of(options.theirs, smoke=options.smoke)
        print(json.dumps(trained(dataclasses.replace(config, seed=options.seed))))
        return 0
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = "1"
    rows, kept = [], {}
    for mode in [options.only] if options.only else MODES:
        found: dict[str, list[Run]] = {OURS: [], THEIRS: []}
        for seed in range(1, options.seeds + 1):
            for name, run in [(OURS, ours), (THEIRS, theirs)][:: 1 if seed % 2 else -1]:
                found[name].append(run(mode, seed, smoke=options.smoke))
                print(f"{mode}, {name}: {found[name][-1]}", flush=True)
        moves = config_of(mode, smoke=options.smoke).total_moves
        rows += rows_of(mode, moves, found[OURS], found[THEIRS])
        kept[mode] = {name: [run._asdict() for run in runs] for name, runs in found.items()}
    print_table(rows)
    save(options.json, "ppo", rows, smoke=options.smoke, runs=kept)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
