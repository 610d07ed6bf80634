"""Lowering statements and function bodies, and the conversion of early returns in inlined functions."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.library.device_libraries import in_library
from ktc.ir.frontend.lowering.declarations.declare import Declarations
from ktc.ir.frontend.meaning.cxx_types import CArray, show
from ktc.ir.frontend.meaning.name_meanings import EnumVal, TypeVal
from ktc.ir.frontend.meaning.values import (
    ArrayVal,
    FlatArray,
    LaneArray,
    LanePlace,
    RecordVal,
    RVal,
    Value,
    VarPlace,
    describe,
)
from ktc.ir.frontend.ptx.inline_asm import InlineAssembly
from ktc.ir.frontend.syntax.cxx_ast import Alias, Asm, Bad, Bindings, IfConstexpr, Record, ScopedEnum, Using, UsingEnum
from ktc.ir.frontend.syntax.cxx_parser import to_loc
from ktc.ir.nodes import Break, Continue, Decl, Eval, If, Load, Stmt, fresh, i32
from ktc.ir.nodes import Const as ConstExpr
from ktc.ir.support.time_limits import checkpoint
from ktc.ir.types import Vec
from ktc.ir.walk import walk_expr

from .gotos import Structurer, names_in
from .returns import items_of

_ENDS = frozenset({c_ast.Return, c_ast.Break, c_ast.Continue})
"""Nothing in a block that follows one of these is reached."""


class Stmts(InlineAssembly):
    """Statements. ``statement`` emits; ``block`` collects."""

    def block(self, node: Any) -> tuple[Stmt, ...]:
        """The statements of ``node`` in a scope of their own, as a controlled body."""
        nodes = items_of(node)
        with self.controlled(), self.capture() as out, self.scoped(), self.lifetimes(nodes):
            self.items(nodes)
        return tuple(out)

    def items(self, nodes: list) -> None:
        """Statements in order; pragmas go to the loop that follows them."""
        if any(isinstance(n, c_ast.Label) for n in nodes):
            nodes = self.structured(nodes, lambda s: s.block(nodes))
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
            if type(node) in _ENDS:
                return

    def structured(self, nodes: list, rewrite: Callable[[Structurer], list]) -> list:
        """``nodes`` without jumps, as ``rewrite`` makes them; variables it makes are known to change."""
        taken: set[str] = set()

        def unique(stem: str) -> str:
            taken.update(names_in(nodes) if not taken else ())
            name = next(n for k in itertools.count(1) if (n := stem if k == 1 else f"{stem}{k}") not in taken)
            taken.add(name)
            return name

        s = Structurer(self.fail, unique)
        out = rewrite(s)
        self.frame.facts.mutated |= s.assigned
        return out

    def _discard(self, value: Value, node: Any) -> None:
        """Keep what a call whose result is not used reads: it may race, or lie outside the buffer."""
        if not isinstance(node, c_ast.FuncCall) or not isinstance(value, RVal):
            return
        if any(isinstance(e, Load) for e in walk_expr(value.expr)):
            self.emit(Eval(value.expr, loc=self.loc))

    def statement(self, node: Any, pragma: Any = None) -> None:
        """Emit ``node``, with its source comments on the first statement it makes."""
        checkpoint()
        if self.passed_over is not None and self.passed_over(node):
            return
        coord = getattr(node, "coord", None)
        if coord is not None and not isinstance(coord, str) and not in_library(coord.file):
            self.loc = to_loc(coord, self.file)
        comments = self.take_comments(self.loc)
        at = len(self.out)
        handler = _HANDLERS.get(type(node))
        if handler is not None:
            handler(self, node, pragma)
        else:
            self.unused.add(id(node))
            self._discard(self.eval(node), node)
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
                    self.items(items_of(chosen))
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
                    self.items(items_of(chosen))

    def _compound(self, node: c_ast.Compound, pragma: Any) -> None:
        nodes = node.block_items or []
        with self.scoped(), self.lifetimes(nodes):
            self.items(nodes)

    def _break(self, node: Any, pragma: Any) -> None:
        self.emit(Break(loc=self.loc))

    def _continue(self, node: Any, pragma: Any) -> None:
        if self.frame.step and self.frame.step[-1] is not None:
            self.frame.step[-1]()
        self.emit(Continue(loc=self.loc))

    # ------------------------------------------------------------------ functions

    # ------------------------------------------------------------------ others
    def _nothing(self, node: Any, pragma: Any) -> None:
        return

    def _static_assert(self, node: c_ast.StaticAssert, pragma: Any) -> None:
        if not self.const_value(node.cond, "the condition of static_assert").expr.value:  # type: ignore[attr-defined]
            message = node.message.value if node.message is not None else "its condition is false"
            self.fail("E-SEMA-STATIC-ASSERT", f"static assertion failed: {message}", node)

    def _enum(self, node: c_ast.Enum, pragma: Any) -> None:
        """An enumeration of the function's own: its values are constants here."""
        t = self.enum_type(node)
        values = {e.name: self.enumerator_value(node, i) for i, e in enumerate(node.values or [])}
        if not isinstance(node, ScopedEnum):
            self.scope.names.update(values)
        if node.name:
            self.scope.names[node.name] = EnumVal(t, enum=node, value=list(values.values()).__getitem__)

    def _using_enum(self, node: UsingEnum, pragma: Any) -> None:
        self.scope.names.update(self.enumerators_of(node))

    def _alias(self, node: Any, pragma: Any) -> None:
        self.scope.names[node.name] = TypeVal(self.resolve(node.type))

    def _record(self, node: Record, pragma: Any) -> None:
        t = self.local_record(node)
        if (
            node.alone and not node.name and node.kind == "union"
        ):  # its members are variables of the function, in one place
            members = self.brace_record(t, [], None, "members", zero=False)
            assert isinstance(members, RecordVal)
            self.scope.names.update(members.fields)
            return
        self.scope.names[node.name] = TypeVal(t)

    def _bindings(self, node: Bindings, pragma: Any) -> None:
        place = self.pin(self.eval(node.init))
        v = self.load(place, node)
        of = self.type_of(place)
        if isinstance(place, ArrayVal | FlatArray | LaneArray) and isinstance(of, CArray) and of.n is not None:
            fields = [self.subscript(place, i32(k), node) for k in range(of.n)]
            if not node.ref:
                fields = [self._copy_bound(x, node) for x in fields]
        elif isinstance(v, RecordVal):
            whole = v if node.ref or v.temporary else self.copied(v, "bound", node)
            fields = list(whole.fields.values())
        elif isinstance(v, RVal) and isinstance(t := v.type, Vec) and isinstance(t.n, int):
            if not node.ref or isinstance(place, RVal):
                place = self._copy_bound(v, node)
            fields = [LanePlace(place, i32(k), t.elem) for k in range(t.n)]
        else:
            self.fail("E-UNSUPPORTED-BINDING", f"structured bindings need a struct, not {describe(v)}", node)
        if len(fields) != len(node.names):
            self.fail("E-SEMA-BINDING", f"{len(node.names)} names for {len(fields)} members", node)
        self.scope.names.update(zip(node.names, fields))

    def _copy_bound(self, v: Value, node: Any) -> Value:
        """A variable of its own that begins as ``v``."""
        x = self.load(v, node)
        if isinstance(x, RecordVal):
            return self.copied(x, "bound", node)
        if not isinstance(x, RVal):
            self.fail("E-UNSUPPORTED-BINDING", f"structured bindings copy no arrays of {describe(x)}s", node,
                      hint="bind by reference: auto& [a, b]")  # fmt: skip
        place = VarPlace(fresh("bound", x.type))
        self.changing.add(place.sym)
        self.emit(Decl(place.sym, x.expr, loc=self.loc))
        return place

    def _bad(self, node: Bad, pragma: Any) -> None:
        raise node.error

    def _goto(self, node: Any, pragma: Any) -> None:
        self.fail("E-UNSUPPORTED-GOTO", f"a goto into a block or loop, or to no label: '{node.name}'", node,
                  hint="such control flow is not reducible: rewrite it with a loop or an if")  # fmt: skip

    def _switch(self, node: c_ast.Switch, pragma: Any) -> None:
        self.statement(self.switch_as_ifs(node))


_HANDLERS: dict[type, Any] = {
    c_ast.If: Stmts._if, IfConstexpr: Stmts._if_constexpr, c_ast.Compound: Stmts._compound, c_ast.Break: Stmts._break,
    c_ast.Continue: Stmts._continue, c_ast.Return: Stmts._return, c_ast.EmptyStatement: Stmts._nothing,
    c_ast.StaticAssert: Stmts._static_assert, Alias: Stmts._alias, c_ast.Typedef: Stmts._alias, Record: Stmts._record,
    Asm: Stmts.asm, Bindings: Stmts._bindings, Bad: Stmts._bad, c_ast.Goto: Stmts._goto, c_ast.Label: Stmts._goto,
    c_ast.Switch: Stmts._switch, Using: Stmts._nothing, c_ast.Pragma: Stmts._nothing,
    c_ast.Decl: Declarations.declare, c_ast.Enum: Stmts._enum, ScopedEnum: Stmts._enum,
    UsingEnum: Stmts._using_enum,
}  # fmt: skip

__all__ = ["CArray", "Stmts", "show"]
