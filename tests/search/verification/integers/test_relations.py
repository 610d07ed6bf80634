"""What indices stay below, beside numbers: every value is in the interval, and some intervals are the least."""

from __future__ import annotations

import itertools

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Decl
from ktc.ir.text import parse_kernel
from ktc.ir.walk import walk
from ktc.search.verification.integers.intervals import Interval, Scope
from ktc.search.verification.integers.ranges import _followed, wraps
from ktc.search.verification.integers.relations import Related

HEADS, TOKENS = (1, 5), (1, 4)
LETS = {
    "a group of heads": ("f = b / (3 * t) * 3", (0, 4)),
    "the other way round": ("f = 3 * (b / (t * 3))", (0, 4)),
    "a head": ("f = b / t", (0, 4)),
    "a row of what": ("f = b % t", (0, 3)),
    "heads that are left": ("f = b / (3 * t) * 3; g = h - f", (1, 5)),
    "the last group": ("f = b / (3 * t) * 3; g = min(3, h - f)", (1, 3)),
    "a head of the last group": ("f = b / (3 * t) * 3; g = min(3, h - f); e = f + b % (3 * t) % g", (0, 4)),
    "a group of more than there are": ("f = b / (7 * t) * 7; g = min(7, h - f); e = f + b % (7 * t) % g", (0, 4)),
    "another divisor": ("f = b / (3 * h) * 3", None),
    "a sum": ("f = b / t + h", (1, 9)),
    "what is not left": ("f = b / t; g = h - 1 - f", (0, 4)),
    "one too many": ("f = b / t + 1; g = h - f", (0, 4)),
    "a quotient that is too long": ("f = b / (2 * t) * 3", None),
    "a power": ("f = b * b / (t * t)", None),
}


def kernel(lets: str) -> Kernel:
    lines = "".join(f"  let {name}: i32 = {e}\n" for name, e in (x.split(" = ") for x in lets.split("; ")))
    last = lets.split("; ")[-1].split(" = ")[0]
    return parse_kernel(
        "kernel k(y: f32* restrict, h: i32, t: i32)\n  launch grid(h * t) block(32)\n  let b: i32 = i32(blockIdx.x)\n"
        f"{lines}  y[{last}] = 1.0\n"
    )


def interval(lets: str, kind: type[Scope]) -> Interval:
    k = kernel(lets)
    _, scope = _followed(kind(k, {}, {"h": HEADS, "t": TOKENS}))
    return scope.known[[s for s in k.body if isinstance(s, Decl)][-1].sym]


def taken(lets: str) -> Interval:
    found = []
    for h, t in itertools.product(*(range(low, high + 1) for low, high in (HEADS, TOKENS))):
        for b in range(h * t):
            names = {"h": h, "t": t, "b": b, "min": min}
            for name, e in (x.split(" = ") for x in lets.replace("/", "//").split("; ")):
                names[name] = eval(e, {}, names)
            found.append(names[name])
    return min(found), max(found)


@pytest.mark.parametrize("what", LETS)
def test_every_value_is_in_the_interval(what: str) -> None:
    lets, least = LETS[what]
    (low, high), (first, last) = interval(lets, Related), taken(lets)
    assert low <= first and last <= high
    assert least in (None, (low, high)), (low, high)


def test_numbers_alone_say_less() -> None:
    lets, least = LETS["a head of the last group"]
    assert interval(lets, Scope)[1] > interval(lets, Related)[1] and interval(lets, Related) == least


def test_a_group_that_is_no_larger_than_the_others_keeps_indices_within_their_type() -> None:
    names = {"h": (1, 1 << 10), "t": (1, 1 << 20)}
    lets = "f = b / (3 * t) * 3; g = min(3, h - f); e = f + b % (3 * t) % g; at = e * t + b % (3 * t) / g"
    assert wraps(kernel(lets), names) == []
    assert wraps(kernel(lets.replace("b / (3 * t) * 3", "b / (2 * t) * 3")), names)
    assert wraps(kernel(lets.replace("e * t", "(e + h) * 2 * t")), names)


