"""Numbers of elements that are whole rows: ``if (i < n) y[i] = x[i] + w[i % cols]`` goes through rows of ``cols``.

As numbers of their own, n and cols would be a row and a half, or a third of one, which no caller has. A draft gives
such a kernel rows: ``n = n_rows * cols``. The same where the host computes n from numbers that say nothing to the
kernel, ``layer.out_h * layer.out_w * c * layer.batch``, and the kernel knows better how long its rows are,
``(h + pad - size) / stride + 1``. A size that is divided by a product of others, ``c / (stride * stride)``, is a whole
multiple of it: a smaller one would be none.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from ktc.ir.analysis.defs import expand
from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import ORDERINGS, Assign, Binary, Expr, For, Load, Sym, Var
from ktc.ir.types import scalar_of
from ktc.ir.walk import all_exprs, stmt_exprs, used, walk, walk_expr
from ktc.passes.shared.loop_bounds import upper_bound

from ..given_values import definitions, spelled_out
from ..roles import Roles
from ..windows import names_in, spelled


def with_whole_rows(k: Kernel, roles: Roles) -> Roles:
    """``roles`` in which numbers of elements are tied to the rows that they consist of. What they were, or were
    computed from by the host and says nothing else, is no size any more; the number of rows is."""
    rows = _whole_rows(k, roles)
    rows |= {n: text for n, text in _multiples(k, roles).items() if n not in rows}
    rows |= {n: text for n, text in _gone_through(k, roles).items() if not {n, *names_in(text)} & {*rows}}
    if not rows:
        return roles
    gone = {n for total in rows if total in roles.tied for n in _alone(k, roles, total)}
    own = {total: text.split(" * ")[0] for total, text in rows.items()}
    sizes = [own.get(n, n) for n in roles.sizes if n not in gone]
    sizes += [n for total, n in own.items() if total in roles.tied]
    return replace(roles, sizes=tuple(sizes), tied={**roles.tied, **rows})


def _whole_rows(k: Kernel, roles: Roles) -> dict[str, str]:
    """Sizes that an index goes up to which is taken apart by other sizes, each as a product of those and of one more,
    the number of rows: its name stands first."""
    taken = {p.sym.name for p in k.params}
    free = {n for n in roles.sizes if n in taken and n not in roles.tied}
    products = {n for n in roles.tied if n in taken and _alone(k, roles, n)}
    found: dict[str, str] = {}
    apart = {i: names for i, names in _taken_apart(k, free).items() if not _chooses(k, i) and not _told(k, i, names)}
    for total, index in _counted(k, (free - {*roles.divisors}) | products):
        inner = [n for n in apart.get(index, ()) if n != total]
        name = f"{total}_rows"
        if total in products and not _says_less(k, roles, total, inner):
            continue
        if inner and total not in found and not {*inner} & {*found} and name not in taken:
            found[total] = " * ".join((name, *reversed(inner)))
    used = {n for text in found.values() for n in names_in(text)}
    return {n: text for n, text in found.items() if n not in used}


def _multiples(k: Kernel, roles: Roles) -> dict[str, str]:
    """Sizes that are divided by a product of other sizes, as multiples of that."""
    params = {p.sym for p in k.params}
    free = {n for n in roles.sizes if n not in roles.tied} & {s.name for s in params}
    found: dict[str, str] = {}
    for e in all_exprs(k.body):
        if isinstance(e, Binary) and e.op == "/" and isinstance(size := without_casts(e.a), Var) and size.sym in params:
            by = spelled(e.b, params)
            name = f"{size.sym.name}_parts"
            if by is None or not re.fullmatch(r"[\w* ()]+\*[\w* ()]+", by) or name in {s.name for s in params}:
                continue
            if {*names_in(by), size.sym.name} <= free and size.sym.name not in names_in(by):
                found.setdefault(size.sym.name, f"{name} * {by}")
    return {n: text for n, text in found.items() if not {*names_in(text)} & {*found}}


def _gone_through(k: Kernel, roles: Roles) -> dict[str, str]:
    """Sizes that a loop goes through in steps of another, ``x[c * step + i]`` with ``c`` below ``size / step``, as
    multiples of that: nothing is done with a rest."""
    params = {p.sym: p.sym.name for p in k.params}
    free = {n for n in roles.sizes if n not in roles.tied}
    known = definitions(k)
    scaled = {(x.sym, y.sym) for e in all_exprs(k.body) for x, y in _factors(e)}
    found: dict[str, str] = {}
    for s in (s for s in walk(k.body) if isinstance(s, For)):
        end = upper_bound(s.cond, s.var)
        quotient = spelled_out(end, known) if end is not None else None
        if not isinstance(quotient, Binary) or quotient.op != "/":
            continue
        size, step = without_casts(quotient.a), without_casts(quotient.b)
        if isinstance(size, Var) and isinstance(step, Var) and size != step and (s.var, step.sym) in scaled:
            a, b = params.get(size.sym, ""), params.get(step.sym, "")
            found |= {a: f"{a}_parts * {b}"} if {a, b} <= free else {}
    taken = {*params.values()}
    return {n: text for n, text in found.items() if f"{n}_parts" not in taken and not {*names_in(text)} & {*found}}


def _factors(e: Expr) -> Iterator[tuple[Var, Var]]:
    """The two variables of a product, in both orders."""
    if isinstance(e, Binary) and e.op == "*":
        a, b = without_casts(e.a), without_casts(e.b)
        if isinstance(a, Var) and isinstance(b, Var):
            yield from ((a, b), (b, a))


def _alone(k: Kernel, roles: Roles, total: str) -> set[str]:
    """Factors of the product that the host computes for ``total`` which nothing else is made of."""
    text = roles.tied[total]
    if re.sub(r"[\w* ()]", "", text):
        return set()
    others = {n for t, other in roles.tied.items() if t != total for n in names_in(other)}
    others |= {p.sym.name for p in k.params}
    return {n for n in names_in(text) if n in roles.sizes} - others


def _says_less(k: Kernel, roles: Roles, total: str, inner: Collection[str]) -> bool:
    """Whether the host's product for ``total`` has other factors than those that the kernel takes its index apart by,
    at least one for each and one more."""
    told = {*names_in(roles.tied[total])}
    unknown = [n for n in inner if n not in told]
    return bool(unknown) and len(_alone(k, roles, total)) > len(unknown)


def _taken_apart(k: Kernel, free: set[str]) -> dict[Sym, list[str]]:
    """For each index, the sizes whose remainder is taken of it, or of what is left of it when others are divided out,
    the innermost first; what is computed from sizes as text in brackets."""
    known = definitions(k)
    sources = {s: found[0] for s, found in known.items() if len(found) == 1}
    params = {p.sym for p in k.params}
    found: dict[Sym, list[str]] = {}
    for e in all_exprs(k.body):
        if isinstance(e, Binary) and e.op == "%":
            by = spelled(e.b, params, known)
            index = _index(e.a, sources)
            if by is not None and index is not None and {*names_in(by)} and {*names_in(by)} <= free:
                names = found.setdefault(index, [])
                outer = [spelled(d, params, known) for d in _divided_out(e.a, sources)]
                names += [n for n in outer if n in free and n not in {i for x in names for i in names_in(x)}]
                names += [by] if by not in names else []
    return found


def _divided_out(e: Expr, sources: Mapping[Sym, Expr]) -> list[Expr]:
    """What an index is divided by to get ``e``, the first first: rows of ``(i / width) % height`` have that width."""
    e = without_casts(e)
    if isinstance(e, Var) and e.sym in sources:
        return _divided_out(sources[e.sym], {s: x for s, x in sources.items() if s != e.sym})
    return [*_divided_out(e.a, sources), e.b] if isinstance(e, Binary) and e.op == "/" else []


def _chooses(k: Kernel, index: Sym) -> bool:
    """Whether quotients of an index choose an integer, as those of a position choose a page in a table: the last page
    need not be full."""
    sources = {s: found[0] for s, found in definitions(k).items() if len(found) == 1 and s != index}
    for e in all_exprs(k.body):
        if isinstance(e, Load) and scalar_of(e.buffer.type).is_int:
            parts = [x for x in walk_expr(expand(e.index[0], sources)) if isinstance(x, Binary) and x.op == "/"]
            if any(_index(x, sources) == index for x in parts):
                return True
    return False


def _told(k: Kernel, index: Sym, inner: list[str]) -> bool:
    """Whether ``index`` is compared with a product of one of ``inner``, too: its own number of rows is there."""
    products = (n for i, n in _ordered(k) if i == index and isinstance(n, Binary) and n.op == "*")
    return any(s.name in inner for n in products for s in used(n))


def _index(e: Expr, sources: Mapping[Sym, Expr]) -> Sym | None:
    """The variable that ``e`` is, or is a quotient of."""
    e = without_casts(e)
    while isinstance(e, Binary) and e.op == "/":
        e = without_casts(e.a)
    if not isinstance(e, Var):
        return None
    given = without_casts(sources[e.sym]) if e.sym in sources else None
    divided = isinstance(given, Var) or (isinstance(given, Binary) and given.op == "/")
    if given is None or not divided or any(isinstance(x, Load) for x in walk_expr(given)):
        return e.sym
    return _index(given, {s: x for s, x in sources.items() if s != e.sym})


def _counted(k: Kernel, free: Collection[str]) -> Iterator[tuple[str, Sym]]:
    """Numbers of elements with the indices that are compared with them: all others do nothing, or leave."""
    params = {p.sym: p.sym.name for p in k.params}
    for index, end in _ordered(k):
        if isinstance(end, Var) and params.get(end.sym) in free:
            yield params[end.sym], index


def _ordered(k: Kernel) -> Iterator[tuple[Sym, Expr]]:
    """Variables with what they are compared with for being less or more, as long as they are what they were: what is
    left of ``at`` by a stride says nothing of what ``at / stride`` stays below."""
    divided = set[Sym]()
    for s in walk(k.body):
        for e in (x for y in stmt_exprs(s) for x in walk_expr(y)):
            if isinstance(e, Binary) and e.op in ORDERINGS:
                a, b = without_casts(e.a), without_casts(e.b)
                both = ((x.sym, y) for x, y in ((a, b), (b, a)) if isinstance(x, Var))
                yield from ((v, y) for v, y in both if v not in divided)
        if isinstance(s, Assign) and isinstance(of := without_casts(s.value), Binary) and of.op == "/":
            divided |= {s.sym} if without_casts(of.a) == Var(s.sym) else set()


__all__ = ["with_whole_rows"]
