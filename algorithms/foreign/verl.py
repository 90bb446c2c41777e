"""verl: the lines of its file logger, TensorBoard or W&B."""

from algorithms.foreign.trainer import Column, Trainer

_ACTOR = "actor_rollout_ref.actor"


VERL = Trainer(
    name="verl",
    title="verl",
    checked="main 1dda039 (0.10.0.dev), names also in v0.4.0 to v0.9.0, read, not run; "
    "three printed logs of December 2024",
    unit="token",
    steps=("step", "training/global_step", "_step"),
    columns={
        "critic/score/mean": Column("reward", means="before the KL; of the sequence"),
        "critic/rewards/mean": Column("reward", means="after the KL"),
        "actor/entropy": Column("entropy", means="old policy, whole batch; of the update in v0.7"),
        "actor/entropy_loss": Column("entropy", means="mean over the steps of the update"),
        "actor/pg_clipfrac": Column("clip", means="both sides, samples that lose their gradient; 0 with SAPO"),
        "actor/ppo_kl": Column("kl_signed", means="k1, mean over the steps of the update"),
        "actor/kl_loss": Column("kl_ref", means="by kl_loss_type, k3 by default"),
        "actor/reward_kl_penalty": Column("kl_ref", means="by algorithm.kl_penalty, k1 by default"),
        "actor/kl_coef": Column("kl_coef"),
        "actor/reward_kl_penalty_coeff": Column("kl_coef"),
        "rollout_corr/k3_kl": Column("mismatch_kl", means="k3"),
        "actor/rollout_corr/k3_kl": Column("mismatch_kl", means="k3"),
        "mismatch/k3_kl": Column("mismatch_kl", means="k3; v0.6.0"),
        "actor/grad_norm": Column("grad_norm", means="mean over the steps of the update"),
        "actor/lr": Column("learning_rate", means="the next step's"),
        "actor/lr(1e-4)": Column("learning_rate", 1e-4, "of 2024"),
        "training/epoch": Column("epoch", means="whole epochs, from 0"),
        "actor/loss": Column("loss"),
    },
    patterns={
        r"val-core/.*/mean@\d+": Column("eval_reward", means="mean over the data sources"),
        r"val/test_score/.*": Column("eval_reward", means="mean over the data sources; of 2024"),
    },
    options={
        "learning_rate": f"{_ACTOR}.optim.lr",
        "passes": f"{_ACTOR}.ppo_epochs",
        "clip_high": f"{_ACTOR}.clip_ratio_high",
        "ent_coef": f"{_ACTOR}.entropy_coeff",
        "kl_coef": f"{_ACTOR}.kl_loss_coef",
        "group_size": "actor_rollout_ref.rollout.n",
        "temperature": "actor_rollout_ref.rollout.temperature",
    },
    without=frozenset({"short_horizon", "tight_clip"}),
    logged_by={
        "dead": "nothing in verl: a reward function that counts it; algorithm.filter_groups.enable drops such groups",
        "mismatch_kl": "actor_rollout_ref.rollout.calculate_log_probs=True (the default since v0.9)",
        "entropy": f"{_ACTOR}.calculate_entropy=True",
        "eval_reward": "trainer.test_freq above 0",
    },
)  # fmt: skip
