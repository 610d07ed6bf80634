"""Finding launches in host code, and the template arguments they give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pycparser import c_ast

from ktc.ir.diagnostics import KtcError, Loc
from ktc.ir.frontend.context import Scope
from ktc.ir.frontend.lowering.lower_kernel import KernelLowering
from ktc.ir.frontend.meaning.cxx_types import RecordType
from ktc.ir.frontend.meaning.methods import params_of
from ktc.ir.frontend.meaning.name_meanings import LazyVal, PackVal, TypeVal
from ktc.ir.frontend.meaning.template_args import same_argument
from ktc.ir.frontend.meaning.templates import plain_name
from ktc.ir.frontend.meaning.values import RVal, Value
from ktc.ir.frontend.syntax.cxx_ast import Alias, CxxCast, PackExpansion, QualName, TemplateParam
from ktc.ir.frontend.syntax.cxx_ast import Launch as LaunchNode
from ktc.ir.frontend.syntax.program import Entity, name_parts
from ktc.ir.frontend.syntax.variable_uses import init_args
from ktc.ir.types import Scalar

from .host_code import HostFunction, Use, host_functions, uses
from .host_conditions import Condition, assumed, returned
from .host_types import HostTypes, deduced
from .launch_rounds import Rounds
from .launching_functions import names_in

MAX_HOPS = 4
"""How many local variables are followed from a launch to the kernel they stand for."""


@dataclass(frozen=True)
class LaunchSite:
    """One launch: the host function it is in, its syntax, and the host names in scope with their meanings there.

    ``callee`` is the kernel's name with its template arguments. ``node`` is None where the kernel is only named: given
    to a function that launches it.
    """

    function: Entity
    node: LaunchNode | None
    loc: Loc | None
    kernel: str
    env: dict[str, Any] = field(compare=False, repr=False)
    callee: Any = field(compare=False)
    host: HostFunction = field(compare=False, repr=False)
    declared: dict[str, Any] = field(compare=False, repr=False)
    under: tuple[tuple[Any, bool], ...] = field(default=(), compare=False, repr=False)
    """The conditions of every ``if constexpr`` around it, as a ``Use`` has them."""
    reached: tuple[Condition, ...] = field(default=(), compare=False, repr=False)
    """The conditions of every other ``if`` that leads to it, as a ``Use`` has them."""
    first: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """What counters of the loops around it start from, as a ``Use`` has them."""
    rounds: dict[str, Rounds] = field(default_factory=dict, compare=False, repr=False)
    """The values of such counters, as a ``Use`` has them."""

    @property
    def template_args(self) -> list | None:
        return name_parts(self.callee)[2] if isinstance(self.callee, c_ast.ID | QualName) else None


def launch_sites(lowering: KernelLowering, kernel: str | None = None) -> list[LaunchSite]:
    """Launches in the file's host functions, in source order; those of ``kernel`` are followed by other mentions of
    it, which may be launches by way of a function of the host API."""
    sites = [s for u in uses(lowering, frozenset(), launches=True, of=kernel) for s in _launches(lowering, u)]
    if kernel is None:
        return sites
    sites = [s for s in sites if s.kernel == kernel]
    launched = {id(s.callee) for s in sites}
    named = [
        u for u in uses(lowering, frozenset({kernel})) if name_parts(u.node)[1] == kernel and id(u.node) not in launched
    ]
    return sites + [
        LaunchSite(u.function.entity, None, u.loc, kernel, u.env, u.node, u.function, u.declared, u.under, u.reached)
        for u in named
    ]


def _launches(lowering: KernelLowering, use: Use) -> Iterator[LaunchSite]:
    """The launch at ``use``; one for each kernel that its variable may hold, or that a function of the file may return
    that chooses it."""
    held = [(x, env) for node, way in _alternatives(use.node, use.env) for x, env in _returned(lowering, node, way)]
    for node, env in held:
        name = name_parts(node)[1] if isinstance(node, c_ast.ID | QualName) else ""
        yield LaunchSite(
            use.function.entity,
            use.launch,
            use.loc,
            name,
            env,
            node,
            use.function,
            use.declared,
            use.under,
            use.reached,
            use.first,
            use.rounds,
        )


def _alternatives(node: Any, env: dict[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The kernels that a callee may stand for, each with what the names are then: ``bit == 8 ? wide : narrow``."""
    node = _kernel_of(node, env)
    if isinstance(node, c_ast.TernaryOp):
        yield from _alternatives(node.iftrue, assumed(env, node.cond))
        yield from _alternatives(node.iffalse, env)
    else:
        yield node, env


