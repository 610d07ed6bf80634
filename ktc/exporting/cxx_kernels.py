"""CUDA and HIP C++ that holds every kernel of an instance, and picks one: each in a namespace of its own, so that their
constants and helpers do not meet.

``choose(sizes...)``         the variant that the nearest measurements speak for, or -1
``applies_K(arguments...)``  whether everything that variant K relies on holds
``launch_K(arguments..., stream)``
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ktc.backends.base import Emitted
from ktc.backends.c_family.c_dialect import Dialect
from ktc.backends.c_family.c_expressions import Exprs
from ktc.backends.c_family.line_layout import wrap
from ktc.backends.c_family.symbol_names import Names
from ktc.backends.cuda.cuda_dialect import CudaDialect
from ktc.backends.hip.hip_dialect import HipDialect
from ktc.backends.launchers.cuda_launcher import MAKE_TENSOR_MAP, TENSOR_TYPES
from ktc.backends.launchers.host_expressions import apart_condition, host_exprs, nothing
from ktc.backends.launchers.launch_geometry import geometry, with_knobs
from ktc.backends.profiles import profile_for
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import is_cooperative
from ktc.ir.producer_launch import tensor_maps
from ktc.ir.sequences import temporaries
from ktc.ir.types import Ptr, scalar_of

from .artefact import Instance
from .code_of import conditions, host_symbols
from .file_scope import without_declarations
from .shipped.dispatch import FASTER, REACH

OWN_NAMES = frozenset({
    "grid", "block", "stream", "shared", "launched", "fits", "args", "min", "max", "make_tensor_map", "kernel",
    "config", "which", "working_memory", "most_shared", "choose", "given", "captured", "capturing",
    "asked", "passed_memory",
    *(f"{n}{k}" for n in ("map", "memory") for k in range(8)),
})  # fmt: skip
"""What the functions here declare and call: no parameter is called so in them."""


@dataclass(frozen=True)
class Api:
    """The runtime that is called: its prefix, header, and the printer of expressions."""

    name: str
    header: str
    dialect: type[Dialect]
    suffix: str


APIS = {
    "cuda": Api("cuda", "cuda_runtime.h", CudaDialect, "cu"),
    "hip": Api("hip", "hip/hip_runtime.h", HipDialect, "hip"),
}


@dataclass(frozen=True)
class Host:
    """The host side of one kernel: a printer of its expressions, and the names of its parameters."""

    kernel: Kernel
    x: Exprs
    names: Names

    @property
    def params(self) -> list[Param]:
        """Everything that a caller passes: host sizes too, working memory not."""
        return [p for p in self.kernel.params if not p.symbol and p.scratch is None]

    def declared(self, without: Collection[str] = ()) -> str:
        """The parameters, in types that are known outside of the kernel's namespace."""
        return ", ".join(self.parameter(p) for p in self.params if p.sym.name not in without)

    def parameter(self, p: Param) -> str:
        text = self.x.d.parameter(p, self.names.of(p.sym)).replace(" __restrict__", "")
        return re.sub(r"\b(e4m3|e5m2)\b(?=.*\*)", "unsigned char", text)  # what texts call the bits of 8-bit floats

    def elem(self, p: Param) -> str:
        """The type of a buffer's elements, known outside as well."""
        assert isinstance(p.sym.type, Ptr)
        return re.sub(r"^(e4m3|e5m2)$", "unsigned char", self.x.d.type_name(p.sym.type.elem))

    def passed(self) -> str:
        return ", ".join(self.names.of(p.sym) for p in self.params)

    def passed_to(self, other: Host, without: Collection[str] = ()) -> str:
        """The arguments of ``other``, which may take pointers to the elements of vectors, in this one's names."""
        own = {p.sym.name: p for p in (*self.params, *temporaries(self.kernel))}
        return ", ".join(self._as(own[p.sym.name], p, other) for p in other.params if p.sym.name not in without)

    def _as(self, own: Param, p: Param, other: Host) -> str:
        name = self.names.of(own.sym)
        if not isinstance(p.sym.type, Ptr) or other.elem(p) == self.elem(own):
            return name
        const = "const " if other.parameter(p).startswith("const ") else ""
        return f"reinterpret_cast<{const}{other.elem(p)}*>({name})"


def host_of(e: Emitted, api: Api) -> Host:
    x, names = host_exprs(e.kernel, api.dialect(profile_for(api.name)), OWN_NAMES | {e.entry})
    return Host(e.kernel, x, names)


