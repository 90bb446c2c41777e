"""A comparison of algorithms: tuning, calibration, a grid of runs, and what may be claimed of them.

OUT/comparison.json       variants, readings, comparisons, claims, provenance
OUT/runs/COLUMN/seed-N/   the runs that are compared
OUT/tuning/  calibration/ runs on seeds that are never reported
"""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from algorithms.comparison.analysis import analyse, family_lines
from algorithms.comparison.controls import Control, judged, make_controls
from algorithms.comparison.executors import Executor, open_executor
from algorithms.comparison.grid import GRID_LOCK, StoppedError, run_grid
from algorithms.comparison.grid_runs import GridResult, GridRun
from algorithms.comparison.jobs import MixedError, cured, make_jobs, read_jobs, refuse_other_runs
from algorithms.comparison.outlook import outlook
from algorithms.comparison.plan import TUNING_SEEDS, Plan
from algorithms.comparison.readings import RunSummary, mixed_readings
from algorithms.comparison.tuning import calibrate, tune, with_choices
from algorithms.comparison.variants import Variant, make_variants, train_arguments
from algorithms.core.checks import message_lines
from algorithms.run_folder import environment
from algorithms.run_folder.atomic_files import lock_folder, replace_json
from chess_env.evaluators import make_evaluator

RESULT_FILE, RUNS = "comparison.json", "runs"


@dataclasses.dataclass(frozen=True)
class ComparisonResult:
    """The result of a comparison.

    Attributes:
        values: JSON values, as in comparison.json.
        path: that file.
    """

    values: dict[str, Any]
    path: Path

    @property
    def broken(self) -> list[dict[str, str]]:
        """[{"run", "reason"}, ...] of the runs that could not be used."""
        found: list[dict[str, str]] = self.values["broken"]
        return found

    def lines(self) -> list[str]:
        """The summary for people."""
        lines = [""]
        for name, family in self.values["families"].items():
            lines += family_lines(name, family)
        if self.values["controls"]:
            lines += ["Controls, which must coincide:"]
            lines += [f"  {each['sentence']}" for each in self.values["controls"]]
        lines += [f"BROKEN {each['cell']}: {each['reason']}" for each in self.broken]
        lines += [f"NOT COMPARABLE, compared all the same: {why}" for why in self.values["mixed"]]
        return [*lines, self.values["tuning_says"], f"result: {self.path}"]


def compare(
    plan: Plan,
    out: Path,
    *,
    jobs: int | None = None,
    ray: bool = False,
    cell_cpus: int | None = None,
    say: Callable[[str], None] = print,
    retry_failed: bool = False,
) -> ComparisonResult:
    """The result of a comparison, which is also written; runs that are not finished yet are run first.

    Args:
        plan: the variants and their settings.
        out: its folder; the same call continues what is there.
        jobs: cells at a time; None: 1, or with `ray` as many as fit.
        ray: spread the cells over a Ray cluster.
        cell_cpus: CPUs of each cell there; None: 1.
        say: shows a line for every step.
        retry_failed: run the runs that failed in an earlier call again.

    Raises:
        ValueError: a combination of settings that cannot run.
        RunFolderError: the folder is in use, or was begun with other settings (GridError).
        ClusterError: the cluster cannot run these cells.
        MixedError: the runs do not share evaluator, budget or starting point, and `plan.allow_mixed`
            is False.
        TuningError: nothing could be chosen on the tuning seeds.
        StoppedError: SIGINT, SIGTERM or SIGHUP came.
    """
    if ray and plan.evaluator.startswith("ray:"):
        raise ValueError(
            f"evaluator is {plan.evaluator!r}: with --ray each cell has engines beside it, and engines of the "
            "cluster would wait for the CPUs that cells hold; leave out ray: or --ray"
        )
    out = out.resolve()
    plan, evaluator_id = _pinned(plan)
    # Processes on several machines cannot share a file of sqlite.
    builtin = evaluator_id.startswith("builtin")
    cache = None if ray or builtin else out / "scores.sqlite"
    variants = make_variants(plan, cache=cache) if plan.presets else ()
    extra, pairs = (
        make_controls(plan, variants, cache=cache) if plan.controls and variants else ((), ())
    )
    out.mkdir(parents=True, exist_ok=True)
    needed = None if builtin else plan.evaluator
    where = open_executor(out, jobs=jobs, ray=ray, cell_cpus=cell_cpus, evaluator=needed)
    with lock_folder(out, GRID_LOCK):
        refuse_other_runs(plan, [*variants, *extra], out, evaluator_id)
        columns = Counter(variant.family for variant in variants)
        columns.update({f"cause {cause}": 2 for cause in plan.causes})
        with where as executor:
            for sentence in outlook(plan, columns, executor.at_a_time):
                for line in message_lines(sentence):
                    say(line)
            return _Comparison(plan, out, executor, say, retry_failed).run(variants, extra, pairs)


