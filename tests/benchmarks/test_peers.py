"""The contest with MaskablePPO: equal settings, seeds in pairs, and uniform draws from a mask."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from algorithms.config.compatibility import check_settings
from algorithms.networks.build import build_policy
from benchmarks.peers.contest import Peer
from benchmarks.peers.ppo import MODES, Run, config_of, maskable_ppo, rows_of
from benchmarks.peers.scripts import rounds

PLAYS = """
import json, sys
print("a library's greeting")
print(json.dumps({"version": "1.2"}), flush=True)
for line in sys.stdin:
    print(json.dumps({"plies": PLIES, "cpu_s": float(line)}), flush=True)
    if ENDS:
        raise ValueError("out of moves")
"""


def peer(folder: Path, name: str, plies: int, *, ends: bool = False) -> Peer:
    script = folder / f"{name}.py"
    script.write_text(PLAYS.replace("PLIES", str(plies)).replace("ENDS", str(ends)))
    return Peer(name, (str(script),), 1)


def test_all_peers_draw_uniformly_from_the_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    masks = np.zeros((3, 97), np.int8)
    masks[0, [5]] = masks[1, [0, 96]] = masks[2, [7, 8, 9, 50]] = 1

    class Chance:
        """The same number again and again."""

        def random(self, size: int | None = None) -> object:
            return 0.5 if size is None else np.full(size, 0.5)

    monkeypatch.setattr(rounds, "rng", Chance())
    assert rounds.one_of_each(masks).tolist() == [5, 96, 9]
    assert [rounds.one_of(mask) for mask in masks] == [5, 96, 9]


def test_ppo_is_compared_seed_by_seed_and_shows_what_both_came_to() -> None:
    ours = [Run(seed, 20.0, took, 200.0 + off, 1.5) for seed, (took, off) in
            enumerate([(10.0, -2), (20.0, -1), (10.0, 0), (10.0, 1), (10.0, 2)], start=1)]  # fmt: skip
    theirs = [Run(seed, 90.0, 50.0, 200.0, 1.0) for seed in range(1, 6)]
    own, other = rows_of("one_ply", 1024, ours, theirs)
    assert (own["times_faster_than_MaskablePPO"], own["learning_s"]) == ("5.00", 10.0)
    assert (other["times_faster_than_MaskablePPO"], other["learning_s"]) == ("1.00", 50.0)
    assert own["regret_cp"] == "200.0 (198.0 to 202.0)" and own["seeds"] == 5
    # Student's t at 4 degrees of freedom, 2.776, times sqrt(2.5 / 5).
    assert (own["regret_minus_theirs_95"], other["regret_minus_theirs_95"]) == ("-1.96 to 1.96", "")


@pytest.mark.parametrize("mode", MODES)
def test_every_contest_with_maskable_ppo_has_settings_that_fit(mode: str) -> None:
    check_settings(config_of(mode, smoke=True))


def test_maskable_ppo_is_given_our_boards_network_numbers_and_bonus() -> None:
    config = config_of("versus", smoke=True)
    few = dataclasses.replace(config.rollout, num_envs=8, num_plies=4)
    falling = dataclasses.replace(config.regularizer, ent_coef=0.1, ent_coef_final=0.0)
    config = dataclasses.replace(config, rollout=few, regularizer=falling)
    model, bonus = maskable_ppo(config)
    own = build_policy(config.policy, seed=0, device=torch.device("cpu"), critic=True)
    for name, tensor in model.policy.net.state_dict().items():
        assert torch.equal(tensor, own.state_dict()[name]), name
    model.learn(2 * model.n_steps * model.n_envs, callback=bonus)
    first, last = config.regularizer.ent_coef, config.regularizer.ent_coef_final
    share = model.n_steps * model.n_envs / config.total_moves
    assert model.ent_coef == pytest.approx(first + (last - first) * share)
    model.env.close()
