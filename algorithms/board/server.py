"""The server: who may ask it and what a browser may do with its answers, its port, and a clean end."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import h11
import uvicorn
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
"""On every answer: nothing from elsewhere, no script or style in the page, no frame around it."""

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def known_hosts(host: str, port: int) -> Callable[[str], bool]:
    """Whether a Host header is one of this server's names.

    A page of another site can give its own name the address of this machine; the Host header then still has
    that name. So an address is let in where the server listens beyond this machine, and a foreign name never.

    Args:
        host: that the server was told to bind.
        port: that it listens to.
    """
    beyond = not _is_loopback(host)
    names = {*_LOOPBACK, host.lower(), *([socket.gethostname().lower()] if beyond else [])}

    def known(given: str) -> bool:
        name, colon, digits = given.lower().rpartition(":")
        if not colon or not digits.isdigit():  # [::1] without a port ends with a bracket
            name, digits = given.lower(), "80"
        return digits == str(port) and (name in names or (beyond and _is_address(name)))

    return known


class Guard:
    """Refuses requests of other sites, and puts `HEADERS` on every answer.

    Args:
        app: answers the others.
        known: whether a Host header is one of the server's names.
    """

    def __init__(self, app: ASGIApp, known: Callable[[str], bool]) -> None:
        self._app, self._known = app, known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":  # there are no web sockets; the lifespan is the application's
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        reason = self._refusal(scope)
        app = self._app if reason is None else JSONResponse({"error": reason}, status_code=403)
        await app(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> str | None:
        """Why the request is not answered; None where it is."""
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or not self._known(hosts[0]):
            return "This server does not answer to that name: use the address that `chess-lab board` printed."
        if origins and origins != [f"http://{hosts[0]}"]:
            return "This server answers its own page alone."
        site, mode = headers.get("sec-fetch-site"), headers.get("sec-fetch-mode")
        opens_page = scope["method"] == "GET" and scope["path"] == "/" and mode == "navigate"
        if site in ("cross-site", "same-site") and not opens_page:
            return "This server answers its own page alone."
        return None


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (
        _is_address(host) and ipaddress.ip_address(host.strip("[]")).is_loopback
    )


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


MOST_CONNECTIONS = 64
_MOST_HEADER_BYTES = 16 * 1024
_HEADER_S = 10.0
"""Seconds that the header of a request may take, however its bytes come."""


class Connection(H11Protocol):
    """A connection that cannot keep others out: it may be silent for `_HEADER_S`, and less where a new one needs room.

    uvicorn alone lets a silent connection count until it ends, and answers 503 to everybody else.
    """

    _header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Closes the oldest connections that owe a request, while there are too many."""
        owing = [each for each in self.connections if isinstance(each, Connection) and each._owes()]
        owing.sort(key=lambda each: each._since, reverse=True)
        while owing and len(self.connections) >= MOST_CONNECTIONS - 1:
            oldest = owing.pop()
            oldest.transport.abort()
            self.connections.discard(oldest)
        self._since = self.loop.time()
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Takes bytes of a request."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the connection."""
        self._stop()
        super().connection_lost(exc)

    def _owes(self) -> bool:
        """Whether bytes of a request are still to come."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def _watch(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._stop()
        elif self._header_timer is None:
            self._header_timer = self.loop.call_later(_HEADER_S, self.transport.close)

    def _stop(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Args:
        host: name or address of this machine.
        port: 0 for any free one.

    Raises:
        RuntimeError: the port is taken or not allowed, or the host is none of this machine's; says what to do.
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
        raise RuntimeError(
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
    threading.Thread(target=ready, daemon=True).start()  # the socket listens already
    server = uvicorn.Server(config_of(app))
    with _ends_on_hangup(server):
        server.run(sockets=[listening])


def config_of(app: ASGIApp) -> uvicorn.Config:
    """How uvicorn serves the application."""
    return uvicorn.Config(
        app,
        http=Connection,  # also where httptools is installed, which holds a header of any size
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
