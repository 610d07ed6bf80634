"""Which integer parameters are sizes, which shape the block, and which only carry a value."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeGuard

from ktc.ir.analysis.compared_numbers import only_compared
from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel, Param
from ktc.ir.launch_limits import MAX_BLOCK
from ktc.ir.nodes import (
    COMPARISONS,
    Alloc,
    AsyncCopy,
    Atomic,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    For,
    HwIndex,
    If,
    Load,
    Select,
    Store,
    Sym,
    Var,
    While,
)
from ktc.ir.sequences import launch_extents
from ktc.ir.support.memo import by_identity
from ktc.ir.types import BOOL, Array, Ptr, Scalar, Vec, scalar_of
from ktc.ir.walk import all_exprs, stmt_exprs, used, walk, walk_expr

from .extents.padded_windows import padded_windows
from .extents.spread_windows import spread_windows
from .given_values import definitions, loaded, made_of, reached, spelled_out
from .grains import grains, groups
from .indices import block_extents, block_sizes, fitting, most_threads
from .integer_values import bins, marks, origins, powers, seeds
from .integers.bit_positions import bit_positions, exponents
from .integers.row_pointers import PART, part_limits
from .named_dimensions import words_of
from .quotients.divided_sizes import divided_sizes
from .quotients.multiples import Group, whole_groups
from .scales.real_values import real_values
from .scales.usual_reals import usual_real
from .windows import (
    clipped_windows,
    counted_windows,
    dilated_taps,
    halves_of,
    host_windows,
    names_in,
    spelled,
    squares,
    taps,
)

BLOCK_EXTENTS = {1: 256, 2: 16, 3: 8}
"""Value of a parameter that is the block's extent, by how many axes are open."""

DYNAMIC_SHARED = 16384
"""Bytes of dynamic shared memory, where no launch says how much."""

MULTIPROCESSORS = 128
"""Of a large device, about."""

_MULTIPROCESSOR, _HOW_MANY = frozenset({"sm", "sms", "multiprocessor", "processor"}), frozenset({"num", "count", "n"})

NUMBERS = (0.5, 0.75, 0.625, 0.875, 0.375, 0.25)
"""Values of floating-point parameters: no neutral elements, and 1 - x is not 0."""


Mark = tuple[int, int, int]


@dataclass(frozen=True)
class Roles:
    """What each scalar parameter is for.

    ``sizes``: in the order of the parameters, then host variables that others are computed from. ``fixed``: what the
    source's launch passes a constant for, and extents of the block that only the launcher knows, with a usual value.
    ``flags``: integers that choose or scale and decide no extent, and those whose ``fixed`` value is presumed
    (:mod:`.integer_values`). ``tied``: what the source's launch computes from others, ``n * c * h * w``. ``divisors``:
    sizes that others or indices are divided by, as groups divide channels. ``quotients``: sizes and what the kernel or
    its launch divides by: extents may have their quotients. ``counts``: extents of the grid that only the host knows.
    ``halves``: how far windows reach; ``windows``: what the launch computes their number from, and what each is
    (:mod:`.windows`). ``few``: numbers of counters in shared memory. ``wanted``: how much of each
    part of something is, at most (:mod:`.integers.row_pointers`). ``parts``: what elements of buffers are divided
    by, as slots into blocks. ``coarsest``: what the sizes of probes are multiples of at most. ``numbers``: the values
    of floating-point parameters, and of flags that are not 1; ``launched``: those that the source's launch gives them;
    ``reals``: of those that it makes of sizes, their formulas (:mod:`.real_values`).
    ``grains``: sizes that are divided by a number, with it; ``groups``: sizes that show more than one group of so many
    elements only above that (:mod:`.grains`). ``room``: sizes of which rows of a literal pitch, or the threads of a
    block, hold no more than a number (:mod:`.extents.row_pitches`, :mod:`.bounding`). ``apart``: how far blocks are
    apart where that is computed, which is at least 1 (:mod:`.guarded_launches`). ``places``: those ``tied`` that say
    where in a size a launch works, from 0 on (:mod:`.host_steps`).
    ``marks``: what elements of integer buffers are in probes, where that is not 0 (:mod:`.integers.element_marks`): a
    number,
    or all of those from one to another. ``listed``: buffers of which every element is a formula of sizes
    (:mod:`.extents.walked_tensors`). ``binary``: sizes that are powers of two, and
    ``exponents``: those that others are shifted by (:mod:`.integers.bit_positions`). ``multiples``: sizes that others
    divide, each with that (:mod:`.quotients.multiples`).
    """

    sizes: tuple[str, ...]
    fixed: Mapping[str, int]
    flags: tuple[str, ...]
    tied: Mapping[str, str] = field(default_factory=dict)
    divisors: frozenset[str] = frozenset()
    quotients: tuple[tuple[str, str], ...] = ()
    counts: frozenset[str] = frozenset()
    halves: frozenset[str] = frozenset()
    windows: Mapping[str, str] = field(default_factory=dict)
    few: frozenset[str] = frozenset()
    parts: frozenset[str] = frozenset()
    wanted: frozenset[str] = frozenset()
    coarsest: int = 1 << 30
    numbers: Mapping[str, float] = field(default_factory=dict)
    launched: frozenset[str] = frozenset()
    reals: Mapping[str, str] = field(default_factory=dict)
    grains: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, int] = field(default_factory=dict)
    room: Mapping[str, int] = field(default_factory=dict)
    apart: tuple[str, ...] = ()
    places: frozenset[str] = frozenset()
    marks: Mapping[str, Mark] = field(default_factory=dict)
    listed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    binary: frozenset[str] = frozenset()
    exponents: frozenset[str] = frozenset()
    multiples: tuple[Group, ...] = ()


