"""A command line of the pages does what a reader wants who pastes it: it is accepted, and in small it runs."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from algorithms.collapse import experiment
from algorithms.comparison import compare as comparison
from algorithms.comparison import remedy_runs
from algorithms.comparison.jobs import make_jobs
from algorithms.comparison.plan import Plan
from algorithms.comparison.variants import make_variants, train_arguments
from algorithms.config import files as config_file
from algorithms.config.names import named_run
from algorithms.pretraining import loop
from algorithms.processes import launch as processes
from algorithms.training import trainer
from tests.commands.lab import ENV, chess_lab
from tests.comparison.test_remedy_verdicts import fault
from tests.foreign.logs import csv_table, sb3_csv, trl_rows, trl_state
from tests.test_documented_commands import COMMAND_LINES
from tests.test_extending_page import FILE, PAGE

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PLACES = {
    "RUN": "runs/mine",
    "RUN_DIR": "runs/first",
    "FOLDER": "runs/mine",
    "OUT": "runs/mine",
    "N": "2",
}
"""Words in capitals, and what a reader might put there."""

RUNS = ("runs/first", "runs/mine", "runs/my-run", "runs/strong", "runs/start", "runs/collapse", "runs/pair/collapse",
        "comparison", "policies/grpo")  # fmt: skip
"""Folders of runs that the pages name."""

IN_A_SENTENCE = re.compile(
    r"chess-lab (causes|compare|completion|diagnose|eval|pull|push|remedies|report|uci|train( --resume)?)"
    r"|.*(\.\.\.|module:Name).*"
)
"""A command that a sentence names, without the arguments that it needs."""

WRITTEN = re.compile(r"^%%writefile my_algorithm.py\n(.*?)^```", re.MULTILINE | re.DOTALL)

ELSEWHERE = {
    "--compile": "is for CUDA: tests/device",
    "games.pgn.zst": "tests/pretraining",
    "my_algorithm": "tests/test_extending_page.py",
    "ray:": "needs a cluster: tests/evaluators/cluster",
    "--endings": "tests/commands/test_eval_endings.py",
    "--epd": "tests/commands/test_eval_suites.py",
    "--puzzles": "tests/commands/test_eval_suites.py",
    "FILE": "is of the reader's own",
}
"""What of a line is run by other tests, or cannot be run here."""


def words_of(line: str) -> list[str]:
    """The arguments of a command line, without what is the shell's."""
    given = shlex.split(re.split(r"[<>]|  +(?=\S*$)", line)[0])[1:]
    name = {"NAME": {"train": "grpo", "check": "builtin"}.get(given[0], "kl_trap")}
    return [(PLACES | name).get(word, word) for word in given]


TYPED = sorted(
    {tuple(words_of(line)) for line in COMMAND_LINES if not IN_A_SENTENCE.fullmatch(line.strip())}
)


