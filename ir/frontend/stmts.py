"""Lowering statements and function bodies, and the conversion of early returns in inlined functions."""

from __future__ import annotations

import dataclasses
from typing import Any

from pycparser import c_ast

from ..nodes import Assign, Break, Continue, Decl, If, Return, Stmt, Unary, Var, fresh
from ..nodes import Const as ConstExpr
from ..types import BOOL, VOID
from .cxx_ast import Alias, Asm, Bad, Bindings, Function, IfConstexpr, RangeFor, Record, Using
from .cxx_types import Auto, CArray, RecordType, Reference, show
from .declare import Declarations
from .facts import contains
from .parser import to_loc
from .places import describe
from .values import NullVal, RecordVal, RVal, TypeVal, Value, VarPlace

_LOOPS = (c_ast.For, c_ast.While, c_ast.DoWhile, RangeFor)


class Stmts(Declarations):
    """Statements. ``statement`` emits; ``block`` collects."""

    def block(self, node: Any) -> tuple[Stmt, ...]:
        """The statements of ``node`` in a scope of their own, as a controlled body."""
        with self.controlled(), self.capture() as out, self.scoped():
            self.items(_items(node))
        return tuple(out)

    def items(self, nodes: list) -> None:
        """Statements in order; pragmas go to the loop that follows them."""
        pragma = None
        for i, node in enumerate(nodes):
            if isinstance(node, c_ast.Pragma):
                pragma = node
                continue
            if not self.frame.is_kernel and self._needs_split(node):
                self._split_return(node, nodes[i + 1 :], pragma)
                return
            self.statement(node, pragma)
            pragma = None
            if isinstance(node, c_ast.Return | c_ast.Break | c_ast.Continue):
                return

    def statement(self, node: Any, pragma: Any = None) -> None:
        """Emit ``node``, with its source comments on the first statement it makes."""
        coord = getattr(node, "coord", None)
        if coord is not None and not isinstance(coord, str):
            self.loc = to_loc(coord, self.file)
        comments = self.take_comments(self.loc)
        at = len(self.out)
        handler = _HANDLERS.get(type(node))
        if handler is not None:
            handler(self, node, pragma)
        else:
            self.unused.add(id(node))
            self.eval(node)
        if comments and len(self.out) > at:
            first = self.out[at]
            self.out[at] = dataclasses.replace(first, comments=comments + first.comments)
        elif comments:
            self._carry = getattr(self, "_carry", ()) + comments

    # ------------------------------------------------------------------ control flow
    def _if(self, node: c_ast.If, pragma: Any) -> None:
        loc = self.loc
        cond = self.condition(node.cond)
        known = self.constant(cond)
        if known is not None:  # if (SOME_CONSTANT): the other branch may not even compile
            chosen = node.iftrue if known.value else node.iffalse
            if chosen is not None:
                with self.scoped():
                    self.items(_items(chosen))
            return
        then = self.block(node.iftrue)
        orelse = self.block(node.iffalse) if node.iffalse is not None else ()
        self.emit(If(cond, then, orelse, loc=loc))

    def _if_constexpr(self, node: IfConstexpr, pragma: Any) -> None:
        with self.scoped():
            if node.init:
                self.items(node.init)
            taken = self.const_value(node.cond, "the condition of 'if constexpr'").expr
            assert isinstance(taken, ConstExpr)
            chosen = node.iftrue if taken.value else node.iffalse
            if chosen is not None:
                with self.scoped():
                    self.items(_items(chosen))

    def _compound(self, node: c_ast.Compound, pragma: Any) -> None:
        with self.scoped():
            self.items(node.block_items or [])

    def _break(self, node: Any, pragma: Any) -> None:
        self.emit(Break(loc=self.loc))

    def _continue(self, node: Any, pragma: Any) -> None:
        if self.frame.step and self.frame.step[-1] is not None:
            self.frame.step[-1]()
        self.emit(Continue(loc=self.loc))

    def _return(self, node: c_ast.Return, pragma: Any) -> None:
        frame = self.frame
        if frame.is_kernel:
            self.emit(Return(loc=self.loc))
            return
        value = None
        if node.expr is not None and frame.ret != VOID:
            value = self._returned(node)
        if not frame.control and not frame.loops:
            frame.value = value
            return
        if value is not None:
            self._assign_result(value, node)
        if frame.loops:
            assert frame.done is not None
            self.emit(Assign(frame.done, ConstExpr(True, BOOL), loc=self.loc))
            self.emit(Break(loc=self.loc))

    def _returned(self, node: c_ast.Return) -> Value:
        frame = self.frame
        t = frame.ret
        if isinstance(node.expr, c_ast.InitList):
            assert t is not None
            return self.initial_value(t, node.expr.exprs, True, node)
        v = self.eval(node.expr)
        if isinstance(t, Reference):
            return v
        v = self.load(v, node)
        if t is None or isinstance(t, Auto):
            return v
        if isinstance(t, RecordType) and not isinstance(v, RecordVal):
            return self.construct_record(t, [v], node)
        if isinstance(v, RVal):
            return self.convert(v, t, "implicit", node)
        if isinstance(v, RecordVal) and not isinstance(t, RecordType):
            return self.convert(self.rvalue(v, node), t, "implicit", node)
        return v

    def _assign_result(self, value: Value, node: Any) -> None:
        frame = self.frame
        if frame.result is None:
            if isinstance(value, RecordVal):
                frame.result = self.at_start(lambda: self.new_record(value.type, f"{frame.name}_result", node))  # type: ignore[arg-type]
            elif isinstance(value, RVal):
                sym = fresh(f"{frame.name}_result", value.expr.type)
                self._starts[-1].append(Decl(sym, None, loc=self.loc))
                frame.result = VarPlace(sym)
            else:
                self.fail("E-UNSUPPORTED-RETURN", f"{describe(value)} is returned under control flow", node,
                          hint="return from one place at the end of the function")  # fmt: skip
        self.store(frame.result, value, node)

    def at_start(self, make):
        with self.capture() as out:
            v = make()
        self._starts[-1].extend(out)
        return v

    # ------------------------------------------------------------------ functions
    def function_body(self, fn: Function) -> Value | None:
        """Lower the body of an inlined function; its result, if it has one."""
        self._starts.append([])
        with self.capture() as body:
            if fn.body is None:
                self.fail("E-SEMA-BODY", f"'{fn.name}' has no definition", fn)
            self.items(fn.body.block_items or [])
        starts = self._starts.pop()
        for s in (*starts, *body):
            self.emit(s)
        frame = self.frame
        if frame.result is not None:
            return self.load(frame.result) if frame.value is None else frame.value
        if frame.value is None and frame.ret not in (None, VOID) and not isinstance(frame.ret, Auto):
            self.fail("E-SEMA-RETURN", f"'{fn.name}' does not return a value on every path", fn)
        return frame.value if frame.value is not None else NullVal()

    def _needs_split(self, node: Any) -> bool:
        """Whether ``node`` is control flow that contains a ``return`` of the function being inlined."""
        kinds = (c_ast.If, IfConstexpr, c_ast.Compound, c_ast.Switch, *_LOOPS)
        return isinstance(node, kinds) and contains(node, (c_ast.Return,), ())

    def _split_return(self, node: Any, rest: list, pragma: Any) -> None:
        """Early returns: what follows an ``if`` that returns goes into the branch that does not."""
        if isinstance(node, c_ast.Compound):
            with self.scoped():
                self.items([*(node.block_items or []), *rest])
            return
        if isinstance(node, IfConstexpr):
            taken = self.const_value(node.cond, "the condition of 'if constexpr'").expr
            chosen = node.iftrue if taken.value else node.iffalse  # type: ignore[attr-defined]
            self.items([*([chosen] if chosen is not None else []), *rest])
            return
        if isinstance(node, c_ast.If):
            self._split_if(node, rest)
            return
        if isinstance(node, c_ast.Switch):
            self.items([self.switch_as_ifs(node), *rest])
            return
        frame = self.frame
        if frame.done is None:
            frame.done = fresh("done", BOOL)
            self._starts[-1].append(Decl(frame.done, ConstExpr(False, BOOL), loc=self.loc))
        self.statement(node, pragma)
        if frame.loops:
            self.emit(If(Var(frame.done), (Break(loc=self.loc),), loc=self.loc))
            self.items(rest)
        elif rest:
            self._guarded(Unary("!", Var(frame.done)), rest)

    def _guarded(self, cond: Any, rest: list) -> None:
        with self.controlled(), self.capture() as out:
            self.items(rest)
        if out:
            self.emit(If(cond, tuple(out), loc=self.loc))

    def _split_if(self, node: c_ast.If, rest: list) -> None:
        self.loc = self.place(node)
        loc, comments = self.loc, self.take_comments(self.loc)
        cond = self.condition(node.cond)
        known = self.constant(cond)
        if known is not None:
            chosen = node.iftrue if known.value else node.iffalse
            self.items([*([chosen] if chosen is not None else []), *rest])
            return
        then, orelse = _items(node.iftrue), _items(node.iffalse)
        if self.frame.loops:
            self.emit(
                If(
                    cond,
                    self.block(node.iftrue),
                    self.block(node.iffalse) if orelse else (),
                    loc=loc,
                    comments=comments,
                )
            )
            self.items(rest)
            return
        if _terminates(then):
            orelse = [*orelse, *rest]
        elif _terminates(orelse):
            then = [*then, *rest]
        else:
            then, orelse = [*then, *rest], [*orelse, *rest]
        branches = []
        for part in (then, orelse):
            with self.controlled(), self.capture() as out, self.scoped():
                self.items(part)
            branches.append(tuple(out))
        self.emit(If(cond, branches[0], branches[1], loc=loc, comments=comments))

    # ------------------------------------------------------------------ others
    def _nothing(self, node: Any, pragma: Any) -> None:
        return

    def _static_assert(self, node: c_ast.StaticAssert, pragma: Any) -> None:
        if not self.const_value(node.cond, "the condition of static_assert").expr.value:  # type: ignore[attr-defined]
            message = node.message.value if node.message is not None else "its condition is false"
            self.fail("E-SEMA-STATIC-ASSERT", f"static assertion failed: {message}", node)

    def _alias(self, node: Any, pragma: Any) -> None:
        self.scope.names[node.name] = TypeVal(self.resolve(node.type))

    def _record(self, node: Record, pragma: Any) -> None:
        from .program import Entity

        self.scope.names[node.name] = TypeVal(
            RecordType(node.name, (), (Entity(node.name, node, self.scope.namespace), {}))
        )

    def _asm(self, node: Asm, pragma: Any) -> None:
        from ..nodes import InlineAsm

        outputs, back = [], []
        for constraint, e in node.outputs:
            place = self.eval(e)
            t = self.type_of(place)
            if isinstance(place, VarPlace):
                outputs.append((constraint, place.sym))
                continue
            sym = fresh("asm_out", t)
            self.emit(Decl(sym, self.rvalue(place, node).expr if "+" in constraint else None, loc=self.loc))
            outputs.append((constraint, sym))
            back.append((place, sym))
        inputs = []
        for constraint, e in node.inputs:
            v = self.load(self.eval(e), node)
            if not isinstance(v, RVal):
                self.fail("E-UNSUPPORTED-ASM", "an address as an operand of inline PTX", node,
                          hint="use the CUDA intrinsic or plain C++ for this access")  # fmt: skip
            inputs.append((constraint, v.expr))
        self.emit(InlineAsm(node.text, tuple(outputs), tuple(inputs), node.volatile, loc=self.loc))
        for place, sym in back:
            self.store(place, RVal(Var(sym)), node)

    def _bindings(self, node: Bindings, pragma: Any) -> None:
        v = self.load(self.eval(node.init), node)
        if not isinstance(v, RecordVal):
            self.fail("E-UNSUPPORTED-BINDING", f"structured bindings need a struct, not {describe(v)}", node)
        for name, field in zip(node.names, v.fields.values()):
            self.scope.names[name] = field

    def _bad(self, node: Bad, pragma: Any) -> None:
        raise node.error

    def _goto(self, node: Any, pragma: Any) -> None:
        self.fail(
            "E-UNSUPPORTED-GOTO", "goto and labels are not supported", node, hint="rewrite it with a loop or an if"
        )

    def _switch(self, node: c_ast.Switch, pragma: Any) -> None:
        self.statement(self.switch_as_ifs(node))

    def _range_for(self, node: RangeFor, pragma: Any) -> None:
        self.fail("E-UNSUPPORTED-RANGE-FOR", "a range-based for loop", node, hint="write it with an index")


