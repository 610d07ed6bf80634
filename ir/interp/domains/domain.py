"""Value domains: what a floating-point number *is* while the interpreter runs.

A domain stores each scalar type in a numpy dtype and gives meaning to operators, conversions and functions. Integers
and bools are the machine's in every domain (indices and control flow are real); only floats differ:

============= ================================================================================================
``float``     device semantics: every operation rounds to its type
``float64``   every float is a double: the reference for accuracy
``int``       floats are elements of the ring Z/2^64: exact, invariant under reassociation
``field``     floats are pairs of residues modulo two primes: exact, with division
``bound``     double value plus a running a-priori bound of its rounding error
``terms``     the same with a bound that holds for every order of summation
``roundings`` double value plus how often it was rounded to a narrower type
============= ================================================================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar

import numpy as np

from ktc.ir.diagnostics import KtcError
from ktc.ir.types import Scalar

from . import integers
from .bit_names import BitNames
from .bit_patterns import Given
from .poison import kinds, poisons
from .rounding import round_to


class Unsupported(KtcError):
    """The interpreter, or this domain, has no meaning for a construct (not a defect of the kernel)."""

    def __init__(self, message: str, loc=None) -> None:
        super().__init__(
            "E-INTERP-UNSUPPORTED", message, loc, hint="this part of the kernel can only be checked on a device"
        )


class Domain(ABC):
    """Meaning of the float types; integer types are handled here, once."""

    name: ClassVar[str]
    exact: ClassVar[bool] = False
    """Whether equal means equal: results of reassociated code compare bit for bit."""

    has_bits: ClassVar[bool] = False
    """Whether every float has the bit pattern that the machine gives it."""

    bits_travel: Callable[[], bool] = staticmethod(lambda: False)
    """Whether the program does nothing with the bits of a float but move them: then names do as well."""

    names: BitNames | None = None

    given: Given
    """The patterns that numbers were given in this run, where they have none."""

    def __init__(self) -> None:
        self.given = Given()
        self._poisons: dict[tuple[Scalar, int, bool], np.ndarray] = {}

    # ------------------------------------------------------------------------------ to be given by each domain

    @abstractmethod
    def float_dtype(self, t: Scalar) -> np.dtype:
        """Storage of one float of type ``t``."""

    @abstractmethod
    def encode(self, array: np.ndarray, t: Scalar) -> np.ndarray:
        """Host numbers (any shape) as storage, flat."""

    @abstractmethod
    def decode(self, storage: np.ndarray, t: Scalar) -> np.ndarray:
        """Storage as something two runs can compare."""

    @abstractmethod
    def float_arith(self, op: str, a, b, t: Scalar) -> Any: ...

    @abstractmethod
    def float_compare(self, op: str, a, b, t: Scalar) -> Any: ...

    @abstractmethod
    def float_negate(self, x, t: Scalar) -> Any: ...

    @abstractmethod
    def float_cast(self, x, src: Scalar, dst: Scalar) -> Any:
        """Conversions with a float on at least one side."""

    @abstractmethod
    def float_call(self, fn: str, args: list, t: Scalar) -> Any:
        """A function by its canonical name on floats of type ``t``."""

    @abstractmethod
    def float_const(self, value: float, t: Scalar) -> Any: ...

    def float_bits(self, x, src: Scalar, dst: Scalar) -> Any:
        """Same-size reinterpretation with a float on at least one side."""
        raise self.without_patterns(src, dst)

    def without_patterns(self, src: Scalar, dst: Scalar) -> Unsupported:
        return Unsupported(f"the '{self.name}' domain has no such bit patterns: cannot reinterpret {src} as {dst}")

    # ---------------------------------------------------------------------------------------- shared by them all

    def dtype(self, t: Scalar) -> np.dtype:
        return self.float_dtype(t) if t.is_float else integers.DTYPES[t.name]

    def const(self, value, t: Scalar):
        """A literal (or scalar argument): floats are rounded to their type first, integers wrap."""
        if t.is_float:
            return self.float_const(float(round_to(np.float64(value), t)), t)
        if t.kind == "bool":
            return np.bool_(value)
        return np.uint64(int(value) & 0xFFFFFFFFFFFFFFFF).astype(self.dtype(t))

    def encode_any(self, array: np.ndarray, t: Scalar) -> np.ndarray:
        """A flat private copy of a host array in this domain's storage."""
        flat = np.ascontiguousarray(array).reshape(-1)
        return self.encode(flat, t) if t.is_float else flat.astype(self.dtype(t), copy=True)

    def decode_any(self, storage: np.ndarray, t: Scalar) -> np.ndarray:
        return self.decode(storage, t) if t.is_float else storage

    def arith(self, op: str, a, b, t: Scalar):
        if t.is_float:
            return self.float_arith(op, a, b, t)
        return integers.ARITHMETIC[op](a, b)

    def compare(self, op: str, a, b, t: Scalar):
        return self.float_compare(op, a, b, t) if t.is_float else integers.COMPARE[op](a, b)

    def same_bits(self, a, b, t: Scalar):
        """Whether two values have the same bits, as a compare-and-swap sees them: NaN is NaN, and -0.0 is not +0.0."""
        return self.float_compare("==", a, b, t) if t.is_float else integers.COMPARE["=="](a, b)

    def chosen(self, taken, a, b, t: Scalar):
        """``a`` where ``taken``, a comparison of the two, else ``b``."""
        return np.where(taken, a, b)

    def bit_order(self, x, t: Scalar, signed: bool):
        """Integers that compare as the bits of ``x`` do, read as a signed or an unsigned integer."""
        return self.bitcast(x, t, Scalar("int" if signed else "uint", t.bits))

    def negate(self, x, t: Scalar):
        return self.float_negate(x, t) if t.is_float else np.negative(x)

    def cast(self, x, src: Scalar, dst: Scalar):
        if src == dst:
            return x
        if src.is_float or dst.is_float:
            return self.float_cast(x, src, dst)
        return integers.cast(x, dst)

    def bitcast(self, x, src: Scalar, dst: Scalar):
        if not (src.is_float or dst.is_float):
            return np.asarray(x).view(self.dtype(dst))[()]
        return self.float_bits(x, src, dst) if self.has_bits or not self.bits_travel() else self._by_name(x, src, dst)

    def _by_name(self, x, src: Scalar, dst: Scalar):
        if self.names is None:
            t = src if src.is_float else dst
            self.names = BitNames(np.asarray(self.const(0.0, t), self.dtype(t)))
        found = self.names.of(x, self.dtype(dst)) if src.is_float else self.names.named(x, self.dtype(dst))
        if found is None:
            raise Unsupported(f"the '{self.name}' domain knows no value with such bits")
        return found

    def truncated(self, total, terms: list, t: Scalar):
        """``total``, a sum of ``terms`` that hardware took with truncation instead of rounding each step."""
        return total

    def multiplied(self, total, a, b, t: Scalar, truncates: bool):
        """``total + a @ b`` for g matrices at once, one k after another: ``(g, m, n)``, ``(g, m, k)``, ``(g, k, n)``.

        ``truncates``: hardware takes these k as one step (:meth:`truncated`).
        """
        terms = [total]
        for k in range(a.shape[2]):
            product = self.arith("*", a[:, :, k, None], b[:, k, None, :], t)
            terms += [product] if truncates else []
            total = self.arith("+", total, product, t)
        return self.truncated(total, terms, t) if truncates else total

    def call(self, fn: str, args: list, t: Scalar):
        if t.is_float:
            return self.float_call(fn, args, t)
        if fn.startswith("field_"):
            from .field_calls import FIELD_CALLS

            return FIELD_CALLS[fn](*args)
        if fn not in integers.FUNCTIONS:
            raise Unsupported(f"no meaning for the integer function '{fn}'")
        return integers.FUNCTIONS[fn](*args)

    def poison(self, t: Scalar, n: int, run: int, beside: bool = False, first: int = 0) -> np.ndarray:
        """``n`` values standing for memory nobody wrote (see :mod:`.poison`), from the place ``first`` on."""
        if t.kind == "bool":
            return np.full(n, run % 2 == 1)
        values = self._poisons.get((t, run, beside))
        if values is None:
            of = poisons(t, run, beside)
            values = self.encode(of.astype(np.float64), t) if t.is_float else of.astype(self.dtype(t))
            self._poisons[t, run, beside] = values
        return np.repeat(values, n) if len(values) == 1 else values[kinds(first + np.arange(n))]


def order_of_bits(values, signed: bool):
    """Integers that compare as the bits of floats with these ``values`` do: those of doubles are in the same order."""
    return np.asarray(values, np.float64).view(np.int64 if signed else np.uint64)


@cache
def domain_named(name: str) -> Domain:
    """The domain of that name.

    Raises:
        KtcError: E-INTERP-DOMAIN for an unknown name.
    """
    from .bound import BoundDomain
    from .device_floats import DeviceDomain, DoubleDomain
    from .field import FieldDomain
    from .ring import RingDomain
    from .roundings import BfloatStepsDomain, HalfStepsDomain, RoundingsDomain
    from .subsets import SubsetsDomain
    from .terms import TermsDomain

    domains: tuple[type[Domain], ...] = (
        DeviceDomain, DoubleDomain, RingDomain, FieldDomain, BoundDomain, TermsDomain, RoundingsDomain,
        HalfStepsDomain, BfloatStepsDomain, SubsetsDomain,
    )  # fmt: skip
    known = {d.name: d for d in domains}
    if name not in known:
        raise KtcError("E-INTERP-DOMAIN", f"no value domain '{name}'", hint=f"one of {', '.join(known)}", exit_code=2)
    return known[name]()
