"""``emit``: a lowered kernel in, one complete translation unit out.

``mode='source'`` prints the knobs as named constants with their bound values; ``mode='template'`` leaves them open, as
template parameters (CUDA, HIP) or macros with defaults (OpenCL), to go with :func:`search_space`.
"""

from __future__ import annotations

import importlib

from ktc.backends.c_family.c_dialect import Dialect
from ktc.backends.c_family.c_statements import Statements
from ktc.backends.c_family.conditional_copies import conditional_copies
from ktc.backends.c_family.kernel_function import print_kernel
from ktc.backends.c_family.protocol import const_int
from ktc.ir.diagnostics import KtcError
from ktc.ir.group_copies import by_threads
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Const, Decl, Expr, Knob, Load, Store, VecGet, VecMake
from ktc.ir.pointer_rows import as_one_buffer, as_tables
from ktc.ir.producer_launch import launched_block
from ktc.ir.support.frozen import values_of
from ktc.ir.text import by_stem
from ktc.ir.types import Array, Ptr, Scalar, Type, Vec
from ktc.ir.walk import expressions, knobs_in, walk

from .base import Emitted, unit_of
from .field_text import field_text
from .profiles import profile_for
from .sequence_text import emitted_sequence, printable
from .system_calls import texture_objects

DIALECTS = {
    "cuda": "ktc.backends.cuda.cuda_dialect:CudaDialect",
    "hip": "ktc.backends.hip.hip_dialect:HipDialect",
    "opencl": "ktc.backends.opencl.opencl_dialect:OpenCLDialect",
}
FOR_LOOPS = {"opencl": "ktc.backends.opencl.cpu_dialect:CpuDialect"}
"""The dialect of a language where a profile runs loops as they stand."""
OTHER_EMITTERS = {"numba": "ktc.backends.numba.numba_emitter:emit_numba"}
"""Backends with a printer of their own: ``emit_x(kernel, mode=..., provenance=...) -> Emitted``."""

PASSED_ADDRESSES = frozenset({"cuda", "hip"})
"""Backends whose languages have pointers to pointers: of buffers whose rows lie anywhere they are passed addresses."""

MODES = ("source", "template")


def emit(
    kernel: Kernel,
    target: str,
    mode: str = "source",
    provenance: str | None = None,
    profile: str | None = None,
) -> Emitted:
    """Print ``kernel`` for ``target`` (``cuda hip opencl numba``, or a profile's name such as ``opencl-nvidia``).

    ``provenance`` is the text of the line on top; by default it names ktc, the source and the script.

    Raises:
        KtcError: E-BACKEND-*: the target lacks a construct (with its place and a hint), or the kernel is not lowered.
    """
    if mode not in MODES:
        raise KtcError("E-BACKEND-MODE", f"no emission mode '{mode}'", hint="one of: source, template", exit_code=2)
    chosen = profile_for(target, profile)
    if kernel.is_sequence:
        return emitted_sequence(kernel, [emit(k, target, mode, provenance, profile) for k in printable(kernel)])
    tables = chosen.backend in PASSED_ADDRESSES
    kernel = by_stem(as_tables(kernel) if tables else as_one_buffer(kernel))
    if not chosen.async_copy:
        kernel = conditional_copies(kernel)
    if not chosen.group_copy:
        kernel = by_threads(kernel)
    if chosen.backend in OTHER_EMITTERS:
        return _resolve(OTHER_EMITTERS[chosen.backend])(kernel, mode=mode, provenance=provenance)
    if kernel.is_parallel:
        raise KtcError(
            "E-BACKEND-PARALLEL", f"'{kernel.name}' is in parallel form", kernel.loc, "lower it (materialise) first"
        )
    dialects = {**DIALECTS, **(FOR_LOOPS if chosen.loops else {})}
    dialect: Dialect = _resolve(dialects[chosen.backend])(chosen)
    dialect.loc = kernel.loc
    kernel = dialect.prepare(kernel)
    dialect.texture_objects = texture_objects(kernel)
    dialect.tables = {p.sym for p in kernel.params if p.rows} if tables else set()
    sections = _sections(dialect, kernel, mode, provenance)
    text = unit_of(sections)
    return Emitted(text, kernel.name, chosen.backend, kernel, options=dialect.options(), sections=sections)


def _resolve(path: str):
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def _sections(d: Dialect, kernel: Kernel, mode: str, provenance: str | None) -> tuple[str, ...]:
    d.generic_vectors = _generic_vectors(kernel)
    printer = Statements(d, kernel)
    function = print_kernel(printer, kernel)
    declared = d.file_scope(kernel)
    used = _used_knobs(kernel, d.bounds(kernel))
    knobs = [k for k in kernel.knobs if k.name in used]
    parts = d.template(kernel, knobs) if mode == "template" else None
    sections: list[list[str]] = [[f"// {provenance or _provenance(kernel)}"]]
    if includes := d.includes():
        sections.append(includes)
    constants = [d.knob_constant(k.name, kernel.knob_values[k.name]) + _doc(k.doc) for k in knobs]
    sections += [helper.splitlines() for name, helper in d.helper_texts() if name in d.needed]
    if "field" in d.needed:
        sections.append(field_text(d.language).splitlines())
    sections += [_struct(d, name) for name in d.structs]
    sections.append(list(parts.top) if parts else constants)
    sections.append(d.late_declarations())
    sections.append(declared)
    sections.append([*(parts.head if parts else ()), *function, *(parts.tail if parts else ())])
    return tuple("\n".join(lines) for lines in sections if lines)


