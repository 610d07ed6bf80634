"""split-edges: tiles that no edge touches, in code of their own that asks nothing about edges.

before                                              after split-edges{loop=x_tile}
    par x_tile in 0..cdiv(n, 64) @ [block.x]            par x_tile in 0..cdiv(n, 64) @ [block.x]
      par x in x_tile * 64..min(x_tile * 64 + 64, n)      if x_tile * 64 - 1 >= 0 && n - x_tile * 64 - 65 >= 0
        for i in -1..2                                      par x in x_tile * 64..x_tile * 64 + 64
          var k: i32 = x + i                                  for i in -1..2
          if k < 0                                              var k: i32 = x + i
            k = -k                                              s += in[k] * f32(i)
          if k > n - 1                                    else
            k = n - 1                                       (as it was)
          s += in[k] * f32(k - x)

Images are mirrored, clamped or padded at their edges, which few elements see and all are asked about. What a tile's
iterations make of a comparison of integers is known from the ends of their loops: where it comes out alike for all of
them under a condition on the tile, that condition joins the others, and the comparison is decided in the first copy.
There ``min`` and ``max`` of integers, choices and the ends of loops are decided as well, and numbers made of distances
that have become loop counters (``f32(k - x)``) are made of these.

The other copy is as it was, but for branches that are taken inside alone.

The condition is one of the block: its threads take one side together. Where a thread runs the iterations of a tile
alone, it is the thread's. Index arithmetic is taken not to wrap. What is
not decided stays as it is, in both copies.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ktc.ir.analysis.defs import expand
from ktc.ir.analysis.order import places
from ktc.ir.arith.loop_extents import is_static, upper_bounds
from ktc.ir.arith.polynomial import Polynomial, from_polynomial, minus, polynomial
from ktc.ir.fields import with_children
from ktc.ir.fold import both, evaluate, i32
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Assign,
    Binary,
    Body,
    Call,
    Cast,
    Decl,
    Expr,
    For,
    If,
    Load,
    Par,
    Reduce,
    Scan,
    Select,
    Stmt,
    Sym,
    Unary,
    bodies,
)
from ktc.ir.text import print_expr
from ktc.ir.types import I32, Scalar, is_signed_integer
from ktc.ir.walk import assigned, declared, refresh, substitute_expr, used, walk, walk_expr
from ktc.passes.core.argument_kinds import Loop
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.knobs import largest
from ktc.passes.core.named_loops import replace_loops
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.shared.serial_sums import counted_to
from ktc.passes.shared.tile_comparisons import Tile, chosen_by, outcomes, strongest, without_inside
from ktc.passes.shared.tiles import OF_ONE_THREAD


@dataclass(frozen=True)
class Arguments:
    loop: Loop = required("the innermost loop over blocks, or one over threads, whose iterations are tiles")


class SplitEdges(Pass[Arguments]):
    name = "split-edges"
    summary = "tiles that no edge touches in code that asks nothing about edges"
    refusals = ("E-PLACE", "E-PLACE-AMBIGUOUS", "E-EDGES-LOOP", "E-EDGES-NONE")

    def sites(self, kernel: Kernel) -> list[Site]:
        """One for each loop over tiles with comparisons that are decided in most of them."""
        tiles = [s for s in walk(kernel.body) if isinstance(s, Par)]
        doc = "only tiles at the edges ask where the edges are"
        return [Site(self.step(loop=place_of(kernel, s)), doc) for s in tiles if allowed(_split, kernel, s)]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        loop = args.loop.find(kernel)
        if not isinstance(loop, Par):
            raise Refusal("E-EDGES-LOOP", f"'{args.loop}' is not a parallel loop", places(loop))
        done = _split(kernel, loop)
        return Result(replace_loops(kernel, [loop], lambda _: done), (f"{loop.var.name}: edges on their own",))


def _split(kernel: Kernel, loop: Par) -> Par:
    inside = _Interior(Tile(kernel, chosen_by(kernel, loop, "E-EDGES-LOOP", threads=True)))
    body = inside.body(loop.body)
    if not inside.decided:
        why = f"no comparison in '{loop.var.name}' comes out alike for all iterations of a tile"
        raise Refusal("E-EDGES-NONE", why, places(loop))
    conditions = strongest(inside.conditions.values())
    cond: Expr | None = None
    for e in conditions:
        cond = both(cond, e)
    if cond is None:
        raise Refusal("E-EDGES-NONE", f"no tile of '{loop.var.name}' is at an edge", places(loop))
    at_edges = without_inside(refresh(loop.body), conditions)
    return dataclasses.replace(loop, body=(If(cond, body, at_edges, loc=loop.loc),))


USUAL = 1 << 20
"""A size far from the edges, at which the eighth tile lies inside."""


@dataclass
class _Interior:
    """A walk through the iterations of ``tile``: ``names`` stand for their values; ``conditions`` on the tile and the
    parameters under which comparisons are decided; ``decided``: whether any was."""

    tile: Tile
    names: dict[Sym, Expr] = field(default_factory=dict)
    conditions: dict[str, Expr] = field(default_factory=dict)
    decided: bool = False

    # ------------------------------------------------------------------------------------------------ statements

    def body(self, body: Body) -> Body:
        return tuple(new for s in body for new in self._statement(s))

    def _statement(self, s: Stmt) -> Body:
        match s:
            case If():
                return self._branch(s)
            case For() | Par() | Reduce() | Scan():
                return self._loop(s)
        if any(True for _ in bodies(s)):
            self._forget(assigned((s,)))
            return (s,)
        new = with_children(s, self._expr)
        self._forget({s.sym} if isinstance(s, Decl | Assign) else assigned((s,)))
        match new:
            case Decl(sym, Expr() as value) | Assign(sym, value) if _is_int(sym.type) and not _reads(value):
                spelled = self._spelled(value)
                if sym not in used(spelled):
                    self.names[sym] = spelled
        return (new,)

    def _branch(self, s: If) -> Body:
        holds = self._truth(s.cond)
        if holds is not None:
            return self.body(s.then if holds else s.orelse)
        before = dict(self.names)
        then = self.body(s.then)
        self.names = dict(before)
        orelse = self.body(s.orelse)
        self.names = before
        self._forget(assigned(s.then) | assigned(s.orelse))
        return (dataclasses.replace(s, cond=self._expr(s.cond), then=then, orelse=orelse),)

    def _loop(self, s: For | Par | Reduce | Scan) -> Body:
        self._forget(assigned(s.body) | set(declared((s,))))
        end = counted_to(s) if isinstance(s, For) else s.hi
        start = s.init if isinstance(s, For) else s.lo
        if isinstance(s, Par) and (whole := self._whole(s)) is not None:
            s, end = dataclasses.replace(s, hi=whole), whole
        stands = end is not None and not (used(end) | {s.var}) & assigned(s.body)
        if end is not None and stands and not _reads(end) and not _reads(start) and is_signed_integer(s.var.type):
            one = polynomial(i32(1))
            self.tile.ends[s.var] = polynomial(self._spelled(start)), minus(polynomial(self._spelled(end)), one)
        inner = self.body(s.body)
        self._forget(assigned(s.body) | set(declared((s,))))
        self.tile.ends.pop(s.var, None)
        return (dataclasses.replace(s, body=inner),)  # type: ignore[arg-type]

    def _whole(self, s: Par) -> Expr | None:
        """The end of ``s`` in a tile that is whole: the static one of the ends that it is the least of."""
        ends = upper_bounds(s.hi)
        lo = polynomial(s.lo)
        static = [e for e in ends if is_static(from_polynomial(minus(polynomial(e), lo), I32))]
        if len(ends) < 2 or len(static) != 1 or not is_signed_integer(s.var.type):
            return None
        others = [e for e in ends if e is not static[0]]
        if not all(self._holds(minus(polynomial(e), polynomial(static[0]))) for e in others):
            return None
        self.decided |= _is_written_out(s)
        return static[0]

    # ----------------------------------------------------------------------------------------------- expressions

    def _expr(self, e: Expr) -> Expr:
        if isinstance(e, Select):
            holds = self._truth(e.cond)
            if holds is not None:
                return self._expr(e.a if holds else e.b)
        if isinstance(e, Call) and e.fn in ("min", "max") and len(e.args) == 2 and is_signed_integer(e.type):
            a, b = map(self._expr, e.args)
            small, large = (a, b) if e.fn == "min" else (b, a)
            holds = self._truth(Binary("<=", small, large))
            return dataclasses.replace(e, args=(a, b)) if holds is None else a if holds else b
        if (
            isinstance(e, Cast)
            and isinstance(e.to, Scalar)
            and e.to.is_float
            and is_signed_integer(e.x.type)
            and not _reads(e.x)
        ):
            return dataclasses.replace(e, x=self._distance(e.x))
        return with_children(e, self._expr)

    def _distance(self, e: Expr) -> Expr:
        """``e`` by loop counters, where the places that it is a distance of cancel out."""
        spelled = self._spelled(e)
        short = from_polynomial(polynomial(spelled), e.type)
        return short if used(short) < used(spelled) and used(short) <= self.tile.ends.keys() else self._expr_inside(e)

    def _expr_inside(self, e: Expr) -> Expr:
        return with_children(e, self._expr)

    def _spelled(self, e: Expr) -> Expr:
        return expand(e, self.names)

    def _forget(self, changed: Iterable[Sym]) -> None:
        gone = set(changed)
        self.names = {v: e for v, e in self.names.items() if v not in gone and not used(e) & gone}

    # ----------------------------------------------------------------------------------------------- comparisons

    def _truth(self, cond: Expr) -> bool | None:
        """What ``cond`` is in all iterations of a tile inside; None if that is not known."""
        if isinstance(cond, Unary) and cond.op == "!":
            inner = self._truth(cond.x)
            return None if inner is None else not inner
        if isinstance(cond, Binary) and cond.op in ("&&", "||"):
            a, b = self._truth(cond.a), self._truth(cond.b)
            least = cond.op == "||"
            if a is least or b is least:
                return least
            return None if a is None or b is None else not least
        if not isinstance(cond, Binary) or _reads(cond) or not all(is_signed_integer(x.type) for x in (cond.a, cond.b)):
            return None
        low, high = (polynomial(self._spelled(self._expr(x))) for x in (cond.a, cond.b))
        for holds, p in outcomes(cond.op, low, high):
            if self._holds(p):
                self.decided = True
                return holds
        return None

    def _holds(self, p: Polynomial) -> bool:
        """Whether ``p`` is at least 0 in all iterations of usual tiles; the condition on a tile is kept then."""
        cond = self.tile.always(p)
        if cond is None or isinstance(cond, bool):
            return bool(cond)
        if not self._is_usual(cond):
            return False
        self.conditions[print_expr(cond)] = cond
        return True

    def _is_usual(self, cond: Expr) -> bool:
        """Whether ``cond`` holds for a tile in the middle of large arguments."""
        sizes: Mapping[Sym, Expr] = {v: i32(8 if v in self.tile.tiles else USUAL) for v in used(cond)}
        return bool(evaluate(substitute_expr(cond, sizes), largest(self.tile.kernel)))


def _is_written_out(s: Par) -> bool:
    """Whether one thread runs ``s``, each of whose iterations asks on its own whether it is there."""
    kinds = {level.kind for level in s.dist}
    return kinds <= OF_ONE_THREAD and "unroll" in kinds


def _is_int(t: object) -> bool:
    return isinstance(t, Scalar) and t.is_int


def _reads(e: Expr) -> bool:
    return any(isinstance(x, Load) for x in walk_expr(e))
