"""What a launcher must know of a kernel: grid, block, shared memory, assumptions, alignment of its buffers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from ktc.ir.arith import ANY_LAUNCH, REWRITES, facts_of
from ktc.ir.diagnostics import KtcError
from ktc.ir.fact_origins import launch_tests, untested_pairs, unvouched, unvouched_pairs
from ktc.ir.fold import add, binary, cast, evaluate, mul, product, simplify
from ktc.ir.kernel import Kernel, Param
from ktc.ir.launch_limits import limits
from ktc.ir.nodes import Alloc, AsyncCopy, Binary, Call, Cast, Const, Expr, Knob, Load, Store, Sym, Var
from ktc.ir.pointer_rows import takes_addresses
from ktc.ir.producer_launch import launched_block, tensor_maps
from ktc.ir.types import I32, I64, Array, Ptr, Scalar, Type, Vec, scalar_of
from ktc.ir.walk import all_exprs, map_expr, walk, walk_expr

MATRIX_ALIGNMENT = 16
"""Bytes, of a matrix that bulk copies read (CUDA driver API, cuTensorMapEncodeTiled)."""


@dataclass(frozen=True)
class Geometry:
    """Launch expressions with the knobs' values in place, and what must hold before launching.

    ``apart``: what buffers may not share, as nobody vouches for it (:class:`Apart`), where all of the facts hold.
    ``room``: bytes of shared memory that a block takes, in 64 bits, where passes asked for them and the device must be
    asked whether it has as much: more than every device has, or a number that the sizes decide. ``unsure``: extents
    that may come to nothing where the facts hold; no API launches a grid without blocks.
    """

    grid: tuple[Expr, Expr, Expr]
    block: tuple[Expr, Expr, Expr]
    shared: Expr
    facts: tuple[Expr, ...]
    aligned: tuple[tuple[Param, int], ...]
    room: Expr | None = None
    apart: tuple[Apart, ...] = ()
    unsure: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class Bytes:
    """What a kernel can touch of ``buffer``: from the byte ``first`` up to ``end``, which it does not touch."""

    buffer: Sym
    first: Expr
    end: Expr


@dataclass(frozen=True)
class Apart:
    """That two buffers have no byte in common that the kernel can touch."""

    one: Bytes
    other: Bytes


def geometry(kernel: Kernel, everywhere: int = 48 << 10) -> Geometry:
    """What the launcher of ``kernel`` needs. ``everywhere``: bytes of shared memory that every device has for a block.

    Raises:
        KtcError: E-LAUNCH-UNKNOWN when the kernel has no launch geometry.
    """
    if kernel.launch is None:
        raise KtcError(
            "E-LAUNCH-UNKNOWN", f"no launch geometry for '{kernel.name}'", kernel.loc, "give [launch] in workload.toml"
        )
    bound = partial(with_knobs, kernel)
    params = {p.sym for p in kernel.params}
    facts: list[Expr] = []
    pairs = unvouched_pairs(kernel)
    counts = dict.fromkeys(e for p in dict.fromkeys(p for pair in pairs for p in pair) for e in p.touches[2:])
    least_zero = [Binary(">=", e, Const(0, I64)) for e in counts]
    tests = [*launch_tests(kernel), *(launchable(kernel) if kernel.trace else ()), *least_zero]
    for test in _in_order(kernel, list(map(bound, tests))):
        fact = simplify(test)
        known = all(x.sym in params for x in walk_expr(fact) if isinstance(x, Var))
        if known and not isinstance(fact, Const) and fact not in facts:
            facts.append(fact)
    launch = kernel.launch
    grid, block = tuple(map(bound, launch.grid)), tuple(map(bound, launched_block(kernel)))
    grid = _in_types(kernel, grid) if kernel.trace else grid
    room = bound(wide(shared_bytes(kernel))) if kernel.trace else None
    if isinstance(room, Const) and room.value <= everywhere:
        room = None
    return Geometry(
        grid,  # type: ignore[arg-type]
        block,  # type: ignore[arg-type]
        bound(launch.dynamic_shared) if launch.dynamic_shared is not None else Const(0, I32),
        tuple(facts),
        tuple(_aligned_buffers(kernel)),
        room,
        tuple(Apart(_bytes(p, bound), _bytes(q, bound)) for p, q in pairs),
        _unsure(kernel, (*grid, *block)),
    )


def _unsure(kernel: Kernel, extents: Iterable[Expr]) -> tuple[Expr, ...]:
    """What must be at least one for those of ``extents`` to be so that are not known to be. What the workload promises
    of parameters is tested before a kernel of passes is launched, and not before the source's."""
    facts = facts_of(kernel, REWRITES if kernel.trace else ANY_LAUNCH)
    found = (e for e in dict.fromkeys(extents) if not isinstance(e, Const) or e.value < 1)
    open_ = (e for e in found if (low := facts.interval(wide(e)).low) is None or low < 1)
    return tuple(dict.fromkeys(_shared_out(e) for e in open_))


