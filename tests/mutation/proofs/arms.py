"""Branches whose condition decides nothing: both say the same, perhaps with arrays of different sizes that all
subscripts of both are in."""

from __future__ import annotations

from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import Body, For, If, Sym
from ktc.ir.types import Array
from ktc.ir.walk import assigned, declared, rename, used_in, walk
from ktc.search.verification.integers import smt
from ktc.search.verification.rungs.normal_form import normal
from tests.mutation.sites import sites

from .arrays import arrays_of, otherwise_alike, stays_within

SAME = "both branches are the same normal form"


def same_arms(kernel: Kernel, s: If, context: smt.Context) -> str:
    """Why the condition of ``s``, a statement of ``kernel`` that stands in ``context``, decides nothing."""
    if not s.orelse:
        return ""
    pairs = list(zip(arrays_of(s.then), arrays_of(s.orelse)))
    other = rename(s.orelse, {theirs: mine for mine, theirs in pairs if _sizes_alone(mine, theirs)})
    if not same_bodies(kernel, s.then, other):
        return ""
    sized = [(mine, theirs) for mine, theirs in pairs if _sizes_alone(mine, theirs)]
    inside = all(_in_both(s.then, mine, theirs, context) for mine, theirs in sized)
    return (f"{SAME}, but for sizes that no subscript reaches" if sized else SAME) if inside else ""


def same_bodies(kernel: Kernel, a: Body, b: Body) -> bool:
    """Whether two bodies in one place of ``kernel`` have the same normal form, in which what they find has its name."""
    inside = {*declared(a), *declared(b), *(x.var for x in walk((*a, *b)) if isinstance(x, For))}
    params = kernel.params
    found = (used_in(a) | used_in(b) | assigned(a) | assigned(b)) - inside - {p.sym for p in params}
    named = tuple(Param(sym) for sym in sorted(found, key=lambda sym: sym.id))
    one, other = (normal(kernel.with_(params=(*params, *named), body=body)) for body in (a, b))
    return one == other


def _sizes_alone(a: Sym, b: Sym) -> bool:
    """Whether two arrays are different ones of the same kind."""
    one, other = a.type, b.type
    return isinstance(one, Array) and isinstance(other, Array) and one != other and otherwise_alike(one, other)


def _in_both(body: Body, mine: Sym, theirs: Sym, context: smt.Context) -> bool:
    """Whether every subscript of ``mine`` in ``body`` is in both arrays, whichever branch that runs for."""
    shapes = [t.shape for t in (mine.type, theirs.type) if isinstance(t, Array)]
    places = list(sites(body, context.branch()))
    return all(stays_within(at, here, mine, shape) for at, here in places for shape in shapes)


__all__ = ["same_arms"]