def _doc(doc: str) -> str:
    return f"  // {doc}" if doc else ""


def _struct(d: Dialect, name: str) -> list[str]:
    fields = d.structs[name].fields
    return [f"struct {name} {{", *(f"  {d.type_name(t)} {field};" for field, t in fields), "};"]


def _provenance(kernel: Kernel) -> str:
    source = f" from {kernel.loc.file.rsplit('/', 1)[-1]}" if kernel.loc else ""
    script = " | ".join(kernel.trace)
    values = ", ".join(f"{k}={v}" for k, v in kernel.knob_values.items())
    return (
        f"{kernel.name}: generated by ktc{source}"
        + (f", {script}" if script else "")
        + (f" [{values}]" if values else "")
        + _sweeps(kernel)
    )


def _sweeps(kernel: Kernel) -> str:
    """How to launch a kernel that does several sweeps."""
    if kernel.repeat is None or kernel.repeat.sweeps == 1:
        return ""
    read, written = kernel.repeat.swap
    return f"; a launch does {kernel.repeat.sweeps} sweeps of the source, swap {read} and {written} after each launch"


def _used_knobs(kernel: Kernel, bounds: list[Expr]) -> set[str]:
    """Knobs that the printed kernel mentions: in expressions, array shapes, vector types and launch bounds."""
    used: set[str] = set()
    for e in expressions(kernel.body):
        if isinstance(e, Load | VecMake):
            used |= _knobs_of_type(e.type)
        elif isinstance(e, Knob):
            used.add(e.name)
    for s in walk(kernel.body):
        for _, value in values_of(s):
            used |= _knobs_of_type(getattr(value, "type", None)) if hasattr(value, "id") else set()
            if isinstance(value, Expr):
                used |= knobs_in(value)
    for bound in bounds:
        used |= knobs_in(bound)
    for p in kernel.params:
        used |= _knobs_of_type(p.sym.type)
    return used


def _knobs_of_type(t: Type | None) -> set[str]:
    if isinstance(t, Vec):
        return knobs_in(t.n) if isinstance(t.n, Expr) else set()
    if isinstance(t, Array):
        return set().union(*(knobs_in(n) for n in t.shape), _knobs_of_type(t.elem))
    return _knobs_of_type(t.elem) if isinstance(t, Ptr) else set()


def _generic_vectors(kernel: Kernel) -> set[tuple[Scalar, int]]:
    """Vector types of literal width some lane of which is picked by a variable: they cannot be ``float4``."""
    found: set[tuple[Scalar, int]] = set()

    def lane(t: Type, index: tuple[Expr, ...]) -> None:
        dims = 0 if isinstance(t, Vec) else len(t.shape) if isinstance(t, Array) else 1
        elem = t if isinstance(t, Vec) else getattr(t, "elem", None)
        if isinstance(elem, Vec) and len(index) > dims and not isinstance(index[dims], Const):
            found.add((elem.elem, const_int(elem.n) or 0))

    for s in walk(kernel.body):
        if isinstance(s, Store):
            lane(s.buffer.type, s.index)
    for e in expressions(kernel.body):
        if isinstance(e, Load):
            lane(e.buffer.type, e.index)
        elif isinstance(e, VecGet) and isinstance(e.x.type, Vec) and not isinstance(e.lane, Const):
            found.add((e.x.type.elem, const_int(e.x.type.n) or 0))
    return found


def search_space(kernel: Kernel) -> dict:
    """The open knobs of a template as plain JSON data: names, domains, defaults, and constraints as C text."""
    from ktc.backends.c_family.symbol_names import Names
    from ktc.backends.cuda.cuda_dialect import CudaDialect

    d = CudaDialect(profile_for("cuda"))
    printer = Statements(d, kernel)
    for p in kernel.params:
        printer.names.declare(p.sym)
    assert isinstance(printer.names, Names)

    def text(e: Expr | None) -> str | None:
        return None if e is None else printer.x.text(e)

    launch = kernel.launch
    return {
        "kernel": kernel.name,
        "knobs": [
            {
                "name": k.name,
                "domain": list(k.domain),
                "default": k.default,
                "value": k.value,
                "doc": k.doc,
                "owner": k.owner,
            }
            for k in kernel.knobs
        ],
        "constraints": [text(c) for c in kernel.constraints],
        "assumptions": [{"fact": text(a.expr), "origin": a.origin} for a in kernel.assumptions],
        "launch": None
        if launch is None
        else {
            "grid": [text(e) for e in launch.grid],
            "block": [text(e) for e in launched_block(kernel)],
            "dynamic_shared": text(launch.dynamic_shared),
        },
        "script": " | ".join(kernel.trace),
    }


__all__ = ["Decl", "emit", "search_space"]
