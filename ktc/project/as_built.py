"""A source that a user names, read as its project's build reads it.

Alone, a file of kernels may lack what the unit that includes it defines first, headers of the project's other folders,
or macros that the build gives. So it is read by that unit, where only that has the launches or it cannot be read
otherwise, with the folders that hold its headers, as far as they lie in the same project (:mod:`.project_roots`), and
with the macros of the build (:mod:`.build_files`) that its text mentions. Each is said in a note.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from ktc.ir.diagnostics import KtcError, Loc
from ktc.ir.frontend import list_kernels, load
from ktc.ir.frontend.dialects.dialect import CUDA, dialect_of
from ktc.ir.frontend.entry_points import KernelInfo, template_arguments
from ktc.ir.frontend.preprocess.preprocessor import Preprocessed, is_library, preprocess
from ktc.ir.frontend.preprocess.source_text import read_source
from ktc.ir.frontend.preprocess.switched_off import (
    asking_for_cuda,
    demanded_number,
    hiding,
    other_branches,
    saying_cuda,
)
from ktc.ir.support.kept_results import kept
from ktc.ir.verifier import check
from ktc.project.source_trees import HEADERS, UNITS, Tree, has_launch

from .build_files import BuildFlags, build_flags
from .including_units import units_defining, units_including
from .project_roots import is_within, project_root

if TYPE_CHECKING:
    from ktc.sources import SourceSpec

ROUNDS = 16
"""How often headers are looked for that the headers found before include, and macros that one after the other lacks."""


@dataclass(frozen=True)
class Reading:
    """A way to read a source: by which file, with which folders for headers and macros beside those that the user gave,
    and what is to be said of it."""

    file: str
    folders: tuple[str, ...] = ()
    macros: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


def as_built(spec: SourceSpec) -> SourceSpec:
    """``spec`` with the file and the folders for headers that its kernel is to be read by, and notes that say so where
    they are not those that the user gave. What cannot be read in any way stays as it is, but for the folders."""
    if Path(spec.kernel).suffix.lower() not in UNITS | HEADERS or not os.path.isfile(spec.kernel):
        return spec
    ways = readings(spec)
    first = next(ways)
    own = first if first.file == spec.kernel else None
    if own is not None and not (own.folders or own.macros or _units(spec) or _defining(spec)):
        return _by(spec, own, spec.name)
    second = latest = None
    for way in chain([first], ways):
        own = own or (way if way.file == spec.kernel else None)
        latest = None
        name = spec.name if spec.name or way.file == spec.kernel else _only_kernel(spec, way)
        there = _by(spec, way, name)
        if way.file != spec.kernel and name is None:
            continue
        try:
            kernel = load(
                there.kernel,
                kernel=name,
                template=dict(spec.template) or None,
                defines=there.defines,
                include_dirs=tuple(there.include_dirs),
                dialect=spec.dialect,
            )
            check(kernel)
        except KtcError as e:
            if e.code == "E-TEMPLATE-MISSING" and second is None and _has_instance(there):
                second = there  # whose arguments a caller may choose
            continue
        if kernel.launch is not None:
            return there
        second, latest = second or there, there
    assert own is not None
    return latest or second or _by(spec, own, spec.name)


def _has_instance(spec: SourceSpec) -> bool:
    """Whether some template arguments lead to a kernel."""
    how = {"defines": spec.defines, "include_dirs": tuple(spec.include_dirs), "dialect": spec.dialect}
    return next(template_arguments(spec.kernel, kernel=spec.name, **how), None) is not None  # type: ignore[arg-type]


def kernels_as_built(
    file: str, defines: dict[str, str] | None = None, include_dirs: Sequence[str] = ()
) -> tuple[list[KernelInfo], tuple[str, ...]]:
    """The kernels of a file with their launches, as :func:`ktc.ir.frontend.list_kernels` gives them, read as
    :func:`as_built` reads them; and what is to be said of that.

    Raises:
        KtcError: why the file cannot be read by itself, where no other way gives a kernel.
    """
    from ktc.sources import SourceSpec

    spec = SourceSpec(file, defines=defines or {}, include_dirs=tuple(include_dirs))
    best: tuple[list[KernelInfo], tuple[str, ...]] | None = None
    for way in readings(spec):
        found = _own_kernels(spec, way)
        if found and any(k.launches for k in found):
            return found, way.notes
        best = best or ((found, way.notes) if found else None)
    return best or (list_kernels(file, defines=defines, include_dirs=tuple(include_dirs)), ())


def readings(spec: SourceSpec) -> Iterator[Reading]:
    """Ways to read the file of ``spec``, the likeliest first; the last is by itself with nothing added. Each is worked
    out when it is asked for."""
    file, root, units = spec.kernel, project_root(spec.kernel), _units(spec)
    flags = build_flags(file, root)
    launching = [u for u in units if has_launch(u)] if not has_launch(file) else []
    seen: set[Reading] = set()

    def ways() -> Iterator[Reading]:
        yield from (_by_unit(spec, u, root, flags) for u in launching)
        yield (alone := _completed(spec, file, root, flags))
        yield from (_by_unit(spec, u, root, flags) for u in units if u not in launching)
        yield from (_by_unit(spec, u, root, flags, "defines it") for u in _defining(spec) if u not in units)
        yield Reading(file, notes=() if alone.folders or alone.macros else alone.notes)

    for way in ways():
        if way not in seen:
            seen.add(way)
            yield way


def _units(spec: SourceSpec) -> list[str]:
    key = ("units", spec.kernel, spec.name)
    return kept(key, lambda: units_including(spec.kernel, project_root(spec.kernel), _plain_name(spec)))


def _defining(spec: SourceSpec) -> list[str]:
    name = _plain_name(spec)
    return kept(("defining", spec.kernel, name), lambda: units_defining(spec.kernel, project_root(spec.kernel), name))


def _by_unit(spec: SourceSpec, unit: str, root: str, flags: BuildFlags, does: str = "includes it") -> Reading:
    shown = _shown(spec, unit)
    way = _completed(spec, shown, root, flags)
    what = spec.kernel if does == "includes it" else f"the kernel that {spec.kernel} declares"
    return replace(way, notes=(f"{what} is read as {shown} {does}", *way.notes))


def completed(spec: SourceSpec, file: str) -> Reading:
    """``file``, of the project of the file of ``spec``, with the folders and macros that it lacks."""
    root = project_root(file)
    return _completed(spec, file, root, build_flags(file, root))


def _completed(spec: SourceSpec, file: str, root: str, flags: BuildFlags) -> Reading:
    """``file`` with the folders of the project ``root`` that hold the headers that it lacks, those of the build before
    others, and with the build's macros that it mentions."""
    key = ("completed", file, spec.kernel, spec.name, tuple(spec.defines.items()), tuple(spec.include_dirs))
    return kept(key, lambda: _looked_for(spec, file, root, flags))


