"""The verification ladder as a run asks for it: remembered by content, and in other processes where they may work."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ktc.ir.kernel import Kernel, bind
from ktc.ir.nodes import Reduce, Scan
from ktc.ir.support import time_limits
from ktc.ir.support.memo import by_identity
from ktc.ir.text import print_kernel
from ktc.ir.walk import walk
from ktc.ir.workload import Workload
from ktc.passes.lowering.cores.tasks import as_tasks
from ktc.search.verification import Verdict, verdict_cache, verdict_key, verify
from ktc.search.workers.executor import Reply

from .stopping import TimeShares

MOST_PROCESSES = 12
"""Processes that verify, at most: each holds the original's runs and an interpreter."""

TOO_LATE = "it was not verified when the time limit was over twice (--time-limit)"


def verifying_processes() -> int:
    """As many as there are processors, less one for the search and one that feeds the device."""
    return max(1, min(MOST_PROCESSES, (os.cpu_count() or 1) - 2))


@dataclass(frozen=True)
class Gate:
    """``folder`` keeps verdicts by content (None: none are kept). ``ask(original, candidate)`` has a candidate verified
    elsewhere, given the text of the original (None: nothing may run beside this process). ``as_loops``: the device runs
    tasks of one thread, with loops where a schedule has threads (docs/cpu.md), and that is what is verified; but for
    reductions, whose sums have an order by threads, and on such a device one by vectors that is as exact. ``shares``:
    the time that there is for a verdict that nothing goes on beside."""

    work: Workload
    original: Kernel
    variant: str | None
    seed: int
    folder: Path | None
    ask: Callable[[str, Kernel], Future[Reply]] | None
    as_loops: bool = False
    shares: TimeShares = TimeShares()  # noqa: RUF009  frozen

    def __call__(self, kernel: Kernel) -> Future[Verdict]:
        """The verdict on ``kernel``, which is held to the original's accuracy."""
        kernel = strict(kernel)
        if self.as_loops and kernel.is_parallel and not any(isinstance(s, Reduce | Scan) for s in walk(kernel.body)):
            kernel = as_tasks(kernel)
        if self.ask is None:
            return _done(self._here(kernel))
        key = self._key(kernel)
        if self.folder is not None and (known := verdict_cache.recall(self.folder, key)) is not None:
            return _done(known)
        coming: Future[Verdict] = Future()
        self.ask(self._source, kernel).add_done_callback(lambda asked: self._answer(coming, key, asked))
        return coming

    def _here(self, kernel: Kernel) -> Verdict:
        """The verdict by this process: none where it takes longer than there is time, whatever was seen by then."""
        try:
            with time_limits.until(self.shares.until("verified")):
                return verify(
                    self.original, kernel, self.work, variant=self.variant, seed=self.seed, cache_dir=self.folder
                )
        except time_limits.OutOfTime:
            return Verdict("UNKNOWN", "time", TOO_LATE)

    def _key(self, kernel: Kernel) -> str:
        """What the verdict on ``kernel`` is kept under; '' where none is kept."""
        if self.folder is None:
            return ""
        return verdict_key(self.original, kernel, self.work, variant=self.variant, seed=self.seed)

    @cached_property
    def _source(self) -> str:
        return print_kernel(self.original)

    def _answer(self, coming: Future[Verdict], key: str, asked: Future[Reply]) -> None:
        if asked.cancelled():
            coming.cancel()
            return
        reply = asked.result()
        if not reply.ok:
            coming.set_result(Verdict("UNKNOWN", "process", str(reply.data.get("message", reply.status))))
            return
        verdict = Verdict.from_json(reply.data["verdict"])
        if self.folder is not None:
            verdict_cache.remember(self.folder, key, verdict)
        coming.set_result(verdict)


def _done(verdict: Verdict) -> Future[Verdict]:
    known: Future[Verdict] = Future()
    known.set_result(verdict)
    return known


def strict(kernel: Kernel) -> Kernel:
    """``kernel`` held to the original's accuracy: approximations that a user asked for are excused from the rule that
    the error may at most double, those that a planner came up with are not."""
    return kernel.with_(flags=kernel.flags | {"as_accurate"}) if kernel.may_lose_accuracy else kernel


def bound(kernel: Kernel, knobs: Mapping[str, int]) -> Kernel:
    """:func:`bind`; the same kernel for who asks again, so that it is lowered once."""
    defaults = {k.name: k.default if k.value is None else k.value for k in kernel.knobs}
    return _bound(kernel, tuple(sorted((defaults | dict(knobs)).items())))


@by_identity(64)
def _bound(kernel: Kernel, knobs: tuple[tuple[str, int], ...]) -> Kernel:
    return bind(kernel, dict(knobs))


__all__ = ["Gate", "bound", "strict", "verifying_processes"]
