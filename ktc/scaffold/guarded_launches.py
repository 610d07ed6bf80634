"""Numbers of the host that nothing but a grid is made of: a draft has as many blocks as the guards ask for.

``n`` of ``join<<<(n + 255) / 256, 256>>>(a, b, o, rows, cols)`` with ``if (i >= rows * cols) return`` is
``rows * cols``, even where the host computes it in a way that is not followed. As a size of its own it would leave most
elements to nobody, or most threads without work, and shapes would follow it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from ktc.ir.arith.counted_loops import loop_step
from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Expr, For, HwIndex, Sym, Var
from ktc.ir.walk import all_exprs, used, walk
from ktc.ir.workload import size_expressions
from ktc.passes.shared.loop_bounds import upper_bound

from .drafted_launches import compared_with, strided_axes
from .indices import SIZES, Indices, block_sizes
from .roles import Roles
from .windows import names_in, spelled


def guarded(k: Kernel, roles: Roles, written: Collection[str] = ()) -> Roles:
    """``roles`` with the host's numbers tied that make one extent of the grid and nothing else, each to what the guards
    say that it is; along axes where any number of blocks will do, those that the source has not ``written`` down."""
    strided = strided_axes(k)
    ties, apart = _counts(k, roles, strided)
    ties |= _shared_out(k, roles, written, strided)
    sizes = tuple(n for n in roles.sizes if n not in ties)
    return replace(roles, sizes=sizes, tied={**roles.tied, **ties}, apart=tuple(dict.fromkeys(apart)))


def _shared_out(k: Kernel, roles: Roles, written: Collection[str], strided: set[str]) -> dict[str, str]:
    """The same along the ``strided`` axes, where loops go over all blocks, however many there are: as many as give each
    iteration of the longest a thread. With fewer the source would be slower than its host launches it."""
    found: dict[str, str] = {}
    block = _block(k, roles)
    for axis, extent, count in _open(k, roles):
        if axis not in strided or count.name in written:
            continue
        ends, apart = _ends_over(k, axis, {*roles.sizes, *roles.tied, *roles.fixed} - {count.name}, block)
        each = apart or block.get(axis, 0)
        if not ends or each < 1:
            continue
        most = functools.reduce("max({}, {})".format, ends)
        if isinstance(without_casts(extent), Var):
            found[count.name] = f"cdiv({most}, {each})"
        elif _is(extent, count, roles.fixed, each):
            found[count.name] = most
    return found


def _ends_over(k: Kernel, axis: str, known: Collection[str], block: Mapping[str, int]) -> tuple[list[str], int]:
    """Where the loops end that go over the blocks along ``axis``: whose first iteration is that of a thread's number in
    the grid, or that count on by as much as all blocks do at a time; and how much one of them does, 0 where that is
    not said. No ends if one is elsewhere than at a formula over ``known``."""
    indices, params = Indices(k, block), {p.sym for p in k.params if p.sym.name in known}
    sources = indices.sources
    ends: list[str | None] = []
    each: set[int] = set()
    for s in (s for s in walk(k.body) if isinstance(s, For)):
        by = loop_step(s)
        steps = by is not None and HwIndex("grid_dim", axis) in indices.hardware(by)
        if steps or HwIndex("block", axis) in indices.hardware(s.init):
            end = upper_bound(s.cond, s.var)
            ends.append(spelled(end, params, sources) if end is not None else None)
        if steps and by is not None:
            apart = [indices.value(by, {("grid_dim", axis): n}, SIZES[0]) for n in (0, 1)]
            each |= {apart[1]} if apart[0] == 0 and apart[1] else set()
    told = list(dict.fromkeys(e for e in ends if e)) if all(ends) else []
    return told, each.pop() if len(each) == 1 else 0


def _open(k: Kernel, roles: Roles) -> Iterator[tuple[str, Expr, Sym]]:
    """The axes along which the grid's extent is made of one number of the host that nothing else is made of: with the
    extent and that number."""
    if k.launch is None:
        return
    own = [e for e in k.launch.block if isinstance(e, Var) or not block_sizes(e, k.launch.grid)]
    others = {s for e in (*own, *(e for _, e in k.launch.passed)) for s in used(e)}
    others |= {s for e in k.launch.block for s in block_sizes(e, k.launch.grid)}
    hosts = {p.sym for p in k.params if p.host and p.sym.name in roles.sizes} - others
    for axis, extent in zip("xyz", k.launch.grid):
        mine = used(extent) - {s for s in used(extent) if s.name in roles.fixed}
        shared = {s for a, e in zip("xyz", k.launch.grid) if a != axis for s in used(e)}
        if len(mine) == 1 and mine <= hosts - shared:
            yield axis, extent, next(iter(mine))


def _counts(k: Kernel, roles: Roles, strided: set[str]) -> tuple[dict[str, str], list[str]]:
    """The same along the other axes, and how far blocks are apart where that is computed."""
    if k.launch is None:
        return {}, []
    block = _block(k, roles)
    if len(block) < 3:
        return {}, []
    guards = list(compared_with(k, block))
    asked = {c.axis: c for c in guards if c.each_text}
    levels = ("block", "grid_dim")
    idle = set("xyz") - {e.axis for e in all_exprs(k.body) if isinstance(e, HwIndex) and e.level in levels}
    idle |= {axis for c in guards for axis in c.more}
    known = {*roles.sizes, *roles.tied, *roles.fixed}
    found: dict[str, str] = {}
    apart: list[str] = []
    for axis, extent, count in _open(k, roles):
        if axis in strided:
            continue
        c = asked.get(axis)
        if axis in idle and isinstance(extent, Var):  # no more than one row of blocks, and nothing done twice
            found[extent.sym.name] = "1"
            continue
        if c is None:
            continue
        names = {*names_in(c.text), *names_in(c.each_text)}
        if count.name in names or not names <= known:
            continue
        bound = _next(c.text) if c.closed else c.text
        if c.each is not None and _is(extent, count, roles.fixed, c.each):
            found[count.name] = bound
        elif _is(extent, count, roles.fixed, 1):
            apart += [c.each_text] if c.each is None else []
            each = c.each_text if c.each is not None else f"max({c.each_text}, 1)"  # nothing is divided by 0 or less
            found[count.name] = bound if c.each == 1 else f"cdiv({bound}, {each})"
    return found, apart


def _block(k: Kernel, roles: Roles) -> dict[str, int]:
    """The extents of a block that are numbers, by axis: the most of one that the host keeps below a number."""
    if k.launch is None:
        return {}
    capped = [[Var(s) for s in block_sizes(e, k.launch.grid)] for e in k.launch.block]
    extents = [most[0] if most else e for e, most in zip(k.launch.block, capped)]
    return {a: int(n) for a, e in zip("xyz", extents) if (n := evaluate(e, dict(roles.fixed))) is not None}


def most_apart(roles: Roles) -> dict[str, int]:
    """The sizes that the distance of blocks is a number less of, ``16 - 2 * border``, with the most that they may be
    for that to be at least 1."""
    most: dict[str, int] = {}
    for text in roles.apart:
        names = [*dict.fromkeys(names_in(text))]
        name = names[0] if len(names) == 1 else ""
        if name not in roles.sizes or _value_at(text, name, 1) < 1 or _value_at(text, name, FAR) >= 1:
            continue
        low, high = 1, FAR
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _value_at(text, name, middle) >= 1 else (low, middle)
        most[name] = min(low, most.get(name, low))
    return most


FAR = 1 << 16
"""More than blocks are threads apart."""


def _value_at(text: str, name: str, n: int) -> int:
    """The formula ``text`` over the one size ``name`` where that is ``n``."""
    return size_expressions.evaluate(text, {name: n})


def unfollowed(k: Kernel, roles: Roles) -> list[str]:
    """The host's numbers of blocks among ``roles.sizes`` of which neither the host's code nor the guards say what they
    are, although guards leave some threads without work: too few blocks leave elements to nobody."""
    if k.launch is None:
        return []
    block = {a: int(evaluate(e, dict(roles.fixed)) or 1) for a, e in zip("xyz", k.launch.block)}
    guarded = {c.axis for c in compared_with(k, block) if not c.data} - strided_axes(k)
    mine = {s.name for a, e in zip("xyz", k.launch.grid) if a in guarded for s in used(e)}
    return [n for n in roles.sizes if n in roles.counts & mine]


def _next(text: str) -> str:
    """``text + 1``."""
    less = LESS_ONE.fullmatch(text)
    return less[1] if less is not None else f"({text} + 1)"


LESS_ONE = re.compile(r"\(([A-Za-z_]\w*) - 1\)")


def _is(extent: Expr, count: Sym, known: Mapping[str, int], each: int) -> bool:
    """Whether ``extent`` is ``count`` over ``each``, rounded up, or one block more than that."""
    tried = [1, each, each + 1, 3 * each - 1, 7 * each + 1, 12 * each]
    made = [evaluate(extent, {**known, count.name: n}) for n in tried]
    return all(m is not None and 0 <= m - -(-n // each) <= 1 for n, m in zip(tried, made))


__all__ = ["guarded", "most_apart", "unfollowed"]
