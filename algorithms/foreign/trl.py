"""TRL: GRPOTrainer and RLOOTrainer, as `trainer_state.json`, `log_history`, TensorBoard or W&B."""

from collections.abc import Mapping
from typing import Any

from algorithms.foreign.trainer import Column, Trainer

_EVERY = "mean over the rows' steps (`logging_steps`)"


def _uses(config: Mapping[str, Any]) -> int | None:
    names = ("num_iterations", "steps_per_generation", "gradient_accumulation_steps")
    values = [config.get(name, 1) for name in names]
    if not config or not all(type(value) is int and value > 0 for value in values):
        return None
    passes, batches, accumulated = values
    return max(1, passes * batches // accumulated)


TRL = Trainer(
    name="trl",
    title="TRL",
    checked="1.16.0 (transformers 5.24.0)",
    unit="token",
    steps=("step", "train/global_step", "global_step", "_step"),
    columns={
        "reward": Column("reward", means="mean over a generation; rows between two have none"),
        "eval_reward": Column("eval_reward"),
        "reward_std": Column("reward_std", means="over the whole batch since 0.27, within groups before"),
        "frac_reward_zero_std": Column(
            "dead", means="of a generation; of RLOOTrainer after the KL, which hides equal rewards; 0 or 1 with "
            "scale_rewards='batch'",
        ),
        "entropy": Column("entropy", means=f"exact, at the sampled tokens; {_EVERY}"),
        "clip_ratio/low_mean": Column("clip_low", means="samples that lose their gradient"),
        "clip_ratio/high_mean": Column("clip_high", means="samples that lose their gradient"),
        "clip_ratio/region_mean": Column("clip", means="the two together"),
        "kl": Column("kl_ref", means="k3; only where beta is not 0"),
        "sampling/sampling_logp_difference/mean": Column("mismatch", means="with vLLM alone"),
        "grad_norm": Column("grad_norm"),
        "learning_rate": Column("learning_rate"),
        "entropy_coef": Column("ent_coef", means="only where it is not 0"),
        "epoch": Column("epoch", means="goes on from resume to resume"),
        "loss": Column("loss", means="about 0 on-policy"),
        "doctor/surprise_gap": Column("surprise_gap", means="the callback's"),
        "doctor/inverse_temperature": Column("inverse_temperature", means="the callback's"),
        "doctor/first_ratio_std": Column("first_ratio_std", means="the callback's"),
        "doctor/dropout": Column("dropout", means="the callback's"),
    },
    prefixes={"train/": "", "eval/": "eval_"},
    options={
        "learning_rate": "learning_rate",
        "passes": "num_iterations",
        "batches": "steps_per_generation",
        "clip_high": "epsilon_high",
        "ent_coef": "entropy_coef",
        "ent_coef_max": "entropy_coef_max",
        "ent_target": "entropy_target",
        "kl_coef": "beta",
        "group_size": "num_generations",
        "temperature": "temperature",
        "dropout": "disable_dropout",
    },
    logged_by={
        "mismatch": "use_vllm with vllm_importance_sampling_correction; without vLLM the callback",
        "surprise_gap": "the callback of docs/other_trainers.md",
        "eval_reward": 'eval_strategy="steps" with an eval_dataset',
        "dead": "every GRPOTrainer since 0.17",
        "entropy": "every GRPOTrainer since 0.20",
        "kl_ref": "beta above 0",
    },
    row_is_batch=False,
    without=frozenset({"short_horizon", "tight_clip"}),
    uses=_uses,
    exact_bonus=True,
    logs_used_coefs=True,
)  # fmt: skip
