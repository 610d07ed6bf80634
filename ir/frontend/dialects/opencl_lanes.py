"""OpenCL's built-ins of numbers and its operators on truth values, lane by lane.

A comparison of scalars is 1 where it holds. In a vector it is -1, all bits of the lane, and what is asked of a lane
in ``select``, ``any``, ``all`` and ``c ? a : b`` is its top bit (OpenCL C 3.0, 6.3.3 and 6.15.6).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from ktc.ir.builtins import Builtin
from ktc.ir.frontend.lowering.expressions.convert import bitcast, lane_of, lanes_of
from ktc.ir.frontend.lowering.expressions.lane_truths import all_bits, top_bit
from ktc.ir.frontend.meaning.cxx_types import show
from ktc.ir.frontend.meaning.values import PtrToPlace, PtrVal, RVal, Value
from ktc.ir.nodes import Binary, Expr, VecMake
from ktc.ir.types import I32, Scalar, Type, Vec

from .opencl_overloads import Overload, has_overloads, overload

if TYPE_CHECKING:
    from ktc.ir.frontend.lowering.calls.calls import Calls


def lanewise(low: Calls, rows: tuple[Builtin, ...], args: list[Value], node: Any) -> Value:
    """A built-in of numbers, applied to each lane where an argument is a vector."""
    loaded = [a if isinstance(a, PtrToPlace | PtrVal) else low.load(a, node) for a in args]
    vectors = [a.type for a in loaded if isinstance(a, RVal) and isinstance(a.type, Vec)]
    if not has_overloads(rows):
        if vectors and any(isinstance(a, PtrToPlace | PtrVal) for a in loaded):
            low.fail("E-UNSUPPORTED-CALL", f"'{rows[0].name}' of vectors by pointer is not supported", node)
        return low.builtin(rows, loaded, node)
    given = [low.rvalue(a, node) for a in loaded]
    same_lanes(low, vectors, node)
    chosen = overload(low, rows, [a.type for a in given], node)
    if chosen.row.kind in ("any", "all"):
        return _of_all_lanes(low, chosen.row.kind, given[0])
    if not vectors:
        return RVal(_one_lane(low, chosen, given, node))
    n = lanes_of(vectors[0])
    spread = [low.vector(a) if isinstance(a.type, Vec) else low.reuse(a.expr) for a in given]
    lanes = tuple(
        _one_lane(low, chosen, [RVal(lane_of(x, i) if isinstance(x.type, Vec) else x) for x in spread], node, True)
        for i in range(n)
    )
    elem = lanes[0].type
    assert isinstance(elem, Scalar)
    return RVal(VecMake(Vec(elem, n), lanes))


def same_lanes(low: Any, types: Sequence[Type], node: Any) -> None:
    """Refuse operands with different numbers of components."""
    if len({lanes_of(t) if isinstance(t, Vec) else 1 for t in types}) > 1:
        names = ", ".join(f"'{show(t)}'" for t in types)
        low.fail("E-SEMA-CONVERT", f"{names} do not have the same number of components", node)


def _one_lane(low: Calls, chosen: Overload, args: list[RVal], node: Any, of_vector: bool = False) -> Expr:
    """One lane of a call, or the call of scalars."""
    values = [low.convert(a, t, "implicit", node) for a, t in zip(args, chosen.parameters)]
    row = chosen.row
    if row.kind == "select":
        a, b, c = values
        return low.select(top_bit(c.expr) if of_vector else low.truth(c, node), b, a, node).expr
    if row.kind == "body" and row.arg == "bits":  # of a float's bits, as an integer
        words = [RVal(bitcast(v.expr, Scalar("uint", v.expr.type.bits))) for v in values]  # type: ignore[attr-defined]
        return bitcast(low.rvalue(low.builtin((row,), [*words], node), node).expr, chosen.result)
    concrete = chosen.concrete()
    if "F" in chosen.letters and chosen.letters["F"].bits == 16 and row.name == "nextafter":
        low.fail("E-UNSUPPORTED-CALL", "'nextafter' of half is not supported", node)
    computed = [low.convert(v, p.type, "implicit", node) for v, p in zip(values, concrete.params)]  # type: ignore[arg-type]
    found = low.rvalue(low.builtin((concrete,), [*computed], node), node)
    if row.ret != "R":
        return low.convert(found, chosen.result, "implicit", node).expr
    if not of_vector:
        return low.convert(found, I32, "implicit", node).expr
    return all_bits(low.truth(found, node), chosen.letters["F"])


def _of_all_lanes(low: Calls, kind: str, v: RVal) -> RVal:
    """``any`` and ``all``: 1 if the top bit of one lane, or of every one, is set."""
    x = low.vector(v) if isinstance(v.type, Vec) else v.expr
    tests = [top_bit(lane_of(x, i)) for i in range(lanes_of(v.type))] if isinstance(v.type, Vec) else [top_bit(x)]
    op = "||" if kind == "any" else "&&"
    return low.convert(RVal(reduce(lambda a, b: Binary(op, a, b), tests)), I32)