def _shared_out(e: Expr) -> Expr:
    """What a quotient that is rounded up is one of, which is positive where that is, and leaves no type; of others
    themselves, in 64 bits where they are sums or products."""
    if isinstance(e, Call) and e.fn == "cdiv" and isinstance(e.args[1], Const) and e.args[1].value > 0:
        return e.args[0]
    if isinstance(e, Binary) and e.op == "/" and isinstance(e.b, Const) and e.b.value > 0:
        up = e.a
        if isinstance(up, Binary) and up.op == "+" and isinstance(up.b, Const) and up.b.value == e.b.value - 1:
            return up.a
    return e if isinstance(e, Var) else simplify(wide(e))


def _in_types(kernel: Kernel, extents: Iterable[Expr]) -> tuple[Expr, ...]:
    """``extents`` that passes made, in 64 bits where 32 may not hold what they are made of."""
    facts = facts_of(kernel, REWRITES)

    def holds(e: Expr) -> bool:
        if isinstance(e, Call) and e.fn == "cdiv":  # it is printed as a sum, divided
            e = binary("+", *e.args)
        if not isinstance(e, Binary) or e.op not in "+-*" or not isinstance(e.type, Scalar):
            return True
        high, (_, most) = facts.interval(wide(e)).high, e.type.extremes
        return high is not None and high - 1 <= most

    return tuple(e if all(map(holds, walk_expr(e))) else simplify(wide(e)) for e in extents)


def one_or_more(kernel: Kernel, elements: Expr) -> Expr:
    """``elements`` to allocate: of nothing there is no memory to ask for."""
    unsure = _unsure(kernel, (elements,))
    return Call("max", (wide(elements), Const(1, I64)), I64) if unsure else elements


def _in_order(kernel: Kernel, tests: list[Expr]) -> Iterator[Expr]:
    """``tests``, those that divide by a size last; and before them, that no divisor of theirs and of the launch that
    passes made is zero: host code would end with a signal."""
    launched = map(partial(with_knobs, kernel), kernel.launch.grid) if kernel.trace and kernel.launch else ()
    yield from (e for e in tests if not _divisors(e))
    facts = facts_of(kernel, REWRITES)
    for number, d in {wide(d): d for e in (*tests, *launched) for d in _divisors(e)}.items():
        within = facts.interval(number)
        if (within.low is None or within.low < 1) and (within.high is None or within.high > -1):
            yield Binary("!=", d, Const(0, scalar_of(d.type)))
    yield from (e for e in tests if _divisors(e))


def _divisors(e: Expr) -> list[Expr]:
    """What ``e`` divides integers by, constants aside."""
    quotients = (x for x in walk_expr(e) if isinstance(x, Binary) and x.op in "/%" and scalar_of(x.type).is_int)
    cut = (x.args[1] for x in walk_expr(e) if isinstance(x, Call) and x.fn == "cdiv")
    return [d for d in (*(x.b for x in quotients), *cut) if not isinstance(d, Const)]


def _bytes(p: Param, bound: Callable[[Expr], Expr]) -> Bytes:
    """The bytes of a buffer between the first and the last element that the source touches."""
    elem = p.sym.type.elem if isinstance(p.sym.type, Ptr) else p.sym.type
    size = mul(Const(scalar_of(p.sym.type).bytes, I64), lanes_of(elem))
    low, high = p.touches[:2]
    return Bytes(p.sym, bound(mul(low, size)), bound(mul(add(high, Const(1, I64)), size)))


def launchable(kernel: Kernel) -> Iterator[Expr]:
    """That the launch has no more blocks and threads than every device takes, and some blocks, where the ranges of its
    parameters leave that open."""
    yield from _limit_tests(kernel)
    yield from _some_blocks(kernel)


def _limit_tests(kernel: Kernel) -> Iterator[Expr]:
    facts = facts_of(kernel, REWRITES)
    for _, extents, most in limits(kernel):
        number = with_knobs(kernel, wide(product(list(extents))))
        high = facts.interval(number).high
        if high is None or high > most:
            yield Binary("<=", number, Const(most, I64))


def _some_blocks(kernel: Kernel) -> Iterator[Expr]:
    """Parameters of 1 and more may leave it open: ``n - 2`` iterations are none for a row of two elements, for which
    the source's own launch may do as little."""
    facts = facts_of(kernel.with_(params=tuple(map(_one_or_more, kernel.params))), REWRITES)
    for extent in kernel.launch.grid if kernel.launch is not None else ():
        number = with_knobs(kernel, wide(extent))
        low = facts.interval(number).low
        if low is None or low < 1:
            yield Binary(">", number, Const(0, I64))


def _one_or_more(p: Param) -> Param:
    low, high = p.range
    return (
        dataclasses.replace(p, range=(1 if low is None else max(low, 1), high)) if isinstance(p.sym.type, Scalar) else p
    )