def includes(texts: Sequence[Emitted], api: Api) -> list[str]:
    """The directives of all texts, once each, and what the host code needs."""
    found = dict.fromkeys(line for e in texts for line in _own(e) if line.startswith("#include"))
    needed = ["<cmath>", "<cstddef>", "<cstdint>", "<map>", "<mutex>", "<tuple>", "<utility>", f"<{api.header}>"]
    needed += ["<cuda.h>"] if any(tensor_maps(e.kernel) for e in texts) else []
    return sorted({*found, *(f"#include {n}" for n in needed)}, key=lambda line: (".h" not in line, line))


def conditional_sections(texts: Sequence[Emitted]) -> list[str]:
    """Sections that include one header or another, with what they declare of it: for the file's scope, once each."""
    return list(dict.fromkeys(s for e in texts for s in e.sections if _is_conditional(s)))


def _is_conditional(section: str) -> bool:
    return "#include" in section and "#if" in section


def _own(e: Emitted) -> list[str]:
    """The lines of a text without its conditional sections."""
    sections = [s for s in e.sections if not _is_conditional(s)] or [e.text]
    return "\n\n".join(sections).rstrip().splitlines()


def namespace_of(e: Emitted, name: str) -> list[str]:
    """The kernel with all that its text declares, in a namespace; each launch of a sequence in one of its own."""
    if e.launches:
        return [line for k, step in enumerate(e.launches) for line in namespace_of(step, f"{name}_{k}")]
    body = [line for line in _own(e) if not line.startswith("#include")]
    body = without_declarations(body, host_symbols(e.kernel))
    maker = ["", *MAKE_TENSOR_MAP.rstrip().splitlines()] if tensor_maps(e.kernel) else []
    return [f"namespace {name} {{", *_without_leading_blanks(body), *maker, f"}}  // namespace {name}", ""]


def _without_leading_blanks(lines: list[str]) -> list[str]:
    out: list[str] = []
    for line in lines:
        if line or (out and out[-1]):
            out.append(line)
    return out


def common(texts: Sequence[Emitted], api: Api) -> list[str]:
    """Functions that every instance uses, as far as it needs them."""
    lines: list[str] = []
    if any(p.scratch is not None for e in texts for p in e.kernel.params):
        lines += WORKING_MEMORY.replace("API", api.name).splitlines()
    if any(e.launches and temporaries(e.kernel) for e in texts):
        lines += PASSED_MEMORY.replace("API", api.name).splitlines()
    if any(geometry(step.kernel).room is not None for e in texts for step in e.launches or (e,)):
        lines += MOST_SHARED[api.name].splitlines()
    return [*lines, ""] if lines else []


WORKING_MEMORY = """\
// Working memory of a kernel, for each device and stream: zero before the first launch, left by each fit for the next.
// Null while the stream is captured into a graph, whose replays could meet in it: the caller then runs the original.
inline void* working_memory(APIStream_t stream, int slot, std::size_t bytes) {
  static std::mutex guard;
  static std::map<std::tuple<int, APIStream_t, int>, std::pair<void*, std::size_t>> kept;
  APIStreamCaptureStatus capturing = APIStreamCaptureStatusNone;
  int device = 0;
  if (APIStreamIsCapturing(stream, &capturing) != APISuccess || capturing != APIStreamCaptureStatusNone) return nullptr;
  if (APIGetDevice(&device) != APISuccess) return nullptr;
  const std::lock_guard<std::mutex> lock(guard);
  auto& entry = kept[std::make_tuple(device, stream, slot)];
  if (entry.second < bytes) {
    if (entry.first != nullptr && APIFree(entry.first) != APISuccess) return nullptr;
    entry = {nullptr, 0};
    void* memory = nullptr;
    if (APIMalloc(&memory, bytes) != APISuccess) return nullptr;
    if (APIMemsetAsync(memory, 0, bytes, stream) != APISuccess) return nullptr;
    entry = {memory, bytes};
  }
  return entry.first;
}
"""

PASSED_MEMORY = """\
// What launches of a sequence leave for each other: kept for each device and stream; while the stream is captured into
// a graph, allocated by the graph, which the caller has free it as well.
inline APIError_t passed_memory(APIStream_t stream, int slot, std::size_t bytes, void** memory, bool* captured) {
  APIStreamCaptureStatus capturing = APIStreamCaptureStatusNone;
  const APIError_t asked = APIStreamIsCapturing(stream, &capturing);
  if (asked != APISuccess) return asked;
  *captured = capturing != APIStreamCaptureStatusNone;
  if (bytes == 0) bytes = 1;
  if (*captured) return APIMallocAsync(memory, bytes, stream);
  *memory = working_memory(stream, slot, bytes);
  return *memory != nullptr ? APISuccess : APIErrorMemoryAllocation;
}
"""

