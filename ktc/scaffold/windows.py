"""Sizes of windows, how far they reach and what they leave of other sizes; integer expressions as a workload's text."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fold import evaluate, is_const
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import COMPARISONS, Binary, Call, Cast, Const, Expr, For, HwIndex, Select, Sym, Unary, Var, fresh
from ktc.ir.types import Scalar
from ktc.ir.walk import all_exprs, map_expr, used, walk, walk_expr

from .given_values import made_of, spelled_out

NAME = re.compile(r"\b(?!(?:if|else|and|or|not)\b)[A-Za-z_]\w*\b(?!\s*\()")
"""A name in an integer expression that is no function's."""


def names_in(text: str) -> list[str]:
    """The names of an integer expression, without those of functions."""
    return NAME.findall(text)


FORMULAS = frozenset({"+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">="})
"""Operators that formulas of a workload write as C does."""


def spelled(e: Expr, params: set[Sym], sources: Mapping[Sym, Sequence[Expr]] = {}) -> str | None:
    """An integer expression over parameters as a workload writes it, variables by what ``sources`` say that they are
    given; None for anything else."""
    match e:
        case Const(int() as v, _):
            return str(int(v))
        case Var(s) if s in params:
            return s.name
        case Var(s) if len(sources.get(s, ())) == 1:
            return spelled(sources[s][0], params, {k: v for k, v in sources.items() if k != s})
        case Cast(_, x):
            return spelled(x, params, sources)
        case Binary("+", bits, one) if is_const(without_casts(one), 1) and (whole := _below_all_bits(bits)) is not None:
            bare = spelled(whole, params, sources)
            return f"next_pow2({bare})" if bare else None
        case Binary("-") if (whole := _above_leading_zeros(e)) is not None:
            bare = spelled(whole, params, sources)
            return f"ceil_log2({bare})" if bare else None
        case Binary(op, a, b) if op in FORMULAS:
            left, right = spelled(a, params, sources), spelled(b, params, sources)
            return f"({left} {op} {right})" if left and right else None
        case Binary(">>" | "<<" as op, a, by) if 0 <= (shift := _number(by)) < 31:  # of sizes, which are no less than 0
            bare = spelled(a, params, sources)
            return f"({bare} {'/' if op == '>>' else '*'} {1 << shift})" if bare else None
        case Binary("&", a, by) if (mask := _number(by)) >= 0 and (mask + 1) & mask == 0:  # the last bits of sizes
            bare = spelled(a, params, sources)
            return f"({bare} % {mask + 1})" if bare else None
        case Call("min" | "max" | "cdiv" as fn, args):
            each = [spelled(x, params, sources) for x in args]
            return f"{fn}({', '.join(x for x in each if x)})" if all(each) else None
        case Unary("!", x):
            bare = spelled(x, params, sources)
            return f"({bare} == 0)" if bare else None
        case Select(Binary("<=", n, one), Const(1), x) if is_const(without_casts(one), 1):
            bare = spelled(n, params, sources)
            return text if (text := spelled(x, params, sources)) == f"next_pow2({bare})" else None
        case Select(c, x, y):
            parts = [spelled(part, params, sources) for part in (x, c, y)]
            return "({} if {} else {})".format(*parts) if all(parts) else None
        case Binary("<<", one, by) if is_const(without_casts(one), 1):
            whole = _above_leading_zeros(without_casts(by))
            bare = spelled(whole, params, sources) if whole is not None else None
            return f"next_pow2({bare})" if bare else None
    return None


def _number(e: Expr) -> int:
    """The number that ``e`` is; -1 for what is none."""
    found = evaluate(e, {})
    return -1 if found is None else int(found)


def _above_leading_zeros(e: Expr) -> Expr | None:
    """n of ``32 - clz(n - 1)``, how many bits n - 1 has; None for anything else."""
    match e:
        case Binary("-", bits, zeros) if isinstance(call := without_casts(zeros), Call) and call.fn == "clz":
            match without_casts(call.args[0]):
                case Binary("-", n, one) if is_const(without_casts(one), 1) and isinstance(call.args[0].type, Scalar):
                    return n if is_const(without_casts(bits), call.args[0].type.bits) else None
    return None


def _below_all_bits(e: Expr) -> Expr | None:
    """n where ``e`` is n - 1 with all bits below its highest one set, as ``v |= v >> 1; v |= v >> 2; ..`` sets those of
    the 16 lower ones or more; None for anything else."""
    first = e
    while isinstance(first, Binary) and first.op == "|":
        first = without_casts(first.a)
    if first is e or not isinstance(first, Binary) or first.op != "-" or not is_const(without_casts(first.b), 1):
        return None
    bits = fresh("bits", first.type)
    of_bits = map_expr(e, lambda x: Var(bits) if x == first else x)
    if used(of_bits) != {bits}:
        return None
    tried = (0, *(n for k in range(16) for n in (1 << k, (1 << k) + 1, (2 << k) - 1)))
    return first.a if all(evaluate(of_bits, {"bits": n}) == (1 << n.bit_length()) - 1 for n in tried) else None


def halves_of(k: Kernel, sources: Mapping[Sym, Sequence[Expr]]) -> Iterator[str]:
    """Parameters that a loop's variable starts minus of, or that are taken off another size or off what a block begins
    with: how far windows reach.

    ``sources``: what variables of the body are given.
    """
    params = {p.sym for p in k.params}
    starts = [x for s in walk(k.body) if isinstance(s, For) for x in walk_expr(spelled_out(s.init, sources))]
    extents = () if k.launch is None else (*k.launch.grid, *k.launch.block)
    for e in (*starts, *(x for y in (*extents, *all_exprs(k.body)) for x in walk_expr(y))):
        match e:
            case Unary("-", x):
                window, whole = without_casts(x), None
            case Binary("-", a, b):
                window, whole = without_casts(b), spelled_out(a, sources)
            case _:
                continue
        if isinstance(window, Var) and window.sym in params:
            of_a_size = isinstance(whole, Var) and whole.sym in params and whole.sym != window.sym
            if of_a_size or any(e is x for x in starts) or (whole is not None and _of_blocks(whole, sources)):
                yield window.sym.name


def _of_blocks(e: Expr, sources: Mapping[Sym, Sequence[Expr]]) -> bool:
    """Whether ``e`` is made of the number of a block, and of no thread's."""
    levels = {x.level for x in made_of([e], sources, places=False) if isinstance(x, HwIndex)}
    return "block" in levels and "thread" not in levels


USUAL = {"window": 3, "padded": 3, "border": 1, "step": 1, "square": 9}
"""The size of what a launch computes the number of windows from, or of a square window, by what it is."""

USUAL_WAYS = tuple(
    USUAL | more for more in ({}, {"step": 2}, {"window": 5, "padded": 5, "border": 2, "square": 25}, {"window": 2})
)
"""The same, and what is next in use: a source may have kernels of its own for what is most usual."""

PROBED = {"window": (2, 3, 4), "padded": (3, 4, 5), "border": (1, 2), "step": (1, 2, 3), "square": (4, 9, 16)}
"""Its sizes in probes: no window with a border lies beyond what it goes over."""


def host_windows(k: Kernel) -> Iterator[tuple[str, str]]:
    """What the source's launch computes a number of windows from, with what each is (``USUAL``).

    That is ``(W + 2 * border - window) / step + 1``; a quotient alone, ``C / groups``, is no window.
    """
    params = {p.sym for p in k.params}
    for _, formula in k.launch.passed if k.launch is not None else ():
        for e in walk_expr(formula):
            match e:
                case Binary("/", a, b) if any(isinstance(x, Binary) and _offset(x, params) for x in walk_expr(a)):
                    yield from ((n, "step") for n in _name(b, params))
                case Binary("+" | "-"):
                    yield from _offset(e, params)


def counted_windows(k: Kernel, sources: Mapping[Sym, Sequence[Expr]]) -> Iterator[tuple[str, str]]:
    """What the body computes a number of windows from, with what each is: ``(h + pad - size) / step + 1`` rows of a
    pooling layer. A border is added to several sizes, or twice to one."""
    params = {p.sym for p in k.params}
    found: dict[str, tuple[list[Expr], list[Expr], Expr]] = {}
    for e in all_exprs(k.body):
        if isinstance(e, Binary) and e.op == "/" and isinstance(e.type, Scalar) and e.type.is_int:
            more, less = summands(e.a)
            text = spelled(e, params, sources)
            if text is not None and any(_name(x, params) for x in less):
                found[text] = more, less, e.b
    added = [name for more, _, _ in found.values() for x in more for name in _name(x, params)]
    for more, less, step in found.values():
        yield from ((n, "window") for x in less for n in _name(x, params))
        yield from ((n, "step") for n in _name(step, params))
        yield from ((n, "border") for n in {*added} if added.count(n) > 1)
        twice = (x for x in map(without_casts, more) if isinstance(x, Binary) and x.op == "*")
        pairs = (pair for x in twice for pair in ((x.a, x.b), (x.b, x.a)))
        yield from ((n, "border") for two, x in pairs if is_const(without_casts(two), 2) for n in _name(x, params))


def summands(e: Expr) -> tuple[list[Expr], list[Expr]]:
    """The terms that a sum is made of: those that are added, and those that are taken off."""
    match without_casts(e):
        case Binary("+" | "-" as op, a, b):
            (more, less), (plus, minus) = summands(a), summands(b)
            return (more + plus, less + minus) if op == "+" else (more + minus, less + plus)
        case x:
            return [x], []


def taps(k: Kernel, sources: Mapping[Sym, Sequence[Expr]]) -> Iterator[tuple[str, str]]:
    """Parameters that a loop goes up to, one by one, whose variable an index adds to a thread's own place, with what
    they are: windows (``x[i + tap]``, ``x[step * i + tap]``) and, where the host divides by it, their step; borders,
    where the loop begins as far on the other side (``for (tap = -r; tap <= r; ++tap)``)."""
    params = {p.sym for p in k.params}
    divided = [*(e for _, e in k.launch.passed), *k.launch.grid] if k.launch is not None else []
    steps = {
        b.sym
        for e in divided
        for x in walk_expr(e)
        if isinstance(x, Binary) and x.op == "/" and isinstance(b := without_casts(x.b), Var)
    }
    rows = _compared_with_their_end(k, params, sources)
    bounds = {v: told for v, told in tap_bounds(k, params).items() if told[0] not in rows}
    for e in all_exprs(k.body):
        for tap in (without_casts(e.a), without_casts(e.b)) if isinstance(e, Binary) and e.op == "+" else ():
            if not isinstance(tap, Var) or tap.sym not in bounds:
                continue
            for scale in _scales(e, sources):
                if scale is None or scale in steps:
                    yield bounds[tap.sym]
                    yield from ((scale.name, "step"),) if scale is not None and scale in params else ()


def _compared_with_their_end(k: Kernel, params: set[Sym], sources: Mapping[Sym, Sequence[Expr]]) -> set[str]:
    """The parameters that loops go up to and that sums with such a loop's variable are compared with (``at = y + tap -
    1``, ``at < h``, in a loop over ``y`` up to ``h``): rows of an image, whatever is added to them."""
    bounds = tap_bounds(k, params)
    out = set[str]()
    for e in all_exprs(k.body):
        if isinstance(e, Binary) and e.op in ("<", ">=") and (named := _name(e.b, params)):
            at = spelled_out(without_casts(e.a), sources)
            mine = {v for v in used(at) if v in bounds and bounds[v][0] in named}
            out |= {bounds[v][0] for v in mine if at != Var(v)}
    return out


def dilated_taps(k: Kernel, sources: Mapping[Sym, Sequence[Expr]]) -> Iterator[tuple[str, str]]:
    """Parameters of windows whose elements are apart, ``y * step + dilation * tap - border``, with what they are."""
    params = {p.sym for p in k.params}
    bounds = tap_bounds(k, params)
    borders: dict[Sym, list[str]] = {}
    for e in (x for whole in all_exprs(k.body) for x in walk_expr(whole) if isinstance(x, Binary) and x.op == "-"):
        if isinstance(of := without_casts(e.a), Var):
            borders.setdefault(of.sym, []).extend(_name(e.b, params))
    for v, values in sources.items():
        for e in (x for x in map(without_casts, values) if isinstance(x, Binary) and x.op == "+"):
            for place, tap in ((e.a, without_casts(e.b)), (e.b, without_casts(e.a))):
                sides = (tap.a, tap.b) if isinstance(tap, Binary) and tap.op == "*" else ()
                mine = [bounds[x.sym] for x in map(without_casts, sides) if isinstance(x, Var) and x.sym in bounds]
                scales = [s for s in _scales(place, sources) if s is not None and s in params]
                if mine and scales:
                    yield from (*mine, *((s.name, "step") for s in scales))
                    yield from ((n, "step") for x in sides for n in _name(x, params))
                    yield from ((n, "border") for n in borders.get(v, ()))


def tap_bounds(k: Kernel, params: set[Sym]) -> dict[Sym, tuple[str, str]]:
    """The variables of loops that go up one by one to one of ``params``, with that and what it is: :func:`taps`."""
    return {
        s.var: found
        for s in walk(k.body)
        if isinstance(s, For) and isinstance(n := s.step, Binary) and (n.op, without_casts(n.a)) == ("+", Var(s.var))
        if is_const(without_casts(n.b), 1) and (found := _bound(s, params)) is not None
    }


def clipped_windows(k: Kernel, sources: Mapping[Sym, Sequence[Expr]]) -> Iterator[tuple[str, str]]:
    """Parameters of windows that an end clips, ``min(start + window, height)`` with ``start = y * step - border``, with
    what they are: pools, averages and normalisations go over what is left of a window."""
    params = {p.sym for p in k.params}
    for e in all_exprs(k.body):
        if not isinstance(e, Call) or e.fn != "min":
            continue
        for end in (x for x in map(without_casts, e.args) if isinstance(x, Binary) and x.op == "+"):
            for start, window in ((end.a, end.b), (end.b, end.a)):
                start = without_casts(start)
                began = map(without_casts, sources.get(start.sym, ()) if isinstance(start, Var) else ())
                first = next((x for x in began if isinstance(x, Binary) and x.op in "*-"), None)
                if first is None or not _name(window, params):
                    continue
                yield from ((n, "window") for n in _name(window, params))
                if first.op == "-":
                    yield from ((n, "border") for n in _name(first.b, params))
                steps = without_casts(first.a) if first.op == "-" else first
                sides = (steps.a, steps.b) if isinstance(steps, Binary) and steps.op == "*" else ()
                yield from ((n, "step") for x in sides for n in _name(x, params))


def _bound(s: For, params: set[Sym]) -> tuple[str, str] | None:
    """The parameter that ``s`` goes up to, and whether it is a window or, where ``s`` starts at its negative, a border;
    None where it ends elsewhere."""
    if not isinstance(s.cond, Binary) or s.cond.op not in ("<", "<="):
        return None
    start, end = without_casts(s.init), without_casts(s.cond.b)
    below = s.cond.op == "<"
    if below and isinstance(end, Var) and end.sym in params and used(start) <= params:
        return end.sym.name, "window"  # from a thread's own place on, it would be a row
    if below and isinstance(end, Binary) and end.op == "+" and is_const(without_casts(end.b), 1):
        end, below = without_casts(end.a), False
    mirrored = isinstance(start, Unary) and start.op == "-" and without_casts(start.x) == end
    return (end.sym.name, "border") if not below and mirrored and isinstance(end, Var) and end.sym in params else None


def squares(k: Kernel, sources: Mapping[Sym, Sequence[Expr]]) -> Iterator[tuple[str, str]]:
    """Parameters whose whole root is taken, ``(int)sqrtf(taps)``, with what they are: the elements of a square. Of
    other numbers a rest is left out, which buffers of that length have all the same."""
    params = {p.sym for p in k.params}
    for e in all_exprs(k.body):
        if isinstance(e, Cast) and e.style != "bit" and isinstance(e.to, Scalar) and e.to.is_int:
            root = e.x
            while isinstance(root, Cast) or (isinstance(root, Call) and root.fn in ROUNDINGS):
                root = root.x if isinstance(root, Cast) else root.args[0]
            if isinstance(root, Call) and root.fn == "sqrt":
                whole = spelled_out(_converted(root.args[0]), sources)
                if isinstance(whole, Var) and whole.sym in params:
                    yield whole.sym.name, "square"


ROUNDINGS = frozenset({"floor", "ceil", "rint", "round", "trunc"})
"""Functions that make a whole number of a float."""


def _converted(e: Expr) -> Expr:
    while isinstance(e, Cast):
        e = e.x
    return e


def _scales(e: Expr, sources: Mapping[Sym, Sequence[Expr]]) -> Iterator[Sym | None]:
    """What a thread's own place is multiplied by among the terms of a sum; None for one that is added as it is."""
    match without_casts(e):
        case Binary("+", a, b):
            yield from _scales(a, sources)
            yield from _scales(b, sources)
        case Binary("*", a, b):
            for x, y in ((without_casts(a), without_casts(b)), (without_casts(b), without_casts(a))):
                if isinstance(x, Var) and _is_own(y, sources):
                    yield x.sym
        case x if _is_own(x, sources):
            yield None


def _is_own(e: Expr, sources: Mapping[Sym, Sequence[Expr]]) -> bool:
    """Whether ``e`` is a thread's number among all threads, or one of that number's digits (``i / w % h``)."""
    if isinstance(e, Var):
        rest = {k: v for k, v in sources.items() if k != e.sym}
        return any(_is_own(without_casts(x), rest) for x in sources.get(e.sym, ()))
    if isinstance(e, Binary) and e.op in "/%":
        return _is_own(without_casts(e.a), sources)
    levels = {x.level for x in walk_expr(e) if isinstance(x, HwIndex)}
    return {"block", "thread"} <= levels and isinstance(e, Binary) and e.op == "+"


def _offset(e: Binary, params: set[Sym]) -> list[tuple[str, str]]:
    """The border that ``e`` adds twice to another size, or the window that it takes off one. What is taken off a number
    that was made of it, ``next_pow2(n) - n``, is none."""
    if e.op not in "+-" or not (used(e.a) - used(e.b)) & params or not used(e.b) & params:
        return []
    match without_casts(e.b):
        case Binary("*", a, b) if e.op == "+" and any(is_const(without_casts(x), 2) for x in (a, b)):
            return [(n, "border") for n in (*_name(a, params), *_name(b, params))]
    return [(n, "window") for n in _name(e.b, params)] + _dilated(e.b, params) if e.op == "-" else []


def _dilated(e: Expr, params: set[Sym]) -> list[tuple[str, str]]:
    """The window whose elements are apart, ``dilation * (window - 1) + 1``, and by how much."""
    match without_casts(e):
        case Binary("+", reach, one) if is_const(without_casts(one), 1):
            return _dilated(reach, params)
        case Binary("*", a, b):
            for by, length in ((a, without_casts(b)), (b, without_casts(a))):
                match length:
                    case Binary("-", n, one) if is_const(without_casts(one), 1):
                        return [(w, "window") for w in _name(n, params)] + [(d, "step") for d in _name(by, params)]
    return []


def _name(e: Expr, params: set[Sym]) -> list[str]:
    e = without_casts(e)
    return [e.sym.name] if isinstance(e, Var) and e.sym in params else []


def windows(k: Kernel, halves: Collection[str], sources: Mapping[Sym, Sequence[Expr]]) -> list[str]:
    """What is left of sizes where a window of one of ``halves`` does not fit, as text, ``(W - KS + 1)``, and how many
    windows fit at steps: ``(((W - KS) / step) + 1)``."""
    params = {p.sym for p in k.params}
    found: dict[str, None] = {}
    for e in all_exprs(k.body):
        for side in (e.a, e.b) if isinstance(e, Binary) and e.op in (*COMPARISONS, "*") else ():
            text = spelled(side, params, sources)
            if text is None or not re.search(rf"- ({'|'.join(halves)})\b", text):
                continue
            if not re.search(r"[*/]|- \(", text):
                found[f"({re.sub('[()]', '', text)})"] = None
            elif re.fullmatch(r"\(*[^*/]*/ \w+\) \+ 1\)", text):
                found[text] = None
    return list(found)
