"""Trainers of others on this environment, each for some hundred steps; `.ci/neighbours` installs and runs them.

A warning fails it. It prints the versions that ran, as docs/works_with.md records them.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import ClipReward, NormalizeReward, RecordEpisodeStatistics, TimeLimit

import chess_env  # noqa: F401 - registers the environment

ID = (
    "chess_env:ChessSelfPlay-v0"  # the module in the name is for processes that import nothing else
)
SETTINGS: dict[str, Any] = {
    "evaluator": "builtin",
    "start_positions": "random_plies:2-40",
    "max_plies": 16,
}
RNG = np.random.default_rng(0)
PACKAGES = (
    "gymnasium",
    "torch",
    "numpy",
    "ray",
    "torchrl",
    "tianshou",
    "stable-baselines3",
    "sb3-contrib",
    "optuna",
    "onnx",
    "onnxruntime",
)


def legal(masks: Any) -> np.ndarray:
    """A random legal action for each row of masks."""
    return np.array([RNG.choice(np.flatnonzero(mask)) for mask in np.asarray(masks)])


def gymnasium_wrappers() -> None:
    """The single environment under Gymnasium's wrappers, and both of its vector environments."""
    env = gym.make(ID, **SETTINGS)
    check_env(env.unwrapped)
    for wrap in (RecordEpisodeStatistics, NormalizeReward):
        env = wrap(env)
    env = TimeLimit(ClipReward(env, -1, 1), 10)
    _, info = env.reset(seed=0)
    for _ in range(50):
        _, _, terminated, truncated, info = env.step(env.action_space.sample(info["action_mask"]))
        if terminated or truncated:
            assert "episode" in info or info["ply"] == 10
            _, info = env.reset()
    for kind in ({}, {"vectorization_mode": "sync"}, {"vectorization_mode": "async"}):
        boards = gym.wrappers.vector.RecordEpisodeStatistics(
            gym.make_vec(ID, 2, **kind, **SETTINGS)
        )
        _, info = boards.reset(seed=[1, None])
        episodes = 0
        for _ in range(40):
            masks = info["action_mask"].astype(bool)
            masks[~masks.any(axis=1)] = True  # a board that waits for its next game
            *_, info = boards.step(legal(masks))
            episodes += int(info["_episode"].sum()) if "_episode" in info else 0
        assert episodes >= 4, kind
        boards.close()


def torchrl() -> None:
    """All entries of `info` from the single, the vector and TorchRL's own vector environment."""
    from torchrl.envs import ActionMask, Compose, DTypeCastTransform, GymEnv, GymWrapper

    single = GymWrapper(gym.make(ID, **SETTINGS)).auto_register_info_dict()
    assert single.rollout(5)["next", "score_cp"].dtype == torch.int32
    for many in (GymWrapper(gym.make_vec(ID, 2, **SETTINGS)), GymEnv(ID, num_envs=2, **SETTINGS)):
        assert many.rollout(20, break_when_any_done=False)["next", "done"].any()
        many.close()
    boards = GymWrapper(gym.make_vec(ID, 2, **SETTINGS), categorical_action_encoding=True)
    cast = DTypeCastTransform(torch.int8, torch.bool, in_keys=["action_mask"])
    played = boards.append_transform(Compose(cast, ActionMask())).rollout(
        40, break_when_any_done=False
    )
    assert played["next", "done"].any() and not played["next", "illegal_action"].any()


def tianshou() -> None:
    """A collector with a policy that reads the mask from `info`."""
    from tianshou.algorithm.algorithm_base import Policy
    from tianshou.data import Batch, Collector, VectorReplayBuffer
    from tianshou.env import DummyVectorEnv

    class RandomLegal(Policy):
        def forward(self, batch: Any, state: Any = None, **kwargs: Any) -> Any:
            return Batch(act=legal(batch.info.action_mask))

    boards = DummyVectorEnv([lambda: gym.make(ID, **SETTINGS) for _ in range(3)])
    policy = RandomLegal(
        action_space=boards.action_space[0], observation_space=boards.observation_space[0]
    )
    collector = Collector(policy, boards, VectorReplayBuffer(1000, 3))
    collector.reset()
    assert collector.collect(n_step=300).n_collected_episodes >= 12
    assert not collector.buffer.sample(0)[0].info.illegal_action.any()


def sb3_contrib() -> None:
    """MaskablePPO on SB3's vector environment, with normalised rewards and a monitor that logs a reward term."""
    from sb3_contrib import MaskablePPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    boards = VecNormalize(
        make_vec_env(
            ID, 4, seed=0, env_kwargs={**SETTINGS, "opponent": "random", "illegal_action": "raise"},
            monitor_kwargs={"info_keywords": ("reward_win_prob_delta",)},
        ),
        norm_obs=False,
    )  # fmt: skip
    model = MaskablePPO("MlpPolicy", boards, n_steps=32, batch_size=64, n_epochs=1, device="cpu")
    assert model.learn(256).num_timesteps == 256
    assert "reward_win_prob_delta" in model.ep_info_buffer[0]
    boards.close()


def flat_boards(_: Any) -> gym.Env[Any, Any]:
    """RLlib has no default network for 19 x 8 x 8 planes: one row of float32."""
    env = gym.make(ID, **SETTINGS)
    space = gym.spaces.Box(0, 100, env.observation_space.shape, np.float32)
    as_float = gym.wrappers.TransformObservation(env, lambda obs: obs.astype(np.float32), space)
    return gym.wrappers.FlattenObservation(as_float)


def rllib() -> None:
    """One update of PPO."""
    import ray
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.tune.registry import register_env

    register_env("chess", flat_boards)
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR")
    config = PPOConfig().environment("chess").env_runners(num_env_runners=0)
    config = config.training(train_batch_size_per_learner=200, minibatch_size=100, num_epochs=1)
    trainer = config.build_algo()
    assert trainer.train()["num_env_steps_sampled_lifetime"] >= 200
    trainer.stop()
    ray.shutdown()


def example(name: str, *arguments: str) -> str:
    """What an example prints in its smoke mode, in a folder of its own."""
    script = Path(__file__).parents[1] / "examples" / name
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(script), "--smoke", *arguments]
        return subprocess.run(command, cwd=folder, check=True, text=True, stdout=-1).stdout


def optuna() -> None:
    """The example ends a run that falls behind."""
    said = example("prune_with_optuna.py")
    assert "trial 0: complete" in said and "trial 1: pruned" in said, said


def onnx() -> None:
    """The example writes each kind of network, and ONNX Runtime gives the logits of PyTorch."""
    for policy in ("example", "warm"):
        assert "policy.onnx: 4 positions" in example("export_onnx.py", policy)


def main() -> None:
    """Runs all of them and prints the versions."""
    torch.set_num_threads(1)
    for run in (gymnasium_wrappers, torchrl, tianshou, sb3_contrib, optuna, onnx):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", UserWarning)
            run()
        assert not said, [f"{warning.filename}: {warning.message}" for warning in said]
        print(f"{run.__name__}: passed", flush=True)
    rllib()
    print("rllib: passed")
    for package in PACKAGES:
        print(f"| {package} | {importlib.metadata.version(package)} |")


if __name__ == "__main__":
    main()
