"""L4: original and candidate side by side on a device.

For each set of sizes, on exact-integer and on ordinary inputs, both kernels run on fresh buffers with red zones; pure
outputs are poisoned, twice, with different patterns. A candidate is rejected if it

* writes outside a buffer, or into an input;
* gives different bits for different poison where the original does not (it reads what nobody wrote, leaves an element
  out, or races);
* writes an element that the original leaves alone;
* differs from the original: to the bit where all arithmetic is exact, else beyond the error bound (``accuracy``);
* is less accurate than the original on each of several inputs;
* has another answer than the original on special values (:mod:`.special_launches`).

Sizes beyond what the interpreter can follow are judged by :mod:`ktc.search.verification.floats.large`.

What both kernels update by atomic additions of floats depends on the order of their blocks: two runs may differ, and
both are held against the original.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from ktc.backends.base import Emitted, Executable, Runtime
from ktc.ir.interp.equivalence import bits_differ
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Call, Const
from ktc.ir.types import Scalar, Vec, scalar_of
from ktc.ir.walk import all_exprs
from ktc.ir.workload import Workload
from ktc.ir.workload.scenario_facts import runnable
from ktc.search.verification.floats.accuracy import DRAWS, is_float, lost_accuracy, outside_bound
from ktc.search.verification.floats.agreement import FEW_ELEMENTS
from ktc.search.verification.floats.any_order import unordered
from ktc.search.verification.floats.condition_numbers import Conditions
from ktc.search.verification.floats.large import too_far
from ktc.search.verification.floats.moments import spreads
from ktc.search.verification.floats.sum_lengths import terms_added
from ktc.search.verification.instances.instances import MAX_ELEMENTS
from ktc.search.verification.verdict import Failure, Rung, Verdict

from .arena import POISONS, Launched, launch_checked
from .interpreted import Drawn, as_computed, awkward_sizes, error_bounds, exact_values
from .kept_launches import KeptLaunches
from .repeated_launches import in_step, swapped
from .special_launches import special_launches

EXACT_CALLS = frozenset({"min", "max", "abs", "fma", "floor", "ceil", "trunc", "rint", "round", "copysign", "cdiv"})
"""Functions without rounding on small integers."""

FINE = 16
"""Constants that are multiples of one over this leave products and sums exact: 0.25, not 0.3."""

LOSS = "inaccurate"
"""The kind of a failure that no element shows: one set of inputs may be the original's luck."""

REFERENCE_ELEMENTS = 1 << 24
"""Array elements beyond which no float64 reference is computed, and exact inputs are not tried."""


def differential(
    runtime: Runtime,
    original: Emitted,
    candidate: Emitted,
    workload: Workload,
    *,
    variant: str | None = None,
    sizes: Iterable[Mapping[str, int]] | None = None,
    count: int = 4,
    seed: int = 0,
    executables: tuple[Executable, Executable] | None = None,
    kept: KeptLaunches | None = None,
) -> Verdict:
    """Run both programs on ``runtime`` and compare; TESTED, REJECTED, or UNKNOWN if no size fits the guards.

    Args:
        original, candidate: emitted for this runtime's language.
        sizes: sets of sizes to try; default ``count`` awkward small ones (see
        :mod:`ktc.search.verification.instances.instances`).
        executables: (original, candidate) if they are compiled already.
        kept: what originals gave on this ``runtime`` before, and are not launched for again.

    Raises:
        CompileFailure: the device compiler refused one of the texts.
    """
    began = time.perf_counter()
    rewritten = as_computed(candidate.kernel)
    if sizes is None:
        chosen = awkward_sizes(original.kernel, rewritten, workload, count)
    else:
        chosen = [s for s in sizes if runnable(rewritten, workload, s)]
    if not chosen:
        return Verdict("UNKNOWN", "device", "no sizes satisfy the candidate's guards", seconds=_since(began))
    exe = executables or (runtime.compile(original), runtime.compile(candidate))
    first = in_step(original.kernel, rewritten)
    if first is None:
        return Verdict("UNKNOWN", "device", "the two do different numbers of sweeps a launch", seconds=_since(began))
    kernels = (first, rewritten)
    kept = kept if kept is not None else KeptLaunches()
    failure: Failure | None = None
    for s in chosen:
        for exact in (True, False):
            for draw in range(DRAWS):
                drawn = Drawn(tuple(s.items()), variant, seed + draw, exact)
                inputs = drawn.inputs(workload)
                if exact and _elements(inputs) > REFERENCE_ELEMENTS:
                    break
                failure = _check(runtime, original, exe, kernels, workload, drawn, inputs, kept)
                if failure is None or failure.kind != LOSS:
                    break
            if failure:
                rung = Rung("device", "fail", str(failure), _since(began))
                return Verdict("REJECTED", "device", str(failure), (rung,), _since(began), failure)
    launched, failure = special_launches(runtime, exe, kernels, workload, chosen, variant=variant, seed=seed)
    if failure:
        rung = Rung("device", "fail", str(failure), _since(began))
        return Verdict("REJECTED", "device", str(failure), (rung,), _since(began), failure)
    data = "exact, ordinary and special inputs" if launched else "exact and ordinary inputs"
    detail = f"{len(chosen)} sizes on {runtime.device.name}, {data}, two poisons"
    return Verdict("TESTED", "device", detail, (Rung("device", "pass", detail, _since(began)),), _since(began))


