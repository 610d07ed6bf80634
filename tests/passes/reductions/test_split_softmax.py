# ruff: noqa: E501
"""split-softmax: the positions of one query's attention in parts, a block each."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel, print_kernel
from ktc.passes.lowering import materialise
from ktc.passes.reductions.softmax_parts import Work
from tests.passes.checks import applied, differs, refused

HEAD = """\
kernel attend(o: f32* align 16 noalias, att: f32* noalias, q: f32 const* align 16 noalias, v: f32 const* align 16 noalias, n: i32 range 0..64, d: i32 range 1..64, host heads: i32)
  launch grid(heads) block(32)
  par h in 0..heads @ [block.x]
"""
SCORES = """\
    array w: shared f32[64]
    par t in 0..n @ [thread.x 32, seq]
      w[t] = q[h * 64 + t]
"""
TOP = """\
    reduce(max) m: f32 = -inf over j in 0..n @ [thread.x 32, seq]
      yield w[j]
"""
POWERS = """\
    reduce(+) l: f32 = 0.0 over i in 0..n @ [thread.x 32, seq]
      w[i] = exp(w[i] - m)
      yield w[i]
"""
NORMED = """\
    par u in 0..n @ [thread.x 32, seq]
      w[u] /= l
"""
SUMS = """\
    par c in 0..d @ [thread.x 32, seq]
      var a: f32 = 0.0
      for p in 0..n
        a += w[p] * v[p * d + c]
      o[h * d + c] = a
"""
ATTEND = HEAD + SCORES + TOP + POWERS + NORMED + SUMS
GLOBAL = ATTEND.replace("    array w: shared f32[64]\n", "").replace("w[", "att[h * 64 + ")
SIZES = [{"n": n, "d": d, "heads": heads} for n, d, heads in ((1, 3, 2), (3, 5, 1), (8, 4, 3), (13, 33, 2), (64, 2, 1), (0, 3, 2))]  # fmt: skip


def split(text: str, parts: int = 4) -> tuple[Kernel, Kernel]:
    kernel = parse_kernel(text)
    return kernel, applied(kernel, f"split-softmax{{loop=j parts={parts}}}")


def test_before_and_after() -> None:
    text = print_kernel(split(ATTEND)[1].with_(trace=()))
    assert (
        text[text.index("  flags") :]
        == """\
  flags reassociates
  array m_parts: f32[4, heads]
  array l_parts: f32[4, heads]
  array a_parts: f32[4, heads, d]
  par h in 0..heads @ [block.x]
    let length: i32 = cdiv(n, 4)
    reduce(max) m: f32 = -inf over part in 0..4 @ [block.y]
      let lo: i32 = part * length
      let hi: i32 = min(lo + length, n)
      array w: shared f32[16]
      par t in lo..hi @ [thread.x 32, seq]
        w[t - lo] = q[h * 64 + t]
      reduce(max) m_1: f32 = -inf over j in lo..hi @ [thread.x 32, seq]
        yield w[j - lo]
      let base: f32 = m_1 == -inf ? 0.0 : m_1
      m_parts[part, h] = m_1
      reduce(+) l_1: f32 = 0.0 over i in lo..hi @ [thread.x 32, seq]
        w[i - lo] = exp(w[i - lo] - base)
        yield w[i - lo]
      l_parts[part, h] = l_1
      par c_1 in 0..d @ [thread.x 32, seq]
        reduce(+) a_1: f32 = 0.0 over p in lo..hi
          yield w[p - lo] * v[p * d + c_1]
        a_parts[part, h, c_1] = a_1
      yield m_1
    reduce(+) l: f32 = 0.0 over p_1 in 0..min(4, n) @ [seq]
      yield l_parts[p_1, h] * exp(m_parts[p_1, h] - m)
    par c in 0..d @ [thread.x 32, seq]
      reduce(+) a: f32 = 0.0 over p_2 in 0..min(4, n) @ [seq]
        yield a_parts[p_2, h, c] * (exp(m_parts[p_2, h] - m) / l)
      o[h * d + c] = a
