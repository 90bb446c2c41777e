"""Stands in for `chess-lab`: `BEHAVIOUR NAME --run-dir D --json F`, or `BEHAVIOUR --resume D --json F`.

It counts its starts beside its folder, so that a test can see what was run, and how often.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path


def value_of(option: str) -> str | None:
    return sys.argv[sys.argv.index(option) + 1] if option in sys.argv else None


behaviour, resumed = sys.argv[1], value_of("--resume")
folder = Path(resumed or value_of("--run-dir") or "")
result = Path(value_of("--json") or "")
folder.mkdir(parents=True, exist_ok=True)
with folder.with_name(f"{folder.name}.starts").open("a") as starts:
    starts.write(f"{'resumed' if resumed else 'begun'} {os.getpid()}\n")

stopped: list[str] = []
signal.signal(signal.SIGTERM, lambda number, frame: stopped.append("SIGTERM"))
if behaviour == "fails":
    print("the reason\x1b[31m\n\nis here")
    sys.exit(3)
if behaviour == "fails-with-a-result":
    result.write_text('{"stopped_by": null}')
    sys.exit(1)
if behaviour == "is-unfinished-at-exit-0":
    sys.exit(0)
if behaviour == "is-killed":
    os.kill(os.getpid(), signal.SIGKILL)
if behaviour.startswith("waits") and not resumed:
    if behaviour == "waits-with-checkpoint":
        (folder / "checkpoints" / "update-00000001").mkdir(parents=True)
        (folder / "config.json").write_text('{"a": 1}')
    (folder / "ready").write_text("")
    deadline = time.monotonic() + 30
    while not stopped and not (folder.parent / "go").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
result.write_text(json.dumps({"stopped_by": stopped[0] if stopped else None}))
sys.exit(143 if stopped else 0)