def roles_of(k: Kernel) -> Roles:
    """The roles of the scalar parameters of ``k``."""
    integers = [p for p in k.params if _is_integer(p)]
    bits = bit_positions(k, passed := dict(_tied(k)))
    presumed = marks(k) | dict.fromkeys(origins(k), 0) | powers(k) | seeds(k) | {**bits.numbers}
    fixed = presumed | _rooms(k, integers) | _of_device(integers) | _fixed(k, integers)
    tied = {**bits.tied} | {n: t for n, t in passed.items() if n not in fixed}
    real = real_values(k)
    formulas = (*tied.values(), *real.formulas.values())
    matter = shaping(k) - (only_compared(k) - {s for e in launch_extents(k) for s in used(e)})
    matter |= {s for n, e in (k.launch.passed if k.launch else ()) if n in tied for s in used(e)}
    matter |= {p.sym for p in integers if p.sym.name in real.counted}
    sizes = [p.sym.name for p in integers if p.sym in matter and p.sym.name not in fixed and p.sym.name not in tied]
    given = {n for n, _ in k.launch.given} if k.launch is not None else set()
    fixed = {n: v for n, v in fixed.items() if n not in tied}
    known = {*fixed, *sizes, *tied} - ({*presumed} - given)
    flags = [p.sym.name for p in integers if p.sym.name not in known]
    names = {p.sym.name for p in integers}
    hosts = dict.fromkeys(n for t in formulas for n in names_in(t) if n not in names and n not in bits.numbers)
    sources, params = definitions(k), {p.sym for p in k.params}
    whole = {s.name for s in _divisors(k, lambda e: _of_parameters(e, params, sources))}
    whole |= {s.name for s in _divisors(k, lambda e: _remainder(e, params, sources))} - _moduli(k, sources)
    launched_by = {s.name for e in launch_extents(k) for s in used(e)} | {n for t in tied.values() for n in names_in(t)}
    of_blocks = {s.name for s in _divisors(k, lambda e: _numbers_a_block(e, k, sources))} - _moduli(k, sources)
    of_blocks |= {s.name for s in _divisors(k, lambda e: _numbers_a_block(e, k, sources, of_host=True))}
    whole |= of_blocks - launched_by - {*tied}
    parts = {s.name for s in _divisors(k, lambda e: loaded(e, sources))} - whole
    named = (*sizes, *hosts)
    told = (
        *counted_windows(k, sources), *taps(k, sources), *dilated_taps(k, sources), *clipped_windows(k, sources),
        *host_windows(k), *squares(k, sources), *padded_windows(k, sources), *spread_windows(k),
    )  # fmt: skip
    groups_of = whole_groups(k, {*named}, sources)
    side_by_side = {by for _, by in groups_of if {(by, "window"), (by, "step")} <= {*told}}  # groups, and no windows
    windows = {n: kind for n, kind in told if n in named and n not in side_by_side}
    divisors = frozenset(whole | parts) & {*named} - {*windows}
    divisors_named = [str(fixed[b]) if fixed.get(b, 0) > 1 else b for b in _divided_by(k)]
    by = [b for b in dict.fromkeys(divisors_named) if b.isdigit() or (b in named and b not in parts)]
    parts_of = divided_sizes(k, sources)
    quotients = tuple((a, b) for b in by for a in named if a != b and a in parts_of.get(b, {a}))
    counts = {p.sym.name for p in k.params if p.host and k.launch is not None}
    counts &= {s.name for e in (k.launch.grid if k.launch else ()) for s in _counted(e)}
    floats = [p.sym for p in k.params if isinstance(p.sym.type, Scalar) and p.sym.type.is_float]
    drawn = {s.name: 1.0 if s in matter else NUMBERS[i % len(NUMBERS)] for i, s in enumerate(floats)}
    numbers = {n: v if (usual := usual_real(n)) is None else usual for n, v in drawn.items()}
    launched = {n: float(v) for n, v in (k.launch.given if k.launch is not None else ()) if n in numbers}
    launched |= real.numbers
    halves = frozenset((*halves_of(k, sources), *windows)) & {*named}
    inside = frozenset(parts) & divisors
    whole_grains = grains(k, fixed, sources) | dict.fromkeys(bits.ends, 1 << bits.bits)
    return Roles(
        named,
        fixed,
        tuple(flags),
        tied,
        divisors,
        quotients,
        frozenset(counts),
        halves,
        windows,
        frozenset(bins(k, p.sym)[0] for p in buffers_of(k)) & {*named},
        inside,
        wanted=part_limits(k) & {*named},
        numbers={**dict.fromkeys(part_limits(k) & {*flags}, PART), **numbers, **launched},
        launched=frozenset(launched),
        reals=real.formulas,
        grains={n: v for n, v in whole_grains.items() if n in named and n not in divisors},
        groups=groups(k, fixed, sources),
        binary=bits.ends & {*named},
        exponents=_with_compared(exponents(k), tied) & {*named},
        multiples=tuple((a, b) for a, b in groups_of if not {a, b} & {*windows}),
    )


