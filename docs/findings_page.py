"""Writes docs/findings.md, docs/open_questions.md and their figures: python docs/findings_page.py [--check].

The figures come from benchmarks/results/four_algorithms.json and questions.json; what they mean is
written in the texts below, which have to be read again whenever a benchmark is run again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.causes_tables import table
from benchmarks.findings_figures import phase_plot, price_plot
from benchmarks.findings_tables import family_section, how, price_level, price_table, question_table

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
FIGURES = ROOT / "docs" / "figures" / "findings"
FINDINGS, OPEN = ROOT / "docs" / "findings.md", ROOT / "docs" / "open_questions.md"

TITLES = {
    "regularization none": "no bonus",
    "regularization equal": "one coefficient for all",
    "regularization share": "one share of the gradient for all",
}
"""Family of the comparison -> what it is called."""

FOUND = """\
**Delightful PG keeps most, GRPO least, with and without a bonus.** Without a bonus, at the deepest
regret that both columns of a pair reach on all eight seeds, Delightful PG has about half a nat more than PPO
and RLOO and a whole nat more than GRPO, on every seed; between PPO and RLOO no difference may be claimed. It is
not for free in regret: PPO ends lowest, with four passes over each batch where the others have one and so about
twice the time for the same scored moves.

With a bonus Delightful PG still keeps most and GRPO least. But it needs none: a bonus takes
Delightful PG far from the regret that it reaches without one, while the others end where they did or lower. At one
share of the gradient most of its lead over PPO is gone: there the bonus does for PPO what the gate does by itself.
One coefficient for all is a different pressure on each, as its shares of the gradient show.

The trial of one seed that started this (GRPO falls to .07 nats and learns nothing, Delightful PG keeps 1.3 to
2.1) is **half confirmed**. Delightful PG does keep over a nat. GRPO falls to some four tenths of a nat and not
to .07, and it does learn, if less than the others. Part of its place is the division by the group's standard
deviation ([open questions](open_questions.md)). Rates were tuned for regret, not for entropy, and differ.
"""
"""What the comparison of four algorithms says."""

GATE = """Delightful PG differs from REINFORCE with a group baseline in one thing, the gate σ(A × surprisal / η):
one half for moves that were likely anyway, near one for unlikely moves that did well, near zero for unlikely moves
that did badly. Here η alone is varied. At η = 100 every sample passes alike, and Adam removes the common factor.

With the gate at work the runs end at the regret of those without and keep about twice the entropy; with the
gate opened, nearly all of the difference is gone. That points at the gate; these seeds show no difference
between η of .3, 1 and 3. Five seeds cannot carry a claim about four differences at once (that takes eight). Our
reading: what it withholds is the push against unlikely moves that did badly, which costs a policy its tail.
"""
"""What the runs with the gate opened step by step say."""

AMPLIFICATION = """The blog's first cause says that several updates on one batch amplify the loss of entropy, and
that RLOO and Delightful PG lose less. Whether they do depends on what the algorithm does about samples that have
become stale.

