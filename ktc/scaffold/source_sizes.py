"""Sizes that are constants of the source, ``constexpr int N = 10000``, as parameters while a kernel is looked at.

A kernel whose loops or whose launch are as long as a constant says cannot be run often, and one run shows nothing that
grows. Its probes take a parameter in place of each such constant; what buffers need at the constant follows.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from math import prod

from ktc.ir.fold import cdiv, evaluate, simplify
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Const, Decl, Expr, Var
from ktc.ir.types import Array
from ktc.ir.walk import used, walk
from ktc.passes.raising.check.constant_sizes import LONG, bounds, rounds, with_sizes
from ktc.passes.raising.check.small_launches import least_statements

from .largest_index import Largest
from .model import Draft
from .probing.probe_sizes import MOST_THREADS, ProbeSizes
from .roles import roles_of
from .shapes import Extent, value_of
from .windows import names_in

_NAMED = re.compile(r"'size_(\d+)': (\d+)")
"""A constant as a size, as it is shown with its value in a probe."""

MOST_WORK = 1 << 28
"""Statements of all threads of a launch from which on their number is looked at, too: probes take seconds there."""


def opened(k: Kernel) -> tuple[Kernel, dict[str, int]]:
    """``k`` with a parameter for each constant of its source, or that it is passed, which makes runs long, and these
    constants by name."""
    if k.launch is None:
        return k, {}
    if (numbers := _of_the_grid(k)) and not ProbeSizes(k, roles_of(k)).sizes():
        left = tuple((name, n) for name, n in k.launch.given if name not in numbers)
        return k.with_(launch=dataclasses.replace(k.launch, given=left)), numbers
    if _threads(k) > MOST_THREADS:
        said = {*bounds(k)}
        found = with_sizes(k, said)
        if _threads(k if found is None else found[0]) > MOST_THREADS:  # no guard says why there are so many
            found = with_sizes(k, said | {int(n) for n in _numbers(k)[:3] if n is not None and n > 1})
    elif (length := least_statements(k)) > LONG:
        open_grid, passed = _passed(k)
        if passed:
            return open_grid, passed
        tiles = _tiles(k)
        many = {*bounds(k)} if _threads(k) * length > MOST_WORK else set()
        found = with_sizes(k, many | {n for n in rounds(k) if all(t % n for t in tiles)})
    else:
        return k, {}
    if found is None:
        return k, {}
    form, sizes = found
    return form, {s.name: int(n.value) for s, n in sizes.items() if isinstance(n, Const)}


def _of_the_grid(k: Kernel) -> dict[str, int]:
    """The numbers that the launch passes and that its grid is made of, by the parameters' names."""
    assert k.launch is not None
    made_of = {s.name for e in k.launch.grid for s in used(e)}
    return {name: int(n) for name, n in k.launch.given if name in made_of}


def _passed(k: Kernel) -> tuple[Kernel, dict[str, int]]:
    """``k`` with a grid that covers the numbers that it is passed, where it does, and these numbers by name."""
    assert k.launch is not None
    params, open_ = {p.sym.name: p.sym for p in k.params}, dict[str, int]()
    grid = list(k.launch.grid)
    for axis, (blocks, threads) in enumerate(zip(_numbers(k)[:3], _numbers(k)[3:])):
        for name, n in k.launch.given:
            if threads and blocks and blocks > 1 and name in params and blocks in (n, -(-n // threads)):
                size = Var(params[name])
                grid[axis] = size if blocks == n else simplify(cdiv(size, k.launch.block[axis]))
                open_[name] = int(n)
    left = tuple((name, n) for name, n in k.launch.given if name not in open_)
    return k.with_(launch=dataclasses.replace(k.launch, grid=tuple(grid), given=left)), open_  # type: ignore[arg-type]


def _tiles(k: Kernel) -> set[int]:
    """Extents of blocks and of the kernel's own arrays. What these are multiples of is part of a problem of any
    size."""
    arrays = [s.sym.type for s in walk(k.body) if isinstance(s, Alloc | Decl) and isinstance(s.sym.type, Array)]
    extents = [evaluate(n, k.knob_values) if isinstance(n, Expr) else n for t in arrays for n in t.shape]
    return {int(n) for n in (*extents, *_numbers(k)[3:]) if n is not None and n > 1}


def _numbers(k: Kernel) -> list[int | None]:
    """The extents of the grid and of a block, None for those that are no numbers."""
    extents = () if k.launch is None else (*k.launch.grid, *k.launch.block)
    values = [evaluate(e, k.knob_values) for e in extents]
    return [None if v is None else int(v) for v in values]


def _threads(k: Kernel) -> int:
    """Of a launch that is made of numbers; 0 for any other."""
    numbers = [n for n in _numbers(k) if n is not None]
    return prod(numbers) if len(numbers) == 6 else 0


def closed(d: Draft, whole: Kernel) -> None:
    """Give the draft of an opened kernel the constants of ``whole``, as which it was opened."""
    given, d.kernel = d.given, whole
    if not given:
        return
    d.doubts = [_NAMED.sub(lambda m: f"{m[2]} for {m[1]}", x) for x in d.doubts]
    told = Largest(whole, {}).extents_of()
    for b, e in d.shapes.items():
        if e is not None:
            d.shapes[b] = shape = _with_numbers(e, _rounded(d, given))
            said = {p.get((), 0) for p in told.get(b, ()) if not {*p} - {()}}
            if not shape.factors and said and max(said) != shape.value({}):
                d.shapes[b] = dataclasses.replace(shape, exact=False, loose=2.0)
    d.ties = {n: _at(v, given) if isinstance(v, str) else v for n, v in d.ties.items()}
    params = {p.sym.name for p in whole.params}
    fixed = {**d.roles.fixed, **{n: v for n, v in given.items() if n in params}}
    d.roles = dataclasses.replace(d.roles, sizes=tuple(n for n in d.roles.sizes if n not in given), fixed=fixed)
    d.scenarios = [(name, {n: v for n, v in s.items() if n not in given}, more) for name, s, more in d.scenarios]
    for known in (d.steps, d.least, d.most):
        for n in given:
            known.pop(n, None)


def _rounded(d: Draft, given: Mapping[str, int]) -> dict[str, int]:
    """The constants; where only multiples of something are in bounds, the next one, which the launch reaches."""
    return {n: -(-v // step) * step for n, v in given.items() for step in (d.steps.get(n, 1),)}


def _with_numbers(e: Extent, given: Mapping[str, int]) -> Extent:
    factors = [_at(f, given) for f in e.factors]
    if any(isinstance(f, str) for f in factors):
        return dataclasses.replace(e, factors=tuple(map(str, factors)))
    whole = dataclasses.replace(e, factors=tuple(map(str, factors))).value({})
    return dataclasses.replace(e, factors=(), times=whole, over=1, plus=0)


def _at(text: str, given: Mapping[str, int]) -> str | int:
    """``text`` with the constants; its value if nothing else is in it."""
    known = re.sub(r"[A-Za-z_]\w*", lambda m: str(given.get(m[0], m[0])), text)
    return known if names_in(known) else value_of(known, {})


__all__ = ["closed", "opened"]
