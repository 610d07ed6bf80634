"""Calls and launches of a host function: what they do to memory of the device, and which of them are followed."""

from __future__ import annotations

import re
from typing import Any

from pycparser import c_ast

from ktc.ir.diagnostics import Loc
from ktc.ir.frontend.host.host_api import ALLOCATORS, KNOWN, STATUS, Does, cuda_name, is_harmless
from ktc.ir.frontend.host.host_code import LAUNCH, HostFunction, host_functions, words
from ktc.ir.frontend.host.host_templates import HostInstances
from ktc.ir.frontend.host.launch_sites import LaunchSite
from ktc.ir.frontend.lowering.lower_kernel import KernelLowering
from ktc.ir.frontend.meaning.methods import params_of
from ktc.ir.frontend.meaning.values import Value
from ktc.ir.frontend.syntax.cxx_ast import Launch as LaunchNode
from ktc.ir.frontend.syntax.cxx_ast import RefDecl
from ktc.ir.frontend.syntax.syntax_walk import descendants
from ktc.ir.nodes import Expr, i32

from .host_memories import Boundary, Event, HostPointer, Launching, Memory, Touching, Unseen
from .host_syntax import behind_address, called, is_pointer, path_of, template_arguments
from .host_values import HostValues, constant_of

MAX_DEPTH = 8
"""Functions of the file that are followed into one another."""

_DEVICE = ("cu", "hip", "thrust")
"""What names of functions begin with that work on a device."""

_NAMES_ONLY = re.compile(
    r"(cuda|hip|cublas|curand)\w*(_t|Error|Prop|_st)|(cuda|hip)(DeviceReset|Memcpy\w+To\w+)|cur\w*|cut\w*"
)
"""Names of types and constants of the API, of what ends the program's use of the device, and words of a program."""

ENDS = frozenset({"exit", "abort", "_exit", "__assert_fail", "terminate"})
"""Functions that end the program."""


def launching(lowering: KernelLowering) -> dict[str, list[HostFunction]]:
    """Functions of the file that launch kernels, themselves or through others, by name."""
    every = host_functions(lowering.program)
    spoken = {id(f): words(lowering.program, f.entity.node) for f in every}
    found = {f.entity.name for f in every if LAUNCH in spoken[id(f)]}
    while more := {f.entity.name for f in every if spoken[id(f)] & found} - found:
        found |= more
    return {n: [f for f in every if f.entity.name == n] for n in found}


def _works_on_device(word: str) -> bool:
    """Whether a function that has ``word`` in it may work on memory of the device."""
    if word == LAUNCH:
        return True
    return (
        word.startswith(_DEVICE)
        and word not in STATUS
        and _NAMES_ONLY.fullmatch(word) is None
        and not is_harmless(word)
    )


