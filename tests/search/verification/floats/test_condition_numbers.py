"""Ill-conditioned elements: judged by how far the last digits of the inputs move them, at any size."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ktc.backends import emit
from ktc.backends.base import CompileFailure
from ktc.backends.runtimes import open_runtime
from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel, bind
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.verifier import verify
from ktc.ir.workload import Workload
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.lowering import materialise
from ktc.search.verification import differential
from ktc.search.verification.floats.agreement import disagreement
from ktc.search.verification.floats.condition_numbers import Conditions, widened
from ktc.search.verification.floats.large import too_far

SOURCE = """
__global__ void shares(const float* __restrict__ x, float* __restrict__ y, int rows, int d) {
  int row = blockIdx.x;
  __shared__ float part[128];
  float sum = 0.0f;
  for (int i = threadIdx.x; i < d; i += 128) sum += x[row * d + i];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int s = 64; s > 0; s /= 2) {
    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
    __syncthreads();
  }
  for (int i = threadIdx.x; i < d; i += 128) y[row * d + i] = x[row * d + i] / part[0];
}
void launch(const float* x, float* y, int rows, int d) { shares<<<rows, 128>>>(x, y, rows, d); }
"""
WORKLOAD = """
[kernel]
source = "kernel.cu"
name = "shares"

[[args]]
name = "x"
dtype = "f32"
shape = ["rows", "d"]
role = "in"
init = "normal"

[[args]]
name = "y"
dtype = "f32"
shape = ["rows", "d"]
role = "out"

[[args]]
name = "rows"
dtype = "i32"
role = "scalar"
value = "rows"

[[args]]
name = "d"
dtype = "i32"
role = "scalar"
value = "d"

[[scenario]]
name = "only"
sizes = { rows = 64, d = 2048 }
"""
SIZES = {"rows": 64, "d": 2048}


class Cancelling(Workload):
    """Row 3 adds up to a ten-thousandth of what its terms are."""

    def make_inputs(self, sizes: Mapping[str, int], *args: Any, **kwargs: Any) -> dict[str, Any]:
        inputs = super().make_inputs(sizes, *args, **kwargs)
        x = inputs["x"]
        x += np.float32(2)
        x[3] -= np.float32(2)
        x[3, -1] = np.float32(1e-4) - np.float32(x[3, :-1].astype(np.float64).sum())
        return inputs


@pytest.fixture
def work(tmp_path: Path) -> Workload:
    (tmp_path / "kernel.cu").write_text(SOURCE)
    (tmp_path / "workload.toml").write_text(WORKLOAD)
    return Cancelling(**vars(Workload.load(tmp_path)))


def scripted(work: Workload, script: str) -> Kernel:
    applied = apply_script(work.load_kernel(), parse_script(script))
    assert applied.refused is None, applied.refused
    return materialise(bind(applied.kernel, {}))


def made(e: str) -> Kernel:
    return parse_kernel(f"""
kernel k(z: f32* restrict, x: f16 const* restrict, a: f32, n: i32)
  launch grid(cdiv(n, 64)) block(64)
  let i: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32
  if i < n
    z[i] = {e}
