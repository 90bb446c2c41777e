"""Rules on what the logs of most trainers have: each names a cause, rules it out, or says what would tell.

Bounds were chosen on runs of TRL and Stable-Baselines3 with seeds 1 and 2 (`benchmarks/foreign`), and judged on others.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from algorithms.doctor.findings import PRESENT, Named, RuledOut, Untold, Verdict
from algorithms.doctor.metric_rows import FORCED_UP, LEARNING, LOST
from algorithms.foreign.outcome import ForeignOutcome
from algorithms.foreign.reading import Log

DEAD = 0.2
"""Share of groups with equal rewards at the beginning that did harm."""

FALL, SMALL_FALL = 0.2, 0.08
"""Part of its first entropy that a policy loses in one step where steps are too large, and where they are not."""

FALL_OF_A_BATCH = 0.05
"""The same for all steps on one batch, where they are too many."""

FEW_USES = 3
"""Steps on one batch up to which the last ones are near the samples."""

CLIPPED, LITTLE_CLIPPED = 0.15, 0.01
"""Share of the samples beyond the clip, over all uses of a batch, where these are too many; and of a clip that acts."""

FIRST_USE = 1e-3
"""Share of the samples beyond the clip before the first step on them: 0 but for a fault."""

ONE_SIDED, ONE_SIDED_SHARE = 1.8, 0.08
"""The upper bound stops so many times the samples that the lower one does, and this share of all."""

HELD_KL, PULL = 0.05, 0.25
"""Nats to the reference below which an unknown penalty may hold the policy; and beta sqrt(2 KL), the size of its pull
beside advantages of size 1, from which a known one does."""

LARGE_BONUS, HELD_BY_BONUS = 0.25, 0.85
"""Coefficient that holds the entropy beside advantages of size 1, and the share of its start that is then left."""

HELD_ENTROPY = 0.9
"""Share of its start at which entropy is held, where the bonus is not known. Agents that learn lose more."""

EPOCHS = 3.0
"""Times over the prompts up to which they are fresh."""

OVERFIT = 0.15
"""Part of the reward's gain in training that the evaluation does not have, where prompts are too few."""

MISMATCH, MISMATCH_KL = 0.1, 0.02
"""Distance in log-probability, and KL, of sampler and learner that do harm. From threads, not from runs of ours."""

SURPRISE = 0.05
"""Nats by which fresh samples are more or less surprising than the policy's own."""

LARGE_KL, LARGEST_KL, SMALL_KL = 0.1, 0.5, 1e-4
"""Nats of one update that are too many at the median of a run, too many at its largest, next to nothing (median)."""

NEVER_HARMLESS = 10.0
"""Times the bound from which steps are too large whatever became of the run."""

TIGHT_CLIP, TIGHT_KL = 0.3, 2e-3
"""Share of the samples beyond a clip, and KL of an update, of a clip that is narrower than the steps."""

MANY_PASSES = 15
"""Passes over a batch from which large moves are put down to them."""

STILL = 0.003
"""Share by which entropy moves at least where there are steps."""

HORIZON, EPISODE = 5.0, 10.0
"""Steps that rewards count for at least, where episodes last more than so many times as long as they count."""

SEEN_AHEAD = 3.0
"""Rewards of a step that returns come to at least, by the errors of a critic that has learned nothing."""


@dataclasses.dataclass(frozen=True)
class Suspected(Untold):
    """It cannot be told, and there is a sign of it: the run is not as expected."""


@dataclasses.dataclass(frozen=True)
class LogRule:
    """A test of one cause.

    Attributes:
        name: of the cause.
        needs: alternative sets of quantities.
        look: the test, of logs that have one of `needs`.
        hidden_by: causes that, where they do harm, show what this one shows.
    """

    name: str
    needs: tuple[tuple[str, ...], ...]
    look: Callable[[Log, ForeignOutcome], Verdict]
    hidden_by: tuple[str, ...] = ()

    def __call__(self, log: Log, outcome: ForeignOutcome) -> Verdict:
        """What the log says of the cause."""
        if not any(log.has(*names) for names in self.needs):
            return Untold(tuple(name for name in self.needs[0] if not log.has(name)))
        return self.look(log, outcome)