def _counted(e: Expr) -> set[Sym]:
    """Variables that the extent of a grid is a product of."""
    match without_casts(e):
        case Var(s):
            return {s}
        case Binary("*", a, b):
            return _counted(a) | _counted(b)
    return set()


def _tied(k: Kernel) -> Iterator[tuple[str, str]]:
    """What the launch computes for parameters, where a workload can say it."""
    passed = k.launch.passed if k.launch is not None else ()
    mine = {p.sym for p in k.params}
    for name, e in passed:
        others = {s for n, x in passed if n != name for s in used(x)}
        text = spelled(e, used(e))
        if text is not None and not (_untold(text) and not used(e) & (mine | others)):
            yield name, text[1:-1] if text.startswith("(") and text.count("(") == 1 else text


def _untold(text: str) -> bool:
    """Whether ``text`` is a difference of several sizes, or a choice between them: ``n if n < total - t else total -
    t``. Where nothing else is made of those, it says less of a parameter than that this is a size of its own."""
    return len({*names_in(text)}) > 1 and (" - " in text or " if " in text)


def _rooms(k: Kernel, integers: Iterable[Param]) -> dict[str, int]:
    """Elements of OpenCL's ``__local`` arguments, of which the body does not speak: what fits a usual allotment."""
    arrays = [s.sym.type for s in walk(k.body) if isinstance(s, Alloc) and s.dynamic]
    said = {s for y in walk(k.body) if not isinstance(y, Alloc) for e in stmt_exprs(y) for s in used(e)}
    named = {p.sym: p.sym.name for p in integers if p.sym not in said}
    out = {}
    for t in arrays:
        if isinstance(t, Array) and isinstance(e := without_casts(t.shape[0]), Var) and e.sym in named:
            width = scalar_of(t).bits // 8 * (t.elem.n if isinstance(t.elem, Vec) and isinstance(t.elem.n, int) else 1)
            out[named[e.sym]] = DYNAMIC_SHARED // max(1, width) // len(arrays)
    return out


def _divisors(k: Kernel, asks: Callable[[Expr], bool]) -> Iterator[Sym]:
    """Parameters that an integer is divided by, or by a product of them alone, of which ``asks`` says yes: a mean's
    ``sum / n`` tells nothing."""
    params = {p.sym for p in k.params}
    for e in all_exprs(k.body):
        if _divides_integers(e) and (by := _counted(e.b)) and used(e.b) == by <= params and asks(e.a):
            yield from by