def _check(
    runtime: Runtime,
    original: Emitted,
    exe: tuple[Executable, Executable],
    kernels: tuple[Kernel, Kernel],
    workload: Workload,
    drawn: Drawn,
    inputs: Mapping[str, Any],
    kept: KeptLaunches,
) -> Failure | None:
    def launched(poison: int) -> Launched:
        launch = partial(launch_checked, runtime, exe[0], workload, inputs, poison, kernels[0].repeat)
        return kept.get((original.text, workload.path, drawn, poison, kernels[0].repeat), launch)

    want = [launched(p) for p in POISONS]
    got = [launch_checked(runtime, exe[1], workload, inputs, p) for p in POISONS]
    where = dict(drawn.sizes)
    trespass = next((g.trespass for g in got if g.trespass), "")
    if trespass and not any(w.trespass for w in want):
        return Failure("out-of-bounds", trespass, where, "device")
    names = list(want[0].outputs)
    judge = _Judge(
        kernels, workload, drawn, inputs, lambda: spreads(runtime, original, inputs, names),
        Conditions(runtime, original, inputs, names),
    )  # fmt: skip
    free = frozenset() if judge.to_the_bit else unordered(kernels[0]) & unordered(kernels[1])
    for name, x in want[0].outputs.items():
        stable = ~bits_differ(x, want[1].outputs[name])
        h, again = got[0].outputs[name], got[1].outputs[name]
        moved = bits_differ(h, again)
        if name not in free and (moved & stable).any():
            at = _first(moved & stable)
            message = f"{name}{list(at)} is {h[at]}, then {again[at]}: it depends on memory nobody wrote, or on a race"
            return Failure("uninitialised", message, where, "device", name, at, str(x[at]), str(h[at]))
        left = ~stable & _holds(x, POISONS[0]) & _holds(want[1].outputs[name], POISONS[1])
        if (~moved & left).any():
            at = _first(~moved & left)
            message = f"{name}{list(at)} was written; the original leaves it alone"
            return Failure("mismatch", message, where, "device", name, at, "", str(h[at]))
        for y in (h, again) if name in free else (h,):
            found = judge.compare(name, x, y, ~left)
            if found:
                at, message = found
                expected, value = (str(x[at]), str(y[at])) if at else ("", "")
                return Failure("mismatch" if at else LOSS, message, where, "device", name, at, expected, value)
    return None


def _holds(x: np.ndarray, byte: int) -> np.ndarray:
    """Which elements consist of ``byte`` alone: still poisoned."""
    raw = np.ascontiguousarray(x).reshape(-1).view(np.uint8).reshape(x.size, x.dtype.itemsize)
    return (raw == byte).all(axis=1).reshape(x.shape)


