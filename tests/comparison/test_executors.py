"""Whoever runs the cells, a grid divides the cores, says what happens, and runs lost cells again."""

from __future__ import annotations

import dataclasses
import re
import signal
import sys
from pathlib import Path

import pytest

from algorithms.commands import compare
from algorithms.comparison import executors
from algorithms.comparison.executors import (
    Ended,
    Event,
    LocalProcesses,
    Lost,
    Started,
    open_executor,
)
from algorithms.comparison.grid import run_grid
from algorithms.comparison.grid_runs import GridRun
from algorithms.comparison.ray_executor import ClusterError, Wanted, had, look
from tests.comparison.test_grid import FAKE, grid_runs, quiet, starts


@pytest.mark.parametrize(
    ("cores", "jobs", "engines"), [(16, 1, 16), (16, 4, 4), (16, 5, 3), (2, 2, 1), (2, 8, 1)]
)
def test_the_engines_of_cells_side_by_side_are_at_most_the_cores(
    cores: int, jobs: int, engines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "usable_cores", lambda: cores)
    assert f": {engines} engine" in LocalProcesses(jobs).about(1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("train grpo --seed 1", ["--env.num-engines", "3", "--env.num-threads", "3"]),
        ("causes run kl_trap", ["--num-engines", "3"]),
        ("train grpo --env.num-engines 2 --env.num-threads 2", []),
        ("ends", []),
    ],
)
def test_a_run_gets_its_engines_unless_it_names_them(arguments: str, words: list[str]) -> None:
    assert GridRun("a", tuple(arguments.split()), Path("a")).with_engines(3) == words


def test_another_number_of_engines_and_another_file_of_scores_make_the_same_run() -> None:
    run = GridRun("a", ("train", "grpo", "--seed", "1"), Path("a"))
    assert run.asks_for(
        ["train", "grpo", "--seed", "1", "--env.num-engines", "1", "--env.cache", "x.sqlite"]
    )
    assert not run.asks_for(["train", "grpo", "--seed", "2", "--env.num-engines", "1"])


def test_each_start_and_end_is_said_and_the_reason_of_a_failure_with_it(tmp_path: Path) -> None:
    said: list[str] = []
    asked = grid_runs(tmp_path, "ends:a", "fails:b")
    run_grid(asked, tmp_path, LocalProcesses(1, command=FAKE), say=said.append)
    assert said[0] == "2 cells, 0 finished before, 2 to run"
    assert said[1].startswith("1 at a time on ") and " engine" in said[1]
    assert [re.sub(r"after \d+ s", "after S s", line) for line in said[2:]] == [
        "a: started",
        "a: finished after S s; 1 finished, 0 failed, 0 running of 2",
        "b: started",
        "b: failed after S s; 1 finished, 1 failed, 0 running of 2",
        "    the reason",
        "    is here",
    ]


@dataclasses.dataclass
class Moving:
    """A real process, which its executor begins again when its node is lost: as Ray does."""

    local: LocalProcesses
    given: GridRun | None = None
    at_a_time: int | None = 2

    def about(self, num_cells: int) -> str:
        return "2 at a time on 2 nodes: 1 CPU and 1 engine each"

    def begin(self, grid_run: GridRun) -> None:
        self.local.begin(grid_run)
        if grid_run.name == "lost":
            self.given = grid_run

    def events(self) -> list[Event]:
        found = []
        for event in self.local.events():
            if isinstance(event, Ended) and event.name == "lost" and self.given is not None:
                self.local.begin(self.given)
                self.given = None
            else:
                found.append(event)
        return found

    def stop(self, number: signal.Signals) -> None:
        self.local.stop(number)


def test_a_cell_that_is_begun_again_goes_on_from_its_checkpoint_and_is_told_of(
    tmp_path: Path,
) -> None:
    said: list[str] = []
    (tmp_path / "go").write_text("")
    asked = grid_runs(tmp_path, "waits-with-checkpoint:lost", "ends:b")
    grid = run_grid(asked, tmp_path, Moving(LocalProcesses(2, command=FAKE)), say=said.append)
    assert grid.exit_code == 0
    assert starts(tmp_path, "lost") == ["begun", "resumed"] and starts(tmp_path, "b") == ["begun"]
    assert said.count("lost: started: its node was lost, it runs again") == 1


@dataclasses.dataclass
class Losing(Moving):
    """An executor that has given a cell up."""

    def begin(self, grid_run: GridRun) -> None:
        self.lost = grid_run.name

    def events(self) -> list[Event]:
        return [Started(self.lost, "far"), Lost(self.lost, "node far is gone")]


def test_a_cell_that_its_executor_has_given_up_failed_and_the_reason_is_told(
    tmp_path: Path,
) -> None:
    losing = Losing(LocalProcesses(1, command=FAKE))
    grid = run_grid(grid_runs(tmp_path, "ends:lost"), tmp_path, losing, say=quiet)
    assert [each.state for each in grid.outcomes] == ["failed"]
    assert "node far is gone" in "\n".join(grid.lines())


def test_a_node_that_differs_or_does_not_see_the_folder_is_refused_by_name(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    marker.write_text("abc")
    wanted = Wanted(marker, "abc", None, had(None))
    host, why = look(wanted)
    assert host and why is None
    other = dataclasses.replace(wanted, has=wanted.has | {"Python": "3.1"})
    assert f"node {host} has Python 3." in str(look(other)[1])
    assert f"node {host} does not see {tmp_path}" in str(
        look(dataclasses.replace(wanted, token="x"))[1]
    )
    missing = had("stockfish:path=/nowhere/engine")["the evaluator"]
    assert str(missing).startswith("none (No Stockfish at")


@pytest.mark.parametrize(
    ("name", "says"),
    [("stockfish:depth=4", "No Stockfish at STOCKFISH_PATH"), ("ray:builtin", "needs Ray")],
)
def test_a_comparison_whose_evaluator_cannot_be_made_says_so_in_a_sentence(
    name: str,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setenv("STOCKFISH_PATH", "/nowhere/engine")
    out = tmp_path / "out"
    assert compare.run(["grpo", "--smoke", "--evaluator", name, "--out", str(out)]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert said.startswith("chess-lab compare:") and says in said
    assert not (out / "runs").exists()


def test_cells_on_a_cluster_do_not_wait_for_engines_on_the_same_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [
        "grpo",
        "--smoke",
        "--ray",
        "--evaluator",
        "ray:builtin",
        "--out",
        str(tmp_path / "out"),
    ]
    assert compare.run(asked) == 1
    assert "leave out ray: or --ray" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()


def test_without_ray_the_error_names_the_extra_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(ClusterError, match=r'pip install -e "\.\[ray\]"'),
        open_executor(tmp_path, jobs=None, ray=True, cell_cpus=None),
    ):
        pass


@pytest.mark.parametrize(
    ("jobs", "cell_cpus", "message"), [(0, None, "jobs is 0"), (2, 4, "--cell-cpus is for --ray")]
)
def test_numbers_that_make_no_sense_are_refused(
    tmp_path: Path, jobs: int, cell_cpus: int | None, message: str
) -> None:
    with (
        pytest.raises(ValueError, match=message),
        open_executor(tmp_path, jobs=jobs, ray=False, cell_cpus=cell_cpus),
    ):
        pass
