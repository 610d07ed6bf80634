"""reduce-atomics: updates that all iterations of a loop aim at the same elements, as reductions over the loop."""

from __future__ import annotations

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Atomic
from ktc.ir.text import parse_kernel
from ktc.ir.walk import walk
from ktc.passes.reductions import reduce_atomics
from tests.passes.checks import applied, body_of, differs, refused

COLUMNS = parse_kernel("""\
kernel columns(y: f32* noalias, s: f32* noalias, t: f32* noalias, x: f32 const* readonly, m: f32 const* readonly,
    n: i32, d: i32)
  par r in 0..n @ [block.x]
    let mean: f32 = m[r]
    par c in 0..d @ [thread.x 32, seq]
      let v: f32 = x[r * d + c] - mean
      let unused: f32 = v * v
      atomic add s[c], v
      y[r * d + c] = v + 1.0
      atomic add t[c], v * x[r * d + c]
""")
SIZES = [{"n": n, "d": d} for n, d in ((1, 1), (2, 33), (5, 7), (9, 40))]


def test_before_and_after() -> None:
    assert (
        body_of(applied(COLUMNS, "reduce-atomics{loop=r}")).partition("flags reassociates\n")[2]
        == """\
  par r in 0..n @ [block.x]
    let mean: f32 = m[r]
    par c in 0..d @ [thread.x 32, seq]
      let v: f32 = x[r * d + c] - mean
      y[r * d + c] = v + 1.0
  par c_1 in 0..d @ [thread.x 32, seq]
    reduce(+) s_total: f32 = 0.0, (+) t_total: f32 = 0.0 over r_1 in 0..n @ [block.x]
      let mean_1: f32 = m[r_1]
      let v_1: f32 = x[r_1 * d + c_1] - mean_1
      yield v_1, v_1 * x[r_1 * d + c_1]
    atomic add s[c_1], s_total
    atomic add t[c_1], t_total
"""
    )


TILED = "tile{loops=r sizes=4} | reduce-atomics{loop=r}"


def test_meaning_stays_over_rows_of_a_tile() -> None:
    rows = "map{r_tile=[block.x] c.1=[thread.x 16, seq] r.1=[thread.y 2, seq]"
    spread = "r.2=[seq] c.2=[thread.x 16, thread.y 2, seq]}"
    across = "r.2=[thread.y 2, seq] c.2=[thread.x 16, seq]}"
    for levels in (spread, across):
        k = applied(COLUMNS, f"{TILED} | {rows} {levels}")
        assert differs(COLUMNS, k, SIZES) is None


def one(body: str, params: str = "o: f32* noalias, x: f32 const* readonly, q: i32 const* readonly") -> Kernel:
    return parse_kernel(f"kernel k({params}, n: i32, d: i32)\n  par r in 0..n @ [thread.x 32, block.x]\n{body}")


SUMS = {
    "a scalar": "    atomic add o[0], x[r]\n",
    "a scalar, from every column": "    par c in 0..d @ [seq]\n      atomic add o[0], x[r * d + c]\n",
    "a serial loop chooses": "    for c = 0; c < d; c + 1\n      atomic add o[c], x[r * d + c]\n",
    "under a condition": "    par c in 0..d @ [seq]\n      if q[r] > c\n        let v: f32 = x[r * d + c]\n"
    "        atomic add o[c], v * v\n",
    "either way": "    par c in 0..d @ [seq]\n      if q[r] > c\n        atomic add o[c], 1.0\n      else\n"
    "        atomic add o[c], x[r]\n",
    "under one that only the element has": "    par c in 0..d @ [seq]\n      if q[c] > 0\n"
    "        atomic add o[c], x[r]\n",
    "a part of the row": "    par c in 0..min(r, d) @ [seq]\n      atomic add o[0], x[c]\n",
    "subtracted": "    atomic sub o[d], x[r]\n",
    "the largest": "    par c in 0..d @ [seq]\n      atomic max o[c], x[r * d + c]\n",
    "the sum of each row": "    reduce(+) a: f32 = 0.0 over c in 0..d @ [seq]\n      let v: f32 = x[r * d + c]\n"
    "      yield v * v\n    atomic add o[0], a\n",
    "the sum of each row, used twice": "    reduce(+) a: f32 = 0.0 over c in 0..d @ [seq]\n      yield x[r * d + c]\n"
    "    let h: f32 = a * 0.5\n    if q[r] > 0\n      atomic add o[0], h + a\n    atomic add o[r + 1], a\n",
    "another element each, too": "    atomic add o[r % 7], 2.0\n    atomic add o[1], x[r]\n",
}


@pytest.mark.parametrize("name", SUMS)
def test_meaning_stays(name: str) -> None:
    kernel = one(SUMS[name])
    k = applied(kernel, "reduce-atomics{loop=r}")
    assert differs(kernel, k, SIZES, lower=False) is None
    tiled = applied(kernel, "map{r=[block.x]} | tile{loops=r sizes=3} | reduce-atomics{loop=r}")
    assert differs(kernel, tiled, SIZES) is None


