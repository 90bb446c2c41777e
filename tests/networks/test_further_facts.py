"""Networks that read further groups of facts: their settings, their columns, their weights, and what they refuse."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from algorithms.evaluation.load_policy import load_policy
from algorithms.evaluation.policy_player import PolicyPlayer
from algorithms.networks.build import build_policy, initialise, reads_move_facts
from algorithms.networks.settings import NetworkConfig
from algorithms.playing.policy_moves import move_probabilities
from algorithms.testing import check_policy_network
from algorithms.testing.network_contract import states
from chess_env.matches.arena import play_match
from chess_env.move_facts import NUM_MOVE_FACTS, facts_asked
from chess_env.moves import move_to_action
from chess_env.positions.start_positions import RandomPlies
from chess_env.rules.fen import parse_fen

CPU = torch.device("cpu")
FURTHER = NetworkConfig(size="tiny", facts=("replies", "exchange"))


class ReadsAll(torch.nn.Module):
    """A logit is the weighted sum of all facts that the settings ask for."""

    reads_move_facts = True

    def __init__(self, config: Any, *, critic: bool) -> None:
        super().__init__()
        facts = facts_asked(config.facts or True)
        self.score = torch.nn.Linear(len(facts), 1)
        self.value = torch.nn.Linear(1, 1) if critic else None

    def forward(self, obs: Any, legal_ids: Any, move_facts: Any) -> Any:
        logits = self.score(move_facts.clamp(max=8).to(self.score.weight.dtype)).squeeze(-1)
        values = None
        if self.value is not None:
            mean = logits.masked_fill(legal_ids < 0, 0).sum(1) / (legal_ids >= 0).sum(1).clamp(
                min=1
            )
            values = self.value(mean[:, None]).squeeze(-1)
        return logits, values


OWN = NetworkConfig(network=f"{__name__}:ReadsAll", facts=("kings",))


@pytest.mark.parametrize("config", [FURTHER, OWN])
def test_a_network_is_given_the_columns_of_its_groups_and_keeps_the_contract(
    config: NetworkConfig,
) -> None:
    assert reads_move_facts(config) == config.facts
    assert build_policy(config, seed=0, device=CPU).reads_move_facts == config.facts
    assert states(config.facts).move_facts.shape[2] == len(facts_asked(config.facts))
    check_policy_network(None, config=config)


def test_groups_are_kept_in_order_and_shown_with_the_network() -> None:
    assert FURTHER.facts == ("exchange", "replies")
    assert FURTHER.label == "move_net tiny (facts exchange+replies)"
    assert NetworkConfig().facts == () and "facts" not in NetworkConfig().label


def test_a_network_that_names_no_group_reads_the_usual_facts() -> None:
    usual = build_policy(NetworkConfig(size="tiny"), seed=4, device=CPU)
    assert usual.reads_move_facts is True
    assert usual.state_dict()["head.fact_features.weight"].shape[1] == NUM_MOVE_FACTS


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"facts": ("reply",)}, "policy.facts names 'reply': expected groups of facts"),
        ({"facts": ("lines",), "network": "resnet"}, "lines: resnet reads no facts of moves"),
    ],
)
def test_settings_that_no_network_can_have_are_refused(settings: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NetworkConfig(**settings)


def test_a_network_of_your_own_without_facts_refuses_groups() -> None:
    config = NetworkConfig(network="tests.config.custom_parts:Linear", facts=("lines",))
    with pytest.raises(ValueError, match="policy.facts is lines: .* reads no facts of moves"):
        build_policy(config, seed=0, device=CPU)


def test_facts_of_other_groups_are_refused_with_the_groups_that_are_wanted() -> None:
    policy = build_policy(FURTHER, seed=0, device=CPU)
    obs, legal_ids, usual = states()
    with pytest.raises(ValueError, match=r"move_facts=\('exchange', 'replies'\)"):
        policy.outputs(obs, legal_ids, 1.0, usual)


def test_weights_alone_say_which_groups_they_read(tmp_path: Path) -> None:
    asked = ("exchange", "answers")  # no other groups have as many columns together
    config = dataclasses.replace(FURTHER, facts=asked)
    policy, file = build_policy(config, seed=1, device=CPU), tmp_path / "alone.safetensors"
    save_file(policy.state_dict(), file)
    found = load_policy(str(file))
    assert found.config.facts == asked
    obs, legal_ids, facts = states(asked)
    assert torch.equal(found(obs, legal_ids, facts), policy(obs, legal_ids, facts))
    usual = build_policy(NetworkConfig(size="tiny"), seed=1, device=CPU)
    with pytest.raises(ValueError, match="--policy.facts exchange answers"):
        initialise(usual, str(file))


def test_a_policy_brings_its_own_facts_where_it_plays() -> None:
    policy = build_policy(FURTHER, seed=2, device=CPU).eval()
    shown = move_probabilities(policy, chess.STARTING_FEN)
    assert len(shown) == 20 and abs(sum(shown.values()) - 1) < 1e-5
    first = PolicyPlayer(policy, temperature=0, label="further")
    usual = build_policy(NetworkConfig(size="tiny"), seed=2, device=CPU).eval()
    second = PolicyPlayer(usual, temperature=0, label="usual")
    result = play_match(first, second, openings=RandomPlies(2, 8), pairs=1, seed=0, max_plies=12)
    assert [len(game.actions) for game in result.games] == [12, 12]
    asked = parse_fen(chess.STARTING_FEN)[None]
    chosen = first.choose(asked, [np.random.default_rng(0)])
    assert int(chosen[0]) == move_to_action(chess.Move.from_uci(next(iter(shown))), chess.WHITE)
