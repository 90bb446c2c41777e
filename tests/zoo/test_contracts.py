"""The zoo and the network keep the public contracts; whatever breaks one rule is told which."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import nn

import algorithms
from algorithms.core.algorithm import Controls
from algorithms.testing import check_algorithm, check_policy_network
from chess_env.moves import NUM_ACTIONS
from chess_env.observation import NUM_PLANES
from chess_env.testing import ContractError
from tests.zoo.plain import Plain


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", algorithms.PRESETS)
def test_every_preset_keeps_the_contract_of_an_algorithm(name: str, seed: int) -> None:
    check_algorithm(algorithms.PRESETS[name][0], seed=seed)


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
        return change(dist, batch, PLAIN.policy_loss(dist, batch, advantages, controls))

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
        (altered(gate=lambda self, d, b, a: a[:, :1]), "gate must give None, or a finite share"),
        (advantages(lambda b, a: a * _numbered(a)), "must not depend on the order of the boards"),
        (advantages(_first_member_only), "must follow their samples when the members"),
        (loss(lambda d, b, x: -x), "the algorithm must learn"),
    ],
)  # fmt: skip
def test_a_broken_algorithm_is_told_which_rule_broke(algorithm: Any, sentence: str) -> None:
    with pytest.raises(ContractError, match=sentence):
        check_algorithm(algorithm)


def test_this_project_s_network_keeps_the_contract() -> None:
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


class NoCritic(Net):
    def __init__(self, config: Any) -> None:
        super().__init__(config, critic=False)


class NotAModule:
    def __init__(self, config: Any, *, critic: bool) -> None: ...


class Untrained(Net):
    def __init__(self, config: Any, *, critic: bool) -> None:
        super().__init__(config, critic=critic)
        self.requires_grad_(False)


class OneAnswer(Net):
    def forward(self, obs: Any, legal_ids: Any) -> Any:
        return super().forward(obs, legal_ids)[0]


class AllActions(Net):
    def logits(self, planes: Any, legal_ids: Any) -> Any:
        return self.actions(planes)


class NoValues(Net):
    def values(self, planes: Any) -> Any:
        return None


class Overflowing(Net):
    def logits(self, planes: Any, legal_ids: Any) -> Any:
        return super().logits(planes, legal_ids) / 0.0


class InPlace(Net):
    def planes(self, obs: Any) -> Any:
        return super().planes(obs.clamp_(max=1))


class Noisy(Net):
    def logits(self, planes: Any, legal_ids: Any) -> Any:
        return super().logits(planes, legal_ids) + torch.rand(())


class Unseeded(Net):
    def __init__(self, config: Any, *, critic: bool) -> None:
        super().__init__(config, critic=critic)
        nn.init.normal_(self.actions.weight, generator=GENERATOR)


GENERATOR = torch.Generator().manual_seed(0)


class Centred(Net):
    def logits(self, planes: Any, legal_ids: Any) -> Any:
        return super().logits(planes - planes.mean(0), legal_ids)


class BatchNormed(Net):
    def __init__(self, config: Any, *, critic: bool) -> None:
        super().__init__(config, critic=critic)
        self.norm = nn.BatchNorm1d(NUM_PLANES * 64)

    def planes(self, obs: Any) -> Any:
        return self.norm(super().planes(obs))


class ByPlace(Net):
    def logits(self, planes: Any, legal_ids: Any) -> Any:
        return self.actions(planes)[:, : legal_ids.shape[1]]


class ByWidth(Net):
    def logits(self, planes: Any, legal_ids: Any) -> Any:
        return super().logits(planes, legal_ids) * legal_ids.shape[1]


class Cut(Net):
    def logits(self, planes: Any, legal_ids: Any) -> Any:
        return super().logits(planes, legal_ids).detach()


class Float32Only(Net):
    def planes(self, obs: Any) -> Any:
        return obs.flatten(1).float()


def test_the_plain_network_that_the_broken_ones_are_made_of_is_right() -> None:
    check_policy_network(Net)


@pytest.mark.parametrize(
    ("network", "sentence"),
    [
        (NoCritic, r"cannot be made as Name\(config, critic=False\)"),
        (NotAModule, "expected a torch.nn.Module"),
        (Untrained, "no parameter that could be trained"),
        (OneAnswer, r"expected \(logits, values or None\)"),
        (AllActions, "one for each entry of legal_ids"),
        (NoValues, r"critic=True and gave values None"),
        (Overflowing, "must be finite"),
        (InPlace, "must leave its inputs as they were"),
        (Noisy, "two passes must give the same numbers"),
        (Unseeded, "the same seed must give the same weights"),
        (Centred, "must not depend on the other rows of its batch"),
        (BatchNormed, "in training mode either"),
        (ByPlace, "must not depend on its place in the list"),
        (ByWidth, "must not depend on the padding"),
        (Cut, "the logits must depend on the parameters"),
        (Float32Only, "a float64 copy must work"),
    ],
)
def test_a_broken_network_is_told_which_rule_broke(network: Any, sentence: str) -> None:
    with pytest.raises(ContractError, match=sentence):
        check_policy_network(network)
