"""Every OpenCL C built-in of numbers on edge values: what a device makes of the text, and what ktc makes of it.

One kernel for each type and number of lanes calls them all. Its text is compiled as it stands; what ktc read from it
runs in the interpreter, and on the device as ktc prints it.
"""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Iterator

import numpy as np
import pytest

from ktc.api import Program
from ktc.ir.builtins import Builtin, lookup, table
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from ktc.ir.frontend.dialects.opencl_overloads import has_overloads
from ktc.ir.interp import run
from ktc.ir.kernel import Launch
from ktc.ir.nodes import i32
from ktc.ir.types import VOID
from tests.devices import opencl

TABLE = table("frontend/dialects/opencl.txt")

SHARED = [
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign", "cos", "cosh",
    "cospi", "erf", "erfc", "exp", "exp2", "exp10", "expm1", "fdim", "floor", "fma", "fmax", "fmin", "fmod",
    "hypot", "ldexp", "lgamma", "log", "log2", "log10", "log1p", "logb", "pow", "remainder", "rint", "round",
    "rsqrt", "sin", "sinh", "sinpi", "sqrt", "tan", "tanh", "tgamma", "trunc"
]  # fmt: skip
"""Functions that OpenCL C has in common with CUDA, whose table has their rows."""

LATER = {"ctz": 200, "mad_sat": 0}
"""Functions that OpenCL C 1.2 lacks, and the version that has them."""

LOOSE = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "cospi", "erf", "erfc",
    "exp", "exp2", "exp10", "expm1", "hypot", "log", "log2", "log10", "log1p", "pow", "rsqrt", "sin", "sinh",
    "sinpi", "sqrt", "tan", "tanh", "degrees", "radians", "mix", "smoothstep", "mad", "native_recip",
)  # fmt: skip
ULPS = dict.fromkeys(LOOSE, 8) | {"powr": 16, "pown": 16, "rootn": 16, "tgamma": 64, "lgamma": 1 << 20}
"""How far results may be apart; all that is not here is exact."""

FASTER = 1e-3
"""How far, relatively, ``native_`` and ``half_`` functions may be apart."""

NO_SIGN_OF_ZERO = {"min", "max", "fmin", "fmax", "clamp", "maxmag", "minmag"}
FINITE_ONLY = {"min", "max", "clamp", "mix", "step", "smoothstep"}
"""Of infinities and NaN these are undefined (OpenCL C 3.0, 6.15.4)."""

FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -2.5, 2.0, 3.0, -3.0, 7.25, 100.0, -1e-3, np.inf, -np.inf, np.nan]
COUNTS = [0, 1, -1, 2, 3, -3, 5, 64, 100, -100, 2**24 + 1, -(2**24) - 1, 2**31 - 1, -(2**31)]

CTYPES = {
    "f32": ("float", np.float32), "f64": ("double", np.float64), "i8": ("char", np.int8), "u8": ("uchar", np.uint8),
    "i16": ("short", np.int16), "u16": ("ushort", np.uint16), "i32": ("int", np.int32), "u32": ("uint", np.uint32),
    "i64": ("long", np.int64), "u64": ("ulong", np.uint64),
}  # fmt: skip


