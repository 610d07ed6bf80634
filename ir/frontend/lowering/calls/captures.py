"""What a lambda keeps of the variables around it: copies are made when it is made."""

from __future__ import annotations

from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.context import Scope
from ktc.ir.frontend.lowering.expressions.assign import Assignments
from ktc.ir.frontend.meaning.name_meanings import Closure, FunctionVal
from ktc.ir.frontend.meaning.values import (
    ArrayVal,
    BitPlace,
    ChoicePlace,
    ChoicePtr,
    ElemPlace,
    FlatArray,
    LaneArray,
    LanePlace,
    PtrToPlace,
    PtrVal,
    PtrVar,
    RecordVal,
    RVal,
    SubVec,
    Value,
    VarPlace,
    ViewPlace,
)
from ktc.ir.frontend.syntax.cxx_ast import Lambda
from ktc.ir.frontend.syntax.syntax_walk import children
from ktc.ir.nodes import Const, Decl, fresh
from ktc.ir.types import Array

_VALUES = (VarPlace, ElemPlace, LanePlace, BitPlace, ChoicePlace, SubVec, ViewPlace)


class Captures(Assignments):
    """Lambda captures."""

    def closure(self, node: Lambda, scope: Scope) -> Closure:
        """The lambda ``node`` with what ``scope`` holds of the variables around it."""
        return Closure(
            lambda args, at, targs=None: self.call_lambda(node, scope, args, at, targs), node=node, scope=scope
        )

    def copied_closure(self, v: FunctionVal, at: Any) -> FunctionVal:
        """A lambda that calls may change, copied: each copy has variables of its own."""
        if not isinstance(v, Closure) or not v.node.mutable:
            return v
        shared = {name for mode, name, _ in v.node.captures if mode == "&"}
        scope = Scope(v.scope.parent, v.scope.namespace, v.scope.record)
        scope.names = {n: x if n in shared else self._copy(n, x, at) for n, x in v.scope.names.items()}
        return self.closure(v.node, scope)

    def captured(self, node: Lambda) -> dict[str, Value]:
        """The names that mean copies inside the lambda; all others mean the variables themselves."""
        default = next((mode for mode, name, _ in node.captures if name is None), "&")
        named = {name: (mode, init) for mode, name, init in node.captures if name is not None}
        out: dict[str, Value] = {}
        for name, (mode, init) in named.items():
            if init is not None:
                v = self.eval(init)
                out[name] = self.pin(v) if mode == "&" else self._copy(name, v, node)
            elif mode == "*" and name == "this":
                this = self.scope.find("this")
                if isinstance(this, PtrToPlace) and isinstance(this.place, RecordVal):
                    copy = self.copied(this.place, "self", node)
                    out |= {"this": PtrToPlace(copy, copy.type), **copy.fields}
            elif mode == "=" and name != "this":
                self._capture(out, name, node)
        if default == "=":
            for name in sorted(_mentioned(node.body) - set(named)):
                self._capture(out, name, node)
        return out

    def _capture(self, out: dict[str, Value], name: str, node: Any) -> None:
        v = self.scope.find(name)
        if isinstance(v, LaneArray):
            v = v.base
        if isinstance(v, ArrayVal | FlatArray):  # elements change, whatever the name does
            buffer = v.buffer if isinstance(v, ArrayVal) else v.start.buffer
            if isinstance(buffer.type, Array) and buffer.type.space == "local":
                out[name] = self._copy(name, v, node)
            return
        if isinstance(v, FunctionVal):
            out[name] = self.copied_closure(v, node)
            return
        if name not in self.frame.facts.mutated:
            return
        if v is not None and not (isinstance(v, VarPlace) and v.const):
            out[name] = self._copy(name, v, node)

    def _copy(self, name: str, v: Value, node: Any) -> Value:
        """A new variable with the value of ``v`` now; what cannot change is kept."""
        if isinstance(v, RecordVal):
            return self.copied(v, name, node)
        if isinstance(v, FunctionVal):
            return self.copied_closure(v, node)
        if isinstance(v, ArrayVal | FlatArray):
            return self.new_field(name, self.type_of(v), v, node)
        if isinstance(v, PtrVal):
            return self.pinned_offset(name, v)
        if isinstance(v, PtrVar):
            at = self.load(v, node)
            which = self.pinned_which(at.which, name) if isinstance(at, ChoicePtr) else None  # type: ignore[attr-defined]
            return self.pinned_choice(name, which, at) if which is not None else self.pinned_offset(name, at)
        if not isinstance(v, _VALUES) and not (isinstance(v, RVal) and not isinstance(v.expr, Const)):
            return v
        e = self.rvalue(v, node).expr
        sym = fresh(name, e.type)
        self.changing.add(sym)
        self.emit(Decl(sym, e, loc=self.loc))
        return VarPlace(sym)

    copied: Any
    call_lambda: Any
    new_field: Any
    pinned_choice: Any
    pinned_offset: Any


def _mentioned(body: Any) -> set[str]:
    names: set[str] = set()
    stack = [body]
    while stack:
        n = stack.pop()
        if isinstance(n, c_ast.ID):
            names.add(n.name)
        stack.extend(children(n))
    return names
