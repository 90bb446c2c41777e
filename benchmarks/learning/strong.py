"""What `--preset strong` comes to: regret, games and draw causes of one long run and of short ones.

    python -m benchmarks.learning.strong --out runs/strong --json benchmarks/results/strong.json
    python -m benchmarks.learning.strong --out runs/strong --only full --ship
    python -m benchmarks.learning.strong --algorithm grpo --out runs/strong_grpo --json FILE

A long run of 40 million scored moves and three seeds at a quarter of it, from random weights. `exact` on the
network that reads the facts of each move takes a quarter of an hour on one core for the long run; `grpo` on the
large residual network, the settings before it, an hour. Runs that are there are continued or only measured. Every
figure comes from two commands that anyone can give: `chess-lab eval RUN --positions` and `chess-lab eval RUN
--opponents random material`.
`--ship` copies the long run's policy to where `chess-lab uci example` finds it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from algorithms.config.names import STRONG_FOR
from algorithms.networks.build import ship
from algorithms.reports.run_files import read_metrics
from benchmarks.records.command_line import chess_lab
from benchmarks.records.report import print_table, save
from chess_env.games.players import make_player
from chess_env.matches.arena import MATCH_PLIES, play_match
from chess_env.positions.start_positions import make_start_positions

ROOT = Path(__file__).resolve().parents[2]
FULL_MOVES, QUARTER_MOVES = 40_000_000, 10_000_000
RUNS: dict[str, tuple[int, int]] = {
    "full-seed0": (0, FULL_MOVES),
    "quarter-seed1": (1, QUARTER_MOVES),
    "quarter-seed2": (2, QUARTER_MOVES),
    "quarter-seed3": (3, QUARTER_MOVES),
}
"""Run -> (seed, budget in scored moves). The settings were chosen on seed 0, in shorter runs."""

OPPONENTS, GAMES, MATCH_SEED = ("random", "material"), 400, 1_000
CURVE = (
    "scored_moves", "time/cpu_s", "time/wall_s", "eval/regret_cp", "eval/regret_cp_greedy", "eval/entropy",
    *(f"match/{name}/{what}" for name in OPPONENTS for what in ("score", "conversion")),
)  # fmt: skip


def train(algorithm: str, name: str, folder: Path) -> None:
    """None; begins the run, goes on with it, or leaves it where it has used its budget."""
    seed, moves = RUNS[name]
    if not (folder / "config.json").exists():
        settings = ["--seed", str(seed), "--total-moves", str(moves), "--run-dir", str(folder)]
        chess_lab("train", algorithm, "--preset", "strong", *settings)
    else:
        chess_lab("train", "--resume", str(folder))


def evaluate(policy: Path, games: int = GAMES) -> tuple[dict[str, Any], dict[str, Any], str]:
    """(positions, matches, PGN) of a checkpoint, or of a run's newest, as `chess-lab eval` writes them."""
    with tempfile.TemporaryDirectory() as scratch:
        positions, matches, pgn = (
            Path(scratch) / name for name in ("p.json", "m.json", "games.pgn")
        )
        chess_lab("eval", str(policy), "--positions", "--json", str(positions))
        match = ["--opponents", *OPPONENTS, "--games", str(games), "--seed", str(MATCH_SEED)]
        chess_lab("eval", str(policy), *match, "--json", str(matches), "--pgn", str(pgn))
        return json.loads(positions.read_text()), json.loads(matches.read_text()), pgn.read_text()


def curve_of(folder: Path) -> list[dict[str, float]]:
    """The evaluations of the run, and the matches where one was played."""
    rows = [row for row in read_metrics(folder) if row.get("eval/regret_cp") is not None]
    return [
        {name: round(row[name], 4) for name in CURVE if row.get(name) is not None}  # type: ignore[arg-type]
        for row in rows
    ]


