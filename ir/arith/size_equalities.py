"""Parameters that are a number made of others: ``rows == batch * length``.

The user declares it, or the launch in the source shows it: it passes ``batch * length`` for ``rows`` and covers
``batch * length`` threads. What a kernel compares with one and its launch computes of the others is one number:

    launch grid((batch * length + 63) / 64)    is, under    assume rows == batch * length    grid((rows + 63) / 64)

Who makes use of what was only seen puts it on the kernel, where a launcher tests it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ktc.ir.fields import with_children
from ktc.ir.fold import binary, cast, evaluate, simplify
from ktc.ir.kernel import Assume, Kernel, Launch
from ktc.ir.nodes import Binary, Const, Expr, HwIndex, Knob, Sym, Var
from ktc.ir.pointer_rows import row_pitches
from ktc.ir.support.memo import by_identity
from ktc.ir.types import Scalar
from ktc.ir.walk import all_exprs, assigned, substitute_expr, used, walk_expr

from .integer_casts import without_widening
from .kernel_facts import Facts
from .known_symbols import is_steady
from .trust import REWRITES


@dataclass(frozen=True)
class Equality:
    """That the integer parameter ``sym`` is ``value``, which is made of other parameters."""

    sym: Sym
    value: Expr
    origin: str

    @property
    def fact(self) -> Assume:
        return Assume(binary("==", Var(self.sym), self.value), self.origin)


@by_identity(64)
def equalities(kernel: Kernel) -> tuple[Equality, ...]:
    """Those that ``kernel`` assumes: at most one for each parameter, and none that leads back to itself."""
    return _ordered(kernel, (e for a in kernel.assumptions for e in _sides(a)))


def shown_by_launch(kernel: Kernel) -> tuple[Equality, ...]:
    """Those that the source's launch shows and ``kernel`` does not assume: what it passes for a parameter."""
    passed = kernel.launch.passed if kernel.launch is not None else ()
    by_name = {p.sym.name: p.sym for p in kernel.params}
    shown = (Equality(by_name[name], value, "observed") for name, value in passed if name in by_name)
    known = equalities(kernel)
    return tuple(e for e in _ordered(kernel, (*known, *shown)) if e not in known)


def completed(kernel: Kernel, numbers: Mapping[str, int | float]) -> dict[str, int | float]:
    """``numbers`` for parameters, those that ``kernel`` assumes to follow from others as they follow."""
    out = dict(numbers)
    for e in equalities(kernel):
        value = evaluate(e.value, kernel.environment(out)) if e.sym.name in out else None
        if value is not None:
            out[e.sym.name] = int(value)
    return out


def relied_on(kernel: Kernel, given: Sequence[Equality], shown: Sequence[Equality]) -> tuple[Equality, ...]:
    """Those of ``shown`` without which :func:`launched_alike` would say something else under ``given`` and them."""
    whole = launched_alike(kernel, (*given, *shown))
    return tuple(e for e in shown if launched_alike(kernel, (*given, *(o for o in shown if o is not e))) != whole)


def launched_alike(kernel: Kernel, given: Sequence[Equality]) -> Launch | None:
    """The launch of ``kernel`` over the sizes that its code speaks of, under ``given``; None where nothing is to be
    said otherwise."""
    launch, asked = kernel.launch, _asked(kernel)
    if launch is None:
        return None
    named = tuple(e for e in given if e.sym in asked)
    facts = Facts(kernel.with_(assumptions=(*kernel.assumptions, *(e.fact for e in given))), REWRITES)
    over = ((e.sym, _over(asked, e, named, facts)) for e in given if e.sym not in asked)
    spelled = {sym: value for sym, value in over if value is not None}

    def alike(e: Expr) -> Expr:
        return _named(simplify(substitute_expr(e, spelled)), named, facts)

    (gx, gy, gz), (bx, by, bz) = map(alike, launch.grid), map(alike, launch.block)
    shared = None if launch.dynamic_shared is None else alike(launch.dynamic_shared)
    out = dataclasses.replace(launch, grid=(gx, gy, gz), block=(bx, by, bz), dynamic_shared=shared)
    return None if out == launch else out


def _over(asked: set[Sym], e: Equality, named: Sequence[Equality], facts: Facts) -> Expr | None:
    """What ``e`` says, over parameters of ``asked`` alone: as it is written, or with names for products of others;
    None where it cannot be."""
    value = _typed(e)
    if not used(value) <= asked:
        value = _named(simplify(value), named, facts)
    return value if used(value) <= asked else None


def _sides(a: Assume) -> Iterator[Equality]:
    """What an assumption says of parameters, either side of an equality standing for the other."""
    if isinstance(a.expr, Binary) and a.expr.op == "&&":
        for part in (a.expr.a, a.expr.b):
            yield from _sides(dataclasses.replace(a, expr=part))
    if isinstance(a.expr, Binary) and a.expr.op == "==":
        for one, other in ((a.expr.a, a.expr.b), (a.expr.b, a.expr.a)):
            v = without_widening(one)
            if isinstance(v, Var):
                yield Equality(v.sym, without_widening(other), a.origin)


def _ordered(kernel: Kernel, found: Iterator[Equality] | Sequence[Equality]) -> tuple[Equality, ...]:
    """The first of ``found`` for each parameter that does not lead back to it, each after those that it builds on. How
    far rows are apart that lie anywhere equals nothing: no caller has such a number."""
    params = {p.sym for p in kernel.params} - assigned(kernel.body) - set(row_pitches(kernel).values())
    taken: dict[Sym, Equality] = {}
    for e in found:
        t = e.sym.type
        integers = isinstance(t, Scalar) and t.is_int and isinstance(e.value.type, Scalar) and e.value.type.is_int
        if e.sym in taken or e.sym not in params or not integers or isinstance(e.value, Const):
            continue
        if not used(e.value) <= params or any(isinstance(x, Knob | HwIndex) for x in walk_expr(e.value)):
            continue
        if is_steady(e.value, set()) and e.sym not in _reached(e.value, taken):
            taken[e.sym] = e
    return tuple(sorted(taken.values(), key=lambda e: len(_reached(e.value, taken))))


def _reached(e: Expr, taken: Mapping[Sym, Equality]) -> set[Sym]:
    """The symbols that ``e`` is made of, and those that they are made of."""
    out: set[Sym] = set()
    left = list(used(e))
    while left:
        s = left.pop()
        if s not in out:
            out.add(s)
            left += used(taken[s].value) if s in taken else ()
    return out


def _asked(kernel: Kernel) -> set[Sym]:
    """Parameters that the code of ``kernel`` reads."""
    return {s for e in all_exprs(kernel.body) for s in used(e)}


def _typed(e: Equality) -> Expr:
    t = e.sym.type
    assert isinstance(t, Scalar)
    return cast(e.value, t)


def _named(e: Expr, named: Sequence[Equality], facts: Facts) -> Expr:
    """``e`` with parameters in place of the largest parts of it that are shown to be one."""
    if isinstance(e, Const | Var):
        return e
    for q in named:
        if used(e) & used(q.value) and facts.equal(e, Var(q.sym)):
            return cast(Var(q.sym), e.type)  # type: ignore[arg-type]
    return with_children(e, lambda x: _named(x, named, facts))


__all__ = ["Equality", "completed", "equalities", "launched_alike", "relied_on", "shown_by_launch"]
