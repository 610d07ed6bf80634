"""Quotients by a multiplication with a number that the host has made of the divisor, as quotients.

before                                              after
    let hi: u32 = mulhi(u32(i), m)                      let row: u32 = u32(i) / n
    let row: u32 = hi + u32(i) >> l                     let col: u32 = u32(i) % n
    let col: u32 = u32(i) - row * n                     assume l == ceil_log2(n), m == 2^32 (2^l - n) / n + 1

For such m and l the first is the quotient of every i below 2^31 (Granlund and Montgomery, Division by Invariant
Integers using Multiplication, 1994, figure 4.1; the sum does not wrap, as hi < i). What the host computes is read off
the launch and compared with this formula at many divisors; the kernel then assumes it, and its launcher tests it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.arith.size_equalities import Equality, equalities, shown_by_launch
from ktc.ir.fold import add, cast, evaluate, mul, sub
from ktc.ir.kernel import Assume, Kernel
from ktc.ir.nodes import Binary, Body, Call, Cast, Const, Expr, Load, Sym, Var, VecMake
from ktc.ir.types import I32, U32, U64, Vec
from ktc.ir.walk import all_exprs, keep, loads_in, map_body, map_expr, used
from ktc.passes.raising.normalise.straight import versioned

DIVISORS = (1, 2, 3, 5, 7, 10, 12, 64, 100, 127, 1000, 4096, 12345, 65537, (1 << 20) + 1, (1 << 30) - 1, (1 << 31) - 1)
"""At which what the host computes is compared with the formula."""

Magic = Mapping[tuple[Sym, Sym], Sym]
"""The divisor, by the parameters that hold its multiplier and its shift."""


@dataclass(frozen=True)
class Divided:
    """``given``: the kernel, assuming ``computed``, what the host makes of divisors as it computes that; ``read``: the
    same with quotients; ``tested``: what any host can test of it, without functions that only a device has."""

    given: Kernel
    read: Kernel
    computed: tuple[Assume, ...]
    tested: tuple[Assume, ...]

    def raised(self, kernel: Kernel) -> Kernel:
        """What has become of ``read``, assuming what is tested."""
        kept = (a for a in kernel.assumptions if a not in self.computed)
        return kernel.with_(assumptions=(*kept, *self.tested))


def with_quotients(kernel: Kernel, usual: bool = False) -> Divided | None:
    """``kernel`` with quotients; None if it has none that are made so. ``usual``: for who only looks at sizes,
    dividends are below 2^31 as they usually are (``uint32_t(i)`` of a wider ``i``), which nothing may rest on."""
    if not any(isinstance(e, Call) and e.fn == "mulhi" for e in all_exprs(kernel.body)):
        return None
    known = {e.sym: e for e in (*shown_by_launch(kernel), *equalities(kernel))}
    straight = versioned(kernel.body)  # what divides in a function leaves its results in variables of the caller
    names = _names(straight)
    magic = _divisors(straight, names, known, usual)
    body = map_body(straight, keep, lambda e: _quotient(_component(e, names), names, magic, usual))
    if not magic or body == straight:
        return None
    renamed = _names(body)
    body = map_body(body, keep, lambda e: _remainder(_component(e, renamed), renamed))
    computed = tuple(dict.fromkeys(known[s].fact for pair in magic for s in pair))
    given = kernel.with_(assumptions=(*kernel.assumptions, *(f for f in computed if f not in kernel.assumptions)))
    tested = (Assume(e, "observed") for (m, shift), n in magic.items() for e in _tested(m, shift, n))
    return Divided(given, given.with_(body=body), computed, tuple(dict.fromkeys(tested)))


def _tested(multiplier: Sym, shift: Sym, divisor: Sym) -> Iterator[Expr]:
    """That the shift is the least power of two that is no less than the divisor, and the multiplier made of both."""
    n, most = cast(Var(divisor), U64), Const(31, shift.type)  # type: ignore[arg-type]
    power = Binary("<<", Const(1, U64), cast(Var(shift), U64))
    yield Binary("<=", Var(shift), most)
    yield Binary(">=", power, n)
    yield Binary("<", power, mul(Const(2, U64), n))
    made = add(Binary("/", mul(Const(1 << 32, U64), sub(power, n)), n), Const(1, U64))
    yield Binary("==", cast(Var(multiplier), U64), made)


def _divisors(
    body: Body, names: Mapping[Sym, Expr], known: Mapping[Sym, Equality], usual: bool
) -> dict[tuple[Sym, Sym], Sym]:
    out = {}
    for e in all_exprs(body):
        found = _multiplied(e, names, usual)
        if found is None:
            continue
        _, multiplier, shift = found
        made = [known[s] for s in (multiplier, shift) if s in known]
        of = {s for k in made for s in used(k.value)}
        if len(made) == 2 and len(of) == 1 and _is_magic(made[0].value, made[1].value, *of):
            (out[multiplier, shift],) = of
    return out


def _is_magic(multiplier: Expr, shift: Expr, divisor: Sym) -> bool:
    for n in DIVISORS:
        at = {divisor.name: n}
        power = (n - 1).bit_length()
        expected = ((1 << 32) * ((1 << power) - n) // n + 1) & 0xFFFFFFFF
        if evaluate(shift, at) != power or evaluate(cast(multiplier, U32), at) != expected:
            return False
    return True


def _multiplied(e: Expr, names: Mapping[Sym, Expr], usual: bool) -> tuple[Expr, Sym, Sym] | None:
    """(dividend, multiplier, shift) if ``e`` is ``mulhi(dividend, multiplier) + dividend >> shift``, of a dividend
    that 31 bits hold, or one that ``usual``ly they do."""
    if not isinstance(e, Binary) or e.op != ">>" or e.type != U32:
        return None
    total, shift = _plain(e.a, names), _plain(e.b, names)
    if not isinstance(total, Binary) or total.op != "+":
        return None
    for high, n in ((total.a, total.b), (total.b, total.a)):
        if not isinstance(high, Call) or high.fn != "mulhi" or n not in high.args:
            continue
        by = high.args[1 - high.args.index(n)]
        small = usual or (isinstance(n, Cast) and n.x.type == I32)
        if small and isinstance(by, Var) and isinstance(shift, Var):
            return n, by.sym, shift.sym
    return None


def _quotient(e: Expr, names: Mapping[Sym, Expr], magic: Magic, usual: bool) -> Expr:
    found = _multiplied(e, names, usual)
    if found is None or found[1:] not in magic:
        return e
    dividend = map_expr(found[0], lambda x: _quotient(x, names, magic, usual))  # itself one, of digits further up
    return Binary("/", dividend, cast(Var(magic[found[1:]]), U32))


def _remainder(e: Expr, names: Mapping[Sym, Expr]) -> Expr:
    """``n % d`` for ``n - n / d * d``."""
    if not isinstance(e, Binary) or e.op != "-" or e.type != U32:
        return e
    whole, n = _plain(e.b, names), _plain(e.a, names)
    if isinstance(whole, Binary) and whole.op == "*":
        for q, d in ((whole.a, whole.b), (whole.b, whole.a)):
            if without_index_casts(q) == Binary("/", n, d):
                return Binary("%", n, d)
    return e


def _plain(e: Expr, names: Mapping[Sym, Expr]) -> Expr:
    components = map_expr(expand(e, names), lambda x: _component(x, names))
    return expand(components, names)


def _names(body: Body) -> dict[Sym, Expr]:
    """What variables stand for, where that is made of others, and of components of vectors, that do not change."""
    found = definitions(body, loads=True)
    return {s: e for s, e in found.items() if all(isinstance(x.buffer.type, Vec) for x in loads_in(e))}


def _component(e: Expr, names: Mapping[Sym, Expr]) -> Expr:
    """A component of a vector that is made of them, itself."""
    if not isinstance(e, Load) or not isinstance(e.buffer.type, Vec) or not isinstance(e.index[0], Const):
        return e
    x: Expr | None = Var(e.buffer)
    while isinstance(x, Var):
        x = names.get(x.sym)
    return x.args[int(e.index[0].value)] if isinstance(x, VecMake) else e


__all__ = ["with_quotients"]
