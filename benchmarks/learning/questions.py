"""Runs the open questions of the post-mortems, and the blog's amplification, as small comparisons.

    python -m benchmarks.learning.questions --runs runs/questions --json benchmarks/results/questions.json
    python -m benchmarks.learning.questions --only sync_interval --runs runs/questions

Each question is one `chess-lab compare` in a folder of its own under --runs, so calling again
continues it; a question is answered by the differences of its variants from one of them, seed by
seed. docs/findings/settings.md has the answers.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import Any

from algorithms.comparison.compare import compare
from algorithms.comparison.executors import add_options, jobs_of
from algorithms.comparison.grid import StoppedError
from algorithms.comparison.plan import Plan, Treatment
from algorithms.comparison.ray_executor import ClusterError
from algorithms.run_folder.atomic_files import RunFolderError
from benchmarks.records.causes import write
from benchmarks.records.questions import answer
from benchmarks.records.report import machine

MOVES = 24_576
NETWORK = "resnet"


@dataclasses.dataclass(frozen=True)
class Question:
    """One question and the comparison that is to answer it.

    Attributes:
        name: folder of its runs.
        asked: the question in words.
        presets: variants, times the values of the grid.
        grid: as `--grid` of `chess-lab compare`.
        base: label of the variant that the others are compared with: "PRESET KEY=VALUE ...".
        seeds: runs of each variant.
        budget_moves: scored moves of each run.
        treatment: how entropy is regularised.
        allow_mixed: the question is about a setting that comparisons otherwise keep equal.
    """

    name: str
    asked: str
    presets: tuple[str, ...]
    grid: tuple[str, ...]
    base: str
    seeds: int = 4
    budget_moves: int = MOVES
    treatment: Treatment = "none"
    allow_mixed: bool = False

    def plan(self, *, smoke: bool) -> Plan:
        """The comparison."""
        # The committed weights do not fit the tiny network of a smoke run.
        grid = [axis for axis in self.grid if not (smoke and axis.startswith("init_from"))]
        return Plan(
            presets=self.presets,
            grid=tuple(grid),
            num_seeds=2 if smoke else self.seeds,
            budget_moves=2_048 if smoke else self.budget_moves,
            treatments=(self.treatment,),
            allow_mixed=self.allow_mixed,
            smoke=smoke,
            network=NETWORK,
        )

    def command(self) -> str:
        """The same from the command line."""
        grid = f" --grid {' '.join(self.grid)}" if self.grid else ""
        mixed = " --allow-mixed" if self.allow_mixed else ""
        return (
            f"chess-lab compare {' '.join(self.presets)}{grid} --regularization {self.treatment} "
            f"--seeds {self.seeds} --budget-moves {self.budget_moves}{mixed} --out runs/{self.name} "
            f"--network {NETWORK}"
        )

    def about(self) -> dict[str, Any]:
        """What was asked and how, as JSON values."""
        return {
            "asked": self.asked,
            "command": self.command(),
            "budget_moves": self.budget_moves,
        }

    def label(self, variant: str) -> str:
        """A variant's name without its treatment and the settings that all variants have."""
        preset, *settings = variant.removesuffix(f"+{self.treatment}").split("+")
        varied = {axis.partition("=")[0] for axis in self.grid if "," in axis}
        kept = [each for each in settings if each.partition("=")[0] in varied]
        return " ".join([preset, *kept])


