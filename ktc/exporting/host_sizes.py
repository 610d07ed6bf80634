"""Host sizes that callers of C++ need not pass: those that only make up arguments.

Of ``k<<<(b * t + 15) / 16, 16>>>(x, b * t)`` the argument is enough: ``b`` and ``t`` are known to the host code alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ktc.backends.base import Emitted
from ktc.ir.arith import REWRITES, facts_of
from ktc.ir.fold import cast
from ktc.ir.kernel import Assume, Kernel
from ktc.ir.nodes import Binary, Const, Expr, Sym, Var
from ktc.ir.types import I64, Scalar
from ktc.ir.walk import all_exprs, map_expr, walk_expr

from .artefact import Instance
from .building import Built


def without_host_sizes(built: Built) -> Built:
    """``built`` with as few host sizes as its kernels need: of an instance, all kernels lose the same."""
    texts = dict(built.texts)
    instances = []
    for i in built.artefact.instances:
        if i.original.then:
            instances.append(_without_shapes(built, i))
            continue
        files = [i.original.file, *(v.file for v in i.variants)]
        source = texts[i.original.file].kernel.launch
        lean = {f: _lean(texts[f], source.passed if source is not None else ()) for f in files}
        gone = [_hosts(texts[f].kernel) - _hosts(lean[f].kernel) for f in files]
        names = {s.name for syms in gone for s in syms}
        left = {s.name for f in files for s in _hosts(lean[f].kernel)}
        if names and not names & left:
            texts |= lean
            i = _without_coordinates(i, names)
        instances.append(_without_shapes(replace(built, texts=texts), i))
    return replace(built, texts=texts, artefact=replace(built.artefact, instances=tuple(instances)))


def _without_shapes(built: Built, i: Instance) -> Instance:
    """Measurements told apart by what callers of C++ pass: no shapes."""
    params = {p.sym.name for p in built.whole(i.original).kernel.params}
    told_by_shapes = {n for p in i.points for n in p.at} - params
    return _without_coordinates(i, told_by_shapes) if told_by_shapes else i


def _without_coordinates(i: Instance, names: set[str]) -> Instance:
    """Measurements told apart by what is left: the arguments that ``names`` make up are among it."""
    points = tuple(replace(p, at={n: v for n, v in p.at.items() if n not in names}) for p in i.points)
    return replace(i, points=points)


def _hosts(kernel: Kernel) -> set[Sym]:
    return {p.sym for p in kernel.params if p.host}


def _lean(e: Emitted, made: tuple[tuple[str, Expr], ...]) -> Emitted:
    """``e`` with arguments in place of what the launch passes for them, and without the sizes that nothing reads then.
    ``made``: arguments by name, and what the source's launch passes for them. All or none of what makes up an argument
    goes: what is left must not contradict what was taken for granted."""
    kernel = e.kernel
    assert kernel.launch is not None
    params = {p.sym.name: p.sym for p in kernel.params}
    passed = [(whole, Var(params[name])) for name, whole in made if name in params]

    def on(x: Expr) -> Expr:
        return next((cast(v, x.type) for whole, v in passed if x == whole and isinstance(x.type, Scalar)), x)

    def three(dims: tuple[Expr, Expr, Expr]) -> tuple[Expr, Expr, Expr]:
        x, y, z = (map_expr(d, on) for d in dims)
        return x, y, z

    shared = kernel.launch.dynamic_shared
    launch = replace(
        kernel.launch, grid=three(kernel.launch.grid), block=three(kernel.launch.block),
        dynamic_shared=None if shared is None else map_expr(shared, on),
    )  # fmt: skip
    facts = tuple(replace(a, expr=map_expr(a.expr, on)) for a in kernel.assumptions)
    facts = tuple(a for a in facts if not (isinstance(a.expr, Binary) and a.expr.op == "==" and a.expr.a == a.expr.b))
    lean = kernel.with_(launch=launch, assumptions=facts)
    used = {x.sym for r in _read(lean) for x in walk_expr(r) if isinstance(x, Var)}
    made_of = {x.sym for whole, _ in passed for x in walk_expr(whole) if isinstance(x, Var)}
    if not _hosts(kernel) - used or made_of & _hosts(kernel) & used:
        return e
    gone = [p for p in kernel.params if p.host and p.sym not in used]
    if any(p.divisible_by > 1 for p in gone):
        return e  # what follows of that for an argument is no bound
    left = tuple(p for p in kernel.params if p not in gone)
    return replace(e, kernel=lean.with_(params=left, assumptions=(*facts, *_bounds(kernel, passed))))


def _bounds(kernel: Kernel, passed: list[tuple[Expr, Var]]) -> Iterator[Assume]:
    """What the ranges of the sizes say of the arguments that they make up, for a launcher to test in their place."""
    known = facts_of(kernel, REWRITES)
    for whole, v in passed:
        span = known.interval(whole)
        for op, limit in ((">=", span.low), ("<=", span.high)):
            if limit is not None and abs(limit) < 1 << 62:
                yield Assume(Binary(op, cast(v, I64), Const(limit, I64)), "guessed")


def _read(kernel: Kernel) -> Iterator[Expr]:
    """Everything that reads parameters: the launch, what is taken for granted, the body, sizes of working memory."""
    assert kernel.launch is not None
    yield from (*kernel.launch.grid, *kernel.launch.block)
    if kernel.launch.dynamic_shared is not None:
        yield kernel.launch.dynamic_shared
    yield from (a.expr for a in kernel.assumptions)
    yield from all_exprs(kernel.body)
    for p in kernel.params:
        yield from p.touches
        if p.scratch is not None:
            yield p.scratch
