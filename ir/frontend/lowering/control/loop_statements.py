"""Lowering loops and switch."""

from __future__ import annotations

import re
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.meaning.values import VarPlace, describe
from ktc.ir.frontend.syntax.cxx_parser import to_loc
from ktc.ir.frontend.syntax.reference_arguments import changed_by
from ktc.ir.frontend.syntax.syntax_walk import children, contains, descendants
from ktc.ir.frontend.syntax.variable_uses import base_name, mutates
from ktc.ir.nodes import Break, Const, Decl, For, If, Stmt, Sym, Unary, Var, fresh
from ktc.ir.nodes import While as WhileStmt
from ktc.ir.types import BOOL, Scalar

from .stmts import _HANDLERS, items_of
from .switch import Switches


class Loops(Switches):
    """Loops. A counted loop whose body leaves its variable alone is a ``For``; anything else is a ``While``."""

    def _for(self, node: c_ast.For, pragma: Any) -> None:
        loc, unroll = self.loc, self._unroll(pragma)
        with self.scoped():
            beside, node = with_one_counter(node)
            for d in beside:
                self.declare(d)
            counted = self._counter(node)
            if counted is not None and self._emit_for(node, counted, unroll, loc):
                return
            if isinstance(node.init, c_ast.DeclList):
                for d in node.init.decls:
                    self.declare(d)
            elif node.init is not None:
                self._declare_counter(node.init)
                self.unused.add(id(node.init))
                self.eval(node.init)
            self._while(node.cond, node.stmt, node.next, loc, post=False)

    def _declare_counter(self, init: Any) -> None:
        """Declare the variable that a loop begins by assigning, if every loop that uses it has one of its own."""
        name = init.lvalue.name if isinstance(init, c_ast.Assignment) and isinstance(init.lvalue, c_ast.ID) else ""
        place = self.scope.find(name) if name in self.frame.facts.loop_only else None
        if isinstance(place, VarPlace):
            sym = fresh(name, place.type)
            self.emit(Decl(sym, None, loc=self.loc))
            self.scope.names[name] = VarPlace(sym)

    def _counter(self, node: c_ast.For) -> tuple[str, Any, Any] | None:
        """(name, declaration or None, initial value) if the loop has one counter that only its step changes."""
        init, extra = node.init, []
        if isinstance(init, c_ast.DeclList):
            last = init.decls[-1]
            if last.init is None or not isinstance(last.type, c_ast.TypeDecl):
                return None
            name, decl, value = last.name, last, last.init
            extra = init.decls[:-1]
            if any(mutates(p, d.name) for d in extra for p in (node.next, node.stmt) if p is not None):
                if len(init.decls) == 1:
                    return None
                first = init.decls[0]
                if node.next is None or not mutates(node.next, first.name):
                    return None
        elif isinstance(init, c_ast.Assignment) and init.op == "=" and isinstance(init.lvalue, c_ast.ID):
            name, decl, value = init.lvalue.name, None, init.rvalue
            if name not in self.frame.facts.loop_only:
                return None
        else:
            return None
        if node.cond is None or node.next is None or mutates(node.stmt, name) or mutates(node.cond, name):
            return None
        step = node.next
        ok = (
            isinstance(step, c_ast.Assignment | c_ast.UnaryOp)
            and base_name(getattr(step, "lvalue", None) or getattr(step, "expr", None)) == name
        )
        if not ok or isinstance(getattr(step, "lvalue", None), c_ast.ArrayRef):
            return None
        if self._passed_by_reference(node.stmt, name):
            return None
        return name, decl, value

    def _passed_by_reference(self, body: Any, name: str) -> bool:
        stack = [body]
        while stack:
            n = stack.pop()
            if any(base_name(a) == name for a in changed_by(n, self.by_reference)):
                return True
            stack.extend(children(n))
        return False

    def _emit_for(self, node: c_ast.For, counter: tuple[str, Any, Any], unroll: Any, loc: Any) -> bool:
        """Emit a ``For``; False (nothing emitted) if its parts need statements of their own."""
        name, decl, value = counter
        if decl is not None:
            for d in node.init.decls[:-1]:
                self.declare(d)
            t = self.resolve(decl.type)
            from ktc.ir.frontend.meaning.cxx_types import Auto

            if isinstance(t, Auto):
                t = self.rval(value).type
        else:
            place = self.scope.find(name)
            if not isinstance(place, VarPlace):
                return False
            t = place.type
        if not isinstance(t, Scalar):
            return False
        args = value.args if hasattr(value, "brace") else [value]
        init = self.convert(self.rvalue(self.initial_value(t, args, True, node), node), t).expr
        sym = fresh(name.strip(), t)
        self.scope.names[name] = VarPlace(sym)
        with self.capture() as pre:
            cond = self.condition(node.cond)
        with self.capture() as post:
            step = self._step(node.next, sym)
        if pre or post or step is None:
            self.emit(Decl(sym, init, loc=loc))
            self._while(node.cond, node.stmt, node.next, loc, post=False)
            return True
        body = self._body(node.stmt, None)
        self.emit(For(sym, init, cond, step, body, unroll, loc=loc, tags=self.tag(name.strip())))
        return True

    def _step(self, node: Any, sym: Sym) -> Any:
        """The counter's next value."""
        from ktc.ir.frontend.meaning.values import RVal

        current = RVal(Var(sym))
        if isinstance(node, c_ast.UnaryOp):
            new = self.arithmetic("+" if "+" in node.op else "-", current, RVal(Const(1, Scalar("int", 32))), node)
        elif node.op == "=":
            new = self.rval(node.rvalue)
        else:
            new = self.arithmetic(node.op[:-1], current, self.rval(node.rvalue), node)
        return self.convert(new, sym.type).expr

    def _body(self, node: Any, on_continue: Any) -> tuple[Stmt, ...]:
        self.frame.loops += 1
        self.frame.step.append(on_continue)
        try:
            return self.block(node)
        finally:
            self.frame.loops -= 1
            self.frame.step.pop()

    def _while_stmt(self, node: c_ast.While, pragma: Any) -> None:
        self._while(node.cond, node.stmt, None, self.loc, post=False)

    def _do(self, node: c_ast.DoWhile, pragma: Any) -> None:
        known = None
        if isinstance(node.cond, c_ast.Constant):
            known = self.constant(self.condition(node.cond))
        if (
            known is not None
            and not known.value
            and not contains(node.stmt, (c_ast.Break, c_ast.Continue), (c_ast.For, c_ast.While))
        ):
            with self.scoped():
                self.items(items_of(node.stmt))  # do { ... } while (0)
            return
        self._while(node.cond, node.stmt, None, self.loc, post=True)

    def _while(self, cond: Any, body: Any, step: Any, loc: Any, post: bool) -> None:
        """``while``; a condition that needs statements of its own moves into the body."""
        tag = self.tag(self._loop_name(cond, step))

        def advance() -> None:
            if step is not None:
                self.unused.add(id(step))
                self.eval(step)

        with self.controlled(), self.capture() as pre:
            test = self.condition(cond) if cond is not None else Const(True, BOOL)
        leaves = post and pre and contains(body, (c_ast.Continue,), (c_ast.For, c_ast.While, c_ast.DoWhile))

        def recheck() -> None:  # what continue does in such a do-while
            with self.controlled():
                again = self.condition(cond)
            self.emit(If(Unary("!", again), (Break(loc=loc),), loc=loc))

        stmts = self._body(body, recheck if leaves else advance if step is not None else None)
        with self.controlled(), self.capture() as after:
            advance()
        leave = If(Unary("!", test), (Break(loc=loc),), loc=loc)
        if post:
            if pre:
                self.emit(WhileStmt(Const(True, BOOL), (*stmts, *pre, leave), loc=loc, tags=tag))
            else:
                self.emit(WhileStmt(test, stmts, post=True, loc=loc, tags=tag))
        elif pre:
            self.emit(WhileStmt(Const(True, BOOL), (*pre, leave, *stmts, *after), loc=loc, tags=tag))
        else:
            self.emit(WhileStmt(test, (*stmts, *after), loc=loc, tags=tag))

    def _loop_name(self, cond: Any, step: Any) -> str:
        """The variable a reader would name the loop by."""
        if step is not None:
            name = base_name(getattr(step, "lvalue", None) or getattr(step, "expr", None))
            if name:
                return name.strip()
        stack = [cond] if cond is not None else []
        while stack:
            n = stack.pop(0)
            if isinstance(n, c_ast.ID):
                return n.name.strip()
            stack.extend(children(n))
        return "while"

    def _unroll(self, pragma: Any) -> Any:
        """``#pragma unroll [N]``: 0 is fully, None says nothing."""
        if pragma is None:
            return None
        m = re.match(r"(?:GCC\s+)?(?:no)?unroll\s*\(?\s*(.*?)\s*\)?\s*$", str(pragma.string))
        if m is None:
            return None
        if str(pragma.string).startswith("nounroll"):
            return 1
        text = re.sub(r"//.*|/\*.*", "", m.group(1)).strip()
        if not text:
            return 0
        if text.isdigit():
            return int(text)
        from ktc.ir.frontend.syntax.cxx_parser import CudaParser

        parser = CudaParser()
        item = parser.parse_unit(f"int unroll_factor = {text};", self.file)[0]
        if not isinstance(item, c_ast.Decl):
            return None
        return self.const_int(_macro(item.init, self.source.values), "the factor of #pragma unroll")

    # ------------------------------------------------------------------ switch