- **REINFORCE with a group baseline** (RLOO's estimator; `rloo` itself refuses a second pass) has no ratio. Two
  passes cost it more entropy for the same regret; from four on it spends nearly all of it and hardly learns.
- **GRPO**'s clip bounds what a batch can do: its price is the same from one pass to eight as far as these seeds
  show. At one pass it is the dearest of the three.
- **Delightful PG** is the cheapest at one pass, and has no ratio either: its price rises with every doubling, and
  at eight passes it is that of GRPO.

This speaks for the blog where there is no ratio, and for a clip as an answer. Three seeds carry no claim by the
rules of `chess-lab compare`: it is a lead. The level at which prices are read was chosen after the runs,
because the worst column comes down to none: it is the deepest that all columns of one pass reach.
"""
"""What the runs with several passes say."""

ANSWERS: dict[str, str] = {
    "ent_coef": """\
**Answered for runs like these: a tenth to a third of the advantages' unit.** For advantages of unit scale a
coefficient of .35 keeps about five times the entropy at the regret of no bonus; .03 is hardly seen, .1 buys
little, and 1.0 holds the policy near uniform, so that it learns little (the cause `loss_budget`). A coefficient
means nothing without the scale of the advantages: for rewards that are not divided by a standard deviation, the
presets have a twelfth of it.
""",
    "advantage_scale": """\
**Answered for runs like these: not by the group's.** Dividing by the group's standard deviation ends at more
regret with less entropy than not dividing; the batch's lies beside not dividing. Under Adam a factor common to
all advantages does nothing, so what the group's standard deviation does is to weigh groups: one whose moves are
all about equally good counts as much as one where a piece hangs. One pass of `dr_grpo` is one
pass of `rloo`, so this is one reason for the distance between `grpo` and `rloo` in [findings](findings.md).
""",
    "advantage_scale_with_bonus": """\
**The same with a bonus**, calibrated so that it has a fifth of the gradient in each column: not dividing ends
with most entropy, and with less regret than the group's standard deviation on three seeds of four or more.
""",
    "entropy_floor": """\
**Open.** These runs do not tell 1.2 from 1.5. Both end far above their floor, because the controller multiplies
the coefficient by 1.5 after five updates below the floor and never takes it back; our reading is that the
first crossing decides, and not the level. Against the same small coefficient left alone, a floor costs some
regret. A controller that also comes down (`ent_controller target`) is there and has not been compared.
""",
    "kl_controller": """\
**Open.** From the policy `warm`, with a KL to it as the reference and a target of half a nat: the gradual
controller (at most 2 % an update) does in 96 updates next to nothing that the fixed coefficient does not; the
one that doubles holds entropy up, and its regret scatters widely and tends to end higher. What the post-mortem
meant, a coefficient that comes back after a recovery has halved it, has not been run: our `recovery` controller
only lowers it.
""",
    "sync_interval": """\
**Answered for runs like these: four updates cost nothing that these seeds show, sixteen cost regret.** With
samples up to sixteen updates old the clip stops most of what would move the policy. At the same regret such
runs have *more* entropy, but they take more scored moves to come there: slow, and not collapsed. The cause
`stale_behaviour` shows the same slowness from a policy that is sure of itself.
""",
    "temperature": """\
**Answered for runs like these: it makes no difference, as long as both sides use the same.** Six seeds, and no
difference that may be claimed in regret or entropy, which are both measured at the run's temperature. That one
side uses another is the fault of post-mortem 4 (`temperature_mismatch`), and ruins a run.
""",
    "rate_temperature_group": """\
**Answered in part: rate and group size go together, the temperature does not matter here.** At the low rate
small groups are better: for the same scored moves they make four times as many updates. At the high rate it is
the other way round: small groups are too noisy for it, and their runs hardly learn. Temperature 1.3 changes
neither. Two values each, three seeds: where the optimum lies between them is open.
""",
}
"""Question -> its answer in words, "Answered" or "Open" first."""

NOT_RUN = """\
## Not run

- A learning rate of 3e-5 or 1e-6, as theirs were, over the thousands of updates that these would need.
- Temperature and learning rate in `games` form, where a move answers for later ones.
- Any of it with their network (256 wide, 4 layers) or on a GPU.
"""
"""What of the post-mortems' questions nobody has run."""


def findings(four: Mapping[str, Any], questions: Mapping[str, Any]) -> str:
    """The page of findings."""
    plan, asked = four["plan"], questions["questions"]
    tuning = [
        [
            name,
            f"{each['learning_rate']:g}",
            *(f"{v:.1f}" for v in each["percent_of_start"].values()),
        ]
        for name, each in four["tuning"].items()
    ]
    rates = list(next(iter(four["tuning"].values()))["percent_of_start"])
    amplified = asked["amplification"]
    broken = ", ".join(each["cell"] for each in four["broken"]) or "none"
    parts = [
        "# Findings\n\n<!-- written by docs/findings_page.py -->\n",
        "## Which of GRPO, PPO, RLOO and Delightful PG keeps most entropy at equal regret?\n",
        FOUND,
        "![entropy against regret](figures/findings/four_algorithms.svg)\n",
        f"Every run: {plan['budget_moves']:,} scored moves from random weights, credit horizon one ply, eight moves "
        "of a position, built-in evaluator; what else is kept equal: [comparison](comparison.md). Both figures are "
        "held-out. Learning rates were chosen on seeds "
        f"{', '.join(map(str, four['tuning_seeds']))}, by the regret at the end in percent of the start:\n",
        table(["algorithm", "chosen", *rates], tuning),
        *(family_section(TITLES[name], family) for name, family in four["families"].items()),
        f"```console\n{four['command']}\n```\n",
        f"Commit `{', '.join(four['provenance']['commits_of_the_runs'])}`; broken cells: {broken}.\n",
        "## What explains it: the gate\n",
        GATE,
        question_table(asked["delight_gate"]),
        how(asked["delight_gate"]),
        "## Several passes over a batch\n",
        AMPLIFICATION,
        "![price of further passes](figures/findings/amplification.svg)\n",
        price_table(amplified["columns"]),
        question_table(amplified),
        how(amplified),
    ]
    return "\n".join(parts)


def open_questions(questions: Mapping[str, Any]) -> str:
    """The page of open questions.

    Raises:
        ValueError: a question without an answer in `ANSWERS`, or the other way round.
    """
    asked = {
        k: v
        for k, v in questions["questions"].items()
        if k not in ("amplification", "delight_gate")
    }
    odd = sorted(set(asked) ^ set(ANSWERS))
    if odd:
        raise ValueError(
            f"ANSWERS and the benchmark differ in {odd}: write the answer to each question"
        )
    parts = [
        "# Open questions of the post-mortems\n\n<!-- written by docs/findings_page.py -->\n",
        "Each was put to small runs: GRPO in `positions` form with the built-in evaluator, minutes and not days. "
        "An answer holds for runs like these. Tables: interquartile mean over the seeds (lowest to highest); "
        "differences from the base, seed by seed, with a 95 % interval of each alone, bold where it excludes 0. Three "
        "to six seeds show large differences and no small ones; by the rules of `chess-lab compare` most of these "
        "tables carry no claim, so they are leads and not findings. Low regret is good.\n",
    ]
    for name, found in asked.items():
        parts += [f"## {found['asked']}\n", ANSWERS[name], question_table(found), how(found)]
    return "\n".join([*parts, NOT_RUN])


def phases(four: Mapping[str, Any]) -> dict[str, dict[str, list[Mapping[str, Any]]]]:
    """{title: {algorithm: its runs}} for the figure."""
    found: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for name, family in four["families"].items():
        for column in family["columns"]:
            runs = [cell for cell in four["cells"] if cell["column"] == column["name"]]
            found.setdefault(TITLES[name], {})[column["name"].partition("+")[0]] = runs
    return found


def main() -> None:
    """None; writes pages and figures, or with --check only compares the pages."""
    four, questions = (
        json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("four_algorithms", "questions")
    )
    pages = {FINDINGS: findings(four, questions), OPEN: open_questions(questions)}
    if "--check" in sys.argv:
        for path, text in pages.items():
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                raise SystemExit(f"{path.name} differs from the results: run docs/findings_page.py")
        return
    phase_plot(FIGURES / "four_algorithms.svg", phases(four))
    amplified = questions["questions"]["amplification"]["columns"]
    price_plot(FIGURES / "amplification.svg", amplified, price_level(amplified))
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
        print(f"written to {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
