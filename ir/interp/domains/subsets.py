"""The ``subsets`` domain: floats are sets of things, a bit each; a maximum is the union, a minimum what both have.

Which operand of a maximum is the largest decides what it is, and nothing else of the others; a union shows each that
is left out, for as many rows of zeros and ones as there are bits at once. Infinities are the empty set and all things.
Everything else is as in the ``int`` domain, where it means little: whoever compares in this domain learns which data to
look at in another one.
"""

from __future__ import annotations

import numpy as np

from .realmath import plain_name
from .ring import RingDomain

_ALL, _NONE = np.int64(-1), np.int64(0)


class SubsetsDomain(RingDomain):
    name = "subsets"
    exact = False

    def float_const(self, value, t):
        found = super().float_const(value, t)
        largest = super().float_const(np.inf, t)
        return _ALL if found == largest else _NONE if found == -largest else found

    def float_call(self, fn, args, t):
        union = {"max": np.bitwise_or, "min": np.bitwise_and}.get(plain_name(fn))
        return union(*args)[()] if union is not None else super().float_call(fn, args, t)


__all__ = ["SubsetsDomain"]
