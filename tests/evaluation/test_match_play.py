"""Matches inside a run: at their interval, with the figures of `play_match`, and without a trace in what is learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from algorithms.config.run import MatchConfig
from algorithms.evaluation.load_policy import load_policy
from algorithms.evaluation.policy_player import GREEDY, PolicyPlayer
from algorithms.reports.run_files import read_metrics
from algorithms.training.trainer import train
from chess_env.games.players import make_player
from chess_env.matches.arena import MATCH_PLIES, play_match
from chess_env.positions.start_positions import make_start_positions
from tests.training.runs import Watcher, assert_same, final_state, tiny

MATCHES = MatchConfig(opponents=("material", "random@random=0.5"), games=2, interval_updates=2)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same run with matches and without."""
    with_matches, without = (tmp_path_factory.mktemp(name) for name in ("with", "without"))
    train(tiny(with_matches, updates=3, match=MATCHES), display=Watcher())
    train(tiny(without, updates=3), display=Watcher())
    return with_matches, without


def match_rows(run_dir: Path) -> dict[int, dict[str, Any]]:
    rows = {row["step"]: row for row in read_metrics(run_dir)}
    return {step: row for step, row in rows.items() if "time/match_s" in row}


def test_matches_are_played_at_their_interval_and_at_the_end(runs: tuple[Path, Path]) -> None:
    assert list(match_rows(runs[0])) == [2, 3]
    assert match_rows(runs[1]) == {}


def test_the_record_has_the_figures_of_the_same_match_played_by_hand(
    runs: tuple[Path, Path],
) -> None:
    policy = load_policy(str(runs[0]))
    greedy = PolicyPlayer(policy, temperature=GREEDY, label="again")
    settings = {"pairs": 1, "seed": 0, "max_plies": MATCH_PLIES}
    openings = make_start_positions("openings")
    match = play_match(greedy, make_player("material"), openings=openings, **settings)
    counts, row = match.counts(), match_rows(runs[0])[3]
    assert row["match/material/score"] == (counts["wins"] + counts["draws"] / 2) / 2
    assert row["match/material/losses"] == counts["losses"] / 2
    assert row["match/material/conversion"] == counts["conversion"]  # None without a lead
    low, score, high = (row[f"match/material/score{end}"] for end in ("_low", "", "_high"))
    assert low <= score <= high


def test_matches_change_nothing_that_is_learned(runs: tuple[Path, Path]) -> None:
    assert_same(final_state(runs[0]), final_state(runs[1]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"games": 3}, "even"), ({"games": 0}, "match.games"), ({"interval_updates": 0}, "interval")],
)
def test_settings_without_sense_are_errors(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MatchConfig(**settings)


def test_an_unknown_opponent_is_an_error_before_anything_is_learned(tmp_path: Path) -> None:
    config = tiny(tmp_path / "run", match=MatchConfig(opponents=("grandmaster",)))
    with pytest.raises(ValueError, match="grandmaster"):
        train(config, display=Watcher())
    assert not (tmp_path / "run").exists()
