"""Checks of the first rollout: legal moves, rewards that differ, enough start positions, pure scores."""

from __future__ import annotations

import chess
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from algorithms.core.batch import RolloutBatch
from algorithms.rollouts.dynamic_sampling import live_groups
from algorithms.rollouts.planes import positions_of
from algorithms.training.preflight.findings import Finding
from chess_env.evaluators import CachedEvaluator, Evaluator
from chess_env.move_facts import FACT_INDEX, MOVE_FACTS, move_facts_batch
from chess_env.moves import NUM_ACTIONS, action_to_move
from chess_env.positions.start_positions import StartPositions
from chess_env.rules.fen import to_fen
from chess_env.rules.rules import hash_batch, legal_actions_batch, position_hash

RESCORED_POSITIONS = 32
DRAWN_STARTS = 256
MAX_VISITS = 4.0
"""A run that starts from each of its positions more often than this can learn them by heart."""

_FACTS_OF_THE_PAST = [FACT_INDEX.repeats, FACT_INDEX.repeats_twice, FACT_INDEX.rule50_limit]

Checked = tuple[dict[str, float], list[Finding]]


def positions(batch: RolloutBatch) -> tuple[NDArray[np.uint64], Tensor]:
    """(packed positions uint64 `[n, 8]` of the states with a valid sample, their flat indices)."""
    flat = batch.flat()
    used = flat.valid.any(-1).nonzero().squeeze(-1)
    packed = positions_of(flat.obs[used], batch.side.reshape(-1)[used])
    return packed.cpu().numpy().view(np.uint64), used


def check_moves(batch: RolloutBatch) -> Checked:
    """The batch's legal lists against the rules, for the positions that its planes show."""
    flat = batch.flat()
    packed, used = positions(batch)
    listed = flat.legal_ids[used].long().cpu()
    by_rules = torch.from_numpy(legal_actions_batch(packed)[0]).long()
    there = listed >= 0
    truth, have = _as_mask(by_rules), _as_mask(listed)
    missing, extra = (truth & ~have).sum(-1), (have & ~truth).sum(-1)
    twice = there.sum(-1) - have.sum(-1)
    allowed = truth.gather(1, listed.clamp(min=0)) & there
    probs = flat.old_legal_logprobs[used].cpu().exp()
    illegal_mass = torch.where(there & ~allowed, probs, 0.0).sum(-1)
    named = listed.gather(1, flat.slots[used].cpu())
    actions = batch.flatten(batch.actions)[used].cpu()
    crossed = ((named != actions) & flat.valid[used].cpu()).sum()
    wrong = (missing > 0) | (extra > 0) | (twice > 0)
    metrics = {
        "step0/mask_errors": float(wrong.double().mean()) if len(wrong) else 0.0,
        "step0/illegal_mass": float(illegal_mass.max()) if len(wrong) else 0.0,
    }
    findings = []
    if wrong.any() or crossed:
        row = int(wrong.nonzero()[0]) if wrong.any() else 0
        findings.append(
            Finding(
                "legal_mask",
                "fail",
                f"{int(wrong.sum())} of {len(wrong)} legal lists are wrong: {int(missing.sum())} "
                f"moves missing, {int(extra.sum())} illegal, {int(twice.sum())} listed twice; up "
                f"to {float(illegal_mass.max()):.3g} of the probability on illegal moves; "
                f"{int(crossed)} samples whose slot names another action (first: "
                f"{to_fen(packed[row])})",
                "0 of each: the lists are those of chess_env.rules for the stored positions",
                "the mask that was sampled under is not the rules'",
                "take legal_ids from the environment's info of the same board and ply, unchanged "
                "(see chess_env.rules.legal_actions_batch)",
            )
        )
    findings += _other_boards(batch, packed, used)
    return metrics, findings


