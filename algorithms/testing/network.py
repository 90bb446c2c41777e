"""What every policy network must hold; see `algorithms.networks.custom.Network`."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from algorithms.networks.build import build_policy
from algorithms.networks.policy_net import PolicyNet
from algorithms.networks.settings import NetworkConfig
from chess_env.custom_objects import CustomObjectError, spec_of
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


def check_policy_network(network: Any, *, config: NetworkConfig | None = None) -> None:
    """None, where a network keeps the contract of `Network`, with and without a critic.

    Args:
        network: the class, or its "module:Name"; None: the network of this project.
        config: the settings it is made with; None: small ones.

    Raises:
        ContractError: what broke: made by Name(config, critic=...), shapes, finite numbers, the same seed, two
            passes, rows apart from each other, places in the legal list, a critic's values, gradient, float64.
    """
    config = config or NetworkConfig(channels=16, blocks=1)
    spec = network if network is None or isinstance(network, str) else spec_of(network, "network")
    settings: dict[str, Any] = {**vars(config), "network": spec}
    for critic in (False, True):
        try:
            policy = build_policy(
                NetworkConfig(**settings), seed=3, device=CPU, critic=critic
            ).eval()
            _check_answer(policy, critic)
        except CustomObjectError as error:
            raise ContractError(str(error)) from error
        _check_seed(policy, NetworkConfig(**settings), critic)
        _check_rows(policy)
        _check_places(policy)
        _check_gradient(policy, critic)
        _check_float64(policy)


def states() -> tuple[Tensor, Tensor]:
    """(uint8 `[4, C, 8, 8]` planes, int16 `[4, L]` legal ids padded with -1) of four positions."""
    positions = pack_fens(list(FENS))
    legal_ids, num_legal = legal_actions_batch(positions)
    obs = torch.from_numpy(encode_batch(positions))
    return obs, torch.from_numpy(legal_ids[:, : num_legal.max()].copy())


@torch.no_grad()
def _answer(policy: PolicyNet, obs: Tensor, legal_ids: Tensor) -> tuple[Tensor, Tensor | None]:
    """Logits (0 on padding) and values."""
    logits, values = policy.logits_and_values(obs, legal_ids)
    return logits.masked_fill(legal_ids < 0, 0.0), values


def _check_answer(policy: PolicyNet, critic: bool) -> None:
    obs, legal_ids = states()
    kept = obs.clone(), legal_ids.clone()
    logits, values = _answer(policy, obs, legal_ids)
    rule(
        torch.equal(obs, kept[0]) and torch.equal(legal_ids, kept[1]),
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
    again, _ = _answer(policy, obs, legal_ids)
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
    obs, legal_ids = states()
    together, values = _answer(policy, obs, legal_ids)
    for row in range(len(obs)):
        alone, value = _answer(policy, obs[row : row + 1], legal_ids[row : row + 1])
        rule(
            _near(alone[0], together[row])
            and (values is None or value is None or _near(value[0], values[row])),
            "a row must not depend on the other rows of its batch (no batch statistics)",
        )
    extreme = obs.clone()
    extreme[1:] = 1
    training = copy.deepcopy(policy).train()
    for module in training.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.eval()
    before, after = (_answer(training, seen, legal_ids)[0][0] for seen in (obs, extreme))
    rule(
        _near(before, after),
        "a row must not depend on the other rows of its batch in training mode either (no batch statistics)",
    )


def _check_places(policy: PolicyNet) -> None:
    obs, legal_ids = states()
    logits, _ = _answer(policy, obs, legal_ids)
    order = torch.arange(legal_ids.shape[1]).flip(0)
    rule(
        _near(_answer(policy, obs, legal_ids[:, order])[0], logits[:, order]),
        "a move's logit must not depend on its place in the list of legal moves: gather it by its action id",
    )
    padded = nn.functional.pad(legal_ids, (0, 5), value=-1)
    rule(
        _near(_answer(policy, obs, padded)[0][:, : legal_ids.shape[1]], logits),
        "a move's logit must not depend on the padding of the list of legal moves",
    )


def _check_gradient(policy: PolicyNet, critic: bool) -> None:
    learner = copy.deepcopy(policy)
    obs, legal_ids = states()
    outputs = learner.outputs(obs, legal_ids, 1.0)
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
    obs, legal_ids = states()
    twin = copy.deepcopy(policy).double()
    try:
        logits, values = _answer(twin, obs, legal_ids)
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
