"""online-softmax: a maximum and the sums of exponentials below it in one sweep over tiles of positions."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Body, Expr
from ktc.ir.text import parse_kernel
from ktc.passes.lowering import materialise
from ktc.passes.reductions.softmaxes import softmax_steps
from tests.passes.checks import applied, body_of, differs, refused

HEAD = (
    "kernel attend(o: f32* noalias, q: f32 const*, k: f32 const*, v: f32 const*,"
    " rows: i32, n: i32, d: i32 range 1..64)\n"
    "  launch grid((rows + 31) / 32) block(32)\n  flags reassociates\n  par r in 0..rows @ [thread.x 32, block.x]\n"
)
SCORE = "reduce(+) s: f32 = 0.0 over c in 0..d @ [seq]\n        yield q[r * d + c] * k[j * d + c]\n"
LAST = "    par c in 0..d @ [seq]\n      o[r * d + c] /= l\n"
TWO = f"""{HEAD}\
    var l: f32 = 0.0
    reduce(max) m: f32 = -inf over j in FROM..TO @ [seq]
      {SCORE}      yield s * 0.5
    par c in 0..d @ [seq]
      o[r * d + c] = 0.0
    for j in FROM..TO
      {SCORE}      var p: f32 = exp(s * 0.5 - m)
      l += p
      par c in 0..d @ [seq]
        o[r * d + c] += p * v[j * d + c]
{LAST}"""
KEPT = f"""{HEAD}\
    array acc: f32[64]
    par c in 0..d @ [seq]
      acc[c] = 0.0
    var m: f32 = -inf
    var l: f32 = 0.0
    for j in 0..n
      {SCORE}      var top: f32 = max(m, s)
      var fix: f32 = exp(m - top)
      var p: f32 = exp(s - top)
      l = l * fix + p
      par c in 0..d @ [seq]
        acc[c] = acc[c] * fix + p * v[j * d + c]
      m = top
    par c in 0..d @ [seq]
      o[r * d + c] = acc[c] / l
"""
APART = f"""{HEAD}\
    reduce(max) m: f32 = -inf over j in 0..n @ [seq]
      {SCORE}      yield s
    reduce(+) l: f32 = 0.0 over j in 0..n @ [seq]
      {SCORE}      yield exp(s - m)
    par e in 0..d @ [seq]
      reduce(+) a: f32 = 0.0 over j in 0..n @ [seq]
        {SCORE.replace("        yield", "          yield")}        yield exp(s - m) / l * v[j * d + e]
      o[r * d + e] = a
"""
SIZES = [{"rows": 3, "n": n, "d": 3} for n in (1, 3, 4, 8, 13, 17)] + [{"rows": 35, "n": 9, "d": 2}]
ONCE = "online-softmax{loop=j keys=2 tile=4}"


def kernel(text: str, lo: str = "0", hi: str = "n") -> Kernel:
    return parse_kernel(text.replace("FROM", lo).replace("TO", hi))


def test_a_score_is_computed_once() -> None:
    text = body_of(applied(kernel(TWO), ONCE))
    assert text.count("* k[") == 2  # of a tile's step, and of single positions behind the tiles
    assert "for j_tile in 0..n / 4" in text and "for j_rest in n / 4 * 4..n" in text
    assert "q_row[c] = q[r * d + c]" in text
    assert "o[r * d + c_8] += o_run[c_8] * rest" in text.replace("c_3", "c_8")


@pytest.mark.parametrize("text", [TWO, KEPT, APART], ids=["two sweeps", "kept", "a sum each"])
def test_meaning_stays(text: str) -> None:
    before = kernel(text)
    assert differs(before, applied(before, ONCE), SIZES) is None


RANGES = {"causal": ("0", "r + 1"), "window": ("max(0, r - 3)", "min(n, r + 4)"), "behind": ("min(r, n)", "n")}


@pytest.mark.parametrize("name", RANGES)
def test_rows_see_positions_of_their_own(name: str) -> None:
    """Behind a mask each thread counts its own positions; tiles hold what all rows of a block see."""
    before = kernel(TWO, *RANGES[name])
    after = applied(before, f"tile{{loops=r sizes=8}} | {ONCE} | map{{r=[thread.y 8] c.*=[thread.x 2, unroll 1]}}")
    assert differs(before, after, [{"rows": n, "n": n, "d": 2} for n in (1, 5, 8, 19)]) is None


def test_a_block_shares_tiles_of_keys_and_values() -> None:
    before = kernel(TWO)
    script = (
        f"specialize{{d=8}} | tile{{loops=r sizes=8}} | {ONCE} | map{{r=[unroll 2, thread.y 4] c.*=[vec 2, thread.x 2,"
        " unroll 2]} | register-tile{loop=j_tile} | stage-shared{array=k loop=j_tile} | stage-shared{array=v"
        " loop=j_tile}"
    )
    after = applied(before, script)
    assert "k_s: shared f32[2, 2, 8]" in body_of(after)
    assert differs(before, after, [{"rows": 9, "n": n, "d": 8} for n in (3, 4, 9)]) is None


@pytest.mark.parametrize("text", [TWO, KEPT, APART], ids=["two sweeps", "kept", "a sum each"])
@pytest.mark.parametrize("peak", [0.0, 60.0, -60.0])
def test_numbers_far_apart(text: str, peak: float) -> None:
    rng = np.random.default_rng(1)
    q, k, v = (rng.normal(size=(11, 4)).astype(np.float32) for _ in range(3))
    k[7] *= peak or 1.0
    args = {"o": np.zeros((11, 4), np.float32), "q": q, "k": k, "v": v, "rows": 11, "n": 11, "d": 4}
    before = kernel(text)
    want, got = (run(materialise(p), args, domain="float").outputs["o"] for p in (before, applied(before, ONCE)))
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "old", "new", "code"),
    [
        (TWO, "s * 0.5 - m", "s * 0.25 - m", "E-SOFTMAX-USE"),  # above the maximum, or far below it
        (TWO, "l += p", "l = l * 2.0 + p", "E-SOFTMAX-USE"),
        (TWO, "o: f32* noalias", "o: f32*", "E-SOFTMAX-USE"),  # what is stored may be a value that is read
        (TWO, "+= p * v[j * d + c]", "+= o[r * d + c] * p", "E-SOFTMAX-USE"),
        (KEPT, "exp(m - top)", "exp(top - m)", "E-SOFTMAX-NONE"),
        (KEPT, "p * v[j * d + c]", "s * v[j * d + c]", "E-SOFTMAX-NONE"),
        (TWO, "reduce(max) m: f32 = -inf", "reduce(min) m: f32 = inf", "E-SOFTMAX-NONE"),
    ],
)
def test_what_is_no_softmax_is_refused(text: str, old: str, new: str, code: str) -> None:
    assert old in text
    assert refused(kernel(text.replace(old, new)), ONCE).code == code


def test_a_range_that_turns_with_the_row_is_refused() -> None:
    assert refused(kernel(TWO, "0", "r * r % 7"), ONCE).code == "E-SOFTMAX-RANGE"


def test_what_is_kept_without_a_correction_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = softmax_steps.Sweep.step

    def wrong(self: softmax_steps.Sweep, count: Expr, first: Expr, seen: Expr | None = None) -> Body:
        return right(self, count, first, seen)[:-1]  # the maximum so far is never taken up

    monkeypatch.setattr(softmax_steps.Sweep, "step", wrong)
    before = kernel(TWO)
    assert differs(before, applied(before, ONCE), SIZES) is not None
