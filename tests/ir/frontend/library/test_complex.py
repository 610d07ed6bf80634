"""Complex numbers of CUDA's C headers and of thrust; structures of the runtime API as parameters."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend import load
from ktc.ir.interp import run

A, B, C = 1.5 - 2j, -0.25 + 4j, 3 + 0.5j


def values(body: str, kind: str, dtype=np.float32) -> np.ndarray:
    """Complex ``x`` after ``body`` ran on x[0], x[1], x[2] = A, B, C."""
    text = f"#include <cuComplex.h>\n#include <thrust/complex.h>\n__global__ void k({kind}* x) {{ {body} }}\n"
    start = np.array([A, B, C, 0, 0], np.complex128)
    flat = start.view(np.float64).astype(dtype)
    result = run(load(text + f"void host({kind}* x) {{ k<<<1, 1>>>(x); }}\n", name="k.cu"), {"x": flat})
    assert result.findings == []
    return result.outputs["x"].reshape(-1).astype(np.float64).view(np.complex128)


@pytest.mark.parametrize(
    "expression, want",
    [
        ("cuCaddf(x[0], x[1])", A + B), ("cuCsubf(x[0], x[1])", A - B), ("cuCmulf(x[0], x[1])", A * B),
        ("cuCdivf(x[0], x[1])", A / B), ("cuConjf(x[0])", A.conjugate()), ("cuCfmaf(x[0], x[1], x[2])", A * B + C),
        ("make_cuFloatComplex(cuCabsf(x[0]), cuCimagf(x[1]))", abs(A) + 4j),
        ("make_cuComplex(7.f, cuCrealf(x[2]))", 7 + 3j),
    ],
)  # fmt: skip
def test_single_precision(expression: str, want: complex) -> None:
    assert values(f"cuFloatComplex r = {expression}; x[3] = r;", "cufftComplex")[3] == pytest.approx(want, rel=1e-6)


def test_double_precision() -> None:
    out = values(
        "x[3] = cuCdiv(cuCmul(x[0], x[1]), x[2]); x[4] = make_cuDoubleComplex(cuCabs(x[1]), 0);",
        "cuDoubleComplex",
        np.float64,
    )
    assert out[3] == pytest.approx(A * B / C, rel=1e-14) and out[4] == pytest.approx(abs(B), rel=1e-14)


def test_thrust_complex() -> None:
    out = values(
        "thrust::complex<float> r = x[0] * x[1] + 2.0f * conj(x[2]); r -= x[1] / x[2]; x[3] = r; "
        "x[4] = thrust::exp(x[0]) + thrust::complex<float>(thrust::abs(x[1]), norm(x[2]));",
        "thrust::complex<float>",
    )
    assert out[3] == pytest.approx(A * B + 2 * C.conjugate() - B / C, rel=1e-5)
    assert out[4] == pytest.approx(np.exp(A) + abs(B) + 1j * abs(C) ** 2, rel=1e-5)


def test_an_extent_is_a_parameter_like_any_structure() -> None:
    text = (
        "__global__ void k(int* out, cudaExtent size) { out[threadIdx.x] = size.width * size.depth + threadIdx.x; }\n"
    )
    kernel = load(text + "void host(int* out, cudaExtent e) { k<<<1, 4>>>(out, e); }\n", name="k.cu")
    names = [p.sym.name for p in kernel.params]
    given = {n: 5 if "width" in n else 7 for n in names if n != "out"}
    assert len(given) >= 2
    assert list(run(kernel, {"out": np.zeros(4, np.int32), **given}).outputs["out"]) == [35, 36, 37, 38]


def test_pytorch_s_complex() -> None:
    out = values(
        "c10::complex<float> r = x[0] * x[1] + 2.0f * x[2]; r -= x[1] / x[2]; r *= -x[0]; x[3] = r; "
        "x[4] = x[0] == x[0] ? (x[2].imag() / x[0]).real() / x[1] : r;",
        "c10::complex<float>",
    )
    assert out[3] == pytest.approx((A * B + 2 * C - B / C) * -A, rel=1e-5)
    assert out[4] == pytest.approx((C.imag / A).real / B, rel=1e-5)