def _looked_for(spec: SourceSpec, file: str, root: str, flags: BuildFlags) -> Reading:
    folders: dict[str, str] = {}
    macros: dict[str, str] = {}
    hidden: dict[str, str] = {}
    switches: dict[str, str] = {}
    demanded: dict[str, str] = {}
    stops: list[str] = []
    tree = Tree(root) if root else None
    try:
        text = read_source(file)
        for _ in range(ROUNDS):
            given = {**demanded, **switches, **macros, **hidden, **spec.defines}
            try:
                read = preprocess(text, file, given, (*spec.include_dirs, *folders), None, dialect_of(file, text))
            except KtcError as e:
                around = _around(e, given, flags) if dialect_of(file, text) is CUDA else {}
                if said := _of_the_build(e, given, flags):
                    macros |= said
                elif around:
                    switches |= around
                elif lacked := _demanded(e, given, flags):
                    demanded |= lacked
                else:
                    raise
                continue
            lacking = {h: d for h, d in _elsewhere(read, flags, tree) if is_within(root, _place(d, h))}
            more = {d: h for h, d in lacking.items() if d not in folders}
            mentioned = {n: v for n, v in flags.macros.items() if n not in given and _mentions(read, n)}
            if dialect_of(file, text) is CUDA:
                switches |= dict.fromkeys(asking_for_cuda(read.sources.values(), {*read.defined, *mentioned}), "1")
            stops = [f"the #error of {at} is passed over, as headers are missing" for at in read.passed_over]
            off = _hidden(spec, read) if not more and not mentioned and not hidden else ()
            if not more and not mentioned and not off and switches.keys() <= given.keys():
                break
            folders |= more
            macros |= mentioned
            hidden |= {name: value or "1" for name, _, value in (m.partition("=") for m in off)}
    except KtcError:
        pass  # reading it says why
    shown = {_shown(spec, d): h for d, h in folders.items()}
    notes = [f"{h} is read from {d}, a folder of the same project (-I {d})" for d, h in shown.items()]
    if macros:
        spelled = ", ".join(f"{n}={v}" for n, v in macros.items())
        notes.append(f"macros are as {_shown(spec, flags.file)} has them (-D {spelled})")
        chosen = [f"{n} is the default of {flags.chosen[n]}" for n in macros if n in flags.chosen]
        notes += [f"{', '.join(chosen)}: give the values that you build with"] if chosen else []
    if hidden:
        spelled = " and ".join(hidden) + (" are" if len(hidden) > 1 else " is")
        these = " ".join(f"-D {n}" + (f"={v}" if v != "1" else "") for n, v in hidden.items())
        notes.append(f"{spec.name} is there where {spelled} defined, which it is taken to be ({these})")
    switches = {n: v for n, v in switches.items() if n not in macros and n not in hidden}
    if switches:
        notes.append(f"the project is taken to be built with CUDA ({' '.join(f'-D {n}' for n in switches)})")
    if demanded:
        spelled = " ".join(f"-D {n}={v}" for n, v in demanded.items())
        notes.append(f"what the build has to define and no build file says has the least value allowed ({spelled})")
    notes += stops
    return Reading(file, tuple(shown), tuple({**demanded, **switches, **macros, **hidden}.items()), tuple(notes))


