"""What an integer leaves when it is divided: ``value = residue + k * modulus`` for some integer ``k``.

A modulus of 0 stands for the one number ``residue``, a modulus of 1 for anything. Numbers are unbounded here, as in
:mod:`.interval`; what wraps keeps what it leaves modulo powers of two (:meth:`Congruence.wrapped`).
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from ktc.ir.support.frozen import frozen


@frozen
class Congruence:
    """The integers ``residue + k * modulus``; the residue is in ``0..modulus - 1`` unless the modulus is 0."""

    modulus: int = 1
    residue: int = 0

    def __post_init__(self) -> None:
        assert self.modulus >= 0
        if self.modulus:
            object.__setattr__(self, "residue", self.residue % self.modulus)

    @staticmethod
    def point(n: int) -> Congruence:
        return Congruence(0, n)

    @property
    def constant(self) -> int | None:
        return self.residue if self.modulus == 0 else None

    def __contains__(self, n: int) -> bool:
        return n == self.residue if self.modulus == 0 else (n - self.residue) % self.modulus == 0

    def multiple_of(self, n: int) -> bool:
        """Whether ``n`` divides all of it."""
        return n != 0 and self.modulus % n == 0 and self.residue % n == 0

    def join(self, other: Congruence) -> Congruence:
        """The finest congruence that both keep to."""
        return Congruence(gcd(self.modulus, other.modulus, self.residue - other.residue), self.residue)

    def meet(self, other: Congruence) -> Congruence:
        """Both at once, where that is again one and can be: else the finer of the two."""
        a, b = (self, other) if other.modulus and (not self.modulus or self.modulus >= other.modulus) else (other, self)
        if a.modulus == 0 or b.modulus == 0 or (a.residue - b.residue) % gcd(a.modulus, b.modulus):
            return a
        common = gcd(a.modulus, b.modulus)
        turns = (b.residue - a.residue) // common * pow(a.modulus // common, -1, b.modulus // common)
        return Congruence(a.modulus // common * b.modulus, a.residue + a.modulus * turns)

    def modulo(self, n: int) -> Congruence:
        """What is left of it when only multiples of ``n`` are known to have been added: by wrapping, by a remainder."""
        return Congruence(gcd(self.modulus, n), self.residue)

    def wrapped(self, bits: int) -> Congruence:
        return self.modulo(1 << bits)


ANYTHING = Congruence()


def _sum(a: Congruence, b: Congruence) -> Congruence:
    return Congruence(gcd(a.modulus, b.modulus), a.residue + b.residue)


def _negated(a: Congruence) -> Congruence:
    return Congruence(a.modulus, -a.residue)


def _product(a: Congruence, b: Congruence) -> Congruence:
    modulus = gcd(a.modulus * b.modulus, a.modulus * b.residue, a.residue * b.modulus)
    return Congruence(modulus, a.residue * b.residue)


def _quotient(a: Congruence, b: Congruence) -> Congruence:
    """Exact divisions by a number; of others nothing is known."""
    n = b.constant
    if not n or a.modulus % n or a.residue % n:
        return ANYTHING
    return Congruence(abs(a.modulus // n), a.residue // n)


def _remainder(a: Congruence, b: Congruence) -> Congruence:
    """``a - b * (a / b)``, whatever the quotient is."""
    n = b.constant
    if n and a.multiple_of(n):
        return Congruence.point(0)
    return a.join(_sum(a, Congruence(gcd(b.modulus, b.residue), 0))) if (b.modulus, b.residue) != (0, 0) else ANYTHING


def _shifted_left(a: Congruence, n: Congruence) -> Congruence:
    by = n.constant
    return _product(a, Congruence.point(1 << by)) if by is not None and 0 <= by < 64 else ANYTHING


def _shifted_right(a: Congruence, n: Congruence) -> Congruence:
    by = n.constant
    return _quotient(a, Congruence.point(1 << by)) if by is not None and 0 <= by < 64 else ANYTHING


def _mask(a: Congruence, b: Congruence) -> Congruence:
    """``x & 2^k - 1`` is x modulo 2^k; a mask whose lowest bits are 0 leaves a multiple."""
    x, y = a.constant, b.constant
    if x is not None and y is not None:
        return Congruence.point(x & y)
    of, by = (a, y) if y is not None else (b, x)
    if by is None or by == 0:
        return ANYTHING if by is None else Congruence.point(0)
    if by > 0 and by & (by + 1) == 0:
        return Congruence.point(0) if of.multiple_of(by + 1) else of.modulo(by + 1)
    return Congruence(by & -by, 0)


BINARY: dict[str, Callable[[Congruence, Congruence], Congruence]] = {
    "+": _sum,
    "-": lambda a, b: _sum(a, _negated(b)),
    "*": _product,
    "/": _quotient,
    "%": _remainder,
    "<<": _shifted_left,
    ">>": _shifted_right,
    "&": _mask,
}
UNARY: dict[str, Callable[[Congruence], Congruence]] = {"+": lambda a: a, "-": _negated}
CALLS: dict[str, Callable[..., Congruence]] = {"min": Congruence.join, "max": Congruence.join}

__all__ = ["ANYTHING", "BINARY", "CALLS", "UNARY", "Congruence"]
