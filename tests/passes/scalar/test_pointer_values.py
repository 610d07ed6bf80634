"""specialize of pointers: null, or not, with a test at the launch; what is known of them is used and checked."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ktc
from ktc import emission
from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Const, Expr
from ktc.ir.null_pointers import known_nulls
from ktc.ir.text import parse_kernel, print_expr, print_kernel
from ktc.ir.types import F32
from ktc.ir.walk import keep, map_body
from ktc.passes.lowering import materialise
from ktc.passes.raising.check.invented_arguments import extreme_arguments
from tests.passes.checks import applied, body_of, refused

MEAN = """
__global__ void mean(float* out, float* sum, const float* in, const float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float base = b != nullptr ? b[i] : 1.0f;
    out[i] = in[i] * 0.5f + base;
    if (sum != nullptr) sum[i] = in[i];
  }
}
void go(float* o, float* s, const float* i, const float* b, int n) { mean<<<(n + 63) / 64, 64>>>(o, s, i, b, n); }
"""


def source() -> Kernel:
    return load(MEAN, name="mean.cu")


@pytest.mark.parametrize("order", ["raise | {}", "{} | raise"])
@pytest.mark.parametrize("value", ["null", "0", "nullptr"])
def test_a_null_pointer_is_no_longer_asked_about(order: str, value: str) -> None:
    k = applied(source(), order.format(f"specialize{{b={value} sum={value}}}"))
    assert [(print_expr(a.expr), a.origin) for a in k.assumptions][:2] == [
        ("is_null(&b[0]) -> bool", "guessed"), ("is_null(&sum[0]) -> bool", "guessed")
    ]  # fmt: skip
    text = body_of(k)
    assert "b[" not in text.replace("&b[", "") and "sum[" not in text.replace("&sum[", "") and "1.0" in text


def test_of_a_pointer_that_is_not_null_the_other_branch_goes() -> None:
    text = body_of(applied(source(), "raise | specialize{b=nonnull sum=nonnull}"))
    assert "1.0" not in text and "if " not in text and "sum[i] = in[i]" in text


def test_meaning_stays_where_the_answer_is_right() -> None:
    x = np.arange(1, 101, dtype=np.float32)
    for script, sum_, b in (("b=null", x, None), ("b=nonnull sum=null", None, 3 * x), ("sum=nonnull", 0 * x, None)):
        args: dict[str, Any] = {"out": 0 * x, "sum": sum_, "in": x, "b": b, "n": 100}
        want = run(source(), args).outputs
        k = applied(source(), f"raise | specialize{{{script}}}")
        for form in (k, materialise(k), parse_kernel(print_kernel(k))):
            got = run(form, args)
            assert got.ok and all((got.outputs[n] == v).all() for n, v in want.items())


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("specialize{b=7}", "E-SPECIALIZE-PARAM"),
        ("specialize{b=maybe}", "E-SPECIALIZE-PARAM"),
        ("specialize{in=null}", "E-SPECIALIZE-NULL"),
        ("specialize{b=null} | specialize{b=nonnull}", "E-SPECIALIZE-FACT"),
    ],
)
def test_refusals(script: str, code: str) -> None:
    assert refused(source(), script).code == code


def test_a_pointer_that_is_used_even_where_it_is_null_is_not() -> None:
    k = load(MEAN.replace("out[i] = in[i]", "out[i] = b[0] + in[i]"), name="mean.cu")
    found = refused(k, "specialize{b=null}")
    assert found.code == "E-SPECIALIZE-NULL" and "accesses 'b'" in found.why


@pytest.mark.parametrize(
    ("target", "kind", "test"),
    [
        ("cuda", "launcher", "b == nullptr && sum != nullptr"),
        ("hip", "launcher", "b == nullptr && sum != nullptr"),
        ("opencl", "launcher", "b == 0 && sum != 0"),
        ("cuda", "launcher-cupy", "if not ((b is None) and not (sum is None)):"),
        ("numba", "source", "raise ValueError('(b is None) does not hold')"),
    ],
)
def test_every_launcher_tests_it(target: str, kind: str, test: str) -> None:
    program = ktc.loads(MEAN, name="mean").apply("raise | specialize{b=null sum=nonnull}").ok
    text = emission.emit(program, target, kind, {}).text
    assert test in text
    assert kind == "source" or "mean_original" in text


def test_python_for_the_cpu_takes_none(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    x = np.arange(100, dtype=np.float32)
    for script in ("raise", "raise | specialize{b=null}"):
        text = emission.emit(ktc.loads(MEAN, name="mean").apply(script).ok, "numba", "source", {}).text
        path = tmp_path / f"mean_{len(script)}.py"
        path.write_text(text.replace("cache=True", "cache=False"))
        module: dict[str, Any] = {}
        exec(compile(path.read_text(), str(path), "exec"), module)
        for sum_ in (None, 0 * x):
            out = 0 * x
            module["mean"](out, sum_, x, None, 100)
            assert (out == x * 0.5 + 1).all() and (sum_ is None or (sum_ == x).all())
    with pytest.raises(ValueError, match="does not hold"):
        module["mean"](out, None, x, x, 100)


def test_the_check_of_raise_runs_null_pointers() -> None:
    names = {n for args in extreme_arguments(source(), 1) for n, v in args.items() if v is None}
    assert names == {"b", "sum"}


WORKLOAD = """
[kernel]
source = "k.cu"
name = "mean"
[[args]]
name = "out"
dtype = "f32"
shape = ["n"]
role = "out"
noalias = true
[[args]]
name = "sum"
dtype = "f32"
shape = ["n"]
role = "out"
noalias = true
null = "parts == 1"
[[args]]
name = "in"
dtype = "f32"
shape = ["n"]
role = "in"
[[args]]
name = "b"
dtype = "f32"
shape = ["n"]
role = "in"
null = NULL
[[args]]
name = "n"
dtype = "i32"
role = "scalar"
value = "n"
[[scenario]]
name = "whole"
sizes = { n = 300, parts = 2 }
[[scenario]]
name = "part"
sizes = { n = 300, parts = 1 }
"""


def program(tmp_path: Path, null: str) -> Any:
    (tmp_path / "k.cu").write_text(MEAN)
    (tmp_path / "workload.toml").write_text(WORKLOAD.replace("NULL", null))
    return ktc.load(str(tmp_path))


@pytest.mark.parametrize("script", ["raise", "raise | specialize{sum=null}", "raise | specialize{sum=nonnull}"])
def test_both_answers_are_verified_as_far_as_the_script_is_for_them(tmp_path: Path, script: str) -> None:
    found = program(tmp_path, "false")
    assert {s.name: null for s, null in known_nulls(found.kernel).items()} == {"b": False}
    verdict = found.apply(script).ok.verify()
    assert verdict.status in ("PROVED", "TESTED"), verdict


@pytest.mark.parametrize("wrong", ["1.0", "in[i]"])
def test_a_wrong_branch_for_null_is_rejected(tmp_path: Path, wrong: str) -> None:
    """The one that computes without ``b``, and the one that stores to ``sum`` though it is null."""
    good = program(tmp_path, '"parts == 1"').apply("raise").ok

    def on(e: Expr) -> Expr:
        return Const(2.0, F32) if e == Const(1.0, F32) and wrong == "1.0" else e

    body = map_body(good.kernel.body, keep, on)
    if wrong != "1.0":
        body = map_body(good.kernel.body, lambda s: s.then if hasattr(s, "then") else s)
    bad = dataclasses.replace(good, kernel=good.kernel.with_(body=body))
    assert good.verify().status in ("PROVED", "TESTED")
    assert bad.verify().status == "REJECTED"
