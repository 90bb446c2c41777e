"""Several real processes of one run, forked from this one, which has loaded everything."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from pathlib import Path

from algorithms.processes import Processes, joined_processes
from algorithms.processes.launch import meeting_folder, places


def together(count: int, work: Callable[[Processes], object]) -> None:
    """Does the work in so many processes that have joined.

    Raises:
        AssertionError: the work failed in one of them; its traceback is on standard error.
    """
    with meeting_folder() as folder:
        children = [forked(place, work) for place in places(Path(folder), count)]
        codes = [code_of(child) for child in children]
    assert codes == [0] * count, codes


def code_of(child: int) -> int:
    """Exit code of a process when it has ended, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def forked(place: dict[str, str], work: Callable[[Processes], object]) -> int:
    """Id of a process that does the work once it has joined the others."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.environ.update(place)
        with joined_processes() as processes:
            work(processes)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