class HostCalls:
    """The calls of one function, and the events that they are."""

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
        fixed = template_arguments(function.entity.node.body)
        self.values = HostValues(lowering, function.entity.namespace, types, fixed)
        self.launching = launching(lowering)
        self.events: list[Event] = []
        self.region: tuple[int, ...] = ()
        self.loops: tuple[int, ...] = ()
        self.counted = 0
        self.depth = 0
        self.ended = False
        self.conditional = 0
        self.inner = 0
        """Loops, and switches, without launches around a statement."""

    def follow(self, items: list[Any]) -> None:
        """Statements in order, up to one that leaves."""
        raise NotImplementedError

    def call(self, node: c_ast.FuncCall) -> None:
        """What a call does, its arguments having been followed."""
        name = called(node)
        args = list(node.args.exprs) if node.args is not None else []
        does = KNOWN.get(cuda_name(name))
        if does is not None:
            self._known(name, does, node, args)
            return
        if name == "swap" and len(args) == 2 and self._swapped(args):
            return
        if name in ENDS:
            self.ended = self.ended or not self.conditional
            return
        own = bool(self._of_file(name))
        harmless = is_harmless(name) and not own  # what the file defines is judged by what it does
        if not harmless:
            self.values.forget_shared()
        if name in self.launching:
            self._follow(name, node, args)
        elif not harmless and (own or name not in ALLOCATORS):
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
            target = path_of(behind_address(args[0]))
            if target is not None:
                p = self.allocate(target, "managed" if does.managed else "allocated")
                p.memory.bytes = self.values.number(args[1]) if len(args) > 1 and not self.conditional else None
                p.memory.escaped = "_at_" in target or target not in self.values.widths or bool(self.conditional)
                self.values.pointers[target] = p
        for i, reads in ((does.reads, True), (does.writes, False)):
            m = memory(i)
            if m is not None:
                zero = does.fills is not None and not reads and self._zeroes(m, args)
                self.touch(m, node, reads=reads, writes=not reads, zero=zero, what=name)

    def _zeroes(self, m: Memory, args: list[Any]) -> bool:
        """Whether ``cudaMemset`` of these arguments makes all of ``m`` zero, as far as its size is known."""
        if len(args) < 3 or constant_of(self.values.number(args[1])) != 0:
            return False
        return m.bytes is None or self.values.number(args[2]) == m.bytes

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
            self.touch(p.memory, node, reads=True, writes=True, what=name)
        for a in args:
            target = path_of(behind_address(a)) if isinstance(a, c_ast.UnaryOp) and a.op == "&" else None
            if target is not None:
                self.values.forget([target])
        for i in self._references(name):
            if i < len(args) and (target := path_of(args[i])) is not None:
                self.values.forget([target])
        if not passed and not self._quiet(name):
            self.events.append(Unseen(self.place(node), self.region, self.loops, name or "a function"))

    def _references(self, name: str) -> list[int]:
        """The arguments that functions of the file take by reference."""
        return [
            i
            for f in self._of_file(name)
            for i, p in enumerate(params_of(f.entity.node))
            if isinstance(p.type, RefDecl)
        ]

    def _passed(self, node: Any) -> HostPointer | None:
        return self.values.pointer(node, quiet=True)

    def _of_file(self, name: str) -> list[HostFunction]:
        """Functions of the file, and methods, of that name."""
        return [f for f in host_functions(self.lowering.program) if f.entity.name == name]

    def _quiet(self, name: str) -> bool:
        """Whether a function of the file says nothing to the device: neither calls of its API nor launches."""
        said = [words(self.lowering.program, f.entity.node) for f in self._of_file(name)]
        return bool(said) and not any(map(_works_on_device, frozenset[str]().union(*said)))

    def _follow(self, name: str, node: Any, args: list[Any]) -> None:
        """A call of a function of the file that launches kernels."""
        found = self.launching[name]
        f = found[0]
        simple = len(found) == 1 and not f.owner and f.entity.params is None and self.depth < MAX_DEPTH
        if not simple:
            what = f"'{name}' launches kernels, and is not followed: it is a template, a method, or there are several"
            self.cut(what, node)
            self._unseen(name, node, args)
            return
        v, outer = self.values, self.values.saved()
        own, bound = params_of(f.entity.node), []
        for p, a in zip(own, args):
            addressed = is_pointer(p.type) or path_of(a) in v.pointers
            bound.append((p, v.pointer(a) if addressed else None, None if addressed else v.value(a)))
        shared = {n: x for n, x in v.numbers.items() if n in v.shared_names}
        outside = {n: x for n, x in v.pointers.items() if n.partition("_at_")[0] not in v.widths}
        v.restore((shared, outside, {}, v.types))
        for p, address, number in bound:
            v.declare(c_ast.Decl(p.name, [], [], [], [], p.type, None, None))
            if address is not None:
                v.pointers[p.name] = address
            elif number is not None and p.name in v.numbers:
                v.numbers[p.name] = number
        self.depth += 1
        self.follow(f.entity.node.body.block_items or [])
        self.depth -= 1
        self.ended = False
        v.restore(outer)
        v.forget_shared()
        for i, a in enumerate(args):
            given = isinstance(a, c_ast.UnaryOp) and a.op == "&"
            target = path_of(behind_address(a)) if given or i in self._references(name) else None
            if target is not None:
                v.forget([target])

    def launch(self, node: LaunchNode) -> None:
        """A launch, or the boundary that it is where it cannot be followed."""
        sites = self.sites.get(id(node), [])
        if len(sites) != 1:
            self.cut("a launch of a kernel that is chosen when the program runs", node, launch=True)
            return
        site = sites[0]
        grid, block = (self.values.dims(c) for c in node.config[:2])
        shared = self.values.number(node.config[2]) if len(node.config) > 2 else None
        if grid is None or block is None or (len(node.config) > 2 and shared is None):
            self.cut(f"the launch of {site.kernel}, whose grid and block cannot be followed", node, launch=True)
            return
        args = self._arguments(node, site)
        if args is None:
            return
        stream = str(path_of(node.config[3])) if len(node.config) > 3 else ""
        stream = "" if stream in ("0", "None") else stream
        launched = Launching(self.place(node), self.region, self.loops, site, args, grid, block, shared, stream,
                             dict(self.values.types))  # fmt: skip
        self.events.append(launched)

    def _arguments(self, node: LaunchNode, site: LaunchSite) -> tuple[HostPointer | Expr | None, ...] | None:
        """What the launch passes; None where that cannot be followed, which is a boundary."""
        found = [e for e in self.lowering.program.kernels if e.name == site.kernel]
        own = params_of(found[0].node) if found else []
        args: list[HostPointer | Expr | None] = []
        for i, a in enumerate(node.args):
            declared = own[i].type if i < len(own) else None
            if i < len(own) and not getattr(own[i], "name", None):
                args.append(i32(0))  # a tag, which the kernel has no name for
                continue
            a_pointer = is_pointer(declared)
            if a_pointer or path_of(a) in self.values.pointers:
                args.append(self.values.pointer(a))
                continue
            value = self.values.number(a)
            if value is None:
                name = getattr(own[i], "name", "") if i < len(own) else ""
                self.cut(f"the launch of {site.kernel}: what is passed for '{name}' cannot be followed", a, node, True)
                return None
            args.append(value)
        return tuple(args)

    def allocate(self, name: str, kind: str = "allocated") -> HostPointer:
        """New memory, of its own."""
        return self.values.unknown(name, kind, self.loops)

    # ---------------------------------------------------------------------------------------------------------- parts
    def touch(
        self, m: Memory, node: Any, reads: bool = False, writes: bool = False, zero: bool = False, what: str = ""
    ) -> None:
        """``m`` is read or written by something that is no launch."""
        zero = zero and not self.conditional
        place = self.place(node)
        self.events.append(Touching(place, self.region, self.loops, m, reads, writes, what or "the host", zero))

    def cut(self, why: str, node: Any, around: Any = None, launch: bool = False) -> None:
        """No sequence goes on across ``node``. ``launch``: it is a launch."""
        place = self.place(node) or self.place(around)
        self.events.append(Boundary(place, self.region, self.loops, why, launch))

    def place(self, node: Any) -> Loc | None:
        """Where ``node`` stands."""
        return self.lowering.place(node)

    def launches(self, node: Any) -> bool:
        """Whether kernels are launched at or below ``node``."""
        return any(
            isinstance(n, LaunchNode) or (isinstance(n, c_ast.FuncCall) and called(n) in self.launching)
            for n in descendants(node)
        )


__all__ = ["ENDS", "HostCalls", "launching"]
