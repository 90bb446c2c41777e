"""Writes docs/benchmarks.md from the committed results, so that no figure there is typed by hand.

python benchmarks/page.py
"""

from __future__ import annotations

import itertools
import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "benchmarks.md"
README = ROOT / "README.md"

SECTIONS = {
    "vector_env": (
        "Vector environment",
        "Random legal play with planes, mask, draw rules, automatic restart and fresh arrays on every ply, on one "
        "pinned core, against a well-written python-chess loop "
        "(`benchmarks/speed/rivals/python_chess_loop.py`), interleaved round by round.",
    ),
    "match_speed": (
        "Matches",
        "Time a ply, by the wall clock, of a shipped policy (greedy) against a random player: a match of 200 games in "
        "the arena, and games one by one on python-chess with the same network, openings, ply limit and draw rules "
        "(`benchmarks/speed/rivals/python_chess_match.py`; a test holds both loops to the same games), interleaved, "
        "with one thread for the network and with one for each core. `tuned` spends as little as Python allows, "
        "`plain` is what one writes first. The network takes most of the time, and on one thread a board in a batch "
        "costs it a third of a single board, which bounds the first ratio; a second thread helps batches alone. Wanted "
        "were ratios of 4 and 20.",
    ),
    "stockfish_pool": (
        "Stockfish pool",
        "Pure scores (`ucinewgame` before every position) at depth 4 on packed positions by two engines, against "
        "python-chess's engine client driving the same two engines by the same protocol "
        "(`benchmarks/speed/rivals/python_chess_engine.py`), interleaved. Busy: time that the engines' threads ran or "
        "waited for a processor, over wall time; two threads of one engine can wait at once, so it may pass 100 %.",
    ),
    "builtin_evaluator": (
        "Built-in evaluator",
        "Positions per CPU-second on one core on positions from random play, and agreement with Stockfish at "
        "depth 14: correlation, move by move, of the win-probability advantage centred on its position.",
    ),
    "memory": (
        "Memory",
        "Largest resident size of the trainer and its two engines together, default settings.",
    ),
    "diagnostics": (
        "Cost of diagnostics",
        "CPU time of what is measured at every update, and of gradient shares and entropy probes averaged over "
        "their interval of 10 updates, as shares of an update (rollout with the built-in evaluator, optimizer "
        "steps). Bounds: 5 % and 10 %.",
    ),
    "entropy_prediction": (
        "Predicted entropy change",
        "Three predictors of the entropy change of an update (definitions: [metrics](metrics.md)) over 200 updates "
        "of eight Adam steps at each learning rate, after a warm start of 60 updates, GRPO, on 32 held-out "
        "positions and on 32 states of the trained batch. `identity_r2`: 1 where prediction equals measurement. "
        "Findings (one seed): the first orders in logits and parameters hold at small rates and loosen slowly; the "
        "tabular form's sign is little better than a coin's, its correlation moderate at best on the trained batch "
        "and slight held out, and with Adam's rate for its step size it is far too small.",
    ),
    "algorithms": (
        "Entropy against regret",
        "GRPO, PPO (one ply), RLOO and Delightful PG without any entropy bonus, at the same credit horizon (one ply), "
        "budget (150,000 scored moves), rollouts (32 fresh positions, 8 moves of each), step size and network. "
        "Median of the seeds (lowest to highest) of the end of the run, and of the held-out entropy in nats where "
        "the held-out regret first fell to a share of its start; `2 of 3 seeds` where not all got there.\n\n"
        "![entropy against regret](figures/entropy_against_regret.svg)\n\n"
        "The figure is drawn by `python -m benchmarks.learning.algorithms --draw benchmarks/results/algorithms.json`.",
    ),
    "ppo_credit": (
        "How far PPO looks",
        "The preset `ppo` in self-play (one move of a position, four plies from each start) with other discounts and "
        "bonuses, 20,000 scored moves, built-in evaluator; medians of the seeds (lowest to highest) at the end. The "
        "smaller bonus, first tried on seed 1, is far better on every seed. With `gamma` 0 all three seeds end alike; "
        "with the others they spread so widely that they rank nothing.",
    ),
    "learning": (
        "Learning",
        "`make train`'s default run from random weights. Regret is `eval/regret_cp` on the held-out slice "
        "`random_2_40` at the rollout temperature; the interval is a 95 % bootstrap over its positions; CPU-minutes "
        "are those of trainer and engines.\n\n![learning curve](figures/learning_curve.svg)\n\n"
        "The figure is drawn by `python -m benchmarks.learning.learning --draw benchmarks/results/learning.json`.",
    ),
    "sb3_ppo": (
        "MaskablePPO of sb3-contrib",
        "Our PPO and sb3-contrib's MaskablePPO on the same boards, evaluator, reward, network (32 channels, 2 blocks), "
        "first weights, step size and budget, eight moves of a position, gamma 0; `eval/regret_cp` at the end, ours "
        "minus theirs on common seeds, with the 95 % interval of the interquartile mean (Student's t below 10 "
        "seeds). Wanted: an upper bound below 10 cp.",
    ),
    "sb3_ppo_versus": (
        "MaskablePPO against an opponent",
        "The same with one move of a position, 16 of ours in a rollout, gamma .5 and lambda .95, against an opponent "
        "inside the environment's step that plays the built-in evaluator's move or a random one, half of the time "
        "each. Discount, bonus and length of the games were chosen in five runs of our PPO alone, on seed 1, which is "
        "one of the six.",
    ),
    "calibration": (
        "Calibration of the statistics",
        "Over 2,000 simulated truths for each figure (probability of improvement: exact). A nominal 95 % interval "
        "should cover 93 to 97 %, error rates stay at most 6 %. **Intervals** for the interquartile mean of the "
        "differences over seeds, the quantity the points show, stay in that band from 3 seeds on, under skew and "
        "outliers too. Student t for the mean does not under skew; rliable's percentile bootstrap is too narrow "
        "below 8 seeds and at the band's lower edge from there on. **Strata** (four tasks, correlation 0.5 by "
        "common seeds): seeds are drawn with all their strata; taking strata for independent covers 4 of 5. "
        "**Tests**: four algorithms, six pairs, sign flips with Holm's correction; a claim also needs an interval "
        "without 0. Without any difference; then with one algorithm 2 sd (of its own noise, common noise apart) "
        "better: false claims among the other three, and how much of what is there is found. Below 8 seeds nothing"
        " can be claimed. Four shapes: all with interquartile mean 0, but not mean 0, which more and more seeds "
        "notice (7.5 and 6.2 % at 20). **Probability of improvement**: right on average over the truths, not at "
        "the worst one. **Peaks**: a flat run's best evaluation called real at alpha 5 %; with noise taken from "
        "the run, heavy tails deceive it.",
    ),
}


