"""specialize: constants for runtime scalars, with a guard."""

from __future__ import annotations

import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.kernel import Assume, Kernel
from ktc.ir.nodes import Binary, Var, i32
from ktc.ir.text import parse_kernel, print_expr
from ktc.passes.raising.check.bound_sizes import at_its_sizes, of_free_sizes
from ktc.passes.scalar import specialize
from tests.passes.checks import applied, body_of, differs, refused

SCALE = parse_kernel("""\
kernel scale(out: f32* restrict, a: f32 const* restrict, d: i32 divisible_by 4, host n: i32)
  launch grid(n) block(min(d, 64))
  par row in 0..n @ [block.x]
    par i in 0..d @ [thread.x 8, seq]
      if d > 1000
        out[row * d + i] = 0.0
      else
        out[row * d + i] = a[row * d + i] * (d + 1)
""")


def test_before_and_after() -> None:
    k = applied(SCALE, "specialize{d=16}")
    assert k.params[2].range == (16, 16)
    assert (
        body_of(k)
        == """\
  launch grid(n) block(16)
  assume d == 16 origin guessed
  par row in 0..n @ [block.x]
    par i in 0..16 @ [thread.x 8, seq]
      out[row * 16 + i] = a[row * 16 + i] * 17
"""
    )


def test_meaning_stays_where_the_guard_holds() -> None:
    k = applied(SCALE, "specialize{d=16 n=3}")
    assert differs(SCALE, k, [{"n": 3, "d": 16}]) is None


def test_the_parameter_stays_in_the_signature() -> None:
    k = applied(SCALE, "specialize{d=16}")
    assert [p.sym.name for p in k.params] == ["out", "a", "d", "n"]


ROWS = """
__global__ void scale(float* y, const float* x, int rows, int width) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < rows) for (int c = 0; c < width; c++) y[r * width + c] = 2.0f * x[r * width + c];
}
void run(float* y, const float* x, int batch, int length, int width) {
  scale<<<(batch * length + 63) / 64, 64>>>(y, x, batch * length, width);
}
"""


def test_what_follows_from_the_values_is_bound_with_them() -> None:
    source = load(ROWS, name="k.cu")
    for script in ("specialize{batch=8 length=1024}", "raise | specialize{batch=8 length=1024}"):
        k = applied(source, script)
        assert k.param("rows").range == (8192, 8192)
        assert print_expr(k.assumptions[-1].expr) == "rows == 8192"
    found = refused(applied(source, "raise"), "specialize{rows=8000 batch=8 length=1024}")
    assert found.code == "E-SPECIALIZE-FACT" and "rows == batch * length" in found.why


@pytest.mark.parametrize("bound", ["batch=8 length=1024", "rows=8192 batch=8 length=1024 width=50000"])
def test_the_order_of_raising_and_binding_changes_no_loop(bound: str) -> None:
    source = load(ROWS, name="k.cu")
    first, last = (applied(source, s) for s in (f"specialize{{{bound}}} | raise", f"raise | specialize{{{bound}}}"))
    assert body_of(first).splitlines()[-3:] == body_of(last).splitlines()[-3:]
    assert "par r in 0..8192 @ [thread.x 64, block.x]" in body_of(first)


def test_a_form_that_holds_for_other_numbers_only_is_not_taken() -> None:
    bound = applied(load(ROWS, name="k.cu"), "specialize{rows=8192 batch=8 length=1024}")
    found = of_free_sizes(bound)
    assert found is not None
    form, numbers = found
    (size,) = (s for s, n in numbers.items() if n == i32(8192))
    for op, taken in (("<", False), (">", True)):
        raised = form.with_(assumptions=(Assume(Binary(op, Var(size), i32(100)), "guessed"),))
        there = at_its_sizes(raised, bound, numbers)
        assert (there is not None) == taken
        assert there is None or (there.assumptions, there.params) == (bound.assumptions, bound.params)


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("specialize", "E-SPECIALIZE-PARAM"),
        ("specialize{q=3}", "E-SPECIALIZE-PARAM"),
        ("specialize{a=3}", "E-SPECIALIZE-PARAM"),
        ("specialize{d=$D}", "E-SPECIALIZE-VALUE"),
        ("specialize{d=13}", "E-SPECIALIZE-FACT"),
        ("specialize{d=16} | specialize{d=8}", "E-SPECIALIZE-FACT"),
    ],
)
def test_refusals(script: str, code: str) -> None:
    assert refused(SCALE, script).code == code


def test_assumptions_and_assignments_refuse() -> None:
    k = parse_kernel("kernel k(out: f32*, d: i32)\n  assume d % 8 == 0\n  out[d] = 0.0\n")
    assert refused(k, "specialize{d=12}").code == "E-SPECIALIZE-FACT"
    changed = parse_kernel("kernel k(out: f32*, d: i32)\n  d = d + 1\n  out[d] = 0.0\n")
    assert refused(changed, "specialize{d=12}").code == "E-SPECIALIZE-ASSIGNED"


def test_a_wrong_version_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Binding to another value than the one that is guarded."""
    from ktc.ir.walk import substitute

    def off_by_one(body, env):
        import dataclasses

        return substitute(body, {s: dataclasses.replace(c, value=c.value + 4) for s, c in env.items()})

    monkeypatch.setattr(specialize, "substitute", off_by_one)
    wrong: Kernel = applied(SCALE, "specialize{d=16}")
    assert differs(SCALE, wrong, [{"n": 3, "d": 16}]) is not None
