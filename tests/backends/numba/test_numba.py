"""The numba backend against the interpreter, and its conversions against numpy's, bit for bit."""

import ast
import math

import ml_dtypes
import numpy as np
import pytest

from ktc.backends.base import Emitted
from ktc.backends.numba import numba_prelude
from ktc.backends.numba.numba_emitter import emit_numba
from ktc.backends.runtimes.cpu_runtime import CpuRuntime, load_module
from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import run
from ktc.ir.interp.domains.domain import domain_named
from ktc.ir.text import parse_kernel
from ktc.ir.types import SCALARS, Ptr, scalar_of
from tests.backends.numba import numba_kernels
from tests.passes import parallel_sources, spmd_sources

SIZES = {"n": 70, "d": 96, "h": 9, "w": 33, "M": 12, "N": 16, "K": 10, "m": 12, "k": 10}
DTYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "i32": np.int32, "u32": np.uint32}
SPMD = {n.lower(): getattr(spmd_sources, n) for n in ("SAXPY", "EARLY_RETURN", "GRID_STRIDE", "TWO_D", "ROW_SUM")}
SPMD |= {n.lower(): getattr(spmd_sources, n) for n in ("FORWARD_TREE", "SHUFFLE", "SHUFFLE_SUM")}
PARALLEL = {f"par_{k}": v for k, v in parallel_sources.ALL.items()}