def with_something_new(lines: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The longest lines first; then those that give an option, or to one another kind of value."""
    kept, seen = [], set[tuple[str, str, str]]()
    for words in sorted(lines, key=len, reverse=True):
        option, asked = "", set()
        for word in words[1:]:
            option = word if word.startswith("--") else option
            asked.add((words[0], option, re.split("[^a-z-]", word)[0]))
        if asked - seen:
            kept.append(words)
        seen |= asked
    return kept


RUN_IN_SMALL = with_something_new([
    words
    for words in TYPED
    if words[0] in ("eval", "report", "diagnose", "uci", "check")
    and "--help" not in words
    and not any(word in " ".join(words) for word in ELSEWHERE)
])  # fmt: skip

READ = [words for words in TYPED if words[0] != "completion"]
"""Without the scripts of `completion`, which have tests of their own."""

TRAINED = with_something_new([
    words
    for words in TYPED
    if words[0] in ("train", "pretrain")
    and "--help" not in words
    and not any(word in " ".join(words) for word in ELSEWHERE)
])  # fmt: skip
COMPARED = [words for words in TYPED if words[0] == "compare" and "--help" not in words]
"""Runs of causes are in tests/commands/test_causes_command.py, in small as well."""


class NothingRunsError(BaseException):  # no error, which the commands would report
    """In place of a run, whose settings have been read and checked by then."""


def stop(*_: Any, **__: Any) -> None:
    raise NothingRunsError


def only_variants(plan: Plan, *_: Any, **__: Any) -> None:
    assert make_variants(plan) or plan.causes
    raise NothingRunsError


def plan_of(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> Plan:
    """What the line compares; nothing runs."""
    asked: list[Plan] = []
    monkeypatch.setattr(comparison, "compare", lambda plan, *_, **__: asked.append(plan) or stop())
    with pytest.raises(NothingRunsError):
        chess_lab(*words)
    (plan,) = asked
    return plan


def test_most_lines_of_the_pages_are_typed() -> None:
    assert len(TYPED) > 110
    assert {words[0] for words in TYPED} >= {"train", "compare", "causes", "eval", "uci", "report"}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the modules that the pages show; it is the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # a module that is looked up adds the folder
    for name, code in FILE.findall(PAGE):
        (tmp_path / name).write_text(code)
    (shown,) = WRITTEN.findall((ROOT / "docs/tutorials/08_your_own_algorithm.md").read_text())
    with (tmp_path / "my_algorithm.py").open("a") as file:  # both pages call theirs so
        file.write(shown.replace("from __future__ import annotations\n", ""))
    yield tmp_path
    sys.modules.pop("my_algorithm", None)


@pytest.mark.parametrize("words", READ, ids=" ".join)
def test_a_documented_command_line_is_accepted_as_it_stands(
    words: tuple[str, ...], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer, "train", stop)
    monkeypatch.setattr(processes, "launch", stop)
    monkeypatch.setattr(loop, "pretrain", stop)
    monkeypatch.setattr(comparison, "compare", only_variants)
    monkeypatch.setattr(experiment, "run_cause", stop)
    monkeypatch.setattr(remedy_runs, "run_matrix", stop)
    for option in {"--resume", "--like"} & {*words}:
        folder = Path(words[words.index(option) + 1])
        folder.mkdir(parents=True)
        name = "grpo" if words[1].startswith("--") else words[1]
        config_file.save(named_run(name), folder / "config.json")
        (folder / "metrics.jsonl").touch()
    if "--repeat" in words:
        matrix = Path(words[words.index("--repeat") + 1])
        matrix.mkdir(parents=True)
        found = {"trials": {"stale_behaviour": fault(tis=80.0)}}
        (matrix / "remedies.json").write_text(json.dumps(found))
    runs = words[0] in ("train", "pretrain", "compare") or words[1:2] == ("run",)
    if runs and "--help" not in words:
        with pytest.raises(NothingRunsError):
            print(chess_lab(*words))
    elif words[0] in (
        "board",
        "check",
        "diagnose",
        "eval",
        "pull",
        "push",
        "remedies",
        "report",
        "uci",
    ):
        module = importlib.import_module(f"algorithms.commands.{words[0]}")
        assert vars(module.make_parser().parse_args(list(words[1:])))
    else:
        assert chess_lab(*words).code == 0


def test_the_readme_says_how_many_runs_its_comparison_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((line, said),) = re.findall(r"^(chess-lab compare .*?) +# (\d+) runs", README, re.MULTILINE)
    plan = plan_of(tuple(words_of(line)), monkeypatch)
    assert len(make_jobs(plan, make_variants(plan), tmp_path)) == int(said)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of a few seconds."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    answer = chess_lab(
        "train", "grpo", "--smoke", "--env.evaluator", "builtin", "--run-dir", folder
    )
    assert answer.code == 0, answer.err
    return folder


def small(words: tuple[str, ...]) -> list[str]:
    """The same command with two games, where it plays any."""
    kept = list(words)
    if "--games" in kept:
        del kept[kept.index("--games") : kept.index("--games") + 2]
    if kept[0] == "eval" and not {"--positions", "--endings"} & {*kept}:
        kept += ["--games", "2"] + ([] if "--opponents" in kept else ["--opponents", "random"])
    return kept


def write_logs_of_other_trainers() -> None:
    """Those that the pages name, in the current folder."""
    from torch.utils.tensorboard import SummaryWriter

    rows = trl_rows("sound__1")
    for folder in (Path("outputs"), Path()):
        trl_state(folder, rows)
    Path("args.json").write_text('{"num_iterations": 1, "steps_per_generation": 1}')
    Path("logs").mkdir()
    sb3_csv(Path("logs"), "mask_sound__1")
    learned = [row for row in rows if "reward" in row]
    csv_table(Path("log.csv"), [{"H": row["entropy"], "return": row["reward"]} for row in learned])
    with SummaryWriter("runs/tensorboard") as writer:
        for row in learned:
            writer.add_scalar("train/entropy_loss", row["entropy"], row["step"])
            writer.add_scalar("train/rollout/reward_mean", row["reward"], row["step"])


@pytest.mark.slow
@pytest.mark.parametrize("words", RUN_IN_SMALL, ids=" ".join)
def test_a_documented_command_line_runs_in_small(
    words: tuple[str, ...], place: Path, finished: Path
) -> None:
    for name in RUNS:
        shutil.copytree(finished, name, symlinks=True)
    if words[0] == "diagnose":
        write_logs_of_other_trainers()
    shutil.copy(finished / "checkpoints/best/model.safetensors", "weights.safetensors")
    for path in Path(finished / "checkpoints").glob(
        "update-*"
    ):  # as if it had been made at update 10
        shutil.copytree(path, "runs/mine/checkpoints/update-00000010", dirs_exist_ok=True)
    if (
        "stockfish:depth=4" in words
        and shutil.which("stockfish", path=f"{ENV['PATH']}:/usr/games") is None
    ):
        pytest.fail("this test needs Stockfish")
    if words[0] == "uci":  # it reads its standard input
        done = subprocess.run(
            [sys.executable, "-P", "-m", "algorithms.cli", *words],
            env=ENV | {"PYTHONPATH": str(ROOT)}, input="uci\nquit\n", capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr + done.stdout
        return
    code, out, err = chess_lab(*small(words))
    nothing_learned = words[0] == "diagnose" and code in (1, 3)  # documented codes
    assert code == 0 or nothing_learned, err + out


LEAST = {"--total-moves": "4096", "--num-positions": "512"}
"""Budgets in place of those of the pages."""


@pytest.mark.slow
@pytest.mark.parametrize("words", TRAINED, ids=" ".join)
def test_a_documented_line_that_trains_runs_in_small(
    words: tuple[str, ...], place: Path, finished: Path
) -> None:
    shutil.copytree(finished, "runs/first", symlinks=True)
    if "runs/start/checkpoints/best" in words:
        start = ("pretrain", "--smoke", "--policy.network", "resnet", "--run-dir", "runs/start")
        assert chess_lab(*start).code == 0
    given = [LEAST.get(before, word) for before, word in zip(("", *words[:-1]), words, strict=True)]
    small = {"--smoke", "--resume"} & set(given)  # a resumed run keeps its size
    answer = chess_lab(*given, *([] if small else ["--smoke"]))
    assert answer.code == 0, answer.err


ALREADY_RUN: set[str | tuple[str, str]] = set()
"""The algorithms, and each (setting, value), of the runs of this line and others."""


@pytest.mark.slow
@pytest.mark.parametrize("words", COMPARED, ids=" ".join)
def test_every_value_of_a_documented_comparison_runs_in_small(
    words: tuple[str, ...], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(words, monkeypatch)
    tiny = not any("init_from=" in axis for axis in plan.grid)  # a start has its own size
    few = dataclasses.replace(plan, smoke=tiny, tune=False, budget_moves=4_096)
    for variant in make_variants(few):
        arguments = tuple(map(str, train_arguments(variant.config)))
        values = {arguments[1], *itertools.pairwise(arguments[2:])}
        if values - ALREADY_RUN:
            answer = chess_lab(*arguments, "--run-dir", f"runs/{len(ALREADY_RUN)}")
            assert answer.code == 0, answer.err
            ALREADY_RUN.update(values)
