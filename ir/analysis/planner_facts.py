"""What a planner may know about a kernel: loops, accesses, traffic, operations, synchronisation. Never its name.

Counts are per launch, evaluated at given sizes. A loop whose trip count hangs on the loops around it counts as in their
middle; one whose trip count cannot be evaluated counts once and is listed in ``unknown``. Both branches of an ``if``
count (an upper bound).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ktc.ir.arith.polynomial import multiple_of, polynomial
from ktc.ir.fold import simplify
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Expr,
    For,
    Level,
    Par,
    Reduce,
    Scan,
    Stmt,
    Var,
    While,
)  # fmt: skip
from ktc.ir.types import F32

from .access_nests import Access, Axis, accesses, visits
from .operation_counts import Counts


@dataclass(frozen=True)
class LoopFacts:
    """One loop statement: ``name`` as it prints, ``stem`` as the source calls it, which siblings may share. ``trip`` is
    its count at the sizes given (None: unknown), ``typical`` that in the middle of the loops around it, where it hangs
    on these; ``levels`` the distribution's kinds.
    """

    name: str
    stem: str
    kind: str  # par | reduce | scan | for | while
    trip: int | None
    depth: int
    parent: str
    levels: tuple[str, ...]
    ops: tuple[str, ...]  # operators of a reduce or scan
    unit: int  # global accesses inside that move by one element per iteration
    strided: int  # by another stride
    broadcast: int  # not at all
    irregular: int
    innermost: bool
    divisor: int  # greatest power of two (to 16) that provably divides the trip count
    typical: int | None = None


@dataclass(frozen=True)
class BufferFacts:
    """One global buffer: element type, who touches it, distinct elements touched (estimate) and elements moved."""

    name: str
    elem: str
    elem_bytes: int
    reads: int  # textual accesses
    writes: int
    footprint: int
    moved: int


@dataclass(frozen=True)
class KernelFacts:
    """All facts of one kernel; ``bytes`` is compulsory traffic, ``moved_bytes`` what the accesses ask for."""

    form: str  # spmd | parallel
    loops: tuple[LoopFacts, ...]
    buffers: tuple[BufferFacts, ...]
    reductions: int
    barriers: int
    warp_ops: int
    atomics: int
    opaque: int  # raw statements and inline assembly
    shared_bytes: int
    flops: int
    special: int
    bytes: int
    moved_bytes: int
    elem: str
    threads: int | None
    blocks: int | None
    calls: Mapping[str, int] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    sizes: Mapping[str, int | float] = field(default_factory=dict, repr=False)  # what they were evaluated at

    @property
    def intensity(self) -> float:
        """Operations per compulsory byte."""
        return (self.flops + self.special) / self.bytes if self.bytes else 0.0

    @property
    def reuse(self) -> float:
        """How often the average touched byte is asked for: 1 is streaming, much more calls for tiling."""
        return self.moved_bytes / self.bytes if self.bytes else 0.0

    @property
    def elem_bytes(self) -> int:
        """Bytes of an element of the type that most of the traffic has."""
        return next((b.elem_bytes for b in self.buffers if b.elem == self.elem), F32.bytes)

    def loop(self, name: str) -> LoopFacts:
        return next(x for x in self.loops if x.name == name)


def facts(kernel: Kernel, sizes: Mapping[str, int | float] | None = None) -> KernelFacts:
    """The facts of ``kernel`` at ``sizes`` (scalar parameters by name; missing ones make counts unknown)."""
    env = kernel.environment({k: v for k, v in (sizes or {}).items() if isinstance(v, int)})
    count = Counts(kernel, env)
    all_accesses = accesses(kernel)
    buffers = _buffers(all_accesses, count)
    traffic = Counter({b.elem: b.moved * b.elem_bytes for b in buffers})
    n = count.statements(kernel)
    return KernelFacts(
        form="parallel" if kernel.is_parallel else "spmd",
        loops=_loops(kernel, all_accesses, count),
        buffers=buffers,
        reductions=n["reductions"],
        barriers=n["barriers"],
        warp_ops=n["warp_ops"],
        atomics=n["atomics"],
        opaque=n["opaque"],
        shared_bytes=n["shared_bytes"],
        flops=n["flops"],
        special=n["special"],
        bytes=sum(b.footprint * b.elem_bytes * ((b.reads > 0) + (b.writes > 0)) for b in buffers),
        moved_bytes=sum(b.moved * b.elem_bytes for b in buffers),
        elem=traffic.most_common(1)[0][0] if traffic else F32.name,
        threads=count.extent("thread"),
        blocks=count.extent("block"),
        calls={k[5:]: v for k, v in n.items() if k.startswith("call:")},
        unknown=tuple(sorted(count.unknown)),
        sizes=dict(sizes or {}),
    )


def _loops(kernel: Kernel, all_accesses: list[Access], count: Counts) -> tuple[LoopFacts, ...]:
    nested = [v for v in visits(kernel) if isinstance(v.stmt, Par | Reduce | Scan | For | While)]
    chains = [tuple(a for a in v.axes if a.kind not in ("thread", "block")) for v in nested]
    outer = {id(a.stmt) for chain in chains for a in chain[:-1]}
    out = []
    for chain in chains:
        axis = chain[-1]
        inside = [a for a in all_accesses if a.space == "global" and any(x.stmt is axis.stmt for x in a.axes)]
        n = Counter(a.pattern(axis.name) for a in inside)
        out.append(
            LoopFacts(
                name=axis.name,
                stem=axis.stmt.var.stem if isinstance(axis.stmt, For | Par | Reduce | Scan) else axis.name,
                kind=axis.kind,
                trip=count.trip(axis),
                depth=len(chain) - 1,
                parent=chain[-2].name if len(chain) > 1 else "",
                levels=tuple(_level(x) for x in axis.dist),
                ops=_ops(axis.stmt),
                unit=n["unit"],
                strided=n["strided"] + n["reverse"],
                broadcast=n["broadcast"],
                irregular=n["irregular"],
                innermost=id(axis.stmt) not in outer,
                divisor=_divisor(axis, kernel),
                typical=count.typical(axis),
            )
        )
    return tuple(out)


def _ops(s: Stmt | None) -> tuple[str, ...]:
    if isinstance(s, Scan):
        return (s.acc.op,)
    return tuple(a.op for a in s.accs) if isinstance(s, Reduce) else ()


def _level(level: Level) -> str:
    return f"{level.kind}.{level.axis}" if level.axis else level.kind


def _divisor(axis: Axis, kernel: Kernel) -> int:
    """Greatest power of two up to 16 that divides the trip count, by literals and by the parameters' facts."""
    if axis.trip is None:
        return 1
    known: dict[Expr, int] = {Var(p.sym): p.divisible_by for p in kernel.params}
    return max(n for n in (1, 2, 4, 8, 16) if multiple_of(simplify(axis.trip), n, known))