def tables(rows: list[dict[str, Any]]) -> str:
    """Markdown tables of the rows, numbers with thousands separators; rows with equal columns share one."""
    groups = itertools.groupby(rows, key=lambda row: tuple(row))
    return "\n\n".join(table(names, list(group)) for names, group in groups)


def table(names: tuple[str, ...], rows: list[dict[str, Any]]) -> str:
    """One Markdown table with the columns `names`."""
    lines = ["| " + " | ".join(names) + " |", "|" + " --- |" * len(names)]
    for row in rows:
        cells = [
            f"{row[name]:,}" if isinstance(row[name], int) else str(row[name]) for name in names
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


COMMANDS = {
    "sb3_ppo": "benchmarks.learning.sb3_ppo --only one_ply",
    "sb3_ppo_versus": "benchmarks.learning.sb3_ppo --only versus",
}
"""What makes the results of a name that is not the script's, or not of the whole script."""


def section(name: str) -> str:
    """The part of the page about one benchmark."""
    title, text = SECTIONS[name]
    record = json.loads((RESULTS / f"{name}.json").read_text())
    machine = record["machine"]
    where = f"{machine['processor']}, {machine['cores']} cores, Python {machine['python']}"
    module = next((path for path in ROOT.glob("benchmarks/*/*.py") if path.stem == name), None)
    command = COMMANDS.get(name) or f"benchmarks.{module.parent.name}.{name}"
    return (
        f"## {title}\n\n{text}\n\n{tables(record['rows'])}\n\n"
        f"`python -m {command} --json benchmarks/results/{name}.json` "
        f"at commit `{machine['commit']}` on {where}.\n"
    )


def render() -> str:
    """The whole page."""
    intro = (
        "# Benchmarks\n\nEvery table below is written by `python benchmarks/page.py` from "
        "`benchmarks/results/*.json`, which the command under it writes. The machines were shared and noisy: trust "
        "ratios and medians more than single absolute figures.\n"
    )
    return "\n".join([intro, *(section(name) for name in SECTIONS)])


def column_rows(record: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each algorithm of a comparison, without a bonus: interquartile means, 95 % intervals."""

    def spread(values: dict[str, Any], digits: int) -> str:
        mean, low, high = (f"{values[name]:.{digits}f}" for name in ("iqm", "low", "high"))
        return f"{mean} ({low} to {high})"

    return [
        {
            "algorithm": column["name"].partition("+")[0],
            "regret_percent_of_start": spread(column["percent_of_start"], 1),
            "entropy_at_the_end": spread(column["entropy"], 2),
            "entropy_at_half_the_regret": spread(column["entropy_at_percent"]["50"], 2),
            "seeds": column["percent_of_start"]["seeds"],
        }
        for column in record["families"]["regularization none"]["columns"]
    ]


SHOWN = {
    "strong": (
        "run", "scored_moves", "cpu_minutes", "greedy_regret_cp", "random_score", "random_losses",
        "random_conversion", "material_score",
    ),
}  # fmt: skip
"""Columns of a table in the README, where it does not show all of them."""


def with_tables(text: str) -> str:
    """The README with the table of each `<!-- table NAME -->` marker filled in."""

    def fill(match: re.Match[str]) -> str:
        record = json.loads((RESULTS / f"{match[1]}.json").read_text())
        rows = column_rows(record) if "families" in record else record["rows"]
        if match[1] in SHOWN:
            rows = [{name: row[name] for name in SHOWN[match[1]]} for row in rows]
        return f"<!-- table {match[1]} -->\n{tables(rows)}\n<!-- end table -->"

    return re.sub(r"<!-- table (\w+) -->\n.*?<!-- end table -->", fill, text, flags=re.DOTALL)


def main() -> None:
    wanted = {PAGE: render(), README: with_tables(README.read_text())}
    for path, text in wanted.items():
        if "--check" in sys.argv:
            if not path.exists() or path.read_text() != text:
                raise SystemExit(f"{path.name} differs from the results: run benchmarks/page.py")
        else:
            path.write_text(text)
            print(f"written to {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