class _Comparison:
    """One call of `compare`."""

    def __init__(
        self, plan: Plan, out: Path, executor: Executor, say: Callable[[str], None],
        retry_failed: bool,
    ) -> None:  # fmt: skip
        self.plan, self.out, self.executor, self.say = plan, out, executor, say
        self.retry_failed = retry_failed
        self.started = datetime.now(UTC).isoformat(timespec="seconds")
        self.broken: list[dict[str, str]] = []

    def run(
        self, variants: Sequence[Variant], extra: Sequence[Variant], controls: Sequence[Control]
    ) -> ComparisonResult:
        """Everything, one stage after the other."""
        rates = self._tuned(variants)
        variants = with_choices(variants, rates, {})
        shared = [variant for variant in variants if variant.family == "share"]
        coefficients = {}
        if shared:
            self.say("calibration of the bonuses, on seeds that are never reported")
            coefficients = calibrate(
                shared, self.plan.grad_share, self.out / "calibration", self._run_all
            )
        variants = with_choices(variants, {}, coefficients)
        # A control repeats a variant, with whatever was chosen for it.
        extra = [
            dataclasses.replace(each, config=variants[0].config)
            if any(each.name == pair.theirs and pair.exact for pair in controls)
            else each
            for each in extra
        ]
        jobs = make_jobs(self.plan, [*variants, *extra], self.out / RUNS)
        grid = self._run_all([job.grid_run for job in jobs], self.out / RUNS)
        readings, broken = read_jobs(jobs, grid)
        values = {
            "plan": dataclasses.asdict(self.plan),
            "seeds": list(self.plan.seeds),
            "tuning_seeds": list(TUNING_SEEDS),
            "tuning": rates,
            "tuning_says": self._tuning_says(rates),
            "calibration": coefficients,
            "columns": [_variant_values(variant) for variant in (*variants, *extra)],
            "mixed": self._mixed(variants, readings),
            "families": self._families(variants, readings),
            "controls": judged(controls, readings),
            "broken": self.broken + broken,
            "cells": [r.to_dict() for by_seed in readings.values() for r in by_seed.values()],
            "provenance": self._provenance(readings),
        }
        path = self.out / RESULT_FILE
        replace_json(path, values)
        return ComparisonResult(values, path)

    def _run_all(self, grid_runs: Sequence[GridRun], folder: Path) -> GridResult:
        grid = run_grid(
            grid_runs, folder, self.executor, say=self.say, retry_failed=self.retry_failed
        )
        for line in grid.lines():
            self.say(line)
        if grid.stopped_by is not None:
            raise StoppedError(grid)
        if folder.name != RUNS:  # those are named when they are read
            self.broken += [
                {
                    "cell": f"{folder.name}/{each.grid_run.name}",
                    "reason": f"see {each.grid_run.log}",
                }
                for each in grid.outcomes
                if each.state != "finished"
            ]
        return grid

    def _tuned(self, variants: Sequence[Variant]) -> dict[str, dict[str, Any]]:
        """Chosen learning rates; empty where nobody asked, or the grid sets them."""
        if not self.plan.tune:
            return {}
        first: dict[str, Variant] = {}
        for variant in variants:
            if "+learning_rate=" not in variant.base:
                plain = variant.with_settings({"regularizer.ent_coef": 0.0})
                first.setdefault(
                    variant.base, plain.with_settings({"regularizer.ent_coef_final": None})
                )
        self.say("tuning of the learning rates, on seeds that are never reported")
        rates = self.plan.tried_rates
        return tune(list(first.values()), rates, self.out / "tuning", self._run_all)

    def _tuning_says(self, rates: dict[str, dict[str, Any]]) -> str:
        if not rates:
            return (
                "Learning rates are not tuned: each network's own unless the grid says otherwise."
            )
        chosen = ", ".join(f"{name} {each['learning_rate']:g}" for name, each in rates.items())
        return f"Learning rates chosen on seeds {TUNING_SEEDS} without a bonus: {chosen}."

    def _mixed(
        self, variants: Sequence[Variant], readings: dict[str, dict[int, RunSummary]]
    ) -> list[str]:
        """Why the runs are not comparable; each cause answers for itself and its twin."""
        groups = [[variant.name for variant in variants]]
        groups += [[cause, cured(cause)] for cause in self.plan.causes]
        reasons = [
            reason
            for names in groups
            for reason in mixed_readings(
                [reading for name in names for reading in readings.get(name, {}).values()]
            )
        ]
        if reasons and not self.plan.allow_mixed:
            raise MixedError(
                f"{'; '.join(reasons)}: such runs are not comparable; --allow-mixed compares them anyway"
            )
        return reasons

    def _families(
        self, variants: Sequence[Variant], readings: dict[str, dict[int, RunSummary]]
    ) -> dict[str, Any]:
        families: dict[str, Any] = {}
        configs = {variant.name: variant.config for variant in variants}
        for treatment in dict.fromkeys(variant.family for variant in variants):
            names = [variant.name for variant in variants if variant.family == treatment]
            families[f"regularization {treatment}"] = analyse(names, readings, self.plan.seeds)
        for family in families.values():
            for row in family["columns"]:
                config = configs[row["name"]]
                row["ent_coef"] = config.regularizer.ent_coef
                row["learning_rate"] = config.optimizer.settled(config.policy).learning_rate
        for cause in self.plan.causes:
            names = [cause, cured(cause)]
            families[f"cause {cause}"] = analyse(names, readings, self.plan.seeds)
        return families

    def _provenance(self, readings: dict[str, dict[int, RunSummary]]) -> dict[str, Any]:
        every = [reading for by_seed in readings.values() for reading in by_seed.values()]
        return {
            "started": self.started,
            "ended": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
            "git": environment.git_state(),
            "commits_of_the_runs": sorted({each.commit for each in every if each.commit}),
            "evaluators": sorted({each.evaluator for each in every}),
            "packages": environment.versions(),
            "cpu": environment.cpu_name(),
        }


def _pinned(plan: Plan) -> tuple[Plan, str]:
    """The plan with "auto" replaced by what it finds now, and the evaluator's id.

    Raises:
        ValueError: there is no such evaluator.
    """
    evaluator = make_evaluator(plan.evaluator, 1, None)
    evaluator.close()
    if plan.evaluator.startswith("auto"):
        kind = "builtin" if evaluator.id.startswith("builtin") else "stockfish"
        name = plan.evaluator.replace("auto", kind, 1)
        plan = dataclasses.replace(plan, evaluator=name)
    return plan, str(evaluator.id)


def _variant_values(variant: Variant) -> dict[str, Any]:
    """What a variant is, in JSON values."""
    return {
        "name": variant.name,
        "family": variant.family,
        "arguments": list(train_arguments(variant.config)),
    }
