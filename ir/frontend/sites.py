"""Finding launches in host code, and the template arguments they give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pycparser import c_ast

from ..diagnostics import KtcError, Loc
from .arrays import init_args
from .cxx_ast import Alias, Function, Lambda, NamedType, QualName
from .cxx_ast import Launch as LaunchNode
from .facts import mutates
from .launch_args import deduced_args
from .lower import KernelLowering
from .methods import params_of
from .program import Entity, name_parts
from .syntax_walk import children
from .values import Value

NOTHING: Mapping[str, Value] = MappingProxyType({})


@dataclass(frozen=True)
class LaunchSite:
    """One launch: the host function it is in, its syntax, and the host names in scope with their meanings there.

    ``declared`` are the declarations of the names in scope, types included, whatever happened to them since.
    """

    function: Entity
    node: LaunchNode
    loc: Loc | None
    kernel: str
    env: dict[str, Any] = field(compare=False, repr=False)
    declared: dict[str, Any] = field(compare=False, repr=False)

    @property
    def template_args(self) -> list | None:
        return name_parts(self.node.callee)[2] if not isinstance(self.node.callee, c_ast.StructRef) else None


def launch_sites(lowering: KernelLowering, kernel: str | None = None) -> list[LaunchSite]:
    """Launches in the file's host functions, in source order."""
    sites: list[LaunchSite] = []
    for entities in lowering.program.functions.values():
        for e in entities:
            fn = e.node
            if not isinstance(fn, Function) or fn.passed_over or fn.body is None or e.is_kernel:
                continue
            if _has_launch(fn.body):
                named = {p.name: p for p in params_of(fn) if getattr(p, "name", None)}
                _walk_host(lowering, e, fn.body.block_items or [], {}, named, sites)
    return [s for s in sites if kernel is None or s.kernel == kernel]


def _has_launch(node: Any) -> bool:
    stack = [node]
    while stack:
        n = stack.pop()
        if isinstance(n, LaunchNode):
            return True
        stack.extend(_children(n))
    return False


def _children(n: Any):
    if isinstance(n, Lambda):
        yield n.body
        return
    yield from children(n)


def _walk_host(
    lowering: KernelLowering,
    e: Entity,
    items: list,
    env: dict[str, Any],
    declared: dict[str, Any],
    sites: list[LaunchSite],
) -> None:
    """Follow statements in order; ``env`` maps a name to its declaration, or to None once it cannot be followed."""
    for item in items:
        if isinstance(item, c_ast.Decl | c_ast.Typedef | Alias) and item.name:
            declared[item.name] = item
        if isinstance(item, c_ast.Decl) and not isinstance(item.type, c_ast.FuncDecl):
            env[item.name] = item
        elif isinstance(item, c_ast.Assignment) and item.op == "=" and isinstance(item.lvalue, c_ast.ID):
            old = env.get(item.lvalue.name)
            typ = old.type if isinstance(old, c_ast.Decl) else None
            env[item.lvalue.name] = (
                c_ast.Decl(item.lvalue.name, [], [], [], [], typ, item.rvalue, None) if typ is not None else item.rvalue
            )
        elif (
            isinstance(item, c_ast.Assignment)
            and isinstance(item.lvalue, c_ast.StructRef)
            and isinstance(item.lvalue.name, c_ast.ID)
        ):
            env[f"{item.lvalue.name.name}.{item.lvalue.field.name}"] = item.rvalue
        if isinstance(item, LaunchNode) or _has_launch(item):
            _find_launches(lowering, e, item, env, declared, sites)
        if not isinstance(item, c_ast.Decl | c_ast.Assignment):
            for name in [n for n in env if "." not in n]:
                if mutates(item, name):
                    env[name] = None


def _find_launches(
    lowering: KernelLowering,
    e: Entity,
    item: Any,
    env: dict[str, Any],
    declared: dict[str, Any],
    sites: list[LaunchSite],
) -> None:
    if isinstance(item, LaunchNode):
        name = name_parts(item.callee)[1] if isinstance(item.callee, c_ast.ID | QualName) else ""
        sites.append(LaunchSite(e, item, lowering.place(item), name, dict(env), dict(declared)))
        return
    if isinstance(item, c_ast.Compound):
        _walk_host(lowering, e, item.block_items or [], dict(env), dict(declared), sites)
        return
    for c in _children(item):
        if isinstance(c, c_ast.Compound):
            _walk_host(lowering, e, c.block_items or [], dict(env), dict(declared), sites)
        elif _has_launch(c):
            _find_launches(lowering, e, c, dict(env), dict(declared), sites)


def kernel_template_args(
    lowering: KernelLowering,
    entity: Entity,
    site: LaunchSite,
    given: dict[str, Value],
    host: Mapping[str, Value] = NOTHING,
) -> tuple[dict[str, Value], dict[str, Value]] | None:
    """(kernel bindings, host bindings) that make ``site`` launch ``entity`` with the ``given`` arguments.

    A kernel argument that is a parameter of the host template binds that parameter: ``kernel<T>`` in
    ``template <typename T> void f(...)`` with ``T=half`` makes the host's ``T`` half too. ``host`` are parameters of
    the host template that are known beforehand. Arguments that the launch leaves out are deduced from what it passes.
    None if the site launches another instance than the given one.
    """
    host = dict(host)
    out = dict(given)
    host_params = {p.name for p in site.function.params or ()}
    pairs = list(zip(entity.params or (), site.template_args or []))
    for p, a in pairs:
        name = _simple_name(a)
        if (
            name is not None
            and name in host_params
            and p.name in out
            and host.setdefault(name, out[p.name]) != out[p.name]
        ):
            return None
    with lowering.scoped(namespace=site.function.namespace) as scope:
        scope.names.update(host)
        for decl in site.env.values():
            if isinstance(decl, c_ast.Decl) and decl.init is not None:
                try:
                    scope.names.setdefault(decl.name, lowering.const_value(init_args(decl.init)[0], "a constant"))
                except (KtcError, IndexError):
                    continue
        for p, a in pairs:
            try:
                value = lowering.template_args([a], site.node)[0]
            except KtcError:
                continue  # depends on a host template parameter that is not known
            if out.setdefault(p.name, value) != value:
                return None
        out = deduced_args(lowering, entity, site.node, site.declared, out) | out
    return out, host


def _simple_name(a: Any) -> str | None:
    if isinstance(a, c_ast.ID):
        return a.name
    if isinstance(a, c_ast.Typename) and isinstance(a.type, c_ast.TypeDecl) and isinstance(a.type.type, NamedType):
        return a.type.type.name.text
    return None
