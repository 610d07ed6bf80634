"""Entry points of the front-end: :func:`load` a kernel, :func:`list_kernels` of a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from ..diagnostics import KtcError, Loc
from ..kernel import Kernel, Launch, Param
from .cxx_ast import Function
from .cxx_types import show
from .host import HostLaunch
from .limits import RECURSION_LIMIT
from .lower import KernelLowering
from .parser import CudaParser
from .preprocess import Preprocessed, preprocess
from .program import Entity, Program, index_program
from .sites import LaunchSite, kernel_template_args, launch_sites
from .source import read_source
from .values import RVal, TypeVal, Value


@dataclass(frozen=True)
class TemplateParamInfo:
    """``kind`` is 'type' or 'value'."""

    name: str
    kind: str


@dataclass(frozen=True)
class KernelInfo:
    """A kernel of a file: its template parameters, parameter names and where it is launched from."""

    name: str
    template: tuple[TemplateParamInfo, ...]
    params: tuple[str, ...]
    launches: tuple[str, ...]
    loc: Loc | None


@dataclass
class Unit:
    """A parsed file."""

    file: str
    source: Preprocessed
    program: Program

    def lowering(self) -> KernelLowering:
        return KernelLowering(self.program, self.source, self.file)


def load(
    path_or_text: str,
    *,
    name: str | None = None,
    kernel: str | None = None,
    template: Mapping[str, object] | None = None,
    defines: Mapping[str, object] | None = None,
    include_dirs: tuple[str, ...] = (),
) -> Kernel:
    """Read one CUDA C++ kernel into SPMD form, with the launch found in the host code, if any.

    Args:
        path_or_text: A path, or source text (anything with a newline or a brace).
        name: File name to report for text.
        kernel: Which kernel; needed when the file has several.
        template: Template arguments by parameter name, as C++ spells them: ``{"T": "half", "N": 8}``.
        defines: Macros, as ``-D`` would give them.
        include_dirs: Folders that ``#include`` may read besides the file's own.

    Raises:
        KtcError: ``E-SOURCE-*``, ``E-PP-*``, ``E-PARSE-*``, ``E-SEMA-*``, ``E-UNSUPPORTED-*``, ``E-KERNEL-*``,
            ``E-TEMPLATE-*`` with the place and what to do.
    """
    with _deep_recursion(name or "<text>"):
        unit = parse_unit(path_or_text, name, defines, tuple(include_dirs))
        return _located(unit, lambda: _load(unit, kernel, dict(template or {})))


def list_kernels(
    path: str,
    *,
    name: str | None = None,
    defines: Mapping[str, object] | None = None,
    include_dirs: tuple[str, ...] = (),
) -> list[KernelInfo]:
    """The ``__global__`` functions of a file, in source order."""
    with _deep_recursion(path):
        unit = parse_unit(path, name, defines, tuple(include_dirs))
        sites = launch_sites(unit.lowering())
        return [_info(e, sites) for e in unit.program.kernels]


def parse_unit(
    path_or_text: str, name: str | None, defines: Mapping[str, object] | None, include_dirs: tuple[str, ...]
) -> Unit:
    """Preprocess, parse and index a file or text."""
    is_text = "\n" in path_or_text or "{" in path_or_text
    file = name or ("<text>" if is_text else path_or_text)
    text = path_or_text if is_text else read_source(path_or_text)
    source = preprocess(text, file, defines, include_dirs)
    items = CudaParser().parse_unit(source.text, file)
    return Unit(file, source, index_program(items))


def _load(unit: Unit, kernel: str | None, template: dict[str, object]) -> Kernel:
    entity = choose_kernel(unit, kernel)
    lowering = unit.lowering()
    sites = launch_sites(lowering, entity.name)
    bindings, site, host = choose_instance(lowering, entity, sites, template)
    params = lowering.parameters(entity, bindings)
    launch: Launch | None = None
    if site is not None:
        try:
            launch, more = HostLaunch(lowering, site, params, host).launch()
            params = (*params, *more)
        except KtcError as error:
            if not error.code.startswith(("E-LAUNCH", "E-SEMA", "E-UNSUPPORTED")):
                raise
            launch = None  # host code that cannot be followed is no fault of the kernel: the workload gives the launch
    return lowering.lower(entity, bindings, params, launch)


def choose_kernel(unit: Unit, wanted: str | None) -> Entity:
    """The kernel to load.

    Raises:
        KtcError: E-KERNEL-NONE, E-KERNEL-UNKNOWN, E-KERNEL-SEVERAL, or why the wanted kernel did not parse.
    """
    kernels = unit.program.kernels
    names = list(dict.fromkeys(e.name for e in kernels))
    broken = [b for b in unit.program.bad if b.is_device]
    if wanted is not None:
        found = [e for e in kernels if e.name == wanted.split("::")[-1]]
        if found:
            return found[0]
        error = unit.program.bad_function(wanted)
        if error is not None:
            raise error
        hint = f"the kernels of this file: {', '.join(names)}" if names else "this file has no __global__ function"
        raise KtcError("E-KERNEL-UNKNOWN", f"no kernel '{wanted}' in {unit.file}", hint=hint, exit_code=2)
    if not kernels:
        if broken:
            raise broken[0].error
        raise KtcError(
            "E-KERNEL-NONE", f"{unit.file} has no __global__ function", hint="give a CUDA C++ file with a kernel in it"
        )
    if len(names) > 1:
        lines = ", ".join(f"{e.name} (line {e.node.coord.line})" for e in kernels)
        raise KtcError(
            "E-KERNEL-SEVERAL",
            f"{unit.file} has {len(names)} kernels: {lines}",
            hint=f"choose one with --kernel {names[0]}",
            exit_code=2,
        )
    return kernels[0]


def choose_instance(
    lowering: KernelLowering, entity: Entity, sites: list[LaunchSite], template: dict[str, object]
) -> tuple[dict[str, Value], LaunchSite | None, dict[str, Value]]:
    """(template bindings, launch site, bindings of the host template) for the arguments the user gave.

    Raises:
        KtcError: E-TEMPLATE-UNKNOWN, E-TEMPLATE-VALUE, or E-TEMPLATE-MISSING listing the instances the file launches.
    """
    params = entity.params or ()
    given = {n: template_value(lowering, entity, n, v) for n, v in template.items()}
    best: tuple[dict[str, Value], LaunchSite | None, dict[str, Value]] | None = None
    instances: dict[tuple[str, ...], tuple[dict[str, Value], LaunchSite, dict[str, Value]]] = {}
    for site in sites:
        matched = kernel_template_args(lowering, entity, site, given)
        if matched is None:
            continue
        bound, host = matched
        full = _complete(lowering, entity, bound)
        if full is not None:
            instances.setdefault(tuple(_spell(full[p.name]) for p in params), (full, site, host))
    if len(instances) == 1:
        return next(iter(instances.values()))
    if instances and not params:
        return next(iter(instances.values()))
    if instances:
        names = "; ".join("<" + ", ".join(key) + ">" for key in instances)
        first = " ".join(f"--template {p.name}={v}" for p, v in zip(params, next(iter(instances))))
        raise KtcError("E-TEMPLATE-MISSING", f"'{entity.name}' is launched with several template arguments: {names}",
                       lowering.place(entity.node), hint=f"choose one, for example {first}")  # fmt: skip
    full = _complete(lowering, entity, given)
    if full is not None:
        best = (full, None, {})
        return best
    missing = [p for p in params if p.name not in given and p.default is None]
    example = " ".join(f"--template {p.name}={'half' if p.kind == 'type' else '256'}" for p in missing)
    raise KtcError("E-TEMPLATE-MISSING", f"template parameter{'s' if len(missing) > 1 else ''} "
                   f"{', '.join(repr(p.name) for p in missing)} of '{entity.name}' must be given",
                   lowering.place(entity.node), hint=f"for example {example}")  # fmt: skip


def _complete(lowering: KernelLowering, entity: Entity, bound: dict[str, Value]) -> dict[str, Value] | None:
    """All template parameters, defaults included; None if some are missing."""
    with lowering.scoped(namespace=entity.namespace) as scope:
        try:
            lowering.bind_params(entity.params or (), [], entity.node, bound)
        except KtcError as error:
            if error.code != "E-SEMA-TEMPLATE":
                raise
            return None
        return {p.name: scope.names[p.name] for p in entity.params or ()}


def template_value(lowering: KernelLowering, entity: Entity, name: str, value: object) -> Value:
    """A template argument given as text or number."""
    params = {p.name: p for p in entity.params or ()}
    if name not in params:
        known = ", ".join(params) or "none: it is not a template"
        raise KtcError("E-TEMPLATE-UNKNOWN", f"'{entity.name}' has no template parameter '{name}'",
        lowering.place(entity.node),
                       hint=f"its template parameters: {known}", exit_code=2)  # fmt: skip
    text = {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value)
    kind = params[name].kind
    declaration = f"using ktc_argument = {text};" if kind == "type" else f"constexpr auto ktc_argument = {text};"
    text = _IR_NAMES.get(text, text)
    declaration = f"using ktc_argument = {text};" if kind == "type" else declaration
    parser = CudaParser()
    items = parser.parse_unit(declaration, "--template")
    try:
        if kind == "type":
            return TypeVal(lowering.resolve(items[0].type))
        return lowering.const_value(items[0].init, f"template argument {name}")
    except (KtcError, AttributeError, IndexError):
        raise KtcError("E-TEMPLATE-VALUE", f"'{text}' is not a {kind} that template parameter '{name}' can take",
                       hint="write it as C++ does: half, float, __nv_bfloat16, 8, true",
                       exit_code=2) from None  # fmt: skip


_IR_NAMES = {
    "f16": "__half", "bf16": "__nv_bfloat16", "f32": "float", "f64": "double", "i8": "int8_t", "u8": "uint8_t",
    "i16": "int16_t", "u16": "uint16_t", "i32": "int", "u32": "unsigned", "i64": "int64_t", "u64": "uint64_t",
}  # fmt: skip


def _spell(v: Value) -> str:
    if isinstance(v, TypeVal):
        return show(v.type)
    if isinstance(v, RVal):
        value = v.expr.value  # type: ignore[attr-defined]
        return str(value).lower() if isinstance(value, bool) else str(value)
    return "..."


def _info(e: Entity, sites: list[LaunchSite]) -> KernelInfo:
    fn: Function = e.node
    params = tuple(getattr(p, "name", None) or "" for p in fn.decl.type.args.params)
    template = tuple(TemplateParamInfo(p.name, p.kind) for p in e.params or ())
    launches = tuple(str(s.loc) for s in sites if s.kernel == e.name)
    coord = fn.coord
    return KernelInfo(e.name, template, params, launches, Loc(coord.file, coord.line, coord.column or 1))


def _located(unit: Unit, f):
    """Give errors the text of the file they point into, so that a caret can be drawn."""
    try:
        return f()
    except KtcError as error:
        if error.source is None and error.loc is not None:
            error.source = unit.source.sources.get(error.loc.file)
        raise


@contextmanager
def _deep_recursion(what: str) -> Iterator[None]:
    saved = sys.getrecursionlimit()
    sys.setrecursionlimit(max(saved, RECURSION_LIMIT))
    try:
        yield
    except RecursionError:
        raise KtcError(
            "E-PARSE-DEPTH", f"{os.path.basename(what)} nests too deep", hint="simplify the nesting"
        ) from None
    finally:
        sys.setrecursionlimit(saved)


__all__ = ["KernelInfo", "Param", "list_kernels", "load"]
