"""The zoo and the network keep the public contracts; whatever breaks one rule is told which."""

from __future__ import annotations

import dataclasses
import math
import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import algorithms
from algorithms.core.algorithm import Controls, PolicyLoss
from algorithms.networks.settings import SIZES, NetworkConfig
from algorithms.testing import check_algorithm, check_policy_network
from chess_env.move_facts import NUM_MOVE_FACTS
from chess_env.moves import NUM_ACTIONS
from chess_env.observation import NUM_PLANES
from chess_env.testing import ContractError
from tests.zoo.by_hand import rollout, samples
from tests.zoo.plain import Plain


@pytest.mark.parametrize("name", algorithms.PRESETS)
def test_every_preset_keeps_the_contract_of_an_algorithm(name: str) -> None:
    check_algorithm(algorithms.PRESETS[name][0])


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("grpo", {"dual_clip": 3.0, "advantage_scale": "none"}),
        ("grpo", {"top_entropy_fraction": 0.2, "advantage_scale": "none"}),
        ("grpo", {"top_entropy_fraction": 0.5, "update_epochs": 3}),
        ("ppo", {"dual_clip": 3.0}),
        ("aepo", {"group_size": 2, "update_epochs": 2, "advantage_scale": "none"}),
        ("aepo", {"tempered_share": 0.0}),
        ("aspo", {"clip_range_high": math.inf, "advantage_scale": "group"}),
        ("bapo", {"update_epochs": 3, "advantage_scale": "group", "balance": 2.0}),
        ("ce_gppo", {"beta_low": 0.0, "advantage_scale": "group"}),
        ("dppo", {"divergence": "kl", "divergence_high": 0.1, "advantage_scale": "group"}),
        ("erc", {"update_epochs": 3, "advantage_scale": "group", "clip_range_high": 0.28}),
        ("flowrl", {"beta": 1.0, "advantage_scale": "none", "update_epochs": 2}),
        ("gspo", {"clip_range": 0.2, "clip_range_high": 0.2, "credit": "step"}),
        ("gspo", {}),
        ("kondo", {"mode": "top"}),
        ("kondo", {"update_epochs": 3, "rate": 0.1}),
        ("lp_reg", {"lp_fraction": 0.2, "update_epochs": 2, "min_p": 0.2}),
        ("maxrl", {"group_size": 2, "update_epochs": 2, "clip_range_high": 0.28}),
        ("pass_at_k", {"k": 1}),
        ("pass_at_k", {"k": 2}),
        ("pass_at_k", {"group_size": 16, "k": 4, "update_epochs": 2}),
        ("sapo", {"tau_positive": 5.0, "advantage_scale": "group"}),
        ("steer", {"update_epochs": 3, "advantage_scale": "group", "clip_range_high": 0.28}),
        ("w_reinforce", {"positive_weight": 0.0}),
        ("w_reinforce", {"group_size": 1, "positive_weight": 1.0}),
    ],
)
def test_the_contract_is_kept_with_other_settings(name: str, settings: dict[str, Any]) -> None:
    check_algorithm(algorithms.ALGORITHMS[name](**settings))


@pytest.mark.parametrize("name", ["aepo", "maxrl", "pass_at_k", "w_reinforce"])
@pytest.mark.parametrize("shift", [-1.0, -0.25])
def test_rewards_other_than_0_and_1_are_refused_with_the_remedy(name: str, shift: float) -> None:
    case = samples(0, 8)
    algorithm = algorithms.ALGORITHMS[name]()
    with pytest.raises(ValueError, match=rf"a reward is .*: {name} .* env.reward to success"):
        algorithm.advantages(rollout(case.old, case.slots, case.rewards + shift, case.valid))
    unread = np.where(case.valid, case.rewards, np.nan)
    algorithm.advantages(rollout(case.old, case.slots, unread, case.valid))


def test_the_plain_algorithm_that_the_broken_ones_are_made_of_is_right() -> None:
    check_algorithm(Plain())


def altered(**members: Any) -> Any:
    """An instance of `Plain` with other members."""
    return dataclasses.dataclass(frozen=True)(type("Altered", (Plain,), members))()


PLAIN = Plain()


def advantages(change: Any) -> Any:
    return altered(advantages=lambda self, batch: change(batch, PLAIN.advantages(batch)))


def loss(change: Any) -> Any:
    def policy_loss(self: Any, dist: Any, batch: Any, advantages: Any, controls: Any) -> Any:
        return change(dist, batch, PLAIN.policy_loss(dist, batch, advantages, controls).loss)

    return surrogate(lambda *given: PolicyLoss(policy_loss(*given)))


def surrogate(policy_loss: Any) -> Any:
    return altered(policy_loss=policy_loss)


