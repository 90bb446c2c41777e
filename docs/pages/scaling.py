"""docs/scaling.md: what the cost model says of runs that were measured, and predicts of 8 GPUs."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from benchmarks.scale import cost, prediction
from docs.pages import result
from docs.pages.benchmarks import is_measured, made_by
from docs.pages.writing.markdown import filled, tables


def pages() -> dict[str, str]:
    """{path: text} of the page."""
    cluster, killed = (medians(result(name)) for name in ("ray_engines", "ray_engines_killed"))
    values = cost_model() if is_measured("cost_model") else {"model": ""}
    return {
        "docs/scaling.md": filled(
            "scaling",
            cluster=cluster,
            killed=killed,
            gains=gains(result("processes")),
            made_by=made_by,
            fitted=len(cost.FITTED),
            **values,
        )
    }


def cost_model() -> dict[str, Any]:
    """What the template says of the cost model, where it was measured."""
    model = result("cost_model")
    return {
        "model": tables(model["rows"]),
        "errors": errors(model),
        "engine": engine(model["settings"]),
        "prediction": tables(prediction.rows_of(model, result("gpu"))),
    }


def gains(record: Mapping[str, Any]) -> Mapping[str, float]:
    """How many times the moves a second of one process two make, by the settings of `benchmarks.speed.processes`."""
    return {row["settings"]: row["times_1"] for row in record["rows"] if row["processes"] == 2}


def medians(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The last row of `benchmarks.scale.ray_engines`, with the number of pairs and of positions."""
    row, settings = record["rows"][-1], record["settings"]
    ratios = [each["cluster / local"] for each in record["rows"][:-1]]
    return {
        "pairs": settings["pairs"],
        "positions": f"{settings['positions']:,}",
        "kills": row["killed"],
        "spread_per_s": f"{row['cluster/s']:,}",
        "local_per_s": f"{row['local/s']:,}",
        "ratio": f"{row['cluster / local']:.2f}",
        "lowest": f"{min(ratios):.2f}",
        "highest": f"{max(ratios):.2f}",
    }


def errors(model: Mapping[str, Any]) -> Mapping[str, Any]:
    """Number, largest and median of the errors of runs that were not fitted, in percent."""
    found = [abs(row["error_percent"]) for row in model["rows"] if row["fitted"] == "no"]
    return {"count": len(found), "largest": max(found), "median": f"{statistics.median(found):g}"}


def engine(settings: Mapping[str, Any]) -> Mapping[str, str]:
    """What one engine does: microseconds of a position by evaluator, nodes a second, and positions of a ply."""
    position_us = settings["position_us"]
    return {
        "builtin_us": f"{position_us['builtin']:.0f}",
        "stockfish_us": f"{position_us['stockfish:depth=4']:.0f}",
        "nodes_per_s": f"{settings['nodes_per_s']:,}",
        "positions": f"{settings['positions_a_state']:.1f}",
    }
