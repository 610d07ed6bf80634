"""Intervals of variables that are assigned hold for all that they are ever given, by whatever gives it to them."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel
from ktc.search.verification import verify
from ktc.search.verification.integers.ranges import dead, narrowed, values, wraps
from tests.search.verification.gate_samples import COPY

HEAD = "kernel k(out: i32*, n: i32 range 1..1000)\n  launch grid(n) block(32)\n"
PROMISED = {"n": (1, 1000)}

GROWS = """\
  var a: i32 = 0
  var b: i32 = 0
  for i in 0..n
    b = a
    a = NEXT
  if b == 998
    out[0] = 5
"""
TICKET = """\
  var t: i32 = 0
  t = atomic add out[0], 1
  if t == 3
    out[1] = 5
"""
OWN_STEPS = """\
  var b: i32 = 0
  for i = 0; i < n; i + 1
    i = i * 2
    b = i
  if b == 1500
    out[0] = 5
"""
DOWN = """\
  for i = 5; i < n; i - 1
    if i < 0
      out[0] = 5
"""
PARAMETER = """\
  if out[0] == 7
    n = 2
  if n == 3
    out[1] = 5
"""


def _known(body: str, name: str) -> tuple[int, int] | None:
    found = {sym.name: v for sym, v in values(parse_kernel(HEAD + body), PROMISED).items()}
    return found.get(name)


def test_what_one_variable_takes_from_another_has_settled() -> None:
    assert _known(GROWS.replace("NEXT", "i"), "b") == (0, 999)
    assert _known(GROWS.replace("NEXT", "min(b + 1, 7)"), "b") is None  # grows for longer than is followed
    assert _known(GROWS.replace("NEXT", "a * 2 + 1"), "b") is None
    assert _known(GROWS.replace("NEXT", "a + 1"), "b") == (0, 1000)  # by a step in every round


@pytest.mark.parametrize(
    "body",
    [GROWS.replace("NEXT", "a + 1"), TICKET, OWN_STEPS, DOWN, PARAMETER],
    ids=["grows", "ticket", "own steps", "down", "parameter"],
)
def test_code_that_may_be_reached_is_not_taken_for_dead(body: str) -> None:
    assert not dead(parse_kernel(HEAD + body), PROMISED)


@pytest.mark.parametrize(
    ("value", "known"),
    [
        ("min(a, i)", (0, 0)),
        ("max(a, i)", (0, 999)),
        ("i32(out[i] as i64 >> 32_i64)", (-(2**31), 2**31 - 1)),
        ("out[i] & 255", (0, 255)),
        ("out[i] % 100", (-99, 99)),
        ("popc(out[i])", (0, 32)),
        ("out[i] / out[0]", None),
        ("a + a", None),
    ],
)
def test_what_cuts_a_value_down_bounds_it_whatever_the_value_is(value: str, known: tuple[int, int] | None) -> None:
    """Of ``a``, which begins with 0."""
    assert _known(GROWS.replace("NEXT", value), "a") == known


WIDENED = (
    HEAD
    + """\
  var big: i64 = 0_i64
  big = big + (out[0] * n) as i64
  out[1] = i32(big >> 40_i64)
"""
)


def test_what_an_assigned_variable_is_made_of_is_looked_at_as_is_what_it_is_declared_with() -> None:
    """Else a rewrite that declares what its source adds up would be doubted for what its source does as well."""
    declared = WIDENED.replace("var big: i64 = 0_i64\n  big = big + ", "var big: i64 = ")
    for text in (WIDENED, declared):
        assert [str(x.to) for x in narrowed(parse_kernel(text), PROMISED)] == ["i64"]


def test_code_that_is_never_reached_is_dead() -> None:
    """The same shapes, with numbers that the variables cannot have."""
    for body in (GROWS.replace("NEXT", "i").replace("998", "1000"), DOWN.replace("i - 1", "i + 1")):
        assert len(dead(parse_kernel(HEAD + body), PROMISED)) == 1, body


TICKETS = """\
kernel copy(y: f16* align 16, x: f16 const* align 16, d: i32)
  launch grid(1) block(256)
  array tickets: shared i32[1]
  if threadIdx.x == 0
    tickets[0] = 0
  barrier
  var t: i32 = 0
  for i = i32(threadIdx.x); i < d; i + 256
    t = atomic add tickets[0], 1
    y[i] = t == LAST ? f16(0.0) : x[i]
    if t == LAST
      y[i] = f16(0.0)
