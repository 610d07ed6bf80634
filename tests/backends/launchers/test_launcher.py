"""Launchers: geometry, the guard, the fall-back, and that each is accepted by its language."""

from __future__ import annotations

import ast
import dataclasses
import re

import pytest

import ktc
from ktc.backends import check_compile, emit, emit_launcher
from ktc.backends.base import Emitted
from ktc.backends.launchers.cuda_launcher import python_text
from ktc.backends.launchers.launch_geometry import asks_for_room, geometry, wide
from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import binary, cdiv, evaluate
from ktc.ir.kernel import Assume
from ktc.ir.nodes import Binary, Call, Knob, Select, Var, fresh, i32
from ktc.ir.text import parse_kernel, print_expr
from ktc.ir.types import I32, Ptr
from tests.backends.emit_samples import saxpy, silu_vec
from tests.backends.launchers.fake_cupy import buffer, launcher

needs_nvcc = pytest.mark.usefixtures("nvcc")


def guarded():
    k = silu_vec()
    d = Var(k.param("d").sym)
    return k.with_(assumptions=(Assume(binary("==", binary("%", d, Knob("V")), i32(0)), "guessed"),))


def test_the_guard_binds_knobs_and_checks_alignment_and_falls_back():
    original = dataclasses.replace(emit(saxpy(), "cuda"), entry="silu_naive")
    original = dataclasses.replace(emit(silu_vec().with_(name="silu_naive"), "cuda"))
    text = emit_launcher(emit(guarded(), "cuda"), "cuda", original)
    assert "const bool applies = d % 8 == 0 && reinterpret_cast<uintptr_t>(out) % 16 == 0" in text
    assert "silu_naive<<<grid, block, 0, stream>>>(out, in, d);" in text
    assert "const dim3 grid(num_tokens);\n  const dim3 block(128);\n  silu_and_mul_kernel<<<" in text
    assert text.index("silu_naive<<<") < text.index("silu_and_mul_kernel<<<")


def test_without_an_original_the_caller_is_told():
    assert "return cudaErrorInvalidValue;" in emit_launcher(emit(guarded(), "cuda"))
    assert "applies" not in emit_launcher(emit(saxpy(), "cuda"))
    assert "const dim3 grid((n + 255) / 256);" in emit_launcher(emit(saxpy(), "cuda"))


@needs_nvcc
def test_the_cuda_launcher_compiles_with_its_kernels():
    code, original = emit(guarded(), "cuda"), emit(saxpy(), "cuda")
    scalar = dataclasses.replace(original, kernel=original.kernel)
    text = scalar.text + code.text + emit_launcher(code, "cuda") + emit_launcher(scalar, "cuda")
    check_compile(dataclasses.replace(code, text=text))


def test_the_cupy_launcher_is_python():
    original = emit(silu_vec().with_(name="silu_naive"), "cuda")
    text = emit_launcher(emit(guarded(), "cuda"), "cupy", original)
    tree = ast.parse(text)
    launch = next(n for n in tree.body if isinstance(n, ast.FunctionDef))
    assert [a.arg for a in launch.args.args] == ["out", "in_", "d", "num_tokens", "stream"]
    assert "if not (d % 8 == 0 and out.data.ptr % 16 == 0 and in_.data.ptr % 16 == 0):" in text
    assert '_ORIGINAL.get_function("silu_naive")' in text


@pytest.mark.parametrize(("n", "names"), [(257, ["saxpy"]), (0, []), (-300, [])])
def test_the_cupy_launcher_launches_nothing_where_there_are_no_blocks(
    monkeypatch: pytest.MonkeyPatch, n: int, names: list[str]
) -> None:
    """CuPy launches one block where a grid of none is asked for."""
    text = emit_launcher(emit(saxpy(), "cuda"), "cupy")
    launch, launched = launcher(monkeypatch, text)
    pointers = {p.sym.name: buffer(4096) for p in saxpy().params if isinstance(p.sym.type, Ptr)}
    launch(**pointers, a=1, n=n)
    assert launched == names


def test_opencl_and_hip_and_torch_launchers():
    text = emit_launcher(emit(guarded(), "opencl"))
    assert "clSetKernelArg(kernel, 2, sizeof(d), &d);" in text and "if (!(d % 8 == 0)) {" in text
    assert "const size_t global[3] = {num_tokens * 128, 1, 1};" in text
    assert "hipError_t launch_silu_and_mul_kernel(" in emit_launcher(emit(guarded(), "hip"))
    text = emit_launcher(emit(guarded(), "cuda"), "torch")
    assert "silu_and_mul_kernel(Tensor(a!) out, Tensor in, int d, int num_tokens) -> ()" in text
    assert "at::kHalf" in text


def test_python_expressions_evaluate_as_c_does():
    n, m = fresh("n", I32), fresh("m", I32)
    for e, want in [
        (cdiv(Var(n), i32(8)), 13), (binary("/", Var(n), Var(m)), 14),
        (binary("*", binary("+", Var(n), i32(1)), Var(m)), 707),
        (Call("min", (Var(n), i32(64)), I32), 64), (Select(Binary(">", Var(n), Var(m)), Var(n), Var(m)), 100),
    ]:  # fmt: skip
        compiled = compile(ast.parse(python_text(e), mode="eval"), "e", "eval")
        assert eval(compiled, {"n": 100, "m": 7}) == want


