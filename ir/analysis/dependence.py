"""Data dependences: which statements touch the same element, and how many iterations apart.

Two accesses of one array depend on each other when at least one writes and their subscripts can be equal. In loops the
question is *by how many iterations* of each common loop (the distance vector, e.g. ``(0, 1)`` for ``a[i][j+1]``
against ``a[i][j]``). Subscripts are affine forms with symbolic coefficients; a flat subscript ``i*n + j`` is read as
the digits of a mixed-radix number, which is exact where each digit's range fits under the next coefficient
(``0 <= j < n``). What cannot be decided is ``None``: any distance.

After Allen and Kennedy, *Optimizing Compilers for Modern Architectures*, chapters 2 and 3; delinearisation after
Maslov, "Delinearization: an efficient way to break multiloop dependence equations" (PLDI 1992).
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ktc.ir.arith.affine import LinearForm, linear_form
from ktc.ir.arith.polynomial import Polynomial, minus, plus, polynomial, scaled, times
from ktc.ir.fold import sub
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Assign, Atomic, Body, Const, Expr, Sym
from ktc.ir.types import I32, Array, Ptr
from ktc.ir.walk import declared, walk

from .touches import Loop, Range, Touch, touches

Distance: TypeAlias = int | None
"""Iterations from the first access to the second; None: any number."""

# ---------------------------------------------------------------------------------------------------------- conflicts


def may_alias(a: Sym, b: Sym, apart: Collection[Sym] = ()) -> bool:
    """Whether two buffers can overlap. ``apart``: buffers known to overlap nothing else (``noalias``)."""
    if a == b:
        return True
    ta, tb = a.type, b.type
    if isinstance(ta, Array) or isinstance(tb, Array):
        return False
    return not any((isinstance(t, Ptr) and t.restrict) or s in apart for t, s in ((ta, a), (tb, b)))


def conflict(
    a: Touch, b: Touch, common: int, apart: Collection[Sym] = (), positive: Collection[Expr] = ()
) -> tuple[Distance, ...] | None:
    """Distances over the first ``common`` loops around both, or None when they can never touch one element.

    ``positive``: what is known to be at least 1 besides what the extents of loops tell.

    Reads do not conflict with reads, nor atomics of one operation whose old value nobody reads with each other.
    """
    if a.mode == b.mode and a.mode != "write":
        return None
    if not may_alias(a.buffer, b.buffer, apart):
        return None
    anywhere: tuple[Distance, ...] = (None,) * common
    if a.buffer != b.buffer or a.index is None or b.index is None or len(a.index) != len(b.index):
        return anywhere
    found = anywhere
    for k, (x, y) in enumerate(zip(a.index, b.index)):
        last = k == len(a.index) - 1
        wide = (a.width, b.width) if last else (1, 1)
        one = _dimension(x, y, a, b, common, wide, positive)
        if one is None:
            return None
        merged = []
        for p, q in zip(found, one):
            if p is not None and q is not None and p != q:
                return None
            merged.append(q if p is None else p)
        found = tuple(merged)
    return found


@dataclass(frozen=True)
class _Digit:
    coeff: Polynomial
    extent: Expr | None
    loop: int | None  # which common loop it counts, None for one of the inner loops (or the lanes of a vector)


def _dimension(
    x: Expr, y: Expr, a: Touch, b: Touch, common: int, wide: tuple[int | Expr, int | Expr], positive: Collection[Expr]
) -> tuple[Distance, ...] | None:
    """Distances at which ``x`` (of ``a``) and ``y`` (of ``b``) can be equal; None if nowhere. ``wide``: how many
    elements each touches."""
    wide_a, wide_b = wide
    anywhere: tuple[Distance, ...] = (None,) * common
    fx = linear_form(x, [r.counter for r in a.ranges])
    fy = linear_form(y, [r.counter for r in b.ranges])
    if fx is None or fy is None:
        return anywhere
    known = _positive([*a.ranges, *b.ranges]) | set(positive)
    if _behind(fx, a, fy, b, wide_b, known) or _behind(fy, b, fx, a, wide_a, known):
        return None
    if wide_a != wide_b:
        return anywhere
    digits: list[_Digit] = []
    for k in range(common):
        p, q = polynomial(fx.coeff(a.ranges[k].counter)), polynomial(fy.coeff(b.ranges[k].counter))
        if p != q:
            return anywhere
        if p:
            digits.append(_Digit(p, a.ranges[k].extent, k))
    inner = [_inner(f, t, common) for f, t in ((fx, a), (fy, b))]
    if [d.coeff for d in inner[0]] != [d.coeff for d in inner[1]]:
        return anywhere
    for d, e in zip(*inner):
        same = d.extent is not None and e.extent is not None and polynomial(d.extent) == polynomial(e.extent)
        digits.append(d if same else _Digit(d.coeff, None, None))
    if wide_a != 1:
        lanes = wide_a if isinstance(wide_a, Expr) else Const(wide_a, I32)
        digits.append(_Digit({(): 1}, lanes, None))
    gap = polynomial(sub(fx.rest, fy.rest))
    return _solve(digits, gap, common, known)


def _behind(x: LinearForm, a: Touch, y: LinearForm, b: Touch, width: int | Expr, positive: Collection[Expr]) -> bool:
    """Whether all that ``x`` (of ``a``) names lies behind the ``width`` elements at all that ``y`` (of ``b``) names,
    whatever their loops' iterations: ``a[i]`` for ``i`` from ``p + 1`` on, and ``a[p]``."""
    lowest, highest = _end(x, a, positive, last=False), _end(y, b, positive, last=True)
    if lowest is None or highest is None:
        return False
    beyond = plus(highest, {(): width} if isinstance(width, int) else polynomial(width))
    return _not_negative(minus(lowest, beyond), positive)


