"""Writes docs/results.md and its figures: python docs/results_page.py [--check].

The figures come from benchmarks/results/strong.json, strong_trials.json and strong_game.json; the texts
below have to be read again whenever a benchmark is run again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import chess

from benchmarks.strong_figures import learning_curves
from chess_env.rendering import svg

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
FIGURES = ROOT / "docs" / "figures" / "results"
PAGE = ROOT / "docs" / "results.md"

INTRO = """\
# A policy that plays

`chess-lab train grpo --preset strong` trains a policy from random weights by self-play and the built-in evaluator
alone, in an hour on one core. It is measured greedily (its most probable move) by the two commands below, on what it
was not trained on: `random_2_40` are held-out positions, judged by Stockfish at depth 8; the games start from the
opening book and are 100 pairs with colours swapped. [How strength is measured](eval.md) says what the figures and
intervals mean.

```console
chess-lab train grpo --preset strong --run-dir runs/strong
chess-lab eval runs/strong --positions
chess-lab eval runs/strong --opponents random material --games 200
chess-lab uci example        # the long run's policy comes with the project
```
"""

WANTED = """\
| wanted of the long run | reached | |
| --- | --- | --- |
"""

FOUND = """\
The policy is not strong: it has no search, and what it wins are games against players that leave pieces
hanging. What it shows is that reinforcement learning from random weights, with an evaluator of a few hundred
lines for a reward, comes to a policy that wins won games. The games that it does not win are drawn with an
overwhelming lead.
"""

RUNS_TEXT = """\
One long run and three seeds at a quarter of its budget, from random weights, each on one core. Intervals of
regret are over the held-out positions, those of scores over the 100 pairs; *converted* is the share of the
games in which the policy was to move with a lead of ten pawns of material and that it won, against random and
against material. The settings were chosen on seed 0, and their last change (below) on seed 1; seeds 2 and 3
were looked at once.
"""

CURVES_TEXT = """\
Greedy regret during the runs, and the score of matches of 40 games that every run plays at intervals
(`match.opponents`), always from the same openings. Dashed: what is wanted.
"""

GAMES_TEXT = """\
What keeps the scores from 100 % are those draws. In the short runs most are stalemates: whether a king without
any other man still has a square is a question about the whole board, and the answer matters on the very last
ply alone. The long run has learned much of that, and repetitions are then as frequent: the policy is greedy,
and it cannot see that a move leads to a position that was there before, only how often the *present* one was.
Played one ply deep, the built-in evaluator itself won CEILING: the rewards would teach more than was learned.
"""

TRIALS_TEXT = """\
By one run of a few minutes for each line, seed 0, in this order, so differences of about 6 cp and 5 points of
score mean nothing. *Plies* is how long a game stays after its start position; *bare kings* are the later
`decided` positions. Read together: greedy play gets better where the policy stays broad (a larger bonus, fading
less), all legal moves scored are worth no more than 32 samples, and playing on greedily helps to convert. The
last line is a quarter run of seed 1: it plays well and its regret is high, which led to shorter stays and more
random starts.
"""

GAME_TEXT = """\
It is the shortest of its wins in 20 pairs, so a pretty one and not a typical one. Scores are the built-in
evaluator's after the move, in pawns, from the policy's view; *probability* is what the policy gave to the move
that it chose.
"""

AGAIN = """\
## Again

```console
python benchmarks/strong.py --out runs/strong --json benchmarks/results/strong.json --ship
python benchmarks/annotated_game.py example --json benchmarks/results/strong_game.json
python docs/results_page.py
```

The first command trains what is missing (about two hours on one core), measures everything and ships the long
run's policy as `example`. `--only full --ship` makes that alone. Runs of the same seed are equal bit by bit on
one machine; on another the last bits of sums differ, and with them the run.
"""


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
            f"| {row['run']} | {row['scored_moves'] / 1e6:.0f} million | {row['cpu_minutes']:.0f} | {regret} | "
            f"{scores[0]} | {scores[1]} | {converted} |"
        )
    return lines


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


def page(results: Mapping[str, Any], trials: Mapping[str, Any], game: Mapping[str, Any]) -> str:
    """The text of docs/results.md."""
    runs = results["settings"]["runs"]
    rows = [{**row, "games": results["settings"]["games"]} for row in results["rows"]]
    full = next(row for row in rows if row["run"].startswith("full"))
    colour = "White" if game["settings"]["policy_is_white"] else "Black"
    said = GAMES_TEXT.replace("CEILING", ceiling(results["settings"]["ceiling"]))
    sections = [
        INTRO,
        WANTED + "\n".join(wanted(full)) + "\n\n" + FOUND,
        "## The runs\n\n" + RUNS_TEXT + "\n" + "\n".join(runs_table(rows)),
        "![Learning curves](figures/results/learning_curves.svg)\n\n" + CURVES_TEXT,
        "## How the games end\n\n" + "\n".join(games_table(runs)),
        said,
        "## Single moves\n\nRegret of the long run's policy in centipawns, with 95 % intervals over the positions.\n\n"
        + "\n".join(slices_table(runs[full["run"]]["positions"])),
        "## How the settings were chosen\n\n" + TRIALS_TEXT + "\n" + "\n".join(trials_table(trials["rows"])),
        f"## A game\n\nThe long run's policy has {colour} against the player that takes what it can. {GAME_TEXT}\n"
        "![The first large lead](figures/results/lead.svg) ![The end](figures/results/end.svg)\n\n"
        + "\n".join(game_table(game["rows"])),
        AGAIN,
    ]  # fmt: skip
    return "\n\n".join(section.rstrip() for section in sections) + "\n"


def main() -> None:
    """None; writes the page and its figures, or with --check only compares the page."""
    results, trials, game = (
        json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("strong", "strong_trials", "strong_game")
    )
    text = page(results, trials, game)
    if "--check" in sys.argv:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
            raise SystemExit("results.md differs from the results: run docs/results_page.py")
        return
    runs = results["settings"]["runs"]
    learning_curves(
        FIGURES / "learning_curves.svg", {name: run["curve"] for name, run in runs.items()}
    )
    for name, row in (("lead", first_lead(game["rows"])), ("end", game["rows"][-1])):
        (FIGURES / f"{name}.svg").write_text(svg(chess.Board(row["fen"]), size=280))
    PAGE.write_text(text, encoding="utf-8")
    print(f"written to {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
