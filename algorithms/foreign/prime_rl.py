"""prime-rl: the metrics.jsonl of its file monitor, or W&B; the rows of one step go together."""

from algorithms.foreign.trainer import Column, Trainer

PRIME_RL = Trainer(
    name="prime-rl",
    title="prime-rl",
    checked="559b447 (0.8.1.dev), reward names also of v0.5.0; read, not run",
    unit="token",
    steps=("step", "_step"),
    columns={
        "reward/all/mean": Column("reward", means="v0.5"),
        "entropy/all/mean": Column("entropy"),
        "is_masked/mean": Column("clip", means="samples that the mask takes the gradient of"),
        "is_masked_low/mean": Column("clip_low", means="masked below"),
        "is_masked_high/mean": Column("clip_high", means="masked above"),
        "mismatch_kl/all/mean": Column("mismatch_kl", means="k3; also what samples are old by"),
        "optim/grad_norm": Column("grad_norm"),
        "optim/lr": Column("learning_rate", means="the next step's"),
    },
    patterns={
        r"train/agg/all/[^/]+/reward/mean": Column("reward", means="failed ones count as 0"),
        r"eval/[^/]+/all/[^/]+/avg@\d+": Column("eval_reward", means="mean over the environments"),
    },
    options={
        "learning_rate": "trainer.optim.lr",
        "clip_high": "trainer.loss.dppo_mask_high",
        "kl_coef": "trainer.loss.kl_tau",
        "group_size": "orchestrator.group_size",
        "temperature": "orchestrator.train.sampling.temperature",
    },
    without=frozenset({"short_horizon", "tight_clip"}),
    logged_by={
        "dead": "solved_none and solved_all, for rewards of 0 and 1 alone",
        "eval_reward": "orchestrator.eval.interval",
    },
)  # fmt: skip
