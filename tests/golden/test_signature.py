"""Every preset has the stored signature, which changes with what training does and with nothing else."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from algorithms import PRESETS
from algorithms.grpo import GRPO
from algorithms.regularization import RegularizerConfig
from algorithms.rollouts import state
from algorithms.training import signature
from algorithms.updates import update
from tests.commands.lab import ENV, chess_lab
from tests.golden import curves

ADVICE = "If the change is meant: `python -m tests.golden.regenerate --signatures`, and a line in CHANGELOG.md."


def stored() -> dict[str, Any]:
    return json.loads(curves.SIGNATURES.read_text())


def test_every_preset_does_what_its_stored_signature_says() -> None:
    found = signature.signatures()
    assert found == stored()["presets"], ADVICE
    assert signature.combined(list(found.values())) == stored()["signature"]
    assert set(found) == set(PRESETS)


def test_the_command_prints_one_line_a_preset_and_one_for_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(signature, "PRESETS", ("exact", "grpo"))
    code, out, _ = chess_lab("check", "--signature", "--json", tmp_path / "found.json")
    numbers = {name: stored()["presets"][name] for name in ("exact", "grpo")}
    whole = signature.combined(list(numbers.values()))
    lines = [line.split() for line in out.splitlines()]
    assert code == 0
    assert lines == [
        ["exact", str(numbers["exact"])],
        ["grpo", str(numbers["grpo"])],
        ["signature", str(whole)],
    ]
    found = json.loads((tmp_path / "found.json").read_text())
    assert found == {"signature": whole, "presets": numbers}


def run(**changes: Any) -> int:
    """The signature of grpo's run of positions."""
    return signature.run_signature(dataclasses.replace(signature.runs("grpo")[0], **changes))


@functools.cache
def unchanged() -> int:
    return run()


@pytest.fixture(autouse=True)
def nothing_is_changed_yet() -> None:
    """Has `unchanged` found before a test changes what it is made with."""
    unchanged()


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 12},
        {"algorithm": GRPO(group_size=7)},
        {"algorithm": GRPO(group_size=8, advantage_scale="none")},
        {"algorithm": GRPO(group_size=8, clip_range=0.1)},
        {"regularizer": RegularizerConfig(ent_coef=0.3, ent_coef_final=0.09)},
    ],
    ids=lambda change: str(next(iter(change.values()))),
)
def test_a_changed_setting_changes_the_signature(change: dict[str, Any]) -> None:
    assert run(**change) != unchanged()


@pytest.mark.parametrize(
    "change", [{"start_positions": "phase_mix"}, {"reward": "cp_delta"}, {"max_plies": 2}]
)
def test_another_game_changes_the_signature(change: dict[str, Any]) -> None:
    env = signature.runs("grpo")[0].env
    assert run(env=dataclasses.replace(env, **change)) != unchanged()


def wrapped(function: Callable[..., Any], after: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda *given, **named: after(function(*given, **named))


def test_advantages_of_the_other_sign_change_the_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GRPO, "advantages", wrapped(GRPO.advantages, torch.neg))
    assert run() != unchanged()


def test_a_loss_of_the_other_sign_changes_the_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    def turned(loss: Any) -> Any:
        return dataclasses.replace(loss, total=-loss.total)

    monkeypatch.setattr(update, "loss_of", wrapped(update.loss_of, turned))
    assert run() != unchanged()


def test_minibatches_in_another_order_change_the_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        update, "shuffled", wrapped(update.shuffled, lambda parts: reversed(list(parts)))
    )
    assert run() != unchanged()


def test_legal_moves_in_another_order_change_the_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    def turned(boards: Any) -> Any:
        for row, number in enumerate(boards.num_legal):
            boards.legal_ids[row, :number] = boards.legal_ids[row, :number][::-1].copy()
        return boards

    real = state.VecState.of
    monkeypatch.setattr(state.VecState, "of", lambda vec, info: turned(real(vec, info)))
    assert run() != unchanged()


ALL_RUNS = [config for name in PRESETS for config in signature.runs(name)]


@pytest.mark.slow
@pytest.mark.parametrize("config", ALL_RUNS, ids=lambda c: f"{c.preset}-{c.rollout.form}")
def test_weights_that_differ_by_1e_9_and_two_threads_leave_the_signature(config: Any) -> None:
    expected = signature.run_signature(config)
    for seed in range(3):
        config = dataclasses.replace(config, num_threads=1 + seed % 2)
        with contextlib.closing(signature.exact_session(config)) as session:
            generator = torch.Generator().manual_seed(seed)
            with torch.no_grad():
                for weights in session.policy.parameters():
                    noise = torch.randn(weights.shape, generator=generator, dtype=weights.dtype)
                    weights.mul_(1 + 1e-9 * noise)
            assert signature.session_signature(session) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    "processor",
    [
        {"ATEN_CPU_CAPABILITY": "default"},
        {"ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
        {"NPY_DISABLE_CPU_FEATURES": "AVX2,FMA3"},
    ],
    ids=lambda processor: "-".join(processor.values()),
)
def test_the_instructions_of_another_processor_leave_the_signature(
    processor: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "found.json"
    command = [sys.executable, "-W", "ignore", "-P", "-m", "algorithms.cli"]
    subprocess.run(
        [*command, "check", "--signature", "--json", path], env={**ENV, **processor}, check=True
    )
    assert json.loads(path.read_text()) == stored()