def with_knobs(kernel: Kernel, e: Expr) -> Expr:
    """``e`` with the values of the kernel's knobs in place."""
    values = kernel.knob_values
    return simplify(map_expr(e, lambda x: Const(values[x.name], I32) if isinstance(x, Knob) else x))


def is_guarded(kernel: Kernel) -> bool:
    """Whether a launcher of ``kernel`` has something to test before it launches."""
    g = geometry(kernel)
    return bool(g.facts or g.aligned or g.apart or g.room is not None)


def asks_for_room(kernel: Kernel) -> bool:
    """Whether a device may lack the shared memory that a block takes."""
    return kernel.launch is not None and geometry(kernel).room is not None


def shared_bytes(kernel: Kernel) -> Expr:
    """Static and dynamic shared memory of one block."""
    assert kernel.launch is not None
    total: Expr = kernel.launch.dynamic_shared or Const(0, I64)
    for s in walk(kernel.body):
        if isinstance(s, Alloc) and not s.dynamic and isinstance(s.sym.type, Array) and s.sym.type.space == "shared":
            size: Expr = Const(scalar_of(s.sym.type).bytes, I64)
            for extent in (*s.sym.type.shape, lanes_of(s.sym.type.elem)):
                size = binary("*", size, extent)
            total = binary("+", total, size)
    return total


def lanes_of(t: Type) -> Expr:
    """How many scalars a value of ``t`` holds."""
    n = t.n if isinstance(t, Vec) else 1
    return n if isinstance(n, Expr) else Const(n, I64)


def wide(e: Expr) -> Expr:
    """``e`` computed in 64 bits: a size that wraps around would pass every test of being small."""

    def widened(x: Expr) -> Expr:
        if isinstance(x, Var | Knob | Const):
            return cast(x, I64)
        if isinstance(x, Cast):
            return x.x
        if isinstance(x, Binary) and x.op in "+-*/%":
            return binary(x.op, cast(x.a, I64), cast(x.b, I64))
        if isinstance(x, Call):
            return dataclasses.replace(x, ty=I64)
        return x

    return map_expr(e, widened)


def _aligned_buffers(kernel: Kernel) -> list[tuple[Param, int]]:
    """Buffers with wide accesses of which the address is passed, and the alignment in bytes that the widest one needs
    of it."""
    return [(p, n) for p, n in _widely_read(kernel) if not takes_addresses(kernel, p)]


def _widely_read(kernel: Kernel) -> list[tuple[Param, int]]:
    """Buffers with wide accesses, and the alignment in bytes that the widest one needs of the base. Loads and stores
    are no wider than what is promised of a buffer; asynchronous copies are as wide as a script says."""
    needs: dict[Sym, int] = {}
    accesses: list[Load | Store] = [e for e in all_exprs(kernel.body) if isinstance(e, Load)]
    accesses += [s for s in walk(kernel.body) if isinstance(s, Store)]
    for a in accesses:
        width = a.width if isinstance(a.width, int) else evaluate(a.width, kernel.knob_values)
        needs[a.buffer] = max(needs.get(a.buffer, 0), scalar_of(a.buffer.type).bytes * int(width or 1))
    for m in tensor_maps(kernel):
        needs[m.src] = MATRIX_ALIGNMENT
    copied: dict[Sym, int] = {}
    for c in (s for s in walk(kernel.body) if isinstance(s, AsyncCopy)):
        width = c.width if isinstance(c.width, int) else evaluate(c.width, kernel.knob_values)
        copied[c.src] = max(copied.get(c.src, 0), scalar_of(c.src.type).bytes * int(width or 1))
    found = [(p, max(min(p.align, needs.get(p.sym, 0)), copied.get(p.sym, 0))) for p in kernel.params]
    return [(p, n) for p, n in found if n > scalar_of(p.sym.type).bytes]


def check_tested(kernel: Kernel) -> None:
    """That a launcher can test all that ``kernel`` rests on and nobody vouches for.

    Raises:
        KtcError: E-LAUNCH-ROWS: it is passed addresses of rows, in memory of the device, and something rests on them.
    """
    doubtful = {f.sym for f in unvouched(kernel) if f.kind == "align"}
    wants = [
        f"rows of '{p.sym.name}' begin at multiples of {n} bytes" for p, n in _wide_rows(kernel) if p.sym in doubtful
    ]
    wants += [f"'{p.sym.name}' and '{q.sym.name}' do not overlap" for p, q in untested_pairs(kernel)]
    if wants:
        what = (
            f"that {' and '.join(wants)} is a guess that host code cannot test: the addresses of rows are on the device"
        )
        hint = "promise it: take `align` and `noalias` of these arguments out of `guessed` in the workload"
        raise KtcError("E-LAUNCH-ROWS", what, kernel.loc, hint=hint)


def _wide_rows(kernel: Kernel) -> list[tuple[Param, int]]:
    return [(p, n) for p, n in _widely_read(kernel) if takes_addresses(kernel, p)]
