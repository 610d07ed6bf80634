"""zero-terms: terms beyond an edge are products with zero, and sums that come out as no number are summed again."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import If, asks_for_nan
from ktc.ir.text import parse_kernel
from ktc.ir.walk import map_body
from ktc.passes.core.catalogue import PASSES
from ktc.passes.lowering import materialise
from tests.passes.checks import applied, body_of, differs, refused

LINE = """\
kernel line(y: f32* noalias, x: f32 const* noalias, w: f32 const* noalias, b: f32 const* noalias, c_: i32, k_: i32, h: i32)
  launch grid(k_) block(32)
  par k in 0..k_ @ [block.x]
    par p in 0..h @ [thread.x 32, seq]
      var s: f32 = b[k]
      for c in 0..c_
        for r in 0..3
          let at: i32 = p - 1 + r
          if at >= 0 && at < h
            s += x[c * h + at] * w[(k * c_ + c) * 3 + r]
      y[k * h + p] = s
"""  # noqa: E501
CONTINUED = LINE.replace(
    """          if at >= 0 && at < h
            s +=""",
    """          if at < 0 || at >= h
            continue
          s +=""",
)
NAMED = LINE.replace(
    "            s += x[c * h + at] * w[(k * c_ + c) * 3 + r]",
    """            let v: f32 = x[c * h + at]
            let g: f32 = w[(k * c_ + c) * 3 + r]
            s = fma(v, g, s)""",
)
STEPS = LINE.replace("p - 1 + r", "2 * p - 1 + r").replace("par p in 0..h @", "par p in 0..(h + 1) / 2 @")
SIZES = [{"c_": c, "k_": k, "h": h} for c, k, h in ((1, 1, 2), (2, 3, 5), (0, 1, 4), (3, 2, 33))]


def kernel(text: str) -> Kernel:
    return parse_kernel(text)


def test_before_and_after() -> None:
    k = kernel(LINE)
    assert [str(s.step) for s in PASSES["zero-terms"].sites(k)] == ["zero-terms{loop=c}", "zero-terms{loop=r}"][:1]
    after = applied(k, "zero-terms{loop=c}")
    assert "assume 1 - h < 0 origin guessed" in body_of(after), "a row that somebody reads w for all taps of"
    assert body_of(after).split("seq]\n")[1].splitlines() == [
        "      var s: f32 = b[k]",
        "      for c in 0..c_",
        "        for r in 0..3",
        "          let at: i32 = p - 1 + r",
        "          s += (at >= 0 && at < h ? x[c * h + at] : 0.0) * w[(k * c_ + c) * 3 + r]",
        "      if isnan(s)",
        "        s = b[k]",
        "        for c_1 in 0..c_ unroll 1",
        "          for r_1 in 0..3 unroll 1",
        "            let at_1: i32 = p - 1 + r_1",
        "            if at_1 >= 0 && at_1 < h",
        "              s += x[c_1 * h + at_1] * w[(k * c_ + c_1) * 3 + r_1]",
        "      y[k * h + p] = s",
    ]


@pytest.mark.parametrize("text", [LINE, CONTINUED, NAMED, STEPS], ids=["if", "continue", "names", "stride"])
def test_sums_stay_what_they_are(text: str) -> None:
    k = kernel(text)
    after = applied(k, "zero-terms{loop=c}")
    assert " ? x[c * h + at] : 0.0" in body_of(after)
    sizes = [s for s in SIZES if s["h"] > 2]
    assert differs(k, after, sizes) is None


def _outputs(k: Kernel, weights: list[float]) -> np.ndarray:
    h, c, n = 6, 1, 1
    x = np.linspace(-1.0, 2.0, h, dtype=np.float32)
    args = {"x": x, "w": np.array(weights, np.float32), "b": np.ones(n, np.float32), "y": np.zeros(h, np.float32)}
    found = run(materialise(k), {**args, "c_": c, "k_": n, "h": h}, domain="float")
    return np.asarray(found.outputs["y"])


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan])
def test_infinite_weights_do_not_reach_beyond_the_edge(odd: float) -> None:
    """Where the source leaves a term out, the sum is what the others are."""
    k = kernel(LINE)
    after = applied(k, "zero-terms{loop=c}")
    for weights in ([odd, 1.0, 1.0], [1.0, 1.0, odd], [1.0, 2.0, 3.0]):
        want, got = _outputs(k, weights), _outputs(after, weights)
        np.testing.assert_array_equal(got, want)
        assert np.isfinite(want).any()

    def never_again(s: object) -> object:
        return None if isinstance(s, If) and asks_for_nan(s.cond) else s

    wrong = after.with_(body=map_body(after.body, never_again))  # type: ignore[arg-type]
    assert not np.array_equal(_outputs(wrong, [odd, 1.0, 1.0]), _outputs(k, [odd, 1.0, 1.0]), equal_nan=True)


def test_integers_are_not_summed_again() -> None:
    text = LINE.replace("f32", "i32").replace("0.0", "0")
    assert "isnan" not in body_of(applied(kernel(text), "zero-terms{loop=c}"))


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("at >= 0 && at < h", "x[p] > 0.0", "E-ZERO-COND"),  # no comparison of indices
        ("s += x[c * h + at] * w", "s = s * x[c * h + at] * w", "E-ZERO-FORM"),  # zero would not be nothing
        ("s += x[c * h + at] * w", "s += x[c * h + at] + w", ""),  # all of it becomes zero
        ("w[(k * c_ + c) * 3 + r]", "w[p * k * h + c]", "E-ZERO-READS"),  # which only p reads
        ("w: f32 const* noalias", "w: f32 const*", ""),
        ("            s +=", "            y[p] = 1.0\n            s +=", "E-ZERO-FORM"),
        ("at < h\n", "at < h - 4 * r\n", ""),  # the launcher tests it
        ("in 0..3", "in 0..k + 3", "E-ZERO-READS"),
    ],
)
def test_refusals(old: str, new: str, code: str) -> None:
    k = kernel(LINE.replace(old, new))
    if code:
        assert refused(k, "zero-terms{loop=c}").code == code
    else:
        applied(k, "zero-terms{loop=c}")


def test_what_the_kernel_may_write_is_not_read_for_nothing() -> None:
    text = LINE.replace("y: f32* noalias", "y: f32*").replace("w: f32 const* noalias", "w: f32 const*")
    found = refused(kernel(text), "zero-terms{loop=c}")
    assert found.code == "E-ZERO-READS" and "may write" in found.why
