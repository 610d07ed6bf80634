"""OpenCL output: golden texts, and runs on whatever OpenCL device there is (PoCL comes with the test extra)."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

from ktc.backends import check_compile, emit
from ktc.ir.diagnostics import KtcError, Loc
from ktc.ir.frontend import load
from ktc.ir.interp.domains.domain import domain_named
from ktc.ir.kernel import Kernel, KnobDecl, Launch, Param, bind
from ktc.ir.nodes import (
    Alloc,
    Assign,
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Atomic,
    Barrier,
    Binary,
    Call,
    Cast,
    Const,
    Decl,
    Fence,
    HwIndex,
    If,
    InlineAsm,
    Knob,
    Load,
    RawStmt,
    Return,
    Store,
    Var,
    fresh,
    i32,
)
from ktc.ir.types import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, Array, Ptr
from ktc.search.verification.rungs.parse_back import parse_back
from tests import devices
from tests.backends.emit_samples import block_sum, saxpy, silu_vec, warp_sum

TID = Cast(I32, HwIndex("thread", "x"), "implicit")
GID = Cast(
    I32, Binary("+", Binary("*", HwIndex("block", "x"), HwIndex("block_dim", "x")), HwIndex("thread", "x")), "implicit"
)


def run(kernel: Kernel, args: list, grid: int, block: int, shared: int = 0, target: str = "opencl") -> list:
    """Launch on the first device; numpy arrays are copied in and out."""
    cl, context, queue = devices.opencl("cl_intel_required_subgroup_size" if target.endswith("subgroups") else "")
    code = emit(kernel, target)
    program = cl.Program(context, code.text).build(options=list(code.options), cache_dir=False)
    k = cl.Kernel(program, code.entry)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffers = [cl.Buffer(context, flags, hostbuf=a) if isinstance(a, np.ndarray) else a for a in args]
    k.set_args(*buffers, *([cl.LocalMemory(shared)] if shared else []))
    cl.enqueue_nd_range_kernel(queue, k, (grid * block,), (block,))
    out = []
    for a, b in zip(args, buffers):
        if isinstance(a, np.ndarray):
            host = np.empty_like(a)
            cl.enqueue_copy(queue, host, b)
            out.append(host)
    queue.finish()
    return out


def kernel_of(*body, params=(), block=32) -> Kernel:
    one = i32(1)
    return Kernel("k", tuple(Param(p) for p in params), Launch((one, one, one), (i32(block), one, one)), body)


# --------------------------------------------------------------------------------------------------------------- text


def test_saxpy_text():
    text = emit(saxpy(), "opencl").text
    assert text[text.index("__attribute") :] == (
        "__attribute__((reqd_work_group_size(256, 1, 1)))\n"
        "__kernel void saxpy(int n, float a, __global const float* restrict x, __global float* restrict y) {\n"
        "  const int i = get_global_id(0);\n"
        "  if (i >= n) return;\n"
        "  // y = a x + y\n"
        "  y[i] = a * x[i] + y[i];\n"
        "}\n"
    )


def test_vectors_of_half_are_aligned_structs_of_bits():
    text = emit(silu_vec(), "opencl").text
    assert "#define V 8  // elements a vector access moves\n" in text
    assert "typedef struct { f16 lane[V]; } __attribute__((aligned(sizeof(f16) * V))) f16xV;" in text
    assert "const f16xV x = *(const __global f16xV*)&in[token * 2 * d + i];" in text
    assert "y.lane[j] = float_to_half(xf / (1.0f + exp(-xf)) * gf);" in text
    assert "cl_khr_fp16" not in text


def test_template_mode_lets_build_options_choose():
    text = emit(silu_vec(), "opencl", mode="template").text
    assert "#ifndef V\n#define V 8\n#endif" in text


def test_shared_arrays_are_hoisted_and_named_extents_resolved():
    tile, x, n = fresh("tile", I32), fresh("x", Ptr(F32)), fresh("n", I32)
    s = fresh("s", Array(F32, (Var(tile), i32(2)), "shared"))
    body = (
        Decl(tile, i32(16), const=True),
        If(
            Binary("<", Var(n), i32(4)),
            (Alloc(s), Store(s, (TID, i32(1)), Load(x, (TID,))), Store(x, (TID,), Load(s, (TID, i32(1))))),
        ),
    )
    text = emit(kernel_of(*body, params=[x, n]), "opencl").text
    assert text.index("__local float s[16][2];") < text.index("if (n < 4)")


def test_bool_parameters_and_dynamic_shared_memory():
    flag, x = fresh("flag", BOOL), fresh("x", Ptr(F32))
    s = fresh("s", Array(F32, (Var(fresh("n", I32)),), "shared"))
    text = emit(kernel_of(Alloc(s, dynamic=True), Store(s, (TID,), Const(0.0, F32)), params=[flag, x]), "opencl").text
    assert "__kernel void k(uchar flag, __global float* x, __local float* s) {" in text


@pytest.mark.parametrize(
    ("profile", "needle"),
    [("opencl-nvidia", "shfl.sync.bfly.b32"), ("opencl-cl30-subgroups", "sub_group_shuffle(v, from)")],
)
def test_shuffles_by_profile(profile, needle):
    text = emit(warp_sum(), profile).text
    assert needle in text
    assert "v += as_float(warp_shfl_xor(as_uint(v), offset, 32, 0xffffffff));" in text


def test_constructs_that_opencl_lacks_are_refused_with_place_and_hint():
    loc = Loc("k.cu", 3, 5)
    x = fresh("x", Ptr(F32))
    cases = {
        "E-BACKEND-RAW": RawStmt("foo();", loc=loc),
        "E-BACKEND-FENCE": Fence("device", loc=loc),
        "E-BACKEND-FUNCTION": Store(x, (i32(0),), Call("add_rz", (Const(1.0, F32), Const(2.0, F32)), F32), loc=loc),
        "E-BACKEND-ATOMIC": Atomic("and", x, (i32(0),), Const(1.0, F32), loc=loc),
    }
    for code, s in cases.items():
        with pytest.raises(KtcError) as e:
            emit(kernel_of(s, params=[x]), "opencl")
        assert e.value.code == code and e.value.loc == loc
    with pytest.raises(KtcError) as e:
        emit(kernel_of(InlineAsm("bar.sync 0;", loc=loc), params=[x]), "opencl")
    assert e.value.code == "E-BACKEND-RAW"
    with pytest.raises(KtcError) as e:
        emit(warp_sum(), "opencl")
    assert e.value.code == "E-BACKEND-WARP" and "strategy=shared" in e.value.hint


# --------------------------------------------------------------------------------------------------------------- runs


def test_saxpy_runs():
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    out = run(saxpy(), [np.int32(1000), np.float32(2.0), x, y], 4, 256)
    assert np.array_equal(out[1], 2 * x + 1)


@pytest.mark.parametrize("v", [1, 2, 4, 8])
@pytest.mark.parametrize(("elem", "dtype"), [(F16, np.float16), (BF16, bfloat16)])
def test_vectors_of_every_width_give_the_same_bits(v, elem, dtype):
    rng = np.random.default_rng(0)
    n, d = 3, 136
    x = rng.standard_normal((n, 2 * d)).astype(np.float32).astype(dtype)
    kernel = bind(silu_vec(elem).with_(constraints=()), {"V": v, "T": 64})
    (out, _) = run(kernel, [np.zeros((n, d), np.uint16), x.view(np.uint16), np.int32(d)], n, 64)
    a, g = x[:, :d].astype(np.float64), x[:, d:].astype(np.float64)
    want = a / (1 + np.exp(-a)) * g
    got = out.view(dtype).astype(np.float64)
    assert np.allclose(got, want, rtol=2**-7 if elem == BF16 else 2**-10, atol=1e-6)
    first = run(
        bind(silu_vec(elem).with_(constraints=()), {"V": 1, "T": 64}), [out * 0, x.view(np.uint16), np.int32(d)], n, 64
    )
    assert np.array_equal(first[0], out)


def test_block_sum_runs():
    x = np.arange(5 * 700, dtype=np.float32).reshape(5, 700) % 97
    (_, out) = run(block_sum(), [x, np.zeros(5, np.float32), np.int32(700)], 5, 256)
    assert np.array_equal(out, x.sum(axis=1))


@pytest.mark.parametrize(("elem", "dtype"), [(F16, np.float16), (BF16, bfloat16)])
def test_every_16_bit_float_survives_a_round_trip_and_rounding_is_to_even(elem, dtype):
    """float -> 16 bits on the midpoints between neighbours, and 16 bits -> float -> 16 bits on all values."""
    src, dst = fresh("src", Ptr(F32)), fresh("dst", Ptr(elem))
    kernel = kernel_of(Store(dst, (GID,), Cast(elem, Load(src, (GID,)), "c")), params=[src, dst], block=64)
    every = np.arange(65536, dtype=np.uint16).view(dtype).astype(np.float32)
    every = every[np.isfinite(every)]
    values = np.sort(np.unique(every))
    middles = (values[:-1].astype(np.float64) + values[1:]) / 2
    probe = np.concatenate([every, middles.astype(np.float32), np.float32([np.inf, -np.inf, 1e30])])
    probe = np.resize(probe, -(-probe.size // 64) * 64)
    (_, out) = run(kernel, [probe, np.zeros(probe.size, np.uint16)], probe.size // 64, 64)
    with np.errstate(over="ignore"):
        want = probe.astype(dtype).view(np.uint16)
    assert np.array_equal(out, want)


def test_float_to_int_saturates_like_cuda():
    src, dst = fresh("src", Ptr(F32)), fresh("dst", Ptr(I32))
    kernel = kernel_of(Store(dst, (GID,), Cast(I32, Load(src, (GID,)), "implicit")), params=[src, dst], block=8)
    values = np.float32([1.9, -1.9, 3e9, -3e9, np.nan, np.inf, 0.0, -0.0])
    (_, out) = run(kernel, [values, np.zeros(8, np.int32)], 1, 8)
    assert out.tolist() == [1, -1, 2**31 - 1, -(2**31), 0, 2**31 - 1, 0, 0]


@pytest.mark.parametrize("source", [F16, F32, F64], ids=str)
@pytest.mark.parametrize("to", [I8, U8, I16, U16, I32, U32, I64, U64], ids=str)
def test_floats_become_integers_as_in_the_interpreter(source, to):
    src, dst = fresh("src", Ptr(source)), fresh("dst", Ptr(to))
    kernel = kernel_of(Store(dst, (TID,), Cast(to, Load(src, (TID,)), "c")), params=[src, dst], block=16)
    domain = domain_named("float")
    wild = [1.9, -1.9, 127.9, 128.5, 255.5, 300.0, -129.5, 4e4, -4e4, 7e4, 3e9, -3e9, 1e20, np.nan, np.inf, -np.inf]
    with np.errstate(over="ignore"):
        values = np.array(wild, domain.dtype(source))
    (_, out) = run(
        kernel,
        [values.view(np.uint16) if source == F16 else values, np.zeros(16, domain.dtype(to))],
        1,
        16,
    )
    assert out.tolist() == domain.cast(values, source, to).tolist()
    outcome = parse_back(kernel, "opencl")
    assert outcome.status == ("skip" if source == F16 else "pass"), outcome.detail


@pytest.mark.parametrize("op", ["add", "max"])
def test_float_atomics_through_compare_and_swap(op):
    src, dst = fresh("src", Ptr(F32)), fresh("dst", Ptr(F32))
    kernel = kernel_of(Atomic(op, dst, (i32(0),), Load(src, (GID,))), params=[src, dst], block=32)
    values = np.arange(128, dtype=np.float32)
    (_, out) = run(kernel, [values, np.zeros(1, np.float32)], 4, 32)
    assert out[0] == (values.sum() if op == "add" else 127)


def test_integer_and_limited_atomics():
    dst, limited = fresh("dst", Ptr(I32)), fresh("limited", Ptr(U32))
    kernel = kernel_of(
        Atomic("add", dst, (i32(0),), i32(2)),
        Atomic("inc", limited, (i32(0),), Const(9, U32)),
        params=[dst, limited],
        block=32,
    )
    (a, b) = run(kernel, [np.zeros(1, np.int32), np.zeros(1, np.uint32)], 1, 32)
    assert a[0] == 64 and b[0] == 32 % 10


def test_early_returns_above_barriers_become_predicates():
    """if (i >= n) return; s[t] = x[i]; barrier; y[i] = s[0]: threads that returned must still reach the barrier."""
    n, x, y = fresh("n", I32), fresh("x", Ptr(F32)), fresh("y", Ptr(F32))
    i, v, s = fresh("i", I32), fresh("v", F32), fresh("s", Array(F32, (i32(32),), "shared"))
    kernel = kernel_of(
        Alloc(s),
        Decl(i, GID, const=True),
        If(Binary(">=", Var(i), Var(n)), (Return(),)),
        Decl(v, Load(x, (Var(i),))),
        Store(s, (TID,), Var(v)),
        Barrier(),
        Assign(v, Binary("+", Var(v), Load(s, (i32(0),)))),
        Store(y, (Var(i),), Var(v)),
        params=[n, x, y],
    )
    text = emit(kernel, "opencl").text
    assert "return" not in text and "const bool active = i < n;" in text
    xs = np.arange(40, dtype=np.float32)
    (_, out) = run(kernel, [np.int32(40), xs, np.full(40, -1, np.float32)], 2, 32)
    assert np.array_equal(out, xs + np.repeat(xs[[0, 32]], 32)[:40])


def test_integer_functions_agree_with_python():
    src, dst = fresh("src", Ptr(U32)), fresh("dst", Ptr(U32))
    x = Load(src, (GID,))
    perm = Call("byte_perm", (x, Const(0x01020304, U32), Const(0x5140, U32)), U32)
    calls = [Call("popc", (x,), I32), Call("clz", (x,), I32), Call("ffs", (x,), I32), Call("brev", (x,), U32), perm]
    stores = [
        Store(dst, (Binary("+", Binary("*", GID, i32(5)), i32(k)),), Cast(U32, c, "implicit"))
        for k, c in enumerate(calls)
    ]
    values = np.uint32([0, 1, 0x80000000, 0xFFFFFFFF, 0x12345678, 6, 40, 0xF0F0])
    (_, out) = run(kernel_of(*stores, params=[src, dst], block=8), [values, np.zeros(40, np.uint32)], 1, 8)
    for v, got in zip(values.tolist(), out.reshape(8, 5).tolist()):
        bits = f"{v:032b}"
        pool = [v >> 8 * k & 0xFF for k in range(4)] + [4, 3, 2, 1]
        picked = sum(pool[0x5140 >> 4 * k & 7] << 8 * k for k in range(4))
        first = bits[::-1].find("1") + 1
        assert got == [bits.count("1"), 32 - v.bit_length(), first, int(bits[::-1], 2), picked]


def test_a_product_rounded_to_nearest_is_not_fused_into_the_sum():
    src, dst = fresh("src", Ptr(F32)), fresh("dst", Ptr(F32))
    x = Load(src, (GID,))
    value = Call("sub_rn", (Call("mul_rn", (x, x), F32), Const(1.0, F32)), F32)
    values = np.float32([1 + 2.0**-12] * 4)
    (_, out) = run(kernel_of(Store(dst, (GID,), value), params=[src, dst], block=4), [values, values * 0], 1, 4)
    assert np.array_equal(out, values * values - np.float32(1))


def staged(width, valid=None) -> Kernel:
    """Copy a tile to shared memory asynchronously, wait, and read it backwards."""
    x, y, s = fresh("x", Ptr(F32)), fresh("y", Ptr(F32)), fresh("s", Array(F32, (i32(128),), "shared"))
    at = Binary("*", TID, i32(4))
    copy = AsyncCopy(s, (at,), x, (at,), width, valid=valid)
    body = [Alloc(s, align=16), copy, AsyncCommit(), AsyncWait(0), Barrier()]
    for k in range(4):
        here = Binary("+", at, i32(k))
        body.append(Store(y, (here,), Load(s, (Binary("-", i32(127), here),))))
    knobs = (KnobDecl("W", (4,), 4),)
    return kernel_of(*body, params=[x, y]).with_(knobs=knobs)


@pytest.mark.parametrize("width", [4, Knob("W")])
def test_asynchronous_copies_are_plain_ones(width):
    x = np.arange(128, dtype=np.float32)
    (_, out) = run(staged(width), [x, x * 0], 1, 32)
    assert np.array_equal(out, x[::-1])


@pytest.mark.parametrize("width", [4, Knob("W")])
def test_zeros_arrive_where_there_is_nothing_to_copy(width):
    x = np.arange(1, 129, dtype=np.float32)
    kernel = staged(width, Binary("<", TID, i32(20)))
    (_, out) = run(kernel, [x, x * 0], 1, 32)
    assert np.array_equal(out, np.where(np.arange(128) < 80, x, 0)[::-1])
    text = emit(kernel, "cuda").text
    assert "if (" not in text.partition("__global__")[2] and "tid < 20);" in text.replace("threadIdx.x", "tid")
    assert "else" in emit(kernel, "cuda-sm75").text


@pytest.mark.usefixtures("nvcc")
@pytest.mark.parametrize("width", [4, Knob("W")])
def test_asynchronous_copies_are_asynchronous_in_cuda(width):
    ptx = check_compile(emit(staged(width), "cuda"), output="ptx").artifact.decode()
    assert "cp.async.cg.shared.global" in ptx and "cp.async.wait_group 0" in ptx
    check_compile(emit(staged(width), "cuda-sm75"), "sm_75")


def test_double_to_half_rounds_once():
    """A double just above a midpoint of two halves: through float it would round to even, downwards."""
    src, dst = fresh("src", Ptr(F64)), fresh("dst", Ptr(F16))
    kernel = kernel_of(Store(dst, (GID,), Cast(F16, Load(src, (GID,)), "c")), params=[src, dst], block=1)
    value = np.float64([1 + 2.0**-11 + 2.0**-40])
    (_, out) = run(kernel, [value, np.zeros(1, np.uint16)], 1, 1)
    assert out.view(np.float16)[0] == np.float16(1 + 2.0**-10)


@pytest.mark.parametrize("make", [saxpy, silu_vec, lambda: silu_vec(BF16), block_sum])
@pytest.mark.parametrize("mode", ["source", "template"])
def test_every_device_here_builds_the_text(make, mode):
    devices.opencl()
    assert check_compile(emit(make(), "opencl", mode)).tool == "opencl"


def test_vectors_of_any_elements_are_reinterpreted_through_memory():
    """Eight bf16 read as four words, a pair of halves as a word: no as_type takes those."""
    from ktc.ir.frontend import load

    text = """struct alignas(16) P { __nv_bfloat16 v[8]; };
    __global__ void k(const __nv_bfloat16* a, int4* o) {
      P p = *reinterpret_cast<const P*>(a + 8 * threadIdx.x);
      __half2 h = __floats2half2_rn(1.f, 2.f);
      int4 b = *reinterpret_cast<int4*>(p.v);
      b.x += *reinterpret_cast<unsigned*>(&h);
      o[threadIdx.x] = b;
    }"""
    kernel = load(text, name="k.cu").with_(launch=Launch((i32(1),) * 3, (i32(4), i32(1), i32(1)), i32(0)))
    a = np.arange(32, dtype=np.uint16)
    wanted = a.view(np.int32).reshape(4, 4).copy()
    wanted[:, 0] += 0x40003C00
    got = run(kernel, [a, np.zeros((4, 4), np.int32)], 1, 4)[1]
    assert (got == wanted).all()


def test_indices_of_32_bits_are_computed_in_32_bits():
    """Sums and quotients of the 64-bit work-item functions are not seen to be consecutive, and are slow."""
    text = emit(
        load("""
