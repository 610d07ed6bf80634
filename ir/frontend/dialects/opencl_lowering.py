"""What OpenCL C has and C++ has not: work-item functions, vector literals and components, ``vloadn``, ``convert_T``.

Work-item functions give ``size_t``. Their value is kept as 64-bit arithmetic on the 32-bit indices, and narrowed back
by ``convert`` where the program converts it to 32 bits (``int i = get_global_id(0)``), which is exact modulo 2**32.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ktc.ir.builtins import lookup
from ktc.ir.frontend.lowering.expressions.convert import lane_of, lanes_of
from ktc.ir.frontend.meaning.cxx_types import show
from ktc.ir.frontend.meaning.values import NullVal, PtrVal, RVal, Value
from ktc.ir.nodes import Barrier, Binary, Call, Cast, Const, Expr, HwIndex, Select, VecMake, i32
from ktc.ir.types import BOOL, F16, F32, F64, I32, U64, Scalar, Type, Vec

from .dialect import OPENCL_VECTORS
from .opencl_copies import GROUP_CALLS
from .opencl_lanes import lanewise, same_lanes

if TYPE_CHECKING:
    from ktc.ir.frontend.lowering.calls.calls import Calls

_INDEX = {
    "get_local_id": ("thread",), "get_group_id": ("block",), "get_local_size": ("block_dim",),
    "get_enqueued_local_size": ("block_dim",), "get_num_groups": ("grid_dim",),
    "get_global_size": ("block_dim", "grid_dim"), "get_global_id": ("block", "block_dim", "thread"),
}  # fmt: skip
"""Work-item functions: one index, the product of two, or ``a * b + c``."""

_SCALARS = {"char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "float", "double"}
_CONVERT = re.compile(rf"(convert|as)_({'|'.join(sorted(_SCALARS))})(2|3|4|8|16)?(_sat)?(_rt[ezpn])?$")
_MEMORY = re.compile(r"v(load|store)(_half)?(2|3|4|8|16)?(_rt[ezpn])?$")
_WHOLE = {"barrier", "work_group_barrier", "mem_fence", "read_mem_fence", "write_mem_fence", "prefetch"}


def opencl_call(low: Calls, name: str, raw: list, node: Any) -> Value | None:
    """A call of an OpenCL built-in that needs more than a row of a table; None if ``name`` is none."""
    if name in _INDEX:
        return RVal(_work_item(low, name, raw, node))
    if name == "get_global_offset":
        return RVal(Const(0, U64))
    if name == "get_work_dim":
        low.fail("E-UNSUPPORTED-CALL", "'get_work_dim' is not supported", node, hint="write the number of dimensions")
    if (m := _CONVERT.match(name)) and len(raw) == 1:
        return _conversion(low, m, raw, node)
    if (m := _MEMORY.match(name)) and (m.group(2) or m.group(3)) and len(raw) == (2 if m.group(1) == "load" else 3):
        return _memory(low, m, raw, node)
    if name in _GEOMETRY:
        if len(raw) != (1 if name.endswith(("length", "normalize")) else 2):
            low.fail("E-SEMA-OVERLOAD", f"'{name}' with {len(raw)} arguments", node)
        return _GEOMETRY[name](low, [low.rval(a) for a in raw], node)
    if name in ("barrier", "work_group_barrier") and len(raw) == 1:
        return _barrier(low, raw[0])
    if name in GROUP_CALLS:
        return GROUP_CALLS[name](low, raw, node)
    if name == "fract" and len(raw) == 2:
        return _fract(low, raw, node)
    if name == "sincos" and len(raw) == 2:
        return _sincos(low, raw, node)
    rows = lookup(name, low.program.dialect.tables)
    if not rows:
        return None
    args = low.arguments(raw)
    return low.builtin(rows, args, node) if name in _WHOLE else lanewise(low, rows, args, node)


# ---------------------------------------------------------------------------------------------------- work items

_ORDERED = ("none", "shared", "global", "all")
"""What a barrier orders, by its flags: CLK_LOCAL_MEM_FENCE is 1, CLK_GLOBAL_MEM_FENCE is 2."""


def _barrier(low: Calls, flags: Any) -> Value:
    given = low.convert(low.promote(low.rval(flags)), I32, node=flags)
    known = low.constant(given.expr)
    if known is not None:
        low.emit(Barrier("block", None, _ORDERED[int(known.value) & 3], loc=low.loc))
        return NullVal()
    low.emit(Barrier(flags=given.expr, loc=low.loc))
    return NullVal()


def _work_item(low: Calls, name: str, raw: list, node: Any) -> Expr:
    d = low.constant(low.rval(raw[0]).expr) if len(raw) == 1 else None
    if d is None:
        low.fail("E-UNSUPPORTED-CALL", f"'{name}' of a dimension that is not a constant", node, hint="unroll the loop")
    if int(d.value) > 2:
        return Const(0 if name.endswith("_id") else 1, U64)
    parts = [Cast(U64, HwIndex(level, "xyz"[int(d.value)]), "implicit") for level in _INDEX[name]]
    if len(parts) == 1:
        return parts[0]
    product = Binary("*", parts[0], parts[1])
    return product if len(parts) == 2 else Binary("+", product, parts[2])


# -------------------------------------------------------------------------------------------------------- vectors

_DIGITS = {c: i for i, c in enumerate("0123456789abcdef")} | {c: i + 10 for i, c in enumerate("ABCDEF")}


def components(name: str, n: int) -> tuple[int, ...] | None:
    """The lanes that a component selector names in a vector of ``n``; None if it is no selector."""
    size = n + 1 if n == 3 else n
    halves = {
        "lo": range(size // 2), "hi": range(size // 2, size), "even": range(0, size, 2), "odd": range(1, size, 2),
    }  # fmt: skip
    if name in halves:
        found = tuple(halves[name])
    elif name and all(c in "xyzw" for c in name):
        found = tuple("xyzw".index(c) for c in name)
    elif name[:1] in ("s", "S") and len(name) > 1 and all(c in _DIGITS for c in name[1:]):
        found = tuple(_DIGITS[c] for c in name[1:])
    else:
        return None
    return found if all(i < n for i in found) and len(found) in (1, 2, 3, 4, 8, 16) else None


def vector_literal(low: Any, to: Vec, items: list, node: Any) -> Value:
    """``(float4)(a, b.xy, 0)``: scalars and vectors, together as many components as ``to`` has; one scalar fills it."""
    lanes: list[Expr] = []
    for item in items:
        v = low.rval(item)
        if isinstance(v.type, Vec):
            x = low.vector(v)
            lanes += [lane_of(x, i) for i in range(lanes_of(v.type))]
        else:
            lanes.append(v.expr)
    if len(lanes) != lanes_of(to):
        low.fail("E-SEMA-INIT", f"{len(lanes)} components for a '{show(to)}'", node)
    return RVal(VecMake(to, tuple(low.convert(RVal(e), to.elem, "implicit", node).expr for e in lanes)))


def _named_type(name: str, n: str | None) -> Type:
    whole = OPENCL_VECTORS[f"{name}{n or 2}"]
    assert isinstance(whole, Vec)
    return whole if n else whole.elem


def _conversion(low: Calls, m: re.Match[str], raw: list, node: Any) -> Value:
    kind, base, n, sat, mode = m.groups()
    to = _named_type(base, n)
    v = low.rval(raw[0])
    if kind == "as":
        from ktc.ir.frontend.lowering.expressions.convert import bitcast

        return v if v.type == to else RVal(bitcast(low.vector(v), to))
    same_lanes(low, [to, v.type], node)
    elem = to.elem if isinstance(to, Vec) else to
    source = v.type.elem if isinstance(v.type, Vec) else v.type
    assert isinstance(elem, Scalar) and isinstance(source, Scalar)
    exact = source == elem or (mode == "_rte" and elem.is_int and source.is_float)
    if mode and mode != ("_rtz" if elem.is_int else "_rte") and not exact:
        low.fail("E-UNSUPPORTED-CALL", f"rounding mode '{mode}' of '{m.group()}' is not supported", node)
    wide = I32 if source.is_float else source
    clamped = sat and not (source.is_float and elem.bits >= 32)  # float -> int saturates already
    if sat and (not elem.is_int or (clamped and wide.bits <= elem.bits)):
        low.fail("E-UNSUPPORTED-CALL", f"'{m.group()}' between these types is not supported", node, hint="use clamp")

    def one(e: Expr) -> Expr:
        e = Call("rint", (e,), e.type) if mode == "_rte" and elem.is_int and source.is_float else e
        if clamped:
            half = 1 << (elem.bits - 1)
            least, high = (-half, half - 1) if elem.is_signed else (0, 2 * half - 1)
            e = Call("min", (low.convert(RVal(e), wide, "c", node).expr, Const(high, wide)), wide)
            e = Call("max", (e, Const(least, wide)), wide) if wide.is_signed else e
        return low.convert(RVal(e), elem, "c", node).expr

    if not isinstance(to, Vec):
        return RVal(one(v.expr))
    x = low.vector(v)
    return RVal(VecMake(to, tuple(one(lane_of(x, i)) for i in range(lanes_of(to)))))


def _memory(low: Calls, m: re.Match[str], raw: list, node: Any) -> Value:
    """``vloadn(i, p)`` and ``vstoren(v, i, p)``: n consecutive elements, aligned as one."""
    what, half, width, _ = m.groups()
    n = int(width or 1)
    base = low.load(low.eval(raw[-1]), node)
    if not isinstance(base, PtrVal):
        low.fail("E-UNSUPPORTED-POINTER", f"'{m.group()}' of this pointer is not supported", node)
    at = low.scale_offset(low.promote(low.rval(raw[-2])).expr, n)
    at = at if isinstance(at, Const) else low.temp(at, "at")
    places = [low.deref(low.pointer_add(low.pointer_add(base, at, node), i32(i), node), None, node) for i in range(n)]
    if what == "load":
        lanes = [low.rvalue(p, node) for p in places]
        lanes = [low.convert(x, F32) for x in lanes] if half else lanes
        elem = lanes[0].type
        assert isinstance(elem, Scalar)
        return lanes[0] if n == 1 else RVal(VecMake(Vec(elem, n), tuple(x.expr for x in lanes)))
    v = low.rval(raw[0])
    if (lanes_of(v.type) if isinstance(v.type, Vec) else 1) != n:
        low.fail("E-SEMA-CONVERT", f"'{m.group()}' of a '{show(v.type)}'", node)
    x = low.vector(v)
    for i, p in enumerate(places):
        lane = RVal(lane_of(x, i) if isinstance(v.type, Vec) else x)
        low.store(p, low.convert(lane, F16) if half else lane, node)
    return RVal(i32(0))


# ------------------------------------------------------------------------------------------------------- geometry


def _lanes(low: Calls, v: RVal) -> list[Expr]:
    if not isinstance(v.type, Vec):
        return [v.expr]
    x = low.vector(v)
    return [lane_of(x, i) for i in range(lanes_of(v.type))]


def _dot(low: Calls, args: list[RVal], node: Any) -> Value:
    same_lanes(low, [a.type for a in args], node)
    total: RVal | None = None
    for a, b in zip(_lanes(low, args[0]), _lanes(low, args[1])):
        term = low.arithmetic("*", RVal(a), RVal(b), node)
        total = term if total is None else low.arithmetic("+", total, term, node)
    assert total is not None
    return total


def _length(low: Calls, args: list[RVal], node: Any) -> Value:
    x = RVal(low.vector(args[0])) if isinstance(args[0].type, Vec) else args[0]
    return low.builtin(lookup("sqrt"), [_dot(low, [x, x], node)], node)


def _distance(low: Calls, args: list[RVal], node: Any) -> Value:
    return _length(low, [low.arithmetic("-", args[0], args[1], node)], node)


def _normalize(low: Calls, args: list[RVal], node: Any) -> Value:
    x = RVal(low.vector(args[0])) if isinstance(args[0].type, Vec) else args[0]
    square = low.rvalue(_dot(low, [x, x], node), node)
    t = square.type
    assert isinstance(t, Scalar)
    square = RVal(low.temp(square.expr, "square"))
    inverse = low.rvalue(low.builtin(lookup("rsqrt"), [square], node), node)
    factor = Select(Binary("==", square.expr, Const(0.0, t)), Const(1.0, t), inverse.expr)  # of zeros it is the zeros
    return low.arithmetic("*", x, RVal(low.temp(factor, "inverse")), node)


def _cross(low: Calls, args: list[RVal], node: Any) -> Value:
    a, b = _lanes(low, args[0]), _lanes(low, args[1])
    if not len(a) == len(b) >= 3:
        low.fail("E-SEMA-OVERLOAD", f"no 'cross' accepts ({', '.join(show(x.type) for x in args)})", node)

    def minor(i: int, j: int) -> Expr:
        left = low.arithmetic("*", RVal(a[i]), RVal(b[j]), node)
        return low.arithmetic("-", left, low.arithmetic("*", RVal(a[j]), RVal(b[i]), node), node).expr

    lanes = [minor(1, 2), minor(2, 0), minor(0, 1)]
    t = args[0].type
    assert isinstance(t, Vec)
    return RVal(VecMake(t, (*lanes, *([Const(0.0, t.elem)] if lanes_of(t) == 4 else []))))


_GEOMETRY: dict[str, Callable[[Calls, list[RVal], Any], Value]] = {
    "dot": _dot, "length": _length, "fast_length": _length, "distance": _distance, "fast_distance": _distance,
    "normalize": _normalize, "fast_normalize": _normalize, "cross": _cross,
}  # fmt: skip


def _sincos(low: Calls, raw: list, node: Any) -> Value:
    """``sincos(x, &c)``: the sine; the cosine goes through the pointer."""
    x = low.rval(raw[0])
    x = RVal(low.temp(x.expr, "angle"))
    p = low.load(low.eval(raw[1]), node)
    place = low.deref(p, None, node) if isinstance(p, PtrVal) else low.view(p, None, node)  # type: ignore[arg-type]
    low.store(place, lanewise(low, lookup("cos"), [x], node), node)
    return lanewise(low, lookup("sin"), [x], node)


_BELOW_ONE = {F32: 1 - 2.0**-24, F64: 1 - 2.0**-53}


def _fract(low: Calls, raw: list, node: Any) -> Value:
    """``fract(x, &whole)``: what is above the next lower integer, below 1; that integer goes through the pointer."""
    x = low.rval(raw[0])
    t = x.type.elem if isinstance(x.type, Vec) else x.type
    if not isinstance(t, Scalar) or t not in _BELOW_ONE:
        low.fail("E-SEMA-OVERLOAD", f"no 'fract' accepts '{show(x.type)}'", node)
    x = RVal(low.temp(x.expr, "x"))
    floor = low.rvalue(lanewise(low, lookup("floor"), [x], node), node)
    floor = RVal(low.temp(floor.expr, "whole"))
    p = low.load(low.eval(raw[1]), node)
    place = low.deref(p, None, node) if isinstance(p, PtrVal) else low.view(p, None, node)  # type: ignore[arg-type]
    low.store(place, floor, node)
    whole = [lane_of(floor.expr, i) for i in range(lanes_of(x.type))] if isinstance(x.type, Vec) else [floor.expr]
    lanes = [lane_of(x.expr, i) for i in range(len(whole))] if isinstance(x.type, Vec) else [x.expr]
    parts = tuple(_above(low, RVal(v), RVal(w), t, node) for v, w in zip(lanes, whole))
    return RVal(VecMake(x.type, parts) if isinstance(x.type, Vec) else parts[0])


def _above(low: Calls, x: RVal, whole: RVal, t: Scalar, node: Any) -> Expr:
    """What ``x`` is above ``whole``, at most the largest number below 1; a zero of its sign if it is infinite."""
    above = low.reuse(low.arithmetic("-", x, whole, node).expr)
    most = Const(_BELOW_ONE[t], t)
    part = Select(Binary(">", above, most), most, above)
    zero = low.rvalue(low.builtin(lookup("copysign"), [RVal(Const(0.0, t)), x], node), node).expr
    return Select(Call("isinf", (x.expr,), BOOL), zero, part)


__all__ = ["components", "opencl_call", "vector_literal"]
