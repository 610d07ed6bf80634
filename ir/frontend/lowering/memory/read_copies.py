"""Private copies of arrays that a kernel is only passed: what reads the copy reads the array.

before                                          after
    array at: u64[72]
    var pointer: u8* = t_at[0] as.c (u8*)
    at[0] = u64(&pointer[0])
    ...
    at[71] = u64(&pointer_71[0])
    p = at[36 + t] as.c (f32*)                      p = t_at[36 + t] as.c (f32*)

A struct that a kernel is passed by value and hands on by a reference that could change it is a variable of each thread.
Where nothing does, no thread need have its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

from ktc.ir.fold import is_const
from ktc.ir.kernel import Param
from ktc.ir.loop_nodes import has_bodies
from ktc.ir.nodes import AddrOf, Alloc, Atomic, Body, Cast, Const, Decl, Expr, Load, Stmt, Store, Sym, Var
from ktc.ir.storage import is_local_array
from ktc.ir.types import Ptr
from ktc.ir.walk import (
    all_exprs,
    assigned,
    initial_values,
    map_body,
    mentions,
    stmt_exprs,
    substitute,
    used,
    used_in,
    walk,
    with_bodies,
)


def without_read_copies(body: Body, params: Collection[Param]) -> Body:
    """``body`` with reads of such arrays, which are ``params``, in the place of reads of their copies."""
    arrays = {s.sym for s in walk(body) if isinstance(s, Alloc) and is_local_array(s.sym)}
    passed = {p.sym for p in params if p.readonly and p.overlaps_nothing}
    if not arrays or not passed:
        return body
    pointers = {s: e for s, e in initial_values(body).items() if isinstance(s.type, Ptr) and s not in assigned(body)}
    copies = {a: of for a in arrays if (of := _copied(body, a, pointers)) is not None and of in passed}
    if not copies:
        return body

    def read(e: Expr) -> Expr:
        return replace(e, buffer=copies[e.buffer]) if isinstance(e, Load) and e.buffer in copies else e

    def kept(s: Stmt) -> Stmt | None:
        gone = (s.sym if isinstance(s, Alloc) else s.buffer if isinstance(s, Store) else None) in copies
        return None if gone else s

    return _without_unused(map_body(body, kept, read), set(pointers))


def read_at_once(body: Body, temporaries: Collection[Sym]) -> Body:
    """``body`` without those of the variables ``temporaries`` that are another name for a variable, and are read by the
    next statement alone that is no such declaration."""
    reads = ({s for e in stmt_exprs(t) for s in used(e)} for t in walk(body))
    uses = Counter(s for read in reads for s in read if s in temporaries)
    return _read_at_once(body, temporaries, uses) if uses else body


def _read_at_once(body: Body, temporaries: Collection[Sym], uses: Mapping[Sym, int]) -> Body:
    out: list[Stmt] = []
    names: dict[Sym, Expr] = {}
    waiting: list[Decl] = []
    for s in body:
        if isinstance(s, Decl) and s.sym in temporaries and isinstance(s.init, Var):
            init = names.get(s.init.sym, s.init)
            waiting.append(replace(s, init=init))
            names[s.sym] = init
            continue
        once = {d.sym for d in waiting if d.sym in mentions(s) and uses[d.sym] == 1 and not has_bodies(s)}
        out += [d for d in waiting if d.sym not in once]
        (s,) = substitute((s,), {n: names[n] for n in once}) if once else (s,)
        out.append(with_bodies(s, lambda b: _read_at_once(b, temporaries, uses)) if has_bodies(s) else s)
        names, waiting = {}, []
    return (*out, *waiting)


def _copied(body: Body, array: Sym, pointers: Mapping[Sym, Expr]) -> Sym | None:
    """What ``array`` is a copy of, element by element, before anything else is done with it."""
    filled: set[int] = set()
    source: Sym | None = None
    inside = [s for s in walk(body) if isinstance(s, Store | Atomic) and s.buffer == array]
    for s in inside:
        value = _loaded(s.value, pointers) if isinstance(s, Store) and s in body else None
        if value is None or s.width != 1 or len(s.index) != 1:  # type: ignore[union-attr]
            return None
        (at,), (of,) = s.index, value.index
        if not isinstance(at, Const) or not is_const(of, int(at.value)) or source not in (None, value.buffer):
            return None
        source = value.buffer
        filled.add(int(at.value))
    last = max((k for k, s in enumerate(body) if any(s is t for t in inside)), default=-1)
    early = any(isinstance(e, Load) and e.buffer == array for e in all_exprs(body[: last + 1]))
    whole = [e for e in all_exprs(body) if isinstance(e, Load | AddrOf) and e.buffer == array]
    if early or not all(isinstance(e, Load) and e.width == 1 and len(e.index) == 1 for e in whole):
        return None
    return source if filled == set(range(_length(array))) else None


def _length(array: Sym) -> int:
    (n,) = array.type.shape if len(array.type.shape) == 1 else (None,)  # type: ignore[attr-defined]
    return int(n.value) if isinstance(n, Const) else -1


def _loaded(e: Expr, pointers: Mapping[Sym, Expr]) -> Load | None:
    """The element of a buffer that ``e`` is: itself, or as the address of a pointer that is made of it."""
    if isinstance(e, Cast) and isinstance(e.x, AddrOf) and e.x.buffer in pointers and is_const(e.x.index[0], 0):
        made = pointers[e.x.buffer]
        e = made.x if isinstance(made, Cast) else e
    return e if isinstance(e, Load) and len(e.index) == 1 and e.width == 1 else None


def _without_unused(body: Body, pointers: set[Sym]) -> Body:
    unused = pointers - used_in(body) - assigned(body)
    return map_body(body, lambda s: None if isinstance(s, Decl) and s.sym in unused else s) if unused else body


__all__ = ["without_read_copies"]
