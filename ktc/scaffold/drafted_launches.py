"""A launch for a kernel whose source shows none: a usual block, and a grid that the guards ask for."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fields import children
from ktc.ir.fold import evaluate, is_const
from ktc.ir.kernel import Kernel, Launch, Param
from ktc.ir.nodes import Assign, Binary, Call, Decl, Expr, For, HwIndex, If, Load, Sym, Var, While, fresh, i32
from ktc.ir.sequences import launch_extents
from ktc.ir.types import I32, Scalar
from ktc.ir.walk import all_exprs, stmt_exprs, used, walk, walk_expr
from ktc.ir.workload import LaunchSpec, size_expressions
from ktc.ir.workload.relaunch import launched
from ktc.passes.raising.check import constant_sizes

from .extents.factors import factors_of
from .extents.numbered_blocks import row_of_blocks, shared_out
from .given_values import definitions, spelled_out
from .host_steps import orderings
from .indices import Indices, block_extents, fitting, most_threads
from .roles import DYNAMIC_SHARED
from .windows import spelled

if TYPE_CHECKING:
    from ktc.api import Program

BLOCKS = {1: (256, 1, 1), 2: (32, 8, 1), 3: (32, 4, 2)}
"""Block shapes by how many axes of threads the kernel uses, where its indices do not tell."""


def _end_at_numbers(k: Kernel, block: dict[str, int]) -> bool:
    """Whether indices that blocks make are compared with numbers: the source has a size, which is a constant."""
    indices = Indices(k, block)
    for c in all_exprs(k.body):
        if isinstance(c, Binary) and c.op in ("<", "<=", ">", ">="):
            for index, bound in ((c.a, c.b), (c.b, c.a)):
                if indices.in_rows(index) and evaluate(spelled_out(bound, indices.sources), k.knob_values) is not None:
                    return True
    return False


MANY_THREADS = 1 << 16
"""Of a launch at all sizes of a workload: more than are run often."""


HUGE = 1 << 23
"""Threads of a launch, more than which are never run to check a candidate: a loop that any number of blocks shares out
gets a grid that follows its size."""


def needs_launch(k: Kernel) -> str:
    """Why a launch has to be guessed: the source has none, or one of so many blocks, for one size. '' if not."""
    if k.launch is None:
        return "the source has no <<<>>> of this kernel that can be followed to its sizes"
    fixed = not any(used(e) for e in k.launch.grid) and any(not is_const(e, 1) for e in k.launch.grid)
    threads = math.prod(int(evaluate(e, {}) or 1) for e in (*k.launch.grid, *k.launch.block))
    shared_out = strides_by_grids(k) or _strides_by(k, threads)
    bounds = _bounds(k, _block(k, set("xyz"))) if fixed and (threads > HUGE or not shared_out) else ()
    if any(each > 1 for _, (_, each) in bounds):
        return "the source launches a fixed number of blocks; this grid follows the guards"
    return ""


def strides_by_grids(k: Kernel) -> bool:
    """Whether the body asks how many blocks there are: it goes on until all is done, and any number of them will do.

    Blocks that are only counted row by row, ``blockIdx.x + blockIdx.y * gridDim.x``, do not go on.
    """
    return bool(strided_axes(k))


def strided_axes(k: Kernel) -> set[str]:
    """The axes of the grid along which blocks go on until all is done."""
    return {axis for s in walk(k.body) for e in stmt_exprs(s) for axis in _strides(e)}


def _strides_by(k: Kernel, threads: int) -> bool:
    """Whether a loop goes on by a number that is that of the ``threads`` of the launch: with others it would do
    elements twice, or leave some out."""
    loops = [s for s in walk(k.body) if isinstance(s, For)]
    steps = [without_casts(s.step) for s in loops]
    by = [x for e in steps if isinstance(e, Binary) and e.op == "+" for x in (e.a, e.b)]
    return any(evaluate(x, k.knob_values) == threads for x in by)


def _strides(e: Expr) -> set[str]:
    """The axes of the extents of the grid in ``e`` that count no rows of blocks."""
    parts = children(e)
    if isinstance(e, Binary) and e.op == "*" and any(_is_level(x, "block") for x in factors_of(e)):
        parts = [x for x in factors_of(e) if not _is_level(x, "grid_dim")]
    found = {axis for x in parts for axis in _strides(x)}
    return {*found, e.axis} if isinstance(e, HwIndex) and e.level == "grid_dim" else found


def _is_level(e: Expr, level: str) -> bool:
    return isinstance(e, HwIndex) and e.level == level


CAP = 1 << 30
"""Numbers of blocks from which on a limit of a launch is that of all devices, and nothing that is tuned for."""


def capped(k: Kernel) -> set[Sym]:
    """What the launch compares with a number of blocks that no device has: ``min(rows, 2147483647)``."""
    out = set[Sym]()
    for e in (x for whole in launch_extents(k) for x in walk_expr(whole)):
        sides = e.args if isinstance(e, Call) and e.fn in ("min", "max") else ()
        if any((evaluate(x, {}) or 0) >= CAP for x in sides):
            out |= {s for x in sides for s in used(x)}
    return out


def smaller(k: Kernel, most: int) -> list[Kernel]:
    """``k`` in two launches of at most ``most`` threads, of which one has twice the blocks of the other; none where
    its launch depends on sizes, is no larger, or the body does not ask how many blocks there are."""
    extents = () if k.launch is None else (*k.launch.grid, *k.launch.block)
    numbers = [evaluate(e, {}) for e in extents]
    if k.launch is None or not strides_by_grids(k) or not all(isinstance(n, int) and n > 0 for n in numbers):
        return []
    grid, threads = [int(n or 1) for n in numbers[:3]], math.prod(int(n or 1) for n in numbers[3:])
    if math.prod(grid) * threads <= most:
        return []
    while 2 * math.prod(grid) * threads > most and max(grid) > 1:
        widest = grid.index(max(grid))
        grid[widest] = (grid[widest] + 1) // 2
    twice = list(grid)
    twice[grid.index(max(grid))] *= 2
    return [
        k.with_(launch=dataclasses.replace(k.launch, grid=tuple(i32(n) for n in g)))  # type: ignore[arg-type]
        for g in (grid, twice)
    ]


def with_launch(program: Program) -> tuple[Program, str]:
    """``program`` with a launch, and that launch as text where it had to be guessed from the guards."""
    if program.kernel.launch is not None or program.kernel.is_parallel:
        return program, ""
    kernel, spec = guessed(program.kernel)
    grid, block = (", ".join(x) for x in (spec.grid, spec.block))
    return dataclasses.replace(program, kernel=kernel, original=kernel), f"grid ({grid}), block ({block})"


def guessed(k: Kernel) -> tuple[Kernel, LaunchSpec]:
    """``k`` with a launch, and that launch as a workload's text. Axes that no guard bounds get a size of their own."""
    hardware = {x for x in all_exprs(k.body) if isinstance(x, HwIndex)}
    block = _block(k, {"x"} | {x.axis for x in hardware if x.level == "thread"})
    grid = dict.fromkeys("xyz", "1")
    bounds = dict(_bounds(k, block))
    idle = [p.sym.name for p in k.params if _idle(p, k)]
    params = list(k.params)
    for axis in sorted(x.axis for x in hardware if x.level == "block"):
        if axis in bounds:
            bound, each = bounds[axis]
            grid[axis] = f"cdiv({bound}, {each})" if each > 1 else bound
            continue
        if row := row_of_blocks(k, axis):
            grid[axis] = row
            continue
        name = idle.pop(0) if idle else f"blocks_{axis}"
        each_text = shared_out(k, axis)
        grid[axis] = f"{name} * {each_text}" if each_text else name
        if all(p.sym.name != name for p in params):
            params.append(Param(fresh(name, I32), host=True, range=(1, 1 << 20)))
    dynamic = any(getattr(s, "dynamic", False) for s in walk(k.body))
    shared = str(DYNAMIC_SHARED) if dynamic else "0"
    if k.launch is not None and k.launch.dynamic_shared is not None:
        shared = str(evaluate(k.launch.dynamic_shared, {}) or shared)
    spec = LaunchSpec(tuple(grid[a] for a in "xyz"), tuple(str(block[a]) for a in "xyz"), shared)
    symbols: dict[str, Expr] = {p.sym.name: Var(p.sym) for p in params if _integer(p)}
    gx, gy, gz = (size_expressions.to_ir(grid[a], symbols) for a in "xyz")
    bx, by, bz = (i32(block[a]) for a in "xyz")
    extents = {name: block[axis] for name, axis in of_the_block(k).items()}
    launch = Launch((gx, gy, gz), (bx, by, bz), i32(int(shared)) if dynamic else None, given=tuple(extents.items()))
    return launched(k.with_(params=tuple(params)), launch), spec