def _of_the_build(e: KtcError, given: Mapping[str, str], flags: BuildFlags) -> dict[str, str]:
    """The build's macros that a file mentions which cannot be read without them, as its ``#error`` may say."""
    if e.code != "E-PP-DIRECTIVE" or e.loc is None or not os.path.isfile(e.loc.file):
        return {}
    text = read_source(e.loc.file)
    return {n: v for n, v in flags.macros.items() if n not in given and re.search(rf"\b{n}\b", text)}


def _around(e: KtcError, given: Mapping[str, str], flags: BuildFlags) -> dict[str, str]:
    """The macro that leads around the ``#error`` that ``e`` is of, where one says that the project is built with
    CUDA; none where none does."""
    if (at := _error_line(e)) is None:
        return {}
    names = saying_cuda(other_branches(read_source(at.file), at.line))
    return {n: flags.macros.get(n, "1") for n in names[:1] if n not in given}


def _demanded(e: KtcError, given: Mapping[str, str], flags: BuildFlags) -> dict[str, str]:
    """The macro whose lack the ``#error`` that ``e`` is of complains about, with a value for it."""
    if (at := _error_line(e)) is None:
        return {}
    found = demanded_number(read_source(at.file), at.line)
    return {n: flags.macros.get(n, v) for n, v in found.items() if n not in given}


def _error_line(e: KtcError) -> Loc | None:
    return e.loc if e.code == "E-PP-DIRECTIVE" and e.message.startswith("#error") else None


def _hidden(spec: SourceSpec, read: Preprocessed) -> tuple[str, ...]:
    """The macros that hide the kernel which is asked for, where nothing of its name is left of the text; none if none
    do."""
    plain = _plain_name(spec)
    if not plain or re.search(rf"\b{plain}\b", read.text):
        return ()
    return hiding(plain, read.sources, read.defined)


def _plain_name(spec: SourceSpec) -> str:
    """The kernel that is asked for, without the scopes and the arguments that its name may come with; '' if none is."""
    name = re.match(r"[\w:]*", spec.name or "")
    return name[0].rpartition("::")[2] if name is not None else ""


def _elsewhere(read: Preprocessed, flags: BuildFlags, tree: Tree | None) -> Iterator[tuple[str, str]]:
    """Headers that were not read, each with the folder that it is relative to: one that the build names, one near by
    that has it, or the only one of the project that does."""
    for header in (*read.missing, *read.dropped):
        named = [d for d in flags.folders if os.path.isfile(os.path.join(d, header))]
        folder = named[0] if named else read.outside.get(header)
        own = header in read.missing or os.path.dirname(header)  # <name.h> alone is a library's
        if folder is None and tree is not None and own and not is_library(header):
            folder = tree.only(header)
        if folder:
            yield header, folder


def _place(folder: str, header: str) -> str:
    """Where the ``header`` is that is relative to ``folder`` or, named with a way up, ``../common.h``, lies in it."""
    path = os.path.join(folder, header)
    return path if os.path.isfile(path) else os.path.join(folder, os.path.basename(header))


def _mentions(read: Preprocessed, name: str) -> bool:
    word = re.compile(rf"\b{name}\b")
    return any(word.search(text) for text in read.sources.values())


def _shown(spec: SourceSpec, path: str) -> str:
    """``path`` as the user would write it: relative to the working folder, if the source was named so."""
    return path if os.path.isabs(spec.kernel) else os.path.relpath(path)


def _by(spec: SourceSpec, way: Reading, name: str | None) -> SourceSpec:
    return replace(
        spec,
        kernel=way.file,
        name=name,
        defines={**dict(way.macros), **spec.defines},
        include_dirs=(*spec.include_dirs, *way.folders),
        notes=(*spec.notes, *way.notes),
    )


def _only_kernel(spec: SourceSpec, way: Reading) -> str | None:
    """The name of the one kernel of the file of ``spec``, read so; None if it has several, or none."""
    names = {k.name for k in _own_kernels(spec, way)}
    return names.pop() if len(names) == 1 else None


def _own_kernels(spec: SourceSpec, way: Reading) -> list[KernelInfo]:
    """The kernels of the file of ``spec``, read so: those that stand in the file itself, then those of its headers;
    read by another unit, only the former. None if it cannot be read so."""
    try:
        there = _by(spec, way, None)
        listed = list_kernels(way.file, defines=there.defines, include_dirs=tuple(there.include_dirs))
    except KtcError:
        return []
    file = os.path.realpath(spec.kernel)
    own = [k for k in listed if k.loc is not None and os.path.realpath(k.loc.file) == file]
    return [*own, *(k for k in listed if k not in own and way.file == spec.kernel)]


__all__ = ["Reading", "as_built", "completed", "kernels_as_built", "readings"]