"""
    )


def test_a_row_in_memory_ends_below_the_maximum_of_all() -> None:
    text = print_kernel(split(GLOBAL)[1])
    assert "att[h * 64 + u] *= exp(m_parts[u / length, h] - m) / l\n" in text and text.count(") / l") == 2


@pytest.mark.parametrize("parts", [1, 2, 3, 16])
@pytest.mark.parametrize("text", [ATTEND, GLOBAL], ids=["shared", "global"])
def test_meaning_stays(text: str, parts: int) -> None:
    before, after = split(text, parts)
    assert differs(before, after, SIZES, elements=64 * 35) is None


LATE = SUMS.replace("= a\n", "= a / l\n")
INVERSE = "    let r: f32 = 1.0 / (l + 1e-6)\n" + NORMED.replace("/= l", "*= r")
SINK = POWERS.replace("l: f32 = 0.0", "l: f32 = exp(0.5 - m)")
SCALED = POWERS.replace("exp(w[i] - m)", "exp2((w[i] - m) * 0.5)")
COLUMNS = SUMS.replace("var a: f32 = 0.0\n", "let x: f32 = q[c]\n      var b: f32 = x\n      var a: f32 = 0.0\n").replace(
    "v[p * d + c]\n", "v[p * d + c]\n        b -= w[p] * x\n"
).replace("= a\n", "= a + b\n")  # fmt: skip
STAGED = "    array k: shared f32[64]\n    par z in 0..64 @ [thread.x 32, seq]\n      k[z] = q[z] + 1.0\n" + SCORES.replace("= q[h", "= k[t] * q[h")  # fmt: skip
RAGGED = "    let e: i32 = min(n, h + 1)\n" + (SCORES + TOP + POWERS + NORMED + SUMS).replace("0..n", "0..e")
LOADED = RAGGED.replace("min(n, h + 1)", "min(n, i32(q[h]))")
GAP = (SCORES + TOP + POWERS + NORMED + SUMS).replace("f32[64]", "f32[66]")
for name in "tjiup":
    GAP = GAP.replace(f"w[{name}]", f"w[{name} + 2]")
FROM = (SCORES + TOP + POWERS + NORMED + SUMS).replace("0..n", "2..n")
EXTREMES = "    if h < 1\n      att[h] = m + log(l)\n"
MASKED = SUMS.replace("w[p] *", "(p % 2 == 0 ? w[p] : 0.0) *")
FUSED = SCORES.replace("w[t] = q[h * 64 + t]", "pass").split("    par")[0] + TOP.replace("yield w[j]", "w[j] = q[h * 64 + j]\n      yield w[j]")  # fmt: skip
AGAIN = POWERS.replace("exp(w[i] - m)", "exp(q[h * 64 + i] - m)")
MULTIPLES = "    let b: f32 = m * 0.5\n" + POWERS.replace("exp(w[i] - m)", "exp2(w[i] * 0.5 - b)")
TWICE = POWERS.replace("w[i] = exp(w[i] - m)", "let e: f32 = exp(w[i] - m)\n      w[i] = e")
RUNNING = {
    "quotient at the end": SCORES + TOP + POWERS + LATE,
    "inverse": SCORES + TOP + POWERS + INVERSE + SUMS,
    "a sink": SCORES + TOP + SINK + NORMED + SUMS,
    "powers of two": SCORES + TOP + SCALED + NORMED + SUMS,
    "two sums from something": SCORES + TOP + POWERS + NORMED + COLUMNS,
    "what a part needs": STAGED + TOP + POWERS + NORMED + SUMS,
    "the value once more": SCORES + TOP + AGAIN + NORMED + SUMS,
    "multiples of the maximum": SCORES + TOP + MULTIPLES + NORMED + SUMS,
    "a name for the power": SCORES + TOP + TWICE + NORMED + SUMS,
    "ragged": RAGGED,
    "as many as memory says": LOADED,
    "a row with a gap": GAP,
    "not from zero": FROM,
    "the logarithm": SCORES + TOP + POWERS + EXTREMES + NORMED + SUMS,
    "masked": SCORES + TOP + POWERS + NORMED + MASKED,
    "a start": SCORES + TOP.replace("-inf", "1.0") + POWERS + NORMED + SUMS,
    "maximum of what it computes": FUSED + POWERS + NORMED + SUMS,
    "powers alone": SCORES + TOP + POWERS.replace("      w[i] = exp(w[i] - m)\n      yield w[i]\n", "      yield exp(w[i] - m)\n") + SUMS.replace("w[p]", "exp(w[p] - m)"),
}  # fmt: skip


@pytest.mark.parametrize("block", RUNNING.values(), ids=list(RUNNING))
def test_other_forms_keep_their_meaning(block: str) -> None:
    before, after = split(HEAD + block, 3)
    assert differs(before, after, [*SIZES[:3], SIZES[-1]], elements=64 * 35) is None


def test_two_loops_over_blocks_and_none() -> None:
    two = ATTEND.replace("  par h", "  par g in 0..2 @ [block.y]\n   par h").replace("\n    ", "\n     ").replace("h * ", "(h + g * heads) * ")  # fmt: skip
    before, after = split(two, 3)
    assert "over part in 0..3 @ [block.z]" in print_kernel(after)
    assert differs(before, after, SIZES[:3], elements=64 * 35) is None
    one = "\n".join(line[2:] for line in (SCORES + TOP + POWERS + NORMED + SUMS).replace("h * ", "0 * ").splitlines())
    before, after = split(HEAD.split("  par h")[0] + one + "\n", 3)
    assert differs(before, after, SIZES[:3], elements=64 * 35) is None


ROWS = {
    "plain": [0.5, -1.0, 2.0, 3.0, 1.0, 0.0, -2.0, 2.5, 1.5],
    "nothing": [],
    "one": [3.0],
    "all -inf": [-np.inf] * 9,
    "a part -inf": [-np.inf] * 5 + [1.0] * 4,
    "the last -inf": [1.0] * 4 + [-np.inf] * 5,
    "+inf": [0.0] * 5 + [np.inf] + [1.0] * 3,
    "nan": [1.0] * 5 + [np.nan] * 4,
    "far apart": [100.0] * 4 + [-100.0] * 5,
    "far below zero": [-100.0] * 9,
}
FROM_ZERO = ATTEND.replace("f32 = -inf", "f32 = 0.0")


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
@pytest.mark.parametrize(
    "text",
    [ATTEND, GLOBAL, ATTEND.replace(NORMED, ""), FROM_ZERO],
    ids=["shared", "global", "no quotient", "from zero"],
)
def test_infinities_and_nan_give_what_the_source_gives(text: str, row: list[float]) -> None:
    before, after = split(text, 4)
    x = np.zeros(64, np.float32)
    x[: len(row)] = row
    v = np.linspace(-1, 1, 64 * 3).astype(np.float32)
    args = {"q": x, "v": v, "o": np.zeros(3, np.float32), "att": np.zeros(64, np.float32), "n": len(row), "d": 3, "heads": 1}  # fmt: skip
    want = run(materialise(before), args, domain="float").outputs
    for k in (after, materialise(after)):
        got = run(k, args, domain="float").outputs
        for name in want:
            np.testing.assert_allclose(got[name], want[name], rtol=2e-6, atol=1e-30)


REFUSALS = {
    "no maximum": ("reduce(max) m: f32 = -inf", "reduce(min) m: f32 = inf", "E-SOFTMAX-NONE"),
    "no exponential": ("exp(w[i] - m)", "w[i] * 2.0", "E-SOFTMAX-USE"),
    "another function": ("exp(w[i] - m)", "tanh(w[i] - m)", "E-SOFTMAX-USE"),
    "another value": ("exp(w[i] - m)", "exp(q[i] - m)", "E-SOFTMAX-USE"),
    "a value that has changed": ("over i in 0..n", "over i in 0..n", "E-SOFTMAX-USE"),
    "the other sign": ("exp(w[i] - m)", "exp(m - w[i])", "E-SOFTMAX-USE"),
    "a power beside": ("exp(w[i] - m)", "exp(w[i] - m) + 1.0", "E-SOFTMAX-USE"),
    "squared": ("w[p] * v", "w[p] * w[p] * v", "E-SOFTMAX-USE"),
    "under a root": ("w[p] * v", "sqrt(w[p]) * v", "E-SOFTMAX-USE"),
    "divided by": ("w[p] * v[p * d + c]", "v[p * d + c] / w[p]", "E-SOFTMAX-USE"),
    "two scales": ("w[p] * v", "exp2(w[p] - m) * v", "E-SOFTMAX-USE"),
    "the maximum as a factor": ("w[u] /= l", "w[u] -= m", "E-SOFTMAX-USE"),
    "a product": ("a += w[p] * v[p * d + c]", "a = a * w[p]", "E-SOFTMAX-USE"),
    "another's element": ("w[p] * v", "w[n - 1 - p] * v", "E-SOFTMAX-ROWS"),
    "the first element": ("o[h * d + c] = a", "o[h * d + c] = a + w[0]", "E-SOFTMAX-ROWS"),
    "half of the positions": ("for p in 0..n", "for p in 0..n / 2", "E-SOFTMAX-ROWS"),
    "half of the powers": ("over i in 0..n", "over i in 0..n / 2", "E-SOFTMAX-ROWS"),
    "a row that may overlap": ("array w: shared f32[64]", "array x: shared f32[64]", "E-SOFTMAX-ROWS"),
    "an end that moves": ("par c in 0..d", "par c in 0..h + 1", "E-SOFTMAX-RANGE"),
    "rows of a loop": ("par h in 0..heads @ [block.x]", "par h in 0..heads @ [block.x 4, seq]", "E-SOFTMAX-PLACE"),
    "threads of a loop": ("par h in 0..heads @ [block.x]", "for h in 0..heads", "E-SOFTMAX-PLACE"),
    "a branch": ("      var a: f32 = 0.0\n", "      if c < 2\n", "E-SOFTMAX-ROWS"),
    "a serial loop": ("par c in 0..d @ [thread.x 32, seq]", "for c in 0..d", "E-SOFTMAX-PLACE"),
    "unsigned from one": ("over j in 0..n", "over j: u32 in 1_u32..u32(n)", "E-SOFTMAX-RANGE"),
    "work beside": ("  par h in", "  att[0] = 1.0\n  par h in", "E-SOFTMAX-PLACE"),
    "a place": ("loop=j", "loop=y", "E-PLACE"),
}


@pytest.mark.parametrize(("old", "new", "code"), REFUSALS.values(), ids=list(REFUSALS))
def test_refusals(old: str, new: str, code: str) -> None:
    text, step = ATTEND, "split-softmax{loop=j parts=4}"
    assert old in text + step
    if old.startswith("array w"):
        text = GLOBAL.replace("att: f32* noalias", "att: f32*").replace("v: f32 const* align 16 noalias", "v: f32 const* align 16")  # fmt: skip
    if old == new:
        text = text.replace(POWERS, "    par y in 0..n @ [thread.x 32, seq]\n      w[y] = w[y] * 2.0\n" + POWERS)
    if new.startswith("      if"):
        lines = SUMS.splitlines()
        inner = [lines[0], lines[1], "      if c < 2", "        for p in 0..n", "          a += w[p] * v[p * d + c]", lines[-1]]  # fmt: skip
        text = text.replace(SUMS, "\n".join(inner) + "\n")
    else:
        text, step = text.replace(old, new), step.replace(old, new)
    assert refused(parse_kernel(text), step).code == code


def test_parts_that_are_not_scaled_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from ktc.ir.nodes import Const
    from ktc.ir.types import F32

    monkeypatch.setattr(Work, "_below_all", lambda self, part: Const(1.0, F32))
    assert differs(*split(ATTEND), SIZES, elements=64 * 35) is not None
