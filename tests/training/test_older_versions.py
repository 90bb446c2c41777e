"""A record of another version: what it lacks has its default and is said, what it has besides is refused."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from algorithms.config import files as config_file
from algorithms.config.run import RolloutConfig, TrainConfig
from algorithms.grpo import GRPO
from algorithms.regularization import RegularizerConfig
from algorithms.reports.run_files import read_metrics
from algorithms.run_folder import checkpoint
from algorithms.training.session import Session
from algorithms.training.trainer import train
from tests.commands.lab import chess_lab
from tests.training.runs import Watcher, assert_same, final_state, rows_without_time, tiny

SETTINGS: dict[str, Any] = {
    "regularizer": RegularizerConfig(
        ent_coef=0.1, kl_ref_coef=0.1, ent_controller="target", ent_target=0.9
    ),
    "rollout": RolloutConfig(num_envs=8, num_plies=2, sync_interval_updates=2),
}
NEEDED = {
    *("optimizer", "optimizer.state", "optimizer.param_groups"),
    *("seen", "evaluator", "shuffling", "shards", "reference", "behaviour"),
    *("progress.update", "progress.plies", "progress.scored_moves", "progress.start_regret_cp"),
}
"""Without these the rest of the run would be another one, or its record could not go on."""


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two updates."""
    folder = tmp_path_factory.mktemp("older") / "run"
    train(tiny(folder, updates=2, **SETTINGS), display=Watcher())
    return folder


@pytest.fixture
def copied(older: Path, tmp_path: Path) -> Path:
    """A copy of the run, to be changed and continued."""
    shutil.copytree(older, tmp_path / "run", symlinks=True)
    return tmp_path / "run"


def entries(state: dict[str, Any], inside: str = "") -> Iterator[str]:
    """Dotted names of all entries of a state, those of networks and of the optimizer's parameters left out."""
    for name, value in state.items():
        yield inside + name
        if isinstance(value, dict) and name not in ("reference", "behaviour", "state"):
            yield from entries(value, f"{inside}{name}.")


def place(state: dict[str, Any], dotted: str) -> tuple[dict[str, Any], str]:
    *parts, last = dotted.split(".")
    for part in parts:
        state = state[part]
    return state, last


def without(state: dict[str, Any], *names: str) -> dict[str, Any]:
    """A copy of a state that lacks some entries."""
    state = copy.deepcopy(state)
    for dotted in names:
        parent, last = place(state, dotted)
        del parent[last]
    return state


