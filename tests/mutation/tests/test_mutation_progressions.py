"""Proofs that maxima are over the same elements, whichever threads visit them and however often."""

from __future__ import annotations

import pytest

from ktc.ir.text import canonical, parse_kernel
from tests.mutation.proofs.proofs import equivalent
from tests.mutation.symbolic.effort import Lost
from tests.mutation.symbolic.lockstep import Run
from tests.mutation.symbolic.symbolic_values import Threads
from tests.mutation.symbolic.terms import Terms

ROW = """
kernel k(y: f32* noalias, x: f32 const* noalias readonly, n: i32 range 1..65536, rows: i32 range 1..1000)
  launch grid(rows) block(32)
  let row: i32 = i32(blockIdx.x) * n
  array s: shared f32[64]
  array t: i32[2]
  for c = 0; c < 2; c + 1
    t[c] = i32(threadIdx.x) + c * 32
    var m: f32 = -inf
    for i = t[c]; i < n; i + 64
      m = max(m, x[row + i])
    s[t[c]] = m
  barrier
  for stride = 32; stride > 0; stride / 2
    for d = 0; d < 2; d + 1
      if t[d] < stride
        s[t[d]] = max(s[t[d]], s[t[d] + stride])
    barrier
  if threadIdx.x == 0
    y[i32(blockIdx.x)] = s[0]
"""


def proof(change: tuple[str, str], *before: tuple[str, str]) -> str:
    text = ROW
    for old, new in before:
        assert old in text
        text = text.replace(old, new)
    assert change[0] in text
    return equivalent(canonical(parse_kernel(text)), canonical(parse_kernel(text.replace(*change))))


SHORTER = ("i + 64", "i + 2")


@pytest.mark.parametrize("stride", [1, 2, 3, 16, 32])
def test_shorter_strides_visit_some_elements_more_than_once(stride: int) -> None:
    assert "symbolic threads" in proof(("i + 64", f"i + {stride}"))


@pytest.mark.parametrize("first", ["63 - t[c]", "t[c] % 32 * 2 + c", "(t[c] + 7) % 64"])
def test_and_other_threads_may_visit_them(first: str) -> None:
    assert "symbolic threads" in proof(("i = t[c]", f"i = {first}"))


def test_minima_and_values_of_what_is_read() -> None:
    least = [("-inf", "inf"), ("max(", "min(")]
    assert "symbolic threads" in proof(SHORTER, *least)
    through = ("      m = max(m, x[row + i])", "      let e: f32 = abs(x[row + i]) * 2.0\n      m = max(e, m)")
    assert "symbolic threads" in proof(SHORTER, through)


@pytest.mark.parametrize(
    "change",
    [
        ("i + 64", "i + 128"),
        ("i + 64", "i + 65"),
        ("i = t[c]", "i = t[c] + 1"),
        ("i = t[c]", "i = t[c] - 1"),
        ("i = t[c]", "i = t[c] + 64"),
        ("i = t[c]", "i = t[c] / 2"),
        ("i < n", "i <= n"),
        ("i < n", "i < n - 1"),
        ("i < n", "i < rows"),
        ("x[row + i]", "x[row + i + 1]"),
        ("x[row + i]", "x[i]"),
    ],
)
def test_but_none_is_left_out_and_no_other_comes_in(change: tuple[str, str]) -> None:
    assert not proof(change)


TOLD = {
    "who visits is part of the value": ("x[row + i]", "x[row + i] + f32(t[c])"),
    "what was visited before is": ("max(m, x[row + i])", "max(m, x[row + i] * m)"),
    "each is counted": ("max(m, x[row + i])", "m + x[row + i]"),
    "each thread's own is stored": ("  if threadIdx.x == 0\n    y[i32(blockIdx.x)] = s[0]", "  y[t[0]] = m0"),
    "the other extreme is taken of them": ("    s[t[c]] = m\n", "    s[t[c]] = min(m, x[row])\n"),
    "the least of the threads' maxima": ("max(s[t[d]], s[t[d] + stride])", "min(s[t[d]], s[t[d] + stride])"),
    "some threads' maxima are left out": ("if t[d] < stride", "if t[d] < stride && t[d] != 2"),
    "the elements are others by then": ("    var m: f32 = -inf", "    y[row + t[c]] = 1.0\n    var m: f32 = -inf"),
}


@pytest.mark.parametrize("what", TOLD)
def test_nor_where_it_can_be_told(what: str) -> None:
    old, new = TOLD[what]
    before = [(old, new)]
    if "m0" in new:
        before += [
            ("  for c = 0", "  var m0: f32 = 0.0\n  for c = 0"),
            ("    s[t[c]] = m\n", "    m0 = m\n    s[t[c]] = m\n"),
        ]
    if "others" in what:
        before += [("x: f32 const* noalias readonly, ", ""), ("x[row + i]", "y[row + i]")]
    assert not proof(SHORTER, *before)


def test_minima_of_a_class_that_begins_earlier_are_smaller() -> None:
    """Among minima the earlier class covers the later one, among maxima of minima it does not."""
    t = Terms(False)
    early, late = (t.make("class", "min", t.make("x"), "i32", t.make("n"), 3, first) for first in (3, 67))
    assert t.extreme("min", early, late) == early
    assert t.node(t.extreme("max", early, late))[0] == "max"


def test_a_loop_that_never_comes_further_is_not_followed() -> None:
    kernel = canonical(parse_kernel(ROW.replace("i + 64", "i + 0")))
    run = Run(Terms(False), kernel, {}, Threads(32, (32, 1, 1)), 64)
    nest = kernel.body[3].body[2]  # type: ignore[attr-defined]
    with pytest.raises(Lost):
        run.statement(nest, {0: run.t.const(True, "bool")})
