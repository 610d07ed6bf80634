"""A measuring process that starts before anybody knows what it is to measure: opening a device takes seconds."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ktc.ir.support.child_python import rest_when_waiting

from .worker_process import Worker

EXPECT = {"do": "expect"}
"""What a measuring process is asked first: which device it is going to open, if it knows."""

CANARY = {"do": "canary"}
"""What it is asked next: to launch a kernel whose results are known."""


class HeadStart:
    """The process, in a folder of its own, on its way to ``device`` (as :class:`.executor.LocalExecutor` takes it).

    Raises:
        OSError: there is no temporary folder, or no process starts.
    """

    def __init__(self, device: str | None) -> None:
        self.device = device or "auto"
        self.folder = Path(tempfile.mkdtemp(prefix="ktc-workers-"))
        self._worker: Worker | None = opening(self.device, self.folder)

    def take(self) -> Worker | None:
        """The process, from now on the caller's; None where it was taken before, or has ended."""
        if self._worker is None or not self._worker.alive:
            return None
        worker, self._worker = self._worker, None
        return worker

    def abandon(self) -> None:
        """End the process and remove its folder, unless somebody has taken it."""
        if self._worker is not None:
            self._worker.kill()
            self._worker = None
            shutil.rmtree(self.folder, ignore_errors=True)


def opening(device: str, folder: Path) -> Worker:
    """A measuring process that opens ``device``; it has to be asked for :data:`EXPECT` first, then for
    :data:`CANARY`."""
    rest_when_waiting()  # this process's threads too: on a CPU they run beside what is timed
    worker = Worker("measure", device, folder)
    worker.begin(EXPECT)
    worker.begin(CANARY)

    from . import early_compiles  # loads what this process has time for now

    early_compiles.begin(device)
    return worker


@contextmanager
def head_start(device: str | None) -> Iterator[HeadStart | None]:
    """A :class:`HeadStart`, which nobody may take in the end; None where nothing can be started: whoever opens the
    device says why."""
    ahead: HeadStart | None = None
    with suppress(OSError):
        ahead = HeadStart(device)
    try:
        yield ahead
    finally:
        if ahead is not None:
            ahead.abandon()


__all__ = ["CANARY", "EXPECT", "HeadStart", "head_start", "opening"]