QUESTIONS = (
    Question(
        name="delight_gate",
        asked="Is it the gate that keeps Delightful PG's entropy?",
        # Without the gate it is REINFORCE with a group baseline; a large eta lets everything through.
        presets=("reinforce", "delightful_pg"),
        grid=(
            "eta=0.3,1.0,3.0,100.0",
            "gate_scale=std",
            "baseline=group",
            "learning_rate=0.001",
        ),
        base="reinforce",
        seeds=5,
    ),
    Question(
        name="amplification",
        asked="Do several passes over a batch cost more entropy for the same regret, and whom?",
        # RLOO itself refuses a second pass; its estimator with the group's mean as baseline allows it.
        presets=("reinforce", "grpo", "delightful_pg"),
        grid=(
            "update_epochs=1,2,4,8",
            "gate_scale=std",
            "baseline=group",
            "learning_rate=0.001",
        ),
        base="grpo update_epochs=1",
        seeds=3,
    ),
    Question(
        name="ent_coef",
        asked="Which ent_coef is best?",
        presets=("grpo",),
        grid=("ent_coef=0.0,0.03,0.1,0.35,1.0", "ent_coef_final=None"),
        base="grpo ent_coef=0.0",
        treatment="preset",
    ),
    Question(
        name="advantage_scale",
        asked="Divide advantages by their standard deviation or not?",
        presets=("grpo",),
        grid=("advantage_scale=group,batch,none",),
        base="grpo advantage_scale=group",
    ),
    Question(
        name="advantage_scale_with_bonus",
        asked="The same with a bonus of one share of the gradient",
        presets=("grpo",),
        grid=("advantage_scale=group,batch,none",),
        base="grpo advantage_scale=group",
        treatment="share",
    ),
    Question(
        name="entropy_floor",
        asked="An entropy floor of 1.5 or of 1.2 nats?",
        presets=("grpo",),
        grid=(
            "ent_floor=0.0,1.2,1.5",
            "ent_controller=floor",
            "ent_patience=5",
            "ent_coef=0.1",
            "ent_coef_final=None",
        ),
        base="grpo ent_floor=0.0",
        treatment="preset",
    ),
    Question(
        name="kl_controller",
        asked="Bring the KL coefficient back gradually or at once?",
        presets=("grpo",),
        grid=(
            "kl_controller=none,ziegler,doubling",
            "kl_ref_coef=0.01",
            "kl_target=0.5",
            "kl_coef_max=50.0",
            "ent_coef=0.0",
            "ent_coef_final=None",
            "init_from=warm",
        ),
        base="grpo kl_controller=none",
        treatment="preset",
    ),
    Question(
        name="sync_interval",
        asked="How rarely may the sampler be brought up to date?",
        presets=("grpo",),
        grid=("sync_interval_updates=1,4,16",),
        base="grpo sync_interval_updates=1",
    ),
    Question(
        name="temperature",
        asked="Temperature 1.3 or 1.0, on both sides?",
        presets=("grpo",),
        grid=("temperature=1.0,1.3",),
        base="grpo temperature=1.0",
        seeds=6,
        allow_mixed=True,
    ),
    Question(
        name="rate_temperature_group",
        asked="Learning rate, temperature and group size together?",
        presets=("grpo",),
        grid=("learning_rate=0.001,0.004", "temperature=1.0,1.3", "group_size=4,16"),
        base="grpo learning_rate=0.001 temperature=1.0 group_size=4",
        seeds=3,
        allow_mixed=True,
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    names = [question.name for question in QUESTIONS]
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME")
    add_options(parser, jobs=2)
    parser.add_argument("--runs", type=Path, required=True, help="folder of the runs; continued")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--smoke", action="store_true", help="tiny runs: do the parts work?")
    options = parser.parse_args()
    answers = {}
    for question in QUESTIONS:
        if question.name not in options.only:
            continue
        print(f"== {question.asked}", flush=True)
        try:
            result = compare(
                question.plan(smoke=options.smoke), options.runs / question.name,
                jobs=jobs_of(options), ray=options.ray, cell_cpus=options.cell_cpus,
            )  # fmt: skip
        except StoppedError as stopped:
            print(f"{stopped}: the same command continues; nothing is written")
            return stopped.grid.exit_code
        except (ValueError, ClusterError, RunFolderError) as error:
            print(f"benchmarks.learning.questions: {question.name}: {error}", file=sys.stderr)
            return 2
        answers[question.name] = question.about() | answer(
            result.values, question.base, question.label
        )
        if options.json is not None:  # now, so that an early end leaves whole questions
            write(
                options.json, {"benchmark": "questions", "machine": machine(), "questions": answers}
            )
    return 1 if any(each["broken"] for each in answers.values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())
