"""The engine's threads: one reads, one thinks, and the caller's speaks. No lock: all goes through one queue."""

from __future__ import annotations

import dataclasses
import queue
import threading
import time
from collections.abc import Callable
from typing import Protocol

from algorithms.playing.conversation import Conversation
from algorithms.playing.protocol import Command, Ignored, info_string, parse
from algorithms.playing.request import Answer, Request

LONGEST_LINE = 1 << 17
"""Bytes; the longest game that the rules allow (17,697 plies) has a shorter `position`."""

LAST_ANSWERS_S = 0.5
"""How long the end of the input waits for moves still owed."""

Thinker = Callable[[Request], Answer]


class Source(Protocol):
    """Where lines come from."""

    def readline(self, size: int, /) -> bytes:
        """At most `size` bytes, up to a line's end; empty at the end of the input."""


class Sink(Protocol):
    """Where lines go."""

    def write(self, text: bytes, /) -> object:
        """Takes all of `text`."""

    def flush(self) -> object:
        """Hands it on."""


@dataclasses.dataclass(frozen=True)
class _Failed:
    error: Exception


class _Loaded:
    pass


class _EndOfInput:
    pass


_Event = Command | Answer | _Loaded | _Failed | _EndOfInput


def serve(name: str, load: Callable[[], Thinker], source: Source, sink: Sink) -> None:
    """None; speaks UCI until `quit`, the end of the input, or a reader that is gone.

    Both threads are daemons: the reader may wait for a line for ever.

    Args:
        name: what the engine calls itself.
        load: makes what answers requests; runs beside the conversation, once.
        source: the GUI's lines.
        sink: the engine's.

    Raises:
        Exception: whatever `load` or the thinker raised.
    """
    events: queue.SimpleQueue[_Event] = queue.SimpleQueue()
    requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(source, events.put), daemon=True).start()
    threading.Thread(target=_think, args=(load, requests.get, events.put), daemon=True).start()
    conversation = Conversation(name, requests.put)
    try:
        _converse(conversation, events, sink)
    except BrokenPipeError:
        return  # nobody listens any more, which is as good as `quit`


def _converse(conversation: Conversation, events: queue.SimpleQueue[_Event], sink: Sink) -> None:
    deadline: float | None = None  # set by the end of the input
    while not conversation.over:
        left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            event = events.get(timeout=left_s)
        except queue.Empty:
            _say(sink, [info_string("the input ended before the policy could answer")])
            return
        if isinstance(event, _Failed):
            _say(sink, [info_string(str(event.error))])
            raise event.error
        if isinstance(event, _EndOfInput):
            deadline = time.monotonic() + LAST_ANSWERS_S
            _say(sink, conversation.stop())
        elif isinstance(event, _Loaded):
            _say(sink, conversation.loaded())
        elif isinstance(event, Answer):
            _say(sink, conversation.answered(event))
        else:
            _say(sink, conversation.heard(event))
        if deadline is not None and not conversation.busy:
            return


def _say(sink: Sink, lines: list[str]) -> None:
    if lines:
        sink.write("".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
        sink.flush()


def _read(source: Source, put: Callable[[_Event], None]) -> None:
    """Puts each line's command, then the end, also where reading fails."""
    try:
        while line := source.readline(LONGEST_LINE):
            if line.endswith(b"\n") or len(line) < LONGEST_LINE:
                put(parse(line))
                continue
            while line and not line.endswith(b"\n"):
                line = source.readline(LONGEST_LINE)
            put(Ignored(f"a line of more than {LONGEST_LINE} bytes is ignored"))
    finally:
        put(_EndOfInput())


def _think(
    load: Callable[[], Thinker], get: Callable[[], Request], put: Callable[[_Event], None]
) -> None:
    """Loads, then answers requests for ever. An error ends the engine: it is raised by the thread that speaks."""
    try:
        thinker = load()
        put(_Loaded())
        while True:
            put(thinker(get()))
    except Exception as error:
        put(_Failed(error))
