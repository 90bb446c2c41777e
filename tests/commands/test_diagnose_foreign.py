"""`chess-lab diagnose` of another trainer's log: what is printed, how it exits, what is refused."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from algorithms.commands.diagnose import SOURCES
from algorithms.foreign.trainers import TRAINERS
from tests.commands.lab import ENV, chess_lab
from tests.foreign.logs import csv_table, json_lines, trl_rows, trl_state


def test_the_log_and_how_it_was_read_stand_before_the_outcome(tmp_path: Path) -> None:
    answer = chess_lab("diagnose", trl_state(tmp_path, trl_rows("beta10__1")))
    assert answer.code == 1 and answer.err == ""
    lines = answer.out.splitlines()
    assert re.fullmatch(r"verdict: impaired \(\d causes cannot be told\)", lines[0])
    assert lines[1].startswith("read: a log of TRL (json, guessed by its names): 80 updates, every")
    assert "1. loss_budget" in lines and "   to confirm  the same run with beta=0.1" in lines
    assert "in the evaluation" in answer.out and "nats a token" in answer.out
    assert "chess-lab" not in answer.out and "nan" not in answer.out
    assert max(map(len, lines)) < 80


def test_a_folder_of_another_trainer_is_told_from_a_run_folder(tmp_path: Path) -> None:
    trl_state(tmp_path / "out" / "checkpoint-80", trl_rows("sound__1"))
    assert "a log of TRL" in chess_lab("diagnose", tmp_path / "out").out
    rows = [
        {"step": n, "entropy/all/mean": 0.5, "optim/grad_norm": 1.0, "reward/all/mean": n / 9}
        for n in range(1, 12)
    ]
    (tmp_path / "prime").mkdir()
    json_lines(tmp_path / "prime" / "metrics.jsonl", rows)
    assert "a log of prime-rl" in chess_lab("diagnose", tmp_path / "prime").out


def test_json_says_what_was_read_and_the_exit_code_is_the_verdicts(tmp_path: Path) -> None:
    answer = chess_lab("diagnose", trl_state(tmp_path, trl_rows("sound__1")), "--json")
    found = json.loads(answer.out)
    assert answer.code == 0 and found["verdict"].startswith("as expected")
    assert found["log"] == {
        "trainer": "trl", "guessed": True, "format": "json", "updates": 80, "steps_apart": 1.0, "evaluations": 5,
    }  # fmt: skip


def test_a_map_names_the_columns_of_any_table(tmp_path: Path) -> None:
    rows = [{"it": n, "H": 2.0 * 0.99**n, "ret": 5.0} for n in range(1, 20)]
    path = csv_table(tmp_path / "log.csv", rows)
    unknown = chess_lab("diagnose", path)
    assert unknown.code == 2 and "--map theirs=ours" in unknown.err
    answer = chess_lab(
        "diagnose", path, "--map", "it=step", "--map", "H=entropy", "--map", "ret=reward"
    )
    assert answer.code == 1 and "a log of a table (csv): 19 updates" in answer.out
    assert "reward is the same at every update" in " ".join(answer.out.split())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--map", "H"), "--map takes THEIRS=OURS"),
        (("--map", "H=entrpy"), "there is no 'entrpy'"),
        (("--from", "pytorch"), "invalid choice"),
        (("--twin", "runs/x"), "--twin compares two runs of this project"),
        (("--config", "missing.json"), "missing.json cannot be read"),
    ],
)
def test_a_wrong_option_is_refused_with_a_sentence(
    options: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    answer = chess_lab("diagnose", trl_state(tmp_path, trl_rows("sound__1")), *options)
    assert answer.code == 2 and said in " ".join(answer.err.split())


def test_rows_without_steps_are_not_called_every_step(tmp_path: Path) -> None:
    printed = [{n: v for n, v in row.items() if n != "step"} for row in trl_rows("sound__1")]
    (tmp_path / "out.txt").write_text("\n".join(map(str, printed)))
    said = " ".join(chess_lab("diagnose", tmp_path / "out.txt").out.split())
    assert "80 updates, steps counted by rows, 5 evaluations" in said


def test_a_file_that_is_not_there_is_named() -> None:
    answer = chess_lab("diagnose", "outputs/trainer_state.json")
    assert answer.code == 2 and "outputs/trainer_state.json does not exist" in answer.err


def test_the_option_names_every_trainer() -> None:
    assert tuple(TRAINERS) == SOURCES


def test_a_log_is_diagnosed_without_torch_scipy_and_the_rules_of_chess(tmp_path: Path) -> None:
    path = trl_state(tmp_path, trl_rows("sound__1"))
    program = (
        "import sys\nfrom algorithms.cli import main\n"
        f"code = main(['diagnose', {str(path)!r}])\n"
        "print(sorted({'torch', 'scipy', 'numba', 'chess', 'gymnasium'} & set(sys.modules)), code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=ENV, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[] 0"
