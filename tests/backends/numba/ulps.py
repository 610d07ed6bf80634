"""The largest error of a function of single precision over floats by their bits, in units in the last place.

``python -m tests.backends.numba.ulps [NAME...]`` looks at every float there is (a minute a function on two idle cores).
"""

from __future__ import annotations

import math
import sys
import types
from dataclasses import dataclass

import numpy as np
from numba import njit, prange

from ktc.backends.numba import numba_prelude

REFERENCES = {
    "exp": lambda x: math.exp(x),
    "exp2": lambda x: math.pow(2.0, x),
    "log": lambda x: math.log(x),
    "tanh": lambda x: math.tanh(x),
    "erf": lambda x: math.erf(x),
    "sin": lambda x: math.sin(x),
    "cos": lambda x: math.cos(x),
}
"""In doubles, whose error does not count here."""

HEAD = "f32, i64, u64 = np.float32, np.int64, np.uint64\nOPTIONS = dict(error_model='numpy')\n"
APART = '''
@njit(**OPTIONS)
def muladd(a, b, c):
    """a * b + c, rounded twice: what a processor without a fused instruction does."""
    return a * b + c
'''


@dataclass(frozen=True)
class Worst:
    """``error`` in ulp at the argument ``at``; ``wrong``: arguments for which a NaN or an infinity is out of place."""

    error: float
    at: float
    wrong: int


def helper(name: str, fused: bool = True):
    """The prelude's function ``NAME_f32``; ``fused=False``: with products and sums rounded apart."""
    names = numba_prelude.closure({f"{name}_f32"})
    blocks = [APART if n == "muladd" and not fused else numba_prelude.HELPERS[n][1] for n in names]
    module = types.ModuleType("helpers")
    exec("\n".join([*numba_prelude.imports({f"{name}_f32"}), HEAD, *blocks]), module.__dict__)
    return getattr(module, f"{name}_f32")


def measure(name: str, stride: int = 1) -> tuple[Worst, Worst]:
    """Over every ``stride``-th float from 0 bits on: with products and sums rounded together, and apart."""
    fused, apart, reference = helper(name), helper(name, False), njit(error_model="numpy")(REFERENCES[name])

    @njit(error_model="numpy")
    def error(got, want):
        """In units in the last place of ``want``; -1: a NaN or an infinity that should not be, or is missing."""
        if want != want or abs(want) >= 3.4028235677973366e38:  # no number, or an infinity in single precision
            return 0.0 if got == np.float32(want) or (got != got and want != want) else -1.0
        if got - got != 0.0:
            return -1.0 if got != got or abs(want) < 3.4028234663852886e38 else 0.0
        exponent = np.int64((np.float64(want).view(np.int64) >> 52) & 0x7FF)
        return abs(np.float64(got) - want) / np.int64(max(exponent - 23, 1023 - 149) << 52).view(np.float64)

    @njit(error_model="numpy", parallel=True)
    def look(count, stride):
        parts = 64
        errors, at, wrong = np.zeros((parts, 2)), np.zeros((parts, 2)), np.zeros((parts, 2), np.int64)
        for part in prange(parts):
            for k in range(count * part // parts, count * (part + 1) // parts):
                x = np.uint32(k * stride).view(np.float32)
                want = reference(np.float64(x))
                for way in range(2):
                    e = error(fused(x) if way == 0 else apart(x), want)
                    wrong[part, way] += e < 0
                    if e > errors[part, way]:
                        errors[part, way], at[part, way] = e, x
        return errors, at, wrong

    errors, at, wrong = look((1 << 32) // stride, stride)
    where = errors.argmax(axis=0)
    one, other = (Worst(float(errors[where[w], w]), float(at[where[w], w]), int(wrong[:, w].sum())) for w in (0, 1))
    return one, other


if __name__ == "__main__":
    for name in sys.argv[1:] or REFERENCES:
        print(name, *measure(name), flush=True)
