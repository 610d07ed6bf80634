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
from ktc.ir.frontend.lowering.lower_kernel import KernelLowering
from ktc.ir.frontend.meaning.methods import params_of
from ktc.ir.frontend.syntax.cxx_ast import Launch as LaunchNode
from ktc.ir.kernel import Launch, Param
from ktc.ir.nodes import Const, Expr, Sym, fresh
from ktc.ir.text import print_expr
from ktc.ir.types import I64, U32, Scalar
from ktc.ir.walk import substitute_expr, used

from .host_code import HostFunction, Use, host_functions, uses
from .launch_sites import LaunchSite
from .launches.host_launches import HostLaunch
from .launches.launch_math import described
from .launches.numbers_as_sizes import with_numbers_as_sizes
from .launches.struct_arguments import told
from .launching_functions import names_in, settled, with_arguments

HOPS = 3
"""Functions that call one another which are looked at."""

MOST_CALLS = 8
"""Calls of one function that are looked at: what all of these have in common is what calls are like."""

UNKNOWN = c_ast.ID("")
"""In the place of an argument that is made of more than the function is passed."""


def with_callers(here: HostLaunch, launch: Launch, elsewhere: Sequence[KernelLowering] = ()) -> Launch:
    """``launch``, which ``here`` describes, with what the callers of its function, in its file or ``elsewhere``, say of
    what it passes, and of the extents that it is passed."""
    own = {p.sym for p in here.params if not p.host}
    found = _with_callers(here, launch, own, elsewhere, HOPS)
    kept = {*launch.passed, *(x for x in found.passed if _says_more(x, found, {s.name for s in own}))}
    passed = tuple(x for x in found.passed if x in kept)
    return dataclasses.replace(found, passed=passed, allocated=(*launch.allocated, *_allocated(here, launch, own)))


def _allocated(here: HostLaunch, launch: Launch, own: set[Sym]) -> list[tuple[str, Expr]]:
    """What the callers of the function allocate for buffers that it does not, all alike, by the sizes that they pass:
    numbers of theirs are some of those."""
    told = {n for n, _ in launch.allocated}
    views = [_with_site(view, with_numbers_as_sizes(view.site)) for view in _views(here, ())]
    said = [{n: e for n, e in view.allocated() if n not in told and used(e) <= own} for view in views]
    return [(n, e) for n, e in _alike(said, [set() for _ in said]).items() if all(n in mine for mine in said)]


def _with_site(view: HostLaunch, site: LaunchSite) -> HostLaunch:
    return HostLaunch(view.lowering, site, view.params, view.bindings, view.instance, view.whole)


def numbers_passed(here: HostLaunch) -> dict[str, int]:
    """The integers that the launch which ``here`` describes passes as numbers, for the kernel's parameters and of what
    its host functions are passed, by the first call of each."""
    found: dict[str, int] = {}
    for _ in range(HOPS):
        found = here.numbers(()) | found
        views = list(_views(here, ()))
        if not views:
            break
        here = views[0]
    return found


def _says_more(passed: tuple[str, Expr], launch: Launch, own: set[str]) -> bool:
    """Whether what callers pass is about a parameter of the kernel, or made of those and of what those are made of: a
    number of blocks of numbers that nothing else is made of is no less unknown than it was."""
    name, e = passed
    told = {s.name for n, x in launch.passed if n in own for s in used(x)}
    return name in own or {s.name for s in used(e)} <= own | told


def _with_callers(
    here: HostLaunch, launch: Launch, own: set[Sym], elsewhere: Sequence[KernelLowering], hops: int
) -> Launch:
    """The same, looking through so many functions; ``own``: the kernel's parameters."""
    told = {n for n, _ in (*launch.passed, *launch.given, *launch.reals)}
    views = list(_views(here, elsewhere))
    said = [{n: e for n, e in view.passed() if n not in told and _of_sizes(e)} for view in views]
    handed = [_handed_on(view) for view in views]
    alike = _alike(said, handed)
    reals = _alike([dict(view.reals({*dict(launch.given)} | told)) for view in views], handed)
    for numbers in ([view.units for view in views], [view.numbers(own) for view in views]):
        same = {n: v for n, v in (numbers[0] if numbers else {}).items() if all(x.get(n) == v for x in numbers)}
        alike |= {n: Const(v, I64) for n, v in same.items() if n not in told}
    launch = _spelled(dataclasses.replace(launch, reals=(*launch.reals, *reals.items())), alike, own)
    if not views or hops == 1:
        return launch
    onward = next((view for view, on in zip(views, handed) if on), views[0])
    return _with_callers(onward, launch, own, elsewhere, hops - 1)


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
    names, extents = {s.name for s in own}, {s.name for e in (*launch.grid, *launch.block) for s in used(e)}
    asked = {s for _, e in launch.passed for s in used(e) if s.name in alike} - own
    of_host = {s: alike[s.name] for s in asked}
    spelled = {n: without_implicit_integers(described(substitute_expr(e, of_host))) for n, e in launch.passed}
    spelled |= {n: e for n, e in alike.items() if n in names | extents | {s.name for s in asked}}
    given = tuple(
        (n, int(e.value)) for n, e in spelled.items() if isinstance(e, Const) and (n in names or n in extents)
    )
    passed = tuple((n, e) for n, e in spelled.items() if not isinstance(e, Const))
    of_host = {s: alike[s.name] for _, e in launch.reals for s in used(e) - own if s.name in alike}
    reals = tuple((n, substitute_expr(e, of_host)) for n, e in launch.reals)
    return dataclasses.replace(launch, passed=passed, given=(*launch.given, *given), reals=reals)


