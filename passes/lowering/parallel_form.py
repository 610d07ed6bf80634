"""The recursion over parallel form: loops, reductions, kept control flow, runs of simple statements, barriers."""

from __future__ import annotations

import dataclasses

from ktc.ir.analysis.accumulators import identity, together
from ktc.ir.analysis.effects import updates_in_place
from ktc.ir.fold import add, both, cast, lt
from ktc.ir.nodes import (
    Acc,
    Alloc,
    Assign,
    AsyncWait,
    Barrier,
    Body,
    Break,
    Const,
    Continue,
    Decl,
    Expr,
    For,
    If,
    Par,
    Produce,
    Reduce,
    Return,
    Stmt,
    Var,
    While,
    bodies,
    fresh,
)  # fmt: skip
from ktc.ir.types import Scalar
from ktc.ir.walk import commented, used_in, walk
from ktc.passes.lowering.collectives.contributions import contribution, with_start
from ktc.passes.lowering.collectives.grid_reduce import lower_grid_reduce
from ktc.passes.lowering.collectives.joint_control import axes_of, divergent, stay_together, warp_takes_one_way
from ktc.passes.lowering.collectives.reduction import across_threads, within_warps
from ktc.passes.lowering.copies.producer_copies import lower_produce
from ktc.passes.lowering.distribution.levels import Lowered, iterations, plan
from ktc.passes.lowering.distribution.loop_forms import bounded, covers, strided
from ktc.passes.lowering.distribution.owned import reserve
from ktc.passes.lowering.distribution.pending_guards import settled, steered_by_all
from ktc.passes.lowering.distribution.scope import Guard, Scope, first_thread, has_parallel, is_convergent, nest
from ktc.passes.lowering.distribution.statement_runs import emit_run
from ktc.passes.lowering.distribution.variation import leaves_early
from ktc.passes.lowering.sync.accesses import Access, accesses, landed
from ktc.passes.lowering.sync.derived_barriers import (
    asked_by_all,
    by_one_thread,
    carried_conflict,
    conflict,
    of_a_round,
    siblings_conflict,
)
from ktc.passes.lowering.tensor.fragment_products import lower_mma, sums_in_place
from ktc.passes.shared.grid_reductions import spans_blocks
from ktc.passes.shared.mma import is_mma

from .errors import LoweringError
from .lowering_state import State


def lower_body(body: Body, scope: Scope, st: State, asking: Body = ()) -> Body:
    """Lower a statement list, deriving the barriers between its statements; ``asking``: what all threads have read to
    decide whether they go through it."""
    idle = _idle(scope, st)
    ordered = bool(asking) or any(has_parallel(s) for s in body)
    ordered &= not by_one_thread(body, idle)
    out: list[Stmt] = []
    run: list[Stmt] = []
    pending = [a for s in asking for a in accesses(s, idle, body)]
    skipped = False

    def flush(k: int) -> None:
        if run:
            out.extend(emit_run(tuple(run), used_in(body[k:]), scope, st))
            run.clear()

    for k, s in enumerate(body):
        here: list[Access] = []
        if ordered:  # what other blocks do is not touched here (check_blocks): this is about threads of one
            here = accesses(s, idle, body)
            if conflict(pending, here, at_once=True):
                flush(k)
                out.append(Barrier(loc=s.loc))
                pending = [a for a in pending if a.in_flight]
            if _meets(s):
                pending = [a for a in pending if a.in_flight]
            pending = [*(landed(pending) if isinstance(s, AsyncWait) else pending), *here]
        if isinstance(s, Reduce) and spans_blocks(s):
            flush(k)
            own = dataclasses.replace(s, accs=tuple(dataclasses.replace(a, init=_neutral(a)) for a in s.accs))
            partial = lower_reduce(own, scope, st)
            rest = body[k + 1 :]
            return (*out, *lower_grid_reduce(s, rest, scope, st, lambda b, c: lower_body(b, c, st), partial))
        if isinstance(s, Alloc):
            st.one_a_block(s, scope)
        if skipped:
            skipped = False  # it went into the sum before it
        elif _is_leaf(s, scope, st):
            run.append(s)
        elif sums_in_place(s, body[k + 1 :], st):
            assert isinstance(s, Reduce)
            flush(k)
            out.extend(lower_mma(s, scope, st, in_place=True))
            skipped = True
        else:
            flush(k)
            out.extend(_compound(s, scope, st))
            if here and _ends_in_barrier(out[-1] if out else None, st):  # what preceded the loop is still open
                pending = [*pending[: len(pending) - len(here)], *(a for a in here if a.in_flight)]
                pending += [a for e in asked_by_all(s, idle, again=True) for a in accesses(e, idle, body)]
    flush(len(body))
    return tuple(out)