def _divides_integers(e: Expr) -> TypeGuard[Binary]:
    return isinstance(e, Binary) and e.op in ("/", "%") and isinstance(e.type, Scalar) and e.type.is_int


def _divided_by(k: Kernel) -> list[str]:
    """What the body and the launch divide integers by: names of parameters, and numbers."""
    params = {p.sym for p in k.params}
    found: dict[str, None] = {}
    for y in (*all_exprs(k.body), *(k.launch.grid if k.launch is not None else ())):
        for e in walk_expr(y):
            d = _divisor(e)
            if isinstance(d, Var) and d.sym in params:
                found[d.sym.name] = None
            elif isinstance(d, Const) and isinstance(d.value, int) and d.value > 1:
                found[str(d.value)] = None
    return list(found)


def _divisor(e: Expr) -> Expr | None:
    if _divides_integers(e) and e.op == "/":
        return without_casts(e.b)
    return e.args[1] if isinstance(e, Call) and e.fn == "cdiv" else None


def _of_parameters(e: Expr, params: set[Sym], sources: Mapping[Sym, list[Expr]]) -> bool:
    left, seen = [e], set[Sym]()
    while left:
        for x in walk_expr(left.pop()):
            if isinstance(x, Var) and x.sym not in params and x.sym not in seen:
                if x.sym not in sources:
                    return False
                seen.add(x.sym)
                left += sources[x.sym]
            elif not isinstance(x, Var | Const | Binary | Cast):
                return False
    return True


def _remainder(e: Expr, params: set[Sym], sources: Mapping[Sym, list[Expr]]) -> bool:
    """Whether ``e`` is what is left of an index by sizes, as the channel of an element: what that is divided by is at
    most as many as there are."""
    e = spelled_out(e, sources)
    return isinstance(e, Binary) and e.op == "%" and bool(used(e.b)) and _of_parameters(e.b, params, sources)


def _moduli(k: Kernel, sources: Mapping[Sym, list[Expr]]) -> set[str]:
    """What remainders are taken by: the width of ``i % (height * width) / width`` and of ``place % width`` is a
    dimension, and no part of one."""
    taken = (e.b for e in all_exprs(k.body) if isinstance(e, Binary) and e.op == "%")
    return {x.sym.name for e in taken for x in made_of([e], sources, places=False) if isinstance(x, Var)}


def _numbers_a_block(e: Expr, k: Kernel, sources: Mapping[Sym, list[Expr]], of_host: bool = False) -> bool:
    """Whether ``e`` is made of the number of a block: ``blockIdx.x / group`` where each block has a row of its own.
    ``of_host``: of which there are as many as only the host knows, ``blockIdx.x / beams`` where there is a block for
    each beam."""
    indices = {(x.level, x.axis) for x in made_of([e], sources, places=False) if isinstance(x, HwIndex)}
    if k.launch is None or not indices or any(level != "block" for level, _ in indices):
        return False
    host = {p.sym for p in k.params if p.host or not of_host}
    return all(used(n) & host for n, axis in zip(k.launch.grid, "xyz") if ("block", axis) in indices)


def _is_integer(p: Param) -> bool:
    return isinstance(p.sym.type, Scalar) and p.sym.type.is_int and p.sym.type.kind != "bool"


def _with_compared(some: set[str], tied: Mapping[str, str]) -> frozenset[str]:
    """``some`` names with those that they are taken off from: ``last_level - level``."""
    texts = [t for t in tied.values() if " - " in t and {*names_in(t)} & some]
    return frozenset(some.union(*(names_in(t) for t in texts)))


def _of_device(integers: Iterable[Param]) -> dict[str, int]:
    """The host's numbers that say, by their names, how many multiprocessors the device has."""
    words = {p.sym.name: {*words_of(p.sym.name)} for p in integers if p.host}
    return {n: MULTIPROCESSORS for n, said in words.items() if said & _MULTIPROCESSOR and said & _HOW_MANY}


