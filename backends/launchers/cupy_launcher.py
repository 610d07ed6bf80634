"""The CuPy launcher: a Python module that compiles the kernel with NVRTC at its first call."""

from __future__ import annotations

import keyword
from collections.abc import Callable

from ktc.backends.base import Emitted
from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Call, Cast, Const, Expr, Select, Unary, Var
from ktc.ir.null_pointers import asked_about, pointers_asked_about
from ktc.ir.producer_launch import tensor_maps
from ktc.ir.types import BF16, BOOL, F16, F32, F64, Ptr, Scalar

from .host_expressions import apart_condition
from .launch_geometry import geometry, with_knobs

PRECEDENCE = {
    "*": 11, "//": 11, "%": 11, "+": 10, "-": 10, "<<": 9, ">>": 9, "&": 8, "^": 7, "|": 6, "<": 5, "<=": 5, ">": 5,
    ">=": 5, "==": 5, "!=": 5, "and": 3, "or": 2,
}  # fmt: skip
OPERATORS = {"/": "//", "&&": "and", "||": "or"}


OWN_NAMES = frozenset({"np", "cp", "kernel", "grid", "block", "stream", "min", "max", "abs", "math"})
"""What a launcher declares and calls: no parameter of a kernel is called so in it."""


def python_name(name: str) -> str:
    return name + "_" if keyword.iskeyword(name) or name in OWN_NAMES else name


def python_text(e: Expr, above: int = 0) -> str:
    """A launch or guard expression over non-negative sizes as Python source."""
    if isinstance(e, Const):
        return repr(e.value)
    if isinstance(e, Var):
        return python_name(e.sym.name)
    if isinstance(e, Cast):
        return python_text(e.x, above)
    if isinstance(e, Unary):
        text = f"not {python_text(e.x, 4)}" if e.op == "!" else f"{e.op}{python_text(e.x, 12)}"
        return f"({text})" if above > 4 and e.op == "!" else text
    if isinstance(e, Binary):
        op = OPERATORS.get(e.op, e.op)
        prec = PRECEDENCE[op]
        text = f"{python_text(e.a, prec)} {op} {python_text(e.b, prec + 1)}"
        return f"({text})" if prec < above else text
    if isinstance(e, Select):
        return f"({python_text(e.a, 2)} if {python_text(e.cond, 2)} else {python_text(e.b, 2)})"
    if (pointer := asked_about(e)) is not None:
        return f"({python_name(pointer.name)} is None)"
    if isinstance(e, Call) and e.fn == "cdiv":
        return f"-(-{python_text(e.args[0], 12)} // {python_text(e.args[1], 12)})"
    if isinstance(e, Call) and e.fn in ("min", "max", "abs"):
        return f"{e.fn}({', '.join(python_text(a) for a in e.args)})"
    raise KtcError("E-LAUNCH-EXPR", f"no Python form of a launch expression with {type(e).__name__}")


NUMPY = {F16: "float16", F32: "float32", F64: "float64", BOOL: "bool_", BF16: "uint16"}


def _numpy(t: Scalar) -> str:
    return NUMPY.get(t) or f"{'int' if t.is_signed else 'uint'}{t.bits}"


def working_memory(kernel: Kernel, text: Callable[[Expr], str]) -> list[str]:
    """What the caller must know of scratch memory; ``text`` prints sizes."""
    sizes = [
        f"  {p.sym.name}: {text(with_knobs(kernel, p.scratch))} elements"
        for p in kernel.params
        if p.scratch is not None
    ]
    if not sizes:
        return []
    return ["Working memory: zero before the first launch; each leaves it fit for the next, whatever its sizes.",
            "Launches that may run at the same time need memory of their own.", *sizes]  # fmt: skip


def cupy_launcher(emitted: Emitted, original: Emitted | None) -> str:
    """``launch(...)``: arrays by position, then sizes; arrays are CuPy's or anything with a CUDA array interface."""
    if emitted.target != "cuda":
        raise KtcError("E-LAUNCH-KIND", f"CuPy launches CUDA text, not {emitted.target}", exit_code=2)
    kernel = emitted.kernel
    if tensor_maps(kernel):
        message = "CuPy passes no descriptors of matrices by value"
        raise KtcError("E-LAUNCH-KIND", message, hint="the cuda or torch launcher, or multi-buffer by=threads")
    g = geometry(kernel)
    names = [python_name(p.sym.name) for p in kernel.params if not p.symbol]  # those the host sets, as for the original
    asked = pointers_asked_about(kernel)
    checks = [python_text(f, 4) for f in g.facts]
    for p, n in g.aligned:
        name = python_name(p.sym.name)
        aligned = f"{name}.data.ptr % {n} == 0"
        checks.append(f"({name} is None or {aligned})" if p.sym in asked else aligned)
    checks += [
        apart_condition(a, lambda s: f"{python_name(s.name)}.data.ptr", lambda e: python_text(e, 11), "or")
        for a in g.apart
    ]
    if g.room is not None:
        checks.append(f'{python_text(g.room, 6)} <= cp.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"]')
    codes = [("_KERNEL", emitted)] + ([("_ORIGINAL", original)] if original is not None and checks else [])
    lines = ["import cupy as cp", "import numpy as np", ""]
    for name, code in codes:
        lines += [f'{name} = cp.RawModule(code=r"""', code.text.rstrip()]
        lines += [f'""", options=("-std=c++17",), name_expressions=("{code.entry}",))', ""]
    lines += [
        f"def launch({', '.join(names)}, stream=None):",
        f'    """Launch {emitted.entry} on the current device."""',
        *(f"    # {line}" for line in working_memory(kernel, python_text)),
    ]
    lines.append("    with stream or cp.cuda.get_current_stream():")
    if checks:
        lines.append(f"        if not ({' and '.join(checks)}):")
        if original is None:
            lines.append(
                '            raise ValueError("an assumption of the tuned kernel does not hold: run the original")'
            )
        else:
            lines += ["    " + line for line in _call("_ORIGINAL", original)] + ["            return"]
    lines += _call("_KERNEL", emitted)
    return "\n".join(lines) + "\n"


def _call(module: str, code: Emitted) -> list[str]:
    g = geometry(code.kernel)
    args = []
    asked = pointers_asked_about(code.kernel)
    for p in code.kernel.params:
        if not p.host and not p.symbol:
            t = p.sym.type
            name = python_name(p.sym.name)
            pointer = f"np.intp(0) if {name} is None else {name}" if p.sym in asked else name
            args.append(pointer if isinstance(t, Ptr) else f"np.{_numpy(t)}({name})")  # type: ignore[arg-type]
    grid, block = (", ".join(python_text(e) for e in dims) for dims in (g.grid, g.block))
    lines = [f'        kernel = {module}.get_function("{code.entry}")']
    shared = python_text(g.shared)
    if shared != "0":
        lines.append(f"        kernel.max_dynamic_shared_size_bytes = {shared}")
    lines += [
        f"        grid, block = ({grid}), ({block})",
        "        if min(*grid, *block) > 0:  # CuPy launches one block where none is asked for",
        f"            kernel(grid, block, ({', '.join(args)}{',' * (len(args) == 1)}), shared_mem={shared})",
    ]
    return lines