def _meets(s: Stmt) -> bool:
    """Whether all threads of the block meet at ``s``, and all that they did is done."""
    return isinstance(s, Barrier) and (s.scope, s.memory, s.flags) == ("block", "all", None)


def _ends_in_barrier(s: Stmt | None, st: State) -> bool:
    """Whether each round of the loop ends at a barrier, be it that of a counted loop that certainly runs."""
    if not isinstance(s, For | While) or not s.body:
        return False
    last = s.body[-1]
    at_barrier = isinstance(last, Barrier) or (_runs(last, st) and _ends_in_barrier(last, st))
    return at_barrier and not any(isinstance(x, Break | Continue | Return) for x in walk(s.body))


def _runs(s: Stmt, st: State) -> bool:
    """Whether ``s`` counts from zero to a number known to be positive."""
    return isinstance(s, For) and (st.decide.rounds(s) or 0) > 0


def _is_leaf(s: Stmt, scope: Scope, st: State) -> bool:
    """Whether ``s`` goes into a run: no parallelism inside, and (under jams) nothing that should be kept once."""
    if isinstance(s, Par | Reduce | Produce):
        return False
    if isinstance(s, Alloc):
        return st.owned.get(s.sym) is None
    if not isinstance(s, For | If | While):
        return not (is_convergent((s,)) and (scope.jams or scope.guards))
    if has_parallel(s) or is_convergent((s,)):
        return False
    return not scope.jams or _control_varies(s, st) or leaves_early((s,))


def _control_varies(s: For | If | While, st: State) -> bool:
    if isinstance(s, For):
        return bool(st.variation.of(s.init) | st.variation.of(s.cond) | st.variation.of(s.step))
    return bool(st.variation.of(s.cond))


def _compound(s: Stmt, scope: Scope, st: State) -> Body:
    if isinstance(s, Par):
        return lower_par(s, s.body, scope, st)
    if isinstance(s, Reduce):
        return lower_reduce(s, scope, st)
    if isinstance(s, Produce):
        return (lower_produce(s, scope, st),)
    if isinstance(s, For | If | While) and (scope.jams or has_parallel(s)) and _control_varies(s, st):
        raise LoweringError(
            "E-LOWER-JAM-CONTROL",
            "a barrier or a distributed loop stands under control that differs between jammed iterations",
            s.loc,
        )
    if not isinstance(s, For | If | While):
        return _plain(s, scope, st)
    control = (s.init, s.cond, s.step) if isinstance(s, For) else (s.cond,)
    if is_convergent((s,)):
        if not warp_takes_one_way(control, tuple(t for b in bodies(s) for t in b), st):
            stay_together(s, control, st)
        elif isinstance(s, For) and (axes := axes_of(control, st)):
            st.threaded[s.var] = axes
    around, scope = settled(
        s, tuple(t for b in bodies(s) for t in b), scope, st, siblings_conflict((s,), _idle(scope, st))
    )
    steered_by_all(s, control, scope, st)
    code = _control(s, scope, st)
    if axes_of(control, st) and any(isinstance(x, Barrier) for x in walk((code,))):
        raise divergent(s)
    return (code,) if around is None else (If(around, (code,)),)


