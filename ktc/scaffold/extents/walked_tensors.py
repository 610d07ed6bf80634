"""Buffers that hold the extents and strides of tensors, as loops over their dimensions say (:mod:`.dimension_walks`).

A draft passes :data:`RANK` dimensions, each a size of its own, and strides of elements that lie one after the other, or
(:data:`REVERSED`) of those of the tensor with its dimensions in the opposite order: most such kernels ask which it is.
Of several tensors with strides of their own each may be in either order.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ktc.ir.analysis.defs import expand
from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, For, Load, Var
from ktc.ir.walk import initial_values, used, walk

from ..given_values import definitions, spelled_out
from ..roles import Roles
from ..windows import names_in
from .dimension_walks import RANK, Place, passed_arrays, steps_of, walks
from .kept_below import loads, products
from .spelled_strides import spelled_strides

UNKNOWN = -(1 << 62)
"""The place of an element that is not known."""

REVERSED = "reversed"
"""The size that is 0 where elements lie in the order of the dimensions, and 1 where in the opposite order; of a second
tensor :data:`REVERSED` and its number."""

TURNED = (("medium", "odd"), ("small", "odd"))
"""The scenarios in which elements of the first, and of a second, tensor lie in the opposite order."""

Scenario = tuple[str, dict[str, int], str]


@dataclass
class Tensors:
    """What all walks of a kernel together say: elements of ``listed`` buffers as formulas, the rank's parameters with
    their numbers, and what parameters are that an index stays below."""

    listed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)
    tied: dict[str, str] = field(default_factory=dict)
    sizes: list[str] = field(default_factory=list)


def with_dimensions(k: Kernel, roles: Roles) -> Roles:
    """``roles`` with what loops over dimensions say of buffers and sizes; as they are where there are none."""
    found = _tensors(k, roles)
    found.listed |= {b: x for b, x in spelled_strides(k) if b not in found.listed}
    if not found.listed and not found.tied:
        return roles
    gone = {*found.ranks, *found.tied}
    sizes = tuple(n for n in roles.sizes if n not in gone)
    flags = tuple(n for n in roles.flags if n not in gone)
    return replace(
        roles,
        sizes=(*sizes, *found.sizes),
        flags=flags,
        fixed={**{n: v for n, v in roles.fixed.items() if n not in found.tied}, **found.ranks},
        tied={**roles.tied, **found.tied},
        divisors=roles.divisors - gone,
        listed=found.listed,
    )


def with_orders(scenarios: Sequence[Scenario], roles: Roles) -> list[Scenario]:
    """``scenarios`` (name, sizes, more) with the order in which elements lie: reversed in every second, so that what a
    kernel does for either is seen and tuned."""
    texts = (*roles.tied.values(), *(text for listed in roles.listed.values() for text in listed))
    orders = sorted({n for text in texts for n in names_in(text) if n.split("_")[0] == REVERSED})
    turned = {n: TURNED[k % len(TURNED)] for k, n in enumerate(orders)}
    return [
        (name, {**sizes, **{n: int(name in at) for n, at in turned.items()}}, more) for name, sizes, more in scenarios
    ]


def _tensors(k: Kernel, roles: Roles) -> Tensors:
    """What the walks say, of buffers of which every element that the kernel asks for is said by one of them."""
    out, said = Tensors(), dict[Place, str]()
    found = walks(k)
    axes = {*_axes(k, {b for w in found for b, _ in w.dims})}
    listed = [w for w in found if not {*w.rank} & {*roles.tied, *roles.fixed, *axes}]
    groups = list(dict.fromkeys(w.dims for w in listed))
    orders = _orders(row[0] for w in listed for row in w.strides)
    for w in listed:
        prefix = "dim" if len(groups) == 1 else f"dim{groups.index(w.dims)}"
        names = [f"{prefix}_{d}" for d in reversed(range(len(w.dims)))]  # the innermost first, as the places are
        pitches = (x for row in w.strides for x in zip(row, _stride_texts(names, orders[row[0]])))
        for place, text in (*zip(w.dims, names), *pitches):
            if said.setdefault(place, text) != text:
                return Tensors()
        out.ranks |= w.rank
        out.tied |= dict.fromkeys(w.below, " * ".join(reversed(names)))
        for rows, place in w.rows:
            out.tied[rows] = " * ".join(n for at, n in [*zip(w.dims, names)][::-1] if at != place)
        out.sizes += [n for n in reversed(names) if n not in out.sizes]
    whole = {w.dims[0][0]: w.dims for w in listed if sorted(n for _, n in w.dims) == list(range(len(w.dims)))}
    for dims, strides in _beside(k, whole.keys()):
        order = next((orders[at] for at in orders if at[0] == strides), REVERSED)
        for (buffer, n), text in zip(whole[dims], _stride_texts([said[x] for x in whole[dims]], order)):
            if buffer == dims and said.setdefault((strides, n), text) != text:
                return Tensors()
    buffers = {b for b, _ in said}
    alone = {b for b in buffers if {n for x, n in said if x == b} == set(range(RANK))}
    asked = _asked(k, buffers, out.ranks)
    if not said or not {x for x in asked if x != (x[0], UNKNOWN) or x[0] not in alone} <= said.keys():
        return Tensors()
    out.ranks |= dict.fromkeys(_axes(k, alone), 1)
    passed = {b.name: names for b, names in passed_arrays(k).items()}
    for buffer in sorted(buffers & {*passed}):
        out.tied |= {name: said[buffer, n] for n, name in passed[buffer].items() if (buffer, n) in said}
        out.ranks |= {name: 1 for n, name in passed[buffer].items() if (buffer, n) not in said}
    for buffer in sorted(buffers - {*passed}):
        last = max(n for b, n in said if b == buffer)
        out.listed[buffer] = tuple(said.get((buffer, n), "1") for n in range(last + 1))
    return out


def _orders(first: Iterable[Place]) -> dict[Place, str]:
    """The sizes that say in which order elements of tensors lie, by the ``first`` place of each's strides."""
    places = sorted(set(first))
    return {at: REVERSED if k == 0 else f"{REVERSED}_{k}" for k, at in enumerate(places)}


