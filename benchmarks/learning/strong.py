"""What `--preset strong` comes to: regret, games, won endings and puzzles of one long run and of short ones.

    python -m benchmarks.learning.strong --out runs/strong --json benchmarks/results/strong.json
    python -m benchmarks.learning.strong --out runs/strong --only long last end --ship
    python -m benchmarks.learning.strong --puzzles puzzles.csv --out runs/strong --json FILE

A long run of the preset's 80 million scored moves from random weights, a last part from its weights under a deeper
judge, an end in games that the second occurrence of a position draws, and three seeds at an eighth of the long run,
each on one core. Runs that are there are continued or only measured. Every figure comes from commands that anyone can
give: `chess-lab eval RUN` with `--positions`, `--opponents`, `--endings` or `--puzzles`. `--ship` makes `example`,
which is measured in place of the end: the last part's weights, and of the end those of the fact `repeats`, in 16 bits.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from safetensors.torch import save_file
from torch import Tensor

from algorithms.networks.build import config_of, read_weights
from algorithms.reports.run_files import read_metrics
from benchmarks.learning.ship import ship
from benchmarks.records.command_line import chess_lab
from benchmarks.records.report import print_table, save
from chess_env.move_facts import facts_asked

ROOT = Path(__file__).resolve().parents[2]
LAST = ("--env.evaluator", "builtin:depth=2", "--optimizer.learning-rate", "2e-3")
"""Settings of the parts behind the long run."""


class Run(NamedTuple):
    """One run: its seed, its budget in scored moves, the run whose weights it begins with, and its settings."""

    seed: int
    moves: int
    after: str | None = None
    settings: tuple[str, ...] = ()


RUNS = {
    "long-seed2": Run(2, 80_000_000),
    "last-seed21": Run(21, 32_000_000, "long-seed2", LAST),
    "end-seed31": Run(31, 18_000_000, "last-seed21", (*LAST, "--env.twofold")),
    "short-seed8": Run(8, 10_000_000),
    "short-seed9": Run(9, 10_000_000),
    "short-seed10": Run(10, 10_000_000),
}
"""The settings were chosen on seed 1, in one run of 40 million moves; the facts `answers` on seeds 3 and 4, the depth
of the judge and the loss on seed 5."""

FACT_WEIGHTS = "head.fact_features.weight"
"""Its columns are facts of moves."""

PARTS = ("long", "last", "end", "short")

OPPONENTS, GAMES, MATCH_SEED = ("random", "material"), 400, 1_000
LOWEST, LOWEST_GAMES = "engine:nodes=1,skill_level=0", 300
"""Stockfish at its lowest; the games of one run against it."""

MATED = ("KQ-K", "KR-K", "KRR-K")
"""Endings in the table; the others stand in the file."""

CURVE = (
    "scored_moves", "time/cpu_s", "time/wall_s", "eval/regret_cp", "eval/regret_cp_greedy", "eval/entropy",
    *(f"match/{name}/{what}" for name in OPPONENTS for what in ("score", "conversion")),
)  # fmt: skip


def train(name: str, folder: Path) -> None:
    """None; begins the run, goes on with it, or leaves it where it has used its budget."""
    seed, moves, after, others = RUNS[name]
    if not (folder / "config.json").exists():
        settings = ["--seed", str(seed), "--total-moves", str(moves), "--run-dir", str(folder)]
        if after is not None:
            latest = folder.parent / after / "checkpoints" / "latest"
            settings += ["--init-from", str(latest), *others]
        chess_lab("train", "exact", "--preset", "strong", *settings)
    else:
        chess_lab("train", "--resume", str(folder))


def told_of_repetition(policy: str, end: str) -> dict[str, Tensor]:
    """The weights of `policy` with those of the fact `repeats` from the run `end`.

    Of a move that repeats no position that fact is 0, so its logit stays the same.
    """
    weights, others = read_weights(policy), read_weights(end)
    facts = facts_asked(config_of(weights, policy).facts)
    repeats = [fact.name for fact in facts].index("repeats")
    weights[FACT_WEIGHTS][:, repeats] = others[FACT_WEIGHTS][:, repeats]
    return weights


def evaluate(policy: Path | str, puzzles: Path | None) -> dict[str, Any]:
    """{measure: what `chess-lab eval` writes of it} of a run's newest checkpoint, or of a shipped policy."""
    measures = {
        "positions": ["--positions"],
        "matches": ["--opponents", *OPPONENTS, "--games", str(GAMES), "--seed", str(MATCH_SEED)],
        "lowest": ["--opponents", LOWEST, "--games", str(LOWEST_GAMES)],
        "endings": ["--endings"],
    }
    if puzzles is not None:
        measures["puzzles"] = ["--puzzles", str(puzzles)]
    with tempfile.TemporaryDirectory() as scratch:
        for name, flags in measures.items():
            chess_lab("eval", str(policy), *flags, "--json", str(Path(scratch) / name))
        return {name: json.loads((Path(scratch) / name).read_text()) for name in measures}


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


