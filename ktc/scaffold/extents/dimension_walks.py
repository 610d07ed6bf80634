"""Buffers that hold the extents and strides of tensors: loops that take an index apart, dimension by dimension.

    for (d = num_dims - 1; d >= 0; d--) { at += idx % dims[d] * strides[d]; idx /= dims[d]; }

What such a loop divides by are extents, the innermost first, and what it multiplies the remainders by are strides. A
draft passes :data:`RANK` dimensions, each a size of its own, and strides of elements that lie one after the other, or
(:data:`REVERSED`) of those of the tensor with its dimensions in the opposite order: most such kernels ask which it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ktc.ir.analysis.defs import expand
from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Assign, Binary, Call, Expr, For, If, Load, Stmt, Sym, Var, While
from ktc.ir.types import Ptr, Scalar, scalar_of
from ktc.ir.walk import all_exprs, initial_values, loads_in, stmt_exprs, used, walk, walk_expr

from ..given_values import definitions, spelled_out
from ..roles import Roles

RANK = 3
"""How many dimensions a draft passes where the kernel's launch says nothing of it."""

UNKNOWN = -(1 << 62)
"""The place of an element that is not known."""

REVERSED = "reversed"
"""The size that is 0 where elements lie in the order of the dimensions, and 1 where in the opposite order."""

TURNED = ("medium", "odd")
"""The scenarios in which elements lie in the opposite order."""

Scenario = tuple[str, dict[str, int], str]

Place = tuple[str, int]
"""An element of a buffer."""


@dataclass(frozen=True)
class Walk:
    """One such loop: where it finds extents and strides, the innermost dimension first.

    ``rank``: the parameter that says how many dimensions there are, with its number; ``strides`` has one row for each
    tensor; ``below``: the parameters that the index stays below.
    """

    rank: Mapping[str, int]
    dims: tuple[Place, ...]
    strides: tuple[tuple[Place, ...], ...]
    below: tuple[str, ...]


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
    found.listed |= {b: x for b, x in _spelled_strides(k) if b not in found.listed}
    if not found.listed:
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
    if not any(REVERSED in text for texts in roles.listed.values() for text in texts):
        return list(scenarios)
    return [(name, {**sizes, REVERSED: int(name in TURNED)}, more) for name, sizes, more in scenarios]


