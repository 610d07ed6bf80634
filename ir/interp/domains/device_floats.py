"""The ``float`` domain (each operation rounds to its own type) and ``float64`` (every float is a double)."""

from __future__ import annotations

import numpy as np

from ktc.ir.types import Scalar

from . import integers
from .bit_patterns import numbers_of, patterns_of
from .directed_rounding import DIRECTED, directed
from .domain import Domain, Unsupported, order_of_bits
from .realmath import BOOLEAN, OPERATORS, REALS, plain_name
from .rounding import FLOAT_DTYPES, converted, fma, round_to

_ARITH = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "%": np.fmod}


class DeviceDomain(Domain):
    """What a device computes: IEEE arithmetic in the operands' type, functions rounded once from double."""

    name = "float"
    has_bits = True

    def float_dtype(self, t: Scalar) -> np.dtype:
        return FLOAT_DTYPES[t.name]

    @np.errstate(all="ignore")
    def encode(self, array, t):
        return array.astype(self.float_dtype(t), copy=True)

    def decode(self, storage, t):
        return storage

    def float_const(self, value, t):
        return round_to(np.float64(value), t) if t.bits < 64 else np.float64(value)

    def float_arith(self, op, a, b, t):
        return _ARITH[op](a, b)

    def float_compare(self, op, a, b, t):
        return integers.COMPARE[op](a, b)

    def float_negate(self, x, t):
        return np.negative(x)

    @np.errstate(all="ignore")
    def float_cast(self, x, src, dst):
        if not dst.is_float:
            return integers.from_float(x, dst, src)
        if src.is_float and src.bits < dst.bits:
            return np.asarray(x).astype(self.float_dtype(dst))[()]
        if dst.name == "f32":  # from integers and from double: one rounding by numpy itself
            return np.asarray(x).astype(np.float32)[()]
        return converted(x, dst)

    def float_bits(self, x, src, dst):
        return np.asarray(x).view(self.dtype(dst))[()]

    def same_bits(self, a, b, t):
        return self.bit_order(a, t, False) == self.bit_order(b, t, False)

    def float_call(self, fn, args, t):
        fn = plain_name(fn)
        if fn in OPERATORS:
            return self.float_arith(OPERATORS[fn], args[0], args[1], t)
        if fn == "fma":
            return fma(args[0], args[1], args[2], self.float_dtype(t))
        if fn in DIRECTED and t.name == "f32":
            return directed(*DIRECTED[fn], args)
        if fn not in REALS:
            raise Unsupported(f"no meaning for the function '{fn}'")
        value = REALS[fn](*(np.asarray(a).astype(np.float64) for a in args))
        return np.asarray(value)[()] if fn in BOOLEAN else round_to(value, t)


class DoubleDomain(DeviceDomain):
    """All float types held in double: the accuracy reference. Numbers that their type holds exactly have the machine's
    patterns; those that it does not, as computed ones, have none."""

    name = "float64"
    has_bits = False

    def float_dtype(self, t):
        return np.dtype(np.float64)

    def float_const(self, value, t):
        # A literal keeps its type's rounding: 1e-6f is what the source says, not 1e-6.
        return np.float64(round_to(np.float64(value), t))

    def float_cast(self, x, src, dst):
        return integers.from_float(x, dst, src) if not dst.is_float else np.asarray(x).astype(np.float64)[()]

    def bit_order(self, x, t, signed):
        return order_of_bits(x, signed) if t.is_float else super().bit_order(x, t, signed)

    def float_bits(self, x, src, dst):
        if not src.is_float:
            return numbers_of(x, dst)
        found = patterns_of(x, src)
        if found is None:
            raise self.without_patterns(src, dst)
        return numbers_of(found, dst) if dst.is_float else np.asarray(found).view(self.dtype(dst))[()]

    def float_call(self, fn, args, t):
        fn = plain_name(DIRECTED[fn][0] if fn in DIRECTED else fn)
        if fn in OPERATORS:
            return self.float_arith(OPERATORS[fn], args[0], args[1], t)
        if fn == "fma":
            return args[0] * args[1] + args[2]
        if fn not in REALS:
            raise Unsupported(f"no meaning for the function '{fn}'")
        return np.asarray(REALS[fn](*args))[()]
