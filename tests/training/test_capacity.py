"""A run that the machine cannot carry is refused before anything is made, with the numbers and the remedy."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from algorithms.config.names import named_run
from algorithms.config.run import TrainConfig
from algorithms.networks.settings import NetworkConfig
from algorithms.training import capacity
from algorithms.training.capacity import check_capacity, least_bytes
from algorithms.training.session import Session

CPU = torch.device("cpu")
GIB = 2**30


def grpo(tmp_path: Path, **rollout: int) -> TrainConfig:
    config = named_run("grpo")
    return dataclasses.replace(
        config,
        rollout=dataclasses.replace(config.rollout, **rollout),
        env=dataclasses.replace(config.env, evaluator="builtin"),
        run_dir=tmp_path / "run",
    ).settled()


@pytest.mark.parametrize(
    ("settings", "parts", "remedy"),
    [
        ({"num_envs": 10**9, "num_plies": 1}, "boards 3,725.3", "lower --rollout.num-envs"),
        ({"num_plies": 10**9}, "boards 0.0, rollout", "lower --rollout.num-envs or --rollout.num-plies"),
    ],
)  # fmt: skip
def test_a_run_of_too_many_boards_or_plies_is_refused_before_anything_is_made(
    settings: dict[str, int], parts: str, remedy: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="this run needs at least [0-9,.]+ GiB of memory") as error:
        Session(grpo(tmp_path, **settings))
    assert parts in str(error.value) and str(error.value).endswith(remedy)
    assert "GiB are free" in str(error.value)


def test_a_network_that_is_too_large_is_refused_without_being_built(tmp_path: Path) -> None:
    policy = NetworkConfig(network="resnet", channels=60_000, blocks=20)
    config = dataclasses.replace(grpo(tmp_path), policy=policy)
    network = least_bytes(config)["network"]
    assert (
        network > 20 * 2 * 9 * 60_000**2 * 16
    )  # two convolutions of a block, four numbers for a weight
    with pytest.raises(ValueError, match="choose a smaller network"):
        check_capacity(config, CPU)


def test_what_is_counted_is_less_than_a_run_takes_and_not_much_less(tmp_path: Path) -> None:
    # 512 boards of 4 plies: the tensors of the batch, as `count` says, and what the boards hold.
    config = grpo(tmp_path, num_envs=512)
    session = Session(config)
    try:
        session.worker.start()
        batch = session.rollout().batch
        held = sum(
            value.nbytes for value in vars(batch).values() if isinstance(value, torch.Tensor)
        )
        vec = session.worker.parts[0].vec
        seen, info = vec.set_state(vec.get_state())
        shown = [info[name] for name in ("action_mask", "legal_ids", "num_legal", "ply", "turn")]
        boards = sum(value.nbytes for value in (seen, *shown, vec.games.boards.history))
    finally:
        session.close()
    least = least_bytes(config)
    assert held / 4 < least["rollout"] <= held
    assert boards / 2 < least["boards"] <= boards


def test_a_run_fits_where_the_system_says_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(capacity, "free_bytes", lambda: None)
    check_capacity(grpo(tmp_path, num_envs=10**9), CPU)


def test_the_free_memory_of_this_machine_is_known_on_linux() -> None:
    free = capacity.free_bytes()
    assert free is None or 0 < free < 2**50
    assert free is not None or not Path("/proc/meminfo").exists()


@pytest.mark.parametrize(
    ("engines", "cores", "warned"), [(3, 2, True), (2, 1, False), (8, 8, False), (9, 8, True)]
)
def test_more_engines_than_cores_are_warned_of(
    engines: int, cores: int, warned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    recwarn: pytest.WarningsRecorder,
) -> None:  # fmt: skip
    monkeypatch.setattr(capacity, "usable_cores", lambda: cores)
    config = grpo(tmp_path)
    check_capacity(
        dataclasses.replace(config, env=dataclasses.replace(config.env, num_engines=engines)), CPU
    )
    found = [str(each.message) for each in recwarn.list]
    assert [f"set --env.num-engines to {cores}" in each for each in found] == [True] * warned


def test_engines_that_do_not_fit_are_refused_before_one_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capacity, "free_bytes", lambda: 8 * GIB)
    config = grpo(tmp_path)
    env = dataclasses.replace(config.env, num_engines=1000, evaluator="stockfish:depth=4")
    with (
        pytest.warns(UserWarning, match="1000"),
        pytest.raises(ValueError, match="lower --env.num-engines"),
    ):
        Session(dataclasses.replace(config, env=env))