__global__ void k(float* x, int d) {
  int i = threadIdx.x + blockIdx.x * 8;
  x[i] = x[(int)(threadIdx.x) % d] + (threadIdx.x < 3 ? 1.0f : 0.0f);
}"""),
        "opencl",
    ).text
    assert "(int)get_local_id(0) % d" in text and "get_local_id(0) < 3" in text
    assert "int i = (uint)get_local_id(0) + (uint)get_group_id(0) * 8" in text


@pytest.mark.parametrize(("target", "flags", "call"), [
    ("opencl", (), " exp("), ("opencl-nvidia", (), "native_exp("), ("opencl", ("fast_math",), "native_exp("),
])  # fmt: skip
def test_approximations_are_only_as_good_as_a_device_says(target, flags, call):
    """OpenCL's ``native_exp`` may be wrong in its fourth digit; CUDA says how exact ``__expf`` is."""
    kernel = load("__global__ void k(float* x) { x[threadIdx.x] = __expf(x[0]) + __fdividef(x[1], x[2]); }")
    text = emit(kernel.with_(flags=kernel.flags | set(flags)), target).text
    assert call in text and ("native" in text) == ("native" in call)


def test_a_kernel_that_is_called_kernel_gets_another_name():
    from ktc.ir.frontend import load

    code = emit(load("__global__ void kernel(float* out) { out[threadIdx.x] = 1; }", name="k.cu"), "opencl")
    assert code.entry == "kernel_" and "__kernel void kernel_(" in code.text