def _peeking(self: Any, batch: Any) -> Any:
    """The group's mean over all members, valid or not."""
    centred = batch.rewards - batch.rewards.mean(batch.group_axis, keepdim=True)
    return torch.where(batch.valid, centred, 0.0)


def _numbered(values: Any) -> Any:
    return torch.arange(values.shape[0], dtype=values.dtype).reshape(-1, *[1] * (values.ndim - 1))


def _first_member_only(batch: Any, values: Any) -> Any:
    keep = torch.zeros_like(values)
    keep.index_fill_(batch.group_axis, torch.tensor([0]), 1.0)
    return values * keep


class Bare:
    name = "bare"


SHARED = Controls()


@pytest.mark.parametrize(
    ("algorithm", "sentence"),
    [
        (Bare(), "an instance of a dataclass"),
        (dataclasses.make_dataclass("Loose", [("group_size", int, 1)])(), "must be frozen"),
        (dataclasses.make_dataclass("Few", [("group_size", int, 1)], frozen=True)(),
         "an algorithm has name, update_epochs, needs, .*policy_loss; Few has not"),
        (altered(name=""), "name must be a text"),
        (dataclasses.replace(PLAIN, group_size=0), "group_size must be a whole number above 0"),
        (altered(needs=lambda self: {}), r"needs\(\) must give a Needs record"),
        (altered(controls=lambda self: SHARED), "a fresh Controls record"),
        (advantages(lambda b, a: a.sum(-1)), "advantages must be shaped like batch.rewards"),
        (altered(advantages=lambda self, b: b.rewards.sub_(1.0).masked_fill(~b.valid, 0)),
         "must leave the rewards as they were"),
        (advantages(lambda b, a: a / 0.0), "advantages must be finite"),
        (advantages(lambda b, a: a + 1.0), "must be 0 where batch.valid is False"),
        (advantages(lambda b, a: a * torch.rand(())), "must be a function of the batch"),
        (altered(advantages=_peeking), "must not look at rewards where batch.valid is False"),
        (altered(weights=lambda self, b: torch.zeros(3)), "weights must be shaped like"),
        (altered(weights=lambda self, b: b.rewards * 0), "weights must be above 0 where"),
        (altered(weights=lambda self, b: b.valid / b.valid.sum().clamp(min=1)),
         "weights must have the dtype of the rewards"),
        (loss(lambda d, b, x: x.mean()), "must give a loss for each sample"),
        (loss(lambda d, b, x: x / 0), "policy_loss must be finite"),
        (loss(lambda d, b, x: x.detach()), "must depend on the distribution"),
        (loss(lambda d, b, x: x * 0), "finite and not 0 everywhere"),
        (loss(lambda d, b, x: x - 0.01 * d.entropy()[:, None]), "belongs to the regulariser"),
        (loss(lambda d, b, x: x + _numbered(x)), "must not depend on the order of the states"),
        (loss(lambda d, b, x: x * (60 * (d.gather(b.slots) - b.old_logprobs)).exp()),
         "finite for a policy far from the one that sampled"),
        (surrogate(lambda self, d, b, a, c: PLAIN.policy_loss(d, b, a, c)._replace(gate=a[:, :1])),
         "gate of PolicyLoss must be None, or a finite share"),
        (surrogate(lambda self, *given: PLAIN.policy_loss(*given).loss), "must give PolicyLoss"),
        (advantages(lambda b, a: a * _numbered(a)), "must not depend on the order of the boards"),
        (advantages(_first_member_only), "must follow their samples when the members"),
        (loss(lambda d, b, x: -x), "the algorithm must learn"),
    ],
)  # fmt: skip
def test_a_broken_algorithm_is_told_which_rule_broke(algorithm: Any, sentence: str) -> None:
    with pytest.raises(ContractError, match=sentence):
        check_algorithm(algorithm)


@pytest.mark.parametrize(
    "size",
    [
        "tiny",
        *(pytest.param(size, marks=pytest.mark.slow) for size in SIZES["resnet"] if size != "tiny"),
    ],
)
@pytest.mark.parametrize("name", SIZES)
def test_every_network_of_this_project_keeps_the_contract_in_every_size(
    name: str, size: str
) -> None:
    check_policy_network(name, config=NetworkConfig(size=size))  # type: ignore[arg-type]


def test_the_default_network_keeps_the_contract() -> None:
    check_policy_network(None)


class Net(nn.Module):
    """One layer; what breaks it is overridden below."""

    def __init__(self, config: Any, *, critic: bool) -> None:
        super().__init__()
        self.actions = nn.Linear(NUM_PLANES * 64, NUM_ACTIONS)
        self.value = nn.Linear(NUM_PLANES * 64, 1) if critic else None

    def planes(self, obs: Any) -> Any:
        return obs.flatten(1).to(self.actions.weight.dtype)

    def logits(self, planes: Any, legal_ids: Any) -> Any:
        return self.actions(planes).gather(1, legal_ids.long().clamp(min=0))

    def values(self, planes: Any) -> Any:
        return None if self.value is None else self.value(planes).squeeze(-1)

    def forward(self, obs: Any, legal_ids: Any) -> Any:
        planes = self.planes(obs)
        return self.logits(planes, legal_ids), self.values(planes)


