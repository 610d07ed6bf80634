"""Pointer variables that change: an offset, and a number that says into which of several buffers they point.

Which buffers those are is read off the function's syntax: whatever is assigned to the variable, through other pointer
variables. A variable with one buffer needs the offset only. Where the buffers cannot be told the variable stays with
the one it starts from, and an assignment of another is refused.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NoReturn

from pycparser import c_ast

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.context import Retry
from ktc.ir.frontend.lowering.expressions.exprs import Exprs
from ktc.ir.frontend.meaning.cxx_types import CArray, Pointer
from ktc.ir.frontend.meaning.name_meanings import TypeVal
from ktc.ir.frontend.meaning.values import (
    ArrayVal,
    ChoicePtr,
    FlatArray,
    LaneArray,
    NullVal,
    PtrSlot,
    PtrToPlace,
    PtrVal,
    PtrVar,
    RVal,
    Value,
    VarPlace,
)
from ktc.ir.frontend.syntax.cxx_ast import CtorInit, CxxCast
from ktc.ir.nodes import Assign, Binary, Const, Decl, Expr, Select, Sym, Var, fresh, i32
from ktc.ir.types import I32, I64, U64, VOID, Array
from ktc.ir.walk import walk_expr

from .buffers import as_volatile, is_flat
from .null_uses import absent, points
from .pointer_choices import as_choice, renumbered

MAX_CHOICES = 8


class PointerVariables(Exprs):
    """Declaring and assigning pointer variables."""

    def pointer_variable(self, name: str, t: Pointer, v: Value | None, node: Any) -> Value:
        """A variable ``t name = v`` that the function changes."""
        if isinstance(v, PtrToPlace):
            self.need_memory(v, node)
        key = ("address", name, str(self.place(node)))
        if key in self.hints or self._in_memory(name, v):
            return self._address_variable(name, t, v, node)
        choices, nullable, several = self._choices(name, v, node)
        if v is None and not choices:
            if self.frame.facts.sources.get(name) or name not in self.frame.facts.mutated:
                return self._address_variable(name, t, v, node)
            v = NullVal(t.elem)  # a function that takes its address, or a reference to it, gives it a value
        choices = [dataclasses.replace(c, volatile=t.volatile or c.volatile) for c in choices]
        if not several:
            elem = t.elem if t.elem != VOID or not choices else choices[0].elem
            alone = dataclasses.replace(choices[0], elem=elem, offset=None) if choices else None
            begins = NullVal(t.elem) if isinstance(v, NullVal) and alone is None else alone
            var = self._moving(name, as_volatile(v, t.volatile) if isinstance(v, PtrVal) else begins, node)
            var.key = key
            return var
        elem = v.choices[0].elem if isinstance(v, ChoicePtr) else getattr(v, "elem", t.elem)
        elem = elem if t.elem == VOID else t.elem
        start = [dataclasses.replace(c, elem=elem, offset=None) for c in choices]
        var = PtrVar(fresh(name, I64), start[0], self.frame.here, fresh(f"{name}_in", I32), tuple(start))
        assert var.which is not None
        self.changing |= {var.offset, var.which}
        self.whiches.add(var.which)
        var.key = ("null", name, str(self.place(node)))
        if not nullable and var.key not in self.hints:
            self.always.add((absent(Var(var.which)), False))
        initial: dict[Sym, Expr] = {}
        if v is not None:
            with self.capture() as stores:
                self.store(var, v, node)
            for s in stores:
                if isinstance(s, Assign):
                    initial[s.sym] = s.value
                else:
                    self.emit(s)
        for sym in (var.offset, var.which):
            self.emit(Decl(sym, initial.get(sym, None if v is None else Const(0, sym.type)), loc=self.loc))  # type: ignore[arg-type]
        return var

    def _in_memory(self, name: str, v: Value | None) -> bool:
        """Whether the variable takes pointers that are kept in memory (``p = p->next``): then nothing says which buffer
        they point into, and the variable holds an address."""
        if isinstance(v, ChoicePtr) or (isinstance(v, PtrVal) and isinstance(v.buffer.type, Array)):
            return False
        return any(self._from_memory(e) for e in self._sources(name, set()))

    def _sources(self, name: str, seen: set[str]) -> list[Any]:
        """What is assigned to the variable, and to those that it is assigned from."""
        out: list[Any] = []
        for e in self.frame.facts.sources.get(name, []) if name not in seen else ():
            out.append(e)
            if isinstance(e, c_ast.ID):
                out += self._sources(e.name, {*seen, name})
        return out

    def _from_memory(self, e: Any) -> bool:
        while isinstance(e, c_ast.Cast | CxxCast | c_ast.BinaryOp):
            e = e.left if isinstance(e, c_ast.BinaryOp) else e.expr
        if isinstance(e, c_ast.UnaryOp) and e.op == "&" and isinstance(e.expr, c_ast.ArrayRef):
            return self._from_memory(e.expr.name)
        if isinstance(e, c_ast.TernaryOp):
            return self._from_memory(e.iftrue) or self._from_memory(e.iffalse)
        if isinstance(e, c_ast.StructRef) and e.type == "->":
            return not self._is_value(e)
        if isinstance(e, c_ast.StructRef | c_ast.ArrayRef) or (isinstance(e, c_ast.UnaryOp) and e.op == "*"):
            v = self._quietly(e)
            return isinstance(v, PtrSlot)
        return False

    def _is_value(self, e: Any) -> bool:
        """Whether the pointer expression is a value here: a member of an object that is no memory."""
        v = self._quietly(e)
        return v is not None and not isinstance(v, PtrSlot)

    def _quietly(self, e: Any) -> Value | None:
        try:
            return self.unevaluated(e)
        except KtcError:
            return None

    def _address_variable(self, name: str, t: Pointer, v: Value | None, node: Any) -> Value:
        sym = fresh(name, U64)
        self.changing.add(sym)
        init = None if v is None else self.address_bits(v, node).expr
        self.emit(Decl(sym, init, loc=self.loc))
        return PtrSlot(VarPlace(sym), t)

    def _moving(self, name: str, v: Value | None, node: Any) -> PtrVar:
        """A variable that stays in one buffer, or whose moves are all straight-line code."""
        if not isinstance(v, PtrVal | NullVal):
            self.fail("E-UNSUPPORTED-POINTER", f"the pointer '{name}' has no initialiser", node,
                      hint="declare it where its value is known")  # fmt: skip
        sym = fresh(name, I64)
        self.changing.add(sym)
        if isinstance(v, PtrVal):
            v = self.pinned_row(name, v)
        offset = v.offset if isinstance(v, PtrVal) else None
        start = self.convert(RVal(offset if offset is not None else Const(0, I64)), I64).expr
        self.emit(Decl(sym, start, loc=self.loc))
        return PtrVar(sym, v, self.frame.here)

    def pinned_row(self, name: str, v: PtrVal) -> PtrVal:
        """The pointer with the row of an array that it points into as it is now."""
        return dataclasses.replace(v, prefix=tuple(self.pinned_index(i, f"{name}_row") for i in v.prefix))

    # ------------------------------------------------------------------ where it can point
    def _choices(self, name: str, v: Value | None, node: Any) -> tuple[list[PtrVal], bool, bool]:
        """The buffers that the variable may point into, whether it may be null, and whether it must know which."""
        found: list[Value] = [v] if v is not None else []
        more = self._roots_of_name(name, {name})
        if more is None and not isinstance(v, ChoicePtr):
            return [], True, False
        found += more or []
        buffers: list[PtrVal] = []
        nullable = more is None
        for x in found:
            choice = as_choice(x)
            if choice is None:
                return [], True, False
            nullable = nullable or not points(choice.which, self.known(), self.pinned)
            for c in choice.choices:
                same = [b for b in buffers if b.buffer == c.buffer]
                varies = not all(map(self.is_constant_expr, c.prefix)) or (same and same[0].prefix != c.prefix)
                if varies and not is_flat(c.buffer) and len(found) > 1:
                    self.need_flat(c.buffer, node)
                if not same:
                    buffers.append(c)
        return buffers, nullable, 1 - nullable < len(buffers) <= MAX_CHOICES

    def _roots_of_name(self, name: str, seen: set[str]) -> list[Value] | None:
        out: list[Value] = []
        for source in self.frame.facts.sources.get(name, []):
            found = self._roots(source, seen)
            if found is None:
                return None
            out += found
        return out

    def _roots(self, e: Any, seen: set[str]) -> list[Value] | None:
        """Pointers that the expression may give, less their offsets; None where that cannot be told."""
        if isinstance(e, c_ast.Cast | CxxCast):
            return self._roots(e.expr, seen)
        if isinstance(e, CtorInit | c_ast.InitList):
            args = e.args if isinstance(e, CtorInit) else e.exprs
            return self._roots(args[0], seen) if len(args) == 1 else [NullVal()] if not args else None
        if isinstance(e, c_ast.Constant):
            return [NullVal()] if e.value in ("0", "nullptr") else []
        if isinstance(e, c_ast.ID):
            return self._roots_of_id(e, seen)
        if isinstance(e, c_ast.BinaryOp):
            sides = [self._roots(x, seen) for x in (e.left, e.right)] if e.op in ("+", "-") else []
            found = [x for s in sides for x in s or []]
            return found if found or None not in sides else None
        if isinstance(e, c_ast.TernaryOp):
            return self._roots_of_all([e.iftrue, e.iffalse], seen)
        if isinstance(e, c_ast.Assignment):
            return self._roots(e.lvalue if e.op != "=" else e.rvalue, seen)
        if isinstance(e, c_ast.UnaryOp) and e.op in ("p++", "p--", "++", "--"):
            return self._roots(e.expr, seen)
        if isinstance(e, c_ast.UnaryOp) and e.op == "&" and isinstance(e.expr, c_ast.ArrayRef):
            return self._roots(e.expr.name, seen)
        if isinstance(e, c_ast.ArrayRef) or (isinstance(e, c_ast.UnaryOp) and e.op in ("&", "*")):
            return self._evaluated(e)
        return self._evaluated(e) if isinstance(e, c_ast.StructRef) else None

    def _roots_of_all(self, es: list, seen: set[str]) -> list[Value] | None:
        out: list[Value] = []
        for e in es:
            found = self._roots(e, seen)
            if found is None:
                return None
            out += found
        return out

    def _roots_of_id(self, e: c_ast.ID, seen: set[str]) -> list[Value] | None:
        if e.name in seen:
            return []
        if e.name == "NULL":
            return [NullVal()]
        v = self.scope.find(e.name)
        if v is None and e.name in self.frame.facts.sources:
            return self._roots_of_name(e.name, seen | {e.name})
        if v is None:
            return self._evaluated(e)
        if isinstance(v, PtrVar):
            own = [v.start] if v.which is None else [ChoicePtr(Var(v.which), v.choices)]
            more = self._roots_of_name(e.name, seen | {e.name})
            return None if more is None else [*own, *more]
        return self._as_root(v)

    def _evaluated(self, e: Any) -> list[Value] | None:
        try:
            with self.capture() as effects:
                v = self.eval(e)
        except KtcError:
            return None
        return None if effects and isinstance(v, PtrSlot | PtrVal) else self._as_root(v)

    def _as_root(self, v: Value) -> list[Value] | None:
        if isinstance(v, PtrToPlace):
            self.need_memory(v, None)
        if isinstance(v, PtrVal | ChoicePtr | NullVal):
            return [v]
        if isinstance(v, LaneArray):
            return self._as_root(self.load(v))
        if isinstance(v, ArrayVal | FlatArray):
            return [self.decay(v)]
        return None if isinstance(v, PtrSlot | PtrToPlace | TypeVal) else []

    # ------------------------------------------------------------------ assignment
    def store_pointer(self, place: PtrVar, v: Value, node: Any) -> None:
        """``p = v``."""
        v = self.load(v, node)
        if isinstance(v, RVal) and isinstance(v.expr, Const) and v.expr.value == 0:
            v = NullVal()
        if place.which is None:
            self._move(place, v, node)
            return
        choice = as_choice(v)
        if choice is None:
            self._refuse(node)
        if (absent(Var(place.which)), False) in self.always and not points(choice.which, self.known(), self.pinned):
            raise Retry(place.key, U64)
        targets = [self._target(place, c, node) for c in choice.choices]
        if None in targets:
            self._refuse(node)
        offset: Expr = Const(0, I64)
        for k, c in reversed(list(enumerate(choice.choices))):
            own = self.convert(RVal(c.offset if c.offset is not None else Const(0, I64)), I64).expr
            last = k == len(choice.choices) - 1
            offset = own if last or own == offset else Select(Binary("==", choice.which, i32(k)), own, offset)
        which = self.simple(renumbered(choice.which, targets))  # type: ignore[arg-type]
        if any(isinstance(x, Var) and x.sym == place.which for x in walk_expr(offset)):
            offset = self.temp(offset, "moved")
        if which != Var(place.which):
            self.moved(place.which)
            self.emit(Assign(place.which, which, loc=self.loc))
        if choice.choices and offset != Var(place.offset):
            self.emit(Assign(place.offset, offset, loc=self.loc))

    def _target(self, place: PtrVar, c: PtrVal, node: Any) -> int | None:
        if c.elem != place.start.elem and VOID not in (c.elem, place.start.elem) and not isinstance(c.elem, CArray):
            self.fail("E-SEMA-CONVERT", "a pointer of another type is assigned", node, hint="use reinterpret_cast")
        found = [k for k, x in enumerate(place.choices) if (x.buffer, x.prefix) == (c.buffer, c.prefix)]
        return found[0] if found else None

    def _move(self, place: PtrVar, v: Value, node: Any) -> None:
        begun = place.start
        if isinstance(v, NullVal) and isinstance(begun, NullVal):
            return
        moves = isinstance(v, PtrVal) and (
            isinstance(begun, NullVal) or v.buffer != begun.buffer or v.prefix != begun.prefix
        )
        if moves and self.frame.straight_to(place.owner):
            v = self.pinned_row("start", v)  # type: ignore[arg-type]
            place.start, moves = as_volatile(v, getattr(begun, "volatile", False)), False  # type: ignore[assignment]
        if not isinstance(v, PtrVal) or moves:
            in_memory = [p for p in (begun, v) if isinstance(p, PtrVal)]
            if place.key is not None and not any(isinstance(p.buffer.type, Array) for p in in_memory):
                raise Retry(place.key, U64)
            self._refuse(node)
        offset = v.offset if v.offset is not None else Const(0, I64)
        self.emit(Assign(place.offset, self.convert(RVal(offset), I64).expr, loc=self.loc))

    def _refuse(self, node: Any) -> NoReturn:
        self.fail("E-UNSUPPORTED-POINTER", "this pointer would point into another buffer than before", node,
                  hint="use an index into each buffer, or two variables")  # fmt: skip


__all__ = ["PointerVariables"]