def _spelled_strides(k: Kernel) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Buffers of which each element is the stride of one dimension, ``s[0] * n + s[1] * c + s[2] * y + s[3] * x``, as
    formulas: those of elements that lie one after the other, where the kernel says how long all dimensions are."""
    params, given = {p.sym for p in k.params}, definitions(k)
    bounds = dict(reversed(list(_bounds(k, params, given))))  # the first that is said of each
    indices: dict[str, dict[int, set[Sym]]] = {}
    spoilt = set[str]()
    products = {id(x): e for e in _products(k) for x in (without_casts(e.a), without_casts(e.b)) if isinstance(x, Load)}
    for x in (x for x in _loads(k) if x.buffer in params):
        at, e = evaluate(x.index[0], {}), products.get(id(x))
        other = None if e is None else without_casts(e.b if without_casts(e.a) is x else e.a)
        if at is None or not isinstance(other, Var) or not 0 <= at < 2 * RANK or not _is_whole(x.buffer):
            spoilt.add(x.buffer.name)
        else:
            indices.setdefault(x.buffer.name, {}).setdefault(int(at), set()).add(other.sym)
    for buffer, by_place in indices.items():
        places = [by_place.get(n, set()) for n in range(max(by_place) + 1)]
        extents = [_extent(next(iter(mine)), bounds, given) if len(mine) == 1 else "" for mine in places]
        if buffer not in spoilt and len(places) > 1 and all(extents[1:]):
            yield buffer, tuple(" * ".join(extents[d + 1 :]) or "1" for d in range(len(places)))


def _loads(k: Kernel) -> Iterator[Load]:
    return (x for e in all_exprs(k.body) for x in loads_in(e))


def _products(k: Kernel) -> Iterator[Binary]:
    return (x for e in all_exprs(k.body) for x in walk_expr(e) if isinstance(x, Binary) and x.op == "*")


def _extent(v: Sym, bounds: Mapping[Sym, str], given: Mapping[Sym, list[Expr]]) -> str:
    """The parameter that ``v`` stays below, as a guard or a remainder says; '' if none does."""
    if v in bounds:
        return bounds[v]
    rest = spelled_out(Var(v), given)
    by = spelled_out(rest.b, given) if isinstance(rest, Binary) and rest.op == "%" else None
    return by.sym.name if isinstance(by, Var) else ""


def _is_whole(buffer: Sym) -> bool:
    return isinstance(buffer.type, Ptr) and scalar_of(buffer.type).is_int


def walks(k: Kernel, rank: int = RANK) -> list[Walk]:
    """The loops over dimensions of ``k``, of a rank that is its own if that is a number, else ``rank``."""
    params, given, once = {p.sym for p in k.params}, definitions(k), initial_values(k.body)
    bounds = list(_bounds(k, params, given))
    found = []
    for loop in (s for s in walk(k.body) if isinstance(s, For)):
        asked = {s for e in (loop.init, loop.cond, loop.step) for s in used(expand(e, once))} - {loop.var}
        if len(asked) > 1 or not asked <= params:
            continue
        ranks = {s.name: rank for s in asked}
        steps = _steps(loop, ranks, once)
        inside = {**once, **{x.sym: x.value for x in loop.body if isinstance(x, Assign) and _first(loop, x)}}
        for index, divisor in _divided(loop, params, once):
            dims = _places(divisor, loop.var, steps, ranks, once)
            rows = (_places(x, loop.var, steps, ranks, once) for x in _multiplied(loop, index, divisor, inside))
            if dims is not None and len(dims) > 1:
                roots = _roots(index, given)
                below = tuple(n for root, n in bounds if root in roots)
                found.append(Walk(ranks, dims, tuple(dict.fromkeys(r for r in rows if r)), below))
    return found


def _tensors(k: Kernel, roles: Roles) -> Tensors:
    """What the walks say, of buffers of which every element that the kernel asks for is said by one of them."""
    out, said = Tensors(), dict[Place, str]()
    found = walks(k)
    axes = {*_axes(k, {b for w in found for b, _ in w.dims})}
    listed = [w for w in found if not {*w.rank} & {*roles.tied, *roles.fixed, *axes}]
    groups = list(dict.fromkeys(w.dims for w in listed))
    for w in listed:
        prefix = "dim" if len(groups) == 1 else f"dim{groups.index(w.dims)}"
        names = [f"{prefix}_{d}" for d in reversed(range(len(w.dims)))]  # the innermost first, as the places are
        texts = [text for _, text in _stride_texts(names)]
        for place, text in (*zip(w.dims, names), *(x for row in w.strides for x in zip(row, texts))):
            if said.setdefault(place, text) != text:
                return Tensors()
        out.ranks |= w.rank
        out.tied |= dict.fromkeys(w.below, " * ".join(reversed(names)))
        out.sizes += [n for n in reversed(names) if n not in out.sizes]
    whole = {w.dims[0][0]: w.dims for w in listed if sorted(n for _, n in w.dims) == list(range(len(w.dims)))}
    for dims, strides in _beside(k, whole.keys()):
        for (buffer, n), (_, text) in zip(whole[dims], _stride_texts([said[x] for x in whole[dims]])):
            if buffer == dims and said.setdefault((strides, n), text) != text:
                return Tensors()
    buffers = {b for b, _ in said}
    alone = {b for b in buffers if {n for x, n in said if x == b} == set(range(RANK))}
    asked = _asked(k, buffers, out.ranks)
    if not said or not {x for x in asked if x != (x[0], UNKNOWN) or x[0] not in alone} <= said.keys():
        return Tensors()
    out.ranks |= dict.fromkeys(_axes(k, alone), 1)
    for buffer in sorted(buffers):
        last = max(n for b, n in said if b == buffer)
        out.listed[buffer] = tuple(said.get((buffer, n), "1") for n in range(last + 1))
    return out


def _stride_texts(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The dimensions ``names``, the innermost first, each with its stride in either order."""
    for d, name in enumerate(names):
        inner, outer = (" * ".join(reversed(x)) or "1" for x in (names[:d], names[d + 1 :]))
        yield name, inner if inner == outer else f"{outer} if {REVERSED} else {inner}"


def _beside(k: Kernel, extents: Collection[str]) -> Iterator[tuple[str, str]]:
    """Buffers of ``extents`` with others whose elements remainders by theirs are multiplied by, wherever that is:
    ``idx % dims[axis] * strides[axis]``."""
    params, given = {p.sym for p in k.params}, definitions(k)
    for e in _products(k):
        for a, b in ((e.a, e.b), (e.b, e.a)):
            rest, stride = spelled_out(a, given), without_casts(b)
            if isinstance(stride, Load) and stride.buffer in params and isinstance(rest, Binary) and rest.op == "%":
                by = without_casts(rest.b)
                if isinstance(by, Load) and by.buffer.name in extents and by.index == stride.index:
                    yield by.buffer.name, stride.buffer.name


def _axes(k: Kernel, buffers: Collection[str]) -> Iterator[str]:
    """The parameters that are the number of a dimension."""
    params, given = {p.sym for p in k.params}, definitions(k)
    for x in (x for x in _loads(k) if x.buffer.name in buffers):
        index = spelled_out(x.index[0], given)
        if isinstance(index, Var) and index.sym in params:
            yield index.sym.name


def _steps(loop: For, ranks: Mapping[str, int], once: Mapping[Sym, Expr]) -> list[int]:
    """The values of the loop's variable, in order; none where that is not known or there are many."""
    known, out = dict(ranks), list[int]()
    at = evaluate(expand(loop.init, once), known)
    while at is not None and len(out) < 2 * RANK + 3:
        known[loop.var.name] = int(at)
        more = evaluate(expand(loop.cond, once), known)
        if not more:
            return out if more is not None else []
        out.append(int(at))
        at = evaluate(expand(loop.step, once), known)
    return []


