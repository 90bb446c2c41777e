"""Writes docs/results.md and its figures: python docs/results_page.py [--check].

The figures come from benchmarks/results/strong.json, strong_trials.json, strong_game.json, pretraining.json and
pretraining_long.json; the texts below have to be read again whenever a benchmark is run again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import chess

from benchmarks.strong_figures import learning_curves
from benchmarks.strong_tables import (
    arms_table,
    ceiling,
    differences_table,
    first_lead,
    game_table,
    games_table,
    runs_table,
    slices_table,
    trials_table,
    wanted,
)
from chess_env.games.rendering import svg

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
hanging. What it shows is that reinforcement learning from random weights, with an evaluator of about a
thousand lines for a reward, comes to a policy that wins won games. What it does not win it draws with an
overwhelming lead, but for one game in 400.
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
less), in games all legal moves scored are worth no more than 32 samples (by greedy regret they were, in the one
equal pair), and longer stays, played on mostly greedily, helped GRPO in games (both were changed at once). The
last line is a quarter run of seed 1: it plays well and its regret is high, which led to shorter stays and more
random starts.
"""

GAME_TEXT = """\
It is the shortest of its wins in 20 pairs, so a pretty one and not a typical one. Scores are the built-in
evaluator's after the move, in pawns, from the policy's view; *probability* is what the policy gave to the move
that it chose.
"""

PRETRAINED_TEXT = """\
[Pretraining](pretraining.md) on half a million positions that the built-in evaluator scored, until held-out
regret no longer fell, and from there three ways on for the same CPU time: RL (GRPO with the settings `strong`, but
a frozen stem, a smaller step size and bonus), the pretraining run itself *continued*, and pretraining
*restarted* with a step size that rises and falls once more. Held-out regret on `random_2_40`, by seed.
"""

PRETRAINED_FOUND = """\
RL makes the policy *as it is sampled* much better, and more pretraining hardly does: that is what RL optimises, and a
soft target leaves much to gain. On held-out positions its *most probable move* does not get better, and is perhaps a
little worse. In whole games, below, it is much better all the same: pretraining taught which move loses least in a
position, not how a game is finished, and its policies draw what they have won. Step size and bonus of RL were chosen in
four short runs from the pretrained policies of seeds 1 and 2, by regret; seed 3 was looked at once.
"""

DIFFERENCES_TEXT = """\
RL minus the others, mean over the seeds with a 95 % interval (Student's t); below 0 RL is better.
"""

STRENGTH_TEXT = """\
The same policies in games, as above, played greedily: after pretraining, after it was continued, and after RL
(moves and minutes of *rl* are its own alone, those of *continued* include the pretraining).
"""

LONG_TEXT = """\
RL for four times as long, from one pretrained policy (seed 3 again, on another machine, so another policy than above).
SAMPLED
"""

LONG_FOUND = """\
With that many moves the most probable move gets better too, on this one seed. Against random the policy still scores
less than the long run from random weights, which had twice the moves: what it does not win are mostly stalemates, as
in the short runs there. Pretraining that goes on for that long was not measured.
"""

AGAIN = """\
## Again

```console
python -m benchmarks.learning.strong --out runs/strong --json benchmarks/results/strong.json --ship
python -m benchmarks.learning.annotated_game example --json benchmarks/results/strong_game.json
python -m benchmarks.learning.pretraining --out runs/pretraining --json benchmarks/results/pretraining.json
python -m benchmarks.learning.pretraining --long --seeds 3 --json benchmarks/results/pretraining_long.json
python docs/results_page.py
```

The first command trains what is missing (about two hours on one core), measures everything and ships the long
run's policy as `example`. `--only full --ship` makes that alone. Runs of the same seed are equal bit by bit on
one machine; on another the last bits of sums differ, and with them the run.
"""


def page(
    results: Mapping[str, Any],
    trials: Mapping[str, Any],
    game: Mapping[str, Any],
    pretraining: Mapping[str, Any],
    long: Mapping[str, Any],
) -> str:
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
        "## From a pretrained start\n\n" + PRETRAINED_TEXT + "\n" + "\n".join(arms_table(pretraining["rows"])),
        DIFFERENCES_TEXT + "\n" + "\n".join(differences_table(pretraining["settings"]["differences"])),
        PRETRAINED_FOUND,
        STRENGTH_TEXT + "\n" + "\n".join(runs_table(pretraining["settings"]["strength"])),
        LONG_TEXT.replace("SAMPLED", sampled(long)) + "\n" + "\n".join(runs_table(long["rows"])),
        LONG_FOUND,
        AGAIN,
    ]  # fmt: skip
    return "\n\n".join(section.rstrip() for section in sections) + "\n"


def sampled(long: Mapping[str, Any]) -> str:
    """A sentence: held-out regret of moves sampled at temperature 1, before and after."""
    before, after = (
        next(
            each["regret_cp"]
            for each in run["positions"]
            if each["slice"] == "random_2_40" and each["temperature"] == 1
        )
        for run in long["settings"]["runs"].values()
    )
    return f"Sampled at T=1 its regret fell from {before:.1f} to {after:.1f} cp."


def main() -> None:
    """None; writes the page and its figures, or with --check only compares the page."""
    results, trials, game, *pretraining = (
        json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("strong", "strong_trials", "strong_game", "pretraining", "pretraining_long")
    )
    text = page(results, trials, game, *pretraining)
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
