"""Trackers that mirror metrics.jsonl: Weights & Biases and TensorBoard."""

from __future__ import annotations

import contextlib
import glob
import itertools
import json
import os
import queue
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from algorithms.run_folder.atomic_files import CONFIG_FILE, WANDB_RUN, cut, read_json

unfinished: list[str] = []
"""Trackers that have not started, or not ended in time: Python would wait for them when the process ends."""


class Tracker(Protocol):
    """A tracker that is shown each row after metrics.jsonl has it.

    Attributes:
        last_step: of the rows that it has from an earlier process; -1 where it has none.
    """

    last_step: int

    def write(self, row: Mapping[str, float]) -> None:
        """Shows one row, whose `step` is the update."""

    def close(self) -> None:
        """Flushes and ends the tracker's run."""


class Mirror:
    """Shows rows to a tracker in a thread of its own: neither what it raises nor how long it takes stops the run.

    A tracker that has raised, or that `most_waiting` rows wait for, is not used again.

    Args:
        tracker: was made in the thread of the caller.
        lacking: rows that it is shown first.
        most_waiting: rows that may wait for it, at least 1.
        most_s: seconds that its end may take.

    Attributes:
        trouble: why the tracker is not used again; None while it is.
    """

    def __init__(
        self,
        tracker: Tracker,
        lacking: Iterable[Mapping[str, float]] = (),
        most_waiting: int = 256,
        most_s: float = 60.0,
    ) -> None:
        self.trouble: str | None = None
        self._tracker, self._lacking, self._most_s = tracker, lacking, most_s
        self._rows: queue.Queue[Mapping[str, float] | None] = queue.Queue(most_waiting)
        self._thread = threading.Thread(target=self._show, name="tracker", daemon=True)
        self._thread.start()

    def write(self, row: Mapping[str, float]) -> None:
        """Hands one row over and returns at once."""
        if self.trouble is None:
            try:
                self._rows.put_nowait(row)
            except queue.Full:
                self.trouble = f"it hangs, and {self._rows.maxsize} rows wait for it"

    def close(self) -> None:
        """Waits until the tracker has been shown what is left, and has ended."""
        if self.trouble is None:
            with contextlib.suppress(queue.Full):  # then it hangs, which the next line finds
                self._rows.put(None, timeout=self._most_s)
            self._thread.join(self._most_s)
            if self._thread.is_alive():
                self.trouble = f"it did not end within {self._most_s:g} s"
        if self._thread.is_alive():
            unfinished.append(repr(self._tracker))

    def _show(self) -> None:
        try:
            for row in itertools.chain(self._lacking, iter(self._rows.get, None)):
                self._tracker.write(row)
                if self.trouble is not None:
                    return
            self._tracker.close()
        # Whatever a third party's tracker raises, the run and its record go on.
        except Exception as error:
            self.trouble = repr(error)


def make_tracker(
    track: str | None, run_dir: Path, config: Mapping[str, Any], kept: int
) -> Tracker | None:
    """The tracker that `track` names, started; None for None.

    Args:
        track: "wandb", "tensorboard" or None.
        run_dir: the run folder.
        config: shown beside the run.
        kept: step of the last row that the run goes on from; -1 where it begins.

    Raises:
        ValueError: there is no such tracker.
        ModuleNotFoundError: it is not installed; the message says how to install it.
        RuntimeError: it does not start.
    """
    if track is None:
        return None
    trackers: dict[str, Callable[[Path, Mapping[str, Any], int], Tracker]] = {
        "wandb": _Wandb,
        "tensorboard": _TensorBoard,
    }
    if track not in trackers:
        raise ValueError(f"track is {track!r}: set it to {' or '.join(trackers)}")
    unfinished.append(track)  # until it has started, which may be interrupted
    try:
        tracker = trackers[track](run_dir, config, kept)
    except ImportError as error:
        raise ModuleNotFoundError(
            f"--track {track} needs the package {track} ({error}): "
            f'run pip install -e ".[{track}]" in the clone, or leave --track out'
        ) from error
    except Exception as error:  # whatever a third party's tracker raises
        online = track == "wandb" and os.environ.get("WANDB_MODE") == "online"
        offline = ", or set WANDB_MODE=offline" if online else ""
        raise RuntimeError(
            f"--track {track} does not start ({cut(error) or repr(error)}): "
            f"mend that{offline}, or say --track None"
        ) from error
    unfinished.remove(track)
    return tracker


