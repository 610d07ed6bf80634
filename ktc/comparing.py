"""Two sources: a kernel written by hand as the rewrite of another one, to be verified against it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel, Launch, Param
from ktc.ir.nodes import Const, Expr, Sym, Var, fresh
from ktc.ir.text import print_expr
from ktc.ir.types import I64, Ptr, scalar_of
from ktc.ir.walk import rename, substitute_expr, used

if TYPE_CHECKING:
    from ktc.ir.workload import ArgSpec, Workload

    from .api import Program

WIDER = (1 << 16, 1 << 8, 1 << 4, 1 << 2, 1 << 1)
"""How many times as large as a draft guesses integers may be, as far as the original's arithmetic goes."""

LARGEST = 1 << 30
"""Of an integer: beyond, what launches are computed with leaves its type."""


def rewritten_as(original: Program, other: Program) -> Program:
    """``other``'s kernel as a rewrite of ``original``'s, with the workload of the latter.

    Parameters are matched by name, else by position, variables at file scope by name and contents. A rewrite may add up
    in another order: results are held to the error bounds of the original's sums, not to its bits; in exact arithmetic
    they must be the same. Each kernel is launched as its own source does; one whose source shows no launch, or one of a
    fixed number of blocks, as the original. The program's ``notes`` say what the comparison leaves open.

    Raises:
        KtcError: E-NO-WORKLOAD without one; E-COMPARE-PARAMS for kernels that cannot be called with the same arguments;
            E-COMPARE-LAUNCH for a launch that depends on something that the original's call does not have.
    """
    from .verification import need_workload

    given = need_workload(original, "comparing two kernels")
    base, k = original.original or original.kernel, other.original or other.kernel
    work = _beyond_guesses(given, base)
    base = _within_ranges(base, work)
    pairs = _pairs(base, k)
    env = {q.sym: _renamed(p, q) for p, q in pairs if q is not None}
    params = tuple(p if q is None else _as(p, q, env[q.sym]) for p, q in pairs)
    tables = {q.sym: _own_variable(q, k, base) for q in k.params if q.symbol and q.sym not in env}
    env |= {old: own.sym for old, own in tables.items()}
    launch = _launch(base, k, env)
    from ktc.ir.workload.relaunch import launched

    body = rename(k.body, env)
    kernel = k.with_(params=(*params, *tables.values()), body=body, launch=None if launch is base.launch else launch)
    kernel = launched(kernel, launch) if launch is not None else kernel
    facts = (*k.assumptions, *base.assumptions)
    kernel = kernel.with_(assumptions=facts, repeat=base.repeat, flags=k.flags | {"reassociates"})
    notes = (*_launched_as_the_original(base, k, launch), *_launched_where(base, kernel), *_rests_on(kernel, work))
    return dataclasses.replace(original, kernel=kernel, original=base, workload=work, notes=notes, refused=None)


def _launched_as_the_original(base: Kernel, k: Kernel, launch: Launch | None) -> Iterator[str]:
    """That the launch which was compared is not the one of the rewrite's source, if it is so."""
    if k.launch is not None and launch is base.launch:
        yield "it was launched as the original is: its own source launches a fixed number of blocks"


def _launched_where(base: Kernel, kernel: Kernel) -> Iterator[str]:
    """Limits of a launch that the rewrite may exceed where the original does not: more blocks along y than there can
    be."""
    from ktc.backends.launchers.launch_geometry import launchable

    if kernel.launch is not None and base.launch is not None and kernel.launch != base.launch:
        theirs = {*launchable(base)}
        yield from (f"it can be launched where {print_expr(e)}" for e in launchable(kernel) if e not in theirs)


def _rests_on(kernel: Kernel, work: Workload) -> Iterator[str]:
    """What a draft guesses and the rewrite is right for alone, as far as its text tells: no launcher tests it first."""
    from ktc.backends.launchers.launch_geometry import geometry

    guessed = {fact: {a.name for a in work.args if fact in a.guessed} for fact in ("align", "noalias")}
    if kernel.launch is not None:
        for p, n in geometry(kernel).aligned:
            if p.sym.name in guessed["align"]:
                yield f"it is right where {p.sym.name} is aligned to {n} bytes, which the draft guesses"
    apart = [p.sym.name for p in kernel.params if p.sym.name in guessed["noalias"]]
    if apart:
        yield f"it was compared where {', '.join(apart)} and the other buffers share no memory, which the draft guesses"


def _beyond_guesses(work: Workload, base: Kernel) -> Workload:
    """``work`` with larger integers than a draft guessed, as far as no arithmetic of ``base`` leaves its type: no
    launcher tests guesses before it runs a rewrite by hand, which has to be right wherever the original is."""
    from ktc.search.verification.integers.ranges import wraps

    for factor in WIDER:
        args = tuple(_with_wider_range(a, factor) for a in work.args)
        if args != work.args and not wraps(base, _integer_ranges(args)):
            return dataclasses.replace(work, args=args)
    return work


def _within_ranges(k: Kernel, work: Workload) -> Kernel:
    """``k`` with what ``work`` says of the ranges of its integers."""
    ranges = _integer_ranges(work.args)
    params = (dataclasses.replace(p, range=ranges.get(p.sym.name, p.range)) for p in k.params)
    return k.with_(params=tuple(params))


def _with_wider_range(a: ArgSpec, factor: int) -> ArgSpec:
    known = _integer_ranges((a,)).get(a.name) if "range" in a.guessed else None
    return a if known is None else dataclasses.replace(a, range=(known[0], min(known[1] * factor, LARGEST)))


