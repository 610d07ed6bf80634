"""The text for a processor's cores: loops without calls, sums in lanes, what follows the tasks done by the last one."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from ktc.backends.base import Emitted, Runtime
from ktc.backends.opencl.inline_math import VECTOR_MATH
from ktc.backends.runtimes import open_device
from ktc.driver.printing import printed
from ktc.ir.text import parse_kernel, print_kernel
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.lowering.cores.last_task import in_one_launch
from ktc.passes.lowering.cores.tasks import as_tasks
from tests import devices

CPU = "opencl-cpu"


@pytest.fixture
def cores() -> Runtime:
    runtime = devices.working("opencl")
    if not runtime.device.is_cpu:
        pytest.skip("no OpenCL on a processor here")
    return open_device(runtime.device.extra["opened"])


def run(runtime: Runtime, code: Emitted, times: int = 1, **args: object) -> list[dict[str, np.ndarray]]:
    """The arrays after each of several launches on the same inputs."""
    exe, out = runtime.compile(code), []
    for _ in range(times):
        held = {n: runtime.to_device(v) if isinstance(v, np.ndarray) else v for n, v in args.items()}
        exe.launch(held)
        runtime.synchronize()
        out.append({n: runtime.to_host(held[n], v) for n, v in args.items() if isinstance(v, np.ndarray)})
    return out


STREAM = """
kernel k(y: f32* restrict noalias, x: f32 const* restrict noalias, n: i32)
  par i in 0..n @ [vec 4, thread.x 64, block.x]
    y[i] = {value}
"""


def test_a_stream_is_a_loop_of_a_task() -> None:
    text = printed(parse_kernel(STREAM.format(value="min(x[i], 1.0)")), CPU).text
    assert "reqd_work_group_size(1, 1, 1)" in text
    assert re.search(
        r"for \(int i = i_task \* 256; i < i_task \* 256 \+ min_int\(256, n - i_task \* 256\); \+\+i\)", text
    )


@pytest.mark.parametrize("value", ["exp(x[i])", "min(sqrt(x[i]), floor(x[i]))", "fma(x[i], x[i], x[i])", "tanh(x[i])"])
def test_what_a_loop_calls_is_inlined(value: str) -> None:
    """A built-in function that a runtime keeps out of line keeps the loop around it one of scalars."""
    text = printed(parse_kernel(STREAM.format(value=value)), CPU).text
    loops = text[text.index("__kernel") :]
    called = set(re.findall(r"(\w+)\(", loops)) - {"for", "k", "__attribute__", "get_group_id"}
    defined = set(re.findall(r"static inline __attribute__\(\(always_inline\)\) \w+ (\w+)\(", text))
    defined |= set(re.findall(r"#define (\w+) ", text))
    assert called and all(name in defined or name.startswith("__builtin_") for name in called), called - defined


WITHIN = {
    name: float(m[1]) for name, f in VECTOR_MATH.items() if (m := re.search(r" within ([\d.]+) units", f.text))
}  # fmt: skip
REFERENCES = {"exp": np.exp, "exp2": np.exp2, "log": np.log, "tanh": np.tanh, "erf": np.vectorize(math.erf)}


@pytest.mark.parametrize("name", WITHIN)
def test_errors_are_as_the_text_says(cores: Runtime, name: str) -> None:
    bits = np.arange(0, 1 << 32, 60013, dtype=np.uint32)
    special = np.array([math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-45, -1e-45, 88.72283, -103.97208], np.float32)
    x = np.concatenate([bits.view(np.float32), special])
    code = printed(parse_kernel(STREAM.format(value=f"{name}(x[i])")), CPU)
    (got,) = run(cores, code, y=np.zeros_like(x), x=x, n=x.size)
    with np.errstate(all="ignore"):
        want = REFERENCES[name](x.astype(np.float64))
        near = want.astype(np.float32)
        unit = np.maximum(np.spacing(np.abs(near)).astype(np.float64), 2.0**-149)
        off = np.abs(got["y"].astype(np.float64) - want) / unit
    assert np.array_equal(np.isnan(got["y"]), np.isnan(near))
    rest = np.isfinite(near) & np.isfinite(got["y"])
    assert np.max(off[rest]) <= WITHIN[name]
    assert np.array_equal(got["y"][~rest & ~np.isnan(near)], near[~rest & ~np.isnan(near)])


ROWS = """
kernel k(y: f32* restrict noalias, x: f32 const* restrict noalias, n: i32, d: i32)
  par row in 0..n @ [block.x]
    reduce({op}) s: f32 = {start} over i in 0..d @ [thread.x 64, seq]
      yield x[row * d + i]
    y[row] = s
