"""Runs of simple statements under jams: loads staged first, unit-stride ones as vectors, the rest in unrolled loops.

before (jams u: 2, v: V over i, guard on u)          after
    x = f32(in[r + i])                                vec<f16, V> in_vec[2]
    out[r + i] = f16(x * s)                           for u: if (i_u < n) in_vec[u] = load in[r + i_u]
                                                      for u: if (i_u < n):
                                                          vec<f16, V> out_vec
                                                          for v: x = f32(in_vec[u][v]); out_vec[v] = f16(x * s)
                                                          store out[r + i_u] = out_vec
"""

from __future__ import annotations

import dataclasses
import math

from ktc.ir.analysis.dependence import may_alias, noalias
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Body,
    Break,
    Continue,
    Decl,
    Expr,
    For,
    If,
    Load,
    Select,
    Stmt,
    Store,
    Sym,
    Var,
    While,
    fresh,
)  # fmt: skip
from ktc.ir.purity import is_volatile
from ktc.ir.storage import is_private
from ktc.ir.types import Array, Ptr, Vec, scalar_of
from ktc.ir.walk import (
    all_exprs,
    declared,
    mentions,
    stmt_exprs,
    substitute_expr,
    used,
    used_in,
    walk,
    walk_expr,
)
from ktc.passes.lowering.copies.fetches import Group, in_two, predicated
from ktc.passes.lowering.lowering_state import State

from .levels import Jam
from .loads import extract_loads, guarded_load, hoist_loads, is_memory_load
from .record_loads import emit_records, records_of
from .scope import Guard, Scope, guard_of, nest

MAX_HELD = 32
"""Loaded elements a thread holds at once before it uses them; more would push out what it computes with."""


def emit_run(run: Body, used_after: set[Sym], scope: Scope, st: State) -> Body:
    """Lower a run of leaf statements in ``scope``; ``used_after`` are symbols that later statements read."""
    run = tuple(st.owner_guard(s, scope) for s in run)
    if not scope.jams:
        return _plain(run, used_after, scope, st)
    run = hoist_loads(extract_loads(run), noalias(st.kernel))
    st.variation.grow(run)
    apart = _one_by_one(run, used_after, scope, st)
    if apart:
        rest = tuple(j for j in scope.jams if j not in apart)
        fixed = frozenset(j.var for j in apart)
        guards = tuple(Guard(g.cond, g.jams - fixed) for g in scope.guards)
        return nest(apart, (), emit_run(run, used_after, scope.inside(jams=rest, guards=guards), st))
    groups = [part for g in _group(run, scope, st) for part in in_two(g, scope)]
    out: list[Stmt] = []
    for k, g in enumerate(groups):
        later = used_after | used_in(tuple(s for h in groups[k + 1 :] for s in h.body))
        if g.records is not None:
            out += emit_records(g.records, scope.ordered(g.dims), scope, st)
        else:
            out += _emit_vector_loads(g, scope, st) if g.vec else _emit_group(g, later, scope, st)
    return tuple(out)


def _one_by_one(run: Body, used_after: set[Sym], scope: Scope, st: State) -> tuple[Jam, ...]:
    """Outer unrolled levels to take one position after another, where loads of all positions would fill the registers.

    Only for runs that leave nothing behind but what they store to memory.
    """
    if set(declared(run)) & used_after or any(isinstance(x, Assign) for x in walk(run)):
        return ()
    if not any(isinstance(x, Store) and not is_private(x.buffer) for x in walk(run)):
        return ()
    if any(isinstance(x, Store) and is_private(x.buffer) and x.buffer not in declared(run) for x in walk(run)):
        return ()
    sizes = {j.var: st.decide.value(j.extent) or 1 for j in scope.jams}

    def held(jams: tuple[Jam, ...]) -> int:
        here = {j.var for j in jams}
        loads = [s for s in run if is_memory_load(s)]
        return sum(math.prod(sizes[v] for v in _dims(s, scope, st) & here) for s in loads)

    out: tuple[Jam, ...] = ()
    for j in scope.ordered(frozenset(sizes)):
        left = tuple(x for x in scope.jams if x not in out)
        if j.kind == "vec" or held(left) <= MAX_HELD:
            break
        out = (*out, j)
    return out


# ------------------------------------------------------------------------------------------------------ without jams


def _plain(run: Body, used_after: set[Sym], scope: Scope, st: State) -> Body:
    body = st.rewrite(run)
    cond = guard_of(scope.guards, frozenset())
    if cond is None:
        return body
    hoisted, inner = _hoist_declarations(body, used_after)
    st.unset |= {s.sym for s in hoisted if isinstance(s, Decl)}
    return (*hoisted, If(cond, inner)) if inner else hoisted