def _stride_texts(names: Sequence[str], order: str) -> Iterator[str]:
    """The strides of the dimensions ``names``, the innermost first, in either ``order``."""
    for d in range(len(names)):
        inner, outer = (" * ".join(reversed(x)) or "1" for x in (names[:d], names[d + 1 :]))
        yield inner if inner == outer else f"{outer} if {order} else {inner}"


def _beside(k: Kernel, extents: Collection[str]) -> Iterator[tuple[str, str]]:
    """Buffers of ``extents`` with others whose elements remainders by theirs are multiplied by, wherever that is:
    ``idx % dims[axis] * strides[axis]``."""
    params, given = {p.sym for p in k.params}, definitions(k)
    for e in products(k):
        for a, b in ((e.a, e.b), (e.b, e.a)):
            rest, stride = spelled_out(a, given), without_casts(b)
            if isinstance(stride, Load) and stride.buffer in params and isinstance(rest, Binary) and rest.op == "%":
                by = without_casts(rest.b)
                if isinstance(by, Load) and by.buffer.name in extents and by.index == stride.index:
                    yield by.buffer.name, stride.buffer.name


def _axes(k: Kernel, buffers: Collection[str]) -> Iterator[str]:
    """The parameters that are the number of a dimension."""
    params, given = {p.sym for p in k.params}, definitions(k)
    for x in (x for x in loads(k) if x.buffer.name in buffers):
        index = spelled_out(x.index[0], given)
        if isinstance(index, Var) and index.sym in params:
            yield index.sym.name


def _asked(k: Kernel, buffers: set[str], ranks: Mapping[str, int]) -> set[Place]:
    """The elements of ``buffers`` that ``k`` asks for; where that is not known, the ``UNKNOWN`` one."""
    once = initial_values(k.body)
    steps = {s.var: steps_of(s, ranks, once) for s in walk(k.body) if isinstance(s, For)}
    out = set[Place]()
    for x in (x for x in loads(k) if x.buffer.name in buffers):
        index = expand(x.index[0], once)
        variables = sorted(used(index) & steps.keys(), key=lambda s: s.id)
        for at in itertools.product(*(steps[s] or [UNKNOWN] for s in variables)):
            known = {s.name: n for s, n in zip(variables, at) if n != UNKNOWN}
            n = evaluate(index, {**ranks, **known})
            out.add((x.buffer.name, UNKNOWN if n is None else int(n)))
    return out


__all__ = ["REVERSED", "with_dimensions", "with_orders"]
