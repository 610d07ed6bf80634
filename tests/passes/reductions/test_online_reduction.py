# ruff: noqa: E501
"""online-reduction: maximum and sum of exponentials in one sweep."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.text import parse_kernel
from ktc.passes.lowering import materialise
from ktc.passes.reductions import online_reduction
from tests.passes.checks import applied, body_of, differs, refused

LSE = parse_kernel("""\
kernel lse(out: f32* restrict, x: f32 const* restrict align 16, d: i32, host n: i32)
  par r in 0..n @ [block.x]
    reduce(max) top: f32 = -inf over i in 0..d @ [thread.x 32, seq]
      yield x[r * d + i]
    let m: f32 = top
    reduce(+) s: f32 = 0.0 over i in 0..d @ [thread.x 32, seq]
      let e: f32 = exp(x[r * d + i] - m)
      yield e
    out[r] = log(s) + m
""")
SIZES = [{"n": n, "d": d} for n, d in ((1, 1), (2, 7), (1, 32), (3, 63), (2, 64), (1, 65), (2, 200))]


def test_before_and_after() -> None:
    assert (
        body_of(applied(LSE, "online-reduction{loop=i map=[thread.x 32, unroll 2]}"))
        == """\
  flags reassociates
  par r in 0..n @ [block.x]
    array top_row: f32[d]
    var top: f32 = -inf
    var s: f32 = 0.0
    for i_tile in 0..cdiv(d, 64)
      reduce(max) top_tile: f32 = -inf over i in i_tile * 64..min(i_tile * 64 + 64, d) @ [thread.x 32, unroll 2]
        let value: f32 = x[r * d + i]
        top_row[i] = value
        yield value
      let top_1: f32 = max(top, top_tile)
      let base: f32 = top_1 == -inf ? 0.0 : top_1
      reduce(+) s_tile: f32 = 0.0 over i_1 in i_tile * 64..min(i_tile * 64 + 64, d) @ [thread.x 32, unroll 2]
        yield exp(top_row[i_1] - base)
      s = s * exp(top - base) + s_tile
      top = top_1
    if 0 < d
      s = top == -inf ? s + (top - top) : s
    let m: f32 = top
    out[r] = log(s) + m
"""
    )


def test_nothing_is_asked_of_knobs_that_always_holds() -> None:
    """A tile is what its levels cover: ``$T * $U >= $U * $T``."""
    assert not applied(LSE, "online-reduction{loop=i map=[thread.x $T, unroll $U]}").constraints


def test_own_sums_meet_once_a_row() -> None:
    k = applied(LSE, "online-reduction{loop=i map=[vec 2, thread.x 32, unroll 2] own=thread}")
    text = body_of(k)
    assert text.count("thread.x 32]") == 3 and "over t_1 in 0..32" in text
    assert "par v_1 in 0..min(2, d - i_at) @ [vec 2]" in text


@pytest.mark.parametrize("own", ["block", "thread"])
@pytest.mark.parametrize("levels", ["thread.x 32, unroll 2", "thread.x 64, unroll 1", "vec 2, thread.x 16, unroll 2"])
def test_meaning_stays_on_awkward_sizes(levels: str, own: str) -> None:
    k = applied(LSE, f"online-reduction{{loop=i map=[{levels}] own={own}}}")
    assert differs(LSE, k, [s for s in SIZES if "vec" not in levels or s["d"] % 2 == 0]) is None


@pytest.mark.parametrize("own", ["block", "thread"])
@pytest.mark.parametrize("row", [[-np.inf] * 70, [-np.inf] * 40 + [1.0] * 30, [1.0] * 40 + [-np.inf] * 30, [np.inf, 1.0] * 35, [np.nan] + [0.5] * 69, []])  # fmt: skip
def test_infinities_and_nan_give_what_the_source_gives(row: list[float], own: str) -> None:
    k = materialise(applied(LSE, f"online-reduction{{loop=i map=[thread.x 32, unroll 1] own={own}}}"))
    args = {"x": np.array(row or [0.0], np.float32), "out": np.zeros(1, np.float32), "d": len(row), "n": 1}
    want, got = (run(p, args, domain="float").outputs["out"] for p in (materialise(LSE), k))
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize(
    ("old", "new", "script", "code"),
    [
        ("reduce(max) top", "reduce(min) top", "online-reduction{loop=i}", "E-ONLINE-NONE"),
        ("exp(x[r * d + i_1] - m)", "exp(x[r * d + i_1] + m)", "online-reduction{loop=i}", "E-ONLINE-NONE"),
        ("exp(x[r * d + i_1] - m)", "exp(x[r * d + i_1 + 1] - m)", "online-reduction{loop=i}", "E-ONLINE-NONE"),
        ("", "", "online-reduction{loop=i map=[thread.x 32, seq]}", "E-ONLINE-MAP"),
        ("", "", "online-reduction{loop=i map=[unroll 2, thread.x 32] own=thread}", "E-ONLINE-MAP"),
        ("", "", "online-reduction{loop=i own=warp}", "E-ONLINE-MAP"),
        ("", "", "online-reduction{loop=j}", "E-PLACE"),
    ],
)
def test_refusals(old: str, new: str, script: str, code: str) -> None:
    from ktc.ir.text import print_kernel

    text = print_kernel(LSE)
    assert old in text
    if "min" in new:
        text = text.replace("top: f32 = -inf", "top: f32 = inf")
    assert refused(parse_kernel(text.replace(old, new) if old else text), script).code == code


def test_a_sum_that_is_not_rescaled_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from ktc.ir.nodes import Binary, Var

    monkeypatch.setattr(online_reduction, "_scaled", lambda total, factor, part: Binary("+", Var(total), Var(part)))
    wrong = applied(LSE, "online-reduction{loop=i map=[thread.x 4, unroll 1]}")
    assert differs(LSE, wrong, [{"n": 9, "d": 33}]) is not None
