"""The callback for Stable-Baselines3: what it measures, against sums by hand, and that it changes nothing."""

from __future__ import annotations

import copy
import csv
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from sb3_contrib import MaskablePPO, RecurrentPPO
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import Logger, configure
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import FlattenExtractor
from torch import Tensor, nn
from torch.distributions import Categorical

from algorithms.foreign import diagnose_log, read_log
from algorithms.integrations import sb3_callback
from algorithms.integrations.sb3_callback import DoctorCallback, _inverse_temperature
from tests.integrations.sb3_runs import one_ply, opened

SYMBOLS = 5


@pytest.fixture(autouse=True)
def looks_at_short_rollouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rollouts of 128 actions or more are all looked at, as those of 1,024 are otherwise."""
    monkeypatch.setattr(sb3_callback, "APART", 128)


class Game(gym.Env):
    """Name the symbol shown; with other spaces there is nothing to win."""

    def __init__(self, seen: spaces.Space, done: spaces.Space) -> None:
        self.observation_space, self.action_space = seen, done
        self.turns, self.last = 0, None

    def _see(self) -> Any:
        self.last = self.observation_space.sample()
        return self.last

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.turns = 0
        return self._see(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        is_right = np.ndim(action) == np.ndim(self.last) == 0 and action == self.last
        self.turns += 1
        return self._see(), float(is_right), self.turns == 16, False, {}

    def action_masks(self) -> np.ndarray:
        """One action is forbidden, which the turn tells; of a space of several parts it is in the first."""
        sizes = getattr(self.action_space, "nvec", [SYMBOLS])
        masks = np.ones(int(sum(sizes)), dtype=bool)
        masks[self.turns % int(sizes[0])] = False
        return masks


SYMBOL, ACTION = spaces.Discrete(SYMBOLS), spaces.Discrete(SYMBOLS)
PICTURE = spaces.Box(0, 255, (1, 36, 36), np.uint8)
NAMED = spaces.Dict({"symbol": SYMBOL, "place": spaces.Box(-1, 1, (3,))})


class Layered(FlattenExtractor):
    """A layer and what `last` makes."""

    def __init__(self, observation_space: Any, last: Callable[[], nn.Module]) -> None:
        super().__init__(observation_space)
        self.layers = nn.Sequential(nn.Linear(self._features_dim, 16), nn.Tanh(), last())
        self._features_dim = 16

    def forward(self, observations: Tensor) -> Tensor:
        return self.layers(self.flatten(observations))


def layered(last: Callable[[], nn.Module]) -> dict[str, Any]:
    return {"features_extractor_class": Layered, "features_extractor_kwargs": {"last": last}}


def model_of(
    algorithm: Any = PPO,
    policy: Any = "MlpPolicy",
    seen: spaces.Space = SYMBOL,
    done: spaces.Space = ACTION,
    spread: float = 1.5,
    num_envs: int = 4,
    **options: Any,
) -> Any:
    """A model whose policy is far from uniform."""
    if algorithm is not A2C:
        options = {"batch_size": 64, "n_epochs": 2} | options
    options = {"n_steps": 16, "learning_rate": 3e-3} | options
    envs = make_vec_env(lambda: Game(copy.deepcopy(seen), copy.deepcopy(done)), num_envs, seed=0)
    model = algorithm(policy, envs, seed=3, device="cpu", **options)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        model.policy.action_net.weight.normal_(0.0, spread / 8, generator=generator)
        model.policy.action_net.bias.normal_(0.0, spread, generator=generator)
    return model


def collected(model: Any, **options: Any) -> tuple[DoctorCallback, Any]:
    """(a callback at the end of a rollout, the rollout's buffer), before the callback has looked."""
    model.set_logger(Logger(folder=None, output_formats=[]))
    callback = DoctorCallback(**options)
    model._setup_learn(10_000, None)
    nothing = DoctorCallback()
    nothing.init_callback(model)
    nothing._on_rollout_end = lambda: None  # type: ignore[method-assign]
    model.collect_rollouts(model.env, nothing, model.rollout_buffer, model.n_steps)
    callback.init_callback(model)
    return callback, model.rollout_buffer


class Drawn:
    """Draws from `factor` times the logits, and says the log-probabilities of the policy that learns."""

    factor = 1 / 1.7
    own_logprobs = True

    def forward(self: Any, obs: Any, deterministic: bool = False) -> Any:
        own = self.get_distribution(obs).distribution
        other = Categorical(logits=self.factor * own.logits)
        actions = other.sample()
        said = own if self.own_logprobs else other
        return actions, self.predict_values(obs), said.log_prob(actions)


class Hot(Drawn, ActorCriticPolicy):
    pass


class HotAndSaysSo(Hot):
    own_logprobs = False


class Greedy(Drawn, ActorCriticPolicy):
    factor = 1e4


def rows_of(path: Path) -> list[dict[str, float]]:
    """Values of a progress.csv, without those that are missing."""
    with path.open() as file:
        return [{k: float(v) for k, v in row.items() if v} for row in csv.DictReader(file)]


def logged(folder: Path, policy: Any, rollouts: int, **options: Any) -> list[dict[str, float]]:
    """A run of 512 actions a rollout."""
    model = model_of(PPO, policy, n_steps=64, num_envs=8, batch_size=128, **options)
    model.set_logger(configure(str(folder), ["csv"]))
    model.learn(512 * rollouts, DoctorCallback())
    model.logger.close()
    return rows_of(folder / "progress.csv")


RUNS: dict[str, Callable[[], Any]] = {
    "ppo": model_of,
    "a2c": lambda: model_of(A2C),
    "masked": lambda: model_of(MaskablePPO),
    "named": lambda: model_of(MaskablePPO, "MultiInputPolicy", NAMED),
    "normal": lambda: model_of(done=spaces.Box(-1, 1, (2,))),
    "batch norm": lambda: model_of(policy_kwargs=layered(lambda: nn.BatchNorm1d(16))),
    "dropout": lambda: model_of(policy_kwargs=layered(lambda: nn.Dropout(0.3))),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_the_same_to_the_bit_with_the_callback(name: str) -> None:
    ends = []
    for callback in (None, DoctorCallback()):
        model = RUNS[name]()
        model.learn(64 * 5, callback, log_interval=1)  # looked at are the first, third and fifth
        ends.append((model.policy.state_dict(), model.policy.optimizer.state_dict()["state"],
                     [module.training for module in model.policy.modules()],
                     torch.get_rng_state(), np.random.permutation(1000)))  # fmt: skip  # noqa: NPY002
        assert not {"get", "evaluate_actions"} & {*vars(model.rollout_buffer), *vars(model.policy)}
    same, other = ends
    torch.testing.assert_close(same, other, rtol=0, atol=0)


def test_a_run_on_boards_of_this_project_is_the_same_to_the_bit_with_the_callback() -> None:
    ends = []
    for callback in (None, DoctorCallback()):
        with opened(one_ply()) as outside:
            outside.model.learn(64, callback, log_interval=None)
            ends.append({k: v.clone() for k, v in outside.model.policy.state_dict().items()})
            measured = outside.model.logger.name_to_value
    torch.testing.assert_close(*ends, rtol=0, atol=0)
    assert measured["doctor/first_ratio_std"] < 1e-5 and measured["doctor/end_kl"] > 0


@pytest.mark.parametrize(
    ("share", "gap", "factor"),
    [(0.75, 0.0, 1.0), (0.5, math.log(3) / 4, 0.05), (0.25, math.log(3) / 2, 0.05),
     (1.0, -math.log(3) / 4, 20.0), (0.9375, -3 * math.log(3) / 16, math.log(15) / math.log(3))],
)  # fmt: skip
def test_shares_of_two_actions_give_the_gap_and_the_temperature_of_the_sum_by_hand(
    share: float, gap: float, factor: float
) -> None:
    model = model_of(done=spaces.Discrete(2))
    with torch.no_grad():  # probabilities 1/4 and 3/4
        model.policy.action_net.weight.zero_()
        model.policy.action_net.bias.copy_(torch.tensor([0.0, math.log(3)]))
    callback, buffer = collected(model)
    actions = np.zeros(64)
    actions[: round(64 * share)] = 1
    buffer.actions[:] = actions.reshape(buffer.actions.shape)
    callback.on_rollout_end()
    found = model.logger.name_to_value
    assert found["doctor/surprise_gap"] == pytest.approx(gap, abs=1e-7)
    assert found["doctor/inverse_temperature"] == pytest.approx(factor, rel=1e-3)
    assert float(callback._pool[1, 0]) == pytest.approx(3 / 16 * math.log(3) ** 2)
    with torch.no_grad():  # probabilities 1/2 and 1/2
        model.policy.action_net.bias.zero_()
    callback.on_rollout_start()
    expected = 0.25 * math.log(0.5) + 0.75 * math.log(1.5)
    assert found["doctor/end_kl"] == pytest.approx(expected, rel=1e-6)


CASES: dict[str, Callable[[], Any]] = {
    "symbols": model_of,
    "pictures": lambda: model_of(PPO, "MlpPolicy", PICTURE),
    "named": lambda: model_of(PPO, "MultiInputPolicy", NAMED),
    "masked": lambda: model_of(MaskablePPO),
    "masked and named": lambda: model_of(MaskablePPO, "MultiInputPolicy", NAMED),
    "parts": lambda: model_of(done=spaces.MultiDiscrete([3, 4])),
    "masked parts": lambda: model_of(MaskablePPO, done=spaces.MultiDiscrete([3, 4])),
    "switches": lambda: model_of(done=spaces.MultiBinary(3)),
    "one switch": lambda: model_of(done=spaces.MultiBinary(1)),
    "normal": lambda: model_of(done=spaces.Box(-1, 1, (2,))),
}


@pytest.mark.parametrize("name", CASES)
def test_the_gap_is_that_of_stable_baselines3s_own_log_probabilities_and_entropies(
    name: str,
) -> None:
    callback, buffer = collected(CASES[name]())
    callback.on_rollout_end()
    callback._restore()
    batch = next(buffer.get())
    actions = batch.actions
    if isinstance(callback.model.action_space, spaces.Discrete):
        actions = actions.long().flatten()
    masks = {"action_masks": batch.action_masks} if "masked" in name else {}
    with torch.no_grad():
        _, logprobs, entropy = callback.model.policy.evaluate_actions(
            batch.observations, actions, **masks
        )
    found = callback.logger.name_to_value
    expected = float((-logprobs - entropy).mean())
    assert found["doctor/surprise_gap"] == pytest.approx(expected, abs=2e-6)
    assert ("doctor/inverse_temperature" in found) is (name != "normal")


def test_masked_actions_agree_with_an_enumeration_in_float64() -> None:
    callback, buffer = collected(model_of(MaskablePPO, done=spaces.MultiDiscrete([3, 4])))
    callback.on_rollout_end()
    with torch.no_grad():
        parts = callback.model.policy.action_dist.distributions  # type: ignore[union-attr]
        logits = torch.cat([part.logits for part in parts], 1)
    before = callback._before
    assert before is not None
    masks = before.given[1].bool()
    gaps, variances = [], []
    for row, mask, action in zip(logits.double(), masks, before.actions.long(), strict=True):
        weights = {
            pair: math.exp(row[pair[0]]) * math.exp(row[3 + pair[1]])
            for pair in itertools.product(range(3), range(4))
            if mask[pair[0]] and mask[3 + pair[1]]
        }
        logs = {pair: math.log(w / sum(weights.values())) for pair, w in weights.items()}
        entropy = -sum(math.exp(log) * log for log in logs.values())
        gaps.append(-logs[tuple(action.tolist())] - entropy)  # type: ignore[index]
        variances.append(sum(math.exp(log) * log * log for log in logs.values()) - entropy**2)
    assert len(weights) == 8
    found = callback._pool.numpy()
    np.testing.assert_allclose(found, [gaps, variances], rtol=0, atol=1e-12)


def test_the_inverse_temperature_is_the_most_likely_one() -> None:
    generator = torch.Generator().manual_seed(3)
    logprobs = (2 * torch.randn(4000, 7, generator=generator, dtype=torch.float64)).log_softmax(-1)
    for factor in (0.3, 1.0, 3.0):
        weights = (factor * logprobs).softmax(-1)
        actions = torch.multinomial(weights, 1, generator=generator)
        found = _inverse_temperature((logprobs,), actions)
        tried = [
            float((b * logprobs).log_softmax(-1).gather(1, actions).mean())
            for b in (found * 0.98, found, found * 1.02)
        ]
        assert max(tried) == tried[1] and found == pytest.approx(factor, rel=0.1)


@pytest.mark.parametrize("policy", [Hot, HotAndSaysSo])
def test_a_hotter_sampler_is_seen_said_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], policy: type
) -> None:
    rows = logged(tmp_path, policy, 10)
    assert [row["time/total_timesteps"] for row in rows] == [512 * n for n in range(1, 11)]
    assert all(row["doctor/surprise_gap"] > 0 for row in rows)
    factor = np.median([row["doctor/inverse_temperature"] for row in rows])
    assert factor == pytest.approx(1 / 1.7, abs=0.15)
    ratios = [row["doctor/first_ratio_std"] for row in rows[1:]]
    assert max(ratios) < 1e-5 if policy is Hot else min(ratios) > 0.1
    assert capsys.readouterr().out.count("do NOT come from the policy that learns") == 1
    found = diagnose_log(read_log(tmp_path / "progress.csv"))
    assert found.causes[0].name == "temperature_mismatch" and found.causes[0].is_harmful
    assert "forward_mismatch" not in [each.name for each in found.causes]