def rewrite(run: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Gives the newest checkpoint another state."""
    newest = checkpoint.load_newest(run / "checkpoints")
    checkpoint.save(
        run / "checkpoints", 2, weights=newest.weights, state=change(newest.state), best=True
    )


def gone_on(run: Path, updates: int = 3) -> list[str]:
    """What the run says while it is continued."""
    display = Watcher()
    train(tiny(run, updates=updates, **SETTINGS), resume=True, display=display)
    return display.messages


def said(messages: list[str]) -> list[str]:
    return [each for each in messages if "older version" in each]


@contextmanager
def session_of(run: Path) -> Iterator[Session]:
    session = Session(tiny(run, **SETTINGS).settled(), fresh=False)
    yield session
    session.close()


def test_a_missing_entry_of_a_state_is_the_fresh_runs_and_said_or_it_is_refused_by_name(
    older: Path,
) -> None:
    sent = checkpoint.load_newest(older / "checkpoints")
    names = [*entries(sent.state)]
    assert {*names} > NEEDED and len(names) - len(NEEDED) > 15
    for dotted in names:
        state, messages = without(sent.state, dotted), list[str]()
        with session_of(older) as session:
            own, last = place(copy.deepcopy(session._beside_boards()), dotted)
            if dotted in NEEDED:
                with pytest.raises(ValueError, match=rf"has no \['{last}'\]"):
                    session.load(sent.path, sent.weights, state, messages.append)
                assert not messages
                continue
            session.load(sent.path, sent.weights, state, messages.append)
            expected = copy.deepcopy(sent.state)
            place(expected, dotted)[0][last] = own[last]
            assert_same(session.state(), expected, dotted)
            (line,) = messages
            assert line.startswith(f"{sent.path} has no {dotted}: ") and "default" in line


def test_a_run_goes_on_exactly_where_the_missing_entries_had_their_defaults(
    older: Path, copied: Path
) -> None:
    at_default = ("guard", "controls", "regularizer.low_updates", "temperature")
    rewrite(copied, lambda state: without(state, *at_default))
    straight = copied.with_name("straight")
    shutil.copytree(older, straight, symlinks=True)
    (line,) = said(gone_on(copied))
    assert "has no controls, regularizer.low_updates, guard, temperature: " in line
    assert not said(gone_on(straight))
    assert_same(final_state(copied), final_state(straight))
    assert rows_without_time(copied) == rows_without_time(straight)
    assert not said(gone_on(copied, 4))  # its new checkpoints have them


def test_a_run_goes_on_without_all_entries_that_have_a_default(copied: Path) -> None:
    rest = [
        name
        for name in entries(checkpoint.load_newest(copied / "checkpoints").state)
        if name not in NEEDED and name != "progress" and name.split(".")[0] != "optimizer"
    ]
    whole = [name for name in rest if not {name.rpartition(".")[0]} & {*rest}]
    rewrite(copied, lambda state: without(state, *whole))
    (line,) = said(gone_on(copied))
    assert all(name in line for name in whole)
    assert [row["step"] for row in read_metrics(copied)] == [0, 1, 2, 3]


def test_a_new_entry_of_the_state_costs_one_line_and_runs_of_before_go_on(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Session._beside_boards
    monkeypatch.setattr(Session, "_beside_boards", lambda self: {**before(self), "note": 3})
    (line,) = said(gone_on(copied))
    assert "has no note: " in line
    assert checkpoint.load_newest(copied / "checkpoints").state["note"] == 3
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"state has \['note'\] besides"):
        gone_on(copied, 4)


def settings(values: dict[str, Any], inside: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from settings(value, f"{inside}{name}.")
        else:
            yield inside + name, value


def rewrite_settings(run: Path, values: dict[str, Any]) -> None:
    """Writes a config.json, without the checksum, which is no setting."""
    (run / "config.json").write_text(json.dumps(values))


def test_a_setting_that_config_json_lacks_has_its_default_and_is_said(copied: Path) -> None:
    path = copied / "config.json"
    values, config = config_file.read_settings(path), config_file.load(path)
    defaults = dict(settings(config_file.to_dict(TrainConfig(algorithm=GRPO()))))
    at_default = [
        name
        for name, value in settings(values)
        if value == defaults[name] and name != "algorithm.name"
    ]
    assert len(at_default) > 50
    for name in at_default:
        rewrite_settings(copied, without(values, name))
        assert config_file.load(path) == config, name
    rewrite_settings(copied, without(values, *at_default, "total_moves"))
    (line,) = said(gone_on(copied))
    assert line.startswith(f"{path} has no ")
    assert {*at_default, "total_moves"} == {*line.split(" has no ")[1].split(":")[0].split(", ")}
    assert not said(gone_on(copied, 4))  # the run has written them


def test_a_setting_that_nobody_knows_is_refused_by_name(copied: Path) -> None:
    path, rows = copied / "config.json", read_metrics(copied)
    values = config_file.read_settings(path)
    for inside, where in (("", "config"), ("env.", "env"), ("algorithm.", "grpo")):
        changed = copy.deepcopy(values)
        place(changed, f"{inside}colour")[0]["colour"] = "red"
        rewrite_settings(copied, changed)
        with pytest.raises(ValueError, match=rf"{where}: unknown field colour; known fields: "):
            gone_on(copied)
    assert chess_lab("train", "--resume", copied).code == 1
    assert read_metrics(copied) == rows


def test_a_column_that_nobody_knows_is_ignored_by_report_diagnose_and_resume(
    older: Path, copied: Path
) -> None:
    file = copied / "metrics.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for row in rows:
        row.pop("crc32", None)
    file.write_text("".join(json.dumps({**row, "later/colour": 0.5}) + "\n" for row in rows))
    for command in ("report", "diagnose"):
        theirs, ours = chess_lab(command, older), chess_lab(command, copied)
        assert theirs.code == ours.code and "Traceback" not in ours.err
    gone_on(copied)
    read = read_metrics(copied)
    assert [row["step"] for row in read] == [0, 1, 2, 3]
    assert ["later/colour" in row for row in read] == [True, True, True, False]
