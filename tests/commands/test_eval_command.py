"""`chess-lab eval`: what it prints, what it writes, and what it says of a request that makes no sense."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import chess.pgn
import numpy as np
import pytest
from safetensors.torch import save_file

from algorithms.evaluation.strength import table, to_dict
from chess_env.matches.drawn_when_winning import DrawnWhenWinning, ThrownAway
from chess_env.matches.match_result import Game, MatchResult, VoidPair
from tests.commands.lab import evaluate
from tests.small import make_policy


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    save_file(make_policy(3).state_dict(), path)
    return str(path)


@pytest.fixture(autouse=True)
def short_games(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chess_env.matches.arena.MATCH_PLIES", 30)


def test_named_opponents_are_played_in_full_and_written_to_files(
    weights: str, tmp_path: Path
) -> None:
    files = "--json", tmp_path / "found.json", "--pgn", tmp_path / "new" / "games.pgn"
    opponents = "random", "material", f"policy:{weights}"
    said = evaluate(weights, "--games", 4, "--seed", 7, "--opponents", *opponents, *files)
    lines = said.out.splitlines()
    assert said.code == 0
    assert lines[0] == f"{weights} (greedy), openings openings, seed 7"
    assert [line.split()[0] for line in lines[3:6]] == list(opponents)
    found = json.loads((tmp_path / "found.json").read_text())
    assert (found["error"], found["max_plies"]) == ("", 30)
    assert [entry["opponent"] for entry in found["opponents"]] == list(opponents)
    for entry in found["opponents"]:
        assert entry["wins"] + entry["draws"] + entry["losses"] == entry["games"] == 4
        assert sum(entry["pair_counts"]) == 2
        assert entry["score"] == (entry["wins"] + entry["draws"] / 2) / 4
        assert entry["score_low"] <= entry["score"] <= entry["score_high"]
    # A policy against itself, both without randomness: a pair is one game twice, each side once.
    assert found["opponents"][2]["pair_counts"] == [0, 0, 2, 0, 0]
    with (tmp_path / "new" / "games.pgn").open() as file:
        games = list(iter(lambda: chess.pgn.read_game(file), None))
    assert len(games) == 12
    assert all(game is not None and game.errors == [] for game in games)


def test_the_same_seed_gives_the_same_match_and_a_temperature_another(
    weights: str, tmp_path: Path
) -> None:
    def games(*arguments: Any) -> str:
        file = tmp_path / "games.pgn"
        match = "--games", 2, "--opponents", "random", "--pgn", file
        assert evaluate(weights, *match, *arguments).code == 0
        return file.read_text()

    warm = games("--temperature", 1.5)
    assert warm == games("--temperature", 1.5)
    assert "(temperature 1.5)" in warm
    assert warm != games("--temperature", 1.5, "--seed", 1)
    assert games("--openings", "random_plies:2-40") != games()


def test_a_policy_climbs_the_ladder_and_stays_where_it_is_even(
    weights: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chess_env.evaluators.find_stockfish", lambda: None)
    file = tmp_path / "found.json"
    said = evaluate(weights, "--games", 24, "--json", file)
    assert said.code == 0
    assert "No Stockfish found" in said.err
    assert "playing 20 games against material" in said.err
    found = json.loads(file.read_text())["opponents"]
    assert "material" in {entry["opponent"] for entry in found}
    assert sorted(entry["games"] for entry in found)[-2:] == [24, 24]
    assert max(map(len, said.out.splitlines()[1:])) <= 80


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--games", "3"], "--games is 3: games come in pairs"),
        (["--seed", "-1"], "--seed is -1"),
        (["--opponents", "random", "random"], "names 'random' twice"),
        (["--opponents", "random", "rndom"], "did you mean 'random'?"),
        (["--opponents", "policy:nowhere"], "'nowhere' cannot be read"),
        (["--openings", "book"], "start_positions is 'book'"),
        (["--openings", "initial", "--opponents", "random"], "about 1 distinct positions"),
        (["--temperature", "-1"], "temperature of at least 0"),
        (["--pgn", "/dev/null/games.pgn"], "/dev/null"),
        (["--json", "/dev/null/found.json"], "--json"),
    ],
)
def test_a_request_that_makes_no_sense_is_an_error_before_any_game(
    weights: str, arguments: list[str], message: str
) -> None:
    said = evaluate(weights, *arguments)
    assert said.code == 1
    assert message in said.err
    assert said.out == ""


def game(points: float, ending: str, pair: int, **more: Any) -> Game:
    return Game(
        pair=pair, attempt=0, opening=np.zeros(8, np.uint64), first_is_white=True,
        actions=np.zeros(8, np.int16), points=points, ending=ending,
        **({"final_lead_cp": 0, "first_best_lead_cp": 0, "second_best_lead_cp": 0} | more),
    )  # fmt: skip


def test_a_table_says_all_that_was_counted() -> None:
    games = (
        game(1.0, "checkmate", 0, first_best_lead_cp=1000),
        game(0.5, "stalemate", 0, first_best_lead_cp=1000, final_lead_cp=2300),
        game(0.0, "checkmate", 1),
        game(0.5, "threefold_repetition", 1),
    )
    match = MatchResult("a", "b", games, (VoidPair(1, 0, "killed"),), 2)
    thrown = (ThrownAway(1, True, "threefold_repetition", False, True, 640),)
    drawn = DrawnWhenWinning("builtin-v1", 1, thrown)
    text = "\n".join(table({"material": match}, {"material": drawn}))
    for part in (
        "material                   1/2/1       50.0 (",
        "pairs with 0/0.5/1/1.5/2 points: 0/1/0/1/0; LOS 50.0%; nElo +0",
        "draws by stalemate 1, threefold_repetition 1; median lead in draws +1,150 cp",
        "8 plies a game",
        "3 pawns             1 of 2 (too few)           no game",
        "drawn by repetition or fifty moves when winning (300 cp or more, says the built-in evaluator (v1)): "
        "the policy 0; its opponent 1 (1 by its own move, median +640 cp); of 1 such draws",
        "engines restarted: 2; pairs void and played again: 1",
    ):
        assert part in text.replace("\n      ", " ")
    assert max(map(len, text.splitlines())) <= 79
    entry = to_dict("material", match, drawn)
    assert entry["void"] == [{"pair": 1, "attempt": 0, "reason": "killed"}]
    assert entry["opponent_name"] == "b"
    assert entry["drawn_when_winning"]["second"]["median_score_cp"] == 640
    assert entry["leads"][0]["won_share"] is None  # two games are too few
    json.dumps(entry, allow_nan=False)


def test_a_lead_in_ten_games_gets_a_share_with_an_interval() -> None:
    games = [game(float(k < 8), "checkmate", k // 2, first_best_lead_cp=500) for k in range(10)]
    match = MatchResult("a", "b", tuple(games), (), 0)
    text = "\n".join(table({"random": match}))
    # Jeffreys' interval: the quantiles of Beta(8.5, 2.5), here by summing its density.
    assert "5 pawns             8 of 10, 80% (50-96)" in text
    assert "9 pawns             no game" in text
    lead = to_dict("random", match, None)["leads"][1]
    assert (lead["won_share"], lead["lost_share"]) == (0.8, None)


def test_a_whitewash_is_a_bound_in_the_table() -> None:
    match = MatchResult("a", "b", tuple(game(1.0, "checkmate", k // 2) for k in range(20)), (), 0)
    text = "\n".join(table({"random": match}))
    assert "100.0 (74.1-100.0) above +183" in text
    assert "all 10 pairs gave 2 of 2 points" in text
    assert "no draws" in text
    assert "nElo none" in text
