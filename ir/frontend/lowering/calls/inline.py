"""Inlining: a function body in place of a call."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import chain
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.context import Frame, Scope
from ktc.ir.frontend.input_limits import MAX_INLINE_DEPTH
from ktc.ir.frontend.lowering.declarations.member_inits import MemberInits
from ktc.ir.frontend.lowering.memory.buffers import as_volatile, cost
from ktc.ir.frontend.meaning.cxx_types import (
    DIM3,
    UINT3,
    Auto,
    CArray,
    FunctionType,
    ListType,
    Pointer,
    RecordType,
    Reference,
    show,
)
from ktc.ir.frontend.meaning.methods import params_of
from ktc.ir.frontend.meaning.name_meanings import FunctionVal, OpaqueVal, PackVal
from ktc.ir.frontend.meaning.values import (  # fmt: skip
    ArrayVal,
    ChoicePlace,
    ChoicePtr,
    Dim3Val,
    ElemPlace,
    FlatArray,
    LaneArray,
    LanePlace,
    ListVal,
    NullVal,
    PtrToPlace,
    PtrVal,
    PtrVar,
    RecordVal,
    RVal,
    Value,
    VarPlace,
    named,
    pointing_to_const,
)
from ktc.ir.frontend.syntax.cxx_ast import CONST_METHOD, AutoType, Function, Lambda, RefDecl, is_const
from ktc.ir.frontend.syntax.program import Entity
from ktc.ir.frontend.syntax.reference_arguments import is_mutable_reference, reference_positions
from ktc.ir.frontend.syntax.variable_uses import Facts, facts_of
from ktc.ir.nodes import Assign, Body, Const, Decl, Eval, Expr, Load, Stmt, Sym, Var, WarpOp, fresh
from ktc.ir.types import VOID, Scalar, Type, Vec
from ktc.ir.walk import all_exprs, assigned, substitute, substitute_expr, walk_expr

from .forwarding import categories


class Inliner(MemberInits):
    """Device functions are always inlined; parameters that are not changed become values."""

    _facts: dict[int, Facts]

    def facts_for(self, fn: Function) -> Facts:
        if id(fn) not in self._facts:
            self._facts[id(fn)] = facts_of(fn, self.program.telling(fn), self.by_reference)
        return self._facts[id(fn)]

    @property
    def by_reference(self) -> dict[str, set[int]]:
        """Argument positions that functions of the file take by non-const reference."""
        if self.program.by_reference is None:
            self.program.by_reference = reference_positions(self.program)
        return self.program.by_reference

    _aliases = False
    """Whether the function being entered could change an argument while its parameter is in use."""

    _changes_locals = False
    """Whether the function being entered could change variables of its callers: what a pointer argument is made of."""

    def inline(self, e: Entity, bindings: dict[str, Value], args: list[Value], node: Any, scope: Scope,
               record: RecordVal | None = None) -> Value:  # fmt: skip
        """The body of ``e`` in place of a call; parameters become constants where the body changes them."""
        fn: Function = e.node
        if record is not None and CONST_METHOD in fn.specs:
            record = named(record, const=True)
        if self.depth >= MAX_INLINE_DEPTH:
            self.fail("E-UNSUPPORTED-RECURSION", f"'{e.name}' recurses, or nests deeper than {MAX_INLINE_DEPTH}", node,
                      hint="rewrite the recursion as a loop")  # fmt: skip
        facts = self.facts_for(fn)
        saved_frame, saved_loc = self.frame, self.loc
        self.depth += 1
        pending: list[tuple[Sym, Expr]] = []
        try:
            with self.capture() as stmts, self.scoped(namespace=e.namespace, root=scope, record=record) as inner:
                inner.names.update(bindings)
                if record is not None:
                    inner.names["this"] = PtrToPlace(record, record.type)
                late = isinstance(getattr(fn.decl.type.type, "type", None), AutoType)  # may name the parameters
                ret = None if fn.kind in ("ctor", "dtor") or late else self.resolve(fn.decl.type.type)
                self.frame = Frame(e.name, False, ret, facts, saved_frame)
                with self.capture() as setup:
                    self._bind_arguments(fn, facts, args, node, pending)
                if late:
                    self.frame.ret = self.resolve(fn.decl.type.type)
                if fn.kind == "ctor":
                    assert record is not None
                    self.construct_members(fn, record, node)
                value = self.function_body(fn)
                if isinstance(value, RecordVal) and not isinstance(self.frame.ret, Reference):
                    self.refuse_end(value.type, node)
                    value = dataclasses.replace(value, const=False, temporary=True, owner=saved_frame.here)
            stmts[:0] = setup
        finally:
            self.frame, self.loc = saved_frame, saved_loc
            self.depth -= 1
        return self._finish_inline(pending, *_put_together(stmts, value))

    def _bind_arguments(
        self, fn: Function, facts: Facts, args: list[Value], node: Any, pending: list[tuple[Sym, Expr]]
    ) -> None:
        params = params_of(fn)
        bound = categories(args, node)
        self._aliases = fn.kind != "function" or fn.name == "lambda" or any(_is_indirect(p) for p in params)
        self._changes_locals = (
            fn.kind != "function"
            or fn.name == "lambda"
            or any(is_mutable_reference(p) for p in params)
            or any(isinstance(a, PtrToPlace | RecordVal | FunctionVal) and not self.vector_place(a) for a in args)
        )
        if sum(is_mutable_reference(p) for p in params) > 1:
            args = [self.pin(a) if is_mutable_reference(p) else a for p, a in zip(params, args)] + args[len(params) :]
        for i, p in enumerate(params):
            name = getattr(p, "name", None)
            if "pack" in (getattr(p, "storage", None) or []):
                changed = str(name) in facts.mutated
                self.scope.names[str(name)] = PackVal(
                    tuple(self._packed(f"{name}{k}", p.type, v, changed, node, pending) for k, v in enumerate(args[i:]))
                )
                return
            t = self.parameter_type(p)
            if i < len(args):
                v = args[i]
            else:
                v = self.eval(p.init)
            if name:
                if isinstance(t, RecordType):
                    self.frame.taken.add(name)
                elif isinstance(t, Reference):
                    self.note_reference(name, t, bound[i] if i < len(args) else "rvalue")
                self.scope.names[name] = self.bind_argument(name, t, v, name in facts.mutated, node, pending)
            elif isinstance(t, Scalar | Vec) and isinstance(v, ElemPlace | ChoicePlace):
                self.bind_argument("unnamed", t, v, False, node, pending)  # reads it

    def _packed(
        self, name: str, declared: Any, v: Value, mutated: bool, node: Any, pending: list[tuple[Sym, Expr]]
    ) -> Value:
        """What one parameter of a pack means: an object of its own, or a reference, as the pack is ``declared``."""
        if not isinstance(v, RVal | VarPlace | ElemPlace | LanePlace | ChoicePlace | PtrVal | RecordVal):
            return v
        t = self.type_of(v)
        if not (mutated or self._changes_locals or isinstance(declared, RefDecl)) and isinstance(v, RVal | VarPlace):
            x = self.rvalue(v, node)
            if not any(isinstance(e, Load) for e in walk_expr(x.expr)):
                return x  # nothing that the function does changes it
        if isinstance(declared, RefDecl):
            t = Reference(t, is_const(declared.type), declared.rvalue)
        return self.bind_argument(name, t, v, mutated, node, pending)

    def bind_argument(
        self, name: str, t: Type, v: Value, mutated: bool, node: Any, pending: list[tuple[Sym, Expr]]
    ) -> Value:
        """What the parameter ``name`` of type ``t`` means when ``v`` is passed."""
        if isinstance(v, ListVal):
            of = t.elem if isinstance(t, Reference) else t
            if isinstance(of, ListType):
                return ListVal(tuple(self._item(x, of.elem, node) for x in v.items))
            empty_pointer = isinstance(of, Pointer) and not v.items
            v = NullVal() if empty_pointer else self.initial_value(of, list(v.items), True, node)
        if isinstance(t, Reference):
            same = t.elem == self.type_of(v) or not isinstance(t.elem, Scalar)
            converted = isinstance(v, RecordVal) and isinstance(t.elem, Scalar)
            if not converted and (
                isinstance(v, RecordVal | ArrayVal | FlatArray | LaneArray | FunctionVal | PtrVar)
                or (same and not isinstance(v, RVal))
            ):
                if isinstance(v, RecordVal) and isinstance(t.elem, RecordType):
                    v = self.upcast(v, t.elem)
                    v = v if v.type == t.elem else self.construct_record(t.elem, [v], node)
                return named(as_volatile(self.pin(v), t.volatile), t.const)
            t = t.elem
        place, v = v, self.load(v, node)
        if t == DIM3:
            v, t = self.initial_value(t, [v], False, node), UINT3
        if isinstance(v, Dim3Val) and not mutated and t in (UINT3, Auto()):
            return self.pinned_dim3(v, name)
        if isinstance(t, Auto):
            t = self.type_of(v)
        if isinstance(v, FunctionVal) and isinstance(t, Pointer):
            return self.function_pointer(v, t, mutated, name, node)
        if isinstance(t, Pointer):
            if isinstance(v, OpaqueVal) and v.name.startswith('"') and not mutated:
                return v  # a text, which becomes an array where it is indexed
            v = pointing_to_const(as_volatile(self.base_pointer(self.as_pointer(v, node, t), t), t.volatile), t.const)
            if isinstance(v, NullVal) or (isinstance(v, RVal) and isinstance(v.expr, Const) and v.expr.value == 0):
                v = NullVal(t.elem)
            if isinstance(v, ChoicePtr | NullVal) and mutated:
                return self.pointer_variable(name, t, v, node)
            if isinstance(v, ChoicePtr) and not isinstance(v.which, Const):
                return ChoicePtr(self.pinned_which(v.which, f"{name}_in"), v.choices)
            if isinstance(v, PtrVal):
                if t.elem != v.elem and t.elem != VOID and not isinstance(v.elem, CArray):
                    self.fail("E-SEMA-CONVERT", f"cannot pass '{show(self.type_of(v))}' as '{show(t)}'", node)
                if mutated:
                    return self.pointer_variable(name, t, v, node)
                if self._changes_locals:
                    return self.pinned_offset(name, v)
                if v.offset is not None and cost(v.offset) > 12:
                    return dataclasses.replace(v, offset=self.temp(v.offset, f"{name}_offset"))
            return v
        if isinstance(t, RecordType):
            self.refuse_end(t, node)
            if isinstance(v, RecordVal) and v.type == t:
                by_code = self.copies_by_code(t) or self.copies_inside(t)
                copies = mutated or v.at is not None or self._aliases or by_code
                return self.copied(v, name, node) if copies else named(v)
            return self.construct_record(t, [place], node)
        if isinstance(v, FunctionVal) and not isinstance(t, Scalar):
            return self.copied_closure(v, node)
        if isinstance(v, RecordVal) and not isinstance(t, Scalar):
            return v
        e = self.convert(self.rvalue(v, node, t), t, "implicit", node).expr
        in_memory = self.variable_in_memory(name, t, RVal(e), node)
        if in_memory is not None:
            return in_memory
        sym = fresh(name, t)
        self.origin[sym] = self.variable_key(name, node)
        if mutated:
            self.changing.add(sym)
            self.emit(Decl(sym, e, loc=self.loc))
            return VarPlace(sym)
        if isinstance(e, Const):
            return RVal(e)
        if (known := self.constant(e)) is not None:
            self.const_of[sym] = known
        pending.append((sym, e))
        return VarPlace(sym, const=True)

    def _item(self, v: Value, t: Type, node: Any) -> Value:
        """A value of a braced list, as it is now."""
        x = self.load(self.initial_value(t, [v], True, node), node)
        return RVal(self.temp(x.expr, "item")) if isinstance(x, RVal) and not isinstance(x.expr, Const) else x

    def function_pointer(self, v: FunctionVal, t: Pointer, mutated: bool, name: str, node: Any) -> Value:
        """A pointer to a function that is known here and stays the same: the function itself."""
        if mutated or not isinstance(t.elem, FunctionType):
            self.fail("E-UNSUPPORTED-POINTER", f"the function pointer '{name}' changes", node,
                      hint="choose with an if, or pass the function as a template argument")  # fmt: skip
        return v

    def _finish_inline(self, pending: list[tuple[Sym, Expr]], stmts: list[Stmt], value: Value | None) -> Value:
        """Emit the inlined statements; parameters used once in a pure result are substituted, others are declared."""
        out = value if value is not None else RVal(Const(0, Scalar("int", 32)))
        body = tuple(stmts)
        result = _exprs_of(out)
        uses = _uses(frozenset(sym for sym, _ in pending), body, result) if pending else {}
        changed = assigned(body) if pending else set()
        # nothing but an expression, the index of a place, or nothing, mentions the parameters later
        pure = isinstance(out, NullVal) or bool(result)
        later: dict[Sym, Expr] = {}
        for sym, init in pending:
            init = substitute_expr(init, later)
            n = uses.get(sym, 0)
            trivial = isinstance(init, Var) and not isinstance(init.type, Vec) and init.sym not in changed
            if pure and n == 0 and any(isinstance(x, Load) for x in walk_expr(init)):
                self.emit(Eval(init, loc=self.loc))  # passing a value reads it: that may race, or lie outside
            if pure and (n == 0 or trivial or (n == 1 and not body and not isinstance(init.type, Vec))):
                later[sym] = init
            else:
                self.emit(Decl(sym, init, const=True, loc=self.loc))
        if later:
            body = substitute(body, later)
            out = _with_exprs(out, lambda e: substitute_expr(e, later))
        for s in body:
            self.emit(s)
        return out

    def call_lambda(self, node: Lambda, scope: Scope, args: list[Value], at: Any, targs: list | None = None) -> Value:
        """A lambda's body at its call, in the scope it was made in; ``targs`` are template arguments it is given."""
        fn = Function(
            "lambda",
            c_ast.Decl("lambda", [], [], [], [], None, None, None),
            node.body,
            [],
            {},
            [],
            "function",
            "",
            coord=node.coord,
        )
        result = c_ast.TypeDecl(None, None, None, _AUTO) if node.result is None else node.result.type
        fn.decl.type = c_ast.FuncDecl(node.params or c_ast.ParamList([]), result)
        entity = Entity("lambda", fn, scope.namespace, None if node.template is None else tuple(node.template))
        if entity.params is not None:
            return self.call_entities([entity], targs, args, at, scope)
        return self.inline(entity, {}, args, at, scope)

    def function_body(self, fn: Function) -> Value | None:
        raise NotImplementedError


