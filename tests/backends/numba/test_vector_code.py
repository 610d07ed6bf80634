"""The printed loops are such that LLVM makes vector instructions of them, and keeps accumulators in registers."""

import numpy as np
import pytest
from llvmlite.binding import get_host_cpu_features

from ktc.agent.embedded.cpu.cpu_nests import Cores
from ktc.agent.embedded.cpu.cpu_products import together
from ktc.backends.numba.numba_calls import F32_CALLS
from ktc.backends.numba.numba_emitter import emit_numba
from ktc.backends.runtimes.cpu_runtime import CpuRuntime
from ktc.driver.printing import printed
from ktc.ir.text import parse_kernel
from tests.passes.checks import applied

from .assembly import IS_X86, hot, loops

HEAD = "kernel k(x: f32 const* restrict, y: f32* restrict, n: i32, m: i32)\n  launch grid(1) block(32)\n"

ROWS = "4" if get_host_cpu_features().get("avx512vl") else "2"
"""Rows of 32 floats that vector registers hold beside what is added to them: there are 32, or 16, of 256 bits."""

LOOPS = {
    "stream": "  par i in 0..n @ [thread.x 32, block.x]\n    y[i] = x[i] * 2.0 + y[i]\n",
    "tiles of a few": "  par b in 0..n @ [block.x]\n    for t in 0..m\n      par i in 0..32 @ [thread.x 32, seq]\n"
    "        y[(b * m + t) * 32 + i] = x[(b * m + t) * 32 + i] * 2.0\n",
    "stencil": "  par r in 1..n - 1 @ [block.x]\n    par c in 1..m - 1 @ [thread.x 32, seq]\n"
    "      y[r * m + c] = x[r * m + c - 1] + x[r * m + c + 1] + x[(r - 1) * m + c] + x[(r + 1) * m + c]\n",
    "sum": "  par r in 0..n @ [block.x]\n    reduce(+) s: f32 = 0.0 over i in 0..m @ [thread.x 32, seq]\n"
    "      yield x[r * m + i] * x[r * m + i]\n    y[r] = s\n",
    "maximum": "  par r in 0..n @ [block.x]\n    reduce(max) s: f32 = -inf over i in 0..m @ [thread.x 32, seq]\n"
    "      yield x[r * m + i]\n    y[r] = s\n",
    "tile of registers": (
        "  par r in 0..cdiv(n, ROWS) @ [block.x]\n    array acc: f32[ROWS, 32]\n"
        "    par a in 0..ROWS @ [seq]\n      par c in 0..32 @ [thread.x 32, seq]\n        acc[a, c] = 0.0\n"
        "    for k in 0..m\n"
        "      par a in 0..min(ROWS, n - r * ROWS) @ [seq]\n        par c in 0..32 @ [thread.x 32, seq]\n"
        "          acc[a, c] += x[(r * ROWS + a) * m + k] * x[k * 32 + c]\n"
        "    par a in 0..min(ROWS, n - r * ROWS) @ [seq]\n      par c in 0..32 @ [thread.x 32, seq]\n"
        "        y[(r * ROWS + a) * 32 + c] = acc[a, c]\n"
    ).replace("ROWS", ROWS),
}


