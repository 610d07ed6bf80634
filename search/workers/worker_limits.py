"""What a worker process does to itself first: die with its supervisor, and stay within limits."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import signal
import threading

GIB = 1 << 30

LIMITS: dict[str, dict[int, int]] = {
    # No address-space limit for measuring: a CUDA context reserves address space in the size of all memory there is.
    "measure": {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: 16 * GIB},
    "compile": {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: 1 * GIB, resource.RLIMIT_AS: 16 * GIB},
    "gate": {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: 1 * GIB, resource.RLIMIT_AS: 16 * GIB},
}
"""Soft and hard limits by role, in bytes."""


def restrict(role: str) -> None:
    """Apply the role's limits; a limit already tighter stays."""
    for what, limit in LIMITS[role].items():
        hard = resource.getrlimit(what)[1]
        value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (value, value))


def die_with(lifeline: int) -> None:
    """End this process as soon as the other end of the pipe ``lifeline`` is closed, however busy it is.

    The kernel does it: the pipe is put in asynchronous mode, and its hang-up raises SIGIO, which ends a process that
    does not handle it; so it works inside a C call that holds the interpreter's lock. (PDEATHSIG would fire when the
    *thread* that started the worker ends.) Where pipes know no asynchronous mode, a watching thread does the same.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    asynchronous = getattr(os, "O_ASYNC", None) or getattr(fcntl, "FASYNC", None)
    try:
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | (asynchronous or 0))
    except OSError:
        asynchronous = None

    def watch() -> None:
        while os.read(lifeline, 1):
            pass
        os._exit(3)

    threading.Thread(target=watch, daemon=True).start()
