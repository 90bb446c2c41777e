"""Fixtures of the board's tests: one application for all of them, since it keeps no state."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from starlette.testclient import TestClient

from algorithms.board import training as training_module
from algorithms.board.policies import BoardPolicies
from algorithms.run_folder import checkpoint
from algorithms.training.trainer import train
from chess_env.evaluators import Evaluator, make_evaluator
from tests.board.browser import Tab, tab
from tests.board.served import answer, serving
from tests.board.test_command import ROOT, board_process
from tests.commands.lab import ENV
from tests.evaluation.policies import saved_run, small_policy
from tests.networks.facts_net import FACTS
from tests.playing.test_pull import run_folder
from tests.training.runs import Watcher, tiny

MOVES = ("e2e4", "e7e5")
EVIL = "<img src=x onerror=document.title=`got_in`>"
"""The name of a run folder, and what hostile users type."""


class Board(NamedTuple):
    """Attributes: the policies, a client, and the names of a run with a known optimum, and of broken folders."""

    policies: BoardPolicies
    client: TestClient
    run: str
    other: str
    empty: str
    damaged: str
    own_network: str
    newer: str


@pytest.fixture(scope="session")
def builtin() -> Iterator[Evaluator]:
    made = make_evaluator("builtin", 1, "memory")
    yield made
    made.close()


@pytest.fixture(scope="session")
def board(tmp_path_factory: pytest.TempPathFactory, builtin: Evaluator) -> Iterator[Board]:
    folder = tmp_path_factory.mktemp("runs")
    names = {
        "run": run_folder(folder / "run", reference=small_policy(7), ent_coef=0.5, kl_ref_coef=0.8),
        "other": str(saved_run(folder / "other", 1, critic=False)),
        "empty": str(folder / "empty"),
        "damaged": str(saved_run(folder / "damaged", 2)),
        "own_network": str(folder / "own"),
        "newer": str(folder / "newer"),
    }
    with pytest.MonkeyPatch.context() as later:
        later.setattr(checkpoint, "FORMAT", checkpoint.FORMAT + 1)
        saved_run(folder / "newer", 3)
    Path(names["empty"], "checkpoints").mkdir(parents=True)
    weights = folder / "damaged" / "checkpoints" / "update-00000001" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    own = saved_run(folder / "own", 4)
    config = own / "config.json"
    settings = json.loads(config.read_text())
    del settings["sha256"]  # it is none that was written: without a checksum it is used as it is
    settings["policy"]["network"] = FACTS.network
    config.write_text(json.dumps(settings))
    with serving([*names.values()], builtin) as (policies, client):
        yield Board(policies, client, **names)


class Slider(NamedTuple):
    """Attributes: a client, and two runs that it offers: one with snapshots, one with recorded probes besides."""

    client: TestClient
    run: str
    other: str


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run with a policy of each update, and one with checkpoints alone and a record of its probes."""
    folder = tmp_path_factory.mktemp("training")
    train(tiny(folder / "run", checkpoint_keep="all"), display=Watcher())
    recorded = tiny(folder / "other", 3, seed=1, diagnostics_interval_updates=1)
    train(recorded, display=Watcher())
    return folder / "run", folder / "other"


@pytest.fixture(scope="session")
def over(trained: tuple[Path, Path], builtin: Evaluator) -> Iterator[Slider]:
    run, other = map(str, trained)
    with serving([run, other], builtin) as (_, client):
        for name in (run, other):
            answer(client, "/api/training/look", policy=name)
        yield Slider(client, run, other)


@pytest.fixture
def looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_module, "LOOK_INTERVAL_S", 0.0)


class Site(NamedTuple):
    """Attributes: address of a running server, and the names of three of its policies."""

    url: str
    run: str
    evil: str
    broken: str


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("runs")
    run = run_folder(folder / "run", reference=small_policy(7), ent_coef=0.5, kl_ref_coef=0.8)
    evil = str(saved_run(folder / EVIL, 1, critic=True))
    broken = str(folder / f"no {EVIL}")
    Path(broken, "checkpoints").mkdir(parents=True)
    names = (run, evil, broken)
    with board_process("--port", "0", "--evaluator", "builtin", *names) as (_, url):
        yield Site(url, *names)


class Twins(NamedTuple):
    """Attributes: address of a server that offers a faulty run and its cured twin, and their names."""

    url: str
    faulty: str
    cured: str

    def opened(self, **more: str) -> str:
        """The address of both runs beside each other."""
        parts = {
            "policy": self.faulty,
            "beside": self.cured,
            "you": "both",
            "moves": ",".join(MOVES),
        } | more
        return "&".join(f"{name}={value}" for name, value in parts.items())


def lab(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "algorithms.cli", *arguments]


@pytest.fixture(scope="session")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    folder = tmp_path_factory.mktemp("twins")
    names = [str(folder / name) for name in (f"faulty {EVIL}", "cured")]
    for name, cured in zip(names, ([], ["--cured"]), strict=True):
        cause = lab("causes", "run", "sampled_entropy_bonus", "--smoke", "--run-dir", name, *cured)
        subprocess.run(cause, cwd=ROOT, env=ENV, check=True, capture_output=True, timeout=300)
    with board_process("--port", "0", "--evaluator", "builtin", *names) as (_, url):
        yield Twins(url, *names)


@pytest.fixture
def page(browser: Any, site: Site) -> Iterator[Tab]:
    """A tab that must end without an error and without a request elsewhere."""
    with tab(browser, site.url) as opened:
        yield opened
        opened.page.wait_for_timeout(100)
        assert opened.errors == [] and opened.elsewhere == []
        assert opened.page.title() == "chess-lab board"
