"""Which instances of its host templates a file makes: by explicit instantiations, and by calls from code that is itself
an instance. Macros that dispatch on a type at run time declare it in a block of its own (``using T = float;``) and call
the template there, so that following declarations is enough."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.lowering.lower_kernel import KernelLowering
from ktc.ir.frontend.meaning.methods import params_of
from ktc.ir.frontend.meaning.resolve import names_in
from ktc.ir.frontend.meaning.values import Value
from ktc.ir.frontend.syntax.cxx_ast import Function, QualName, TemplateParam
from ktc.ir.frontend.syntax.program import Entity, pick

from .host_code import HostFunction, Use, uses
from .host_types import HostTypes, deduced
from .launch_sites import known_args, may_be_there, names_of, zip_params

MAX_INSTANCES = 16
"""Instances of one host function that are told apart."""

MAX_DEPTH = 12
"""Host functions between an instance and the launch."""


class HostInstances:
    """Template arguments of host functions."""

    def __init__(self, lowering: KernelLowering) -> None:
        self.lowering = lowering
        self._known: dict[int, list[dict[str, Value]]] = {}

    def of(self, f: HostFunction, depth: int = 0) -> list[dict[str, Value]]:
        """The distinct bindings of the template parameters of ``f``, in the order in which the file makes them; of a
        function that is no template there is one, without any. Empty: nothing in the file says."""
        if not f.entity.params:
            return [{}]
        key = id(f.entity.node)
        if key not in self._known:
            self._known[key] = []  # a template that calls itself makes no first instance of itself
            found: list[dict[str, Value]] = []
            self._explicit(f, found)
            if depth < MAX_DEPTH:
                self._called(f, found, depth)
            self._known[key] = found
        return self._known[key]

    def _explicit(self, f: HostFunction, found: list[dict[str, Value]]) -> None:
        for i in self.lowering.program.instantiated:
            if i.name not in f.names or not pick([f.entity], i.namespace[-1:], i.namespace):
                continue
            of_class = not isinstance(i.node, Function)
            with self.lowering.scoped(namespace=i.namespace):
                params = (f.entity.params or ())[: f.owned] if of_class else f.entity.params or ()
                of_owner = None if of_class else i.node.owner_args  # void Layer<float>::forward(...)
                bound = self._given(params[: f.owned], of_owner, i.node)
                bound |= self._given(params if of_owner is None else params[f.owned :], i.spec_args, i.node)
                if not of_class:
                    types = HostTypes(self.lowering, {})
                    given = [types.named(p) for p in params_of(i.node)]
                    deduced(self.lowering, f.entity.node, given, params, bound)
            self._add(f, bound, found)

    def _given(self, params: Sequence[TemplateParam], args: list | None, node: Any) -> dict[str, Value]:
        """What written template arguments say of ``params``."""
        return {p.name: v for p, v in zip_params(params, known_args(self.lowering, args or [], node)) if v is not None}

    def _called(self, f: HostFunction, found: list[dict[str, Value]], depth: int) -> None:
        """Add what calls make: of many, some of each call, so that sums, least and largest ones are all among them."""
        mine = [u for u in uses(self.lowering, f.names) if u.function.entity.node is not f.entity.node]
        callers = [(use, outer) for use in mine for outer in self.of(use.function, depth + 1) or [{}]]
        first = {id(use): k for k, (use, _) in reversed([*enumerate(callers)])}
        in_turn = sorted(range(len(callers)), key=lambda k: k - first[id(callers[k][0])])
        made: list[tuple[int, dict[str, Value]]] = []
        for k in in_turn:
            if len(found) + len(made) >= MAX_INSTANCES:
                break
            use, outer = callers[k]
            with names_of(self.lowering, use.function, use.env, outer):
                full = self._full(f, self._bound(f, use)) if may_be_there(self.lowering, use) else None
            if full is not None and full not in found and full not in (other for _, other in made):
                made.append((k, full))
        found += [full for _, full in sorted(made, key=lambda x: x[0])]

    def _bound(self, f: HostFunction, use: Use) -> dict[str, Value]:
        """Bindings that ``use`` makes: arguments of the class, of the function, and what its call lets deduce."""
        bound: dict[str, Value] = {}
        params = f.entity.params or ()
        parts = use.node.parts if isinstance(use.node, QualName) else ()
        for part in parts:
            of = params[: f.owned] if part.name == f.owner and f.owner else params[f.owned :]
            if part.args is not None and part.name in f.names:
                values = zip_params(of, known_args(self.lowering, part.args, use.node))
                bound |= {p.name: v for p, v in values if v is not None}
        types = HostTypes(self.lowering, use.declared)
        if use.call is not None:
            deduced(self.lowering, f.entity.node, types.of_all(use.call), params, bound)
        return bound

    def _add(self, f: HostFunction, bound: dict[str, Value], found: list[dict[str, Value]]) -> None:
        full = self._full(f, bound)
        if full is not None and full not in found:
            found.append(full)

    def _full(self, f: HostFunction, bound: dict[str, Value]) -> dict[str, Value] | None:
        """All bindings that ``bound`` makes of ``f``; None where there is no such instance."""
        try:
            return complete(self.lowering, f.entity, bound)
        except KtcError:
            return None


def complete(lowering: KernelLowering, entity: Entity, bound: dict[str, Value]) -> dict[str, Value] | None:
    """All template parameters, defaults included; None if some are missing, a pack that arguments of a call would say
    is not empty where these are not known, or if there is no such instance (``std::enable_if_t<N != 0, int> = 0``)."""
    said = {n for p in params_of(entity.node) for n in names_in(p.type)} if isinstance(entity.node, Function) else ()
    if any(p.pack and p.name in said and p.name not in bound for p in entity.params or ()):
        return None
    with lowering.scoped(namespace=entity.namespace) as scope:
        try:
            lowering.bind_params(entity.params or (), [], entity.node, bound)
        except KtcError as error:
            if error.code not in ("E-SEMA-TEMPLATE", "E-SEMA-SFINAE"):
                raise
            return None
        return {p.name: scope.names[p.name] for p in entity.params or ()}
