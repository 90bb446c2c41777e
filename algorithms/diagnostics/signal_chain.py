"""Where along an update the learning signal is lost: every stage is compared with the true policy gradient.

All legal moves of a position can be scored, so the exact policy gradient of a batch's states is known. Each stage of
the update has a direction of its own in the parameters: the sampled moves, their rewards, their advantages, the policy
loss, the whole loss, the step. The cosine between it and the exact gradient is the share of the best possible
first-order improvement, for steps of equal length, that is left after the stage; the ratio of two successive cosines
is what the later stage keeps.

The names of the measurements and their formulas stand in docs/metrics.md.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from algorithms.core.advantages import group_relative
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.distribution import MaskedCategorical
from algorithms.diagnostics.entropy_prediction import exact_rewards, sampled_pull
from algorithms.networks.build import trained_parameters
from algorithms.networks.policy_net import Outputs, PolicyNet
from algorithms.rollouts.sampling import positions_of
from algorithms.updates.learner import Learner, WholePasses
from algorithms.updates.training_batch import (
    Targets,
    TrainingBatch,
    make_training_batch,
    with_learner_logprobs,
)
from algorithms.updates.update import loss_of
from chess_env.evaluators.protocol import Evaluator, scores_of
from chess_env.rewards import DEFAULT_REWARD, MATE_SCORE_CP, SUCCESS, parse_sum
from chess_env.rules.rules import apply_batch

NUM_STATES = 24
"""States of a batch that are looked at, at most. What is an identity holds on any number of them."""

NUM_HELDOUT = 64
"""Held-out positions on which the gain of a step is measured."""

REDRAWS = 2
"""Times that the moves are drawn again, for what sampling alone costs."""

LONG_STEP = 16
"""Times the step whose gain tells whether the step is short."""

FIRST_SHARE = 0.25
"""Weight of the first step's losses in the brief form; the middle step's have the rest, for a clip soon takes hold."""

VANISHED = 0.2
"""Spread of the moves' worth under the policy, beside the regret that is left, below which there is no direction."""


class Audit:
    """Scores every legal move apart from the run's reward path.

    Args:
        make: makes a second evaluator, which the run does not ask, when the first update is measured.
        reward: the run's reward setting.

    Attributes:
        worth: the reward that moves are worth.
        by_move: whether the run's reward says of a single move what it is worth, and not of a game alone.
    """

    def __init__(self, make: Callable[[], Evaluator], reward: str | None) -> None:
        self._make, self._reward = make, reward or DEFAULT_REWARD
        self._evaluator: Evaluator | None = None
        self.by_move = set(parse_sum(self._reward)) != {"outcome"}
        # A run that is not paid for nearer mates is not judged by them, nor one that is to succeed by more than that.
        self.worth = DEFAULT_REWARD if "mate_delta" in self._reward else "win_prob_delta"
        if self._reward == SUCCESS:
            self.worth = SUCCESS

    def close(self) -> None:
        """Closes the evaluator; a later question makes another one."""
        if self._evaluator is not None:
            self._evaluator.close()
            self._evaluator = None

    def truth(
        self, positions: NDArray[np.uint64], legal_ids: NDArray[np.int16], ended: NDArray[np.bool_]
    ) -> tuple[Tensor, Tensor]:
        """(Worth of every legal move, by winning probability; what the run's reward would pay), float64 `[n, L]`.

        Args:
            positions: uint64 `[n, 8]`, packed.
            legal_ids: int16 `[n, L]` padded with -1.
            ended: bool `[n, L]` True for moves that are known to have ended their game.
        """
        legal = legal_ids >= 0
        children = apply_batch(np.repeat(positions, legal.sum(1), axis=0), legal_ids[legal])
        if self._evaluator is None:
            self._evaluator = self._make()
        asked = np.concatenate([children, positions])
        scores = scores_of(self._evaluator, asked).astype(np.int64)
        child_cp = np.zeros(legal_ids.shape, np.int64)
        child_cp[legal] = -scores[: len(children)]
        # What ended a game and is no mate was a draw, which the position alone may not show (repetition, 50 moves).
        child_cp[ended & (child_cp < MATE_SCORE_CP)] = 0
        worth, paid = (
            torch.from_numpy(exact_rewards(legal_ids, child_cp, reward, scores[len(children) :]))
            for reward in (self.worth, self._reward)
        )
        return worth, paid