def _hoist_declarations(body: Body, live: set[Sym]) -> tuple[Body, Body]:
    """Declarations of ``live`` symbols moved in front, their initialisers left as assignments."""
    front: list[Stmt] = []
    rest: list[Stmt] = []
    for s in body:
        if isinstance(s, Alloc):
            front.append(s)
        elif isinstance(s, Decl) and s.sym in live:
            front.append(Decl(s.sym, None, loc=s.loc))
            if s.init is not None:
                rest.append(Assign(s.sym, s.init, loc=s.loc, comments=s.comments))
        else:
            rest.append(s)
    return tuple(front), tuple(rest)


# ------------------------------------------------------------------------------------------------------------ groups


def _dims(s: Stmt, scope: Scope, st: State) -> frozenset[Sym]:
    """The jams that ``s`` must be repeated over."""
    here = frozenset(j.var for j in scope.jams)
    if isinstance(s, Decl):
        return st.variation.of_sym.get(s.sym, frozenset()) & here
    if isinstance(s, Alloc):
        return frozenset()
    if isinstance(s, Assign):
        return (st.variation.of_sym.get(s.sym, frozenset()) & here) | st.since_declared(s.sym, scope)
    if isinstance(s, Store) and is_private(s.buffer):
        return (st.variation.of_sym.get(s.buffer, frozenset()) & here) | st.since_declared(s.buffer, scope)
    if isinstance(s, If | For | While):
        out: frozenset[Sym] = frozenset()
        for e in all_exprs((s,)):
            out |= st.variation.of(e) & here
        for x in walk((s,)):
            if not isinstance(x, If | For | While):
                out |= _dims(x, scope, st)
        return out
    if isinstance(s, Break | Continue):  # of a loop in the run, which is repeated over what decides that it is left
        return frozenset()
    return here  # global and shared effects: once per iteration


def _vector_jam(e: Load | Store, scope: Scope, st: State) -> Jam | None:
    """The lane jam along which ``e`` is one aligned, unit-stride access, if any."""
    t = e.buffer.type
    if e.width != 1 or is_private(e.buffer) or is_volatile(e):
        return None
    if not isinstance(t, Ptr) and not (isinstance(t, Array) and len(e.index) == len(t.shape)):
        return None
    if isinstance(t.elem, Vec):  # float4: as wide as accesses get already
        return None
    for j in scope.jams:
        if j.kind == "vec" and st.lanes_exact(j) and st.is_vector_access(e.buffer, e.index, j):
            return j
    return None


def _lane_jam(init: Expr | None, scope: Scope, st: State) -> Jam | None:
    """The lane jam along which the (guarded) load ``init`` is one access: its guard holds for all lanes or none."""
    load = guarded_load(init) if init is not None else None
    jam = _vector_jam(load, scope, st) if load is not None else None
    if jam is not None and isinstance(init, Select) and jam.var in st.variation.of(st.resolve(init.cond)):
        return None
    return jam


def _group(run: Body, scope: Scope, st: State) -> list[Group]:
    groups: list[Group] = []
    records = {id(part): r for r in records_of(run, scope, st) for part in r.parts}
    begun: set[int] = set()
    for s in run:
        st.depth.setdefault(s.sym, len(scope.jams)) if isinstance(s, Decl | Alloc) else None
        dims = _dims(s, scope, st)
        whole = records.get(id(s))
        if whole is not None:
            if id(whole) not in begun:
                groups.append(Group(dims - {whole.jam.var}, whole.parts, whole.jam, records=whole))
            begun.add(id(whole))
            continue
        vec = None
        if isinstance(s, Decl):
            vec = _lane_jam(s.init, scope, st)
            if vec is not None and vec.var not in dims:
                vec = None
            if vec is not None:
                dims -= {vec.var}
        last = groups[-1] if groups else None
        if last is not None and last.records is None and (last.dims, last.vec) == (dims, vec):
            groups[-1] = Group(dims, (*last.body, s), vec)
        else:
            groups.append(Group(dims, (s,), vec))
    return groups


def _emit_vector_loads(g: Group, scope: Scope, st: State) -> Body:
    """``vec<T, V> x_vec[...]`` for each load of the group, filled in one nest over the other jams."""
    assert g.vec is not None
    dims = scope.ordered(g.dims)
    front: list[Stmt] = []
    inner: list[Stmt] = []
    guarded = guard_of(scope.guards, frozenset(j.var for j in dims)) is not None
    for s in g.body:
        assert isinstance(s, Decl) and s.init is not None
        access = guarded_load(s.init)
        assert access is not None
        vt = Vec(scalar_of(s.sym.type), g.vec.extent)
        index = tuple(st.expr(x, zero=g.vec) for x in access.index)
        load = dataclasses.replace(access, index=index, width=g.vec.extent)
        at = tuple(Var(j.var) for j in dims)
        sym = fresh(_vec_name(s.sym), Array(vt, tuple(j.extent for j in dims)) if dims else vt)
        if isinstance(s.init, Select):
            front.append(Alloc(sym) if dims else Decl(sym, None, loc=s.loc))
            filled = nest((g.vec,), (), (Store(sym, (*at, Var(g.vec.var)), s.init.b),))
            moved = Store(sym, at, load, loc=s.loc) if dims else Assign(sym, load, loc=s.loc)
            inner.append(If(st.expr(s.init.cond), (moved,), filled, loc=s.loc, comments=s.comments))
        elif dims:
            front.append(Alloc(sym))
            inner.append(Store(sym, at, load, loc=s.loc, comments=s.comments))
        else:
            if guarded:
                front.append(Decl(sym, None, loc=s.loc))
                inner.append(Assign(sym, load, loc=s.loc, comments=s.comments))
            else:
                inner.append(Decl(sym, load, const=s.sym not in st.assigned, loc=s.loc, comments=s.comments))
        st.storage[s.sym] = (sym, (*(j.var for j in dims), g.vec.var))
    return (*front, *nest(dims, scope.guards, tuple(inner)))


