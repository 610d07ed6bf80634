"""Assignment and increments."""

from __future__ import annotations

import dataclasses
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.meaning.cxx_types import RecordType, innermost
from ktc.ir.frontend.meaning.values import (
    BitPlace,
    ChoicePtr,
    PtrVal,
    RecordVal,
    RVal,
    Value,
    VarPlace,
)  # fmt: skip
from ktc.ir.nodes import Const, Select, i32
from ktc.ir.types import I32, Vec

from .convert import NATIVE
from .lookup import Lookup


class Assignments(Lookup):
    """Operators that change a place."""

    operand: Any

    def lvalue(self, node: Any) -> Value:
        """The place that ``node`` denotes: ``c ? a : b`` is one of two places here, not a value."""
        if isinstance(node, c_ast.ExprList):
            self.unused.update(id(e) for e in node.exprs[:-1])
            for e in node.exprs[:-1]:
                self.eval(e)
            return self.lvalue(node.exprs[-1])
        if not isinstance(node, c_ast.TernaryOp):
            saved, self.placing = self.placing, isinstance(node, c_ast.StructRef | c_ast.ArrayRef)
            try:
                return self.eval(node)
            finally:
                self.placing = saved
        cond = self.condition(node.cond)
        known = self.constant(cond)
        if known is not None:
            return self.lvalue(node.iftrue if known.value else node.iffalse)
        places = (self.lvalue(node.iftrue), self.lvalue(node.iffalse))
        if self.type_of(places[0]) != self.type_of(places[1]):
            self.fail("E-SEMA-ASSIGN", "the branches of this '?:' are places of different types", node)
        return self.chosen(self.pinned_which(Select(cond, i32(0), i32(1)), "which"), places, node)

    def _increment(self, node: Any, op: str, post: bool) -> Value:
        place = self.lvalue(node.expr)
        old = self.load(place, node)
        if isinstance(old, RecordVal):
            found = self.operator_call(op * 2, [old, RVal(i32(0))] if post else [old], node)
            if found is not None:
                return found
        if isinstance(old, PtrVal | ChoicePtr):
            kept: Value = old
            if post and id(node) not in self.unused:
                kept = self._kept(old)
            moved = self.binary(op, old, RVal(i32(1)), node)
            if self.rebind_pointer(node.expr, moved, node):
                return kept if post else self.load(self.lvalue(node.expr))
            self.store(place, moved, node)
            return kept if post else self.load(place)
        place = self.stable(place)
        x = self.rvalue(place, node)
        if post and id(node) not in self.unused:
            x = RVal(self.temp(x.expr, "old"))
        one = RVal(Const(1, I32))
        self.store(place, self._as_place_type(self.arithmetic(op, x, one, node), place), node)
        return x if post else place

    def _kept(self, p: PtrVal | ChoicePtr) -> Value:
        """The pointer as it is now."""
        if isinstance(p, PtrVal):
            return p if p.offset is None else dataclasses.replace(p, offset=self.temp(p.offset, "old"))
        return ChoicePtr(self.pinned_which(p.which, "old_in"), tuple(self._kept(c) for c in p.choices))  # type: ignore[misc]

    def _as_place_type(self, v: RVal, place: Value) -> RVal:
        return self.convert(v, self.type_of(place))

    def _assign_record(self, place: RecordVal, v: Value, node: Any) -> Value | None:
        """What an assignment operator of the class leaves; None where the members are to be copied.

        Every class has an implicit assignment from its own objects unless it declares one: other operators do not stand
        for it, nor do those of its bases.
        """
        t = place.type
        assert isinstance(t, RecordType)
        if isinstance(v, RecordVal) and v.type != t and self.derives(v.type, t) and not self.assigns_copies(t):
            v = self.upcast(v, t)
            self.store(place, v, node)
            return place
        if isinstance(v, RecordVal) and v.type == t and not self.assigns_copies(t):
            if any(self.assigns_copies(base) for base in self.lineage(t) if base != t):
                self.fail("E-UNSUPPORTED-MEMBER", "an implicit assignment of a class whose base declares its own", node,
                          hint="declare operator= in the class")  # fmt: skip
            if any(self.assigns_inside(ft) for _, ft, _, _ in self.fields_of(t, node)):
                what = f"an implicit assignment of '{t.name}', a member of which declares its own"
                self.fail("E-UNSUPPORTED-MEMBER", what, node, hint="declare operator= in the class")
            return None
        found = self.method(place, "operator=", [v], node)
        if found is None and (isinstance(v, RecordVal) or not self.is_aggregate(t)):
            self.store(place, self.construct_record(t, [v], node), node)  # converted by one class or the other
            return place
        return found

    def assigns_inside(self, t: Any) -> bool:
        """Whether objects of ``t``, or some in it, are assigned by code."""
        t = innermost(t)
        return isinstance(t, RecordType) and (
            self.assigns_copies(t) or any(self.assigns_inside(ft) for _, ft, _, _ in self.fields_of(t, None))
        )

    def _assign(self, node: c_ast.Assignment) -> Value:
        if node.op == "=":
            if isinstance(node.rvalue, c_ast.InitList):
                place = self.lvalue(node.lvalue)
                v = self.initial_value(self.type_of(place), node.rvalue.exprs, True, node)
            else:
                v = self.load(self.eval(node.rvalue), node.rvalue)
                at = len(self.out)
                place = self.lvalue(node.lvalue)
                v = self.keep_before(v, at)
            if self.rebind_pointer(node.lvalue, v, node):
                return v
            if isinstance(place, RecordVal) and (found := self._assign_record(place, v, node)) is not None:
                return found
            self.store(place, v, node)
            return place
        op = node.op[:-1]
        rhs = self.operand(node.rvalue)
        place = self.stable(self.lvalue(node.lvalue))
        old = self.load(place, node)
        if type(place) is VarPlace and type(rhs) is RVal and place.sym.type in NATIVE and rhs.expr.type in NATIVE:
            new = self.binary(op, old, rhs, node)  # most are of plain numbers
            self.store(place, self.convert(new, place.sym.type), node)  # type: ignore[arg-type]
            return place
        if isinstance(old, RecordVal) or isinstance(rhs, RecordVal) or isinstance(self.type_of(old), Vec):
            found = self.operator_call(node.op, [place, rhs], node)
            if found is not None:
                return found
        if isinstance(place, BitPlace) and isinstance(old, RVal):
            old = self.promoted_bits(place, old)
        new = self.binary(op, old, rhs, node)
        if self.rebind_pointer(node.lvalue, new, node):
            return self.lvalue(node.lvalue)
        if isinstance(new, RVal):
            new = self._as_place_type(new, place)
        self.store(place, new, node)
        return place
