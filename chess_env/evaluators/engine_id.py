"""The id of an engine's scores: everything that they depend on, in one line."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from chess_env.evaluators.uci import Handshake

PROTOCOL_VERSION = "v1"
"""Part of every id: raised when the commands or the reading of scores change."""


def engine_id(handshake: Handshake, options: Mapping[str, object], limit: str, mode: str) -> str:
    """Such as `stockfish-15.1;net=nn-ad9b42354671;Hash=1;Threads=1;depth=4;pure;v1`.

    Args:
        handshake: what the engine said of itself.
        options: UCI options that were set, by name.
        limit: what follows `go`, such as "depth 4".
        mode: "pure" or "fast".

    Raises:
        ValueError: an option names the file of a network that is not there.
    """
    nets = []
    options = {handshake.options[name.lower()].name: value for name, value in options.items()}
    for key in ("EvalFile", "EvalFileSmall"):
        if key in options:
            file = Path(str(options[key]))
            if not file.is_file():
                raise ValueError(
                    f"UCI option {key} is {str(file)!r}: no such file; give the path of a network"
                )
            nets.append("sha256-" + hashlib.sha256(file.read_bytes()).hexdigest()[:12])
        elif key.lower() in handshake.options:
            nets.append(handshake.options[key.lower()].default.removesuffix(".nnue"))
    name = re.sub(r"[\s;]+", "-", handshake.name.strip().lower())
    by_name = sorted(options.items(), key=lambda item: item[0].lower())
    shown = [f"{key}={value}" for key, value in by_name if "EvalFile" not in key]
    network = "net=" + "+".join(nets or ["none"])
    return ";".join([name, network, *shown, limit.replace(" ", "="), mode, PROTOCOL_VERSION])
