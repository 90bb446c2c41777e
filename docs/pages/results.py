"""docs/results.md: what `--preset strong` and a pretrained start come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import chess

from chess_env.games.rendering import svg
from docs.pages import result
from docs.pages.writing.figures import strong_curves
from docs.pages.writing.markdown import filled, table

ARMS = {
    "pretrained": "pretrained",
    "rl": "then RL",
    "continued": "then pretraining continued",
    "restarted": "then pretraining restarted",
}


def pages() -> dict[str, str]:
    """{path: text} of the page."""
    strong, game, trials = result("strong"), result("strong_game"), result("strong_trials")["rows"]
    before = {**result("strong_grpo")["rows"][0], "run": "GRPO on resnet"}
    pretraining, long = result("pretraining"), result("pretraining_long")
    runs, settings = strong["settings"]["runs"], pretraining["settings"]
    full = next(row for row in strong["rows"] if row["run"].startswith("full"))
    full = {**full, "games": strong["settings"]["games"]}
    text = filled(
        "results",
        full=full,
        wanted=wanted(full, runs[full["run"]]["matches"]),
        runs=runs_table([*strong["rows"], before]),
        games=games_table(runs),
        ceiling=ceiling(strong["settings"]["ceiling"]),
        slices=slices_table(runs[full["run"]]["positions"]),
        trials=trials_table([row for row in trials if "network" not in row]),
        move_net_trials=move_net_trials_table([row for row in trials if "network" in row]),
        colour="White" if game["settings"]["policy_is_white"] else "Black",
        game=game_table(game["rows"]),
        arms=arms_table(pretraining["rows"]),
        differences=differences_table(settings["differences"]),
        strength=runs_table(settings["strength"]),
        sampled=[sampled_regret(run) for run in long["settings"]["runs"].values()],
        long=runs_table(long["rows"]),
    )
    return {"docs/results.md": text}


def figures() -> dict[str, str]:
    """{path: SVG} of the learning curves and of two boards of the game."""
    runs, game = result("strong")["settings"]["runs"], result("strong_game")["rows"]
    folder = "docs/figures/results"
    boards = {"lead": first_lead(game), "end": game[-1]}
    return {
        f"{folder}/learning_curves.svg": strong_curves({n: run["curve"] for n, run in runs.items()}),
        **{f"{folder}/{n}.svg": svg(chess.Board(row["fen"]), size=280) for n, row in boards.items()},
    }  # fmt: skip


def wanted(
    row: Mapping[str, Any], matches: Sequence[Mapping[str, Any]]
) -> list[tuple[str, str, bool]]:
    """What was asked for, each with the figure and whether it holds.

    Args:
        row: of the long run.
        matches: its games against random and against material.
    """
    draws = next(match["draw_causes"] for match in matches if match["opponent"] == "random")
    stalemates, repetitions = (draws.get(name, 0) for name in ("stalemate", "threefold_repetition"))
    return [
        ("at most 50 cp greedy on `random_2_40`", f"{row['greedy_regret_cp']:.1f} cp", row["greedy_regret_cp"] <= 50),
        ("at least 99 % against random", f"{100 * row['random_score']:.1f} %", row["random_score"] >= 0.99),
        ("no stalemate against it", f"{stalemates} of {row['games']} games", stalemates == 0),
        ("at most 2 draws by repetition against it", f"{repetitions} of {row['games']}", repetitions <= 2),
        ("at least 97 % against material", f"{100 * row['material_score']:.1f} %", row["material_score"] >= 0.97),
    ]  # fmt: skip


def runs_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A line for each run: budget, regret, and the score and conversion against both opponents."""
    lines = [
        (
            row["run"],
            f"{row['scored_moves'] / 1e6:.0f} million" if row["scored_moves"] else "-",
            f"{row['cpu_minutes']:.0f}",
            f"{row['greedy_regret_cp']:.1f} ({row['greedy_regret_95'].replace(' to ', '-')})",
            *(
                f"{100 * row[f'{name}_score']:.1f} ({_percent(row[f'{name}_score_95'])})"
                for name in ("random", "material")
            ),
            f"{row['random_conversion']:.0%} / {row['material_conversion']:.0%}",
        )
        for row in rows
    ]
    head = ["run", "scored moves", "CPU-minutes", "greedy regret, cp",
            "score against random, %", "against material, %", "converted"]  # fmt: skip
    return table(head, lines)


def arms_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A line for each way of going on: regret and entropy of every seed."""
    lines = []
    for arm in dict.fromkeys(row["arm"] for row in rows):
        own = [row for row in rows if row["arm"] == arm]
        cells = [
            ", ".join(f"{row[name]:.{digits}f}" for row in own)
            for name, digits in (("eval/regret_cp", 1), ("eval/regret_cp_greedy", 1), ("eval/entropy", 2))
        ]  # fmt: skip
        lines.append([ARMS[arm], *cells, ", ".join(f"{row['cpu_s'] / 60:.0f}" for row in own)])
    head = ["policy", "sampled at T=1, cp", "greedy, cp", "entropy, nats", "CPU-minutes"]
    return table(head, lines)


def differences_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A line for each control and measure: RL minus the control."""
    lines = []
    for row in rows:
        interval = f"{row['difference_cp']:+.1f} ({row['low']:+.1f} to {row['high']:+.1f})"
        measure = "greedy" if row["metric"].endswith("greedy") else "sampled at T=1"
        otherwise = "**no**" if row["low"] > 0 else "not told apart"
        verdict = "yes" if row["rl_is_better"] else otherwise
        lines.append((ARMS[row["control"]], measure, interval, verdict))
    return table(["RL minus", "measure", "difference, cp", "RL is better"], lines)


