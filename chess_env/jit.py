"""Compilation of the numba kernels: cached, rebuilt when any kernel source changes, announced when slow."""

from __future__ import annotations

import contextlib
import hashlib
import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_PACKAGE = Path(__file__).parent
_ANNOUNCE_AFTER_S = 1.0
_compiled: set[Any] = set()


def kernel(function: Callable[..., Any]) -> Any:
    """The function compiled by numba on first use (nopython, releases the GIL, cached on disk)."""
    return numba.njit(cache=True, nogil=True)(function)


def inlined(function: Callable[..., Any]) -> Any:
    """The function compiled into each kernel that calls it; for the small helpers of the inner loops."""
    return numba.njit(cache=True, nogil=True, inline="never", forceinline=True)(function)


@intrinsic(prefer_literal=True)
def stack_words(typing_context: Any, count: Any) -> Any:
    """Pointer to `count` uint64 on the stack of the kernel that calls this, for `numba.carray`; a constant of a module.

    NumPy's own arrays count who refers to them, whole rows and arguments of calls included, and the counting was a
    quarter of the time of the search for mates. Such an array must not outlive the call.
    """
    if not isinstance(count, types.IntegerLiteral):
        return None
    words = count.literal_value

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        size = context.get_constant(types.intp, words)
        memory = cgutils.alloca_once(builder, context.get_value_type(types.uint64), size=size)
        return builder.bitcast(memory, context.get_value_type(types.voidptr))

    return types.voidptr(count), codegen


def _kernel_sources() -> dict[str, bytes]:
    """Text by module name of every file that compiles kernels, and of the project's files those import."""
    texts = {
        ".".join(source.relative_to(_PACKAGE.parent).with_suffix("").parts): source.read_bytes()
        for source in _PACKAGE.rglob("*.py")
    }
    compiles = re.compile(rb"from chess_env\.jit import .*\b(kernel|inlined)\b")
    found = {name for name, text in texts.items() if compiles.search(text)}
    todo = list(found)
    while todo:
        for match in re.findall(rb"from (chess_env[\w.]*) import", texts[todo.pop()]):
            name = match.decode()
            if name in texts and name not in found:
                found.add(name)
                todo.append(name)
    return {name: texts[name] for name in sorted(found)}


def _drop_stale_caches() -> None:
    """Removes cached machine code made from other sources.

    numba checks only the file a kernel is defined in; a kernel also contains code and tables taken
    from other files, so an edit (or a pull) in one file could leave old code running in another.
    """
    digest = hashlib.blake2b(digest_size=16)
    for name, text in _kernel_sources().items():
        digest.update(name.encode() + text)
    stamp = _PACKAGE / "__pycache__" / "kernels.stamp"
    try:
        if stamp.exists() and stamp.read_text() == digest.hexdigest():
            return
        for pattern in ("*.nbi", "*.nbc"):
            for cached in _PACKAGE.rglob(f"__pycache__/{pattern}"):
                cached.unlink(missing_ok=True)
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(digest.hexdigest())
    except OSError:
        # A read-only installation: numba then caches per user and nobody edits the sources.
        return


_drop_stale_caches()


@contextlib.contextmanager
def announced(what: str, *kernels: Any) -> Iterator[None]:
    """A context that tells the user on standard error when a first-use compilation takes over a second.

    Args:
        what: is compiled.
        kernels: that are called; once all of them are compiled nothing is timed.
    """
    if kernels and _compiled.issuperset(kernels):  # numba's own `signatures` takes ten microseconds
        yield
        return

    def say() -> None:
        print(f"chess_env: compiling {what} (once; the result is cached) ...", file=sys.stderr)

    timer = threading.Timer(_ANNOUNCE_AFTER_S, say)
    timer.daemon = True
    timer.start()
    try:
        yield
        _compiled.update(kernels)
    finally:
        timer.cancel()
