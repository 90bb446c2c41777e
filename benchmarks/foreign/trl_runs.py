"""Runs of TRL's GRPOTrainer with one fault each and their twins, on a CPU: logs to judge the doctor by.

In an environment of its own (`make trl-env`; the packed logs are of TRL 1.16.0, transformers 5.24.0, torch 2.13.0):

    .venv-trl/bin/python -m benchmarks.foreign.trl_runs --part open --out runs/trl/open --seeds 1 2

A tiny GPT-2 (two layers, 32 symbols in eight classes) sees four symbols and answers with four; the reward is the share
of answers from the class of the symbol in their place, so ln 4 nats a token are free. A supervised start has it prefer
a wrong class. Each run leaves OUT/KIND__SEED/{trainer_state.json,args.json,label.json}; what is there is not run again.
With `--callback` the log has the doctor's columns, and the label's `weights` are those of a run without it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

SYMBOLS, CLASSES = 32, 8
DECOY = 0.55
"""Share of the supervised answers from a wrong class."""

BASE: dict[str, Any] = {
    "learning_rate": 1e-3,
    "max_steps": 80,
    "per_device_train_batch_size": 64,
    "num_generations": 8,
    "max_completion_length": 4,
    "temperature": 1.0,
    "logging_steps": 1,
    "eval_strategy": "steps",
    "eval_steps": 20,
    "eval_on_start": True,
    "per_device_eval_batch_size": 128,
    "disable_dropout": True,
    "save_strategy": "no",
    "report_to": "none",
    "disable_tqdm": True,
    "use_cpu": True,
    "dataloader_num_workers": 0,
    "max_grad_norm": 1.0,
    "lr_scheduler_type": "constant",
}

PASSES = {"steps_per_generation": 1, "num_iterations": 8, "epsilon": 0.999, "epsilon_high": 100.0}
STALE = {"steps_per_generation": 16, "num_iterations": 1}


class Kind(NamedTuple):
    """A kind of run.

    Attributes:
        cause: the doctor's name; "" of a sound run.
        settings: TRL's options that make it.
        twin: the kind without the fault; "" of a sound run.
        change: of (model, reward function), what no option makes.
        prompts: how many different ones it trains on.
        dropout: of the model.
        in_log: whether a stock log shows something of it.
        also: another name that is right: a filter in sampling also leaves groups with equal rewards.
    """

    cause: str = ""
    settings: Mapping[str, Any] = {}
    twin: str = ""
    change: str = ""
    prompts: int = 4096
    dropout: float = 0.0
    in_log: bool = True
    also: str = ""


OPEN: dict[str, Kind] = {
    "sound": Kind(),
    "sound_lr3e-4": Kind("", {"learning_rate": 3e-4}),
    "sound_beta.02": Kind("", {"beta": 0.02}),
    "sound_bonus.02": Kind("", {"entropy_coef": 0.02}),
    "sound_iterations2": Kind("", {"num_iterations": 2, "steps_per_generation": 1}),
    "sound_steps4": Kind("", {"steps_per_generation": 4}),
    "sound_mean10": Kind("", {"logging_steps": 10}),
    "sound_adaptive": Kind("", {"use_adaptive_entropy": True, "entropy_target": 1.0}),
    "lr3e-2": Kind("high_learning_rate", {"learning_rate": 3e-2}, "sound"),
    "lr1e-2": Kind("high_learning_rate", {"learning_rate": 1e-2}, "sound"),
    "hard": Kind("no_signal", {}, "sound", "hard"),
    "sharp": Kind("no_signal", {}, "sound", "sharp"),
    "squash": Kind("no_signal", {}, "sound", "squash"),
    "stale16": Kind("old_samples", STALE, "sound"),
    "passes8": Kind("old_samples", PASSES, "sound"),
    "dropout": Kind(
        "forward_mismatch", {"disable_dropout": False, "num_iterations": 2, "steps_per_generation": 1},
        "sound_iterations2", "", 4096, 0.3,
    ),
    "high.02": Kind(
        "clip_asymmetry",
        {"num_iterations": 4, "steps_per_generation": 1, "epsilon": 0.2, "epsilon_high": 0.02},
        "sound_iterations2",
    ),
    "beta10": Kind("loss_budget", {"beta": 10.0}, "sound_beta.02"),
    "bonus1": Kind("loss_budget", {"entropy_coef": 1.0}, "sound_bonus.02"),
    "adaptive": Kind(
        "saturated_controller",
        {"use_adaptive_entropy": True, "entropy_target": 4.0, "entropy_coef_delta": 0.05},
        "sound_adaptive",
    ),
    "prompts8": Kind("fixed_prompts", {"learning_rate": 3e-3}, "sound", "", 8),
    "hot1.5": Kind(
        "temperature_mismatch", {"generation_kwargs": {"temperature": 1.5}}, "sound", in_log=False
    ),
    "top_k4": Kind("no_signal", {"top_k": 4}, "sound", also="temperature_mismatch"),
}  # fmt: skip


OPEN |= {
    "sound_b": Kind("", {"learning_rate": 5e-4, "num_generations": 16}),
    "sound_group4": Kind("", {"num_generations": 4}),
    "sound_cool": Kind("", {"temperature": 0.8}),
    "sound_beta.05": Kind("", {"beta": 0.05, "learning_rate": 2e-3}),
    "sound_bonus.05": Kind("", {"entropy_coef": 0.05, "num_generations": 16}),
    "sound_iterations3": Kind("", {"num_iterations": 3, "steps_per_generation": 1, "learning_rate": 5e-4}),
    "sound_steps2": Kind("", {"steps_per_generation": 2, "max_steps": 120}),
    "sound_mean5": Kind("", {"logging_steps": 5, "max_steps": 120}),
    "sound_plain": Kind("", {"eval_strategy": "no", "eval_on_start": False, "scale_rewards": "none"}),
    "sound_binary": Kind("", {"num_generations": 16, "max_steps": 120}, "", "binary"),
    "sound_adaptive_low": Kind("", {"use_adaptive_entropy": True, "entropy_target": 1.6, "entropy_coef_delta": 0.002}),
    "lr2e-2": Kind("high_learning_rate", {"learning_rate": 2e-2}, "sound_b"),
    "lr5e-2": Kind("high_learning_rate", {"learning_rate": 5e-2, "num_generations": 16}, "sound_b"),
    "lr3e-2_mean5": Kind("high_learning_rate", {"learning_rate": 3e-2, "logging_steps": 5}, "sound_mean5"),
    "rare": Kind("no_signal", {}, "sound_b", "rare"),
    "sharp15": Kind("no_signal", {}, "sound_b", "sharp15"),
    "squash.5": Kind("no_signal", {"num_generations": 4}, "sound_group4", "squash"),
    "squash_mean5": Kind("no_signal", {"logging_steps": 5}, "sound_mean5", "squash"),
    "stale8": Kind("old_samples", {"steps_per_generation": 8, "learning_rate": 2e-3}, "sound_steps2"),
    "stale32": Kind("old_samples", {"steps_per_generation": 32, "max_steps": 128}, "sound_steps2"),
    "passes16": Kind("old_samples", {**PASSES, "num_iterations": 16}, "sound_b"),
    "passes6_fast": Kind("old_samples", {**PASSES, "num_iterations": 6, "learning_rate": 3e-3}, "sound_b"),
    "dropout.1": Kind(
        "forward_mismatch", {"disable_dropout": False, "num_iterations": 3, "steps_per_generation": 1},
        "sound_iterations3", "", 4096, 0.1,
    ),
    "high.01": Kind(
        "clip_asymmetry",
        {"num_iterations": 3, "steps_per_generation": 1, "epsilon": 0.2, "epsilon_high": 0.01},
        "sound_iterations3",
    ),
    "beta3": Kind("loss_budget", {"beta": 3.0}, "sound_beta.05"),
    "beta30": Kind("loss_budget", {"beta": 30.0}, "sound_beta.05"),
    "bonus.4": Kind("loss_budget", {"entropy_coef": 0.4}, "sound_bonus.05"),
    "bonus3": Kind("loss_budget", {"entropy_coef": 3.0, "num_generations": 16}, "sound_bonus.05"),
    "adaptive5": Kind(
        "saturated_controller",
        {"use_adaptive_entropy": True, "entropy_target": 5.0, "entropy_coef_delta": 0.03, "entropy_coef_max": 0.8},
        "sound_adaptive_low",
    ),
    "prompts4": Kind("fixed_prompts", {"learning_rate": 3e-3, "num_generations": 16}, "sound_b", "", 4),
    "hot2": Kind("temperature_mismatch", {"generation_kwargs": {"temperature": 2.0}}, "sound_b", in_log=False),
    "cold.5": Kind("temperature_mismatch", {"generation_kwargs": {"temperature": 0.5}}, "sound_b", in_log=False),
}  # fmt: skip
"""Milder and larger ones; the bounds of `algorithms/foreign/rules.py` were chosen on these and those above."""

SEALED: dict[str, Kind] = {
    "sound_c": Kind("", {"learning_rate": 7e-4, "num_generations": 16, "max_steps": 100}),
    "sound_slow": Kind("", {"learning_rate": 1.5e-4, "max_steps": 100}),
    "sound_warm": Kind("", {"temperature": 1.2, "learning_rate": 2e-3}),
    "sound_beta.1": Kind("", {"beta": 0.1}),
    "sound_bonus.01": Kind("", {"entropy_coef": 0.01, "learning_rate": 2e-3}),
    "sound_iterations4": Kind("", {"num_iterations": 4, "steps_per_generation": 1, "learning_rate": 3e-4}),
    "sound_steps3": Kind("", {"steps_per_generation": 3, "max_steps": 120, "learning_rate": 7e-4}),
    "sound_mean4": Kind("", {"logging_steps": 4, "max_steps": 120}),
    "sound_train_only": Kind("", {"eval_strategy": "no", "eval_on_start": False, "num_generations": 4}),
    "sound_graded": Kind("", {"max_steps": 100}, "", "squared"),
    "sound_adaptive_c": Kind("", {"use_adaptive_entropy": True, "entropy_target": 1.7, "entropy_coef_delta": 0.003}),
    "lr2.5e-2": Kind("high_learning_rate", {"learning_rate": 2.5e-2, "max_steps": 100}, "sound_c"),
    "lr8e-2": Kind("high_learning_rate", {"learning_rate": 8e-2}, "sound_c"),
    "lr4e-2_steps3": Kind("high_learning_rate", {"learning_rate": 4e-2, "steps_per_generation": 3}, "sound_steps3"),
    "nothing_paid": Kind("no_signal", {"num_generations": 16}, "sound_c", "hard"),
    "sharp25": Kind("no_signal", {"num_generations": 4}, "sound_c", "sharp25"),
    "squash_c": Kind("no_signal", {"learning_rate": 7e-4, "num_generations": 16}, "sound_c", "squash"),
    "stale12": Kind("old_samples", {"steps_per_generation": 12, "max_steps": 96}, "sound_steps3"),
    "stale24": Kind(
        "old_samples",
        {"steps_per_generation": 24, "max_steps": 96, "learning_rate": 2e-3},
        "sound_steps3",
    ),
    "passes10": Kind("old_samples", {**PASSES, "num_iterations": 10, "max_steps": 100}, "sound_c"),
    "passes12_fast": Kind("old_samples", {**PASSES, "num_iterations": 12, "learning_rate": 2e-3}, "sound_c"),
    "dropout.2": Kind(
        "forward_mismatch", {"disable_dropout": False, "num_iterations": 2, "steps_per_generation": 1},
        "sound_iterations4", "", 4096, 0.2,
    ),
    "high.03": Kind(
        "clip_asymmetry",
        {"num_iterations": 4, "steps_per_generation": 1, "epsilon": 0.2, "epsilon_high": 0.03},
        "sound_iterations4",
    ),
    "high.005": Kind(
        "clip_asymmetry",
        {"num_iterations": 2, "steps_per_generation": 1, "epsilon": 0.3, "epsilon_high": 0.005},
        "sound_iterations4",
    ),
    "beta5": Kind("loss_budget", {"beta": 5.0, "max_steps": 100}, "sound_beta.1"),
    "beta20": Kind("loss_budget", {"beta": 20.0}, "sound_beta.1"),
    "bonus.6": Kind("loss_budget", {"entropy_coef": 0.6}, "sound_bonus.01"),
    "bonus2": Kind("loss_budget", {"entropy_coef": 2.0, "max_steps": 100}, "sound_bonus.01"),
    "adaptive4.5": Kind(
        "saturated_controller",
        {"use_adaptive_entropy": True, "entropy_target": 4.5, "entropy_coef_delta": 0.04, "entropy_coef_max": 0.9},
        "sound_adaptive_c",
    ),
    "prompts2": Kind("fixed_prompts", {"learning_rate": 3e-3, "num_generations": 32}, "sound_c", "", 2),
    "hot1.7": Kind("temperature_mismatch", {"generation_kwargs": {"temperature": 1.7}}, "sound_c", in_log=False),
    "cold.6": Kind("temperature_mismatch", {"generation_kwargs": {"temperature": 0.6}}, "sound_c", in_log=False),
    "top_k3": Kind("no_signal", {"top_k": 3}, "sound_c", also="temperature_mismatch"),
}  # fmt: skip
"""Other sizes, judged once with seeds of their own; nothing was chosen on them."""

PARTS = {"open": OPEN, "sealed": SEALED}


def class_of(symbol: int) -> int:
    return symbol % CLASSES


def tokenizer(folder: Path) -> Any:
    """Words `s0` to `s31` and three special ones, kept in the folder."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["<pad>", "<eos>", "<bos>", "<unk>", *(f"s{i}" for i in range(SYMBOLS))]
    plain = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "<unk>"))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made = PreTrainedTokenizerFast(
        tokenizer_object=plain,
        pad_token="<pad>",
        eos_token="<eos>",
        bos_token="<bos>",
        unk_token="<unk>",
        padding_side="left",
    )
    made.save_pretrained(folder)
    return made