def test_a_greedy_sampler_is_seen(tmp_path: Path) -> None:
    rows = logged(tmp_path, Greedy, 3, learning_rate=1e-5)
    assert all(row["doctor/surprise_gap"] < -0.1 for row in rows)
    assert all(row["doctor/inverse_temperature"] > 5 for row in rows)


def test_nothing_is_named_of_a_sound_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = logged(tmp_path, "MlpPolicy", 12, ent_coef=0.02)
    assert all((row["doctor/ent_coef"], row["doctor/gamma"]) == (0.02, 0.99) for row in rows)
    found = diagnose_log(read_log(tmp_path / "progress.csv"))
    assert not [each for each in found.causes if each.is_harmful]
    assert {"temperature_mismatch", "forward_mismatch"} <= {each.name for each in found.ruled_out}
    assert "doctor/end_kl" not in rows[0] and all(row["doctor/end_kl"] > 0 for row in rows[1:])
    assert all(row["doctor/first_ratio_std"] < 1e-5 for row in rows[1:])
    said = capsys.readouterr().out
    assert said.count("doctor:") == 1 and "come, as far as can be told, from the policy" in said


def test_dropout_is_seen_and_named(tmp_path: Path) -> None:
    options = layered(lambda: nn.Dropout(0.3))
    rows = logged(tmp_path, "MlpPolicy", 10, policy_kwargs=options, spread=4.0)
    assert all(row["doctor/dropout"] == 0.3 for row in rows[1:])
    assert np.mean([row["doctor/first_ratio_std"] for row in rows[1:]]) > 0.1
    assert abs(np.mean([row["doctor/surprise_gap"] for row in rows])) < 0.05
    found = diagnose_log(read_log(tmp_path / "progress.csv"))
    assert found.causes[0].name == "forward_mismatch"
    assert "batch norm" in found.causes[0].verdict.remedy  # type: ignore[union-attr]


