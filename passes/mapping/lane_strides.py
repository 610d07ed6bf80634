"""Accesses along the lanes of a vector of which too little is known for one wide access: lowering prints one a lane.

    par i in 0..n @ [vec 4, ...]
      y[i] = x[i * s]                 wide where s is shown to be 1
      z[r * p + i] = 0                wide where 4 is shown to divide p

Where numbers of the program say that an access cannot be wide, that is no matter of knowledge, and nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator

from ktc.ir.analysis.defs import expand, integer_constants
from ktc.ir.arith import LOWERING, Facts, facts_of
from ktc.ir.arith.affine import is_unit_stride, linear_form
from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.arith.polynomial import total
from ktc.ir.fold import evaluate, i32
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Expr, For, Load, Par, Reduce, Store, Sym, Var
from ktc.ir.storage import is_private
from ktc.ir.text import print_expr
from ktc.ir.types import scalar_of
from ktc.ir.walk import stmt_exprs, substitute_expr, used, walk, walk_expr

WIDEST = 16
"""Bytes of the widest access."""


def scalar_accesses(kernel: Kernel, loop: Par | Reduce, lanes: Expr) -> tuple[str, ...]:
    """A sentence for each access in ``loop``, a loop of ``kernel`` with so many ``lanes``, that would be wide if more
    were known of parameters."""
    defs = integer_constants(kernel.body)
    out: dict[str, None] = {}
    for buffer, index in _accesses(loop):
        form = linear_form(expand(index, defs), {loop.var})
        stride = None if form is None else form.coeffs.get(loop.var)
        missing = "" if form is None or stride is None else _missing(stride, total(form.rest, loop.lo), lanes, kernel)
        if missing:
            out[f"{buffer.name}[{print_expr(index)}]: an access a lane, unless {missing}"] = None
    return tuple(out)


def _missing(stride: Expr, first: Expr, lanes: Expr, kernel: Kernel) -> str:
    """What is not known of the place of an access that moves on by ``stride`` from ``first`` on; '' where it is known
    how wide it can be."""
    facts, params = facts_of(kernel, LOWERING), {p.sym for p in kernel.params}
    n = evaluate(stride, kernel.knob_values)
    if n is None and not facts.equal(stride, i32(1)):
        bind = f": specialize{{{print_expr(stride)}=1}}" if isinstance(stride, Var) and stride.sym in params else ""
        return f"'{print_expr(stride)}' is known to be 1{bind}"
    if n not in (None, 1) or facts.divides(lanes, first):
        return ""
    missing = _pitches(first, lanes, kernel, facts)
    named = " and ".join(repr(s.name) for s in missing or ())
    return f"{print_expr(lanes)} is known to divide {named}" if named else ""


def _pitches(first: Expr, lanes: Expr, kernel: Kernel, facts: Facts) -> list[Sym] | None:
    """The parameters of which ``lanes`` is not known to be a divisor, and of which it has to be one to divide
    ``first``; None where no multiples of parameters make it that."""
    params, out = {p.sym for p in kernel.params}, dict[Sym, None]()
    terms: list[list[Sym]] = []
    for factors, k in facts.polynomial(first).items():
        if k % (evaluate(lanes, kernel.knob_values) or 1) == 0 or any(facts.divides(lanes, f) for f in factors):
            continue
        terms.append([f.sym for f in factors if isinstance(f, Var) and f.sym in params])
    for sizes in sorted(terms, key=len):  # planes of rows are multiples where rows are
        if out.keys() & sizes:
            continue
        if len(sizes) != 1:
            return None
        out[sizes[0]] = None
    return list(out)


def pitches(kernel: Kernel) -> dict[Sym, int]:
    """Parameters that have to be multiples of a number, and of which, for the loops of ``kernel`` that move through
    memory by one element to do so by the widest accesses, from their starts on: pitches of rows, and offsets."""
    facts, defs = facts_of(kernel, LOWERING), integer_constants(kernel.body)
    wide = {p.sym: p.align for p in kernel.params}
    out: dict[Sym, int] = {}
    for loop in walk(kernel.body):
        if not isinstance(loop, Par | Reduce | For):
            continue
        start = loop.init if isinstance(loop, For) else loop.lo
        for buffer, index in _accesses(loop):
            lanes = min(wide.get(buffer, 0), WIDEST) // scalar_of(buffer.type).bytes
            whole = expand(index, defs)
            if lanes < 2 or not is_unit_stride(whole, loop.var):
                continue
            first = substitute_expr(whole, {loop.var: start})
            for s in _pitches(first, i32(lanes), kernel, facts) or ():
                out[s] = max(lanes, out.get(s, 1))
    return out


def strides(kernel: Kernel) -> tuple[Sym, ...]:
    """Parameters by which a loop of ``kernel`` moves on through memory and that bound no loop: strides of tensors.
    Where one of them is 1, accesses lie side by side."""
    defs, params = integer_constants(kernel.body), {p.sym for p in kernel.params if not p.host}
    loops = [s for s in walk(kernel.body) if isinstance(s, Par | Reduce | For)]
    out: set[Sym] = set()
    for loop in loops:
        for _, index in _accesses(loop):
            form = linear_form(expand(index, defs), {loop.var})
            stride = None if form is None else form.coeffs.get(loop.var)
            bare = None if stride is None else without_casts(stride)
            if isinstance(bare, Var) and bare.sym in params:
                out.add(bare.sym)
    bounds = {s for x in loops for e in ((x.init, x.cond) if isinstance(x, For) else (x.lo, x.hi)) for s in used(e)}
    return tuple(p.sym for p in kernel.params if p.sym in out and p.sym not in bounds)


def _accesses(loop: Par | Reduce | For) -> Iterator[tuple[Sym, Expr]]:
    """Memory that ``loop`` loads and stores, with the index along which elements lie side by side."""
    for s in walk((loop,)):
        if isinstance(s, Store) and not is_private(s.buffer):
            yield s.buffer, s.index[-1]
        for x in (x for e in stmt_exprs(s) for x in walk_expr(e)):
            if isinstance(x, Load) and not is_private(x.buffer):
                yield x.buffer, x.index[-1]


__all__ = ["pitches", "scalar_accesses", "strides"]