"""


@pytest.mark.parametrize("op, start, reference", [("+", "0.5", np.sum), ("max", "0.0", np.max), ("min", "0.0", np.min)])
@pytest.mark.parametrize("d", [1, 63, 64, 65, 1000])
def test_sums_in_lanes(cores: Runtime, op: str, start: str, reference: object, d: int) -> None:
    x = np.random.default_rng(d).standard_normal((7, d)).astype(np.float32)
    code = printed(parse_kernel(ROWS.format(op=op, start=start)), CPU)
    got = run(cores, code, times=2, y=np.zeros(7, np.float32), x=x, n=7, d=d)
    wide = reference(x.astype(np.float64), axis=1)  # type: ignore[operator]
    want = wide + 0.5 if op == "+" else np.maximum(wide, 0) if op == "max" else np.minimum(wide, 0)
    assert np.array_equal(got[0]["y"], want.astype(np.float32)), "doubles, rounded once"
    assert np.array_equal(got[0]["y"], got[1]["y"])


COLUMNS = """
kernel k(out: f32* restrict noalias, x: f32 const* restrict noalias, n: i32, d: i32)
  par j in 0..d @ [thread.x 64, block.x]
    reduce(+) s: f32 = 0.0 over i in 0..n @ [seq]
      yield x[i * d + j]
    out[j] = s
"""
PARTS = "rfactor{loop=i parts=5}"


def test_what_follows_the_tasks_is_done_by_the_last(cores: Runtime) -> None:
    kernel = apply_script(parse_kernel(COLUMNS), parse_script(PARTS)).kernel
    code = printed(kernel, CPU)
    assert "ticket" in code.text and code.text.count("__kernel") == 1
    x = np.random.default_rng(3).standard_normal((301, 77)).astype(np.float32)
    got = run(cores, code, times=20, out=np.zeros(77, np.float32), x=x, n=301, d=77)
    assert np.allclose(got[0]["out"], x.sum(0, dtype=np.float64), rtol=1e-5, atol=1e-4)
    assert all(np.array_equal(g["out"], got[0]["out"]) for g in got), "the counter is as it was before"


COUNTS = """
kernel k(count: u32* restrict noalias, x: u8 const* restrict noalias, n: i32)
  par i in 0..n @ [thread.x 64, block.x]
    atomic add count[x[i] as i32], 1_u32
"""


def test_counts_of_a_task_need_no_atomics(cores: Runtime) -> None:
    kernel = apply_script(parse_kernel(COUNTS), parse_script("rfactor-atomics{loop=i bins=256 parts=4}")).kernel
    code = printed(kernel, CPU)
    x = np.random.default_rng(4).integers(0, 256, 10_007).astype(np.uint8)
    (got,) = run(cores, code, count=np.ones(256, np.uint32), x=x, n=x.size)
    assert np.array_equal(got["count"], np.bincount(x, minlength=256) + 1)
    assert "atomic_add(" not in code.text.partition("ticket")[0].partition("__kernel")[2]


SHARED = """
kernel k(y: f32* restrict noalias, x: f32 const* restrict noalias, n: i32)
  par tile in 0..n @ [block.x]
    array t: shared f32[64]
    par i in 0..64 @ [thread.x 64]
      t[i] = x[tile * 64 + i]
    par i in 0..64 @ [thread.x 64]
      y[tile * 64 + i] = t[63 - i]
"""


def test_arrays_that_threads_share_are_the_tasks_own() -> None:
    kernel = in_one_launch(as_tasks(parse_kernel(SHARED)))
    text = print_kernel(kernel)
    assert "f32[64]" in text and "shared" not in text and "barrier" not in text and "threadIdx" not in text


UNSIZED = """
kernel k(y: f32* restrict noalias, x: f32 const* restrict noalias, n: i32, d: i32)
  par row in 0..n @ [block.x]
    array t: shared f32[d]
    par i in 0..d @ [thread.x 64, seq]
      t[i] = x[row * d + i]
    par i in 0..d @ [thread.x 64, seq]
      y[row * d + i] = t[d - 1 - i]
"""


def test_a_launch_provides_arrays_whose_size_it_alone_knows(cores: Runtime) -> None:
    """C has no private array of a variable length."""
    code = printed(parse_kernel(UNSIZED), CPU)
    assert "__local float* t" in code.text
    x = np.arange(6 * 37, dtype=np.float32).reshape(6, 37)
    (got,) = run(cores, code, y=np.zeros_like(x), x=x, n=6, d=37)
    assert np.array_equal(got["y"], x[:, ::-1])


def test_another_device_gets_threads() -> None:
    assert "get_local_id" in printed(parse_kernel(SHARED), "opencl-cl12").text


def test_what_follows_runs_where_there_is_no_task_before_it(cores: Runtime) -> None:
    """Five rows, eight at a time: no task, and a rest. (Found by fuzzing.)"""
    kernel = parse_kernel(ROWS.format(op="+", start="0.0").replace("[block.x]", "[unroll 8, block.x]"))
    x = np.random.default_rng(5).standard_normal((5, 100)).astype(np.float32)
    (got,) = run(cores, printed(kernel, CPU), y=np.zeros(5, np.float32), x=x, n=5, d=100)
    assert np.array_equal(got["y"], x.sum(1, dtype=np.float64).astype(np.float32))
