"""Parameters that say how large a window around an element is, how far apart windows are and where they begin.

    par y, x                                                            size: taps of the window
      for l in 0..size                                                  stride: from one element's window to the next's
        for m in 0..size                                                pad: where the first window begins
          s += in[(y * stride + l - pad) * w + x * stride + m - pad]

A program has few filters, of a few sizes each, and calls a kernel with them over and over. Once the numbers are known,
loops over taps can be written out, neighbours share what they read, and rows begin where wide accesses may:
``specialize`` makes a kernel of one size. So are loops over a tensor's dimensions, of which there are few.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ktc.ir.analysis.access_nests import Access, Axis, accesses
from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.polynomial import minus, polynomial, times
from ktc.ir.fold import evaluate, i32
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Expr, For, Load, Select, Store, Sym, Var
from ktc.ir.storage import is_local_array
from ktc.ir.types import Scalar
from ktc.ir.walk import all_exprs, stmt_exprs, used, walk, walk_expr
from ktc.passes.shared.serial_sums import counted_to

from .written_out import divides_by_elements

MOST_TAPS = 16
"""Turns of a loop over taps: longer ones gain little from a number that is known."""

Sizes = Mapping[str, int | float]
"""What a call passes for scalar parameters, by name."""


def tap_counts(kernel: Kernel, sizes: Sequence[Sizes]) -> dict[str, dict[str, int]]:
    """Short serial loops of ``kernel``, in parallel form, by name: parameters that say how often each goes round, if
    any do, with their values, where these are the same at all ``sizes``."""
    fixed = _fixed(kernel, sizes)
    out: dict[str, dict[str, int]] = {}
    for loop in (x for a in accesses(kernel) for x in a.axes if x.kind == "for" and x.trip is not None):
        turns = None if loop.trip is None else _number(loop.trip, fixed)
        if loop.trip is not None and turns is not None and 1 <= turns <= MOST_TAPS:
            out[loop.name] = {v.name: fixed[v] for v in used(loop.trip)}
    return out


def window_sizes(kernel: Kernel, counts: Mapping[str, Mapping[str, int]], sizes: Sequence[Sizes]) -> dict[str, int]:
    """Parameters of windows in ``kernel``, in which those in ``counts``, of loops by name (:func:`tap_counts`), are
    bound: they, and others with one value at all ``sizes``."""
    fixed = _fixed(kernel, sizes)
    found: dict[str, int] = {}
    all_accesses = accesses(kernel)
    results = {
        x.name for a in all_accesses if a.mode == "write" and a.space == "global" for x in a.axes if a.moves(x.name)
    }
    for a in all_accesses:
        around = [x for x in a.axes if x.kind == "par" or x.name in results]  # a thread may have several elements
        for loop in (x for x in a.axes if x.kind == "for" and x.name in counts):
            step = _step(a, loop, around, fixed)
            turns = None if loop.trip is None else _number(loop.trip, fixed)
            if step is None or turns is None or any(v.name in counts[loop.name] for v in used(step)):
                continue  # rows of as many elements lie side by side
            if (_number(step, fixed) or 0) <= turns:
                found |= {**counts[loop.name], **{s.name: fixed[s] for s in {*used(step), *_offsets(a, fixed)}}}
    return dict(sorted(found.items()))


def clip_sizes(kernel: Kernel, sizes: Sequence[Sizes]) -> dict[str, int]:
    """Small parameters with one value at all ``sizes`` that say between which ends serial loops of ``kernel`` run, by
    quotients or choices: windows over a place, in the gradients of windows, are so long and so far apart."""
    fixed, names = _fixed(kernel, sizes), definitions(kernel.body)
    ends = (e for s in walk(kernel.body) if isinstance(s, For) for e in (s.init, counted_to(s)) if e is not None)
    chosen = (e for e in (expand(end, names) for end in ends) if any(_is_chosen(x) for x in walk_expr(e)))
    return dict(sorted((v.name, fixed[v]) for e in chosen for v in used(e) if 0 <= fixed.get(v, -1) <= MOST_TAPS))


def _is_chosen(e: Expr) -> bool:
    return isinstance(e, Select) or (isinstance(e, Binary) and e.op == "/")


def ranks(kernel: Kernel, sizes: Sequence[Sizes]) -> dict[str, int]:
    """Small parameters with one value at all ``sizes`` that say how many dimensions a tensor of ``kernel`` has: how far
    serial loops go through arrays of a thread's own, filled with extents and strides, or which of their elements is
    the last; or how many elements of a buffer they divide by. Where they are known, the arrays are names, and what is
    divided by is the same in all iterations.

    Arrays that are filled with one number at all ``sizes`` say nothing of a tensor, and their digits by themselves are
    never tested; so they are left alone.
    """
    fixed, names = _fixed(kernel, sizes), definitions(kernel.body)
    own = {b for b, filled in _fills(kernel).items() if any(_differ(filled, at) for at in sizes)}
    found: set[Sym] = set()
    for s in walk(kernel.body):
        places = (
            i for e in stmt_exprs(s) for x in walk_expr(e) if isinstance(x, Load) and x.buffer in own for i in x.index
        )
        found |= {v for i in places for v in used(expand(i, names))}
        if isinstance(s, For) and (_goes_through(s, own) or divides_by_elements(s)):
            found |= {v for e in (s.init, s.cond) for v in used(expand(e, names))}
    return {v.name: fixed[v] for v in sorted(found, key=lambda v: v.name) if 1 <= fixed.get(v, 0) <= MOST_TAPS}


def _goes_through(loop: For, arrays: set[Sym]) -> bool:
    """Whether each round of ``loop`` reads another element of one of ``arrays``."""
    return any(x.buffer in arrays and loop.var in used(i) for x in _loads(loop) for i in x.index)


def _fills(kernel: Kernel) -> dict[Sym, list[Expr]]:
    """What is stored to each array of a thread's own."""
    out: dict[Sym, list[Expr]] = {}
    for s in walk(kernel.body):
        if isinstance(s, Store) and is_local_array(s.buffer):
            out.setdefault(s.buffer, []).append(s.value)
    return out


