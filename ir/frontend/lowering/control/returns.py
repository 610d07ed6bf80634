"""Returning from inlined functions: early returns become branches, returns inside loops a flag and a break."""

from __future__ import annotations

import dataclasses
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.lowering.declarations.globals import Globals
from ktc.ir.frontend.meaning.cxx_types import DIM3, Auto, Pointer, RecordType, Reference
from ktc.ir.frontend.meaning.values import Dim3Val, NullVal, PtrSlot, RecordVal, RVal, Value, VarPlace, describe
from ktc.ir.frontend.syntax.cxx_ast import Function, IfConstexpr, QualName, RangeFor
from ktc.ir.frontend.syntax.program import name_parts
from ktc.ir.frontend.syntax.syntax_walk import contains
from ktc.ir.nodes import Assign, Break, Decl, If, Return, Sym, Unary, Var, fresh
from ktc.ir.nodes import Const as ConstExpr
from ktc.ir.types import BOOL, U64, VOID, Scalar, Type, Vec

MOST_DOUBLED = 3
"""What follows an ``if`` that may return goes into both branches unless as many more such ``if``s are in it."""


class Returns(Globals):
    """``return`` in all its places."""

    statement: Any
    copied: Any
    copies_by_code: Any
    moves_by_code: Any

    def _return(self, node: c_ast.Return, pragma: Any) -> None:
        frame = self.frame
        if node.expr is not None and (frame.is_kernel or frame.ret == VOID):
            self.statement(node.expr)  # ``return f(x);`` of a function without a value
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
        if frame.loops or frame.flagged:
            assert frame.done is not None
            self.emit(Assign(frame.done, ConstExpr(True, BOOL), loc=self.loc))
        if frame.loops:
            self.emit(Break(loc=self.loc))

    def _returned(self, node: c_ast.Return) -> Value:
        frame = self.frame
        t = frame.ret
        if isinstance(node.expr, c_ast.InitList):
            assert t is not None
            return self.initial_value(t, self.unpacked(node.expr.exprs), True, node)
        if isinstance(t, Reference) and not t.const and isinstance(node.expr, c_ast.TernaryOp):
            return self.lvalue(node.expr)
        v = self.eval(node.expr)
        if isinstance(t, Reference):
            return v
        v = self.load(v, node)
        if isinstance(v, RecordVal) and (t is None or t == v.type or isinstance(t, Auto)):
            return self._returned_object(v, node.expr.name if isinstance(node.expr, c_ast.ID) else None, node)
        if t is None or isinstance(t, Auto):
            return v
        if t == DIM3:
            return self.initial_value(t, [v], False, node)
        if isinstance(t, RecordType):
            return self.construct_record(t, [v], node)
        if isinstance(t, Pointer):
            return self.as_pointer(v, node, t)
        if isinstance(v, RVal):
            return self.convert(v, t, "implicit", node)
        if isinstance(v, RecordVal) and not isinstance(t, RecordType):
            return self.convert(self.rvalue(v, node, t), t, "implicit", node)
        return v

    def _returned_object(self, v: RecordVal, name: str | None, node: Any) -> RecordVal:
        """An object of the function itself, or a copy of the one that is returned: that may change afterwards."""
        if v.temporary or name in self.frame.objects:
            return v
        v = dataclasses.replace(v, moved=v.moved or name in self.frame.taken)
        return dataclasses.replace(self.copied(v, "value", node), temporary=True)

    def _assign_result(self, value: Value, node: Any) -> None:
        frame = self.frame
        value = self.rvalue(value, node) if isinstance(value, Dim3Val) else value
        if frame.result is None:
            if isinstance(value, RecordVal):
                frame.result = self.at_start(lambda: self.new_record(value.type, f"{frame.name}_result", node))  # type: ignore[arg-type]
            elif isinstance(value, RVal):
                sym = fresh(f"{frame.name}_result", value.expr.type)
                self._starts[-1].append(Decl(sym, None, loc=self.loc))
                frame.result = VarPlace(sym)
            elif isinstance(t := self._pointer_result(value), Pointer):
                sym = fresh(f"{frame.name}_result", U64)
                self._starts[-1].append(Decl(sym, None, loc=self.loc))
                frame.result = PtrSlot(VarPlace(sym), t)
            else:
                self.fail("E-UNSUPPORTED-RETURN", f"{describe(value)} is returned under control flow", node,
                          hint="return from one place at the end of the function")  # fmt: skip
        self.store(frame.result, value, node)

    def _pointer_result(self, value: Value) -> Type | None:
        """The type of a pointer result, which is kept as an address as several buffers may be pointed into."""
        ret = self.frame.ret
        return ret if isinstance(ret, Pointer) else self.type_of(value)

    def at_start(self, make):
        with self.capture() as out:
            v = make()
        self._starts[-1].extend(out)
        return v

    def function_body(self, fn: Function) -> Value | None:
        """Lower the body of an inlined function; its result, if it has one."""
        self._starts.append([])
        with self.capture() as body:
            if fn.body is None:
                self.fail("E-SEMA-BODY", f"'{fn.name}' has no definition", fn)
            with self.lifetimes(fn.body.block_items or []):
                self.items(fn.body.block_items or [])
        starts = self._starts.pop()
        for s in (*starts, *body):
            self.emit(s)
        frame = self.frame
        if frame.result is not None:
            return self.load(frame.result) if frame.value is None else frame.value
        if frame.value is None and isinstance(frame.ret, Scalar | Vec) and never_ends(fn.body.block_items or []):
            sym = fresh(f"{frame.name}_result", frame.ret)  # reading it is the error that coming here is
            self.emit(Decl(sym, None, loc=self.loc))
            return RVal(Var(sym))
        if frame.value is None and frame.ret not in (None, VOID) and not isinstance(frame.ret, Auto):
            self.fail("E-SEMA-RETURN", f"'{fn.name}' does not return a value on every path", fn)
        return frame.value if frame.value is not None else NullVal()

    def _needs_split(self, node: Any) -> bool:
        """Whether ``node`` is control flow that contains a ``return`` of the function being inlined."""
        kinds = (c_ast.If, IfConstexpr, c_ast.Compound, c_ast.Switch, *_LOOPS)
        return isinstance(node, kinds) and contains(node, (c_ast.Return,), ())

    def _split_return(self, node: Any, rest: list, pragma: Any) -> None:
        """Early returns: what follows an ``if`` that returns goes into the branch that does not.

        Where each branch may go on, into both, or (not to double the text again and again) behind a flag.
        """
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
        frame, done = self.frame, self._flag()
        self.statement(node, pragma)
        if frame.loops:
            self.emit(If(Var(done), (Break(loc=self.loc),), loc=self.loc))
            self.items(rest)
        elif rest:
            self._guarded(Unary("!", Var(done)), rest)

    def _flag(self) -> Sym:
        """The variable that says whether the function has returned."""
        if self.frame.done is None:
            self.frame.done = fresh("done", BOOL)
            self._starts[-1].append(Decl(self.frame.done, ConstExpr(False, BOOL), loc=self.loc))
        return self.frame.done

    def _guarded(self, cond: Any, rest: list) -> None:
        with self.controlled(), self.capture() as out:
            self.items(rest)
        if out:
            self.emit(If(cond, tuple(out), loc=self.loc))

    def _split_if(self, node: c_ast.If, rest: list) -> None:
        self.loc = self.place(node)
        then, orelse = items_of(node.iftrue), items_of(node.iffalse)
        ways = _chosen(then, orelse or rest) if isinstance(self.frame.ret, Reference) else None
        if ways is not None:
            choice = c_ast.TernaryOp(node.cond, *ways, coord=node.coord)
            self._return(c_ast.Return(choice, coord=node.coord), None)
            return
        loc, comments = self.loc, self.take_comments(self.loc)
        cond = self.condition(node.cond)
        known = self.constant(cond)
        if known is not None:
            chosen = node.iftrue if known.value else node.iffalse
            self.items([*([chosen] if chosen is not None else []), *rest])
            return
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
        flagged = False
        if terminates(then):
            orelse = [*orelse, *rest]
        elif terminates(orelse):
            then = [*then, *rest]
        elif sum(self._needs_split(x) for x in rest) < MOST_DOUBLED:
            then, orelse = [*then, *rest], [*orelse, *rest]
        else:
            flagged = True
            self._flag()
        self.frame.flagged += flagged
        branches = []
        for part in (then, orelse):
            with self.controlled(), self.capture() as out, self.scoped():
                self.items(part)
            branches.append(tuple(out))
        self.frame.flagged -= flagged
        self.emit(If(cond, branches[0], branches[1], loc=loc, comments=comments))
        if flagged:
            self._guarded(Unary("!", Var(self._flag())), rest)


