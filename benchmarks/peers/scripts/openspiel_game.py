"""OpenSpiel's `chess`: observation tensor and mask of every position as arrays."""

from __future__ import annotations

import numpy as np
from rounds import one_core, one_of, serve

one_core()

import pyspiel  # noqa: E402 - after the core is chosen

game = pyspiel.load_game("chess")
state = game.new_initial_state()


def step() -> int:
    global state
    if state.is_terminal():
        state = game.new_initial_state()
    np.asarray(state.observation_tensor(), np.float32)
    mask = np.asarray(state.legal_actions_mask(), np.int8)
    state.apply_action(one_of(mask))
    return 1


serve(step, "open_spiel")