def greedy_of(positions: dict[str, Any], slice_name: str) -> dict[str, Any]:
    """What `chess-lab eval --positions` says of greedy play on a slice."""
    (found,) = (
        row
        for row in positions["positions"]
        if (row["slice"], row["chooser"]) == (slice_name, "greedy")
    )
    return dict(found)


def ceiling() -> list[dict[str, Any]]:
    """What the evaluator that paid the rewards comes to itself, one ply deep, against each opponent."""
    found = []
    for name in OPPONENTS:
        match = play_match(
            make_player("builtin"), make_player(name), openings=make_start_positions("openings"),
            pairs=GAMES // 2, seed=MATCH_SEED, max_plies=MATCH_PLIES,
        )  # fmt: skip
        found.append({"opponent": name, **match.counts()})
    return found


def row_of(
    name: str, seed: int, moves: int, folder: Path, policy: Path | None = None, games: int = GAMES
) -> tuple[dict[str, Any], dict[str, Any], str]:
    """(the row of the table, all figures behind it, PGN) of a finished run.

    Args:
        name: of the run, in tables.
        seed: of the run.
        moves: its budget in scored moves.
        folder: the run folder.
        policy: the checkpoint that is measured; None: the run's newest.
        games: against each opponent.
    """
    positions, matches, pgn = evaluate(policy or folder, games)
    curve = curve_of(folder)
    row: dict[str, Any] = {"run": name, "seed": seed, "scored_moves": moves}
    row["cpu_minutes"] = round(curve[-1]["time/cpu_s"] / 60, 1)
    row["wall_minutes"] = round(curve[-1]["time/wall_s"] / 60, 1)
    main = greedy_of(positions, "random_2_40")
    row["greedy_regret_cp"] = round(main["regret_cp"], 1)
    row["greedy_regret_95"] = f"{main['regret_cp_low']:.1f} to {main['regret_cp_high']:.1f}"
    for match in matches["opponents"]:
        opponent = match["opponent"]
        row[f"{opponent}_score"] = round(match["score"], 4)
        row[f"{opponent}_score_95"] = f"{match['score_low']:.3f} to {match['score_high']:.3f}"
        row[f"{opponent}_losses"] = match["losses"]
        row[f"{opponent}_conversion"] = round(match["conversion"] or 0.0, 3)
    behind = {
        "positions": positions["positions"],
        "matches": matches["opponents"],
        "curve": curve,
        "environment": environment_of(folder),
    }
    return row, behind, pgn


def environment_of(folder: Path) -> dict[str, Any]:
    """What the run was made with, without the folders of the machine."""
    record = json.loads((folder / "environment.json").read_text())
    return {name: record[name] for name in ("git", "evaluator", "torch_threads", "packages")}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--algorithm", choices=STRONG_FOR, default="exact")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "strong", help="run folders")
    parser.add_argument(
        "--only", nargs="+", choices=("full", "quarter"), default=["full", "quarter"]
    )
    parser.add_argument("--json", type=Path, default=None, help="write the figures here too")
    parser.add_argument("--pgn", type=Path, default=None, help="write the long run's games here")
    parser.add_argument("--ship", action="store_true", help="the long run becomes `example`")
    arguments = parser.parse_args()
    rows, behind = [], {}
    for name in (name for name in RUNS if name.split("-")[0] in arguments.only):
        folder = arguments.out / name
        train(arguments.algorithm, name, folder)
        row, behind[name], pgn = row_of(name, *RUNS[name], folder)
        rows.append(row)
        if name.startswith("full"):
            if arguments.pgn is not None:
                arguments.pgn.write_text(pgn, encoding="utf-8")
            if arguments.ship:
                shipped = ship(folder / "checkpoints" / "latest" / "model.safetensors", "example")
                print(f"written to {shipped}: {shipped.stat().st_size:,} bytes")
    for row in rows:
        print_table([row])
    save(
        arguments.json,
        "strong",
        rows,
        algorithm=arguments.algorithm,
        runs=behind,
        games=GAMES,
        match_seed=MATCH_SEED,
        ceiling=ceiling(),
    )


if __name__ == "__main__":
    main()