def _named(
    log: Log, size: float, since: float, measured: str, without: str, remedy: str, **options: float
) -> Named:
    """A finding; `options` are the roles of settings and the values to try."""
    tries = ", ".join(f"{log.trainer.option(role)}={value:.3g}" for role, value in options.items())
    confirm = (
        f"the same run with {tries}" if tries and all(map(math.isfinite, options.values())) else ""
    )
    return Named(size, int(since), measured, without, remedy, confirm)


def no_signal(log: Log, outcome: ForeignOutcome) -> Verdict:
    """Groups have equal rewards: there is no advantage to learn from."""
    steps, dead = log.points("dead")
    if not len(dead):
        return _without_groups(log)
    early, option = log.begin("dead"), log.trainer.option
    least = min(float(part.mean()) for part in np.array_split(dead, min(8, len(dead))))
    if early < DEAD:
        late = log.end("dead")
        solved = f", {late:.0%} at the end, where rewards are high" if late > DEAD else ""
        return RuledOut(f"{early:.0%} of the groups have equal rewards at the beginning{solved}")
    falls = least < early / 2 and outcome.learning == LEARNING
    return _named(
        log,
        PRESENT if falls else early / DEAD,
        steps[0],
        f"{early:.0%} of the groups have equal rewards at the beginning"
        + (f", and {least:.0%} at their fewest" if falls else ""),
        "below a tenth of the groups, but for a task that is solved",
        "a reward with more levels, prompts that are neither solved nor hopeless, a higher "
        f"{option('temperature')} or more samples of a prompt ({option('group_size')})",
    )


def _without_groups(log: Log) -> Verdict:
    for name in ("reward_std", "reward"):
        values = log.values(name)
        flat = values == 0 if name == "reward_std" else np.abs(values - values[:1]) == 0
        if len(values) >= 4 and flat.all():
            said = f"{name.replace('_', ' ')} is the same at every update ({values[0]:.3g})"
            look = "look at the reward: it does not depend on what the policy does"
            return _named(log, 3.0, 1, said, "rewards that differ", look)
    if _acts(log) and log.has("reward"):
        return RuledOut("returns differ")
    # A spread over the whole batch says nothing of the groups.
    return Untold(("dead",))


def high_learning_rate(log: Log, outcome: ForeignOutcome) -> Verdict:
    """Single steps take much of the entropy, or move the policy far."""
    steps, nats = log.points("entropy")
    if len(nats) < 4:
        return Untold((), f"{len(nats)} updates with an entropy")
    falls = (nats[:-1] - nats[1:]) / max(nats[0], 1e-9) / np.maximum(np.diff(steps) / log.gap, 1.0)
    at = int(np.argmax(falls))
    rate, moved = log.values("learning_rate"), _moved(log)
    allowed = FALL if log.gap <= log.first_gap else 0.5
    apart = "" if log.gap <= log.first_gap else f" (rows are {log.gap:.0f} steps apart)"
    said = f"the largest fall of entropy from one row to the next is {falls[at]:.0%} of its start{apart}"
    if moved > 0:
        said += f"; an update moves the policy by {moved:.2g} nats"
    if math.isnan(moved):
        allowed *= 0.6 if outcome.entropy == LOST else 1.0
        size, is_small = falls[at] / allowed, falls[at] < SMALL_FALL
    else:  # it says more than what becomes of the entropy
        largest = float(
            max(np.abs(log.values(n)).max(initial=0) for n in ("kl_update", "kl_signed"))
        )
        size, is_small = max(moved / LARGE_KL, largest / LARGEST_KL), largest < LARGE_KL
    if size < 1:
        unclear = f"{said}: some runs like this were harmed by it, and some were not"
        return RuledOut(said) if is_small else Untold((), unclear)
    if log.passes >= MANY_PASSES:
        return Untold(
            (),
            f"{said}, and a batch is gone over {log.passes:.0f} times, which does as much by itself",
        )
    if not (outcome.is_poor or moved > LARGE_KL or size > NEVER_HARMLESS):
        size = PRESENT
    return _named(
        log,
        size,
        steps[at + 1],
        said,
        "a few per cent",
        f"a lower {log.trainer.option('learning_rate')} (a tenth)",
        learning_rate=float(rate.max()) / 10 if len(rate) else math.nan,
    )


