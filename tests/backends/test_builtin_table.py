"""Every row of the table of built-ins: it loads, every backend prints or refuses it, the compilers take the text.

All rows that a backend prints go into one kernel, so that a compiler starts once a backend. The same kernel runs in
the interpreter and as CPU code: what a row means and what it computes must be one thing.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from functools import cache

import ml_dtypes
import numpy as np
import pytest

from ktc import backends
from ktc.ir.builtins import Builtin, table
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from ktc.ir.frontend.entry_points import load_entity, parse_unit
from ktc.ir.kernel import Kernel
from ktc.ir.types import Scalar, Vec, Void
from tests import devices

SPELL = {
    "f16": "__half", "bf16": "__nv_bfloat16", "f32": "float", "f64": "double", "i8": "signed char",
    "u8": "unsigned char", "i16": "short", "u16": "unsigned short", "i32": "int", "u32": "unsigned int",
    "i64": "long long",
    "u64": "unsigned long long", "bool": "bool", "f16x2": "__half2", "bf16x2": "__nv_bfloat162", "f32x2": "float2",
}  # fmt: skip
DTYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "bool": np.bool_,
    **{f"{k}{b}": np.dtype(f"{'u' if k == 'u' else ''}int{b}") for k in "iu" for b in (8, 16, 32, 64)},
}
LETTERS = {"F": ("f32", "f64"), "H": ("f16", "bf16"), "A": ("i32", "f32", "u64"), "I": ("i32", "u64"), "T": ("f32",)}
PAIRS = ("f16x2", "bf16x2")
NO_VALUE = frozenset({"ignore", "trap", "first", "barrier", "fence", "store", "system"})
PAIR_NAMES = ("2float2", "half2", "half2_rn", "bfloat162", "bfloat162_rn", "highlow")
SPECIAL = {  # rows of letters whose argument types the letters do not tell
    "__half22float2": ("f16x2",), "__bfloat1622float2": ("bf16x2",), "__float22half2_rn": ("f32x2",),
    "__float22bfloat162_rn": ("f32x2",), "__float2half2_rn": ("f32",), "__float2bfloat162_rn": ("f32",),
    "__floats2half2_rn": ("f32", "f32"), "__floats2bfloat162_rn": ("f32", "f32"), "__halves2half2": ("f16", "f16"),
    "__halves2bfloat162": ("bf16", "bf16"), "__half2half2": ("f16",), "__bfloat162bfloat162": ("bf16",),
    "__low2bfloat16": ("bf16x2",), "__high2bfloat16": ("bf16x2",), "__low2half": ("f16x2",), "__high2half": ("f16x2",),
    "__lows2half2": ("f16x2", "f16x2"), "__highs2half2": ("f16x2", "f16x2"), "__low2half2": ("f16x2",),
    "__high2half2": ("f16x2",), "__lowhigh2highlow": ("f16x2",), "modf": ("f64", "f64*"), "std::modf": ("f64", "f64*"),
    "frexp": ("f64", "i32*"), "std::frexp": ("f64", "i32*"),
}  # fmt: skip


def instances(row: Builtin) -> Iterator[tuple[str, ...]]:
    """Argument types to call ``row`` with: scalars, vectors as ``f16x2``, pointers with a star."""
    if row.name in SPECIAL:
        yield SPECIAL[row.name]
        return
    letters = sorted({p.type for p in row.params if isinstance(p.type, str)})
    choices = LETTERS[letters[0]] if letters else ("",)
    if letters == ["T"] and row.kind == "body":
        choices = PAIRS
    if row.kind == "atomic":
        choices = ("u32",)
    for choice in choices:
        types = [choice if isinstance(p.type, str) else type_name(p.type) for p in row.params[: row.required]]
        yield tuple(t + "*" * p.pointer for t, p in zip(types, row.params))


def type_name(t) -> str:
    return f"{t.elem.name}x{t.n}" if isinstance(t, Vec) else t.name


def statement(row: Builtin, types: tuple[str, ...], at: int) -> str:
    """One call, its result stored lane by lane as double at ``out[at...]``; loads in its own scope."""
    lines, args = [], []
    for k, t in enumerate(types):
        name = f"a{k}"
        if t.endswith("*") and row.kind in ("atomic", "load"):
            args.append(f"&mem_{t[:-1]}[{at}]")
        elif t.endswith("*"):
            lines.append(f"{SPELL[t[:-1]]} {name} = 0;")
            args.append("&" + name)
        elif "x" in t:
            elem = t.split("x")[0]
            lines.append(f"{SPELL[t]} {name}; {name}.x = in_{elem}[{3 * k}]; {name}.y = in_{elem}[{3 * k + 1}];")
            args.append(name)
        elif row.kind in ("warp", "vote", "match", "redux") and k == 0:
            args.append("0xffffffffu")
        else:
            args.append(f"in_{t}[{k}]")
    call = f"{row.name}({', '.join(args)})"
    result = f"auto r = {call};"
    made = row.ret if not isinstance(row.ret, str) else None
    pair = isinstance(made, Vec) or row.name.endswith(PAIR_NAMES) or row.name in ("__low2half2", "__high2half2")
    pair = pair or (isinstance(row.ret, str) and types[0] in PAIRS and not row.name.startswith(("__low2", "__high2")))
    lanes = ["r.x", "r.y"] if pair else ["r"]
    stores = " ".join(f"out[{2 * at + i}] = (double)(float){x};" for i, x in enumerate(lanes))
    if pair:
        pass
    elif types[0:1] == ("f64",) or made in (Scalar("float", 64), Scalar("int", 64), Scalar("uint", 64)):
        stores = f"out[{2 * at}] = (double)r;"
    return f"{{ {' '.join(lines)} {result} {stores} }}"


LAUNCH = load("__global__ void k() {}\nvoid h() { k<<<1, 32>>>(); }\n", name="k.cu").launch
INPUTS = sorted(DTYPES)
PARAMS = (
    "double* out, " + ", ".join(f"const {SPELL[t]}* in_{t}" for t in INPUTS) + ", unsigned int* mem_u32, float* mem_f32"
)


def kernel_of(statements: list[str]):
    names = ", ".join(p.split()[-1].lstrip("*") for p in PARAMS.split(","))
    text = "__global__ void k(" + PARAMS + ") {\n" + "\n".join(statements) + "\n}\n"
    return load(text + f"void host({PARAMS}) {{ k<<<1, 32>>>({names}); }}\n", name="rows.cu")


@cache
def rows() -> tuple[tuple[str, str], ...]:
    """(label, statement) of every row and instance."""
    out = []
    for found in table().values():
        for row in found:
            if row.kind in NO_VALUE or isinstance(row.ret, Void):
                continue
            for types in instances(row):
                out.append((f"{row.name}({', '.join(types)})", statement(row, types, len(out))))
    return tuple(out)


@cache
def single_kernels() -> dict[str, Kernel]:
    """A kernel for each row alone, by label; all of one file, which is parsed once."""
    text = "\n".join(f"__global__ void k{i}({PARAMS}) {{ {s} }}" for i, (_, s) in enumerate(rows()))
    unit = parse_unit(text, "rows.cu", None, ())
    found = {e.name: e for e in unit.program.kernels}
    return {label: load_entity(unit, found[f"k{i}"], {}, None, {}) for i, (label, _) in enumerate(rows())}


@cache
def printed(target: str) -> tuple[tuple[str, str], ...]:
    """The rows that ``target`` prints. A refusal must be one of the named kinds, with a place."""
    good = []
    for label, text in rows():
        try:
            backends.emit(single_kernels()[label].with_(launch=LAUNCH), target)
            good.append((label, text))
        except KtcError as error:
            assert error.code in ("E-BACKEND-FUNCTION", "E-BACKEND-WARP", "E-BACKEND-ATOMIC", "E-BACKEND-TYPE",
                                  "E-NUMBA-UNSUPPORTED"), (label, str(error))  # fmt: skip
    return tuple(good)


LEAST = {"cuda": 1.0, "hip": 0.9, "opencl-nvidia": 0.85, "numba": 0.8}
"""Share of the rows that must not be refused: directed rounding is CUDA's alone, Bessel functions are no OpenCL's."""


@pytest.mark.parametrize("target", LEAST)
def test_most_rows_are_printed(target):
    assert len(printed(target)) >= LEAST[target] * len(rows()), sorted(
        {a for a, _ in rows()} - {a for a, _ in printed(target)}
    )


@pytest.mark.parametrize(("target", "tool"), [("cuda", "nvcc"), ("hip", "hipcc")])
def test_the_compiler_takes_every_row(target, tool):
    if shutil.which(tool) is None:
        pytest.skip(f"no {tool}")
    devices.compiler(target)
    emitted = backends.emit(kernel_of([text for _, text in printed(target)]), target)
    quickly = ("-O0", "-Xptxas", "-O0") if target == "cuda" else ("-O1",)  # what is taken does not depend on it
    backends.check_compile(dataclasses.replace(emitted, options=(*emitted.options, *quickly)))
