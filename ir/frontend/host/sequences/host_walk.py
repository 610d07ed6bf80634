"""A host function, followed statement by statement: the launches and what else touches memory of the device, in order.

Functions of the file that launch kernels are followed where they are called. Branches and loops are regions: what is
launched in one is a sequence of its own; loops of a few rounds, as many as the source says, are rounds in a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pycparser import c_ast

from ktc.ir.diagnostics import Loc
from ktc.ir.frontend.host.host_code import LAUNCH, HostFunction, host_functions, words
from ktc.ir.frontend.host.host_templates import HostInstances
from ktc.ir.frontend.host.launch_sites import LaunchSite
from ktc.ir.frontend.lowering.lower_kernel import KernelLowering
from ktc.ir.frontend.meaning.methods import params_of
from ktc.ir.frontend.meaning.values import RVal, Value
from ktc.ir.frontend.syntax.cxx_ast import Alias, Bad, IfConstexpr, Lambda, RangeFor, RefDecl
from ktc.ir.frontend.syntax.cxx_ast import Launch as LaunchNode
from ktc.ir.frontend.syntax.syntax_walk import children, contains, descendants
from ktc.ir.frontend.syntax.variable_uses import init_args, mutated
from ktc.ir.nodes import Expr, i32

from .host_api import ALLOCATORS, KNOWN, STATUS, Does, cuda_name, is_harmless
from .host_memories import Boundary, Event, HostPointer, Launching, Memory, Touching, Unseen
from .host_values import HostValues, called, constant_of, is_pointer, path_of

MAX_ROUNDS = 8
"""Rounds of a loop that are followed one by one."""

MAX_DEPTH = 8
"""Functions of the file that are followed into one another."""

_ENDS = frozenset({"exit", "abort", "_exit", "__assert_fail", "terminate"})


def events_of(
    lowering: KernelLowering, function: HostFunction, sites: dict[int, list[LaunchSite]], given: dict[str, Value]
) -> tuple[list[Event], HostValues]:
    """What ``function`` does, and the variables that it is told with. ``sites``: the file's launches by the identity of
    their syntax; ``given``: template arguments of the function."""
    walk = HostWalk(lowering, function, sites, given)
    walk.run()
    return walk.events, walk.values


def launching(lowering: KernelLowering) -> dict[str, list[HostFunction]]:
    """Functions of the file that launch kernels, themselves or through others, by name."""
    every = host_functions(lowering.program)
    spoken = {id(f): words(lowering.program, f.entity.node) for f in every}
    found = {f.entity.name for f in every if LAUNCH in spoken[id(f)]}
    while more := {f.entity.name for f in every if spoken[id(f)] & found} - found:
        found |= more
    return {n: [f for f in every if f.entity.name == n] for n in found}


class HostWalk:
    """One function."""

    def __init__(
        self,
        lowering: KernelLowering,
        function: HostFunction,
        sites: dict[int, list[LaunchSite]],
        given: dict[str, Value],
    ) -> None:
        self.lowering, self.function, self.sites = lowering, function, sites
        known = HostInstances(lowering).of(function) if function.entity.params else []
        types = given or (known[0] if len(known) == 1 else {})
        self.values = HostValues(lowering, function.entity.namespace, types)
        self.launching = launching(lowering)
        self.events: list[Event] = []
        self.region: tuple[int, ...] = ()
        self.loops: tuple[int, ...] = ()
        self.counted = 0
        self.depth = 0
        self.ended = False
        self.conditional = 0

    def run(self) -> None:
        """Follow the function from its first statement to its last."""
        v = self.values
        for p in params_of(self.function.entity.node):
            if not getattr(p, "name", None):
                continue
            v.declare(c_ast.Decl(p.name, [], [], [], [], p.type, None, None))
            if p.name in v.pointers:
                v.pointers[p.name] = v.unknown(p.name, "parameter")
        self._block(self.function.entity.node.body.block_items or [])

    # ----------------------------------------------------------------------------------------------------- statements
    def _block(self, items: list[Any]) -> None:
        for item in items:
            if self.ended:
                return
            self._statement(item)

    def _statement(self, s: Any) -> None:
        handler = _HANDLERS.get(type(s))
        if handler is not None:
            handler(self, s)
        elif isinstance(s, Bad):
            self._cut(f"a statement that cannot be read: {s.error.message}", s)
        elif s is not None:
            self._expression(s)

    def _compound(self, s: c_ast.Compound) -> None:
        items, v = s.block_items or [], self.values
        own = [d.name for d in items if isinstance(d, c_ast.Decl) and d.name]
        outer = [(table, {n: table[n] for n in own if n in table}) for table in (v.numbers, v.pointers, v.widths)]
        self._block(items)
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
        p = self._allocate(name)
        self.values.pointers[name] = p
        if zero:
            self._touch(p.memory, call, writes=True, zero=True)

    def _allocate(self, name: str, kind: str = "allocated") -> HostPointer:
        return self.values.unknown(name, kind, self.loops)

    def _assignment(self, s: c_ast.Assignment) -> None:
        self._expression(s.rvalue)
        self._written_through(s.lvalue)
        if not isinstance(s.lvalue, c_ast.ID):
            self.values.let_out(s.rvalue)  # a member, or what another pointer points to, holds the address
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
                self._touch(p.memory, target, writes=True)

    def _if(self, s: Any) -> None:
        self._expression(s.cond)
        branches = [b for b in (s.iftrue, s.iffalse) if b is not None]
        if any(isinstance(n, c_ast.ID) and n.name in STATUS for n in descendants(s.cond)) and not self._launches(s):
            return  # whether a call failed: the program ends there
        if not self._launches(s):
            self._unfollowed(branches)
            return
        before = self.values.saved()
        for b in branches:
            with _Region(self, s):
                self._statement(b)
            self.ended = False
            self.values.restore(before)
        self.values.forget(self._changed(branches))

    def _unfollowed(self, parts: list[Any]) -> None:
        """Statements that may run, or run many times: what they touch is touched, what they change is not known."""
        before = self.values.saved()
        self.conditional += 1
        for part in parts:
            self._statement(part)
            if (self.ended or _jumps(part)) and not _ends_the_program(part):
                self._cut("a branch after which the launches that follow may not happen", part)
            self.ended = False
        self.conditional -= 1
        self.values.restore(before)
        self.values.forget(self._changed(parts))

    def _loop(self, s: Any) -> None:
        if isinstance(s, c_ast.DoWhile) and constant_of(self.values.number(s.cond)) == 0:  # of a macro
            self._statement(s.stmt)
            return
        parts = [p for p in (getattr(s, n, None) for n in ("init", "cond", "next", "stmt", "range")) if p is not None]
        if not self._launches(s):
            self._unfollowed([p for p in parts if p is not None])
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
        if not self._launches(s):
            self._unfollowed([s.cond, s.stmt])
            return
        before = self.values.saved()
        for case in s.stmt.block_items or [] if isinstance(s.stmt, c_ast.Compound) else [s.stmt]:
            with _Region(self, case):
                self._block(list(getattr(case, "stmts", None) or [case]))
            self.ended = False
            self.values.restore(before)
        self.values.forget(self._changed([s.stmt]))

    def _case(self, s: Any) -> None:
        self._block(list(s.stmts or []))

    def _return(self, s: c_ast.Return) -> None:
        if s.expr is not None:
            self._expression(s.expr)
            for n in descendants(s.expr):
                p = self.values.pointer(n, quiet=True) if path_of(n) is not None else None
                if p is not None:
                    p.memory.escaped = True
                    self._touch(p.memory, s, reads=True)
        self.ended = True

    def _nothing(self, s: Any) -> None:
        """What changes nothing here."""

    # ---------------------------------------------------------------------------------------------------- expressions
    def _expression(self, node: Any) -> None:
        """The calls and launches in an expression, innermost first."""
        if isinstance(node, LaunchNode):
            self._launch(node)
            return
        if isinstance(node, Lambda):
            if self._launches(node):
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
            self._call(node)
        elif isinstance(node, c_ast.UnaryOp) and node.op in ("++", "--", "p++", "p--"):
            one = c_ast.Constant("int", "1")
            self.values.assign(c_ast.Assignment("+=" if "+" in node.op else "-=", node.expr, one, node.coord))
        elif isinstance(node, c_ast.ArrayRef) and path_of(node) not in self.values.pointers:
            p = self.values.pointer(node.name, quiet=True)
            if p is not None:
                self._touch(p.memory, node, reads=True)

    def _call(self, node: c_ast.FuncCall) -> None:
        name = called(node)
        args = list(node.args.exprs) if node.args is not None else []
        does = KNOWN.get(cuda_name(name))
        if does is not None:
            self._known(name, does, node, args)
            return
        if name == "swap" and len(args) == 2 and self._swapped(args):
            return
        if name in _ENDS:
            self.ended = self.ended or not self.conditional
            return
        if name in self.launching:
            self._follow(name, node, args)
        elif not is_harmless(name) and name not in ALLOCATORS:
            self._unseen(name, node, args)

    def _known(self, name: str, does: Does, node: Any, args: list[Any]) -> None:
        def memory(i: int | None) -> Memory | None:
            if i is None or i >= len(args):
                return None
            p = self.values.pointer(args[i], quiet=True)
            if p is None:
                self.values.let_out(args[i])
            return p.memory if p is not None else None

        if does.allocates is not None and args:
            target = path_of(_behind_address(args[0]))
            if target is not None:
                p = self._allocate(target, "managed" if does.managed else "allocated")
                p.memory.bytes = self.values.number(args[1]) if len(args) > 1 and not self.conditional else None
                p.memory.escaped = "_at_" in target or target not in self.values.widths or bool(self.conditional)
                self.values.pointers[target] = p
        for i, reads in ((does.reads, True), (does.writes, False)):
            m = memory(i)
            if m is not None:
                value = args[does.fills] if does.fills is not None and does.fills < len(args) else None
                zero = constant_of(self.values.number(value)) == 0 if value is not None else False
                self._touch(m, node, reads=reads, writes=not reads, zero=zero, what=name)

    def _swapped(self, args: list[Any]) -> bool:
        """``std::swap`` of two pointers."""
        a, b = (path_of(x) for x in args)
        held = self.values.pointers
        if a not in held or b not in held or a is None or b is None:
            return False
        held[a], held[b] = held[b], held[a]
        return True

    def _unseen(self, name: str, node: Any, args: list[Any]) -> None:
        """A call of a function that is not followed."""
        passed = [p for a in args if (p := self._passed(a)) is not None]
        if isinstance(node.name, c_ast.StructRef) and (p := self._passed(node.name.name)) is not None:
            passed.append(p)
        for p in passed:
            p.memory.escaped = True
            self._touch(p.memory, node, reads=True, writes=True, what=name)
        for a in args:
            target = path_of(_behind_address(a)) if isinstance(a, c_ast.UnaryOp) and a.op == "&" else None
            if target is not None:
                self.values.forget([target])
        for i in self._references(name):
            if i < len(args) and (target := path_of(args[i])) is not None:
                self.values.forget([target])
        if not passed and not self._quiet(name):
            self.events.append(Unseen(self._place(node), self.region, self.loops, name or "a function"))

    def _references(self, name: str) -> list[int]:
        """The arguments that functions of the file take by reference."""
        mine = [f for f in host_functions(self.lowering.program) if f.entity.name == name]
        return [i for f in mine for i, p in enumerate(params_of(f.entity.node)) if isinstance(p.type, RefDecl)]

    def _passed(self, node: Any) -> HostPointer | None:
        return self.values.pointer(node, quiet=True)

    def _quiet(self, name: str) -> bool:
        """Whether a function of the file says nothing to the device: neither calls of its API nor launches."""
        mine = [f for f in host_functions(self.lowering.program) if f.entity.name == name]
        said = [words(self.lowering.program, f.entity.node) for f in mine]
        return bool(mine) and not any(
            w == LAUNCH or (w.startswith(("cuda", "hip", "cub", "cu", "thrust")) and not is_harmless(w) and w not in STATUS)
            for each in said for w in each
        )  # fmt: skip

    def _follow(self, name: str, node: Any, args: list[Any]) -> None:
        """A call of a function of the file that launches kernels."""
        found = self.launching[name]
        f = found[0]
        simple = len(found) == 1 and not f.owner and f.entity.params is None and self.depth < MAX_DEPTH
        if not simple:
            what = f"'{name}' launches kernels, and is not followed: it is a template, a method, or there are several"
            self._cut(what, node)
            self._unseen(name, node, args)
            return
        v, outer = self.values, self.values.saved()
        own, bound = params_of(f.entity.node), []
        for p, a in zip(own, args):
            addressed = is_pointer(p.type) or path_of(a) in v.pointers
            bound.append((p, v.pointer(a) if addressed else None, None if addressed else v.value(a)))
        v.restore(({}, {}, {}, v.types))
        for p, address, number in bound:
            v.declare(c_ast.Decl(p.name, [], [], [], [], p.type, None, None))
            if address is not None:
                v.pointers[p.name] = address
            elif number is not None and p.name in v.numbers:
                v.numbers[p.name] = number
        self.depth += 1
        self._block(f.entity.node.body.block_items or [])
        self.depth -= 1
        self.ended = False
        v.restore(outer)
        for i, a in enumerate(args):
            given = isinstance(a, c_ast.UnaryOp) and a.op == "&"
            target = path_of(_behind_address(a)) if given or i in self._references(name) else None
            if target is not None:
                v.forget([target])

    def _launch(self, node: LaunchNode) -> None:
        sites = self.sites.get(id(node), [])
        if len(sites) != 1:
            self._cut("a launch of a kernel that is chosen when the program runs", node, launch=True)
            return
        site = sites[0]
        grid, block = (self.values.dims(c) for c in node.config[:2])
        shared = self.values.number(node.config[2]) if len(node.config) > 2 else None
        if grid is None or block is None or (len(node.config) > 2 and shared is None):
            self._cut(f"the launch of {site.kernel}, whose grid and block cannot be followed", node, launch=True)
            return
        args = self._arguments(node, site)
        if args is None:
            return
        stream = str(path_of(node.config[3])) if len(node.config) > 3 else ""
        stream = "" if stream in ("0", "None") else stream
        launched = Launching(self._place(node), self.region, self.loops, site, args, grid, block, shared, stream,
                             dict(self.values.types))  # fmt: skip
        self.events.append(launched)

    def _arguments(self, node: LaunchNode, site: LaunchSite) -> tuple[HostPointer | Expr | None, ...] | None:
        """What the launch passes; None where that cannot be followed, which is a boundary."""
        found = [e for e in self.lowering.program.kernels if e.name == site.kernel]
        own = params_of(found[0].node) if found else []
        args: list[HostPointer | Expr | None] = []
        for i, a in enumerate(node.args):
            declared = own[i].type if i < len(own) else None
            a_pointer = is_pointer(declared)
            if a_pointer or path_of(a) in self.values.pointers:
                args.append(self.values.pointer(a))
                continue
            value = self.values.number(a)
            if value is None:
                name = getattr(own[i], "name", "") if i < len(own) else ""
                self._cut(f"the launch of {site.kernel}: what is passed for '{name}' cannot be followed", a, node, True)
                return None
            args.append(value)
        return tuple(args)

    # ---------------------------------------------------------------------------------------------------------- parts
    def _touch(
        self, m: Memory, node: Any, reads: bool = False, writes: bool = False, zero: bool = False, what: str = ""
    ) -> None:
        zero = zero and not self.conditional
        place = self._place(node)
        self.events.append(Touching(place, self.region, self.loops, m, reads, writes, what or "the host", zero))

    def _cut(self, why: str, node: Any, around: Any = None, launch: bool = False) -> None:
        place = self._place(node) or self._place(around)
        self.events.append(Boundary(place, self.region, self.loops, why, launch))

    def _place(self, node: Any) -> Loc | None:
        return self.lowering.place(node)

    def _launches(self, node: Any) -> bool:
        return any(
            isinstance(n, LaunchNode) or (isinstance(n, c_ast.FuncCall) and called(n) in self.launching)
            for n in descendants(node)
        )

    def _changed(self, parts: list[Any]) -> set[str]:
        """The variables that some statements change."""
        found = set[str]()
        for part in parts:
            found |= mutated(part)
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


def _behind_address(node: Any) -> Any:
    """``x`` of ``(void**)&x``."""
    while isinstance(node, c_ast.Cast) or type(node).__name__ == "CxxCast":
        node = node.expr
    return node.expr if isinstance(node, c_ast.UnaryOp) and node.op == "&" else node


def _jumps(part: Any) -> bool:
    """Whether a statement may leave the loop, or the round of it, that it stands in."""
    around = (c_ast.For, c_ast.While, c_ast.DoWhile, c_ast.Switch, RangeFor)
    return contains(part, (c_ast.Break, c_ast.Continue, c_ast.Goto), stop=around) and not isinstance(part, around)


def _ends_the_program(part: Any) -> bool:
    """Whether a branch leaves by ending the program."""
    return any(isinstance(n, c_ast.FuncCall) and called(n) in _ENDS for n in descendants(part))


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


__all__ = ["all_sites", "events_of", "launching"]