def _idle(scope: Scope, st: State) -> int:
    """How many axes of threads no enclosing loop is spread over."""
    return len(st.thread_axes - scope.axes)


def _control(s: For | If | While, scope: Scope, st: State) -> Stmt:
    """``s`` around its lowered bodies."""
    asking = asked_by_all(s, _idle(scope, st))
    if isinstance(s, If):
        then, orelse = (reserve(b, scope, st) + lower_body(b, scope, st, asking) for b in (s.then, s.orelse))
        return dataclasses.replace(s, cond=st.expr(s.cond), then=then, orelse=orelse)
    inner = lower_body(s.body, scope.inside(repeats=True), st, asking)
    inner += _back_edge(s.body, scope, st, s)
    if isinstance(s, While):
        return dataclasses.replace(s, cond=st.expr(s.cond), body=inner)
    return dataclasses.replace(s, init=st.expr(s.init), cond=st.expr(s.cond), step=st.expr(s.step), body=inner)


def _plain(s: Stmt, scope: Scope, st: State) -> Body:
    if isinstance(s, Alloc):
        return ()
    if scope.jams:
        raise LoweringError("E-LOWER-JAM-BARRIER", "a barrier or warp operation cannot be jammed", s.loc)
    return st.rewrite((s,))


def _back_edge(body: Body, scope: Scope, st: State, loop: For | While | None = None, independent: bool = False) -> Body:
    """A barrier at the end of a loop whose next round may touch what this one still reads or writes."""
    if body and _meets(body[-1]) and not any(isinstance(x, Continue) for x in walk(body)):
        return ()
    idle = _idle(scope, st)
    whole = body if loop is None else of_a_round(loop, idle)
    counted = loop if isinstance(loop, For) else None
    return (Barrier(),) if carried_conflict(whole, idle, counted, independent=independent) else ()


# ------------------------------------------------------------------------------------------------------------- loops


def lower_par(s: Par | Reduce, body: Body, scope: Scope, st: State) -> Body:
    """The loops, guards and base index of one distribution around the lowered ``body``."""
    p = plan(s, st.decide.value)
    t = s.var.type
    assert isinstance(t, Scalar)
    lo, hi = st.expr(s.lo), cast(st.expr(s.hi), t)
    clash = p.thread_axes & scope.axes
    if clash:
        raise LoweringError("E-LOWER-AXIS", f"threadIdx.{min(clash)} already belongs to an enclosing loop", s.loc)
    if p.thread_axes:
        st.threaded[s.var] = p.thread_axes
    jams = tuple(sorted((j for j, _ in p.jams), key=lambda j: j.kind == "vec"))
    extent = iterations(cast(lo, t), hi)
    for j, stride in p.jams:
        whole = st.decide.divisible(st.resolve(extent), j.extent)
        st.exact[j.var] = j.kind == "vec" and st.decide.value(stride) == 1 and whole
    exact_lanes = all(st.exact[j.var] for j in jams if j.kind == "vec")
    st.levels_of[s.var] = jams
    st.starts[s.var] = s.lo
    base = s.var if not jams else fresh(s.var.name, t)
    bare = bool(jams) and not p.hw and not p.seqs and isinstance(lo, Const)  # nothing but lanes: no base to name
    at: Expr = cast(lo, t) if bare else Var(base)
    if jams:
        st.index[s.var] = add(at, p.jam_offset(t))
        st.variation.seed(s.var, frozenset(j.var for j in jams))
        st.variation.grow(body)
    first = add(at, p.jam_offset(t, zero_vec=exact_lanes))
    guard = Guard(lt(first, hi), frozenset(j.var for j in jams if not (exact_lanes and j.kind == "vec")))
    meets = is_convergent(body) and (bool(jams) or "x" in p.thread_axes or not within_warps(body, st))
    together = meets or siblings_conflict(body, len(st.thread_axes - scope.axes - p.thread_axes))
    if together:
        stay_together(s, (s.lo, s.hi), st)
    around, scope = settled(s, body, scope, st, together)
    steered_by_all(s, (s.lo, s.hi), scope, st)

    mine = p.thread_axes if together or not updates_in_place(body) else st.thread_axes  # the first one's as a whole
    inner = scope.inside(
        jams=scope.jams + jams, axes=scope.axes | mine, blocks=scope.blocks | p.block_axes, in_par=True,
        repeats=scope.repeats or bool(p.seqs),
    )  # fmt: skip

    def lowered(guarded: bool) -> Body:
        if guarded and (guard.jams or together):
            return reserve(body, inner, st) + lower_body(body, inner.inside(guards=(*scope.guards, guard)), st)
        code = reserve(body, inner, st) + lower_body(body, inner, st)
        return (If(guard.cond, code),) if guarded and code else code

    whole = covers(p, extent, st)
    back = _back_edge(body, inner, st, independent=True) if p.seqs and together else ()
    start = add(cast(lo, t), p.offset(t))
    above = s.comments if isinstance(s, Par) else ()  # a reduction's stand above its accumulator
    covered = p.rest is None and whole
    st.loops[s.var] = Lowered(p, lo, hi, base, covered)
    if bare:
        code = lowered(not covered)
    elif p.rest is None:
        code = bounded(p, base, start, lowered(not covered) + back, t)
    else:
        code = strided(p, base, lo, hi, guard, together, lambda guarded: lowered(guarded and not whole), back, t)
    del st.loops[s.var]
    only = both(around, first_thread(mine - p.thread_axes - scope.axes))
    return commented(code if only is None else (If(only, code),), above)


