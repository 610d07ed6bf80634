"""Ends that cut through a group of threads which exchange values: ``if (i >= n) return;`` before a shuffle or barrier.

Where ``n`` is a multiple of what the group takes there are none: all of its threads are in front of the end or behind
it, and the first of them says which. Elsewhere lanes exchange values with lanes that are gone, and cells of shared
memory are read that their threads did not fill: nothing is known of that. The launcher checks it.

before                                                    after, where n % 128 == 0
    i = 4 * (blockIdx.x * 256 + threadIdx.x)                  if (4 * (blockIdx.x * 256 + threadIdx.x / 32 * 32) >= n)
    if (i >= n) return; ... shuffle ...                         return; ... shuffle ...

before                                                    after, where m % 16 == 0 && n % 16 == 0
    row = blockIdx.y * 16 + threadIdx.y                       if (blockIdx.y * 16 >= m || blockIdx.x * 16 >= n)
    column = blockIdx.x * 16 + threadIdx.x                      return; ... barrier ...
    if (row >= m || column >= n) return; ... barrier ...

A warp is a group where nothing but shuffles moves values, a block, along each of its axes, where there are barriers;
its size may be one that the host chooses.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.order import is_exit
from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.arith.polynomial import Polynomial, polynomial
from ktc.ir.fold import cast, evaluate, is_const, mul, simplify
from ktc.ir.kernel import Assume, Kernel, Launch
from ktc.ir.nodes import Binary, Const, Expr, HwIndex, If, Stmt, Unary, Var
from ktc.ir.text import print_expr
from ktc.ir.types import U32, Scalar
from ktc.ir.walk import map_body, map_expr, used, walk_expr
from ktc.passes.raising.check.host_sized_launches import WARP
from ktc.passes.raising.recognise.statement_kinds import has_block_barrier, has_warp_op, threads_in

X = HwIndex("thread", "x")


def whole_groups(kernel: Kernel, launch: Launch) -> Iterator[tuple[Assume | None, str, Kernel]]:
    """What may be assumed (None: nothing), how to say it, and ``kernel`` with ends that its groups of threads lie
    before or behind."""
    groups = _groups(kernel, launch)
    if groups is None:
        return
    ends = _Ends(kernel, launch, groups)
    body = map_body(kernel.body, ends.stmt)
    if ends.moved:
        fact = functools.reduce(lambda a, b: Binary("&&", a, b), ends.facts) if ends.facts else None
        said = " and ".join(ends.facts.values())
        yield None if fact is None else Assume(fact, "guessed"), said, kernel.with_(body=body)


def _groups(kernel: Kernel, launch: Launch) -> dict[HwIndex, tuple[Expr, Expr]] | None:
    """By axis of a thread: the threads of a group along it, and the first one of a thread's group; None where there are
    no groups, or where they do not make up a block."""
    if not any(has_block_barrier(s) or has_warp_op(s) for s in kernel.body):
        return None
    axes = zip("xyz", launch.block, strict=True)
    blocks: dict[HwIndex, tuple[Expr, Expr]] = {HwIndex("thread", a): (n, Const(0, U32)) for a, n in axes}
    threads = evaluate(launch.block[0], kernel.knob_values)
    if threads is None or any(map(has_block_barrier, kernel.body)):
        return blocks
    number = Const(WARP, U32)
    first = Binary("*", Binary("/", X, number), number) if threads != WARP else Const(0, U32)
    return {X: (number, first)} if threads % WARP == 0 else None


class _Ends:
    """The conditions of one kernel; ``facts`` and what is said of them are collected. ``moved``: whether one of them
    asks for another thread now."""

    def __init__(self, kernel: Kernel, launch: Launch, groups: dict[HwIndex, tuple[Expr, Expr]]) -> None:
        self.groups = groups
        self.params = {p.sym for p in kernel.params if isinstance(p.sym.type, Scalar) and p.sym.type.is_int}
        self.numbers = kernel.knob_values
        self.named = {s: e for s, e in definitions(kernel.body).items() if isinstance(s.type, Scalar)}
        sizes = zip("xyz", launch.block, launch.grid, strict=True)
        self.sizes = {HwIndex(level, a): cast(n, U32) for a, b, g in sizes
                      for level, n in (("block_dim", b), ("grid_dim", g))}  # fmt: skip
        self.top = {id(s) for s in kernel.body}
        self.facts: dict[Expr, str] = {}
        self.moved = False

    def stmt(self, s: Stmt) -> Stmt:
        if not isinstance(s, If):
            return s
        leaves = id(s) in self.top and is_exit(s)
        if not leaves and not (has_warp_op(s) or has_block_barrier(s)):
            return s
        cond = map_expr(expand(s.cond, self.named), lambda e: self.sizes.get(e, e) if isinstance(e, HwIndex) else e)
        facts: dict[Expr, str] = {}
        cond = simplify(cond)
        new = self._of_groups(cond, facts)
        if new is None or new == cond:
            return s
        self.moved = True
        self.facts |= facts
        return dataclasses.replace(s, cond=new)

    def _of_groups(self, e: Expr, facts: dict[Expr, str]) -> Expr | None:
        """``e`` as a condition of the first thread of a group, where ``facts`` hold; None if it asks for the thread in
        another way."""
        mine = [x for x in self.groups if x in walk_expr(e)]
        if not mine:
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
        end = without_index_casts(end) if end is not None else None
        form = linear_form(side, mine) if side is not None and len(mine) == 1 else None
        if form is None or end is None or threads_in(end) or not self._is_size(end):
            return None
        (thread,) = mine
        size, first = self.groups[thread]
        each = evaluate(form.coeff(thread), {})
        if each is None or each < 1 or not self._divides(int(each), size, polynomial(form.rest)):
            return None
        if not self._multiple(end, int(each), size, facts):
            return None
        return map_expr(e, lambda x: first if x == thread else x)

    def _is_size(self, e: Expr) -> bool:
        """Whether the launcher knows ``e``: a product of integer parameters and numbers (of ``n - 1`` nobody has
        multiples)."""
        inner = [x for x in walk_expr(e) if without_index_casts(x) is x]
        plain = all(isinstance(x, Var | Const) or (isinstance(x, Binary) and x.op == "*") for x in inner)
        return plain and isinstance(e.type, Scalar) and e.type.is_int and used(e) <= self.params

    def _divides(self, each: int, size: Expr, terms: Polynomial) -> bool:
        """Whether ``each * size`` divides all of ``terms``."""
        n, atom = evaluate(size, self.numbers), without_index_casts(size)
        if n is not None:
            return all(k % (each * int(n)) == 0 for k in terms.values())
        return all(k % each == 0 and atom in factors for factors, k in terms.items())

    def _multiple(self, end: Expr, each: int, size: Expr, facts: dict[Expr, str]) -> bool:
        """Assume that ``each * size`` divides ``end``, where that is not known; whether it may be so."""
        t = end.type
        assert isinstance(t, Scalar)
        n = evaluate(size, self.numbers)
        taken = cast(mul(size, Const(each, size.type)), t) if n is None else Const(each * int(n), t)  # type: ignore[arg-type]
        fact = simplify(Binary("==", Binary("%", end, taken), Const(0, t)))
        known = True if is_const(taken, 1) else evaluate(fact, self.numbers)
        if known is None:
            facts[fact] = f"'{print_expr(end)}' is a multiple of {print_expr(without_index_casts(taken))}"
        return known is None or bool(known)


__all__ = ["whole_groups"]
