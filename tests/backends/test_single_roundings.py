"""Numbers beside the middle of two narrow floats, which a float in between would be that middle."""

import ml_dtypes
import numpy as np
import pytest

from ktc.backends import emit
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel
from ktc.search.verification.rungs.parse_back import parse_back
from tests import devices

BITS = {"f16": 10, "bf16": 7, "e4m3": 3, "e5m2": 2}
STORED = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
READ = {"f64": np.float64, "i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64, "i16": np.int16}


def conversion(source: str, to: str) -> Kernel:
    return parse_kernel(f"""kernel k(out: {to}*, a: {source} const*, n: i32)
  launch grid(n) block(1)
  out[blockIdx.x] = {to}(a[blockIdx.x])
""")


def beside_middles(source: str, to: str) -> np.ndarray:
    """Of each of 64 numbers whose last bit of ``to`` may be 0 or 1: just above its middle with the next, and below."""
    kind, width = np.dtype(READ[source]).kind, np.dtype(READ[source]).itemsize * 8
    middles = 2 * (np.arange(64) % (1 << BITS[to]) + (1 << BITS[to])) + 1
    if kind == "f":
        either = [middles * 2.0 ** -BITS[to] * (1 + s * 2.0**-40) for s in (-1, 1)]
    else:
        either = [(middles.astype(np.int64) << (width - 3 - BITS[to])) + s for s in (-1, 1)]
    values = np.concatenate([*either, *(-v for v in either if kind != "u"), np.arange(1, 40)])
    return values.astype(READ[source])


WIDE = [("f64", t) for t in BITS] + [(s, "bf16") for s in ("i32", "u32", "i64", "u64")]


@pytest.mark.parametrize("device", ["numba", "opencl"])
@pytest.mark.parametrize(("source", "to"), WIDE)
def test_there_is_one_rounding(source: str, to: str, device: str) -> None:
    runtime, kernel, a = devices.working(device), conversion(source, to), beside_middles(source, to)
    args = {"out": np.zeros(a.size, STORED[to]), "a": a, "n": a.size}
    want = run(kernel, args).outputs["out"]
    on_device = {k: runtime.to_device(v) if isinstance(v, np.ndarray) else v for k, v in args.items()}
    runtime.compile(emit(kernel, device)).launch(on_device)
    assert np.array_equal(runtime.to_host(on_device["out"], want).view(want.dtype), want)
    twice = a.astype(np.float32).astype(STORED[to])
    assert not np.array_equal(twice, want)  # the inputs tell one rounding from two


@pytest.mark.parametrize(("source", "to"), [*WIDE[4:], ("i32", "f16"), ("u64", "f16"), ("i16", "f16"), ("i16", "bf16")])
def test_the_text_is_read_as_one_conversion(source: str, to: str) -> None:
    assert parse_back(conversion(source, to), "opencl").status == "pass"
    assert parse_back(conversion(source, to), "hip").status == ("skip" if to == "bf16" else "pass")


def test_halves_of_doubles_are_read_in_hip() -> None:
    assert parse_back(conversion("f64", "f16"), "hip").status == "pass"