def net(**members: Any) -> type[Net]:
    """`Net` with other members."""
    return type("Altered", (Net,), members)


def made(change: Any, **members: Any) -> type[Net]:
    """`Net` with this done to it once it is made."""

    def __init__(self: Any, config: Any, *, critic: bool) -> None:
        Net.__init__(self, config, critic=critic)
        change(self)

    return net(__init__=__init__, **members)


def logits(change: Any) -> type[Net]:
    return net(logits=lambda self, x, ids: change(Net.logits(self, x, ids), ids))


def normed(self: Any) -> None:
    self.norm = nn.BatchNorm1d(NUM_PLANES * 64)


class NotAModule:
    def __init__(self, config: Any, *, critic: bool) -> None: ...


GENERATOR = torch.Generator().manual_seed(0)


def test_the_plain_network_that_the_broken_ones_are_made_of_is_right() -> None:
    check_policy_network(Net)


class Facts(Net):
    """`Net` with a layer of the facts of the moves."""

    reads_move_facts = True

    def __init__(self, config: Any, *, critic: bool) -> None:
        super().__init__(config, critic=critic)
        self.facts = nn.Linear(NUM_MOVE_FACTS, 1)
        nn.init.zeros_(self.facts.weight)

    def forward(self, obs: Any, legal_ids: Any, move_facts: Any = None) -> Any:
        logits, values = super().forward(obs, legal_ids)
        return logits + self.of_facts(move_facts.to(logits.dtype)), values

    def of_facts(self, facts: Any) -> Any:
        return self.facts(facts).squeeze(-1)


def test_a_network_that_reads_the_facts_of_the_moves_keeps_the_contract() -> None:
    check_policy_network(Facts)


class Deaf(Facts):
    def of_facts(self, facts: Any) -> Any:
        return 0.0


class ByPlace(Facts):
    def of_facts(self, facts: Any) -> Any:
        return facts.mean(-1).cumsum(1)


@pytest.mark.parametrize(
    ("network", "sentence"),
    [(Deaf, "its logits do not depend on the facts"), (ByPlace, "must not depend on its place")],
)
def test_a_network_that_reads_facts_wrongly_is_told_so(network: Any, sentence: str) -> None:
    with pytest.raises(ContractError, match=sentence):
        check_policy_network(network)


BROKEN: dict[str, tuple[Any, str]] = {
    "no critic": (net(__init__=lambda self, config: Net.__init__(self, config, critic=False)),
                  r"cannot be made as Name\(config, critic=False\)"),
    "no module": (NotAModule, "expected a torch.nn.Module"),
    "untrained": (made(lambda self: self.requires_grad_(False)), "no parameter that could be trained"),
    "one answer": (net(forward=lambda self, obs, ids: Net.forward(self, obs, ids)[0]),
                   r"expected \(logits, values or None\)"),
    "all actions": (net(logits=lambda self, x, ids: self.actions(x)), "one for each entry of legal_ids"),
    "no values": (net(values=lambda self, x: None), r"critic=True and gave values None"),
    "overflowing": (logits(lambda found, ids: found / 0.0), "must be finite"),
    "in place": (net(planes=lambda self, obs: Net.planes(self, obs.clamp_(max=1))),
                 "must leave its inputs as they were"),
    "noisy": (logits(lambda found, ids: found + torch.rand(())), "two passes must give the same numbers"),
    "unseeded": (made(lambda self: nn.init.normal_(self.actions.weight, generator=GENERATOR)),
                 "the same seed must give the same weights"),
    "centred": (net(logits=lambda self, x, ids: Net.logits(self, x - x.mean(0), ids)),
                "must not depend on the other rows of its batch"),
    "batch normed": (made(normed, planes=lambda self, obs: self.norm(Net.planes(self, obs))),
                     "in training mode either"),
    "by place": (net(logits=lambda self, x, ids: self.actions(x)[:, : ids.shape[1]]),
                 "must not depend on its place in the list"),
    "by width": (logits(lambda found, ids: found * ids.shape[1]), "must not depend on the padding"),
    "cut": (logits(lambda found, ids: found.detach()), "the logits must depend on the parameters"),
    "float32 only": (net(planes=lambda self, obs: obs.flatten(1).float()), "a float64 copy must work"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_network_is_told_which_rule_broke(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, sentence = BROKEN[name]
    # A network is found again by its module and name.
    monkeypatch.setattr(sys.modules[__name__], network.__name__, network, raising=False)
    with pytest.raises(ContractError, match=sentence):
        check_policy_network(network)
