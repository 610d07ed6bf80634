"""Products that tensor cores can take: a loop that sums ``f32(a[..]) * f32(b[..])``, or of bytes in i32, inside two
parallel loops.

Of the parallel loops around the sum, the innermost that only the first factor's index knows gives the rows of the
product, the one that only the second knows the columns.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.order import places
from ktc.ir.fields import children
from ktc.ir.fold import is_const
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Assign,
    Binary,
    Body,
    Call,
    Cast,
    Decl,
    Expr,
    For,
    Load,
    Par,
    Reduce,
    Stmt,
    Store,
    Sym,
    Unary,
    Var,
    bodies,
)  # fmt: skip
from ktc.ir.types import F32, F64, I32, U32, Scalar
from ktc.ir.walk import assigned, declared, substitute_expr, used, walk
from ktc.passes.core.places import LoopStmt
from ktc.passes.core.refusals import Refusal, Refused, attempted
from ktc.passes.loops.tile import counted

WORDS = (F32, I32, U32, F64)
"""Types of sums that threads add up by themselves."""


@dataclass(frozen=True)
class Product:
    """``target += a * b`` over ``loop``: the two loads, and the parallel loops around, outermost first."""

    loop: For | Reduce
    around: tuple[Par, ...]
    init: Expr
    value: Expr
    a: Load
    b: Load
    rows: Par
    cols: Par
    body: Body  # declarations in front of the sum, inside the loop
    update: Stmt | None  # the statement that took the sum; None for a reduction
    offsets: bool = False  # whether an offset is added to a factor, in i32, before they are multiplied


def product_of(kernel: Kernel, s: LoopStmt, plain: bool = False, whole: bool = False) -> Product:
    """The product that ``s`` sums, or why it is none.

    ``plain``: a sum in words (:data:`WORDS`) that threads add up by themselves, of elements of any type;
    what is summed may then be anything that combines the two, such as their squared difference, with values that the
    sum does not change, and it may be subtracted, or the least or the greatest be kept. ``whole``: as it is before it
    is tiled, when its rows and columns may be spread over blocks alone."""
    locs = places(s)
    if isinstance(s, Par):
        raise Refusal("E-TENSOR-FORM", f"'{s.var.name}' is parallel: name the loop that sums", locs)
    around = next(path for path, x in pars(kernel.body, ()) if x is s)
    if isinstance(s, Reduce):
        if len(s.accs) != 1 or s.accs[0].op != "+" or any(lv.kind != "seq" for lv in s.dist):
            raise Refusal("E-TENSOR-FORM", f"'{s.var.name}' is no plain sum of one value", locs)
        front, init, value, update = s.body, s.accs[0].init, s.accs[0].value, None
    else:
        shape = attempted(counted, s)
        if isinstance(shape, Refused) or not is_const(shape[1], 1):
            raise Refusal("E-TENSOR-FORM", f"'{s.var.name}' does not count up by one", locs)
        if not s.body:
            raise Refusal("E-TENSOR-FORM", f"'{s.var.name}' has an empty body", locs)
        *head, update = s.body
        front = tuple(head)
        match update:
            case Assign(sym=x, value=e) if (term := _term(e, x, plain)) is not None:
                init, value = Var(x), term
            case Store(buffer=b, index=i, value=Binary("+", Load(c, j, 1), v)) if (b, i) == (c, j):
                init, value = Load(b, i), v
            case _:
                raise Refusal("E-TENSOR-FORM", f"'{s.var.name}' does not end in 'sum += product'", locs)
        if s.var in used(init):
            raise Refusal("E-TENSOR-FORM", "the sum is not one value: its place moves with the loop", locs)
    inner = [p for p in around if whole or any(lv.kind not in ("block", "cluster") for lv in p.dist) or not p.dist]
    return _operands(kernel, s, around, inner, front, init, value, update, plain)


def _term(e: Expr, total: Sym, plain: bool) -> Expr | None:
    """What ``total = e`` adds to ``total`` (``plain``: or takes from it, or compares with it); None if it is not so."""
    match e:
        case Binary("+", Var(y), term) if y == total:
            return term
        case Binary("-", Var(y), term) | Binary("+", term, Var(y)) if plain and y == total:
            return term
        case Call("min" | "max", (a, b)) if plain and Var(total) in (a, b):
            return b if a == Var(total) else a
        case Call("fma", (a, b, Var(y))) if plain and y == total:
            return Binary("*", a, b)
    return None


def products(kernel: Kernel, plain: bool = False) -> Iterator[Product]:
    """What serial loops of ``kernel``, not tiled yet, sum, where it is a product (see :func:`product_of`)."""
    for s in walk(kernel.body):
        p = attempted(product_of, kernel, s, plain, whole=True) if isinstance(s, For) else None
        if isinstance(p, Product):
            yield p


def pars(body: Body, around: tuple[Par, ...]) -> Iterator[tuple[tuple[Par, ...], Stmt]]:
    for s in body:
        yield around, s
        for b in bodies(s):
            yield from pars(b, (*around, s) if isinstance(s, Par) else around)


def _operands(
    kernel: Kernel,
    s: For | Reduce,
    around: tuple[Par, ...],
    inner: Sequence[Par],
    front: Body,
    init: Expr,
    value: Expr,
    update: Stmt | None,
    plain: bool,
) -> Product:
    locs = places(s)
    env: dict[Sym, Expr] = {}
    for d in front:
        if not isinstance(d, Decl) or d.init is None or d.sym in assigned(s.body):
            raise Refusal("E-TENSOR-FORM", f"'{s.var.name}' does more than sum a product", locs)
        env[d.sym] = substitute_expr(d.init, env)
    value = substitute_expr(value, env)
    changing = assigned(s.body) | set(declared(s.body)) | {s.var}
    factors = [] if plain else converted(value, changing)
    loads = _words(value, changing) if plain else [x.load for x in factors]
    if len(loads) != 2:
        why = "what is summed is not a product of two converted elements: (float)a[..] * (float)b[..]"
        raise Refusal("E-TENSOR-TYPE", why, locs)
    written = assigned(s.body) - ({init.buffer} if isinstance(init, Load) else set())
    if {x.buffer for x in loads} & written:
        raise Refusal("E-TENSOR-OPERAND", "the loop writes a factor", locs)
    names = definitions(kernel.body)
    loads = [dataclasses.replace(x, index=tuple(expand(i, names) for i in x.index)) for x in loads]
    known = [set().union(*(used(i) for i in x.index)) for x in loads]
    if any(s.var not in k for k in known):
        raise Refusal("E-TENSOR-OPERAND", f"both factors must be indexed by '{s.var.name}'", locs)
    only = [[p for p in inner if p.var in mine and p.var not in other] for mine, other in (known, known[::-1])]
    if not only[0] or not only[1]:
        why = "each factor must be indexed by a parallel loop of its own: the rows and the columns of the product"
        raise Refusal("E-TENSOR-NEST", why, locs, "raise first; a band over blocks alone is not enough")
    sides = [x[-1] for x in only]
    if around.index(sides[0]) > around.index(sides[1]):  # the innermost loop gives the columns
        loads.reverse()
        sides.reverse()
    bounds = (s.lo, s.hi) if isinstance(s, Reduce) else (s.init, s.cond)
    if any(used(e) & {p.var for p in sides} for e in bounds):
        raise Refusal("E-TENSOR-NEST", f"the range of '{s.var.name}' depends on the loops around it", locs)
    if not plain and any(x.var.type != I32 for x in (*sides, s)):
        raise Refusal("E-TENSOR-NEST", "the three loops must count in i32", locs)
    offsets = any(x.offset is not None for x in factors)
    return Product(s, around, init, value, loads[0], loads[1], sides[0], sides[1], front, update, offsets)


@dataclass(frozen=True)
class Factor:
    """An element, converted, and what is added to it: the same for all terms of a sum."""

    load: Load
    offset: Expr | None


def converted(e: Expr, changing: Collection[Sym]) -> list[Factor]:
    """The factors of ``f32(a[i]) * f32(b[j])``, or of i32, each of which may have an offset there: ``i32(a[i]) - z``;
    those that ``e`` has if it is something else. ``changing``: what differs from term to term."""
    if not isinstance(e, Binary) or e.op != "*" or e.type not in (F32, I32):
        return []
    return [f for x in (e.a, e.b) if (f := _factor(x, set(changing))) is not None]


def _factor(x: Expr, changing: set[Sym]) -> Factor | None:
    if isinstance(x, Cast) and isinstance(x.x, Load) and isinstance(x.x.type, Scalar):
        return Factor(x.x, None)
    if not isinstance(x, Binary) or x.op not in ("+", "-") or x.type != I32:
        return None
    orders = ((x.a, x.b), (x.b, x.a)) if x.op == "+" else ((x.a, x.b),)
    for inner, other in orders:
        if isinstance(inner, Cast) and isinstance(inner.x, Load) and not used(other) & changing:
            return Factor(inner.x, other if x.op == "+" else Unary("-", other)) if inner.x.width == 1 else None
    return None


def _words(e: Expr, changing: Collection[Sym]) -> list[Load]:
    """The elements that the value ``e``, a word, combines, each once; none if they are no numbers, or if what the sum
    changes has a part in ``e`` otherwise."""
    loads: list[Load] = []

    def read(x: Expr) -> bool:
        if isinstance(x, Load):
            loads.append(x)
            return x.width == 1 and isinstance(x.type, Scalar) and x.type.kind != "bool"
        return not (isinstance(x, Var) and x.sym in changing) and all(map(read, children(x)))

    return list(dict.fromkeys(loads)) if e.type in WORDS and read(e) else []