def _buffers(all_accesses: list[Access], count: Counts) -> tuple[BufferFacts, ...]:
    groups: dict[str, list[Access]] = {}
    for a in all_accesses:
        if a.space == "global":
            groups.setdefault(a.buffer.name, []).append(a)
    out = []
    for name, group in groups.items():
        moved = sum(count.times(a.axes) * _width(a, count) for a in group)
        out.append(
            BufferFacts(
                name=name,
                elem=group[0].elem.name,
                elem_bytes=group[0].elem.bytes,
                reads=sum(a.mode != "write" for a in group),
                writes=sum(a.mode != "read" for a in group),
                footprint=_footprint(group, count),
                moved=moved,
            )
        )
    return tuple(out)


def _width(a: Access, count: Counts) -> int:
    return a.width if isinstance(a.width, int) else count.value(a.width) or 1


def _footprint(group: list[Access], count: Counts) -> int:
    """Distinct elements: one access touches the product of the trips of the axes that move it.

    Accesses whose addresses differ by whole steps of those axes (stencil taps) share their elements; others add up.
    """
    seen: dict[object, int] = {}
    for a in group:
        moving = tuple(x for x in a.axes if a.moves(x.name))
        touched = count.times(moving) * _width(a, count)
        key = (_base(a), tuple((count.trip(x), count.value(a.strides.get(x.name))) for x in moving))
        seen[key] = max(seen.get(key, 0), touched)
    return sum(seen.values())


def _base(a: Access) -> object:
    """What distinguishes the region of ``a`` from its neighbours': its constant part without whole axis steps."""
    if a.rest is None:
        return "irregular"
    rest = {k: v for k, v in polynomial(a.rest).items() if k}
    for stride in a.strides.values():
        if stride is not None and len(terms := polynomial(stride)) == 1:
            factors, step = next(iter(terms.items()))
            if rest.get(factors, 1) % step == 0:
                rest.pop(factors, None)
    return frozenset(rest.items())
