"""Runs of Stable-Baselines3's PPO and MaskablePPO with one fault each and their twins: logs to judge the doctor by.

With the project's `sb3` extra (Stable-Baselines3 2.9.2, sb3-contrib 2.9.2, Gymnasium 1.4.0, torch 2.13.0, CPU), from
the root of the clone:

    python -m benchmarks.foreign.sb3_runs --part open --out runs/sb3/open --seeds 1 2

`cart_` runs play CartPole-v1 and `acro_` runs Acrobot-v1 with PPO; `mask_` runs play sb3-contrib's identity game (name
the symbol shown, out of 40, 20 of them masked) with MaskablePPO. Each run leaves
OUT/KIND__SEED/{progress.csv,args.json,label.json}; what is there is not run again.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium as gym
import numpy as np

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecEnv

HELD_OUT_EPISODES = 40
LEARNER, EVALUATION, HELD_OUT = 0, 100_000, 200_000
"""Added to the seeds of an environment, by who plays in it."""


class Task(NamedTuple):
    """What is played, and with which options it is learned.

    Attributes:
        env: the name in `args.json`.
        n_envs: how many are played at once.
        rollouts: how many times they are all played for `n_steps` steps.
        options: of the algorithm; of all kinds, unless a kind says otherwise.
        untrained: about the mean return of a policy that has learned nothing.
    """

    env: str
    n_envs: int
    rollouts: int
    options: Mapping[str, Any]
    untrained: float


CART = Task(
    "CartPole-v1",
    8,
    40,
    {"learning_rate": 1e-3, "n_steps": 128, "batch_size": 256, "n_epochs": 10, "gamma": 0.98},
    21.0,
)
ACRO = Task(
    "Acrobot-v1",
    16,
    30,
    {"learning_rate": 1e-3, "n_steps": 128, "batch_size": 256, "n_epochs": 10, "gamma": 0.99},
    -500.0,
)
MASK = Task(
    "InvalidActionEnvDiscrete(40, 100, 20)",
    8,
    40,
    {"learning_rate": 1e-3, "n_steps": 128, "batch_size": 256, "n_epochs": 10, "gamma": 0.9},
    5.0,
)

ALIGNED, ASKEW = 5, 4.3
"""Rollouts between two evaluations: at the end of a rollout, and in the middle of one."""


class Kind(NamedTuple):
    """A kind of run.

    Attributes:
        task: what is played.
        cause: the doctor's name; "" of a sound run.
        settings: options of the algorithm that make it.
        twin: the kind without the fault; "" of a sound run.
        change: of the learner's environment, what no option makes; one of `CHANGES`.
        evaluate: rollouts between two evaluations on the true reward; 0: no `eval/` columns.
        in_log: whether a stock log can name it.
    """

    task: Task
    cause: str = ""
    settings: Mapping[str, Any] = {}
    twin: str = ""
    change: str = ""
    evaluate: float = 0
    in_log: bool = True


NO_CLIP = {"n_epochs": 60, "clip_range": 1e6}

OPEN: dict[str, Kind] = {
    "cart_sound": Kind(CART, evaluate=ALIGNED),
    "cart_sound_lr3e-4": Kind(CART, "", {"learning_rate": 3e-4}),
    "cart_sound_bonus.01": Kind(CART, "", {"ent_coef": 0.01}, evaluate=ASKEW),
    "cart_sound_epochs4": Kind(CART, "", {"n_epochs": 4}),
    "cart_lr.3": Kind(CART, "high_learning_rate", {"learning_rate": 0.3}, "cart_sound"),
    "cart_lr1": Kind(
        CART, "high_learning_rate", {"learning_rate": 1.0}, "cart_sound", evaluate=ALIGNED
    ),
    "cart_passes60": Kind(CART, "old_samples", NO_CLIP, "cart_sound_epochs4"),
    "cart_clip.002": Kind(CART, "tight_clip", {"clip_range": 0.002}, "cart_sound"),
    "cart_bonus1": Kind(
        CART, "loss_budget", {"ent_coef": 1.0}, "cart_sound_bonus.01", evaluate=ASKEW
    ),
    "cart_constant": Kind(CART, "no_signal", {}, "cart_sound", "constant"),
    "cart_negated": Kind(CART, "wrong_reward", {}, "cart_sound", "negated", ALIGNED, False),
    "cart_negated_after": Kind(
        CART, "wrong_reward", {}, "cart_sound", "negated_after_monitor", in_log=False
    ),
    "cart_gamma0": Kind(CART, "short_horizon", {"gamma": 0.0}, "cart_sound", in_log=False),
    "cart_lr1e-7": Kind(
        CART, "small_steps", {"learning_rate": 1e-7}, "cart_sound_lr3e-4", evaluate=ALIGNED
    ),
    "cart_kl1e-5": Kind(CART, "small_steps", {"target_kl": 1e-5}, "cart_sound"),
    "cart_blind": Kind(CART, "blind", {}, "cart_sound", "blind", ALIGNED, in_log=False),
    "acro_sound": Kind(ACRO, evaluate=ASKEW),
    "acro_sound_lr3e-4": Kind(ACRO, "", {"learning_rate": 3e-4}),
    "acro_sound_bonus.01": Kind(ACRO, "", {"ent_coef": 0.01}),
    "acro_lr.1": Kind(ACRO, "high_learning_rate", {"learning_rate": 0.1}, "acro_sound"),
    "acro_lr1": Kind(ACRO, "high_learning_rate", {"learning_rate": 1.0}, "acro_sound"),
    "acro_passes40": Kind(ACRO, "old_samples", {**NO_CLIP, "n_epochs": 40}, "acro_sound"),
    "acro_clip.002": Kind(ACRO, "tight_clip", {"clip_range": 0.002}, "acro_sound"),
    "acro_bonus1": Kind(ACRO, "loss_budget", {"ent_coef": 1.0}, "acro_sound_bonus.01"),
    "acro_constant": Kind(ACRO, "no_signal", {}, "acro_sound", "constant"),
    "acro_negated": Kind(ACRO, "wrong_reward", {}, "acro_sound", "negated", ASKEW, False),
    "acro_gamma0": Kind(ACRO, "short_horizon", {"gamma": 0.0}, "acro_sound", in_log=False),
    "acro_lr1e-7": Kind(ACRO, "small_steps", {"learning_rate": 1e-7}, "acro_sound_lr3e-4"),
    "acro_kl1e-5": Kind(ACRO, "small_steps", {"target_kl": 1e-5}, "acro_sound"),
    "acro_blind": Kind(ACRO, "blind", {}, "acro_sound", "blind", ASKEW, in_log=False),
    "mask_sound": Kind(MASK, evaluate=ALIGNED),
    "mask_sound_lr3e-3": Kind(MASK, "", {"learning_rate": 3e-3}),
    "mask_sound_bonus.01": Kind(MASK, "", {"ent_coef": 0.01}, evaluate=ASKEW),
    "mask_sound_epochs4": Kind(MASK, "", {"n_epochs": 4}),
    "mask_lr.1": Kind(MASK, "high_learning_rate", {"learning_rate": 0.1}, "mask_sound"),
    "mask_lr1": Kind(
        MASK, "high_learning_rate", {"learning_rate": 1.0}, "mask_sound", evaluate=ALIGNED
    ),
    "mask_passes60": Kind(MASK, "old_samples", NO_CLIP, "mask_sound_epochs4"),
    "mask_clip.002": Kind(MASK, "tight_clip", {"clip_range": 0.002}, "mask_sound"),
    "mask_bonus1": Kind(
        MASK, "loss_budget", {"ent_coef": 1.0}, "mask_sound_bonus.01", evaluate=ASKEW
    ),
    "mask_constant": Kind(MASK, "no_signal", {}, "mask_sound", "constant"),
    "mask_negated": Kind(MASK, "wrong_reward", {}, "mask_sound", "negated", ALIGNED, False),
    "mask_negated_after": Kind(
        MASK, "wrong_reward", {}, "mask_sound", "negated_after_monitor", in_log=False
    ),
    "mask_lr1e-7": Kind(
        MASK, "small_steps", {"learning_rate": 1e-7}, "mask_sound", evaluate=ALIGNED
    ),
    "mask_kl1e-5": Kind(MASK, "small_steps", {"target_kl": 1e-5}, "mask_sound"),
    "mask_blind": Kind(MASK, "blind", {}, "mask_sound", "blind", ASKEW, in_log=False),
}


SEALED: dict[str, Kind] = {
    "cart_sound_c": Kind(CART, "", {"learning_rate": 7e-4, "batch_size": 128}, evaluate=ASKEW),
    "cart_sound_gae": Kind(CART, "", {"gae_lambda": 0.8, "n_epochs": 8}),
    "cart_sound_clip.3": Kind(CART, "", {"clip_range": 0.3, "ent_coef": 0.005}),
    "cart_sound_slow": Kind(CART, "", {"learning_rate": 2e-4, "n_epochs": 15}, evaluate=ALIGNED),
    "cart_lr.05": Kind(CART, "high_learning_rate", {"learning_rate": 0.05}, "cart_sound_c"),
    "cart_lr.5": Kind(CART, "high_learning_rate", {"learning_rate": 0.5}, "cart_sound_c", evaluate=ASKEW),
    "cart_passes100": Kind(CART, "old_samples", {**NO_CLIP, "n_epochs": 100}, "cart_sound_c"),
    "cart_clip.001": Kind(CART, "tight_clip", {"clip_range": 0.001}, "cart_sound_c", evaluate=ALIGNED),
    "cart_clip.004": Kind(CART, "tight_clip", {"clip_range": 0.004}, "cart_sound_c"),
    "cart_bonus.6": Kind(CART, "loss_budget", {"ent_coef": 0.6}, "cart_sound_clip.3"),
    "cart_constant": Kind(CART, "no_signal", {"learning_rate": 7e-4}, "cart_sound_c", "constant"),
    "cart_lr1e-6": Kind(CART, "small_steps", {"learning_rate": 1e-6}, "cart_sound_c"),
    "cart_kl5e-6": Kind(CART, "small_steps", {"target_kl": 5e-6}, "cart_sound_c", evaluate=ASKEW),
    "cart_gamma.2": Kind(CART, "short_horizon", {"gamma": 0.2}, "cart_sound_c", in_log=False),
    "acro_sound_c": Kind(ACRO, "", {"learning_rate": 7e-4, "clip_range": 0.3}),
    "acro_sound_e6": Kind(ACRO, "", {"n_epochs": 6, "ent_coef": 0.003}, evaluate=ALIGNED),
    "acro_lr.3": Kind(ACRO, "high_learning_rate", {"learning_rate": 0.3}, "acro_sound_c"),
    "acro_passes80": Kind(ACRO, "old_samples", {**NO_CLIP, "n_epochs": 80}, "acro_sound_c"),
    "acro_clip.001": Kind(ACRO, "tight_clip", {"clip_range": 0.001}, "acro_sound_c", evaluate=ASKEW),
    "acro_bonus2": Kind(ACRO, "loss_budget", {"ent_coef": 2.0}, "acro_sound_c"),
    "acro_lr1e-8": Kind(ACRO, "small_steps", {"learning_rate": 1e-8}, "acro_sound_c"),
    "mask_sound_c": Kind(MASK, "", {"learning_rate": 7e-4, "clip_range": 0.1}),
    "mask_sound_e15": Kind(MASK, "", {"n_epochs": 15, "learning_rate": 5e-4}, evaluate=ASKEW),
    "mask_sound_bonus.03": Kind(MASK, "", {"ent_coef": 0.03, "learning_rate": 2e-3}),
    "mask_lr.3": Kind(MASK, "high_learning_rate", {"learning_rate": 0.3}, "mask_sound_c"),
    "mask_lr.05": Kind(MASK, "high_learning_rate", {"learning_rate": 0.05}, "mask_sound_c"),
    "mask_passes90": Kind(MASK, "old_samples", {**NO_CLIP, "n_epochs": 90}, "mask_sound_c"),
    "mask_clip.003": Kind(MASK, "tight_clip", {"clip_range": 0.003}, "mask_sound_c"),
    "mask_bonus2": Kind(MASK, "loss_budget", {"ent_coef": 2.0}, "mask_sound_bonus.03"),
    "mask_constant": Kind(MASK, "no_signal", {"n_epochs": 6}, "mask_sound_c", "constant", ALIGNED),
    "mask_lr1e-6": Kind(MASK, "small_steps", {"learning_rate": 1e-6}, "mask_sound_c"),
}  # fmt: skip
"""Other sizes, judged once with seeds of their own; nothing was chosen on them."""

PARTS = {"open": OPEN, "sealed": SEALED}


class Blind(gym.ObservationWrapper):
    """Noise in place of what is seen: normal, or one of the symbols.

    Not from `self.np_random`: it and the generator that the identity game draws its symbols from get the same seed,
    so that the noise would be the symbol.
    """

    def observation(self, observation: Any) -> Any:
        """Looks at the kind of space only."""
        space = self.observation_space
        if isinstance(space, gym.spaces.Discrete):
            return random.randrange(int(space.n))
        size = int(np.prod(space.shape))
        return np.array([random.gauss() for _ in range(size)], space.dtype).reshape(space.shape)


# CartPole pays 1 a step and Acrobot -1, so that of all constants only 0 does not pay for the length of an episode.
CHANGES: dict[str, Callable[[gym.Env], gym.Env]] = {
    "": lambda env: env,
    "constant": lambda env: gym.wrappers.TransformReward(env, lambda _: 0.0),
    "negated": lambda env: gym.wrappers.TransformReward(env, lambda reward: -reward),
    "blind": Blind,
}
AFTER = "_after_monitor"
"""Of a change made, as `make_vec_env` makes its `wrapper_class`, where the logged return is still the true one."""


def make_env(task: Task) -> gym.Env:
    """One of them, as it comes."""
    if task is MASK:
        from sb3_contrib.common.envs import InvalidActionEnvDiscrete

        return InvalidActionEnvDiscrete(dim=40, ep_length=100, n_invalid_actions=20)
    return gym.make(task.env)


def make_envs(task: Task, change: str, seed: int) -> VecEnv:
    """The task's environments, each with a Monitor, which logs the reward it sees."""
    from stable_baselines3.common.env_util import make_vec_env

    if change.endswith(AFTER):
        wrapper = CHANGES[change.removesuffix(AFTER)]
        return make_vec_env(lambda: make_env(task), task.n_envs, seed, wrapper_class=wrapper)
    return make_vec_env(lambda: CHANGES[change](make_env(task)), task.n_envs, seed)


