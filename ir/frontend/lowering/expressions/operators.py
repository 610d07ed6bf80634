"""Operators on loaded operands: numbers, pointers, objects with operator functions."""

from __future__ import annotations

from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.lowering.calls.captures import Captures
from ktc.ir.frontend.meaning.name_meanings import FunctionVal, PackVal
from ktc.ir.frontend.meaning.values import (  # fmt: skip
    BitPlace,
    ChoicePtr,
    NullVal,
    PtrToPlace,
    PtrVal,
    RecordVal,
    RVal,
    Value,
    describe,
)
from ktc.ir.frontend.syntax.cxx_ast import QualName
from ktc.ir.nodes import Binary, Cast, Const, Decl, Expr, Load, Var, fresh
from ktc.ir.types import I64, U64, Array, Ptr, Scalar, Type, Vec
from ktc.ir.walk import walk_expr

from .convert import ANY_NUMBERS, NATIVE, fold_const

POINTERS = (PtrVal, NullVal, PtrToPlace, ChoicePtr)


class Operators(Captures):
    """Unary and binary operators."""

    def _binary(self, node: c_ast.BinaryOp) -> Value:
        if node.op in ("&&", "||"):
            return self._logical(node)
        a = self.operand(node.left)
        at = len(self.out)
        b = self.operand(node.right)
        return self.binary(node.op, a if len(self.out) == at else self.keep_before(a, at), b, node)

    def operand(self, node: Any) -> Value:
        """What an operand of an operator is; a bit-field whose values all are ints is an int ([conv.prom])."""
        v = self.eval(node)
        if type(v) is RVal:
            return v
        loaded = self.load(v, node)
        return self.promoted_bits(v, loaded) if type(v) is BitPlace and isinstance(loaded, RVal) else loaded

    def keep_before(self, a: Value, at: int) -> Value:
        """Name ``a`` if evaluating a later operand emitted effects that could change it."""
        if len(self.out) == at or not isinstance(a, RVal):
            return a
        if any(not isinstance(s, Decl) for s in self.out[at:]) and _can_change(a.expr):
            sym = fresh("t", a.expr.type)
            self.out.insert(at, Decl(sym, a.expr, const=True, loc=self.loc))
            return RVal(Var(sym))
        return a

    def binary(self, op: str, a: Value, b: Value, node: Any) -> Value:
        """``a op b`` on loaded operands: numbers, pointers or records with an operator function."""
        if type(a) is RVal and type(b) is RVal:
            x, y = a.expr, b.expr
            t = x.type
            if t in NATIVE and t is y.type and op in ANY_NUMBERS:  # most are
                return RVal(fold_const(Binary(op, x, y)))
            if isinstance(t, Scalar) and isinstance(y.type, Scalar):
                return self.arithmetic(op, a, b, node)
        if isinstance(a, RecordVal) or isinstance(b, RecordVal):
            found = self.operator_call(op, [a, b], node)
            if found is not None:
                return found
            a, b = self._operand(a, b, node), self._operand(b, a, node)
        if isinstance(a, POINTERS) or isinstance(b, POINTERS):
            return self._pointer_binary(op, a, b, node)
        p, q = self.rvalue(a, node), self.rvalue(b, node)
        if isinstance(p.type, Vec) or isinstance(q.type, Vec):
            found = self.operator_call(op, [p, q], node)
            if found is not None:
                return found
        return self.arithmetic(op, p, q, node)

    def _operand(self, v: Value, other: Value, node: Any) -> Value:
        """An object as an operand of a built-in operator: a number or else a pointer."""
        if not isinstance(v, RecordVal):
            return v
        found = self.converted(v, None, node)
        return v if found is None else self.load(found, node)

    def _pointer_binary(self, op: str, a: Value, b: Value, node: Any) -> Value:
        if op == "+" and isinstance(a, RVal) and isinstance(b, PtrVal | ChoicePtr):
            a, b = b, a
        if op in ("+", "-") and isinstance(a, NullVal) and isinstance(b, RVal):
            return a
        if op in ("+", "-") and isinstance(a, ChoicePtr) and isinstance(b, RVal):
            moved = tuple(self._pointer_binary(op, c, b, node) for c in a.choices)
            return ChoicePtr(a.which, moved)  # type: ignore[arg-type]
        if op in ("+", "-") and isinstance(a, PtrVal) and isinstance(b, RVal):
            e = self.promote(b).expr
            if op == "-":
                wide = self.convert(RVal(e), I64).expr
                e = Const(-int(e.value), e.type) if isinstance(e, Const) else Binary("-", Const(0, I64), wide)  # type: ignore[arg-type]
            return self.pointer_add(a, e, node)
        if isinstance(a, PtrVal) and isinstance(b, PtrVal) and a.buffer == b.buffer and a.prefix == b.prefix:
            x, y = (self.convert(RVal(p.offset or Const(0, I64)), I64).expr for p in (a, b))
            if op == "-":
                num, den = self.pointer_ratio(a, node)
                diff: Expr = Binary("-", x, y)
                if den > 1:
                    return RVal(Binary("*", diff, Const(den, I64)))
                return RVal(diff if num == 1 else Binary("/", diff, Const(num, I64)))
            if op in ("==", "!=", "<", "<=", ">", ">="):
                return RVal(Binary(op, x, y))
        null = (NullVal, RVal)  # nullptr, or a literal 0
        if op in ("==", "!=") and (isinstance(a, null) or isinstance(b, null)):
            p, other = (b, a) if isinstance(a, null) else (a, b)
            if isinstance(other, NullVal) or (isinstance(other.expr, Const) and other.expr.value == 0):  # type: ignore[attr-defined]
                absent = self.is_null(p, node)
                return RVal(absent if op == "==" else self.unary("!", RVal(absent), node).expr)
        if op in ("&&", "||"):
            return RVal(Binary(op, self.truth_of(a, node), self.truth_of(b, node)))
        if isinstance(a, PtrVal) and isinstance(b, PtrVal) and op in ("==", "!=", "<", "<=", ">", ">=", "-"):
            x, y = (self.address_bits(p, node).expr for p in (a, b))
            if op != "-":
                return RVal(Binary(op, x, y))
            size = self.layout(a.elem, node)[0]
            return RVal(Binary("/", Binary("-", *(Cast(I64, e) for e in (x, y))), Const(size, I64)))
        for p in (a, b):
            if isinstance(p, PtrToPlace):
                self.need_memory(p, node)
        self.fail("E-UNSUPPORTED-POINTER", f"operator '{op}' on these pointers is not supported", node)

    def _unary(self, node: c_ast.UnaryOp) -> Value:
        op = node.op
        if op == "&":
            v = self.eval(node.expr)
            own = self.operator_call("&", [v], node) if isinstance(v, RecordVal) else None
            return own if own is not None else self.address(v, node)
        if op == "*":
            v = self.eval(node.expr)
            v = v if isinstance(v, PtrToPlace) else self.load(v, node)
            if isinstance(v, FunctionVal):
                return v
            if isinstance(v, PtrVal):
                return self.deref(v, None, node)
            if isinstance(v, PtrToPlace):
                return self.view(v, None, node)
            if isinstance(v, ChoicePtr):
                return self.deref_choice(v, None, node)
            if isinstance(v, NullVal) and v.elem is not None:
                return self.nowhere(v, node)
            if isinstance(v, RecordVal) and (found := self.operator_call("*", [v], node)) is not None:
                return found
            if isinstance(v, RecordVal) and isinstance(p := self.as_pointer(v, node), PtrVal):
                return self.deref(p, None, node)
            self.fail("E-SEMA-POINTER", f"cannot dereference {describe(v)}", node)
        if op in ("++", "--", "p++", "p--"):
            return self._increment(node, op[-1], op[0] == "p")
        if op == "sizeof":
            return RVal(self.sizeof(self._operand_type(node.expr), node))
        if op == "alignof":
            t = self._operand_type(node.expr)
            return RVal(Const(self.layout(t, node)[1], U64))
        if op == "sizeof...":
            pack = self.scope.find(node.expr.name)
            if isinstance(pack, PackVal):
                return RVal(Const(len(pack.items), U64))
        v = self.operand(node.expr)
        if isinstance(v, RecordVal):
            found = self.operator_call(op, [v], node)
            if found is not None:
                return found
        if op == "!" and isinstance(v, POINTERS):
            return RVal(self.is_null(v, node))
        return self.unary(op, self.rvalue(v, node), node)

    def _operand_type(self, node: Any) -> Type:
        if isinstance(node, c_ast.Typename):
            return self.resolve(node)
        if isinstance(node, c_ast.ID | QualName) and (t := self.try_type(node)) is not None:
            return t
        return self.type_of(self.unevaluated(node))


def _can_change(e: Expr) -> bool:
    """Whether later statements could change ``e``'s value."""
    return any(
        isinstance(x, Var) or (isinstance(x, Load) and isinstance(x.buffer.type, Ptr | Array | Vec))
        for x in walk_expr(e)
    )
