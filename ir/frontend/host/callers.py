"""What a function that launches a kernel is called with: sizes that are parameters of it, as its callers make them.

    void scale_all(const float* x, float* y, int n, cudaStream_t s) { scale<<<(n + 255) / 256, 256, 0, s>>>(x, y, n); }
    void apply(const Tensor* x, Tensor* y) { scale_all(x->data, y->data, x->ne[0] * x->ne[1], stream()); }

Of the launch alone ``n`` is a number. Where all calls in the file make it of others alike, calls are like that: it is
described so for drafts of workloads, as what the launch itself computes is; the launch stays what it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pycparser import c_ast

from ktc.ir.arith.integer_casts import without_implicit_integers
from ktc.ir.frontend.meaning.methods import params_of
from ktc.ir.frontend.syntax.cxx_ast import Launch as LaunchNode
from ktc.ir.kernel import Launch, Param
from ktc.ir.nodes import Const, Expr, Sym
from ktc.ir.text import print_expr
from ktc.ir.types import I64, Scalar
from ktc.ir.walk import substitute_expr, used

from .host_code import Use, host_functions, uses
from .host_launches import HostLaunch
from .launch_math import described
from .launch_sites import LaunchSite
from .launching_functions import names_in, settled, with_arguments

HOPS = 3
"""Functions that call one another which are looked at."""

MOST_CALLS = 8
"""Calls of one function that are looked at: what all of these have in common is what calls are like."""

UNKNOWN = c_ast.ID("")
"""In the place of an argument that is made of more than the function is passed."""


def with_callers(here: HostLaunch, launch: Launch) -> Launch:
    """``launch``, which ``here`` describes, with what the callers of its function say of what it passes."""
    return _with_callers(here, launch, {p.sym for p in here.params if not p.host}, HOPS)


def _with_callers(here: HostLaunch, launch: Launch, own: set[Sym], hops: int) -> Launch:
    """The same, looking through so many functions; ``own``: the kernel's parameters."""
    told = {n for n, _ in (*launch.passed, *launch.given, *launch.reals)}
    views = list(_views(here))
    said = [{n: e for n, e in view.passed() if n not in told and _of_sizes(e)} for view in views]
    handed = [_handed_on(view) for view in views]
    alike = _alike(said, handed)
    reals = _alike([dict(view.reals({*dict(launch.given)} | told)) for view in views], handed)
    units = {n: v for n, v in (views[0].units if views else {}).items() if all(x.units.get(n) == v for x in views)}
    alike |= {n: Const(v, I64) for n, v in units.items() if n not in told}
    launch = _spelled(dataclasses.replace(launch, reals=(*launch.reals, *reals.items())), alike, own)
    return _with_callers(views[0], launch, own, hops - 1) if views and hops > 1 else launch


def _alike(said: Sequence[Mapping[str, Expr]], handed: Sequence[set[str]]) -> dict[str, Expr]:
    """What all calls make alike of what they do not just hand on; ``said``: what each makes."""
    return {
        n: e
        for mine in said
        for n, e in mine.items()
        if all(n in on or (n in other and print_expr(other[n]) == print_expr(e)) for other, on in zip(said, handed))
    }


def _of_sizes(e: Expr) -> bool:
    """Whether ``e`` is made of whole numbers, and is none: ``(int)(n * scale)`` is no formula of sizes."""
    return not isinstance(e, Const) and all(isinstance(s.type, Scalar) and s.type.is_int for s in used(e))


def _spelled(launch: Launch, alike: Mapping[str, Expr], own: set[Sym]) -> Launch:
    """``launch`` with numbers of the function as its callers make them in what it passes, and with what they make of
    other parameters; what comes to a number is given."""
    asked = {s for _, e in launch.passed for s in used(e) if s.name in alike} - own
    of_host = {s: alike[s.name] for s in asked}
    spelled = {n: without_implicit_integers(described(substitute_expr(e, of_host))) for n, e in launch.passed}
    spelled |= dict(alike)
    names = {s.name for s in own}
    given = tuple((n, int(e.value)) for n, e in spelled.items() if isinstance(e, Const) and n in names)
    passed = tuple((n, e) for n, e in spelled.items() if not isinstance(e, Const))
    of_host = {s: alike[s.name] for _, e in launch.reals for s in used(e) - own if s.name in alike}
    reals = tuple((n, substitute_expr(e, of_host)) for n, e in launch.reals)
    return dataclasses.replace(launch, passed=passed, given=(*launch.given, *given), reals=reals)


def _handed_on(view: HostLaunch) -> set[str]:
    """The parameters for which a caller hands on what it is passed itself, of which it says nothing."""
    own = {p.name for p in params_of(view.site.function.node) if getattr(p, "name", None)} - view.site.env.keys()
    return {p.sym.name for p, a in view.pairs() if isinstance(a, c_ast.ID) and a.name in own}


def _views(here: HostLaunch) -> Iterator[HostLaunch]:
    """The launch as each call of its function makes it, in terms of the caller."""
    function = here.site.function.node
    named = [f for f in host_functions(here.lowering.program) if f.entity.name == function.name]
    found = uses(here.lowering, frozenset({function.name})) if len(named) == 1 else []
    for use in [u for u in found if u.call is not None][:MOST_CALLS]:
        if use.function.entity is not here.site.function:
            yield _seen_from(here, use)


def _seen_from(here: HostLaunch, use: Use) -> HostLaunch:
    site, own = here.site, [p.name for p in params_of(here.site.function.node) if getattr(p, "name", None)]
    given = dict(zip(own, use.call or ()))
    numbers = {n: s for n, s in here.host.items() if n in given}
    args = [_passed(a, site, given) for a in (site.node.args if site.node is not None else ())]
    node = LaunchNode(site.callee, [], [*args, *(given[n] for n in numbers)], coord=use.node.coord)
    function, host = use.function.entity, use.function
    there = LaunchSite(function, node, use.loc, site.kernel, use.env, site.callee, host, use.declared, first=use.first)
    params = tuple(p for p in here.params if not p.host) + tuple(map(Param, numbers.values()))
    whole = (*here.whole, *(s.name for s in numbers.values()))
    return HostLaunch(here.lowering, there, params, here.bindings, here.instance, whole)


def _passed(arg: Any, site: LaunchSite, given: dict[str, Any]) -> Any:
    """``arg`` of the launch as the caller has it, which has ``given`` arguments for the function's parameters."""
    (arg,) = settled([arg], site.env, given)
    local = {n for n in (*site.env, *site.declared) if n not in given}
    if names_in([arg]) & {*local, *site.env}:  # a variable of the function, or a parameter that it has changed
        return UNKNOWN
    return with_arguments(arg, given)


__all__ = ["with_callers"]
