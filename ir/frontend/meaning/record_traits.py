"""What a class declares about making and copying its objects: questions to its syntax, which make nothing."""

from __future__ import annotations

from pycparser import c_ast

from ktc.ir.frontend.syntax.cxx_ast import Function, RefDecl
from ktc.ir.frontend.syntax.program import Entity

from .conversions import functions_of
from .cxx_types import ListType, RecordType, Reference, Type, innermost
from .methods import Methods, params_of


class RecordTraits(Methods):
    """Constructors by what they are for, and whether values and copies take code."""

    def is_aggregate(self, t: RecordType) -> bool:
        """Whether braces fill the members, as no constructor is declared."""
        return not any(isinstance(i, Function) and i.kind == "ctor" for i, _, _ in list(self._members(t)))

    def list_constructors(self, t: RecordType) -> list[Entity]:
        """The constructors of ``t`` that take a ``std::initializer_list``."""
        found = [e for e in self.own_functions(t, "ctor") if e.params is None and len(params_of(e.node)) == 1]
        taken = self.first_parameters(t, [e.node for e in found])
        return [e for e, x in zip(found, taken) if isinstance(x.elem if isinstance(x, Reference) else x, ListType)]

    def default_constructed(self, t: RecordType) -> bool:
        """Whether an object of ``t`` without an initialiser gets its value from a constructor: from one that does
        something, for ``T() {}`` and ``T() = default`` leave members without a start as they are."""
        ctors = [f for f, _ in functions_of(t.decl[0].node.items) if f.kind == "ctor"]
        if ctors:
            fitting = [f for f in ctors if all(getattr(p, "init", None) is not None for p in params_of(f))]
            return any(not _does_nothing(f) for f in fitting) or (bool(fitting) and self._parts_start(t))
        return any(self.default_constructed(b) for b in self.bases_of(t))

    def has_start(self, t: Type) -> bool:
        """Whether objects of ``t`` without an initialiser have values: of a constructor or of their members' own."""
        t = innermost(t)
        if not isinstance(t, RecordType):
            return False
        return self.default_constructed(t) or self._parts_start(t)

    def _parts_start(self, t: RecordType) -> bool:
        """Whether a member or a base of ``t`` has a value without an initialiser."""
        fields = self.fields_of(t, None)
        inside = any(init is not None or self.has_start(ft) for _, ft, init, _ in fields)
        return inside or any(self.has_start(b) for b in self.bases_of(t))

    def copies_by_code(self, t: RecordType) -> bool:
        """Whether the class declares the constructor that copies an object of it."""
        found = [f for f, p in functions_of(t.decl[0].node.items) if f.kind == "ctor" and not p and params_of(f)]
        one = [f for f in found if all(getattr(p, "init", None) is not None for p in params_of(f)[1:])]
        one = [f for f in one if isinstance(params_of(f)[0].type, RefDecl)]
        taken = self.first_parameters(t, one)
        return any(isinstance(x, Reference) and x.elem == t and not x.rvalue for x in taken)

    def moves_by_code(self, t: RecordType) -> bool:
        """Whether the class declares the constructor that moves an object of it."""
        taken = self.first_parameters(t, [f for f, p in functions_of(t.decl[0].node.items)
                                          if f.kind == "ctor" and not p and len(params_of(f)) == 1])  # fmt: skip
        return any(isinstance(x, Reference) and x.elem == t and x.rvalue for x in taken)

    def copies_inside(self, t: RecordType) -> bool:
        """Whether a base class or a member of the class is copied by code, though the class itself is not."""
        if t not in self._inside:
            parts: list[Type] = [*self.bases_of(t), *(ft for _, ft, _, _ in self.fields_of(t, None))]
            parts = [innermost(p) for p in parts]
            self._inside[t] = any(
                isinstance(p, RecordType) and (self.copies_by_code(p) or self.copies_inside(p)) for p in parts
            )
        return self._inside[t]

    _inside: dict[RecordType, bool]


def _does_nothing(ctor: Function) -> bool:
    """Whether a constructor has neither a statement nor an initialiser: a body, if it has one here, that is empty."""
    return isinstance(ctor.body, c_ast.Compound) and not ctor.body.block_items and not ctor.inits
