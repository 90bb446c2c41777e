"""Causes in the terms that should keep the entropy up."""

from __future__ import annotations

from algorithms.collapse.causes.cause import FOUR_PASSES, UNSCALED, Cause, Predicate, Published

LEARNS = 0.1
"""Weight of an exact bonus with which a run of four passes learns (285 -> 213 cp on resnet, 95 on move_net). With the
weight that the sampled one has it is pushed towards uniform and gets worse (285 -> 311 to 318)."""

REGULARISERS = (
    Cause(
        name="sampled_entropy_bonus",
        doctor_class="sampled_entropy_bonus",
        title="An entropy bonus computed from sampled moves",
        because="-mean(log pi) of the sampled moves has no gradient on-policy, and off-policy it "
        "pushes the policy away from its own samples without bound: the logged \"entropy\" leaves "
        "the range that any entropy has, the real one falls.",
        remedy="the exact entropy over the legal moves (ent_estimator exact)",
        shared=FOUR_PASSES,
        settings={"regularizer.ent_estimator": "sampled", "regularizer.ent_coef": 0.35},
        cured={"regularizer.ent_coef": LEARNS},
        predicates=(
            Predicate("max reg/entropy_sampled", "above", 5.385, 1.0),
            Predicate("last eval/entropy", "below", 1.5, 1.0),
            Predicate("last eval/regret_cp", "above", 340.0, 20.0),
        ),
        published=(
            Published(
                "logged entropy (the largest possible is 5.385)", "22 to 68",
                "post-mortem zjij66xd", "max reg/entropy_sampled",
            ),
        ),
    ),
    Cause(
        name="kl_trap",
        doctor_class="sampled_entropy_bonus",
        title="The sampled bonus against a KL to the old policy",
        because="The penalty is the same estimate with the opposite sign: the two fight over one "
        "quantity, the controller drives the KL coefficient to its bound, and entropy swings "
        "between collapse and a \"recovery\" that is repulsion.",
        remedy="exact estimators, and a KL to a reference in place of the old policy",
        shared={**FOUR_PASSES, "regularizer.kl_old_coef": 0.1},
        settings={"regularizer.ent_estimator": "sampled", "regularizer.ent_coef": 0.35,
                  "regularizer.kl_old_estimator": "forward_k1",
                  "regularizer.kl_controller": "post_mortem", "regularizer.kl_target": 0.012},
        cured={"regularizer.ent_coef": LEARNS},
        predicates=(
            Predicate("late reg/controller_saturated", "above", 0.9, 0.9),
            Predicate("max reg/kl_old", "above", 0.2, 0.2),
            Predicate("last eval/entropy", "below", 1.0, 0.5),
        ),
        published=(
            Published("KL to the old policy, nats", "16.5 times the target of .012",
                      "post-mortem zjij66xd", "max reg/kl_old"),
            Published("KL coefficient", "pinned at .2", "post-mortem zjij66xd", "last reg/kl_old_coef"),
            Published("entropy", ".83, 2.01, .04", "post-mortem zjij66xd", "last policy/entropy"),
            Published("action agreement", ".12 to .94", "post-mortem zjij66xd",
                      "last policy/action_agreement"),
        ),
    ),
    Cause(
        name="saturated_controller",
        doctor_class="saturated_controller",
        title="A KL controller whose target cannot be reached",
        because="One update moves the policy further than the target allows at any weight: the "
        "coefficient climbs to its bound, stays there, and the penalty holds the policy still.",
        remedy="a target that an update of this size can meet, or a fixed coefficient",
        shared={"regularizer.kl_old_coef": 0.1, "regularizer.kl_controller": "doubling",
                "regularizer.kl_coef_max": 50.0},
        settings={"regularizer.kl_target": 1e-4},
        cured={"regularizer.kl_target": 0.01},
        predicates=(
            Predicate("late reg/controller_saturated", "above", 0.9, 0.9),
            Predicate("last eval/regret_cp", "above", 205.0, 25.0),
        ),
        published=(
            Published("controller at its maximum", "from step 500 of 6,800",
                      "post-mortem xkbkwo4s", "mean reg/controller_saturated"),
        ),
    ),
    Cause(
        name="loss_budget",
        doctor_class="loss_budget",
        title="A bonus that outweighs the reward",
        because="The entropy term has most of the gradient until the policy is uniform; there it "
        "holds it. Entropy looks healthy, and nothing is learned.",
        remedy="look at gradient shares, not at shares of the loss value; lower ent_coef",
        settings={"regularizer.ent_coef": 3.0},
        predicates=(
            Predicate("late eval/entropy_normalized", "above", 0.97, 0.1),
            Predicate("last eval/regret_cp", "above", 340.0, 80.0),
        ),
        published=(
            Published("entropy's share of the loss value", "93 to 96 %", "post-mortem xkbkwo4s",
                      "first loss_share/entropy"),
            Published("what is learned: theirs reward, ours held-out regret, cp",
                      "flat over 6,800 steps", "post-mortem xkbkwo4s",
                      "gain eval/regret_cp"),
        ),
    ),
    Cause(
        name="sharp_optimum",
        doctor_class="sharp_optimum",
        title="The regularised objective's own optimum is sharp",
        because="With a KL weight of .001 to the reference, pi_ref exp(R / beta) has nearly all its "
        "mass on one move: training that works ends without entropy.",
        remedy="a larger kl_ref_coef, or an entropy bonus",
        shared=UNSCALED,
        settings={"regularizer.kl_ref_coef": 0.001},
        cured={"regularizer.kl_ref_coef": 0.1},
        predicates=(
            Predicate("last probe/optimum_entropy", "below", 0.5, 0.5),
            Predicate("last eval/entropy", "below", 1.0, 0.5),
        ),
        published=(
            Published("entropy of the optimum at beta .001, uniform reference (theirs: cp / 1000)",
                      ".05", "reference table for the blog's claim", "last probe/optimum_entropy"),
        ),
    ),
)  # fmt: skip
