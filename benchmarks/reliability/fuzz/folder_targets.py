"""Files of a run folder: metrics.jsonl, config.json and checkpoints."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from algorithms.run_folder.files import UntrustedError, closed_object
from algorithms.run_folder.rows import closed_row
from benchmarks.reliability.fuzz.judge import MOST_MESSAGE, Target
from benchmarks.reliability.fuzz.recipes import Choices, damaged, damaged_json, dumped

_METRICS: dict[str, float | None] = {
    "eval/regret_cp": 400.0, "eval/entropy": 3.0, "rollout/reward_mean": -0.5, "policy/entropy": 3.0,
    "reg/kl_old": 0.01, "reg/ent_coef": 0.1, "grad_share/policy": 0.75, "grad_share/entropy": 0.25,
    "entropy/measured": -0.1, "ratio/max_first_minibatch": 1.0, "ratio/log_odds_slope_first_minibatch": 1.0,
    "train/learning_rate": 0.003, "step0/log_odds_residual": 0.0, "rollout/single_move_fraction": 0.1,
    "clip/fraction": 0.2, "train/grad_norm": None,
}  # fmt: skip


def metrics(scratch: Path) -> Target:
    """A record, read for the page, by the doctor and as it grows; of what is accepted the diagnosis is JSON."""
    from algorithms.collapse.doctor import diagnose_run
    from algorithms.commands.diagnose import written
    from algorithms.evaluation.record_tail import RecordTail
    from algorithms.reports.run_files import RunFileError, read_metrics, read_run
    from algorithms.run_folder.files import RunFolderError
    from algorithms.run_folder.going_on import newest_checkpoint

    rows = [
        {"step": step, "plies": 64 * step, "scored_moves": 256 * step}
        | {k: v if v is None else v * (1 - step / 10) for k, v in _METRICS.items()}
        for step in range(6)
    ]
    whole = b"".join(map(closed_row, rows))
    old = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    words = tuple(f'"{name}": '.encode() for name in ("step", "scored_moves", "crc32", *_METRICS))
    words += (b", ", b"null", b'"a": [1]', b"{}", b"\n", b"}\n{", b'"crc32": "00000000"')
    file = scratch / "metrics.jsonl"

    def followed(data: bytes) -> list[Any]:
        """The rows of a record that is read when half of it is written, and when all of it is."""
        tail, found = RecordTail(scratch), []
        for part in (data[: len(data) // 2], data):
            file.write_bytes(part)
            try:
                rows, anew = tail.read()
            except ValueError as error:
                said = str(error).replace(str(file), "FILE")
                assert len(said) < MOST_MESSAGE, said[:300]
                rows, anew = [], False
            assert not anew
            found += rows
        return found

    def check(data: bytes) -> str | None:
        as_it_grew = followed(data)
        try:
            run = read_run(scratch)
        except RunFileError as error:
            said = str(error).replace(str(file), "FILE")
            for other in (read_metrics, diagnose_run):
                try:
                    other(scratch)
                except ValueError:
                    continue
                raise AssertionError(
                    f"{other.__name__} reads what read_run refuses: {said}"
                ) from error
            return said
        # A last line without its end may still grow.
        assert as_it_grew in ([*run.rows], [*run.rows][:-1])
        steps = [row["step"] for row in run.rows]
        assert steps == sorted(set(steps)) and len(run.series("step")) == len(run.rows)
        diagnosis = diagnose_run(scratch)
        assert json.loads(json.dumps(diagnosis.to_dict()))["verdict"] == diagnosis.verdict
        assert all(isinstance(line, str) for line in written(diagnosis, "RUN", reasons=True))
        try:
            newest_checkpoint(scratch, lambda text: None)
        except (RunFolderError, RuntimeError) as error:
            left = str(error).replace(str(scratch), "")
            assert len(left) < MOST_MESSAGE, left[:300]
        return None

    def make(choices: Choices) -> bytes:
        kind = choices.below(3)
        if kind < 2:
            return damaged((whole, old, whole[:-40]), choices, words)
        changed = damaged_json([rows], choices)
        lines = changed if isinstance(changed, list) else [changed]
        closed = choices.below(2)
        return b"".join(
            closed_row(row) if closed and isinstance(row, dict) and row else dumped(row) + b"\n"
            for row in lines
        )

    return Target(check, make)


def config(scratch: Path) -> Target:
    """A config.json as each command reads it; what is accepted is written and comes back the same.

    Some refusals are long: they list the settings that there are, or ten names from outside the project.
    """
    from algorithms import PRESETS
    from algorithms.config import files
    from algorithms.config.run import TrainConfig
    from algorithms.pretraining import config as pretraining
    from algorithms.reports.run_files import RunFileError, read_object

    known = [TrainConfig(*PRESETS[name]) for name in ("grpo", "ppo", "exact")]
    train_seeds = [files.to_dict(each) for each in known]
    pretrain_seeds = [pretraining.to_dict(pretraining.PretrainConfig())]
    file, other = scratch / "config.json", scratch / "other.json"
    texts = [closed_object(values) for values in (*train_seeds, *pretrain_seeds)]
    odd = (
        "builtin", "stockfish:depth=4", "stockfish:path=/x", "0.5*decided+phase_mix", "fens:x", "random@random=0.5",
        "win_prob_delta+2*cp_delta", "a:B,c=1", "memory", "own", "resnet", "games", "start", 2**31, 10**12,
    )  # fmt: skip
    words = tuple(json.dumps(value).encode() for value in odd)

    def check(data: bytes) -> str | None:
        file.write_bytes(data)
        refusals: list[str] = []

        def read(reader: Callable[[Path], Any]) -> Any:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", FutureWarning)  # old names of settings
                    return reader(file)
            except (RunFileError, UntrustedError, ValueError) as error:
                refusals.append(str(error).replace(str(file), "FILE"))
                return None

        if read(files.read_settings) is None:  # with which all others begin
            return refusals[0]
        loaded, pretrained = read(files.load), read(pretraining.load)
        for reader in (files.load_network, files.load_temperature, read_object):
            read(reader)
        read(lambda path: files.load_record(path, known[0]))
        for value, module in ((loaded, files), (pretrained, pretraining)):
            if value is not None:
                module.save(value, other)
                back = module.load(other)
                assert module.to_dict(back) == module.to_dict(value) and back == value
        assert loaded is None or pretrained is None
        return None if loaded or pretrained else max(refusals, key=len)

    def make(choices: Choices) -> bytes:
        kind = choices.below(4)
        if kind == 0:
            return damaged(texts, choices, words)
        changed = damaged_json(pretrain_seeds if kind == 1 else train_seeds, choices, odd)
        closed = choices.below(2) and isinstance(changed, dict) and changed
        return closed_object(changed) if closed else dumped(changed)

    return Target(check, make, most_message=3000)


def checkpoint(scratch: Path) -> Target:
    """A checkpoint of which one file is replaced, its manifest made to fit or not.

    The first byte of an input says which file, and whether the manifest is made to fit, or whether weights lie in a
    file of their own; the rest is what the file holds.
    """
    import torch

    from algorithms.evaluation.load_policy import load_policy
    from algorithms.evaluation.snapshots import Listing
    from algorithms.networks.build import build_policy
    from algorithms.networks.settings import SIZES, NetworkConfig
    from algorithms.run_folder import checkpoint as files

    torch.set_num_threads(1)
    network = NetworkConfig(network="resnet", channels=2, blocks=1, head_dim=1)
    policy = build_policy(network, seed=0, device=torch.device("cpu"))
    state = {
        "progress": {"update": 3, "plies": 64, "scored_moves": 256, "best": 1.5},
        "seen": np.arange(4, dtype=np.uint64), "shuffling": torch.arange(8, dtype=torch.uint8),
        "optimizer": {"state": {0: {"step": torch.tensor(3.0)}}, "param_groups": [{"lr": 0.1}]},
        "betas": (0.9, 0.999), "controls": {"clip_low": 0.2, "target_kl": None}, "empty": [],
    }  # fmt: skip
    path = files.save(
        scratch / "checkpoints", 3, weights=policy.state_dict(), state=state, best=True
    )
    odd = ({"$dict": []}, {"$tensor": "/seen"}, "/seen", 2**80, "model.safetensors")
    names, alone = (*files.FILES, "manifest.json"), scratch / "alone.safetensors"
    whole = {name: (path / name).read_bytes() for name in names}

    def check(data: bytes) -> str | None:
        which, content = data[0] if data else 0, data[1:]
        name = names[which % 4]
        (path / name).write_bytes(content)
        alone.write_bytes(content)
        if which & 4 and name != "manifest.json":
            (path / "manifest.json").write_bytes(_fitting(whole["manifest.json"], name, content))
        listing = Listing(scratch)
        assert listing.look()
        listed = listing.in_order({3: 256})
        assert len(listed.every) + len(listed.notes) == 1, listed
        try:
            if name == "model.safetensors":
                source = path if which & 4 else alone
                assert load_policy(str(source)).config.network in SIZES
                return None
            found = files.load(path)
        except (files.CheckpointError, ValueError) as error:
            return str(error).replace(str(path), "FOLDER").replace(str(alone), "FILE")
        finally:
            for each in (name, "manifest.json"):
                (path / each).write_bytes(whole[each])
        assert found.weights.keys() == policy.state_dict().keys()
        assert isinstance(found.state, dict), type(found.state)
        return None

    def make(choices: Choices) -> bytes:
        which = choices.below(8)
        name = names[which % 4]
        kind = choices.below(3)
        if name.endswith(".json") and kind:
            changed = damaged_json([json.loads(whole[name])], choices, odd)
            content = dumped(changed)
            if name == "manifest.json" and isinstance(changed, dict):
                content = _sealed({k: v for k, v in changed.items() if k != "sha256"})
        elif kind:
            content = _tensors(whole[name], choices)
        else:
            content = damaged(
                [whole[name]], choices, (b"F32", b"I64", b"F8_E4M3", b"[0,0]", b"dtype", b"[-1]")
            )
        return bytes([which]) + content

    return Target(check, make)


def _fitting(manifest: bytes, name: str, content: bytes) -> bytes:
    """The manifest of a checkpoint whose file of this name holds something else."""
    values = json.loads(manifest)
    del values["sha256"]
    values["files"][name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    return _sealed(values)


def _sealed(values: dict[str, Any]) -> bytes:
    return _canonical({**values, "sha256": hashlib.sha256(_canonical(values)).hexdigest()})


def _canonical(values: dict[str, Any]) -> bytes:
    return json.dumps(values, indent=1, sort_keys=True).encode() + b"\n"


def _tensors(data: bytes, choices: Choices) -> bytes:
    """A file of tensors whose header, which is JSON, is damaged and has its length right."""
    size = int.from_bytes(data[:8], "little")
    values = (
        [0, 2**40],
        [2**40, 0],
        "F16",
        "F64",
        "BOOL",
        "I64",
        "U64",
        [0, 0],
        [1],
        [2, 2],
        [0, 4],
    )
    header = json.dumps(damaged_json([json.loads(data[8 : 8 + size])], choices, values)).encode()
    return len(header).to_bytes(8, "little") + header + data[8 + size :]
