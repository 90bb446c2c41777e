"""A user's own algorithm, network, evaluator, reward and positions: trained, recorded, resumed, played, compared."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch

from algorithms import cli
from algorithms.comparison.jobs import variant_runs
from algorithms.comparison.plan import Plan
from algorithms.comparison.variants import make_variants, train_arguments
from algorithms.config import files as config_file
from algorithms.config.compatibility import check_settings
from algorithms.config.custom import cannot_be_resumed, custom_names, custom_terms
from algorithms.config.foreign import Trust
from algorithms.config.names import named_run
from algorithms.config.run import EnvConfig, TrainConfig
from algorithms.evaluation.load_policy import load_policy
from algorithms.networks.build import build_policy
from algorithms.networks.policy_net import CustomPolicy
from algorithms.networks.settings import NetworkConfig
from algorithms.ppo import PPO
from algorithms.regularization import RegularizerConfig
from chess_env.observation import NUM_PLANES
from tests.commands.lab import chess_lab
from tests.config import custom_parts
from tests.config.custom_parts import HERE, KingsAndPawns, Linear, Material, Mine, pawns

ROOT = Path(__file__).parents[2]
ALL_OWN = ["--env.evaluator", f"{HERE}:Material", "--env.reward", f"win_prob_delta+0.5*{HERE}:pawns",
           "--env.start-positions", f"{HERE}:KingsAndPawns", "--policy.network", f"{HERE}:Linear",
           "--device", "cpu", "--no-preflight"]  # fmt: skip
SMALL = ["--total-moves", "32", "--rollout.num-envs", "4", "--rollout.num-plies", "1",
         "--diagnostics-interval-updates", "100"]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run in which all five parts are a user's."""
    folder = tmp_path_factory.mktemp("own") / "run"
    name = ["train", f"{HERE}:Mine", "--algorithm.some-field", "2", "--run-dir", str(folder)]
    assert cli.main([*name, *SMALL, *ALL_OWN]) == 0
    return folder


def test_the_record_names_every_part_and_the_hash_of_its_file(run: Path) -> None:
    config = json.loads((run / "config.json").read_text())
    assert config["algorithm"]["name"] == f"{HERE}:Mine" and config["algorithm"]["some_field"] == 2
    assert config["env"]["reward"] == f"win_prob_delta+0.5*{HERE}:pawns"
    assert config["env"]["evaluator"] == f"{HERE}:Material"
    environment = json.loads((run / "environment.json").read_text())
    assert environment["evaluator"] == "own-material"
    digest = hashlib.sha256(Path(custom_parts.__file__).read_bytes()).hexdigest()
    parts = environment["own_objects"]
    assert set(parts) == {f"{HERE}:{name}" for name in
                          ("Mine", "Linear", "Material", "pawns", "KingsAndPawns")}  # fmt: skip
    assert {part["sha256"] for part in parts.values()} == {digest}


def test_the_run_is_resumed_and_its_network_plays(run: Path) -> None:
    longer = ["train", f"{HERE}:Mine", "--resume", str(run), "--total-moves", "32", "--trust"]
    assert cli.main(longer) == 0
    trust = Trust(everything=True)
    assert config_file.load(run / "config.json", trust).algorithm == Mine(some_field=2)
    policy = load_policy(str(run), trust)
    assert isinstance(policy, CustomPolicy) and isinstance(policy.network, Linear)
    weights = load_policy(str(run / "checkpoints" / "best"), trust).state_dict()
    assert set(weights) == {"network.actions.weight", "network.actions.bias"}


