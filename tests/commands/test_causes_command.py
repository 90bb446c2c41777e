"""`chess-lab causes`: what it prints, what it refuses, and that every run of it goes through."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from algorithms.collapse import CAUSES, COMPOSITES, experiment
from algorithms.collapse.cause import ARCHITECTURES, baseline
from algorithms.commands import causes as command
from algorithms.config.files import differences
from algorithms.reports.run_files import read_metrics
from tests.commands.lab import Answer, chess_lab

ALL = CAUSES | COMPOSITES


@pytest.fixture
def no_matrix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = dict.fromkeys(command.MATRICES, tmp_path / "no-such.json")
    monkeypatch.setattr(command, "MATRICES", nowhere)


def smoke(name: str, folder: Path, *more: Any) -> Answer:
    return chess_lab("causes", "run", name, "--smoke", "--run-dir", folder, *more)


def test_list_names_every_cause_and_the_classes_several_share_within_80_columns() -> None:
    code, out, _ = chess_lab("causes", "list")
    assert code == 0
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    for name, cause in ALL.items():
        (line,) = (line for line in lines if line.split()[:1] == [name])
        assert cause.title in line
    assert "sampled_entropy_bonus: sampled_entropy_bonus, kl_trap" in lines
    assert not any(line.startswith("loss_budget:") for line in lines)


@pytest.mark.parametrize("name", list(ALL))
def test_show_prints_all_of_a_cause_without_the_matrix(name: str, no_matrix: None) -> None:
    cause, (code, out, _) = ALL[name], chess_lab("causes", "show", name)
    assert code == 0
    flat = " ".join(out.split())
    assert out.startswith(f"{name}: {cause.title}\n") and cause.remedy in flat
    assert all(str(predicate) in out for predicate in cause.predicates)
    assert all(figure.theirs in out for figure in cause.published)
    assert out.count(": not run yet") == len(cause.published)
    assert ("fault: " + cause.fault_says in out) == (cause.fault is not None)
    on = cause.config(cured=False, seed=0)
    without = baseline() if cause.composite else cause.config(cured=True, seed=0)
    for setting, (was, now) in differences(without, on).items():
        assert (f"  {setting}: {was} -> {now}\n" in out) == (setting != "cause")
    assert f"chess-lab causes run {name}" in out
    assert (f"chess-lab causes run {name} --cured" in out) != bool(cause.composite)


def test_show_puts_the_measured_medians_beside_predicates_and_published_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on, cured = [0.5, 0.1, 0.625, 0.4, 0.5], [0.0, None, None, None, None]
    readings = {"first step0/clip_fraction": {"on": on, "cured": cured},
                "first policy/entropy": {"on": [None] * 5, "cured": [2.0] * 5}}  # fmt: skip
    matrices = {name: tmp_path / f"{name}.json" for name in command.MATRICES}
    elsewhere = {"first step0/clip_fraction": {"on": [0.75] * 3, "cured": [0.0] * 3}}
    for network, found in (("resnet", readings), ("move_net", elsewhere)):
        causes = {"temperature_mismatch": {"readings": found}}
        matrices[network].write_text(json.dumps({"causes": causes}))
    monkeypatch.setattr(command, "MATRICES", matrices)
    code, out, _ = chess_lab("causes", "show", "temperature_mismatch")
    assert code == 0 and out.count("first step0/clip_fraction above 0.3") == 1
    assert out.count(": 0.5, cured 0 (medians of 5 seeds)") == 2
    assert out.count("on move_net: 0.75, cured 0 (medians of 3 seeds)") == 2
    assert "ours, first policy/entropy: not measured, cured 2 (medians of 5 seeds)" in out
    code, out, _ = chess_lab("causes", "show", "kl_trap")  # which that matrix does not have
    assert code == 0 and ": not run yet" in out


def test_a_network_that_the_causes_are_not_run_on_is_refused_with_those_that_they_are(
    tmp_path: Path, no_training: None
) -> None:
    code, out, err = smoke("kl_trap", tmp_path / "run", "--network", "movenet")
    assert (code, out) == (2, "")
    assert "--network is 'movenet': expected one of 'resnet', 'move_net'" in err
    assert "did you mean 'move_net'?" in err


def test_show_lists_the_sizes_with_what_is_different_there() -> None:
    _, out, _ = chess_lab("causes", "show", "support_limit")
    flat = " ".join(out.split())
    assert "half: init_logit_scale 4.0 in both, rollout.temperature 2.0 in the twin" in flat
    assert (
        "half: the learner's softmax runs at temperature 1.15"
        in chess_lab("causes", "show", "temperature_mismatch").out
    )
    assert (
        "half: policy.dropout 0.05 in both\n"
        in chess_lab("causes", "show", "dropout_in_rollout").out
    )
    assert "--size" not in chess_lab("causes", "show", "low_precision").out


@pytest.mark.slow
def test_a_size_runs_and_its_record_and_the_next_commands_name_it(tmp_path: Path) -> None:
    target = tmp_path / "outcome.json"
    code, out, _ = smoke("loss_budget", tmp_path / "run", "--size", "half", "--json", target)
    assert code == 0 and "loss_budget (cause) on resnet, size half, seed 0" in out
    assert "of the full size: none is judged" in out
    assert "--cured --size half" in " ".join(out.split("next:")[1].split())
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (config["regularizer"]["ent_coef"], config["cause"]) == (1.5, "loss_budget-half")
    assert json.loads(target.read_text())["size"] == "half"


@pytest.mark.parametrize(
    ("name", "size", "says"),
    [
        (
            "loss_budget",
            "hlaf",
            "size is 'hlaf': expected one of 'full', 'half', 'third', 'harmless'",
        ),
        ("low_precision", "half", "size is 'half': low_precision has no sizes"),
        ("zjij66xd", "third", "size is 'third': zjij66xd has no sizes"),
    ],
)
def test_a_size_that_a_cause_does_not_have_is_refused_and_nothing_is_run(
    name: str, size: str, says: str, tmp_path: Path, no_training: None
) -> None:
    code, out, err = smoke(name, tmp_path / "run", "--size", size)
    assert (code, out) == (2, "") and says in " ".join(err.split())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("arguments", [[], ["lst"], ["run"], ["run", "kl_trap", "--seed", "x"]])
def test_a_command_line_that_makes_no_sense_ends_with_2(arguments: list[str]) -> None:
    code, _, err = chess_lab("causes", *arguments)
    assert code == 2 and err.startswith("chess-lab causes") and "--help` lists the options." in err


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def train(*_: Any, **__: Any) -> None:
        raise AssertionError("something was run")

    monkeypatch.setattr(experiment, "train", train)


@pytest.mark.parametrize("name", list(COMPOSITES))
def test_a_composite_has_no_cured_twin_and_nothing_is_run(
    name: str, tmp_path: Path, no_training: None
) -> None:
    code, _, err = smoke(name, tmp_path / "run", "--cured")
    assert code == 1 and f"{name} is a composite" in err
    assert not (tmp_path / "run").exists()


def test_a_result_that_cannot_be_written_and_a_seed_below_0_are_refused_first(
    tmp_path: Path, no_training: None
) -> None:
    code, _, err = smoke("kl_trap", tmp_path / "run", "--json", str(tmp_path))
    assert code == 1 and "give the path of a file" in err
    code, _, err = smoke("kl_trap", tmp_path / "run", "--seed", "-1")
    assert code == 1 and "seed is -1" in err


def test_the_preflight_stops_a_temperature_mismatch_and_says_how_to_see_it(tmp_path: Path) -> None:
    code, out, error = smoke("temperature_mismatch", tmp_path / "run", "--preflight")
    assert code == 1 and "policy      resnet" in out  # unless another network is asked for
    assert "temperature_mismatch: " in error and "1.3000 times the sampler's" in error
    assert "rollout.temperature" in error and "leave --preflight out" in error
    code, out, _ = chess_lab("diagnose", tmp_path / "run", "--json")
    assert code == 1
    assert [cause["name"] for cause in json.loads(out)["causes"]] == ["temperature_mismatch"]


def test_without_the_preflight_it_runs_on_move_net_and_the_doctor_knows_it_from_the_record_alone(
    tmp_path: Path,
) -> None:
    run_dir, target = tmp_path / "run", tmp_path / "outcome.json"
    arguments = ["--seed", "2", "--network", "move_net", "--json", str(target)]
    code, out, _ = smoke("temperature_mismatch", run_dir, *arguments)
    assert code == 0 and "WARNING" not in out
    assert "temperature_mismatch (cause) on move_net, seed 2" in out
    assert "--cured" in out.split("next:")[1] and "--network move_net" in out.split("next:")[1]
    assert f"run folder: {run_dir}" in out
    # A run of a few seconds says neither that the cause holds nor that it does not.
    assert out.count(" not judged\n") == len(ALL["temperature_mismatch"].predicates)
    assert "too short to judge a cause: run it without --smoke" in out and " hold" not in out
    outcome = json.loads(target.read_text())
    told = (outcome["cause"], outcome["cured"], outcome["seed"])
    assert told == ("temperature_mismatch", False, 2) and outcome["network"] == "move_net"
    assert set(outcome["readings"]) == {
        "first step0/clip_fraction", "first step0/kl_old_mean", "last eval/regret_cp",
        "first policy/entropy",
    }  # fmt: skip
    assert outcome["readings"]["first step0/clip_fraction"] > 0.3
    assert outcome["diagnosis"]["causes"][0]["name"] == "temperature_mismatch"
    for row in read_metrics(run_dir)[1:]:
        slope, left = (
            row[f"ratio/log_odds_{each}_first_minibatch"] for each in ("slope", "residual")
        )
        assert slope == pytest.approx(1.3, abs=1e-3) and left is not None and left < 1e-4
    config = json.loads((run_dir / "config.json").read_text())
    assert config["cause"] == "temperature_mismatch" and config["preflight"] is False
    assert (config["policy"]["network"], config["init_from"]) == ("move_net", "warm_move_net")
    for name in ("config.json", "environment.json"):
        (run_dir / name).unlink()
    moved = run_dir.rename(tmp_path / "x")
    code, out, _ = chess_lab("diagnose", moved, "--json")
    assert code == 1 and json.loads(out) == outcome["diagnosis"]


# Each cause on one of the two networks: what they share is run on both all the same.
FIRST, SECOND = ARCHITECTURES
ON_ONE = [*zip(CAUSES, itertools.cycle((FIRST, SECOND)))]


@pytest.mark.slow
# Of the replays the one with the most parts of its own; each takes half a minute at its size.
@pytest.mark.parametrize(("name", "network"), [*ON_ONE, ("zjij66xd", FIRST)])
def test_every_cause_and_a_replay_run(name: str, network: str, tmp_path: Path) -> None:
    target, where = tmp_path / "outcome.json", ("--network", network)
    assert smoke(name, tmp_path / "run", "--json", target, *where).code == 0
    outcome = json.loads(target.read_text())
    # Every reading has a number already in this short run: its metric is in the record.
    assert None not in outcome["readings"].values()


@pytest.mark.slow
# One of each kind: by a fault, by a setting of the run alone, by a factor, and with a twin of its own.
@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("temperature_mismatch", "half"),
        ("stale_behaviour", "harmless"),
        ("kl_trap", "harmless"),
        ("support_limit", "half"),
    ],
)
def test_a_size_of_each_kind_runs(name: str, size: str, tmp_path: Path) -> None:
    assert smoke(name, tmp_path / "run", "--size", size).code == 0


@pytest.mark.slow
# Without a fault in the sampler, with a factor back at its value, and with a twin of its own.
@pytest.mark.parametrize(
    ("name", "network"), [("low_precision", FIRST), ("kl_trap", SECOND), ("support_limit", FIRST)]
)
def test_a_twin_of_each_kind_runs_with_the_preflight(
    name: str, network: str, tmp_path: Path
) -> None:
    assert smoke(name, tmp_path / "run", "--cured", "--network", network).code == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, c in ALL.items() if c.fault is not None])
def test_the_preflight_stops_exactly_the_causes_that_say_so(name: str, tmp_path: Path) -> None:
    blocked = ALL[name].blocked_by_preflight
    assert smoke(name, tmp_path / "run", "--preflight").code == (1 if blocked else 0)
