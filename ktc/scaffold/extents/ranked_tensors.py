"""Tensors whose number of dimensions is an argument: ``TensorInfo`` of PyTorch, with room for 25 of them, whose members
are the parameters ``x_data``, ``x_sizes_0``, .., ``x_strides_0``, .. and ``x_dims``.

Where the host does not say how many there are, drafts pass elements that lie one after the other in one dimension. Of
the rest of the numbers the kernel then asks for none, and those that it divides an index by, to go on in the next
dimension, are what the index stays below.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ktc.ir.analysis.defs import expand
from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fold import evaluate
from ktc.ir.frontend.lowering.memory.member_arrays import without_member_arrays
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Const, Expr, If, Sym, Var
from ktc.ir.types import I32
from ktc.ir.walk import all_exprs, map_expr, substitute, walk, walk_expr
from ktc.passes.scalar.simplify import simplified

from ..given_values import definitions
from ..roles import Roles


def in_one_dimension(k: Kernel) -> Kernel:
    """``k`` where each such tensor, of which the launch says no more, has one dimension."""
    told = {n for n, _ in (*k.launch.passed, *k.launch.given)} if k.launch is not None else set()
    tensors = [t for t in _ranked(k) if f"{t}_dims" not in told]
    if not tensors:
        return k
    named = {p.sym.name: p.sym for p in k.params}
    members = {s for n, s in named.items() for t in tensors if re.fullmatch(rf"{t}_(sizes|strides)_\d+", n)}
    body = simplified(k.with_(body=substitute(k.body, {named[f"{t}_dims"]: Const(1, I32) for t in tensors})))
    return k.with_(body=without_member_arrays(body, members))


def with_one_dimension(k: Kernel, roles: Roles) -> Roles:
    """``roles`` with the numbers of such tensors of ``k`` (:func:`in_one_dimension`)."""
    fixed, tied = dict[str, int](), dict[str, str]()
    used = {x.sym.name for e in all_exprs(k.body) for x in walk_expr(e) if isinstance(x, Var)}
    for tensor in (t for t in _ranked(k) if f"{t}_dims" not in used | roles.tied.keys() | roles.fixed.keys()):
        first = f"{tensor}_sizes_0"
        members = {p.sym.name for p in k.params if p.sym.name.startswith((f"{tensor}_sizes_", f"{tensor}_strides_"))}
        fixed |= {n: 1 for n in {f"{tensor}_dims", *members} if n != first or first not in used}
        tied |= dict(list(_stayed_below(k, first))[:1])
    gone = {*fixed, *tied}
    kept = [tuple(n for n in names if n not in gone) for names in (roles.sizes, roles.flags)]
    others = {n: e for n, e in roles.tied.items() if n not in gone}
    given = {n: v for n, v in roles.fixed.items() if n not in gone}
    return replace(roles, sizes=kept[0], flags=kept[1], tied={**others, **tied}, fixed={**given, **fixed})


def _ranked(k: Kernel) -> list[str]:
    """The names of such tensors."""
    names = {p.sym.name for p in k.params}
    found = (n.removesuffix("_dims") for n in names if n.endswith("_dims"))
    return sorted(t for t in found if {f"{t}_data", f"{t}_sizes_0", f"{t}_strides_0"} <= names)


def _stayed_below(k: Kernel, extent: str) -> Iterator[tuple[str, str]]:
    """``extent`` with what it is, where ``i % (extent - 1)`` or ``i % extent`` is an index of a row that ``i < n``
    keeps below ``n``: there is no second row in one dimension."""
    given = {s: found[0] for s, found in definitions(k).items()}  # what the index is before it goes on
    asked = (s.cond for s in walk(k.body) if isinstance(s, If))
    below = (c for c in asked if isinstance(c, Binary) and c.op == "<")
    bounds = {_plain(c.a, given): _plain(c.b, given) for c in below}
    for e in (x for whole in all_exprs(k.body) for x in walk_expr(whole)):
        if isinstance(e, Binary) and e.op == "%" and isinstance(n := bounds.get(_plain(e.a, given)), Var):
            by = _plain(e.b, given)
            more = isinstance(by, Binary) and by.op == "-" and evaluate(by.b, {}) == 1
            whole = by.a if isinstance(by, Binary) and more else by
            if isinstance(whole, Var) and whole.sym.name == extent:
                yield extent, f"{n.sym.name} + 1" if more else n.sym.name


def _plain(e: Expr, given: Mapping[Sym, Expr]) -> Expr:
    """``e`` in terms of what variables begin as, without casts."""
    return map_expr(expand(e, given), without_casts)


__all__ = ["in_one_dimension", "with_one_dimension"]
