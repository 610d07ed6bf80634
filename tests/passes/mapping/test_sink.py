"""sink: what iterations of a parallel loop share, once; what it means afterwards, and what is refused."""

from __future__ import annotations

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel
from ktc.passes.mapping import sink
from tests.passes.checks import applied, body_of, differs, refused

HEAD = """\
kernel k(g: f32* noalias, h: f32* noalias, x: f32 const* noalias, a: f32 const* noalias, n: i32 range 1..9,
    layers: i32 range 1..9, m: i32 LEAST..9)
  launch grid(n) block(64)
  par c in 0..m @ [seq]
    par p in 0..n @ [thread.x 64, block.x]
"""
SIZES = [{"n": n, "layers": k, "m": m} for n, k, m in ((1, 1, 1), (3, 4, 5), (9, 2, 3))]


def nest(*lines: str, least: str = "range 1") -> Kernel:
    return parse_kernel(HEAD.replace("LEAST", least) + "".join(f"      {line}\n" for line in lines))


BLEND = (
    "var left: f32 = 1.0",
    "for k in 0..layers",
    "  let at: i32 = p * layers + k",
    "  let each: f32 = x[c * n + p]",
    "  if a[at] > 0.0",
    "    atomic add g[at], left * each",
    "    for t in 0..k",
    "      atomic add g[p * layers + t], each * a[at]",
    "    h[(c * n + p) * layers + k] = each",
    "  left *= 1.0 - a[at]",
)


def test_before_and_after() -> None:
    k = applied(nest(*BLEND), "sink{loop=c}")
    assert (
        body_of(k).split("block(64)\n")[1]
        == """\
  par p in 0..n @ [thread.x 64, block.x]
    var left: f32 = 1.0
    for k in 0..layers
      let at: i32 = p * layers + k
      if a[at] > 0.0
        par c in 0..m @ [seq]
          let each: f32 = x[c * n + p]
          atomic add g[at], left * each
        for t in 0..k
          par c_1 in 0..m @ [seq]
            let each_1: f32 = x[c_1 * n + p]
            atomic add g[p * layers + t], each_1 * a[at]
        par c_2 in 0..m @ [seq]
          let each_2: f32 = x[c_2 * n + p]
          h[(c_2 * n + p) * layers + k] = each_2
      left *= 1.0 - a[at]
"""
    )


@pytest.mark.parametrize("least", ["range 1", "range 0"])
def test_meaning_stays(least: str) -> None:
    before = nest(*BLEND, least=least)
    sizes = [*SIZES, *([{"n": 3, "layers": 2, "m": 0}] if least == "range 0" else [])]
    after = applied(before, "sink{loop=c}")
    assert ("if 0 < m" in body_of(after)) == (least == "range 0")  # nothing is read for no iteration
    assert differs(before, after, sizes, elements=900) is None


COUNTED = (
    "for k in 0..layers",
    "  var t: i32 = k",
    "  var s: i32 = 0",
    "  while t > 0",
    "    t = t / 2",
    "    s = s + 1",
    "  let v: f32 = s as f32 + a[p * layers + k]",
    "  h[(c * n + p) * layers + k] = v * x[c]",
)


def test_what_each_iteration_counts_by_itself_is_its_own() -> None:
    """``v`` was computed once, in front of the loop that counts ``s``, which each iteration goes through for itself."""
    before = nest(*COUNTED)
    after = applied(before, "sink{loop=c}")
    assert differs(before, after, SIZES, elements=900) is None


def test_what_all_iterations_update_is_a_sum_then() -> None:
    before = nest(*BLEND)
    after = applied(before, "sink{loop=c} | reduce-atomics{loop=c} | reduce-atomics{loop=c_1}")
    assert body_of(after).count("reduce(+)") == 2
    assert differs(before, after, SIZES, elements=900) is None


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (("h[c * n + p] = x[c]",), "E-SINK-NOTHING"),
        (("for k in 0..layers + c", "  h[(c * n + p) * 20 + k] = x[c]"), "E-SINK-NOTHING"),
        (("var s: f32 = x[c]", "for k in 0..layers", "  s += a[k]", "h[c * n + p] = s"), "E-SINK-VALUE"),
        (("for k in 0..layers", "  let v: f32 = g[p]", "  g[p] = v + x[c]"), "E-SINK-MEMORY"),
        (
            ("array v: f32[2]", "v[0] = 1.0", "v[1] = 2.0", "for k in 0..layers", "  h[(c * n + p) * 9 + k] = v[k]"),
            "E-SINK-VALUE",
        ),
        (("for k in 0..layers", "  if x[c] > 0.0", "    break", "  h[(c * n + p) * 9 + k] = 1.0"), "E-SINK-LOOP"),
    ],
)
def test_refusals(lines: tuple[str, ...], code: str) -> None:
    assert refused(nest(*lines), "sink{loop=c}").code == code


def test_a_value_that_changes_too_early_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink._Sinking, "_may_be_again", lambda self, s: s.init is not None)
    lines = ("var left: f32 = 1.0", "for k in 0..layers", "  let v: f32 = left * x[c]", "  left *= 0.5",
             "  h[(c * n + p) * 9 + k] = v")  # fmt: skip
    before = nest(*lines)
    assert differs(before, applied(before, "sink{loop=c}"), SIZES, elements=900) is not None


def test_sites() -> None:
    assert [str(s.step) for s in sink.Sink().sites(nest(*BLEND))] == ["sink{loop=c}"]
