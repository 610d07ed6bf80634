"""tabulate: what depends on loop counters alone, from a table that a block computes once."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel
from ktc.passes.memory import tabulate
from tests.passes.checks import applied, body_of, differs, refused

HEAD = "kernel k(y: f32* restrict, x: f32 const* restrict, b: f32, n: i32 range 0..40, m: i32 range 0..40)\n"
LINE = "  par r in 0..m @ [thread.x 32, block.x]\n"
LONG = (
    f"{HEAD}{LINE}    var s: f32 = x[r]\n"
    "    for t = 1; t <= n; t + 1\n      s = s * b + x[t] / (1.0 + pow(b, t))\n    y[r] = s\n"
)
TILED = "tile{loops=r sizes=8} | distribute{loop=r map=[thread.x 8]}"
TURNED = f"{TILED} | tile{{loops=t sizes=16}} | register-tile{{loop=t_tile}}"
TAPS = (
    f"{HEAD}{LINE}    var s: f32 = 0.0\n    for i in -1..2\n      for j in 0..2\n"
    "        var w: f32 = exp(f32(i * i + j) * b)\n        s += w * x[r + i + j + 1] / sqrt(f32(j + 1) * b * b + 1.0)\n"
    "    y[r] = s\n"
)
SIZES = [{"n": n, "m": m, "b": 2.0} for n, m in ((0, 3), (1, 1), (16, 8), (17, 9), (33, 15))]


def test_before_and_after() -> None:
    body = body_of(applied(parse_kernel(LONG), f"{TURNED} | tabulate{{loop=t}}"))
    assert "    array pow_t: shared f32[16] align 16\n    for t_tile in 1..n + 1 step 16\n" in body
    assert """\
      par k in 0..min(16, n + 1 - t_tile) @ [thread.x 8, seq]
        pow_t[k] = 1.0 + pow(b, t_tile + k)
      par r_1 in 0..min(8, m - r_tile * 8) @ [thread.x 8]
        for t in t_tile..min(t_tile + 16, n + 1)
          s[r_1] = s[r_1] * b + x[t] / pow_t[t - t_tile]
""" in body  # fmt: skip


def test_a_table_has_a_dimension_for_each_loop_that_matters() -> None:
    body = body_of(applied(parse_kernel(TAPS), f"{TILED} | tabulate{{loop=i,j}}"))
    assert "array exp_j: shared f32[3, 2] align 16" in body and "array sqrt_j: shared f32[2] align 16" in body
    assert "exp_j[k / 2, k % 2] = exp(" in body
    assert "var w: f32 = exp_j[i + 1, j]" in body and "/ sqrt_j[j]" in body


@pytest.mark.parametrize(("text", "script"), [(LONG, f"{TURNED} | tabulate{{loop=t}}"),
                                              (TAPS, f"{TILED} | tabulate{{loop=i,j}}"),
                                              (TAPS, f"{TILED} | tabulate{{loop=j}}")])  # fmt: skip
def test_meaning_stays(text: str, script: str) -> None:
    before = parse_kernel(text)
    assert differs(before, applied(before, script), SIZES) is None


def test_what_variables_stand_for_is_looked_through() -> None:
    text = LONG.replace("      s = s", "      let e: f32 = f32(t) * b\n      s = s").replace("pow(b, t)", "exp(e)")
    body = body_of(applied(parse_kernel(text), f"{TURNED} | tabulate{{loop=t}}"))
    assert "exp_t[k] = 1.0 + exp(f32(t_tile + k) * b)" in body


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("x[t] / (1.0 + x[r])", "E-TABLE-NONE"),
        ("x[t] + b * f32(t)", "E-TABLE-NONE"),
        ("exp(x[t])", "E-TABLE-NONE"),
        ("exp(b)", "E-TABLE-NONE"),
        ("exp(s * f32(t))", "E-TABLE-NONE"),
        ("exp(b * f32(r + t))", "E-TABLE-NONE"),
        ("x[t] / 2.0", "E-TABLE-NONE"),
    ],
)
def test_nothing_to_tabulate(value: str, code: str) -> None:
    text = LONG.replace("x[t] / (1.0 + pow(b, t))", value)
    assert refused(applied(parse_kernel(text), TURNED).with_(trace=()), "tabulate{loop=t}").code == code


def test_places_and_sizes() -> None:
    assert refused(parse_kernel(LONG), "tabulate{loop=t}").code == "E-TABLE-LOOP"
    assert refused(parse_kernel(LONG), "tabulate{loop=r}").code == "E-PLACE"
    whole = applied(parse_kernel(LONG), TILED)
    assert refused(whole, "tabulate{loop=t}").code == "E-TABLE-SIZE"
    ends = parse_kernel(LONG.replace("t <= n", "t < r"))
    assert refused(applied(ends, TILED), "tabulate{loop=t}").code == "E-TABLE-LOOP"


def test_sites() -> None:
    found = tabulate.Tabulate().sites(applied(parse_kernel(TAPS), TILED))
    assert [str(s.step) for s in found] == ["tabulate{loop=j}", "tabulate{loop=i,j}"]
    assert tabulate.Tabulate().sites(parse_kernel(TAPS)) == []


def test_a_table_of_other_values_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabulate, "_fill", lambda t, threads, kept=tabulate._fill: _shifted(kept(t, threads)))
    before = parse_kernel(LONG)
    assert differs(before, applied(before, f"{TURNED} | tabulate{{loop=t}}"), SIZES) is not None


def _shifted(fill: object) -> object:
    import dataclasses

    from ktc.ir.fold import add, i32
    from ktc.ir.nodes import Par, Store, Var
    from ktc.ir.walk import substitute_expr

    assert isinstance(fill, Par)
    (store,) = fill.body
    assert isinstance(store, Store)
    value = substitute_expr(store.value, {fill.var: add(Var(fill.var), i32(1))})
    return dataclasses.replace(fill, body=(dataclasses.replace(store, value=value),))
