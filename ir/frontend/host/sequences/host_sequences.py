"""Sequences of launches of a file's host functions, with the kernels that they launch: instances, arguments by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ktc.ir.diagnostics import KtcError, Loc
from ktc.ir.frontend.host.host_code import LAUNCH, HostFunction, host_functions, words
from ktc.ir.frontend.host.kernel_choice import label
from ktc.ir.frontend.host.launch_sites import launch_sites
from ktc.ir.frontend.host.template_instances import choose_instance
from ktc.ir.frontend.lowering.lower_kernel import KernelLowering
from ktc.ir.frontend.meaning.methods import params_of
from ktc.ir.frontend.meaning.template_args import spell
from ktc.ir.frontend.syntax.program import Entity
from ktc.ir.nodes import Expr

from .host_calls_followed import launching
from .host_memories import Boundary, HostPointer, Launching, Root
from .host_runs import HostRun, Passing, runs_of
from .host_walk import all_sites, events_of


@dataclass(frozen=True)
class HostStep:
    """A launch of a sequence. ``kernel``: its name as :func:`ktc.ir.frontend.load` takes it; ``template``: its
    arguments as C++ spells them; ``passed``: what is passed, by the kernel's parameters, as they are written."""

    kernel: str
    template: Mapping[str, str]
    passed: Mapping[str, HostPointer | Expr]
    grid: tuple[Expr, Expr, Expr]
    block: tuple[Expr, Expr, Expr]
    shared: Expr | None
    loc: Loc | None


@dataclass(frozen=True)
class HostSequence:
    """What ``function`` launches one after the other. ``first``: the number of the first launch among those of the
    function, from 1; ``ended``: why the sequence goes no further, ``at`` where; '' at the end of the function."""

    function: str
    first: int
    steps: tuple[HostStep, ...]
    memories: tuple[Passing, ...]
    roots: Mapping[str, Root]
    ended: str = ""
    at: Loc | None = None

    @property
    def last(self) -> int:
        return self.first + len(self.steps) - 1

    def part(self, first: int, last: int) -> HostSequence:
        """The launches ``first`` to ``last``, as they are numbered: others of the sequence are code around them."""
        steps = self.steps[first - self.first : last - self.first + 1]
        before, behind = (
            {id(p.memory) for s in part for p in s.passed.values() if isinstance(p, HostPointer)}
            for part in (self.steps[: first - self.first], self.steps[last - self.first + 1 :])
        )
        inside = {id(p.memory) for s in steps for p in s.passed.values() if isinstance(p, HostPointer)}
        memories = tuple(
            replace(
                m, zeroed=m.zeroed and id(m.memory) not in before, filled=m.filled or id(m.memory) in before,
                read_later=m.read_later or id(m.memory) in behind,
            )
            for m in self.memories if id(m.memory) in inside
        )  # fmt: skip
        return replace(self, first=first, steps=steps, memories=memories)


@dataclass(frozen=True)
class Read:
    """What was read of one host function: its sequences of two launches and more, and why there are no others.
    ``direct``: it has launches itself, and not only calls functions that launch."""

    function: str
    launches: int
    sequences: tuple[HostSequence, ...]
    reasons: tuple[tuple[str, Loc | None], ...]
    direct: bool = True


def sequences_of(
    lowering: KernelLowering, wanted: str = "", template: Mapping[str, str] | None = None
) -> Iterator[Read]:
    """What the file's host functions launch, those that launch several kernels; only the function ``wanted``, where
    it is named. Functions that others of them follow are read by themselves too.

    Args:
        template: template arguments for kernels and functions that have parameters of these names.
    """
    sites = all_sites(iter(launch_sites(lowering)))
    names = launching(lowering)
    for f in host_functions(lowering.program):
        if f.entity.name in names and wanted in ("", f.entity.name):
            read = _read(lowering, f, sites, dict(template or {}))
            if wanted or read.launches > 1:
                yield read


