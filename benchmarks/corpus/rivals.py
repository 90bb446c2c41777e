"""Asks four public log doctors about runs whose faults are known, and counts what they say.

    python -m venv other-doctors
    other-doctors/bin/pip install rldoctor==0.2.0 rlprobe==0.1.0 rlwatch==0.5.1 zen-rl==0.1.0 tensorboard
    python -m benchmarks.corpus.rivals PART_OR_FOLDER --venv other-doctors --json OUT

A folder of runs holds one folder a run, KIND__SEED: `label.json` and TRL's `trainer_state.json`, Stable-Baselines3's
`progress.csv`, or a record of this project, which is rewritten as TRL would have logged it: its algorithms are those
for which the tools read TRL's columns. Each tool reads what it documents as its input:

- rldoctor opens a `trainer_state.json` itself. It knows few of SB3's column names, so an SB3 log
  is rewritten as JSONL under its own names.
- rlprobe and rlwatch open recordings of their own only. A TRL log is played back through the
  callback each ships for TRL, an SB3 log through its manual interface.
- zen-rl opens TensorBoard folders with SB3's tags. An SB3 log is written as SB3 would have
  written it; a TRL log under those of SB3's tags for which TRL logs the same quantity.

"As logged" is the same tool with nothing done for it: the file as it is and every check
(rldoctor), every check (rlprobe), or the reward too, on TRL (zen-rl).

The same file feeds the tools when the environment's own Python runs it with `--feed`.
"""

import argparse
import csv
import functools
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

Row = dict[str, float]
Verdict = tuple[bool | None, str]
Findings = tuple[tuple[str, str], ...]  # (severity, name), or a single ("refused", why)

HARM = 0.05  # share of what the sound twin learned
TOO_LONG_S = 300
LEVELS = {"info": 0, "warn": 1, "warning": 1, "critical": 2}

# Every answer in these TRL runs has as many tokens as the cap allows, so "all completions are
# cut off" is true of the task and says nothing about a run. Each tool can leave that check out.
RLDOCTOR_SKIP = ["--skip", "length_pathology"]
RLPROBE_SKIP = "[truncation_starve]\nenabled = false\n"

# SB3's column under the name each tool has for it. SB3 logs minus the entropy.
SB3_NAMES = {
    "rldoctor": {
        "rollout/ep_rew_mean": "reward",
        "eval/mean_reward": "eval_score",
        "train/approx_kl": "kl",
        "train/entropy_loss": "-entropy",
        "train/clip_fraction": "clipfrac",
        "train/explained_variance": "explained_variance",
        "train/learning_rate": "learning_rate",
        "train/policy_gradient_loss": "policy_loss",
    },
    "rlprobe": {
        "rollout/ep_rew_mean": "reward_mean",
        "train/approx_kl": "kl_mean",
        "train/entropy_loss": "-entropy_mean",
        "train/clip_fraction": "clip_fraction",
        "train/value_loss": "value_loss",
        "train/explained_variance": "value_explained_variance",
        "train/learning_rate": "lr",
        "train/loss": "loss",
    },
    "rlwatch": {
        "rollout/ep_rew_mean": "reward_mean",
        "train/approx_kl": "kl_divergence",
        "train/entropy_loss": "-entropy",
        "train/clip_fraction": "clip_fraction",
        "train/learning_rate": "learning_rate",
        "train/loss": "loss",
    },
}

OURS = "metrics.jsonl"
TRL_NAMES = {
    "rollout/reward_mean": "reward",
    "rollout/reward_std": "reward_std",
    "rollout/reward_zero_std_fraction": "frac_reward_zero_std",
    "policy/entropy": "entropy",
    "policy/approx_kl": "kl",
    "policy/clip_fraction_low": "clip_ratio/low_mean",
    "policy/clip_fraction_high": "clip_ratio/high_mean",
    "train/grad_norm": "grad_norm",
    "train/learning_rate": "learning_rate",
    "train/loss": "loss",
}


# --- reading the logs -----------------------------------------------------------------------


