"""async-copy: global to shared memory without registers in between, waited for when the tile is needed.

before                                             after async-copy{loop=k_tile}
    for k_tile in 0..n step 8                          for k_tile in 0..n step 8
      par A_i in 0..128 @ [thread.x 128]                 par A_i in 0..128 @ [thread.x 128]
        par A_v in 0..4 @ [vec 4]                          if c
          A_s[.. + A_v] = c ? A[.. + A_v] : 0.0          async_copy A_s[.. +: 4] = A[..] if c
      C                                                async_commit
                                                       async_wait 0
                                                       C

Copies are 4, 8 or 16 bytes (``cp.async``; a plain copy where the target has none). A copy with nothing to read writes
zeros itself, without control flow; another value in their place takes a store. The wait stands before the barrier
that lowering derives between the copy and its readers: it makes a thread's own copies visible, the barrier everybody's.
Alone it saves registers; ``multi-buffer`` after it makes copies and computation overlap.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.order import places
from ktc.ir.arith.affine import linear_form, mentions
from ktc.ir.fold import add, evaluate, i32, is_const, lt, simplify
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Body,
    Const,
    Expr,
    For,
    If,
    Load,
    Par,
    Select,
    Stmt,
    Store,
    Sym,
    Var,
    VecMake,
    fresh,
)  # fmt: skip
from ktc.ir.purity import is_volatile
from ktc.ir.types import I32, Vec, scalar_of
from ktc.ir.walk import substitute_expr, walk
from ktc.passes.core.argument_kinds import Loops
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import LoopStmt, place_of, rewrite_loops
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.shared.tiles import split_copies

from .shared_arrays import rows_aligned

SIZES = (4, 8, 16)
"""Bytes of one asynchronous copy (PTX ISA, cp.async)."""


@dataclass(frozen=True)
class Arguments:
    loop: Loops = required("the loop that stages tiles")


class AsyncCopies(Pass[Arguments]):
    name = "async-copy"
    summary = "staged tiles arrive by asynchronous copies"
    refusals = ("E-PLACE", "E-ASYNC-COPIES", "E-ASYNC-FORM", "E-ASYNC-STRIDE", "E-ASYNC-SIZE", "E-ASYNC-ALIGN")

    def sites(self, kernel: Kernel) -> list[Site]:
        loops = [s for s in walk(kernel.body) if isinstance(s, For) and allowed(_body, kernel, s)]
        return [Site(self.step(loop=place_of(kernel, s)), "copies without registers") for s in loops]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        def copied(s: LoopStmt) -> Stmt:
            return dataclasses.replace(s, body=_body(kernel, s))

        return _aligned(rewrite_loops(kernel, args.loop.find(kernel), copied))


def _aligned(done: Result) -> Result:
    """``done`` with what knobs must satisfy for the rows of the copies' arrays to start aligned."""
    kernel = done.kernel
    for array in dict.fromkeys(s.dst for s in walk(kernel.body) if isinstance(s, AsyncCopy)):
        kernel = rows_aligned(kernel, array, "E-ASYNC-ALIGN")
    return dataclasses.replace(done, kernel=kernel)


def _body(kernel: Kernel, s: Stmt) -> Body:
    """The body of ``s`` with its leading copies asynchronous."""
    body: Body = s.body  # type: ignore[attr-defined]
    arrays, copies, use = split_copies(body)
    if not copies or any(isinstance(x, AsyncCopy) for x in walk(copies)):
        hint = "run stage-shared first"
        raise Refusal("E-ASYNC-COPIES", "the loop does not start with plain copies", places(s), hint)
    out: list[Stmt] = []
    for nest in copies:
        out.append(_nest(kernel, nest))
    return (*arrays, *out, AsyncCommit(), AsyncWait(), *use)


