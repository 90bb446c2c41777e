"""How the vector environment reports games that ended and were replaced in the same step."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def final_entries(
    num_envs: int,
    ended: NDArray[np.int64],
    final_obs: NDArray[np.uint8],
    final_info: dict[str, Any],
    transition: dict[str, Any],
) -> dict[str, Any]:
    """`final_obs`, `final_info` and the bool masks `_final_obs`, `_final_info`, as Gymnasium's SAME_STEP names them.

    Args:
        num_envs: N.
        ended: int64 [n], the boards whose games ended.
        final_obs: uint8 [n, 19, 8, 8], what was seen last on them.
        final_info: name -> array [n, ...], the state part of their last info.
        transition: name -> array [N], or name -> arrays by name, of the step that ended them.

    Returns:
        Fresh arrays over all N boards, zero where no game ended.
    """

    def spread(rows: NDArray[Any]) -> NDArray[Any]:
        everywhere = np.zeros((num_envs, *rows.shape[1:]), rows.dtype)
        everywhere[ended] = rows
        return everywhere

    info: dict[str, Any] = {name: spread(rows) for name, rows in final_info.items()}
    for name, values in transition.items():
        is_group = isinstance(values, dict)
        info[name] = {k: v.copy() for k, v in values.items()} if is_group else values.copy()
    where = np.zeros(num_envs, np.bool_)
    where[ended] = True
    return {
        "final_obs": spread(final_obs),
        "_final_obs": where,
        "final_info": info,
        "_final_info": where.copy(),
    }
