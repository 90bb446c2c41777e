"""Checkpoints, from which a run goes on, and snapshots, which are weights alone.

Tensors and arrays are safetensors, everything else is JSON: opening either never runs code from it. The manifest holds
the SHA-256 of every file, and is checked before anything is parsed. A directory is written under a temporary name,
flushed to disk and renamed, so a kill at any instant leaves the previous ones.
"""

from algorithms.run_folder.checkpoint.manifest import (
    MOST_BYTES,
    CheckpointError,
    load_weights,
    read_verified,
)
from algorithms.run_folder.checkpoint.resumable import (
    FILES,
    Checkpoint,
    checkpoints,
    load,
    load_newest,
    save,
    settle,
)

__all__ = [
    "FILES",
    "MOST_BYTES",
    "Checkpoint",
    "CheckpointError",
    "checkpoints",
    "load",
    "load_newest",
    "load_weights",
    "read_verified",
    "save",
    "settle",
]
