"""The tables of docs/results.md, line by line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import chess

ARMS = {
    "pretrained": "pretrained",
    "rl": "then RL",
    "continued": "then pretraining continued",
    "restarted": "then pretraining restarted",
}


def wanted(row: Mapping[str, Any]) -> list[str]:
    """Lines of the table of what was asked for, each with the figure and whether it holds."""
    games = row["games"]
    checks = [
        ("at most 75 cp greedy on `random_2_40`", f"{row['greedy_regret_cp']:.1f} cp", row["greedy_regret_cp"] <= 75),
        ("at least 80 % against random", f"{100 * row['random_score']:.1f} %", row["random_score"] >= 0.8),
        ("at most 1 % losses against it", f"{row['random_losses']} of {games}", row["random_losses"] <= games / 100),
        ("at least 65 % against material", f"{100 * row['material_score']:.1f} %", row["material_score"] >= 0.65),
    ]  # fmt: skip
    return [
        f"| {what} | {figure} | {'yes' if held else '**no**'} |" for what, figure, held in checks
    ]


def runs_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each run: budget, regret, and the score and conversion against both opponents."""
    lines = [
        "| run | scored moves | CPU-minutes | greedy regret, cp | score against random, % | against material, % | "
        "converted |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        scores = [
            f"{100 * row[f'{name}_score']:.1f} ({_percent(row[f'{name}_score_95'])})"
            for name in ("random", "material")
        ]
        regret = f"{row['greedy_regret_cp']:.1f} ({row['greedy_regret_95'].replace(' to ', '-')})"
        converted = " / ".join(
            f"{row[f'{name}_conversion']:.0%}" for name in ("random", "material")
        )
        lines.append(
            f"| {row['run']} | {_moves(row['scored_moves'])} | {row['cpu_minutes']:.0f} | {regret} | "
            f"{scores[0]} | {scores[1]} | {converted} |"
        )
    return lines


def arms_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each way of going on: regret and entropy of every seed."""
    lines = [
        "| policy | sampled at T=1, cp | greedy, cp | entropy, nats | CPU-minutes |",
        "| --- | --- | --- | --- | --- |",
    ]
    for arm in dict.fromkeys(row["arm"] for row in rows):
        own = [row for row in rows if row["arm"] == arm]
        cells = [
            ", ".join(f"{row[name]:.{digits}f}" for row in own)
            for name, digits in (("eval/regret_cp", 1), ("eval/regret_cp_greedy", 1), ("eval/entropy", 2))
        ]  # fmt: skip
        minutes = ", ".join(f"{row['cpu_s'] / 60:.0f}" for row in own)
        lines.append(f"| {ARMS[arm]} | {' | '.join(cells)} | {minutes} |")
    return lines


def differences_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each control and measure: RL minus the control."""
    lines = [
        "| RL minus | measure | difference, cp | RL is better |",
        "| --- | --- | --- | --- |",
    ]
    for row in rows:
        interval = f"{row['difference_cp']:+.1f} ({row['low']:+.1f} to {row['high']:+.1f})"
        measure = "greedy" if row["metric"].endswith("greedy") else "sampled at T=1"
        verdict = (
            "yes" if row["rl_is_better"] else ("**no**" if row["low"] > 0 else "not told apart")
        )
        lines.append(f"| {ARMS[row['control']]} | {measure} | {interval} | {verdict} |")
    return lines


def _moves(scored_moves: int) -> str:
    return f"{scored_moves / 1e6:.0f} million" if scored_moves else "-"


def _percent(interval: str) -> str:
    low, high = interval.split(" to ")
    return f"{100 * float(low):.1f}-{100 * float(high):.1f}"


def games_table(runs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A line for each run and opponent: results, how draws came about, and by how much they were missed."""
    lines = [
        "| run | opponent | won / drawn / lost | draws by | median lead in draws |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, run in runs.items():
        for match in run["matches"]:
            causes = sorted(match["draw_causes"].items(), key=lambda item: -item[1])
            listed = ", ".join(f"{cause.replace('_', ' ')} {count}" for cause, count in causes)
            lead = match["median_lead_in_draws_cp"]
            lines.append(
                f"| {name} | {match['opponent']} | {match['wins']} / {match['draws']} / {match['losses']} | "
                f"{listed or '-'} | {'-' if lead is None else f'{lead:+,.0f} cp'} |"
            )
    return lines


def slices_table(positions: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each held-out slice: greedy regret, that of a sampled move, and of a uniform one."""
    lines = ["| slice | greedy | sampled at T=1 | uniform |", "| --- | --- | --- | --- |"]
    for name in dict.fromkeys(row["slice"] for row in positions):
        cells = [
            f"{row['regret_cp']:.1f} ({row['regret_cp_low']:.1f}-{row['regret_cp_high']:.1f})"
            for row in positions
            if row["slice"] == name
        ]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return lines


def trials_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each short run that the settings were chosen by."""
    lines = [
        "| algorithm | bonus | starts | plies | greedy plies | reward | blocks | moves | greedy / T=1 regret, cp | "
        "random | material |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        lines.append(
            f"| {row['algorithm']} | {row['ent']} | {row['starts']} | {row['max_plies']} | "
            f"{row['greedy_fraction']:.0%} | `{row['reward']}` | {row['blocks']} | {row['moves'] / 1e6:.1f} M | "
            f"{row['greedy_regret_cp']:.1f} / {row['regret_cp']:.1f} | {row['random_score']:.3f} | "
            f"{row['material_score']:.3f} |"
        )
    return lines


def ceiling(matches: Sequence[Mapping[str, Any]]) -> str:
    """What the evaluator itself comes to, as part of a sentence."""
    return " and ".join(
        f"{match['wins']} of {match['games']} games against {match['opponent']}"
        for match in matches
    )


def game_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each move of the policy: its probability, what it was worth, and the reply."""
    lines = [
        "| move | probability | score | the evaluator's choice | reply |",
        "| --- | --- | --- | --- | --- |",
    ]
    plies = rows[:-1]
    for index, row in enumerate(plies):
        if not row["by_policy"]:
            continue
        board = chess.Board(row["fen"])
        number = f"{board.fullmove_number}{'.' if board.turn else '...'}"
        lost = min(1_000, max(-1_000, row["best_score_cp"])) - max(
            -1_000, min(1_000, row["score_cp"])
        )
        choice = "the same" if row["best_san"] == row["san"] else row["best_san"]
        if lost >= 50:
            choice += f" ({lost} cp better)"
        reply = plies[index + 1]["san"] if index + 1 < len(plies) else ""
        lines.append(
            f"| {number} {row['san']} | {row['probability']:.2f} | {_score(row['score_cp'])} | {choice} | {reply} |"
        )
    return lines


def _score(score_cp: int) -> str:
    if abs(score_cp) < 9_000:
        return f"{score_cp / 100:+.1f}"
    plies = 10_000 - abs(score_cp)
    return "mate" if plies == 0 else f"{'mates' if score_cp > 0 else 'is mated'} in {plies} plies"


def first_lead(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The row before which the policy moved to a lead of 500 cp for the first time; the last one without."""
    for index, row in enumerate(rows[:-1]):
        if row["by_policy"] and row["score_cp"] >= 500:
            return rows[index + 1]
    return rows[-1]
