"""Which body a chosen overload has: a specialisation's, or that of the definition of what was only declared."""

from __future__ import annotations

import dataclasses
from typing import Any

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.lowering.calls.inline import Inliner
from ktc.ir.frontend.syntax.cxx_ast import AutoType
from ktc.ir.frontend.syntax.program import Entity

from .cxx_types import Pointer
from .methods import params_of, signature
from .template_args import same_argument
from .values import Value


class Bodies(Inliner):
    """From an overload to the function that is entered."""

    bind_params: Any
    template_args: Any

    def body_of(
        self, e: Entity, found: list[Entity], bindings: dict[str, Value], node: Any
    ) -> tuple[Entity, dict[str, Value]]:
        """The function to enter where overload resolution chose ``e`` of ``found``, and its template parameters."""
        special = self._specialisation(e, found, bindings, node)
        if special is not None and special.node.body is None:
            what = f"this specialisation of '{e.name}' is declared but has no definition"
            self.fail(
                "E-SEMA-BODY", what, special.node, hint="define it in the file, or add the folder of the file that does"
            )
        if special is not None:
            return special, {}  # it has no template parameters
        return self._definition(e, found, bindings) if e.node.body is None else (e, bindings)

    def _specialisation(
        self, entity: Entity, found: list[Entity], bindings: dict[str, Value], node: Any
    ) -> Entity | None:
        if entity.params is None:
            return None
        signatures = {signature(e.node, {}) for e in found if e.params is not None}
        packed = any(p.pack for p in entity.params)
        matching: list[Entity] = []
        for e in found:
            if e.spec_args is None or (len(params_of(e.node)) != len(params_of(entity.node)) and not packed):
                continue
            all_given = len(e.spec_args) >= len(entity.params) and len(signatures) < 2
            same = self._given_by(e, entity, bindings, node)
            if same and (all_given or self._is_instance(e, entity, bindings)):
                matching.append(e)
        return next((e for e in matching if e.node.body is not None), matching[0] if matching else None)

    def _given_by(self, special: Entity, primary: Entity, bindings: dict[str, Value], node: Any) -> bool:
        """Whether ``bindings`` are the template arguments that a specialisation is written with."""
        params = primary.params or ()
        with self.scoped(namespace=special.namespace, root=self.file_scope()):
            try:
                values = self.bind_params(params, self.template_args(special.spec_args or [], node), node, bindings)
            except KtcError as error:
                if not error.code.startswith("E-SEMA"):
                    raise
                return False  # a specialisation of another template of this name
        return all(p.name in bindings and same_argument(bindings[p.name], v) for p, v in zip(params, values))

    def _is_instance(self, special: Entity, primary: Entity, bindings: dict[str, Value]) -> bool:
        """Whether ``special``, written without its arguments, is the function that ``bindings`` make of ``primary``."""
        own = self._function_type(special, {})
        return own is not None and own == self._function_type(primary, bindings)

    def _function_type(self, e: Entity, bindings: dict[str, Value]) -> tuple | None:
        """The types of the result and the parameters; None if one of them cannot be told."""
        with self.scoped(namespace=e.namespace, root=self.file_scope()) as scope:
            scope.names.update(bindings)
            try:
                result = e.node.decl.type.type
                late = isinstance(getattr(result, "type", None), AutoType)
                types = [None if late else self.resolve(result), *(self.parameter_type(p) for p in params_of(e.node))]
            except KtcError:
                return None
        return tuple(dataclasses.replace(t, restrict=False) if isinstance(t, Pointer) else t for t in types)

    def _definition(
        self, e: Entity, found: list[Entity], bindings: dict[str, Value]
    ) -> tuple[Entity, dict[str, Value]]:
        """The definition of a function that was declared first: the one with the same parameters."""
        count, templated = len(params_of(e.node)), len(e.params or ())
        bodies = [
            d for d in found
            if d.node.body is not None and d.spec_args is None
            and len(params_of(d.node)) == count and len(d.params or ()) == templated
        ]  # fmt: skip
        if len(bodies) > 1:
            bodies = [d for d in bodies if self._declares(e, d)]
        if not bodies:
            what = f"'{e.name}' is declared but has no definition for these arguments"
            self.fail("E-SEMA-BODY", what, hint="define it in the file, or add the folder of the file that does")
        theirs = {p.name: q.name for p, q in zip(e.params or (), bodies[0].params or ())}
        return bodies[0], {theirs.get(name, name): v for name, v in bindings.items()}

    def _declares(self, e: Entity, d: Entity) -> bool:
        """Whether ``e`` is a declaration of ``d``."""
        if e.params is None:
            return self._function_type(e, {}) == self._function_type(d, {})
        names = {q.name: p.name for p, q in zip(e.params, d.params or ())}
        return signature(e.node, {}) == signature(d.node, names)

    def file_scope(self) -> Any:
        """The outermost scope."""
        raise NotImplementedError
