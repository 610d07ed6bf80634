"""Compare-and-swap loops are read as the updates that they are, with the NaN rule of their spelling."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.backends import emit
from ktc.ir.frontend import load
from ktc.ir.frontend.lowering import lower_kernel
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Atomic
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.text.naming import canonical
from ktc.ir.types import scalar_of
from ktc.ir.verifier import verify
from ktc.ir.walk import walk
from tests.ir.frontend.lowering.retry_samples import BITS, INTEGERS, NEAR_MISSES, SPELLINGS, on_floats, text_of, usual

DTYPES = {"float": np.float32, "double": np.float64, "__half": np.float16}
VALUES = [0.0, -0.0, 1.0, -1.0, 1.5, -2.25, np.inf, -np.inf, np.nan, 3e-5, -3e-5, 1024.0]


def read(text: str) -> Kernel:
    kernel = load(text, name="k.cu", kernel="k")
    assert verify(kernel) == []
    return kernel


def atomics(kernel: Kernel) -> list[tuple[str, str]]:
    return [(s.op, scalar_of(s.buffer.type).name) for s in walk(kernel.body) if isinstance(s, Atomic)]


def pairs(dtype) -> tuple[np.ndarray, np.ndarray]:
    """Every value against every other one."""
    old, new = np.meshgrid(np.array(VALUES, dtype), np.array(VALUES, dtype))
    return old.ravel(), new.ravel()


def after(kernel: Kernel, dtype, size: int = 1) -> np.ndarray:
    old, new = pairs(dtype)
    out = np.concatenate([old, np.zeros(len(old) * (size - 1), dtype)])
    return run(kernel, {"a": new, "o": out, "n": len(new)}).outputs["o"]


def same(x: np.ndarray, y: np.ndarray) -> bool:
    """Equal bits, but for those of NaN."""
    return bool((((x == y) & (np.signbit(x) == np.signbit(y))) | (np.isnan(x) & np.isnan(y))).all())


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_spelling_is_the_update(name: str) -> None:
    t, op, helper = SPELLINGS[name]
    kernel = read(text_of(t, helper))
    elem = {"float": "f32", "double": "f64", "__half": "f16", "__nv_bfloat16": "bf16"}[t]
    assert atomics(kernel) == [(op, elem)]
    assert "while" not in print_kernel(kernel)
    assert canonical(parse_kernel(print_kernel(kernel))) == canonical(kernel)


@pytest.mark.parametrize("name", [n for n in SPELLINGS if SPELLINGS[n][0] in DTYPES])
def test_the_update_leaves_what_the_loop_leaves(name: str, monkeypatch) -> None:
    """On all pairs of special values, NaN and zeros of both signs among them."""
    t, _, helper = SPELLINGS[name]
    update = read(text_of(t, helper))
    monkeypatch.setattr(lower_kernel, "with_updates", lambda body: body)
    loop = read(text_of(t, helper))
    assert [op for op, _ in atomics(loop)] == ["cas"]
    assert same(after(update, DTYPES[t]), after(loop, DTYPES[t]))


@pytest.mark.parametrize("name", INTEGERS)
def test_integers(name: str) -> None:
    t, op, body = INTEGERS[name]
    kernel = read(text_of(t, f"__device__ void f({t}* p, {t} v) {{ {body} }}"))
    assert [found for found, _ in atomics(kernel)] == [op]


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_a_near_miss_stays_a_loop(name: str) -> None:
    assert [op for op, _ in atomics(read(text_of("float", NEAR_MISSES[name])))] == ["cas"]


def test_a_guard_around_a_blind_exchange_is_no_maximum() -> None:
    """Between the look and the exchange somebody may have put a larger value there."""
    helper = on_floats("""
  if (*p >= v) return;
  int old = *(int*)p, s;
  do { s = old; old = atomicCAS((int*)p, s, __float_as_int(v)); } while (s != old);""")
    kernel = read(text_of("float", helper))
    assert atomics(kernel) == [("exch", "f32")]
    assert "if o[i] >= v" in print_kernel(kernel) or "if !(o[i] >= v)" in print_kernel(kernel)


def test_the_old_value_is_used_afterwards(monkeypatch) -> None:
    text = text_of("float", usual("float", "fmaxf(v, x)"), "o[n + i] = f(&o[i], a[i])")
    kernel = read(text)
    assert atomics(kernel) == [("max", "f32")]
    monkeypatch.setattr(lower_kernel, "with_updates", lambda body: body)
    assert same(after(kernel, np.float32, 2), after(read(text), np.float32, 2))


def test_whether_it_was_replaced_is_used_afterwards(monkeypatch) -> None:
    helper = on_floats(
        """
  int old = *(int*)p;
  while (v > __int_as_float(old)) {
    int found = atomicCAS((int*)p, old, __float_as_int(v));
    if (found == old) return true;
    old = found;
  }
  return false;""",
        "bool",
    )
    text = text_of("float", helper, "if (f(&o[i], a[i])) o[n + i] = 1.0f")
    kernel = read(text)
    assert atomics(kernel) == [("gt", "f32")]
    monkeypatch.setattr(lower_kernel, "with_updates", lambda body: body)
    assert same(after(kernel, np.float32, 2), after(read(text), np.float32, 2))


def test_shared_memory() -> None:
    call = "__shared__ float m[32]; m[threadIdx.x & 31] = 0; f(&m[i & 3], a[i]); o[i] = m[i & 31]"
    assert atomics(read(text_of("float", usual("float", "fmaxf(v, x)"), call))) == [("max", "f32")]


TRICKS = {
    ">=": "if (v >= 0) {most} else {least}",
    "sign": "if (!signbit(v)) {most} else {least}",
    "<": "if (v < 0) {least} else {most}",
}


@pytest.mark.parametrize("t", ["float", "double"])
@pytest.mark.parametrize("name", TRICKS)
def test_integer_maxima_of_the_bits_leave_the_buffer_one_of_floats(t: str, name: str) -> None:
    """Of numbers they are a maximum; NaN goes by its bits, as the source says."""
    signed, unsigned = {"float": ("int", "unsigned"), "double": ("long long", "unsigned long long")}[t]
    bits = BITS[t][1]
    most, least = f"atomicMax(({signed}*)p, {bits}(v));", f"atomicMin(({unsigned}*)p, ({unsigned}){bits}(v));"
    helper = f"__device__ void f({t}* p, {t} v) {{ {TRICKS[name].format(most=most, least=least)} }}"
    kernel = read(text_of(t, helper))
    elem = {"float": "f32", "double": "f64"}[t]
    assert sorted(atomics(kernel)) == [("smax", elem), ("umin", elem)]
    old, new = pairs(DTYPES[t])
    numbers = ~(np.isnan(old) | np.isnan(new)) & (new != 0)
    assert (after(kernel, DTYPES[t])[numbers] == np.maximum(old, new)[numbers]).all()


def test_a_condition_that_loses_zeros_is_kept() -> None:
    """``v > 0``: a zero goes to the unsigned minimum, which takes it for less than any other value."""
    helper = on_floats(
        "if (v > 0) atomicMax((int*)p, __float_as_int(v)); else atomicMin((unsigned*)p, __float_as_uint(v));"
    )
    kernel = read(text_of("float", helper))
    got = run(kernel, {"a": np.zeros(1, np.float32), "o": np.ones(1, np.float32), "n": 1}).outputs["o"]
    assert got[0] == 0.0


@pytest.mark.parametrize("language", ["cuda", "hip", "opencl"])
@pytest.mark.parametrize("name", SPELLINGS)
def test_the_printed_text_is_read_back_as_the_update(name: str, language: str) -> None:
    t, _, helper = SPELLINGS[name]
    if language != "cuda" and t in ("__half", "__nv_bfloat16"):
        pytest.skip("no compare-and-swap of 16 bits")
    kernel = read(text_of(t, helper))
    text = emit(kernel, language).text
    assert atomics(load(text, name=f"k.{language}", dialect=language)) == atomics(kernel)


def test_a_loop_that_stays_leaves_the_buffer_one_of_floats() -> None:
    """Compare-and-swap sees bits: the parameter is what its declaration says, in every language."""
    kernel = read(text_of("float", NEAR_MISSES["taken from the operand"]))
    for language, parameter in (("cuda", "float* o"), ("hip", "float* o"), ("opencl", "__global float* o")):
        text = emit(kernel, language).text
        assert parameter in text
        assert atomics(load(text, name=f"k.{language}", dialect=language)) == [("cas", "f32")]
    old, new = pairs(np.float32)
    got = run(kernel, {"a": new, "o": old, "n": len(new)}).outputs["o"]
    with np.errstate(all="ignore"):
        assert same(got, new - old)
