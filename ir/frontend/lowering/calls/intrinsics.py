"""Built-in functions: choosing a row of ``ktc.ir.builtins`` and lowering it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import reduce
from typing import Any

from ktc.ir.arith.integer_casts import without_implicit
from ktc.ir.builtins import Builtin, lookup
from ktc.ir.frontend.library.device_libraries import in_library
from ktc.ir.frontend.library.prelude import prelude_function
from ktc.ir.frontend.lowering.expressions.convert import bitcast, lane_of, lanes_of
from ktc.ir.frontend.lowering.memory.buffers import element
from ktc.ir.frontend.meaning.cxx_types import Pointer, show
from ktc.ir.frontend.meaning.name_meanings import TypeVal
from ktc.ir.frontend.meaning.row_signatures import row_signature
from ktc.ir.frontend.meaning.values import (
    ArrayVal,
    ChoicePlace,
    ElemPlace,
    FlatArray,
    LaneArray,
    LanePlace,
    ListVal,
    PtrToPlace,
    RecordVal,
    RVal,
    Value,
    moved,
)  # fmt: skip
from ktc.ir.nodes import (
    Atomic,
    Barrier,
    Binary,
    Call,
    Cast,
    Const,
    Decl,
    Eval,
    Expr,
    Fence,
    GridDependency,
    HwIndex,
    Unary,
    Var,
    VecMake,
    WarpOp,
    fresh,
    i32,
)  # fmt: skip
from ktc.ir.types import BF16, BOOL, F16, I32, U32, U64, VOID, Ptr, Scalar, Type, Vec, scalar_of

from .builtin_rows import BuiltinRows
from .own_atomics import is_own, updated
from .special import FULL_MASK, NO_VALUE

PACKED = ("dp4a",)
"""Built-ins that take four integers as a vector or as the word that these are."""


class Intrinsics(BuiltinRows):
    """Built-ins. Each kind of the table's third column has a method ``_b_<kind>``."""

    read_only_hints = False
    """Whether a load was asked for as one of read-only memory."""

    elements_of: Any  # provided by the declarations of arrays

    # ------------------------------------------------------------------ choosing a row
    def builtin(self, rows: tuple[Builtin, ...], args: list[Value], node: Any) -> Value:
        """Lower a call of the best row for ``args``."""
        if len(args) == 1 and isinstance(args[0], ListVal) and rows[0].arg in ("max", "min") and args[0].items:
            return reduce(lambda a, b: self.builtin(rows, [a, b], node), args[0].items)
        if rows[0].kind == "move" and len(args) == 1:
            return moved(args[0])  # a place stays one
        args = [a if isinstance(a, PtrToPlace | TypeVal) else self.load(a, node) for a in args]
        if rows[0].arg in PACKED:
            args = [self._word(a) for a in args]
        best = self.best_row(rows, args)[0]
        if best is None:
            args = [self.as_number(a, node) for a in args]
            best = self.best_row(rows, args)[0]
        if best is None:
            types = ", ".join(show(self.type_of(a)) for a in args)
            self.fail(
                "E-SEMA-OVERLOAD",
                f"no built-in '{rows[0].name}' accepts ({types})",
                node,
                hint=f"it is {row_signature(rows[0])}",
            )
        return getattr(self, f"_b_{best.kind}")(best, args, node)

    def _word(self, v: Value) -> Value:
        """A vector of small integers as the word that it is; anything else as it is."""
        t = v.expr.type if isinstance(v, RVal) else None
        if not isinstance(t, Vec) or not isinstance(t.n, int) or t.n * scalar_of(t).bits != 32:
            return v
        return RVal(bitcast(v.expr, Scalar(scalar_of(t).kind, 32)))  # type: ignore[attr-defined]

    # ------------------------------------------------------------------ kinds
    def _b_call(self, row: Builtin, args: list[Value], node: Any) -> Value:
        exprs, letters = self._converted(row, args, node)
        return RVal(Call(row.arg, tuple(exprs), self._result(row, letters)))

    def _b_cast(self, row: Builtin, args: list[Value], node: Any) -> Value:
        exprs, letters = self._converted(row, args, node)
        to = self._result(row, letters)
        return RVal(exprs[0] if exprs[0].type == to else Cast(to, exprs[0], "c"))

    def _b_bit(self, row: Builtin, args: list[Value], node: Any) -> Value:
        exprs, letters = self._converted(row, args, node)
        return RVal(bitcast(exprs[0], self._result(row, letters)))

    def _b_binary(self, row: Builtin, args: list[Value], node: Any) -> Value:
        exprs, _ = self._converted(row, args, node)
        return RVal(Binary(row.arg, exprs[0], exprs[1]))

    _b_compare = _b_binary

    def _b_round(self, row: Builtin, args: list[Value], node: Any) -> Value:
        """To an integer: round to one, then convert (saturating)."""
        exprs, letters = self._converted(row, args, node)
        to = self._result(row, letters)
        return RVal(Cast(to, Call(row.arg, (exprs[0],), exprs[0].type), "c"))

    def _b_mul24(self, row: Builtin, args: list[Value], node: Any) -> Value:
        """The product of 24-bit numbers: a plain one for hardware indices, which no device counts beyond 24 bits."""
        exprs, letters = self._converted(row, args, node)
        if all(isinstance(without_implicit(e), HwIndex) for e in exprs):
            return RVal(Binary("*", exprs[0], exprs[1]))
        return RVal(Call("mul24", tuple(exprs), self._result(row, letters)))

    def _b_unary(self, row: Builtin, args: list[Value], node: Any) -> Value:
        exprs, _ = self._converted(row, args, node)
        return RVal(Unary(row.arg, exprs[0]))

    def _b_system(self, row: Builtin, args: list[Value], node: Any) -> Value:
        """A function that acts: called once, here."""
        exprs, letters = self._converted(row, args, node)
        call = Call(row.arg, tuple(exprs), self._result(row, letters), "write")
        if call.ty == VOID or id(node) in self.unused:
            self.emit(Eval(call, loc=self.loc))
            return NO_VALUE
        return RVal(self.temp(call, row.arg))

    def _b_first(self, row: Builtin, args: list[Value], node: Any) -> Value:
        return args[0]

    def _b_move(self, row: Builtin, args: list[Value], node: Any) -> Value:
        return moved(args[0])

    def _b_make(self, row: Builtin, args: list[Value], node: Any) -> Value:
        exprs, _ = self._converted(row, args, node)
        assert isinstance(row.ret, Vec)
        return RVal(VecMake(row.ret, tuple(exprs)))

    def _b_ignore(self, row: Builtin, args: list[Value], node: Any) -> Value:
        return NO_VALUE

    def _b_trap(self, row: Builtin, args: list[Value], node: Any) -> Value:
        self.fail("E-UNSUPPORTED-CALL", f"'{row.name}' is not supported", node, hint=row.arg)

    def _b_body(self, row: Builtin, args: list[Value], node: Any) -> Value:
        own = lookup(row.name, self.program.dialect.tables) is not lookup(row.name)
        entity = prelude_function(row.name, "opencl.cuh" if own else "prelude.cuh")
        return self.call_entities([entity], None, args, node, self.file_scope())

    _b_simd = _b_body

    def _b_barrier(self, row: Builtin, args: list[Value], node: Any) -> Value:
        mask = self.convert(self.rvalue(args[0], node), U32).expr if args else None
        if isinstance(mask, Const) and mask.value == 0xFFFFFFFF:
            mask = None
        scope, _, memory = row.arg.partition(" ")
        self.emit(Barrier(scope, mask, memory or "all", loc=self.loc))
        return NO_VALUE

    def _b_fence(self, row: Builtin, args: list[Value], node: Any) -> Value:
        self.emit(Fence(row.arg, loc=self.loc))
        return NO_VALUE

    def _b_grid(self, row: Builtin, args: list[Value], node: Any) -> Value:
        self.emit(GridDependency(row.arg, loc=self.loc))
        return NO_VALUE

    def _b_warp(self, row: Builtin, args: list[Value], node: Any) -> Value:
        """A shuffle. A library's own code may move objects: field by field, as the headers do it by words."""
        if isinstance(value := args[1], RecordVal) and in_library(getattr(node.coord, "file", "")):
            return self._warp_object(value, lambda part: self._b_warp(row, [args[0], part, *args[2:]], node), node)
        exprs, _ = self._converted(row, args, node)
        mask, moves, arg, width = exprs
        if isinstance(moves.type, Vec) and not (moves.type.n == 2 and moves.type.elem in (F16, BF16)):
            return self._warp_vector(row.arg, moves, arg, width, mask)
        return self._warp(row.arg, moves, arg, width, mask)

    def _warp_object(self, value: RecordVal, shuffled: Callable[[Value], Value], node: Any) -> RecordVal:
        """An object each member of which is ``shuffled``, and of an array each element."""

        def read(place: Value, name: str) -> Value:
            part = shuffled(self.load(place, node))
            return part if isinstance(part, RecordVal) else RVal(self.temp(self.rvalue(part).expr, name))

        arrays = {name for name, field in value.fields.items() if isinstance(field, ArrayVal | FlatArray | LaneArray)}
        out = self.copied(value, "moved", node) if arrays else RecordVal(value.type)
        for name, field in value.fields.items():
            if name in arrays:
                for target, source in self.elements_of(out.fields[name], field, node):
                    self.store(target, read(source, name), node)
            elif arrays:
                self.assign_field(out, name, read(field, name), node)
            else:
                out.fields[name] = read(field, name)
        return out

    def _warp_vector(self, kind: str, moves: Expr, arg: Expr, width: Expr, mask: Expr) -> RVal:
        """A shuffle of a vector: as one word if it is one, else lane by lane."""
        t = moves.type
        assert isinstance(t, Vec)
        word = {4: U32, 8: U64}.get(lanes_of(t) * t.elem.bytes) if t.elem.bytes < 4 else None
        if word is not None:
            return RVal(bitcast(WarpOp(kind, bitcast(moves, word), arg, width, mask), t))
        whole, arg = self.temp(moves, "whole"), self.temp(arg, "lane")
        return RVal(VecMake(t, tuple(WarpOp(kind, lane_of(whole, i), arg, width, mask) for i in range(lanes_of(t)))))

    def _b_oldwarp(self, row: Builtin, args: list[Value], node: Any) -> Value:
        exprs, _ = self._converted(row, args, node)
        value, arg, width = exprs
        return self._warp(row.arg, value, arg, width, FULL_MASK)

    def _warp(self, kind: str, value: Expr, arg: Expr | None, width: Expr, mask: Expr) -> RVal:
        return RVal(WarpOp(kind, value, arg, width, mask))

    def _b_vote(self, row: Builtin, args: list[Value], node: Any) -> Value:
        if row.arg == "active":
            return self._warp("active", Const(True, BOOL), None, i32(32), FULL_MASK)
        mask = self.convert(self.rvalue(args[0], node), U32).expr if len(args) > 1 else FULL_MASK
        predicate = self.rvalue(args[-1], node)
        if predicate.type != BOOL:  # it is an int: 0.5f is none, and of 64 bits the lower ones count
            predicate = self.convert(predicate, I32, "implicit", node)
        vote = self._warp(row.arg, self.truth(predicate, node), None, i32(32), mask)
        return vote if row.ret == vote.type else RVal(Cast(row.ret, vote.expr, "implicit"))  # type: ignore[arg-type]

    def _b_match(self, row: Builtin, args: list[Value], node: Any) -> Value:
        mask = self.convert(self.rvalue(args[0], node), U32).expr
        value = self.promote(self.rvalue(args[1], node)).expr
        if isinstance(value.type, Scalar) and value.type.is_float:
            value = bitcast(value, Scalar("uint", value.type.bits))
        found = self._warp(f"match_{row.arg}", value, None, i32(32), mask)
        if len(args) < 3:
            return found
        lanes = self.temp(found.expr, "same")
        self.store(self._pointee(args[2], node), RVal(Binary("!=", lanes, Const(0, U32))), node)
        return RVal(lanes)

    def _b_redux(self, row: Builtin, args: list[Value], node: Any) -> Value:
        exprs, _ = self._converted(row, args, node)
        return self._warp(f"reduce_{row.arg}", exprs[1], None, i32(32), exprs[0])

    def _b_load(self, row: Builtin, args: list[Value], node: Any) -> Value:
        self.read_only_hints |= row.arg == "ldg"
        return self.load(_hinted(self._pointee(args[0], node), row.arg))

    def _b_store(self, row: Builtin, args: list[Value], node: Any) -> Value:
        self.store(_hinted(self._pointee(args[0], node), row.arg), args[1], node)
        return NO_VALUE

    def _b_atomic(self, row: Builtin, args: list[Value], node: Any) -> Value:
        place = self._pointee(args[0], node)
        if isinstance(place, ElemPlace) and isinstance(t := place.type, Vec):
            if row.arg != "add" or not isinstance(t.elem, Scalar) or not t.elem.is_float:
                self.fail("E-UNSUPPORTED-ATOMIC", f"an atomic {row.arg} of {show(t)}", node)
            return self._atomic_lanes(row, place, t, args, node)
        if is_own(place) and isinstance(t := self.type_of(place), Scalar):
            return self._own_atomic(row.arg, place, t, args, node)
        choice = place if isinstance(place, ChoicePlace) else None
        seen = [self._atomic_view(row.arg, c, node) for c in (choice.choices if choice else (place,))]
        places, t, as_type = [p for p, _ in seen], seen[0][0].type, seen[0][1]
        if any((p.type, seen_as) != (t, as_type) for p, seen_as in seen):
            self.fail("E-UNSUPPORTED-ATOMIC", "an atomic on one of several buffers of different types", node)
        value = bitcast(self.convert(self.rvalue(args[-1], node), as_type, "implicit", node).expr, t)
        compare = None
        if row.arg == "cas":
            compare = bitcast(self.convert(self.rvalue(args[1], node), as_type, "implicit", node).expr, t)
        op = row.arg if t == as_type else bit_op(row.arg, as_type)
        scope = "block" if row.name.endswith("_block") else "system" if row.name.endswith("_system") else "device"
        old = None
        if id(node) not in self.unused:
            old = fresh("old", t)
            self.emit(Decl(old, None, loc=self.loc))

        def act(p: ElemPlace) -> None:
            self.emit(Atomic(op, p.buffer, p.index, value, compare, old, scope=scope, loc=self.loc))

        if choice:
            self.for_chosen(choice.which, places, act)
        else:
            act(places[0])
        return NO_VALUE if old is None else RVal(bitcast(Var(old), as_type))

    def _own_atomic(self, op: str, place: Value, t: Scalar, args: list[Value], node: Any) -> Value:
        """An atomic on a variable of the thread."""
        given = [self.convert(self.rvalue(a, node), t, "implicit", node).expr for a in args[1:]]
        old = self.temp(self.rvalue(place, node).expr, "old")
        self.store(place, RVal(updated(op, old, given[-1], given[0] if op == "cas" else None, t)), node)
        return RVal(old)

    def _atomic_lanes(self, row: Builtin, place: ElemPlace, t: Vec, args: list[Value], node: Any) -> Value:
        """``atomicAdd(__half2*, __half2)`` and the like: the lanes are added one by one, each of them atomically."""
        value = self.temp(self.convert(self.rvalue(args[-1], node), t, "implicit", node).expr, "lanes")
        lanes = [self.address(LanePlace(place, i32(i), t.elem), node) for i in range(lanes_of(t))]
        olds = [self._b_atomic(row, [at, RVal(lane_of(value, i))], node) for i, at in enumerate(lanes)]
        return NO_VALUE if NO_VALUE in olds else RVal(VecMake(t, tuple(self.rvalue(v, node).expr for v in olds)))

    def _atomic_view(self, op: str, place: Value, node: Any) -> tuple[ElemPlace, Scalar]:
        """The element that an atomic changes, and the type that it is seen as.

        ``atomicMax((int*)p, ...)`` and ``atomicCAS`` of floats leave the buffer one of floats: they look at its bits.
        """
        if isinstance(place, ElemPlace) and isinstance(place.type, Scalar):
            natural, seen_as = _natural_elem(place), place.type
            viewed = op in VIEWED and seen_as.is_int and natural != seen_as and place.width == 1
            if viewed and isinstance(natural, Scalar) and natural.bits == seen_as.bits and natural.kind != "bool":
                return dataclasses.replace(place, type=natural), seen_as
        found = self._atomic_place(place, node)
        assert isinstance(found.type, Scalar)
        return found, found.type

    def _atomic_place(self, place: Value, node: Any) -> ElemPlace:
        """``place`` in a buffer of the type that the atomic works on."""
        if isinstance(place, ElemPlace) and place.type != _natural_elem(place):
            self.need_type(place.buffer, place.type, node)
        if isinstance(place, ElemPlace) and place.type != _natural_elem(place) and isinstance(place.buffer.type, Ptr):
            bits = self.address_bits(self.address(place, node), node).expr
            place = self.deref(self.pointer_from(bits, Pointer(place.type), node), None, node)
        if not isinstance(place, ElemPlace) or place.type != _natural_elem(place):
            self.fail("E-UNSUPPORTED-ATOMIC", "an atomic on reinterpreted or private memory", node,
                      hint="declare the buffer with the type the atomic works on")  # fmt: skip
        return place

    def file_scope(self):
        raise NotImplementedError


VIEWED = {"cas": "cas", "exch": "exch", "max": "{}max", "min": "{}min"}
"""What an atomic that sees an element as integers of another type is on the element's own type."""


def bit_op(op: str, seen_as: Scalar) -> str:
    """The operation on the bits of an element that ``op`` sees as ``seen_as``."""
    return VIEWED[op].format("s" if seen_as.is_signed else "u")


def _hinted(place: Any, cache: str) -> Any:
    """``place``, read or written past the caches as ``cache`` says, where it is in memory."""
    if isinstance(place, ChoicePlace):
        return dataclasses.replace(place, choices=tuple(_hinted(c, cache) for c in place.choices))
    return dataclasses.replace(place, cache=cache) if isinstance(place, ElemPlace) else place


def _natural_elem(p: ElemPlace) -> Type:
    return element(p.buffer) if p.width == 1 else scalar_of(p.buffer.type)
