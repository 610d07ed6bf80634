"""Lowering expressions to values and places."""

from __future__ import annotations

from typing import Any

from pycparser import c_ast

from ..fold import fold_node
from ..nodes import Binary, Cast, Const, Decl, Expr, HwIndex, Load, Var, fresh, i32
from ..types import BOOL, I64, U64, Array, Ptr, Scalar, Type, Vec
from ..walk import walk_expr
from .captures import Captures
from .context import Scope
from .cxx_ast import Construct, CxxCast, Fold, InScope, Lambda, PackExpansion, QualName
from .cxx_types import CArray, show
from .lookup import HW
from .opencl import components
from .places import LANES, bitcast, describe
from .values import (
    ChoicePlace,
    ChoicePtr,
    Dim3Val,
    ElemPlace,
    FunctionVal,
    LanePlace,
    NullVal,
    OpaqueVal,
    PackVal,
    PtrToPlace,
    PtrVal,
    RecordVal,
    RVal,
    SubVec,
    SwizzlePlace,
    Value,
    VarPlace,
    ViewPlace,
)  # fmt: skip

_PLACES = (VarPlace, ElemPlace, LanePlace, SubVec, SwizzlePlace, ViewPlace)
_POINTERS = (PtrVal, NullVal, PtrToPlace, ChoicePtr)


