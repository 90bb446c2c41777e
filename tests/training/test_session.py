"""Settings that cannot go together are refused before an engine starts; the others are carried out."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from algorithms import PRESETS
from algorithms.config.compatibility import check_settings
from algorithms.config.names import named_run
from algorithms.config.run import EnvConfig, OptimizerConfig, RolloutConfig, TrainConfig
from algorithms.core.algorithm import Critic, Needs
from algorithms.core.batch import RolloutBatch
from algorithms.exact import Exact
from algorithms.grpo import GRPO
from algorithms.networks.build import build_policy, trained_parameters
from algorithms.ppo import PPO
from algorithms.regularization import RegularizerConfig
from algorithms.rloo import RLOO
from algorithms.training import session as session_module
from algorithms.training.session import Session
from tests.training.faults import SMALL


def config_of(algorithm: Any, **changes: Any) -> TrainConfig:
    config = TrainConfig(
        algorithm=algorithm,
        policy=SMALL,
        rollout=RolloutConfig(num_envs=4, num_plies=2),
        env=EnvConfig(evaluator="builtin", max_plies=4),
        device="cpu",
        total_moves=100_000,
    )
    return dataclasses.replace(config, **changes)


SessionOf = Callable[..., Session]


@pytest.fixture
def session_of() -> Iterator[SessionOf]:
    opened: list[Session] = []

    def make(algorithm: Any, **changes: Any) -> Session:
        opened.append(Session(config_of(algorithm, **changes)))
        opened[-1].worker.start()
        return opened[-1]

    yield make
    for session in opened:
        session.close()


NOTHING = Needs()


@dataclasses.dataclass(frozen=True)
class Greedy(GRPO):
    """GRPO with needs that do not go together."""

    asked: Needs = NOTHING

    def needs(self) -> Needs:
        return self.asked


GAMES = RolloutConfig(form="games", num_envs=4, num_plies=2)


@pytest.mark.parametrize(
    ("algorithm", "changes", "message"),
    [
        (Exact(), {"rollout": GAMES}, "exact scores every legal move.*set rollout.form to pos"),
        (Greedy(asked=Needs(live_groups=True, all_moves=True)), {}, "live groups and for all"),
        (Greedy(asked=Needs(live_groups=True, critic=Critic())), {}, "groups and for a critic"),
        (Greedy(asked=Needs(single_step=True), update_epochs=2), {}, "set update_epochs to 1"),
        (RLOO(), {"rollout": RolloutConfig(sync_interval_updates=2)},
         "rloo is strictly on-policy and rollout.sync_interval_updates is 2"),
        (GRPO(credit="return_to_go"), {}, "games"),
        (PPO(group_size=4), {}, "gamma"),
        (Exact(), {"regularizer": RegularizerConfig(ent_coef=0.1, ent_estimator="sampled")},
         "exact scores every legal move.*estimate from sampled moves.*estimators to exact"),
        (Exact(), {"regularizer": RegularizerConfig(kl_cov_coef=1.0)}, "set kl_cov_coef to 0"),
        (GRPO(), {"optimizer": OptimizerConfig(frozen_layers=("stme",))},
         "frozen_layers is 'stme'.*did you mean 'stem'"),
        (GRPO(), {"regularizer": RegularizerConfig(
            ent_controller="recovery", ent_coef=0.1, temperature_max=1.0),
            "rollout": RolloutConfig(temperature=1.3)}, "temperature_max"),
    ],
)  # fmt: skip
def test_what_cannot_go_together_is_refused_before_an_engine_starts(
    algorithm: Any, changes: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(*_: object, **__: object) -> None:
        raise AssertionError("an engine was started")

    monkeypatch.setattr(session_module, "make_evaluator", start)
    with pytest.raises(ValueError, match=message):
        Session(config_of(algorithm, **changes))


def test_a_rollout_that_the_machine_cannot_hold_is_refused_with_both_settings() -> None:
    huge = RolloutConfig(num_envs=10**9, num_plies=3)
    with pytest.raises(
        ValueError, match=r"rollout.num_envs is 1,000,000,000, rollout.num_plies 3.*GiB"
    ):
        Session(config_of(GRPO(), rollout=huge, total_moves=10**12))
    with pytest.raises(ValueError, match=r"group_size 1,000,000,000: .*GiB"):
        Session(config_of(GRPO(group_size=10**9), total_moves=10**15))


@pytest.mark.parametrize(
    ("engines", "cores", "warned"), [(3, 2, True), (2, 1, False), (8, 8, False), (9, 8, True)]
)
def test_more_engines_than_cores_are_warned_of(
    engines: int, cores: int, warned: bool, monkeypatch: pytest.MonkeyPatch,
    recwarn: pytest.WarningsRecorder,
) -> None:  # fmt: skip
    monkeypatch.setattr(session_module, "usable_cores", lambda: cores)
    env = EnvConfig(evaluator="builtin", num_engines=engines)
    session_module.check_sizes(config_of(GRPO(), env=env))
    found = [str(each.message) for each in recwarn.list]
    assert [f"set --env.num-engines to {cores}" in each for each in found] == [True] * warned
    with pytest.warns(UserWarning, match=r"num_threads is 999 .*set --num-threads to"):
        session_module.check_sizes(config_of(GRPO(), num_threads=999))


def test_a_session_that_cannot_be_built_leaves_the_process_its_threads() -> None:
    threads = torch.get_num_threads()
    with pytest.raises(ValueError, match="stokfish"):
        Session(config_of(GRPO(), num_threads=threads + 1, env=EnvConfig(evaluator="stokfish")))
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_a_combination_that_runs(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Reached(Exception):
        pass

    def start(*_: object, **__: object) -> None:
        raise Reached

    monkeypatch.setattr(session_module, "make_evaluator", start)
    with pytest.raises(Reached):
        Session(dataclasses.replace(named_run(name), device="cpu"))


def test_frozen_layers_keep_their_weights_and_are_not_in_the_optimizer(
    session_of: SessionOf,
) -> None:
    layers = ("stem", "body.0.first", "promotion_bias")
    session = session_of(GRPO(), optimizer=OptimizerConfig(frozen_layers=layers))
    named = dict(session.policy.named_parameters())
    trained = {id(p) for group in session.learner.optimizer.param_groups for p in group["params"]}
    frozen = {name for name, p in named.items() if id(p) not in trained}
    expected = {"stem.weight", "stem.bias", "promotion_bias"}
    assert frozen == expected | {"body.0.first.weight", "body.0.first.bias"}
    assert all(named[name].requires_grad == (name not in frozen) for name in named)


def test_freezing_everything_is_refused() -> None:
    network = build_policy(SMALL, seed=0, device=torch.device("cpu"))
    names = [name for name, _ in network.named_parameters()]
    with pytest.raises(ValueError, match="freezes all"):
        trained_parameters(network, names)


def test_the_policy_is_run_in_evaluation_mode(session_of: SessionOf) -> None:
    session = session_of(GRPO(), policy=dataclasses.replace(SMALL, dropout=0.5))
    assert not session.policy.training
    batch = session.rollout().batch
    again = session.policy.outputs(batch.obs[:, 0], batch.legal_ids[:, 0], 1.0).dist.logprobs
    torch.testing.assert_close(again.exp(), batch.old_legal_logprobs[:, 0].exp())


def test_a_stale_behaviour_policy_is_brought_up_to_date_at_its_interval(
    session_of: SessionOf,
) -> None:
    rollout = RolloutConfig(num_envs=4, num_plies=2, sync_interval_updates=3)
    session = session_of(GRPO(), rollout=rollout)
    versions, equal = [], []
    for update in range(7):
        session.progress.update = update
        versions.append(session.rollout().batch.policy_version)
        biases = session.policy.action_bias, session.learner.behaviour.action_bias
        equal.append(torch.equal(*biases))
        with torch.no_grad():
            session.policy.action_bias.add_(1.0)
    assert versions == [0, 0, 0, 3, 3, 3, 6]
    assert equal == [True, False, False, True, False, False, True]
    assert not session.learner.behaviour.action_bias.requires_grad
    fresh = session_of(GRPO())
    assert fresh.learner.behaviour is fresh.policy


def test_the_cost_of_a_rollout_that_scores_all_moves_is_the_largest_so_far(
    session_of: SessionOf,
) -> None:
    session = session_of(Exact())
    assert session.moves_per_rollout == 4 * 2 * 40
    session.progress.largest_rollout = 333
    assert session.moves_per_rollout == 333
    session.progress.scored_moves = 100_000 - 333
    assert session.affords() and not session.affords(1)
    with pytest.raises(ValueError, match=r"one rollout scores up to 320 .*legal moves"):
        session_of(Exact(), total_moves=319)


def test_the_learner_s_own_distribution_is_there_where_it_is_asked_for(
    session_of: SessionOf,
) -> None:
    config = RegularizerConfig(kl_old_coef=0.1, kl_old_estimator="k1", kl_old_placement="reward")
    with pytest.warns(UserWarning, match="always 0"):
        batch = session_of(GRPO(), regularizer=config).rollout().batch
    assert batch.learner_legal_logprobs is not None
    torch.testing.assert_close(batch.learner_legal_logprobs.exp(), batch.old_legal_logprobs.exp())
    assert session_of(GRPO()).rollout().batch.learner_legal_logprobs is None


def test_dynamic_sampling_is_part_of_the_rollout_where_it_is_asked_for(
    session_of: SessionOf,
) -> None:
    sharp = RolloutConfig(num_envs=4, num_plies=2, temperature=0.02)  # both samples are often equal
    session = session_of(GRPO(group_size=2, live_groups=True), rollout=sharp)
    collected = session.rollout()
    assert collected.metrics["rollout/extra_rollouts"] > 0
    assert 16 < collected.scored_moves <= 16 * (1 + collected.metrics["rollout/extra_rollouts"])
    assert collected.scored_moves == 2 * collected.plies
    assert session_of(GRPO(group_size=2)).rollout().metrics == {}


def test_a_state_that_is_loaded_is_the_state_that_was_saved(session_of: SessionOf) -> None:
    rollout = RolloutConfig(num_envs=4, num_plies=2, sync_interval_updates=3)
    saved, loaded = session_of(GRPO(), rollout=rollout), session_of(GRPO(), rollout=rollout)
    saved.rollout()
    saved.progress.update = 1
    saved.worker.temperature, saved.last_kl_old = 1.7, 0.25
    saved.seen.fraction(torch.tensor([3, 4]))
    with torch.no_grad():
        saved.policy.action_bias.add_(1.0)
        saved.learner.behaviour.action_bias.add_(0.5)
    loaded.load(Path("here"), saved.policy.state_dict(), saved.state(), print)
    assert (loaded.worker.temperature, loaded.last_kl_old) == (1.7, 0.25)
    assert loaded.seen.fraction(torch.tensor([3, 5])) == 0.5
    assert torch.equal(loaded.learner.behaviour.action_bias, saved.learner.behaviour.action_bias)
    assert not torch.equal(loaded.learner.behaviour.action_bias, loaded.policy.action_bias)
    a, b = saved.rollout().batch, loaded.rollout().batch
    assert a.temperature == 1.7 and torch.equal(a.actions, b.actions)


def test_a_run_that_sampled_on_another_kind_of_device_is_refused(session_of: SessionOf) -> None:
    saved, loaded = session_of(GRPO()), session_of(GRPO())
    state = saved.state()
    state["shards"][0]["sampling"] = torch.zeros(16, dtype=torch.uint8)  # as CUDA's is
    with pytest.raises(ValueError, match="here sampled on another kind of device than cpu.*--dev"):
        loaded.load(Path("here"), saved.policy.state_dict(), state, print)


def rolled(session: Session, groups: int) -> RolloutBatch:
    """A further rollout in which so many groups are wanted."""
    (part,) = session.worker.parts
    return part.roll_groups(session.worker._sampler(part.sampling, 0), groups)


def test_further_rollouts_are_no_longer_than_the_groups_that_are_wanted(
    session_of: SessionOf,
) -> None:
    rollout = RolloutConfig(num_envs=4, num_plies=3)
    session = session_of(GRPO(group_size=2, live_groups=True), rollout=rollout)
    plies = [rolled(session, groups).obs.shape[1] for groups in (1, 4, 5, 12, 40)]
    assert plies == [1, 1, 2, 3, 3]
    games = RolloutConfig(form="games", num_envs=2, num_plies=3)
    session = session_of(GRPO(group_size=2, live_groups=True), rollout=games)
    assert rolled(session, 1).form == "games"


@pytest.mark.parametrize(
    ("algorithm", "regularizer", "what"),
    [
        (RLOO(), RegularizerConfig(kl_cov_coef=1.0), "kl_cov has no effect"),
        (RLOO(), RegularizerConfig(kl_old_coef=0.1), "kl_old has no effect"),
        (
            GRPO(),
            RegularizerConfig(kl_old_coef=0.1, kl_old_estimator="k1", kl_old_placement="reward"),
            "kl_old in the reward is always 0",
        ),
    ],
)
def test_a_term_that_stays_zero_is_said(
    algorithm: Any, regularizer: RegularizerConfig, what: str
) -> None:
    with pytest.warns(UserWarning, match=what):
        check_settings(config_of(algorithm, regularizer=regularizer))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_settings(config_of(GRPO(), regularizer=RegularizerConfig(kl_old_coef=0.1)))