def _chosen(then: list, orelse: list) -> tuple[Any, Any] | None:
    """What two branches return that do nothing else; None if they do, or return nothing."""
    if len(then) != 1 or len(orelse) != 1 or not all(isinstance(b[0], c_ast.Return) for b in (then, orelse)):
        return None
    a, b = then[0].expr, orelse[0].expr
    return (a, b) if a is not None and b is not None else None


_LOOPS = (c_ast.For, c_ast.While, c_ast.DoWhile, RangeFor)


def items_of(node: Any) -> list:
    """The statements of a body."""
    if node is None:
        return []
    return list(node.block_items or []) if isinstance(node, c_ast.Compound) else [node]


def terminates(items: list) -> bool:
    """Whether control never reaches the end of ``items``."""
    if not items:
        return False
    last = items[-1]
    if isinstance(last, c_ast.Return | c_ast.Break | c_ast.Continue):
        return True
    if isinstance(last, c_ast.Compound):
        return terminates(items_of(last))
    if isinstance(last, c_ast.If):
        return terminates(items_of(last.iftrue)) and terminates(items_of(last.iffalse))
    return False


NEVER_RETURN = frozenset({"__builtin_unreachable", "__builtin_trap", "__trap", "abort", "unreachable", "__assert_fail"})


def never_ends(items: list) -> bool:
    """Whether the last of ``items`` is a call after which nothing comes."""
    call = items[-1] if items else None
    if not isinstance(call, c_ast.FuncCall) or not isinstance(call.name, c_ast.ID | QualName):
        return False
    return name_parts(call.name)[1] in NEVER_RETURN
