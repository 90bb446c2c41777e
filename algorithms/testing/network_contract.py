"""The contract of every policy network; see `algorithms.networks.policy_net.Network`."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from algorithms.networks.build import build_policy
from algorithms.networks.policy_net import PolicyNet
from algorithms.networks.settings import NetworkConfig
from chess_env.custom_objects import CustomObjectError, spec_of
from chess_env.move_facts import FactsAsked, facts_asked, move_facts_batch
from chess_env.observation import encode_batch
from chess_env.rules.fen import pack_fens
from chess_env.rules.rules import legal_actions_batch
from chess_env.testing import ContractError, rule

FENS = (
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 90 80",
    "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1",
)
CPU = torch.device("cpu")


class States(NamedTuple):
    """Inputs of a network, N positions.

    Attributes:
        obs: uint8 `[N, C, 8, 8]` planes.
        legal_ids: int16 `[N, L]` padded with -1.
        move_facts: uint8 `[N, L, F]`.
    """

    obs: Tensor
    legal_ids: Tensor
    move_facts: Tensor


def check_policy_network(network: Any, *, config: NetworkConfig | None = None) -> None:
    """Checks that a network keeps the contract of `Network`, with and without a critic.

    Args:
        network: the class, its "module:Name", or the name of a network of this project; None: that of `config`.
        config: the settings it is made with; None: those of the smallest size.

    Raises:
        ContractError: what broke: made by Name(config, critic=...), shapes, finite numbers, the same seed, two
            passes, rows apart from each other, places in the legal list, the facts of the moves where it reads
            them, a critic's values, gradient, float64.
    """
    config = config or NetworkConfig(size="tiny")
    if network is not None:
        spec = network if isinstance(network, str) else spec_of(network, "network")
        config = dataclasses.replace(config, network=spec)
    for critic in (False, True):
        try:
            policy = build_policy(config, seed=3, device=CPU, critic=critic).eval()
            _check_answer(policy, critic)
        except CustomObjectError as error:
            raise ContractError(str(error)) from error
        _check_seed(policy, config, critic)
        _check_rows(policy)
        _check_places(policy)
        _check_facts(policy)
        _check_gradient(policy, critic)
        _check_float64(policy)


def states(asked: FactsAsked = True) -> States:
    """Four positions with their legal moves and the facts asked for."""
    positions = pack_fens(list(FENS))
    legal_ids, num_legal = legal_actions_batch(positions)
    legal_ids = legal_ids[:, : num_legal.max()].copy()
    facts = move_facts_batch(positions, legal_ids, asked=asked)
    return States(*map(torch.from_numpy, (encode_batch(positions), legal_ids, facts)))


@torch.no_grad()
def _answer(policy: PolicyNet, states: States) -> tuple[Tensor, Tensor | None]:
    """Logits (0 on padding) and values."""
    facts = states.move_facts if policy.reads_move_facts else None
    logits, values = policy.logits_and_values(states.obs, states.legal_ids, facts)
    return logits.masked_fill(states.legal_ids < 0, 0.0), values


def _check_answer(policy: PolicyNet, critic: bool) -> None:
    asked = states(policy.reads_move_facts or True)
    logits, values = _answer(policy, asked)
    rule(
        all(map(torch.equal, asked, states(policy.reads_move_facts or True))),
        "the network must leave its inputs as they were",
    )
    rule(
        logits.dtype == torch.float32 and bool(logits.isfinite().all()),
        f"logits of legal moves must be finite and float32, as the parameters are; they are {logits.dtype}",
    )
    rule(
        (values is not None) == critic,
        "values must be there with critic=True, and None without",
    )
    rule(
        values is None or (values.dtype == torch.float32 and bool(values.isfinite().all())),
        "values must be finite and float32",
    )
    again, _ = _answer(policy, asked)
    rule(
        torch.equal(again, logits),
        "in evaluation mode two passes must give the same numbers: a policy that is random beside its sampling "
        "makes every ratio wrong",
    )


def _check_seed(policy: PolicyNet, config: NetworkConfig, critic: bool) -> None:
    twin = build_policy(config, seed=3, device=CPU, critic=critic).state_dict()
    rule(
        all(torch.equal(value, twin[name]) for name, value in policy.state_dict().items()),
        "the same seed must give the same weights: draw them from torch's global generator",
    )


def _check_rows(policy: PolicyNet) -> None:
    asked = states(policy.reads_move_facts or True)
    together, values = _answer(policy, asked)
    for row in range(len(asked.obs)):
        alone, value = _answer(policy, States(*(each[row : row + 1] for each in asked)))
        rule(
            _near(alone[0], together[row])
            and (values is None or value is None or _near(value[0], values[row])),
            "a row must not depend on the other rows of its batch (no batch statistics)",
        )
    extreme = States(asked.obs.clone(), asked.legal_ids, asked.move_facts.clone())
    extreme.obs[1:] = 1
    extreme.move_facts[1:] = 1
    training = copy.deepcopy(policy).train()
    for module in training.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.eval()
    before, after = (_answer(training, seen)[0][0] for seen in (asked, extreme))
    rule(
        _near(before, after),
        "a row must not depend on the other rows of its batch in training mode either (no batch statistics)",
    )


def _check_places(policy: PolicyNet) -> None:
    obs, legal_ids, facts = asked = states(policy.reads_move_facts or True)
    logits, values = _answer(policy, asked)
    order = torch.arange(legal_ids.shape[1]).flip(0)
    turned, value = _answer(policy, States(obs, legal_ids[:, order], facts[:, order]))
    rule(
        _near(turned, logits[:, order]),
        "a move's logit must not depend on its place in the list of legal moves: gather it by its action id",
    )
    ids = nn.functional.pad(legal_ids, (0, 5), value=-1)
    longer, padded = _answer(policy, States(obs, ids, nn.functional.pad(facts, (0, 0, 0, 5))))
    rule(
        _near(longer[:, : legal_ids.shape[1]], logits),
        "a move's logit must not depend on the padding of the list of legal moves",
    )
    rule(
        values is None
        or (
            value is not None
            and _near(value, values)
            and padded is not None
            and _near(padded, values)
        ),
        "a value must depend neither on the order of the list of legal moves nor on its padding",
    )


def _check_facts(policy: PolicyNet) -> None:
    if not policy.reads_move_facts:
        return
    obs, legal_ids, facts = asked = states(policy.reads_move_facts or True)
    try:
        policy.outputs(obs, legal_ids, 1.0)
        refused = False
    except ValueError:
        refused = True
    rule(refused, "a network that reads move facts must refuse to answer without them")
    # First weights may be 0 where the facts enter, so it is asked after a step in some direction.
    moved = copy.deepcopy(policy)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in moved.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    high = torch.tensor(
        [fact.high for fact in facts_asked(policy.reads_move_facts)], dtype=torch.uint8
    )
    opposite = States(obs, legal_ids, high - facts)
    rule(
        not _near(_answer(moved, asked)[0], _answer(moved, opposite)[0]),
        "the network says reads_move_facts = True, and its logits do not depend on the facts: read them in forward, "
        "or leave the attribute out",
    )


def _check_gradient(policy: PolicyNet, critic: bool) -> None:
    learner = copy.deepcopy(policy)
    obs, legal_ids, facts = states(policy.reads_move_facts or True)
    outputs = learner.outputs(obs, legal_ids, 1.0, facts if policy.reads_move_facts else None)
    loss = -outputs.dist.gather(torch.tensor([[3], [7], [2], [11]])).sum()
    rule(loss.requires_grad, "the logits must depend on the parameters")
    if outputs.values is not None:
        rule(outputs.values.requires_grad, "the values must depend on the parameters")
        loss = loss + (outputs.values - 1).square().sum()
    loss.backward()
    gradients = [p.grad for p in learner.parameters() if p.grad is not None]
    rule(
        all(bool(g.isfinite().all()) for g in gradients) and any(bool(g.any()) for g in gradients),
        "the gradient must be finite and not 0 everywhere",
    )


def _check_float64(policy: PolicyNet) -> None:
    twin = copy.deepcopy(policy).double()
    try:
        logits, values = _answer(twin, states(twin.reads_move_facts or True))
    except RuntimeError as error:
        raise ContractError(
            "a float64 copy must work, the diagnostics compute in it: cast the planes to the dtype of a "
            f"parameter; it raised {error}"
        ) from error
    rule(
        logits.dtype == torch.float64 and (values is None or values.dtype == torch.float64),
        f"a float64 copy must answer in float64, it gave {logits.dtype}: cast the planes to the dtype of a parameter",
    )


def _near(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, rtol=1e-4, atol=1e-5)
