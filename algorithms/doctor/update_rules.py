"""Rules on the updates: the terms that should keep the entropy up, and the steps that are taken on good samples."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from algorithms.doctor.findings import (
    PRESENT,
    CauseRule,
    Named,
    RuledOut,
    Untold,
    Verdict,
    named_if_harmful,
    rerun,
)
from algorithms.doctor.metric_rows import (
    FORCED_UP,
    KEPT,
    LOST,
    SPENT,
    Episode,
    MetricRows,
    RunOutcome,
)
from algorithms.doctor.signal_chain import (
    ENT_COEF,
    HELD,
    HELD_SHARE,
    KL_OLD_COEF,
    KL_REF_COEF,
    NEEDED,
    OBJECTIVE_KEPT,
    SOME_PULL,
    UNPLAYED,
    bonus_is_harmless,
    clip_takes_most,
    gain_of_longer,
    share_at_end,
    share_of_sampler_kl,
    signal_chain,
    strongest_term,
    unplayed,
)

LOST_BEFORE = ("ratio", "draw", "reward", "credit")
"""Stages before the loss: where one of them loses the signal, a bonus wins and the clip takes more than it did."""

LARGEST_ENTROPY = math.log(218)
"""No chess position has more than 218 legal moves: 5.385 nats."""

SATURATED = "reg/controller_saturated"
COEFS = (ENT_COEF, KL_OLD_COEF, KL_REF_COEF)

HARMFUL_OVERPAID = 0.125
"""Coefficient times what is rewarded beyond the entropy, at the most, from which harm was done; units of the loss."""

EXACT_BONUS = 0.1
"""Coefficient of an exact bonus with which runs learn on every network; more is not advised."""

HARMFUL_HOLD = 0.5
"""Share of a penalty at its upper bound, beside the policy's, from which it holds the policy."""

BONUS_TAKES = 0.25
"""Share of a bonus from which it did harm where the policy knows much more than it plays. Where entropy is forced up,
`SOME_PULL` is enough."""

NEEDED_EVALUATIONS, STILL = 4, 0.75
"""Evaluations, and part of the value at the one before, from which what is not played is no longer falling."""

HARMFUL_OPTIMUM_NATS = 0.7
"""Entropy of the best policy of the regularised objective below which harm was done."""


def sampled_entropy_bonus(record: MetricRows, outcome: RunOutcome) -> Verdict:
    """What is rewarded as entropy parts from the entropy."""
    rows = record.together("reg/ent_coef", "reg/entropy", "reg/entropy_weighted")
    paid = [(n, coef, -weighted / coef, exact) for n, (coef, exact, weighted) in rows if coef > 0]
    if not paid:
        return RuledOut("the entropy bonus has a coefficient of 0")
    same = sum(abs(sampled - exact) < 0.02 * max(exact, 0.05) for _, _, sampled, exact in paid)
    if same >= 0.9 * len(paid):
        return RuledOut(
            f"what is rewarded is the entropy itself: {paid[-1][2]:.3f} and {paid[-1][3]:.3f} nats at update "
            f"{paid[-1][0]}"
        )
    overpaid = [(n, coef * abs(sampled - exact)) for n, coef, sampled, exact in paid]
    most = max(range(len(paid)), key=lambda row: overpaid[row][1])
    number, coef, sampled, exact = paid[most]
    trap = ""
    if record.last(SATURATED, 0.25) > 0.5 and record.last("reg/kl_old_coef") > 0:
        trap = (
            f"; a KL to the old policy pulls the other way with its coefficient at its bound "
            f"({record.last('reg/kl_old_coef'):.3g})"
        )
    return Named(
        overpaid[most][1] / HARMFUL_OVERPAID,
        next((n for n, value in overpaid if value > HARMFUL_OVERPAID), paid[0][0]),
        f"the bonus rewards {sampled:.2f} nats at update {number}, where the exact entropy is {exact:.2f} (an "
        f"entropy is at most {LARGEST_ENTROPY:.3f}), with the coefficient {coef:.3g}{trap}",
        "the two are equal",
        "reward the exact entropy (regularizer.ent_estimator exact)"
        + (f", with a coefficient of {EXACT_BONUS:g}" if coef > EXACT_BONUS else ""),
        rerun("--regularizer.ent-estimator exact", *_less_bonus(coef)),
    )


