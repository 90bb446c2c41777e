"""A run whose network reads the facts of moves is a run like any other."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from algorithms.config.foreign import Trust
from algorithms.config.run import EnvConfig, MatchConfig, RolloutConfig
from algorithms.diagnostics.update_diagnostics import PolicyProbe
from algorithms.evaluation.load_policy import load_policy
from algorithms.exact import Exact
from algorithms.grpo import GRPO
from algorithms.ppo import PPO
from algorithms.regularization import RegularizerConfig
from algorithms.reports.run_files import read_metrics
from algorithms.training.session import Session
from algorithms.training.trainer import train
from tests.networks.facts_net import FACTS
from tests.training.runs import Watcher, stopped_and_straight, tiny

GAMES = RolloutConfig(form="games", num_envs=4, num_plies=4)
ONE_OF_EACH = {"algorithm": PPO(), "total_moves": 4 * 16}  # 4 updates: one move of a position
RUNS: dict[str, dict[str, Any]] = {
    "positions": {},
    "games": {"rollout": GAMES},
    "kl to a reference": {"regularizer": RegularizerConfig(kl_ref_coef=0.1)},
    "stale": {"rollout": RolloutConfig(num_envs=8, num_plies=2, sync_interval_updates=2)},
    "dapo": {
        "algorithm": GRPO(group_size=2, live_groups=True),
        "rollout": RolloutConfig(num_envs=8, num_plies=2, temperature=0.05),
    },
    "critic": ONE_OF_EACH,
    "critic against an opponent": {
        **ONE_OF_EACH,
        "env": EnvConfig(evaluator="builtin", max_plies=3, opponent="random"),
    },
    "all moves": {"algorithm": Exact(), "total_moves": 4_000},
}


@pytest.mark.parametrize("name", RUNS)
def test_the_learner_starts_as_the_policy_that_sampled(name: str, tmp_path: Path) -> None:
    config = tiny(tmp_path, updates=3, policy=FACTS, **RUNS[name])
    train(dataclasses.replace(config, diagnostics_interval_updates=2), display=Watcher())
    rows = read_metrics(tmp_path)
    assert rows[1]["step0/ratio_error"] <= 1e-6 and rows[1]["step0/repeat_error"] == 0.0
    assert rows[1]["ratio/mismatch"] <= 1e-6
    assert rows[-1]["eval/regret_cp"] > 0
    assert any("probe/entropy_opening" in row or "entropy/measured" in row for row in rows)


def test_a_run_continued_ends_in_the_same_bits(tmp_path: Path) -> None:
    stopped_and_straight(tmp_path, 2, policy=FACTS, **ONE_OF_EACH)


def test_dynamic_sampling_of_a_run_keeps_facts_beside_their_moves(tmp_path: Path) -> None:
    session = Session(tiny(tmp_path, updates=8, policy=FACTS, **RUNS["dapo"]))
    try:
        session.worker.start()
        collected = session.rollout()
        batch = collected.batch
        assert collected.metrics["rollout/groups_replaced"] > 0 and batch.move_facts is not None
        flat = batch.flat()
        dist = session.policy.outputs(flat.obs, flat.legal_ids, flat.temperature, flat.move_facts)
        torch.testing.assert_close(dist.dist.probs, flat.old_legal_logprobs.exp())
    finally:
        session.close()


def test_boards_compute_facts_only_where_the_network_reads_them(tmp_path: Path) -> None:
    for config, reads in ((tiny(tmp_path), False), (tiny(tmp_path, policy=FACTS), True)):
        session = Session(config)
        try:
            session.worker.start()
            boards = session.worker.parts[0].boards
            assert boards is not None and (boards.move_facts is not None) is reads
            assert (session.rollout().batch.move_facts is not None) is reads
        finally:
            session.close()


def test_a_run_plays_matches_and_its_policy_is_read_back(tmp_path: Path) -> None:
    match = MatchConfig(opponents=("random",), games=2, interval_updates=2)
    train(
        tiny(tmp_path, updates=2, policy=FACTS, algorithm=GRPO(group_size=4), match=match),
        display=Watcher(),
    )
    assert "match/random/score" in read_metrics(tmp_path)[-1]
    policy = load_policy(str(tmp_path), Trust(everything=True))
    probe = PolicyProbe(None, 1.0, torch.device("cpu"), move_facts=policy.reads_move_facts)
    assert probe.look(policy).shape == probe.probes.legal_ids.shape
