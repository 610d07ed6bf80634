"""unprivatize-atomics: counts that each block keeps in shared memory and adds to an array become updates of the array.

before                                              after unprivatize-atomics{array=own}
    par b in 0..blocks @ [block.x]                      par b in 0..blocks @ [block.x]
      array own: shared u32[256]                          par t in 0..256 @ [thread.x 256]
      par k in 0..256 @ [thread.x 256]                      for i = b * 256 + t; i < n; i + blocks * 256
        own[k] = 0                                            atomic add count[x[i]], 1
      par t in 0..256 @ [thread.x 256]
        for i = b * 256 + t; i < n; i + blocks * 256
          atomic add own[x[i]], 1
      par m in 0..256 @ [thread.x 256]
        atomic add count[m], own[m]

The source's choice of how many blocks count, and of how they do it, is gone then: ``collapse`` makes one loop of those
that are left, and ``privatize-atomics`` gives each block of a new schedule counts of its own.

Legal where the block's array is cleared as a whole, then only updated by one operation, which is associative and
commutative and whose old value nobody wants, and then added as a whole, by the same operation, to an array that the
kernel does not touch otherwise. Floating-point sums change their order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass

from ktc.ir.analysis.accumulators import identity
from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.order import places
from ktc.ir.arith.integer_casts import without_casts, without_index_casts
from ktc.ir.arith.polynomial import same_value
from ktc.ir.atomic_ops import ATOMIC_OF, COMBINED_BY
from ktc.ir.fold import cast, is_const, simplify
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Atomic, Binary, Body, Decl, Expr, If, Load, Par, Stmt, Store, Sym, Var
from ktc.ir.types import Array, Ptr, Scalar, scalar_of
from ktc.ir.walk import loads_in, map_body, substitute_expr, used, used_in, walk
from ktc.passes.core.argument_kinds import Arrays
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.refusals import Refusal, Result, allowed


@dataclass(frozen=True)
class Arguments:
    array: Arrays = required("the array in shared memory that each block counts in")


class UnprivatizeAtomics(Pass[Arguments]):
    name = "unprivatize-atomics"
    summary = "counts that each block keeps for itself become updates of the array that they are added to"
    refusals = ("E-UNPRIVATIZE-NONE", "E-UNPRIVATIZE-USED", "E-UNPRIVATIZE-WHOLE", "E-UNPRIVATIZE-TARGET")
    flags = ("reassociates",)

    def sites(self, kernel: Kernel) -> list[Site]:
        """One for each array that blocks count in."""
        names = [s.sym.name for s in walk(kernel.body) if isinstance(s, Alloc)] if kernel.is_parallel else []
        doc = "the array is updated directly: how many blocks count, and how, is open again"
        return [Site(self.step(array=n), doc) for n in names if allowed(counts_of, kernel, n)]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        found = counts_of(kernel, args.array.name)
        flags = kernel.flags | ({"reassociates"} if found.element.is_float else set())
        done = kernel.with_(body=_direct(kernel.body, found), flags=flags)
        return Result(done, (f"{found.own.name}: updates of {found.merge.buffer.name}",))


@dataclass(frozen=True)
class Counts:
    """``own``: the array of a block, of ``element``s; ``alloc``, ``clear``, ``flush``: the statements that declare it,
    clear it and add it to another array; ``merge``: the update that adds its element ``flush.var``, names spelled out.
    """

    own: Sym
    element: Scalar
    alloc: Alloc
    clear: Par
    flush: Par
    merge: Atomic


def counts_of(kernel: Kernel, name: str) -> Counts:
    """What blocks count in their array called ``name``.

    Raises:
        Refusal: it is no such array.
    """
    found = [
        (p, s)
        for p in walk(kernel.body)
        if isinstance(p, Par) and p.dist and all(lv.kind in ("block", "seq") for lv in p.dist)
        for s in p.body
        if isinstance(s, Alloc) and s.sym.name == name
    ]
    if len(found) != 1:
        raise Refusal("E-UNPRIVATIZE-NONE", f"'{name}' is not one array of each block")
    ((block, alloc),) = found
    own, t = alloc.sym, alloc.sym.type
    if not isinstance(t, Array) or t.space != "shared" or len(t.shape) != 1 or not isinstance(t.elem, Scalar):
        raise Refusal("E-UNPRIVATIZE-NONE", f"'{name}' is not a row of numbers in shared memory", places(alloc))
    users = [s for s in block.body if s is not alloc and own in used_in((s,))]
    clear, flush = (users[0], users[-1]) if len(users) > 2 else (None, None)
    if not (_covers(clear, t) and _covers(flush, t)):
        why = f"'{name}' is not cleared as a whole at first, then updated, and added as a whole to an array at last"
        raise Refusal("E-UNPRIVATIZE-WHOLE", why, places(alloc))
    assert isinstance(clear, Par) and isinstance(flush, Par)
    merge = _merge(flush, own, t.elem)
    if merge is None or not _is_store_of(clear, own, identity(COMBINED_BY[merge.op], t.elem)):
        why = f"'{name}' is not cleared to what its updates start from, or not added to an array by such an update"
        raise Refusal("E-UNPRIVATIZE-WHOLE", why, places(clear, flush))
    _only_updates(tuple(users[1:-1]), own, merge)
    _is_free(kernel, flush, merge)
    return Counts(own, t.elem, alloc, clear, flush, merge)


def _covers(s: Stmt | None, t: Array) -> bool:
    """Whether ``s`` is a parallel loop over all elements of an array of the type ``t``."""
    return isinstance(s, Par) and is_const(s.lo, 0) and same_value(s.hi, t.shape[0])


def _is_store_of(clear: Par, own: Sym, value: Expr) -> bool:
    if len(clear.body) != 1 or not isinstance(s := clear.body[0], Store):
        return False
    at_own = s.buffer == own and s.width == 1 and without_index_casts(s.index[0]) == Var(clear.var)
    return at_own and without_casts(simplify(s.value)) == without_casts(value)


def _merge(flush: Par, own: Sym, element: Scalar) -> Atomic | None:
    """The update of another array by the element ``flush.var`` of ``own``, be it only where there is something to add;
    None if ``flush`` does anything else."""
    *before, last = flush.body
    names = definitions(flush.body, loads=True)
    if not all(isinstance(s, Decl) and s.sym in names for s in before):
        return None
    kept = None
    if isinstance(last, If) and len(last.then) == 1 and not last.orelse:
        kept, (last,) = expand(last.cond, names), last.then
    if not isinstance(last, Atomic) or last.op not in ATOMIC_OF.values() or last.dst is not None:
        return None
    value = expand(last.value, names)
    if not isinstance(value, Load) or value.buffer != own or without_index_casts(value.index[0]) != Var(flush.var):
        return None
    nothing = identity(COMBINED_BY[last.op], element)
    if kept is not None and not _differs(kept, value, nothing):
        return None
    return dataclasses.replace(last, index=tuple(expand(e, names) for e in last.index), value=value)


def _differs(cond: Expr, value: Expr, nothing: Expr) -> bool:
    """Whether ``cond`` holds where ``value`` is not ``nothing``: it compares the two, or what is unsigned with 0."""
    if (
        not isinstance(cond, Binary)
        or without_index_casts(cond.a) != value
        or without_casts(cond.b) != without_casts(nothing)
    ):
        return False
    t = value.type
    return cond.op == "!=" or (cond.op == ">" and isinstance(t, Scalar) and t.kind == "uint" and is_const(nothing, 0))


def _only_updates(body: Body, own: Sym, merge: Atomic) -> None:
    """Nothing happens to ``own`` in ``body`` but updates by the operation of ``merge``, or they are refused."""

    def rest(s: Stmt) -> Stmt | None:
        return None if isinstance(s, Atomic) and s.buffer == own and s.op == merge.op and s.dst is None else s

    asked = {
        v for s in walk(body) if isinstance(s, Atomic) and s.buffer == own for e in (*s.index, s.value) for v in used(e)
    }
    if own in used_in(map_body(body, rest)) or own in asked:
        why = f"'{own.name}' is read between its updates, or updated by another operation than '{merge.op}'"
        raise Refusal("E-UNPRIVATIZE-USED", why, places(*body))


def _is_free(kernel: Kernel, flush: Par, merge: Atomic) -> None:
    """What ``merge`` updates may be updated anywhere in the loop over blocks instead, or it is refused."""
    target, locs = merge.buffer, places(merge)
    rest = map_body(kernel.body, lambda s: None if isinstance(s, Par) and s.var == flush.var else s)
    if not isinstance(target.type, Ptr) or target in used_in(rest):
        raise Refusal("E-UNPRIVATIZE-TARGET", f"'{target.name}' is no buffer that nothing else touches", locs)
    own = scalar_of(merge.value.type) if isinstance(merge.value.type, Scalar) else None
    if scalar_of(target.type) != own:
        raise Refusal("E-UNPRIVATIZE-TARGET", f"'{target.name}' holds other numbers than '{merge.value}'", locs)
    fixed = {flush.var, *(p.sym for p in kernel.params), *_around(kernel.body, flush)}
    if any(True for e in merge.index for _ in loads_in(e)) or any(used(e) - fixed for e in merge.index):
        why = f"which element of '{target.name}' is updated is not known before the end"
        raise Refusal("E-UNPRIVATIZE-TARGET", why, locs)


def _around(body: Body, flush: Par) -> Collection[Sym]:
    """The variables of the parallel loops around ``flush``."""
    return {
        s.var for s in walk(body) if isinstance(s, Par) and s.var != flush.var and any(x is flush for x in walk(s.body))
    }


def _direct(body: Body, found: Counts) -> Body:
    """``body`` with updates of the array that ``found`` was added to."""
    gone = {id(found.alloc)}
    dropped = {found.clear.var, found.flush.var}

    def on(s: Stmt) -> Stmt | None:
        if id(s) in gone or (isinstance(s, Alloc) and s.sym == found.own) or (isinstance(s, Par) and s.var in dropped):
            return None
        if not isinstance(s, Atomic) or s.buffer != found.own:
            return s
        t = found.flush.var.type
        assert isinstance(t, Scalar)
        at = {found.flush.var: cast(s.index[0], t)}
        index = tuple(substitute_expr(e, at) for e in found.merge.index)
        order, scope = found.merge.order, found.merge.scope
        return dataclasses.replace(s, buffer=found.merge.buffer, index=index, order=order, scope=scope)

    return map_body(body, on)