class Exprs(Captures):
    """Expressions. ``eval`` gives a value or place, ``rval`` a scalar or vector value."""

    def rval(self, node: Any) -> RVal:
        return self.rvalue(self.eval(node), node)

    def eval(self, node: Any) -> Value:
        """What ``node`` means; side effects are emitted as statements."""
        if isinstance(node, Value):
            return node  # evaluated before
        handler = _HANDLERS.get(type(node))
        if handler is None:
            self.fail("E-UNSUPPORTED-EXPR", f"this expression is not supported ({type(node).__name__})", node)
        return handler(self, node)

    def unevaluated(self, node: Any) -> Value:
        """``eval`` for its type only."""
        with self.capture():
            return self.eval(node)

    # ------------------------------------------------------------------ leaves

    # ------------------------------------------------------------------ operators
    def _binary(self, node: c_ast.BinaryOp) -> Value:
        if node.op in ("&&", "||"):
            return self._logical(node)
        a = self.load(self.eval(node.left), node.left)
        at = len(self.out)
        b = self.load(self.eval(node.right), node.right)
        a = self.keep_before(a, at)
        return self.binary(node.op, a, b, node)

    def keep_before(self, a: Value, at: int) -> Value:
        """Name ``a`` if evaluating a later operand emitted effects that could change it."""
        if isinstance(a, RVal) and any(not isinstance(s, Decl) for s in self.out[at:]) and _can_change(a.expr):
            sym = fresh("t", a.expr.type)
            self.out.insert(at, Decl(sym, a.expr, const=True, loc=self.loc))
            return RVal(Var(sym))
        return a

    def binary(self, op: str, a: Value, b: Value, node: Any) -> Value:
        """``a op b`` on loaded operands: numbers, pointers or records with an operator function."""
        if isinstance(a, RecordVal) or isinstance(b, RecordVal):
            found = self.operator_call(op, [a, b], node)
            if found is not None:
                return found
            a, b = self._operand(a, b, node), self._operand(b, a, node)
        if isinstance(a, _POINTERS) or isinstance(b, _POINTERS):
            return self._pointer_binary(op, a, b, node)
        x, y = self.rvalue(a, node), self.rvalue(b, node)
        if isinstance(x.type, Vec) or isinstance(y.type, Vec):
            found = self.operator_call(op, [x, y], node)
            if found is not None:
                return found
        return self.arithmetic(op, x, y, node)

    def _operand(self, v: Value, other: Value, node: Any) -> Value:
        """An object as an operand of a built-in operator: a number or else a pointer."""
        if not isinstance(v, RecordVal):
            return v
        found = self.converted(v, None, node)
        return v if found is None else self.load(found, node)

    def _pointer_binary(self, op: str, a: Value, b: Value, node: Any) -> Value:
        if op == "+" and isinstance(a, RVal) and isinstance(b, PtrVal | ChoicePtr):
            a, b = b, a
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
                num, _ = self.pointer_ratio(a, node)
                diff: Expr = Binary("-", x, y)
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
        self.fail("E-UNSUPPORTED-POINTER", f"operator '{op}' on these pointers is not supported", node)

    def _unary(self, node: c_ast.UnaryOp) -> Value:
        op = node.op
        if op == "&":
            return self.address(self.eval(node.expr), node)
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
            return RVal(self.sizeof(t.elem if isinstance(t, CArray) else t, node))
        if op == "sizeof...":
            pack = self.scope.find(node.expr.name)
            if isinstance(pack, PackVal):
                return RVal(Const(len(pack.items), U64))
        v = self.load(self.eval(node.expr), node.expr)
        if isinstance(v, RecordVal):
            found = self.operator_call(op, [v], node)
            if found is not None:
                return found
        if op == "!" and isinstance(v, _POINTERS):
            return RVal(self.is_null(v, node))
        return self.unary(op, self.rvalue(v, node), node)

    def _fold(self, node: Fold) -> Value:
        """A fold expression: the operator between the elements of a pack."""
        pack, init, right = node.pack, node.init, node.right
        if init is not None and not self.packs_in(pack):  # (init op ... op pack)
            pack, init, right = PackExpansion(init, coord=node.coord), pack.expr, False
        if node.op in (",", "&&", "||"):
            items: list[Any] = [item for item, _ in self.pack_elements(pack, node)]
        else:
            items = self.expand_pack(pack, node)
        if init is not None:
            items = [*items, init] if right else [init, *items]
        if not items:
            known = EMPTY_FOLDS.get(node.op)
            if known is None:
                self.fail("E-SEMA-FOLD", f"a fold with '{node.op}' over an empty pack has no value", node)
            return known
        return self._fold_items(node, items, right and node.op not in (",", "&&", "||"))

    def _fold_items(self, node: Fold, items: list, right: bool) -> Value:
        if node.op in (",", "&&", "||"):  # operands are evaluated one by one, the last two perhaps not
            tree = items[0]
            for x in items[1:]:
                pair = (tree, x)
                tree = c_ast.ExprList(list(pair)) if node.op == "," else c_ast.BinaryOp(node.op, *pair, node.coord)
            return self.eval(tree)
        values = [self.load(self.eval(x), node) for x in items]
        total = values.pop() if right else values.pop(0)
        for v in reversed(values) if right else values:
            total = self.binary(node.op, v, total, node) if right else self.binary(node.op, total, v, node)
        return total

    def _operand_type(self, node: Any) -> Type:
        if isinstance(node, c_ast.Typename):
            return self.resolve(node)
        if isinstance(node, c_ast.ID | QualName) and (t := self.try_type(node)) is not None:
            return t
        return self.type_of(self.unevaluated(node))

    def _subscript(self, node: c_ast.ArrayRef) -> Value:
        base = self.eval(node.name)
        if isinstance(base, RecordVal):
            found = self.method(base, "operator[]", [self.eval(node.subscript)], node)
            if found is not None:
                return found
            base = self.as_pointer(base, node)
        i = self.promote(self.rval(node.subscript))
        if not isinstance(i.type, Scalar) or i.type.is_float:
            self.fail("E-SEMA-SUBSCRIPT", f"an index must be an integer, not '{show(i.type)}'", node.subscript)
        return self.subscript(base, i.expr, node)

    def _member(self, node: c_ast.StructRef) -> Value:
        name = node.field.name if isinstance(node.field, c_ast.ID) else node.field.parts[-1].name
        if isinstance(node.name, c_ast.ID) and node.name.name in HW and self.scope.find(node.name.name) is None:
            if name not in "xyz":
                self.fail("E-SEMA-MEMBER", f"'{node.name.name}' has no member '{name}'", node)
            return self.hardware(HW[node.name.name], name)
        base = self.eval(node.name)
        if node.type == "->":
            base = base if isinstance(base, PtrToPlace) else self.load(base, node)
            if isinstance(base, PtrVal):
                base = self.deref(base, None, node)
            elif isinstance(base, PtrToPlace):
                base = self.view(base, None, node)
            elif isinstance(base, ChoicePtr):
                base = self.deref_choice(base, None, node)
        return self.member(base, name, node)

    def hardware(self, level: str, axis: str) -> RVal:
        """``threadIdx.x`` and friends."""
        return RVal(HwIndex(level, axis))

    def member(self, base: Value, name: str, node: Any) -> Value:
        """``base.name``."""
        if isinstance(base, RecordVal):
            if name in base.fields:
                return base.fields[name]
            found = self.static_member(base.type, name, node)  # type: ignore[arg-type]
            if found is not None:
                return found
            self.fail("E-SEMA-MEMBER", f"'{base.type}' has no member '{name}'", node)
        if isinstance(base, Dim3Val) and name in ("x", "y", "z"):
            return RVal(getattr(base, name))
        if isinstance(base, OpaqueVal):
            return OpaqueVal(f"{base.name}_{name}")
        t = self.type_of(base)
        if isinstance(base, ChoicePlace):
            return self.chosen(base.which, tuple(self.member(c, name, node) for c in base.choices), node)
        if isinstance(t, Vec) and name in LANES and LANES[name] < int(t.n):  # type: ignore[arg-type]
            return (
                LanePlace(base, i32(LANES[name]), t.elem)
                if not isinstance(base, RVal)
                else self.load(LanePlace(base, i32(LANES[name]), t.elem))
            )
        if isinstance(t, Vec) and self.program.dialect.vector_operators:
            lanes = components(name, int(t.n))  # type: ignore[arg-type]
            if lanes is not None:
                one = LanePlace(base, i32(lanes[0]), t.elem)
                place = one if len(lanes) == 1 else SwizzlePlace(base, lanes, Vec(t.elem, len(lanes)))
                return self.load(place) if isinstance(base, RVal) else place
        self.fail("E-SEMA-MEMBER", f"'{show(t)}' has no member '{name}'", node)

    # ------------------------------------------------------------------ casts and construction

    def _comma(self, node: c_ast.ExprList) -> Value:
        value: Value = NullVal()
        dropped = node.exprs if id(node) in self.unused else node.exprs[:-1]
        self.unused.update(id(e) for e in dropped)
        for e in node.exprs:
            value = self.eval(e)
        return value

    def _lambda(self, node: Lambda) -> Value:
        scope = Scope(self.scope)
        scope.names.update(self.captured(node))
        return FunctionVal(lambda args, at: self.call_lambda(node, scope, args, at))

    def packs_in(self, node: PackExpansion) -> dict[str, PackVal]:
        """The parameter packs that a pattern names."""
        from .facts import children

        names: set[str] = set()
        stack = [node.expr]
        while stack:
            n = stack.pop()
            if isinstance(n, c_ast.ID):
                names.add(n.name)
            elif isinstance(n, QualName):
                names.update(p.name for p in n.parts)
                stack.extend(a for p in n.parts for a in p.args or () if isinstance(a, c_ast.Node))
            stack.extend(children(n))
        found = {n: self.scope.find(n) for n in names}
        return {n: v for n, v in found.items() if isinstance(v, PackVal)}

    def pack_elements(self, node: PackExpansion, at: Any) -> list[tuple[Any, dict[str, Value]]]:
        """The pattern for each element of the packs it names, as an expression that can be evaluated later."""
        packs = self.packs_in(node)
        if not packs:
            self.fail("E-UNSUPPORTED-PACK", "nothing to expand here", at)
        count = len(next(iter(packs.values())).items)
        names = [{n: p.items[i] for n, p in packs.items()} for i in range(count)]
        return [(InScope(node.expr, bound, coord=node.coord), bound) for bound in names]

    def _in_scope(self, node: InScope) -> Value:
        if id(node) in self.unused:
            self.unused.add(id(node.expr))
        with self.scoped() as scope:
            scope.names.update(node.names)
            return self.eval(node.expr)

    def expand_pack(self, node: PackExpansion, at: Any) -> list[Value]:
        """Values of ``pattern...``: the pattern once for each element of the packs it names."""
        return [self.eval(item) for item, _ in self.pack_elements(node, at)]


