"""The loops over the grid: one element a thread, or one iteration a block."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from ktc.ir.arith.polynomial import from_polynomial, polynomial
from ktc.ir.fold import cast, fold_node, i32, mul, simplify
from ktc.ir.kernel import Assume, Launch, Param
from ktc.ir.nodes import Binary, Body, Cast, Const, Decl, Expr, For, HwIndex, Level, Par, Reduce, Scan, Sym, Var, fresh
from ktc.ir.text import print_expr
from ktc.ir.types import I32, I64, Scalar
from ktc.ir.walk import assigned, keep, map_body, used, walk, walk_expr, without
from ktc.passes.raising.normalise.block_values import with_block_values
from ktc.passes.raising.normalise.straight import counted
from ktc.passes.raising.normalise.tidy import without_dead
from ktc.passes.raising.raise_report import Region

from .block import Blocked, raise_block
from .coordinates import AXES, Coordinate, hw_indices, inline_thread_values
from .guards import VARYING, Covered, sizes_of, stripped
from .implied import without_implied
from .launched_strides import started_in_place
from .strided_loops import strided


@dataclasses.dataclass(frozen=True)
class Form:
    """A parallel form, and what it assumes of the launch."""

    body: Body
    facts: tuple[Assume, ...] = ()

    @property
    def said(self) -> tuple[Region, ...]:
        """What it assumes, in words."""
        what, why = (
            "the launch has a thread for each element",
            "how the host computes the number of blocks is not known",
        )
        return tuple(Region("assumed", f"{what}: {print_expr(a.expr)}", why) for a in self.facts)


def candidates(body: Body, launch: Launch, params: Sequence[Param] = ()) -> Iterator[Form]:
    """Candidate parallel forms of a prepared kernel body, likeliest first; ``params``: those of the kernel.

    Raises:
        Blocked: when nothing can be guessed.
    """
    yield from map(Form, _as_loops(started_in_place(counted(body)), launch))
    body, coords = inline_thread_values(body, launch)
    if coords:
        yield from _elements(body, coords, launch, params)
    else:
        yield from map(Form, _blocks(body, launch))


def _as_loops(body: Body, launch: Launch) -> Iterator[Body]:
    """The form of a body that is one loop over the threads of the whole grid, or such loops over different axes inside
    each other."""
    try:
        grid_loop = _grid_stride(inline_thread_values(body, launch)[0], launch, AXES)
    except Blocked:
        grid_loop = None
    if grid_loop is not None:
        yield without_implied(block_loops(grid_loop, launch))


# ------------------------------------------------------------------------------------------------ one element a thread


def _elements(body: Body, coords: dict[str, Coordinate], launch: Launch, params: Sequence[Param]) -> Iterator[Form]:
    left = {h for h in hw_indices(body) if h.axis in coords}
    if left:
        h = min(left, key=lambda h: (h.level, h.axis))
        name = coords[h.axis].sym.name
        raise Blocked("E-RAISE-MIXED", f"{h.level}Idx.{h.axis} is used beside the global index '{name}'", None)
    alone = _bounded(body, coords, launch, None)
    whole = _bounded(body, coords, launch, _covering(params))
    yield from (whole, alone) if whole.facts else (alone,)


def _bounded(body: Body, coords: dict[str, Coordinate], launch: Launch, covered: Covered | None) -> Form:
    """The loops over the elements that the guards of ``body`` let through."""
    bounds = {c.sym: [_zero(c.sym), _covered(c, launch)] for c in coords.values()}
    body = stripped(body, bounds, sizes_of(launch), covered)
    facts = tuple(Assume(b[2], "guessed") for b in bounds.values() if b[2:] and not isinstance(b[2], Const))
    others = {h.axis for h in hw_indices(body) if h.level == "thread"}
    if others:
        raise Blocked("E-RAISE-MIXED", f"threadIdx.{min(others)} is used beside global indices", None)
    for axis in AXES:  # x innermost
        if axis not in coords:
            continue
        sym = coords[axis].sym
        lo, hi = bounds[sym][:2]
        k = AXES.index(axis)
        dist = (Level("thread", launch.block[k], axis), Level("block", None, axis))
        body = (Par(sym, lo, hi, dist, body, tags=frozenset({f"loop:{sym.name}"})),)
    return Form(without_implied(block_loops(body, launch)), facts)


def _covering(params: Sequence[Param]) -> Covered:
    """What makes a launch one for all elements below a bound, where the source does not show how the host comes to its
    number of blocks: nothing but variables of the host is in it."""
    of_host = {p.sym for p in params if p.host}
    of_kernel = {p.sym for p in params if not p.host}

    def fact(hi: Expr, threads: Expr) -> Expr | None:
        varying = any(isinstance(x, VARYING) for x in walk_expr(hi))
        if not used(threads) or used(threads) - of_host or varying or used(hi) - of_kernel:
            return None
        return Binary("<=", *(from_polynomial(polynomial(e), I64) for e in (hi, threads)))

    return fact


def _zero(s: Sym) -> Expr:
    return Const(0, s.type)  # type: ignore[arg-type]


def _covered(c: Coordinate, launch: Launch) -> Expr:
    """All threads of the axis: the bound where no guard gives a tighter one."""
    k = AXES.index(c.axis)
    t = c.sym.type
    assert isinstance(t, Scalar)
    return cast(simplify(mul(launch.block[k], launch.grid[k])), t)


# -------------------------------------------------------------------------------------------------- one block a row


def _blocks(body: Body, launch: Launch) -> Iterator[Body]:
    for axis in ("y", "z"):
        if any(h.level == "thread" and h.axis == axis for h in hw_indices(body)):
            raise Blocked("E-RAISE-THREAD", f"threadIdx.{axis} is used in a way that is not understood", None)
    for inner in raise_block(body, launch):
        yield block_loops(without_dead(with_block_values(inner)), launch)


def _grid_stride(body: Body, launch: Launch, axes: Sequence[str]) -> Body | None:
    """A body that is one grid-stride loop (after uniform declarations), or such loops over different axes inside each
    other; None if threads do anything else."""
    from .block import _loop

    if not body or not isinstance(body[-1], For) or not all(isinstance(s, Decl) for s in body[:-1]):
        return None
    s = body[-1]
    for axis in axes:
        loop = strided(s, launch, axis)
        if loop is None or not any(lv.kind == "block" for lv in loop.dist):
            continue
        inside = _grid_stride(s.body, launch, [a for a in axes if a != axis])
        s = s if inside is None else dataclasses.replace(s, body=inside)
        out = next(_loop(s, loop, (), launch, {}), None)
        done = None if out is None else (*body[:-1], *out)
        return None if done is None or any(h.axis == axis for h in hw_indices(done)) else done
    return None


def block_loops(body: Body, launch: Launch) -> Body:
    """``par`` loops over the block axes that ``body`` still mentions, named after the source's variables."""
    mentioned = {h.axis for h in hw_indices(body) if h.level == "block"}
    several = {a for a, n in zip(AXES, launch.grid) if simplify(n) != i32(1) and not _in_grid(body, a)}
    alone = not any(isinstance(s, Par | Reduce | Scan) for s in walk(body))  # what one thread does is the one block's
    axes = sorted(mentioned | several or ({"x"} if alone else set()), reverse=True)
    named = {axis: _name_of_block(body, axis) for axis in axes}
    for axis in reversed(axes):  # x innermost is not required here: blocks are independent
        decl = named[axis]
        sym = decl.sym if decl is not None else fresh(f"block_{axis}", I32)
        body = _named(without(body, decl), HwIndex("block", axis), sym)
        t = sym.type
        assert isinstance(t, Scalar)
        hi = cast(launch.grid[AXES.index(axis)], t)
        tags = frozenset({f"loop:{sym.name}"})
        body = (Par(sym, _zero(sym), hi, (Level("block", None, axis),), body, tags=tags),)
    return body


