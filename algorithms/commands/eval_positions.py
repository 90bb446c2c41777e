"""`chess-lab eval --positions`: how good a policy's single moves are, on the held-out table."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, Any

from algorithms.commands.result_files import holds_something, try_json, write_json
from algorithms.core.messages import complain

if TYPE_CHECKING:
    from algorithms.evaluation.move_quality import MoveQuality

GAMES_ONLY = ("opponents", "games", "openings", "pgn")
"""Options that concern games alone."""


def run(options: argparse.Namespace, defaults: dict[str, Any]) -> int:
    """Exit code: 0, or 1 where the policy could not be measured; says why on stderr.

    Args:
        options: of `chess-lab eval`.
        defaults: values of the options in `GAMES_ONLY` where they were not given.

    Raises:
        JsonPathError: the file named by --json cannot be written.
    """
    values: dict[str, Any] = {"checkpoint": options.checkpoint, "seed": options.seed, "error": ""}
    try:
        _check(options, defaults)
    except ValueError as error:
        complain("chess-lab eval", error)
        return 1
    try_json(options.json)  # a path that cannot be written should fail before the measurement
    try:
        evaluator_id, found = _measure(options)
    except (ValueError, RuntimeError, OSError) as error:
        if not holds_something(options.json):
            write_json(options.json, {**values, "error": str(error), "positions": []})
        complain("chess-lab eval", error)
        return 1
    _print(options, evaluator_id, found)
    judged = [quality.to_dict() for quality in found]
    write_json(options.json, {**values, "evaluator_id": evaluator_id, "positions": judged})
    return 0


def _check(options: argparse.Namespace, defaults: dict[str, Any]) -> None:
    """None.

    Raises:
        ValueError: names the option and what it may be.
    """
    for name in GAMES_ONLY:
        if getattr(options, name) != defaults[name]:
            raise ValueError(
                f"--{name} is of games and --positions plays none: leave one of them out"
            )
    if options.seed < 0:
        raise ValueError(f"--seed is {options.seed}: expected at least 0")
    temperatures = options.temperature or []
    for temperature in temperatures:
        if not (math.isfinite(temperature) and temperature >= 0):
            raise ValueError(
                f"--temperature is {temperature}: expected a temperature of at least 0 (0 is greedy)"
            )
        if temperatures.count(temperature) > 1:
            raise ValueError(f"--temperature names {temperature:g} twice: give each once")


def _measure(options: argparse.Namespace) -> tuple[str, list[MoveQuality]]:
    """(the evaluator of the table, what was found by slice, then way of choosing)."""
    import torch

    from algorithms.config.foreign import Trust
    from algorithms.evaluation.heldout import prepare_slice
    from algorithms.evaluation.load_policy import load_policy, run_temperature, threads_of
    from algorithms.evaluation.move_quality import judge, policy_probs, uniform_probs
    from algorithms.evaluation.policy_player import GREEDY
    from algorithms.networks.device import choose_device
    from chess_env.positions.heldout import load_heldout

    torch.set_num_threads(threads_of(options.num_threads))
    device = choose_device(options.device)
    policy = load_policy(options.checkpoint, Trust(options.trust)).to(device)
    asked = options.temperature
    if asked is None:
        trained = run_temperature(options.checkpoint)
        asked = [1.0 if trained is None else trained]
    heldout, found = load_heldout(), []
    for name in heldout.slice_names:
        held = prepare_slice(heldout, name)
        for temperature in [GREEDY, *(value for value in asked if value != GREEDY)]:
            probs = policy_probs(policy, held, temperature=temperature, device=device)
            chooser = "greedy" if temperature == GREEDY else f"T={temperature:g}"
            found.append(
                judge(probs, held, chooser=chooser, temperature=temperature, seed=options.seed)
            )
        found.append(
            judge(uniform_probs(held), held, chooser="uniform", temperature=None, seed=options.seed)
        )
    return heldout.evaluator_id, found


def _print(options: argparse.Namespace, evaluator_id: str, found: list[MoveQuality]) -> None:
    from algorithms.evaluation.move_quality import evaluator_lines, table

    print(f"{options.checkpoint}, held-out positions, seed {options.seed}")
    print("\n".join(evaluator_lines(evaluator_id)))
    print("means over positions, 95 % intervals by bootstrap over them; entropy in nats\n")
    print("\n".join(table(found)))