def _less_bonus(coef: float) -> list[str]:
    """The options that lower a bonus to `EXACT_BONUS`; none where it is no more."""
    names = ("ent-coef", "ent-coef-final") if coef > EXACT_BONUS else ()
    return [f"--regularizer.{name} {EXACT_BONUS:g}" for name in names]


def _saturated(record: MetricRows) -> Episode | None:
    """The updates at which a controller is at a bound."""
    return record.episode(record.points(SATURATED), lambda value: value > 0.5)


def _moved(record: MetricRows) -> tuple[str, float, float] | None:
    """(coefficient, its first value, its last) of the one that a controller moves; None without one."""
    moved = []
    for name in COEFS:
        values = record.series(name)
        if values and max(values) > 1.05 * min(values):
            moved.append((max(values) / max(min(values), 1e-9), name, values))
    if not moved:
        return None
    _, name, values = max(moved)
    return name, values[0], values[-1]


def saturated_controller(record: MetricRows, outcome: RunOutcome) -> Verdict:
    """A controller holds its coefficient at its upper bound, and the penalty holds the policy."""
    found = _saturated(record)
    if found is None:
        return RuledOut(
            f"no controller is at a bound for long ({record.mean(SATURATED):.0%} of the updates)"
        )
    moved = _moved(record)
    if moved is not None and moved[2] < moved[1]:
        return RuledOut(
            f"{moved[0]} rests at its lower bound ({moved[1]:.3g} at the start, {moved[2]:.3g} at the end), "
            "where it does nothing"
        )
    name = moved[0] if moved else KL_OLD_COEF
    share = share_at_end(record, name)
    if math.isnan(share):
        return Untold(
            (name.replace("_coef", "_weighted"),),
            f"{name} is at its upper bound {record.last(name):.3g}",
        )
    return named_if_harmful(
        Named(
            share / HARMFUL_HOLD,
            found.since,
            f"a controller holds {name} at its upper bound {record.last(name):.3g} "
            f"{record.begins(found.since)}; against the policy's own pull the term has {share:.0%} in the last "
            f"quarter, and the KL to the sampler is {record.last('reg/kl_old', 0.25):.2g} nats there",
            "a controller that is within its range",
            "a target that can be reached, a lower bound, or no controller",
            rerun("--regularizer.kl-controller none", "--regularizer.ent-controller none"),
        )
    )


def _kept_unplayed(record: MetricRows) -> float:
    """Share of the first regret that the most probable moves would save at the end; 0 while that is falling.

    From random weights a policy knows a better move long before it plays it, whatever the bonus.
    """
    shares = unplayed(record)
    if len(shares) < NEEDED_EVALUATIONS or shares[-1] < STILL * shares[-2]:
        return 0.0
    return shares[-1]


def loss_budget(record: MetricRows, outcome: RunOutcome) -> Verdict:
    """A bonus or an anchor outweighs the rewards: the whole loss no longer pulls where the policy's does."""
    chain = signal_chain(record)
    if chain.measured < NEEDED:
        return Untold(
            ("signal/objective",), f"{chain.measured} updates were measured: {NEEDED} are needed"
        )
    lost = next((loss for loss in chain.losses if loss.stage.name == "objective"), None)
    coef, share = strongest_term(record)
    signs = _bonus_signs(record, outcome) if coef == ENT_COEF else []
    if not signs and (held := _sampler_kl_signs(record)):
        anchored = share_of_sampler_kl(record)
        if lost is None or not share > anchored:
            signs, coef, share = held, KL_OLD_COEF, anchored
    if lost is None and (chain.losses or not signs):
        if bonus_is_harmless(record):
            return RuledOut(
                f"the policy plays what it knows: its most probable moves would save {unplayed(record)[-1]:.0%} of "
                "the first regret"
            )
        return RuledOut("the whole loss pulls where the policy's does")
    if clip_takes_most(record):
        return RuledOut(f"the clip leaves {record.median('signal/clip'):.2f} of the policy's pull")
    if not record.has("grad_share/entropy") and record.last(ENT_COEF) != 0:
        return Untold(("grad_share/entropy",), "the whole loss pulls elsewhere than the policy's")
    if not (signs or share > SOME_PULL):
        return RuledOut(
            f"no term of the regulariser has more than {SOME_PULL:.0%} beside the policy's"
        )
    if lost is not None:
        said = f"the whole loss keeps {lost.kept:.2f} of the policy loss's direction"
        signs = [Sign(OBJECTIVE_KEPT / max(lost.kept, 0.05), said, "0.55 to 1 of it"), *signs]
    setting = f"--{coef.replace('reg/', 'regularizer.').replace('_', '-')}"
    if coef == ENT_COEF:  # it may have a schedule
        changes = [
            f"{setting}{name} {min(value / 10, EXACT_BONUS):.3g}"
            for name, value in (("", record.first(coef)), ("-final", record.last(coef)))
        ]
    else:  # an anchor that holds the policy close keeps its own term small, however far there is to go
        changes = [f"{setting} {record.first(coef) / 100:.3g}"]
    pull = f"the term of {coef} has {share:.0%} beside the policy's"
    return Named(
        max(sign.size for sign in signs),
        record.first_update if lost is None else lost.since,
        ", and ".join(filter(None, [pull, *(each.said for each in signs)])),
        ", and ".join(each.without for each in signs),
        f"lower {coef.replace('reg/', 'regularizer.')} until the policy has most of the gradient",
        rerun(*changes),
    )