def row_of(
    name: str, folder: Path, policy: Path | str, puzzles: Path | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the row of the table, all figures behind it) of a finished run.

    Args:
        name: of the run, in tables.
        folder: the run folder.
        policy: what is measured of it: itself, or the name under which it is shipped.
        puzzles: rated puzzles in Lichess's CSV; None: they are left out.
    """
    found = evaluate(policy, puzzles)
    curve = curve_of(folder)
    main = greedy_of(found["positions"], "random_2_40")
    scores = {
        match["opponent"]: _share(match, "score")
        for match in (*found["matches"]["opponents"], *found["lowest"]["opponents"])
    }
    mated = {
        f"{each['ending']} {each['defender'].partition(':')[0]}": each["wins"]
        for each in found["endings"]["endings"]
        if each["ending"] in MATED
    }
    row: dict[str, Any] = {
        "run": name,
        "scored moves": f"{RUNS[name].moves / 1e6:g} million",
        "CPU-minutes": round(curve[-1]["time/cpu_s"] / 60),
        "greedy regret, cp": f"{main['regret_cp']:.1f} ({main['regret_cp_low']:.1f}-{main['regret_cp_high']:.1f})",
        "random, %": scores["random"],
        "material, %": scores["material"],
        "Skill Level 0, %": scores[LOWEST],
        "mated of 50, random / Stockfish": ", ".join(
            f"{ending} {mated[f'{ending} random']} / {mated[f'{ending} engine']}"
            for ending in MATED
        ),
    }
    if puzzles is not None:
        row["puzzles, %"] = _share(found["puzzles"]["players"][0], "share")
    behind = {
        "positions": found["positions"]["positions"],
        "matches": found["matches"]["opponents"] + found["lowest"]["opponents"],
        "endings": [
            {key: value for key, value in each.items() if key != "played"}
            for each in found["endings"]["endings"]
        ],
        "puzzles": [
            {key: value for key, value in player.items() if key not in ("plays", "name")}
            for player in (found["puzzles"]["players"] if puzzles else ())
        ],
        "curve": curve,
        "environment": environment_of(folder),
    }
    return row, behind


def _share(values: dict[str, Any], name: str) -> str:
    low, high = values[f"{name}_low"], values[f"{name}_high"]
    return f"{100 * values[name]:.1f} ({100 * low:.1f}-{100 * high:.1f})"


def environment_of(folder: Path) -> dict[str, Any]:
    """What the run was made with, without the folders of the machine."""
    record = json.loads((folder / "environment.json").read_text())
    return {name: record[name] for name in ("git", "evaluator", "torch_threads", "packages")}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "strong", help="run folders")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--json", type=Path, default=None, help="write the figures here too")
    parser.add_argument("--puzzles", type=Path, help="rated puzzles in Lichess's CSV")
    parser.add_argument(
        "--ship",
        action="store_true",
        help="ship `example`: the last part's weights, and of the end those of the fact `repeats`",
    )
    arguments = parser.parse_args()
    rows, behind = [], {}
    for name in (name for name in RUNS if name.split("-")[0] in arguments.only):
        folder = arguments.out / name
        train(name, folder)
        policy: Path | str = folder
        if name.startswith("end") and arguments.ship:
            weights = arguments.out / "example.safetensors"
            save_file(
                told_of_repetition(str(folder.parent / RUNS[name].after), str(folder)), weights
            )
            shipped, policy = ship(weights, "example", half=True), "example"
            print(f"written to {shipped}: {shipped.stat().st_size:,} bytes")
        row, behind[name] = row_of(name, folder, policy, arguments.puzzles)
        rows.append(row)
    for row in rows:
        print_table([row])
    save(
        arguments.json,
        "strong",
        rows,
        runs=behind,
        games=GAMES,
        match_seed=MATCH_SEED,
    )


if __name__ == "__main__":
    main()
