"""The engine's threads: one reads, one computes moves, one writes, and the caller's waits for the end.

There is no lock: everything goes through one queue.
"""

from __future__ import annotations

import dataclasses
import importlib
import queue
import threading
import time
from collections.abc import Callable
from typing import BinaryIO

from algorithms.playing.conversation import (
    Answer,
    Command,
    Conversation,
    Go,
    Request,
    Word,
    info_string,
    parse,
)

LAST_ANSWERS_S = 300.0
"""Seconds that moves still to come may take after the last line, and the policy that is still being loaded for them: on
a machine that is busy otherwise, compiling in the first start took more than one minute.
"""

SLOW_START = "the first start compiles and keeps the result, so try once more"

LAST_WORDS_S = 0.8
"""Seconds that the caller waits for the writing thread after the last line, where nothing is still to come."""

LOOK_S = 0.2
"""Seconds after which a waiting caller looks for a signal: one may come just before it waits, and not end it."""

Thinker = Callable[[Request], Answer]


@dataclasses.dataclass(frozen=True)
class _Failed:
    error: Exception


class _Loaded:
    pass


class _EndOfInput:
    pass


_Event = Command | Answer | _Loaded | _Failed | _EndOfInput


def serve(name: str, load: Callable[[], Thinker], source: BinaryIO, sink: BinaryIO) -> bool:
    """Whether any line came; speaks UCI until `quit`, the end of the input, or a reader that is gone.

    Every `go` and `isready` before the last line is answered first: a script that pipes lines in is a client too.
    Where all are, it returns at most `LAST_WORDS_S` after the last line, though the speaker may be replaying a long
    game or writing to a pipe that nobody empties. All threads are daemons, and may be left behind: end the process
    by `os._exit`.

    Args:
        name: the engine's name.
        load: makes the object that answers requests; runs once, in a thread of its own.
        source: the GUI's lines.
        sink: the engine's.

    Raises:
        Exception: whatever `load` or the thinker raised, such as ValueError for a checkpoint that
            cannot be read.
    """
    events: queue.SimpleQueue[_Event] = queue.SimpleQueue()
    requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
    ended = threading.Event()  # by the last line, or by the speaker
    errors: list[Exception] = []
    heard = threading.Event()
    owed = 0  # answers; only the reader writes it

    def read() -> None:
        nonlocal owed
        try:
            while line := source.readline():
                heard.set()
                command = parse(line)
                if command is Word.QUIT:
                    return
                owed += isinstance(command, Go) or command is Word.IS_READY
                events.put(command)
        finally:  # also where reading fails
            events.put(_EndOfInput())
            ended.set()

    given = 0  # answers; only the speaker writes it

    def say(lines: list[str]) -> None:
        nonlocal given
        if lines:
            sink.write("".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
            sink.flush()
        given += sum(line.startswith(("bestmove", "readyok")) for line in lines)

    def speak() -> None:
        try:
            _converse(Conversation(name, requests.put), events, say)
        except BrokenPipeError:
            pass  # nobody listens any more, which is as good as `quit`
        except Exception as error:
            errors.append(error)
        finally:
            ended.set()

    _start(read)
    _start(lambda: _think(load, requests.get, events.put))
    speaker = _start(speak)
    while not ended.wait(LOOK_S):
        pass
    end = time.monotonic() + (LAST_ANSWERS_S if owed > given else 0.0) + LAST_WORDS_S
    while speaker.is_alive() and time.monotonic() < end:
        speaker.join(LOOK_S)
    if errors:
        raise errors[0]
    return heard.is_set()


def _start(run: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def _converse(
    conversation: Conversation, events: queue.SimpleQueue[_Event], say: Callable[[list[str]], None]
) -> None:
    deadline: float | None = None  # set by the end of the input
    while deadline is None or conversation.busy:
        left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            event = events.get(timeout=left_s)
        except queue.Empty:
            say([info_string(f"the input ended before the policy could answer: {SLOW_START}")])
            return
        if isinstance(event, _Failed):
            say([info_string(str(event.error))])
            raise event.error
        if isinstance(event, _EndOfInput):
            deadline = time.monotonic() + LAST_ANSWERS_S
            say(conversation.heard(Word.STOP))
        elif isinstance(event, _Loaded):
            say(conversation.loaded())
        elif isinstance(event, Answer):
            say(conversation.answered(event))
        else:
            say(conversation.heard(event))


def _think(
    load: Callable[[], Thinker], get: Callable[[], Request], put: Callable[[_Event], None]
) -> None:
    """Loads, then answers requests for ever. An error ends the engine: the caller's thread raises it."""
    try:
        # First, and here: the speaker, who needs it too, must not spend the seconds that it takes.
        importlib.import_module("algorithms.playing.position")
        thinker = load()
        put(_Loaded())
        while True:
            put(thinker(get()))
    except Exception as error:
        put(_Failed(error))