def _first(loop: For, s: Assign) -> bool:
    """Whether ``s`` is the only assignment of its variable in the loop's body, at its top."""
    return sum(isinstance(x, Assign) and x.sym == s.sym for x in walk(loop.body)) == 1


def _divided(loop: For, params: set[Sym], once: Mapping[Sym, Expr]) -> Iterator[tuple[Sym, Load]]:
    """The variables that the loop divides by an element of a buffer, again and again, with that element."""
    for s in (x for x in walk(loop.body) if isinstance(x, Assign)):
        value = without_casts(expand(s.value, once))
        if isinstance(value, Binary) and value.op == "/" and _is(value.a, s.sym):
            by = without_casts(value.b)
            if isinstance(by, Load) and by.buffer in params and isinstance(by.buffer.type, Ptr):
                yield s.sym, by


def _multiplied(loop: For, index: Sym, divisor: Load, inside: Mapping[Sym, Expr]) -> Iterator[Load]:
    """What remainders of ``index`` by ``divisor`` are multiplied by."""
    rest = {k: v for k, v in inside.items() if k != index}
    for e in (x for s in walk(loop.body) for whole in stmt_exprs(s) for x in walk_expr(expand(whole, _plain(rest)))):
        if isinstance(e, Binary) and e.op == "*":
            for a, b in ((e.a, e.b), (e.b, e.a)):
                a, b = without_casts(a), without_casts(b)
                left = isinstance(a, Binary) and a.op == "%" and _is(a.a, index) and without_casts(a.b) == divisor
                if left and isinstance(b, Load):
                    yield b


def _plain(given: Mapping[Sym, Expr]) -> dict[Sym, Expr]:
    """The variables of ``given`` that are not made of themselves."""
    return {s: e for s, e in given.items() if s not in used(e)}


def _places(
    x: Load, var: Sym, steps: list[int], ranks: Mapping[str, int], once: Mapping[Sym, Expr]
) -> tuple[Place, ...] | None:
    """The elements that ``x`` is in the rounds of the loop; None where that is not known."""
    if len(x.index) != 1 or x.width != 1:
        return None
    index = expand(x.index[0], once)
    found = [evaluate(index, {**ranks, var.name: at}) for at in steps]
    return None if None in found else tuple((x.buffer.name, int(n)) for n in found if n is not None)


def _asked(k: Kernel, buffers: set[str], ranks: Mapping[str, int]) -> set[Place]:
    """The elements of ``buffers`` that ``k`` asks for; where that is not known, the ``UNKNOWN`` one."""
    once = initial_values(k.body)
    steps = {s.var: _steps(s, ranks, once) for s in walk(k.body) if isinstance(s, For)}
    out = set[Place]()
    for x in (x for x in _loads(k) if x.buffer.name in buffers):
        index = expand(x.index[0], once)
        variables = sorted(used(index) & steps.keys(), key=lambda s: s.id)
        for at in itertools.product(*(steps[s] or [UNKNOWN] for s in variables)):
            known = {s.name: n for s, n in zip(variables, at) if n != UNKNOWN}
            n = evaluate(index, {**ranks, **known})
            out.add((x.buffer.name, UNKNOWN if n is None else int(n)))
    return out


def _bounds(k: Kernel, params: set[Sym], given: Mapping[Sym, list[Expr]]) -> Iterator[tuple[Sym, str]]:
    """Variables with the parameters that they are kept below by loops and conditions."""
    for s in walk(k.body):
        for e in _conditions(s):
            if isinstance(e, Binary) and e.op in ("<", ">="):
                a, b = without_casts(e.a), spelled_out(e.b, given)
                ends = b.args if isinstance(b, Call) and b.fn == "min" else (b,)
                for end in map(without_casts, ends):
                    end = spelled_out(end, given)
                    if isinstance(a, Var) and isinstance(end, Var) and end.sym in params and _is_integer(end.sym):
                        yield a.sym, end.sym.name


def _conditions(s: Stmt) -> Iterator[Expr]:
    """What is asked where ``s`` goes on, part by part."""
    left = [s.cond] if isinstance(s, If | For | While) else []
    while left:
        e = without_casts(left.pop())
        if isinstance(e, Binary) and e.op in ("&&", "||"):
            left += [e.a, e.b]
        else:
            yield e


def _roots(index: Sym, given: Mapping[Sym, list[Expr]]) -> set[Sym]:
    """The variables that ``index`` begins as, through copies."""
    out, left = {index}, [index]
    while left:
        for e in map(without_casts, given.get(left.pop(), ())):
            if isinstance(e, Var) and e.sym not in out:
                out.add(e.sym)
                left.append(e.sym)
    return out


def _is_integer(s: Sym) -> bool:
    return isinstance(s.type, Scalar) and s.type.is_int


def _is(e: Expr, s: Sym) -> bool:
    e = without_casts(e)
    return isinstance(e, Var) and e.sym == s


__all__ = ["REVERSED", "with_dimensions", "with_orders"]