def is_trl(log: Path) -> bool:
    """Whether the log is TRL's; otherwise it is SB3's."""
    return log.name == "trainer_state.json"


def as_trl(record: Path) -> Path:
    """A record of this project as TRL's log, beside it; minus the held-out regret is the evaluation's reward."""
    history: list[Row] = []
    for line in record.read_text().splitlines():
        row = json.loads(line)
        known = {new: row[old] for old, new in TRL_NAMES.items() if row.get(old) is not None}
        if "loss" in known:
            history.append({"step": row["step"], **known})
        if row.get("eval/regret_cp") is not None:
            history.append({"step": row["step"], "eval_reward": -row["eval/regret_cp"]})
    log = record.with_name("trainer_state.json")
    log.write_text(json.dumps({"global_step": history[-1]["step"], "log_history": history}))
    return log


def trl_rows(log: Path) -> list[dict[str, Any]]:
    """The rows of a `trainer_state.json`, evaluations and the closing summary included."""
    return json.loads(log.read_text())["log_history"]


def sb3_table(log: Path) -> list[Row]:
    """The rows of a `progress.csv`, without the empty cells."""
    with log.open(newline="") as lines:
        table = list(csv.DictReader(lines))
    return [{name: float(cell) for name, cell in row.items() if cell} for row in table]


def sb3_rows(log: Path) -> list[Row]:
    """One row an iteration.

    An evaluation writes a row of its own and takes the update's numbers with it, so the
    iteration it interrupts lacks them. Here they are put back together.
    """
    rows, waiting = [], {}
    for row in sb3_table(log):
        waiting.update(row)
        if "time/iterations" in row:
            rows.append(waiting)
            waiting = {}
    return rows


def renamed(row: Row, names: dict[str, str]) -> Row:
    """The columns a tool knows, under its names; "-name" turns the sign."""
    return {
        new.lstrip("-"): -row[old] if new.startswith("-") else row[old]
        for old, new in names.items()
        if old in row
    }


# --- running a tool -------------------------------------------------------------------------


