"""OpenCL's ``!``, ``&&``, ``||`` and ``?:`` of vectors: every operand is evaluated, each lane by itself."""

from __future__ import annotations

from typing import Any

from ktc.ir.frontend.dialects.dialect import OPENCL
from ktc.ir.frontend.meaning.cxx_types import show
from ktc.ir.frontend.meaning.values import RVal, Value
from ktc.ir.nodes import Binary, Expr, Select, Unary, VecMake
from ktc.ir.types import Scalar, Type, Vec

from .construct import Construction
from .convert import lane_of, lanes_of
from .lane_truths import all_bits, top_bit


def is_vector(v: Value) -> bool:
    """Whether a loaded value is a vector."""
    return isinstance(v, RVal) and isinstance(v.type, Vec)


class VectorTruths(Construction):
    """Operators that take vectors of truth values, in OpenCL C alone."""

    def vector_logical(self, op: str, a: Value, b: Value, node: Any) -> Value:
        """``a && b`` or ``a || b`` of which one is a vector: -1 or 0 in each lane."""
        p, q = self.rvalue(a, node), self.rvalue(b, node)
        t = self._vector_of([p, q], node)
        x, y = (self.vector(self.convert(v, t, "implicit", node)) for v in (p, q))
        tests: list[Expr] = [
            Binary(op, *(self.truth(RVal(lane_of(v, i)), node) for v in (x, y))) for i in range(lanes_of(t))
        ]
        return _minus_ones(tests, t)

    def unary(self, op: str, v: RVal, node: Any) -> RVal:
        if op != "!" or not is_vector(v) or self.program.dialect is not OPENCL:
            return super().unary(op, v, node)
        x, t = self.vector(v), v.type
        assert isinstance(t, Vec)
        return _minus_ones([Unary("!", self.truth(RVal(lane_of(x, i)), node)) for i in range(lanes_of(t))], t)

    def vector_choice(self, cond: RVal, a: Value, b: Value, node: Any) -> Value:
        """``cond ? a : b`` by the top bit of each lane of ``cond``; a scalar is spread."""
        p, q = self.rvalue(a, node), self.rvalue(b, node)
        given = cond.type
        assert isinstance(given, Vec)
        t = self._vector_of([p, q], node, lanes_of(given))
        if t.elem.bits != given.elem.bits or not given.elem.is_int or lanes_of(t) != lanes_of(given):
            self.fail("E-SEMA-CONVERT", f"'?:' chooses a '{show(t)}' by a '{show(given)}'", node)
        test, x, y = self.vector(cond), *(self.vector(self.convert(v, t, "implicit", node)) for v in (p, q))
        lanes = (Select(top_bit(lane_of(test, i)), lane_of(x, i), lane_of(y, i)) for i in range(lanes_of(t)))
        return RVal(VecMake(t, tuple(lanes)))

    def _vector_of(self, values: list[RVal], node: Any, lanes: int = 0) -> Vec:
        """The vector type that the operands have in common; ``lanes`` of the operands' type if all are scalars."""
        vectors: set[Type] = {v.type for v in values if isinstance(v.type, Vec)}
        if len(vectors) > 1:
            names = " and ".join(sorted(f"'{show(t)}'" for t in vectors))
            self.fail("E-SEMA-CONVERT", f"{names} do not agree", node)
        if vectors:
            found = vectors.pop()
            assert isinstance(found, Vec)
            return found
        a, b = (v.type for v in values)
        if not isinstance(a, Scalar) or not isinstance(b, Scalar):
            self.fail("E-SEMA-CONVERT", f"'{show(a)}' and '{show(b)}' do not agree", node)
        return Vec(a if a == b else self.common(a, b, "?:", node), lanes)


def _minus_ones(tests: list[Expr], t: Vec) -> RVal:
    return RVal(VecMake(Vec(Scalar("int", t.elem.bits), t.n), tuple(all_bits(test, t.elem) for test in tests)))
