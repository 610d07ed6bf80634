"""One worker process as its supervisor sees it: started fresh, asked with a deadline, killed when in doubt."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ktc.ir.support.child_python import python_environment, python_module
from ktc.ir.support.ended_children import end

from .worker_messages import MAX_LINE, ProtocolError, pack, unpack

SINGLE_THREADED = {"gate": {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}}
"""By role, the environment of processes of which there are as many as processors: none takes those of the others."""


class WorkerDied(Exception):
    """The process ended without an answer. ``how`` says how: a signal's name or an exit code, and its last words."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


BEGIN_S = 1.0
"""Seconds in which a pipe takes a short request."""


Meanwhile = Callable[[], object]
"""What who waits for an answer does until it comes."""

LISTENS_S = 0.05
"""Who waits for an answer looks so often what else has come."""


class WorkerHung(Exception):
    """No answer within the deadline (seconds)."""


class Worker:
    """A spawned process (never a fork) in a process group of its own, with its log in ``folder``."""

    def __init__(self, role: str, device: str, folder: Path) -> None:
        self.folder = folder
        keep, self._lifeline = os.pipe()
        command = python_module("ktc.search.workers.worker_child", role, device, str(folder), str(keep))
        with open(folder / f"{role}.log", "ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                pass_fds=(keep,), start_new_session=True,
                env={**SINGLE_THREADED.get(role, {}), **python_environment()},
            )  # fmt: skip
        os.close(keep)
        self._log = folder / f"{role}.log"
        self._buffer = b""
        self._begun: deque[Mapping[str, Any]] = deque()
        self.served = 0

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def begin(self, request: Mapping[str, Any]) -> None:
        """Send a request that is asked for later, after those begun before and ahead of all others; nothing where the
        worker has ended."""
        with contextlib.suppress(OSError, WorkerHung):
            self._send(pack(request), time.monotonic() + BEGIN_S)
            self._begun.append(request)

    def ask(self, request: Mapping[str, Any], deadline_s: float, meanwhile: Meanwhile | None = None) -> dict[str, Any]:
        """Send one request, unless it was begun, and wait for its answer; ``meanwhile`` is called every
        :data:`LISTENS_S` seconds.

        Raises:
            WorkerDied, WorkerHung, ProtocolError: the worker must be killed and replaced.
        """
        end = time.monotonic() + deadline_s
        begun = self._begun.popleft() if self._begun else None
        assert begun in (None, request), "another request was begun"
        try:
            if begun is None:
                self._send(pack(request), end)
        except BrokenPipeError:
            raise WorkerDied(self._how()) from None
        line = self._read_line(end, meanwhile)
        self.served += 1
        reply = unpack(line)
        if "status" not in reply:
            raise ProtocolError("an answer without a status")
        return reply

    def _send(self, data: bytes, end: float) -> None:
        assert self.process.stdin is not None
        fd = self.process.stdin.fileno()
        os.set_blocking(fd, False)
        while data:
            self._wait([], [fd], end)
            with contextlib.suppress(BlockingIOError):
                data = data[os.write(fd, data) :]

    def _read_line(self, end: float, meanwhile: Meanwhile | None) -> bytes:
        assert self.process.stdout is not None
        fd = self.process.stdout.fileno()
        while b"\n" not in self._buffer:
            self._wait([fd], [], end, meanwhile)
            piece = os.read(fd, 1 << 20)
            if not piece:
                raise WorkerDied(self._how())
            self._buffer += piece
            if len(self._buffer) > MAX_LINE:
                raise ProtocolError("an answer without end")
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _wait(self, read: list[int], write: list[int], end: float, meanwhile: Meanwhile | None = None) -> None:
        while (left := end - time.monotonic()) > 0:
            if any(select.select(read, write, [], left if meanwhile is None else min(left, LISTENS_S))):
                return
            if meanwhile is not None:
                meanwhile()
        raise WorkerHung

    def _how(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(2.0)
        code = self.process.returncode
        if code is None:
            how = "closed its pipe"
        elif code < 0:
            how = f"killed by {signal.Signals(-code).name}"
        else:
            how = f"exited with code {code}"
        words = self.last_words()
        return f"{how}: {words}" if words else how

    def last_words(self, limit: int = 400) -> str:
        """The end of the worker's log."""
        try:
            return self._log.read_bytes()[-limit:].decode("utf-8", "replace").strip()
        except OSError:
            return ""

    def end(self) -> None:
        """End the process and its group, without waiting until it is gone."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def kill(self) -> None:
        """End the process and its group, and reap it, unless a driver holds it."""
        self.end()
        with contextlib.suppress(OSError):
            os.close(self._lifeline)
            self._lifeline = -1
        end(self.process)