def _items(node: Any) -> list:
    """The statements of a body."""
    if node is None:
        return []
    return list(node.block_items or []) if isinstance(node, c_ast.Compound) else [node]


def _terminates(items: list) -> bool:
    """Whether control never reaches the end of ``items``."""
    if not items:
        return False
    last = items[-1]
    if isinstance(last, c_ast.Return | c_ast.Break | c_ast.Continue):
        return True
    if isinstance(last, c_ast.Compound):
        return _terminates(_items(last))
    if isinstance(last, c_ast.If):
        return _terminates(_items(last.iftrue)) and _terminates(_items(last.iffalse))
    return False


_HANDLERS: dict[type, Any] = {
    c_ast.If: Stmts._if, IfConstexpr: Stmts._if_constexpr, c_ast.Compound: Stmts._compound, c_ast.Break: Stmts._break,
    c_ast.Continue: Stmts._continue, c_ast.Return: Stmts._return, c_ast.EmptyStatement: Stmts._nothing,
    c_ast.StaticAssert: Stmts._static_assert, Alias: Stmts._alias, c_ast.Typedef: Stmts._alias, Record: Stmts._record,
    Asm: Stmts._asm, Bindings: Stmts._bindings, Bad: Stmts._bad, c_ast.Goto: Stmts._goto, c_ast.Label: Stmts._goto,
    c_ast.Switch: Stmts._switch, RangeFor: Stmts._range_for, Using: Stmts._nothing, c_ast.Pragma: Stmts._nothing,
    c_ast.Decl: Declarations.declare, c_ast.Enum: Stmts._nothing,
}  # fmt: skip

__all__ = ["CArray", "Stmts", "show"]