def _as_mask(ids: Tensor) -> Tensor:
    """bool `[n, 1858]` of action ids `[n, L]` padded with -1."""
    mask = torch.zeros(len(ids), NUM_ACTIONS + 1, dtype=torch.bool)
    return mask.scatter_(1, torch.where(ids >= 0, ids, NUM_ACTIONS), True)[:, :NUM_ACTIONS]


def _other_boards(batch: RolloutBatch, packed: NDArray[np.uint64], used: Tensor) -> list[Finding]:
    """A finding where the planes are not of the position whose hash the batch holds."""
    if batch.position_hash is None:
        return []
    stored = batch.position_hash.reshape(-1)[used].cpu().numpy()
    other = int((hash_batch(packed).view(np.int64) != stored).sum())
    if not other:
        return []
    return [
        Finding(
            "observation",
            "fail",
            f"{other} of {len(stored)} states' planes show another position than their hash",
            "0",
            "the network was shown other boards than the moves were made on",
            "store planes and position_hash of the same board and ply",
        )
    ]


def check_move_facts(batch: RolloutBatch) -> list[Finding]:
    """A finding where the stored facts are not those of the stored moves; only of lists that the rules allow.

    Facts that depend on the game's earlier positions are left out, because the planes do not show these.
    """
    flat = batch.flat()
    if flat.move_facts is None:
        return []
    packed, used = positions(batch)
    listed = flat.legal_ids[used].cpu().numpy().astype(np.int16)
    other = flat.move_facts[used].cpu().numpy() != move_facts_batch(packed, listed)
    other[..., _FACTS_OF_THE_PAST] = False
    wrong = other.any(-1)
    if not wrong.any():
        return []
    state, slot, fact = (int(each[0]) for each in other.nonzero())
    fen = to_fen(packed[state])
    move = action_to_move(int(listed[state, slot]), chess.Board(fen)).uci()
    return [
        Finding(
            "move_facts",
            "fail",
            f"{int(wrong.sum())} of {int((listed >= 0).sum()):,} legal moves have wrong facts (first: "
            f"{MOVE_FACTS[fact].name} of {move} in {fen})",
            "0: the facts are those of chess_env.move_facts for the stored positions",
            "the network was shown facts of other moves than those that its logits stand for",
            "take move_facts and legal_ids from the environment's info of the same board and ply, unchanged "
            "(see chess_env.move_facts.move_facts_batch)",
        )
    ]


def check_rewards(batch: RolloutBatch, reward: str | None) -> Checked:
    """Rewards that are not finite, or that leave nothing to compare."""
    name = reward or "win_prob_delta"
    values = batch.rewards[batch.valid]
    bad = int((~values.isfinite()).sum())
    if bad:
        found = Finding(
            "rewards_not_finite",
            "fail",
            f"{bad} of {values.numel():,} rewards are not finite",
            "0",
            f"the reward term {name} or the evaluator gives NaN or infinity",
            "set env.reward to another term, or env.evaluator to another evaluator",
        )
        return {}, [found]
    if values.numel() < 2:
        return {}, []
    spread = (
        f"{values.numel():,} rewards from {float(values.min()):.6g} to {float(values.max()):.6g}"
    )
    if values.min() == values.max():
        found = Finding(
            "reward_variance",
            "warn",
            f"all rewards are equal ({spread})",
            "rewards that differ between moves",
            f"the reward term {name} says nothing about the moves here: every advantage is 0",
            "set env.reward to a dense term (win_prob_delta, cp_delta, regret)",
        )
        return {}, [found]
    members = batch.valid.sum(batch.group_axis)
    live = live_groups(batch)
    groups = int((members >= 2).sum())
    if groups >= 2 and not live.any():
        found = Finding(
            "reward_variance",
            "warn",
            f"none of {groups} groups has two different rewards ({spread})",
            "different rewards within most groups",
            "a group's rewards are all equal, so that every group-relative advantage is 0",
            "raise algorithm.group_size, or set env.reward to a dense term",
        )
        return {}, [found]
    return {}, []


