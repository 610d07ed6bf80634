"""Workload files for the kernels that a program launched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.host.captured import written
from ktc.profiling.kernel_sources import Place, SourceTree
from ktc.sources import SourceSpec, resolve

from .launch_records import KernelRecord, ProgramRecord, calls_of
from .observed_workload import observed_workload

LEAST_GAIN = 1.01
"""A kernel by which the program cannot become so many times as fast is not worth a run."""


@dataclass(frozen=True)
class Written:
    """The workload file of a kernel, the place of its source, and what its author should look at."""

    record: KernelRecord
    path: Path
    source: str
    todo: tuple[str, ...]


def matching(program: ProgramRecord, names: Sequence[str]) -> list[KernelRecord]:
    """The kernels of ``program`` with one of ``names`` in theirs, or called so in the binary; all without names.

    Raises:
        KtcError: E-KERNEL-UNKNOWN (exit code 2), there is none.
    """
    found = [k for k in program.kernels if not names or any(n in k.kernel or n == k.symbol for n in names)]
    if found:
        return found
    lost = [f"{kernel}: {why}" for kernel, why in program.unusable if not names or any(n in kernel for n in names)]
    known = "; ".join(k.kernel for k in program.kernels)
    if not known and not lost:
        hint = "run its program again with `ktc profile`, where it reaches its GPU"
        raise KtcError("E-PROFILE-NOTHING", f"{program.folder} holds no launch of a kernel", hint=hint, exit_code=2)
    raise KtcError("E-KERNEL-UNKNOWN", f"{program.folder} has no launch of such a kernel with its arguments",
                   hint="; ".join(lost) or f"there are: {known}", exit_code=2)  # fmt: skip


def write_workload(program: ProgramRecord, k: KernelRecord, tree: SourceTree, target: Path) -> Written:
    """Writes the workload of ``k`` to ``target``.

    Raises:
        KtcError: E-PROFILE-SOURCE, no source has the kernel; why the source cannot be read as the kernel's; E-SCAFFOLD.
    """
    found = tree.instance(k.kernel, k.parameters, k.records[0].geometry)
    if found is None:
        raise KtcError("E-PROFILE-SOURCE", f"no source has the kernel {k.kernel}",
                       hint="name its folder with --source; kernels of libraries have none", exit_code=2)  # fmt: skip
    place, instance = found
    spec = source_of(tree, place, k.kernel)
    kernel, _ = resolve(spec)
    text, todo = observed_workload(kernel, spec, target, calls_of(program, k, instance))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    others = tree.others(place, k.kernel, k.parameters, k.records[0].geometry)
    if others:
        said = f"the source: {', '.join(others)} could be it too; {place.file} is taken; --source FILE names another"
        todo = [said, *todo]
    return Written(k, target, f"{place.file}:{place.line}", tuple(todo))


def source_of(tree: SourceTree, place: Place, kernel: str) -> SourceSpec:
    """How the kernel at ``place`` is read again, from the file by which the tree read it."""
    trouble: KtcError | None = None
    for file in place.units:
        try:
            name, template = written(tree.unit(file), kernel)
        except KtcError as e:
            trouble = trouble or e
            continue
        include = tuple(dict.fromkeys([*tree.include_dirs, *sorted(tree.found_in)]))
        return SourceSpec(file, name, template, defines=tree.defines, include_dirs=include, beside=False)
    assert trouble is not None
    raise trouble


def folder_name(k: KernelRecord, taken: set[str]) -> str:
    """A folder's name for ``k`` that is not ``taken`` yet: its function's."""
    from ktc.ir.frontend.host.captured import spelled

    try:
        base = spelled(k.kernel).name
    except KtcError:
        base = "kernel"
    name, n = base, 1
    while name in taken:
        n += 1
        name = f"{base}-{n}"
    taken.add(name)
    return name
