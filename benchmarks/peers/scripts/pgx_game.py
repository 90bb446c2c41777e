"""pgx's `chess` on the CPU: N boards in one compiled step with automatic restarts; python pgx_game.py N."""

from __future__ import annotations

import sys

import numpy as np
from rounds import one_core, one_of_each, serve

one_core()

import jax  # noqa: E402 - after the core is chosen
import jax.numpy as jnp  # noqa: E402
import pgx  # noqa: E402
from pgx.experimental.wrappers import auto_reset  # noqa: E402

num_envs = int(sys.argv[1])
env = pgx.make("chess")
play = jax.jit(jax.vmap(auto_reset(env.step, env.init)))
keys = jax.random.split(jax.random.PRNGKey(0), num_envs)
state = jax.jit(jax.vmap(env.init))(keys)


def step() -> int:
    global state
    actions = one_of_each(np.asarray(state.legal_action_mask))
    state = play(state, jnp.asarray(actions, jnp.int32), keys)
    np.asarray(state.observation)
    return num_envs


serve(step, "pgx")