def check_starts(
    batch: RolloutBatch, source: StartPositions, *, seed: int, starts_of_run: float
) -> Checked:
    """How often the run will begin from the same position.

    Args:
        batch: the first rollout.
        source: where games start; it is asked for starts with a generator of its own.
        seed: of that generator.
        starts_of_run: games that the run's budget pays for.
    """
    rng = np.random.default_rng([seed, 0x5EED])
    drawn = [int(position_hash(source.sample(rng))) for _ in range(DRAWN_STARTS)]
    repeated = DRAWN_STARTS - len(set(drawn))
    metrics = {"step0/repeated_starts": repeated / DRAWN_STARTS}
    if batch.position_hash is not None:
        used = batch.valid.any(-1) if batch.form == "positions" else batch.valid
        hashes = batch.position_hash[used]
        if hashes.numel():
            metrics["step0/repeated_states"] = 1 - hashes.unique().numel() / hashes.numel()
    # Pairs of equal draws: among n from a set of K there are about n (n - 1) / 2 K.
    counts = np.unique(np.array(drawn, np.uint64), return_counts=True)[1].astype(np.float64)
    pairs = float((counts * (counts - 1)).sum()) / 2
    if pairs < 10:  # too few to tell a small set from chance
        return metrics, []
    size = max(1.0, DRAWN_STARTS * (DRAWN_STARTS - 1) / 2 / pairs)
    visits = starts_of_run / size
    if visits <= MAX_VISITS:
        return metrics, []
    found = Finding(
        "fixed_positions",
        "warn",
        f"{repeated} of {DRAWN_STARTS} starts that {source.name!r} draws are repetitions: about "
        f"{size:,.0f} different starts, {starts_of_run:,.0f} games, {visits:,.1f} games from each",
        f"fewer than 10 equal pairs, or at most {MAX_VISITS:g} games from each",
        "the run starts from a small fixed set of positions and can learn them by heart",
        "set env.start_positions to a fresh stream (random_plies:2-40, phase_mix), and compare "
        "held-out regret with the reward",
    )
    return metrics, [found]


def check_evaluator(batch: RolloutBatch, evaluator: Evaluator) -> Checked:
    """Scores of some positions of the batch, asked for again in another order and in other company.

    A cache is left out: it would only repeat the stored scores.
    """
    if batch.before_cp is None:
        return {}, []
    packed, used = positions(batch)
    recorded = batch.before_cp.reshape(-1)[used].cpu().numpy()
    _, first = np.unique(hash_batch(packed), return_index=True)
    chosen = np.sort(first)
    chosen = chosen[
        np.linspace(0, len(chosen) - 1, min(RESCORED_POSITIONS, len(chosen))).astype(int)
    ]
    asked = evaluator.inner if isinstance(evaluator, CachedEvaluator) else evaluator
    backwards = asked.evaluate(packed[chosen[::-1]])[::-1]
    halves = np.array_split(chosen, 2)
    forwards = np.concatenate([asked.evaluate(packed[half]) for half in halves if len(half)])
    then = recorded[chosen].astype(np.int64)
    gaps = np.maximum(np.abs(backwards - then), np.abs(forwards - then))
    metrics = {"step0/rescore_error_cp": float(gaps.max())}
    if not gaps.any():
        return metrics, []
    own = int((backwards != forwards).sum())
    stale = not own and asked is not evaluator
    because = (
        "the cache holds other scores than the engine gives"
        if stale
        else "a score depends on what the evaluator was asked before: it is no function of the "
        "position"
    )
    remedy = (
        "delete the file in env.cache"
        if stale
        else "set env.evaluator to a pure one (stockfish:depth=4 without pure=False, or builtin)"
    )
    found = Finding(
        "evaluator_cache" if stale else "impure_evaluator",
        "fail",
        f"{int((gaps > 0).sum())} of {len(chosen)} positions got another score when asked again in "
        f"another order (by up to {int(gaps.max())} centipawns; {own} differ between two such "
        f"orders) from {evaluator.id}",
        "0 of them",
        because,
        remedy,
    )
    return metrics, [found]
