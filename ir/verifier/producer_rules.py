"""Rules of a producer: it runs copies and nothing else, and only it writes what they fill, until its loop is over."""

from __future__ import annotations

from collections.abc import Iterator

from ktc.ir.diagnostics import Loc
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    AsyncCopy,
    Body,
    BulkCopy,
    Decl,
    Expr,
    For,
    HwIndex,
    If,
    Knob,
    Load,
    Par,
    Produce,
    Stmt,
    Sym,
    has_bodies,
)
from ktc.ir.walk import assigned, walk, walk_expr

from .type_rules import symbols_of


def check_producer(s: Produce, kernel: Kernel) -> Iterator[tuple[str, Loc | None]]:
    """(message, place) of each rule that the producer ``s`` of ``kernel`` breaks."""
    inside = list(walk(s.body))
    stages = evaluate(s.stages, kernel.bound_knobs)
    if s.hold < 0 or (stages is not None and stages <= s.hold):
        yield f"{stages} buffers of which {s.hold} are held leave none to fill", s.loc
    mine = {id(x) for x in inside}
    mine |= {id(x) for x in _behind(kernel.body, s)}
    others = {y for x in walk(kernel.body) if id(x) not in mine for y in _written(x)}
    launch = kernel.launch
    cluster = evaluate(launch.cluster[0], {}) if launch is not None and launch.cluster else 1
    for x in inside:
        loc = x.loc or s.loc
        if not isinstance(x, AsyncCopy | BulkCopy | Decl | If | Par):
            yield f"a {type(x).__name__} inside a produce statement", loc
        if isinstance(x, AsyncCopy | BulkCopy) and {x.dst, x.src} & others:
            yield f"'{x.dst.name}' or '{x.src.name}' is written by others than the producer", loc
        if not isinstance(x, BulkCopy):
            continue
        if not all(_of_launch(e, kernel) for e in (*x.extent, x.pitch)):
            yield f"the shape of '{x.src.name}' is no value of the launch", loc
        if x.shared > 1 and not x.shared == s.cluster == cluster:
            yield f"{x.shared} blocks share a box of '{x.dst.name}' in a cluster of {cluster}", loc


def _behind(body: Body, s: Produce) -> Iterator[Stmt]:
    """What a block runs when the loop of ``s``, which no serial loop is around, is over."""
    for k, x in enumerate(body):
        if not any(y is s for y in walk((x,))):
            continue
        if isinstance(x, For) and x.body[0] is s:
            yield from walk(body[k + 1 :])
        elif isinstance(x, Par) and not any(lv.kind == "seq" for lv in x.dist):
            yield from _behind(x.body, s)


def _written(s: Stmt) -> set[Sym]:
    """What ``s`` writes itself."""
    return set() if has_bodies(s) else assigned((s,))


def _of_launch(e: Expr, kernel: Kernel) -> bool:
    """Whether a launcher knows ``e``: parameters, knobs and constants."""
    params = {p.sym for p in kernel.params}
    known = all(isinstance(y, Knob) or y in params for y in symbols_of(e))
    return known and not any(isinstance(x, HwIndex | Load) for x in walk_expr(e))