def _integer_ranges(args: Iterable[ArgSpec]) -> dict[str, tuple[int, int]]:
    """The ranges of integer scalars, by name."""
    found = ((a.name, a.range) for a in args if a.role == "scalar" and a.range is not None)
    return {name: (low, high) for name, (low, high) in found if isinstance(low, int) and isinstance(high, int)}


def _own(k: Kernel) -> list[Param]:
    """What a caller passes."""
    return [p for p in k.params if not p.host and not p.symbol]


def _own_variable(q: Param, k: Kernel, base: Kernel) -> Param:
    """A variable at file scope that the rewrite alone has: a table, or memory that one launch leaves for the next. It
    gets a name that no argument has.

    Raises:
        KtcError: E-COMPARE-PARAMS where nothing says what it holds.
    """
    taken = {p.sym.name for p in (*base.params, *k.params)}
    name = next(n for i in range(1, len(taken) + 2) if (n := f"{q.sym.name}_{i}") not in taken)
    sym = fresh(name, q.sym.type)
    if any(q.init):
        if not q.readonly:
            what = (
                f"'{q.sym.name}' of {k.name} is left by each launch for the next, and begins with other numbers than 0"
            )
            raise KtcError("E-COMPARE-PARAMS", what, k.loc, "such memory is compared where it is 0 at first")
        return dataclasses.replace(q, sym=sym)
    if q.symbol == "constant" or q.readonly:
        what = f"nothing says what '{q.sym.name}' of {k.name} holds, which {base.name} has not"
        raise KtcError("E-COMPARE-PARAMS", what, k.loc, "give it its values where it is declared")
    return Param(sym, scratch=Const(q.extent, I64))


def _pairs(base: Kernel, k: Kernel) -> Sequence[tuple[Param, Param | None]]:
    """Every parameter of ``base`` with the one of ``k`` that gets the same argument: None for the host's own."""
    mine, theirs = _own(base), _own(k)
    names = {q.sym.name: q for q in theirs}
    if len(mine) != len(theirs):
        raise _refusal(base, k, f"{base.name} takes {len(mine)} arguments, {k.name} {len(theirs)}")
    by_name = all(p.sym.name in names for p in mine)
    match = {p.sym: names[p.sym.name] if by_name else q for p, q in zip(mine, theirs)}
    match |= {p.sym: q for p in base.params if p.symbol for q in k.params if _same_variable(p, q)}
    for p in mine:
        q = match[p.sym]
        same = isinstance(p.sym.type, Ptr) == isinstance(q.sym.type, Ptr)
        if not same or scalar_of(p.sym.type) != scalar_of(q.sym.type):
            what = f"'{p.sym.name}' is {p.sym.type} in {base.name}, '{q.sym.name}' is {q.sym.type} in {k.name}"
            raise _refusal(base, k, what)
    return [(p, match.get(p.sym)) for p in base.params if p.host or p.symbol or p.sym in match]


def _same_variable(p: Param, q: Param) -> bool:
    """Whether both sources declare the same variable at file scope: with the same contents, or set by the host."""
    return (q.symbol, q.sym.name, q.extent, q.init) == (p.symbol, p.sym.name, p.extent, p.init) and (
        scalar_of(p.sym.type) == scalar_of(q.sym.type)
    )


def _refusal(base: Kernel, k: Kernel, what: str) -> KtcError:
    hint = "two kernels are compared that the same arguments may be passed to, matched by name or in their order"
    return KtcError("E-COMPARE-PARAMS", what, k.loc, hint)


def _renamed(p: Param, q: Param) -> Sym:
    """The original's symbol; of a buffer that is declared in another way, a new one of its name."""
    return p.sym if p.sym.type == q.sym.type else fresh(p.sym.name, q.sym.type)


def _as(p: Param, q: Param, sym: Sym) -> Param:
    """``q`` with what the workload says about ``p``."""
    return dataclasses.replace(q, sym=sym, align=p.align, divisible_by=p.divisible_by, range=p.range)


def _launch(base: Kernel, k: Kernel, env: Mapping[Sym, Sym]) -> Launch | None:
    from ktc.scaffold.drafted_launches import needs_launch

    if k.launch is None or needs_launch(k):
        return base.launch
    known = {p.sym.name: Var(p.sym) for p in base.params if not isinstance(p.sym.type, Ptr)}
    values: dict[Sym, Expr] = {old: Var(new) for old, new in env.items()}
    for p in k.params:
        if p.host and p.sym.name in known:
            values[p.sym] = known[p.sym.name]
    parts = (*k.launch.grid, *k.launch.block, *([k.launch.dynamic_shared] if k.launch.dynamic_shared else []))
    unknown = {s.name for e in parts for s in used(e) if s not in values}
    if unknown:
        what = f"the launch of {k.name} depends on {', '.join(sorted(unknown))}, which the call of {base.name} has not"
        hint = "call them the same in both host functions, or leave the launch out: it is launched as the original then"
        raise KtcError("E-COMPARE-LAUNCH", what, k.loc, hint)

    def put(e: Expr) -> Expr:
        return substitute_expr(e, values)

    grid, block = (tuple(map(put, dims)) for dims in (k.launch.grid, k.launch.block))
    shared = put(k.launch.dynamic_shared) if k.launch.dynamic_shared is not None else None
    return dataclasses.replace(k.launch, grid=grid, block=block, dynamic_shared=shared, given=(), passed=())  # type: ignore[arg-type]
