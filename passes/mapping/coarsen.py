"""coarsen: each thread (or block) does the work of several.

In SPMD form, coarsen{at=thread.x factor=$C}:
    k(...) launch block (256, 1, 1)                 k(...) launch block (256 / $C, 1, 1)
      tile[threadIdx.x] = in[threadIdx.x]             for c in 0..$C unroll
      barrier                                           tile[threadIdx.x + c * blockDim.x] = in[...]
      out[threadIdx.x] = tile[255 - threadIdx.x]      barrier
                                                      for c in 0..$C unroll
                                                        out[...] = tile[255 - (threadIdx.x + c * blockDim.x)]
In parallel form, coarsen{at=i factor=$C}:
    par i in 0..n @ [thread.x 256, block.x]         par i in 0..n @ [thread.x 256, unroll $C, block.x]

``map=strided`` (neighbouring threads keep neighbouring elements: coalescing stays) or ``contiguous`` (each thread takes
neighbouring elements). Barriers are executed once; the code between two of them once per copy, loops with uniform
bounds run once with the copies inside. Blocks need a copy of static shared memory each, threads share one.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from ktc.ir.analysis.order import places
from ktc.ir.fold import binary, cdiv, i32, is_const, simplify
from ktc.ir.kernel import Kernel
from ktc.ir.launch_limits import WARP
from ktc.ir.nodes import Const, Expr, HwIndex, Level, Par
from ktc.ir.text import print_expr
from ktc.ir.walk import all_exprs, knobs_in, used
from ktc.passes.core.argument_kinds import Factor, Loops, Place
from ktc.passes.core.arguments import knob, option, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.named_loops import loops, replace_loops
from ktc.passes.core.places import PARALLEL, places_of
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.core.script import KnobRef

from .coarsen_legality import check, has_warp_ops
from .coarsen_spmd import Copies, copied

DOMAIN = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Arguments:
    at: Place = required("thread.x, block.y, ... of a kernel in SPMD form; a loop of one in parallel form")
    factor: Factor = knob("C", DOMAIN, "work of how many threads or blocks one does", wish=2, code="E-COARSEN-FACTOR")
    map: Literal["strided", "contiguous"] = option(
        "strided",
        "which of the old ones: every n-th, which keeps accesses coalesced, or neighbours",
        code="E-COARSEN-MAP",
    )


class Coarsen(Pass[Arguments]):
    name = "coarsen"
    summary = "each thread or block does the work of several"
    refusals = (
        "E-PLACE", "E-COARSEN-MAP", "E-COARSEN-FACTOR", "E-COARSEN-FORM", "E-COARSEN-LAUNCH", "E-COARSEN-DIVIDE",
        "E-COARSEN-BARRIER", "E-COARSEN-WARP", "E-COARSEN-SHARED", "E-COARSEN-RETURN", "E-COARSEN-OPAQUE",
    )  # fmt: skip

    def sites(self, kernel: Kernel) -> list[Site]:
        doc = "more independent work per thread, fewer threads"
        if kernel.is_parallel:
            found = [s for s in loops(kernel) if isinstance(s, Par) and any(lv.kind == "thread" for lv in s.dist)]
            names = places_of(kernel, [s for s in found if allowed(_levels, s, i32(2), "strided")], PARALLEL)
            return [Site(self.step(at=name, factor=KnobRef("C")), doc) for name in names]
        used_here = {(e.level, e.axis) for e in all_exprs(kernel.body) if isinstance(e, HwIndex)}
        out = []
        for level in ("thread", "block"):
            for axis in "xyz":
                if (level, axis) in used_here and allowed(_spmd, kernel, level, axis, i32(2), "strided"):
                    out.append(Site(self.step(at=f"{level}.{axis}", factor=KnobRef("C")), doc))
        return out

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        level, _, axis = str(args.at).partition(".")
        domain = _divisors(kernel, axis) if level == "thread" else DOMAIN
        declared, n = args.factor.declared(kernel, self.name, domain)
        if level in ("thread", "block") and axis in ("x", "y", "z"):
            if kernel.is_parallel:
                why = "the kernel is in parallel form: its threads are levels of distributions"
                raise Refusal("E-COARSEN-FORM", why, hint="name the loop, as in at=i")
            return Result(_spmd(declared, level, axis, n, args.map))
        return _parallel(declared, args.at, n, args.map)


def _divisors(kernel: Kernel, axis: str) -> tuple[int, ...]:
    """The factors that divide the block's extent, where it is a known number."""
    old = kernel.launch.block["xyz".index(axis)] if kernel.launch is not None and axis in ("x", "y", "z") else None
    value = old.value if isinstance(old, Const) else 0
    return tuple(c for c in DOMAIN if value % c == 0)


