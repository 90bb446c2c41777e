"""Fails unless the training run was rewarded by a real Stockfish: check_smoke.py RESULT_JSON RUN_DIR."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def complaints(result: dict, environment: dict, rows: list[dict]) -> list[str]:
    """What speaks against a run that learned from Stockfish's scores; empty when it did."""
    found = []
    for source, evaluator in (
        ("the result", result["evaluator"]),
        ("environment.json", environment["evaluator"]),
    ):
        if not evaluator.lower().startswith("stockfish"):
            found.append(f"{source} names the evaluator {evaluator!r}, not Stockfish")
    if result["evaluations"] < result["scored_moves"] / 10:
        # Moves that repeat in a group and ends of games need no query, but never nine in ten.
        found.append(
            f"{result['evaluations']} evaluations cannot have paid {result['scored_moves']} moves"
        )
    if result["updates"] < 1 or result["scored_moves"] < 1:
        found.append(f"{result['updates']} updates on {result['scored_moves']} moves: no training")
    spreads = [row["rollout/reward_std"] for row in rows if "rollout/reward_std" in row]
    if not any(spread > 0 for spread in spreads):
        found.append(f"the rewards did not vary: rollout/reward_std is {spreads}")
    return found


def main() -> int:
    """Exit code: 0 if Stockfish paid for the run, otherwise 1 and the reasons on stderr."""
    result_path, run_dir = map(Path, sys.argv[1:])
    result = json.loads(result_path.read_text())
    environment = json.loads((run_dir / "environment.json").read_text())
    rows = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    found = complaints(result, environment, rows)
    for complaint in found:
        print(f"error: {complaint}", file=sys.stderr)
    if not found:
        print(f"{result['scored_moves']} moves rewarded by {result['evaluator']}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
