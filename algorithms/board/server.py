"""The server: a port of this machine, a browser that opens the page, and a clean end."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

MOST_CONNECTIONS = 64
_MOST_HEADER_BYTES = 16 * 1024


class PortError(RuntimeError):
    """The address cannot be bound; the message says what to do."""


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Args:
        host: name or address of this machine.
        port: 0 for any free one.

    Raises:
        PortError: the port is taken or not allowed, or the host is none of this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    if os.name == "posix":  # elsewhere this option lets two servers have one port
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(MOST_CONNECTIONS)
    except (OSError, OverflowError, UnicodeError) as error:
        listening.close()
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise PortError(
            f"{host} port {port} cannot be used ({why}): give another --port, or --port 0 for any free one"
        ) from error
    return listening


def address(listening: socket.socket, host: str) -> str:
    """The page's address for a browser on this machine."""
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{name}:{listening.getsockname()[1]}/"


def serve(app: ASGIApp, listening: socket.socket, *, ready: Callable[[], None]) -> None:
    """Answers until a signal comes, which then ends the process as if it had just come.

    Args:
        app: the application.
        listening: from `bound`.
        ready: called once, when requests are answered.
    """
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        limit_concurrency=MOST_CONNECTIONS,
        h11_max_incomplete_event_size=_MOST_HEADER_BYTES,
        timeout_graceful_shutdown=2,
    )
    threading.Thread(target=ready, daemon=True).start()  # the socket listens already
    server = uvicorn.Server(config)
    with _ends_on_hangup(server):
        server.run(sockets=[listening])


@contextmanager
def _ends_on_hangup(server: uvicorn.Server) -> Iterator[None]:
    """Ends the server on SIGHUP as it ends itself on the other signals, and then lets the signal come again.

    An exception that a handler raises inside a request is taken by uvicorn for a failure of that request.
    """
    number = getattr(signal, "SIGHUP", None)  # Windows has none
    if number is None:
        yield
        return
    came = []

    def end(number: int, frame: FrameType | None) -> None:
        came.append(number)
        server.should_exit = True

    before = signal.signal(number, end)
    try:
        yield
    finally:
        signal.signal(number, before)
    if came:
        signal.raise_signal(number)


def can_show_pages() -> bool:
    """Whether a browser can be expected to open a window: a terminal alone has none."""
    if sys.platform != "linux":
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def open_page(url: str) -> None:
    """Opens the page in the user's browser, where there is one."""
    webbrowser.open(url)
