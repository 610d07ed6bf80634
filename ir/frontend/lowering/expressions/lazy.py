"""Operators that do not evaluate all their operands."""

from __future__ import annotations

import dataclasses
from typing import Any

from pycparser import c_ast

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.meaning.templates import value_category
from ktc.ir.frontend.meaning.values import (
    ChoicePlace,
    ChoicePtr,
    ElemPlace,
    LanePlace,
    NullVal,
    PtrToPlace,
    PtrVal,
    RecordVal,
    RVal,
    Value,
    VarPlace,
)  # fmt: skip
from ktc.ir.nodes import Assign, Binary, Const, Decl, Expr, If, Select, Stmt, Var, fresh, i32
from ktc.ir.types import BOOL, EVENT, I64, Scalar, Type

from .vector_truths import VectorTruths, is_vector


class LazyOperators(VectorTruths):
    """``&& || ?:``: an operand with side effects is lowered to an ``if``."""

    def _logical(self, node: c_ast.BinaryOp) -> Value:
        left = self.load(self.eval(node.left), node.left)
        if is_vector(left):
            return self.vector_logical(node.op, left, self.rval(node.right), node)
        a = self.truth_of(left, node.left)
        known = self.constant(a)
        if known is not None and bool(known.value) == (node.op == "||"):
            return RVal(Const(bool(known.value), BOOL))
        with self.controlled(), self.given(a, node.op == "&&"), self.capture() as pre:
            right = self.load(self.eval(node.right), node.right)
            b = None if is_vector(right) else self.truth_of(right, node.right)
        if b is None:
            self.out.extend(pre)
            return self.vector_logical(node.op, left, right, node)
        if not pre:
            return RVal(b if known is not None else Binary(node.op, a, b))
        sym = fresh("cond", BOOL)
        self.emit(Decl(sym, a, loc=self.loc))
        from ktc.ir.nodes import Assign, If, Unary

        test: Expr = Var(sym) if node.op == "&&" else Unary("!", Var(sym))
        self.emit(If(test, (*pre, Assign(sym, b, loc=self.loc)), loc=self.loc))
        return RVal(Var(sym))

    def argument(self, node: Any) -> Value:
        """An argument of a call: ``c ? x : y`` is a place where both are, to which a reference may be bound."""
        return self._ternary(node, place=True) if isinstance(node, c_ast.TernaryOp) else self.eval(node)

    def _ternary(self, node: c_ast.TernaryOp, place: bool = False) -> Value:
        evaluate = self.argument if place else self.eval
        if id(node) in self.unused:
            self.unused |= {id(x) for x in (node.iftrue, node.iffalse) if isinstance(x, c_ast.TernaryOp)}
        tested = self.load(self.eval(node.cond), node.cond)
        if is_vector(tested):
            return self.vector_choice(self.rvalue(tested), self.rval(node.iftrue), self.rval(node.iffalse), node)
        cond = self.truth_of(tested, node.cond)
        known = self.constant(cond)
        if known is not None:
            chosen, other = (node.iftrue, node.iffalse) if known.value else (node.iffalse, node.iftrue)
            v = evaluate(chosen)
            if place and isinstance(v, NUMBER_PLACES) and self._is_place_of(other, v.type):
                return v
            if isinstance(v, NullVal) and id(node) in self.unused:
                return v
            return self._in_common(self.load(v, node), other, node)
        with self.controlled(), self.given(cond, True), self.capture() as pre_a:
            first = evaluate(node.iftrue)
            a = self.load(first, node.iftrue)
        with self.controlled(), self.given(cond, False), self.capture() as pre_b:
            second = evaluate(node.iffalse)
            b = self.load(second, node.iffalse)
        if id(node) in self.unused and (isinstance(a, NullVal) or isinstance(b, NullVal)):  # both are void
            self.emit(If(cond, tuple(pre_a), tuple(pre_b), loc=self.loc))
            return NullVal()
        if place and not (pre_a or pre_b) and are_places((first, node.iftrue), (second, node.iffalse)):
            return ChoicePlace(Select(cond, i32(0), i32(1)), (first, second), first.type)  # type: ignore[attr-defined]
        if (
            isinstance(a, PtrVal)
            and isinstance(b, PtrVal)
            and a.buffer == b.buffer
            and a.prefix == b.prefix
            and not (pre_a or pre_b)
        ):
            x, y = (self.convert(RVal(p.offset or Const(0, I64)), I64).expr for p in (a, b))
            return dataclasses.replace(a, offset=Select(cond, x, y))
        if isinstance(a, RecordVal) and isinstance(b, RecordVal) and a.type == b.type:
            if not (pre_a or pre_b or a.temporary or b.temporary) and is_simple(a) and is_simple(b):
                return self.chosen(self.pinned_which(Select(cond, i32(0), i32(1)), "which"), (a, b), node)
            if self.placing and not (a.temporary and b.temporary):
                self.fail("E-UNSUPPORTED-LVALUE", f"'?:' of objects of '{a.type}' as a place", node,
                          hint="use an if")  # fmt: skip
            return self._chosen_record(cond, (a, pre_a), (b, pre_b), node)
        if not (pre_a or pre_b) and (chosen := self._choice(cond, a, b, node)) is not None:
            return chosen
        p, q = self.rvalue(a, node.iftrue), self.rvalue(b, node.iffalse)
        if not pre_a and not pre_b:
            return self.select(cond, p, q, node)
        return self._ternary_statement(cond, p, q, pre_a, pre_b, node)

    def _is_place_of(self, node: Any, t: Type) -> bool:
        """Whether what is not evaluated is a place of numbers of type ``t``."""
        try:
            v = self.unevaluated(node)
        except KtcError:
            return False
        return isinstance(v, NUMBER_PLACES) and v.type == t

    def _in_common(self, v: Value, other: Any, node: Any) -> Value:
        """The number ``v`` as the type that it has in common with the branch that is not taken."""
        if not isinstance(v, RVal) or not isinstance(v.type, Scalar):
            return v
        if self._typing is not None and self._typing is not self.frame:
            return v  # calls in a branch that is only looked at may recurse without end
        saved, self._typing = self._typing, self.frame
        try:
            t = self.type_of(self.load(self.unevaluated(other), node))
        except KtcError:  # what is not supported there need not be: it is not run
            return v
        finally:
            self._typing = saved
        wide = isinstance(t, Scalar) and t != v.type and EVENT not in (t, v.type)
        return self.convert(v, self.common(v.type, t, "?:", node)) if wide else v  # type: ignore[arg-type]

    _typing: Any = None
    placing = False
    """Whether what is evaluated will be changed or referred to."""

    unevaluated: Any

    def _choice(self, cond: Expr, a: Value, b: Value, node: Any) -> Value | None:
        """``cond ? a : b`` of pointers or records."""
        pointers = (PtrVal, ChoicePtr, NullVal)
        if isinstance(a, RVal) and isinstance(a.expr, Const) and a.expr.value == 0 and isinstance(b, pointers):
            a = NullVal()
        if isinstance(b, RVal) and isinstance(b.expr, Const) and b.expr.value == 0 and isinstance(a, pointers):
            b = NullVal()
        if isinstance(a, pointers) and isinstance(b, pointers):
            return self.choose_pointer(cond, a, b, node)
        for p in (a, b):
            if isinstance(p, PtrToPlace):
                self.need_memory(p, node)
        return None

    def _chosen_record(
        self, cond: Expr, a: tuple[RecordVal, list[Stmt]], b: tuple[RecordVal, list[Stmt]], node: Any
    ) -> RecordVal:
        """``cond ? a : b`` of objects: a new one that is set in each branch, after the statements of its operand."""
        from ktc.ir.nodes import If

        test = self.temp(cond, "cond")
        out: RecordVal = self.new_record(a[0].type, "value", node, {}, default=False)  # type: ignore[arg-type]
        branches = []
        for v, before in (a, b):
            with self.controlled(), self.capture() as stmts:
                self.store(out, v, node)
            branches.append((*before, *stmts))
        self.emit(If(test, branches[0], branches[1], loc=self.loc))
        return dataclasses.replace(out, temporary=True)

    def _ternary_statement(self, cond: Expr, a: RVal, b: RVal, pre_a: list[Stmt], pre_b: list[Stmt], node: Any) -> RVal:
        t: Type = a.type
        if a.type != b.type and isinstance(a.type, Scalar) and isinstance(b.type, Scalar):
            t = self.common(a.type, b.type, "?:", node)
        sym = fresh("value", t)
        self.emit(Decl(sym, None, loc=self.loc))
        then = (*pre_a, Assign(sym, self.convert(a, t).expr, loc=self.loc))
        orelse = (*pre_b, Assign(sym, self.convert(b, t).expr, loc=self.loc))
        self.emit(If(cond, then, orelse, loc=self.loc))
        return RVal(Var(sym))


NUMBER_PLACES = (VarPlace, ElemPlace, LanePlace, ChoicePlace)
"""Places of numbers and vectors."""


def are_places(*operands: tuple[Value, Any]) -> bool:
    """Whether all, values with their syntax, are places or named constants of numbers of one type."""
    return all(
        isinstance(v, (RVal, *NUMBER_PLACES))
        and v.type == operands[0][0].type  # type: ignore[attr-defined]
        and value_category(v, node) != "rvalue"
        for v, node in operands
    )


def is_simple(v: RecordVal) -> bool:
    """Whether all that an object holds are numbers and vectors."""
    return all(is_simple(x) if isinstance(x, RecordVal) else isinstance(x, NUMBER_PLACES) for x in v.fields.values())