class _Wandb:
    """Weights & Biases, offline unless WANDB_MODE says otherwise; upload with `wandb sync RUN/wandb/*run-*`.

    A run that goes on is the same run there: its id is in the names of the files that W&B has made. What W&B
    has cannot be cut back, so it is not shown again what is played again.
    """

    def __init__(self, run_dir: Path, config: Mapping[str, Any], kept: int) -> None:
        import wandb

        known = os.environ.get("WANDB_RUN_ID") or _wandb_id(run_dir)
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or "chess-selfplay-lab",
            name=os.environ.get("WANDB_NAME") or run_dir.resolve().name,
            dir=str(run_dir),
            id=known,
            resume="allow" if known else None,
            config=dict(config),
            mode=os.environ.get("WANDB_MODE") or "offline",
            settings=wandb.Settings(silent=True),  # its lines would tear the live table
        )
        files = run_dir.glob(f"*wandb/*run-*/run-{glob.escape(self._run.id)}.wandb")
        # Online the server knows, which a killed process may not have told everything.
        offline = max(map(_last_step, files), default=-1)
        self.last_step = offline if self._run.offline else self._run.step - 1

    def write(self, row: Mapping[str, float]) -> None:
        if row["step"] > self.last_step:
            self._run.log(dict(row), step=int(row["step"]))

    def close(self) -> None:
        self._run.finish()


_BLOCK, _HEAD, _WHOLE, _FIRST, _LAST = 32768, 7, 1, 2, 4


def _last_step(path: Path) -> int:
    """The last step in a .wandb file, where W&B loses up to 15 s of a process that is killed; -1 where it has none.

    It is blocks of 32 KiB with parts of records: a checksum of 4 bytes, a length of 2, which part it is, the part.
    """
    from google.protobuf.message import DecodeError
    from wandb.proto.wandb_internal_pb2 import Record

    last, record = -1, b""
    with path.open("rb") as file, contextlib.suppress(DecodeError):  # cut by a kill
        at = _HEAD
        while block := file.read(_BLOCK):
            while at + _HEAD <= len(block):
                end = at + _HEAD + int.from_bytes(block[at + 4 : at + 6], "little")
                kind = block[at + 6]
                record = (b"" if kind in (_WHOLE, _FIRST) else record) + block[at + _HEAD : end]
                at = end
                if kind in (_WHOLE, _LAST):
                    last = max(last, _step_in(Record.FromString(record)))
            at = 0
    return last


def _step_in(record: Any) -> int:
    return int(record.history.step.num) if record.HasField("history") else -1


def _wandb_id(run_dir: Path) -> str | None:
    """The run's id at W&B; None where it has none yet, or is a copy of a folder that goes by it too."""
    ids, origin = _wandb_ids(run_dir), read_json(run_dir / CONFIG_FILE).get("run_dir")
    if not ids:
        return None
    if isinstance(origin, str) and os.path.isdir(origin) and not os.path.samefile(origin, run_dir):
        return None if ids[-1] in _wandb_ids(Path(origin)) else ids[-1]
    return ids[-1]


def _wandb_ids(run_dir: Path) -> list[str]:
    """The ids in the names of the files, oldest first; a folder's may end in a number that is not the id's."""
    files = run_dir.glob("*wandb/*/run-*.wandb")
    found = [(WANDB_RUN.fullmatch(file.parent.name), file.stem[len("run-") :]) for file in files]
    return [run_id for _, run_id in sorted((made[1], run_id) for made, run_id in found if made)]


_MADE = re.compile(r"\.tfevents\.(\d+)\.")


class _TensorBoard:
    """Event files in the run folder: `tensorboard --logdir runs`. Each is read up to where the next one begins."""

    def __init__(self, run_dir: Path, config: Mapping[str, Any], kept: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        begins, folder = kept + 1, run_dir / "tensorboard"
        names = [path.name for path in folder.glob("*.tfevents.*")]
        self.last_step = kept if names else -1
        # TensorBoard reads the files in the order of their names, which begin with the second.
        made = [int(found[1]) for found in map(_MADE.search, names) if found]
        time.sleep(min(1.0, max(0.0, max(made, default=0) + 1 - time.time())))
        self._writer = SummaryWriter(str(folder), purge_step=begins)
        self._writer.add_text("config", f"```json\n{json.dumps(config, indent=2)}\n```", begins)

    def write(self, row: Mapping[str, float]) -> None:
        for name, value in row.items():
            self._writer.add_scalar(name, value, int(row["step"]))
        self._writer.flush()  # a killed run goes on behind a checkpoint, and earlier rows are not shown again

    def close(self) -> None:
        with contextlib.suppress(OSError):  # a full disk must not hide the end of the run
            self._writer.close()
