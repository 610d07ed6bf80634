"""contract: a temporary of which each iteration of a loop touches its own row alone becomes an array of that row.

before                                              after contract{array=y where=shared}
    par r in 0..rows @ [block.x]                        par r in 0..rows @ [block.x]
      reduce(max) m over i in 0..d                        array y_row: shared f16[d] dynamic
        y[r * d + i] = f16(v)                             reduce(max) m over i in 0..d
        yield abs(v)                                        y_row[i] = f16(v)
      par j in 0..d                                         yield abs(v)
        q[r * d + j] = i8(y[r * d + j] / m)               par j in 0..d
                                                            q[r * d + j] = i8(y_row[j] / m)

What one launch of a sequence left for another one is such a temporary once the two are one kernel (``fuse-launches``):
it is no longer in memory then, and not allocated. In shared memory any distribution will do; in registers each thread
keeps the elements that it owns, so all loops over the row need one distribution, without a run-time ``seq`` level.

A row that is in shared memory already goes to registers by ``contract{array=y_row where=registers}``, once the loops
over it are spread so.

Legal where all accesses stand in one loop, at ``r * length + i`` for its counter ``r`` and a counter ``i`` of a loop
inside that goes from 0 to at most ``length``: no two iterations share an element, and what is in a temporary before the
kernel writes it means nothing.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.order import places
from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.arith.polynomial import polynomial
from ktc.ir.fold import evaluate, is_const
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import Alloc, Body, Expr, Load, Par, Reduce, Stmt, Store, Sym, Var, bodies, fresh
from ktc.ir.sequences import alone, launches, put_back
from ktc.ir.text import print_expr
from ktc.ir.types import Array, scalar_of
from ktc.ir.walk import assigned, map_body, mentions, stmt_exprs, used_in, walk_expr
from ktc.passes.core.argument_kinds import Arrays
from ktc.passes.core.arguments import option, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.refusals import Refusal, Result, attempted

from .row_lengths import most


@dataclass(frozen=True)
class Arguments:
    array: Arrays = required("the temporary")
    where: Literal["shared", "registers"] = option("shared", "where a row is kept")


class Contract(Pass[Arguments]):
    name = "contract"
    summary = "a temporary whose rows the iterations of a loop have to themselves becomes an array of one row"
    sequences = True
    refusals = (
        "E-PLACE", "E-PLACE-AMBIGUOUS", "E-CONTRACT-TEMPORARY", "E-CONTRACT-LOOP", "E-CONTRACT-ROW", "E-CONTRACT-SEQ",
        "E-CONTRACT-OWNER", "E-CONTRACT-ROOM",
    )  # fmt: skip

    def sites(self, kernel: Kernel) -> list[Site]:
        doc = "a row stays on the chip instead of going through memory"
        steps = [self.step(array=p.sym.name, where=room) for p in kernel.params if p.temporary
                 for room in ("shared", "registers")]  # fmt: skip
        return [Site(s, doc) for s in steps if isinstance(attempted(self.apply, kernel, self.read(s.kwargs)), Result)]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        place = args.array.one(kernel)
        if isinstance(place.stmt, Alloc) and args.where == "registers":
            return Result(in_registers(kernel, place.stmt), (f"'{args.array.name}' is in registers",))
        sym = place.sym
        param = next((p for p in kernel.params if p.sym == sym), None)
        if param is None or not param.temporary:
            raise Refusal("E-CONTRACT-TEMPORARY", f"'{args.array.name}' is no temporary", hint=_hint(kernel))
        touching = [s for s in launches(kernel) if param.sym in used_in(s.body) | assigned(s.body)]
        if len(touching) > 1:
            why = f"'{args.array.name}' is passed from '{touching[0].kernel}' to '{touching[-1].kernel}'"
            raise Refusal("E-CONTRACT-TEMPORARY", why, hint="fuse-launches first makes one kernel of the two")
        inside = alone(kernel, touching[0]) if touching else kernel
        done = contracted(inside, param, args.where)
        whole = put_back(kernel, touching[0], done) if touching else done
        params = tuple(p for p in whole.params if p.sym != param.sym)
        return Result(whole.with_(params=params), (f"'{args.array.name}' is a row in {_room(args.where)}",))


def _hint(kernel: Kernel) -> str:
    names = [p.sym.name for p in kernel.params if p.temporary]
    return f"the temporaries are: {', '.join(names)}" if names else "the kernel has none: sequences of launches have"


def _room(where: str) -> str:
    return "registers" if where == "registers" else "shared memory"


@dataclass(frozen=True)
class _Access:
    """One access of the buffer: its index, spelled out, and the parallel loops around it."""

    index: Expr
    around: tuple[Par | Reduce, ...]
    stmt: Stmt


def contracted(kernel: Kernel, param: Param, where: str) -> Kernel:
    """``kernel`` with the rows of a temporary in arrays of the loop over them.

    Raises:
        Refusal: E-CONTRACT-....
    """
    buffer, name = param.sym, param.sym.name
    loops = [s for s in kernel.body if buffer in mentions(s)]
    outer = loops[0] if len(loops) == 1 else None
    if not isinstance(outer, Par):
        why = f"'{name}' is touched by {len(loops)} statements, instead of inside one parallel loop"
        raise Refusal("E-CONTRACT-LOOP", why, places(*loops[:2]), "fuse, or fuse-launches, joins loops")
    found = list(_accesses(outer.body, buffer, definitions(kernel.body), (outer,)))
    if any(x is None for x in found):
        raise Refusal("E-CONTRACT-ROW", f"'{name}' is used in another way than element by element", places(outer))
    accesses = [x for x in found if x is not None]
    length = _row_length(accesses[0], outer, name)
    through = [_place_in_row(x, outer, length, name) for x in accesses]
    length = through[0].hi
    _fits(kernel, accesses, length, where, name)
    room = length if where == "registers" else most(kernel, length)
    if room is None:
        why = f"a row of '{name}' has {print_expr(length)} elements, and how many that may be is not known at launch"
        raise Refusal("E-CONTRACT-ROOM", why, places(outer), "where=registers needs no room for a row")
    elem = scalar_of(buffer.type)
    row = fresh(f"{name}_row", Array(elem, (room,), "local" if where == "registers" else "shared"))
    names = definitions(kernel.body)

    def on_expr(e: Expr) -> Expr:
        return Load(row, (_counter(e.index[0], outer, names),)) if isinstance(e, Load) and e.buffer == buffer else e

    def on(s: Stmt) -> Stmt:
        if isinstance(s, Store) and s.buffer == buffer:
            return dataclasses.replace(s, buffer=row, index=(_counter(s.index[0], outer, names),))
        return s

    body = (Alloc(row, dynamic=where == "shared" and not is_const(room), align=16), *map_body(outer.body, on, on_expr))
    new = dataclasses.replace(outer, body=_declared_late(body))
    return kernel.with_(body=tuple(new if s is outer else s for s in kernel.body))


def in_registers(kernel: Kernel, alloc: Alloc) -> Kernel:
    """``kernel`` with an array of a row in registers instead of shared memory.

    Raises:
        Refusal: E-CONTRACT-ROW, E-CONTRACT-SEQ, E-CONTRACT-OWNER.
    """
    row, t = alloc.sym, alloc.sym.type
    if not isinstance(t, Array) or t.space != "shared" or len(t.shape) != 1:
        why = f"'{row.name}' is no row in shared memory"
        raise Refusal("E-CONTRACT-ROW", why, places(alloc))
    accesses = list(_accesses(kernel.body, row, {}, ()))
    if any(x is None or not x.around or without_index_casts(x.index) != Var(x.around[-1].var) for x in accesses):
        raise Refusal("E-CONTRACT-ROW", f"'{row.name}' is not read element by element by who owns them", places(alloc))
    _fits(kernel, accesses, t.shape[0], "registers", row.name)
    new = fresh(row.name, Array(t.elem, t.shape, "local"))

    def on_expr(e: Expr) -> Expr:
        return dataclasses.replace(e, buffer=new) if isinstance(e, Load) and e.buffer == row else e

    def on(s: Stmt) -> Stmt:
        if s is alloc or (isinstance(s, Alloc) and s.sym == row):
            return dataclasses.replace(alloc, sym=new, dynamic=False)
        return dataclasses.replace(s, buffer=new) if isinstance(s, Store) and s.buffer == row else s

    return kernel.with_(body=map_body(kernel.body, on, on_expr))


def _declared_late(body: Body) -> Body:
    """``body``, which begins with an array, with that right before the first statement that touches it."""
    array, *rest = body
    assert isinstance(array, Alloc)
    at = next(k for k, s in enumerate(rest) if array.sym in mentions(s))
    return (*rest[:at], array, *rest[at:])


def _accesses(body: Body, buffer: Sym, names: dict[Sym, Expr], around: tuple[Par | Reduce, ...]):  # type: ignore[no-untyped-def]
    """Every access of ``buffer`` below ``body``; None for a use that is none of one element."""
    for s in body:
        inner = (*around, s) if isinstance(s, Par | Reduce) else around
        if isinstance(s, Store) and s.buffer == buffer:
            yield _Access(expand(s.index[0], names), around, s) if s.width == 1 else None
        elif buffer in assigned((s,)) and not bodies(s):
            yield None
        for e in stmt_exprs(s):
            for x in walk_expr(e):
                if isinstance(x, Load) and x.buffer == buffer:
                    yield _Access(expand(x.index[0], names), inner, s) if x.width == 1 else None
                elif getattr(x, "buffer", None) == buffer:
                    yield None
        for b in bodies(s):
            yield from _accesses(b, buffer, names, inner)


def _row_length(x: _Access, outer: Par, name: str) -> Expr:
    """How far apart the rows of two iterations of ``outer`` begin."""
    form = linear_form(x.index, {outer.var})
    if form is None or not is_const(outer.lo, 0) or not polynomial(form.coeff(outer.var)):
        why = f"an iteration of '{outer.var.name}' has no row of '{name}' of its own: {print_expr(x.index)}"
        raise Refusal("E-CONTRACT-ROW", why, places(x.stmt))
    return form.coeff(outer.var)


def _place_in_row(x: _Access, outer: Par, length: Expr, name: str) -> Par | Reduce:
    """The loop whose counter an access goes through its row by."""
    form = linear_form(x.index, {outer.var})
    if form is not None and polynomial(form.coeff(outer.var)) == polynomial(length):
        rest = polynomial(form.rest)
        for s in x.around[1:]:
            own = rest == {(Var(s.var),): 1} and is_const(s.lo, 0)
            if own and polynomial(s.hi) == polynomial(length):
                return s
    why = f"'{name}[{print_expr(x.index)}]' is not element by element within the row of '{outer.var.name}'"
    raise Refusal("E-CONTRACT-ROW", why, places(x.stmt))


def _counter(index: Expr, outer: Par, names: dict[Sym, Expr]) -> Expr:
    form = linear_form(expand(index, names), {outer.var})
    assert form is not None
    ((factors, _),) = polynomial(form.rest).items()
    return without_index_casts(factors[0])


def _fits(kernel: Kernel, accesses: list[_Access], length: Expr, where: str, name: str) -> None:
    """Whether a row can be kept ``where`` it is to be."""
    elem = {_own(x) for x in accesses}
    loops = [s for x in accesses for s in x.around[1:] if s.var in elem or s is x.around[-1]]
    if where != "registers":
        return
    if any(lv.kind == "seq" and (lv.n is None or evaluate(lv.n, {}) != 1) for s in loops for lv in s.dist):
        why = f"'{name}' cannot be in registers, which a run-time loop cannot index"
        hint = f"distribute{{loop={loops[0].var.stem}.* map=[vec $V, thread.x $T, unroll $U]}} first, or where=shared"
        raise Refusal("E-CONTRACT-SEQ", why, places(loops[0]), hint)
    if len({s.dist for s in loops}) > 1:
        why = f"the loops over '{name}' are distributed differently"
        raise Refusal("E-CONTRACT-OWNER", why, places(*loops[:2]), "give all of them one map, or where=shared")


def _own(x: _Access) -> Sym:
    return x.around[-1].var


__all__ = ["Contract", "contracted"]
