"""What variables of the body are given, and what depends on what through them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fields import children
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Assign,
    Atomic,
    Binary,
    Call,
    Cast,
    Decl,
    Expr,
    For,
    If,
    Load,
    Select,
    Store,
    Sym,
    Var,
    While,
)
from ktc.ir.sequences import launch_extents
from ktc.ir.support.memo import by_identity
from ktc.ir.types import Ptr, Scalar, scalar_of
from ktc.ir.walk import all_exprs, assigned, initial_values, stmt_exprs, substitute, used, used_in, walk, walk_expr


def without_copies(k: Kernel) -> Kernel:
    """``k`` with its parameters in place of variables that are copies of them: members of a structure that it passes on
    to a function by value."""
    params, changed = {p.sym for p in k.params}, assigned(k.body)
    copies = {
        s: e
        for s, e in initial_values(k.body).items()
        if isinstance(e, Var) and e.sym in params - changed and e.sym.type == s.type
    }
    return k.with_(body=substitute(k.body, copies)) if copies else k  # type: ignore[arg-type]


def definitions(k: Kernel) -> dict[Sym, list[Expr]]:
    """What each variable of the body is given, loop variables by their range."""
    sources: dict[Sym, list[Expr]] = {}
    for s in walk(k.body):
        if isinstance(s, Decl) and s.init is not None:
            sources.setdefault(s.sym, []).append(s.init)
        elif isinstance(s, Assign):
            sources.setdefault(s.sym, []).append(s.value)
        elif isinstance(s, For):
            sources.setdefault(s.var, []).extend([s.init, s.cond])
    return sources


def made_of(several: Iterable[Expr], sources: Mapping[Sym, Sequence[Expr]], places: bool = True) -> Iterator[Expr]:
    """Every part of ``several``, and of what their variables are given, each variable followed once; ``places``: those
    of what is loaded, too. What arrays are given is followed where ``sources`` say it (:func:`staged`)."""
    left, seen = list(several), set[Sym]()
    while left:
        x = left.pop()
        yield x
        if isinstance(x, Var):
            if x.sym not in seen:
                seen.add(x.sym)
                left += sources.get(x.sym, ())
        elif places or not isinstance(x, Load):
            left += children(x)
        if isinstance(x, Load) and x.buffer not in seen:
            seen.add(x.buffer)
            left += sources.get(x.buffer, ())


def staged(k: Kernel) -> dict[Sym, list[Expr]]:
    """What is stored in each array of the body: an element of a buffer may be read where a block keeps it."""
    params, sources = {p.sym for p in k.params}, dict[Sym, list[Expr]]()
    for s in walk(k.body):
        if isinstance(s, Store) and s.buffer not in params:
            sources.setdefault(s.buffer, []).append(s.value)
    return sources


def reached(k: Kernel, wanted: Iterable[Expr]) -> set[Sym]:
    """Symbols that the expressions depend on, through the variables of the body."""
    return symbols_behind(wanted, definitions(k))


def symbols_behind(several: Iterable[Expr], sources: Mapping[Sym, Sequence[Expr]]) -> set[Sym]:
    """The variables and buffers that ``several`` are made of, through variables."""
    left, seen = list(several), set[Sym]()
    while left:
        for s in used(left.pop()) - seen:
            seen.add(s)
            left += sources.get(s, ())
    return seen


def steering(k: Kernel) -> set[Sym]:
    """The variables and buffers that decide where something is, how long a loop goes on or whether anything is done,
    through all that variables and buffers are given: other values of other buffers change nothing that is reached."""
    wanted, sources = set[Sym](), dict[Sym, set[Sym]]()
    for s in walk(k.body):
        places = s.index if isinstance(s, Store | Atomic) else ()
        for e in stmt_exprs(s):
            places = (*places, *(y for x in walk_expr(e) for y in _deciding(x)))
        if isinstance(s, If | For | While):
            places = (*places, *stmt_exprs(s))
        else:
            for given in {*assigned((s,)), *((s.sym,) if isinstance(s, Decl) else ())}:
                sources.setdefault(given, set()).update(used_in((s,)))
        wanted.update(x for e in places for x in used(e))
    left = [*wanted]
    while left:
        more = sources.get(left.pop(), set()) - wanted
        wanted |= more
        left += more
    return wanted


def only_data(k: Kernel) -> set[str]:
    """Scalar parameters that decide nothing: what is stored may depend on them, as on numbers of a buffer, but neither
    where, whether or how often anything is done, nor the launch. Any number is as good as another."""
    decisive = steering(k) | {s for e in launch_extents(k) for s in used(e)}
    return {p.sym.name for p in k.params if isinstance(p.sym.type, Scalar) and p.sym not in decisive}


def floats_decide_stores(k: Kernel) -> bool:
    """Whether floating-point numbers of a buffer decide if anything is stored: ``if (score[i] > 0) out[i] = x[i]``."""
    sources, buffers = definitions(k), {p.sym for p in k.params if isinstance(p.sym.type, Ptr)}
    numbers = {b for b in buffers if scalar_of(b.type).is_float}

    def stores(s: If) -> bool:
        return any(isinstance(x, Store | Atomic) and x.buffer in buffers for x in walk((s,)))

    return any(isinstance(s, If) and stores(s) and symbols_behind([s.cond], sources) & numbers for s in walk(k.body))


@by_identity(8)
def floats_say_where(k: Kernel) -> bool:
    """Whether floating-point numbers of a buffer say which element of another is read: ``x[(int)(u[i] * width)]``."""
    sources = definitions(k)
    buffers = {p.sym for p in k.params if isinstance(p.sym.type, Ptr) and scalar_of(p.sym.type).is_float}
    places = (i for e in all_exprs(k.body) if isinstance(e, Load) and e.buffer in buffers for i in e.index)
    parts = (x for x in made_of(places, sources) if isinstance(x, Cast | Call))
    whole = [x for x in parts if isinstance(t := x.type, Scalar) and t.is_int and any(map(_is_real, children(x)))]
    return any(isinstance(x, Load) and x.buffer in buffers for x in made_of(whole, sources, places=False))


def _is_real(e: object) -> bool:
    return isinstance(e, Expr) and isinstance(e.type, Scalar) and e.type.is_float


def _deciding(e: Expr) -> Iterable[Expr]:
    """What in ``e`` says which element is read, or whether any is."""
    match e:
        case Load():
            return e.index
        case Select():
            return (e.cond,)
        case Binary("&&" | "||", a, _):
            return (a,)
    return ()


def loaded(e: Expr, sources: Mapping[Sym, list[Expr]], buffer: Sym | None = None) -> bool:
    """Whether ``e`` is an element of a buffer (of ``buffer``), through variables: an index whose part is taken.

    A variable that is used again and again is one where all that it is given is.
    """
    e = spelled_out(e, sources)
    if isinstance(e, Var):
        given = [spelled_out(x, sources) for x in sources.get(e.sym, ())]
        return bool(given) and all(isinstance(x, Load) and buffer in (None, x.buffer) for x in given)
    return isinstance(e, Load) and buffer in (None, e.buffer)


def spelled_out(e: Expr, sources: Mapping[Sym, Sequence[Expr]]) -> Expr:
    """``e`` without conversions around it, variables that are given one value as that value."""
    seen: set[Sym] = set()
    while isinstance(e := without_casts(e), Var) and len(sources.get(e.sym, ())) == 1 and e.sym not in seen:
        seen.add(e.sym)
        e = sources[e.sym][0]
    return e