@pytest.fixture(scope="module")
def runtime(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setenv("KTC_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield CpuRuntime()
    patch.undo()


def arguments(kernel, seed=0, whole=False):
    """Arguments for ``kernel``; ``whole``: floats that are small integers."""
    rng = np.random.default_rng(seed)
    args = {}
    for p in kernel.params:
        t = p.sym.type
        if isinstance(t, Ptr):
            dtype = np.dtype(DTYPES[scalar_of(t).name])
            values = rng.integers(0, 1000, 8000) if dtype.kind in "iu" else rng.standard_normal(8000)
            values = np.rint(4 * values) if whole and dtype.kind == "f" else values
            args[p.sym.name] = (values - 500 if dtype.kind == "i" and "divisions" in kernel.name else values).astype(
                dtype
            )
        else:
            args[p.sym.name] = 0.5 if t.is_float else SIZES[p.sym.name]
    return args


@pytest.mark.parametrize("name", [*numba_kernels.ALL, *SPMD, *PARALLEL])
def test_agrees_with_the_interpreter(runtime, name):
    kernel = parse_kernel({**numba_kernels.ALL, **SPMD, **PARALLEL}[name])
    emitted = emit_numba(kernel)
    args = arguments(kernel, whole="muladd" in emitted.text)  # which rounds once or twice: no matter to integers
    if name in ("row_sum", "forward_tree", "shuffle", "shuffle_sum", "par_rms", "par_silu", "par_rowmax"):
        args["n"] = 5
    device = {k: runtime.to_device(v) if isinstance(v, np.ndarray) else v for k, v in args.items()}
    runtime.compile(emitted).launch(device)
    want = run(kernel, args, sanitize=False).outputs
    assert want
    for out, value in want.items():
        got = runtime.to_host(device[out], args[out])
        if name in ("par_silu", "par_rms"):  # exp and the order of a sum
            assert np.allclose(got.astype(float), value.astype(float), rtol=2e-3, atol=1e-3)
        else:
            assert np.array_equal(got, value), out
        assert not np.array_equal(got, args[out])  # it did something


def test_negative_division_truncates(runtime):
    kernel = parse_kernel(numba_kernels.DIVISIONS)
    x = np.arange(-32, 32, dtype=np.int32)
    y = np.zeros_like(x)
    runtime.compile(emit_numba(kernel)).launch({"x": x, "y": y, "n": 7})
    assert np.array_equal(y, (np.trunc(x / 7) * 1000 + np.fmod(x, 7)).astype(np.int32))


REMAINDERS = """
kernel turns(y: f64* restrict, x: f64 const* restrict, n: i32)
  launch grid(1) block(64)
  let i: i32 = threadIdx.x as i32
  if i < n
    y[i] = fmod(x[i], 3.0) + sinpi(x[i]) + cospi(x[i])
"""


def test_remainders_of_floats(runtime):
    x = np.linspace(-9.0, 9.0, 64)
    y = np.zeros_like(x)
    runtime.compile(emit_numba(parse_kernel(REMAINDERS))).launch({"x": x, "y": y, "n": 64})
    assert np.allclose(y, np.fmod(x, 3.0) + np.sin(np.pi * x) + np.cos(np.pi * x), atol=1e-12)


@pytest.mark.parametrize("source", ["f16", "f32", "f64"])
def test_floats_become_integers_as_in_the_interpreter(runtime, source):
    """Eight types from one kernel: narrow ones are the lower bits of 32, but from halves."""
    types = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
    params = ", ".join([f"x: {source} const*", *(f"o_{t}: {t}*" for t in types)])
    stores = "".join(f"\n  o_{t}[blockIdx.x] = {t}(x[blockIdx.x])" for t in types)
    kernel = parse_kernel(f"kernel k({params})\n  launch grid(14) block(1){stores}\n")
    wild = [1.9, -1.9, 127.9, 128.5, 255.5, 300.0, -129.5, 4e4, -4e4, 3e9, -3e9, np.nan, np.inf, -np.inf]
    domain = domain_named("float")
    with np.errstate(over="ignore"):
        x = np.array(wild, domain.dtype(SCALARS[source]))
    out = {f"o_{t}": np.zeros(14, domain.dtype(SCALARS[t])) for t in types}
    runtime.compile(emit_numba(kernel)).launch({"x": x.view(np.uint16) if source == "f16" else x, **out})
    for t in types:
        assert out[f"o_{t}"].tolist() == domain.cast(x, SCALARS[source], SCALARS[t]).tolist(), t


def convert(names, loop):
    """A module with the helpers ``names`` and a function ``go(x, out)`` that runs ``out[i] = loop`` over all i. A name
    ``NAME by hand`` is NAME as a processor without instructions for it runs it."""
    plain = {n.removesuffix(" by hand") for n in names}
    head = [*numba_prelude.imports(plain), "f32, i64, u64 = np.float32, np.int64, np.uint64"]
    head.append('OPTIONS = dict(error_model="numpy")')
    helpers = numba_prelude.source(plain)
    if plain != set(names):
        assert 'get_host_cpu_features().get("f16c")' in helpers
        helpers = helpers.replace('get_host_cpu_features().get("f16c")', "False")
    body = f"@njit(**OPTIONS)\ndef go(x, out):\n    for i in range(x.size):\n        out[i] = {loop}\n"
    return load_module("\n".join([*head, helpers, "", body])).go


NARROW = {
    "f16": np.float16, "f16 by hand": np.float16, "bf16": ml_dtypes.bfloat16, "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip


@pytest.mark.parametrize("name", NARROW)
def test_every_narrow_value_widens_exactly(runtime, name):
    dtype = np.dtype(NARROW[name])
    bits = np.arange(1 << (8 * dtype.itemsize), dtype=f"u{dtype.itemsize}")
    got = np.zeros(bits.size, np.float32)
    name, _, how = name.partition(" ")
    convert([f"{name}_to_f32 {how}".strip()], f"{name}_to_f32(x[i])")(bits, got)
    want = bits.view(dtype).astype(np.float32)
    assert np.array_equal(got, want, equal_nan=True)
    assert np.array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))


@pytest.mark.parametrize("name", NARROW)
def test_narrowing_rounds_to_nearest_even(runtime, name):
    dtype = np.dtype(NARROW[name])
    all_bits = np.arange(1 << (8 * dtype.itemsize), dtype=f"u{dtype.itemsize}").view(dtype).astype(np.float32)
    finite = np.unique(all_bits[np.isfinite(all_bits)])
    ties = (finite[:-1].astype(np.float64) + finite[1:]).astype(np.float64) / 2
    ties = ties.astype(np.float32)
    rng = np.random.default_rng(1)
    noise = rng.integers(0, 1 << 32, 200_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    x = np.concatenate([finite, ties, np.nextafter(ties, np.float32(0)), np.nextafter(ties, np.float32(9e9)), noise])
    x = np.concatenate([x, np.array([0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)])
    got = np.zeros(x.size, f"u{dtype.itemsize}")
    name, _, how = name.partition(" ")
    convert([f"f32_to_{name} {how}".strip()], f"f32_to_{name}(x[i])")(x, got)
    with np.errstate(all="ignore"):
        largest = {"e4m3": 448, "e5m2": 57344}.get(name, np.inf)  # CUDA's constructors of 8-bit floats saturate
        want = np.where(np.isnan(x), x, np.clip(x, -largest, largest)).astype(dtype)
    nan = np.isnan(want.astype(np.float32))
    assert np.array_equal(got[~nan], want.view(got.dtype)[~nan])
    assert np.isnan(got.view(dtype)[nan].astype(np.float32)).all()


def test_text_is_deterministic_and_complete():
    kernel = parse_kernel(spmd_sources.ROW_SUM)
    again = parse_kernel(spmd_sources.ROW_SUM)
    text = emit_numba(kernel).text
    assert text == emit_numba(again).text
    tree = ast.parse(text)
    imported = {
        n.module if isinstance(n, ast.ImportFrom) else n.names[0].name for n in tree.body if hasattr(n, "names")
    }
    assert {name.partition(".")[0] for name in imported} <= {"math", "numpy", "numba", "llvmlite"}
    assert text.index("def rownorm_block(") < text.index("def rownorm_grid(") < text.index("def rownorm(")


def test_no_licence_to_reassociate_is_given():
    """It would hold for whole functions, and make rounding depend on addresses; the text writes partial sums out."""
    kernel = parse_kernel(parallel_sources.RMS)
    for flags in (frozenset(), frozenset({"reassociates", "fast_math"})):
        assert "fastmath" not in emit_numba(kernel.with_(flags=flags)).text


def test_awkward_names_do_not_clash(runtime):
    kernel = parse_kernel(
        "kernel range(prange: f32* restrict, t: f32 const* restrict, np: i32)\n  launch grid(1) block(np)\n"
        "  let thread_x: i32 = threadIdx.x as i32\n  prange[thread_x] = t[thread_x] * 2.0\n"
    )
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    runtime.compile(emit_numba(kernel)).launch({"prange": y, "t": x, "np": 8})
    assert np.array_equal(y, 2 * x)


def test_inline_assembly_is_refused_with_a_code():
    kernel = parse_kernel(
        'kernel k(y: i32*)\n  launch grid(1) block(1)\n  asm volatile "membar.gl;" out () in ()\n  y[0] = 1\n'
    )
    with pytest.raises(KtcError) as e:
        emit_numba(kernel)
    assert e.value.code == "E-NUMBA-UNSUPPORTED"


def test_wrong_target_is_a_usage_error(runtime):
    kernel = parse_kernel(spmd_sources.SAXPY)
    with pytest.raises(KtcError) as e:
        runtime.compile(Emitted("", "saxpy", "cuda", kernel))
    assert e.value.exit_code == 2


def test_a_long_sum_is_as_accurate_as_a_tree(runtime):
    """A chain of additions in float is not: its error grows with the length."""
    kernel = parse_kernel(
        "kernel k(x: f32 const*, y: f32*, n: i32)\n  launch grid(1) block(32)\n  par r in 0..1 @ [block.x]\n"
        "    reduce(+) s: f32 = 0.0 over i in 0..n @ [thread.x 32, seq]\n      yield x[i]\n    y[r] = s\n"
    )
    x = np.random.default_rng(3).random(100_000, np.float32)
    y = np.zeros(1, np.float32)
    runtime.compile(emit_numba(kernel)).launch({"x": x, "y": y, "n": x.size})
    assert y[0] == np.float32(x.astype(np.float64).sum())


BESIDE = """
kernel beside(hash: u32*, halves: u16*, wide: i64*, exponent: i32*, share: f32*, blocks: u64*,
    x: f32 const*, h: f16 const*, y: f64 const*, m: u64 const*)
  launch grid(16) block(1)
  let i: i32 = blockIdx.x as i32
  hash[i] = x[i] as.bit u32 >> 16_u32
  halves[i] = (h[i] as.bit u16 - 1) as u16
  wide[i] = (y[i] as.bit i64) / 3_i64
  exponent[i] = ilogb(x[i]) * 2
  share[i] = x[i] / normcdf(x[i])
  blocks[i] = cdiv(m[i] | 5_u64, 4_u64)
"""


def test_bits_and_calls_stand_beside_operators(runtime):
    """What is printed as several words is one operand all the same."""
    rng, n = np.random.default_rng(0), 16
    x = rng.standard_normal(n).astype(np.float32)
    given = {"x": x, "h": x.astype(np.float16).view(np.uint16), "y": x.astype(np.float64)}
    m = rng.integers(0, 99, n).astype(np.uint64)
    sizes = {"hash": "u4", "halves": "u2", "wide": "i8", "exponent": "i4", "share": "f4", "blocks": "u8"}
    out = {k: np.zeros(n, t) for k, t in sizes.items()}
    runtime.compile(emit_numba(parse_kernel(BESIDE))).launch({**out, **given, "m": m})
    assert np.array_equal(out["hash"], x.view(np.uint32) >> 16)
    assert np.array_equal(out["halves"], given["h"] - np.uint16(1))
    assert np.array_equal(out["wide"], np.trunc(given["y"].view(np.int64).astype(np.longdouble) / 3).astype(np.int64))
    assert np.array_equal(out["exponent"], 2 * (np.frexp(x)[1] - 1))
    assert np.allclose(out["share"], [v / (0.5 * math.erfc(-v * 0.5**0.5)) for v in x], rtol=1e-5)
    assert np.array_equal(out["blocks"], ((m | np.uint64(5)) + np.uint64(3)) // np.uint64(4))
