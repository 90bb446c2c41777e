"""How far rewards by an evaluator agree with rewards by a deep search.

    python -m benchmarks.scores.agreement benchmarks/data/judged_0.json benchmarks/data/judged_1.json \
        --json benchmarks/results/score_agreement.json

The judge's scale is fixed: win probability, and win probability with progress towards mate. For each file and source of
`judged_positions`, and for the decided positions, in which the judge sees 500 centipawns or more for a side:

- the correlation of the rewards of a position's moves after their mean is taken away, with the difference from the
  first contestant and its 95 % interval (bootstrap over positions);
- the share of positions in which a best move of the evaluator is a best move of the judge;
- the noise, which is how far the reward of a move moves when the engine searches one ply deeper (standard deviation).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from benchmarks.records.report import print_table, save
from chess_env.evaluators import make_evaluator
from chess_env.rewards import VALUE, make_reward
from chess_env.rules.fen import pack_fens
from chess_env.rules.rules import status_batch

Rows = list[dict[str, Any]]
Values = list[NDArray[np.float64]]

CONTESTANTS = (
    ("stockfish-v1:depth=4", "win_prob_delta"),
    ("stockfish-v2:depth=4", "win_prob_delta+mate_delta"),
    ("stockfish-v1:nodes=1", "win_prob_delta"),
    ("stockfish-v1:depth=8", "win_prob_delta"),
    ("stockfish-v2:depth=8", "win_prob_delta+mate_delta"),
    ("builtin-v1", "win_prob_delta"),
    ("builtin-v2", "win_prob_delta+mate_delta"),
)
DEEPER = {
    "stockfish-v1:depth=4": "stockfish-v1:depth=5",
    "stockfish-v2:depth=4": "stockfish-v2:depth=5",
}
SCALES = {"win probability": ("win_prob",), "and progress to mate": ("win_prob", "mate")}
DECIDED_CP = 500


def fens_after(row: dict[str, Any]) -> list[str]:
    """The position after each judged move."""
    found = []
    for move in row["moves"]:
        board = chess.Board(row["fen"])
        board.push_uci(move)
        found.append(board.fen())
    return found


def rewards(rows: Rows, evaluator: str, reward: str) -> Values:
    """float64 [L_i] for each position: what its judged moves are paid."""
    children = [fens_after(row) for row in rows]
    after = pack_fens([fen for family in children for fen in family])
    counts = [len(family) for family in children]
    with make_evaluator(evaluator, num_engines=1) as judge:  # type: ignore[attr-defined]
        before_cp = np.repeat(judge.evaluate([row["fen"] for row in rows]), counts)
        after_cp = judge.evaluate(after)
    status = status_batch(after, False)
    paid, _ = make_reward(reward, has_evaluator=True)(status, False, before_cp, after_cp)
    return np.split(paid.astype(float), np.cumsum(counts)[:-1])


def judged(rows: Rows, transforms: tuple[str, ...]) -> Values:
    """float64 [L_i] for each position: the value of its moves by the judge, on a scale of `rewards.VALUE`."""
    scores = [np.array(list(row["moves"].values())) + 10_000 for row in rows]
    return [sum((VALUE[name][score].astype(float) for name in transforms), 0.0) for score in scores]  # type: ignore[misc]


def correlation(first: Values, second: Values, chosen: NDArray[np.int64]) -> float:
    """Of values from which each position's mean is taken."""
    a = np.concatenate([first[i] - first[i].mean() for i in chosen])
    b = np.concatenate([second[i] - second[i].mean() for i in chosen])
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


def best_shared(paid: Values, wanted: Values, chosen: NDArray[np.int64]) -> float:
    """Share of positions in which the moves paid most are best moves of the judge; ties count in part."""
    shares = []
    for i in chosen:
        most = np.flatnonzero(paid[i] >= paid[i].max() - 1e-6)
        shares.append((wanted[i][most] >= wanted[i].max() - 1e-3).mean())
    return float(np.mean(shares))


def groups_of(rows: Rows) -> dict[str, NDArray[np.int64]]:
    """The numbers of the positions of each source, of the decided ones and of all."""
    sources = np.array([row["source"] for row in rows])
    found = {name: np.flatnonzero(sources == name) for name in dict.fromkeys(sources.tolist())}
    decided = np.array([abs(row["score_cp"]) >= DECIDED_CP for row in rows])
    return found | {"decided": np.flatnonzero(decided), "all": np.arange(len(rows))}


def agreement(rows: Rows) -> list[dict[str, Any]]:
    """A row for each contestant and group of positions."""
    paid = {name: rewards(rows, *name) for name in CONTESTANTS}
    rng = np.random.default_rng(0)
    table = []
    for name in CONTESTANTS:
        deeper = rewards(rows, DEEPER[name[0]], name[1]) if name[0] in DEEPER else None
        for group, chosen in groups_of(rows).items():
            row: dict[str, Any] = {"evaluator": name[0], "positions": group, "n": len(chosen)}
            for scale, transforms in SCALES.items():
                wanted = judged(rows, transforms)
                row[scale] = round(correlation(paid[name], wanted, chosen), 3)
                drawn = [rng.choice(chosen, len(chosen)) for _ in range(500)]
                differences = [
                    correlation(paid[name], wanted, each)
                    - correlation(paid[CONTESTANTS[0]], wanted, each)
                    for each in drawn
                ]
                low, high = np.percentile(differences, [2.5, 97.5])
                row[f"{scale}, difference"] = f"{low:+.3f} to {high:+.3f}"
            row["best move shared"] = round(best_shared(paid[name], wanted, chosen), 2)
            row["noise"] = "-"
            if deeper is not None:
                moved = np.concatenate([deeper[i] - paid[name][i] for i in chosen])
                row["noise"] = f"{moved.std():.3f}"
            table.append(row)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("positions", type=Path, nargs="+", help="files of judged_positions")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    table, judges = [], {}
    for path in options.positions:
        record = json.loads(path.read_text())
        found = agreement(record["positions"])
        print(f"{path.stem}, {record['judge']}")
        print_table(found)
        table += [{"table": path.stem, **row} for row in found]
        judges[path.stem] = record["judge"]
    save(options.json, "score_agreement", table, judges=judges)


if __name__ == "__main__":
    main()
