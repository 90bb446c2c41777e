"""The entropy that an update costs on fixed states, measured and predicted, in float64."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from algorithms.core.distribution import MaskedCategorical
from algorithms.diagnostics.probe_set import ProbeSet
from algorithms.networks.policy_net import PolicyNet
from chess_env.move_facts import FactsAsked, move_facts_batch
from chess_env.observation import encode_batch
from chess_env.rewards import MATE_SCORE_CP, SUCCESS, make_reward
from chess_env.rules.rules import CHECKMATE, ONGOING


@dataclasses.dataclass(frozen=True)
class ProbeStates:
    """States on which an entropy change is measured; all on one device.

    Attributes:
        obs: uint8 `[M, C, 8, 8]`.
        legal_ids: int16 `[M, L]` padded with -1.
        pull: probabilities float64 `[M, L]` -> float64 `[M, L]`, the derivative of the objective of
            each state with respect to its own log-probability parameters l, as if every state had
            its own logits (tabular softmax at temperature 1); 0 on padding.
        counted: bool `[M]`, True for the states that means are taken over, at least one.
        move_facts: uint8 `[M, L, F]` of each legal move; None where the policy reads none.
    """

    obs: Tensor
    legal_ids: Tensor
    pull: Callable[[Tensor], Tensor]
    counted: Tensor
    move_facts: Tensor | None = None

    @property
    def legal(self) -> Tensor:
        """Bool `[M, L]`, True where a slot holds a move."""
        return self.legal_ids >= 0

    def logits(self, policy: PolicyNet) -> Tensor:
        """`[M, L]` of a policy on the states' device, in its dtype; they mean nothing on padding."""
        return policy(self.obs, self.legal_ids, self.move_facts)

    def mean(self, values: Tensor) -> Tensor:
        """Scalar mean of values `[M]` over the counted states."""
        return values[self.counted].mean()


class EntropyPrediction:
    """Compares a policy on some states with the same policy before an update.

    With z the logits, T the temperature and u = z'/T - z/T the change of one update, all means over
    the counted states, nats:

    - `measured`: H' - H;
    - `dh_realised`: -Cov_{a~pi}(log pi, u), the first order of H in the logits;
    - `dh_gradient`: grad H . (theta' - theta), the first order of H in the parameters;
    - `dh_tabular`: -eta / T^2 Cov_{a~pi}(log pi, pull), the effect of a gradient step of size eta on
      states that share no parameters (second-hand: Cui et al., arXiv:2505.22617, theorem 1, whose
      body we did not read; derived in reference section 3 and checked there). Under Adam eta is not
      the step in the logits: its sign and its correlation mean something, its size does not.

    Args:
        policy: before the update, in float64 (`float64_copy`).
        states: where to measure.
        temperature: T.

    Attributes:
        before: float64 `[M, L]` log-probabilities at T before the update, nats; -inf on padding.
    """

    def __init__(self, policy: PolicyNet, states: ProbeStates, temperature: float) -> None:
        self._states, self._temperature = states, temperature
        self._named = {n: p for n, p in policy.named_parameters() if p.requires_grad}
        logits = states.logits(policy)
        dist = self._distribution(logits)
        entropy = dist.entropy()
        grads = gradients_of(states.mean(entropy), list(self._named.values()))
        self._gradient = dict(zip(self._named, grads, strict=True))
        self._logits, self._entropy = logits.detach(), entropy.detach()
        # d H / d l_i where l is a shift of the log-probabilities: -pi_i (log pi_i + H).
        probs, self.before = dist.probs.detach(), dist.logprobs.detach()
        centred = torch.where(dist.legal, self.before + self._entropy[:, None], 0.0)
        self._slope = -probs * centred
        self._pull = states.pull(probs)

    def _distribution(self, logits: Tensor) -> MaskedCategorical:
        return MaskedCategorical(logits, self._states.legal, self._temperature)

    @torch.no_grad()
    def after(self, policy: PolicyNet, learning_rate: float) -> tuple[dict[str, float], Tensor]:
        """(`measured` and the three predictors of this update, nats; log-probabilities after it).

        The log-probabilities are float64 `[M, L]`, like `before`.

        Args:
            policy: the same network after the update, in float64.
            learning_rate: eta, for `dh_tabular`.
        """
        states = self._states
        logits = states.logits(policy)
        dist = self._distribution(logits)
        realised = torch.where(states.legal, logits - self._logits, 0.0) / self._temperature
        along = torch.zeros((), dtype=torch.float64, device=logits.device)
        for name, parameter in policy.named_parameters():
            if name in self._gradient:
                along += (self._gradient[name] * (parameter - self._named[name])).sum()
        tabular = states.mean((self._slope * self._pull).sum(-1)) / self._temperature**2
        changes = {
            "measured": float(states.mean(dist.entropy() - self._entropy)),
            # sum_i slope_i u_i is -Cov(log pi, u): the slopes of a state add up to 0.
            "dh_realised": float(states.mean((self._slope * realised).sum(-1))),
            "dh_gradient": float(along),
            "dh_tabular": learning_rate * float(tabular),
        }
        return changes, dist.logprobs


