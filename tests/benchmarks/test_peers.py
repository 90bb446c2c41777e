"""The contest of peers: rounds in turn, ratios within a round, and a reason for each peer that does not play."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.peers.contest import GAMES, Peer, contest
from benchmarks.peers.environments import python_of, reason_of
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