EMPTY_FOLDS: dict[str, Value] = {
    "&&": RVal(Const(True, BOOL)), "||": RVal(Const(False, BOOL)), ",": NullVal()
}  # fmt: skip
"""What a fold over an empty pack is."""


def _can_change(e: Expr) -> bool:
    """Whether later statements could change ``e``'s value."""
    return any(
        isinstance(x, Var) or (isinstance(x, Load) and isinstance(x.buffer.type, Ptr | Array | Vec))
        for x in walk_expr(e)
    )


_HANDLERS = {
    c_ast.Constant: Exprs._constant, c_ast.ID: Exprs._id, QualName: Exprs._qual, c_ast.BinaryOp: Exprs._binary,
    c_ast.TernaryOp: Exprs._ternary, c_ast.UnaryOp: Exprs._unary, c_ast.Assignment: Exprs._assign,
    c_ast.ArrayRef: Exprs._subscript, c_ast.StructRef: Exprs._member, c_ast.Cast: Exprs._c_cast,
    CxxCast: Exprs._cxx_cast, Construct: Exprs._construct, c_ast.FuncCall: Exprs.call, c_ast.InitList: Exprs._init_list,
    c_ast.ExprList: Exprs._comma, Lambda: Exprs._lambda, Fold: Exprs._fold, InScope: Exprs._in_scope,
}  # fmt: skip

__all__ = ["HW", "Exprs", "bitcast", "fold_node"]