def _nest(kernel: Kernel, s: Stmt) -> Par:
    """A copy nest: loops around one store, the innermost perhaps over lanes."""
    if not isinstance(s, Par) or len(s.body) != 1:
        raise Refusal("E-ASYNC-FORM", "the copy is more than loops around one assignment")
    (inner,) = s.body
    if isinstance(inner, If) and not inner.orelse:  # nothing is stored where there is nothing to read
        done = _nest(kernel, dataclasses.replace(s, body=inner.then))
        return dataclasses.replace(s, body=(dataclasses.replace(inner, then=done.body),))
    if isinstance(inner, Store):
        return dataclasses.replace(s, body=_single(kernel, inner, None, i32(1)))
    lanes = isinstance(inner, Par) and [lv.kind for lv in inner.dist] == ["vec"] and is_const(inner.lo, 0)
    if lanes and isinstance(inner, Par) and len(inner.body) == 1 and isinstance(inner.body[0], Store):
        width = inner.dist[0].n
        assert width is not None
        return dataclasses.replace(s, body=_single(kernel, inner.body[0], inner.var, width))
    return dataclasses.replace(s, body=(_nest(kernel, inner),))


def _single(kernel: Kernel, s: Store, lane: Sym | None, width: Expr) -> Body:
    value: Expr = s.value
    cond: Expr | None = None
    other: Const | None = None
    guarded = s.value
    if isinstance(guarded, Select) and isinstance(guarded.b, Const):
        value, cond, other = guarded.a, guarded.cond, guarded.b
    if not isinstance(value, Load) or value.width != 1 or len(value.index) != 1:
        raise Refusal("E-ASYNC-FORM", "what is copied is not an element of a buffer as it is")
    if is_volatile(value) or is_volatile(s):
        raise Refusal("E-ASYNC-FORM", "the access is volatile")
    element = scalar_of(value.buffer.type)
    if element != scalar_of(s.buffer.type):
        raise Refusal("E-ASYNC-FORM", "the copy converts")
    for n in _values(kernel, width):
        if n * element.bytes not in SIZES:
            why = f"{n} elements of {element.bytes} bytes: asynchronous copies move {', '.join(map(str, SIZES))} bytes"
            raise Refusal("E-ASYNC-SIZE", why, hint="stage-shared{vec=...} with wider lanes")
    names = definitions(kernel.body)
    if lane is not None and not (_along(s.index, lane, names) and _along(value.index, lane, names)):
        hint = "stage without transpose, or with vec=1"
        raise Refusal("E-ASYNC-STRIDE", f"lanes are not neighbours in both '{s.buffer.name}' and the buffer", (), hint)
    if cond is not None and lane is not None and mentions(expand(cond, names), {lane}):
        raise Refusal("E-ASYNC-FORM", "the guard differs between lanes")
    zero = {lane: i32(0)} if lane is not None else {}
    at = tuple(simplify(substitute_expr(i, zero)) for i in s.index)
    start = tuple(simplify(substitute_expr(i, zero)) for i in value.index)
    size: int | Expr = int(width.value) if isinstance(width, Const) else width
    copy = AsyncCopy(s.buffer, at, value.buffer, start, size, value.cache, loc=s.loc)
    if cond is None:
        return (copy,)
    assert other is not None
    if other.value == 0 and str(other.value)[0] != "-":  # a negative zero has other bits
        return (dataclasses.replace(copy, valid=cond),)
    if lane is None:
        return (If(cond, (copy,), (dataclasses.replace(s, value=other),)),)
    if isinstance(n, int) and n > 1:
        blank_vector = VecMake(Vec(element, n), (other,) * n)
        return (If(cond, (copy,), (Store(s.buffer, at, blank_vector, n),)),)
    v = fresh(lane.name, I32)
    blank = Store(s.buffer, tuple(substitute_expr(i, {lane: Var(v)}) for i in s.index), other)
    fill = For(v, i32(0), lt(Var(v), width), add(Var(v), i32(1)), (blank,), unroll=0)
    return (If(cond, (copy,), (fill,)),)


def _along(index: tuple[Expr, ...], lane: Sym, names: Mapping[Sym, Expr]) -> bool:
    """Whether only the last index moves with the lanes, by one each."""
    *rows, last = (expand(i, names) for i in index)
    form = linear_form(last, (lane,))
    return not any(mentions(r, {lane}) for r in rows) and form is not None and is_const(form.coeff(lane), 1)


def _values(kernel: Kernel, e: Expr) -> list[int]:
    """Every value of a size: a number's, or its knob's."""
    knobs = [k for k in kernel.knobs if k.name == getattr(e, "name", None)]
    if knobs:
        return list(knobs[0].domain) if knobs[0].value is None else [knobs[0].value]
    value = evaluate(e, {})
    return [] if value is None else [int(value)]