def test_errors():
    with pytest.raises(KtcError) as e:
        emit_launcher(emit(saxpy(), "cuda"), "fortran")
    assert e.value.exit_code == 2
    no_launch = emit(saxpy().with_(launch=None), "cuda")
    with pytest.raises(KtcError) as e:
        emit_launcher(no_launch)
    assert e.value.code == "E-LAUNCH-UNKNOWN"
    with pytest.raises(KtcError):
        emit_launcher(emit(saxpy(), "opencl"), "cupy")


ROWS_IN_SHARED = """
kernel twice(y: f32*, x: f32 const* readonly, rows: i32, n: i32)
  launch grid(rows) block(128)
  par r in 0..rows @ [block.x]
    reduce(max) most: f32 = -(inf) over i in 0..n @ [thread.x 128, seq]
      yield x[r * n + i]
    par i in 0..n @ [thread.x 128, seq]
      y[r * n + i] = x[r * n + i] / most
"""


def in_shared(target: str) -> tuple[Emitted, Emitted]:
    """A row of a length that the sizes decide, kept in shared memory; and the kernel as it came."""
    from ktc.api import loads

    start = loads(ROWS_IN_SHARED)
    tuned = start.apply("row-cache{loop=i.* where=shared} | reduce-strategy{loop=i strategy=shared}")
    renamed = dataclasses.replace(start, kernel=start.kernel.with_(name="twice_original"))
    return tuned.ok.lower(target), renamed.lower("cuda" if target == "cuda" else target)


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_shared_memory_of_a_run_time_size_is_asked_for(target):
    """The launch would fail where the device has less, instead of running the original."""
    code, original = in_shared(target)
    text = emit_launcher(code, target, original)
    assert re.search(r"applies = \(long long\)n \* 4 \+ \d+ <= most_shared", text), text
    assert re.search(rf"{target}DeviceGetAttribute\(\s*&most_shared,\s", text)
    assert f"if (asked != {target}Success) return asked;" in text
    assert text.index("most_shared = 0") < text.index("twice_original<<<") < text.index("  twice<<<")


def test_opencl_and_cupy_ask_the_device_too():
    code, original = in_shared("opencl")
    text = emit_launcher(code, "opencl", original)
    assert "CL_DEVICE_LOCAL_MEM_SIZE" in text and "<= (cl_long)most_shared" in text
    assert text.index("cl_kernel original_kernel") < text.index("clSetKernelArg(original_kernel")
    code, original = in_shared("cuda")
    text = emit_launcher(code, "cupy", original)
    ast.parse(text)
    assert re.search(r'n \* 4 \+ \d+ <= cp.cuda.Device\(\).attributes\["MaxSharedMemoryPerBlockOptin"\]', text)


def test_what_every_device_has_is_not_asked_for():
    k = parse_kernel(ROWS_IN_SHARED)
    assert geometry(k).room is None and not asks_for_room(k)
    small = parse_kernel("kernel k(x: f32*)\n  launch grid(1) block(32) shared(1024)\n  x[0] = 1.0")
    assert geometry(small.with_(trace=("a pass",))).room is None
    large = small.with_(launch=dataclasses.replace(small.launch, dynamic_shared=i32(64 << 10)), trace=("a pass",))
    assert asks_for_room(large) and geometry(large).room.value == 64 << 10


def test_a_size_is_computed_in_64_bits():
    n = Var(fresh("n", I32))
    large = wide(binary("*", binary("+", n, i32(1)), i32(4)))
    assert evaluate(large, {"n": (1 << 30) - 1}) == 1 << 32


@needs_nvcc
def test_the_asking_launcher_compiles():
    code, original = in_shared("cuda")
    both = original.text + code.text.partition("__global__")[1] + code.text.partition("__global__")[2]
    check_compile(dataclasses.replace(code, text=both + emit_launcher(code, "cuda", original)))


def test_the_command_writes_the_original_that_it_falls_back_to():
    from ktc import emission
    from ktc.api import loads

    tuned = loads(ROWS_IN_SHARED).apply("row-cache{loop=i.* where=shared}")
    assert "twice_original<<<" in emission.emit(tuned, "cuda", "launcher", {}, None).text
    assert "twice_original" not in emission.emit(loads(ROWS_IN_SHARED), "cuda", "launcher", {}, None).text


TILED = """
kernel copy(y: f32*, x: f32 const* readonly, rows: i64, n: i32)
  launch grid(1) block(1)
  par r in 0..rows
    par i in 0..n
      y[r * n + i] = x[r * n + i]
"""


def limit_tests(script: str, text: str = TILED) -> list[str]:
    from ktc.api import loads

    return [print_expr(f) for f in geometry(loads(text).apply(script).ok.lowered()).facts]


