"""Draws the learning curves of docs/results.md: greedy regret, and scores of the matches within the runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.causes_figures import GREY
from benchmarks.findings_figures import COLOURS, STYLE


def learning_curves(path: Path, runs: Mapping[str, Sequence[Mapping[str, float]]]) -> None:
    """None; an SVG with greedy regret on the left, and scores against random and material on the right.

    Args:
        path: of the SVG.
        runs: name -> the evaluations of the run, as `benchmarks/learning/strong.py` keeps them.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({**STYLE, "svg.hashsalt": path.stem}):
        figure = Figure(figsize=(9, 3.2), layout="constrained")
        panels = figure.subplots(1, 3)
        for colour, (name, curve) in zip(COLOURS, runs.items(), strict=False):
            moves = [point["scored_moves"] / 1e6 for point in curve]
            panels[0].plot(
                moves,
                [point["eval/regret_cp_greedy"] for point in curve],
                colour,
                lw=1.2,
                label=name,
            )
            for axes, opponent in zip(panels[1:], ("random", "material"), strict=True):
                key = f"match/{opponent}/score"
                played = [point for point in curve if key in point]
                axes.plot(
                    [point["scored_moves"] / 1e6 for point in played],
                    [100 * point[key] for point in played],
                    "o-", color=colour, lw=1.2, ms=2.5,
                )  # fmt: skip
        panels[0].axhline(75, color=GREY, lw=0.8, ls="--")
        panels[0].set(ylabel="greedy regret on random_2_40, cp", ylim=(50, 200))
        panels[0].legend(frameon=False)
        for axes, opponent, goal in zip(panels[1:], ("random", "material"), (80, 65), strict=True):
            axes.axhline(goal, color=GREY, lw=0.8, ls="--")
            axes.set(ylabel=f"score against {opponent}, % of 40 games", ylim=(40, 100))
        for axes in panels:
            axes.set_xlabel("scored moves, millions")
            axes.grid(color=GREY, alpha=0.2, lw=0.6)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None}, transparent=True)
