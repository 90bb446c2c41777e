"""A run of MaskablePPO leaves the record of our own runs, and everything that reads those reads it."""

from __future__ import annotations

import dataclasses
import json
import signal
from pathlib import Path

import pytest

from algorithms.cli import main
from algorithms.comparison.grid_runs import GridRun
from algorithms.comparison.plan import Plan
from algorithms.comparison.readings import read_run
from algorithms.comparison.variants import base_config, make_variants, train_arguments
from algorithms.config import files as config_file
from algorithms.config.names import NAMES, named_run
from algorithms.config.run import TrainConfig
from algorithms.evaluation.snapshots import Policies, snapshots
from algorithms.integrations.sb3.session import train_sb3
from algorithms.reports.probe_files import probed_updates
from algorithms.reports.run_files import read_metrics
from algorithms.run_folder import checkpoint
from algorithms.run_folder.checkpoint.manifest import directories
from algorithms.training.trainer import train
from tests.integrations.sb3_runs import one_ply, one_ply_facts, versus, versus_facts
from tests.test_metrics_page import defined_names, family
from tests.training.runs import Watcher

MAKES = (one_ply, versus, one_ply_facts, versus_facts)


def own_twin(config: TrainConfig, run_dir: Path) -> TrainConfig:
    return dataclasses.replace(config, loop="native", run_dir=run_dir)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """Mode -> (run of MaskablePPO, of ours), with equal settings."""
    found = {}
    for make in MAKES:
        folder = tmp_path_factory.mktemp(make.__name__)
        config = make(folder / "sb3", diagnostics_interval_updates=2, checkpoint_keep=3)
        result = train_sb3(config, display=Watcher())
        train(own_twin(config, folder / "own"), display=Watcher())
        assert (result.updates, result.scored_moves) == (4, 128)
        (folder / "sb3" / "result.json").write_text(json.dumps(result.to_dict()))
        found[make.__name__] = folder / "sb3", folder / "own"
    return found


MODES = pytest.mark.parametrize("mode", [make.__name__ for make in MAKES])


@MODES
def test_it_writes_no_name_that_our_runs_do_not_write(
    runs: dict[str, tuple[Path, Path]], mode: str
) -> None:
    rows = [read_metrics(folder) for folder in runs[mode]]
    theirs, ours = ({name for row in each for name in row} for each in rows)
    assert {family(name) for name in theirs} - set(defined_names()) == set()
    # With so few positions one of these ranges may stay empty in one of the two.
    ranges = ("policy/entropy_", "clip/", "rollout/blind_fraction", "policy/action_agreement")
    assert {name for name in theirs - ours if not name.startswith(ranges)} == set()
    assert {
        "eval/regret_cp", "eval/middlegame/entropy", "policy/entropy", "policy/entropy_normalized",
        "rollout/reward_mean", "rollout/advantage_std", "train/policy_loss", "train/value_loss",
        "train/explained_variance", "train/learning_rate", "reg/entropy", "reg/ent_coef",
        "policy/ratio_out_of_range", "grad_share/policy_norm", "probe/entropy", "entropy/measured",
    } <= theirs  # fmt: skip
    # SB3's are of the last pass or the last minibatch.
    assert {"policy/approx_kl", "train/loss", "train/grad_norm"} & theirs == set()


@MODES
def test_rows_budget_schedules_and_start_are_those_of_our_run(
    runs: dict[str, tuple[Path, Path]], mode: str
) -> None:
    theirs, ours = (read_metrics(folder) for folder in runs[mode])
    assert [row["step"] for row in theirs] == [0, 1, 2, 3, 4]
    for name in ("step", "plies", "scored_moves"):
        assert [row[name] for row in theirs] == [row[name] for row in ours]
    for name in ("train/learning_rate", "reg/ent_coef", "train/steps", "train/passes"):
        assert [row.get(name) for row in theirs] == pytest.approx([row.get(name) for row in ours])
    for name, value in ours[0].items():
        if name.startswith("eval/"):
            assert theirs[0][name] == value, name
    assert [("eval/regret_cp" in row) for row in theirs] == [True, False, True, False, True]
    assert theirs[4]["eval/regret_cp"] != theirs[0]["eval/regret_cp"]


