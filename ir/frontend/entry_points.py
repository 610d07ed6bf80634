"""Entry points of the front-end: :func:`load` a kernel, :func:`list_kernels` of a file."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ktc.ir.diagnostics import KtcError, Loc
from ktc.ir.fold import evaluate
from ktc.ir.frontend.dialects.dialect import Dialect, dialect_named, dialect_of
from ktc.ir.frontend.host.callers import with_callers
from ktc.ir.frontend.host.guessing.guess_search import GuessSearch
from ktc.ir.frontend.host.host_templates import HostInstances
from ktc.ir.frontend.host.kernel_choice import (
    chosen,
    definition,
    disabled,
    label,
    launches_in_some_instance,
    named,
    rivals,
    several,
)
from ktc.ir.frontend.host.kernel_names import Spelled, as_source, spelled
from ktc.ir.frontend.host.launch_sites import LaunchSite, launch_sites
from ktc.ir.frontend.host.launches.host_launches import HostLaunch
from ktc.ir.frontend.host.template_instances import choose_instance, instances, no_instance, template_value
from ktc.ir.frontend.host.unused_axes import without_unused_axes
from ktc.ir.frontend.host.usual_instances import USUAL_SIZE, nearest_first
from ktc.ir.frontend.library.device_libraries import libraries_of, with_plain_std
from ktc.ir.frontend.lowering.calls.inline import params_of
from ktc.ir.frontend.lowering.lower_kernel import KernelLowering
from ktc.ir.frontend.meaning.template_args import spell
from ktc.ir.frontend.meaning.templates import plain_name
from ktc.ir.frontend.meaning.values import Value
from ktc.ir.frontend.preprocess.linked_units import linked_units, with_units
from ktc.ir.frontend.preprocess.preprocessor import Finder, Preprocessed, preprocess
from ktc.ir.frontend.preprocess.source_text import read_source
from ktc.ir.frontend.preprocess.switched_off import hint_of
from ktc.ir.frontend.syntax.cxx_ast import Function
from ktc.ir.frontend.syntax.cxx_parser import CudaParser
from ktc.ir.frontend.syntax.program import Entity, Program, index_program
from ktc.ir.kernel import Kernel, Launch, Param
from ktc.ir.support.collector import collector_at_rest
from ktc.ir.support.kept_results import kept
from ktc.ir.types import Scalar
from ktc.ir.verifier import check

from .input_limits import RECURSION_LIMIT


@dataclass(frozen=True)
class TemplateParamInfo:
    """``kind`` is 'type' or 'value'."""

    name: str
    kind: str


@dataclass(frozen=True)
class KernelInfo:
    """A kernel of a file: its template parameters, parameter names and where it is launched from. ``name``: what the
    argument ``kernel`` of :func:`load` takes, with namespaces and parameters where the file has several of the name."""

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
    dialect: str | None = None,
) -> Kernel:
    """Read one CUDA C++ kernel into SPMD form, with the launch found in the host code, if any.

    Args:
        path_or_text: A path, or source text (anything with a newline or a brace).
        name: File name to report for text.
        kernel: Which kernel; needed when the file has several.
        template: Template arguments by parameter name, as C++ spells them: ``{"T": "half", "N": 8}``.
        defines: Macros, as ``-D`` would give them.
        include_dirs: Folders that ``#include`` may read besides the file's own.
        dialect: cuda, hip or opencl; by default what the file's name or text says.

    Raises:
        KtcError: ``E-SOURCE-*``, ``E-PP-*``, ``E-PARSE-*``, ``E-SEMA-*``, ``E-UNSUPPORTED-*``, ``E-KERNEL-*``,
            ``E-TEMPLATE-*`` with the place and what to do.
    """
    with deep_recursion(name or "<text>"):
        unit = parse_unit(path_or_text, name, defines, tuple(include_dirs), dialect=dialect)
        with _located(unit):
            return _load(unit, kernel, dict(template or {}))


def list_kernels(
    path: str,
    *,
    name: str | None = None,
    defines: Mapping[str, object] | None = None,
    include_dirs: tuple[str, ...] = (),
    dialect: str | None = None,
) -> list[KernelInfo]:
    """The ``__global__`` functions of a file, in source order."""
    with deep_recursion(path):
        unit = parse_unit(path, name, defines, tuple(include_dirs), dialect=dialect)
        lowering = unit.lowering()
        sites, callers = launch_sites(lowering), HostInstances(lowering)
        return [_info(e, sites, callers) for e in unit.program.kernels]


def template_arguments(
    path: str,
    *,
    kernel: str | None = None,
    defines: Mapping[str, object] | None = None,
    include_dirs: tuple[str, ...] = (),
    dialect: str | None = None,
    guesses: bool = True,
) -> Iterator[dict[str, str]]:
    """Arguments to instantiate a template kernel with that lead to a kernel: those of the file's launches, first the
    launches that the source comes to where sizes are usual ones, then, with ``guesses``, plausible ones (one type and
    one number for all parameters)."""
    with deep_recursion(path):
        unit = parse_unit(path, None, defines, tuple(include_dirs), dialect=dialect)
        entity, _ = choose_kernel(unit, kernel)
        sites = launch_sites(unit.lowering(), entity.name)

        def read(bindings: dict[str, Value]) -> Kernel:
            kernel = load_entity(unit, entity, bindings, None, {})
            check(kernel)
            return kernel

        unusual: list[dict[str, str]] = []
        for bindings, site, host in nearest_first(entity, instances(unit.lowering(), entity, sites, {})):
            try:
                check(found := load_entity(unit, entity, bindings, site, host))
            except KtcError:
                continue
            if _is_usual(found):
                yield _spelled(entity, bindings)
            else:
                unusual.append(_spelled(entity, bindings))
        yield from unusual
        for bindings, _ in GuessSearch(unit.lowering(), entity, sites, read) if guesses else ():
            yield _spelled(entity, bindings)


def _is_usual(kernel: Kernel) -> bool:
    """Whether the source comes to the launch of ``kernel`` where every integer is :data:`USUAL_SIZE`, as far as is
    known."""
    sizes = {p.sym.name: USUAL_SIZE for p in kernel.params if isinstance(p.sym.type, Scalar) and p.sym.type.is_int}
    return kernel.launch is None or all(evaluate(e, sizes) in (True, 1, None) for e in kernel.launch.reached)


def why_no_instance(
    path: str,
    *,
    kernel: str | None = None,
    defines: Mapping[str, object] | None = None,
    include_dirs: tuple[str, ...] = (),
    dialect: str | None = None,
) -> KtcError | None:
    """Why the first instance of a template kernel that the file launches leads to no kernel, or, where it launches
    none, why no arguments at all do; None if they do, or if other arguments may."""
    with deep_recursion(path):
        unit = parse_unit(path, None, defines, tuple(include_dirs), dialect=dialect)
        entity, _ = choose_kernel(unit, kernel)
        sites = launch_sites(unit.lowering(), entity.name)

        def read(bindings: dict[str, Value]) -> None:
            check(load_entity(unit, entity, bindings, None, {}))

        for bindings, _, _ in instances(unit.lowering(), entity, sites, {}):
            try:
                read(bindings)
            except KtcError as why:
                return why
            return None
        search = GuessSearch(unit.lowering(), entity, sites, read)
        return None if next(iter(search), None) is not None else search.hopeless_error


def _spelled(entity: Entity, bindings: Mapping[str, Value]) -> dict[str, str]:
    return {p.name: spell(bindings[p.name]) for p in entity.params or ()}


def parse_unit(
    path_or_text: str,
    name: str | None,
    defines: Mapping[str, object] | None,
    include_dirs: tuple[str, ...],
    find: Finder | None = None,
    dialect: str | None = None,
) -> Unit:
    """Preprocess, parse and index a file or text; ``find`` looks for headers that are in none of the folders."""
    if find is not None:
        return _parsed(path_or_text, name, defines, include_dirs, find, dialect)
    key = ("unit", path_or_text, name, tuple((defines or {}).items()), include_dirs, dialect)
    return kept(key, lambda: _parsed(path_or_text, name, defines, include_dirs, None, dialect))


def _parsed(
    path_or_text: str,
    name: str | None,
    defines: Mapping[str, object] | None,
    include_dirs: tuple[str, ...],
    find: Finder | None,
    dialect: str | None,
) -> Unit:
    is_text = "\n" in path_or_text or "{" in path_or_text
    file = name or ("<text>" if is_text else path_or_text)
    text = path_or_text if is_text else read_source(path_or_text)
    language = dialect_named(dialect) if dialect else dialect_of(file, text)
    source = preprocess(text, file, defines, include_dirs, find, language)
    units, whole = list[str](), source
    while not is_text and (more := linked_units(file, whole.sources, units)):
        units += more
        try:
            whole = preprocess(with_units(text, file, units), file, defines, include_dirs, find, language)
        except KtcError:
            break
        whole.sources[file] = text
    try:
        return _indexed(file, whole, language)
    except KtcError:
        if not units:
            raise
    return _indexed(file, source, language)  # by itself it may be read


def _indexed(file: str, source: Preprocessed, language: Dialect) -> Unit:
    text = with_plain_std(source.text)
    libraries = libraries_of(text)
    items = CudaParser(libraries, language).parse_unit(text, file)
    return Unit(file, source, index_program([*(x for lib in libraries for x in lib.items), *items], language))


def _load(unit: Unit, kernel: str | None, template: dict[str, object]) -> Kernel:
    entity, template = choose_kernel(unit, kernel, template)
    lowering = unit.lowering()
    sites = launch_sites(lowering, entity.name)
    bindings, site, host = choose_instance(lowering, entity, sites, template)
    return load_entity(unit, entity, bindings, site, host)


def load_entity(
    unit: Unit,
    entity: Entity,
    bindings: dict[str, Value],
    site: LaunchSite | None,
    host: dict[str, Value],
    callers: Sequence[KernelLowering] = (),
) -> Kernel:
    """One instance of a kernel, with the launch of ``site`` where that can be followed; ``callers``: other files in
    which the function that launches it may be called."""
    with _located(unit):
        lowering = unit.lowering()
        template = entity.params or ()
        if disabled(lowering, entity, bindings):
            raise no_instance(lowering, entity)
        entity, inside = definition(lowering, entity, bindings)
        params = lowering.parameters(entity, inside)
        launch: Launch | None = None
        if site is not None and site.node is not None:
            try:
                pairs = zip(template, map(plain_name, site.template_args or []))
                instance = {name: bindings[p.name] for p, name in pairs if name is not None and p.name in bindings}
                whole = tuple(getattr(p, "name", None) or f"unnamed{i}" for i, p in enumerate(params_of(entity.node)))
                followed = HostLaunch(lowering, site, params, host, instance, whole)
                launch, more = with_blocks(*followed.launch())
                launch, params = with_callers(followed, launch, callers), (*params, *more)
            except KtcError as error:
                if not error.code.startswith(("E-LAUNCH", "E-SEMA", "E-UNSUPPORTED")):
                    raise
                launch = None  # such host code is no fault of the kernel: the workload gives the launch
        return without_unused_axes(lowering.lower(entity, inside, params, launch))


def with_blocks(launch: Launch, host: tuple[Param, ...]) -> tuple[Launch, tuple[Param, ...]]:
    """``launch`` and the host's numbers that it is made of.

    Raises:
        KtcError: E-LAUNCH-EMPTY, it has no blocks, as where a program divides its constants without rounding up: nobody
            can mean that, and what the kernel is for cannot be seen from it.
    """
    if empty := [axis for axis, e in zip("xyz", launch.grid) if evaluate(e, {}) == 0]:
        raise KtcError("E-LAUNCH-EMPTY", f"grid.{empty[0]} is 0 at this launch: nothing runs")
    return launch, host


def choose_kernel(
    unit: Unit, wanted: str | None, template: Mapping[str, object] | None = None
) -> tuple[Entity, dict[str, object]]:
    """The kernel to load, and its template arguments: those of ``template`` and those that the name ``wanted`` has.

    ``wanted`` is a name with as much around it as says which is meant: ``ns::step``, ``step<int>``,
    ``step(int*, int)``; where it leaves several, the file's launches decide.

    Raises:
        KtcError: E-KERNEL-NONE, E-KERNEL-UNKNOWN, E-KERNEL-SEVERAL, or why the wanted kernel did not parse.
    """
    program, given = unit.program, dict(template or {})
    found = program.kernels
    if wanted is not None:
        name = _spelled_name(wanted, unit)
        found = named(program, name)
        if not found:
            error = program.bad_function(name.name)
            raise error or _unknown(wanted, unit)
        if name.args is not None:
            given |= zip((p.name for p in found[0].params or ()), map(as_source, name.args))
    if not found:
        broken = [b for b in program.bad if b.is_device]
        if broken:
            raise broken[0].error
        raise KtcError("E-KERNEL-NONE", f"{unit.file} has no __global__ function", hint=_where_kernels_may_be(unit))
    if len(found) == 1:
        return found[0], given
    lowering = unit.lowering()
    same = len({e.name for e in found}) == 1
    sites = [s for name in {e.name: None for e in found} for s in launch_sites(lowering, name)]
    one = chosen(lowering, found, sites, _values(lowering, found, given)) if same else None
    if one is None:
        raise several(found, [_asked_by(lowering, e, sites) for e in found], unit.file)
    return one, given


def _values(lowering: KernelLowering, found: Sequence[Entity], given: Mapping[str, object]) -> dict[str, Value]:
    """Template arguments of one of ``found``, which are kernels of one name, as values."""
    able = next((e for e in found if given.keys() <= {p.name for p in e.params or ()}), found[0])
    return {n: template_value(lowering, able, n, v) for n, v in given.items()}


def _asked_by(lowering: KernelLowering, e: Entity, sites: list[LaunchSite]) -> str:
    """What asks for ``e`` and no other kernel: :func:`label`, with the template arguments of a launch where others
    differ from it in nothing but their constraints."""
    name = label(lowering.program, e)
    others = [label(lowering.program, r) for r in rivals(lowering.program, e) if r is not e]
    launched = [bound for bound, site, _ in instances(lowering, e, sites, {}) if site] if name in others else []
    if not launched:
        return name
    return f"{name.split('(')[0]}<{', '.join(spell(v) for v in launched[0].values())}>"


def _spelled_name(wanted: str, unit: Unit) -> Spelled:
    try:
        return spelled(wanted)
    except KtcError:
        raise _unknown(wanted, unit) from None


def _unknown(wanted: str, unit: Unit) -> KtcError:
    names = list(dict.fromkeys(label(unit.program, e) for e in unit.program.kernels))
    hint = f"the kernels of this file: {', '.join(names)}" if names else "this file has no __global__ function"
    plain = re.escape(re.split(r"[<(]", wanted)[0].rpartition("::")[2].strip())
    if plain and re.search(rf"\b__global__\b[^;{{}}]*\b{plain}\s*\([^;{{}}]*\)\s*;", unit.source.text):
        hint = "it is only declared there: give the file that has its body"
    return KtcError("E-KERNEL-UNKNOWN", f"no kernel '{wanted}' in {unit.file}", hint=hint, exit_code=2)


def _where_kernels_may_be(unit: Unit) -> str:
    source = unit.source
    headers = [*source.missing, *(h for h in source.dropped if "/" in h)]  # folders are more often a project's
    if not headers:
        return "give a CUDA C++ file with a kernel in it"
    if source.outside:
        return source.why_missing.removeprefix("; ")
    more = f" and {len(headers) - 3} more" if len(headers) > 3 else ""
    return f"it may be in a header that was not found: {', '.join(headers[:3])}{more} (-I DIR says where they are)"


def _info(e: Entity, sites: list[LaunchSite], callers: HostInstances) -> KernelInfo:
    fn: Function = e.node
    params = tuple(getattr(p, "name", None) or "" for p in fn.decl.type.args.params)
    template = tuple(TemplateParamInfo(p.name, p.kind) for p in e.params or ())
    here = [s for s in sites if launches_in_some_instance(callers, s, e)]
    coord = fn.coord
    loc = Loc(coord.file, coord.line, coord.column or 1)
    return KernelInfo(_asked_by(callers.lowering, e, here), template, params, tuple(str(s.loc) for s in here), loc)


@contextmanager
def _located(unit: Unit) -> Iterator[None]:
    """Give errors the text of the file they point into, so that a caret can be drawn, and the macro that would bring in
    what they miss."""
    try:
        yield
    except KtcError as error:
        if error.source is None and error.loc is not None:
            error.source = unit.source.sources.get(error.loc.file)
        error.hint = hint_of(error, unit.source.sources, unit.source.defined) or error.hint
        raise


@contextmanager
def deep_recursion(what: str) -> Iterator[None]:
    """Room for recursion over deep syntax; too deep is E-PARSE-DEPTH. Trees are built with the collector at rest."""
    saved = sys.getrecursionlimit()
    sys.setrecursionlimit(max(saved, RECURSION_LIMIT))
    try:
        with collector_at_rest():
            yield
    except RecursionError:
        raise KtcError(
            "E-PARSE-DEPTH", f"{os.path.basename(what)} nests too deep", hint="simplify the nesting"
        ) from None
    finally:
        sys.setrecursionlimit(saved)


__all__ = ["KernelInfo", "Param", "list_kernels", "load"]
