"""The numba backend: a kernel as a readable, complete Python module that runs on the CPU.

The module defines ``ENTRY(params...)``: every parameter of the kernel in order, host parameters too, arrays as numpy
arrays of any shape (bf16 and fp8 through ml_dtypes, or as raw bits). It reads top to bottom: knobs, helpers, the body
of a block, the grid, the entry. Parallel form maps to loops directly; SPMD form runs threads in turn between barriers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ktc.backends.base import Emitted
from ktc.ir.arith import Facts, Trust
from ktc.ir.fact_origins import ORIGINS, launch_tests
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import Atomic, Const, Expr, Par, Stmt
from ktc.ir.null_pointers import pointers_asked_about, pointers_in
from ktc.ir.text import print_expr
from ktc.ir.types import Ptr, Scalar, scalar_of
from ktc.ir.walk import used
from ktc.ir.workload.input_data import initial_array

from . import numba_prelude
from .disjoint_arrays import NOALIAS, apart, as_views
from .numba_expressions import ExprPrinter
from .numba_parallel import GridPrinter, check_parallel
from .numba_spmd import SpmdPrinter, has_global_atomics
from .numba_types import storage_of, unsupported

GRID_LIMIT = 2**31 - 1
"""Threads of one axis that the entry accepts, so that ``block * block_dim + thread`` cannot wrap."""

CHECKED = Trust(threads=GRID_LIMIT, parameters=True, origins=frozenset(ORIGINS))
"""The entry tests what nobody vouches for."""


def emit_numba(kernel: Kernel, mode: str = "source", provenance: str | None = None) -> Emitted:
    """The Python module of ``kernel`` (either form; knobs at their bound or default values).

    ``mode``: ``source``, or ``template`` (each knob line carries its domain). ``provenance``: a comment line on
    top. Raises KtcError E-NUMBA-UNSUPPORTED for
    constructs that have no meaning on a CPU (inline assembly, carried-through text).
    """
    x = ExprPrinter(Facts(kernel, CHECKED), kernel.environment({}))
    for k in kernel.knobs:
        x.reserve(k.name)
    entry = x.reserve(kernel.name)
    notes: list[str] = []
    if kernel.is_parallel:
        check_parallel(kernel)
        body = _parallel(kernel, x, entry, notes)
    else:
        body = _spmd(kernel, x, entry, notes)
    top = [f"# {row}" for row in (provenance or "").splitlines()]
    text = "\n".join([*top, *_header(kernel, x, mode), *body]) + "\n"
    return Emitted(text, entry, "numba", kernel, (), tuple(notes))


def _header(kernel: Kernel, x: ExprPrinter, mode: str) -> list[str]:
    out = [f'"""{kernel.name} on the CPU. Call {kernel.name}({", ".join(p.sym.name for p in kernel.params)})."""', ""]
    out += numba_prelude.imports(x.helpers, NOALIAS if apart(kernel) else ())
    out += ["", "f32, i64, u64 = np.float32, np.int64, np.uint64"]
    out.append('OPTIONS = dict(error_model="numpy", cache=True)')
    if apart(kernel):
        out += ["", "# @njit(noalias=True): the arrays of a call do not overlap"]
        out.append('CPUTargetOptions.noalias = TargetOptions.Mapping("noalias")')
    if kernel.knobs:
        out.append("")
    for k in kernel.knobs:
        value = k.default if k.value is None else k.value
        domain = f"one of {', '.join(map(str, k.domain))}" if k.domain and mode == "template" else ""
        comment = "; ".join(c for c in (domain, k.doc) if c)
        out.append(f"{k.name} = {value}" + (f"  # {comment}" if comment else ""))
    out += ["", ""]
    for block in (numba_prelude.source(x.helpers).rstrip("\n").splitlines(), x.at_top):
        out += [*block, "", ""] if block else []
    return out


def _entry(kernel: Kernel, x: ExprPrinter, entry: str, extra: list[str], call: str) -> list[str]:
    """The plain Python function that users call: flat typed views, scalars in their type, launch geometry."""
    names = [x.name(p.sym) for p in kernel.params]
    asked = pointers_asked_about(kernel)
    initial = {p.sym: x.reserve(f"{n}_initial") for p, n in zip(kernel.params, names) if p.init}
    out = [
        f"{initial[p.sym]} = np.array([{', '.join(_stored(p))}], {storage_of(scalar_of(p.sym.type))})"
        for p in kernel.params if p.init
    ]  # fmt: skip
    out += ["", ""] if out else []
    last = max((k for k, p in enumerate(kernel.params) if not p.init), default=-1)
    shown = [f"{n}={initial[p.sym]}" if k > last else n for k, (p, n) in enumerate(zip(kernel.params, names))]
    out.append(f"def {entry}({', '.join(shown)}):")
    for p, n in zip(kernel.params, names):
        t = p.sym.type
        if isinstance(t, Ptr):
            flat = f"{n}.reshape(-1).view({storage_of(t.elem)})"
            out.append(f"    {n} = {f'None if {n} is None else {flat}' if p.sym in asked else flat}")
        elif isinstance(t, Scalar):
            make = (
                "bool"
                if t.kind == "bool"
                else "np.float64"
                if t.name == "f64"
                else "f32"
                if t.is_float
                else "u64"
                if t.name == "u64"
                else "int"
            )
            out.append(f"    {n} = {make}({n})")
        else:
            raise unsupported(f"a parameter of type {t}", kernel.loc)
    return [*out, *("    " + e for e in (*_tested(kernel, x), *extra)), f"    {call}"]


def _tested(kernel: Kernel, x: ExprPrinter) -> Iterator[str]:
    """Lines that refuse arguments for which the text is not made: there is no original here that could run instead."""
    params = {p.sym for p in kernel.params}
    for test in dict.fromkeys(launch_tests(kernel)):
        if used(test) <= params and not isinstance(test, Const):
            said = print_expr(test) if not pointers_in(test) else x.text(test)
            yield f"if not ({x.text(test)}):"
            yield f"    raise ValueError({f'{said} does not hold'!r})"


def _stored(p: Param) -> list[str]:
    """The initial values of a variable at file scope, as elements of its memory."""
    import numpy as np

    array = initial_array(p)
    values = array.view(getattr(np, storage_of(scalar_of(p.sym.type)).removeprefix("np."))).tolist()
    return [repr(v) if math.isfinite(v) else f'float("{v}")' for v in values]


def _spmd(kernel: Kernel, x: ExprPrinter, entry: str, notes: list[str]) -> list[str]:
    if kernel.launch is None:
        raise unsupported(
            "a kernel without launch geometry",
            kernel.loc,
            "`ktc init FILE` writes a workload.toml that guesses one; or give [launch], or a host launcher",
        )
    params = [x.name(p.sym) for p in kernel.params]
    dynamic = kernel.launch.dynamic_shared is not None
    printer = SpmdPrinter(kernel, x)
    passed = [*params, *(["shared_bytes"] if dynamic else [])]
    block, grid = x.reserve(f"{entry}_block"), x.reserve(f"{entry}_grid")
    out = printer.block_function(block, passed, serial(kernel))
    dims = [f"{k}_{a}" for k in ("grid", "dim") for a in "xyz"]
    loop = "range" if has_global_atomics(kernel.body) else "prange"
    out += ["", "", _grid_decorator([*kernel.body], notes)]
    out += [f"def {grid}({', '.join([*passed, *dims])}):", f"    for block in {loop}(grid_x * grid_y * grid_z):"]
    where = {
        "block_x": "i64(block) % grid_x",
        "block_y": "i64(block) // grid_x % grid_y",
        "block_z": "i64(block) // (grid_x * grid_y)",
    }  # prange counts in uint64
    given = as_views(kernel, x, [p.sym for p in kernel.params]) + passed[len(params) :]
    out.append(f"        {block}({', '.join([*given, *(where.get(h, h) for h in printer.hardware())])})")
    launch = kernel.launch
    extra = [f"grid_{a} = {_plain(x, e)}" for a, e in zip("xyz", launch.grid)]
    extra += [f"dim_{a} = {_plain(x, e)}" for a, e in zip("xyz", launch.block)]
    if dynamic:
        assert launch.dynamic_shared is not None
        extra.append(f"shared_bytes = {_plain(x, launch.dynamic_shared)}")
    extra.append(f"if max(grid_x * dim_x, grid_y * dim_y, grid_z * dim_z) > {GRID_LIMIT}:")
    extra.append('    raise ValueError("the launch is too large")')
    return [*out, "", "", *_entry(kernel, x, entry, extra, f"{grid}({', '.join([*passed, *dims])})")]


def _parallel(kernel: Kernel, x: ExprPrinter, entry: str, notes: list[str]) -> list[str]:
    params = [x.name(p.sym) for p in kernel.params]
    grid = x.reserve(f"{entry}_grid")
    printer = GridPrinter(kernel, x, grid, has_global_atomics)
    tasks = [s for s in kernel.body if not isinstance(s, Atomic)]  # what a loop summed up goes to memory once
    out = printer.print(params, serial(kernel), _grid_decorator(tasks, notes))
    return [*out, "", "", *_entry(kernel, x, entry, [], f"{grid}({', '.join(params)})")]


def _grid_decorator(tasks: Sequence[Stmt], notes: list[str]) -> str:
    """Blocks in parallel, unless all that there are update shared places through atomics."""
    if not has_global_atomics(tuple(tasks)) or any(isinstance(s, Par) and not has_global_atomics((s,)) for s in tasks):
        return "@njit(parallel=True, **OPTIONS)"
    notes.append("blocks run one after the other: the kernel has global atomics")
    return "@njit(**OPTIONS)"


def serial(kernel: Kernel) -> str:
    """The decorator of what runs on one core."""
    return "@njit(noalias=True, **OPTIONS)" if apart(kernel) else "@njit(**OPTIONS)"


def _plain(x: ExprPrinter, e: Expr) -> str:
    """A launch expression for Python integers."""
    s = x.text(e)
    return s if s.isdigit() or s.isidentifier() else f"int({s})"