@MODES
def test_settings_weights_and_probes_are_kept(
    runs: dict[str, tuple[Path, Path]], mode: str
) -> None:
    folder, own = runs[mode]
    kept = config_file.load(folder / "config.json")
    assert config_file.differences(kept, config_file.load(own / "config.json")).keys() == {
        "loop", "run_dir",
    }  # fmt: skip
    versions = json.loads((folder / "environment.json").read_text())["packages"]
    assert versions["sb3_contrib"] and versions["torch"]
    newest = checkpoint.load_newest(folder / "checkpoints")
    assert newest.weights.keys() == checkpoint.load_newest(own / "checkpoints").weights.keys()
    assert list(probed_updates(folder)) == [0, 2, 4]
    assert [path.name[-1] for path in directories(folder / "snapshots")] == ["0", "2", "4"]
    last = snapshots(folder).every[-1]
    assert Policies()(last).state_dict().keys() == newest.weights.keys()


@MODES
def test_report_diagnose_and_the_comparisons_reading_read_it(
    runs: dict[str, tuple[Path, Path]],
    mode: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, _ = runs[mode]
    page = tmp_path / "page.html"
    assert main(["report", str(folder), "--out", str(page)]) == 0
    assert "eval/regret_cp" in page.read_text() or "regret" in page.read_text()
    assert main(["diagnose", str(folder)]) in (0, 1, 3)
    assert "Traceback" not in capsys.readouterr().err
    cell = GridRun("x/seed-0", ("train", "ppo"), folder)
    reading = read_run(cell, "x", 0, config_file.load(folder / "config.json"))
    assert len(reading.regret_cp) == 3 and reading.grad_share is not None


def test_a_signal_ends_the_run_after_its_update_with_a_last_evaluation(tmp_path: Path) -> None:
    def interrupt(row: object) -> None:
        if isinstance(row, dict) and row["step"] == 1:
            signal.raise_signal(signal.SIGTERM)

    result = train_sb3(one_ply(tmp_path / "run", total_moves=640), display=Watcher(interrupt))
    assert result.stopped_by == "SIGTERM" and result.updates == 2
    last = read_metrics(tmp_path / "run")[-1]
    assert last["step"] == 2 and "eval/endgame/regret_cp" in last


def test_a_comparison_has_it_as_one_more_column_with_the_settings_of_ppo() -> None:
    plan = Plan(("ppo", "sb3_maskable_ppo"), treatments=("none", "share"), network="resnet")
    columns = {column.name: column for column in make_variants(plan)}
    ours, theirs = (columns[f"{name}+none"].config for name in plan.presets)
    assert config_file.differences(ours, theirs).keys() == {"preset", "loop"}
    assert train_arguments(theirs)[:2] == ("train", "sb3_maskable_ppo")
    with pytest.raises(
        ValueError, match=r"rollout.form is 'games' and cannot be given to Maskable"
    ):
        make_variants(dataclasses.replace(plan, form="games", gamma=0.0))
    facts = make_variants(dataclasses.replace(plan, network="move_net"))
    assert {column.config.policy.network for column in facts} == {"move_net"}
    with pytest.raises(ValueError, match=r"did you mean 'sb3_maskable_ppo'"):
        Plan(("sb3_ppo",))


def test_the_name_stands_for_a_run_against_a_random_mover_and_the_rest_for_themselves() -> None:
    config = named_run("sb3_maskable_ppo")
    assert (config.loop, config.env.opponent, config.label) == ("sb3", "random", "sb3_maskable_ppo")
    assert config.algorithm == named_run("ppo").algorithm
    assert {named_run(name).label for name in NAMES} == set(NAMES)
    assert base_config(Plan(("sb3_maskable_ppo",)), "sb3_maskable_ppo").env.opponent is None


@pytest.mark.slow
@pytest.mark.timeout(900)  # five processes one after the other, each of which imports torch and SB3
def test_the_command_line_runs_it_and_compares_it(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    assert main(["train", "sb3_maskable_ppo", "--smoke", "--run-dir", str(run_dir)]) == 0
    assert main(["train", "--resume", str(run_dir)]) == 1
    out = tmp_path / "compared"
    arguments = ["compare", "ppo", "sb3_maskable_ppo", "--smoke", "--regularization", "none"]
    assert main([*arguments, "--budget-moves", "1024", "--out", str(out)]) == 0
    values = json.loads((out / "comparison.json").read_text())
    assert len(values["cells"]) == 4 and values["broken"] == [] and values["mixed"] == []