def _end(form: LinearForm, t: Touch, positive: Collection[Expr], *, last: bool) -> Polynomial | None:
    """The first (``last``) element that ``form`` names in the loops of ``t``; None where that is not known."""
    out = polynomial(form.rest)
    for r in t.ranges:
        c = polynomial(form.coeff(r.counter))
        rising, falling = _not_negative(c, positive), _not_negative(scaled(c, -1), positive)
        if not (rising or falling):
            return None
        if rising == last and c:  # the far end is that of the last iteration
            if r.extent is None:
                return None
            out = plus(out, times(c, plus(polynomial(r.extent), {(): -1})))
    return out


def _inner(form, t: Touch, common: int) -> list[_Digit]:
    found = [_Digit(polynomial(form.coeff(r.counter)), r.extent, None) for r in t.ranges[common:]]
    return sorted((d for d in found if d.coeff), key=lambda d: repr(sorted(d.coeff.items(), key=repr)))


def _solve(
    digits: list[_Digit], gap: Polynomial, common: int, positive: Collection[Expr]
) -> tuple[Distance, ...] | None:
    """``sum(coeff * delta) == gap`` for ``|delta| < extent``, as a mixed-radix number."""
    anywhere: tuple[Distance, ...] = (None,) * common
    if not digits:
        return None if gap and set(gap) == {()} else anywhere
    falls = [all(v < 0 for v in d.coeff.values()) for d in digits]  # a loop downwards: its distance the other way
    down = {d.loop for d, falling in zip(digits, falls) if falling}
    digits = [_Digit(scaled(d.coeff, -1), d.extent, d.loop) if f else d for d, f in zip(digits, falls)]
    if _out_of_reach(digits, gap, positive):
        return None
    if len(digits) == 1 and not gap and _not_negative(minus(digits[0].coeff, {(): 1}), positive):
        return tuple(0 if k == digits[0].loop else None for k in range(common))
    ordered = _by_dominance(digits, positive)
    if ordered is None:
        return anywhere
    deltas: dict[int, int] = {}
    rest = dict(gap)
    for k, d in reversed(list(enumerate(ordered))):  # the largest coefficient first
        [(factors, c)] = d.coeff.items()
        g = rest.get(factors, 0)
        smaller = k > 0 and not next(iter(ordered[k - 1].coeff)) and not factors
        if g % c and not smaller:
            return None if not factors and set(rest) <= {()} else anywhere
        deltas[id(d)] = round(g / c)  # to the nearest: the one that leaves the smaller digits in their range
        rest = minus(rest, {factors: c * deltas[id(d)]})
    if rest or not _fits(ordered, deltas, positive):
        return anywhere
    out: list[Distance] = [None] * common
    for d in ordered:
        delta = deltas[id(d)]
        if d.extent is not None and _at_least(abs(delta), polynomial(d.extent), positive):
            return None
        if d.loop is not None:
            out[d.loop] = -delta if d.loop in down else delta
    return tuple(out)


