"""PettingZoo's `chess_v6`, as its documentation drives it."""

from __future__ import annotations

from rounds import one_core, one_of, serve

one_core()

from pettingzoo.classic import chess_v6  # noqa: E402 - after the core is chosen

env = chess_v6.env()
env.reset()


def step() -> int:
    observation, _, terminated, truncated, _ = env.last()
    if terminated or truncated:
        env.reset()
        observation = env.last()[0]
    env.step(one_of(observation["action_mask"]))
    return 1


serve(step, "pettingzoo")
