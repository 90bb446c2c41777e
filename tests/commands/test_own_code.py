"""An error of a user's own code names its file and line, whichever part raised it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.commands.lab import chess_lab

OWN = """import dataclasses
import torch
from algorithms.grpo import GRPO
from algorithms.regularization.term import Term
from chess_env.evaluators import RuleAwareEvaluator

def broken(*_, **__):
    one, two = 1, 2, 3  # line 8

class Net(torch.nn.Module):
    def __init__(self, config, *, critic):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, obs, legal_ids):
        broken()

class Shapes(Net):
    def forward(self, obs, legal_ids):
        return self.layer(torch.ones(2, 2))  # line 20

class Unmade(Net):
    def __init__(self, config, *, critic):
        len(3)  # line 24

@dataclasses.dataclass(frozen=True)
class Algorithm(GRPO):
    name = "own"

    def advantages(self, batch):
        broken()

class Scores(RuleAwareEvaluator):
    id = "own"

    def _score_ongoing(self, positions):
        broken()

class Starts:
    def sample(self, rng):
        broken()

def term():
    return Term("own", 0.1, estimate=broken)

class Typed(Net):
    def forward(self, obs, legal_ids):
        return obs.nothing  # line 48

class Keyed(Algorithm):
    def advantages(self, batch):
        return {}["reward"]  # line 52

class Uncalled(Scores):
    def _score_ongoing(self, positions):
        return len(positions, 2)  # line 56

def zero(after_cp, before_cp):
    return 1 / 0  # line 59

def unmade_term():
    len(3)  # line 62
"""


@pytest.mark.parametrize(
    ("words", "said", "line"),
    [
        ("grpo --policy.network own_part:Net", "too many values to unpack", 8),
        ("grpo --policy.network own_part:Shapes", "mat1 and mat2", 20),
        ("grpo --policy.network own_part:Unmade", "has no len()", 24),
        ("own_part:Algorithm", "too many values to unpack", 8),
        ("grpo --regularizer.terms own_part:term", "too many values to unpack", 8),
        ("grpo --regularizer.terms own_part:unmade_term", "has no len()", 62),
        ("grpo --policy.network own_part:Typed", "AttributeError: 'Tensor'", 48),
        ("own_part:Keyed", "KeyError: 'reward'", 52),
        ("grpo --env.evaluator own_part:Uncalled", "TypeError: len() takes", 56),
        ("grpo --env.reward own_part:zero", "ZeroDivisionError: division by zero", 59),
        ("grpo --env.evaluator own_part:Scores", "too many values to unpack", 8),
        ("grpo --env.start-positions own_part:Starts", "too many values to unpack", 8),
    ],
)
def test_an_error_of_own_code_names_its_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, said: str, line: int
) -> None:
    (tmp_path / "own_part.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_part", raising=False)
    evaluator = [] if "evaluator" in words else ["--env.evaluator", "builtin"]
    answer = chess_lab("train", *words.split(), *evaluator, "--smoke", "--device", "cpu")
    assert answer.code == 1
    assert said in answer.err
    assert f"(own_part.py, line {line})" in answer.err.replace(f"{tmp_path}/", "")


@pytest.mark.parametrize(
    "words",
    [
        "eval example --opponents own_part:Uncalled --games 2",
        "pretrain --smoke --device cpu --policy.network own_part:Typed",
        "pretrain --smoke --device cpu --evaluator own_part:Uncalled",
        "compare own_part:Keyed --smoke --out OUT",
    ],
)
def test_every_command_names_file_and_line_of_own_code_and_shows_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    (tmp_path / "own_part.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_part", raising=False)
    answer = chess_lab(*words.split())
    assert answer.code == 1
    said = (answer.err + answer.out).replace(f"{tmp_path}/", "")
    assert "(own_part.py, line " in said
    assert "Traceback" not in said