def _vec_name(s: Sym) -> str:
    return s.name.removesuffix("_i") + "_vec"


def _emit_group(g: Group, used_later: set[Sym], scope: Scope, st: State) -> Body:
    dims = scope.ordered(g.dims)
    guarded = guard_of(scope.guards, g.dims) is not None
    front: list[Stmt] = []
    for s in g.body:
        if isinstance(s, Alloc):
            front += st.allocate(s, scope)
        elif isinstance(s, Decl) and s.sym in used_later and (dims or guarded):
            front += st.expand(s, dims)
            if guarded:
                st.unset.add(st.storage[s.sym][0])
    body = tuple(s for s in g.body if not isinstance(s, Alloc))
    if not body:
        return tuple(front)
    lane, before, body, after = _vector_stores(body, dims, scope, st)
    inner = st.rewrite(body)
    if g.predicated and lane is None:
        return (*front, *nest(dims, (), predicated(inner, scope, g.dims)))
    if lane is not None:
        inner_loop = nest((lane,), tuple(x for x in scope.guards if lane.var in x.jams), inner)
        outer_guards = tuple(x for x in scope.guards if lane.var not in x.jams)
        return (*front, *nest(tuple(j for j in dims if j is not lane), outer_guards, (*before, *inner_loop, *after)))
    return (*front, *nest(dims, scope.guards, inner))


def _vector_stores(body: Body, dims: tuple[Jam, ...], scope: Scope, st: State) -> tuple[Jam | None, Body, Body, Body]:
    """Unit-stride stores of the group go through a vector: (lane, declarations, body, whole-vector stores).

    Stores along another lane than the first one's stay as they are.
    """
    lane: Jam | None = None
    before: list[Stmt] = []
    after: list[Stmt] = []
    out: list[Stmt] = []
    delayed = _delayable(body, dims, scope, st)
    for k, s in enumerate(body):
        jam = delayed.get(k)
        if jam is None:
            out.append(s)
            continue
        lane = jam
        assert isinstance(s, Store)
        sym = fresh(f"{s.buffer.name}_vec", Vec(scalar_of(s.buffer.type), jam.extent))
        before.append(Decl(sym))
        out.append(Store(sym, (Var(jam.var),), s.value, loc=s.loc, comments=s.comments))
        index = tuple(st.expr(_without_locals(x, body, st), zero=jam) for x in s.index)
        after.append(Store(s.buffer, index, Var(sym), width=jam.extent, cache=s.cache, loc=s.loc))
    return lane, tuple(before), tuple(out), tuple(after)


def _without_locals(e: Expr, body: Body, st: State) -> Expr:
    """``e``, computed behind ``body``: what ``body`` declares (inside its loop over lanes) is spelled out."""
    local = {s.sym for s in body if isinstance(s, Decl)} & st.definitions.keys()
    while used(e) & local:
        e = substitute_expr(e, {v: st.definitions[v] for v in local})
    return e


def _delayable(body: Body, dims: tuple[Jam, ...], scope: Scope, st: State) -> dict[int, Jam]:
    """Positions of the stores that may wait, in order, for the end of their group, all along one lane jam.

    No later statement reads what they may have written, or writes it without waiting too.
    """
    found: dict[int, Jam] = {}
    touched: set[Sym] = set()
    apart = noalias(st.kernel)
    lane: Jam | None = None
    for k in range(len(body) - 1, -1, -1):
        s = body[k]
        jam = _vector_jam(s, scope, st) if isinstance(s, Store) and not is_private(s.buffer) else None
        free = jam is not None and jam in dims and jam == (lane or jam)
        if (
            isinstance(s, Store)
            and jam is not None
            and free
            and not any(may_alias(s.buffer, b, apart) for b in touched)
        ):
            found[k] = lane = jam
            reads = {x.buffer for e in stmt_exprs(s) for x in walk_expr(e) if isinstance(x, Load)}
        else:
            reads = {b for b in mentions(s) if isinstance(b.type, Array | Ptr)}
        touched |= {b for b in reads if not is_private(b)}
    return found
