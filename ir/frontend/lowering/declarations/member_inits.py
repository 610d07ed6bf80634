"""What a constructor does before its body: bases, then members in their order of declaration ([class.base.init])."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.lowering.calls.intrinsics import Intrinsics
from ktc.ir.frontend.meaning.cxx_types import CArray, FunctionType, RecordType, Reference
from ktc.ir.frontend.meaning.resolve import names_in
from ktc.ir.frontend.meaning.values import NullVal, RecordVal, UnboundRef, Value
from ktc.ir.frontend.syntax.cxx_ast import Function, NamePart, QualName
from ktc.ir.frontend.syntax.program import functions_of
from ktc.ir.frontend.syntax.syntax_walk import descendants
from ktc.ir.frontend.syntax.variable_uses import init_args


class MemberInits(Intrinsics):
    """Member initialisers. ``constructed`` says whose object the constructor being entered makes, by its syntax."""

    constructed: dict[int, RecordType]
    bind_argument: Callable[..., Value]
    unpacked: Callable[[list], list]

    def construct_members(self, fn: Function, record: RecordVal, node: Any) -> None:
        """Base classes and members of ``record`` by the initialisers of the constructor ``fn`` and their own."""
        t = self.constructed.pop(id(fn), None)
        given = {name.parts[-1].name: (name, init) for name, init in fn.inits}
        if t is None:
            for name, init in given.values():
                self._member_init(record, name, self._given(init), node)
            return
        if t.name in given:  # delegates to another constructor
            self.run_constructor(t, record, self._given(given[t.name][1]), node)
            return
        for base in self.bases_of(t):
            _, init = given.pop(base.name, (None, []))
            self.run_constructor(base, record, self._given(init), node)
        self.construct_own(t, record, given, node)
        for name, init in given.values():  # members of unnamed unions
            self._member_init(record, name, self._given(init), node)

    def _given(self, init: list) -> list[Value]:
        """The arguments of a member's or a base's initialiser; those that a parameter pack stands for, one by one."""
        return [self.eval(a) for a in self.unpacked(init)]

    def construct_own(
        self, t: RecordType, record: RecordVal, given: dict[str, tuple[QualName, list]], node: Any
    ) -> None:
        """The members that ``t`` itself declares, in their order: by what is (and no longer) ``given``, or late."""
        late = self.late_defaults(t)
        entity, bound = t.decl
        for item in entity.node.items:
            if not isinstance(item, c_ast.Decl) or item.name not in record.fields:
                continue
            if item.name in given:
                name, init = given.pop(item.name)
                self._member_init(record, name, self._given(init), node)
            elif item.name in late:
                with self.record_scope(t, entity, bound, record):
                    values = [self.eval(a) for a in init_args(item.init)]
                name = QualName([NamePart(item.name, None, coord=item.coord)], False, coord=item.coord)
                self._member_init(record, name, values, node)

    def late_defaults(self, t: RecordType) -> set[str]:
        """Members of ``t`` whose own initialisers are for a constructor to run, if it has none for them: what they
        say depends on members before them, or they call something."""
        if t not in self._late:
            found = set()
            for level in self.lineage(t):
                items = level.decl[0].node.items or []
                inside = [x for part in self.lineage(level) for x in part.decl[0].node.items or []]
                if any(f.kind == "ctor" for f, _ in functions_of(inside)):
                    members = {x.name for x in inside if isinstance(x, c_ast.Decl | Function)} | {"this"}
                    found |= {
                        x.name for x in items
                        if isinstance(x, c_ast.Decl) and x.init is not None and "static" not in (x.storage or [])
                        and not isinstance(x.type, c_ast.ArrayDecl) and _depends(x.init, members)
                    }  # fmt: skip
            self._late[t] = found
        return self._late[t]

    _late: dict[RecordType, set[str]]

    def _member_init(self, record: RecordVal, name: QualName, values: list[Value], node: Any) -> None:
        """The member ``name`` of ``record`` from the evaluated ``values``."""
        field = name.parts[-1].name
        if field not in record.fields:
            return  # a base class: constructed before
        current = record.fields[field]
        if len(values) == 1 and isinstance(current, RecordVal):
            assert isinstance(current.type, RecordType)
            v = values[0]
            whole = self.upcast(v, current.type) if isinstance(v, RecordVal) else None
            if whole is None or whole.type != current.type:
                self.store(current, self.construct_record(current.type, values, node, field), node)
                return
            by_code = self.copies_by_code(whole.type) or (whole.moved and self.moves_by_code(whole.type))
            if by_code and not whole.temporary:
                self.store(current, replace(self.copied(whole, field, node), temporary=True), node)
                return
        if len(values) == 1 and isinstance(current, UnboundRef) and isinstance(current.elem, FunctionType):
            record.fields[field] = self.copied_closure(self.load(values[0], node), node)
        elif len(values) == 1 and isinstance(current, UnboundRef):
            record.fields[field] = self.bind_argument(field, Reference(current.elem), values[0], True, node, [])
        elif len(values) == 1:
            v = self.load(values[0], node)
            if isinstance(current, NullVal):
                record.fields[field] = self.kept_pointer(field, v)
            else:
                self.assign_field(record, field, v, node)
        elif values:
            t = record.fields[field].type  # type: ignore[attr-defined]
            if isinstance(t, CArray):
                self.fill_array(record.fields[field], t, values, node)
                return
            self.store(record.fields[field], self.construct_record(t, values, node, field), node)


def _depends(init: Any, members: set[Any]) -> bool:
    """Whether an initialiser mentions a member or calls something."""
    nodes = init_args(init)
    return any(
        bool(names_in(a) & members) or any(isinstance(x, c_ast.FuncCall) for x in [a, *descendants(a)])
        for a in nodes
        if isinstance(a, c_ast.Node)
    )