def _percent(interval: str) -> str:
    low, high = interval.split(" to ")
    return f"{100 * float(low):.1f}-{100 * float(high):.1f}"


def games_table(runs: Mapping[str, Mapping[str, Any]]) -> str:
    """A line for each run and opponent: results, how draws came about, and by how much they were missed."""
    lines = []
    for name, run in runs.items():
        for match in run["matches"]:
            causes = sorted(match["draw_causes"].items(), key=lambda item: -item[1])
            listed = ", ".join(f"{cause.replace('_', ' ')} {count}" for cause, count in causes)
            lead = match["median_lead_in_draws_cp"]
            results = f"{match['wins']} / {match['draws']} / {match['losses']}"
            missed = "-" if lead is None else f"{lead:+,.0f} cp"
            lines.append((name, match["opponent"], results, listed or "-", missed))
    head = ["run", "opponent", "won / drawn / lost", "draws by", "median lead in draws"]
    return table(head, lines)


def slices_table(positions: Sequence[Mapping[str, Any]]) -> str:
    """A line for each held-out slice: greedy regret, that of a sampled move, and of a uniform one."""
    lines: dict[str, list[str]] = {}
    for row in positions:
        cell = f"{row['regret_cp']:.1f} ({row['regret_cp_low']:.1f}-{row['regret_cp_high']:.1f})"
        lines.setdefault(row["slice"], [f"`{row['slice']}`"]).append(cell)
    return table(["slice", "greedy", "sampled at T=1", "uniform"], lines.values())


def trials_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A line for each short run that the settings were chosen by."""
    lines = [
        (
            row["algorithm"],
            row["ent"],
            row["starts"],
            row["max_plies"],
            f"{row['greedy_fraction']:.0%}",
            f"`{row['reward']}`",
            row["blocks"],
            f"{row['moves'] / 1e6:.1f} M",
            f"{row['greedy_regret_cp']:.1f} / {row['regret_cp']:.1f}",
            f"{row['random_score']:.3f}",
            f"{row['material_score']:.3f}",
        )
        for row in rows
    ]
    head = ["algorithm", "bonus", "starts", "plies", "greedy plies", "reward", "blocks", "moves",
            "greedy / T=1 regret, cp", "random", "material"]  # fmt: skip
    return table(head, lines)


def move_net_trials_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A line for each short run that algorithm, step size and bonus were chosen by."""
    lines = [
        (
            row["algorithm"],
            row["network"],
            f"{row['learning_rate']:g}",
            row["ent"],
            f"{row['moves'] / 1e6:.0f} M",
            f"{row['cpu_minutes']:.1f}",
            f"{row['greedy_regret_cp']:.1f} / {row['regret_cp']:.1f}",
            f"{row['random_score']:.3f}",
            f"{row['material_score']:.3f}",
        )
        for row in rows
    ]
    head = ["algorithm", "network", "step size", "bonus", "moves", "CPU-minutes",
            "greedy / T=1 regret, cp", "random", "material"]  # fmt: skip
    return table(head, lines)


def ceiling(matches: Sequence[Mapping[str, Any]]) -> str:
    """What the evaluator itself comes to, as part of a sentence."""
    return " and ".join(
        f"{match['wins']} of {match['games']} games against {match['opponent']}"
        for match in matches
    )


def sampled_regret(run: Mapping[str, Any]) -> float:
    """Held-out regret of moves sampled at temperature 1, centipawns."""
    return next(
        float(each["regret_cp"])
        for each in run["positions"]
        if each["slice"] == "random_2_40" and each["temperature"] == 1
    )


def game_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A line for each move of the policy: its probability, what it was worth, and the reply."""
    lines = []
    plies = rows[:-1]
    for index, row in enumerate(plies):
        if not row["by_policy"]:
            continue
        board = chess.Board(row["fen"])
        number = f"{board.fullmove_number}{'.' if board.turn else '...'}"
        best, own = (min(1_000, max(-1_000, row[name])) for name in ("best_score_cp", "score_cp"))
        choice = "the same" if row["best_san"] == row["san"] else row["best_san"]
        if best - own >= 50:
            choice += f" ({best - own} cp better)"
        reply = plies[index + 1]["san"] if index + 1 < len(plies) else ""
        move, probability = f"{number} {row['san']}", f"{row['probability']:.2f}"
        lines.append((move, probability, score(row["score_cp"]), choice, reply))
    return table(["move", "probability", "score", "the evaluator's choice", "reply"], lines)


def score(score_cp: int) -> str:
    """A score in pawns, or how far away mate is."""
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