def test_clocks_of_the_profiles_that_have_one():
    from ktc.ir.frontend import load

    kernel = load("__global__ void k(long long* out) { out[threadIdx.x] = clock64(); }", name="k.cu")
    assert "clock_read_work_group()" in emit(kernel, "opencl-cl30-subgroups").text
    assert "%clock64" in emit(kernel, "opencl-nvidia").text
    with pytest.raises(KtcError, match="'clock64' has no counterpart"):
        emit(kernel, "opencl")


def test_a_shuffle_of_a_vector_is_refused():
    from ktc.ir.frontend import load

    body = "__half2 v = y[threadIdx.x]; y[threadIdx.x] = __shfl_xor_sync(0xffffffff, v, 1);"
    source = f"__global__ void k(__half2* y) {{ {body} }}\nvoid host(__half2* y) {{ k<<<1, 32>>>(y); }}\n"
    with pytest.raises(KtcError) as e:
        emit(load(source, name="k.cu"), "opencl-cl30-subgroups")
    assert e.value.code == "E-BACKEND-WARP" and e.value.loc is not None


def test_a_pointer_variable_keeps_the_space_it_points_to():
    """Memory that a kernel uses as two types is seen through a pointer of the second."""
    text = """__global__ void k(int* a) { atomicAdd(&a[0], -3); atomicInc((unsigned*)&a[1], 7u); }
    void f(int* a) { k<<<1, 4>>>(a); }"""
    made = emit(load(text, name="k.cu"), "opencl").text
    assert "__global int* pointer = (__global int*)(ulong)&a[0];" in made
