"""OpenSpiel's `chess`: the observation written into one array, and a mask made of the legal actions.

That is its fastest way in Python: `observation_tensor()` and `legal_actions_mask()` return lists of numbers.
"""

from __future__ import annotations

import numpy as np
from rounds import one_core, one_of, serve

one_core()

import pyspiel  # noqa: E402 - after the core is chosen
from open_spiel.python.observation import make_observation  # noqa: E402

game = pyspiel.load_game("chess")
observation = make_observation(game)
state = game.new_initial_state()


def step() -> int:
    global state
    if state.is_terminal():
        state = game.new_initial_state()
    observation.set_from(state, state.current_player())
    mask = np.zeros(game.num_distinct_actions(), np.int8)
    mask[state.legal_actions()] = 1
    state.apply_action(one_of(mask))
    return 1


serve(step, "open_spiel")