def _out_of_reach(digits: list[_Digit], gap: Polynomial, positive: Collection[Expr]) -> bool:
    """Whether the gap is larger than all digits together can bridge (Banerjee's bound)."""
    reach: Polynomial = {}
    for d in digits:
        if d.extent is None or not _not_negative(d.coeff, positive):
            return False
        span = times(d.coeff, plus(polynomial(d.extent), {(): -1}))
        reach = plus(reach, span)
    beyond = plus(reach, {(): 1})
    return any(_not_negative(minus(g, beyond), positive) for g in (gap, scaled(gap, -1)))


def _at_least(n: int, p: Polynomial, positive: Collection[Expr]) -> bool:
    return _not_negative(minus({(): n}, p), positive)


def _by_dominance(digits: list[_Digit], positive: Collection[Expr]) -> list[_Digit] | None:
    """Digits by rising coefficient, each a single positive product; None when they cannot be ordered."""
    for d in digits:
        if len(d.coeff) != 1 or any(v <= 0 for v in d.coeff.values()):
            return None
        if not all(f in positive for factors in d.coeff for f in factors):
            return None
    return sorted(digits, key=lambda d: (len(next(iter(d.coeff))), next(iter(d.coeff.values()))))


def _fits(ordered: list[_Digit], deltas: Mapping[int, int], positive: Collection[Expr]) -> bool:
    """Whether each digit with its offset stays under the next coefficient, so that the digits are unique."""
    for low, high in itertools.pairwise(ordered):
        if low.extent is None:
            return False
        reach = plus(polynomial(low.extent), {(): abs(deltas[id(low)])})
        if not _not_negative(minus(high.coeff, times(reach, low.coeff)), positive):
            return False
    return True


def _not_negative(p: Polynomial, positive: Collection[Expr]) -> bool:
    """Whether ``p >= 0`` for all values >= 1 of its atoms: a sufficient test by coefficients."""
    if any(f not in positive for factors in p for f in factors):
        return False
    return all(v >= 0 for k, v in p.items() if k) and sum(p.values()) >= 0


def _positive(ranges: Sequence[Range]) -> set[Expr]:
    """Atoms that are at least 1 wherever the loops run at all: ``n`` in an extent ``n`` or ``n - 2``."""
    out: set[Expr] = set()
    for r in ranges:
        if r.extent is None:
            continue
        p = polynomial(r.extent)
        atoms = [k for k in p if k]
        if len(atoms) == 1 and len(atoms[0]) == 1 and p[atoms[0]] > 0 and p.get((), 0) <= 0:
            out.add(atoms[0][0])
    return out


# ------------------------------------------------------------------------------------------------ questions of passes


def carried_scalars(body: Body) -> set[Sym]:
    """Variables that ``body`` assigns but does not declare: their values pass from iteration to iteration."""
    inside = set(declared(body))
    return {s.sym for s in walk(body) if isinstance(s, Assign) and s.sym not in inside} | {
        s.dst for s in walk(body) if isinstance(s, Atomic) and s.dst is not None and s.dst not in inside
    }


def noalias(kernel: Kernel) -> set[Sym]:
    """Buffers known to overlap no other."""
    return {p.sym for p in kernel.params if p.noalias}


def iterations_independent(loop: Loop, apart: Collection[Sym] = (), positive: Collection[Expr] = ()) -> bool:
    """Whether no iteration of ``loop`` touches what another one writes, and no scalar is carried. ``positive``: what is
    known to be at least 1, such as the factors of a stride."""
    if carried_scalars(loop.body):
        return False
    private = set(declared(loop.body))
    found = [t for t in touches(loop.body, (loop,)) if t.buffer not in private]
    for i, a in enumerate(found):
        for b in found[i:]:
            d = conflict(a, b, 1, apart, positive)
            if d is not None and d != (0,):
                return False
    return True