def test_a_sampler_that_is_not_the_learner_ends_the_run_on_request() -> None:
    for policy, steps in ((Hot, 2 * 2048 + 8), (ActorCriticPolicy, 3 * 2048)):
        model = model_of(PPO, policy, n_steps=256, num_envs=8, batch_size=512)
        callback = DoctorCallback(stop=True)
        model.learn(3 * 2048, callback)
        assert model.num_timesteps <= steps and callback._is_stopping is (policy is Hot)
        model.learn(8, callback, reset_num_timesteps=False)  # a new call begins anew
        assert model.num_timesteps > 2048


def test_too_few_or_nearly_uniform_actions_are_said_to_tell_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    callback, _ = collected(model_of(spread=0.01))
    callback.on_rollout_end()
    assert "may or may not come (too few so far, or nearly uniform)" in capsys.readouterr().out


def test_a_distribution_without_an_exact_entropy_has_no_gap(
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = model_of(done=spaces.Box(-1, 1, (2,)), use_sde=True)
    model.learn(64 * 5, DoctorCallback(), log_interval=None)
    found = model.logger.name_to_value
    assert "doctor/surprise_gap" not in found and found["doctor/end_kl"] > 0
    assert "StateDependentNoiseDistribution has no exact entropy" in capsys.readouterr().out


@pytest.mark.parametrize("algorithm", [DQN, RecurrentPPO])
def test_another_algorithm_is_refused_by_its_name(algorithm: Any) -> None:
    policy = "MlpLstmPolicy" if algorithm is RecurrentPPO else "MlpPolicy"
    model = algorithm(policy, "CartPole-v1", device="cpu")
    with pytest.raises(TypeError, match=f"given to {algorithm.__name__}.*PPO, A2C, MaskablePPO"):
        model.learn(8, DoctorCallback())


def test_the_states_looked_at_are_of_all_steps_and_all_environments() -> None:
    model = model_of(seen=spaces.Box(0, 1, (2,)), n_steps=64, num_envs=16)
    callback, buffer = collected(model)
    for step, environment in itertools.product(range(64), range(16)):
        buffer.observations[step, environment] = step, environment
    callback.on_rollout_end()
    assert callback._before is not None
    seen = callback._before.given[0]
    assert len(seen) == len(seen.unique(dim=0)) == 128
    assert set(seen[:, 0].tolist()) == set(range(64)) and set(seen[:, 1].tolist()) == set(range(16))
