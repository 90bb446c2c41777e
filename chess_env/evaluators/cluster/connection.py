"""The connection of this process to a Ray cluster: one for all that use it, closed with the last of them."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from typing import Any

from chess_env.evaluators.uci import EngineError

_ANSWER_S = 5.0
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_SETTINGS, _KIND = 4, 3  # the first frame of a gRPC server, and where a frame says what it is
_REMEDY = (
    "Start a cluster with `ray start --head --include-dashboard=false` on one machine and "
    "`ray start --address=HOST:6379` on the others, and set RAY_ADDRESS=HOST:6379 here "
    "(docs/scaling.md). Without `ray:` in an evaluator's name, and without --ray, no cluster is needed."
)
_lock = threading.Lock()
_users = 0
_ours = False  # whether the connection was made here, not by the program that uses us


def import_ray() -> Any:
    """The module `ray`.

    Raises:
        EngineError: it is not installed.
    """
    # Ray asks a head node that does not let it in 20 times, a second apart; read when it is imported.
    os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "5")
    try:
        import ray
    except ImportError as error:
        raise EngineError(
            f'A cluster needs Ray, which cannot be imported ({error}): pip install -e ".[ray]"'
        ) from error
    return ray


def connect() -> Any:
    """The module `ray`, connected: to RAY_ADDRESS, otherwise to the cluster that this machine belongs to.

    A connection that the program has made itself is used as it is. Each call needs one of `disconnect`.

    Raises:
        EngineError: there is no Ray, no such cluster, or one of other versions.
    """
    global _users, _ours
    ray = import_ray()
    with _lock:
        if not ray.is_initialized():
            _init(ray)
            _ours = True
        _users += 1
    return ray


def disconnect() -> None:
    """Gives up the connection where nobody else in this process uses it and it was made here."""
    global _users, _ours
    ray = import_ray()
    with _lock:
        _users -= 1
        if not _users and _ours:
            _ours = False
            ray.shutdown()


def _init(ray: Any) -> None:
    address = os.environ.get("RAY_ADDRESS") or "auto"
    if address != "auto":
        _check_answers(address)
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except ConnectionError as error:
        if address == "auto":
            raise EngineError(f"No Ray cluster was found: {error} {_REMEDY}") from error
        raise EngineError(
            f"What answers at RAY_ADDRESS={address!r} lets no program in from here: {error}. Where the cluster asks "
            "for a token, set RAY_AUTH_MODE=token here and copy ~/.ray/auth_token from its head. Otherwise it is "
            "no Ray cluster."
        ) from error
    except Exception as error:  # Ray raises many kinds, RuntimeError for other versions among them
        raise EngineError(
            f"The Ray cluster at {address!r} cannot be used from here: {error} Every machine needs the "
            "same Ray and the same Python, and this one must be part of the cluster: "
            "`ray start --address=HOST:6379`, with --num-cpus=0 where no engine shall run."
        ) from error
    finally:  # Ray puts its own handler there, and a run ends by ours
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _check_answers(address: str) -> None:
    """Asks for a sign of life: Ray itself would wait for minutes where there is none."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or "/" in host:
        raise EngineError(
            f"RAY_ADDRESS={address!r}: expected HOST:PORT of the cluster's head, such as 10.0.0.1:6379, "
            f"or auto. {_REMEDY}"
        )
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_S) as talk:
            talk.settimeout(_ANSWER_S)
            talk.sendall(_HELLO)
            reply = talk.recv(_KIND + 1)
    except (OSError, OverflowError) as error:
        raise EngineError(
            f"No Ray cluster answers at RAY_ADDRESS={address!r} ({error}). {_REMEDY}"
        ) from error
    if reply[_KIND:] != bytes([_SETTINGS]):
        raise EngineError(
            f"What answers at RAY_ADDRESS={address!r} is no Ray cluster ({reply!r}). {_REMEDY}"
        )
