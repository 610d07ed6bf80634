"""warp-aggregate: atomics on one place as a reduction."""

from __future__ import annotations

import pytest

from ktc.ir.nodes import Atomic
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.walk import walk
from ktc.passes.lowering import materialise
from ktc.passes.reductions import warp_aggregate
from tests.passes.checks import applied, body_of, differs, refused

COUNT = parse_kernel("""\
kernel count(c: u32* restrict, x: f32 const* restrict, n: i32)
  par i in 0..n @ [thread.x 64, block.x]
    let v: f32 = x[i]
    if v > 0.0
      atomic add c[0], 1_u32
""")
ROWS = parse_kernel("""\
kernel rows(m: i32* restrict, x: i32 const* restrict, d: i32, host n: i32)
  par r in 0..n @ [block.x]
    par i in 0..d @ [thread.x 32, seq]
      atomic max m[r], x[r * d + i]
""")


def test_before_and_after() -> None:
    assert (
        body_of(applied(COUNT, "warp-aggregate{array=c}"))
        == """\
  reduce(+) c_sum: u32 = 0_u32 over i in 0..n @ [thread.x 64, block.x]
    let v: f32 = x[i]
    yield v > 0.0 ? 1_u32 : 0_u32
  atomic add c[0], c_sum
"""
    )


def test_meaning_stays_on_awkward_sizes() -> None:
    for more in ("", " | distribute{loop=i map=[thread.x 32, unroll 2, block.x 3, seq]}"):
        k = applied(COUNT, "warp-aggregate{array=c}" + more)
        assert differs(COUNT, k, [{"n": n} for n in (1, 63, 64, 65, 257)]) is None
    rows = applied(ROWS, "warp-aggregate{array=m}")
    assert differs(ROWS, rows, [{"n": n, "d": d} for n, d in ((1, 1), (3, 31), (2, 33), (5, 64))]) is None


def test_one_thread_a_block_goes_to_memory() -> None:
    text = print_kernel(materialise(applied(COUNT, "warp-aggregate{array=c}")))
    assert "if tid == 0\n    atomic add c[0], c_sum" in text
    assert "shfl_xor" in text


HEAD = "kernel k(c: u32* restrict, x: u32 const* restrict, n: i32)\n  par i in 0..n @ [thread.x 32, block.x]\n"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("    atomic add c[x[i]], 1_u32\n", "E-AGGREGATE-PLACE"),
        ("    atomic exch c[0], x[i]\n", "E-AGGREGATE-USED"),
        ("    let v: u32 = c[1]\n    atomic add c[0], v\n", "E-AGGREGATE-READ"),
        ("    for j in 0..3\n      atomic add c[0], x[i]\n", "E-AGGREGATE-PLACE"),
        ("    c[i] = 1_u32\n", "E-AGGREGATE-NONE"),
    ],
)
def test_refusals(body: str, code: str) -> None:
    assert refused(parse_kernel(HEAD + body), "warp-aggregate{array=c}").code == code


def test_a_lost_condition_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warp_aggregate, "Select", lambda cond, a, b: a)
    wrong = applied(COUNT, "warp-aggregate{array=c}")
    assert any(isinstance(s, Atomic) for s in walk(wrong.body))
    assert differs(COUNT, wrong, [{"n": 65}]) is not None


FLOATS = """\
kernel most(m: f32* restrict, x: f32 const* restrict, n: i32)
  par i in 0..n @ [thread.x 64, block.x]
    atomic gt m[0], x[i]
"""


def test_a_maximum_that_compares_floats_is_a_reduction_by_max() -> None:
    """NaN among the values never enters, by the comparison as by the reduction."""
    most = parse_kernel(FLOATS)
    done = applied(most, "warp-aggregate{array=m}")
    assert "reduce(max) m_gt: f32 = -inf" in body_of(done)
    assert "atomic gt m[0], m_gt" in body_of(done)
    assert differs(most, done, [{"n": n} for n in (1, 63, 64, 65, 257)]) is None
    assert "atomic gt" in print_kernel(materialise(done))


@pytest.mark.parametrize("op", ["gtu", "gts", "gtn", "smax"])
def test_what_a_reduction_would_not_do_with_nan_stays(op: str) -> None:
    assert (
        refused(parse_kernel(FLOATS.replace("gt m", f"{op} m")), "warp-aggregate{array=m}").code == "E-AGGREGATE-USED"
    )
