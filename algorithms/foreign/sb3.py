"""Stable-Baselines3 and sb3-contrib: progress.csv, progress.json or TensorBoard of PPO, MaskablePPO and A2C."""

from algorithms.foreign.trainer import Column, Trainer

SB3 = Trainer(
    name="sb3",
    title="Stable-Baselines3",
    checked="2.9.2 (sb3-contrib 2.9.2)",
    unit="action",
    steps=("time/total_timesteps", "global_step", "step", "_step"),
    columns={
        "rollout/ep_rew_mean": Column("reward", means="mean return of the last 100 episodes"),
        "eval/mean_reward": Column("eval_reward", means="mean return"),
        "rollout/ep_len_mean": Column("episode_length", means="of the last 100 episodes"),
        "train/entropy_loss": Column("entropy", -1.0, "mean over all steps on the batch; log-probability where "
                                     "the distribution has no closed form"),
        "train/clip_fraction": Column("clip", means="both sides, whatever the advantage's sign"),
        "train/approx_kl": Column("kl_update", means="k3, mean over the last pass"),
        "train/learning_rate": Column("learning_rate"),
        "train/loss": Column("loss", means="of the last minibatch"),
        "train/value_loss": Column("critic_error", means="mean over all steps on the batch, in the units of the "
                                   "learner's rewards"),
        "train/n_updates": Column("passes_done"),
        "time/iterations": Column("batches_done"),
        "doctor/surprise_gap": Column("surprise_gap", means="the callback's; of the rollout that ends at the row"),
        "doctor/inverse_temperature": Column("inverse_temperature", means="the callback's; of the same rollout"),
        "doctor/first_ratio_std": Column("first_ratio_std", means="the callback's; of the update before, as `train/`"),
        "doctor/ent_coef": Column("ent_coef", means="the callback's"),
        "doctor/gamma": Column("gamma", means="the callback's"),
        "doctor/dropout": Column("dropout", means="the callback's; of the update before"),
    },
    options={
        "learning_rate": "learning_rate",
        "passes": "n_epochs",
        "clip_high": "clip_range",
        "ent_coef": "ent_coef",
        "gamma": "gamma",
        "temperature": "exploration",
        "group_size": "n_steps",
    },
    logged_by={
        "eval_reward": "EvalCallback",
        "surprise_gap": "the callback of docs/other_trainers.md",
        "reward": "a Monitor around the environment",
        "ent_coef": "the callback; or give the options by --config",
        "gamma": "the callback; or give the options by --config",
    },
    without=frozenset({"fixed_prompts", "saturated_controller", "clip_asymmetry"}),
    exact_bonus=True,
)  # fmt: skip
