"""What runs on a node of a cluster: one cell."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from algorithms.comparison.executors.executor import Cell
from algorithms.comparison.executors.local import COMMAND, begun
from algorithms.comparison.executors.nodes import Report, Wanted, refusal, report


class RemoteCell:
    """An actor of Ray: the process of a cell on this node."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def begin(
        self, cell: Cell, wanted: Wanted, there: Report, cwd: str, python_path: str | None
    ) -> tuple[str, str, str | None]:
        """(id of this node, its name, why it refuses the cell); the cell runs where the last is None.

        Args:
            cell: the cell.
            wanted: what the node is asked for.
            there: what the machine has where the grid runs.
            cwd: the folder in which the grid was started, for modules of the user's own.
            python_path: PYTHONPATH there.
        """
        import ray

        found = report(wanted)
        why = refusal(found, there, Path(wanted.marker).parent)
        if why is None:
            if python_path is not None:
                os.environ["PYTHONPATH"] = python_path
            # As on every other node: a cell asks Ray for no GPU.
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
            folder = Path(cwd)
            self._process = begun(COMMAND, cell, folder if folder.is_dir() else None)
        return ray.get_runtime_context().get_node_id(), found.host, why

    def wait(self) -> int:
        """Exit code of the cell's process, negative for a signal."""
        assert self._process is not None
        return self._process.wait()

    def send_signal(self, number: int) -> None:
        """Sends a signal to the cell's process."""
        assert self._process is not None
        self._process.send_signal(signal.Signals(number))