def test_blocks_that_no_device_takes_are_for_the_original() -> None:
    wide_rows = "distribute{loop=r map=[block.y]} | distribute{loop=i map=[thread.x 128, block.x]}"
    assert limit_tests(wide_rows) == ["rows <= 65535_i64"]  # the other axis keeps to its limit: n is an i32
    assert limit_tests("distribute{loop=r map=[block.x]}") == ["rows <= 2147483647_i64"]
    known = TILED.replace("rows: i64", "rows: i64 range 1..4096")
    assert limit_tests(wide_rows, known) == []
    few = TILED.replace("grid(1)", "grid(1, rows < 100_i64 ? rows : 100_i64)").replace(
        "par r in 0..rows", "par r in 0..4"
    )
    assert limit_tests("distribute{loop=i map=[thread.x 128, block.x]}", few) == []


def test_threads_of_a_run_time_number_are_tested() -> None:
    text = "kernel k(x: f32*, n: i32)\n  launch grid(1) block(n)\n  x[threadIdx.x] = 1.0"
    assert geometry(parse_kernel(text)).facts == ()  # as it came: nobody has another one
    k = parse_kernel(text).with_(trace=("a pass",))
    assert [print_expr(f) for f in geometry(k).facts] == ["n <= 1024_i64"]
    least = parse_kernel(text.replace("block(n)", "block(n < 512 ? n : 512)")).with_(trace=("a pass",))
    assert geometry(least).facts == ()


@pytest.mark.parametrize("kind", ["cuda", "hip", "opencl", "cupy"])
def test_every_launcher_keeps_to_the_limits_of_a_launch(kind: str) -> None:
    from ktc.api import loads

    tuned = loads(TILED).apply("distribute{loop=r map=[block.y]} | distribute{loop=i map=[thread.x 128, block.x]}")
    target = "cuda" if kind == "cupy" else kind
    original = emit(parse_kernel(TILED.replace("copy", "copy_original").replace("par ", "for ")), target)
    text = emit_launcher(tuned.ok.lower(target), kind, original)
    assert re.search(r"rows <= 65535\D", text), text
    assert text.index("65535") < text.rindex("copy_original") if kind != "opencl" else "original_kernel" in text


def test_pointers_to_vectors_are_passed_as_pointers_to_their_elements() -> None:
    from ktc import emission
    from ktc.api import loads

    vectors = """
kernel double(y: f32x4* restrict align 16 noalias, x: f32x4 const* restrict align 16 noalias readonly, n: i32)
  launch grid(cdiv(n, 128)) block(128)
  let i: i32 = i32(blockIdx.x) * 128 + i32(threadIdx.x)
  if i < n
    let v: f32x4 = x[i]
    y[i] = f32x4{v[0] * 2.0, v[1] * 2.0, v[2] * 2.0, v[3] * 2.0}
"""
    raised = loads(vectors).apply("raise").ok
    assert str(raised.kernel.param("x").sym.type.elem) == "f32"
    text = emission.emit(raised, "cuda", "launcher", {}, None).text
    assert "launch_double(float4* y, const float4* x, int n, cudaStream_t stream)" in text
    assert "double_original<<<grid, block, 0, stream>>>(y, x, n);" in text
    assert "(reinterpret_cast<float*>(y), reinterpret_cast<const float*>(x)" in " ".join(text.split())


INNER = """
kernel inner(y: f32* noalias, x: f32 const* noalias readonly, n: i32 RANGE)
  launch grid(cdiv(n, 64)) block(64)
  par i in FIRST..n - 1 @ [thread.x 64, block.x]
    y[i] = x[i]
"""


@pytest.mark.parametrize(
    ("first", "known", "tests"),
    [
        ("1", "", ["cdiv(n - 2_i64, 64_i64) > 0_i64"]),
        ("1", "range 3..4096", []),
        ("-1", "", []),
    ],
)
def test_a_grid_without_blocks_is_for_the_original(first: str, known: str, tests: list[str]) -> None:
    """Which has one for a row of two elements, and does nothing: no blocks are an error of the launch."""
    text = INNER.replace("FIRST", first).replace("RANGE", known)
    assert limit_tests("distribute{loop=i map=[thread.x 64, block.x]}", text) == tests


def test_asynchronous_copies_are_tested_whatever_is_promised_of_a_buffer() -> None:
    source = """
__global__ void k(const float* __restrict__ x, float* __restrict__ y) {
  float s = 0.f;
  for (int j = 0; j < 64; ++j) s += x[blockIdx.x * 64 + j] * threadIdx.x;
  y[blockIdx.x * 64 + threadIdx.x] = s;
}
void go(const float* x, float* y, int n) { k<<<n, 64>>>(x, y); }
"""
    steps = "raise | tile{loops=j sizes=16 tail=exact} | register-tile{loop=j_tile}"
    steps += " | stage-shared{array=x loop=j_tile vec=4} | async-copy{loop=j_tile}"
    done = ktc.loads(source).apply(steps).lower("cuda")
    assert "cp_async_if<16>(" in done.text and "reinterpret_cast<uintptr_t>(x) % 16 == 0" in emit_launcher(done)