def seen(change: str) -> str:
    """What of a change an evaluation keeps: what the policy sees, and not what it is paid."""
    return change if change == "blind" else ""


def evaluation(kind: Kind, n_steps: int, seed: int) -> Any:
    """Stock evaluations as they are by default: five episodes of the likeliest actions."""
    from sb3_contrib.common.maskable.callbacks import MaskableEvalCallback
    from stable_baselines3.common.callbacks import EvalCallback

    callback = MaskableEvalCallback if kind.task is MASK else EvalCallback
    envs = make_envs(kind.task, seen(kind.change), seed + EVALUATION)
    return callback(envs, eval_freq=round(kind.evaluate * n_steps), verbose=0)


def held_out(model: Any, kind: Kind, seed: int) -> float:
    """Mean return, by the true reward, of fresh episodes with actions as the policy draws them."""
    from sb3_contrib.common.maskable.evaluation import evaluate_policy as evaluate_masked
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.utils import set_random_seed

    evaluate = evaluate_masked if kind.task is MASK else evaluate_policy
    envs = make_envs(kind.task, seen(kind.change), seed + HELD_OUT)
    set_random_seed(seed + HELD_OUT)
    mean, _ = evaluate(model, envs, HELD_OUT_EPISODES, deterministic=False)
    return round(float(mean), 2)


