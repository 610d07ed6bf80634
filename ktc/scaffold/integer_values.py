"""What the source says of the integers it is given and of those it loads: where they begin and end, what they count.

A vocabulary's first word, the width of a butterfly and a counter of what was kept are no sizes: larger ones reach
nothing that smaller ones do not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from ktc.ir.analysis.defs import expand, integer_constants
from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.arith.polynomial import polynomial
from ktc.ir.fields import children
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Atomic, Binary, Body, Cast, Expr, For, HwIndex, If, Load, Store, Sym, Unary, Var
from ktc.ir.types import BOOL, Scalar
from ktc.ir.walk import all_exprs, stmt_exprs, used, walk, walk_expr

from .given_values import definitions, loaded, made_of, reached, spelled_out
from .named_dimensions import words_of

POWERS = (32, 64, 128, 16, 256)
"""Values of integers that are powers of two, in the order of the parameters: no two alike."""

SEED = 42
"""What random numbers begin with."""

NONE = frozenset({("<", 0), (">=", 0), (">", -1), ("<=", -1)})
"""Comparisons that tell negative numbers from others."""


def origins(k: Kernel) -> list[str]:
    """Integer parameters that are taken off what was loaded, as the first word of a part of a table is."""
    sources, params = definitions(k), {p.sym for p in k.params}
    found: dict[str, None] = {}
    for e in all_exprs(k.body):
        if isinstance(e, Binary) and e.op == "-" and loaded(e.a, sources):
            found |= {x.sym.name: None for x in (without_casts(e.b),) if isinstance(x, Var) and x.sym in params}
    return list(found)


def seeds(k: Kernel) -> dict[str, int]:
    """Integer parameters that random numbers begin with, by their names: any number will do, and no size is one."""
    whole = (p.sym.name for p in k.params if isinstance(p.sym.type, Scalar) and p.sym.type.is_int)
    return {n: SEED for n in whole if words_of(n)[-1:] == ["seed"]}


def powers(k: Kernel) -> dict[str, int]:
    """Integer parameters whose bits are taken of a thread's number, ``i ^ j`` and ``i & (half - 1)``, with a power of
    two for each."""
    sources, params = definitions(k), {p.sym for p in k.params}
    found: dict[str, None] = {}
    for e in all_exprs(k.body):
        if isinstance(e, Binary) and e.op in ("&", "^"):
            for x, y in ((e.a, e.b), (e.b, e.a)):
                if (s := _bits(x, params, sources)) is not None and _counts_threads(y, sources):
                    found[s.name] = None
    mine = {p.sym.name for p in k.params if not p.host} & {*found}
    return dict(zip((p.sym.name for p in k.params if p.sym.name in mine), POWERS))


def _bits(e: Expr, params: set[Sym], sources: Mapping[Sym, list[Expr]]) -> Sym | None:
    """The parameter that ``e`` is, but for 1 less and shifts and halves of it; None for anything else."""
    match without_casts(e):
        case Var(s) if s in params:
            return s
        case Var(s) if len(sources.get(s, ())) == 1:
            return _bits(sources[s][0], params, {v: x for v, x in sources.items() if v != s})
        case Binary("-" | ">>" | "<<" | "/", a, b) if not used(b):
            return _bits(a, params, sources)
    return None


def _counts_threads(e: Expr, sources: Mapping[Sym, list[Expr]]) -> bool:
    return any(isinstance(x, HwIndex) for x in made_of([e], sources))


def counters(k: Kernel) -> set[str]:
    """Buffers whose atomics say where something is stored: how much was kept so far."""
    places = reached(k, (i for s in walk(k.body) if isinstance(s, Store) for i in s.index))
    params = {p.sym for p in k.params}
    return {s.buffer.name for s in walk(k.body) if isinstance(s, Atomic) and s.dst in places and s.buffer in params}


def compared(k: Kernel, buffer: Sym) -> set[str]:
    """Parameters that elements of ``buffer`` are compared with."""
    sources, params = definitions(k), {p.sym for p in k.params}
    out = set()
    for e in all_exprs(k.body):
        if isinstance(e, Binary) and e.op in ("<", "<=", ">", ">="):
            for x, y in ((e.a, e.b), (e.b, e.a)):
                if isinstance(y := without_casts(y), Var) and y.sym in params and loaded(x, sources, buffer):
                    out.add(y.sym.name)
    return out


def whole_floats(k: Kernel) -> dict[str, tuple[int, int]]:
    """Buffers of floating-point numbers whose elements say, as integers, where something is, with how long their rows
    are and the place in a row of those that do: (5, 0) of regions ``(image, x, y, width, height)``, (1, 0) where every
    element does. What is computed with first, as a coordinate is, says it of no element."""
    sources, numbers = definitions(k), integer_constants(k.body)
    left, seen, found = [i for _, i in _places(k)], set[Sym](), dict[str, tuple[int, int]]()
    while left:
        match left.pop():
            case Var(s):
                left += () if s in seen else sources.get(s, ())
                seen.add(s)
            case Cast(Scalar() as to, of) if to.is_int and isinstance(of.type, Scalar) and of.type.is_float:
                x = spelled_out(of, sources)
                found |= {x.buffer.name: _place_in_row(expand(x.index[0], numbers))} if isinstance(x, Load) else {}
            case Load():
                pass
            case e:
                left += children(e)
    return found


def _place_in_row(index: Expr) -> tuple[int, int]:
    """The length of the rows that ``index`` steps over, and which element of one it is; (1, 0) if it steps by one."""
    terms = polynomial(index)
    row = math.gcd(*(n for factors, n in terms.items() if factors)) or 1
    return row, terms.get((), 0) % row


def label_of(k: Kernel, buffer: Sym) -> str:
    """The parameter that a loop goes up to whose variable is compared with elements of ``buffer`` for being the same,
    or that is the number of blocks along an axis: a label is one of the classes; '' if there is none."""
    sources, params = definitions(k), {p.sym for p in k.params}
    for loop in walk(k.body):
        match loop:
            case For(cond=Binary("<", Var(i), last)) if i == loop.var and isinstance(p := without_casts(last), Var):
                if p.sym in params and any(without_casts(x) == Var(i) for x in _same(loop.body, buffer, sources)):
                    return p.sym.name
    blocks = dict(zip("xyz", map(without_casts, k.launch.grid))) if k.launch is not None else {}
    for x in _same(k.body, buffer, sources):
        match spelled_out(x, sources):
            case HwIndex("block", axis) if isinstance(n := blocks.get(axis), Var) and n.sym in params:
                return n.sym.name
    return ""


def _same(body: Body, buffer: Sym, sources: Mapping[Sym, list[Expr]]) -> Iterator[Expr]:
    """What elements of ``buffer`` are compared with for being the same."""
    for e in all_exprs(body):
        if isinstance(e, Binary) and e.op in ("==", "!="):
            yield from (x for x, y in ((e.a, e.b), (e.b, e.a)) if loaded(y, sources, buffer))


SHIFTS, JOINED = frozenset({">>", "<<"}), frozenset({"&", "|", "^"})


def taken_apart(k: Kernel, buffer: Sym) -> bool:
    """Whether the bits of elements of ``buffer`` are used one by one: packed numbers, masks. As small numbers most of
    them would be zero, and it would make no difference which are taken."""
    sources = definitions(k)

    def of_elements(e: Expr) -> bool:
        return any(isinstance(x, Load) and x.buffer == buffer for x in made_of([e], sources, places=False))

    def words(e: Expr) -> tuple[Expr, ...]:
        match e:
            case Binary(op, a, b) if op in SHIFTS | JOINED:
                return (a, b) if op in JOINED else (a,)
            case Unary("~", x):
                return (x,)
        return ()

    return any(w.type != BOOL and of_elements(w) for e in all_exprs(k.body) for w in words(e))


def parts_of(k: Kernel, buffer: Sym) -> set[int]:
    """Numbers that elements of ``buffer`` are divided by: what they say where to find lies together in groups."""
    sources, found = definitions(k), set[int]()
    for e in all_exprs(k.body):
        if isinstance(e, Binary) and e.op in ("/", ">>") and loaded(e.a, sources, buffer):
            by = int(evaluate(e.b, {}) or 1)
            found.add(by if e.op == "/" else 1 << min(max(by, 0), 31))
    return {n for n in found if n > 1}


def divides(k: Kernel, buffer: Sym) -> bool:
    """Whether something is divided by elements of ``buffer``: counts, lengths of rows, none of which is 0."""
    sources = definitions(k)
    divided = (e.b for e in all_exprs(k.body) if isinstance(e, Binary) and e.op in ("/", "%"))
    spelled = (spelled_out(b.x if isinstance(b, Cast) and b.style != "bit" else b, sources) for b in divided)
    return any(isinstance(x, Load) and x.buffer == buffer for x in spelled)


def mark_of(k: Kernel, buffer: Sym, fixed: Mapping[str, int]) -> int | None:
    """The negative number by which an element of ``buffer`` says that there is none: padding, no adapter, no label.

    ``fixed``: what integer parameters are. None where elements are told from no negative number.
    """
    sources, values = definitions(k), {p.sym: fixed[p.sym.name] for p in k.params if p.sym.name in fixed}
    for e in all_exprs(k.body):
        if isinstance(e, Binary) and loaded(e.a, sources, buffer):
            other = without_casts(e.b)
            value = values.get(other.sym) if isinstance(other, Var) else evaluate(other, {})
            if (e.op, value) in NONE or (e.op in ("==", "!=") and value is not None and value < 0):
                return int(value) if value and e.op in ("==", "!=") else -1
    return None


def marks(k: Kernel) -> dict[str, int]:
    """Integer parameters that elements of buffers are found equal to, and that nothing else needs but what is stored
    (``level + 1``): -1, or 0 where elements are told apart by -1 already."""
    sources, params = definitions(k), {p.sym for p in k.params}
    asked, needed, numbers = set[Sym](), set[Sym](), set[int | float | bool | None]()
    stored = {id(x) for s in walk(k.body) if isinstance(s, Store) for x in walk_expr(s.value)}
    for e in all_exprs(k.body):
        if isinstance(e, Binary):
            for x, y in ((e.a, e.b), (e.b, e.a)):
                mine = {s.sym for s in (without_casts(y),) if isinstance(s, Var)} & params
                equal = e.op in ("==", "!=") and loaded(x, sources)
                if equal or id(e) not in stored:
                    (asked if equal else needed).update(mine)
                numbers |= {evaluate(y, {})} if equal else set()
    needed |= reached(k, (i for _, i in _places(k)))
    return {s.name: 0 if -1 in numbers else -1 for s in asked - needed}


def bins(k: Kernel, buffer: Sym) -> tuple[str, int]:
    """The parameter that is the number of counters in shared memory that elements of ``buffer`` choose from, as many as
    a loop sets before, or as there are threads that set one each; and which counter an element of 0 means. '' if there
    is none."""
    sources, params = definitions(k), {p.sym for p in k.params}
    first = {b: n for b, e in _places(k) if b not in params and (n := _offset(e, buffer, sources)) is not None}
    for s in walk(k.body):
        match s:
            case For(cond=Binary("<", Var() as i, last)) | If(cond=Binary("<", i, last)):
                bound, body = without_casts(last), s.body if isinstance(s, For) else s.then
                set_ = [
                    x.buffer
                    for x in walk(body)
                    if isinstance(x, Store) and spelled_out(x.index[0], sources) == spelled_out(i, sources)
                ]
                if isinstance(bound, Var) and bound.sym in params and (found := [b for b in set_ if b in first]):
                    return bound.sym.name, first[found[0]]
    return "", 0


def _offset(e: Expr, buffer: Sym, sources: Mapping[Sym, list[Expr]]) -> int | None:
    """The number that is added to an element of ``buffer`` in ``e``; None if it is no such sum."""
    if loaded(e, sources, buffer):
        return 0
    match spelled_out(e, sources):
        case Binary("+", a, b) if loaded(a, sources, buffer) and (n := evaluate(b, {})) is not None and n >= 0:
            return int(n)
    return None


def _places(k: Kernel) -> Iterator[tuple[Sym, Expr]]:
    """Every buffer with the index of an access to it."""
    for s in walk(k.body):
        if isinstance(s, Store | Atomic):
            yield s.buffer, s.index[0]
        yield from ((x.buffer, x.index[0]) for x in _loads(stmt_exprs(s)))


def _loads(exprs: Iterable[Expr]) -> Iterator[Load]:
    return (x for e in exprs for x in walk_expr(e) if isinstance(x, Load))
