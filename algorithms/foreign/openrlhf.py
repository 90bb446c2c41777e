"""OpenRLHF: TensorBoard or W&B."""

from algorithms.foreign.trainer import Column, Trainer

OPENRLHF = Trainer(
    name="openrlhf",
    title="OpenRLHF",
    checked="v0.11.0 (3c3be62); read, not run",
    unit="token",
    steps=("train/global_step", "step", "global_step", "_step"),
    columns={
        "rollout/reward_mean": Column("reward", means="before the KL"),
        "reward": Column("reward", means="before the KL"),
        "group_reward_std": Column("reward_std", means="mean of those within groups"),
        "rollout/reward_std": Column("reward_std", means="over the whole batch"),
        "entropy_loss": Column("entropy", means="of logits that are not divided by the temperature"),
        "ppo_clip_ratio": Column("clip", means="both sides, samples that lose their gradient"),
        "ppo_kl": Column("kl_signed", means="k1, mean over the steps of the update"),
        "kl": Column("kl_ref", means="0 where there is no reference"),
        "vllm_kl": Column("mismatch_kl", means="k1; only with the importance-sampling correction"),
        "actor_grad_norm": Column("grad_norm", means="of the last step"),
        "actor_lr": Column("learning_rate", means="the next step's"),
        "policy_loss": Column("loss"),
    },
    patterns={r"eval_.*_pass1": Column("eval_reward", means="mean over the data sources")},
    prefixes={"train/": "", "eval/": ""},
    options={
        "learning_rate": "--actor.adam.lr",
        "passes": "--train.max_epochs",
        "clip_high": "--actor.eps_clip_low_high",
        "ent_coef": "--actor.entropy_coef",
        "kl_coef": "--algo.kl.init_coef",
        "group_size": "--rollout.n_samples_per_prompt",
        "temperature": "--rollout.temperature",
    },
    without=frozenset({"short_horizon", "tight_clip"}),
    logged_by={
        "entropy": "--actor.entropy_coef 0 (0 only logs it)",
        "dead": "nothing in OpenRLHF: group_reward_std is near 0 where most groups are equal",
        "mismatch_kl": "the importance-sampling correction of vLLM",
        "eval_reward": "--eval.steps with --eval.dataset",
    },
)  # fmt: skip