class Sign(NamedTuple):
    """A sign of a term that outweighs the rewards: times its bound, in words if the share is not all, without it."""

    size: float
    said: str
    without: str


def _bonus_signs(record: MetricRows, outcome: RunOutcome) -> list[Sign]:
    """Of a bonus under which the policy goes on knowing more than it plays."""
    share, not_played = record.median("grad_share/entropy"), _kept_unplayed(record)
    # Nothing else forces entropy up where no stage before the loss is at fault.
    takes = SOME_PULL if outcome.entropy == FORCED_UP else BONUS_TAKES
    if not (share >= takes and not_played >= UNPLAYED):
        return []
    said = f"the most probable moves would save {not_played:.0%} of the first regret"
    return [Sign(share / takes, said, f"less than {UNPLAYED:.0%} to save")]


def _sampler_kl_signs(record: MetricRows) -> list[Sign]:
    """Of a KL to the sampler that makes the steps short.

    It has no gradient at the first step of an update, where the whole loss is compared with the policy's.
    """
    if _saturated(record) is not None:  # a cause of its own
        return []
    share, longer = share_of_sampler_kl(record), gain_of_longer(record)
    signs = []
    if share > HELD_SHARE and longer > HELD:
        said = f"steps 16 times as long would gain {longer:.0f} times as much"
        signs.append(Sign(longer / HELD, said, f"less than {HELD:.0f} times"))
    if share > HARMFUL_HOLD:
        signs.append(Sign(share / HARMFUL_HOLD, "", f"a share below {HARMFUL_HOLD:.0%}"))
    return signs


def sharp_optimum(record: MetricRows, outcome: RunOutcome) -> Verdict:
    """The regularised objective itself is best served by a policy almost without entropy."""
    if max(record.series("reg/kl_ref_coef")) == 0:
        return RuledOut("there is no KL to a reference, and no optimum but the best move")
    if not record.has("probe/optimum_entropy", "probe/entropy"):
        if outcome.entropy in (KEPT, SPENT, FORCED_UP):
            return RuledOut(f"entropy is {outcome.entropy}")
        return Untold(
            ("probe/optimum_entropy",),
            "a KL to a reference is on, and what it aims at is not logged",
        )
    optimum = record.last("probe/optimum_entropy")
    now = record.last("probe/entropy")
    start = record.first("probe/entropy")
    if not optimum < 0.5 * start:
        return RuledOut(
            f"with the coefficients in force the best policy has {optimum:.2f} nats on the probe positions"
        )
    size = HARMFUL_OPTIMUM_NATS / max(optimum, 1e-3)
    return Named(
        size if outcome.entropy == LOST else min(size, PRESENT),
        record.first_update,
        f"with the coefficients in force the best policy has {optimum:.2f} nats on the probe "
        f"positions (the policy: {now:.2f}, from {start:.2f})",
        "an optimum with the entropy that is wanted",
        "raise regularizer.kl_ref_coef, or add an entropy bonus (regularizer.ent_coef)",
        rerun(f"--regularizer.kl-ref-coef {100 * record.last('reg/kl_ref_coef'):.3g}"),
    )


