"""register-window: what neighbouring iterations of one thread read of an array, loaded once, by wide accesses.

before                                              after register-window{array=a loop=x_tile}
    par x_tile in 0..n / 4 @ [thread.x 256, block.x]    par x_tile in 0..n / 4 @ [thread.x 256, block.x]
      par x in x_tile * 4..x_tile * 4 + 4 @ [vec 4]       array a_w: f32[12]
        var s: f32 = 0.0                                  for a_i in 0..3 unroll
        for k in -2..3                                      if x_tile * 4 + a_i * 4 - 4 >= 0 && ...
          s += x + k >= 0 && ... ? a[x + k] : 0.0             par a_v in 0..4 @ [vec 4]
        b[x] = s                                                a_w[a_i * 4 + a_v] = a[x_tile * 4 - 4 + ..]
                                                            else
                                                              for a_v in 0..4 unroll
                                                                a_w[..] = x_tile * 4 + .. >= 0 ? a[..] : 0.0
                                                          par x in x_tile * 4..x_tile * 4 + 4 @ [vec 4]
                                                            var s: f32 = 0.0
                                                            for k in -2..3
                                                              s += a_w[x - x_tile * 4 + k + 4]
                                                            b[x] = s

Taps at odd distances are no wide accesses: four results of 15 taps take 60 loads, or 18 where the compiler sees which
are the same; the window has 20 elements, in five accesses. It begins where wide accesses may, so that some of what it
loads belongs to a neighbour's window alone: it is loaded where the neighbour, an iteration of the same loop, reads it.
Elsewhere, at the edges, each element is loaded under the conditions that stand before the reads, and holds what a
choice between the element and a constant would give.

Refused unless the footprint is a box of known size (``ir/analysis/footprint.py``) that registers hold, elements of
which are read more than once, each iteration of ``loop`` is one thread's and writes nothing that may be an element of
the array before it reads that, and it is known which accesses are reached. The loops over taps are to be unrolled:
registers have no indices.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ktc.ir.analysis.order import places
from ktc.ir.arith import REWRITES, facts_of
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Body, For, Load, Par, Stmt, Sym, While, bodies
from ktc.ir.types import Ptr
from ktc.ir.walk import all_exprs, assigned, declared, map_body, used_in, walk
from ktc.passes.core.argument_kinds import Arrays, Loop
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.shared.tiles import Path, paths, shared_inside

from .region_reads import only_read, reading, region_of, written_over
from .window_loads import ACCESS_BYTES, window

MOST_BYTES = 512
"""Bytes of a window at most: half the registers that a thread can have."""


@dataclass(frozen=True)
class Arguments:
    array: Arrays = required("the buffer that is read")
    loop: Loop = required("the parallel loop, each of whose iterations reads a window")


class RegisterWindow(Pass[Arguments]):
    name = "register-window"
    summary = "what neighbouring iterations of one thread read of an array, loaded once by wide accesses"
    refusals = (
        "E-PLACE", "E-PLACE-AMBIGUOUS", "E-STAGE-ARRAY", "E-STAGE-WRITTEN", "E-STAGE-NONE", "E-STAGE-FOOTPRINT",
        "E-STAGE-GUARD", "E-STAGE-OPAQUE", "E-WINDOW-LOOP", "E-WINDOW-SIZE",
        "E-WINDOW-ONCE", "E-WINDOW-PARTS",
    )  # fmt: skip

    def sites(self, kernel: Kernel) -> list[Site]:
        out = []
        for path in paths(kernel.body) if kernel.is_parallel else ():
            loop = path[-1]
            if not isinstance(loop, Par) or not any(isinstance(s, Par) for s in walk(loop.body)):
                continue
            for p in kernel.params:
                if isinstance(p.sym.type, Ptr) and allowed(_windowed, kernel, p.sym, path):
                    step = self.step(array=p.sym.name, loop=place_of(kernel, loop))
                    out.append(Site(step, "what iterations of a thread have in common is loaded once"))
        return out

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        buffer, loop = only_read(kernel, args.array), args.loop.find(kernel)
        if not isinstance(loop, Par):
            raise Refusal("E-WINDOW-LOOP", f"'{args.loop}' is not a parallel loop", places(loop))
        path = next(p for p in paths(kernel.body) if p[-1] is loop)
        return Result(_windowed(kernel, buffer, path), (f"{buffer.name}: a window in registers",))


def _windowed(kernel: Kernel, buffer: Sym, path: Path) -> Kernel:
    """``kernel`` with what an iteration of the last loop of ``path`` reads of ``buffer`` in arrays of its own."""
    loop = path[-1]
    assert isinstance(loop, Par)
    _is_one_threads(loop, path)
    _is_read_before_writes(kernel, buffer, loop)
    region = region_of(kernel, buffer, loop, path)
    here = facts_of(kernel, REWRITES).at(loop).inside(loop)
    align = next(p.align for p in kernel.params if p.sym == buffer)
    windows = [window(buffer, box, holds, path, here, align) for box, holds in region.boxes]
    size = sum(w.bytes for w in windows)
    if size > MOST_BYTES:
        why = f"what an iteration of '{loop.var.name}' reads of '{buffer.name}' takes {size} bytes of registers"
        raise Refusal("E-WINDOW-SIZE", why, places(loop), "smaller tiles")
    loads = tuple(s for w in windows for s in w.loads())
    if used_in(loads) & {*declared(loop.body), *assigned(loop.body)}:
        why = f"where the window of '{buffer.name}' lies is only known inside '{loop.var.name}'"
        raise Refusal("E-STAGE-FOOTPRINT", why, places(loop))
    arrays = tuple(Alloc(w.array, align=ACCESS_BYTES) for w in windows)
    body = (*arrays, *loads, *reading(region, buffer, lambda k, coords: windows[k].element(coords)))
    done = dataclasses.replace(loop, body=body)
    return kernel.with_(body=map_body(kernel.body, lambda s: done if isinstance(s, Par) and s.var == loop.var else s))


def _is_one_threads(loop: Par, path: Path) -> None:
    """Each iteration of ``loop`` is run by one thread, alone; or it is refused."""
    apart = shared_inside(loop)
    if apart is not None:
        why = f"threads share '{apart.var.name}', inside '{loop.var.name}', among them"
        raise Refusal("E-WINDOW-LOOP", why, places(apart, loop), "stage-shared copies what a block reads")
    lanes = next((s for s in path if isinstance(s, Par) and any(lv.kind == "vec" for lv in s.dist)), None)
    if lanes is not None:
        why = f"a thread has several iterations of '{lanes.var.name}' in its lanes"
        raise Refusal("E-WINDOW-LOOP", why, places(lanes), "tile it, and spread the tiles over threads")
    if not any(lv.kind == "thread" for s in path if isinstance(s, Par) for lv in s.dist):
        raise Refusal("E-WINDOW-LOOP", f"'{loop.var.name}' is not spread over threads", places(loop))


def _is_read_before_writes(kernel: Kernel, buffer: Sym, loop: Par) -> None:
    """No iteration of ``loop`` writes, through another pointer, what may be an element of ``buffer`` before it reads
    ``buffer``; or it is refused. Other iterations write nothing that it reads: they are independent."""
    others = written_over(kernel, buffer)
    first = _written_before_read(loop.body, buffer, others) if others else None
    if first is not None:
        names = ", ".join(sorted(b.name for b in others & assigned((first,))))
        hint = "say __restrict__ in the source, or noalias = true in the workload"
        why = f"'{buffer.name}' is read after {names} is written, which may alias it"
        raise Refusal("E-STAGE-WRITTEN", why, places(first), hint)


def _written_before_read(body: Body, buffer: Sym, others: set[Sym]) -> Stmt | None:
    """The first statement of ``body`` that writes one of ``others`` and then, or in the next round of a loop, is
    followed by a read of ``buffer``."""
    writer: Stmt | None = None
    for s in body:
        reads = any(isinstance(e, Load) and e.buffer == buffer for e in all_exprs((s,)))
        writes = bool(others & assigned((s,)))
        if writer is not None and reads:
            return writer
        if reads and writes and isinstance(s, For | While):
            return s
        for inner in bodies(s):
            if (found := _written_before_read(inner, buffer, others)) is not None:
                return found
        writer = s if writes and writer is None else writer
    return None