def _read(lowering: KernelLowering, f: HostFunction, sites: Any, template: Mapping[str, str]) -> Read:
    reasons: list[tuple[str, Loc | None]] = []
    found: list[HostSequence] = []
    try:
        events, values = events_of(lowering, f, sites, _given(lowering, f, template))
    except KtcError as e:
        return Read(f.entity.name, 0, (), ((e.message, e.loc),))
    launches = [e for e in events if isinstance(e, Launching) or (isinstance(e, Boundary) and e.launch)]
    numbers = {id(e): i for i, e in enumerate(launches, 1)}
    for run in runs_of(events):
        if len(run.launches) > 1:
            found += _sequences(lowering, f, run, numbers, values.roots, template, reasons)
        if run.ended:
            reasons.append((run.ended, run.at))
    direct = LAUNCH in words(lowering.program, f.entity.node)
    reasons += [(e.what, e.loc) for e in launches if isinstance(e, Boundary) and (e.what, e.loc) not in reasons]
    reasons.sort(key=lambda r: (r[1].line, r[1].col) if r[1] is not None else (0, 0))
    return Read(f.entity.name, len(numbers), tuple(found), tuple(dict.fromkeys(reasons)), direct)


def _given(lowering: KernelLowering, f: HostFunction, template: Mapping[str, str]) -> dict[str, Any]:
    from ktc.ir.frontend.host.template_instances import template_value

    names = {p.name for p in f.entity.params or ()}
    if not names or not names <= template.keys():
        return {}
    return {n: template_value(lowering, f.entity, n, template[n]) for n in names}


def _sequences(
    lowering: KernelLowering, f: HostFunction, run: HostRun, numbers: Mapping[int, int], roots: Mapping[str, Root],
    template: Mapping[str, str], reasons: list[tuple[str, Loc | None]],
) -> Iterator[HostSequence]:  # fmt: skip
    """The sequences of a run: it is taken apart where a kernel is not known."""
    steps: list[HostStep] = []
    starts = 0
    ends: tuple[str, Loc | None] = (run.ended, run.at)

    def done(why: tuple[str, Loc | None]) -> Iterator[HostSequence]:
        if len(steps) > 1:
            inside = {id(p.memory) for s in steps for p in s.passed.values() if isinstance(p, HostPointer)}
            whole = len(steps) == len(run.launches)
            memories = tuple(
                m if whole else Passing(m.memory, False, True, True) for m in run.memories if id(m.memory) in inside
            )
            yield HostSequence(f.entity.name, starts, tuple(steps), memories, roots, *why)
        steps.clear()

    for launch in run.launches:
        try:
            step = _step(lowering, launch, template)
        except KtcError as e:
            reasons.append((f"{launch.site.kernel}: {e.message}", launch.loc or e.loc))
            yield from done(reasons[-1])
            continue
        starts = starts if steps else numbers[id(launch)]
        steps.append(step)
    yield from done(ends)


def _step(lowering: KernelLowering, launch: Launching, template: Mapping[str, str]) -> HostStep:
    """A launch with its kernel.

    Raises:
        KtcError: which kernel it is is not known, or it is passed what a sequence does not take.
    """
    entity, instance = _kernel(lowering, launch, template)
    passed: dict[str, HostPointer | Expr] = {}
    for p, a in zip(params_of(entity.node), launch.args):
        name = getattr(p, "name", None)
        if a is None:
            raise KtcError("E-SEQUENCE-HOST", f"'{name}' is passed a null pointer, which a sequence does not take")
        if name:
            passed[name] = a
    return HostStep(label(lowering.program, entity), instance, passed, launch.grid, launch.block, launch.shared,
                    launch.loc)  # fmt: skip


def _kernel(lowering: KernelLowering, launch: Launching, template: Mapping[str, str]) -> tuple[Entity, dict[str, str]]:
    from ktc.ir.frontend.host.kernel_choice import chosen

    found = [e for e in lowering.program.kernels if e.name == launch.site.kernel]
    if not found:
        raise KtcError("E-KERNEL-UNKNOWN", f"no kernel '{launch.site.kernel}' is in this file or what it includes")
    entity = found[0] if len(found) == 1 else chosen(lowering, found, [launch.site], {})
    if entity is None:
        raise KtcError("E-KERNEL-SEVERAL", f"which '{launch.site.kernel}' is launched is not known")
    own = [p.name for p in entity.params or ()]
    given: dict[str, object] = {n: template[n] for n in own if n in template}
    bindings, _, _ = choose_instance(lowering, entity, [launch.site], given)
    return entity, {p.name: spell(bindings[p.name]) for p in entity.params or ()}


__all__ = ["HostSequence", "HostStep", "Read", "sequences_of"]