def _in_grid(body: Body, axis: str) -> bool:
    """Whether a loop of ``body`` is spread over this axis of the grid already."""
    return any(lv.kind == "block" and lv.axis == axis for s in walk(body) if isinstance(s, Par) for lv in s.dist)


def _named(body: Body, block: HwIndex, v: Sym) -> Body:
    """``body`` reading ``v`` where it reads ``block``."""
    return map_body(body, keep, lambda e: fold_node(_swap(e, block, v)))


def _swap(e: Expr, block: HwIndex, v: Sym) -> Expr:
    if isinstance(e, Cast) and e.x == block and isinstance(e.to, Scalar):
        return cast(Var(v), e.to)
    if e == block:
        return Cast(block.type, Var(v), "implicit")
    if isinstance(e, Cast) and isinstance(e.x, Cast) and e.x.x == Var(v) and e.x.to == block.type:
        return cast(Var(v), e.to)  # type: ignore[arg-type]
    return e


def _name_of_block(body: Body, axis: str) -> Decl | None:
    """The declaration ``int token = blockIdx.x``, if the source has one."""
    from ktc.ir.arith.integer_casts import without_casts

    written = assigned(body)
    for s in walk(body):
        if isinstance(s, Decl) and s.init is not None and without_casts(s.init) == HwIndex("block", axis):
            t = s.sym.type
            if isinstance(t, Scalar) and t.is_int and s.sym not in written:
                return s
    return None


__all__ = ["Form", "candidates"]
