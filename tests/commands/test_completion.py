"""What the shells complete is what the parsers take; the script for bash works in bash."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from algorithms.collapse import CAUSES, COMPOSITES
from algorithms.commands import COMMANDS
from algorithms.config.names import NAMES
from tests.commands.lab import chess_lab

ASK = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_shtab_chess_lab
echo "${COMPREPLY[@]}"
"""


def script(shell: str) -> str:
    code, text, _ = chess_lab("completion", shell)
    assert code == 0
    return text


@pytest.fixture(scope="module")
def bash_script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "chess-lab.bash"
    path.write_text(script("bash"))
    return path


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("", set(COMMANDS)),
        ("comp", {"compare", "completion"}),
        ("train ", set(NAMES)),
        ("train delig", {"delightful_pg"}),
        ("train grpo --env.eva", {"--env.evaluator"}),
        ("train grpo --no-p", {"--no-preflight"}),
        ("train ppo --algorithm.gae", {"--algorithm.gae-lambda"}),
        ("train grpo --device ", {"auto", "cpu", "cuda"}),
        ("train grpo --device cu", {"cuda"}),
        ("train grpo --run-dir ", set()),  # bash itself then offers files
        ("pretrain --target ", {"soft", "best", "played"}),
        ("causes ", {"list", "show", "run"}),
        ("causes show ", {*CAUSES, *COMPOSITES}),
        ("causes run temperature_mismatch --cu", {"--cured"}),
        ("causes run temperature_mismatch --network ", {"resnet", "move_net"}),
        ("causes run temperature_mismatch --size ", {"full", "half", "third", "harmless"}),
        ("compare grpo rlo", {"rloo"}),
        ("uci ", {"example", "warm", "warm_move_net"}),
        ("board ", {"example", "warm", "warm_move_net"}),
        ("completion ", {"bash", "zsh", "fish"}),
    ],
)
def test_a_real_bash_offers(typed: str, offered: set[str], bash_script: Path) -> None:
    words = ["chess-lab", *typed.split(" ")]
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK, "bash", str(bash_script), *words],
        capture_output=True, text=True, timeout=30, env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert done.stderr == ""
    assert set(done.stdout.split()) == offered


def test_the_scripts_of_zsh_and_fish_hold_the_same_words() -> None:
    zsh, fish = script("zsh"), script("fish")
    assert zsh.startswith("#compdef chess-lab\n")
    for text in (zsh, fish):
        assert all(name in text for name in (*NAMES, *CAUSES, *COMMANDS, "env.evaluator", "cuda"))
