"""The contest of peers: rounds in turn, ratios within a round, and a reason for each peer that does not play."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from algorithms.config.compatibility import check_settings
from algorithms.networks.build import build_policy
from benchmarks.peers.contest import GAMES, Peer, contest
from benchmarks.peers.environments import python_of, reason_of
from benchmarks.peers.ppo import MODES, Run, config_of, maskable_ppo, rows_of, run_of
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


def test_rates_are_plies_over_seconds_and_compared_with_the_first_peer(tmp_path: Path) -> None:
    peers = [peer(tmp_path, "ours", 600), peer(tmp_path, "theirs", 40)]
    ours, theirs = contest(peers, tmp_path / "cache", rounds=2, seconds=2.0)
    assert (ours["plies_per_cpu_s"], theirs["plies_per_cpu_s"]) == (300, 20)
    assert (ours["first_row_over_this"], theirs["first_row_over_this"]) == ("1", "15")
    assert ours["version"] == "1.2" and ours["not_measured_because"] == ""


def test_a_peer_that_ends_is_a_row_with_the_reason_and_the_others_play_on(tmp_path: Path) -> None:
    peers = [peer(tmp_path, "ours", 10), peer(tmp_path, "ends", 10, ends=True)]
    missing = Peer("missing", (str(tmp_path / "nothing.py"),), 1)
    nowhere = Peer("nowhere", (), 64, unavailable="it has no chess")
    rows = contest([*peers, missing, nowhere], tmp_path / "cache", rounds=3, seconds=1.0)
    assert [row["plies_per_cpu_s"] for row in rows] == [10, "", "", ""]
    reasons = [row["not_measured_because"] for row in rows]
    assert reasons[:2] == ["", "ValueError: out of moves"]
    assert "nothing.py" in reasons[2] and reasons[3] == "it has no chess"
    assert len({tuple(row) for row in rows}) == 1


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("Collecting x\nERROR: No matching distribution found for x\n", "ERROR: No matching distribution found for x"),
        (
            "  URLError: refused\n  [end of output]\nerror: subprocess-exited-with-error\nnote: not pip\n",
            "URLError: refused",
        ),
        ("a\nurllib.error.URLError: <urlopen error>\nlast", "urllib.error.URLError: <urlopen error>"),
        ("error: metadata-generation-failed\nhint: see above", "hint: see above"),
        ("cannot write /home/me/cache/pgx", "cannot write CACHE/pgx"),
        ("", "it said nothing"),
        ("x" * 300, "x" * 197 + "..."),
    ],
)  # fmt: skip
def test_the_reason_is_the_line_that_says_what_went_wrong(output: str, reason: str) -> None:
    assert reason_of(output, Path("/home/me/cache")) == reason


@pytest.mark.slow
def test_an_environment_is_made_once_and_a_package_that_is_not_there_is_a_reason(
    tmp_path: Path,
) -> None:
    python = python_of(tmp_path, "empty", ["pip"])
    made = python.lstat().st_mtime_ns
    assert python_of(tmp_path, "empty", ["pip"]).lstat().st_mtime_ns == made
    row = contest([Peer("none", ("x.py",), 1, "none", ("./nothing.whl",))], tmp_path, 1, 1.0)[0]
    assert "nothing.whl" in row["not_measured_because"] and str(tmp_path) not in str(row)


def test_every_script_is_there_and_every_version_is_pinned() -> None:
    folder = Path(rounds.__file__).parent
    for each in GAMES:
        assert each.unavailable or (folder / each.script[0]).is_file()
        assert all("==" in requirement for requirement in each.requirements)


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


def test_what_only_writes_the_record_is_no_learning() -> None:
    rows = [
        {"eval/regret_cp": 384.0, "eval/entropy": 3.0},
        {"time/rollout_s": 1.0, "time/update_s": 2.0, "time/wall_s": 9.0},
        {"time/rollout_s": 1.5, "time/update_s": 2.5, "eval/regret_cp": 99.0, "eval/entropy": 2.0},
        {"time/rollout_s": None, "time/update_s": 0.5, "eval/regret_cp": None},
    ]
    assert run_of(3, 12.0, rows) == Run(3, 12.0, 7.5, 99.0, 2.0)


@pytest.mark.parametrize("mode", MODES)
def test_every_contest_with_maskable_ppo_has_settings_that_fit(mode: str) -> None:
    check_settings(config_of(mode, smoke=True))


@pytest.mark.parametrize("mode", ["versus", "one_ply_move_net"])
def test_maskable_ppo_is_given_our_boards_network_numbers_and_bonus(mode: str) -> None:
    config = config_of(mode, smoke=True)
    model, bonus = maskable_ppo(config)
    own = build_policy(config.policy, seed=0, device=torch.device("cpu"), critic=True)
    for name, tensor in model.policy.net.state_dict().items():
        assert torch.equal(tensor, own.state_dict()[name]), name
    model.learn(2 * model.n_steps * model.n_envs, callback=bonus)
    first, last = config.regularizer.ent_coef, config.regularizer.ent_coef_final
    share = model.n_steps * model.n_envs / config.total_moves
    assert model.ent_coef == pytest.approx(first + (last - first) * share)
    model.env.close()