# ------------------------------------------------------------------------------------------------------ parallel form


def _parallel(kernel: Kernel, at: Place, n: Expr, how: str) -> Result:
    found = Loops(at.written).spread(kernel)
    dists = []
    for s in found:
        if not isinstance(s, Par):
            hint = "distribute it: [vec 4, thread.x 128, unroll 4, seq]"
            raise Refusal("E-COARSEN-FORM", f"'{s.var.name}' is a reduction", places(s), hint)
        levels = _levels(s, n, how)
        dists.append((s.var, levels))
    to = dict(dists)
    return Result(replace_loops(kernel, found, lambda s: dataclasses.replace(s, dist=to[s.var])))


def _levels(s: Par, n: Expr, how: str) -> tuple[Level, ...]:
    """The distribution with ``n`` iterations more per thread."""
    at = next((k for k, lv in enumerate(s.dist) if lv.kind == "thread"), None)
    if at is None:
        raise Refusal("E-COARSEN-FORM", f"'{s.var.name}' is not spread over threads", places(s), "distribute it first")
    if how == "contiguous":
        return (*s.dist[:at], Level("unroll", n), *s.dist[at:])
    if s.dist[at].n is None:
        why = f"the threads of '{s.var.name}' take the whole range"
        raise Refusal("E-COARSEN-FORM", why, places(s), "distribute it over a sized thread level")
    rest = s.dist[at + 1 :] or (Level("seq"),)
    return (*s.dist[: at + 1], Level("unroll", n), *rest)


# ---------------------------------------------------------------------------------------------------------- SPMD form


def _spmd(kernel: Kernel, level: str, axis: str, n: Expr, how: str) -> Kernel:
    check(kernel, level, axis, how == "strided")
    assert kernel.launch is not None
    launch, k = kernel.launch, "xyz".index(axis)
    old = launch.block[k] if level == "thread" else launch.grid[k]
    if is_const(old, 1):
        raise Refusal("E-COARSEN-DIVIDE", f"there is one {level} along {axis}")
    constraints = list(kernel.constraints)
    if level == "thread":
        if used(old):
            why = f"the block's extent on {axis} is only known at run time"
            raise Refusal("E-COARSEN-LAUNCH", why, hint="specialize it, or give the launch in the workload")
        new = simplify(binary("/", old, n))
        whole = simplify(binary("==", binary("%", old, n), i32(0)))
        warps = simplify(binary("==", binary("%", new, i32(WARP)), i32(0)))
        need = [whole, warps] if has_warp_ops(kernel) and axis == "x" else [whole]
        for c in need:
            if is_const(c) and not c.value:  # type: ignore[attr-defined]
                parts = "whole warps" if c is warps else "whole parts"
                why = f"{print_expr(n)} does not divide the block's extent on {axis}, {print_expr(old)}, into {parts}"
                raise Refusal("E-COARSEN-DIVIDE", why)
            if knobs_in(c) and c not in constraints:
                constraints.append(c)
        launch = dataclasses.replace(launch, block=_with(launch.block, k, new))
        total, tail = None, False
    else:
        new = simplify(cdiv(old, n))
        tail = not (is_const(old) and is_const(n) and old.value % n.value == 0)  # type: ignore[attr-defined]
        launch = dataclasses.replace(launch, grid=_with(launch.grid, k, new))
        total = old if tail else None
        known = used(old)
        params = tuple(dataclasses.replace(p, host=False) if tail and p.sym in known else p for p in kernel.params)
        kernel = kernel.with_(params=tuple(sorted(params, key=lambda p: p.host)))
    copies = Copies(HwIndex(level, axis), n, how == "strided", total, tail)
    return kernel.with_(body=copied(kernel.body, copies), launch=launch, constraints=tuple(constraints))


def _with(extents: tuple[Expr, Expr, Expr], k: int, new: Expr) -> tuple[Expr, Expr, Expr]:
    x, y, z = (new if i == k else e for i, e in enumerate(extents))
    return x, y, z
