"""The largest error of a function of single precision over floats by their bits, in units in the last place.

``python -m tests.backends.numba.ulps [NAME...]`` looks at every float there is (a minute a function on two cores).
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


def measure(name: str, stride: int = 1, fused: bool = True) -> Worst:
    """Over every ``stride``-th float from 0 bits on."""
    function, reference = helper(name, fused), njit(error_model="numpy")(REFERENCES[name])

    @njit(error_model="numpy", parallel=True)
    def look(count, stride):
        parts = 64
        errors, at, wrong = np.zeros(parts), np.zeros(parts), np.zeros(parts, np.int64)
        for part in prange(parts):
            for k in range(count * part // parts, count * (part + 1) // parts):
                x = np.uint32(k * stride).view(np.float32)
                got, want = np.float64(function(x)), reference(np.float64(x))
                if abs(want) >= 3.4028235677973366e38 or want != want:  # an infinity in single precision, or no number
                    wrong[part] += not (got == np.float32(want) or (got != got and want != want))
                    continue
                if got - got != 0:
                    got = math.copysign(3.4028236692093846e38, got) if got == got else np.inf
                error = abs(got - want) / max(math.ldexp(1.0, math.frexp(want)[1] - 24), 1.401298464324817e-45)
                if error > errors[part]:
                    errors[part], at[part] = error, x
        return errors, at, wrong.sum()

    errors, at, wrong = look((1 << 32) // stride, stride)
    return Worst(float(errors.max()), float(at[errors.argmax()]), int(wrong))


if __name__ == "__main__":
    for name in sys.argv[1:] or REFERENCES:
        print(name, measure(name), measure(name, fused=False), flush=True)
