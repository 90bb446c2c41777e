"""A network that reads the facts of moves is evaluated, and plays matches, on the facts of the very boards."""

from __future__ import annotations

import chess
import numpy as np
import pytest
import torch

from algorithms.evaluation import regret as regret_module
from algorithms.evaluation.move_quality import measure, policy_probs
from algorithms.evaluation.policy_player import GREEDY, PolicyPlayer
from algorithms.evaluation.regret import MAIN_SLICE, HeldoutSlice, prepare_slice, regret_cp
from algorithms.networks.build import build_policy
from algorithms.networks.settings import NetworkConfig
from chess_env.games.players import RandomPlayer
from chess_env.matches.arena import play_match
from chess_env.matches.match_result import MatchResult
from chess_env.move_facts import FACT_INDEX, move_facts_batch
from chess_env.moves import action_to_move, legal_actions
from chess_env.observation import encode_batch
from chess_env.positions.heldout import load_heldout
from chess_env.positions.start_positions import RandomPlies, make_start_positions
from chess_env.rules.fen import pack_board, pack_fens, to_fen
from chess_env.rules.rules import hash_batch, legal_actions_batch
from tests.networks.facts_net import facts_policy, weight_of
from tests.small import CPU, make_policy


@pytest.fixture
def held() -> HeldoutSlice:
    return prepare_slice(load_heldout(), MAIN_SLICE)


def logits_of(position: np.ndarray, actions: np.ndarray, history: np.ndarray) -> np.ndarray:
    """float64 `[L]`: what `facts_policy()` says of a board's moves, weighed outside of it."""
    facts = move_facts_batch(
        position[None], actions[None].astype(np.int16), history[None], np.array([len(history)])
    )
    weight = weight_of(facts_policy()).detach().numpy().astype(float)
    found: np.ndarray = facts[0].clip(max=8).astype(float) @ weight
    return found


def test_held_out_regret_is_that_of_the_facts_weighed_by_hand(held: HeldoutSlice) -> None:
    regret = regret_cp(facts_policy(), held, temperature=1.3, device=CPU, minibatch_size=50)
    for row in (0, 17, 60):
        ids = held.legal_ids[row][: held.num_legal[row]]
        logits = logits_of(held.positions[row], ids, np.zeros(0, np.uint64)) / 1.3
        probs = np.exp(logits - logits.max())
        scores = held.child_score_cp[row][: len(ids)].clip(-1000, 1000)
        lost = np.minimum(1000, scores.max() - scores)
        expected = (probs / probs.sum() * lost).sum()
        assert regret.per_position_cp[row] == pytest.approx(expected, rel=1e-4)
    quality = measure(policy_probs(facts_policy(), held, temperature=1.3, device=CPU), held)
    np.testing.assert_allclose(quality["regret_cp"], regret.per_position_cp, rtol=1e-5)


def test_facts_are_made_once_and_for_no_network_that_reads_none(
    held: HeldoutSlice, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def counted(*inputs: np.ndarray) -> np.ndarray:
        made.append(len(inputs[0]))
        return move_facts_batch(*inputs)

    monkeypatch.setattr(regret_module, "move_facts_batch", counted)
    regret_cp(make_policy(), held, temperature=1.0, device=CPU)
    assert made == []
    for _ in range(2):
        regret_cp(facts_policy(), held, temperature=1.0, device=CPU)
    assert made == [len(held.positions)]


def match(player: PolicyPlayer, max_boards: int = 512) -> MatchResult:
    return play_match(
        player,
        RandomPlayer(),
        openings=make_start_positions("random_plies:2-40"),
        pairs=3,
        seed=1,
        max_plies=60,
        max_boards=max_boards,
    )


def repetition_lover() -> PolicyPlayer:
    """Plays back and forth: a position that has occurred is what it likes best."""
    policy = facts_policy()
    with torch.no_grad():
        weight_of(policy)[FACT_INDEX.repeats] = 5.0
    return PolicyPlayer(policy, temperature=GREEDY, label="facts")


def test_in_a_match_a_move_is_chosen_by_its_facts_in_that_game() -> None:
    player, compared, repeated = repetition_lover(), 0, 0
    liking = 5.0 - float(weight_of(facts_policy())[FACT_INDEX.repeats].detach())
    for game in match(player).games:
        board = chess.Board(to_fen(game.opening))
        history = [pack_board(board)]
        for action in game.actions.tolist():
            if (board.turn == chess.WHITE) == game.first_is_white:
                actions, hashes = legal_actions(board), hash_batch(np.array(history))
                logits = logits_of(history[-1], actions, hashes)
                repeats = move_facts_batch(
                    history[-1][None], actions[None].astype(np.int16), hashes[None],
                    np.array([len(hashes)]),
                )[0, :, FACT_INDEX.repeats]  # fmt: skip
                logits = logits + liking * repeats
                slot = int(np.flatnonzero(actions == action)[0])
                assert logits[slot] == pytest.approx(logits.max(), abs=1e-5)
                compared, repeated = compared + 1, repeated + int(repeats[slot])
            board.push(action_to_move(action, board))
            history = [] if board.halfmove_clock == 0 else history
            history.append(pack_board(board))
    assert compared > 80 and repeated > 0


@pytest.mark.parametrize("temperature", [GREEDY, 1.0])
def test_a_match_does_not_depend_on_how_many_games_run_together(temperature: float) -> None:
    player = PolicyPlayer(facts_policy(), temperature=temperature, label="facts")
    assert player.reads_move_facts
    together, in_pairs = match(player), match(player, max_boards=2)
    assert [game.actions.tolist() for game in together.games] == [
        game.actions.tolist() for game in in_pairs.games
    ]


def test_without_facts_a_player_takes_those_of_games_without_a_past() -> None:
    player = repetition_lover()
    boards = pack_fens([chess.STARTING_FEN, "4k3/8/8/8/8/8/4P3/4K3 w - - 0 1"])
    facts = move_facts_batch(boards, legal_actions_batch(boards)[0])
    none = np.zeros(2, np.int64)
    assert (
        player.choose(boards, []).tolist() == player.choose_with_history(boards, none, []).tolist()
    )
    assert (
        player.choose(boards, []).tolist()
        == player.choose_with_facts(boards, none, facts, []).tolist()
    )
    facts[0, 7, FACT_INDEX.repeats] = 1
    chosen = player.choose_with_facts(boards, none, facts, [])
    assert chosen[0] == legal_actions_batch(boards)[0][0, 7]


def test_a_move_net_s_probabilities_do_not_depend_on_the_other_boards_by_a_bit() -> None:
    policy = build_policy(NetworkConfig(network="move_net"), seed=0, device=CPU)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():  # sharp enough for a last bit to show
        for parameter in policy.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    player = PolicyPlayer(policy, temperature=1.0, label="x")
    source, rng = RandomPlies(2, 60, exclude_heldout=False), np.random.default_rng(0)
    positions = np.array([source.sample(rng) for _ in range(48)])
    legal_ids, _ = legal_actions_batch(positions)
    inputs = encode_batch(positions), legal_ids, move_facts_batch(positions, legal_ids)
    together = player._probs(*inputs)
    shuffled = rng.permutation(len(positions))
    assert np.array_equal(player._probs(*(each[shuffled] for each in inputs)), together[shuffled])
    for row in range(len(positions)):
        alone = player._probs(*(each[row : row + 1] for each in inputs))
        assert np.array_equal(alone[0], together[row])