def gradients_of(scalar: Tensor, parameters: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Its gradient with respect to each parameter, in its shape; zeros where it does not depend on it.

    With frozen layers a whole term may depend on none: the value loss where only the head of the
    policy is trained.
    """
    if not scalar.requires_grad:
        return tuple(torch.zeros_like(parameter) for parameter in parameters)
    return torch.autograd.grad(scalar, parameters, retain_graph=True, materialize_grads=True)


def float64_copy(policy: PolicyNet) -> PolicyNet:
    """The policy in float64 throughout, apart from the one that is trained."""
    twin = copy.deepcopy(policy).double()
    for parameter in twin.parameters():
        if parameter.dim() == 4:  # this way the CPU's float64 convolutions take a fifth less time
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    twin.precision = dataclasses.replace(twin.precision, autocast=False, head_dtype="float32")
    return twin


def exact_pull(rewards: Tensor, probs: Tensor) -> Tensor:
    """float64 `[M, L]` pi A with A = r - E_pi r, from the rewards float64 `[M, L]` of all legal moves."""
    return probs * (rewards - (probs * rewards).sum(-1, keepdim=True))


def sampled_pull(slots: Tensor, credit: Tensor, probs: Tensor) -> Tensor:
    """float64 `[M, L]` sum_k c_k (1[i = a_k] - pi_i), the score-function estimate, from sampled moves.

    Args:
        slots: int64 `[M, K]` the sampled moves.
        credit: float64 `[M, K]` c, weight times advantage; 0 where not valid.
        probs: float64 `[M, L]` pi.
    """
    hit = torch.zeros_like(probs).scatter_add(-1, slots, credit)
    return hit - credit.sum(-1, keepdim=True) * probs


def exact_rewards(
    legal_ids: NDArray[np.int16],
    child_score_cp: NDArray[Any],
    reward: str | None,
    before_cp: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """Reward `[M, L]` of every legal move from the scores of the children; 0 on padding.

    Args:
        legal_ids: int16 `[M, L]`, padded with -1.
        child_score_cp: `[M, L]` score of every child from the mover's view, centipawns.
        reward: the environment's setting.
        before_cp: int64 `[M]`, the positions' own scores; None takes 0 for them, and the rewards are then right up
            to a constant of the position, which falls out of A. Where `success` is paid, which is no difference of
            values, None takes the score of the best move.
    """
    after_cp = -child_score_cp.astype(np.int64)
    legal = legal_ids >= 0
    best = np.where(legal, -after_cp, -MATE_SCORE_CP).max(axis=1, keepdims=True)
    status = np.where(after_cp == -MATE_SCORE_CP, CHECKMATE, ONGOING)
    function = make_reward(reward, has_evaluator=True)
    if before_cp is None:
        before_cp = best[:, 0] if SUCCESS in function.names else np.zeros(len(best), np.int64)
    total, _ = function(
        status.ravel(),
        False,
        np.repeat(before_cp, after_cp.shape[1]),
        after_cp.ravel(),
        (np.broadcast_to(best, after_cp.shape).ravel(), -after_cp.ravel()),
    )
    return np.where(legal, total.reshape(after_cp.shape).astype(np.float64), 0.0)


def probe_states(
    probes: ProbeSet,
    rewards: NDArray[np.float64],
    device: torch.device,
    *,
    move_facts: FactsAsked = False,
) -> ProbeStates:
    """The fixed positions as states; those with a choice of moves are counted.

    Args:
        probes: the set.
        rewards: float64 `[M, L]` of every legal move, from `exact_rewards`.
        device: where the network runs.
        move_facts: which facts of each move it reads; nothing occurred before a fixed position.
    """
    obs, facts = encode_batch(probes.positions), None
    if move_facts:
        found = move_facts_batch(probes.positions, probes.legal_ids, asked=move_facts)
        facts = torch.from_numpy(found).to(device)
    return ProbeStates(
        obs=torch.from_numpy(obs).to(device),
        legal_ids=torch.tensor(probes.legal_ids, device=device),
        pull=partial(exact_pull, torch.tensor(rewards, device=device)),
        counted=torch.tensor(probes.num_legal >= 2, device=device),
        move_facts=facts,
    )