@pytest.fixture(scope="module")
def runtime(tmp_path_factory):
    """With a cache of its own: of what is in a cache there is no assembly."""
    patch = pytest.MonkeyPatch()
    patch.setenv("KTC_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield CpuRuntime()
    patch.undo()


def assembly(runtime, body, head=HEAD):
    """Of the function that one iteration of the outermost loop runs."""
    exe = runtime.compile(printed(parse_kernel(head + body), "numba"))
    return "\n".join(exe.module.k_grid_body.inspect_asm().values())


@pytest.mark.skipif(not IS_X86, reason="reads x86 assembly")
@pytest.mark.parametrize("name", LOOPS)
def test_the_hot_loop_is_made_of_vector_instructions(runtime, name):
    loop = hot(assembly(runtime, LOOPS[name]))
    assert loop.packed > loop.scalar == 0 and not loop.calls, loop.lines


@pytest.mark.skipif(not IS_X86, reason="reads x86 assembly")
@pytest.mark.parametrize("name", ["sum", "maximum", "tile of registers"])
def test_accumulators_are_registers(runtime, name):
    loop = hot(assembly(runtime, LOOPS[name]))
    assert not loop.stores, loop.lines


@pytest.mark.skipif(not IS_X86, reason="reads x86 assembly")
@pytest.mark.parametrize("narrow", ["f16", "bf16", "e4m3", "e5m2"])
def test_narrow_floats_are_converted_in_vectors(runtime, narrow):
    head = HEAD.replace("f32", narrow)
    body = "  par i in 0..n @ [thread.x 32, block.x]\n    y[i] = " + f"{narrow}(f32(x[i]) * 2.0 + f32(y[i]))\n"
    loop = hot(assembly(runtime, body, head))
    assert loop.packed > loop.scalar == 0 and not loop.calls, loop.lines


@pytest.mark.skipif(not IS_X86, reason="reads x86 assembly")
def test_quantising_is_done_in_vectors(runtime):
    head = HEAD.replace("y: f32", "y: i8")
    loop = hot(assembly(runtime, "  par i in 0..n @ [thread.x 32, block.x]\n    y[i] = i8(rint(x[i] * 2.0))\n", head))
    assert loop.packed > loop.scalar == 0 and not loop.calls, loop.lines
    assert not any("cvttps2qq" in line for line in loop.lines)


@pytest.mark.skipif(not IS_X86, reason="reads x86 assembly")
@pytest.mark.parametrize("function", [*F32_CALLS, "sqrt", "abs", "floor", "rint"])
def test_functions_are_vector_instructions(runtime, function):
    arguments = "x[i], y[i]" if function == "pow" else "x[i]"
    body = f"  par i in 0..n @ [thread.x 32, block.x]\n    y[i] = {function}({arguments}) * 2.0\n"
    loop = hot(assembly(runtime, body))
    assert loop.packed > loop.scalar == 0 and not loop.calls, loop.lines


@pytest.mark.skipif(not IS_X86, reason="reads x86 assembly")
def test_many_arrays_that_do_not_overlap(runtime):
    """More of them than LLVM compares the addresses of."""
    names = "abcdefgh"
    inputs = ", ".join(f"{n}: f32 const* restrict" for n in names)
    outputs = ", ".join(f"{n}_out: f32* restrict" for n in names)
    head = f"kernel k({inputs}, {outputs}, n: i32)\n  launch grid(1) block(32)\n"
    body = "  par i in 0..n @ [thread.x 32, block.x]\n" + "".join(f"    {n}_out[i] = {n}[i] + 1.0\n" for n in names)
    assert hot(assembly(runtime, body, head)).packed >= len(names)


def test_sums_of_products_are_rounded_once_or_twice_a_step(runtime):
    body = (
        "  par r in 0..n @ [block.x]\n    var s: f32 = y[r]\n    for i in 0..m\n      s += x[i] * x[r]\n    y[r] = s\n"
    )
    emitted = emit_numba(parse_kernel(HEAD + body))
    assert "s = muladd(" in emitted.text
    x = np.random.default_rng(0).standard_normal(8).astype(np.float32)
    y = np.ones(8, np.float32)
    runtime.compile(emitted).launch({"x": x, "y": y, "n": 8, "m": 1})
    once = (x[0].astype(np.float64) * x + 1).astype(np.float32)
    assert np.all((y == once) | (y == x[0] * x + np.float32(1)))


def test_overlapping_arrays_give_what_the_order_gives(runtime):
    """The option that arrays do not overlap is for kernels that say so."""
    body = "  par r in 0..1 @ [block.x]\n    for i in 0..n\n      y[i] = x[i] * 2.0 + y[i]\n"
    exe = runtime.compile(emit_numba(parse_kernel(HEAD.replace(" restrict", "") + body)))
    memory = np.arange(100, dtype=np.float32)
    want = memory.copy()
    for i in range(99):
        want[i + 1] = want[i] * 2 + want[i + 1]
    exe.launch({"x": memory[:99], "y": memory[1:], "n": 99, "m": 1})
    assert np.array_equal(memory, want)


def test_cut_off_tiles_are_right(runtime):
    exe = runtime.compile(printed(parse_kernel(HEAD + LOOPS["tile of registers"]), "numba"))
    for n in (1, 4, 7, 8):
        a = np.random.default_rng(n).integers(-3, 4, n * 32 if n > 32 else 32 * 32).astype(np.float32)
        y = np.zeros(n * 32, np.float32)
        exe.launch({"x": a, "y": y, "n": n, "m": 32})
        assert np.array_equal(y.reshape(n, 32), a[: n * 32].reshape(n, 32) @ a[: 32 * 32].reshape(32, 32))


def test_large_private_arrays_are_on_the_heap():
    """Stacks of threads are small: neither one large array is there, nor many small ones."""
    body = "  par r in 0..n @ [block.x]\n" + "".join(
        f"    array a{k}: f32[{size}]\n" for k, size in enumerate([8192] + [4096] * 9)
    )
    body += (
        "".join(f"    a{k}[r] = x[r]\n" for k in range(10))
        + "    y[r] = "
        + " + ".join(f"a{k}[r]" for k in range(10))
        + "\n"
    )
    text = emit_numba(parse_kernel(HEAD + body)).text
    assert text.count("_array()") == 8 and text.count("np.empty(") == 2


def test_filling_a_large_array_is_a_call(runtime):
    """Its stores written out took the compiler seconds."""
    body = """\
  par r in 0..n @ [block.x]
    array a: f32[64, 256]
    par p in 0..64 @ [seq]
      par q in 0..256 @ [thread.x 32, seq]
        a[p, q] = 0.0
    for t in 0..m
      a[t % 64, x[t] as i32] = x[t]
    y[r] = a[r % 64, m]
"""
    assert "memset" in assembly(runtime, body)


@pytest.mark.skipif(not IS_X86, reason="reads x86 assembly")
@pytest.mark.parametrize("part", [1, 2])
def test_a_product_in_packed_blocks_holds_its_results_in_registers(runtime, part):
    """The loop over terms: products of vectors, what they read, and no store; with all of the registers for results
    and with half of them."""
    body = """\
  par i in 0..n @ [block.y]
    par j in 0..m @ [block.x]
      var s: f32 = 0.0
      for k in 0..m
        s += x[i * m + k] * w[k * m + j]
      y[i * m + j] = s
"""
    head = HEAD.replace("y: f32*", "w: f32 const* restrict, y: f32*")
    columns = together(Cores.of(runtime.device), 4) // part
    script = (
        "tile{loops=i,j sizes=8,64} | tile{loops=k sizes=32} | register-tile{loop=k_tile}"
        f" | stage-shared{{array=w loop=k_tile copy=rows fill=none}} | tile{{loops=i_1,j_1 sizes=4,{columns}}}"
        " | promote{loop=k} | register-tile{loop=k} | map{i.*=[seq] j.*=[seq]}"
    )
    exe = runtime.compile(printed(applied(parse_kernel(head + body), script), "numba"))
    text = "\n".join(exe.module.k_grid_body.inspect_asm().values())
    products = [loop for loop in loops(text) if any("fmadd" in line or "mulps" in line for line in loop.lines)]
    assert any(not loop.stores and loop.scalar == 0 and loop.packed >= 8 for loop in products)
    sizes = {"n": 13, "m": 71}
    x, w = (np.random.default_rng(0).integers(-3, 4, n).astype(np.float32) for n in (13 * 71, 71 * 71))
    y = np.zeros(13 * 71, np.float32)
    exe.launch({"x": x, "w": w, "y": y, **sizes})
    assert np.array_equal(y.reshape(13, 71), x.reshape(13, 71) @ w.reshape(71, 71))