def test_a_sum_without_parts_touches_nothing() -> None:
    assert "if o_total != 0.0" in body_of(applied(one(SUMS["under a condition"]), "reduce-atomics{loop=r}"))
    empty = "    atomic add o[r], x[r]\n    par c in q[r]..q[r + 1] @ [seq]\n      atomic add o[0], x[c]\n"
    assert "if o_total != 0.0" in body_of(applied(one(empty), "reduce-atomics{loop=r}"))


@pytest.mark.parametrize(
    ("body", "code", "why"),
    [
        ("    atomic add o[q[r]], x[r]\n", "E-UPDATES-NONE", "depends on 'r'"),
        ("    o[r] = x[r]\n", "E-UPDATES-NONE", "updates nothing"),
        ("    var was: f32\n    was = atomic add o[0], x[r]\n", "E-UPDATES-NONE", "what it held before is used"),
        ("    par c in 0..r @ [seq]\n      atomic add o[c], x[r]\n",
         "E-UPDATES-NONE", "how far 'c' runs depends on 'r'"),
        ("    if q[r] > 0\n      reduce(+) a: f32 = 0.0 over c in 0..d @ [seq]\n        yield x[c]\n"
         "      atomic add o[0], a\n",
         "E-UPDATES-VALUE", "summed up under a condition"),
        ("    reduce(+) a: f32 = 0.0 over c in 0..d @ [seq]\n      var v: f32 = 0.0\n      v = x[c]\n      yield v\n"
         "    atomic add o[0], a\n", "E-UPDATES-VALUE", "needs 'a'"),
        ("    var a: f32 = 0.0\n    if q[r] > 0\n      a = x[r]\n    atomic add o[0], a\n",
         "E-UPDATES-VALUE", "needs 'a'"),
        ("    atomic add o[0], o[r]\n", "E-UPDATES-READ", "'o' is read"),
        ("    atomic add o[0], x[r]\n    o[r] = 1.0\n", "E-UPDATES-READ", "'o' is written in the loop in another way"),
        ("    atomic add o[0], x[r]\n    atomic max o[r], x[r]\n", "E-UPDATES-READ", "in another way"),
        ("    if q[r] > 0\n      break\n    atomic add o[0], x[r]\n", "E-UPDATES-ORDER", "a jump"),
    ],
)  # fmt: skip
def test_refusals(body: str, code: str, why: str) -> None:
    done = refused(one(body), "reduce-atomics{loop=r}")
    assert done.code == code, done
    assert why in str(done)


def test_elements_beside_the_updated_one_may_be_read() -> None:
    """A sum that is kept behind the elements it is of."""
    kernel = one("    atomic add o[n], x[r] - o[r]\n")
    after = applied(kernel, "reduce-atomics{loop=r}")
    assert "yield x[r] - o[r]" in body_of(after) and differs(kernel, after, SIZES, elements=600) is None
    before = one("    atomic add o[n], x[r] - o[n + 1 + r]\n")
    assert "yield" in body_of(applied(before, "reduce-atomics{loop=r}"))
    for index in ("r + 1", "n", "q[r]", "n - r"):
        done = refused(one(f"    atomic add o[n], x[r] - o[{index}]\n"), "reduce-atomics{loop=r}")
        assert done.code == "E-UPDATES-READ", index


def test_what_may_overlap_is_refused() -> None:
    unknown = "o: f32*, y: f32*, x: f32 const*"
    read = "    atomic add o[0], x[r]\n"
    assert refused(one(read, unknown), "reduce-atomics{loop=r}").code == "E-UPDATES-READ"
    stored = "    y[r] = x[r]\n    atomic add o[0], x[r]\n"
    apart = "o: f32* noalias, y: f32*, x: f32 const*"
    done = refused(one(stored, apart), "reduce-atomics{loop=r}")
    assert done.code == "E-UPDATES-OVERWRITTEN"
    assert "'x' is read for it, and 'y' written" in str(done)
    applied(one(stored, "o: f32* noalias, y: f32* noalias, x: f32 const*"), "reduce-atomics{loop=r}")


def test_an_update_without_its_condition_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = one(SUMS["under a condition"])
    monkeypatch.setattr(reduce_atomics, "Select", lambda cond, a, b: a)
    wrong = applied(kernel, "reduce-atomics{loop=r}")
    assert differs(kernel, wrong, SIZES, lower=False) is not None


def test_one_atomic_a_tile_and_element() -> None:
    k = applied(COLUMNS, TILED)
    (loop,) = (s for s in walk(k.body) if getattr(getattr(s, "var", None), "name", "") == "r_tile")
    assert len([s for s in walk(loop.body) if isinstance(s, Atomic)]) == 2
