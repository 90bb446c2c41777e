"""Tables and figures of what the benchmarks measured."""

from __future__ import annotations

import re

from algorithms.reports.judges import judge_in_words
from algorithms.reports.noise import load_noise
from docs.pages import ROOT, result
from docs.pages.figures import (
    entropy_against_regret,
    learning_curve,
    methods,
    moves_by_processes,
    stages,
)
from docs.pages.markdown import table, tables

STAGES = ("environment", "evaluator", "forward", "update", "rest", "evaluator_beside")
"""Of `benchmarks.gpu`."""


def figures() -> dict[str, str]:
    """{name: SVG} of the figures in docs/benchmarks and docs/findings."""
    four = ("four_algorithms", "four_algorithms_move_net")
    return {
        **{f"findings/{name}.svg": entropy_against_regret(name, result(name)) for name in four},
        "methods.svg": methods(result("methods")),
        "learning_curve.svg": learning_curve(result("learning")),
        "processes.svg": moves_by_processes(result("processes")["rows"]),
        "train_stages.svg": stages(result("train_speed")["settings"]["stages_s"]),
    }


def rows(name: str, part: str = "") -> str:
    """The rows of a result; those whose column `table` has the value `part`, where one is given."""
    found = result(name)["rows"]
    if part:
        found = [
            {column: value for column, value in row.items() if column != "table"}
            for row in found
            if row["table"] == part
        ]
    return tables(found)


def compared(part: str) -> str:
    """The methods of a part of `benchmarks.learning.methods`: what each changes, its paper, and what was measured."""
    docs = ROOT / "docs"
    changes = dict(
        re.findall(
            r"^\| \[(\w+)\]\(.*\| (.+) \|$",
            (docs / "algorithms/README.md").read_text("utf-8"),
            re.M,
        )
    )
    papers = {}
    for line in (docs / "papers.md").read_text("utf-8").splitlines():
        paper = re.search(r"\[[^`\]]+\]\(http[^)]+\)", line)
        for name in re.findall(r"\(algorithms/(\w+)\.md\)", line) if paper else ():
            papers.setdefault(name, paper[0])
    found = [row for row in result("methods")["rows"] if row["table"] == part]
    lines = []
    for row in found:
        name, _, variant = str(row["method"]).partition(", ")
        page = f"[{name}](../algorithms/{name}.md)" if name in changes else name
        figures = [value for column, value in row.items() if column not in ("table", "method")]
        label = f"{page}, {variant}" if variant else page
        cells = [label, changes.get(name, ""), papers.get(name, ""), *figures]
        lines.append(["" if cell is None else cell for cell in cells])
    header = ["method", "what it changes", "paper", *list(found[0])[2:]]
    return table(header, lines)


def made_by(name: str, *command: str) -> str:
    """The command, commit and machine of a result.

    Args:
        name: of the result.
        command: module below `benchmarks`, and its options.
    """
    record = result(name)
    machine, settings = record["machine"], record["settings"]
    on_card = f" with an {settings['card']}, {settings['date']}" if "card" in settings else ""
    return (
        f"`python -m benchmarks.{' '.join(command)} --json benchmarks/results/{name}.json` at commit "
        f"`{machine['commit']}` on {machine['processor']}, {machine['cores']} cores, Python {machine['python']}"
        f"{on_card}."
    )


def rows_made_by(name: str, *command: str) -> str:
    """`rows` with `made_by` below them."""
    return f"{rows(name)}\n\n{made_by(name, *command)}"


def agreement(positions: str, *evaluators: str) -> str:
    """How far the rewards of some evaluators agree with a deep search, by `benchmarks.scores.agreement`.

    Args:
        positions: the file of judged positions, without its ending.
        evaluators: that are shown.
    """
    header = ["evaluator", "positions", "n", "correlation", "difference", "best move", "noise"]
    lines = [
        [
            f"`{row['evaluator']}`", row["positions"], row["n"], f"{row['win probability']:.3f}",
            row["win probability, difference"], f"{row['best move shared']:.2f}", row["noise"],
        ]
        for row in result("score_agreement")["rows"]
        if row["table"] == positions and row["evaluator"] in evaluators
    ]  # fmt: skip
    return table(header, lines)


def obvious_moves() -> str:
    """How each evaluator pays each kind of obvious move, by `benchmarks.obvious_moves`."""
    record = result("obvious_moves")
    rows, cases = record["rows"], record["settings"]["cases"]
    of = {(row["kind"], row["case"]): row for row in rows}
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    header = ["kind", "positions"]
    for case, made in cases.items():
        header += [f"`{case}`, `{made['reward']}`", "best right, best wrong"]
    lines = []
    for kind in kinds:
        line = [f"`{kind}`" if kind != "all" else "all", of[kind, next(iter(cases))]["positions"]]
        for case in cases:
            row = of[kind, case]
            line += [
                f"{row['paid_right']:.0%}",
                f"{row['mean_right']:+.3f}, {row['mean_wrong']:+.3f}",
            ]
        lines.append(line)
    return f"{table(header, lines)}\n\n{made_by('obvious_moves', 'obvious_moves')}"


def gpu_stages() -> str:
    """Where the time of an update goes, by `benchmarks.gpu`."""
    lines = []
    for row in result("gpu")["rows"]:
        shares = [f"{row[f'{stage}_percent']} %" for stage in STAGES]
        idle = f"{row['device_idle_percent']} %" if row["device"] == "cuda" else ""
        lines.append([*_case(row), f"{row['plies_per_s']:,}", *shares, idle])
    header = [*STAGES[:-1], "evaluator, beside", "device idle"]
    return table([*_CASE, "plies/s", *header], lines)


def gpu_arithmetic() -> str:
    """The arithmetic of an update on the card, by `benchmarks.gpu`."""
    lines = [
        [
            *_case(row),
            f"{row['update_tflop_per_s']:.3g}",
            f"{row['percent_of_matrix_product']:.0f} %",
            row["memory_gb"],
            row["warm_up_s"],
        ]
        for row in result("gpu")["rows"]
        if row["device"] == "cuda"
    ]
    done = ["TFLOP/s of an update", "of the matrix product", "memory, GB", "first two updates, s"]
    return table([*_CASE, *done], lines)


_CASE = ("network", "device", "trunk", "boards", "minibatch")


def _case(row: dict[str, object]) -> list[object]:
    return [row[name] for name in ("network", "device", "precision", "boards", "minibatch")]


def regret_noise() -> str:
    """What the judge itself and the teacher lose on each slice of the held-out table."""
    noise = load_noise()
    lines = [
        [
            f"`{name}`",
            *(
                "{mean_cp:.1f} ({low_cp:.1f}-{high_cp:.1f}), n = {num_positions}".format(**mean)
                for mean in (both["judge"], both["teacher"])
            ),
        ]
        for name, both in noise["slices"].items()
    ]
    judge, deeper = judge_in_words(noise["judge_id"]), judge_in_words(noise["deeper_id"])
    header = [
        "slice",
        f"{judge}, by {deeper}, cp (95 %)",
        f"{judge_in_words(noise['teacher_id'])}, by {judge}, cp (95 %)",
    ]
    return table(header, lines)
