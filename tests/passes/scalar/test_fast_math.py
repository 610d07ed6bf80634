"""fast-math: listed f32 functions only, and the flag that says so."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.text import parse_kernel
from ktc.passes.scalar import fast_math
from tests.passes.checks import applied, body_of, refused

SILU = parse_kernel("""\
kernel silu(out: f32* restrict, in: f32 const* restrict, n: i32)
  par i in 0..n @ [thread.x 32, block.x]
    let x: f32 = in[i]
    let wide: f64 = exp(f64(x)) / 2.0_f64
    out[i] = x / (1.0 + exp(-x)) + f32(wide) * (i / 2)
""")


def test_before_and_after() -> None:
    k = applied(SILU, "fast-math{fns=exp,div}")
    assert k.flags == {"fast_math"}
    assert (
        body_of(k)
        == """\
  flags fast_math
  par i in 0..n @ [thread.x 32, block.x]
    let x: f32 = in[i]
    let wide: f64 = exp(f64(x)) / 2.0_f64
    out[i] = fast_div(x, 1.0 + fast_exp(-x)) + f32(wide) * (i / 2)
"""
    )


def test_only_listed_functions_change() -> None:
    text = body_of(applied(SILU, "fast-math{fns=exp}"))
    assert "fast_exp(-x)" in text and "fast_div" not in text


def test_error_is_small() -> None:
    x = np.linspace(-4, 4, 65).astype(np.float32)
    outs = [
        run(k, {"out": np.zeros(65, np.float32), "in": x, "n": 65}).outputs["out"]
        for k in (SILU, applied(SILU, "fast-math"))
    ]
    assert np.allclose(*outs, rtol=1e-4)


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("fast-math{fns=expp}", "E-FAST-FUNCTION"),
        ("fast-math{fns=3}", "E-FAST-FUNCTION"),
        ("fast-math{fns=sin,cos}", "E-FAST-NONE"),
    ],
)
def test_refusals(script: str, code: str) -> None:
    got = refused(SILU, script)
    assert got.code == code and "exp, " in got.hint


def test_a_wrong_version_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mapping exp to the base-2 function."""
    monkeypatch.setitem(fast_math.FAST, "exp", "fast_exp2")
    x = np.linspace(-4, 4, 65).astype(np.float32)
    outs = [
        run(k, {"out": np.zeros(65, np.float32), "in": x, "n": 65}).outputs["out"]
        for k in (SILU, applied(SILU, "fast-math{fns=exp}"))
    ]
    assert not np.allclose(*outs, rtol=1e-2)
