"""Ends that cut through a group of threads which exchange values: ``if (i >= n) return;`` before a shuffle.

Where ``n`` is a multiple of what the group takes there are none: all of its threads are in front of the end or behind
it, and the first of them says which. Elsewhere lanes exchange values with lanes that are gone, of which nothing is
known. The launcher checks it.

before                                                    after, where n % 128 == 0
    i = 4 * (blockIdx.x * 256 + threadIdx.x)                  if (4 * (blockIdx.x * 256 + threadIdx.x / 32 * 32) >= n)
    if (i >= n) return; ... shuffle ...                         return; ... shuffle ...
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.arith.polynomial import polynomial
from ktc.ir.fold import cast, evaluate, simplify
from ktc.ir.kernel import Assume, Kernel, Launch
from ktc.ir.nodes import Binary, Const, Expr, HwIndex, If, Return, Stmt, Unary, Var
from ktc.ir.types import U32, Scalar
from ktc.ir.walk import map_body, map_expr, walk_expr
from ktc.passes.raising.check.host_sized_launches import WARP
from ktc.passes.raising.recognise.statement_kinds import has_block_barrier, has_warp_op

X = HwIndex("thread", "x")


def whole_groups(kernel: Kernel, launch: Launch) -> Iterator[tuple[Assume, str, Kernel]]:
    """What may be assumed, how to say it, and ``kernel`` with ends that its groups of threads lie before or behind."""
    if not any(has_block_barrier(s) or has_warp_op(s) for s in kernel.body):
        return
    block = any(map(has_block_barrier, kernel.body))
    threads = evaluate(launch.block[0], kernel.knob_values)
    group = threads if block else WARP
    if group is None or threads is None or threads % group:
        return
    ends = _Ends(kernel, launch, int(group))
    body = map_body(kernel.body, ends.stmt)
    if ends.facts:
        fact = functools.reduce(lambda a, b: Binary("&&", a, b), ends.facts)
        yield Assume(fact, "guessed"), " and ".join(ends.facts.values()), kernel.with_(body=body)


class _Ends:
    """The conditions of one kernel; ``facts`` and what is ``said`` of them are collected."""

    def __init__(self, kernel: Kernel, launch: Launch, group: int) -> None:
        self.group = group
        whole = evaluate(launch.block[0], kernel.knob_values) == group
        number = Const(group, U32)
        self.first: Expr = Const(0, U32) if whole else Binary("*", Binary("/", X, number), number)
        self.params = {p.sym for p in kernel.params if isinstance(p.sym.type, Scalar) and p.sym.type.is_int}
        self.named = {s: e for s, e in definitions(kernel.body).items() if isinstance(s.type, Scalar)}
        self.sizes = {HwIndex("block_dim", a): cast(n, U32) for a, n in zip("xyz", launch.block)}
        self.top = {id(s) for s in kernel.body}
        self.facts: dict[Expr, str] = {}

    def stmt(self, s: Stmt) -> Stmt:
        if not isinstance(s, If):
            return s
        leaves = id(s) in self.top and not s.orelse and len(s.then) == 1 and isinstance(s.then[0], Return)
        if not leaves and not (has_warp_op(s) or has_block_barrier(s)):
            return s
        cond = map_expr(expand(s.cond, self.named), lambda e: self.sizes.get(e, e) if isinstance(e, HwIndex) else e)
        facts: dict[Expr, str] = {}
        new = self._of_groups(simplify(cond), facts)
        if new is None or not facts:
            return s
        self.facts |= facts
        return dataclasses.replace(s, cond=new)

    def _of_groups(self, e: Expr, facts: dict[Expr, str]) -> Expr | None:
        """``e`` as a condition of the first thread of a group, where ``facts`` hold; None if it asks for the thread in
        another way."""
        if X not in walk_expr(e):
            return e
        if isinstance(e, Unary) and e.op == "!":
            x = self._of_groups(e.x, facts)
            return None if x is None else dataclasses.replace(e, x=x)
        if not isinstance(e, Binary):
            return None
        if e.op in ("&&", "||"):
            a, b = self._of_groups(e.a, facts), self._of_groups(e.b, facts)
            return None if a is None or b is None else dataclasses.replace(e, a=a, b=b)
        side, end = {"<": (e.a, e.b), ">=": (e.a, e.b), ">": (e.b, e.a), "<=": (e.b, e.a)}.get(e.op, (None, None))
        n = without_index_casts(end) if end is not None else None
        form = linear_form(side, {X}) if side is not None else None
        if form is None or not isinstance(n, Var) or n.sym not in self.params:
            return None
        each = evaluate(form.coeff(X), {})
        if each is None or each < 1 or any(k % (each * self.group) for k in polynomial(form.rest).values()):
            return None
        taken = int(each) * self.group
        if taken > 1:
            t = n.type
            assert isinstance(t, Scalar)
            fact = Binary("==", Binary("%", n, Const(taken, t)), Const(0, t))
            facts[fact] = f"'{n.sym.name}' is a multiple of {taken}"
        return map_expr(e, lambda x: self.first if x == X else x)


__all__ = ["whole_groups"]
