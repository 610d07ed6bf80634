"""A host function, followed statement by statement: the launches and what else touches memory of the device, in order.

Functions of the file that launch kernels are followed where they are called. Branches and loops are regions: what is
launched in one is a sequence of its own; loops of a few rounds, as many as the source says, are rounds in a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.host.host_api import ALLOCATORS, STATUS
from ktc.ir.frontend.host.host_changes import changed_names
from ktc.ir.frontend.host.host_code import HostFunction
from ktc.ir.frontend.host.launch_sites import LaunchSite
from ktc.ir.frontend.lowering.lower_kernel import KernelLowering
from ktc.ir.frontend.meaning.methods import params_of
from ktc.ir.frontend.meaning.values import RVal, Value
from ktc.ir.frontend.syntax.cxx_ast import Alias, Bad, IfConstexpr, Lambda, RangeFor
from ktc.ir.frontend.syntax.cxx_ast import Launch as LaunchNode
from ktc.ir.frontend.syntax.syntax_walk import children, contains, descendants
from ktc.ir.frontend.syntax.variable_uses import init_args, mutated
from ktc.ir.nodes import i32

from .host_calls_followed import ENDS, HostCalls
from .host_memories import Event
from .host_syntax import called, path_of
from .host_values import HostValues, constant_of

MAX_ROUNDS = 8
"""Rounds of a loop that are followed one by one."""


def events_of(
    lowering: KernelLowering, function: HostFunction, sites: dict[int, list[LaunchSite]], given: dict[str, Value]
) -> tuple[list[Event], HostValues]:
    """What ``function`` does, and the variables that it is told with. ``sites``: the file's launches by the identity of
    their syntax; ``given``: template arguments of the function."""
    walk = HostWalk(lowering, function, sites, given)
    walk.run()
    return walk.events, walk.values


class HostWalk(HostCalls):
    """One function, statement by statement."""

    def run(self) -> None:
        """Follow the function from its first statement to its last."""
        v = self.values
        for p in params_of(self.function.entity.node):
            if not getattr(p, "name", None):
                continue
            v.declare(c_ast.Decl(p.name, [], [], [], [], p.type, None, None))
            if p.name in v.pointers:
                v.pointers[p.name] = v.unknown(p.name, "parameter")
        self.follow(self.function.entity.node.body.block_items or [])

    # ----------------------------------------------------------------------------------------------------- statements
    def follow(self, items: list[Any]) -> None:
        for item in items:
            if self.ended:
                return
            self._statement(item)

    def _statement(self, s: Any) -> None:
        handler = _HANDLERS.get(type(s))
        if handler is not None:
            handler(self, s)
        elif isinstance(s, Bad):
            self.cut(f"a statement that cannot be read: {s.error.message}", s)
        elif s is not None:
            self._expression(s)

    def _compound(self, s: c_ast.Compound) -> None:
        items, v = s.block_items or [], self.values
        own = [d.name for d in items if isinstance(d, c_ast.Decl) and d.name]
        outer = [(table, {n: table[n] for n in own if n in table}) for table in (v.numbers, v.pointers, v.widths)]
        self.follow(items)
        for table, held in outer:
            for n in own:
                table.pop(n, None)
            table.update(held)

    def _declaration(self, s: c_ast.Decl) -> None:
        if isinstance(s.type, c_ast.FuncDecl) or not s.name:
            return
        for a in init_args(s.init):
            self._expression(a)
        self.values.declare(s)
        args = init_args(s.init)
        if len(args) == 1 and isinstance(args[0], c_ast.FuncCall):
            self._allocated(s.name, args[0])

    def _allocated(self, name: str, call: c_ast.FuncCall) -> None:
        """``name`` is what an allocating function returns."""
        zero = ALLOCATORS.get(called(call))
        if zero is None:
            return
        p = self.allocate(name)
        self.values.pointers[name] = p
        if zero:
            self.touch(p.memory, call, writes=True, zero=True)

    def _assignment(self, s: c_ast.Assignment) -> None:
        self._expression(s.rvalue)
        self._written_through(s.lvalue)
        if not isinstance(s.lvalue, c_ast.ID) or s.lvalue.name not in self.values.widths:
            self.values.let_out(s.rvalue)  # a member, or a variable that others see, holds the address
        self.values.assign(s)
        path = path_of(s.lvalue)
        if path is not None and s.op == "=" and isinstance(s.rvalue, c_ast.FuncCall):
            self._allocated(path, s.rvalue)

    def _written_through(self, target: Any) -> None:
        """A store of the host into memory of a pointer that it has: managed memory."""
        if isinstance(target, c_ast.ArrayRef | c_ast.UnaryOp) and path_of(target) not in self.values.pointers:
            base = target.name if isinstance(target, c_ast.ArrayRef) else target.expr
            p = self.values.pointer(base, quiet=True)
            if p is not None:
                self.touch(p.memory, target, writes=True)

    def _if(self, s: Any) -> None:
        self._expression(s.cond)
        branches = [b for b in (s.iftrue, s.iffalse) if b is not None]
        if not self.launches(s):  # where a call has failed, nobody asks what happens after it
            failed = any(isinstance(n, c_ast.ID) and n.name in STATUS for n in descendants(s.cond))
            every = _LEAVES if not self.inner else (c_ast.Return, c_ast.Goto)  # a loop without launches has its own
            self._unfollowed(branches, leaves=() if failed else every)
            return
        before = self.values.saved()
        for b in branches:
            with _Region(self, s):
                self._statement(b)
            self.ended = False
            self.values.restore(before)
        self.values.forget(self._changed(branches))

    def _unfollowed(self, parts: list[Any], leaves: tuple[type, ...]) -> None:
        """Statements that may run, or run many times: what they touch is touched, what they change is not known.
        ``leaves``: statements by which they leave what is around them."""
        before = self.values.saved()
        self.conditional += 1
        for part in parts:
            self._statement(part)
            if leaves and _jumps(part, leaves) and not _ends_the_program(part):
                self.cut("a branch after which the launches that follow may not happen", part)
            self.ended = False
        self.conditional -= 1
        self.values.restore(before)
        self.values.forget(self._changed(parts))

    def _loop(self, s: Any) -> None:
        if isinstance(s, c_ast.DoWhile) and constant_of(self.values.number(s.cond)) == 0:  # of a macro
            self._statement(s.stmt)
            return
        parts = [p for p in (getattr(s, n, None) for n in ("init", "cond", "next", "stmt", "range")) if p is not None]
        if not self.launches(s):
            self.inner += 1
            self._unfollowed([p for p in parts if p is not None], (c_ast.Return, c_ast.Goto))
            self.inner -= 1
            return
        if isinstance(s, c_ast.For) and self._rounds(s):
            return
        if getattr(s, "init", None) is not None:
            for d in s.init.decls if isinstance(s.init, c_ast.DeclList) else [s.init]:
                self._statement(d)
        self.values.forget(self._changed(parts))
        with _Region(self, s, loop=True):
            for part in (getattr(s, "cond", None), s.stmt, getattr(s, "next", None)):
                if part is not None:
                    self._statement(part)
        self.ended = False
        self.values.forget(self._changed(parts))

    def _rounds(self, s: c_ast.For) -> bool:
        """Follow a loop round by round where the source says how many there are, and they are few."""
        counts = _constant_rounds(s, self.values)
        leaves = (c_ast.Break, c_ast.Continue, c_ast.Return, c_ast.Goto)
        if counts is None or any(isinstance(n, leaves) for n in descendants(s.stmt)):
            return False
        name, values = counts
        old = self.values.numbers.get(name)
        for i in values:
            self.values.numbers[name] = RVal(i32(i))
            self._statement(s.stmt)
        self.values.numbers[name] = old
        return True

    def _switch(self, s: c_ast.Switch) -> None:
        if not self.launches(s):
            self.inner += 1
            self._unfollowed([s.cond, s.stmt], (c_ast.Return, c_ast.Goto, c_ast.Continue))
            self.inner -= 1
            return
        before = self.values.saved()
        for case in s.stmt.block_items or [] if isinstance(s.stmt, c_ast.Compound) else [s.stmt]:
            with _Region(self, case):
                self.follow(list(getattr(case, "stmts", None) or [case]))
            self.ended = False
            self.values.restore(before)
        self.values.forget(self._changed([s.stmt]))

    def _case(self, s: Any) -> None:
        self.follow(list(s.stmts or []))

    def _return(self, s: c_ast.Return) -> None:
        if s.expr is not None:
            self._expression(s.expr)
            for n in descendants(s.expr):
                p = self.values.pointer(n, quiet=True) if path_of(n) is not None else None
                if p is not None:
                    p.memory.escaped = True
                    self.touch(p.memory, s, reads=True)
        self.ended = True

    def _nothing(self, s: Any) -> None:
        """What changes nothing here."""

    # ---------------------------------------------------------------------------------------------------- expressions
    def _expression(self, node: Any) -> None:
        """The calls and launches in an expression, innermost first."""
        if isinstance(node, LaunchNode):
            self.launch(node)
            return
        if isinstance(node, Lambda):
            if self.launches(node):
                with _Region(self, node):
                    self._statement(node.body)
                self.ended = False
            else:
                self.values.let_out(node)
            return
        if isinstance(node, c_ast.Assignment):
            self._assignment(node)
            return
        if isinstance(node, c_ast.Compound):
            self._compound(node)
            return
        for c in children(node):
            self._expression(c)
        if isinstance(node, c_ast.FuncCall):
            self.call(node)
        elif isinstance(node, c_ast.UnaryOp) and node.op in ("++", "--", "p++", "p--"):
            one = c_ast.Constant("int", "1")
            self.values.assign(c_ast.Assignment("+=" if "+" in node.op else "-=", node.expr, one, node.coord))
        elif isinstance(node, c_ast.ArrayRef) and path_of(node) not in self.values.pointers:
            p = self.values.pointer(node.name, quiet=True)
            if p is not None:
                self.touch(p.memory, node, reads=True)

    def _changed(self, parts: list[Any]) -> set[str]:
        """The variables that some statements change."""
        found = set[str]()
        for part in parts:
            found |= changed_names(part, self.lowering.by_reference, self.lowering.program.host_mutated)
            for n in descendants(part):
                if isinstance(n, c_ast.FuncCall) and called(n) == "swap" and n.args is not None:
                    found |= {p for a in n.args.exprs if (p := path_of(a)) is not None}
        return found


class _Region:
    """Inside the ``with``: a branch or the body of a loop."""

    def __init__(self, walk: HostWalk, node: Any, loop: bool = False) -> None:
        self.walk, self.loop = walk, loop

    def __enter__(self) -> None:
        w = self.walk
        self.before = w.region, w.loops
        w.counted += 1
        w.region = (*w.region, w.counted)
        if self.loop:
            w.loops = (*w.loops, w.counted)

    def __exit__(self, *raised: Any) -> None:
        self.walk.region, self.walk.loops = self.before


_LEAVES = (c_ast.Return, c_ast.Goto, c_ast.Break, c_ast.Continue)


def _jumps(part: Any, leaves: tuple[type, ...]) -> bool:
    """Whether a statement may leave what it stands in by one of ``leaves``; loops in it have their own."""
    around = (c_ast.For, c_ast.While, c_ast.DoWhile, c_ast.Switch, RangeFor, Lambda)
    own = tuple(t for t in leaves if t not in (c_ast.Break, c_ast.Continue))
    return contains(part, leaves, stop=around) or contains(part, own, stop=(Lambda,))


def _ends_the_program(part: Any) -> bool:
    """Whether a branch leaves by ending the program."""
    return any(isinstance(n, c_ast.FuncCall) and called(n) in ENDS for n in descendants(part))


def _constant_rounds(s: c_ast.For, values: HostValues) -> tuple[str, range] | None:
    """The counter and its values of ``for (int i = 0; i < 4; ++i)``; None where they are not constant, or many."""
    decls = s.init.decls if isinstance(s.init, c_ast.DeclList) else []
    if len(decls) != 1 or not isinstance(s.cond, c_ast.BinaryOp) or s.cond.op not in ("<", "<=", "!="):
        return None
    name, args = decls[0].name, init_args(decls[0].init)
    start = constant_of(values.number(args[0])) if len(args) == 1 else None
    end = constant_of(values.number(s.cond.right))
    steps = isinstance(s.next, c_ast.UnaryOp) and s.next.op in ("++", "p++") and path_of(s.next.expr) == name
    if path_of(s.cond.left) != name or start is None or end is None or not steps or name in mutated(s.stmt):
        return None
    found = range(start, end + (s.cond.op == "<="))
    return (name, found) if len(found) <= MAX_ROUNDS else None


_HANDLERS: dict[type, Callable[[HostWalk, Any], None]] = {
    c_ast.Compound: HostWalk._compound, c_ast.Decl: HostWalk._declaration, c_ast.Assignment: HostWalk._assignment,
    c_ast.If: HostWalk._if, IfConstexpr: HostWalk._if, c_ast.For: HostWalk._loop, c_ast.While: HostWalk._loop,
    c_ast.DoWhile: HostWalk._loop, RangeFor: HostWalk._loop, c_ast.Switch: HostWalk._switch,
    c_ast.Case: HostWalk._case, c_ast.Default: HostWalk._case, c_ast.Return: HostWalk._return,
    Alias: lambda w, s: w.values.declare(s), c_ast.Typedef: lambda w, s: w.values.declare(s),
    c_ast.EmptyStatement: HostWalk._nothing, c_ast.Break: HostWalk._nothing, c_ast.Continue: HostWalk._nothing,
}  # fmt: skip


def all_sites(sites: Iterator[LaunchSite]) -> dict[int, list[LaunchSite]]:
    """Launches by the identity of their syntax."""
    found: dict[int, list[LaunchSite]] = {}
    for s in sites:
        if s.node is not None and s not in found.get(id(s.node), []):
            found.setdefault(id(s.node), []).append(s)
    return found


__all__ = ["all_sites", "events_of"]