def _put_together(stmts: list[Stmt], value: Value | None) -> tuple[list[Stmt], Value | None]:
    """``T y; y = e;`` and a result with one ``y`` -> the result with ``e`` there: inline PTX is an expression."""
    match stmts, value:
        case [Decl(sym=y, init=None), Assign(sym=z, value=e)], RVal(expr=result) if y == z and e.type == y.type:
            computed = not any(
                isinstance(x, Load | WarpOp) or getattr(x, "effects", PURE) != PURE for x in walk_expr(e)
            )
            if computed and _uses(frozenset((y,)), (), (result,))[y] == 1:
                return [], RVal(substitute_expr(result, {y: e}))
    return stmts, value


def _exprs_of(v: Value) -> tuple[Expr, ...]:
    """The expressions that a value, an element or a lane consists of; () for what consists of more than such."""
    if isinstance(v, RVal):
        return (v.expr,)
    if isinstance(v, ElemPlace):
        return v.index
    if isinstance(v, LanePlace) and isinstance(v.base, VarPlace | ElemPlace):
        return (v.lane, *_exprs_of(v.base))
    return ()


def _with_exprs(v: Value, to: Callable[[Expr], Expr]) -> Value:
    """``v`` with its expressions (:func:`_exprs_of`) as ``to`` has them."""
    if isinstance(v, RVal):
        return RVal(to(v.expr))
    if isinstance(v, ElemPlace):
        return dataclasses.replace(v, index=tuple(map(to, v.index)))
    if isinstance(v, LanePlace) and isinstance(v.base, VarPlace | ElemPlace):
        return dataclasses.replace(v, lane=to(v.lane), base=_with_exprs(v.base, to))
    return v


PURE = "pure"


def _uses(syms: frozenset[Sym], body: Body, result: tuple[Expr, ...]) -> dict[Sym, int]:
    """How often ``body`` and ``result`` mention each of ``syms``, as a value or as a buffer."""
    found = dict.fromkeys(syms, 0)
    for x in chain(all_exprs(body), chain.from_iterable(map(walk_expr, result))):
        sym = x.sym if isinstance(x, Var) else getattr(x, "buffer", None)
        if sym in found:
            found[sym] += 1
    return found


def _is_indirect(p: Any) -> bool:
    """Whether the parameter can change what another one was made from."""
    return is_mutable_reference(p) or isinstance(p.type, c_ast.PtrDecl)


_AUTO = AutoType(None)