_PROBES = "--diagnostics-interval-updates"
REGULARISER_RULES = (
    CauseRule(
        "sampled_entropy_bonus",
        (("reg/ent_coef", "reg/entropy", "reg/entropy_weighted"),),
        "every run of this project",
        sampled_entropy_bonus,
    ),
    CauseRule(
        "saturated_controller",
        ((SATURATED,),),
        f"every run of this project; gradient shares by {_PROBES}",
        saturated_controller,
        stage="objective",
    ),
    CauseRule(
        "loss_budget",
        (("signal/objective",),),
        "--signal-chain",
        loss_budget,
        stage="objective",
        follows=LOST_BEFORE,
        hidden_by=("clip_asymmetry",),
    ),
    CauseRule(
        "sharp_optimum",
        (("reg/kl_ref_coef",),),
        _PROBES,
        sharp_optimum,
    ),
)

BINS = ("p_01_10", "p_10_50")
ONE_SIDED = 1.8
"""The upper clip stops so many times the samples that the lower one does."""

HARMFUL_STOPPED = 0.1
"""Share of the samples from which a one-sided clip did harm."""

HARMFUL_ESS = 0.7
"""Effective sample size, relative to that before the first step, below which reuse of a batch did harm."""

HARMFUL_DRIFT = 0.035
"""Nats (k3) of one pass from which large steps cost entropy that buys little."""

LITTLE_RETURN, ENOUGH_RETURN = 0.6, 0.65
"""Regret that fell by this part of what entropy fell by, as shares of their starts: less did harm, more did not."""

SETTLED_UPDATES = 16
"""Updates with fewer than which it cannot be told what entropy buys: the bounds above stand on runs of 40."""

SPENT_UP = 0.2
"""Share of its entropy that a policy has kept when nearly all is gone."""

WEAK_BONUS = 0.15
"""Share of the gradient norm below which a bonus holds nothing."""


def clip_asymmetry(record: MetricRows, outcome: RunOutcome) -> Verdict:
    """The clip stops gradients that raise moves far more often than those that lower them."""
    high, low = record.mean("policy/clip_fraction_high"), record.mean("policy/clip_fraction_low")
    shares = (
        f"the clip takes the gradient of {high:.1%} of the samples above and of {low:.1%} below"
    )
    if not (high > 0.03 and high > ONE_SIDED * low):
        return RuledOut(f"{shares}: no side far more than the other")
    up, down = (
        float(np.mean([record.mean(f"clip/{side}_{name}") for name in BINS]))
        for side in ("up", "down")
    )
    values = record.together("policy/clip_fraction_high", "policy/clip_fraction_low")
    since = next((n for n, (a, b) in values if a > ONE_SIDED * b and a > 0.03), record.first_update)
    bonus = _less_bonus(record.first(ENT_COEF) if record.has(ENT_COEF) else 0.0)
    return named_if_harmful(
        Named(
            high / HARMFUL_STOPPED,
            since,
            f"{shares}; of those with A > 0 and p from .01 to .5 it stops {up:.0%}, of those with A < 0 {down:.0%}",
            "shares of one order on both sides",
            "raise clip_range_high (.28)"
            + (
                f", and lower regularizer.ent_coef to {EXACT_BONUS:g}: the clip hides what more takes"
                if bonus
                else ""
            ),
            rerun("--algorithm.clip-range-high 0.28", *bonus),
        )
    )