class _Judge:
    """Decides how close is close enough, for one set of inputs."""

    def __init__(
        self,
        kernels: tuple[Kernel, Kernel],
        workload: Workload,
        drawn: Drawn,
        inputs: Mapping[str, Any],
        spreads: Callable[[], dict[str, np.ndarray]],
        conditions: Conditions,
    ) -> None:
        self.kernels, self.workload, self.drawn, self.inputs = kernels, workload, drawn, inputs
        self.to_the_bit = drawn.exact and kernels[0].launches == 1 and all(rounds_nothing(k) for k in kernels)
        self._reference: dict[str, np.ndarray] | None = None
        self._spreads = functools.cache(spreads if kernels[0].launches == 1 else dict)
        self._conditions = conditions if kernels[0].launches == 1 else None
        self._interpreted = _elements(inputs) <= MAX_ELEMENTS

    def compare(self, name: str, want: np.ndarray, got: np.ndarray, stable: np.ndarray):
        """(index, message) of a difference that matters, or None. Only elements that ``stable`` marks count.

        What is the original's to the bit needs no bound: the original is what is asked for, with its rounding errors,
        and no bound says more of the two than that they are equal. A candidate that computes each element by the same
        operations in the same order gets there, whatever its schedule; to interpret it may take a second.
        """
        differs = bits_differ(want, got) & stable
        if not differs.any():
            return None
        if self.to_the_bit or not is_float(want.dtype):
            at = _first(differs)
            return at, f"{name}{list(at)} is {got[at]}, expected {want[at]} to the bit"
        zero = np.zeros((), want.dtype)
        want, got = np.where(stable, want, zero), np.where(stable, got, zero)
        known = self._small().get(name) if self._interpreted else None
        if known is not None:
            y, e = (np.where(stable, v, 0.0) for v in known)
            bad = outside_bound(got, y, e) or self._loss(got, want, y)
        else:
            reference = self._large().get(name)
            exact = None if reference is None else np.where(stable, reference, 0.0)
            bad = self._far(got, want, exact, None)
            if bad and want.size < FEW_ELEMENTS and (spread := self._spreads().get(name)) is not None:
                bad = self._far(got, want, exact, np.where(stable, spread, 0.0))
            if bad and bad.index and self._conditions and (known := self._conditions.of(name)):
                y = np.where(stable, known[0], 0.0)
                bad = self._conditions.excess(name, got, stable) or self._loss(got, want, y)
        return (bad.index, f"{name}{list(bad.index) if bad.index else ''}: {bad}") if bad else None

    def _far(self, got, want, exact, spread):
        bad = too_far(got, want, exact, spread, self._added / max(want.size, 1))
        return bad if bad or exact is None else self._loss(got, want, exact)

    @functools.cached_property
    def _added(self) -> int:
        """Terms that a launch of the original adds up."""
        return terms_added(self.kernels[0], {n: v for n, v in self.inputs.items() if isinstance(v, int)})

    def _loss(self, got, want, y):
        return None if self.kernels[1].may_lose_accuracy else lost_accuracy(got, want, y)

    def _small(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Exact values and the candidate's error bounds from the interpreter; {} if it cannot follow the kernels, or
        not to their ends."""
        values = exact_values(self.kernels[0], self.workload, self.drawn)
        bounds = error_bounds(self.kernels[1], self.workload, self.drawn) if values else {}
        return {n: (v, bounds[n]) for n, v in values.items() if n in bounds}

    def _large(self) -> dict[str, np.ndarray]:
        if self._reference is None:
            affordable = _elements(self.inputs) <= REFERENCE_ELEMENTS
            self._reference = self._repeated() if affordable else {}
        return self._reference

    def _repeated(self) -> dict[str, np.ndarray]:
        """The workload's reference, applied once a launch of the original."""
        values, out = dict(self.inputs), self.workload.reference(self.inputs) or {}
        repeat = self.kernels[0].repeat
        for _ in range(self.kernels[0].launches - 1 if out and repeat else 0):
            assert repeat is not None
            values = swapped(values, out, repeat)
            out = self.workload.reference(values) or {}
        return out


def _elements(inputs: Mapping[str, Any]) -> int:
    return sum(v.size for v in inputs.values() if isinstance(v, np.ndarray))


def rounds_nothing(kernel: Kernel) -> bool:
    """Whether float arithmetic here is exact on small integers: + - * in 32 or 64 bits, min, max and the like, with
    constants of few bits."""
    for e in all_exprs(kernel.body):
        if isinstance(e, Const) and e.ty.is_float and math.isfinite(e.value) and (e.value * FINE) % 1:
            return False
        if isinstance(e, Call) and _floats(e.type) and e.fn not in EXACT_CALLS:
            return False
        if (
            isinstance(e, Binary)
            and _floats(e.a.type)
            and (e.op in "/%" or (e.op in "+-*" and scalar_of(e.a.type).bits < 32))
        ):
            return False
    return True


def _floats(t: object) -> bool:
    return isinstance(t, Scalar | Vec) and scalar_of(t).is_float


def _first(mask: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(mask)), mask.shape))


def _since(began: float) -> float:
    return time.perf_counter() - began