MOST_SHARED = {
    "cuda": """\
// Bytes of shared memory that the current device has for a block.
inline long long most_shared() {
  int device = 0, bytes = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  if (cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess) return 0;
  return bytes;
}
""",
    "hip": """\
// Bytes of shared memory that the current device has for a block.
inline long long most_shared() {
  int device = 0, bytes = 0;
  if (hipGetDevice(&device) != hipSuccess) return 0;
  if (hipDeviceGetAttribute(&bytes, hipDeviceAttributeMaxSharedMemoryPerBlock, device) != hipSuccess) return 0;
  return bytes;
}
""",
}


def applies(e: Emitted, api: Api, name: str) -> list[str]:
    """``bool NAME(arguments...)``: everything that the kernel, or each launch of a sequence, relies on."""
    h = host_of(e, api)
    inner = {p.sym.name for p in temporaries(e.kernel)} if e.launches else set[str]()
    lines: list[str] = []
    checks: list[str] = []
    for k, step in enumerate(e.launches):
        lines += _applies(step, api, f"{name}_{k}", inner)
        checks.append(f"{name}_{k}({h.passed_to(host_of(step, api), inner)})")
    if not e.launches:
        return _applies(e, api, name, inner)
    body = wrap(f"return {' && '.join(checks)};", "  ")
    return [*lines, *wrap(f"inline bool {name}({h.declared()}) {{", ""), *body, "}", ""]


def _applies(e: Emitted, api: Api, name: str, inner: Collection[str]) -> list[str]:
    """:func:`applies` of one launch; of the buffers ``inner``, which callers do not pass, nothing is asked."""
    h = host_of(e, api)
    g = geometry(e.kernel)
    checks = [h.x.piece(c).at(6) for c in conditions(e.kernel, g)]
    checks += [
        f"reinterpret_cast<std::uintptr_t>({h.names.of(p.sym)}) % {n} == 0"
        for p, n in g.aligned if p.sym.name not in inner
    ]  # fmt: skip
    checks += [
        apart_condition(
            a, lambda s: f"reinterpret_cast<std::intptr_t>({h.names.of(s)})", lambda x: h.x.piece(x).at(11), "||"
        )
        for a in g.apart if not {a.one.buffer.name, a.other.buffer.name} & {*inner}
    ]  # fmt: skip
    checks += [f"{h.x.piece(g.room).at(6)} <= most_shared()"] if g.room is not None else []
    body = wrap(f"return {' && '.join(checks) or 'true'};", "  ")
    return [*wrap(f"inline bool {name}({h.declared(inner)}) {{", ""), *body, "}", ""]


def launching(e: Emitted, api: Api, name: str, namespace: str, slot: int) -> list[str]:
    """``API_Error_t NAME(arguments..., stream)``; without working memory, *not ready*: nothing was launched."""
    h = host_of(e, api)
    steps: list[str] = []
    for k, step in enumerate(e.launches):
        steps += launching(step, api, f"{name}_{k}", f"{namespace}_{k}", STEPS * (slot + 1) + k)
    head = (
        f"inline {api.name}Error_t {name}({', '.join(filter(None, [h.declared(), f'{api.name}Stream_t stream']))}) {{"
    )
    body = _launches(e, api, h, name) if e.launches else _launch(e, api, h, namespace, slot)
    lines = [out for line in body for out in wrap(line, "  ")]
    return [*steps, *wrap(head, ""), *lines, "}", ""]


STEPS = 64
"""Launches of a sequence that have slots of working memory of their own."""


def _launches(e: Emitted, api: Api, h: Host, name: str) -> Iterator[str]:
    """The launches of a sequence one after the other, in memory for what they leave for each other."""
    error, passed = f"{api.name}Error_t", temporaries(e.kernel)
    if any(p.scratch is not None for step in e.launches for p in step.kernel.params):
        yield f"{api.name}StreamCaptureStatus capturing = {api.name}StreamCaptureStatusNone;"
        yield f"const {error} asked = {api.name}StreamIsCapturing(stream, &capturing);"
        yield f"if (asked != {api.name}Success) return asked;"
        yield f"if (capturing != {api.name}StreamCaptureStatusNone) return {api.name}ErrorNotReady;"
    yield f"{error} launched = {api.name}Success;"
    if passed:
        yield "bool captured = false;"
    for k, p in enumerate(passed):
        assert p.scratch is not None and isinstance(p.sym.type, Ptr)
        elem = h.elem(p)
        size = f"sizeof({elem}) * static_cast<std::size_t>({h.x.text(p.scratch)})"
        yield f"void* memory{k} = nullptr;"
        yield f"launched = passed_memory(stream, {-1 - k}, {size}, &memory{k}, &captured);"
        yield f"if (launched != {api.name}Success) return launched;"
        yield f"{elem}* const {h.names.of(p.sym)} = static_cast<{elem}*>(memory{k});"
    for k, step in enumerate(e.launches):
        args = ", ".join(filter(None, [h.passed_to(host_of(step, api)), "stream"]))
        call = f"launched = {name}_{k}({args});"
        yield call if k == 0 else f"if (launched == {api.name}Success) {call}"
        if k:  # the first has run: it is too late for another kernel
            yield f"if (launched == {api.name}ErrorNotReady) launched = {api.name}ErrorMemoryAllocation;"
    for k in range(len(passed)):
        yield f"if (captured) static_cast<void>({api.name}FreeAsync(memory{k}, stream));"
    yield "return launched;"


