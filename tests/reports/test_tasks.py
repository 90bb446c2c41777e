from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from algorithms.comparison.variants import SHARED
from algorithms.reports.run_files import RunRecord
from algorithms.reports.tasks import (
    START,
    TASK,
    differing_parts,
    flatten,
    group_by_task,
    start_regret,
    task_of,
)
from tests.reports.run_folders import row

TASK_SETTINGS: dict[str, Any] = {
    "policy": {"network": "move_net", "size": "small", "channels": None, "dropout": 0.0},
    "rollout": {"form": "positions", "temperature": 1.0, "num_envs": 64},
    "env": {"evaluator": "auto", "reward": None, "start_positions": "random_plies:2-40",
            "max_plies": None, "opponent": None, "cache": None},
    "total_moves": 300_000,
    "init_from": None,
}  # fmt: skip


def record(
    name: str = "a", seed: int = 1, start: float = 400.0, evaluator: str | None = "builtin-v1",
    **changed: Any,
) -> RunRecord:  # fmt: skip
    """A run of one row; `env__reward="x"` stands for env.reward."""
    config = {key: dict(v) if isinstance(v, dict) else v for key, v in TASK_SETTINGS.items()}
    for key, value in {"algorithm__name": "grpo", **changed}.items():
        section, _, setting = key.rpartition("__")
        (config.setdefault(section, {}) if section else config)[setting] = value
    environment = {} if evaluator is None else {"evaluator": evaluator}
    rows = [row(0, eval__regret_cp=start)]
    return RunRecord(Path(name), name, rows, config | {"seed": seed}, environment)


def sizes(*runs: RunRecord) -> list[int]:
    return [len(own) for _, own in group_by_task(runs)]


def test_a_task_is_told_in_plain_words() -> None:
    assert task_of(record()) == {
        "network": "move_net small",
        "start weights": "random",
        "evaluator": "builtin-v1",
        "reward": "of the game",
        "start positions": "random_plies:2-40",
        "length of a game": "no limit",
        "opponent": "itself",
        "form of the rollouts": "positions",
        "temperature of sampling and evaluation": "1.0",
        "budget": "300,000 scored moves",
    }
    own = record(policy__channels=48, policy__blocks=0, init_from="warm", evaluator=None)
    task = task_of(own)
    assert task["network"] == "move_net small, channels 48, blocks 0"
    assert (task["start weights"], task["evaluator"]) == ("warm", "auto")


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"policy__network": "resnet"}, "network"),
        ({"policy__blocks": 0}, "network"),
        ({"init_from": "warm"}, "start weights"),
        ({"evaluator": "stockfish-17-n2000"}, "evaluator"),
        ({"env__reward": "outcome"}, "reward"),
        ({"env__start_positions": "standard"}, "start positions"),
        ({"env__max_plies": 32}, "length of a game"),
        ({"env__opponent": "builtin@random=0.5"}, "opponent"),
        ({"rollout__form": "games"}, "form of the rollouts"),
        ({"rollout__temperature": 1.5}, "temperature of sampling and evaluation"),
        ({"total_moves": 65_536}, "budget"),
    ],
)
def test_runs_that_differ_in_a_part_of_the_task_are_not_comparable(
    changed: dict[str, Any], part: str
) -> None:
    groups = group_by_task([record("a"), record("b", **changed), record("c")])
    assert [[run.name for run in own] for _, own in groups] == [["a", "c"], ["b"]]
    assert differing_parts([task for task, _ in groups]) == [part]


def test_what_an_algorithm_does_with_the_task_sets_no_groups_apart() -> None:
    others = {"algorithm__name": "rloo", "algorithm__group_size": 4, "policy__dropout": 0.1, "env__cache": "x",
              "rollout__num_envs": 8, "optimizer__learning_rate": 0.1, "regularizer__ent_coef": 9.0,
              "device": "cuda"}  # fmt: skip
    runs = [record(f"{at}", **{key: value}) for at, (key, value) in enumerate(others.items())]
    assert sizes(record(), *runs) == [9]


def test_a_record_of_before_a_setting_existed_says_the_same_without_it() -> None:
    old = record()
    for section, name in (("policy", "channels"), ("policy", "dropout"), ("env", "opponent")):
        del old.config[section][name]
    assert sizes(record(), old) == [2]


def test_one_seed_must_start_at_one_regret_and_other_seeds_need_not() -> None:
    same = record("b", algorithm__name="rloo", start=400.0 * (1 + 1e-9))
    other_seed = record("c", seed=2, start=390.0)
    assert sizes(record("a"), same, other_seed) == [3]
    other_weights = record("d", start=380.0)
    groups = group_by_task([record("a"), same, other_seed, other_weights])
    assert [len(own) for _, own in groups] == [3, 1]
    assert differing_parts([task for task, _ in groups]) == [START]
    other_budget = group_by_task([record(), record(total_moves=1)])
    assert differing_parts([task for task, _ in other_budget]) == ["budget"]
    assert [task[START] for task, _ in groups] == [
        "390.00 to 400.00 centipawns", "380.00 centipawns",
    ]  # fmt: skip


def test_given_weights_start_at_one_regret_whatever_the_seed() -> None:
    runs = [
        record("a", init_from="warm", start=300.0),
        record("b", 2, init_from="warm", start=200.0),
    ]
    assert sizes(*runs) == [1, 1]


def test_groups_that_only_their_start_tells_apart_never_read_the_same() -> None:
    runs = [record("a", start=300.0), record("b", start=300.001)]
    starts = [task[START] for task, _ in group_by_task(runs)]
    assert starts == ["300 centipawns", "300.001 centipawns"]
    middle = [record(f"{s}{at}", s, start=at) for at in (200.0, 250.0, 300.0) for s in (1, 2, 3)]
    found = group_by_task(middle)
    assert differing_parts([task for task, _ in found]) == [START]
    assert len({task[START] for task, _ in found}) == len(found)


def test_runs_without_settings_are_a_group_of_their_own() -> None:
    bare = RunRecord(Path("x"), "x", [row(1)])
    assert start_regret(bare) is None
    groups = group_by_task([record(), bare])
    assert [len(own) for _, own in groups] == [1, 1]
    assert set(groups[1][0].values()) == {"not on record"}


def test_a_comparison_holds_every_part_of_the_task_equal() -> None:
    assert set(SHARED) >= {start for starts in TASK.values() for start in starts}


def test_settings_come_flat_under_their_dotted_names() -> None:
    assert flatten({"a": {"b": {"c": 1}, "d": {}}, "e": "x" * 999}) == {
        "a.b.c": "1", "a.d": "{}", "e": "x" * 159 + "…",
    }  # fmt: skip