class HeldoutMoves(NamedTuple):
    """Positions that no run starts from, with the worth of every legal move.

    Attributes:
        obs: uint8 `[M, C, 8, 8]`.
        legal_ids: int16 `[M, L]` padded with -1.
        move_facts: uint8 `[M, L, F]`; None where the network reads none.
        worth: float64 `[M, L]`, reward units, up to a constant of the position; 0 on padding.
    """

    obs: Tensor
    legal_ids: Tensor
    move_facts: Tensor | None
    worth: Tensor

    def rows(self, index: Tensor) -> HeldoutMoves:
        """The positions of an int64 index `[m]`."""
        facts = None if self.move_facts is None else self.move_facts[index]
        return HeldoutMoves(self.obs[index], self.legal_ids[index], facts, self.worth[index])

    def objective(self, policy: PolicyNet, temperature: float) -> tuple[Tensor, Tensor]:
        """(mean expected worth of the policy's moves, what it loses against the best ones), scalars, reward units."""
        dist = policy.outputs(self.obs, self.legal_ids, temperature, self.move_facts).dist
        expected = (dist.probs.double() * self.worth).sum(-1)
        best = self.worth.masked_fill(~dist.legal, -torch.inf).amax(-1)
        return expected.mean(), (best - expected.detach()).mean()


