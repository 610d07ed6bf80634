"""A kernel with a producer as text: the block's threads run the kernel, a warpgroup beside them the producer's part.

after the declarations                                   in the block's loop
    __shared__ unsigned long long full[4], empty[4];         const int slot = k_tile / 64 % 4;
    ... (one thread initialises them, all wait)              mbarrier_wait(&full[slot], phases >> slot & 1);
    unsigned phases = 0;                                     phases ^= 1u << slot;
    if (threadIdx.x >= 256) {                                ...
      if (threadIdx.x == 256) {                              __syncwarp();
        for (...) {                                          if (threadIdx.x % 32 == 0 && k_tile >= 64) {
          wait for empty[slot], announce bytes, copy           mbarrier_arrive(&empty[(k_tile - 64) / 64 % 4]);
        }                                                    }
      }
      return;
    }

Threads of the producer's warpgroup run what stands before the loop, too: that may compute, but neither touch memory nor
wait. Barriers of the block come after it and are named ones, which count the block's own threads.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from ktc.ir.fold import add, cast, evaluate, i32, is_const, mul, product, simplify, sub
from ktc.ir.fragments import PANEL_BYTES
from ktc.ir.kernel import PRODUCER_THREADS
from ktc.ir.launch_limits import WARP
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Binary,
    Body,
    BulkCopy,
    Decl,
    For,
    If,
    Load,
    MatrixLoad,
    Produce,
    Store,
    Var,
    fresh,
)
from ktc.ir.producer_launch import tensor_map_of, tensor_maps
from ktc.ir.storage import is_local_array
from ktc.ir.types import I32, U32, scalar_of
from ktc.ir.walk import stmt_exprs, substitute_expr, walk, walk_expr

from .line_layout import INDENT
from .piece import BINARY_PREC

if TYPE_CHECKING:
    from .c_statements import Statements


REGISTERS = 1 << 16
"""Of a multiprocessor (CUDA C++ Programming Guide, technical specifications)."""
PRODUCER_REGISTERS = 40
"""What the copying thread gets by with."""
MOST_REGISTERS = 240
"""Of a thread, in steps of 8, with some for the system."""


class Roles:
    """Who runs what of one kernel; ``loop`` is the statement of its body that the producer shares, None without one."""

    def __init__(self, printer: Statements) -> None:
        self.p = printer
        body = printer.kernel.body
        self.loop = next((s for s in body if any(isinstance(x, Produce) for x in walk((s,)))), None)
        self.copying = False

    def declare_maps(self) -> None:
        """Names for the descriptors, which the signature takes after the parameters."""
        self.maps = {m: fresh(f"{m.src.name}_map", I32) for m in tensor_maps(self.p.kernel)}
        self.p.d.tensor_maps = [self.p.names.declare(s) for s in self.maps.values()]

    # ------------------------------------------------------------------------------------------- before the loop

    def split(self) -> list[str]:
        """The mbarriers, and the producer's branch, which returns."""
        p, kernel = self.p, self.p.kernel
        assert self.loop is not None and kernel.launch is not None
        produces = [x for x in walk(kernel.body) if isinstance(x, Produce)]
        self.threads, *others = kernel.launch.block
        if len(produces) != 1 or not isinstance(self.loop, For) or self.loop.body[0] is not produces[0]:
            p.d.refuse("PRODUCE", "a producer of anything but one loop that each block runs once")
        if not all(is_const(simplify(n), 1) for n in others):
            p.d.refuse("PRODUCE", "a producer beside a block of several dimensions")
        for s in kernel.body[: next(k for k, s in enumerate(kernel.body) if s is self.loop)]:
            if not _computes((s,)):
                p.d.refuse("PRODUCE", "something happens before the loop that a producer shares")
        self.cluster = produces[0].cluster
        p.d.bulk(self.cluster)
        self.full, self.empty, self.phases = (fresh(n, t) for n, t in (("full", I32), ("empty", I32), ("phases", U32)))
        full, empty, phases = (p.names.declare(s) for s in (self.full, self.empty, self.phases))
        stages = p.x.text(produces[0].stages)
        threads = p.x.piece(self.threads)
        warps = p.x.text(simplify(mul(Binary("/", self.threads, i32(WARP)), i32(self.cluster))))
        less, more = self._registers()
        self.copying = True
        copies = p.body((dataclasses.replace(self.loop, body=self.loop.body[:1], comments=()),), 2)
        self.copying = False
        first = f"threadIdx.x == {threads.at(BINARY_PREC['=='])}"
        return [
            f"__shared__ unsigned long long {full}[{stages}], {empty}[{stages}];",
            "if (threadIdx.x == 0) {",
            f"  for (int i = 0; i < {stages}; ++i) {{",
            f"    mbarrier_init(&{full}[i], 1);",
            f"    mbarrier_init(&{empty}[i], {warps});",
            "  }",
            "  mbarrier_init_fence();",
            "}",
            *(("cluster_arrive();", "cluster_wait();") if self.cluster > 1 else ("__syncthreads();",)),
            f"unsigned {phases} = 0;  // one bit of parity a buffer",
            f"if (threadIdx.x >= {threads.at(BINARY_PREC['<'])}) {{  // the producer's warpgroup",
            *(INDENT + line for line in less),
            f"  if ({first}) {{",
            *copies,
            "  }",
            "  return;",
            "}",
            *more,
        ]

    def _registers(self) -> tuple[list[str], list[str]]:
        """What hands registers of the producer's warpgroup to the others, where their arrays take most of a share."""
        p, threads = self.p, evaluate(self.threads, self.p.kernel.knob_values)
        if threads is None or threads % PRODUCER_THREADS:
            return [], []
        share = REGISTERS // (int(threads) + PRODUCER_THREADS) // 8 * 8
        arrays = [x.sym.type for x in walk(p.kernel.body) if isinstance(x, Alloc) and is_local_array(x.sym)]
        sizes = [evaluate(product([cast(n, I32) for n in t.shape]), p.kernel.knob_values) for t in arrays]  # type: ignore[attr-defined]
        words = sum(int(n or 0) * scalar_of(t).bytes // 4 for n, t in zip(sizes, arrays))
        if share >= MOST_REGISTERS or words <= share - PRODUCER_REGISTERS:
            return [], []
        more = share + (share - PRODUCER_REGISTERS) * PRODUCER_THREADS // int(threads)
        return (
            p.d.registers("dec", PRODUCER_REGISTERS),
            p.d.registers("inc", min(more // 8 * 8, MOST_REGISTERS)),
        )

    # ------------------------------------------------------------------------------------------------- in the loop

    def round(self, s: For) -> list[str]:
        """The body of the loop, for whoever is being printed."""
        p, produce = self.p, s.body[0]
        assert isinstance(produce, Produce)
        p.names.push()
        slot = p.x.text(produce.slot)
        number = fresh("slot", I32)
        name = p.names.declare(number)
        phases, full, empty = (p.names.of(x) for x in (self.phases, self.full, self.empty))
        lines = [f"const int {name} = {slot};"]
        mine, parity = (empty, f"~{phases}") if self.copying else (full, phases)
        lines += [f"mbarrier_wait(&{mine}[{name}], {parity} >> {name} & 1);", f"{phases} ^= 1u << {name};"]
        if self.copying:
            size = sum(x.rows * PANEL_BYTES for x in produce.body if isinstance(x, BulkCopy))
            lines.append(f"mbarrier_arrive_expect(&{full}[{name}], {size});")
            self.slot = name
            lines += p.body(produce.body, 0)
        else:
            lines += [*p.body(s.body[1:], 0), *self._give_up(s, produce, name)]
        p.names.pop()
        return [INDENT + line for line in lines]

    def _give_up(self, s: For, produce: Produce, now: str) -> list[str]:
        """The end of a round: a lane of each warp for every block whose producer writes here."""
        p, empty = self.p, self.p.names.of(self.empty)
        lane = f"threadIdx.x % {WARP}"
        first, slot = f"{lane} == 0" if self.cluster == 1 else f"{lane} < {self.cluster}", now
        if produce.hold:
            step = s.step.b if isinstance(s.step, Binary) and s.step.op == "+" and s.step.a == Var(s.var) else None
            if step is None:
                p.d.refuse("PRODUCE", "the loop that a producer shares does not count by a fixed step")
            assert step is not None
            back = mul(step, i32(produce.hold))
            first += f" && {p.x.text(Binary('>=', Var(s.var), add(s.init, back)))}"
            slot = p.x.text(simplify(substitute_expr(produce.slot, {s.var: sub(Var(s.var), back)})))
        place = f"&{empty}[{slot}]"
        remote = "mbarrier_release_at" if _reads(s.body[1:]) else "mbarrier_arrive_at"
        arrive = f"mbarrier_arrive({place});" if self.cluster == 1 else f"{remote}({place}, {lane});"
        return ["__syncwarp();", f"if ({first}) {arrive}"]

    def after(self) -> list[str]:
        """Behind the loop: other blocks may still arrive at mbarriers of this one, which must not be gone."""
        return ["cluster_arrive();"] if self.cluster > 1 else []

    def last(self) -> list[str]:
        """The end of the kernel."""
        return [INDENT + "cluster_wait();"] if self.loop is not None and self.cluster > 1 else []

    def bulk_copy(self, s: BulkCopy) -> list[str]:
        p = self.p
        tile, matrix = p.x.subscript(s.dst, s.dst_index), p.names.of(self.maps[tensor_map_of(s)])
        row, col = (p.x.text(e) for e in s.origin)
        copy = "bulk_copy" if s.shared == 1 else f"bulk_copy_shared<{s.rows}, {s.shared}>"
        return [f"{copy}(&{tile}, {matrix}, &{p.names.of(self.full)}[{self.slot}], {row}, {col});"]


def _reads(body: Body) -> bool:
    """Whether threads read shared memory themselves: what only products of tiles read, they are waited for."""
    loads = (e for s in walk(body) for x in stmt_exprs(s) for e in walk_expr(x) if isinstance(e, Load))
    return any(isinstance(s, MatrixLoad) for s in walk(body)) or any(not is_local_array(e.buffer) for e in loads)


def _computes(body: Body) -> bool:
    """Whether ``body`` only computes, in registers."""
    for s in walk(body):
        if not isinstance(s, Decl | Alloc | Assign | For | If | Store):
            return False
        if isinstance(s, Store) and not is_local_array(s.buffer):
            return False
        if any(isinstance(x, Load) and not is_local_array(x.buffer) for e in stmt_exprs(s) for x in walk_expr(e)):
            return False
    return True
