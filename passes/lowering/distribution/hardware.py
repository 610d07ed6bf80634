"""Launch geometry from the thread and block levels, and names for hardware indices."""

from __future__ import annotations

from collections.abc import Mapping

from ktc.ir.fold import cast, cdiv, i32, product, simplify
from ktc.ir.kernel import Kernel, Launch
from ktc.ir.launch_limits import MAX_BLOCK_THREADS
from ktc.ir.nodes import Body, Cast, Decl, Expr, For, HwIndex, Par, Reduce, Sym, Var, fresh
from ktc.ir.types import I32
from ktc.ir.walk import all_exprs, declared, keep, map_body, map_expr, used, walk
from ktc.passes.lowering.errors import LoweringError
from ktc.passes.lowering.lowering_state import State

from .axis_parts import parts_of
from .levels import iterations, plan


def thread_axes(body: Body) -> frozenset[str]:
    """Thread axes that some loop of ``body`` is distributed over."""
    axes: set[str] = set()
    for s in walk(body):
        if isinstance(s, Par | Reduce):
            axes |= plan(s, lambda e: None).thread_axes
    return frozenset(axes)


def collect_geometry(body: Body, st: State) -> None:
    """Record the size of every thread and block axis; the loops on one axis must agree.

    Raises:
        LoweringError: E-LOWER-SHAPE, E-LOWER-PHASES.
    """
    uses_threads = any(isinstance(x, HwIndex) and x.level in ("thread", "block_dim") for x in all_exprs(body))
    launch = st.kernel.launch
    if uses_threads and launch is not None:
        for axis, n in zip("xyz", launch.block):
            if simplify(n) != i32(1):
                st.extents[axis] = n
    for s in walk(body):
        if not isinstance(s, Par | Reduce):
            continue
        for h in plan(s, st.decide.value).hw:
            if h.level == "thread":
                assert h.n is not None
                if len(h.axis) > 1 and used(h.n):
                    message = f"part {h.axis} of a thread axis needs a size known at compile time"
                    raise LoweringError("E-LOWER-SHAPE", message, s.loc, hint="use a number or a knob")
                st.set_extent(h.axis, h.n, s)
            else:
                blocks = h.n if h.n is not None else cdiv(iterations(s.lo, s.hi), h.stride)
                if h.axis in st.grid and not st.decide.equal(st.grid[h.axis], blocks):
                    raise LoweringError(
                        "E-LOWER-PHASES", f"two grid-wide loops want different sizes of blockIdx.{h.axis}", s.loc,
                        hint="several grid-wide phases in one kernel are not supported yet: fuse the loops or split it",
                    )  # fmt: skip
                st.grid[h.axis] = blocks


def launch_of(st: State, shared: Expr | None) -> Launch:
    """The derived launch; axes no loop uses keep the source's size only if the body still reads the index.

    Raises:
        LoweringError: E-LOWER-SHAPE.
    """
    old = st.kernel.launch
    kept = old.grid if old is not None and _reads_blocks(st.kernel.body) else (i32(1),) * 3
    grid = tuple(on_host(st.grid.get(a, n), st) for a, n in zip("xyz", kept))
    block = tuple(_axis_size(a, st) for a in "xyz")
    threads = st.decide.value(product([*block]))
    if threads is not None and threads > MAX_BLOCK_THREADS and st.extents:
        why = f"the loops together want a block of {threads} threads; the limit is {MAX_BLOCK_THREADS}"
        raise LoweringError("E-LOWER-SHAPE", why, hint="spread one of them over fewer, or over the axis of another")
    _known_to_host(
        st, {f"{kind}.{a}": e for kind, of in (("block", grid), ("thread", block)) for a, e in zip("xyz", of)}
    )
    return Launch(
        grid,  # type: ignore[arg-type]
        block,  # type: ignore[arg-type]
        dynamic_shared=shared,
        cluster=old.cluster if old else None,
        max_threads=_max_threads(st) if st.extents else (old.max_threads if old else None),
        min_blocks=old.min_blocks if old else None,
    )


def _known_to_host(st: State, extents: Mapping[str, Expr]) -> None:
    """Refuses extents that hang on a loop's variable: every round would want a launch of its own."""
    local = {x: s for s in walk(st.kernel.body) for x in declared((s,))}
    local |= {s.var: s for s in walk(st.kernel.body) if isinstance(s, For | Par | Reduce)}
    for level, e in extents.items():
        for v in used(e) & local.keys():
            why = f"how many there are along {level} hangs on '{v.name}', which no launch knows"
            raise LoweringError("E-LOWER-SHAPE", why, local[v].loc, hint="give the level a size, a number or a knob")


def _reads_blocks(body: Body) -> bool:
    """Whether ``body`` says what each block does: every block of the source's launch is needed."""
    return any(isinstance(e, HwIndex) and e.level in ("block", "grid_dim") for e in all_exprs(body))


def _axis_size(axis: str, st: State) -> Expr:
    """Threads along ``axis``: the product of its parts' sizes where it is split."""
    parts = parts_of(axis, st.extents)
    return simplify(product([st.extents[p] for p in parts])) if parts else st.extents.get(axis, i32(1))


def on_host(e: Expr, st: State) -> Expr:
    """``e`` with ``blockDim`` and ``gridDim`` replaced by the launch's own sizes."""
    sizes = {"block_dim": st.extents, "grid_dim": st.grid}

    def on(x: Expr) -> Expr:
        if isinstance(x, Cast) and isinstance(x.x, HwIndex) and x.x.level in sizes:
            return cast(sizes[x.x.level][x.x.axis], x.to)  # type: ignore[arg-type]
        return x

    return simplify(map_expr(e, on))


def _max_threads(st: State) -> Expr | None:
    """Threads a block, for ``__launch_bounds__``: lets the compiler keep every feasible tuple launchable."""
    total = simplify(product(list(st.extents.values())))
    return None if used(total) or total == i32(1) else total


NAMES = {"thread": "tid", "block": "bid"}


def name_hardware(body: Body) -> Body:
    """``const int tid = threadIdx.x`` at the top for each hardware index used (as an int) more than once."""
    counts: dict[HwIndex, int] = {}
    for e in all_exprs(body):
        if isinstance(e, Cast) and e.to == I32 and isinstance(e.x, HwIndex):
            counts[e.x] = counts.get(e.x, 0) + 1
    repeated = [h for h, n in counts.items() if n > 1 and h.level in NAMES]
    axes = {level: {h.axis for h in counts if h.level == level} for level in NAMES}
    names: dict[HwIndex, Sym] = {}
    for h in sorted(repeated, key=lambda h: (h.level, h.axis)):
        plain = axes[h.level] == {"x"}
        names[h] = fresh(NAMES[h.level] if plain else f"{NAMES[h.level]}_{h.axis}", I32)

    def on(e: Expr) -> Expr:
        if isinstance(e, Cast) and e.to == I32 and isinstance(e.x, HwIndex) and e.x in names:
            return Var(names[e.x])
        return e

    top = tuple(Decl(s, Cast(I32, h, "implicit"), const=True) for h, s in names.items())
    return top + map_body(body, keep, on)


def host_parameters_used(kernel: Kernel, body: Body) -> tuple:
    """``kernel.params`` with host values that the body reads turned into real parameters."""
    import dataclasses

    used = {e.sym for e in all_exprs(body) if isinstance(e, Var)}
    real = [p for p in kernel.params if not p.host]
    added = [dataclasses.replace(p, host=False) for p in kernel.params if p.host and p.sym in used]
    rest = [p for p in kernel.params if p.host and p.sym not in used]
    return (*real, *added, *rest)
