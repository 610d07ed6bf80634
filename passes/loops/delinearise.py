"""delinearise: a loop over flat indices becomes the nest of loops that the digits of an index are.

before                                          after delinearise{loop=i}
    par i in 0..b * h * w @ [thread.x 256, block.x]     par batch in 0..b @ [block.z]
      let col: i32 = i % w                                par row in 0..h @ [block.y]
      let row: i32 = i / w % h                              par col in 0..w @ [thread.x 256, block.x]
      let batch: i32 = i / (w * h)                            out[batch * h * w + row * w + col] = x[row * w + col]
      out[i] = x[row * w + col]

A digit is what quotients and remainders by sizes take out of the index: all of ``i``, ``x / n`` and ``x % n`` of a
digit ``x``, whatever names it goes by on the way. The places where digits begin and end have to follow from each other,
each a multiple of the one before (``1, w, w * h``), and the length of the loop has to be a multiple of the last; what
begins or ends elsewhere is computed from the digits. Each loop has the name of a variable that is its digit, if it
has one. Where the length is a parameter for which the source's launch passes a product (``n = b * h * w``), that is
assumed, and tested by the launcher. Of a length that is nothing else, it is assumed to be a multiple of the last place.

Iterations of a parallel loop are independent, so their new order is one of those that there were; a digit of a number
that is no longer computed is the counter of its loop. The innermost loop keeps the levels over threads, the loops
around it take the axes of blocks that are free. With ``loops=3`` there are three loops at most: a digit that the body
takes apart further (``x / 2`` of a column ``x``) is one loop then, and the outermost goes through all digits that are
left, which are quotients and remainders of its counter. Blocks have three axes, and a loop
without one has no blocks of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.order import places
from ktc.ir.arith import REWRITES, Facts, facts_of
from ktc.ir.arith.divisors import quotient
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.arith.known_symbols import is_steady
from ktc.ir.arith.polynomial import Polynomial, constant, from_polynomial, plus, times
from ktc.ir.arith.size_equalities import shown_by_launch
from ktc.ir.fold import cast, i32, is_const
from ktc.ir.kernel import Assume, Kernel
from ktc.ir.nodes import Binary, Decl, Dist, Expr, Level, Par, Reduce, Stmt, Sym, Var, fresh
from ktc.ir.text import print_expr
from ktc.ir.types import Scalar
from ktc.ir.walk import all_exprs, assigned, declared, map_body, used, walk, with_children
from ktc.passes.core.argument_kinds import Loop
from ktc.passes.core.arguments import option, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.named_loops import replace_loops
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed


@dataclass(frozen=True)
class Arguments:
    loop: Loop = required("the parallel loop over flat indices")
    loops: int = option(0, "how many loops at most, the outermost over the digits left; 0: one a digit", least=0)


class Delinearise(Pass[Arguments]):
    name = "delinearise"
    summary = "a loop over flat indices as a nest of loops over their digits"
    refusals = ("E-PLACE", "E-DIGITS-LOOP", "E-DIGITS-NONE", "E-DIGITS-CHAIN")

    def sites(self, kernel: Kernel) -> list[Site]:
        flat = [s for s in walk(kernel.body) if isinstance(s, Par) and allowed(_taken_apart, kernel, s)]
        return [Site(self.step(loop=place_of(kernel, s)), "the loops that a flat index stands for") for s in flat]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        loop = args.loop.find(kernel)
        if not isinstance(loop, Par):
            raise Refusal("E-DIGITS-LOOP", f"'{args.loop}' is no parallel loop", places(loop))
        digits = _taken_apart(kernel, loop)
        if 0 < args.loops < len(digits.ends) - 1:
            digits = digits.without_parts() or digits
        nest = _nest(kernel, loop, digits, args.loops)
        notes = tuple(f"assumed: {print_expr(a.expr)}, which the launcher tests" for a in digits.given)
        given = kernel.with_(assumptions=(*kernel.assumptions, *digits.given))
        return Result(replace_loops(given, [loop], lambda _: nest), notes=notes)


# ------------------------------------------------------------------------------------------------------------- digits


@dataclass(frozen=True)
class Digit:
    """``i / begin % (end / begin)``; without ``end``, all from ``begin`` on. ``is_part``: of one that has an end."""

    begin: Polynomial
    end: Polynomial | None
    is_part: bool = False


@dataclass(frozen=True)
class Digits:
    """What of the body of ``loop`` is a digit. ``ends``: where digits begin and end, from 1 to the loop's length;
    ``given``: what is assumed of that."""

    loop: Par
    facts: Facts
    inside: frozenset[Sym]  # what each iteration has of its own
    inits: dict[Sym, Expr]  # of variables among them that keep their first value
    sizes: dict[Sym, Expr]  # of those, what parameters alone make: the width of an output
    ends: tuple[Polynomial, ...] = ()
    given: tuple[Assume, ...] = ()

    def of(self, e: Expr) -> Digit | None:
        """``e`` as a digit."""
        e = without_index_casts(e)
        if isinstance(e, Var):
            if e.sym == self.loop.var:
                return Digit(constant(1), None)
            return self.of(self.inits[e.sym]) if e.sym in self.inits else None
        if not isinstance(e, Binary) or e.op not in ("/", "%"):
            return None
        x, by = self.of(e.a), expand(e.b, self.sizes)
        if x is None or not self.facts.interval(by).positive or used(by) & self.inside:
            return None
        n = self.facts.polynomial(by)
        end = times(x.begin, n)
        if e.op == "/":
            return Digit(end, x.end, x.end is not None)
        if x.end is None or quotient(x.end, end) is not None:
            return Digit(x.begin, end, x.end is not None)
        return x if quotient(end, x.end) is not None else None

    def without_parts(self) -> Digits | None:
        """As many digits as there are without those that are parts of others; None if there are no others."""
        found = [d for e in all_exprs(self.loop.body) if isinstance(e, Binary) and (d := self.of(e)) is not None]
        whole = [p for d in found if not d.is_part for p in (d.begin, d.end)]
        ends = tuple(p for p in self.ends[1:-1] if p in whole)
        return dataclasses.replace(self, ends=(self.ends[0], *ends, self.ends[-1])) if ends else None

    def one(self, e: Expr) -> tuple[int, int] | None:
        """The place of ``e`` if it is the counter of a single loop."""
        d = self.of(e)
        at = self.at(d) if d is not None else None
        return at if at is not None and at[1] == at[0] + 1 else None

    def at(self, d: Digit) -> tuple[int, int] | None:
        """Between which of ``ends`` a digit lies."""
        end = self.ends[-1] if d.end is None else d.end
        if d.begin not in self.ends or end not in self.ends:
            return None
        return self.ends.index(d.begin), self.ends.index(end)


def _taken_apart(kernel: Kernel, loop: Par) -> Digits:
    """The digits of ``loop``, as many as there are under what a launcher can test, or why it has none."""
    best: Digits | None = None
    refusal: Refusal | None = None
    shown = tuple(e.fact for e in shown_by_launch(kernel) if e.sym in used(loop.hi))
    counts = tuple(_positive_divisors(kernel, loop))
    given = dict.fromkeys(((), shown, counts, (*shown, *counts)))
    named = isinstance(without_index_casts(loop.hi), Var)
    for facts, whole in ((facts, whole) for whole in ((False, True) if named else (False,)) for facts in given):
        if whole and best is not None:
            break
        try:
            found = _digits(kernel.with_(assumptions=(*kernel.assumptions, *facts)), loop, whole)
        except Refusal as why:
            refusal = refusal or why
            continue
        if best is None or len(found.ends) > len(best.ends):
            best = dataclasses.replace(found, given=(*facts, *found.given))
    if best is None:
        assert refusal is not None
        raise refusal
    return best


def _positive_divisors(kernel: Kernel, loop: Par) -> Iterator[Assume]:
    """That sizes by which the iterations of ``loop`` divide integers are positive, where that is not known."""
    params = {p.sym for p in kernel.params} - assigned(kernel.body)
    facts, sizes = facts_of(kernel, REWRITES).at(loop), _made_of_parameters(kernel, loop)
    divisors = (without_index_casts(expand(e.b, sizes)) for e in all_exprs(loop.body)
                if isinstance(e, Binary) and e.op in ("/", "%") and getattr(e.type, "is_int", False))  # fmt: skip
    for e in dict.fromkeys(d for d in divisors if used(d) and is_steady(d, set()) and used(d) <= params):
        if not facts.interval(e).positive:
            yield Assume(Binary(">=", e, cast(i32(1), e.type)), "guessed")  # type: ignore[arg-type]


def _inits(loop: Par) -> dict[Sym, Expr]:
    """What each iteration of ``loop`` has of its own that keeps its first value, and that."""
    changed = assigned(loop.body)
    decls = (s for s in walk(loop.body) if isinstance(s, Decl) and s.sym not in changed)
    return {s.sym: s.init for s in decls if s.init is not None}


def _made_of_parameters(kernel: Kernel, loop: Par) -> dict[Sym, Expr]:
    """Which integers that have names, in ``loop`` or before it, are made of parameters alone, and of which they are."""
    params, inits = {p.sym for p in kernel.params} - assigned(kernel.body), {**definitions(kernel.body), **_inits(loop)}
    whole = ((s, expand(e, inits)) for s, e in inits.items() if isinstance(s.type, Scalar) and s.type.is_int)
    return {s: e for s, e in whole if used(e) <= params and is_steady(e, set())}


def _digits(kernel: Kernel, loop: Par, whole: bool) -> Digits:
    """The digits of ``loop``, or why it has none; ``whole``: its length is taken to be a multiple of them."""
    name, facts = loop.var.name, facts_of(kernel, REWRITES).at(loop)
    if not is_const(loop.lo, 0):
        raise Refusal("E-DIGITS-LOOP", f"'{name}' does not begin at 0", places(loop))
    inits, own = _inits(loop), frozenset((loop.var, *declared(loop.body)))
    sizes = _made_of_parameters(kernel, loop)
    digits = Digits(loop, facts, own, inits, sizes)
    found = [d for e in all_exprs(loop.body) if isinstance(e, Binary) and (d := digits.of(e)) is not None]
    if not found:
        raise Refusal("E-DIGITS-NONE", f"nothing is a quotient or a remainder of '{name}'", places(loop))
    hi = expand(loop.hi, sizes)
    length = facts.polynomial(hi)
    if not whole:
        return dataclasses.replace(digits, ends=tuple(_chain(loop, found, length)))
    last = _multiples(_cuts(found, length))[-1]
    if set(last) <= {()}:
        raise Refusal("E-DIGITS-CHAIN", f"'{name}' is taken apart at no size", places(loop))
    last_place = from_polynomial(last, hi.type)
    length = times(last, {(Binary("/", hi, last_place),): 1})
    fact = Assume(Binary("==", Binary("%", hi, last_place), cast(i32(0), last_place.type)), "guessed")  # type: ignore[arg-type]
    return dataclasses.replace(digits, ends=tuple(_chain(loop, found, length)), given=(fact,))


def _cuts(found: Sequence[Digit], length: Polynomial) -> list[Polynomial]:
    """Where digits begin and end in a number below ``length``."""
    cuts: list[Polynomial] = []
    for p in (p for d in found for p in (d.begin, d.end) if p is not None):
        cuts += [p] if p not in (constant(1), length, *cuts) else []
    return cuts


def _multiples(cuts: Sequence[Polynomial]) -> list[Polynomial]:
    """1, and those of ``cuts`` that are each a multiple of the one before."""
    chain = [constant(1)]
    for p in sorted(cuts, key=lambda p: sum(quotient(p, q) is not None for q in cuts)):
        chain += [p] if quotient(p, chain[-1]) is not None else []
    return chain


def _chain(loop: Par, found: Sequence[Digit], length: Polynomial) -> Iterator[Polynomial]:
    """1, where digits begin and end, and ``length``, each a multiple of the one before. Other places are left out: what
    begins or ends there is computed from the digits."""
    cuts = _cuts(found, length)
    chain = _multiples([p for p in cuts if quotient(length, p) is not None])
    if cuts and chain == [constant(1)]:
        at, end = (print_expr(from_polynomial(x, loop.var.type)) for x in (cuts[0], length))
        what = f"'{loop.var.name}' is taken apart at {at} and at {end}"
        raise Refusal(
            "E-DIGITS-CHAIN", f"{what}, which is not shown to be a multiple of it", places(loop),
            "an equality of sizes in the workload (assume) may show it",
        )  # fmt: skip
    yield from (*chain, length)


# --------------------------------------------------------------------------------------------------------- the new nest


def _nest(kernel: Kernel, loop: Par, digits: Digits, most: int) -> Par:
    """The loops of ``digits``, the outermost first, at ``most`` so many unless 0, around the body in terms of their
    counters."""
    t = loop.var.type
    assert isinstance(t, Scalar)
    ratios = [quotient(q, p) for p, q in pairwise(digits.ends)]
    names = dict(_names(digits))
    counters = [fresh(names.get(k, f"{loop.var.name}_{len(ratios) - 1 - k}"), t) for k in range(len(ratios))]

    named = {s: at[0] for s, init in digits.inits.items() if s.type == t and (at := digits.one(init)) is not None}

    def number(begin: int, end: int) -> Polynomial:
        total: Polynomial = {}
        for k in range(begin, end):
            weight = quotient(digits.ends[k], digits.ends[begin])
            assert weight is not None
            total = plus(total, times({(Var(counters[k]),): 1}, weight))
        return total

    def on(e: Expr) -> Expr:
        if isinstance(e, Var) and e.sym in named:
            return Var(counters[named[e.sym]])
        d = digits.of(e) if isinstance(e, Binary) or (isinstance(e, Var) and e.sym == loop.var) else None
        at = digits.at(d) if d is not None else None
        return with_children(e, on) if at is None else from_polynomial(number(*at), e.type)

    def statement(s: Stmt) -> Stmt | None:
        return None if isinstance(s, Decl) and s.sym in named else with_children(s, on)

    body = map_body(loop.body, statement)
    read = {x for e in all_exprs(body) for x in used(e)}
    spare = {s for s, init in digits.inits.items() if s not in read and digits.of(init) is not None}
    body = map_body(body, lambda s: None if isinstance(s, Decl) and s.sym in spare else s)
    single = len(counters) if most == 0 or len(counters) <= most else most - 1
    spans = [(n, n + 1) for n in range(single)] + ([(single, len(counters))] if single < len(counters) else [])
    if single < len(counters):
        joint = fresh("_".join(c.name for c in reversed(counters[single:])), t)
        body = (*_split(joint, counters[single:], [r or {} for r in ratios[single:]]), *body)
        counters[single:] = [joint]
    for counter, (begin, end), dist in zip(counters, spans, _levels(kernel, loop, len(spans))):
        ratio = quotient(digits.ends[end], digits.ends[begin])
        assert ratio is not None
        hi = from_polynomial(ratio, t)
        body = (dataclasses.replace(loop, var=counter, lo=cast(i32(0), t), hi=hi, dist=dist, body=body),)
    (nest,) = body
    assert isinstance(nest, Par)
    return nest


def _split(joint: Sym, digits: Sequence[Sym], ratios: Sequence[Polynomial]) -> Iterator[Decl]:
    """Declarations of ``digits``, the lowest first, of the number ``joint``."""
    left: Expr = Var(joint)
    for k, (digit, ratio) in enumerate(zip(digits, ratios)):
        n = from_polynomial(ratio, joint.type)
        last = k == len(digits) - 1
        yield Decl(digit, left if last else Binary("%", left, n))
        left = left if last else Binary("/", left, n)


def _names(digits: Digits) -> Iterator[tuple[int, str]]:
    """The name of the first variable that is the ``k``-th digit."""
    for s, init in reversed(digits.inits.items()):
        at = digits.one(init)
        if at is not None:
            yield at[0], s.name


def _levels(kernel: Kernel, loop: Par, count: int) -> Iterator[Dist]:
    """The levels of ``count`` loops in place of ``loop``, the innermost first: its own but for blocks, which the loops
    share out among the axes that no other loop has."""
    others = [s for s in walk(kernel.body) if isinstance(s, Par | Reduce) and s is not loop]
    taken = {lv.axis for s in others for lv in s.dist if lv.kind == "block"}
    inner = tuple(lv for lv in loop.dist if lv.kind not in ("block", "seq"))
    spread = any(lv.kind == "block" for lv in loop.dist)
    free = [a for a in "xyz" if spread and a not in taken]
    for k in range(count):
        last = Level("block", axis=free[k]) if k < len(free) else Level("seq")
        yield (*inner, last) if k == 0 else (last,)
