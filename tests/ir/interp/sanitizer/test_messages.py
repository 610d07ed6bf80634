"""Words of a value and a tag in domains without bit patterns, and loads that see less than the latest."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.analysis.words import only_travel
from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import run
from ktc.ir.text import parse_kernel

TOLD = """\
kernel told(out: f32* restrict, x: f32 const* restrict, words: u64*, tag: u32)
  launch grid(2) block(32) max_threads(32)
  let b: i32 = blockIdx.x
  let t: i32 = threadIdx.x
  if b == 0 && t == 0
    atomic exch words[0], u64(tag) << 32 | u64(x[0] as.bit u32)
  if b == 1 && t == 0
    var w: u64 = 0_u64
    do
      w = atomic load words[0], 0_u64
    while u32(w >> 32) != tag
    out[0] = u32(w) as.bit f32
"""


def inputs(value: float = 2.5) -> dict[str, object]:
    x = np.array([value], np.float32)
    return {"out": np.zeros(1, np.float32), "x": x, "words": np.zeros(1, np.uint64), "tag": 7}


@pytest.mark.parametrize("domain", ["float", "float64", "int", "field", "bound", "terms", "roundings"])
@pytest.mark.parametrize("value", [0.0, 2.5, -3.0])
def test_a_value_arrives_in_every_domain(domain: str, value: float) -> None:
    got = run(parse_kernel(TOLD), inputs(value), domain=domain)
    plain = parse_kernel(
        "kernel plain(out: f32* restrict, x: f32 const* restrict)\n  launch grid(1) block(1)\n  out[0] = x[0]\n"
    )
    want = run(plain, {n: v for n, v in inputs(value).items() if n in ("out", "x")}, domain=domain)
    assert got.ok and got.outputs["out"].tobytes() == want.outputs["out"].tobytes()


@pytest.mark.parametrize(
    ("old", "new", "arrives"),
    [
        ("u32(w) as.bit f32", "(u32(w) ^ 2147483648_u32) as.bit f32", False),  # a bit of it is turned
        ("u64(x[0] as.bit u32)", "u64((x[0] as.bit u32) + 1_u32)", False),
        ("atomic exch words[0]", "atomic max words[0]", True),  # names have no order
        ("out[0] = u32(w)", "w += 1_u64\n    out[0] = u32(w)", False),
        ("out[0] = u32(w) as", "out[0] = u32(words[0]) as", True),
    ],
)
def test_bits_that_do_not_only_travel_have_no_names(old: str, new: str, arrives: bool) -> None:
    """They are patterns: those that a number was given are it, whoever makes another of one gets another number. Where
    errors are bounded, numbers without one have the machine's, computed ones none."""
    kernel = parse_kernel(TOLD)
    assert only_travel(kernel)
    other = parse_kernel(TOLD.replace(old, new))
    assert TOLD.count(old) == 1 and not only_travel(other)
    for domain in ("int", "field"):
        want, got = (run(k, inputs(), domain=domain).outputs["out"][0] for k in (kernel, other))
        assert (got == want) == arrives
    machine, bound = (run(other, inputs(), domain=d).outputs["out"][0] for d in ("float", "bound"))
    assert complex(bound) == complex(float(machine), 0.0)
    computed = parse_kernel(TOLD.replace(old, new).replace("x[0] as.bit", "(x[0] * 0.1) as.bit"))
    with pytest.raises(KtcError, match="E-INTERP-UNSUPPORTED"):
        run(computed, inputs(), domain="bound")


def test_who_does_not_wait_sees_what_was_there_before() -> None:
    """In lockstep the other block has always told already; nothing says that it must have."""
    waits = run(parse_kernel(TOLD), inputs())
    hasty = parse_kernel(TOLD.replace("while u32(w >> 32) != tag", "while false"))
    assert waits.outputs["out"][0] == 2.5 and run(hasty, inputs()).outputs["out"][0] == 0.0


def test_what_a_fence_orders_is_seen() -> None:
    """A counter that is updated after a fence and read before another one carries what was written before it."""
    text = """\
kernel chain(out: i32* restrict, a: i32*, b: i32*)
  launch grid(2) block(32) max_threads(32)
  let k: i32 = blockIdx.x
  if threadIdx.x == 0_u32
    if k == 0
      atomic exch a[0], 5
      fence device
      atomic exch b[0], 1
    else
      var ready: i32 = 0
      do
        ready = atomic load b[0], 0
      while ready != 1
      fence device
      var seen: i32 = 0
      seen = atomic load a[0], 0
      out[0] = seen
"""
    args = {n: np.zeros(1, np.int32) for n in ("out", "a", "b")}
    assert run(parse_kernel(text), args).outputs["out"][0] == 5
    unordered = parse_kernel(text.replace("      fence device\n      atomic exch b", "      atomic exch b"))
    assert run(unordered, args).outputs["out"][0] == 0


def test_a_place_does_not_go_back() -> None:
    text = TOLD.replace("out[0] = u32(w) as.bit f32", "w = atomic load words[0], 0_u64\n    out[0] = u32(w) as.bit f32")
    assert run(parse_kernel(text), inputs()).outputs["out"][0] == 2.5