def with_one_counter(node: c_ast.For) -> tuple[list[c_ast.Decl], c_ast.For]:
    """The declarations that ``node`` has beside its counter's, and the loop without them.

        for (int i = 0, at = first; i < n; ++i, at += 32) { .. }      int at = first;
                                                                      for (int i = 0; i < n; ++i) { ..; at += 32; }

    Nothing, and ``node`` itself, where the order would be another one: ``continue`` goes to all of the steps.
    """
    steps = node.next.exprs if isinstance(node.next, c_ast.ExprList) else []
    decls = list(node.init.decls) if isinstance(node.init, c_ast.DeclList) else []
    changed = [base_name(getattr(s, "lvalue", None) or getattr(s, "expr", None)) or "" for s in steps]
    tested = {n.name for n in descendants(node.cond) if isinstance(n, c_ast.ID)} if node.cond is not None else set()
    counters = [k for k, name in enumerate(changed) if name in tested and name in [d.name for d in decls]]
    if len(steps) < 2 or len(counters) != 1 or "" in changed or len(set(changed)) != len(changed):
        return [], node
    (at,) = counters
    own, others = changed[at], set(changed) - {changed[at]}
    beside = [d for d in decls if d.name != own]
    later, before = [*steps[at + 1 :], *beside], [steps[at], node.cond]
    if (
        any(_mentions(n, {own}) for n in later)
        or any(_mentions(n, others) for n in before)
        or not others <= {d.name for d in beside}
    ):
        return [], node
    if contains(node.stmt, (c_ast.Continue,), (c_ast.For, c_ast.While, c_ast.DoWhile)):
        return [], node
    body = c_ast.Compound([node.stmt, *steps[:at], *steps[at + 1 :]], node.stmt.coord)
    init = c_ast.DeclList([d for d in decls if d.name == own], node.init.coord)
    return beside, c_ast.For(init, node.cond, steps[at], body, node.coord)


def _mentions(node: Any, names: set[str]) -> bool:
    return any(isinstance(n, c_ast.ID) and n.name in names for n in descendants(node))


def _macro(node: Any, values: dict[str, str]) -> Any:
    """Pragmas are not macro-expanded: do it for a name that is an object-like macro with an integer value."""
    if isinstance(node, c_ast.ID) and node.name in values:
        return c_ast.Constant("int", values[node.name], node.coord)
    return node


_HANDLERS.update({
    c_ast.For: Loops._for, c_ast.While: Loops._while_stmt, c_ast.DoWhile: Loops._do,
})  # fmt: skip

__all__ = ["Loops", "describe", "to_loc"]
