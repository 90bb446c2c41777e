"""What the vector environment tells its caller: observations and info, always in fresh arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chess_env.games.games import Games, Index
from chess_env.games.scoring import Scores, Scoring
from chess_env.games.settings import Settings

Info = dict[str, Any]


def observe(games: Games, scoring: Scoring) -> tuple[NDArray[np.uint8], Info]:
    """(observations uint8 [N, C, 8, 8], the state part of `info`) of all boards as they stand."""
    info: Info = games.boards.observe()
    planes = info.pop("planes")
    if games.settings.move_facts:
        info["move_facts"] = games.boards.move_facts(games.everywhere, games.settings.fifty_move)
    if games.settings.evaluator is not None:
        info["score_cp"] = scoring.score_cp.copy()
    if games.settings.opponent is not None:
        info["learner_turn"] = games.learner_is_white.astype(np.int8)
    return planes, info


def transition(
    settings: Settings,
    terms: dict[str, NDArray[np.float32]],
    illegal: NDArray[np.bool_],
    actions: Index,
    replies: Index,
) -> Info:
    """The part of `info` that tells about the step just made: name -> array [N], `reward_terms` by term."""
    info: Info = {"reward_terms": terms, "illegal_action": illegal}
    if settings.illegal_action == "resample":
        info["action"] = actions.astype(np.int16)
    if settings.opponent is not None:
        info["opponent_action"] = replies.astype(np.int16)
    return info


def final_entries(
    done: NDArray[np.bool_],
    final_obs: NDArray[np.uint8],
    final_info: Info,
    step_info: Info,
    final_cp: Scores,
) -> Info:
    """The last observation and info of games that were replaced in the step, under Gymnasium's names.

    Args:
        done: bool [N], where games ended.
        final_obs: uint8 [N, C, 8, 8], all boards before the new games began.
        final_info: their state info; it becomes part of the result.
        step_info: `transition` of the step.
        final_cp: int32 [N], the scores after the step.
    """
    if "score_cp" in final_info:
        final_info["score_cp"] = final_cp
    for name, values in step_info.items():
        is_group = isinstance(values, dict)
        final_info[name] = {k: v.copy() for k, v in values.items()} if is_group else values.copy()
    return {
        "final_obs": final_obs,
        "_final_obs": done.copy(),
        "final_info": final_info,
        "_final_info": done.copy(),
    }