@pytest.mark.parametrize(
    ("guard", "else_", "held"),
    [
        ("if b < h * t", False, True),
        ("if b < h * t && y[0] > 0.0", False, True),
        ("if b >= h * t", True, True),
        ("if b < h * t + t", False, False),
        ("if b <= h * t - 1", False, True),
        ("if b < 1000 * h", False, False),
        ("for c: i32 = i32(blockIdx.x); c < h * t; c + 9", False, True),
    ],
)
def test_guards_and_loops_are_bounds_where_they_hold(guard: str, else_: bool, held: bool) -> None:
    inside = "    let f: i32 = b / t\n    let g: i32 = h - f\n    y[g] = 1.0\n"
    inside = inside.replace("b /", "c /") if guard.startswith("for") else inside
    text = (
        "kernel k(y: f32* restrict, h: i32, t: i32)\n  launch grid(cdiv(h * t, 8)) block(8)\n"
        f"  let b: i32 = i32(blockIdx.x) * 8 + i32(threadIdx.x)\n  {guard}\n"
    )
    k = parse_kernel(text + ("    y[0] = 0.0\n  else\n" if else_ else "") + inside)
    found = {}
    scope = Related(k, {}, {"h": HEADS, "t": TOKENS})
    follow = scope.of
    scope.of = lambda e: found.setdefault(id(e), follow(e))  # type: ignore[method-assign]
    _followed(scope)
    (g,) = (s.init for s in walk(k.body) if isinstance(s, Decl) and s.sym.name == "g")
    assert (found[id(g)][0] >= 1) == held


@pytest.mark.parametrize(
    ("guard", "change", "held"),
    [
        ("if b + u * 8 < h * t", "", True),
        ("if b + u * 8 < h * t + t", "", False),
        ("if b + u * 4 < h * t", "", False),
        ("if b + u * 8 < h * t", "b = b + 1", False),
    ],
)
def test_guards_of_sums_are_bounds_of_the_same_sums(guard: str, change: str, held: bool) -> None:
    """Several elements a thread: each is compared before it is taken apart."""
    k = parse_kernel(
        "kernel k(y: f32* restrict, h: i32, t: i32)\n  launch grid(cdiv(h * t, 16)) block(8)\n"
        "  var b: i32 = i32(blockIdx.x) * 16 + i32(threadIdx.x)\n  for u in 0..2\n"
        f"    {guard}\n" + (f"      {change}\n" if change else "") + "      let f: i32 = (b + u * 8) / t\n"
        "      let g: i32 = h - f\n      y[g] = 1.0\n"
    )
    found = {}
    scope = Related(k, {}, {"h": HEADS, "t": TOKENS}, changing=dict.fromkeys(_changed(k), (0, 30)))
    follow = scope.of
    scope.of = lambda e: found.setdefault(id(e), follow(e))  # type: ignore[method-assign]
    _followed(scope)
    (g,) = (s.init for s in walk(k.body) if isinstance(s, Decl) and s.sym.name == "g")
    assert (found[id(g)] is not None and found[id(g)][0] >= 1) == held


@pytest.mark.parametrize(
    ("guard", "held"),
    [("if b < h * (t / 3)", True), ("if b < h * (t / 3 - 1)", False), ("if b - 1 < h * (t / 3)", False)],
)
def test_what_is_below_a_product_keeps_its_factors_above_zero(guard: str, held: bool) -> None:
    """Rows of ``t / 3`` packs: a thread that has one of them is in a row that there is."""
    k = parse_kernel(
        "kernel k(y: f32* restrict, h: i32, t: i32)\n  launch grid(cdiv(h * t, 8)) block(8)\n"
        f"  let b: i32 = i32(blockIdx.x) * 8 + i32(threadIdx.x)\n  {guard}\n"
        "    let f: i32 = b / (t / 3)\n    let g: i32 = h - f\n    y[g] = 1.0\n"
    )
    found = {}
    scope = Related(k, {}, {"h": HEADS, "t": (0, 12)})
    follow = scope.of
    scope.of = lambda e: found.setdefault(id(e), follow(e))  # type: ignore[method-assign]
    _followed(scope)
    (g,) = (s.init for s in walk(k.body) if isinstance(s, Decl) and s.sym.name == "g")
    assert (found[id(g)] is not None and found[id(g)][0] >= 1) == held


def test_what_changes_is_no_bound() -> None:
    text = (
        "kernel k(y: f32* restrict, h: i32, t: i32)\n  launch grid(1) block(32)\n  var n: i32 = h\n"
        "  let r: i32 = i32(threadIdx.x) % n\n  n = 1\n  let left: i32 = n - r\n  y[left] = 1.0\n"
    )
    k = parse_kernel(text)
    _, scope = _followed(Related(k, {}, {"h": HEADS, "t": TOKENS}, changing=dict.fromkeys(_changed(k), (1, 5))))
    assert {s.name: v for s, v in scope.known.items()}["left"][0] <= -3


def _changed(k: Kernel) -> list:
    return [s.sym for s in k.body if isinstance(s, Decl) and not s.const]