def values(t: str) -> np.ndarray:
    dtype = CTYPES[t][1]
    if t[0] == "f":
        info = np.finfo(dtype)
        return np.array([*FLOATS, info.max, info.tiny, -info.max], dtype)
    info = np.iinfo(dtype)
    few = [0, 1, 2, 3, 7, 8, 9, 31, 33, 100, int(info.max), int(info.min), int(info.max) - 1, int(info.min) + 1]
    signed = [-1, -2, -7, -100] if info.min else [int(info.max) // 3, int(info.max) // 2 + 1, 64, 77]
    return np.array(few + signed + [int(info.max) // 5 * 3, int(info.max) // 2], dtype)


def inputs(t: str) -> dict[str, np.ndarray]:
    """Every pair of edge values in ``a`` and ``b``, others in ``c``; counts in ``n``."""
    v = values(t)
    pairs = list(itertools.product(v, v))
    third = [v[(7 * i + i // len(v)) % len(v)] for i in range(len(pairs))]
    with np.errstate(all="ignore"):
        a, b = (np.array([p[k] for p in pairs], v.dtype) for k in (0, 1))
    n = np.array([COUNTS[(i + i // len(v)) % len(COUNTS)] for i in range(len(pairs))], np.int32)
    return {"a": a, "b": b, "c": np.array(third, v.dtype), "n": n}


def functions(t: str) -> Iterator[Builtin]:
    """The rows that a kernel of type ``t`` calls."""
    for rows in (*TABLE.values(), *(lookup(name) for name in SHARED)):
        for row in rows:
            letters = {p.type for p in row.params if isinstance(p.type, str)}
            own = {"F": t[0] == "f", "I": t[0] != "f", "T": True}
            if not has_overloads((row,)) or row.ret == VOID or row.name in LATER:
                continue
            if not letters and t != str(row.params[0].type):
                continue
            if letters and not all(own.get(str(x), True) for x in letters):
                continue
            if row.kind in ("any", "all") and t[0] != "i":
                continue
            yield row


def integer(t: str) -> str:
    return "i" + t[1:]


def result(row: Builtin, t: str, lanes: int) -> str:
    if row.ret == "U":
        return "u" + t[1:]
    if row.kind in ("any", "all") or (row.ret == "R" and lanes == 1):
        return "i32"
    if row.ret == "R":
        return integer(t)
    return t if isinstance(row.ret, str) else str(row.ret)


def spelled(t: str, lanes: int) -> str:
    return CTYPES[t][0] + (str(lanes) if lanes > 1 else "")


def kernel_text(rows: list[Builtin], t: str, lanes: int) -> str:
    params = [f"global const {spelled(t, lanes)}* {x}" for x in "abc"] + [f"global const {spelled('i32', lanes)}* n"]
    body = []
    for k, row in enumerate(rows):
        out = result(row, t, lanes)
        params.append(f"global {spelled(out, 1 if row.kind in ('any', 'all') else lanes)}* o{k}")
        body.append(f"  o{k}[i] = {row.name}({', '.join(arguments(row, t, lanes))});\n")
    return f"kernel void k({', '.join(params)}) {{\n  int i = get_global_id(0);\n{''.join(body)}}}\n"


def arguments(row: Builtin, t: str, lanes: int) -> Iterator[str]:
    for x, p in zip("abc", row.params):
        if p.type == "C":
            yield f"as_{spelled(integer(t), lanes)}({x}[i])"
        elif not isinstance(p.type, str) and str(p.type) != t:
            yield "n[i]"
        else:
            yield f"{x}[i]"


def device() -> tuple:
    """An OpenCL device with double precision that works, else the test is skipped."""
    return opencl("cl_khr_fp64")


def on_device(text: str, args: dict[str, np.ndarray], items: int, options: tuple = ()) -> list[np.ndarray]:
    cl, context, queue = device()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        built = cl.Program(context, text).build(options=list(options), cache_dir=False)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffers = [cl.Buffer(context, flags, hostbuf=a) for a in args.values()]
    kernel = cl.Kernel(built, "k")
    kernel.set_args(*buffers)
    cl.enqueue_nd_range_kernel(queue, kernel, (items,), (1,))
    out = []
    for name, a in args.items():
        host = np.empty_like(a)
        cl.enqueue_copy(queue, host, buffers[list(args).index(name)])
        out.append(host)
    queue.finish()
    return out


def apart(row: Builtin, t: str, args: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray, lanes: int) -> np.ndarray:
    """Where results ``x`` and ``y`` of a function are further apart than it may be."""
    if row.kind in ("any", "all"):
        return np.flatnonzero(x != y)
    skip = np.zeros(len(x), bool)
    used = [args[e[0] if e[0] in "abcn" else e[e.index("(") + 1]] for e in arguments(row, t, lanes)]
    stem = row.name
    fast = stem.startswith(("native_", "half_"))
    with np.errstate(all="ignore"):
        if stem in FINITE_ONLY:
            skip |= ~np.all([np.isfinite(a) for a in used], axis=0)
            skip |= (np.abs(x) > 1e30) if t[0] == "f" and stem in ("mix", "smoothstep") else False
        if stem == "clamp":
            skip |= used[1] > used[2]
        if stem == "smoothstep":
            skip |= used[0] >= used[1]
        if stem in ("mul24", "mad24"):
            skip |= (np.abs(used[0].astype(float)) >= 2**23) | (np.abs(used[1].astype(float)) >= 2**23)
        if fast:
            skip |= ~np.all([(np.abs(a) < 50) & (np.abs(a) > 0.1) for a in used], axis=0)
            skip |= used[0] < 0 if stem.endswith("powr") else False
        if stem == "mad":  # whether the product is rounded, or overflows, is left open
            skip |= ~(np.abs(used[0] * used[1]) < 1e30)
        if x.dtype.kind != "f":
            bad = x != y
        elif fast:
            bad = ~(np.isclose(x, y, rtol=FASTER, atol=FASTER, equal_nan=True))
        else:
            bad = ~((x == y) | (np.isnan(x) & np.isnan(y)))
            if stem in ULPS:
                bad &= ~(np.abs(x - y) <= ULPS[stem] * np.spacing(np.maximum(np.abs(x), np.finfo(x.dtype).tiny)))
            elif stem not in NO_SIGN_OF_ZERO:
                bad |= (x == 0) & (y == 0) & (np.signbit(x) != np.signbit(y))
    return np.flatnonzero(bad & ~skip)


CASES: list = [(t, 1) for t in ("f32", "f64", "i8", "i32", "u32")] + [(t, 4) for t in ("f32", "u8", "u64")]
CASES += [pytest.param(t, n, marks=pytest.mark.campaign) for t, n in (("i16", 1), ("i64", 1), ("u16", 4), ("i32", 4))]


@functools.cache
def compared(t: str, lanes: int) -> tuple[list[Builtin], dict, list]:
    """The functions of a kernel, its inputs, and the outputs of the interpreter, of the device and of ktc's text."""
    rows = list(functions(t))
    text = kernel_text(rows, t, lanes)
    given = inputs(t)
    items = len(given["a"]) // lanes
    args = dict(given)
    for k, row in enumerate(rows):
        whole = row.kind in ("any", "all")
        args[f"o{k}"] = np.zeros(items if whole else items * lanes, CTYPES[result(row, t, lanes)][1])
    kernel = load(text, name="k.cl")
    kernel = kernel.with_(launch=Launch((i32(items), i32(1), i32(1)), (i32(1), i32(1), i32(1))))
    shaped = {x: v if lanes == 1 or len(v) == items else v.reshape(items, lanes) for x, v in args.items()}
    with np.errstate(all="ignore"):
        ran = run(kernel, {x: np.copy(v) for x, v in shaped.items()})
    interpreted = [np.asarray(ran.outputs[f"o{k}"]).reshape(-1) for k in range(len(rows))]
    code = Program(kernel, original=kernel).lower("opencl")
    return rows, args, [interpreted, on_device(text, args, items)[4:], on_device(code.text, args, items)[4:]]


@pytest.mark.parametrize("t, lanes", CASES)
def test_what_is_read_computes_what_the_text_computes(t: str, lanes: int) -> None:
    device()
    rows, args, (interpreted, original, printed) = compared(t, lanes)
    assert len(rows) > 15
    wrong = []
    for row, a, b, c in zip(rows, interpreted, original, printed):
        for who, got in (("interpreter", a), ("printed", c)):
            at = apart(row, t, args, b, got, lanes)
            if at.size:
                i = int(at[0])
                operands = [args[x][i] if len(args[x]) == len(b) else None for x in "abcn"]
                wrong.append(f"{row.name} {who}: {operands} is {b[i]!r}, not {got[i]!r}; {at.size} of {len(b)}")
    assert wrong == [], "\n".join(wrong)


# ------------------------------------------------------------------------------------------------- without a device


def computed(body: str, out: str = "float", n: int = 4, extension: str = "", **args: np.ndarray) -> np.ndarray:
    """``y`` after ``body`` in the interpreter, which may read ``x``."""
    kinds = {"float32": "float", "float64": "double", "int32": "int", "float16": "half", "int16": "short"}
    params = "".join(f", global const {kinds[str(v.dtype)]}* {x}" for x, v in args.items())
    kernel = load(f"{extension}\nkernel void k(global {out}* y{params}) {{ {body} }}", name="k.cl")
    kernel = kernel.with_(launch=Launch((i32(1),) * 3, (i32(1),) * 3))
    dtype = {s: np.dtype(d) for s, d in CTYPES.values()} | {"half": np.dtype(np.float16)}
    with np.errstate(all="ignore"):
        return run(kernel, {"y": np.zeros(n, dtype[out]), **args}).outputs["y"]


X = np.array([0.1, -2.0, np.nan, 7.5], np.float32)


@pytest.mark.parametrize(
    "body, expected",
    [
        ("y[0] = sizeof(pow(x[0], 2)); y[1] = sizeof(fma(x[0], 2, 1)); y[2] = sizeof(pow(2.0, 3));", [4, 4, 8]),
        ("y[0] = sizeof(fmax(x[0], 0)); y[1] = sizeof(abs_diff((char)1, (char)2)); y[2] = sizeof(pown(x[0], 3));",
         [4, 1, 4]),
        ("y[0] = fma(x[0], 3, 0) == 0.1f * 3.0f; y[1] = pown(-1.0f, 16777217); y[2] = abs(-3) > -1;", [1, -1, 0]),
        ("y[0] = rotate((uchar)0x81, (uchar)1); y[1] = popcount((char)-1); y[2] = clz((short)1);", [3, 8, 15]),
        ("y[0] = popcount(-1L); y[1] = mul_hi((ulong)-1, 2ul); y[2] = mad_hi(1 << 30, 4, 5);", [64, 1, 6]),
        ("y[0] = ctz(8u); y[1] = ctz((uchar)0); y[2] = mad_sat(1 << 30, 4, 5) == 0x7fffffff;", [3, 8, 1]),
        ("y[0] = isless(1.0f, 2.0f); y[1] = isnan(x[2]); y[2] = any(1) + 2 * any(-1) + 4 * all(0);", [1, 1, 2]),
        ("float w; y[0] = fract(INFINITY, &w); y[1] = w == INFINITY; y[2] = isnan(fract(x[2], &w));", [0, 1, 1]),
        ("float2 z = normalize((float2)(0.0f)); y[0] = z.x; y[1] = z.y; y[2] = normalize((float2)(0, 2.0f)).y;",
         [0, 0, 1]),
    ],
)  # fmt: skip
def test_scalars(body: str, expected: list) -> None:
    np.testing.assert_array_equal(computed(body, x=X)[: len(expected)], np.array(expected, np.float32))


@pytest.mark.parametrize(
    "body, expected",
    [
        ("vstore4(isless((float4)(1.0f), vload4(0, x)), 0, y);", [0, 0, 0, -1]),
        ("vstore4(isnan(vload4(0, x)), 0, y);", [0, 0, -1, 0]),
        ("vstore4(signbit(vload4(0, x)), 0, y);", [0, -1, 0, 0]),
        ("vstore4(select((int4)(5), (int4)(6), (int4)(1, -1, 0x7fffffff, 0x80000000)), 0, y);", [5, 6, 5, 6]),
        ("vstore4((int4)(1, -1, 0, -5) ? (int4)(6) : 5, 0, y);", [5, 6, 5, 6]),
        ("vstore4(vload4(0, x) > 0.0f ? 1 : 2, 0, y);", [1, 2, 2, 1]),
        ("vstore4(!(int4)(0, 1, -1, 0), 0, y);", [-1, 0, 0, -1]),
        ("vstore4((int4)(0, 1, -1, 2) && 1, 0, y);", [0, -1, -1, -1]),
        ("vstore4(0 || (int4)(0, 1, -1, 2), 0, y);", [0, -1, -1, -1]),
        ("int4 v = (int4)(1, 2, 3, -4); y[0] = any(v); y[1] = all(v); y[2] = all(-v * v); y[3] = any(v > 4);",
         [1, 0, 1, 0]),
        ("vstore4(abs((int4)(-1, 2, -3, 4)), 0, (global uint*)y);", [1, 2, 3, 4]),
        ("vstore4(convert_int4(clamp(vload4(0, x), 0, 2)), 0, y); y[2] = 9;", [0, 0, 9, 2]),
    ],
)  # fmt: skip
def test_vectors(body: str, expected: list) -> None:
    assert computed(body, "int", x=X).tolist() == expected


def test_comparisons_of_doubles_are_longs_in_vectors() -> None:
    d = np.array([1.0, 3.0], np.float64)
    assert computed("long2 t = isgreater(vload2(0, x), (double2)(2.0)); vstore2(t, 0, y);", "long", x=d)[
        :2
    ].tolist() == [0, -1]


@pytest.mark.parametrize(
    "call",
    ["clamp(x[0], 0.0, 1.0)", "max(x[0], 0)", "sqrt(3)", "pow(x[0], 2.0)", "min(3u, 2)", "select(1.0, 2.0, 1)",
     "rotate(1u, 2)", "mul24(3u, 2)", "mix(x[0], 1, 0.5)", "abs(x[0])"],
)  # fmt: skip
def test_what_no_compiler_takes_is_ambiguous(call: str) -> None:
    with pytest.raises(KtcError) as e:
        computed(f"y[0] = {call};", x=X)
    assert e.value.code == "E-SEMA-AMBIGUOUS"


def test_functions_of_halves_give_halves() -> None:
    h = np.array([-1.5, 2.0, -0.0, 3.0], np.float16)
    on = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable"
    got = computed("vstore4(fabs(vload4(0, x)), 0, y); y[3] = sqrt(x[1]);", "half", extension=on, x=h)
    assert got.tolist() == [1.5, 2.0, 0.0, float(np.float16(2**0.5))]
    got = computed("vstore4(isless(vload4(0, x), vload4(0, x).xxxx), 0, y);", "short", extension=on, x=-h)
    assert got.tolist() == [0, -1, -1, -1]
