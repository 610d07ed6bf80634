"""Lowering expressions to values and places."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.context import Scope
from ktc.ir.frontend.dialects.opencl_lowering import components
from ktc.ir.frontend.lowering.calls.device_launch import device_launch
from ktc.ir.frontend.lowering.memory.lvalues import LANES
from ktc.ir.frontend.meaning.cxx_types import BITS_MEMBERS, Pointer, RecordType, Reference, show
from ktc.ir.frontend.meaning.name_meanings import OpaqueVal, PackVal
from ktc.ir.frontend.meaning.values import (  # fmt: skip
    ChoicePlace,
    Dim3Val,
    LanePlace,
    NullVal,
    PtrToPlace,
    PtrVal,
    RecordVal,
    RVal,
    SwizzlePlace,
    Value,
    VarPlace,
    named,
)
from ktc.ir.frontend.syntax.cxx_ast import Construct, CxxCast, Fold, InScope, Lambda, Launch, PackExpansion, QualName
from ktc.ir.nodes import Const, HwIndex, i32
from ktc.ir.types import BOOL, I32, I64, U32, U64, Scalar, Vec

from .convert import bitcast
from .lookup import HW
from .operators import Operators


class Exprs(Operators):
    """Expressions. ``eval`` gives a value or place, ``rval`` a scalar or vector value."""

    def rval(self, node: Any) -> RVal:
        return self.rvalue(self.eval(node), node)

    def eval(self, node: Any) -> Value:
        """What ``node`` means; side effects are emitted as statements."""
        handler = _HANDLERS.get(type(node))
        if handler is not None:
            return handler(self, node)
        if isinstance(node, Value):
            return node  # evaluated before
        self.fail("E-UNSUPPORTED-EXPR", f"this expression is not supported ({type(node).__name__})", node)

    def unevaluated(self, node: Any) -> Value:
        """``eval`` for its type only."""
        with self.capture():
            return self.eval(node)

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

    def _subscript(self, node: c_ast.ArrayRef) -> Value:
        base = self.eval(node.name)
        if type(base) is RecordVal:
            found = self.method(base, "operator[]", [self.eval(node.subscript)], node)
            if found is not None:
                return found
            base = self.as_pointer(base, node)
        i = self.rval(node.subscript).expr
        if i.type not in INDEX_TYPES:
            i = self.promote(RVal(i)).expr
            if not isinstance(i.type, Scalar) or i.type.is_float:
                self.fail("E-SEMA-SUBSCRIPT", f"an index must be an integer, not '{show(i.type)}'", node.subscript)
        return self.subscript(base, i, node)

    def _member(self, node: c_ast.StructRef) -> Value:
        name = node.field.name if isinstance(node.field, c_ast.ID) else node.field.parts[-1].name
        if isinstance(node.name, c_ast.ID) and node.name.name in HW and self.scope.find(node.name.name) is None:
            if name not in "xyz":
                self.fail("E-SEMA-MEMBER", f"'{node.name.name}' has no member '{name}'", node)
            return self.hardware(HW[node.name.name], name)
        base = self.eval(node.name)
        base = self.pointee(base, node) if node.type == "->" else base
        return self.member(self.part_named(base, node.field), name, node)

    def _of_object(self, v: Value, base: RecordVal, name: str, node: Any) -> Value:
        """The member ``name``: constant or temporary as the object is, unless a reference or ``mutable``."""
        if not (base.const or base.temporary) or not isinstance(v, VarPlace | RecordVal):
            return named(v)
        found = next((f for f in self.fields_of(base.type, node) if f[0] == name), None)  # type: ignore[arg-type]
        if found is None or isinstance(found[1], Reference) or "mutable" in (found[3].funcspec or []):
            return named(v)
        if isinstance(v, RecordVal):
            return dataclasses.replace(named(v, base.const), temporary=base.temporary)
        return dataclasses.replace(v, const=v.const or base.const, moved=base.temporary)

    def hardware(self, level: str, axis: str) -> RVal:
        """``threadIdx.x`` and friends."""
        return RVal(HwIndex(level, axis))

    def member(self, base: Value, name: str, node: Any) -> Value:
        """``base.name``."""
        if isinstance(base, RecordVal):
            if name in base.fields:
                return self._of_object(base.fields[name], base, name, node)
            found = self.static_member(base.type, name, node)  # type: ignore[arg-type]
            if found is not None:
                return found
            self.fail("E-SEMA-MEMBER", f"'{base.type}' has no member '{name}'", node)
        if isinstance(base, Dim3Val) and name in ("x", "y", "z"):
            return RVal(getattr(base, name))
        if isinstance(base, OpaqueVal):
            return self._of_unknown(base, name, node)
        t = self.type_of(base)
        if isinstance(base, ChoicePlace):
            return self.chosen(base.which, tuple(self.member(c, name, node) for c in base.choices), node)
        if isinstance(t, Scalar) and BITS_MEMBERS.get(t, ("", t))[0] == name:
            return self._bits_of(base, BITS_MEMBERS[t][1], node)
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

    def _of_unknown(self, base: OpaqueVal, name: str, node: Any) -> Value:
        """A member of a host object, of the type that its class says, if that is known."""
        fields = self.fields_of(base.record, node) if isinstance(base.record, RecordType) else []
        t = next((f[1] for f in fields if f[0] == name), None)
        to = t.elem if isinstance(t, Pointer | Reference) else t
        name = f"{base.name}_{name}"
        if self.host_number is not None and isinstance(to, Scalar) and to.is_int and not isinstance(t, Pointer):
            return self.host_number(name, to)
        return OpaqueVal(name, None if isinstance(t, Pointer) else t, to)

    def _bits_of(self, base: Value, t: Scalar, node: Any) -> Value:
        """The member of a small float's class that holds its bits."""
        if isinstance(base, RVal):
            return RVal(bitcast(base.expr, t))
        p = self.address(base, node)
        if isinstance(p, PtrToPlace):
            return self.view(dataclasses.replace(p, elem=t), None, node)
        if isinstance(p, PtrVal):
            return self.deref(dataclasses.replace(p, elem=t), None, node)
        self.fail("E-UNSUPPORTED-VIEW", "the bits of this value cannot be taken apart", node)

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
        return self.closure(node, scope)

    def packs_in(self, node: PackExpansion) -> dict[str, PackVal]:
        """The parameter packs that a pattern names."""
        from ktc.ir.frontend.syntax.syntax_walk import children

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
        if any(len(p.items) != count for p in packs.values()):
            lengths = " and ".join(f"'{n}' has {len(p.items)}" for n, p in packs.items())
            self.fail("E-SEMA-PACK", f"packs of different lengths are expanded together: {lengths}", at)
        names = [{n: p.items[i] for n, p in packs.items()} for i in range(count)]
        return [(InScope(node.expr, bound, coord=node.coord), bound) for bound in names]

    def unpacked(self, items: list) -> list:
        """Expressions of a list, with those of packs in place of their expansions."""
        out: list = []
        for x in items:
            out += [e for e, _ in self.pack_elements(x, x)] if isinstance(x, PackExpansion) else [x]
        return out

    def _in_scope(self, node: InScope) -> Value:
        if id(node) in self.unused:
            self.unused.add(id(node.expr))
        with self.scoped() as scope:
            scope.names.update(node.names)
            return self.eval(node.expr)

    def expand_pack(self, node: PackExpansion, at: Any) -> list[Value]:
        """Values of ``pattern...``: the pattern once for each element of the packs it names."""
        return [self.eval(item) for item, _ in self.pack_elements(node, at)]


INDEX_TYPES = frozenset({I32, I64, U32, U64})
"""Types of indices that need no promotion."""

EMPTY_FOLDS: dict[str, Value] = {
    "&&": RVal(Const(True, BOOL)), "||": RVal(Const(False, BOOL)), ",": NullVal()
}  # fmt: skip
"""What a fold over an empty pack is."""


_HANDLERS: dict[type, Callable[[Any, Any], Value]] = {
    c_ast.Constant: Exprs._constant, c_ast.ID: Exprs._id, QualName: Exprs._qual, c_ast.BinaryOp: Exprs._binary,
    c_ast.TernaryOp: Exprs._ternary, c_ast.UnaryOp: Exprs._unary, c_ast.Assignment: Exprs._assign,
    c_ast.ArrayRef: Exprs._subscript, c_ast.StructRef: Exprs._member, c_ast.Cast: Exprs._c_cast,
    CxxCast: Exprs._cxx_cast, Construct: Exprs._construct, c_ast.FuncCall: Exprs.call, c_ast.InitList: Exprs._init_list,
    c_ast.ExprList: Exprs._comma, Lambda: Exprs._lambda, Fold: Exprs._fold, InScope: Exprs._in_scope,
    Launch: device_launch,
}  # fmt: skip