def of_the_block(k: Kernel) -> dict[str, str]:
    """Integer parameters that stand for the number of threads of a block, with its axis: they take the place of that
    in ``blockIdx.x * size + threadIdx.x``, or in ``for (i = threadIdx.x; i < n; i += size)``."""
    sources, params = definitions(k), {p.sym for p in k.params if _integer(p) and not p.host}
    steps = [(s.init, s.step, "+") for s in walk(k.body) if isinstance(s, For)]
    sums = [e for e in all_exprs(k.body) if isinstance(e, Binary) and e.op == "+"]
    places = [(a, b, "*") for e in sums for a, b in ((e.a, e.b), (e.b, e.a))]
    found: dict[str, str] = {}
    for thread, other, op in (*places, *steps):
        axis = _axis(spelled_out(thread, sources), "thread")
        other = spelled_out(other, sources)
        if not axis or not isinstance(other, Binary) or other.op != op:
            continue
        for x, size in ((other.a, other.b), (other.b, other.a)):
            size = without_casts(size)
            if (
                isinstance(size, Var)
                and size.sym in params
                and (op == "+" or _axis(spelled_out(x, sources), "block") == axis)
            ):
                found.setdefault(size.sym.name, axis)
    return found


def _axis(e: Expr, level: str) -> str:
    """The axis of a hardware index of ``level``; '' of anything else."""
    return e.axis if isinstance(e, HwIndex) and e.level == level else ""