def run(kind: Kind, name: str, seed: int, out: Path, with_doctor: bool) -> None:
    """Leaves the log of a run in OUT/NAME__SEED, with the doctor's callback or without."""
    from sb3_contrib import MaskablePPO
    from stable_baselines3 import PPO
    from stable_baselines3.common.logger import configure
    from stable_baselines3.common.utils import set_random_seed

    from algorithms.integrations.sb3_callback import DoctorCallback

    folder, scratch = out / f"{name}__{seed}", Path(tempfile.mkdtemp())
    first = 100 * seed  # environment I of a run has the seed of the run plus I
    set_random_seed(first)
    options = {**kind.task.options, **kind.settings}
    steps = kind.task.n_envs * options["n_steps"] * kind.task.rollouts
    algorithm = MaskablePPO if kind.task is MASK else PPO
    envs = make_envs(kind.task, kind.change, first + LEARNER)
    model = algorithm("MlpPolicy", envs, seed=first, device="cpu", **options)
    model.set_logger(configure(str(scratch), ["csv"]))
    callbacks = [evaluation(kind, options["n_steps"], first)] if kind.evaluate else []
    model.learn(steps, [*callbacks, *([DoctorCallback()] if with_doctor else [])])
    model.logger.close()
    worth = held_out(model, kind, first)
    given = {"algorithm": algorithm.__name__, "policy": "MlpPolicy", "env": kind.task.env,
             "n_envs": kind.task.n_envs, "total_timesteps": steps, "seed": first, **options}  # fmt: skip
    label = {"kind": name, "cause": kind.cause, "twin": kind.twin, "seed": seed, "held_out": worth,
             "in_log": kind.in_log, "nothing_learned": kind.task.untrained}  # fmt: skip
    folder.mkdir(parents=True)
    shutil.copy(scratch / "progress.csv", folder)
    (folder / "args.json").write_text(json.dumps(given, indent=1))
    (folder / "label.json").write_text(json.dumps(label, indent=1))
    shutil.rmtree(scratch)


def main() -> None:
    """Runs what is not there yet."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--part", choices=PARTS, default="open")
    parser.add_argument("--kinds", nargs="*", default=None)
    parser.add_argument("--callback", action="store_true", help="with the doctor's callback")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    import torch

    torch.set_num_threads(1)
    for seed in options.seeds:
        for name in options.kinds or PARTS[options.part]:
            folder = options.out / f"{name}__{seed}"
            if not folder.exists():
                run(PARTS[options.part][name], name, seed, options.out, options.callback)
                print((folder / "label.json").read_text().replace("\n", ""), flush=True)


if __name__ == "__main__":
    main()
