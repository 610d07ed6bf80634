"""The host side of an emitted kernel: geometry, the guard on its assumptions, the fall-back to the original kernel.

launch_name(args..., host sizes..., stream)
  every assumption holds, and a block's shared memory fits?  launch the tuned kernel  :  launch the original one
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ktc.backends.base import Emitted
from ktc.backends.c_family.c_expressions import Exprs
from ktc.backends.c_family.line_layout import wrap
from ktc.backends.c_family.symbol_names import Names
from ktc.backends.cuda.cuda_dialect import CudaDialect
from ktc.backends.hip.hip_dialect import HipDialect
from ktc.backends.profiles import profile_for
from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import Expr, is_cooperative
from ktc.ir.pointer_rows import takes_addresses
from ktc.ir.producer_launch import tensor_maps
from ktc.ir.sequences import temporaries
from ktc.ir.types import BF16, BOOL, F16, F32, F64, I8, I32, U8, Ptr, scalar_of

from .cupy_launcher import cupy_launcher, python_text, working_memory
from .host_expressions import apart_condition, host_exprs, nothing
from .launch_geometry import Geometry, check_tested, geometry, one_or_more
from .opencl_launcher import opencl_launcher

__all__ = ["KINDS", "emit_launcher", "python_text"]


TENSOR_TYPES = {
    F16: "CU_TENSOR_MAP_DATA_TYPE_FLOAT16",
    BF16: "CU_TENSOR_MAP_DATA_TYPE_BFLOAT16",
    I8: "CU_TENSOR_MAP_DATA_TYPE_UINT8",
    U8: "CU_TENSOR_MAP_DATA_TYPE_UINT8",
}

MAKE_TENSOR_MAP = """\
// Describes a matrix for bulk copies of boxes of 128-byte rows (link with -lcuda); one without elements is never read.
static bool make_tensor_map(tensor_map* result, const void* matrix, cuuint64_t rows, cuuint64_t columns,
                            cuuint64_t pitch, cuuint32_t box_rows, CUtensorMapDataType type) {
  const cuuint32_t bytes = type == CU_TENSOR_MAP_DATA_TYPE_UINT8 ? 1 : 2;
  const cuuint64_t extents[2] = {columns, rows}, strides[1] = {pitch * bytes};
  const cuuint32_t box[2] = {128 / bytes, box_rows}, ones[2] = {1, 1};
  if (rows == 0 || columns == 0) return true;
  return cuTensorMapEncodeTiled(reinterpret_cast<CUtensorMap*>(result), type, 2, const_cast<void*>(matrix), extents,
                                strides, box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}
"""


def emit_launcher(emitted: Emitted, kind: str | None = None, original: Emitted | None = None) -> str:
    """Host code that launches ``emitted``: ``kind`` is cuda | hip | opencl | cupy | torch (default: its target).

    ``original`` is the kernel as it came, under another name: the launcher calls it where an assumption does not hold.
    Without it the launcher reports the violated assumption to its caller.

    Raises:
        KtcError: E-LAUNCH-KIND (usage) or E-LAUNCH-UNKNOWN.
    """
    kind = kind or emitted.target
    if kind not in KINDS:
        raise KtcError("E-LAUNCH-KIND", f"no launcher '{kind}'", hint=f"one of: {', '.join(KINDS)}", exit_code=2)
    for one in (emitted, *emitted.launches):
        check_tested(one.kernel)
    if original is not None and original.launches and kind in ONE_KERNEL:
        what = f"where an assumption fails, a launcher of this kind runs one kernel, and not {len(original.launches)}"
        raise KtcError("E-LAUNCH-SEQUENCE", what, hint="--emit launcher with --backend cuda or hip, or launcher-torch")
    return KINDS[kind](emitted, original)


ONE_KERNEL = frozenset({"cupy", "opencl"})
"""Launchers that know nothing of sequences."""


# ------------------------------------------------------------------------------------------------------ CUDA and HIP


OWN_NAMES = frozenset({
    "grid", "block", "stream", "applies", "args", "this_device", "most_shared", "asked", "fits", "launched", "min",
    "max", "make_tensor_map", *(f"map{k}" for k in range(8)),
})  # fmt: skip
"""What a launcher declares and calls: no parameter of a kernel is called so in it."""


def _guard(g: Geometry, x: Exprs, names: Names) -> list[str]:
    checks = [x.piece(f).at(6) for f in g.facts]
    checks += [f"reinterpret_cast<uintptr_t>({names.of(p.sym)}) % {n} == 0" for p, n in g.aligned]
    checks += [
        apart_condition(a, lambda s: f"reinterpret_cast<intptr_t>({names.of(s)})", lambda e: x.piece(e).at(11), "||")
        for a in g.apart
    ]
    checks += [f"{x.piece(g.room).at(6)} <= most_shared"] if g.room is not None else []
    return checks


MOST_SHARED = {"cuda": "cudaDevAttrMaxSharedMemoryPerBlockOptin", "hip": "hipDeviceAttributeMaxSharedMemoryPerBlock"}
"""The attribute of a device that says how much shared memory a block may have."""


def _dims(extents: Sequence[Expr], x: Exprs) -> str:
    texts = [x.text(e) for e in extents]
    while len(texts) > 1 and texts[-1] == "1":
        texts.pop()
    return ", ".join(texts)


def _ends_early(emitted: Emitted, api: str, x_of: Callable) -> list[str]:
    """A statement that leaves the launcher where there is nothing to launch; of a sequence each launch is asked."""
    x, _ = x_of(emitted.kernel)
    none = "" if emitted.launches else nothing(geometry(emitted.kernel), lambda e: x.piece(e).at(11))
    return [f"if ({none}) return {api}Success;  // nothing to launch"] if none else []


def _cxx_call(emitted: Emitted, api: str, x_of: Callable, declared: Mapping[str, Param]) -> list[str]:
    """Statements that launch ``emitted``, of a sequence all launches one after the other; ``declared``: the parameters
    of the function around them, by name."""
    if emitted.launches:
        return _cxx_calls(emitted, api, x_of, declared)
    x, names = x_of(emitted.kernel)
    g = geometry(emitted.kernel)
    passed = [p for p in emitted.kernel.params if not p.host and not p.symbol]
    args = ", ".join(_argument(p, declared.get(p.sym.name, p), names.of(p.sym), x) for p in passed)
    lines = [f"const dim3 grid({_dims(g.grid, x)});", f"const dim3 block({_dims(g.block, x)});"]
    for k, m in enumerate(tensor_maps(emitted.kernel)):
        rows, columns, pitch = (x.piece(e).at(6) for e in (*m.extent, m.pitch))
        sizes = f"{rows}, {columns}, {pitch}, {m.rows}, {TENSOR_TYPES[scalar_of(m.src.type)]}"
        lines.append(f"tensor_map map{k} = {{}};")
        described = f"make_tensor_map(&map{k}, {names.of(m.src)}, {sizes})"
        lines.append(f"if (!{described}) return cudaErrorInvalidValue;")
        args += f", map{k}"
    shared = x.text(g.shared)
    if shared.isdigit() and int(shared) <= 48 * 1024:
        pass
    elif api == "cuda":
        opt_in = "cudaFuncAttributeMaxDynamicSharedMemorySize"
        lines.append(f"const cudaError_t fits = cudaFuncSetAttribute({emitted.entry}, {opt_in}, {shared});")
        lines.append("if (fits != cudaSuccess) return fits;")
    if is_cooperative(emitted.kernel.body):  # all blocks must be resident
        names_of_args = ", ".join(f"&{a}" for a in args.split(", ") if a)
        entry = emitted.entry if api == "cuda" else f"reinterpret_cast<const void*>({emitted.entry})"
        lines.append(f"void* args[] = {{{names_of_args}}};")
        launch = f"{api}LaunchCooperativeKernel({entry}, grid, block, args, {shared}, stream)"
        lines += [f"const {api}Error_t launched = {launch};", f"if (launched != {api}Success) return launched;"]
        return lines
    lines.append(f"{emitted.entry}<<<grid, block, {shared}, stream>>>({args});")
    return lines


def _argument(p: Param, declared: Param, name: str, x: Exprs) -> str:
    """``name``, declared as ``declared``, as an argument for ``p``: pointers to vectors are ones to their elements."""
    t = p.sym.type
    if not isinstance(t, Ptr) or t.elem == getattr(declared.sym.type, "elem", t.elem):
        return name
    const = "const " if t.const or p.readonly else ""
    return f"reinterpret_cast<{const}{x.d.type_name(t.elem)}*>({name})"


def _cxx_calls(emitted: Emitted, api: str, x_of: Callable, declared: Mapping[str, Param]) -> list[str]:
    """Statements that launch a sequence, in memory of its own for what its launches leave for each other."""
    x, names = x_of(emitted.kernel)
    lines, free = [], []
    for p in temporaries(emitted.kernel):
        assert isinstance(p.sym.type, Ptr) and p.scratch is not None
        elem, name = x.d.type_name(p.sym.type.elem), names.of(p.sym)
        size = f"sizeof({elem}) * {x.piece(one_or_more(emitted.kernel, p.scratch)).at(13)}"
        get = f"{api}MallocAsync(reinterpret_cast<void**>(&{name}), {size}, stream)"
        lines += [f"{elem}* {name} = nullptr;", f"{api}Error_t got_{name} = {get};"]
        lines.append(f"if (got_{name} != {api}Success) return got_{name};")
        free.append(f"{api}FreeAsync({name}, stream);")
    for step in emitted.launches:
        own, _ = x_of(step.kernel)
        some = " && ".join(f"{own.piece(e).at(11)} > 0" for e in geometry(step.kernel).unsure)
        lines += [f"if ({some}) {{" if some else "{"]
        lines += [*("  " + line for line in _cxx_call(step, api, x_of, declared)), "}"]
    return lines + free


def _cxx(api: str, dialect_class, emitted: Emitted, original: Emitted | None) -> str:
    entries = [e.entry for code in (emitted, original) if code is not None for e in (code, *code.launches)]

    def x_of(kernel: Kernel):
        return host_exprs(kernel, dialect_class(profile_for(api)), OWN_NAMES | {*entries})

    kernel = emitted.kernel
    if emitted.launches:
        hint = "fuse-launches makes one kernel of them; --backend without --emit prints each"
        raise KtcError("E-LAUNCH-SEQUENCE", f"{kernel.name} is {len(emitted.launches)} launches", kernel.loc, hint)
    x, names = x_of(kernel)
    g = geometry(kernel)
    known = {p.sym.name: p for p in original.kernel.params} if original is not None else {}
    declared = {p.sym.name: known.get(p.sym.name, p) for p in kernel.params if not p.symbol}
    params = [x.d.parameter(q, names.of(p.sym)).replace(" __restrict__", "")
              for p, q in zip([p for p in kernel.params if not p.symbol], declared.values())]  # fmt: skip
    head = f"{api}Error_t launch_{emitted.entry}({', '.join([*params, f'{api}Stream_t stream'])}) {{"
    checks = _guard(g, x, names)
    lines = []
    if g.room is not None:
        asked = f"{api}DeviceGetAttribute(&most_shared, {MOST_SHARED[api]}, this_device)"
        lines += [
            "int this_device = 0, most_shared = 0;",
            f"{api}Error_t asked = {api}GetDevice(&this_device);",
            f"if (asked == {api}Success) asked = {asked};",
            f"if (asked != {api}Success) return asked;",
        ]
    if checks:
        lines += [f"const bool applies = {' && '.join(checks)};", "if (!applies) {"]
        if original is not None:
            call = (*_ends_early(original, api, x_of), *_cxx_call(original, api, x_of, declared))
            lines += ["  " + line for line in call]
            lines.append(f"  return {api}GetLastError();")
        else:
            lines.append(f"  return {api}ErrorInvalidValue;  // the caller runs the original kernel")
        lines.append("}")
    lines += _ends_early(emitted, api, x_of)
    lines += [*_cxx_call(emitted, api, x_of, declared), f"return {api}GetLastError();"]
    body = [out for line in lines for out in wrap(line, "  ")]
    includes = ["#include <cstdint>", ""] if g.aligned or g.apart else []
    if tensor_maps(kernel):
        includes = ["#include <cuda.h>", *includes, *MAKE_TENSOR_MAP.splitlines(), ""]
    before = "the original launches" if original is not None and original.launches else "the original kernel"
    what = f"; runs {before} where an assumption does not hold" if checks and original else ""
    about = [f"// Launches {emitted.entry}{what}.", *(f"// {line}" for line in working_memory(kernel, x.text))]
    return "\n".join([*includes, *about, *wrap(head, ""), *body, "}"]) + "\n"


def _cuda(emitted: Emitted, original: Emitted | None) -> str:
    return _cxx("cuda", CudaDialect, emitted, original)


def _hip(emitted: Emitted, original: Emitted | None) -> str:
    return _cxx("hip", HipDialect, emitted, original)


# ------------------------------------------------------------------------------------------------------------- torch

TORCH_DTYPES = {
    F16: "at::kHalf",
    BF16: "at::kBFloat16",
    F32: "at::kFloat",
    F64: "at::kDouble",
    BOOL: "at::kBool",
    I32: "at::kInt",
}


def _torch(emitted: Emitted, original: Emitted | None) -> str:
    """A custom operator in ``ktc::``, over the CUDA launcher: buffers are tensors, scalars are ints and floats."""
    kernel = emitted.kernel
    d = CudaDialect(profile_for("cuda"))
    name = emitted.entry
    schema: list[str] = []
    params: list[str] = []
    checks: list[str] = []
    args: list[str] = []
    for p in kernel.params:
        n, t = p.sym.name, p.sym.type
        if p.symbol:
            continue  # the host sets it, as it did for the original
        if isinstance(t, Ptr) and takes_addresses(kernel, p):
            schema.append(f"Tensor {n}")
            params.append(f"const at::Tensor& {n}")
            checks.append(f'TORCH_CHECK({n}.scalar_type() == at::kLong, "{n}: not the addresses of its rows");')
            checks.append(f'TORCH_CHECK({n}.is_cuda() && {n}.is_contiguous(), "{n}: not a contiguous CUDA tensor");')
            args.append(f"static_cast<{d.parameter(p, '').replace(' __restrict__', '').rstrip()}>({n}.data_ptr())")
        elif isinstance(t, Ptr):
            readonly = t.const or p.readonly
            schema.append(f"Tensor {n}" if readonly else f"Tensor({chr(97 + len(schema))}!) {n}")
            params.append(f"{'const ' if readonly else ''}at::Tensor& {n}")
            if (dtype := TORCH_DTYPES.get(scalar_of(t))) is not None:
                checks.append(f'TORCH_CHECK({n}.scalar_type() == {dtype}, "{n}: wrong dtype");')
            checks.append(f'TORCH_CHECK({n}.is_cuda() && {n}.is_contiguous(), "{n}: not a contiguous CUDA tensor");')
            const, get = ("const ", "const_data_ptr") if readonly else ("", "mutable_data_ptr")
            args.append(f"static_cast<{const}{d.type_name(t.elem)}*>({n}.{get}())")
        else:
            is_float = scalar_of(t).is_float
            schema.append(f"{'float' if is_float else 'int'} {n}")
            params.append(f"{'double' if is_float else 'int64_t'} {n}")
            args.append(f"static_cast<{d.type_name(t)}>({n})")
    call = f"C10_CUDA_CHECK(launch_{name}({', '.join([*args, 'at::cuda::getCurrentCUDAStream()'])}));"
    body = [out for line in [*checks, call] for out in wrap(line, "  ")]
    return "\n".join([
        "#include <ATen/cuda/CUDAContext.h>", "#include <c10/cuda/CUDAException.h>", "#include <torch/library.h>", "",
        _cuda(emitted, original), *wrap(f"void {name}_op({', '.join(params)}) {{", ""), *body, "}", "",
        f'TORCH_LIBRARY_FRAGMENT(ktc, m) {{ m.def("{name}({", ".join(schema)}) -> ()"); }}',
        f'TORCH_LIBRARY_IMPL(ktc, CUDA, m) {{ m.impl("{name}", &{name}_op); }}', "",
    ])  # fmt: skip


KINDS: dict[str, Callable[[Emitted, Emitted | None], str]] = {
    "cuda": _cuda, "hip": _hip, "opencl": opencl_launcher, "cupy": cupy_launcher, "torch": _torch,
}  # fmt: skip
