"""rfactor: the sum of each part of a loop in an array of its own, then the sums of the parts.

before                                          after rfactor{loop=i parts=$PARTS}
    par j in 0..d @ [thread.x 256, block.x]             array s_parts: f32[$PARTS, d]
      var s: f32 = 1.0                                  par part in 0..$PARTS @ [block.y]
      for i in 0..n                                       par j in 0..d @ [thread.x 256, block.x]
        s += x[i * d + j]                                   var s: f32 = 0.0
      out[j] = s                                            for i in part * cdiv(n, $PARTS)..min(...)
                                                              s += x[i * d + j]
                                                            s_parts[part, j] = s
                                                        par j in 0..d @ [thread.x 256, block.x]
                                                          reduce(+) s: f32 = 1.0 over part in 0..$PARTS @ [seq]
                                                            yield s_parts[part, j]
                                                          out[j] = s

(Suriana, Adams, Kamil: Parallel associative reductions in Halide, 2017.) The parts are iterations of a parallel loop:
tasks of a CPU's cores, each of which goes through its rows in the order in which they lie in memory. How many parts
there are is the script's choice and not the machine's, so the result is the same on any number of cores.

The second loop waits for all of the first, as blocks of a GPU cannot: there, ``split-reduction`` spreads a sum over
blocks. The operation must be associative and commutative; floating-point sums change their order. What stands before
the sum in the loops around it must be declarations, which both loops make, and the ranges of those loops must be known
at their beginning: they are the array's dimensions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from ktc.ir.analysis.accumulators import combine, identity
from ktc.ir.analysis.order import places
from ktc.ir.atomic_ops import ATOMIC_OF
from ktc.ir.fold import add, cast, cdiv, fold_node, i32, mul, sub
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Acc,
    Alloc,
    Assign,
    Binary,
    Body,
    Call,
    Decl,
    Expr,
    For,
    Level,
    Load,
    Par,
    Reduce,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
)
from ktc.ir.types import I32, Array, Scalar
from ktc.ir.walk import assigned, map_body, refresh, used, used_in, walk
from ktc.passes.core.argument_kinds import Loops, Size
from ktc.passes.core.arguments import knob, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.core.script import KnobRef
from ktc.passes.shared.tiles import paths

from .split_reduction import as_reduction


@dataclass(frozen=True)
class Arguments:
    loop: Loops = required("the loop that accumulates: a reduction, or a serial loop")
    parts: Size = knob("PARTS", (2, 4, 8, 16, 32, 64, 128), "parts of the loop, each a task", code="E-RFACTOR-PARTS")


class RFactor(Pass[Arguments]):
    name = "rfactor"
    summary = "the sum of each part of a loop in an array of its own, then the sums of the parts"
    refusals = (
        "E-PLACE", "E-SPLIT-NONE", "E-SPLIT-CARRIED", "E-RFACTOR-PLACE", "E-RFACTOR-BEFORE", "E-RFACTOR-RANGE",
        "E-RFACTOR-OP", "E-RFACTOR-AXIS", "E-RFACTOR-PARTS",
    )  # fmt: skip
    flags = ("reassociates",)

    def sites(self, kernel: Kernel) -> list[Site]:
        loops = [s for s in walk(kernel.body) if isinstance(s, For | Reduce)] if kernel.is_parallel else []
        doc = "parts of the sum as tasks of a CPU's cores"
        named = ((s, Loops(place_of(kernel, s))) for s in loops)
        found = [s for s, name in named if allowed(_factored, kernel, name, i32(2))]
        return [Site(self.step(loop=place_of(kernel, s), parts=KnobRef("PARTS")), doc) for s in found]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        if not kernel.is_parallel:
            raise Refusal("E-RFACTOR-PLACE", "the kernel says what each thread does", hint="run raise first")
        kernel, parts = args.parts.declared(kernel, self.name)
        return _factored(kernel, args.loop, parts)


def _factored(kernel: Kernel, named: Loops, parts: Expr) -> Result:
    serial = any(isinstance(s, For) for s in named.find(kernel))
    kernel, var = as_reduction(kernel, named)
    path = next(p for p in paths(kernel.body) if isinstance(p[-1], Reduce) and p[-1].var == var)
    around, target = _checked(kernel, path)
    sizes = [fold_node(sub(s.hi, cast(s.lo, s.hi.type))) for s in around]  # type: ignore[arg-type]
    arrays = {
        a.sym: fresh(f"{a.sym.name}_parts", Array(a.sym.type, (parts, *sizes), "local"))  # type: ignore[arg-type]
        for a in target.accs
    }
    parted: Body = (_parts(around, target, arrays, parts, serial),)
    if not around:
        parted = refresh(parted)
    whole = _whole(around, target, arrays, parts)

    def on(s: Stmt) -> Stmt | Body:
        return (*(Alloc(a) for a in arrays.values()), *parted, whole) if s is path[0] else s

    floating = any(getattr(a.sym.type, "is_float", False) and a.op in "+*" for a in target.accs)
    flags = kernel.flags | ({"reassociates"} if floating else set())
    after = kernel.with_(body=tuple(x for s in kernel.body for x in _listed(on(s))), flags=flags)
    return Result(after, (f"{var.name}: each part is summed on its own",))


def _listed(s: Stmt | Body) -> Body:
    return s if isinstance(s, tuple) else (s,)


# ------------------------------------------------------------------------------------------------------------- may it


def _checked(kernel: Kernel, path: tuple[Stmt, ...]) -> tuple[list[Par], Reduce]:
    """The parallel loops around a sum, outermost first, and the sum: all that is on ``path``, or it is refused."""
    *around, target = path
    assert isinstance(target, Reduce)
    wrong = next((s for s in around if not isinstance(s, Par)), None)
    if wrong is not None:
        why = (
            f"the sum over '{target.var.name}' stands in a serial loop or a branch: its parts would wait for each other"
        )
        raise Refusal("E-RFACTOR-PLACE", why, places(wrong), "only parallel loops may be around it")
    pars = [s for s in around if isinstance(s, Par)]
    bad = next((a for a in target.accs if a.op not in ATOMIC_OF), None)
    if bad is not None:
        raise Refusal("E-RFACTOR-OP", f"parts cannot be combined by '{bad.op}'", places(target))
    inside = {s.var for s in pars}
    for s, inner in zip(pars, [*pars[1:], target]):
        for x in _before(s, inner):
            if not isinstance(x, Decl) or x.sym in assigned(s.body):
                why = f"more than declarations comes before the sum over '{target.var.name}'"
                raise Refusal("E-RFACTOR-BEFORE", why, places(x), "fission it from the loop first")
            inside.add(x.sym)
        if (used(s.lo) | used(s.hi)) & inside:
            why = f"the range of '{s.var.name}' differs between iterations of the loops around it"
            raise Refusal("E-RFACTOR-RANGE", why, places(s))
    if not free_axis(pars):
        raise Refusal("E-RFACTOR-AXIS", "the loops around the sum use every axis of blocks", places(*pars))
    return pars, target


def _before(s: Par, inner: Stmt) -> Body:
    at = next(k for k, x in enumerate(s.body) if x is inner)
    return s.body[:at]


def free_axis(around: Sequence[Par]) -> str:
    """An axis of blocks that no loop of ``around`` is spread over; '' if there is none."""
    taken = {lv.axis for s in around for lv in s.dist if lv.kind == "block"}
    return next((a for a in "xyz" if a not in taken), "")


# -------------------------------------------------------------------------------------------------------- the rewrite


def _parts(around: Sequence[Par], target: Reduce, arrays: dict[Sym, Sym], parts: Expr, serial: bool) -> Par:
    """The loop over parts: each sums up its own iterations."""
    part, t = fresh("part", I32), target.var.type
    assert isinstance(t, Scalar)
    length = cdiv(sub(target.hi, cast(target.lo, t)), cast(parts, t))
    lo = add(target.lo, mul(cast(Var(part), t), length))
    hi = fold_node(Call("min", (add(lo, length), target.hi), t))
    accs = tuple(dataclasses.replace(a, init=identity(a.op, a.sym.type)) for a in target.accs)  # type: ignore[arg-type]
    alone = tuple(lv for lv in target.dist if lv.kind not in ("block", "cluster"))
    levels = alone if alone and alone[-1].n is None else (*alone, Level("seq"))
    own = dataclasses.replace(target, accs=accs, lo=lo, hi=hi, dist=levels)
    sums: Body = _serial(own) if serial else (own,)
    at = (Var(part), *(from_zero(s) for s in around))
    body: Body = (*sums, *(Store(arrays[a.sym], at, Var(a.sym)) for a in accs))
    for s, inner in zip(reversed(around), [target, *reversed(around[1:])]):
        nest = dataclasses.replace(s, body=(*_needed(_before(s, inner), body), *body), comments=())
        body = (nest,)
    return Par(part, i32(0), parts, (Level("block", None, free_axis(around)),), body)


def _needed(before: Body, body: Body) -> Body:
    """The declarations of ``before`` that ``body`` uses, directly or not."""
    kept: list[Stmt] = []
    for s in reversed(before):
        if isinstance(s, Decl) and s.sym in used_in((*kept, *body)):
            kept.insert(0, s)
    return tuple(kept)


def _serial(r: Reduce) -> Body:
    """``r`` as a serial loop that adds up in its order."""
    sums = tuple(Assign(a.sym, combine(a.op, Var(a.sym), a.value)) for a in r.accs)
    cond, step = Binary("<", Var(r.var), r.hi), add(Var(r.var), cast(i32(1), r.var.type))  # type: ignore[arg-type]
    loop = For(var=r.var, init=r.lo, cond=cond, step=step, body=(*r.body, *sums), loc=r.loc, comments=r.comments)
    return (*(Decl(a.sym, a.init) for a in r.accs), loop)


def _whole(around: Sequence[Par], target: Reduce, arrays: dict[Sym, Sym], parts: Expr) -> Stmt:
    """A copy of the source's loops with the sum over the parts for the sum; the first loops keep their names."""
    part = fresh("part", I32)
    at = (Var(part), *(from_zero(s) for s in around))
    accs = tuple(Acc(a.sym, a.op, a.init, Load(arrays[a.sym], at)) for a in target.accs)
    sums = Reduce(accs, part, i32(0), parts, (Level("seq"),), (), loc=target.loc, comments=target.comments)
    if not around:
        return sums  # what follows in the kernel reads its results
    nest = map_body((around[0],), lambda s: sums if isinstance(s, Reduce) and s.var == target.var else s)
    return refresh(nest)[0]


def from_zero(s: Par) -> Expr:
    return sub(Var(s.var), cast(s.lo, s.var.type))  # type: ignore[arg-type]