def counted(k: Kernel) -> tuple[Kernel, LaunchSpec, dict[str, int]] | None:
    """``k`` with a size for each number of blocks of a large launch that is made of numbers, where no guard says what
    they cover; that launch as a workload's text; and the numbers by size. None for any other launch.

    What blocks do depends on where they are, not on how many there are. As a size their number has small values too,
    at which candidates can be run.
    """
    if k.launch is None or strides_by_grids(k):
        return None
    shared = k.launch.dynamic_shared
    numbers = [evaluate(e, {}) for e in (*k.launch.grid, *k.launch.block, *(() if shared is None else (shared,)))]
    if not all(isinstance(n, int) for n in numbers) or math.prod(map(int, numbers[:6])) <= MANY_THREADS:  # type: ignore[arg-type]
        return None
    block = _block(k, set("xyz"))
    open_ = {f"blocks_{a}": int(n or 1) for a, n in zip("xyz", numbers) if (n or 1) > 1}
    if any(f"blocks_{axis}" in open_ for axis, _ in _bounds(k, block)) or _end_at_numbers(k, block):
        return None
    threads = {n * m for n, m in zip(numbers[:3], numbers[3:6]) if n and m and n > 1}
    if threads & {*constant_sizes.bounds(k)}:
        return None  # a thread for each of what loops go through: a constant of the source is the size
    sizes = {name: fresh(name, I32) for name in open_}
    grid = [Var(sizes[f"blocks_{a}"]) if f"blocks_{a}" in sizes else e for a, e in zip("xyz", k.launch.grid)]
    params = (*k.params, *(Param(s, host=True, range=(1, 1 << 20)) for s in sizes.values()))
    launch = dataclasses.replace(k.launch, grid=tuple(grid))  # type: ignore[arg-type]
    texts = [f"blocks_{a}" if f"blocks_{a}" in sizes else "1" for a in "xyz"]
    spec = LaunchSpec(tuple(texts), tuple(str(block[a]) for a in "xyz"), str(numbers[6]) if shared is not None else "0")
    return k.with_(params=params, launch=launch), spec, open_


def _integer(p: Param) -> bool:
    return isinstance(p.sym.type, Scalar) and p.sym.type.is_int


def _idle(p: Param, k: Kernel) -> bool:
    """An integer that the body does not use can only be meant for the launch."""
    return _integer(p) and not any(p.sym in used(e) for e in all_exprs(k.body))


def _block(k: Kernel, axes: set[str]) -> dict[str, int]:
    """Threads of a block by axis: the launch's, else what indices tell, else a usual shape."""
    if k.launch is not None and all(isinstance(evaluate(e, {}), int) for e in k.launch.block):
        return {a: int(evaluate(e, {}) or 1) for a, e in zip("xyz", k.launch.block)}
    usual = dict(zip("xyz", BLOCKS[3 if "z" in axes else 2 if "y" in axes else 1]))
    told = {a: n for a, n in block_extents(k).items() if a in axes}
    return fitting(usual, told, most_threads(k))


