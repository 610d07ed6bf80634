"""``goto``, structured: forward jumps become conditions, backward jumps loops, on the syntax tree of one block.

    goto done;      ->  left_done = true;           again:          ->  do {
    rest;               if (!left_done) rest;       body;                 body;
    done: after;        after;                      if (c) goto again;  } while (c);

A block's labels are resolved where the block is lowered, so jumps out of nested blocks and loops are found there. What
remains jumps into a block or into the middle of a loop: such control flow is not reducible, and is refused.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.syntax.cxx_ast import IfConstexpr, RangeFor
from ktc.ir.frontend.syntax.syntax_walk import children

from .returns import items_of

LOOPS = (c_ast.For, c_ast.While, c_ast.DoWhile, RangeFor)
Fail = Callable[[str, str, Any], Any]
"""Code, message and node of what is refused: raises."""


@dataclass(frozen=True)
class Jump:
    """What leaves: a ``goto`` of the label ``name``, or the ``break`` of a switch."""

    name: str = ""

    def is_at(self, node: Any) -> bool:
        return isinstance(node, c_ast.Goto) and node.name == self.name if self.name else isinstance(node, c_ast.Break)

    def is_in(self, node: Any) -> bool:
        """Whether ``node`` or something inside it jumps so."""
        stack = [node]
        while stack:
            n = stack.pop()
            if self.is_at(n):
                return True
            if self.name or not isinstance(n, (*LOOPS, c_ast.Switch)):  # those have breaks of their own
                stack.extend(children(n))
        return False


@dataclass
class Structurer:
    """Rewrites lists of statements. ``assigned`` collects the names whose values it changes."""

    fail: Fail
    unique: Callable[[str], str]
    assigned: set[str] = field(default_factory=set)

    def block(self, items: list[Any]) -> list[Any]:
        """``items`` without labels of their own: every jump to one is structured."""
        out = _split_labels(items)
        for name in reversed([x.name for x in out if isinstance(x, c_ast.Label)]):
            out = self._backward(out, name)
        flags: list[Any] = []
        while (at := next((i for i, x in enumerate(out) if isinstance(x, c_ast.Label)), None)) is not None:
            before, after = out[:at], out[at + 1 :]
            out = [*self.without(before, Jump(out[at].name), after, flags), *after]
        return [*flags, *out]

    def without(self, items: list[Any], jump: Jump, after: list[Any], flags: list[Any]) -> list[Any]:
        """``items`` where ``jump`` leads to their end; declarations of new flags go to ``flags``."""
        if not any(jump.is_in(s) for s in items):
            return items
        flag = self.unique(f"left_{jump.name or 'switch'}")
        hoisted, items = self._hoisted(items, after)
        used: list[bool] = []
        out = self._leave(items, jump, flag, False, used, outermost=True)
        if used:
            self.assigned.add(flag)
            flags.append(_declare_flag(flag, items[0].coord))
        return [*hoisted, *out]

    def _leave(
        self, items: list[Any], jump: Jump, flag: str, in_loop: bool, used: list[bool], outermost: bool = False
    ) -> list[Any]:
        """``items`` where ``jump`` sets ``flag`` and skips the rest; ``outermost``: their end is where it leads."""
        at = next((i for i, s in enumerate(items) if jump.is_in(s)), None)
        if at is None:
            return items
        s, rest = items[at], items[at + 1 :]
        coord = s.coord
        if outermost and isinstance(s, c_ast.If) and s.iffalse is None and not any(jump.is_in(x) for x in rest):
            inside = items_of(s.iftrue)
            if len(inside) == 1 and jump.is_at(inside[0]):
                skipped = c_ast.If(c_ast.UnaryOp("!", s.cond, coord), c_ast.Compound(rest, coord), None, coord)
                return [*items[:at], *([skipped] if rest else [])]
        used.append(True)
        if jump.is_at(s):
            leaving: list[Any] = [_set(flag, True, coord), *([c_ast.Break(coord)] if in_loop else [])]
            return [*items[:at], *leaving]
        changed = self._inside(s, jump, flag, in_loop, used)
        more = self._leave(rest, jump, flag, in_loop, used, outermost)
        left = c_ast.ID(flag, coord)
        if in_loop:
            return [*items[:at], changed, c_ast.If(left, c_ast.Break(coord), None, coord), *more]
        guarded = [c_ast.If(c_ast.UnaryOp("!", left, coord), c_ast.Compound(more, coord), None, coord)] if more else []
        return [*items[:at], changed, *guarded]

    def _inside(self, s: Any, jump: Jump, flag: str, in_loop: bool, used: list[bool]) -> Any:
        """The statement ``s`` with the jumps inside it."""

        def body(node: Any, looping: bool) -> Any:
            return node and c_ast.Compound(self._leave(items_of(node), jump, flag, looping, used), s.coord)

        new = copy.copy(s)
        if isinstance(s, c_ast.If | IfConstexpr):
            new.iftrue, new.iffalse = body(s.iftrue, in_loop), body(s.iffalse, in_loop)
        elif isinstance(s, c_ast.Compound):
            new = body(s, in_loop)
        elif isinstance(s, LOOPS):
            new.stmt = body(s.stmt, True)
        elif isinstance(s, c_ast.Switch):
            new.stmt = copy.copy(s.stmt)
            new.stmt.block_items = [self._case(c, jump, flag, used) for c in items_of(s.stmt)]
        else:
            self.fail("E-UNSUPPORTED-GOTO", "a jump out of this statement", s)
        return new

    def _case(self, case: Any, jump: Jump, flag: str, used: list[bool]) -> Any:
        if not isinstance(case, c_ast.Case | c_ast.Default):
            return case
        new = copy.copy(case)
        new.stmts = self._leave(list(case.stmts or []), jump, flag, True, used)
        return new

    # ------------------------------------------------------------------------------------------------- backward
    def _backward(self, items: list[Any], name: str) -> list[Any]:
        jump = Jump(name)
        first = next(i for i, x in enumerate(items) if isinstance(x, c_ast.Label) and x.name == name)
        last = max((i for i in range(first + 1, len(items)) if jump.is_in(items[i])), default=first)
        if last == first:
            return items
        region, after = self.block(items[first + 1 : last + 1]), items[last + 1 :]
        if any(_breaks_out(s) for s in region):
            self.fail("E-UNSUPPORTED-GOTO", "a break or continue across a backward goto", items[first])
        coord = items[first].coord
        hoisted, region = self._hoisted(region, [*after, region[-1]])
        end = region[-1]
        simple = isinstance(end, c_ast.If) and end.iffalse is None and not any(jump.is_in(s) for s in region[:-1])
        if simple and [type(x) for x in items_of(end.iftrue)] == [c_ast.Goto]:
            loop = c_ast.DoWhile(end.cond, c_ast.Compound(region[:-1], coord), coord)
            return [*items[: first + 1], *hoisted, loop, *after]
        flag = self.unique(f"again_{name}")
        self.assigned.add(flag)
        body = [_set(flag, False, coord), *self._leave(region, jump, flag, False, [])]
        loop = c_ast.DoWhile(c_ast.ID(flag, coord), c_ast.Compound(body, coord), coord)
        return [*items[: first + 1], *hoisted, _declare_flag(flag, coord), loop, *after]

    def _hoisted(self, items: list[Any], after: list[Any]) -> tuple[list[Any], list[Any]]:
        """Declarations in ``items`` of what ``after`` names, in front; where they stood the assignments are left."""
        named = {n.name for s in after for n in _all(s) if isinstance(n, c_ast.ID)}
        hoisted: list[Any] = []
        left: list[Any] = []
        for s in items:
            if not (isinstance(s, c_ast.Decl) and s.name in named):
                left.append(s)
                continue
            plain = isinstance(s.type, c_ast.TypeDecl) and isinstance(s.type.type, c_ast.IdentifierType)
            if s.init is not None and (
                not plain or isinstance(s.init, c_ast.InitList) or "static" in (s.storage or [])
            ):
                self.fail("E-UNSUPPORTED-GOTO", f"the declaration of '{s.name}' is jumped over and used behind", s)
            bare = copy.copy(s)
            bare.init, bare.quals = None, [q for q in s.quals or [] if q != "const"]
            if plain:
                bare.type = copy.copy(s.type)
                bare.type.quals = [q for q in s.type.quals or [] if q != "const"]
            hoisted.append(bare)
            if s.init is not None:
                self.assigned.add(s.name)
                left.append(c_ast.Assignment("=", c_ast.ID(s.name, s.coord), s.init, s.coord))
        return hoisted, left


def _split_labels(items: list[Any]) -> list[Any]:
    """Labels as statements of their own, before what they label."""
    out: list[Any] = []
    for s in items:
        while isinstance(s, c_ast.Label):
            out.append(c_ast.Label(s.name, c_ast.EmptyStatement(s.coord), s.coord))
            s = s.stmt
        if s is not None and not isinstance(s, c_ast.EmptyStatement):
            out.append(s)
    return out


def _breaks_out(node: Any) -> bool:
    """Whether ``node`` has a break or continue of a loop around it."""
    stack = [(node, False)]
    while stack:
        n, in_switch = stack.pop()
        if isinstance(n, c_ast.Continue) or (isinstance(n, c_ast.Break) and not in_switch):
            return True
        if not isinstance(n, LOOPS):
            stack.extend((c, in_switch or isinstance(n, c_ast.Switch)) for c in children(n))
    return False


def names_in(items: list[Any]) -> set[str]:
    """Every name that ``items`` mention or declare."""
    return {n.name for s in items for n in _all(s) if isinstance(n, c_ast.ID | c_ast.Decl) and n.name}


def _all(node: Any) -> list[Any]:
    out, stack = [], [node]
    while stack:
        n = stack.pop()
        out.append(n)
        stack.extend(children(n))
    return out


def _set(flag: str, value: bool, coord: Any) -> Any:
    return c_ast.Assignment("=", c_ast.ID(flag, coord), _truth(value, coord), coord)


def _truth(value: bool, coord: Any) -> Any:
    return c_ast.Constant("bool", "true" if value else "false", coord)


def _declare_flag(flag: str, coord: Any) -> Any:
    t = c_ast.TypeDecl(flag, [], None, c_ast.IdentifierType(["bool"], coord), coord)
    return c_ast.Decl(flag, [], [], [], [], t, _truth(False, coord), None, coord)


__all__ = ["Jump", "Structurer", "names_in"]
