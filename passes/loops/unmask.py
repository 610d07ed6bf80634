"""unmask: what a branch sums before it stores, computed whatever the condition says.

before                                          after unmask{loop=c}
    par y in 0..n @ [block.y]                       par y in 0..n @ [block.y]
      par x in 0..n @ [thread.x 256, block.x]         par x in 0..n @ [thread.x 256, block.x]
        if x > y                                        var s: f32 = 0.0
          out[y * n + x] = 0.0                          for c in 0..d
        else                                              s += p[y * d + c] * q[x * d + c]
          var s: f32 = 0.0                              out[y * n + x] = x > y ? 0.0 : s
          for c in 0..d
            s += p[y * d + c] * q[x * d + c]
          out[y * n + x] = s

All iterations then do the same, and the sum can be tiled: what a mask leaves out (half of causal scores) is computed
for nothing, by a schedule that is several times as fast.

What the branch computes goes into variables of its own, so that nobody sees it where the condition forbids it; what it
reads must be there to read, though. That is shown by an iteration that reads the same: ``p[y * d + c]`` does not depend
on ``x``, and ``x > y`` does not hold for ``x = 0``; ``q[x * d + c]`` is read by ``y = n - 1``. The same goes for what
integers are divided by. Where both branches end with a store to one place, one store of either value is left, if what
the values read is there as well. Refused where no such iteration is found, where the kernel writes what is read, and
where the branch does more than compute.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.dependence import may_alias, noalias
from ktc.ir.analysis.order import jump, pinned, places
from ktc.ir.arith import REWRITES, Facts, facts_of
from ktc.ir.fold import cast, fold_node, i32, is_const, sub
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Assign, Binary, Body, Call, Decl, Expr, For, If, Load, Par, Select, Stmt, Store, Sym, bodies
from ktc.ir.text import print_expr
from ktc.ir.types import Ptr, Scalar
from ktc.ir.walk import assigned, declared, map_body, stmt_exprs, substitute_expr, used, walk, walk_expr
from ktc.passes.core.argument_kinds import Loop
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.shared.tiles import paths


@dataclass(frozen=True)
class Arguments:
    loop: Loop = required("the serial loop under the condition")


class Unmask(Pass[Arguments]):
    name = "unmask"
    summary = "what a branch sums before it stores, computed whatever the condition says"
    refusals = ("E-PLACE", "E-UNMASK-PLACE", "E-UNMASK-ACTS", "E-UNMASK-READS")

    def sites(self, kernel: Kernel) -> list[Site]:
        found = [s for s in walk(kernel.body) if isinstance(s, For) and allowed(_unmasked, kernel, s)]
        return [Site(self.step(loop=place_of(kernel, s)), "all iterations do the same, masked or not") for s in found]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        loop = args.loop.find(kernel)
        if not isinstance(loop, For):
            raise Refusal("E-UNMASK-PLACE", f"'{args.loop}' is no serial loop", places(loop))
        return Result(_unmasked(kernel, loop))


def _unmasked(kernel: Kernel, loop: For) -> Kernel:
    path = next(p for p in paths(kernel.body) if p[-1] is loop)
    *around, branch = path[:-1] or (None,)
    if not isinstance(branch, If) or not around or not isinstance(around[-1], Par):
        why = f"'{loop.var.name}' stands in no branch right inside a parallel loop"
        raise Refusal("E-UNMASK-PLACE", why, places(loop))
    holds = any(s is loop for s in branch.then)
    body = branch.then if holds else branch.orelse
    at = next(k for k, s in enumerate(body) if s is loop) + 1
    moved, left = body[:at], body[at:]
    _only_computes(moved)
    cond = expand(branch.cond, definitions(kernel.body))
    entered = _Others(path, cond, holds, facts_of(kernel, REWRITES).at(branch))
    _is_safe(kernel, entered, moved)
    rest = dataclasses.replace(branch, then=left) if holds else dataclasses.replace(branch, orelse=left)
    skipped, other = dataclasses.replace(entered, holds=not holds), branch.orelse if holds else branch.then
    either = allowed(_is_safe, kernel, entered, left) and allowed(_is_safe, kernel, skipped, other)
    last = _chosen(rest) if either else rest
    return kernel.with_(body=map_body(kernel.body, lambda s: (*moved, last) if s is branch else s))


def _chosen(s: If) -> If | Store:
    """One store of either value, where both branches of ``s`` end with one to the same place and compute before that:
    what is stored next to each other is one wide access then."""
    one, other = _stored(s.then), _stored(s.orelse)
    if one is None or other is None or dataclasses.replace(other, value=one.value) != one:
        return s
    return dataclasses.replace(one, value=Select(s.cond, one.value, other.value))


def _stored(body: Body) -> Store | None:
    """The store that ``body`` consists of, its names spelled out; None where it is anything else."""
    *before, last = body or (None,)
    names = definitions(body, loads=True)
    if not isinstance(last, Store) or last.width != 1:
        return None
    if any(not isinstance(s, Decl) or s.sym not in names for s in before):
        return None
    index = tuple(expand(e, names) for e in last.index)
    return dataclasses.replace(last, index=index, value=expand(last.value, names))


def _only_computes(moved: Body) -> None:
    """``moved`` gives values to variables of its own and does nothing else, or it is refused."""
    own = set(declared(moved))
    bad = pinned(moved) or jump(moved)
    for s in walk(moved):
        stays = isinstance(s, Decl | For | If) or (isinstance(s, Assign | Store) and assigned((s,)) <= own)
        bad = bad or (None if stays else s)
    if bad is not None:
        raise Refusal("E-UNMASK-ACTS", "the branch does more than compute before it stores", places(bad))


def _is_safe(kernel: Kernel, others: _Others, moved: Body) -> None:
    """What ``moved`` reads is there, and what it divides by is no zero, in every iteration; or it is refused."""
    names, apart = definitions(kernel.body), noalias(kernel)
    own = others.own() - {x.var for x in walk(moved) if isinstance(x, For)}  # may differ in each iteration
    written = {b for b in assigned(kernel.body) if isinstance(b.type, Ptr)}
    for s, e, reached in _computed(moved, ()):
        for x in walk_expr(e):
            divisor = _divisor(x)
            if isinstance(x, Load) and isinstance(x.buffer.type, Ptr):
                if any(may_alias(b, x.buffer, apart) for b in written):
                    why = f"the kernel may write '{x.buffer.name}' while it is read for nothing"
                    hint = "noalias in the workload, or __restrict__, rules it out"
                    raise Refusal("E-UNMASK-READS", why, places(s), hint)
                why = f"that '{x.buffer.name}' is read within its bounds"
            elif divisor is not None and not others.facts.interval(divisor).positive:
                why = f"that '{print_expr(divisor)}' is no zero"
            else:
                continue
            known = {v for i in (x, *reached) for v in used(expand(i, names))}
            if (known | used(others.cond)) & own or not others.some(known):
                why = f"no iteration is known to get into the branch that shows {why}"
                raise Refusal("E-UNMASK-READS", why, places(s))


def _computed(body: Body, reached: tuple[Expr, ...]) -> Iterator[tuple[Stmt, Expr, tuple[Expr, ...]]]:
    """Every expression of ``body`` with its statement, and what decides how often that is reached."""
    for s in body:
        yield from ((s, e, reached) for e in stmt_exprs(s))
        here = (s.init, s.cond, s.step) if isinstance(s, For) else (s.cond,) if isinstance(s, If) else ()
        for b in bodies(s):
            yield from _computed(b, (*reached, *here))


def _divisor(x: Expr) -> Expr | None:
    """What ``x`` divides an integer by, where that might be zero."""
    if isinstance(x, Call):
        return x.args[1] if x.fn == "cdiv" and not is_const(x.args[1]) else None
    integers = isinstance(x, Binary) and x.op in ("/", "%") and isinstance(x.type, Scalar) and x.type.is_int
    return x.b if isinstance(x, Binary) and integers and (is_const(x.b, 0) or not is_const(x.b)) else None


@dataclass(frozen=True)
class _Others:
    """Other iterations of the loops around a branch. ``cond`` with names spelled out; ``holds``: what it comes to where
    the branch is entered."""

    path: Sequence[Stmt]
    cond: Expr
    holds: bool
    facts: Facts

    def own(self) -> set[Sym]:
        """What each iteration of the loops around the branch has of its own, beside their counters: what it names
        something else, or reads, is nothing that another iteration has too."""
        loops = [s for s in self.path if isinstance(s, Par)]
        return set(declared(loops[0].body)) - {p.var for p in loops}

    def some(self, known: Collection[Sym]) -> bool:
        """Whether one of them is shown to get into the branch that has the same values of ``known``."""
        for p in self._free():
            if p.var in known:
                continue
            t = p.var.type
            assert isinstance(t, Scalar)
            for end in (p.lo, fold_node(sub(p.hi, cast(i32(1), t)))):
                there = substitute_expr(self.cond, {p.var: end})
                if self.facts.truth(there) is self.holds:
                    return True
        return False

    def _free(self) -> Iterator[Par]:
        """The loops around the branch with nothing but loops in between, whose ranges hang on none of each other:
        each runs through its range whatever the others are at."""
        bounds: set[Sym] = set()
        for s in reversed(self.path[:-2]):
            if not isinstance(s, Par):
                return
            if s.var not in bounds:
                yield s
            bounds |= used(s.lo) | used(s.hi)