def _handed_on(view: HostLaunch) -> set[str]:
    """The parameters for which a caller hands on what it is passed itself, of which it says nothing."""
    own = {p.name for p in params_of(view.site.function.node) if getattr(p, "name", None)} - view.site.env.keys()
    pairs = ((p, a.name if isinstance(a, c_ast.StructRef) else a) for p, a in view.pairs())
    return {p.sym.name for p, a in pairs if isinstance(a, c_ast.ID) and a.name in own}


def _views(here: HostLaunch, elsewhere: Sequence[KernelLowering]) -> Iterator[HostLaunch]:
    """The launch as each call of its function makes it, in terms of the caller; a header's once for all files."""
    function = here.site.function.node
    named = [f for low in (here.lowering, *elsewhere) for f in _called(low, function.name)]
    of = {(f.owner, *(getattr(p, "name", None) for p in params_of(f.entity.node))) for f in named}
    if len(of) > 1 or (len(named) > 1 and any(f.owner for f in named)):
        return  # methods, and overloads but for those that differ in elements
    seen: dict[str, tuple[KernelLowering, Use]] = {}
    for low in (here.lowering, *elsewhere):
        for use in uses(low, frozenset({function.name})):
            if use.call is not None and use.function.entity.node is not function:
                seen.setdefault(str(use.loc), (low, use))
    for low, use in [*seen.values()][:MOST_CALLS]:
        yield _seen_from(here, low, use)


def _called(lowering: KernelLowering, name: str) -> list[HostFunction]:
    """The functions of a file that are called so."""
    return [f for f in host_functions(lowering.program) if f.entity.name == name]


def _seen_from(here: HostLaunch, lowering: KernelLowering, use: Use) -> HostLaunch:
    site, own = here.site, [p.name for p in params_of(here.site.function.node) if getattr(p, "name", None)]
    given = dict(zip(own, use.call or ()))
    numbers = {n: s for n, s in here.host.items() if n in given or _extent_of(n, given) is not None}
    handed = [given.get(n) or _extent_of(n, given) for n in numbers]
    args = [_passed(a, site, given) for a in (site.node.args if site.node is not None else ())]
    args = [_extent_there(a, use) for a in (*args, *handed)]
    node = LaunchNode(site.callee, [], args, coord=use.node.coord)
    function, host = use.function.entity, use.function
    there = LaunchSite(function, node, use.loc, site.kernel, use.env, site.callee, host, use.declared, first=use.first)
    params = tuple(p for p in here.params if not p.host) + tuple(map(Param, numbers.values()))
    whole = (*here.whole, *(s.name for s in numbers.values()))
    return HostLaunch(lowering, there, params, here.bindings, here.instance, whole)


def _extent_of(name: str, given: Mapping[str, Any]) -> Any:
    """``grid.x`` of the ``dim3`` that is passed for ``grid``, for ``grid_x``; None where nothing is."""
    whole, _, axis = name.rpartition("_")
    return c_ast.StructRef(given[whole], ".", c_ast.ID(axis)) if whole in given and axis in ("x", "y", "z") else None


def _extent_there(arg: Any, use: Use) -> Any:
    """What the caller at ``use`` has made the extent ``arg`` of a ``dim3`` of; any other argument as it is."""
    if not isinstance(arg, c_ast.StructRef) or not isinstance(arg.field, c_ast.ID) or arg.field.name not in "xyz":
        return arg
    axes = [Param(fresh(f"extents_{axis}", U32)) for axis in "xyz"]
    made = told([("extents", p, arg.name) for p in axes], use.env, lambda *_: None)
    return {p.sym.name[-1]: node for p, node in made}.get(arg.field.name, arg)


def _passed(arg: Any, site: LaunchSite, given: dict[str, Any]) -> Any:
    """``arg`` of the launch as the caller has it, which has ``given`` arguments for the function's parameters."""
    (arg,) = settled([arg], site.env, given)
    local = {n for n in (*site.env, *site.declared) if n not in given}
    if names_in([arg]) & {*local, *site.env}:  # a variable of the function, or a parameter that it has changed
        return UNKNOWN
    return with_arguments(arg, given)


__all__ = ["numbers_passed", "with_callers"]