def _differ(filled: Sequence[Expr], at: Sizes) -> bool:
    """Whether what an array is filled with is several numbers at the sizes ``at``."""
    values = {evaluate(e, {k: v for k, v in at.items() if isinstance(v, int)}) for e in filled}
    return len(values - {None}) > 1


def _loads(loop: For) -> Iterator[Load]:
    return (x for x in all_exprs(loop.body) if isinstance(x, Load))


def _fixed(kernel: Kernel, sizes: Sequence[Sizes]) -> dict[Sym, int]:
    """Integer parameters that a call may be asked about and that have one value at all ``sizes``."""
    out: dict[Sym, int] = {}
    for p in kernel.params:
        values = {at.get(p.sym.name) for at in sizes}
        value = values.pop() if len(values) == 1 else None
        if isinstance(p.sym.type, Scalar) and p.sym.type.is_int and not p.host and value is not None:
            out[p.sym] = int(value)
    return out


def _number(e: Expr, fixed: Mapping[Sym, int]) -> int | None:
    """The value of ``e``, if it is made of parameters in ``fixed``."""
    value = evaluate(e, {s.name: n for s, n in fixed.items()}) if used(e) <= fixed.keys() else None
    return None if value is None else int(value)


def _step(a: Access, loop: Axis, around: Sequence[Axis], fixed: Mapping[Sym, int]) -> Expr | None:
    """How many turns of ``loop`` take ``a`` as far as the next iteration of another loop of ``around``, or how many
    such iterations as far as a turn does: one, or a parameter; None where neither does."""
    turn = a.strides.get(loop.name)
    if turn is None or not polynomial(turn):
        return None
    steps: list[Expr] = [i32(1), *map(Var, fixed)]
    near = polynomial(turn)
    ways = near, minus({}, near)  # windows of gradients run backwards
    others = [polynomial(s) for x in around if x.name != loop.name and (s := a.strides.get(x.name)) is not None]
    apart = (n for far in others for way in ways for n in steps if not minus(far, times(way, polynomial(n))))
    dilated = (n for far in others if far for way in ways for n in steps if not minus(way, times(far, polynomial(n))))
    return next((n for several in (apart, dilated) for n in several), None)


def _offsets(a: Access, fixed: Mapping[Sym, int]) -> set[Sym]:
    """Parameters in the place of the first element of ``a`` that are small, and no sizes of its rows."""
    sizes = {s for e in a.strides.values() if e is not None for s in used(e)}
    placed = used(a.rest) if a.rest is not None else set()
    return {s for s in placed - sizes if abs(fixed.get(s, MOST_TAPS + 1)) <= MOST_TAPS}


__all__ = ["clip_sizes", "ranks", "tap_counts", "window_sizes"]
