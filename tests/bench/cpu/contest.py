"""One kernel's contest: every contender's result against the kernel's own, then all timed in turn in one process.

A contender takes the kernel's arguments by name as numpy arrays. All of them work on the same buffers; what they
update in place is brought back before each measurement, so that values neither grow nor vanish.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ktc.ir.workload import Workload

Args = Mapping[str, Any]
BATCH_SECONDS = 2e-3
"""A measurement covers at least this long."""

LEAST, MOST = 5, 60
"""Rounds of a contest. A contender that takes longer than a second a launch is in the first ``FEW`` of them."""

FEW = 3

TOLERANCES = {"exact": 0.0, "elementwise": 2e-5, "reduction": 3e-4}
"""Largest difference from the kernel's own result by the workload's class, relative to the largest magnitude of the
output: C sums one after the other in single precision, and a fast exponential is off by a few units."""

OFF_BY_ONE = 1e-3
"""Which part of a quantised output may differ by one step: a quotient that lies between two."""


@dataclass
class Contender:
    """``call``: one launch. ``samples``: seconds a launch. ``differs``: how its result is wrong, '' if it is not."""

    name: str
    call: Callable[[Args], Any]
    differs: str = ""
    samples: list[float] = field(default_factory=list)


class Contest:
    """``args``: a workload's inputs at one scenario."""

    def __init__(self, work: Workload, args: dict[str, Any], variant: str | None = None) -> None:
        self.work, self.args = work, args
        roles = {a.name: a.role for a in work.args}
        self._outputs = [n for n, r in roles.items() if r in ("out", "inout")]
        self._before = {n: args[n].copy() for n, r in roles.items() if r == "inout"}

    def restore(self) -> None:
        """Bring back what launches update in place."""
        for name, values in self._before.items():
            np.copyto(self.args[name], values)

    def result(self, c: Contender) -> dict[str, np.ndarray]:
        """The outputs of one launch of ``c``, on the inputs as they were."""
        self.restore()
        for name in set(self._outputs) - set(self._before):
            self.args[name].view(np.uint8)[...] = 0x5A
        c.call(self.args)
        return {name: self.args[name].copy() for name in self._outputs}

    def judge(self, c: Contender, want: Mapping[str, np.ndarray]) -> None:
        """Set ``c.differs`` by comparing with ``want``."""
        got, limit = self.result(c), TOLERANCES[self.work.tolerance_class]
        terms = max(a.size for a in self.args.values() if isinstance(a, np.ndarray))
        found = (difference(n, got[n], want[n], limit, (terms / max(want[n].size, 1)) ** 0.5) for n in want)
        c.differs = "; ".join(filter(None, found))

    def race(self, contenders: list[Contender], seconds: float) -> None:
        """Measure all in turn for about ``seconds``, beginning with another one in each round."""
        batches = {c.name: self._batch(c) for c in contenders}
        start, turn = time.perf_counter(), 0
        while turn < MOST and (turn < LEAST or time.perf_counter() - start < seconds):
            first = turn % len(contenders)
            for c in contenders[first:] + contenders[:first]:
                if turn < FEW or min(c.samples) < 1.0:
                    c.samples.append(self._sample(c, batches[c.name]))
            turn += 1

    def _batch(self, c: Contender) -> int:
        return max(1, int(BATCH_SECONDS / max(self._sample(c, 1), 1e-7)))

    def _sample(self, c: Contender, n: int) -> float:
        self.restore()
        start = time.perf_counter()
        for _ in range(n):
            c.call(self.args)
        return (time.perf_counter() - start) / n


def difference(name: str, got: np.ndarray, want: np.ndarray, limit: float, least: float = 0.0) -> str:
    """How ``got`` differs from ``want`` by more than ``limit`` times the largest magnitude of ``want``; '' if not.
    ``least``: a magnitude that counts where that is smaller: sums of many terms of either sign may vanish."""
    if want.dtype.kind in "iu":
        off = np.abs(got.astype(np.int64) - want.astype(np.int64))
        return "" if _nearly(off, limit) else f"{name} differs in {np.mean(off > 0):.1%} of the elements"
    if want.dtype.itemsize == 1:  # fp8: neighbours have neighbouring codes
        off = np.abs(got.view(np.uint8).astype(np.int64) - want.view(np.uint8).astype(np.int64))
        return "" if _nearly(off, limit) else f"{name} differs in {np.mean(off > 0):.1%} of the elements"
    limit = max(limit, 1e-3 if want.dtype.itemsize == 2 else 0.0)
    finite = np.isfinite(want)
    scale = float(np.max(np.abs(want), where=finite, initial=0.0))
    if not np.array_equal(finite, np.isfinite(got)):
        return f"{name} is not finite in other places"
    off = np.abs(np.subtract(got, want, where=finite, out=np.zeros(want.shape, np.float32)), dtype=np.float32)
    worst = float(np.max(off, initial=0.0))
    return "" if worst <= limit * max(scale, least) else f"{name} differs by {worst / scale:.1e} of its largest value"


def _nearly(off: np.ndarray, limit: float) -> bool:
    return not off.any() if limit == 0.0 else bool(off.max(initial=0) <= 1 and np.mean(off > 0) <= OFF_BY_ONE)
