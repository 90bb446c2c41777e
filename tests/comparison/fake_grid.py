"""A stand-in for `run_grid` that writes run folders from a formula in place of training."""

from __future__ import annotations

import ast
import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from algorithms import PRESETS
from algorithms.collapse.cause import applied
from algorithms.comparison.executors import Executor
from algorithms.comparison.grid_runs import GridResult, GridRun, Outcome
from algorithms.config import files as config_file
from algorithms.config.run import TrainConfig
from algorithms.run_folder.atomic_files import replace_json

Curve = Sequence[tuple[float, float]]
"""(held-out regret, held-out entropy) at each evaluation."""


def config_of(arguments: Sequence[str]) -> TrainConfig:
    """The run that `train` arguments ask for."""
    assert arguments[0] == "train"
    algorithm, regularizer = PRESETS[arguments[1]]
    settings: dict[str, Any] = {}
    flags = list(arguments[2:])
    while flags:
        name = flags.pop(0).removeprefix("--").replace("-", "_")
        if flags and not flags[0].startswith("--"):
            text = flags.pop(0)
            try:
                settings[name] = ast.literal_eval(text)
            except (ValueError, SyntaxError):
                settings[name] = text
        else:
            settings[name.replace(".no_", ".")] = ".no_" not in name
    return applied(TrainConfig(algorithm, regularizer, preset=arguments[1]), settings)


@dataclasses.dataclass
class FakeGrid:
    """Attributes: the formula, what it ran, and which runs break.

    `norms` is the ratio of bonus to policy gradient norm at ent_coef 1.
    """

    curve: Callable[[str, TrainConfig], Curve]
    out: Path
    norms: Callable[[TrainConfig], float] = lambda config: 1.0
    evaluator: Callable[[str], str] = lambda name: "builtin-v2"
    breaks: frozenset[str] = frozenset()
    ran: list[str] = dataclasses.field(default_factory=list)
    arguments: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    def __call__(
        self,
        grid_runs: Sequence[GridRun],
        out: Path,
        executor: Executor,
        *,
        say: Any,
        retry_failed: bool,
    ) -> GridResult:
        outcomes = []
        out.mkdir(parents=True, exist_ok=True)
        for grid_run in grid_runs:
            if grid_run.result() is None:
                self.ran.append(grid_run.name)
                self.arguments[grid_run.name] = grid_run.arguments
                if grid_run.name not in self.breaks:
                    self._write(grid_run)
            done = grid_run.result() is not None
            outcomes.append(Outcome(grid_run, "finished" if done else "failed", 0 if done else 1))
        records = {
            c.name: {"folder": str(c.folder.relative_to(out)), "arguments": list(c.arguments)}
            for c in grid_runs
        }
        replace_json(out / "cells.json", records)
        return GridResult(tuple(outcomes), None)

    def _write(self, grid_run: GridRun) -> None:
        if grid_run.arguments[0] == "train":
            config = config_of(grid_run.arguments)
        else:
            seed = int(grid_run.arguments[grid_run.arguments.index("--seed") + 1])
            config = TrainConfig(*PRESETS["grpo"], seed=seed)
        config = dataclasses.replace(config, run_dir=grid_run.folder)
        ratio = self.norms(config) * config.regularizer.ent_coef
        rows: list[Mapping[str, Any]] = [
            {
                "step": step,
                "scored_moves": step * 256,
                "eval/regret_cp": regret,
                "eval/entropy": entropy,
                **({"grad_share/policy_norm": 2.0} if step else {}),
                **({"grad_share/entropy_norm": 2.0 * ratio} if step and ratio else {}),
            }
            for step, (regret, entropy) in enumerate(self.curve(grid_run.name, config))
        ]
        grid_run.folder.mkdir(parents=True)
        config_file.save(config, grid_run.folder / "config.json")
        lines = [json.dumps(row) + "\n" for row in rows]
        (grid_run.folder / "metrics.jsonl").write_text("".join(lines))
        environment = {"evaluator": self.evaluator(grid_run.name), "git": {"commit": "abc"}}
        (grid_run.folder / "environment.json").write_text(json.dumps(environment))
        (grid_run.folder / "result.json").write_text(json.dumps({"stopped_by": None}))