def _launch(e: Emitted, api: Api, h: Host, namespace: str, slot: int) -> Iterator[str]:
    g = geometry(e.kernel)
    entry = f"{namespace}::{e.entry}"
    if none := nothing(g, lambda e: h.x.piece(e).at(11)):
        yield f"if ({none}) return {api.name}Success;  // there is nothing to do"
    for kind, dims in (("grid", g.grid), ("block", g.block)):
        texts = [h.x.text(d) for d in dims]
        yield f"const dim3 {kind}({', '.join(t if t.isdigit() else f'static_cast<unsigned>({t})' for t in texts)});"
    for k, p in enumerate(p for p in e.kernel.params if p.scratch is not None):
        assert p.scratch is not None and isinstance(p.sym.type, Ptr)
        elem = api.dialect(profile_for(api.name)).type_name(p.sym.type.elem)
        count = h.x.text(with_knobs(e.kernel, p.scratch))
        memory = f"working_memory(stream, {8 * slot + k}, sizeof({elem}) * ({count}))"
        yield f"{elem}* const {h.names.of(p.sym)} = static_cast<{elem}*>({memory});"
        yield f"if ({h.names.of(p.sym)} == nullptr) return {api.name}ErrorNotReady;"
    args = [h.names.of(p.sym) for p in e.kernel.params if not p.host and not p.symbol]
    for k, m in enumerate(tensor_maps(e.kernel)):
        sizes = ", ".join(h.x.piece(x).at(6) for x in (*m.extent, m.pitch))
        yield f"{namespace}::tensor_map map{k} = {{}};"
        made = f"{namespace}::make_tensor_map(&map{k}, {h.names.of(m.src)}, {sizes}, {m.rows}, "
        yield f"if (!{made}{TENSOR_TYPES[scalar_of(m.src.type)]})) return {api.name}ErrorInvalidValue;"
        args.append(f"map{k}")
    shared = h.x.text(g.shared)
    if api.name == "cuda" and not (shared.isdigit() and int(shared) <= 48 << 10):
        asked = f"cudaFuncSetAttribute({entry}, cudaFuncAttributeMaxDynamicSharedMemorySize, {shared})"
        yield f"const cudaError_t fits = {asked};"
        yield "if (fits != cudaSuccess) return fits;"
    if is_cooperative(e.kernel.body):
        addresses = ", ".join(f"const_cast<void*>(static_cast<const void*>(&{a}))" for a in args)
        yield f"void* given[] = {{{addresses}}};"
        what = f"reinterpret_cast<const void*>({entry})"
        yield f"return {api.name}LaunchCooperativeKernel({what}, grid, block, given, {shared}, stream);"
        return
    yield f"{entry}<<<grid, block, {shared}, stream>>>({', '.join(args)});"
    yield f"return {api.name}GetLastError();"