def make_model(dropout: float) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=SYMBOLS + 4,
            n_positions=16,
            n_embd=64,
            n_layer=2,
            n_head=4,
            resid_pdrop=dropout,
            embd_pdrop=dropout,
            attn_pdrop=dropout,
            bos_token_id=2,
            eos_token_id=1,
            pad_token_id=0,
        )
    )


def start(folder: Path, seed: int) -> Path:
    """Weights after supervised answers, more than half of them from the class after the right one."""
    path = folder / f"start_{seed}"
    if path.exists():
        return path
    import torch

    torch.manual_seed(seed)
    model, generator = make_model(0.0), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model.train()
    for _ in range(600):
        prompts = torch.randint(SYMBOLS, (128, 4), generator=generator)
        wrong = (torch.rand(prompts.shape, generator=generator) < DECOY).long()
        member = torch.randint(SYMBOLS // CLASSES, prompts.shape, generator=generator)
        answers = (prompts + wrong) % CLASSES + CLASSES * member
        tokens = torch.cat([prompts, answers], 1) + 4
        labels = tokens.clone()
        labels[:, :4] = -100
        loss = model(input_ids=tokens, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(path)
    return path


def symbols_of(text: str) -> list[int]:
    return [int(word[1:]) for word in text.split() if word[:1] == "s" and word[1:].isdigit()]


def share_right(prompt: str, completion: str) -> float:
    asked, answered = symbols_of(prompt), symbols_of(completion)
    right = [class_of(a) == class_of(b) for a, b in zip(asked, answered, strict=False)]
    return sum(right) / len(asked)


def reward_of(change: str) -> Callable[..., list[float]]:
    """The share that is right, its square, or: nothing (`hard`), all at a few
    steps (`rare`), one or three of four."""
    chance = random.Random(0)

    def reward(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
        shares = [share_right(p, c) for p, c in zip(prompts, completions, strict=True)]
        if change == "hard":
            return [0.0 for _ in shares]
        if change == "rare":
            return (
                [float(share == 1) for share in shares]
                if chance.random() < 0.02
                else [0.0] * len(shares)
            )
        if change == "squared":
            return [share**2 for share in shares]
        if change == "binary":
            return [float(share >= 0.75) for share in shares]
        if change == "squash":
            return [float(share >= 0.25) for share in shares]
        return shares

    return reward


def run(kind: Kind, name: str, seed: int, out: Path, callbacks: Sequence[Any] = ()) -> None:
    """Leaves the log of a run in OUT/NAME__SEED."""
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM
    from trl import GRPOConfig, GRPOTrainer

    folder, scratch = out / f"{name}__{seed}", Path(tempfile.mkdtemp())
    chance = random.Random(seed)

    def prompts(count: int) -> Dataset:
        words = [[f"s{chance.randrange(SYMBOLS)}" for _ in range(4)] for _ in range(count)]
        return Dataset.from_dict({"prompt": [" ".join(each) for each in words]})

    begun = start(out, seed)
    model = AutoModelForCausalLM.from_pretrained(
        begun, resid_pdrop=kind.dropout, embd_pdrop=kind.dropout, attn_pdrop=kind.dropout
    )
    if kind.change.startswith("sharp"):
        with torch.no_grad():
            model.transformer.ln_f.weight.mul_(float(kind.change[5:] or 40))
            model.transformer.ln_f.bias.mul_(float(kind.change[5:] or 40))
    if kind.settings.get("beta"):  # TRL loads the reference by the model's name
        model.config._name_or_path = str(begun)
    settings = {**BASE, **kind.settings, "output_dir": str(scratch), "seed": seed}
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=reward_of(kind.change),
        args=GRPOConfig(**settings),
        train_dataset=prompts(kind.prompts),
        eval_dataset=prompts(64),
        processing_class=tokenizer(scratch / "tokenizer"),
        callbacks=list(callbacks),
    )
    begun_s = time.perf_counter()
    trainer.train()
    took_s = time.perf_counter() - begun_s
    weights = hashlib.sha256()
    for value in trainer.model.state_dict().values():
        weights.update(value.numpy().tobytes())
    # What the run was worth by the plain reward, whatever it was paid: one sample of each of many prompts.
    right = held_out(trainer.model, trainer.processing_class, chance)
    folder.mkdir(parents=True)
    trainer.state.save_to_json(str(folder / "trainer_state.json"))
    given = {k: v for k, v in settings.items() if k not in ("output_dir",)}
    (folder / "args.json").write_text(json.dumps(given, indent=1))
    label = {"kind": name, "cause": kind.cause, "twin": kind.twin, "seed": seed, "held_out": right,
             "in_log": kind.in_log, "also": kind.also, "nothing_learned": 0.0, "weights": weights.hexdigest(),
             "seconds": round(took_s, 2)}  # fmt: skip
    (folder / "label.json").write_text(json.dumps(label, indent=1))
    shutil.rmtree(scratch)


def held_out(model: Any, words: Any, chance: random.Random) -> float:
    """Share right of answers at temperature 1 to 1,000 fresh prompts."""
    import torch

    asked = [" ".join(f"s{chance.randrange(SYMBOLS)}" for _ in range(4)) for _ in range(1000)]
    inputs = words(asked, return_tensors="pt")
    model.eval()
    with torch.no_grad():
        out = model.generate(
            input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"],
            do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=4,
        )  # fmt: skip
    answers = words.batch_decode(out[:, 4:], skip_special_tokens=True)
    shares = [share_right(p, c) for p, c in zip(asked, answers, strict=True)]
    return round(sum(shares) / len(shares), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--part", choices=PARTS, default="open")
    parser.add_argument("--kinds", nargs="*", default=None)
    parser.add_argument("--callback", action="store_true", help="with the doctor's callback")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    import torch

    from algorithms.integrations.trl import DoctorCallback

    torch.set_num_threads(1)
    for seed in options.seeds:
        for name in options.kinds or PARTS[options.part]:
            if not (options.out / f"{name}__{seed}").exists():
                callbacks = [DoctorCallback()] if options.callback else []
                run(PARTS[options.part][name], name, seed, options.out, callbacks)
                print(f"{name} {seed}", flush=True)


if __name__ == "__main__":
    main()