def _returned(lowering: KernelLowering, node: Any, env: dict[str, Any]) -> list[tuple[Any, dict[str, Any]]]:
    """``node``, or what it may return where it is a call of a function of the file that can be followed."""
    return (isinstance(node, c_ast.FuncCall) and [*_chosen(lowering, node, env)]) or [(node, env)]


def _chosen(
    lowering: KernelLowering, call: c_ast.FuncCall, env: dict[str, Any]
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """What ``call`` may return, and what the names at the call are then: ``if (n == 2) return kernel<2>;``."""
    name = call.name.name if isinstance(call.name, c_ast.ID) else ""
    found = [f for f in host_functions(lowering.program) if f.entity.name == name and not f.owner]
    if len(found) != 1:
        return
    try:
        body = found[0].entity.node.body
    except KtcError:
        return
    given = list(zip(params_of(found[0].entity.node), call.args.exprs if call.args is not None else []))
    for node, inside in returned(body, {}):
        passed = {a.name: inside[p.name] for p, a in given if isinstance(a, c_ast.ID) and p.name in inside}
        yield _kernel_of(node, {}), env | passed


def _kernel_of(node: Any, env: dict[str, Any]) -> Any:
    """The kernel's name behind a callee, which may be a local variable: ``auto k = &kernel<float>; k<<<...>>>``."""
    for _ in range(MAX_HOPS):
        while isinstance(node, c_ast.Cast | CxxCast) or (isinstance(node, c_ast.UnaryOp) and node.op in "&*"):
            node = node.expr
        held = env.get(node.name) if isinstance(node, c_ast.ID) else None
        held = held.init if isinstance(held, c_ast.Decl) else held
        values = init_args(held)
        if len(values) != 1:
            break
        node = values[0]
    return node


@contextmanager
def names_of(
    lowering: KernelLowering, function: HostFunction, env: dict[str, Any], host: dict[str, Value]
) -> Iterator[Scope]:
    """The scope at a place of host code: types and constants that ``env`` and the function's class declare, and
    ``host``, the template arguments of the function."""
    with _in_class(lowering, function, host), lowering.scoped(namespace=function.entity.namespace) as scope:
        for name, decl in env.items():
            if isinstance(decl, Alias | c_ast.Typedef) or (isinstance(decl, c_ast.Decl) and decl.init is not None):
                scope.names[name] = LazyVal(partial(_meaning, lowering, scope, name, decl))
        scope.names.update(host)
        yield scope


@contextmanager
def _in_class(lowering: KernelLowering, function: HostFunction, host: dict[str, Value]) -> Iterator[None]:
    """The scope of the class that ``function`` is a method of, as far as its template arguments are known."""
    names = [p.name for p in (function.entity.params or ())[: function.owned]]
    classes = lowering.program.records.get(function.owner, ())
    found = [e for e in classes if e.spec_args is None and (*e.namespace, e.name) == function.entity.namespace]
    if not found or not all(n in host for n in names):
        yield
        return
    bound = {p.name: host[n] for p, n in zip(found[0].params or (), names)}
    t = RecordType(found[0].name, tuple(bound.values()), (found[0], bound))
    with lowering.record_scope(t, found[0], bound, of_host=True):
        yield


def _meaning(lowering: KernelLowering, scope: Scope, name: str, decl: Any) -> Value:
    """The type or constant that ``decl`` declares.

    Raises:
        KtcError: It is neither.
    """
    del scope.names[name]  # its own name means nothing yet where it is declared
    try:
        if isinstance(decl, Alias | c_ast.Typedef):
            value: Value = TypeVal(lowering.resolve(decl.type))
        else:
            values = init_args(decl.init)
            init = values[0] if values else decl.init
            t = lowering.resolve(decl.type) if decl.type is not None else None
            if isinstance(t, RecordType):
                value = lowering.unevaluated(init)
            else:
                value = x = lowering.const_value(init, "a constant")
                if isinstance(t, Scalar) and (c := lowering.constant(lowering.convert(x, t).expr)) is not None:
                    value = RVal(c)
    except KtcError as error:
        scope.names[name] = LazyVal(partial(_raise, error))
        raise
    scope.names[name] = value
    return value


def _raise(error: KtcError) -> Value:
    raise error


def kernel_template_args(
    lowering: KernelLowering,
    entity: Entity,
    site: LaunchSite,
    given: dict[str, Value],
    caller: dict[str, Value] | None = None,
) -> tuple[dict[str, Value], dict[str, Value]] | None:
    """(kernel bindings, host bindings) that make ``site`` launch ``entity`` with the ``given`` arguments.

    ``caller``: template arguments of the host function. Where they are not known, a kernel argument that is a parameter
    of the host template binds that parameter: ``kernel<T>`` in ``template <typename T> void f(...)`` with ``T=half``
    makes the host's ``T`` half too. None if the site launches another instance than the given one.
    """
    host: dict[str, Value] = dict(caller or {})
    out = dict(given)
    host_params = {p.name for p in site.function.params or ()}
    pairs = list(zip(entity.params or (), site.template_args or []))
    for p, a in pairs:
        name = plain_name(a)
        if (
            name is not None
            and name in host_params
            and p.name in out
            and not same_argument(host.setdefault(name, out[p.name]), out[p.name])
        ):
            return None
    with names_of(lowering, site.host, site.env, host):
        if not may_be_there(lowering, site):
            return None
        for p, value in zip_params(entity.params or (), known_args(lowering, site.template_args or [], site.callee)):
            if value is not None and not same_argument(out.setdefault(p.name, value), value):
                return None
        types = HostTypes(lowering, site.declared)
        if site.node is not None:
            deduced(lowering, entity.node, types.of_all(site.node.args), entity.params or (), out)
    return out, host


def may_be_there(lowering: KernelLowering, site: LaunchSite | Use) -> bool:
    """Whether ``site`` is not known to be discarded, or never to be reached, where names mean what they do in an
    instance of its function: under ``if constexpr`` or another ``if``, by what no variable of the host decides."""
    plain = ((c.cond, c.holds) for c in site.reached if not names_in([c.cond]) & site.declared.keys())
    for cond, wanted in (*site.under, *plain):
        try:
            if bool(lowering.const_int(cond, "the condition of an 'if'")) is not wanted:
                return False
        except KtcError:
            continue  # of what the instance does not say
    return True


def known_args(lowering: KernelLowering, args: list, node: Any) -> list[Value | None]:
    """Template arguments as values; None for one that depends on a host template parameter that is not known. After
    a pack that is not known nothing is."""
    out: list[Value | None] = []
    for a in args:
        try:
            out += lowering.template_args([a], node)
        except KtcError:
            if isinstance(a, PackExpansion):
                break
            out.append(None)
    return out


def zip_params(
    params: Sequence[TemplateParam], values: list[Value | None]
) -> Iterator[tuple[TemplateParam, Value | None]]:
    """Parameters with their arguments; a pack takes the rest, when all of it is known."""
    for i, p in enumerate(params):
        if p.pack:
            rest = tuple(v for v in values[i:] if v is not None)
            yield p, PackVal(rest) if len(rest) == len(values[i:]) and (rest or len(values) == i) else None
            return
        if i < len(values):
            yield p, values[i]
