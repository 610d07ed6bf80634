"""8-bit floats: every code and every rounding boundary, in the interpreter, on OpenCL and by CUDA's functions."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from ktc.backends import emit
from ktc.ir.frontend import load
from ktc.ir.interp import run
from ktc.ir.interp.domains.rounding import round_to
from ktc.ir.types import BF16, E4M3, E5M2
from tests import devices

KINDS = {"e4m3": (E4M3, ml_dtypes.float8_e4m3fn, 448.0, 464.0), "e5m2": (E5M2, ml_dtypes.float8_e5m2, 57344.0, 61440.0)}


def finite_codes(kind: str) -> np.ndarray:
    """Values of the codes from 0 up to the largest finite number, in order."""
    last = {"e4m3": 0x7E, "e5m2": 0x7B}[kind]
    return np.arange(last + 1, dtype=np.uint8).view(KINDS[kind][1]).astype(np.float64)


def samples(kind: str) -> np.ndarray:
    """Every number, every midpoint between neighbours and the floats beside it, overflow, infinity, of both signs."""
    values = finite_codes(kind)
    middles = np.append((values[1:] + values[:-1]) / 2, KINDS[kind][3]).astype(np.float32)
    up, down = np.nextafter(middles, np.float32(np.inf)), np.nextafter(middles, np.float32(0))
    x = np.concatenate([values.astype(np.float32), middles, up, down, np.float32([1e9, np.inf, 1e-30])])
    return np.concatenate([x, -x]).astype(np.float32)


def nearest(kind: str, x: np.ndarray) -> np.ndarray:
    """Codes by exhaustive search in double: the nearest number, of two the even code, saturating."""
    values = finite_codes(kind)
    codes = []
    for v in x.astype(np.float64):
        distance = np.abs(values - min(abs(v), KINDS[kind][2]))
        best = np.flatnonzero(distance == distance.min())
        code = best[0] if len(best) == 1 or best[0] % 2 == 0 else best[1]
        codes.append(int(code) | (0x80 if np.signbit(v) else 0))
    return np.array(codes, np.uint8)


def program(kind: str) -> str:
    name = f"__nv_fp8_{kind}"
    return (f"__global__ void k({name}* y, float* back, unsigned char* bits, const float* x) {{\n"
            "  const int i = blockIdx.x * 64 + threadIdx.x;\n"
            f"  y[i] = {name}(x[i]);\n  back[i] = float(y[i]);\n"
            f"  {name} t;\n  t.__x = y[i].__x;\n  bits[i] = t.__x;\n}}\n"
            f"void host({name}* y, float* back, unsigned char* bits, const float* x, int n)"
            " { k<<<n / 64, 64>>>(y, back, bits, x); }\n")  # fmt: skip


def arguments(kind: str) -> dict:
    x = samples(kind)
    x = np.resize(x, -(-len(x) // 64) * 64)
    x[0] = np.nan
    n = len(x)
    y = np.zeros(n, KINDS[kind][1])
    return {"x": x, "y": y, "back": np.zeros(n, np.float32), "bits": np.zeros(n, np.uint8), "n": n}


@pytest.mark.parametrize("kind", KINDS)
def test_the_interpreter_rounds_to_the_nearest(kind: str) -> None:
    args = arguments(kind)
    got = run(load(program(kind), name="k.cu"), args).outputs
    want = np.append(np.uint8(0x7F), nearest(kind, args["x"][1:]))
    assert (got["bits"] == want).all() and (got["y"].view(np.uint8) == want).all()
    assert np.isnan(got["back"][0])
    assert (got["back"][1:] == want[1:].view(KINDS[kind][1]).astype(np.float32)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_opencl_gives_the_same_bits(kind: str) -> None:
    cl, context, queue = devices.opencl()
    args = arguments(kind)
    kernel = load(program(kind), name="k.cu")
    built = cl.Program(context, emit(kernel, "opencl").text).build()
    raw = [args["y"].view(np.uint8), args["back"], args["bits"], args["x"]]
    buffers = [cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=a) for a in raw]
    built.k(queue, (len(args["x"]),), (64,), *buffers)
    want = run(kernel, args).outputs
    for name, buffer in zip(("y", "back", "bits"), buffers):
        out = np.empty_like(args[name].view(np.uint8) if name == "y" else args[name])
        cl.enqueue_copy(queue, out, buffer)
        assert np.array_equal(out, want[name].view(out.dtype), equal_nan=name == "back"), name


@pytest.mark.parametrize("kind", KINDS)
def test_doubles_are_rounded_once(kind: str) -> None:
    t = KINDS[kind][0]
    middle = (finite_codes(kind)[9] + finite_codes(kind)[8]) / 2  # halfway, and an odd code above
    x = np.array([middle, np.nextafter(middle, 1e9), 1e-60, -1e-300, 1e300])
    assert round_to(x, t).view(np.uint8).tolist() == [8, 9, 0, 0x80, {"e4m3": 0x7E, "e5m2": 0x7B}[kind]]


def test_a_tiny_double_is_a_bfloat16_zero() -> None:
    assert round_to(np.array([1e-60, -1e-60]), BF16).view(np.uint16).tolist() == [0, 0x8000]


LIBRARY = """\
__global__ void k(unsigned char* y, unsigned short* pairs, unsigned int* quads, __half* halves,
                  float* sums, const float* x) {
  const int i = threadIdx.x;
  y[i] = __nv_cvt_float_to_fp8(x[i], __NV_NOSAT, KIND);
  pairs[i] = __nv_cvt_float2_to_fp8x2(make_float2(x[i], -x[i]), __NV_SATFINITE, KIND);
  TYPE4 q(make_float4(x[i], 1.0f, -2.0f, x[63 - i]));
  quads[i] = q.__x;
  __half_raw h = __nv_cvt_fp8_to_halfraw((unsigned char)(q.__x >> 16), KIND);
  halves[i] = h;
  TYPE2 p;
  p.__x = pairs[i];
  const float2 f = float2(p);
  const __half2 g = static_cast<__half2>(p);
  sums[i] = f.x + 2.0f * f.y + __low2float(g);
}
void host(unsigned char* y, unsigned short* p, unsigned int* q, __half* h, float* s, const float* x) {
  k<<<1, 64>>>(y, p, q, h, s, x);
}
"""


@pytest.mark.parametrize("kind", KINDS)
def test_functions_and_classes_of_the_header(kind: str) -> None:
    text = LIBRARY.replace("KIND", f"__NV_{kind.upper()}")
    text = text.replace("TYPE2", f"__nv_fp8x2_{kind}").replace("TYPE4", f"__nv_fp8x4_{kind}")
    kernel = load(text, name="k.cu")
    top = KINDS[kind][3]
    x = np.resize(np.float32([0.1, 1.75, -3.3, top, np.nextafter(np.float32(top), np.float32(1e9)), -1e6, 1e-3]), 64)
    args = {"x": x, "y": np.zeros(64, np.uint8), "pairs": np.zeros(64, np.uint16), "quads": np.zeros(64, np.uint32),
            "halves": np.zeros(64, np.float16), "sums": np.zeros(64, np.float32)}  # fmt: skip
    got = run(kernel, args).outputs
    near, negative, one, two = (nearest(kind, v).astype(np.uint32) for v in (x, -x, np.float32([1]), np.float32([-2])))
    beyond = np.abs(x) > top if kind == "e4m3" else np.abs(x) >= top
    lost = np.where(x < 0, 0x80, 0) | (0x7F if kind == "e4m3" else 0x7C)
    assert (got["y"] == np.where(beyond, lost, near)).all()
    assert (got["pairs"] == (near | negative << 8)).all()
    assert (got["quads"] == (near | one[0] << 8 | two[0] << 16 | near[::-1] << 24)).all()
    assert (got["halves"] == -2).all()
    assert (got["sums"] == 0).all()  # x + 2 * -x + x
    for language in ("cuda", "hip", "opencl"):
        assert emit(kernel, language).text
