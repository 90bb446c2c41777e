"""Seconds of an update by a cost model: engines, network, boards and processes. Its coefficients are fitted.

An update plays S states (boards x plies) with `group_size` sampled moves each, and learns from them. Of P processes on
C cores each plays S / P states with E engines of its own.

- Engines: Q / P positions of a process, at `position_s` seconds each, on min(E, C / P) cores. Where the engines and the
  network are more than the cores of a process, each position takes 1 + l x (busy / cores - 1) times as long.
- Network and boards of a rollout: a + b per state + c per multiply-add, in each process.
- Stockfish scores a ply while the network looks at the next one, so a rollout lasts as long as the longer of the two
  and one ply of the other; and never less than their CPU time divided among the cores. The built-in evaluator works
  between two forward passes: its time is added.
- Update: d per step + e per state of all processes + f per multiply-add of the process's own states + g per step and
  parameter; with several processes also h per step and i per step and parameter, for their gradients.
- Rest (metrics, record): j + k per state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Row = NDArray[np.float64]


class Work(NamedTuple):
    """What an update has to do.

    Attributes:
        states: of all processes.
        plies: one after the other.
        steps: of the optimizer.
        positions: that the evaluator scores, of all processes.
        multiply_adds: of the network for one state.
        parameters: of the network.
    """

    states: float
    plies: int
    steps: float
    positions: float
    multiply_adds: float
    parameters: float


class Machines(NamedTuple):
    """What does it.

    Attributes:
        processes: that carry the run.
        engines: of each process.
        cores: of all processes.
        position_s: seconds of one engine for a position.
        overlaps: whether a ply is scored while the network looks at the next one.
    """

    processes: int
    engines: int
    cores: int
    position_s: float
    overlaps: bool


class Coefficients(NamedTuple):
    """Of the three stages, each in seconds for a unit of its columns; and how much longer crowded engines take."""

    rollout: Row
    update: Row
    rest: Row
    crowding: float = 0.0


def rollout_columns(work: Work, machines: Machines) -> Row:
    """float64 [3]: what the network and the boards of one process do in a rollout."""
    own = work.states / machines.processes
    return np.array([work.plies, own, own * work.multiply_adds])


def update_columns(work: Work, machines: Machines) -> Row:
    """float64 [6]: what one process does in an update."""
    several = float(machines.processes > 1)
    own = work.states / machines.processes * work.multiply_adds
    parameters = work.steps * work.parameters
    return np.array(
        [work.steps, work.states, own, parameters, several * work.steps, several * parameters]
    )


def rest_columns(work: Work) -> Row:
    """float64 [2]: what one process does besides."""
    return np.array([1.0, work.states])


def rollout_s(work: Work, machines: Machines, network_s: float, crowding: float = 0.0) -> float:
    """Seconds of a rollout, given those of the network and the boards of one process alone."""
    cpu_s = work.positions / machines.processes * machines.position_s
    share = machines.cores / machines.processes
    if not machines.overlaps:
        return network_s + cpu_s / min(machines.engines, share)
    cpu_s *= 1 + crowding * max(0.0, (machines.engines + 1) / share - 1)
    engines_s = cpu_s / min(machines.engines, share)
    longer, shorter = max(engines_s, network_s), min(engines_s, network_s)
    return max(longer + shorter / work.plies, (cpu_s + network_s) / share)


def update_s(work: Work, machines: Machines, fitted: Coefficients) -> float:
    """Seconds from one update to the next."""
    network_s = float(rollout_columns(work, machines) @ fitted.rollout)
    learning_s = float(update_columns(work, machines) @ fitted.update)
    rest_s = float(rest_columns(work) @ fitted.rest)
    return rollout_s(work, machines, network_s, fitted.crowding) + learning_s + rest_s


def fit(measured: Sequence[tuple[Work, Machines, Mapping[str, Any]]]) -> Coefficients:
    """The coefficients that make the smallest relative errors of each stage; none is negative.

    Args:
        measured: runs with the built-in evaluator and one engine a process; seconds of their "rollout", "update" and
            "rest".

    Raises:
        ValueError: a rollout is shorter than its evaluator alone.
    """
    network_s = []
    for work, machines, seconds in measured:
        evaluator_s = work.positions / machines.processes * machines.position_s
        if seconds["rollout"] <= evaluator_s:
            raise ValueError(
                f"a rollout of {seconds['rollout']:.3f} s has {evaluator_s:.3f} s of evaluator: measure on a "
                "quiet machine"
            )
        network_s.append(seconds["rollout"] - evaluator_s)
    return Coefficients(
        _nonnegative([rollout_columns(w, m) for w, m, _ in measured], network_s),
        _nonnegative(
            [update_columns(w, m) for w, m, _ in measured], [s["update"] for _, _, s in measured]
        ),
        _nonnegative(
            [rest_columns(w) for w, _, _ in measured], [s["rest"] for _, _, s in measured]
        ),
    )


def with_crowding(
    fitted: Coefficients, crowded: tuple[Work, Machines, Mapping[str, Any]]
) -> Coefficients:
    """The same with the crowding that gives this run's seconds of a "rollout", by halving; 0 where it is faster."""
    work, machines, seconds = crowded
    network_s = float(rollout_columns(work, machines) @ fitted.rollout)
    low, high = 0.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        too_fast = rollout_s(work, machines, network_s, middle) < seconds["rollout"]
        low, high = (middle, high) if too_fast else (low, middle)
    return fitted._replace(crowding=low)


def _nonnegative(columns: Sequence[Row], seconds: Sequence[float], rounds: int = 20_000) -> Row:
    """float64 [columns]: least squares of the relative errors with no negative coefficient, by coordinate descent."""
    weighted = np.array(columns) / np.array(seconds)[:, None]
    scale = np.maximum(np.abs(weighted).max(0), np.finfo(float).tiny)
    a = weighted / scale
    gram, target = a.T @ a, a.T @ np.ones(len(a))
    found = np.zeros(len(target))
    for _ in range(rounds):
        for k in range(len(found)):
            if gram[k, k] > 0:
                found[k] = max(0.0, found[k] + (target[k] - gram[k] @ found) / gram[k, k])
    return found / scale
