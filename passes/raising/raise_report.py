"""What raising says about each part of a kernel: raised as what and checked how, or left as threads, where and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.affine import linear_form
from ktc.ir.diagnostics import Loc
from ktc.ir.fact_origins import is_alone
from ktc.ir.fold import evaluate, is_const
from ktc.ir.interp.sanitizer.findings import Finding
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Assign,
    Barrier,
    Body,
    Break,
    Continue,
    Decl,
    Expr,
    For,
    Load,
    Par,
    Reduce,
    Return,
    Stmt,
    Sym,
    While,
    bodies,
)
from ktc.ir.storage import is_shared
from ktc.ir.types import Array, Ptr, scalar_of
from ktc.ir.walk import all_exprs, assigned, declared, mentions, used, used_in, walk
from ktc.passes.raising.recognise.statement_kinds import loads, stores


@dataclass(frozen=True)
class Region:
    """One part. ``kind``: threads | reduction | scan | staged | left | unchecked | assumed | vectors | defect; ``how``:
    how found or why.

    ``threads``: a loop over the threads of a block that is one over independent iterations, as any other.
    """

    kind: str
    what: str
    how: str = ""
    loc: Loc | None = None

    @property
    def is_by_threads(self) -> bool:
        return self.kind in ("left", "threads")

    @property
    def is_left(self) -> bool:
        return self.kind == "left"

    def __str__(self) -> str:
        place = f"{self.loc}: " if self.loc else ""
        return f"{place}{self.kind}: {self.what}" + (f" ({self.how})" if self.how else "")


def threads_left(body: Body) -> str:
    """'' if ``body`` means something in parallel form; else what only threads can do."""
    for s in walk(body):
        if isinstance(s, Barrier):
            return f"{s.loc}: a barrier is left among the loops"
        returns = [x for x in walk(s.body) if isinstance(x, Return)] if isinstance(s, Par | Reduce) else []
        if returns:
            place = next((x.loc for x in returns if x.loc is not None), s.loc)
            return f"{place}: a return that ends the thread's other iterations as well: 'continue' would end its own"
        left = next(_leaving(s.body), None) if isinstance(s, Par | Reduce) else None
        if left is not None:
            return f"{left.loc}: '{'break' if isinstance(left, Break) else 'continue'}' in a loop that has no order"
    return ""


def _leaving(body: Body) -> Iterator[Stmt]:
    """The ``break`` and ``continue`` of ``body`` that belong to no loop in it."""
    for s in body:
        if isinstance(s, Break | Continue):
            yield s
        elif not isinstance(s, For | While):
            yield from (x for b in bodies(s) for x in _leaving(b))


def unchecked(never_run: Iterable[Stmt]) -> tuple[Region, ...]:
    """Parts that no launch of the check entered: their values were not compared."""
    what = "no small launch enters this branch: it was not compared"
    return tuple(Region("unchecked", what, loc=s.loc) for s in never_run)


def assumed_unseen(body: Body, never_run: Sequence[Stmt], said: Iterable[Region]) -> str:
    """What is assumed of a loop that no launch of the check entered, ``body`` being the source's; '' if nothing: then
    neither a proof nor a comparison says that its iterations may be taken apart."""
    first = {id(s) for s in never_run}
    branches = (b for s in walk(body) for b in bodies(s) if b and id(b[0]) in first)
    unseen = {x.loc for b in branches for x in walk(b)}
    found = next((r for r in said if r.kind == "assumed" and r.loc is not None and r.loc in unseen), None)
    return f"{found}, and no small launch enters it: it was not compared" if found is not None else ""


def defective(found: Finding | None) -> tuple[Region, ...]:
    """A defect that the source has in all launches of the check, as a part of it."""
    if found is None:
        return ()
    what = f"{found.kind}: {found.message}"
    return (Region("defect", what, "of the source, in all launches of the check", found.loc),)


def assumed_apart(kernel: Kernel) -> tuple[Region, ...]:
    """The buffers that the loops of ``kernel`` take not to overlap, though no ``restrict`` promises it.

    Buffers of different element types do not (the language says so), and one that is only read overlaps no harm.
    """
    promised = {p.sym for p in kernel.params if is_alone(p)}
    open_ = [p.sym for p in kernel.params if isinstance(p.sym.type, Ptr) and p.sym not in promised]
    written = frozenset[Sym]().union(*map(stores, kernel.body))
    touched = written.union(*map(loads, kernel.body))
    out = []
    for w in (b for b in open_ if b in written):
        others = [b for b in open_ if b != w and b in touched and scalar_of(b.type) == scalar_of(w.type)]
        if others:
            names = ", ".join(f"'{b.name}'" for b in others)
            out.append(Region("assumed", f"'{w.name}' does not overlap {names}", "write __restrict__ to promise it"))
    return tuple(out)


def left_as_threads(body: Body) -> tuple[Region, ...]:
    """The loops of ``body`` that still are loops over the threads of a fixed block, one entry a nest."""
    exchanged = _exchanged(body)
    out: dict[tuple[Loc | None, str], Region] = {}
    for s in _outermost(body):
        loops = [x for x in walk((s,)) if isinstance(x, Par | Reduce) and _is_fixed(x)]
        shape = " x ".join(f"{p.var.name}" for p in loops if p in _nest(s))
        why = _why(s, exchanged)
        kind, why = ("left", why) if why else ("threads", "no thread uses what another made")
        region = Region(kind, f"a loop over the threads ({shape}) of a fixed block", why, s.loc)
        out.setdefault((s.loc, why), region)
    return tuple(out.values())


def _is_fixed(s: Stmt) -> bool:
    return isinstance(s, Par) and len(s.dist) == 1 and s.dist[0].kind == "thread"


def _outermost(body: Body) -> list[Par]:
    out: list[Par] = []
    for s in body:
        if isinstance(s, Par) and _is_fixed(s):
            out.append(s)
        else:
            for b in bodies(s):
                out += _outermost(b)
    return out


def _nest(s: Stmt) -> list[Par]:
    out: list[Par] = []
    while isinstance(s, Par) and _is_fixed(s):
        out.append(s)
        if len(s.body) != 1:
            break
        s = s.body[0]
    return out


def _exchanged(body: Body) -> set[Sym]:
    """Shared arrays, and rows that carry private values from one thread loop to the next."""
    return {b for b in used_in(body) | assigned(body) if isinstance(b.type, Array)}


def _why(s: Par, exchanged: set[Sym]) -> str:
    """Why ``s`` stays a loop over threads; '' where that is all there is to it."""
    touched = mentions(s) & exchanged - set(declared((s,)))
    shared = sorted({b.name for b in touched if is_shared(b)})
    if shared:
        names = ", ".join(f"'{n}'" for n in shared)
        return f"threads exchange values through {names} in a way that is no reduction or copy known here"
    rows = sorted({b.name for b in touched if not is_shared(b) and any(
        isinstance(e, Load) and e.buffer == b for e in all_exprs((s,)))})  # fmt: skip
    if rows:
        return f"'{rows[0]}' of each thread lives across a barrier"
    dealt = _dealt_out(s)
    return f"they share out the iterations over '{dealt.name}' in a way that is not understood" if dealt else ""


def _dealt_out(s: Par) -> Sym | None:
    """What a serial loop in ``s`` counts that begins where the number of its thread says, and goes on in steps."""
    threads = {p.var for p in walk((s,)) if isinstance(p, Par) and _is_fixed(p)}
    named, starts = definitions((s,)), {d.sym: d.init for d in walk((s,)) if isinstance(d, Decl)}
    for x in walk((s,)):
        counts: list[tuple[Sym, Expr | None, Expr]]
        if isinstance(x, For):
            counts = [(x.var, x.init, x.step)]
        elif isinstance(x, While):
            counts = [(a.sym, starts.get(a.sym), a.value) for a in walk(x.body) if isinstance(a, Assign)]
        else:
            continue
        for v, first, then in counts:
            form = linear_form(then, {v})
            by = None if form is None or not is_const(form.coeff(v), 1) else form.rest
            dealt = by is not None and evaluate(by, {}) not in (0, 1, -1)
            if dealt and first is not None and used(expand(first, named)) & threads:
                return v
    return None