"""
PLAIN = (
    TICKETS[: TICKETS.index("  array")]
    + """\
  for i = i32(threadIdx.x); i < d; i + 256
    y[i] = x[i]
"""
)


@pytest.mark.parametrize(("last", "status"), [("7", "REJECTED"), ("77777777", "UNKNOWN"), ("-1", "UNKNOWN")])
def test_a_branch_behind_a_ticket_is_not_excused(last: str, status: str) -> None:
    """No instance has a thread that draws ticket 77,777,777 and stores something else."""
    assert verify(parse_kernel(PLAIN), parse_kernel(TICKETS.replace("LAST", last)), COPY).status == status


COUNTER = """\
kernel k(out: i32*, c: u32* scratch(4), n: i32 range 1..1000)
  launch grid(1, 3) block(32)
  var t: u32
  t = atomic inc c[n % 4], gridDim.y as i32 - 1
  out[n] = i32(t)
"""


@pytest.mark.parametrize(
    ("old", "new", "largest"),
    [
        ("n % 4", "0", 2),
        ("gridDim.y as i32 - 1", "6", 6),
        ("c: u32* scratch(4)", "c: u32*", None),
        ("atomic inc", "atomic add", None),
        ("gridDim.y as i32 - 1", "n", None),
        ("  out[n]", "  c[1] = 9_u32\n  out[n]", None),
        ("  out[n]", "  atomic inc c[1], 5\n  out[n]", None),
        ("  out[n]", "  t = t + 7_u32\n  out[n]", None),
    ],
)
def test_a_ticket_is_within_its_limit_where_nothing_else_counts(old: str, new: str, largest: int | None) -> None:
    assert old in COUNTER
    found = {sym.name: v for sym, v in values(parse_kernel(COUNTER.replace(old, new)), PROMISED).items()}
    assert found.get("t") == (None if largest is None else (0, largest))


STEPS = """\
  var x: u32 = 7_u32
  for t = 0; t < n; t + 4
    x = x + 32_u32
  out[0] = i32(x)
"""


@pytest.mark.parametrize(
    ("old", "new", "known"),
    [
        ("7_u32", "0_u32", (0, 8000)),
        ("x + 32_u32", "u32(i64(x) + 32)", (7, 8007)),
        ("x + 32_u32", "x + u32(t)", (7, 7 + 250 * 999)),
        ("    x = x + 32_u32\n", "    if t > 5\n      x = x + 32_u32\n", None),
        ("x + 32_u32", "x - 1_u32", None),
        ("x + 32_u32", "x + x", None),
        ("x + 32_u32", "u32(u8(x)) + 32_u32", None),
        ("x + 32_u32", "x + 20000000_u32", None),
        ("t + 4", "t + n % 2", None),
        ("t < n", "t != n", None),
        ("  for t", "  for s in 0..n\n    out[s] = 1\n    x = 3_u32\n  for t", None),
        ("  for t = 0; t < n; t + 4\n    x", "  for s in 0..n\n    for t = 0; t < n; t + 4\n      x", None),
    ],
)
def test_what_grows_by_a_step_in_every_round_ends_after_all_of_them(
    old: str, new: str, known: tuple[int, int] | None
) -> None:
    assert old in STEPS
    assert _known(STEPS.replace(old, new), "x") == known


def test_what_grows_beyond_a_narrow_type_is_not_known_to_keep_its_bits() -> None:
    text = HEAD + STEPS.replace("x: u32 = 7_u32", "x: u64 = 0_u64").replace("x + 32_u32", "x + STEP_u64")
    text = text.replace("  out[0] = i32(x)\n", "").replace("    x =", "    out[i64(i32(x))] = 1\n    x =")
    for step, lost in ((32, 0), (1 << 32, 1)):
        kernel = parse_kernel(text.replace("STEP", str(step)))
        assert len(narrowed(kernel, PROMISED)) == lost and not wraps(kernel, PROMISED)


@pytest.mark.parametrize(("flag", "never"), [((1, 1), 2), ((-3, -1), 2), ((0, 0), 1), ((0, 1), None), ((-1, 1), None)])
def test_an_integer_that_is_a_condition_holds_unless_it_is_zero(flag: tuple[int, int], never: int | None) -> None:
    text = (
        "kernel k(out: i32*, flag: i32)\n  launch grid(1) block(1)\n  if flag\n    out[0] = 1\n  else\n    out[0] = 2\n"
    )
    found = [s.value.value for s in dead(parse_kernel(text), {"flag": flag})]
    assert found == ([never] if never is not None else [])