def _moved(log: Log) -> float:
    """KL of an update at the median; NaN where it is not logged, or only by an estimate that small steps leave at 0."""
    if log.has("kl_update"):
        return float(np.median(log.values("kl_update")))
    signed = float(np.median(np.abs(log.values("kl_signed")))) if log.has("kl_signed") else math.nan
    return signed if signed > LARGE_KL else math.nan


def old_samples(log: Log, outcome: ForeignOutcome) -> Verdict:
    """A batch serves too many steps."""
    if log.trainer.row_is_batch:
        return _passes(log, outcome)
    uses, option = log.uses, log.trainer.option
    options = f"{option('passes')}, {option('batches')}"
    if uses is None:
        return Untold(
            (), f"how many steps a batch serves is not in the log: give --config ({options})"
        )
    if uses == 1:
        return RuledOut("each batch serves one step")
    clipped = _clipped(log)
    if log.has("clip_low", "clip_high"):  # of a side that stops far more another rule asks
        clipped = 2 * min(float(np.mean(log.values(name))) for name in ("clip_low", "clip_high"))
    steps, nats = log.points("entropy")
    fall = 0.0
    if len(nats) > 2 * uses and log.every_step:
        falls = -np.diff(nats[::uses]) / max(nats[0], 1e-9)
        fall = float(np.median(falls[: max(2, len(falls) // 2)]))
    said = f"each batch serves {uses} steps; {clipped:.0%} of its samples are beyond the clip"
    if fall > 0:
        said += f", entropy falls by {fall:.0%} of its start with each batch"
    if clipped > CLIPPED or fall > FALL_OF_A_BATCH:
        size = max(clipped / CLIPPED, fall / FALL_OF_A_BATCH)
        since, fewer = (
            steps[min(uses, len(steps) - 1)],
            f"fewer steps on each batch ({options}), or a wider clip",
        )
        return _named(
            log, size, since, said, "below a tenth beyond the clip", fewer, passes=1, batches=1
        )
    if uses <= FEW_USES or LITTLE_CLIPPED < clipped < CLIPPED / 2:
        return RuledOut(said)
    return Suspected((), f"{said}: how far the last steps are from the samples is not in the log")


def _passes(log: Log, outcome: ForeignOutcome) -> Verdict:
    """The same where a row of the log is all steps on one batch."""
    option, nats, moved, clipped = log.trainer.option, outcome.nats, _moved(log), _clipped(log)
    said = "how often a batch is used shows in nothing that is logged"
    if not math.isnan(clipped):
        said = f"{clipped:.1%} of the samples are beyond the clip"
    if not math.isnan(moved):
        said += f", and an update moves the policy by {moved:.2g} nats"
    if log.passes >= MANY_PASSES:
        said = f"a batch is gone over {log.passes:.0f} times; entropy goes from {nats.before:.2g} to {nats.after:.2g}"
        if moved > LARGE_KL or (outcome.is_poor and nats.after < nats.before / 4):
            fewer = f"fewer passes ({option('passes')})"
            return _named(log, log.passes / MANY_PASSES, 1, said, "4 to 10 passes", fewer, passes=4)
    if moved < LARGE_KL or clipped < CLIPPED / 2:
        return RuledOut(said)
    return Untold((), f"{said}: by the number of its steps, or their size")


def _clipped(log: Log) -> float:
    """Mean share of the samples beyond either bound; NaN where it is not logged."""
    if log.has("clip"):
        return float(np.mean(log.values("clip")))
    sides = [
        float(np.mean(log.values(name))) for name in ("clip_low", "clip_high") if log.has(name)
    ]
    return sum(sides) if sides else math.nan


def tight_clip(log: Log, outcome: ForeignOutcome) -> Verdict:
    """The clip is narrower than any step: it takes the gradient of most samples."""
    clipped, moved = _clipped(log), _moved(log)
    said = f"{clipped:.0%} of the samples are beyond the clip, and an update moves the policy by {moved:.1g} nats"
    if not (clipped > TIGHT_CLIP and moved < TIGHT_KL):
        return RuledOut(said)
    option = log.trainer.option("clip_high")
    return _named(
        log, clipped / TIGHT_CLIP, 1, said, "below a fifth", f"a wider {option} (.2)", clip_high=0.2
    )


def forward_mismatch(log: Log, outcome: ForeignOutcome) -> Verdict:
    """Sampler and learner compute different policies."""
    dropout, off = log.end("dropout"), _surprise(log)
    for name, bound in (
        ("mismatch", MISMATCH),
        ("mismatch_kl", MISMATCH_KL),
        ("first_ratio_std", MISMATCH),
    ):
        if log.has(name):
            value = max(log.end(name), log.begin(name))
            said = f"{name.replace('_', ' ')}: {log.begin(name):.2g} at the beginning, {log.end(name):.2g} at the end"
            if _acts(
                log
            ):  # agents' policies are even at first and settled at last: little shows there
                value, said = (
                    max(value, mean := float(np.mean(log.values(name)))),
                    f"{said}, {mean:.2g} on average",
                )
            if value > bound and name == "first_ratio_std" and dropout == 0 and off is not None:
                return Untold(
                    (), f"{said}, as where old log-probabilities are of another temperature"
                )
            if value > bound:
                return _mismatch(log, value / bound, said, "below a hundredth")
            if name != "first_ratio_std" or not log.has("surprise_gap") or _acts(log):
                return RuledOut(said)
    if dropout > 0 and off is not None:
        return _mismatch(
            log,
            off[0],
            f"dropout of {dropout:g} is on while the learner computes, and {off[1]}",
            "0",
        )
    if log.has("surprise_gap"):
        return RuledOut("no dropout is on, and old log-probabilities agree with the learner's where there are some"
                        if dropout == 0 else "fresh samples are as surprising as the policy's own")  # fmt: skip
    if log.uses is None or not log.every_step or not log.has("reward", "clip"):
        return Untold(("surprise_gap",), "whether both compute the same policy is not in the log")
    if log.uses > 1:
        first = np.isin(log.step, log.points("reward")[0])
        values = log.columns["clip"][first]
        share = float(np.nanmean(values))
        said = f"{share:.1%} of the samples are beyond the clip at a batch's first use"
        if share <= FIRST_USE:
            return RuledOut(f"{said}: no noise of a size that the clip shows")
        return _mismatch(log, 1 + share / 0.05, said, "exactly 0 there")
    return Untold(("surprise_gap",), "with one step a batch the ratio is 1 by construction")


def _acts(log: Log) -> bool:
    """Whether a sample is an action of an agent, not a token."""
    return log.trainer.unit == "action"


def _mismatch(log: Log, size: float, said: str, without: str) -> Named:
    if _acts(log):
        return _named(log, size, 1, said, without,
                      "no dropout, no batch norm and no other layer that computes otherwise in training mode than in "
                      "evaluation mode; the buffer's log-probabilities from the policy that learns")  # fmt: skip
    dropout = log.trainer.options.get("dropout")
    off = f"dropout off ({dropout}=True), " if dropout else "dropout off, "
    return _named(log, size, 1, said, without,
                  f"{off}the same precision, temperature and filters (top-k, top-p) on both sides, or recompute the "
                  "old log-probabilities")  # fmt: skip


def temperature_mismatch(log: Log, outcome: ForeignOutcome) -> Verdict:
    """Samples are drawn at another temperature, or filtered."""
    if not log.has("surprise_gap"):
        other = forward_mismatch(log, outcome)
        if isinstance(other, RuledOut):
            return other
        return Untold((), "sampler and learner differ, by a temperature or otherwise")
    off = _surprise(log)
    if off is None:
        return RuledOut(
            f"fresh samples are {np.mean(log.values('surprise_gap')):+.3f} nats more surprising than the policy's own"
        )
    if _acts(log):
        return _named(log, off[0], 1, off[1], "0",
                      "draw the actions from the policy's own distribution: no temperature, no likeliest action, no "
                      "action that something else chose")  # fmt: skip
    return _named(log, off[0], 1, off[1], "0",
                  f"sample at the learner's {log.trainer.option('temperature')}, without top-k and top-p")  # fmt: skip


def _surprise(log: Log) -> tuple[float, str] | None:
    """(size, in words) where fresh samples surely are not the policy's own."""
    gap, factor = log.values("surprise_gap"), log.values("inverse_temperature")
    if len(gap) < 3:
        return None
    mean, error = float(np.mean(gap)), float(np.std(gap) / math.sqrt(len(gap)))
    if abs(mean) < max(SURPRISE, 4 * error):
        return None
    said = f"fresh samples are {mean:+.3f} nats more surprising than the policy's own would be"
    if len(factor):
        said += f"; the sampler's log-odds are {float(np.median(factor)):.2f} times the learner's"
    return abs(mean) / SURPRISE, said


def clip_asymmetry(log: Log, outcome: ForeignOutcome) -> Verdict:
    """The upper bound stops far more samples than the lower one."""
    high, low = float(np.mean(log.values("clip_high"))), float(np.mean(log.values("clip_low")))
    said = f"the clip takes the gradient of {high:.1%} of the samples above and of {low:.1%} below"
    if log.uses == 1 and high == low == 0:
        return RuledOut("each batch serves one step: the ratio is 1 and nothing is clipped")
    if not (high > ONE_SIDED_SHARE and high > ONE_SIDED * low):
        return RuledOut(f"{said}: no side far more than the other")
    option = log.trainer.option("clip_high")
    return _named(log, high / ONE_SIDED_SHARE, 1, said, "shares of one order on both sides",
                  f"a wider upper bound ({option} .28)", clip_high=0.28)  # fmt: skip


def saturated_controller(log: Log, outcome: ForeignOutcome) -> Verdict:
    """A controller holds its coefficient at its upper bound."""
    for name in ("ent_coef", "kl_coef"):
        steps, values = log.points(name)
        late = values[-max(4, len(values) // 4) :]
        if len(values) >= 8 and np.ptp(late) == 0 and late[0] == values.max() > values.min():
            since = steps[int(np.argmax(values == late[0]))]
            return _named(log, 1.0 + float(outcome.is_poor) if outcome.is_poor else PRESENT, since,
                          f"the {name.replace('_', ' ')} climbs from {values[0]:.3g} and rests at {late[0]:.3g}",
                          "a coefficient that moves within its range",
                          f"a target that can be reached ({log.trainer.option('ent_target')}), a lower bound "
                          f"({log.trainer.option('ent_coef_max')}), or no controller")  # fmt: skip
    return RuledOut("no coefficient climbs to a bound and rests there")


def loss_budget(log: Log, outcome: ForeignOutcome) -> Verdict:
    """A bonus or an anchor outweighs the rewards."""
    bonus = _coefficient(log, "ent_coef")
    nats = outcome.nats
    said = f"entropy goes from {nats.before:.3g} to {nats.after:.3g} nats, and rewards do not rise"
    if outcome.entropy == FORCED_UP and bonus > 0:
        weight = f" ({log.trainer.option('ent_coef')} {bonus:.3g})"
        return _named(log, 2.0, 1, f"{said}{weight}", "rewards that rise", f"a lower {log.trainer.option('ent_coef')}",
                      ent_coef=bonus / 30)  # fmt: skip
    held = nats.after / nats.before if nats.before > 0 else math.nan
    if bonus > LARGE_BONUS and held > HELD_BY_BONUS:
        return _named(log, bonus / LARGE_BONUS, 1, f"the bonus has a coefficient of {bonus:.3g}, and entropy stays at "
                      f"{held:.0%} of its start", "a coefficient of some hundredths",
                      f"a lower {log.trainer.option('ent_coef')}", ent_coef=bonus / 10)  # fmt: skip
    if log.has("kl_ref") and max(log.values("kl_ref")) > 0:
        kl, beta = log.end("kl_ref"), _beta(log)
        pull = beta * math.sqrt(2 * max(kl, 0.0))
        said = f"the KL to the reference is {kl:.2g} nats at the end"
        if pull > PULL:
            beside = f"{said} with a coefficient of {beta:.3g}: {pull:.2g} times the pull of an advantage of size 1"
            lower = f"a lower {log.trainer.option('kl_coef')}"
            return _named(log, pull / PULL, 1, beside, "below a tenth", lower, kl_coef=beta / 100)
        if math.isnan(pull) and outcome.learning != LEARNING and kl < HELD_KL:
            return Untold(
                ("kl_coef",), f"{said}, and rewards do not rise: a large coefficient does that"
            )
        return RuledOut(said)
    if outcome.learning == LEARNING:
        if _acts(log) and held > HELD_ENTROPY and math.isnan(bonus):
            return Suspected(
                ("ent_coef",),
                f"rewards rise, and entropy stays at {held:.0%} of its start, as with a large bonus",
            )
        return RuledOut("rewards rise")
    if bonus == 0:
        return RuledOut("there is no bonus and no KL to a reference in the log")
    return Untold(("ent_coef", "kl_ref"), "the coefficients are not in the log")


def _coefficient(log: Log, name: str) -> float:
    """Largest value in the options or the log; 0 where the trainer would log it; NaN where unknown."""
    if not math.isnan(given := log.given(name)):
        return given
    values = log.values(name)
    return float(values.max()) if len(values) else 0.0 if log.trainer.logs_used_coefs else math.nan


def _beta(log: Log) -> float:
    """Coefficient of the KL: given, logged, or loss / KL where a batch serves one step and nothing else is in it."""
    if not math.isnan(given := log.given("kl_coef")):
        return given
    if log.has("kl_coef"):
        return float(log.values("kl_coef").max())
    if log.trainer.row_is_batch or log.uses != 1 or log.has("ent_coef") or not log.has("loss"):
        return math.nan
    loss, kl = log.columns["loss"], log.columns["kl_ref"]
    both = np.isfinite(loss) & np.isfinite(kl) & (kl > 1e-6)
    return float(np.median(loss[both] / kl[both])) if both.any() else math.nan


def fixed_prompts(log: Log, outcome: ForeignOutcome) -> Verdict:
    """The same few prompts are learned by heart."""
    epochs = float(np.max(log.values("epoch")))
    if epochs <= EPOCHS:
        return RuledOut(f"the data was gone over {epochs:.2g} times")
    said = f"the data was gone over {epochs:.0f} times"
    if len(log.values("eval_reward")) < 2:
        return Untold(
            ("eval_reward",), f"{said}: only an evaluation on other prompts tells what that did"
        )
    if not log.has("reward"):
        return Untold(("reward",), f"{said}: the rewards in training have to be set beside")
    steps, judged = log.points("eval_reward")
    paid = np.interp(steps, *log.points("reward"))
    paid[-1] = log.end("reward")
    gain, missing = judged[-1] - judged[0], (paid - judged)[-1] - max(0.0, (paid - judged)[0])
    said += f"; in the evaluation rewards rise by {gain:.2g}, in training by {missing:.2g} more"
    size = missing / (OVERFIT * max(gain + missing, 1e-9))
    if size < 1:
        return RuledOut(said)
    return _named(log, size, 1, said, "as much in both", "more prompts, or fewer steps on these")


def small_steps(log: Log, outcome: ForeignOutcome) -> Verdict:
    """The policy hardly moves."""
    nats, kl = log.values("entropy"), _moved(log)
    moved = float(np.ptp(nats) / max(abs(float(nats[0])), 1e-9)) if len(nats) > 1 else math.nan
    said = f"entropy moves by {moved:.2%} of its start" + (
        f", an update by {kl:.2g} nats" if kl >= 0 else ""
    )
    is_still = (
        outcome.learning != LEARNING and moved < STILL
        if math.isnan(kl)
        else kl < SMALL_KL and moved < 0.2
    )
    if not is_still:
        return RuledOut(said)
    if log.begin("dead") > DEAD:
        return RuledOut(f"{said}, and {log.begin('dead'):.0%} of the groups have equal rewards")
    rate = log.values("learning_rate")
    return _named(log, 2.0, 1, said, "some per cent",
                  f"a higher {log.trainer.option('learning_rate')} (10 times), or no bound on the steps (a target KL); "
                  "are the parameters in the optimizer?",
                  learning_rate=10 * float(rate.max()) if len(rate) else math.nan)  # fmt: skip


def sampled_entropy_bonus(log: Log, outcome: ForeignOutcome) -> Verdict:
    """The bonus is an estimate from samples."""
    if log.trainer.exact_bonus:
        return RuledOut(f"the bonus of {log.trainer.title} is the entropy itself")
    if _coefficient(log, "ent_coef") == 0:
        return RuledOut("there is no bonus")
    return Untold((), "which estimate the bonus rewards is not in the log")


def short_horizon(log: Log, outcome: ForeignOutcome) -> Verdict:
    """The discount leaves out what pays later in an episode."""
    gamma, length = _coefficient(log, "gamma"), log.end("episode_length")
    if math.isnan(gamma):
        # A critic begins near 0, so that its first errors are the returns.
        error = max(log.values("critic_error")[:5], default=math.nan)
        a_step = abs(log.begin("reward") / log.begin("episode_length"))
        if math.sqrt(error) < SEEN_AHEAD * a_step and length > EPISODE:
            return Suspected(
                ("gamma",),
                f"the critic's first errors are {math.sqrt(error) / a_step:.2g} times the reward of a step, and an "
                f"episode lasts {length:.3g}: either the discount leaves out what pays later, or the learner's rewards "
                "are scaled",
            )
        return Untold(("gamma",))
    steps = 1 / (1 - gamma) if gamma < 1 else math.inf
    said = f"with {log.trainer.option('gamma')} {gamma:g} rewards count for about {steps:.3g} steps"
    if steps < HORIZON and not length <= EPISODE * steps:
        # Right where every action is paid at once: the log does not say.
        return Suspected(
            (), f"{said}, and an episode lasts {length:.3g}: what pays later is not learned"
        )
    return RuledOut(said)


RULES: tuple[LogRule, ...] = (
    LogRule(
        "temperature_mismatch",
        (("surprise_gap",), ("mismatch",), ("mismatch_kl",)),
        temperature_mismatch,
        hidden_by=("forward_mismatch",),
    ),
    LogRule(
        "forward_mismatch",
        (
            ("surprise_gap",),
            ("mismatch",),
            ("mismatch_kl",),
            ("first_ratio_std",),
            ("entropy",),
            ("clip",),
        ),
        forward_mismatch,
    ),
    LogRule("high_learning_rate", (("entropy",),), high_learning_rate),
    LogRule(
        "saturated_controller", (("ent_coef",), ("kl_coef",), ("entropy",)), saturated_controller
    ),
    LogRule(
        "loss_budget",
        (("entropy", "reward"), ("entropy", "eval_reward")),
        loss_budget,
        hidden_by=("saturated_controller", "no_signal", "high_learning_rate"),
    ),
    LogRule(
        "no_signal",
        (("dead",), ("reward_std",), ("reward",)),
        no_signal,
        hidden_by=("high_learning_rate", "tight_clip", "small_steps"),
    ),
    LogRule("fixed_prompts", (("epoch",),), fixed_prompts),
    LogRule("old_samples", (("entropy",), ("clip",)), old_samples, hidden_by=("forward_mismatch",)),
    LogRule(
        "clip_asymmetry",
        (("clip_low", "clip_high"),),
        clip_asymmetry,
        hidden_by=("forward_mismatch",),
    ),
    LogRule("tight_clip", (("clip", "kl_update"),), tight_clip),
    LogRule(
        "small_steps",
        (("entropy",),),
        small_steps,
        hidden_by=("loss_budget", "tight_clip"),
    ),
    LogRule("sampled_entropy_bonus", (("entropy",),), sampled_entropy_bonus),
    LogRule("short_horizon", (("gamma",), ("episode_length",)), short_horizon),
)
"""In the order of their rank: what corrupts the samples comes first."""
