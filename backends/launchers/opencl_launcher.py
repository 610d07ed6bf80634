"""The OpenCL launcher: host code in C, in the types of ``CL/cl.h``."""

from __future__ import annotations

from ktc.backends.base import Emitted
from ktc.backends.c_family.line_layout import wrap
from ktc.backends.opencl.opencl_dialect import OpenCLDialect
from ktc.backends.profiles import profile_for
from ktc.ir.nodes import Binary, Call, Expr, Select
from ktc.ir.types import BOOL, SCALARS, Ptr, Scalar, Type
from ktc.ir.walk import map_expr

from .host_expressions import host_exprs, nothing
from .launch_geometry import geometry

CL_WORDS = {8: "char", 16: "short", 32: "int", 64: "long"}
CL_FLOATS = {"f16": "cl_half", "bf16": "cl_ushort", "e4m3": "cl_uchar", "e5m2": "cl_uchar", "f32": "cl_float",
             "f64": "cl_double"}  # fmt: skip
CL_TYPES = {t.name: f"cl_{'' if t.is_signed else 'u'}{CL_WORDS[t.bits]}" for t in SCALARS.values() if t.is_int}
CL_TYPES |= CL_FLOATS | {BOOL.name: "cl_uchar"}
"""A scalar of the IR in host code; 8- and 16-bit floats that C lacks travel as their bits."""


CL_SHARED = 32 << 10
"""Bytes of local memory that every OpenCL device of the full profile has (CL_DEVICE_LOCAL_MEM_SIZE)."""


BUFFERS_APART = """\
/* Whether bytes first..end-1 of two buffers are different memory: sub-buffers of one buffer may overlap. */
static int buffers_apart(cl_mem one, cl_long first, cl_long end, cl_mem other, cl_long other_first, cl_long other_end) {
  cl_mem whole[2] = {one, other};
  size_t offset[2] = {0, 0};
  int k;
  for (k = 0; k < 2; ++k) {
    cl_mem around = NULL;
    clGetMemObjectInfo(whole[k], CL_MEM_OFFSET, sizeof(offset[k]), &offset[k], NULL);
    clGetMemObjectInfo(whole[k], CL_MEM_ASSOCIATED_MEMOBJECT, sizeof(around), &around, NULL);
    if (around != NULL) whole[k] = around;
  }
  if (whole[0] != whole[1]) return 1;
  return (cl_long)offset[0] + end <= (cl_long)offset[1] + other_first ||
         (cl_long)offset[1] + other_end <= (cl_long)offset[0] + first;
}"""
"""Where buffers lie is for the runtime to know; which are parts of one it tells."""


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


OWN_NAMES = frozenset(
    {"queue", "kernel", "original_kernel", "this_device", "most_shared", "global", "local", "NULL", "buffers_apart"}
)
"""What a launcher declares and uses: no parameter of a kernel is called so in it."""


def opencl_launcher(emitted: Emitted, original: Emitted | None) -> str:
    """C host code. A buffer's alignment is the runtime's business: OpenCL aligns buffers to 128 bytes and more."""
    kernel = emitted.kernel
    x, names = host_exprs(kernel, HostC(profile_for("opencl")), OWN_NAMES)
    g = geometry(kernel, CL_SHARED)
    checks = [x.piece(in_c(f)).at(6) for f in g.facts]
    for one, other in ((a.one, a.other) for a in g.apart):
        ends = [f"{names.of(b.buffer)}, {x.text(in_c(b.first))}, {x.text(in_c(b.end))}" for b in (one, other)]
        checks.append(f"buffers_apart({', '.join(ends)})")
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
        cx, cn = host_exprs(code.kernel, HostC(profile_for("opencl")), OWN_NAMES)
        cg = geometry(code.kernel)
        none = nothing(cg, lambda e: cx.piece(in_c(e)).at(11))
        lines = [f"if ({none}) return CL_SUCCESS;  /* nothing to launch */"] if none else []
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
    helpers = [*BUFFERS_APART.splitlines(), ""] if g.apart else []
    return (
        "\n".join([f"// Build with: {options}", *x.d.file_scope(kernel), *helpers, *wrap(head, ""), *body, "}"]) + "\n"
    )