""")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("f32(x[i]) / 3.0", lambda x: x / 3),
        ("f32(f16(exp(f32(x[i]) * a)))", lambda x: np.exp(x * 0.7)),
        ("max(f32(x[i]), a) - f32(i)", lambda x: np.maximum(x, 0.7) - np.arange(3)),
        ("f32(x[i]) > a ? 1.0 : f32(i32(f32(x[i])))", lambda x: np.where(x > 0.7, 1.0, np.trunc(x))),
    ],
)
def test_the_same_program_in_doubles(expression: str, expected: Any) -> None:
    x = np.array([3.0, -2.5, 0.5])
    kernel = widened(made(expression))
    assert verify(kernel) == []
    got = run(kernel, {"z": np.zeros(3), "x": x, "a": 0.7, "n": 3}).outputs["z"]
    np.testing.assert_allclose(got, expected(x), rtol=1e-14)


def test_what_looks_at_bits_is_refused() -> None:
    with pytest.raises(KtcError, match="E-WIDE"):
        widened(made("f32(x[i]) + (a as.bit i32) as f32"))


def test_the_condition_of_a_share(work: Workload) -> None:
    """y = x / S moves by sqrt(x^2 + (x / S)^2 sum x^2) / |S| with independent relative changes of the x."""
    inputs = work.make_inputs(SIZES, None, 1)
    runtime = open_runtime("numba")
    known = Conditions(runtime, emit(work.load_kernel(), "numba"), inputs, ["y"]).of("y")
    assert known is not None
    exact, moved = known
    x = inputs["x"].astype(np.float64)
    total, squares = x.sum(1, keepdims=True), np.square(x).sum(1, keepdims=True)
    np.testing.assert_allclose(exact, x / total, rtol=1e-9)
    expected = np.abs(x / total) * np.sqrt(1 + squares / total**2)
    ratio = np.median(moved / expected, axis=1)
    assert ratio.min() > 0.2 and ratio.max() < 3, (ratio.min(), ratio.max())
    assert np.median(moved[3] / np.abs(exact[3])) > 1000 > 10 > np.median(moved[4] / np.abs(exact[4]))


def test_a_row_that_cancels_is_judged_by_its_condition(work: Workload) -> None:
    runtime = open_runtime("numba")
    original = work.load_kernel()
    candidate = scripted(work, "raise | distribute{loop=i.* map=[vec 4, thread.x 32, seq]}")
    codes = [emit(k, "numba") for k in (original, candidate)]
    assert differential(runtime, *codes, work, sizes=[SIZES]).status == "TESTED"
    inputs = work.make_inputs(SIZES, None, 0)
    results = []
    for code in codes:
        args = {n: runtime.to_device(v) if isinstance(v, np.ndarray) else v for n, v in inputs.items()}
        runtime.compile(code).launch(args)
        results.append(runtime.to_host(args["y"], inputs["y"]))
    assert disagreement("y", *results).startswith("y[3, "), "nothing else tells this row from a wrong one"
    assert too_far(results[1], results[0]) is not None
    known = Conditions(runtime, codes[0], inputs, ["y"])
    assert not known.rejects("y", results[1])
    wrong = results[1].copy()
    wrong[4] *= np.float32(1.0001)
    assert known.rejects("y", wrong)


def test_few_samples_reject_none_of_many_elements() -> None:
    """Of a million elements some have four signs that nearly cancel; each is off by ten times what its terms' roundings
    are, and 64 are allowed."""
    kernel = parse_kernel("""
kernel k(z: f32* restrict, x: f32 const* restrict, n: i32)
  launch grid(cdiv(n, 256)) block(256)
  let i: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32
  if i < n
    z[i] = (x[i] + x[i + n]) - (x[i + 2 * n] + x[i + 3 * n])
""")
    n = 1 << 20
    inputs = {"x": np.ones(4 * n, np.float32), "z": np.zeros(n, np.float32), "n": n}
    known = Conditions(open_runtime("numba"), emit(kernel, "numba"), inputs, ["z"])
    first = known.of("z")
    assert first is not None and (first[1] == 0).any(), "no sum whose samples all cancel"
    assert not known.rejects("z", np.full(n, 20 * 2.0**-24, np.float32))
    assert known.rejects("z", np.full(n, 200 * 2.0**-24, np.float32))


def test_a_term_too_few_is_still_seen(work: Workload) -> None:
    runtime = open_runtime("numba")
    original = work.load_kernel()
    text = print_kernel(scripted(work, "raise | distribute{loop=i.* map=[vec 4, thread.x 32, seq]}"))
    assert text.count("..d step 128") == 2
    short = parse_kernel(text.replace("..d step 128", "..d - 4 step 128", 1))
    verdict = differential(runtime, emit(original, "numba"), emit(short, "numba"), work, sizes=[SIZES])
    assert verdict.status == "REJECTED"


def test_none_where_the_compiler_refuses(work: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = open_runtime("numba")

    def refuse(code: Any) -> Any:
        raise CompileFailure("too many registers")

    monkeypatch.setattr(runtime, "compile", refuse)
    inputs = work.make_inputs(SIZES, None, 1)
    assert Conditions(runtime, emit(work.load_kernel(), "numba"), inputs, ["y"]).of("y") is None
