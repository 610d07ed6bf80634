"""Atomics that compare floats, or their bits: every language does what the interpreter does, NaN and zeros included."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.backends import check_compile, emit
from ktc.ir.atomic_ops import BIT_ORDERS, TAKEN
from ktc.ir.frontend import load
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Atomic
from ktc.ir.text import parse_kernel
from ktc.ir.verifier import verify
from ktc.ir.walk import walk
from tests import devices

VALUES = [0.0, -0.0, 1.0, -1.0, 1.5, -2.25, np.inf, -np.inf, np.nan, 3e-5, -3e-5, 1024.0]
OPS = ("add", "sub", "mul", "min", "max", "exch", *TAKEN, *BIT_ORDERS)
DTYPES = {"f32": np.float32, "f64": np.float64}


def updates(t: str, ops=OPS, scope: str = "device") -> Kernel:
    """Each operation on elements of its own: ``o[op * n + i]`` by ``a[i]``."""
    lines = "\n".join(f"    atomic {op} o[{k} * n + i], a[i] scope {scope}" for k, op in enumerate(ops))
    kernel = parse_kernel(
        f"kernel k(o: {t}*, a: {t} const*, n: i32)\n  launch grid(1) block(256)\n"
        f"  let i: i32 = i32(threadIdx.x)\n  if i < n\n{lines}\n"
    )
    assert verify(kernel) == []
    return kernel


def arguments(t: str) -> dict:
    old, new = np.meshgrid(np.array(VALUES, DTYPES[t]), np.array(VALUES, DTYPES[t]))
    return {"o": np.tile(old.ravel(), len(OPS)), "a": new.ravel(), "n": new.size}


def differing(got: np.ndarray, want: np.ndarray) -> list[str]:
    """The operations whose results differ in anything but the bits of NaN, and what C leaves open: ``fmax``'s zeros."""
    signs = (np.signbit(got) == np.signbit(want)).reshape(len(OPS), -1)
    signs[[OPS.index("min"), OPS.index("max")]] = True
    same = ((got == want).reshape(signs.shape) & signs) | (np.isnan(got) & np.isnan(want)).reshape(signs.shape)
    return [op for op, row in zip(OPS, same) if not row.all()]


def test_the_nan_rules() -> None:
    """What an element of 1 becomes by NaN, and what one of NaN becomes by 1."""
    args = {"o": np.array([[1, np.nan]] * len(OPS), np.float32).ravel(), "a": np.array([np.nan, 1], np.float32), "n": 2}
    got = run(updates("f32"), args).outputs["o"].reshape(len(OPS), 2)
    names = {op: tuple("NaN" if np.isnan(x) else "1" for x in row) for op, row in zip(OPS, got)}
    for op in ("gt", "ge", "lt", "le"):
        assert names[op] == ("1", "NaN")
        assert names[op + "u"] == ("NaN", "1")
        assert names[op + "s"] == ("NaN", "NaN")
        assert names[op + "n"] == ("1", "1")
    assert names["max"] == names["min"] == ("1", "1")
    assert names["smax"] == ("NaN", "NaN")
    assert names["umin"] == ("1", "1")


@pytest.mark.parametrize("device", ["numba", "opencl"])
@pytest.mark.parametrize("t", DTYPES)
def test_a_device_does_what_the_interpreter_does(device: str, t: str) -> None:
    runtime, kernel, args = devices.working(device), updates(t), arguments(t)
    want = run(kernel, args).outputs["o"]
    given = {k: runtime.to_device(v) if isinstance(v, np.ndarray) else v for k, v in args.items()}
    runtime.compile(emit(kernel, runtime.device.profile)).launch(given)
    runtime.synchronize()
    assert differing(runtime.to_host(given["o"], args["o"]), want) == []


@pytest.mark.parametrize("scope", ["device", "block", "system"])
@pytest.mark.parametrize("language", ["cuda", "hip"])
@pytest.mark.parametrize("t", DTYPES)
def test_the_text_is_read_back(language: str, t: str, scope: str) -> None:
    ops = [op for op in OPS if op != "sub"]  # read as the sum with the negative
    text = emit(updates(t, ops, scope), language).text
    found = [s for s in walk(load(text, name=f"k.{language}", dialect=language).body) if isinstance(s, Atomic)]
    assert [s.op for s in found] == ops
    assert {s.scope for s in found} == {"device" if (language, scope) == ("hip", "block") else scope}


@pytest.mark.usefixtures("nvcc")
@pytest.mark.parametrize("t", [*DTYPES, "f16", "bf16"])
def test_nvcc_accepts_the_loops(t: str) -> None:
    ops = [op for op in OPS if op not in BIT_ORDERS or t in DTYPES]
    check_compile(emit(updates(t, ops), "cuda"))


def test_bits_of_integers_compare_by_the_sign_that_the_source_gives_them() -> None:
    text = """__global__ void k(unsigned* o, const int* a) { atomicMax((int*)&o[threadIdx.x], a[threadIdx.x]); }
    void go(unsigned* o, const int* a) { k<<<1, 4>>>(o, a); }"""
    kernel = load(text, name="k.cu")
    assert [s.op for s in walk(kernel.body) if isinstance(s, Atomic)] == ["smax"]
    old, new = np.array([5, 2**32 - 1, 3, 2**32 - 7], np.uint32), np.array([-1, 0, 4, -9], np.int32)
    want = [5, 0, 4, 2**32 - 7]
    assert run(kernel, {"o": old, "a": new}).outputs["o"].tolist() == want
    for language in ("cuda", "hip", "opencl"):
        again = load(emit(kernel, language).text, name=f"k.{language}", dialect=language)
        assert [s.op for s in walk(again.body) if isinstance(s, Atomic)] == ["smax"]
    runtime = devices.working("numba")
    given = {"o": old.copy(), "a": new}
    runtime.compile(emit(kernel, "numba")).launch(given)
    assert given["o"].tolist() == want