def command(words: list[str | Path], folder: Path) -> tuple[int, str, str]:
    """Exit code, output and errors of a command run in `folder`."""
    quiet = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NO_COLOR": "1"}
    try:
        done = subprocess.run(
            [str(word) for word in words],
            cwd=folder,
            env=os.environ | quiet,
            capture_output=True,
            text=True,
            timeout=TOO_LONG_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return -1, "", "too long"
    return done.returncode, done.stdout, done.stderr


def refused(errors: str) -> Findings:
    """What stands for a crash or a refusal."""
    return (("refused", (errors.strip().splitlines() or ["no reason given"])[-1][:200]),)


def feed(tool: str, venv: Path, folder: Path, **what: Any) -> str:
    """Writes a recording that `tool` can open; returns the error, if any."""
    (folder / "feed.json").write_text(json.dumps(what))
    words = [venv / "bin" / "python", Path(__file__).resolve(), "--feed", tool, folder]
    code, _, errors = command(words, folder)
    return "" if code == 0 else errors or f"exit code {code}"


def record(tool: str, log: Path, venv: Path, folder: Path) -> str:
    """Writes the log as a recording that `tool` can open; returns the error, if any."""
    if is_trl(log):
        return feed(tool, venv, folder, trl=trl_rows(log))
    rows = [renamed(row, SB3_NAMES[tool]) for row in sb3_rows(log)]
    return feed(tool, venv, folder, manual=rows)


def verdict(findings: Findings, level: str) -> Verdict:
    """Whether anything is at least as severe as `level`, and the names of all that is."""
    if findings and findings[0][0] == "refused":
        return None, findings[0][1]
    names = {name for severity, name in findings if LEVELS[severity] >= LEVELS[level]}
    return bool(names), "+".join(sorted(names))


# --- the tools ------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1)
def rldoctor_findings(log: Path, venv: Path, as_logged: bool) -> Findings:
    """Everything rldoctor finds in the log."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, skip = log, []
        if is_trl(log) and not as_logged:
            skip = RLDOCTOR_SKIP
        elif not as_logged:
            source = folder / "run.jsonl"
            lines: list[Any] = [{"config": {"algorithm": "ppo"}}]
            for row in sb3_rows(log):
                step = {"step": row["time/total_timesteps"]}
                lines.append(step | renamed(row, SB3_NAMES["rldoctor"]))
            source.write_text("".join(json.dumps(line) + "\n" for line in lines))
        report = folder / "report.json"
        words = [venv / "bin" / "rl-doctor", "diagnose", source, "-f", "json", "-o", report]
        code, _, errors = command(words + skip, folder)
        if code != 0:
            return refused(errors)
        found = json.loads(report.read_text())["findings"]
        severe = [(one["severity"].lower(), one["detector"]) for one in found]
        return tuple(one for one in severe if one[0] in LEVELS)


def rldoctor(log: Path, venv: Path, level: str = "warning", as_logged: bool = False) -> Verdict:
    """rldoctor: its severities are info, warning and critical."""
    return verdict(rldoctor_findings(log, venv, as_logged), level)


@functools.lru_cache(maxsize=1)
def rlprobe_findings(log: Path, venv: Path, as_logged: bool) -> Findings:
    """Everything rlprobe finds in a recording made from the log."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if error := record("rlprobe", log, venv, folder):
            return refused(error)
        words = [venv / "bin" / "rlprobe", "doctor", folder / "run", "--json"]
        if not as_logged:
            (folder / "doctor.toml").write_text(RLPROBE_SKIP)
            words += ["--config", folder / "doctor.toml"]
        code, output, errors = command(words, folder)
        if code not in (0, 1) or not output.strip():  # 1: something critical was found
            return refused(errors)
        return tuple((one["severity"], one["signature_id"]) for one in json.loads(output))


def rlprobe(log: Path, venv: Path, level: str = "warn", as_logged: bool = False) -> Verdict:
    """rlprobe: its severities are info, warn and critical."""
    return verdict(rlprobe_findings(log, venv, as_logged), level)


@functools.lru_cache(maxsize=1)
def rlwatch_findings(log: Path, venv: Path) -> Findings:
    """Every alert of rlwatch while the log is played back."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if error := record("rlwatch", log, venv, folder):
            return refused(error)
        words = [venv / "bin" / "rlwatch", "diagnose", "--log-dir", folder / "run"]
        code, output, errors = command([*words, "--format", "json"], folder)
        if code != 0:
            return refused(errors or output)
        alerts = json.loads(output)["alerts"]
        return tuple((alert["severity"], alert["detector"]) for alert in alerts)


def rlwatch(log: Path, venv: Path, level: str = "warning") -> Verdict:
    """rlwatch: its severities are warning and critical."""
    return verdict(rlwatch_findings(log, venv), level)


def zen_scalars(log: Path, as_logged: bool) -> list[tuple[str, int, float]]:
    """The log as (tag, step, value), under the tags zen-rl looks for."""
    if not is_trl(log):
        return [
            (tag, int(row["time/total_timesteps"]), value)
            for row in sb3_table(log)
            for tag, value in row.items()
            if tag != "time/total_timesteps"
        ]
    # Its steps are steps in the environment: for a language model, tokens. Its limits on the
    # reward are CartPole's (50 and 250), so a reward of at most 1 would condemn every run.
    names = {"kl": "train/approx_kl", "entropy": "-train/entropy_loss"}
    if as_logged:
        names["reward"] = "rollout/ep_rew_mean"
    scalars, tokens = [], 0
    for row in trl_rows(log):
        if "loss" in row:  # a step of training; only one with new samples says how many tokens
            tokens = int(row.get("num_tokens", tokens))
            loss = "policy_loss" if "policy_loss" in row else "loss"
            known = renamed(row, names | {loss: "train/policy_gradient_loss"})
            scalars += [(tag, tokens, value) for tag, value in known.items()]
    return scalars


def zen(log: Path, venv: Path, as_logged: bool = False) -> Verdict:
    """zen-rl: it has no severities; a mode it prints is a problem."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if error := feed("zen", venv, folder, scalars=zen_scalars(log, as_logged)):
            return None, error.strip().splitlines()[-1][:200]
        code, output, errors = command([venv / "bin" / "zen", folder / "run"], folder)
        if code != 0:
            return None, (output + errors).strip()[-200:]
        modes = [line for line in output.splitlines() if re.fullmatch("[A-Z_]+", line)]
        if bool(modes) == output.startswith("No known failure modes"):
            return None, "an answer this script cannot read: " + output[:100]
        return bool(modes), "+".join(modes)


# What is asked of each tool: (tool, reading, function, its options, which logs).
READINGS = [
    ("rldoctor", "warning", rldoctor, {"level": "warning"}, "both"),
    ("rldoctor", "critical", rldoctor, {"level": "critical"}, "both"),
    ("rldoctor", "warning, as logged", rldoctor, {"as_logged": True}, "both"),
    ("rlprobe", "warning", rlprobe, {"level": "warn"}, "both"),
    ("rlprobe", "critical", rlprobe, {"level": "critical"}, "both"),
    ("rlprobe", "warning, as logged", rlprobe, {"as_logged": True}, "trl"),
    ("rlwatch", "warning", rlwatch, {"level": "warning"}, "both"),
    ("rlwatch", "critical", rlwatch, {"level": "critical"}, "both"),
    ("zen-rl", "any mode", zen, {}, "both"),
    ("zen-rl", "any mode, as logged", zen, {"as_logged": True}, "trl"),
]


# --- inside the tools' environment ----------------------------------------------------------


def pretend_transformers() -> None:
    """Lets the tools' TRL callbacks be imported without transformers, whose base does nothing."""
    module = ModuleType("transformers")
    module.TrainerCallback = object  # type: ignore[attr-defined]
    sys.modules["transformers"] = module


def play_back(callback: Any, rows: list[dict[str, Any]]) -> None:
    """Shows a callback the rows of a TRL log as the trainer would."""
    arguments = SimpleNamespace(to_dict=dict, world_size=1, process_index=0)
    for row in rows:
        logs = {name: value for name, value in row.items() if name != "step"}
        callback.on_log(arguments, SimpleNamespace(global_step=row["step"]), None, logs=logs)


def feed_rlprobe(folder: Path, what: dict[str, Any]) -> None:
    """Makes a recording of rlprobe in `folder`."""
    if "manual" in what:
        from rlprobe.recorder import Recorder

        with Recorder(folder, algorithm="ppo", capture_env=False) as recorder:
            for number, row in enumerate(what["manual"], 1):
                recorder.log_step(number, **row)
        return
    pretend_transformers()
    from rlprobe.integrations.trl import RlprobeCallback

    callback = RlprobeCallback(folder, capture_env=False)
    arguments = SimpleNamespace(to_dict=dict, world_size=1, process_index=0)
    callback.on_train_begin(arguments, SimpleNamespace(global_step=0), None)
    play_back(callback, what["trl"])
    last = SimpleNamespace(global_step=what["trl"][-1]["step"])
    callback.on_train_end(arguments, last, None)


def feed_rlwatch(folder: Path, what: dict[str, Any]) -> None:
    """Makes a database of rlwatch in `folder`."""
    pretend_transformers()
    import rlwatch as tool

    where = {"log_dir": str(folder)}
    if "manual" in what:
        monitor = tool.attach(framework="manual", storage=where)
        for number, row in enumerate(what["manual"], 1):
            monitor.log_step(number, **row)
    else:
        callbacks: list[Any] = []
        trainer = SimpleNamespace(add_callback=callbacks.append)
        monitor = tool.attach(framework="trl", trainer=trainer, storage=where)
        play_back(callbacks[0], what["trl"])
    monitor.stop()


def feed_zen(folder: Path, what: dict[str, Any]) -> None:
    """Writes a TensorBoard folder."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(folder))
    for tag, step, value in what["scalars"]:
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
        writer.add_event(Event(wall_time=float(step), step=step, summary=summary))
    writer.close()


# --- counting -------------------------------------------------------------------------------


def read_runs(folder: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """The labels of the runs in a folder, by kind and seed, each with its log's path."""
    runs = {}
    for path in sorted(folder.glob("*__*/label.json")):
        if path.parent.name.startswith("start_"):
            continue
        logs = [path.with_name(name) for name in (OURS, "trainer_state.json", "progress.csv")]
        label = json.loads(path.read_text())
        log = next(log for log in logs if log.exists()).resolve()
        label["log"] = as_trl(log) if log.name == OURS else log
        runs[label["kind"], label["seed"]] = label
    return runs


def harm(label: dict[str, Any], runs: dict[tuple[str, int], dict[str, Any]]) -> float:
    """The share of its sound twin's gain that a faulty run lost; NaN without a twin."""
    if label.get("harm") is not None:
        return float(label["harm"])
    twin = runs.get((label["twin"], label["seed"]))
    if twin is None:
        return math.nan
    gain = abs(twin["held_out"] - label.get("nothing_learned", 0))
    return float(np.divide(twin["held_out"] - label["held_out"], gain))


def counts(rows: list[dict[str, Any]], tool: str, reading: str) -> dict[str, int]:
    """How many sound, faulty and harmful runs there are, and how many are flagged."""
    asked = [row for row in rows if row["tool"] == tool and row["reading"] == reading]
    faulty = [row for row in asked if row["fault"]]
    groups = {
        "sound": [row for row in asked if not row["fault"]],
        "faulty": faulty,
        "harmful": [row for row in faulty if row["harm"] > HARM],
    }
    result = {}
    for name, group in groups.items():
        result[name] = len(group)
        result[name + "_flagged"] = sum(row["flagged"] is True for row in group)
    result["refused"] = sum(row["flagged"] is None for row in asked)
    return result


def answers(folder: Path, venv: Path, out: Path) -> list[dict[str, Any]]:
    """What every tool says of every run, saved after each run."""
    runs = read_runs(folder)
    rows: list[dict[str, Any]] = json.loads(out.read_text()) if out.exists() else []
    known = {(row["kind"], row["seed"]) for row in rows}
    for run, label in runs.items():
        log = label["log"]
        if run in known:
            continue
        for tool, reading, ask, how, logs in READINGS:
            if logs == "trl" and not is_trl(log):
                continue
            flagged, named = ask(log, venv, **how)
            row = {"tool": tool, "reading": reading, "flagged": flagged, "named": named}
            about = {name: label[name] for name in ("kind", "seed", "cause")}
            about["fault"] = label.get("fault", bool(label["cause"]))
            rows.append(about | {"harm": harm(label, runs)} | row)
        out.write_text(json.dumps(rows, indent=1))
        print(f"\r{len(rows)} answers", end="", file=sys.stderr, flush=True)
    return rows


def main() -> None:
    """Asks every tool about every run; prints the counts and saves the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", help="a part of the corpus, or a folder of runs")
    parser.add_argument("--venv", type=Path, required=True, help="where the tools are installed")
    parser.add_argument(
        "--json",
        type=Path,
        required=True,
        help="where to save the rows; runs in it are not asked about again",
    )
    options = parser.parse_args()
    from benchmarks.corpus.score import DATA, opened  # not there where this file feeds a tool

    part = DATA / f"{options.runs}.tar.xz"
    with opened(part if part.is_file() else Path(options.runs)) as folder:
        rows = answers(folder, options.venv.resolve(), options.json)
    print(file=sys.stderr)
    for tool, reading in dict.fromkeys((row["tool"], row["reading"]) for row in rows):
        count = counts(rows, tool, reading)
        shares = [
            f"{name} {count[name + '_flagged']:3}/{count[name]:3}"
            for name in ("sound", "faulty", "harmful")
        ]
        print(f"{tool:9} {reading:20}", *shares, f"refused {count['refused']}", sep="  ")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--feed"]:
        here = Path(sys.argv[3])
        feeders = {"rlprobe": feed_rlprobe, "rlwatch": feed_rlwatch, "zen": feed_zen}
        feeders[sys.argv[2]](here / "run", json.loads((here / "feed.json").read_text()))
    else:
        main()
