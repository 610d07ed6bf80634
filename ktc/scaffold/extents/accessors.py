"""Tensors that a kernel gets with their extents and strides: ``x[n][i]`` of a ``PackedTensorAccessor``, whose members
are the parameters ``x_ptr``, ``x_sizes_0``, ``x_strides_0``, ..

Such a tensor has as many elements as its extents say, however few of them a run reaches. Dimensions that are indexed by
one variable are as long as each other, ``x[n][i] - y[n][j]``: a kernel asks one of the two how long it is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from ktc.ir.analysis.defs import expand
from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Expr, Load, Sym, Var
from ktc.ir.walk import walk_expr

from ..given_values import definitions
from ..inner_strides import accesses, addends, kept_below
from ..probe import Prober, Seen
from ..roles import Roles
from ..shapes import Extent
from ..windows import names_in


def extents_of(k: Kernel) -> dict[str, tuple[str, ...]]:
    """The buffers that are such tensors, with the parameters that say their extents, the outermost first."""
    names = {p.sym.name for p in k.params}
    found = {}
    for pointer in (n for n in names if n.endswith("_ptr")):
        tensor = pointer.removesuffix("_ptr")
        sizes = [f"{tensor}_sizes_{d}" for d in range(len(names))]
        dims = next((d for d, n in enumerate(sizes) if n not in names), 0)
        if dims and all(f"{tensor}_strides_{d}" in names for d in range(dims)):
            found[pointer] = tuple(sizes[:dims])
    return found


def equal_extents(k: Kernel, roles: Roles) -> dict[str, str]:
    """Extents that are those of another tensor, with that one's: the first that the kernel asks for."""
    tensors = extents_of(k)
    order = [n for p in k.params for n in tensors.get(p.sym.name, ())]
    by_index: dict[Sym, set[str]] = {}
    for size, index in _indexed(k, tensors):
        by_index.setdefault(index, set()).add(size)
    groups: list[set[str]] = []
    for mine in by_index.values():
        joined = [g for g in groups if g & mine]
        groups = [*(g for g in groups if g not in joined), set().union(mine, *joined)]
    ties: dict[str, str] = {}
    for group in groups:
        told = [n for n in order if n in group and n in roles.tied and not group & {*names_in(roles.tied[n])}]
        asked = told + [n for n in order if n in group and n in roles.sizes]
        ties |= {n: asked[0] for n in group if asked and n != asked[0] and n not in roles.tied}
    return ties


def indexed_extent(k: Kernel, buffer: str, probe: Prober) -> str:
    """The extent of a dimension that elements of ``buffer`` index, as ``probe`` knows it; '' where they index none."""
    tensors, given = extents_of(k), definitions(k)
    for size, index in _indexed(k, tensors) if tensors else ():
        values = [without_casts(e) for e in given.get(index, ())]
        if len(values) == 1 and isinstance(x := values[0], Load) and x.buffer.name == buffer:
            return str(probe.meaning(size))
    return ""


def counted_extent(k: Kernel, buffer: str, probe: Prober) -> str:
    """The extent of a dimension of which elements of ``buffer`` say how much is used, as ``probe`` knows it, ``n`` of
    ``for (j = 0; j < lengths[b]; ++j) .. x[b][j]``; '' where there is none."""
    tensors = extents_of(k)
    below = kept_below(k, k.param(buffer).sym, definitions(k)) if tensors else set()
    return next((str(probe.meaning(size)) for size, index in _indexed(k, tensors) if index in below), "")


def with_equal_extents(k: Kernel, roles: Roles) -> Roles:
    """``roles`` with such extents as no sizes of their own."""
    ties = equal_extents(k, roles)
    kept = [tuple(n for n in names if n not in ties) for names in (roles.sizes, roles.flags)]
    return replace(roles, sizes=kept[0], flags=kept[1], tied={**roles.tied, **ties}) if ties else roles


def with_contiguous(k: Kernel, roles: Roles) -> Roles:
    """``roles`` with such strides as the host does not tell being those of elements that lie one after the other, and
    the extents that these are made of being sizes."""
    open_ = {*roles.sizes, *roles.flags} - {*roles.tied, *roles.fixed}
    ties, fixed = dict[str, str](), dict[str, int]()
    for pointer, sizes in extents_of(k).items():
        for d in range(len(sizes)):
            name = f"{pointer.removesuffix('_ptr')}_strides_{d}"
            if name in open_ and sizes[d + 1 :]:
                ties[name] = " * ".join(sizes[d + 1 :])
            elif name in open_:
                fixed[name] = 1
    gone = {*ties, *fixed}
    extents = {n for text in ties.values() for n in names_in(text)}
    sizes = (*roles.sizes, *(n for n in roles.flags if n in extents))
    kept = [tuple(n for n in sizes if n not in gone), tuple(n for n in roles.flags if n not in gone | extents)]
    tied, given = {**roles.tied, **ties}, {**roles.fixed, **fixed}
    return replace(roles, sizes=kept[0], flags=kept[1], tied=tied, fixed=given) if gone else roles


def whole_tensors(k: Kernel, probe: Prober, seen: Sequence[Seen], names: Collection[str]) -> dict[str, Extent]:
    """The extents of the buffers that are such tensors, where ``names``, sizes, say them all and nothing beyond was
    reached."""
    found = {}
    for b, sizes in extents_of(k).items():
        texts = [probe.meaning(n) for n in sizes]
        factors = tuple(t if t.isidentifier() else f"({t})" for t in texts if isinstance(t, str))
        if len(factors) == len(texts) and {n for f in factors for n in names_in(f)} <= {*names}:
            whole = Extent(factors, exact=True)
            if all(s.extent(b) <= whole.value(s.sizes) for s in seen):
                found[b] = whole
    return found


def _indexed(k: Kernel, tensors: dict[str, tuple[str, ...]]) -> Iterator[tuple[str, Sym]]:
    """Extents with the variables that index their dimensions."""
    offsets = {s: e for s, (e, *others) in definitions(k).items() if not others and _is_offset(e)}
    for buffer, place in ((b, p) for b, p in accesses(k) if b in tensors):
        stride = re.compile(rf"{buffer.removesuffix('_ptr')}_strides_(\d+)")
        for term in addends(expand(place, offsets), {}):
            sides = [without_casts(x) for x in (term.a, term.b)] if isinstance(term, Binary) and term.op == "*" else []
            for n, v in (sides, sides[::-1]) if sides else ():
                if isinstance(n, Var) and isinstance(v, Var) and (told := stride.fullmatch(n.sym.name)):
                    yield tensors[buffer][int(told[1])], v.sym


def _is_offset(e: Expr) -> bool:
    """Whether ``e`` says how far into a tensor a pointer has moved on, or is but another variable."""
    parts = list(walk_expr(e))
    strides = any(isinstance(x, Var) and "_strides_" in x.sym.name for x in parts)
    return isinstance(without_casts(e), Var) or (strides and not any(isinstance(x, Load) for x in parts))


__all__ = ["counted_extent", "indexed_extent", "whole_tensors", "with_contiguous", "with_equal_extents"]