def _fixed(k: Kernel, integers: Iterable[Param]) -> dict[str, int]:
    """What the launch passes a constant for; extents of the block that only the launcher knows, or nobody in the body
    uses: block_size of a benchmark."""
    if k.launch is None:
        return {}
    inside = {s for e in all_exprs(k.body) for s in used(e)}
    mine = {p.sym for p in integers if p.host or p.sym not in inside}
    axes = {s: a for a, e in zip("xyz", k.launch.block) for s in block_sizes(e, k.launch.grid) if s in mine}
    chosen = [*axes]
    names = {p.sym.name for p in (*integers, *k.params) if p in integers or p.sym.type == BOOL}
    passed = {n: int(v) for n, v in k.launch.given if n in names}
    told = block_extents(k) if chosen else {}
    variable = sum(bool(used(e)) for e in k.launch.block)
    limits = dict(zip("xyz", MAX_BLOCK))
    usual = {a: min(BLOCK_EXTENTS[variable], limits[a]) for a in (axes[s] for s in chosen)}
    others = math.prod(int(evaluate(e, {}) or 1) for e in k.launch.block if not used(e))
    block = fitting(usual, {a: n for a, n in told.items() if a in usual}, max(most_threads(k) // others, 1))
    return {s.name: block[axes[s]] for s in chosen} | passed


def shaping(k: Kernel) -> set[Sym]:
    """Everything that an index, a loop's range, a guard or the launch depends on, through variables."""
    wanted: list[Expr] = [] if k.launch is None else [*k.launch.grid, *k.launch.block]
    if k.launch is not None and k.launch.dynamic_shared is not None:
        wanted.append(k.launch.dynamic_shared)
    for s in walk(k.body):
        wanted += s.index if isinstance(s, Store | Atomic) else ()
        wanted += (*s.src_index, *s.dst_index) if isinstance(s, AsyncCopy) else ()
        for e in stmt_exprs(s):
            wanted += [i for x in walk_expr(e) if isinstance(x, Load) for i in x.index]
        if isinstance(s, For):
            wanted += [s.init, s.cond, s.step]
    wanted += [
        x for e in _conditions(k) for x in walk_expr(e) if isinstance(x, Binary) and x.op in COMPARISONS and _ranges(x)
    ]
    return reached(k, wanted)


def _conditions(k: Kernel) -> Iterator[Expr]:
    """What decides whether something is done or read, and what the variables in it stand for: ``mine ? row[i] : 0``."""
    sources = definitions(k)
    for s in walk(k.body):
        conds = [s.cond] if isinstance(s, If | While) else []
        for x in (x for e in stmt_exprs(s) for x in walk_expr(e) if isinstance(x, Select)):
            conds += [x.cond] if any(isinstance(y, Load) for a in (x.a, x.b) for y in walk_expr(a)) else []
        for cond in conds:
            yield cond
            truths = [x.sym for x in walk_expr(cond) if isinstance(x, Var) and x.sym.type == BOOL]
            yield from (e for t in truths for e in sources.get(t, ()))


def _ranges(e: Binary) -> bool:
    """Whether a comparison relates two variable things: with a constant it rather chooses a way."""
    return bool(_places(e.a)) and bool(_places(e.b))


def _places(e: Expr) -> bool:
    return any(isinstance(x, Var | HwIndex) for x in walk_expr(e))


def access_role(p: Param, k: Kernel) -> str:
    """in | out | inout, from the loads, stores and atomics of the body."""
    read, written = accessed(k)
    return "in" if p.sym not in written else "inout" if p.sym in read else "out"


@by_identity(8)
def accessed(k: Kernel) -> tuple[frozenset[Sym], frozenset[Sym]]:
    """The buffers and arrays that the body of ``k`` reads, and those that it writes; an atomic does both."""
    read, written = set[Sym](), set[Sym]()
    for s in walk(k.body):
        if isinstance(s, Store | Atomic):
            written.add(s.buffer)
            read |= {s.buffer} if isinstance(s, Atomic) else set()
        elif isinstance(s, AsyncCopy):
            written.add(s.dst)
            read.add(s.src)
        read |= {x.buffer for e in stmt_exprs(s) for x in walk_expr(e) if isinstance(x, Load)}
    return frozenset(read), frozenset(written)


def buffers_of(k: Kernel) -> list[Param]:
    """The parameters that a caller passes an array for."""
    return [p for p in k.params if isinstance(p.sym.type, Ptr) and p.scratch is None]


def lanes_of(p: Param) -> int:
    """How many scalars an element of a buffer has: 4 of a ``float4``. Shapes count scalars."""
    t = p.sym.type
    return t.elem.n if isinstance(t, Ptr) and isinstance(t.elem, Vec) and isinstance(t.elem.n, int) else 1
