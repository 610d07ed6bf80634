"""Special values on a device: infinities, NaN, zeros with a sign, subnormals, the largest numbers there are.

What a text's compiler makes of them is the device's own: a maximum that loses a NaN, a flag that assumes that there are
none, a subnormal flushed in one of two versions of a loop. Original and candidate run on the same device; where the
original has an answer that real arithmetic has too, the candidate has to have it
(:func:`ktc.search.verification.floats.special_values.unlike`).

A launch is made only on data that the interpreter has shown to mean something: the original does nothing undefined on
it, and both programs end. What a device does not define (``DeviceInfo.gives_up``) is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cached_property, partial

import numpy as np

from ktc.backends.base import Executable, Runtime
from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import run
from ktc.ir.interp.equivalence import bits_differ
from ktc.ir.kernel import Kernel
from ktc.ir.support.memo import by_identity
from ktc.ir.workload import Workload, size_expressions
from ktc.search.verification.floats.accuracy import is_float
from ktc.search.verification.floats.any_answer import answers_of
from ktc.search.verification.floats.any_order import any_order, overflows
from ktc.search.verification.floats.special_inputs import draws, kinds_of, rounds_to_integers, steers_by_integers
from ktc.search.verification.floats.special_values import SpecialRows, unlike
from ktc.search.verification.oracle import MEANING, Oracle, oracle_for
from ktc.search.verification.verdict import Failure

from .arena import POISONS, launch_checked

LIMIT = 8_000
"""Array elements of a launch with special values, at most: the interpreter goes first."""

MOST = 3
"""Draws that a launch is made on, beside those of single inputs (:data:`ALONE`)."""

ALONE = 2

KEPT = 256
"""Inputs with special values of which it is kept whether a candidate comes to its end on them."""


def special_launches(
    runtime: Runtime,
    executables: tuple[Executable, Executable],
    kernels: tuple[Kernel, Kernel],
    workload: Workload,
    sizes: Iterable[Mapping[str, int]],
    *,
    variant: str | None = None,
    seed: int = 0,
) -> tuple[int, Failure | None]:
    """(how many inputs with special values both were launched on, the first element with another answer)."""
    kinds = tuple(k for k in kinds_of(kernels, workload) if k not in runtime.device.gives_up)
    if not kinds or any(k.launches > 1 or steers_by_integers(k) for k in kernels):
        return 0, None
    oracle = oracle_for(kernels[0], workload, variant, seed)
    launched = 0
    for s in _affordable(workload, sizes):
        for data in draws(oracle.specialised(s), kinds, MOST, ALONE):
            trial = _Trial(oracle, kernels[1], s, data)
            if not trial.means_something:
                continue
            launched += 1
            failure = trial.failure(runtime, executables, workload)
            if failure:
                return launched, failure
    return launched, None


def _affordable(workload: Workload, sizes: Iterable[Mapping[str, int]]) -> list[Mapping[str, int]]:
    """The smallest and the largest of ``sizes`` that the interpreter may follow."""
    fine = sorted((s for s in sizes if _elements(workload, s) <= LIMIT), key=lambda s: _elements(workload, s))
    return fine[:1] + fine[1:][-1:]


def _elements(workload: Workload, sizes: Mapping[str, int]) -> int:
    return sum(math.prod(size_expressions.evaluate(e, sizes) for e in a.shape) for a in workload.args if a.shape)


@by_identity(KEPT, subjects=2)
def _ends(candidate: Kernel, oracle: Oracle, sizes: tuple[tuple[str, int], ...], data: SpecialRows) -> bool:
    """Whether the candidate comes to its end, within the statements that the original may take."""
    try:
        mine = run(candidate, oracle.inputs(dict(sizes), data), domain="float", sanitize=False, fuel=MEANING)
    except KtcError:
        return False
    return mine.ended


class _Trial:
    """One set of inputs with special values."""

    def __init__(self, oracle: Oracle, candidate: Kernel, sizes: Mapping[str, int], data: SpecialRows) -> None:
        self.oracle, self.candidate, self.sizes, self.data = oracle, candidate, sizes, data
        self.inputs = oracle.inputs(sizes, data)

    @cached_property
    def means_something(self) -> bool:
        if not self.oracle.has_meaning_for(self.sizes, self.data):
            return False
        return _ends(self.candidate, self.oracle, tuple(self.sizes.items()), self.data)

    def failure(
        self, runtime: Runtime, executables: tuple[Executable, Executable], workload: Workload
    ) -> Failure | None:
        want, got = (launch_checked(runtime, exe, workload, self.inputs, POISONS[0]) for exe in executables)
        where = f"for special values ({', '.join(self.data.kinds)}) in rows" + (
            f" of {self.data.only}" if self.data.only else ""
        )
        if got.trespass and not want.trespass:
            return Failure("out-of-bounds", f"{got.trespass} {where}", dict(self.sizes), "device")
        integers = not rounds_to_integers(self.oracle.original)
        for name, x in want.outputs.items():
            h = got.outputs[name]
            differs = self._unlike(name, x, h) if is_float(x.dtype) else bits_differ(x, h) & integers
            if differs.any():
                at = tuple(int(i) for i in np.unravel_index(int(np.argmax(differs)), differs.shape))
                a, b = str(x[at]), str(h[at])
                message = f"{name}{list(at)} is {b}, expected {a} {where}"
                return Failure("mismatch", message, dict(self.sizes), "device", name, at, a, b)
        return None

    def _unlike(self, name: str, x: np.ndarray, h: np.ndarray) -> np.ndarray:
        wide = partial(self._wide, name, h) if "reassociates" in self.candidate.flags else None
        answers = answers_of(self.oracle.original, self.candidate)
        differs = unlike(x, h, lambda: self._exact(name), lambda: self._bound(name), wide, answers)
        return differs & ~self._overflows[name] if differs.any() and name in self._overflows else differs

    def _exact(self, name: str) -> np.ndarray:
        return self.oracle.run(self.sizes, "float64", self.data).outputs[name]

    def _wide(self, name: str, got: np.ndarray) -> np.ndarray:
        """What the candidate computes in double, where it has ``got`` in its own type: an infinity or a NaN that the
        text alone has is the text's fault."""
        wide, own = (
            run(self.candidate, self.inputs, domain=d, sanitize=False, undefined=self.oracle.undefined).outputs[name]
            for d in ("float64", "float")
        )
        a, b = own.astype(np.float64), got.astype(np.float64)
        return np.where((a == b) | (np.isnan(a) & np.isnan(b)), wide, np.nan)

    def _bound(self, name: str) -> np.ndarray:
        bounds = run(self.candidate, self.inputs, domain="bound", sanitize=False, undefined=self.oracle.undefined)
        bound = np.imag(bounds.outputs[name])
        return np.maximum(bound, self._any_order[name]) if name in self._any_order else bound

    @cached_property
    def _overflows(self) -> dict[str, np.ndarray]:
        return overflows(self.candidate, self.inputs)

    @cached_property
    def _any_order(self) -> dict[str, np.ndarray]:
        return any_order(self.candidate, self.inputs)


__all__ = ["special_launches"]
