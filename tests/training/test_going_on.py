"""What a run that goes on says of what is not as it was, and the folders of runs that begin together."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from algorithms.config import files as config_file
from algorithms.reports.run_files import read_run
from algorithms.run_folder.atomic_files import edited_files, new_folder
from tests.commands.lab import chess_lab

LEAST = ("--env.evaluator", "builtin", "--policy.size", "tiny", "--total-moves", "16",
         "--rollout.num-envs", "2", "--rollout.num-plies", "1")  # fmt: skip
OWN = '''
"""An algorithm, copied from the shipped REINFORCE."""
from dataclasses import dataclass
from algorithms.reinforce import Reinforce

@dataclass(frozen=True)
class Mine(Reinforce):
    """The same."""
'''


def test_an_own_file_that_was_edited_is_named_when_the_run_goes_on_and_in_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, run = tmp_path / "my_edited_algorithm.py", tmp_path / "run"
    own.write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    begun = chess_lab("train", "my_edited_algorithm:Mine", *LEAST, "--run-dir", run)
    assert begun.code == 0, begun.err
    again = ("train", "my_edited_algorithm:Mine", "--resume", run)
    assert "was edited" not in chess_lab(*again).out and read_run(run).notes == ()
    own.write_text(OWN + "# edited\n")
    said = " ".join(chess_lab(*again).out.split())
    assert f"WARNING: {own} was edited since this run was last trained" in said
    assert "was edited" not in chess_lab(*again).out  # once for each time
    (note,) = read_run(run).notes
    assert f"{own} was edited before the run went on" in note
    assert chess_lab("report", run).code == 0
    assert "was edited before" in (run / "report.html").read_text()


@pytest.mark.parametrize(
    "damaged", [3, {"own_objects": 3}, {"own_objects": {"a:B": 3}}, {"own_objects": {"a:B": {"sha256": 3}}}]
)  # fmt: skip
def test_a_record_of_an_environment_that_says_nothing_names_no_file(damaged: object) -> None:
    whole = {"own_objects": {"a:B": {"file": "a.py", "sha256": "0"}}}
    assert edited_files([whole, damaged, whole]) == []


def _taken(folder: Path) -> Path:
    return new_folder(folder)


def test_folders_that_are_made_at_once_by_many_have_names_of_their_own(tmp_path: Path) -> None:
    wanted = tmp_path / "runs" / "grpo-20261125-100000-seed0"
    with multiprocessing.Pool(4) as pool:
        made = pool.map(_taken, [wanted] * 40)
    with ThreadPoolExecutor(4) as threads:
        made += threads.map(new_folder, [wanted] * 40)
    assert len(set(made)) == 80 and all(path.is_dir() for path in made) and wanted in made


def test_runs_that_begin_in_the_same_second_have_folders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("algorithms.training.trainer.new_run_dir", lambda _: Path("runs/same"))
    for number in range(3):
        rate = ("--optimizer.learning-rate", f"{number + 1}e-4")
        assert chess_lab("train", "grpo", *LEAST, *rate).code == 0
    for number, name in enumerate(("same", "same-2", "same-3")):
        run = config_file.load(tmp_path / "runs" / name / "config.json")
        assert run.optimizer.learning_rate == pytest.approx((number + 1) * 1e-4)
        assert run.run_dir == Path("runs") / name


def test_a_longer_budget_says_how_the_schedules_move_and_the_command_that_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    falling = ("--optimizer.lr-final", "1e-5", "--regularizer.ent-coef", "0.3",
               "--regularizer.ent-coef-final", "0.1")  # fmt: skip
    assert chess_lab("train", "grpo", *LEAST, *falling, "--run-dir", "run").code == 0
    answer = chess_lab("train", "--resume", "run", "--total-moves", "32")
    said = " ".join(answer.out.split())
    assert answer.code == 0 and "total_moves was 16 and is 32" in said
    assert "regularizer.ent_coef 0.1 -> 0.2" in said
    assert "optimizer.learning_rate 1e-05 -> " in said
    command = said.split("chess-lab ", 1)[1].split(" None ")
    words = (" None ".join(command[:2]) + " None").split()
    kept = chess_lab(*words, "--run-dir", "kept")
    assert kept.code == 0, kept.err
    run = config_file.load(tmp_path / "kept" / "config.json")
    assert run.regularizer.ent_coef == pytest.approx(0.1) and run.regularizer.ent_coef_final is None
    assert run.optimizer.learning_rate == pytest.approx(1e-5) and run.optimizer.lr_final is None
    assert run.total_moves == 16
    again = chess_lab("train", "--resume", "kept", "--total-moves", "24")
    assert again.code == 0 and "schedules" not in again.out
