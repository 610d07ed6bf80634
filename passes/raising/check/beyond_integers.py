"""Floats beyond all integers of the exact check: a maximum that starts from -1e30 is, of integers, one without a start.

Only kernels that have such a number are run on them, as floats. All values have one sign, so that sums in another order
overflow where the source's do; what rounding makes of them is far less than the distance of the values from the number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from ml_dtypes import finfo

from ktc.ir.interp.equivalence import Mismatch
from ktc.ir.interp.run_results import RunResult
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Const
from ktc.ir.types import Ptr, Scalar, scalar_of
from ktc.ir.walk import all_exprs
from ktc.ir.workload.input_data import numpy_dtype

from .invented_arguments import LARGEST_FLOAT, Arguments

DISTANT = 1 / 16
"""Differences, as a part of the largest number of a buffer, that are no rounding."""


def arguments_beyond(kernel: Kernel, args: Arguments, seed: int) -> Iterator[Arguments]:
    """``args`` with all floats below every number in ``kernel``, and above; none where integers go as far."""
    numbers = (e.value for e in all_exprs(kernel.body) if isinstance(e, Const) and scalar_of(e.type).is_float)
    far = max((abs(float(v)) for v in numbers if math.isfinite(float(v))), default=0.0)
    if far <= LARGEST_FLOAT:
        return
    rng = np.random.default_rng(seed)
    for sign in (-1, 1):
        made = dict(args)
        for p in kernel.params:
            t, name = scalar_of(p.sym.type), p.sym.name
            if isinstance(p.sym.type, Ptr) and t.is_float and args[name] is not None:
                made[name] = _filled(sign * (2 + rng.random(np.size(args[name]))), far, t)
        yield made


def _filled(values: np.ndarray, far: float, t: Scalar) -> np.ndarray:
    """``values`` times ``far`` as floats of type ``t``: infinite where it does not hold them."""
    dtype = numpy_dtype(t.name)
    held = np.abs(values) <= float(finfo(dtype).max) / far
    return np.where(held, values * min(far, float(finfo(dtype).max)), np.copysign(np.inf, values)).astype(dtype)


def unlike(kernel: Kernel, first: RunResult, second: RunResult) -> Mismatch | None:
    """The first float that ``kernel`` leaves as a number in ``first``, and that is another one in ``second``."""
    floats = {p.sym.name for p in kernel.params if isinstance(p.sym.type, Ptr) and scalar_of(p.sym.type).is_float}
    for name, x in ((n, x) for n, x in first.outputs.items() if n in floats):
        a, b = x.astype(np.float64), second.outputs[name].astype(np.float64)
        known = np.isfinite(a) & first.written.get(name, np.ones(x.shape, bool))
        largest = max((float(np.abs(v[known & np.isfinite(v)]).max(initial=0)) for v in (a, b)), default=0.0)
        with np.errstate(invalid="ignore", over="ignore"):
            differs = known & ~(np.abs(a - b) <= DISTANT * largest)
        if differs.any():
            at = tuple(int(i) for i in np.unravel_index(int(np.argmax(differs)), differs.shape))
            return Mismatch("float", 0, name, at, x[at], second.outputs[name][at], int(differs.sum()))
    return None


__all__ = ["arguments_beyond", "unlike"]
