"""The OpenCL launcher: host code in C, in the types of ``CL/cl.h``."""

from __future__ import annotations

from ktc.backends.base import Emitted
from ktc.backends.c_family.c_expressions import Exprs
from ktc.backends.c_family.line_layout import wrap
from ktc.backends.c_family.symbol_names import Names
from ktc.backends.opencl.opencl_dialect import OpenCLDialect
from ktc.backends.profiles import profile_for
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Call, Expr, Select
from ktc.ir.types import BOOL, SCALARS, Ptr, Scalar, Type
from ktc.ir.walk import map_expr

from .launch_geometry import geometry

CL_WORDS = {8: "char", 16: "short", 32: "int", 64: "long"}
CL_FLOATS = {"f16": "cl_half", "bf16": "cl_ushort", "e4m3": "cl_uchar", "e5m2": "cl_uchar", "f32": "cl_float",
             "f64": "cl_double"}  # fmt: skip
CL_TYPES = {t.name: f"cl_{'' if t.is_signed else 'u'}{CL_WORDS[t.bits]}" for t in SCALARS.values() if t.is_int}
CL_TYPES |= CL_FLOATS | {BOOL.name: "cl_uchar"}
"""A scalar of the IR in host code; 8- and 16-bit floats that C lacks travel as their bits."""


CL_SHARED = 32 << 10
"""Bytes of local memory that every OpenCL device of the full profile has (CL_DEVICE_LOCAL_MEM_SIZE)."""


class HostC(OpenCLDialect):
    """Expressions as C on the host has them: OpenCL's operators over the types of ``CL/cl.h``."""

    def type_name(self, t: Type) -> str:
        return CL_TYPES[t.name] if isinstance(t, Scalar) else super().type_name(t)


def in_c(e: Expr) -> Expr:
    """``e`` without functions that OpenCL C has and C has not: ``min`` and ``max`` as choices."""

    def on(x: Expr) -> Expr:
        if isinstance(x, Call) and x.fn in ("min", "max") and len(x.args) == 2:
            a, b = x.args
            return Select(Binary("<" if x.fn == "min" else ">", a, b), a, b)
        return x

    return map_expr(e, on)


OWN_NAMES = frozenset({"queue", "kernel", "original_kernel", "this_device", "most_shared", "global", "local", "NULL"})
"""What a launcher declares and uses: no parameter of a kernel is called so in it."""


def _host_exprs(kernel: Kernel) -> tuple[Exprs, Names]:
    names = Names(OWN_NAMES)
    dialect = HostC(profile_for("opencl"))
    dialect.exprs = exprs = Exprs(dialect, names)
    for p in kernel.params:
        names.declare(p.sym)
    return exprs, names


def opencl_launcher(emitted: Emitted, original: Emitted | None) -> str:
    """C host code. A buffer's alignment is the runtime's business: OpenCL aligns buffers to 128 bytes and more."""
    kernel = emitted.kernel
    x, names = _host_exprs(kernel)
    g = geometry(kernel, CL_SHARED)
    checks = [x.piece(in_c(f)).at(6) for f in g.facts]
    checks += [f"{x.piece(in_c(g.room)).at(6)} <= (cl_long)most_shared"] if g.room is not None else []
    params = ["cl_command_queue queue", "cl_kernel kernel"]
    params += ["cl_kernel original_kernel"] if original is not None and checks else []
    for p in kernel.params:
        t = p.sym.type
        if isinstance(t, Ptr):
            params.append(f"cl_mem {names.of(p.sym)}")
        else:
            params.append(f"{x.d.type_name(t)} {names.of(p.sym)}")

    def call(code: Emitted, handle: str) -> list[str]:
        cx, cn = _host_exprs(code.kernel)
        cg = geometry(code.kernel)
        lines = []
        signature = [p for p in code.kernel.params if not p.host]
        for k, p in enumerate(signature):
            n = cn.of(p.sym)
            lines.append(f"clSetKernelArg({handle}, {k}, sizeof({n}), &{n});")
        if cx.text(in_c(cg.shared)) != "0":
            lines.append(f"clSetKernelArg({handle}, {len(signature)}, {cx.text(in_c(cg.shared))}, NULL);")
        local = [cx.text(in_c(e)) for e in cg.block]
        total = [
            e if n == "1" else f"({e}) * {n}" if " " in e else f"{e} * {n}"
            for e, n in zip((cx.text(in_c(e)) for e in cg.grid), local)
        ]
        lines.append(f"const size_t global[3] = {{{', '.join(total)}}};")
        lines.append(f"const size_t local[3] = {{{', '.join(local)}}};")
        lines.append(f"return clEnqueueNDRangeKernel(queue, {handle}, 3, NULL, global, local, 0, NULL, NULL);")
        return lines

    lines: list[str] = []
    if g.room is not None:
        lines += ["cl_device_id this_device = NULL;", "cl_ulong most_shared = 0;"]
        lines.append("clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof(this_device), &this_device, NULL);")
        size = "sizeof(most_shared), &most_shared, NULL"
        lines.append(f"clGetDeviceInfo(this_device, CL_DEVICE_LOCAL_MEM_SIZE, {size});")
    if checks:
        lines.append(f"if (!({' && '.join(checks)})) {{")
        if original is not None:
            lines += ["  " + line for line in call(original, "original_kernel")]
        else:
            lines.append("  return CL_INVALID_VALUE;  /* the caller runs the original kernel */")
        lines.append("}")
    lines += call(emitted, "kernel")
    head = f"cl_int launch_{emitted.entry}({', '.join(params)}) {{"
    body = [out for line in lines for out in wrap(line, "  ")]
    options = " ".join(emitted.options)
    return "\n".join([f"// Build with: {options}", *x.d.file_scope(kernel), *wrap(head, ""), *body, "}"]) + "\n"