def _bounds(k: Kernel, block: dict[str, int]) -> Iterator[tuple[str, tuple[str, int]]]:
    """For axes of the grid: what the index made of it is compared with, and how many of it a block takes."""
    for c in compared_with(k, block):
        yield c.axis, (c.text, c.each or (block[c.axis] if c.threads else 1))
        yield from ((axis, ("1", 1)) for axis in c.more)


@dataclasses.dataclass(frozen=True)
class Compared:
    """A guard on the index that an ``axis`` of the grid makes: the bound as text, how many of the index a block takes
    (``each``, None where that is no number; as a formula, ``each_text``, '' where it is none), whether threads of the
    axis are in it, whether the index may be the bound itself (``closed``), whether it is loaded (``data``), and along
    which axes there is ``more`` than one row of blocks in it."""

    axis: str
    text: str
    each: int | None
    each_text: str
    threads: bool
    closed: bool
    data: bool
    more: tuple[str, ...] = ()


def compared_with(k: Kernel, block: dict[str, int]) -> Iterator[Compared]:
    """What the indices that axes of the grid make are compared with, from above.

    The first comparison of the body comes last, so that a dict by axis keeps it.
    """
    indices = Indices(k, block)
    integers = {p.sym for p in k.params if _integer(p)}
    found: list[Compared] = []
    above = {(id(x.a), id(x.b)) for x in orderings(k.body)}
    for s in walk(k.body):
        if isinstance(s, Decl) and s.init is not None:  # a variable that is given again has its latest value
            indices.sources[s.sym] = [s.init]
        elif isinstance(s, Assign):
            indices.sources[s.sym] = [s.value]
        conditions = [s.cond] if isinstance(s, If | For | While) else list(stmt_exprs(s))
        for c in (x for e in conditions for x in walk_expr(e)):
            if not isinstance(c, Binary) or c.op not in ("<", "<=", ">", ">="):
                continue
            for index, bound in ((c.a, c.b), (c.b, c.a)):
                text = _spelled_bound(bound, integers, indices.sources)
                blocks = indices.in_rows(index)
                if (id(bound), id(index)) in above or text is None or text.isdigit() or not blocks:
                    continue
                each = indices.step(index, "block", blocks[0], rows=len(blocks) > 1)
                each = each if each is not None and each > 0 else None
                threads = any(x.level == "thread" and x.axis == blocks[0] for x in indices.hardware(index))
                each_text = str(each) if each else _step_text(index, blocks[0], integers, indices.sources)
                closed = c.op == ("<=" if index is c.a else ">=")
                data = any(isinstance(x, Load) for x in walk_expr(spelled_out(index, indices.sources)))
                found.append(Compared(blocks[0], text, each, each_text, threads, closed, data, blocks[1:]))
    yield from reversed(found)


def _spelled_bound(e: Expr, params: set[Sym], sources: Mapping[Sym, list[Expr]]) -> str | None:
    """``e`` as a formula over ``params``: of a minimum, as where a block's part ends, ``min(first + part, n)``, what of
    it is one."""
    text = spelled(e, params, sources)
    least = spelled_out(e, sources)
    if text is None and isinstance(least, Call) and least.fn == "min":
        return next((t for x in least.args if (t := spelled(x, params, sources)) is not None), None)
    return text


def _step_text(e: Expr, axis: str, params: set[Sym], sources: Mapping[Sym, list[Expr]]) -> str:
    """What the block's index along ``axis`` is multiplied by in the sum ``e``, as a formula over ``params``; '' if that
    is no single one."""
    e = without_casts(e)
    match e:
        case Var(s) if len(sources.get(s, ())) == 1:  # not once more within what it is given: i = i + blockIdx.x * 32
            return _step_text(sources[s][0], axis, params, {v: given for v, given in sources.items() if v != s})
        case Binary("+" | "-" as op, a, b):
            found = [t for x in ((a, b) if op == "+" else (a,)) if (t := _step_text(x, axis, params, sources))]
            return found[0] if len(found) == 1 else ""
        case Binary("*", a, b):
            for x, y in ((a, b), (b, a)):
                block = spelled_out(x, sources)
                if isinstance(block, HwIndex) and (block.level, block.axis) == ("block", axis):
                    return spelled(y, params, sources) or ""
    return ""
