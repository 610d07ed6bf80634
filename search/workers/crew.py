"""Several worker processes of one role, without a device: each request goes to one that is free."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .worker_messages import ProtocolError
from .worker_process import Worker, WorkerDied, WorkerHung
from .worker_protocol import Reply


class Crew:
    """At most ``size`` processes, started when first needed; one that fails is replaced before its next request."""

    def __init__(self, role: str, size: int, device: str, folder: Path, start_s: float) -> None:
        self.role, self.size, self.device, self.folder, self.start_s = role, max(1, size), device, folder, start_s
        self._own = threading.local()
        self.workers: list[Worker] = []
        self._pool = ThreadPoolExecutor(self.size, f"ktc-{role}")
        self._open: set[Future[Reply]] = set()

    @property
    def idle(self) -> int:
        """Processes that have nothing to do, those not started yet among them."""
        return self.size - sum(not f.done() for f in list(self._open))

    def submit(self, request: Mapping[str, Any], deadline_s: float, failed: str) -> Future[Reply]:
        """The answer, or a reply of status ``failed`` that says how its process ended."""
        asked = self._pool.submit(self._ask, request, deadline_s, failed)
        self._open.add(asked)
        asked.add_done_callback(self._open.discard)
        return asked

    def _ask(self, request: Mapping[str, Any], deadline_s: float, failed: str) -> Reply:
        worker: Worker | None = getattr(self._own, "worker", None)
        if worker is None or not worker.alive:
            worker = self._own.worker = Worker(self.role, self.device, self.folder)
            self.workers.append(worker)
            deadline_s += self.start_s  # the first answer waits for imports as well
        try:
            return reply_of(worker.ask(request, deadline_s))
        except WorkerHung:
            message = f"the process that was to {self.role} did not finish within {deadline_s:g} s"
        except (WorkerDied, ProtocolError, OSError) as e:  # OSError: its pipes were closed, for all is being dismissed
            message = f"the process that was to {self.role} failed: {e}"
        worker.kill()
        self.workers.remove(worker)
        self._own.worker = None
        return Reply(failed, {"message": message})

    def begin(self, count: int, request: Mapping[str, Any]) -> None:
        """Start so many processes, if there may be, with a request whose answer nobody waits for."""
        for _ in range(min(count, self.size)):
            self._pool.submit(self._ask, request, self.start_s, "lost")

    def dismiss(self) -> None:
        """End all of them; requests that wait are cancelled."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for worker in list(self.workers):
            worker.end()
        for worker in list(self.workers):
            worker.kill()
        self._pool.shutdown(wait=True)


def reply_of(m: dict[str, Any]) -> Reply:
    """A worker's answer as a reply."""
    return Reply(str(m.pop("status")), m)


__all__ = ["Crew", "reply_of"]
