"""split-reduction: spread a sum over threads and blocks, whatever loop it was written as.

before                                              after split-reduction{loop=i map=[thread.y $TY, block.y $P, seq]}
    par j in 0..d @ [thread.x 256, block.x]             par j in 0..d @ [thread.x 256, block.x]
      var s: f32 = 0.0                                    reduce(+) s: f32 = 0.0 over i in 0..n
      for i in 0..n                                           @ [thread.y $TY, block.y $P, seq]
        s += x[i * d + j]                                   yield x[i * d + j]
      out[j] = s                                          out[j] = s

A sum that each block ends with an atomic of its own is first seen as the one sum it is:

before                                              after split-reduction{loop=t map=[thread.x $T, block.x $P, seq]}
    par b in 0..cdiv(n, 256) @ [block.x]                reduce(+) s: f32 = 0.0 over i in 0..n
      reduce(+) s: f32 = 0.0 over t in 0..256               @ [thread.x $T, block.x $P, seq]
        let i: i32 = b * 256 + t                          yield x[i]
        yield i < n ? x[i] : 0.0                        atomic add out[0], s
      atomic add out[0], s

How parts of several blocks come together (one atomic a block, or the last block to arrive) is lowering's business, see
``lowering/grid_reduce``. The operation must be associative and commutative; floating-point sums change their order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from ktc.ir.analysis.accumulators import AT, identity
from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.effects import has_effect
from ktc.ir.analysis.order import places
from ktc.ir.arith.counted_loops import loop_step
from ktc.ir.arith.integer_casts import is_index_cast, without_casts, without_index_casts
from ktc.ir.arith.polynomial import same_value
from ktc.ir.atomic_ops import ATOMIC_OF, COMBINED_BY
from ktc.ir.fold import add, binary, cast, i32, is_const, mul, simplify
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Acc,
    Atomic,
    Body,
    Call,
    Const,
    Decl,
    Expr,
    For,
    If,
    Par,
    Reduce,
    Select,
    Sym,
    Var,
    bodies,
    fresh,
)
from ktc.ir.types import I32, Scalar
from ktc.ir.walk import assigned, keep, map_body, map_expr, substitute, used, used_in, walk
from ktc.passes.core.argument_kinds import KnobSpec, Loops
from ktc.passes.core.arguments import option, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.named_loops import loops
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.core.script import DistSpec
from ktc.passes.mapping.distribute import DOMAINS, check_levels, set_distribution
from ktc.passes.shared.accumulations import accumulations
from ktc.passes.shared.grid_reductions import is_last_act
from ktc.passes.shared.joined_index import over_both
from ktc.passes.shared.loop_bounds import upper_bound
from ktc.passes.shared.serial_sums import converted

DEFAULT = DistSpec.of("thread.x $T", "block.x $PARTS", "seq")
KNOBS = (
    KnobSpec("T", DOMAINS["thread"], "threads that share the sum"),
    KnobSpec("PARTS", DOMAINS["block"], "blocks that share the sum"),
)


@dataclass(frozen=True)
class Arguments:
    loop: Loops = required("the loop that accumulates: a reduction, or a serial loop")
    map: DistSpec = option(DEFAULT, "its new distribution", knobs=KNOBS)


class SplitReduction(Pass[Arguments]):
    name = "split-reduction"
    summary = "spread a sum over threads and blocks, and combine the parts"
    refusals = ("E-PLACE", "E-SPLIT-NONE", "E-SPLIT-CARRIED", "E-SPLIT-PLACE", "E-SPLIT-OP", "E-DIST-LEVELS")
    flags = ("reassociates",)

    def sites(self, kernel: Kernel) -> list[Site]:
        out = []
        for s in walk(kernel.body) if kernel.is_parallel else ():
            if isinstance(s, For) and allowed(converted, kernel, s):
                levels = DistSpec.of("thread.y $TY", "block.y $PARTS", "seq")
                out.append(
                    Site(
                        self.step(loop=place_of(kernel, s), map=levels), "the sum shared by several threads and blocks"
                    )
                )
        for p, r in _blockwise(kernel.body):
            if _joined(p, r) is not None:
                levels = DistSpec.of("vec $V", "thread.x $T", "block.x $PARTS", "seq")
                out.append(
                    Site(self.step(loop=place_of(kernel, r), map=levels), "one sum over everything, a part a block")
                )
        return out

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        if not kernel.is_parallel:
            why = "the kernel says what each thread does: threads that share the sum may not all come to it"
            raise Refusal("E-SPLIT-PLACE", why, hint="run raise first")
        spec = args.map
        kernel, var = as_reduction(kernel, args.loop)
        target = next(s for s in loops(kernel) if s.var == var)
        assert isinstance(target, Reduce)
        locs = places(target)
        bad_op = next((a.op for a in target.accs if a.op not in {*ATOMIC_OF, AT}), "")
        if bad_op:
            raise Refusal("E-SPLIT-OP", f"parts cannot be combined by '{bad_op}'", locs)
        check_levels(target, spec)
        if any(lv.kind == "block" for lv in spec.levels) and not is_last_act(kernel.body, target):
            why = "more follows in the loops around it, which would have to wait for all blocks"
            raise Refusal("E-SPLIT-PLACE", why, locs, "split the sum over threads of one block, or fission the kernel")
        done = set_distribution(kernel, [target], spec, owner=self.name)
        floating = any(getattr(a.sym.type, "is_float", False) and a.op in "+*" for a in target.accs)
        flags = done.kernel.flags | ({"reassociates"} if floating else set())
        return Result(done.kernel.with_(flags=flags), (f"{var.name}: shared by {len(spec.levels)} levels",))


def as_reduction(kernel: Kernel, named: Loops) -> tuple[Kernel, Sym]:
    """``kernel`` with the sum over the loop ``named`` as one ``reduce``, and its loop variable."""
    found = named.find(kernel)
    if any(isinstance(s, For) for s in found):
        serial = named.one(kernel)
        assert isinstance(serial, For)
        return converted(kernel, serial), serial.var
    target = next((s for s in found if isinstance(s, Reduce)), None)
    pair = next(((p, r) for p, r in _blockwise(kernel.body) if any(s.var in (p.var, r.var) for s in found)), None)
    if pair is not None:
        whole = _joined(*pair)
        if whole is not None:
            body = map_body(kernel.body, lambda s: whole.body if isinstance(s, Par) and s.var == pair[0].var else s)
            return kernel.with_(body=body), whole.var
    if target is None:
        raise Refusal("E-SPLIT-NONE", f"'{named}' accumulates nothing", places(*found))
    return kernel, target.var


# ------------------------------------------------------------------------------------- a sum a block, joined by atomics


@dataclass(frozen=True)
class Whole:
    """One reduction over everything and the atomics that take its results; ``var`` its loop variable."""

    body: Body
    var: Sym


def _blockwise(body: Body) -> list[tuple[Par, Reduce]]:
    """``par`` loops over blocks whose body is one reduction, then atomics of its results."""
    out = []
    for s in walk(body):
        if isinstance(s, Par) and s.dist and s.dist[-1].kind == "block":
            sums = [x for x in s.body if isinstance(x, Reduce)]
            if len(sums) == 1 and all(isinstance(x, Reduce | Atomic | Decl) for x in s.body):
                out.append((s, sums[0]))
    return out


def _joined(p: Par, r: Reduce) -> Whole | None:
    """The sum over (block, thread) as one over their common index, if they occur in it alone."""
    at = next(k for k, s in enumerate(p.body) if s is r)
    before, after = p.body[:at], p.body[at + 1 :]
    names = definitions(before)
    changed = assigned(p.body[at:])
    steady = len(names) == len(before) and not any(changed & {v, *used(e)} for v, e in names.items())
    if steady and not names.keys() & used_in(after):
        r, before = _under_their_names(r, names), ()
    taken = {a.sym: a for a in r.accs}
    if before or not all(is_const(x, 0) for x in (p.lo, r.lo)) or len(after) != len(r.accs):
        return None
    for x in after:
        a = taken.get(x.value.sym) if isinstance(x, Atomic) and isinstance(x.value, Var) else None
        if a is None or not isinstance(x, Atomic) or COMBINED_BY.get(x.op) != a.op or x.dst is not None:
            return None
        assert isinstance(a.sym.type, Scalar)
        if simplify(a.init) != identity(a.op, a.sym.type) or any(p.var in used(i) for i in x.index):
            return None
    whole = _one_each(p, r) or _grid_stride(p, r) or _every_place(p, r)
    return None if whole is None or used_in(whole.body) & {p.var, r.var} else Whole((*whole.body, *after), whole.var)


def _under_their_names(r: Reduce, names: Mapping[Sym, Expr]) -> Reduce:
    """``r`` with what ``names`` stand for in their places."""
    (done,) = substitute((r,), {v: expand(e, names) for v, e in names.items()})
    assert isinstance(done, Reduce)
    return done


def _position(p: Par, r: Reduce) -> Expr:
    """``block * threads + thread``."""
    return add(mul(cast(Var(p.var), I32), cast(r.hi, I32)), cast(Var(r.var), I32))


def _one_each(p: Par, r: Reduce) -> Whole | None:
    """``let i = b * T + t; yield i < n ? f(i) : identity``."""
    index = next(
        (s for s in r.body if isinstance(s, Decl) and s.init is not None and _same(s.init, _position(p, r))), None
    )
    if index is None or index.sym in assigned(r.body):
        return None
    i = index.sym
    hi: Expr | None = None
    accs = []
    for a in r.accs:
        value, bound = _guarded(a, i)
        hi = bound if hi is None else hi
        if bound is None or hi is None or not same_value(bound, hi):
            return None
        accs.append(dataclasses.replace(a, value=value))
    assert hi is not None
    if not _covers(p.hi, r.hi, hi):
        hi = Call("min", (cast(hi, I32), cast(mul(cast(p.hi, I32), cast(r.hi, I32)), I32)), I32)
    body = tuple(s for s in r.body if s is not index)
    t = i.type
    assert isinstance(t, Scalar)
    return Whole((Reduce(tuple(accs), i, Const(0, t), cast(hi, t), (), body, loc=r.loc, tags=r.tags),), i)


def _guarded(a: Acc, i: Sym) -> tuple[Expr, Expr | None]:
    """(value, bound) of ``i < bound ? value : identity``."""
    v = a.value
    assert isinstance(a.sym.type, Scalar)
    if isinstance(v, Select) and without_casts(v.b) == identity(a.op, a.sym.type):
        return v.a, upper_bound(v.cond, i)
    return v, None


def _covers(blocks: Expr, threads: Expr, n: Expr) -> bool:
    """Whether ``blocks`` is n / threads, rounded up."""
    t, m = cast(threads, I32), cast(n, I32)
    up = add(m, add(t, i32(-1)))
    return _same(blocks, binary("/", up, t)) or without_index_casts(blocks) == Call("cdiv", (m, t), I32)


def _grid_stride(p: Par, r: Reduce) -> Whole | None:
    """``var s = identity; for i = b * T + t; i < n; i += T * B: s += f(i)``, yielding ``s``."""
    loop = next((s for s in r.body if isinstance(s, For)), None)
    starts = {s.sym: s.init for s in r.body if isinstance(s, Decl) and s.init is not None}
    if loop is None or len(starts) + 1 != len(r.body) or len(r.accs) != len(starts):
        return None
    split, hi, step = accumulations(loop.body), upper_bound(loop.cond, loop.var), loop_step(loop)
    if split is None or hi is None or step is None or any(has_effect(s) for s in split[0]):
        return None
    total = mul(cast(p.hi, I32), cast(r.hi, I32))
    if not (_same(loop.init, _position(p, r)) and _same(step, total)):
        return None
    sums = {a.sym: a for a in split[1]}
    accs = []
    for a in r.accs:
        mine = sums.get(a.value.sym) if isinstance(a.value, Var) else None
        assert isinstance(a.sym.type, Scalar)
        if mine is None or mine.op != a.op or without_casts(starts.get(mine.sym, i32(1))) != identity(a.op, a.sym.type):
            return None
        accs.append(dataclasses.replace(a, value=mine.value))
    t = loop.var.type
    assert isinstance(t, Scalar)
    reduce = Reduce(tuple(accs), loop.var, Const(0, t), cast(hi, t), (), split[0], loc=loop.loc, tags=loop.tags)
    return Whole((reduce,), loop.var)


def _every_place(p: Par, r: Reduce) -> Whole | None:
    """Terms that only depend on ``b * T + t``, such as vectors: all of them, with the guards that they have."""
    if any(not isinstance(s, If) for s in walk(r.body) if bodies(s)):
        return None
    t = r.var.type
    assert isinstance(t, Scalar)
    i = fresh(r.var.stem, t)
    on = over_both(r.var, p.var, r.hi, i)
    accs = tuple(dataclasses.replace(a, value=map_expr(a.value, on)) for a in r.accs)
    hi = simplify(mul(cast(p.hi, t), cast(r.hi, t)))
    return Whole((Reduce(accs, i, Const(0, t), hi, (), map_body(r.body, keep, on), loc=r.loc, tags=r.tags),), i)


def _same(a: Expr, b: Expr) -> bool:
    return same_value(_signed(a), _signed(b))


def _signed(e: Expr) -> Expr:
    """``e`` with index arithmetic in ``int``: launches and loop bounds here stay below 2^31."""
    from ktc.ir.nodes import Cast

    def on(x: Expr) -> Expr:
        if isinstance(x, Cast) and is_index_cast(x):
            return x.x if x.x.type == I32 else cast(x.x, I32)
        if isinstance(x, Const) and isinstance(x.ty, Scalar) and x.ty.is_int:
            return Const(int(x.value), I32)
        return x

    return simplify(map_expr(e, on))
