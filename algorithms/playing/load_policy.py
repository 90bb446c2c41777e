"""A trained policy from its files, ready to play."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from algorithms.training import config_file
from algorithms.training.initial_weights import read_weights
from algorithms.training.policy import PolicyConfig, PolicyNet


def load_policy(source: str) -> PolicyNet:
    """The policy in `source`, on the CPU and in evaluation mode.

    Its settings are those of the run that it belongs to; weights without a run (a shipped policy, a
    .safetensors file) say the network's size themselves and compute in float32.

    Args:
        source: a run folder (its newest intact checkpoint), a checkpoint folder, a .safetensors
            file, or the name of a shipped policy.

    Raises:
        ValueError: there is nothing to read, it is damaged, or it holds something else; names `source`.
    """
    weights = read_weights(source)
    broken = [name for name, tensor in weights.items() if not tensor.isfinite().all()]
    if broken:
        raise ValueError(
            f"{source!r} holds numbers that are not finite in {broken[0]}: use another checkpoint"
        )
    config = _settings_of_run(Path(source)) or _size_of(weights, source)
    policy = PolicyNet(config, critic=any(name.startswith("value_head.") for name in weights))
    try:
        policy.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(
            f"{source!r} holds another network than its settings describe ({error}): give the folder of "
            "the run that wrote it"
        ) from error
    return policy.eval()


def _settings_of_run(path: Path) -> PolicyConfig | None:
    """Settings of the run that a run folder is, or that a checkpoint folder lies in; None for other files."""
    run = path.resolve().parents[1] if (path / "manifest.json").exists() else path
    file = run / "config.json"
    return config_file.load(file).policy if file.is_file() else None


def _size_of(weights: dict[str, Tensor], source: str) -> PolicyConfig:
    """The size of the network with these weights."""
    blocks = {name.split(".")[1] for name in weights if name.startswith("body.")}
    try:
        return PolicyConfig(
            channels=len(weights["stem.weight"]),
            blocks=len(blocks),
            head_dim=len(weights["from_vector.weight"]),
        )
    except (KeyError, ValueError, TypeError) as error:
        raise ValueError(
            f"{source!r} holds no policy network of this project ({error}): give a checkpoint of "
            "`chess-lab train`"
        ) from error