class _Pass:
    """One forward pass at some states, from which losses and any number of directions are taken.

    Args:
        policy: that looks.
        states: what it looks at.
    """

    def __init__(self, policy: PolicyNet, states: FlatBatch) -> None:
        self._policy = policy
        self._made = policy.logits_and_values(states.obs, states.legal_ids, states.move_facts)
        logits, values = self._made
        self._logits = logits.detach().requires_grad_()
        self._values = None if values is None else values.detach().requires_grad_()

    def dist(self, states: FlatBatch, temperature: float) -> MaskedCategorical:
        """The policy at the states."""
        return self._policy.dist_of(self._logits, states.legal, temperature)

    def outputs(self, policy: PolicyNet, states: FlatBatch) -> Outputs:
        """As of `Passes`: what a loss reads; its gradient ends here."""
        return Outputs(self.dist(states, states.temperature), self._values)

    def backward(self, policy: PolicyNet, loss: Tensor) -> None:
        """As of `Passes`; `pull` is asked instead."""
        raise NotImplementedError("directions are taken from a pass, and no gradient is added")

    def pull(self, loss: Tensor) -> tuple[Tensor, Tensor | None]:
        """Minus the gradient of a loss at the logits `[n, L]` and the values `[n]`."""
        leaves = [leaf for leaf in (self._logits, self._values) if leaf is not None]
        found = torch.autograd.grad(
            loss, leaves, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        return -found[0], -found[1] if len(found) > 1 else None

    def reached(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        """Those of the parameters that the logits depend on."""
        logits, _ = self._made
        found = torch.autograd.grad(logits.sum(), parameters, retain_graph=True, allow_unused=True)
        return [
            each for each, gradient in zip(parameters, found, strict=True) if gradient is not None
        ]

    def directions(
        self,
        parameters: Sequence[Tensor],
        pulls: Sequence[Tensor],
        values_pull: Tensor | None = None,
    ) -> list[Tensor]:
        """float64 `[parameters in one axis]` for each pull `[n, L]` at the logits; the last pulls at the values too."""
        logits, values = self._made
        kept, found = list[Tensor](), list[Tensor]()
        for pull in pulls:
            # As a sum: to give torch the weights of outputs makes it import sympy, for half a second.
            along, at_values = (logits * pull.to(logits.dtype)).sum(), False
            if pull is pulls[-1] and values is not None and values_pull is not None:
                along, at_values = along + (values * values_pull.to(values.dtype)).sum(), True
            unit = pull / pull.norm().clamp(
                min=torch.finfo(pull.dtype).tiny
            )  # 0 where nothing pulls
            # In a sound run most stages pull as the one before them does: a pass is spared.
            same = next((k for k, one in enumerate(kept) if _parallel(one, unit)), None)
            kept.append(unit)
            if same is not None and not at_values:
                found.append(found[same] * (pull.norm() / pulls[same].norm()).nan_to_num())
                continue
            gradients = torch.autograd.grad(
                along, parameters, retain_graph=True, materialize_grads=True
            )
            found.append(torch.cat([each.reshape(-1) for each in gradients]).double())
        return found


class _Replay:
    """Textbook Adam (Kingma and Ba, arXiv 1412.6980, algorithm 1), on the gradients that the run's optimizer is given.

    Args:
        learner: before its first step.
        parameters: that are to be trained by the run's settings.
        rate: step size by the run's schedule.

    Attributes:
        before: `[parameters in one axis]` where the parameters were.
        moved: where they should be by now.
    """

    def __init__(self, learner: Learner, parameters: Sequence[Tensor], rate: float) -> None:
        places = {id(each): number for number, each in enumerate(learner.trained)}
        known = learner.optimizer.state_dict()["state"]
        states = [known.get(places.get(id(each), -1), {}) for each in parameters]
        self._parameters, self._rate = parameters, rate
        self._max_grad_norm = learner.settings.max_grad_norm
        self.before = self.moved = _flat(parameters)
        self._first, self._second = (
            _flat(
                [
                    state.get(name, torch.zeros_like(each))
                    for state, each in zip(states, parameters, strict=True)
                ]
            )
            for name in ("exp_avg", "exp_avg_sq")
        )
        self._steps = max(int(state.get("step", 0)) for state in states)

    def step(self) -> None:
        """The step on the gradients that the run's parameters have now, cut to their largest norm."""
        gradient = _gradients(self._parameters)
        gradient = gradient * (self._max_grad_norm / (gradient.norm() + 1e-6)).clamp(max=1.0)
        self._steps += 1
        self._first = 0.9 * self._first + 0.1 * gradient
        self._second = 0.999 * self._second + 0.001 * gradient.square()
        first, second = 1 - 0.9**self._steps, 1 - 0.999**self._steps
        size = (self._second / second).sqrt() + 1e-8
        self.moved = self.moved - self._rate * (self._first / first) / size


@dataclasses.dataclass(frozen=True, eq=False)
class SignalChain:
    """What updates are measured against. It chooses them, and a `Look` measures one.

    Attributes:
        audit: knows what moves are worth.
        heldout: positions on which the gain of a step is measured.
        seed: of the updates, states, positions and moves that are drawn.
        full: look at the losses at every step of the optimizer, and not at the first and the middle one alone.
    """

    audit: Audit
    heldout: HeldoutMoves
    seed: int
    full: bool = False

    def measures(self, update: int, interval: int) -> bool:
        """Whether this update (from 0) is measured: one of every `interval`, drawn so that nothing periodic hides."""
        window, place = divmod(update, interval)
        return place == random.Random(f"{self.seed} {window}").randrange(interval)


class Look:
    """The measurement of one update: it is made before the update, told of each step, and asked for its metrics.

    Args:
        chain: what it is measured against.
        learner: not yet updated on `batch`.
        batch: one rollout with at least one valid sample.
        targets: from `make_targets`.
        temperature: at which the rollout was to be sampled.
        update: its number, from 0.
        rate: step size by the run's schedule.
    """

    def __init__(
        self,
        chain: SignalChain,
        learner: Learner,
        batch: RolloutBatch,
        targets: Targets,
        *,
        temperature: float,
        update: int,
        rate: float,
    ) -> None:
        generator = torch.Generator(batch.obs.device)
        generator.manual_seed(random.Random(f"{chain.seed}.{update}").getrandbits(63))
        self._chain, self._run, self._temperature = chain, learner, temperature
        # What measures is a copy, on which nothing hangs that may stop the run's gradients.
        self._twin = dataclasses.replace(
            learner, policy=copy.deepcopy(learner.policy).requires_grad_(True), passes=WholePasses()
        )
        frozen = learner.settings.frozen_layers
        self._copies = trained_parameters(self._twin.policy, frozen)
        named = dict(learner.policy.named_parameters())
        trained = [
            named[name] for name, p in self._twin.policy.named_parameters() if p.requires_grad
        ]
        self._trained = trained
        self._replay = _Replay(learner, trained, rate)
        self._taken, self._gradient_error = 0, 0.0
        self._found: dict[str, float] = {}
        self._points: list[tuple[float, list[Tensor]]] = []
        drawn = torch.randperm(len(chain.heldout.obs), generator=generator, device=batch.obs.device)
        self._heldout = chain.heldout.rows(drawn[:NUM_HELDOUT])
        self._look_at_heldout()
        self._look_at_batch(batch, targets, generator)

    def _look_at_heldout(self) -> None:
        objective, regret = self._heldout.objective(self._twin.policy, self._temperature)
        gradients = torch.autograd.grad(objective, self._copies, materialize_grads=True)
        self._objective, self._regret = objective.item(), regret.item()
        self._gradient = _flat(gradients)

    def _look_at_batch(
        self, batch: RolloutBatch, targets: Targets, generator: torch.Generator
    ) -> None:
        """Everything up to the first step."""
        self._states, rows = _some_states(self._twin, batch, targets, generator)
        states, flat = self._states, self._states.flat
        rewards = torch.where(flat.valid, batch.flatten(batch.rewards)[rows].double(), 0.0)
        worth, paid = self._truth(batch, rows)
        seen = _Pass(self._twin.policy, flat)
        with torch.no_grad():
            dist = seen.dist(flat, self._temperature)
        width = flat.legal_ids.shape[-1]
        recorded = batch.old_legal_logprobs.reshape(-1, width)[rows]  # `flat` may be relabelled
        probs, behaviour = dist.probs.double(), recorded.double().exp()
        expected, centred = _centred(probs, worth, flat.legal)
        spread = (probs * centred.square()).sum(-1).sqrt().mean()
        left = centred.masked_fill(~flat.legal, -torch.inf).amax(-1).mean()
        self._found["signal/data"] = float(left) / self._regret
        self._found["signal/explore"] = float(spread) / self._regret
        if not float(spread) > VANISHED * self._regret:
            return
        every = batch.samples == "all_legal"
        counted = flat.valid.double()
        drawn = counted / counted.sum(-1, keepdim=True)
        if every:
            drawn = torch.where(flat.valid, flat.old_logprobs.double().exp(), 0.0)

        def sampled(values: Tensor, slots: Tensor, mean: Tensor) -> Tensor:
            """Moves' values less their mean; those of a single move less what the policy expects."""
            own = (drawn * values).sum(-1, keepdim=True)
            baseline = torch.where(counted.sum(-1, keepdim=True) > 1, own, mean)
            return sampled_pull(slots, drawn * (values - baseline), probs)

        pulls = [
            probs * centred,
            behaviour * _centred(behaviour, worth, flat.legal)[1],
            sampled(worth.gather(-1, flat.slots), flat.slots, expected),
            sampled(rewards, flat.slots, (probs * paid).sum(-1, keepdim=True)),
        ]
        redraws = (
            [] if every else [dist.sample(flat.slots.shape[-1], generator) for _ in range(REDRAWS)]
        )
        loss = loss_of(dataclasses.replace(self._twin, passes=seen), states)
        weights = states.weights.double() * loss.advantages.double()
        if every:  # the loss weighs each move with its probability
            weights = weights * probs.gather(-1, flat.slots)
        weights = torch.where(
            flat.valid, weights if loss.gate is None else weights * loss.gate, 0.0
        )
        pulls.append(sampled_pull(flat.slots, weights, probs))
        mean_paid = (probs * paid).sum(-1, keepdim=True)
        pulls.append(sampled(paid.gather(-1, flat.slots), flat.slots, mean_paid))
        pulls += [sampled(worth.gather(-1, slots), slots, expected) for slots in redraws]
        self._reached = seen.reached(self._copies)
        losses, values_pull = self._pulls(seen)
        self._true, *found = seen.directions(self._reached, [*pulls, *losses], values_pull)
        self._points.append((1.0 if self._chain.full else FIRST_SHARE, found[-3:]))
        shares = [float(_cosine(each, self._true)) for each in found[:-2]]
        sampler, draw, reward, credit, named, *redrawn, self._built = shares
        # A correction is what makes up for another sampler.
        drawn_by = 1.0 if states.correction is not None else sampler
        metrics = {
            "signal/samples": counted.sum(-1).mean().item(),
            "signal/draw": draw,
            "signal/draw_expected": sum(redrawn) / len(redrawn) if redrawn else 1.0,
            "signal/credit": _quotient(credit, reward),
            "signal/ratio": drawn_by
            if self._twin.algorithm.needs().fits_rewards
            else min(drawn_by, _quotient(self._built, credit)),
        }
        # An opponent answers before the reward is paid, or only the game's end is: no single move decides it.
        if batch.alternating and self._chain.audit.by_move:
            metrics["signal/reward"] = _quotient(reward, draw)
            metrics["signal/reward_expected"] = _quotient(named, draw)
        else:
            metrics["signal/credit"] = _quotient(credit, draw)
        self._found |= metrics | _agreement(self._twin, batch, targets)

    def _truth(self, batch: RolloutBatch, rows: Tensor) -> tuple[Tensor, Tensor]:
        """As of `Audit.truth`, at the states `rows` of the batch."""
        flat = self._states.flat
        over = (batch.flatten(batch.terminated)[rows] & flat.valid).int()
        ended = torch.zeros(flat.legal_ids.shape, dtype=torch.int32, device=over.device)
        ended.scatter_add_(-1, flat.slots, over)
        positions = positions_of(flat.obs, batch.side.reshape(-1)[rows]).cpu().numpy()
        legal_ids = flat.legal_ids.cpu().numpy()
        found = self._chain.audit.truth(
            positions.view(np.uint64), legal_ids, (ended > 0).cpu().numpy()
        )
        worth, paid = (each.to(flat.obs.device) for each in found)
        return worth, paid

    def _pulls(self, seen: _Pass) -> tuple[list[Tensor], Tensor | None]:
        """Pulls of the policy loss, of the same without clip and gate, and of the whole loss (at the values too)."""
        states, flat = self._states, self._states.flat
        loss = loss_of(dataclasses.replace(self._twin, passes=seen), states)
        policy, _ = seen.pull(loss.policy)
        whole, values_pull = seen.pull(loss.total)
        if self._twin.algorithm.needs().fits_rewards:  # such a loss is not made of the advantages
            return [policy, policy, whole], values_pull
        probs, logprobs = loss.dist.probs.detach(), loss.dist.gather(flat.slots).detach()
        grown = logprobs if self._twin.algorithm.needs().all_moves else logprobs - flat.old_logprobs
        # A log-probability moves by 1 / temperature of what its logit does.
        weights = states.policy_weights * loss.advantages * grown.exp() / flat.temperature
        plain = sampled_pull(
            flat.slots, torch.where(flat.valid, weights, 0.0).double(), probs.double()
        )
        return [policy, plain, whole], values_pull

    def _add_point(self, weight: float) -> None:
        """Looks at the losses where the run's parameters are now, for this share of the steps."""
        self._twin.policy.load_state_dict(self._run.policy.state_dict())
        seen = _Pass(self._twin.policy, self._states.flat)
        pulls, values_pull = self._pulls(seen)
        self._points.append((weight, seen.directions(self._reached, pulls, values_pull)))

    def step(self, training: TrainingBatch, accumulated: Sequence[Tensor]) -> None:
        """Is told of a step before it is taken, when the run's parameters have their gradients.

        Args:
            training: the states that the run learns from.
            accumulated: int64 indices of the minibatches whose gradients add up to the step's.
        """
        if self._taken == 0:
            self._gradient_error = self._compare_gradients(training, accumulated)
        states = sum(len(index) for index in accumulated)
        steps = -(-training.flat.num_states // states) * self._run.algorithm.update_epochs
        if self._points and self._taken and (self._chain.full or self._taken == steps // 2):
            self._add_point(1.0 if self._chain.full else 1.0 - FIRST_SHARE)
        self._replay.step()
        self._taken += 1

    def _compare_gradients(self, training: TrainingBatch, accumulated: Sequence[Tensor]) -> float:
        """Relative distance of the run's gradients from those that the same loss has at the copy."""
        drawn = training.num_drawn if len(accumulated) > 1 else None
        total = torch.zeros_like(self._replay.before)
        for index in accumulated:
            minibatch = training.select(index)
            share = 1.0 if drawn is None else minibatch.num_drawn / drawn
            loss = loss_of(self._twin, minibatch).total * share
            total += _flat(torch.autograd.grad(loss, self._copies, materialize_grads=True))
        return _relative_error(_gradients(self._trained), total)

    @torch.no_grad()
    def _gain(self, step: Tensor) -> float:
        """What the held-out objective gains by a step, as a share of the regret that is left."""
        moved = (self._replay.before + step).split([each.numel() for each in self._copies])
        for parameter, part in zip(self._copies, moved, strict=True):
            parameter.copy_(part.view_as(parameter))
        objective, _ = self._heldout.objective(self._twin.policy, self._temperature)
        return (objective.item() - self._objective) / self._regret

    def metrics(self) -> dict[str, float]:
        """`signal/...` of the update, which is over: docs/metrics.md."""
        found = dict(self._found)
        step, wanted = (
            to - self._replay.before for to in (_flat(self._trained), self._replay.moved)
        )
        found["signal/step"] = 1.0 - max(_relative_error(step, wanted), self._gradient_error)
        found["signal/vanished"] = float("signal/draw" not in found)
        if found["signal/vanished"]:
            return found
        policy, plain, whole = (
            torch.stack([weight * point[place] for weight, point in self._points]).sum(0)
            for place in range(3)
        )
        kept = float(_cosine(policy, self._true))
        found |= {
            "signal/passes": _quotient(kept, self._built),
            "signal/clip": _quotient(float(policy @ self._true), float(plain @ self._true)),
            "signal/objective": _quotient(float(_cosine(whole, self._true)), kept),
        }
        along = (step.double() @ self._gradient.double()).item() / self._regret
        return found | {
            "signal/gain": along,
            "signal/gain_measured": self._gain(step),
            "signal/gain_long": self._gain(LONG_STEP * step),
        }


def _agreement(learner: Learner, batch: RolloutBatch, targets: Targets) -> dict[str, float]:
    """`signal/advantages`; empty where the method's advantages are not those of groups, or a term changes them."""
    scale = learner.algorithm.needs().group_scale
    if scale is None or batch.form != "positions" or learner.regularizer.shapes_targets:
        return {}
    own = group_relative(batch.rewards.double(), batch.valid, batch.group_axis, scale)[batch.valid]
    used = targets.advantages.double()[batch.valid]
    return {"signal/advantages": float(_cosine(own, used))} if own.norm() > 0 else {}


def _some_states(
    learner: Learner, batch: RolloutBatch, targets: Targets, generator: torch.Generator
) -> tuple[TrainingBatch, Tensor]:
    """(Drawn states, or whole games, as the update sees them; int64 `[n]` their rows in `batch.flat()`)."""
    algorithm, device = learner.algorithm, batch.obs.device
    uniforms = torch.Generator().manual_seed(0)  # apart from the run's, which is not to move
    training = make_training_batch(algorithm, batch, targets, uniforms)
    used = batch.flatten(batch.valid).any(-1).nonzero().squeeze(-1)
    games = training.flat.games
    if not training.whole_games:
        games = torch.arange(len(games), device=device)
    numbers, sizes = games.unique(return_counts=True)
    order = torch.randperm(len(numbers), generator=generator, device=device)
    fits = max(1, int((sizes[order].cumsum(0) <= NUM_STATES).sum()))
    index = torch.isin(games, numbers[order[:fits]]).nonzero().squeeze(-1)
    states = training.select(index)
    states, _ = with_learner_logprobs(learner, states, NUM_STATES, WholePasses())
    return states, used[index]


def _centred(probs: Tensor, values: Tensor, legal: Tensor) -> tuple[Tensor, Tensor]:
    """(`[n, 1]` expected values, `[n, L]` the values less these; 0 where not legal)."""
    expected = (probs * values).sum(-1, keepdim=True)
    return expected, torch.where(legal, values - expected, 0.0)


def _parallel(one: Tensor, other: Tensor) -> bool:
    """Whether two pulls of length 1 differ by rounding alone."""
    return bool((one - other).norm() < 1e-5)


def _cosine(one: Tensor, other: Tensor) -> Tensor:
    """Of two directions; 0 where one of them is none: nothing is gained along it."""
    return ((one @ other) / (one.norm() * other.norm())).nan_to_num()


def _quotient(after: float, before: float) -> float:
    """What is left of `before`; NaN where there was nothing."""
    return after / before if before else math.nan


def _relative_error(given: Tensor, wanted: Tensor) -> float:
    """|given - wanted| / |wanted|; infinite where nothing was wanted."""
    whole = wanted.double().norm().item()
    return (given.double() - wanted.double()).norm().item() / whole if whole > 0 else math.inf


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    """The tensors in one axis."""
    return torch.cat([each.detach().reshape(-1) for each in tensors])


def _gradients(parameters: Sequence[Tensor]) -> Tensor:
    """Their gradients in one axis; 0 for those that have none."""
    return _flat([torch.zeros_like(p) if p.grad is None else p.grad for p in parameters])