def choosing(instance: Instance, name: str) -> list[str]:
    """``int NAME(scalars...)``: the variant that the nearest measurements speak for, -1 for the original."""
    if instance.everywhere is not None:
        return [f"inline int {name}() {{ return {instance.everywhere}; }}", ""]
    won = [p for p in instance.points if p.variant is not None]
    if not won:
        return [f"inline int {name}() {{ return -1; }}", ""]
    names = list(won[0].at)
    params = ", ".join(f"long long {_coordinate(n)}" for n in names)
    low = [min(p.at[n] for p in won) for n in names]
    high = [max(p.at[n] for p in won) for n in names]
    beyond = " || ".join(f"{_coordinate(n)} < {a} || {_coordinate(n)} > {b}" for n, a, b in zip(names, low, high))
    rows = ", ".join("{" + ", ".join(str(p.at[n]) for n in names) + "}" for p in instance.points)
    count, of = len(instance.points), len(instance.variants)
    timed = ", ".join(
        "{" + ", ".join(f"{dict(p.speedups).get(v, 0.0)!r}" for v in range(of)) + "}" for p in instance.points
    )
    lines = [
        "// Between measurements at which a tuned kernel was faster: of those timed at the nearest one, the one whose",
        f"// least speed-up there and at those at most {REACH} times as far is the greatest; -1: the original.",
        f"inline int {name}({params}) {{",
        f"  if ({beyond}) return -1;",
        f"  static const double measured[{count}][{len(names)}] = {{{rows}}};",
        f"  static const double speedup[{count}][{of}] = {{{timed}}};  // 0: not timed",
        f"  const double given[{len(names)}] = {{{', '.join(f'double({_coordinate(n)})' for n in names)}}};",
        f"  double distance[{count}];",
        "  int nearest = 0;",
        f"  for (int k = 0; k < {count}; ++k) {{",
        "    distance[k] = 0;",
        f"    for (int a = 0; a < {len(names)}; ++a) {{",
        "      distance[k] += std::fabs(std::log((given[a] + 1) / (measured[k][a] + 1)));",
        "    }",
        "    if (distance[k] < distance[nearest]) nearest = k;",
        "  }",
        "  int best = -1;",
        "  double most = 0;",
        f"  for (int v = 0; v < {of}; ++v) {{",
        "    double least = speedup[nearest][v];",
        f"    for (int k = 0; k < {count}; ++k) {{",
        f"      const bool asked = distance[k] <= {REACH} * distance[nearest] && speedup[k][v] > 0;",
        "      if (asked && speedup[k][v] < least) least = speedup[k][v];",
        "    }",
        "    if (least > most) { most = least; best = v; }",
        "  }",
        f"  return most >= {FASTER} ? best : -1;",
        "}", "",
    ]  # fmt: skip
    return [out for line in lines for out in wrap(line, "")]


def coordinates(instance: Instance) -> list[str]:
    """The scalars that :func:`choosing` asks for, in its order."""
    won = [p for p in instance.points if p.variant is not None]
    return list(won[0].at) if won and instance.everywhere is None else []


def _coordinate(name: str) -> str:
    return f"at_{name}"


def instance_code(instance: Instance, texts: Mapping[str, Emitted], api: Api, tag: str) -> list[str]:
    """Everything of one instance but its entry point: ``tag`` ends the names of its namespaces and functions. The
    original is not launched here where its text is None."""
    lines: list[str] = []
    for k, code in enumerate(instance.variants):
        e = texts[code.file]
        what = f"{code.script}{''.join(f' {n}={v}' for n, v in code.knobs.items())}"
        lines += [f"// {what}", *namespace_of(e, f"tuned{tag}{k}")]
        lines += applies(e, api, f"applies{tag}{k}")
        lines += launching(e, api, f"launch{tag}{k}", f"tuned{tag}{k}", k)
    return [*lines, *choosing(instance, f"choose{tag}")]


def tried(instance: Instance, texts: Mapping[str, Emitted], api: Api, tag: str, h: Host) -> list[str]:
    """Statements that launch the chosen variant and return, if there is one and it may run. ``h``: the names in whose
    scope they stand."""
    if not instance.variants:
        return []
    known = {p.sym.name: h.names.of(p.sym) for p in h.params}
    lines = [f"const int which = choose{tag}({', '.join(known[n] for n in coordinates(instance))});"]
    for k, code in enumerate(instance.variants):
        passed = h.passed_to(host_of(texts[code.file], api))
        stream = f"{passed}, stream" if passed else "stream"
        lines += [
            f"if (which == {k} && applies{tag}{k}({passed})) {{",
            f"  const {api.name}Error_t launched = launch{tag}{k}({stream});",
            f"  if (launched != {api.name}ErrorNotReady) return launched;",
            "}",
        ]
    return [out for line in lines for out in wrap(line, "  ")]


def forced(instance: Instance, texts: Mapping[str, Emitted], api: Api, tag: str, h: Host) -> list[str]:
    """Statements that launch the variant ``which`` and return, if there is one and it may run."""
    lines = []
    for k, code in enumerate(instance.variants):
        passed = h.passed_to(host_of(texts[code.file], api))
        stream = f"{passed}, stream" if passed else "stream"
        lines.append(f"if (which == {k} && applies{tag}{k}({passed})) return launch{tag}{k}({stream});")
    return [out for line in lines for out in wrap(line, "  ")]
