"""Loops of host code over the dimensions of a tensor, for a number of dimensions that is supposed.

    Strides s(dims);                                        of three dimensions
    int64_t acc = 1;                                        s[2]: 1
    for (int i = dims - 1; i >= 0; --i) {                   s[1]: x.dim(2)
      s[i] = acc;                                           s[0]: x.dim(2) * x.dim(1)
      acc *= x.dim(i);
    }

How many dimensions a tensor has, a launch does not say; what such loops make of their extents is known for any number.
Where one is supposed (:mod:`.supposed_tensors`), loops whose rounds can be counted are followed round by round.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pycparser import c_ast

from ktc.ir.frontend.syntax.cxx_ast import CxxCast
from ktc.ir.frontend.syntax.syntax_walk import descendants, replaced

from .host_assignments import Env, assign, choose, current, forget, held, key_of, unknown
from .supposed_tensors import is_permuted

MOST_ROUNDS = 16
"""Rounds of one loop that are followed."""

Changes: TypeAlias = Callable[[Any], frozenset[str]]
"""The variables that a statement changes."""


@dataclass(frozen=True)
class _Loops:
    """Following loops where tensors have ``rank`` dimensions; ``changes``: the variables that a statement changes."""

    rank: int
    changes: Changes

    def followed(self, loop: c_ast.For, env: Env) -> bool:
        """Whether the rounds of ``loop`` can be counted; ``env`` is what holds after them then, else as it was."""
        begun = _counter(loop)
        if begun is None:
            return False
        name, start = begun
        after, value = dict(env), self.number(start, env)
        for _ in range(MOST_ROUNDS):
            at = {name: value}
            goes_on = self.number(loop.cond, after, at) if value is not None and loop.cond is not None else None
            if goes_on is None:
                return False
            if not goes_on:
                env.clear()
                env.update(after)
                return True
            if not self._statements([loop.stmt], after, at):
                return False
            value = self._next(loop.next, after, at)
        return False

    def _next(self, step: Any, env: Env, at: dict[str, int | None]) -> int | None:
        """What the counter is after what ends a round, which may also assign to other variables."""
        (name,) = at
        value: int | None = at[name]
        for part in step.exprs if isinstance(step, c_ast.ExprList) else [step]:
            match part:
                case c_ast.UnaryOp(op="++" | "p++" | "--" | "p--" as op, expr=c_ast.ID(name=n)) if n == name:
                    value = None if value is None else value + (1 if "+" in op else -1)
                case c_ast.Assignment(op="+=" | "-=" as op, lvalue=c_ast.ID(name=n), rvalue=by) if n == name:
                    more = self.number(by, env)
                    value = None if value is None or more is None else value + (more if op == "+=" else -more)
                case _ if not self._statements([part], env, {name: value}):
                    return None
        return value

    def _statements(self, items: list[Any], env: Env, at: Mapping[str, int | None]) -> bool:
        """Follow statements of a round; whether that was possible."""
        for item in items:
            if item is None or isinstance(item, c_ast.EmptyStatement):
                continue
            if isinstance(item, c_ast.Compound):
                followed = self._statements(item.block_items or [], env, at)
            elif isinstance(item, c_ast.If):
                followed = self._branch(item, env, at)
            else:
                followed = self._statement(self._with_counters(item, env, at), env)
            if not followed:
                return False
        return True

    def _branch(self, item: c_ast.If, env: Env, at: Mapping[str, int | None]) -> bool:
        holds = self.number(item.cond, env, at)
        if holds is not None:
            return self._statements([item.iftrue if holds else item.iffalse], env, at)
        choose(self._with_counters(item, env, at), env, self.changes)
        return not any(isinstance(n, c_ast.Break | c_ast.Continue | c_ast.Return) for n in descendants(item))

    def _statement(self, item: Any, env: Env) -> bool:
        if isinstance(item, c_ast.Decl):
            forget(env, item.name)  # of the round before
            env[item.name] = item
        elif isinstance(item, c_ast.For):
            return self.followed(item, env)
        elif isinstance(item, c_ast.Assignment) and key_of(item.lvalue) is not None:
            assign(item, env)
        elif isinstance(item, c_ast.Break | c_ast.Continue | c_ast.Return | c_ast.While | c_ast.DoWhile):
            return False
        else:
            for name in held(self.changes(item), env):
                unknown(env, name)
        return True

    def _with_counters(self, item: Any, env: Env, at: Mapping[str, int | None]) -> Any:
        """A copy of a statement with numbers in the place of counters, and of what subscripts and arguments come to."""

        def told(n: Any) -> Any | None:
            if isinstance(n, c_ast.ID) and at.get(n.name) is not None:
                return c_ast.Constant("int", str(at[n.name]), n.coord)
            if isinstance(n, c_ast.ArrayRef) and (k := self.number(n.subscript, env, at)) is not None:
                return c_ast.ArrayRef(replaced(n.name, told), c_ast.Constant("int", str(k)), n.coord)
            if isinstance(n, c_ast.FuncCall) and isinstance(n.name, c_ast.StructRef) and n.args is not None:
                args = [(self.number(a, env, at), a) for a in n.args.exprs]
                given = [replaced(a, told) if k is None else c_ast.Constant("int", str(k)) for k, a in args]
                return c_ast.FuncCall(replaced(n.name, told), c_ast.ExprList(given), n.coord)
            return None

        return replaced(item, told)

    def number(self, e: Any, env: Env, at: Mapping[str, int | None] = {}) -> int | None:
        """The integer that ``e`` comes to; None where it is made of more than is known."""
        match e:
            case c_ast.Constant(value=text):
                return int(digits, 0) if (digits := text.rstrip("uUlL")).isdigit() else _TRUTHS.get(text)
            case c_ast.ID(name=name):
                held = at[name] if name in at else current(env, name)
                return held if held is None or isinstance(held, int) else self.number(held, _but(env, name))
            case c_ast.Cast(expr=x) | CxxCast(expr=x):
                return self.number(x, env, at)
            case c_ast.UnaryOp(op="-" | "+" | "!" as op, expr=x):
                value = self.number(x, env, at)
                return None if value is None else {"-": -value, "+": value, "!": int(not value)}[op]
            case c_ast.BinaryOp(op=op, left=a, right=b) if op in _OPERATORS:
                left, right = self.number(a, env, at), self.number(b, env, at)
                return None if left is None or right is None else int(_OPERATORS[op](left, right))
            case c_ast.ArrayRef(subscript=i) if is_permuted(e):
                index = self.number(i, env, at)
                return None if index is None else self.rank - 1 - index
        return None


def _but(env: Env, name: str) -> Env:
    return {n: v for n, v in env.items() if n != name}


_TRUTHS = {"true": 1, "false": 0}

_OPERATORS: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge, "==": operator.eq, "!=": operator.ne, "&&": lambda a, b: bool(a and b),
    "||": lambda a, b: bool(a or b),
}  # fmt: skip


def _counter(loop: c_ast.For) -> tuple[str, Any] | None:
    """The counter that a loop begins with and what it is then; None where it begins otherwise."""
    match loop.init:
        case c_ast.DeclList(decls=[c_ast.Decl(name=name, init=init)]) if init is not None:
            return name, init
        case c_ast.Assignment(op="=", lvalue=c_ast.ID(name=name), rvalue=init):
            return name, init
    return None


def follow_rounds(loop: c_ast.For, env: Env, rank: int, changes: Changes) -> bool:
    """Whether the rounds of ``loop`` can be counted where tensors have ``rank`` dimensions; ``env`` is what holds after
    them then, else as it was."""
    return _Loops(rank, changes).followed(loop, env)


__all__ = ["follow_rounds"]
