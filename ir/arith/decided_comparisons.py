"""Comparisons that intervals leave open and that polynomials, divisors or residues decide."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from ktc.ir.nodes import COMPARISONS, Binary, Expr

from .congruence import Congruence
from .enclosures import is_integer

if TYPE_CHECKING:
    from .kernel_facts import Facts


def compared(e: Expr, facts: Facts) -> bool | None:
    """How the comparison ``e`` comes out, if it always comes out alike; None for what is none."""
    if not isinstance(e, Binary) or e.op not in COMPARISONS or not is_integer(e.a.type):
        return None
    if e.op in ("==", "!="):
        same = _equal(e.a, e.b, facts)
        return same if same is None or e.op == "==" else not same
    a, b, strict = _ordered(e)
    if facts.at_most(a, b, by=strict):
        return True
    return False if facts.at_most(b, a, by=1 - strict) else None


def refuted(e: Expr, facts: Facts) -> bool:
    """Whether the comparison ``e`` never holds."""
    if not isinstance(e, Binary) or e.op in ("==", "!=") or e.op not in COMPARISONS or not is_integer(e.a.type):
        return compared(e, facts) is False
    a, b, strict = _ordered(e)
    return facts.at_most(b, a, by=1 - strict)


def _ordered(e: Binary) -> tuple[Expr, Expr, int]:
    """``a``, ``b`` and ``n`` where ``e`` says that ``a + n <= b``."""
    a, b = (e.a, e.b) if e.op in ("<", "<=") else (e.b, e.a)
    return a, b, int(e.op in ("<", ">"))


def _equal(a: Expr, b: Expr, facts: Facts) -> bool | None:
    if facts.equal(a, b) or _nothing_left(a, b, facts):
        return True
    return False if _differ(a, b, facts) else None


def _nothing_left(a: Expr, b: Expr, facts: Facts) -> bool:
    """Whether ``a`` is a remainder that is 0, and so is ``b``."""
    x = facts.plain(a)
    return isinstance(x, Binary) and x.op == "%" and facts.interval(b).constant == 0 and facts.divides(x.b, x.a)


def _differ(a: Expr, b: Expr, facts: Facts) -> bool:
    x, y = facts.congruence(a), facts.congruence(b)
    apart = y.residue not in Congruence(gcd(x.modulus, y.modulus), x.residue)
    return apart or facts.below(a, b) or facts.below(b, a)


__all__ = ["compared", "refuted"]