# -------------------------------------------------------------------------------------------------------- reductions


def _neutral(a: Acc) -> Expr:
    assert isinstance(a.sym.type, Scalar)
    return identity(a.op, a.sym.type)


def _foresee_jams(s: Reduce, st: State) -> None:
    """What the levels of ``s``, and of loops in it, make differ along those around it: a condition on its variable is
    control that varies, under which all is repeated that anything in it varies along, what is summed up too."""
    inside = [x for x in walk((s,)) if isinstance(x, Par | Reduce) and plan(x, st.decide.value).jams]
    for x in inside:
        st.variation.seed(x.var, frozenset({x.var}))
    if inside:
        st.variation.grow((s,))


def lower_reduce(s: Reduce, scope: Scope, st: State) -> Body:
    """Partial results per thread, then across threads, then the initial value."""
    if is_mma(s):
        return lower_mma(s, scope, st)
    p = plan(s, st.decide.value)
    _foresee_jams(s, st)
    front: list[Stmt] = []
    contributions: list[Stmt] = []
    after: list[Stmt] = []
    here = frozenset(j.var for j in scope.jams)
    for group in together(s.accs):
        dims = scope.ordered(st.variation.of_sym.get(group[0].sym, frozenset()) & here)
        for a in group:
            t = a.sym.type
            assert isinstance(t, Scalar)
            st.depth[a.sym] = len(scope.jams)
            start = Decl(a.sym, identity(a.op, t), loc=s.loc, comments=s.comments if a is group[0] else ())
            if dims:
                front += st.expand(start, dims)
                front += nest(dims, (), st.rewrite((Assign(a.sym, start.init),)))  # type: ignore[arg-type]
            else:
                front.append(start)
        contributions += contribution(s, group)
        for h in (h for h in p.hw if h.level == "thread"):
            assert h.n is not None
            allocs, code = across_threads(s, group, h.axis, h.n, st, scope.repeats, dims)
            front += allocs
            after += code
        after += with_start(group[0], dims, scope, st, s.loc)
    loops = lower_par(s, (*s.body, *contributions), scope, st)
    return (*front, *loops, *after)