def test_a_run_whose_module_is_gone_says_so(run: Path) -> None:
    text = (run / "config.json").read_text()
    values = json.loads(text.replace(f"{HERE}:Mine", "gone_away:Mine"))
    values.pop("sha256")  # which is of what the run wrote
    (run / "config.json").write_text(json.dumps(values))
    try:
        resumed = chess_lab("train", "--resume", run, "--trust")
        played = chess_lab("eval", run, "--trust", "--games", 2, "--opponents", "random")
    finally:
        (run / "config.json").write_text(text)
    for answer in (resumed, played):
        assert answer.code == 1
        assert "there is no module 'gone_away', neither installed nor in" in answer.err


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:Mine", "there is no module 'no_such_module'"),
        (f"{HERE}:NoSuch", "has no NoSuch; it defines"),
        (f"{HERE}:pawns", "is a function: name the class"),
        (f"{HERE}:Linear", "is no dataclass"),
        (f"{HERE}:Loose", "make it frozen=True"),
        (f"{HERE}:Unfinished", "has no update_epochs, needs, controls, advantages, weights, policy_loss"),
        (f"{HERE}:NoDefault", "has no default for needed"),
        ("not a module:Mine", "has not the form module:Name"),
    ],
)  # fmt: skip
def test_what_is_no_algorithm_is_named_with_what_is_missing(name: str, message: str) -> None:
    code, _, err = chess_lab("train", name)
    assert code == 1 and message in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--env.reward", f"cp_delta+{HERE}:float64"], r"gave float64 [3]: expected float32 [3]"),
        (["--env.reward", f"{HERE}:NoSuch"], "has no NoSuch"),
        (["--env.reward", "cp_delta+-2"], "is no term"),
        (["--env.evaluator", f"{HERE}:NeedsAnArgument"], "cannot be made without arguments"),
        (["--env.evaluator", f"{HERE}:KingsAndPawns"], "without id, evaluate, score_moves"),
        (["--env.start-positions", f"{HERE}:Material"], "without sample"),
        (["--policy.network", f"{HERE}:Material"], r"cannot be made as Name(config, critic=False)"),
        (["--policy.network", f"{HERE}:HERE"], "is a str: name the class"),
    ],
)
def test_parts_of_the_wrong_kind_are_refused_before_anything_runs(
    options: list[str], message: str, tmp_path: Path
) -> None:
    evaluator = [] if "--env.evaluator" in options else ["--env.evaluator", "builtin"]
    run_dir = ["--run-dir", str(tmp_path / "run")]
    code, _, err = chess_lab("train", "grpo", *SMALL, *evaluator, *run_dir, *options)
    assert code == 1 and message in err
    assert not (tmp_path / "run").exists()


def test_the_fields_of_an_own_algorithm_are_flags() -> None:
    shown = chess_lab("train", f"{HERE}:Mine", "--help")
    assert shown.code == 0
    assert "--algorithm.some-field" in shown.out and "scales the advantages" in shown.out


def test_classes_and_functions_are_recorded_as_their_names() -> None:
    env: Any = EnvConfig(
        evaluator=Material,  # type: ignore[arg-type]
        reward={"cp_delta": 1.0, pawns: -0.25},  # type: ignore[arg-type]
        start_positions=KingsAndPawns,  # type: ignore[arg-type]
    )
    assert env.reward == f"cp_delta-0.25*{HERE}:pawns"
    config = TrainConfig(Mine(), env=env, policy=NetworkConfig(network=Linear))  # type: ignore[arg-type]
    assert config_file.from_dict(json.loads(json.dumps(config_file.to_dict(config)))) == config
    assert {name.setting for name in custom_names(config)} == {
        "algorithm.name", "policy.network", "env.evaluator", "env.reward", "env.start_positions"
    }  # fmt: skip
    assert custom_names(named_run("grpo")) == [] and cannot_be_resumed(config) == ""


def test_an_instance_has_no_name_to_record() -> None:
    with pytest.raises(ValueError, match="has no name: give a class or a function"):
        EnvConfig(evaluator=Material())  # type: ignore[arg-type]


def test_a_class_inside_a_function_is_trained_with_a_warning_and_not_found_again() -> None:
    @dataclasses.dataclass(frozen=True)
    class Local(Mine):
        pass

    config = TrainConfig(Local())
    with pytest.warns(UserWarning, match=r"defined inside a function.*put it into a module"):
        check_settings(config)
    with pytest.raises(ValueError, match="move it to the top level"):
        config_file.from_dict(config_file.to_dict(config))


