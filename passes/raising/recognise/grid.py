"""The loops over the grid: one element a thread, or one iteration a block."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from ktc.ir.fold import cast, fold_node, i32, mul, simplify
from ktc.ir.kernel import Launch
from ktc.ir.nodes import Body, Cast, Const, Decl, Expr, For, HwIndex, Level, Par, Reduce, Scan, Sym, Var, fresh
from ktc.ir.types import I32, Ptr, Scalar
from ktc.ir.walk import assigned, declared, keep, map_body, used_in, walk, without
from ktc.passes.raising.normalise.block_values import with_block_values
from ktc.passes.raising.normalise.straight import counted
from ktc.passes.raising.normalise.tidy import without_dead

from .block import Blocked, raise_block
from .coordinates import AXES, Coordinate, hw_indices, inline_thread_values
from .guards import sizes_of, stripped
from .implied import without_implied
from .launched_strides import started_in_place
from .strided_loops import Strided, strided


def candidates(body: Body, launch: Launch) -> Iterator[Body]:
    """Candidate parallel forms of a prepared kernel body, likeliest first.

    Raises:
        Blocked: when nothing can be guessed.
    """
    started = started_in_place(counted(body))
    yield from _as_loops(started, launch)
    yield from _as_phases(started, launch)
    body, coords = inline_thread_values(body, launch)
    if coords:
        yield from _elements(body, coords, launch)
    else:
        yield from _blocks(body, launch)


def _as_loops(body: Body, launch: Launch) -> Iterator[Body]:
    """The form of a body that is one loop over the threads of the whole grid, or such loops over different axes inside
    each other."""
    try:
        grid_loop = _grid_stride(inline_thread_values(body, launch)[0], launch, AXES)
    except Blocked:
        grid_loop = None
    if grid_loop is not None:
        yield without_implied(block_loops(grid_loop, launch))


def _as_phases(body: Body, launch: Launch) -> Iterator[Body]:
    """The form of a body that is several loops over the threads of the whole grid, one after another."""
    loops = [s for s in body if not isinstance(s, Decl)]
    if len(loops) < 2 or not all(isinstance(s, For) and strided(s, launch) is not None for s in loops):
        return
    try:
        yield from _blocks(inline_thread_values(body, launch)[0], launch)
    except Blocked:
        return


# ------------------------------------------------------------------------------------------------ one element a thread


def _elements(body: Body, coords: dict[str, Coordinate], launch: Launch) -> Iterator[Body]:
    left = {h for h in hw_indices(body) if h.axis in coords}
    if left:
        h = min(left, key=lambda h: (h.level, h.axis))
        name = coords[h.axis].sym.name
        raise Blocked("E-RAISE-MIXED", f"{h.level}Idx.{h.axis} is used beside the global index '{name}'", None)
    bounds = {c.sym: [_zero(c.sym), _covered(c, launch)] for c in coords.values()}
    body = stripped(body, bounds, sizes_of(launch))
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
    yield without_implied(block_loops(body, launch))


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
        form = without_dead(with_block_values(inner))
        if mixed(form, launch):
            what = "a loop over the threads of all blocks stands beside what is one block's"
            raise Blocked("E-RAISE-MIXED", what, next((s.loc for s in form if _in_grid((s,), "x")), None))
        yield block_loops(form, launch)


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
        return None if done is None or _spread_over(loop) & hw_indices(done) else done
    return None


def _spread_over(loop: Strided) -> set[HwIndex]:
    """The indices that say which of the loop's iterations are whose."""
    return {HwIndex(lv.kind, lv.axis) for lv in loop.dist if lv.kind in ("thread", "block")}


def block_loops(body: Body, launch: Launch) -> Body:
    """``par`` loops over the block axes that ``body`` still mentions, named after the source's variables.

    Beside loops that are spread over the grid already, each run of other statements is a loop over blocks by itself.
    """
    axes = _block_axes(body, launch)
    if (phases := _phases(body, axes)) is not None:
        return tuple(s for p in phases for s in (p.body if p.stays else block_loops(p.body, launch)))
    alone = not any(isinstance(s, Par | Reduce | Scan) for s in walk(body))  # what one thread does is the one block's
    order = sorted(axes or ({"x"} if alone else set()), reverse=True)
    named = {axis: _name_of_block(body, axis) for axis in order}
    for axis in reversed(order):  # x innermost is not required here: blocks are independent
        decl = named[axis]
        sym = decl.sym if decl is not None else fresh(f"block_{axis}", I32)
        body = _named(without(body, decl), HwIndex("block", axis), sym)
        t = sym.type
        assert isinstance(t, Scalar)
        hi = cast(launch.grid[AXES.index(axis)], t)
        tags = frozenset({f"loop:{sym.name}"})
        body = (Par(sym, _zero(sym), hi, (Level("block", None, axis),), body, tags=tags),)
    return body


def mixed(body: Body, launch: Launch) -> bool:
    """Whether ``block_loops`` would put a loop that is spread over the grid into one over blocks of the same axis."""
    axes = _block_axes(body, launch)
    return any(_in_grid(body, a) for a in axes) and _phases(body, axes) is None


def _block_axes(body: Body, launch: Launch) -> set[str]:
    """The axes of the grid that ``body`` mentions, and longer ones that none of its loops is spread over."""
    mentioned = {h.axis for h in hw_indices(body) if h.level == "block"}
    return mentioned | {a for a, n in zip(AXES, launch.grid) if simplify(n) != i32(1) and not _in_grid(body, a)}


@dataclasses.dataclass(frozen=True)
class _Phase:
    """Statements in a row of a body; those that ``stay`` are no business of one block."""

    body: Body
    stays: bool


def _phases(body: Body, axes: set[str]) -> list[_Phase] | None:
    """``body`` in parts, where some of its loops are spread over all of ``axes``, and others have to be; None where
    none are, or what one part declares is used in another."""
    spread = {id(s) for s in body if axes and all(_in_grid((s,), a) for a in axes)}
    if not spread or any(h.level == "block" for s in body if id(s) in spread for h in hw_indices((s,))):
        return None
    phases: list[_Phase] = []
    for s in body:
        shared = isinstance(s, Decl) and not any(h.level == "block" for h in hw_indices((s,)))
        stays = id(s) in spread or shared
        if phases and phases[-1].stays == stays:
            phases[-1] = _Phase((*phases[-1].body, s), stays)
        else:
            phases.append(_Phase((s,), stays))
    for p in phases:
        others = [s for q in phases if q is not p for s in q.body]
        if not p.stays and set(declared(p.body)) & used_in(tuple(others)):
            return None
        if not p.stays and any(not isinstance(v.type, Ptr) for v in assigned(p.body) - set(declared(p.body))):
            return None
    return phases


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


__all__ = ["block_loops", "candidates", "mixed"]
