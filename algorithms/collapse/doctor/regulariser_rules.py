"""Rules on what should hold the entropy."""

from __future__ import annotations

from algorithms.collapse.doctor.evidence import LARGEST_ENTROPY, Evidence, Record, rerun


def sampled_entropy_bonus(record: Record) -> Evidence | None:
    """What is rewarded as entropy parts from the entropy."""
    pairs = record.both("reg/entropy_sampled", "reg/entropy")
    weights = record.series("reg/entropy_weighted")
    if not pairs or not any(weight != 0 for weight in weights):
        return None
    sampled, exact = max(pairs, key=lambda pair: pair[0] - pair[1])
    highest = max(pair[0] for pair in pairs)
    confidence = 0.6
    if sampled - exact > 0.3:
        confidence = 0.95
    if highest > LARGEST_ENTROPY:
        confidence = 0.99
    fought = record("late reg/controller_saturated") > 0.5 and record("late reg/kl_old") > 0.05
    trap = (
        f"; a KL to the old policy pulls the other way with its coefficient at its bound "
        f"({record('last reg/kl_old_coef'):.3g}), and the exact KL is {record('late reg/kl_old'):.2g}"
        if fought
        else ""
    )
    return Evidence(
        "sampled_entropy_bonus",
        confidence,
        f"-mean(log pi) of the sampled moves, which the bonus rewards, reaches {highest:.2f} nats "
        f"where the exact entropy is {exact:.2f} (an entropy is at most {LARGEST_ENTROPY:.3f}); the "
        f"exact one ends at {record('last reg/entropy'):.2f}{trap}",
        "the two are equal up to sampling noise",
        "reward the exact entropy (regularizer.ent_estimator exact)",
        rerun("--regularizer.ent-estimator exact"),
    )


def saturated_controller(record: Record) -> Evidence | None:
    """A controller sits at its bound and what it controls does not come to its target."""
    late = record("late reg/controller_saturated")
    if not late > 0.5:
        return None
    coefs = {
        name: record(f"last reg/{name}") for name in ("ent_coef", "kl_old_coef", "kl_ref_coef")
    }
    at = ", ".join(f"{name} {value:.3g}" for name, value in coefs.items() if value > 0)
    return Evidence(
        "saturated_controller",
        0.9 if record("mean reg/controller_saturated") > 0.3 else 0.7,
        f"a controller held its coefficient at its bound in {late:.0%} of the last quarter of the "
        f"updates ({at}); the KL to the sampler is {record('late reg/kl_old'):.2g} nats there, "
        f"held-out regret went to {record.regret_kept:.0%} of its start",
        "a controller that is within its range",
        "a target that can be reached, a wider bound, or no controller",
        rerun("--regularizer.kl-controller none", "--regularizer.ent-controller none"),
    )


def loss_budget(record: Record) -> Evidence | None:
    """A regulariser holds the policy where it alone wants it, and the rewards are not heard."""
    at_bound = record("late eval/entropy_normalized")
    weighted = abs(record("mean reg/entropy_weighted"))
    entropy_pulls = record.start("grad_share/entropy", 2)
    anchored = record("late policy/kl_ref")
    anchor_pulls = record("median grad_share/kl_ref")
    if not record.start("rollout/reward_zero_std_fraction") < 0.25:
        return None  # without rewards that differ, whatever is left of the loss rules
    if at_bound > 0.97 and entropy_pulls > 0.4 and record.regret_kept > 0.85:
        return Evidence(
            "loss_budget",
            0.95,
            f"the entropy bonus had {entropy_pulls:.0%} of the gradient norm at the first looks, "
            f"the policy is uniform ({at_bound:.1%} of the largest entropy) and held-out regret is "
            f"{record.regret_kept:.0%} of its start; weighted bonus {weighted:.2g} against a policy "
            f"loss of {abs(record('mean train/policy_loss')):.2g}",
            "a policy that leaves uniform as it learns",
            "lower regularizer.ent_coef until the policy has most of the gradient",
            rerun(f"--regularizer.ent-coef {record('last reg/ent_coef') / 10:.3g}"),
        )
    if anchor_pulls > 0.4 and anchored < 0.02 and record.regret_kept > 0.95:
        return Evidence(
            "loss_budget",
            0.85,
            f"the KL to the reference has {anchor_pulls:.0%} of the gradient norm, the policy is "
            f"{anchored:.2g} nats from it and held-out regret is {record.regret_kept:.0%} of its "
            "start",
            "a policy that leaves the reference as it learns",
            "lower regularizer.kl_ref_coef",
            rerun(f"--regularizer.kl-ref-coef {record('last reg/kl_ref_coef') / 10:.3g}"),
        )
    return None


def sharp_optimum(record: Record) -> Evidence | None:
    """The regularised objective itself is best served by a policy almost without entropy."""
    optimum = record("last probe/optimum_entropy")
    if not optimum < 0.7:
        return None
    now, anchor = record("last probe/entropy"), record("last reg/kl_ref_coef")
    change = f"--regularizer.kl-ref-coef {100 * anchor:.3g}"
    if not anchor > 0:  # nothing to multiply: then only the bonus shapes the optimum
        change = f"--regularizer.ent-coef {10 * record('last reg/ent_coef'):.3g}"
    return Evidence(
        "sharp_optimum",
        0.9 if record.entropy_kept < 0.6 else 0.6,
        f"with the coefficients in force the best policy has {optimum:.2f} nats on the probe "
        f"positions (the policy: {now:.2f}, falling from {record('first probe/entropy'):.2f}); the "
        f"KL to the reference has {record('median grad_share/kl_ref'):.1%} of the gradient norm",
        "an optimum with the entropy that is wanted",
        "raise regularizer.kl_ref_coef, or add an entropy bonus (regularizer.ent_coef)",
        rerun(change),
    )
