"""Causes in the samples: they do not come from the distribution that the learner assumes."""

from __future__ import annotations

from algorithms.collapse.causes import faults
from algorithms.collapse.causes.cause import Cause, Predicate, Published

SAMPLES = (
    Cause(
        name="temperature_mismatch",
        doctor_class="temperature_mismatch",
        title="Sampled at one temperature, learned at another",
        because="Moves are drawn at T = 1.3, the learner's softmax runs at T = 1. The two are "
        "different policies before anything is learned: half of the ratios are out of range and "
        "the gradient corrects the temperature in place of the play.",
        remedy="build sampler and learner from one temperature, stored with the rollout",
        shared={"rollout.temperature": 1.3},
        fault=faults.learner_temperature(1.0),
        fault_says="the learner's softmax runs at temperature 1.0",
        predicates=(
            Predicate("first step0/clip_fraction", "above", 0.3, 0.3),
            Predicate("first step0/kl_old_mean", "above", 0.02, 0.02),
            Predicate("last eval/regret_cp", "above", 260.0, 60.0),
        ),
        published=(
            Published(
                "out-of-range share at step 0", ".556", "post-mortem p9u63rgu",
                "first step0/clip_fraction",
            ),
            Published("KL at step 0", ".046", "post-mortem p9u63rgu", "first step0/kl_old_mean"),
            Published("entropy", "2.816", "post-mortem p9u63rgu", "first policy/entropy"),
        ),
        blocked_by_preflight=True,
    ),
    Cause(
        name="dropout_in_rollout",
        doctor_class="forward_mismatch",
        title="The sampler is left in training mode",
        because="Dropout of .1 acts while moves are drawn and not while they are learned: the "
        "ratios are wrong at random, anew in every forward pass.",
        remedy="put both policies in evaluation mode, or train without dropout",
        shared={"policy.dropout": 0.1},
        fault=faults.sampler_drops_features,
        fault_says="the sampling policy is in training mode",
        predicates=(
            Predicate("first step0/repeat_error", "above", 0.05, 0.05),
            Predicate("first step0/log_odds_residual", "above", 0.05, 0.05),
            Predicate("last eval/regret_cp", "above", 220.0, 20.0),
        ),
        published=(
            Published(
                "out-of-range share of the first step", ".54", "issue reef#536, another network",
                "first step0/clip_fraction",
            ),
        ),
        blocked_by_preflight=True,
    ),
    Cause(
        name="forward_mismatch",
        doctor_class="forward_mismatch",
        title="Sampler and learner compute different policies",
        because="The sampler's logits are off the learner's by fixed noise (standard deviation .8), "
        "as from another inference engine with its own weights' format.",
        remedy="recompute the old log-probabilities with the learner, or use one forward pass",
        fault=faults.sampler_keeps_noise(0.8),
        fault_says="the sampler's action biases are off by noise of standard deviation .8",
        predicates=(
            Predicate("first step0/log_odds_residual", "above", 0.1, 0.1),
            Predicate("median ratio/std_first_minibatch", "above", 0.1, 0.1),
            Predicate("last eval/regret_cp", "above", 210.0, 15.0),
        ),
        blocked_by_preflight=True,
    ),
    Cause(
        name="low_precision",
        doctor_class="forward_mismatch",
        title="The sampler's head runs in bfloat16",
        because="Its log-probabilities carry rounding noise that the learner's do not have.",
        remedy="a float32 head and float32 log-softmax on both sides, or float16",
        fault=faults.sampler_precision(head_dtype="bfloat16"),
        fault_says="the sampler's head computes in bfloat16, the learner's in float32",
        predicates=(Predicate("median ratio/std_first_minibatch", "above", 1e-3, 1e-3),),
        published=(
            Published(
                "ratios beyond +20 % / below -20 % at logits of about 30", "1.03 % / .26 %",
                "simulation for the blog's claim", "first step0/clip_fraction",
            ),
        ),
        blocked_by_preflight=True,
    ),
    Cause(
        name="stale_behaviour",
        doctor_class="stale_behaviour",
        title="The sampler is brought up to date every 16 updates",
        because="From the second update on the batch comes from an older policy; the ratio leaves "
        "its range before the first step of an update, and the clip throws samples away.",
        remedy="synchronise at every update, or take fewer steps between",
        settings={"rollout.sync_interval_updates": 16},
        predicates=(
            Predicate("median ratio/std_first_minibatch", "above", 0.1, 0.1),
            Predicate("last eval/regret_cp", "above", 215.0, 25.0),
        ),
        published=(
            Published(
                "clip fraction, 16 updates between synchronisations", ".46 to .52",
                "post-mortem xkbkwo4s (T 1.3 mismatch besides)", "mean policy/ratio_out_of_range",
            ),
        ),
    ),
)  # fmt: skip
