"""The exact twin: it computes what the field domain does, on every backend; what it finds, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.backends import emit
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.types import SCALARS, Scalar, scalar_of
from ktc.ir.verifier import verify
from ktc.search.verification import Verdict, twin, twin_differential
from ktc.search.verification.device.twin import is_word
from ktc.search.verification.device.twin_device import encoded, words
from tests import devices
from tests.ir.interp.interp_samples import MATMUL_TILED, ROWS_PARALLEL, ROWS_SHUFFLE, ROWS_TREE, kernel
from tests.search.verification.gate_samples import ROWS, InterpretedRuntime, emitted


def both(original: Kernel, args: dict) -> None:
    """The kernel in the field domain, and its twin on words, leave the same residues behind."""
    types = {p.sym.name: scalar_of(p.sym.type).name for p in original.params}
    made = twin(original)
    assert verify(made) == []
    assert print_kernel(parse_kernel(print_kernel(made))) == print_kernel(made)
    want = run(original, args, domain="field").outputs
    got = run(made, words(made, args, types), domain="float").outputs
    for name, x in want.items():
        is_float = is_word(SCALARS[types[name]])
        assert np.array_equal(x, got[name].astype(np.uint32) if is_float else got[name]), name


def rows(n: int = 3, d: int = 77) -> dict:
    x = np.random.default_rng(0).integers(-4, 5, (n, d)).astype(np.float32)
    return {"y": np.zeros((n, d), np.float32), "x": x, "w": x[0] + 9, "d": d, "n": n}


@pytest.mark.parametrize("text", [ROWS_TREE, ROWS_SHUFFLE, ROWS_PARALLEL])
def test_twins_of_reductions(text: str) -> None:
    both(kernel(text), rows())


def test_twin_of_a_tiled_product() -> None:
    one = np.arange(32 * 32, dtype=np.float32).reshape(32, 32) % 9 - 4
    args = {"c": one[:9, :10].copy(), "a": one[:9, :17].copy(), "b": one[:17, :10].copy(), "m": 9, "n": 10, "k": 17}
    both(kernel(MATMUL_TILED), args)


EXPRESSIONS = (
    "a[i] / b[i] - 0.3f", "fmaxf(a[i], b[i]) + fminf(a[i], s)", "a[i] < b[i] ? expf(a[i]) : tanhf(b[i])",
    "rsqrtf(b[i]) * sqrtf(a[i])", "fmaf(a[i], b[i], -a[i])", "fabsf(a[i]) + (float)i", "powf(a[i], b[i]) + erff(s)",
    "exp2f(a[i] * 1.44269504f) - expf(a[i])", "logf(a[i]) + log2f(b[i]) + log1pf(s)", "(float)(int)(a[i] * 2.0f)",
    "__half2float(__float2half(a[i])) * 2.0f", "(a[i] ? 1.0f : 2.0f) + !b[i]", "fmodf(a[i], b[i])",
    "logf(fabsf(a[i])) + powf(a[i], (float)(i % 5)) - log2f(0.25f)",
    "isinf(a[i]) || signbit(b[i]) ? 0.0f : 1.0f / 0.1f",
)  # fmt: skip


def expressions(each: tuple[str, ...] = EXPRESSIONS) -> Kernel:
    stores = "".join(f"  y[{k} * n + i] = {e};\n" for k, e in enumerate(each))
    text = f"""__global__ void k(float* y, const float* a, const float* b, float s, int n) {{
      int i = threadIdx.x;\n{stores}}}
    void h(float* y, float* a, float* b, float s, int n) {{ k<<<1, n>>>(y, a, b, s, n); }}"""
    return load("#include <cuda_fp16.h>\n" + text)


def numbers(n: int, count: int = len(EXPRESSIONS)) -> dict:
    a = np.arange(n, dtype=np.float32) - n // 2
    return {"y": np.zeros(count * n, np.float32), "a": a, "b": a[::-1] + 0.5, "s": 1.25, "n": n}


def test_functions_and_conversions_mean_what_they_mean_in_the_field_domain() -> None:
    both(expressions(), numbers(19))


def test_float_atomics_become_loops_of_compare_and_swap() -> None:
    text = """__global__ void k(float* y, const float* x, float* old) {
      old[threadIdx.x] = atomicAdd(&y[threadIdx.x % 3], x[threadIdx.x]) * 0.0f; }
    void h(float* y, float* x, float* old) { k<<<2, 32>>>(y, x, old); }"""
    x = np.arange(32, dtype=np.float32)
    both(load(text), {"y": np.ones(4, np.float32), "x": x, "old": np.zeros(32, np.float32)})


def test_atomics_that_compare_floats_do_so_in_the_field() -> None:
    ops = ("gt", "geu", "lts", "len", "max", "mul")
    lines = "\n".join(f"  atomic {op} y[{k} * 4 + i % 3], x[i]" for k, op in enumerate(ops))
    text = f"kernel k(y: f32*, x: f32 const*)\n  launch grid(2) block(16)\n  let i: i32 = i32(threadIdx.x)\n{lines}\n"
    x = np.arange(16, dtype=np.float32) - 7.5
    both(parse_kernel(text), {"y": np.ones(24, np.float32), "x": x})


@pytest.mark.parametrize("device", ["numba", "opencl"])
def test_devices_compute_the_same_words(device: str) -> None:
    runtime = devices.working(device)
    some = EXPRESSIONS[:7] + EXPRESSIONS[-2:-1]
    original, args = expressions(some), numbers(19, len(some))
    made = twin(original)
    given = words(made, args, {p.sym.name: scalar_of(p.sym.type).name for p in original.params})
    exe = runtime.compile(emit(made, runtime.device.profile))
    on_device = {n: runtime.to_device(v) if isinstance(v, np.ndarray) else v for n, v in given.items()}
    exe.launch(on_device)
    want = run(made, given, domain="float").outputs["y"]
    assert np.array_equal(runtime.to_host(on_device["y"], want), want)


def judged(a: Kernel, b: Kernel, workload, sizes: dict) -> Verdict:
    texts = (emitted(twin(k)) for k in (a, b))
    return twin_differential(InterpretedRuntime(), *texts, workload, sizes=[sizes])


def test_a_term_that_no_tolerance_misses_is_missed_by_none_here() -> None:
    sizes = {"n": 2, "d": 300}
    right, wrong = kernel(ROWS_TREE), kernel(ROWS_TREE, ("< d", "< d - 1"))
    x = np.random.default_rng(1).random((2, 300)).astype(np.float32)
    args = {"y": np.zeros_like(x), "x": x, "w": x[0], **sizes}
    y, z = (run(k, args, sanitize=False).outputs["y"] for k in (right, wrong))
    assert np.allclose(y[:, :-1], z[:, :-1], rtol=1e-2)  # a sum of squares without its last term
    assert judged(right, kernel(ROWS_SHUFFLE), ROWS, sizes).status == "TESTED"
    found = judged(right, wrong, ROWS, sizes)
    assert found.status == "REJECTED" and found.failure is not None and found.failure.buffer == "y"


@pytest.mark.parametrize(
    "body, what",
    [
        ("y[0] = __int_as_float(__float_as_int(a[0]) & 7);", "bits"),
        ("y[0] = ldexpf(a[0], 3);", "ldexp"),
        ('asm volatile("cos.approx.ftz.f32 %0, %1;" : "=f"(y[0]) : "f"(a[0]));', "InlineAsm"),
    ],
)
def test_what_has_no_exact_meaning_is_refused_with_its_place(body: str, what: str) -> None:
    text = f"__global__ void k(float* y, const float* a) {{\n  {body}\n}}"
    with pytest.raises(KtcError) as e:
        twin(load(text, name="k.cu"))
    assert e.value.code == "E-TWIN-UNSUPPORTED" and what in e.value.message
    assert e.value.loc is not None and e.value.loc.line == 2


def test_encoding_takes_the_short_way_only_where_it_is_the_same() -> None:
    t = Scalar("float", 32)
    small = np.array([[-4, 0, 3]], np.float32)
    odd = np.array([[0.5, -7, 1e30, 127, 128]], np.float32)
    assert encoded(small, t).shape == (1, 3) and len({*encoded(small, t)[0].tolist()}) == 3
    both_ways = encoded(np.concatenate([small, odd], 1), t)[0]
    assert np.array_equal(both_ways[:3], encoded(small, t)[0]) and len({*both_ways.tolist()}) == 8


def test_twins_print_in_every_language() -> None:
    for target in ("cuda", "hip", "opencl", "numba"):
        text = emit(twin(kernel(ROWS_TREE)), target).text
        assert text.count("field_mul(") >= 3 and "float" not in text.split("rms")[-1], target
