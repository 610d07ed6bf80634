"""The worker process: ``python -m ktc.search.workers.worker_child ROLE DEVICE FOLDER LIFELINE``.

Reads one request a line from standard input and answers each with one line. Anything that kernels or libraries print
goes to the log instead: the pipe is a private descriptor.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ktc.ir.support.collector import collect_seldom

from .sandbox import confine, writable_folders
from .worker_limits import die_with, restrict

Handler = Callable[[Mapping[str, Any]], dict[str, Any]]


def main(argv: list[str]) -> int:
    """Serve requests, confined. ``argv``: role, device, folder, and the pipe that ends with the parent."""
    collect_seldom()
    role, device, folder, lifeline = argv
    pipe = os.dup(1)
    os.dup2(2, 1)
    os.set_inheritable(pipe, False)
    restrict(role)
    with contextlib.suppress(OSError):  # a container may have Landlock and forbid it; the report says what holds
        confine(writable_folders(Path(folder)))
    die_with(int(lifeline))
    serve(role, device, Path(folder), pipe)
    return 0


def serve(role: str, device: str, folder: Path, pipe: int) -> None:
    """Answer requests until the input ends."""
    from .worker_messages import pack, unpack

    handlers: dict[str, Handler] | None = None
    for line in sys.stdin.buffer:
        try:
            request = unpack(line)
            if request["do"] == "expect":
                found = expected(device)
            else:
                handlers = handlers or handlers_of(role, device, folder)
                found = handlers[request["do"]](request)
            reply = {"status": "ok", **found}
        except BaseException as e:
            reply = describe(e)
        data = pack(reply)
        while data:
            data = data[os.write(pipe, data) :]


def expected(device: str) -> dict[str, Any]:
    """What is known of ``device`` before it is opened (None: nothing). What may take longest, its first trial on this
    machine, has begun by then."""
    from ktc.backends.runtimes import early_trials, expected_device

    from .worker_protocol import device_to_json

    early_trials.begin(device)
    found = expected_device(device)
    return {"device": device_to_json(found) if found is not None else None}


def handlers_of(role: str, device: str, folder: Path) -> dict[str, Handler]:
    """What a worker of ``role`` (compile | gate | measure) answers, by the request's ``do``."""
    if role == "compile":
        from .worker_compile import Compiler

        return Compiler(device).handlers()
    if role == "gate":
        from .worker_gate import Gate

        return Gate().handlers()
    from ktc.backends.runtimes import early_trials

    early_trials.begin(device)
    from .worker_measure import Measurer

    try:
        return Measurer(device, folder).handlers()
    finally:
        early_trials.give_up()


ENVIRONMENT = ("E-DEVICE-", "E-CACHE-", "E-NVRTC-")
INTERNAL = ("E-TEXT", "E-INTERNAL", "E-BUG", "E-PASS-BUG", "E-LAUNCH-ARGS")
"""Beginnings of codes that no configuration is to blame for: what we sent, this process cannot read or launch."""


def describe(e: BaseException) -> dict[str, Any]:
    """An exception as a reply. ``fatal``: this process is not to be trusted any more."""
    from ktc.backends.base import CompileFailure
    from ktc.ir.diagnostics import KtcError

    if isinstance(e, CompileFailure):
        return {"status": "compile-error", "message": e.log[:20_000]}
    if isinstance(e, KtcError):
        if e.code == "E-LAUNCH-FAILED":
            return {"status": "infeasible", "message": e.message, "code": e.code, "fatal": True}
        if e.code == "E-DEVICE-FAULT":
            return {"status": "crash", "message": e.message, "code": e.code, "fatal": True}
        lost, ours = e.code.startswith(ENVIRONMENT), e.code.startswith(INTERNAL)
        status = "lost" if lost else "internal" if ours else "infeasible"
        return {"status": status, "message": e.message, "code": e.code, "hint": e.hint, "exit_code": e.exit_code}
    if isinstance(e, MemoryError) or "OutOfMemory" in type(e).__name__:
        return {"status": "lost", "message": f"out of memory: {e}", "code": "E-MEMORY"}
    if place := _in_our_code(e):
        return {"status": "internal", "message": f"{type(e).__name__}: {e} ({place})"[:20_000], "fatal": True}
    return {"status": "crash", "message": f"{type(e).__name__}: {e}"[:20_000], "fatal": True}


def _in_our_code(e: BaseException) -> str:
    """Where in ktc ``e`` was raised; '' if a library, a driver or a printed kernel raised it."""
    at = e.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    module = str(at.tb_frame.f_globals.get("__name__", "")) if at is not None else ""
    return f"{module}:{at.tb_lineno}" if at is not None and module.startswith("ktc.") else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