def update_epochs(record: MetricRows, outcome: RunOutcome) -> Verdict:
    """Within an update the policy moves far from its own samples, over several passes."""
    passes = record.median("train/passes")
    if passes < 2:
        return RuledOut(f"every batch is gone over {passes:.0f} time")
    pairs = record.together("ratio/ess", "ratio/ess_first_minibatch")
    # What was lost before the first step is another cause's.
    kept = [(n, ess / max(first, 1e-9)) for n, (ess, first) in pairs]
    median = float(np.median([value for _, value in kept])) if kept else record.median("ratio/ess")
    drift = record.median("policy/approx_kl") - record.median("policy/approx_kl_first_minibatch")
    if not median < HARMFUL_ESS:
        return RuledOut(
            f"{passes:.0f} passes leave {median:.0%} of the samples effective (median of the updates)"
        )
    size = (1 - median) / (1 - HARMFUL_ESS)
    return Named(
        size if outcome.is_poor else min(size, PRESENT),
        next((n for n, value in kept if value < HARMFUL_ESS), record.first_update),
        f"an update goes {passes:.0f} times over its batch and ends {drift:.2g} nats (k3) further from the "
        f"policy that sampled it: {median:.0%} of the samples stay effective (median)",
        "one pass leaves more than 90 % of the samples effective",
        "fewer passes (algorithm.update_epochs 1), a clip, or target_kl",
        rerun("--algorithm.update-epochs 1"),
    )


def weak_entropy_high_lr(record: MetricRows, outcome: RunOutcome) -> Verdict:
    """Every single pass moves the policy far, and no term keeps its entropy up."""
    passes = record.median("train/passes")
    if passes >= 2:  # then it is the passes that are asked about, by another rule
        return RuledOut(
            f"a batch is gone over {passes:.0f} times, which moves the policy by itself"
        )
    drift = record.median("policy/approx_kl") - record.median("policy/approx_kl_first_minibatch")
    bonus = record.median("grad_share/entropy")
    bonus = 0.0 if math.isnan(bonus) else bonus
    before, after = outcome.entropy_nats
    kept = after / before if before > 0 else math.nan
    said = (
        f"one pass moves the policy by {drift:.2g} nats (k3, median), the entropy bonus has {bonus:.1%} of the "
        f"gradient norm; entropy goes from {before:.2f} to {after:.2f} nats"
    )
    bought = -outcome.change / (1 - kept) if kept < 1 else math.nan
    if not (drift > HARMFUL_DRIFT and bonus < WEAK_BONUS and kept < 0.6):
        return RuledOut(said)
    if record.updates < SETTLED_UPDATES and outcome.entropy != LOST:
        few = f"{said}, in {record.updates} updates: too few to tell what it buys"
        return Untold((), few, told_by_pace=True)
    paid = outcome.entropy != LOST and not bought < LITTLE_RETURN
    if paid and kept > SPENT_UP:
        return RuledOut(f"{said}, and regret falls by {bought:.0%} of that share: it is well spent")
    if paid and bought < ENOUGH_RETURN:
        return Untold(
            (),
            f"{said}, and regret falls by {bought:.0%} of that share: some runs like this lost by it, and some did not",
            told_by_pace=True,
        )
    return Named(
        PRESENT if paid else drift / HARMFUL_DRIFT,
        record.first_update,
        said,
        "a pass moves the policy by .01 to .03 nats",
        "a lower optimizer.learning_rate (an eighth), and an exact bonus with 10 to 40 % of the "
        "gradient norm",
        rerun(
            f"--optimizer.learning-rate {record.median('train/learning_rate') / 8:.2g}",
            f"--regularizer.ent-coef {max(0.1, 10 * record.median('reg/ent_coef')):.2g}",
        ),
    )


STEP_RULES = (
    CauseRule(
        "clip_asymmetry",
        (("policy/clip_fraction_high", "policy/clip_fraction_low"),),
        "every run of an algorithm with a ratio",
        clip_asymmetry,
        stage="objective",
        follows=LOST_BEFORE,
        hidden_by=("temperature_mismatch", "forward_mismatch", "stale_behaviour"),
    ),
    CauseRule(
        "update_epochs",
        (("train/passes", "ratio/ess", "ratio/ess_first_minibatch"),),
        "every run of an algorithm with a ratio",
        update_epochs,
        follows=LOST_BEFORE,
        hidden_by=("sampled_entropy_bonus",),
    ),
    CauseRule(
        "weak_entropy_high_lr",
        (("train/passes", "policy/approx_kl", "policy/approx_kl_first_minibatch", "eval/entropy"),),
        "every run of an algorithm with a ratio; entropy by the evaluations",
        weak_entropy_high_lr,
        follows=LOST_BEFORE,
        hidden_by=("sampled_entropy_bonus", "stale_behaviour"),
    ),
)