def test_a_class_of_the_script_that_was_started_is_found_by_that_script_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = types.ModuleType("__main__")
    there = type("Here", (Mine,), {"__module__": "__main__", "__qualname__": "Here"})
    script.Here = dataclasses.dataclass(frozen=True)(there)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "__main__", script)
    config = TrainConfig(script.Here())
    assert "defined in the script or session" in cannot_be_resumed(config)
    recorded = config_file.to_dict(config)
    assert config_file.from_dict(recorded) == config
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
    with pytest.raises(ValueError, match="put Here into a module of its own"):
        config_file.from_dict(recorded)


def test_a_comparison_takes_own_algorithms_beside_the_presets() -> None:
    plan = Plan(("grpo", f"{HERE}:Mine"), grid=("some_field=1.0,3.0",), treatments=("none",))
    columns = make_variants(plan)
    names = [column.name for column in columns]
    assert names == ["grpo+none", "tests.config.custom_parts-Mine+some_field=1.0+none",
                     "tests.config.custom_parts-Mine+some_field=3.0+none"]  # fmt: skip
    arguments = train_arguments(columns[2].config)
    assert arguments[:2] == ("train", f"{HERE}:Mine")
    assert arguments[arguments.index("--algorithm.some-field") + 1] == "3.0"
    with pytest.raises(ValueError, match="has no NoSuch"):
        Plan((f"{HERE}:NoSuch",))


def test_a_run_of_a_comparison_that_goes_on_is_told_the_own_names_again(tmp_path: Path) -> None:
    plan = Plan(("grpo", f"{HERE}:Mine"), treatments=("none",), network=f"{HERE}:Linear")
    variants = make_variants(plan, cache=tmp_path / "scores.sqlite")
    shared = ("--policy.network", f"{HERE}:Linear", "--env.cache", str(tmp_path / "scores.sqlite"))
    told = [variant_runs(variant, [1], tmp_path)[0].said_again for variant in variants]
    assert told == [shared, (f"{HERE}:Mine", *shared)]


def test_an_own_network_serves_a_critic() -> None:
    config = NetworkConfig(network=f"{HERE}:Linear")
    policy = build_policy(config, seed=0, device=torch.device("cpu"), critic=True)
    obs = torch.zeros(3, NUM_PLANES, 8, 8, dtype=torch.uint8)
    legal_ids = torch.zeros(3, 2, dtype=torch.int16)
    values = policy.values(obs, legal_ids)
    beside = policy.outputs(obs, legal_ids, 1.0).values
    assert values is not None and beside is not None and torch.equal(values, beside)
    assert PPO().needs().critic is not None


def test_a_module_in_the_current_folder_is_found_though_the_console_script_does_not_look_there(
    tmp_path: Path,
) -> None:
    (tmp_path / "my_lab.py").write_text("class Mine:\n    pass\n")
    (tmp_path / "my_broken.py").write_text("import json\n\nraise RuntimeError('by design')\n")
    code = (
        "import sys; sys.path = [p for p in sys.path if p]\n"
        "from chess_env.custom_objects import load_object\n"
        "assert load_object('my_lab:Mine', 'algorithm').__name__ == 'Mine'\n"
        "try: load_object('my_broken:Mine', 'algorithm')\n"
        "except ValueError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "importing my_broken fails with RuntimeError: by design" in done.stdout
    assert f"({tmp_path / 'my_broken.py'}, line 3)" in done.stdout


def test_the_arguments_of_a_term_may_have_commas_in_brackets_and_quotes() -> None:
    own = f"{HERE}:powers,exponents=(2, 3),label='a,b'"
    (term,) = custom_terms(RegularizerConfig(terms=(own,)))
    assert (term.name, term.coef) == ("a,b", 5)
