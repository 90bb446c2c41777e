"""Causes in the steps that are taken on good samples."""

from __future__ import annotations

import math

from algorithms.collapse.causes.cause import UNSCALED, Cause, Predicate, Published

STEPS = (
    Cause(
        name="update_epochs",
        doctor_class="update_epochs",
        title="Eight passes over each batch, without a clip",
        because="Each pass moves the policy further on the same samples: the ratio's variance "
        "explodes, and entropy is spent on what a few samples happened to show.",
        remedy="one pass, a clip or a target KL",
        shared={**UNSCALED, "algorithm.clip_range": 1.0, "algorithm.clip_range_high": math.inf,
                "total_moves": 8 * 1024, "eval_interval_updates": 2,
                "diagnostics_interval_updates": 2},
        settings={"algorithm.update_epochs": 8},
        predicates=(
            Predicate("median ratio/ess", "below", 0.5, 0.3),
            Predicate("last eval/entropy", "below", 0.8, 0.3),
        ),
        published=(
            Published(
                "entropy lost", "more with every further pass", "the blog, cause 1",
                "gain eval/entropy",
            ),
        ),
    ),
    Cause(
        name="weak_entropy_high_lr",
        doctor_class="weak_entropy_high_lr",
        title="A high learning rate and a bonus too weak to matter",
        because="Steps eight times as large spend the entropy within a few updates; the bonus has "
        "1 % of the gradient and cannot hold it, and a policy without entropy samples nothing new.",
        remedy="a lower learning rate, and an exact bonus with a share of the gradient",
        settings={"optimizer.learning_rate": 4e-3, "optimizer.warmup_updates": 0,
                  "regularizer.ent_coef": 0.01},
        predicates=(
            Predicate("last eval/entropy", "below", 0.8, 0.4),
            Predicate("last eval/pass_at_8", "below", 0.62, 0.06),
        ),
        published=(
            Published("entropy, first", "3.17", "post-mortem p26atclv", "first policy/entropy"),
            Published("entropy, last", ".71", "post-mortem p26atclv", "last policy/entropy"),
            Published("effective moves", "24 to 2", "post-mortem p26atclv", "last policy/effective_moves"),
        ),
    ),
    Cause(
        name="clip_asymmetry",
        doctor_class="clip_asymmetry",
        title="An upper clip far tighter than the lower one",
        because="A move that did well may gain 2 % a batch, one that did badly may lose 20 %: what "
        "raises rare moves is cut, what lowers them is not.",
        remedy="a wider upper bound (clip_range_high .28)",
        shared={"algorithm.update_epochs": 2},
        settings={"algorithm.clip_range_high": 0.02},
        cured={"algorithm.clip_range_high": 0.28},
        predicates=(
            Predicate("mean clip/up_p_01_10", "above", 0.3, 0.2),
            Predicate("mean clip/up_p_10_50", "above", 0.3, 0.2),
        ),
        published=(
            Published("at +-20 %, p = .9 may rise to / p = .01 to", "1.08 / .012",
                      "the blog, cause 2", "mean clip/up_p_below_01"),
        ),
    ),
)  # fmt: skip
