"""The calls of a kernel, from the launches that a capture or a profile holds."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ktc.capture import Capture, Launch
from ktc.capture.capture_format import HEAD
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.host.captured import Instance
from ktc.ir.types import Ptr
from ktc.profiling import Profile, ranked, verdict
from ktc.profiling.kernel_bounds import scalars_of
from ktc.profiling.profile_format import Geometry, Launched, PointerArgument

from .observed_calls import ObservedBuffer, ObservedCall, ObservedCalls, equal_buffers


@dataclass(frozen=True)
class Record:
    """Launches with one geometry and the same scalar arguments. ``pointers``: by offset in ``arguments``;
    ``variables``: at file scope, by name, where they were recorded."""

    geometry: Geometry
    arguments: bytes
    pointers: Mapping[int, ObservedBuffer]
    launches: int = 1
    seconds: float = 0.0
    variables: Mapping[str, ObservedBuffer] = field(default_factory=dict)


@dataclass(frozen=True)
class KernelRecord:
    """A kernel that ran, with its launches. ``gain``: how many times as fast the program can become by it at most
    (None: not known); ``elapsed``: seconds of the program that its launches stand for. ``alignments``, ``equal``: of
    pointers, by offset in the arguments."""

    kernel: str
    symbol: str
    parameters: tuple[tuple[int, int], ...]
    records: tuple[Record, ...]
    gain: float | None = None
    elapsed: float = 0.0
    alignments: Mapping[int, int] = field(default_factory=dict)
    equal: frozenset[tuple[int, int]] = frozenset()

    @property
    def savable(self) -> float:
        """Seconds of the program that it can give back at most."""
        return self.elapsed


@dataclass(frozen=True)
class ProgramRecord:
    """What a program launched, the kernel that can give it most first. ``by``: the command that saw it; ``seconds``: of
    the program (0: not known)."""

    folder: Path
    command: tuple[str, ...]
    by: str
    kernels: tuple[KernelRecord, ...]
    seconds: float = 0.0
    unusable: tuple[tuple[str, str], ...] = ()
    """Kernels of which no arguments are known, and why."""
    sources: tuple[str, ...] = ()
    """Folders with what the program compiled as it ran."""
    advice: tuple[str, ...] = ()
    """What helps the program beside faster kernels, if anything does."""

    @property
    def program(self) -> str:
        return shlex.join(self.command)


def loaded(folder: Path) -> ProgramRecord:
    """What the capture or the profile in ``folder`` holds.

    Raises:
        KtcError: E-CAPTURE (exit code 2), it is neither, or cannot be read.
    """
    if Profile.is_in(folder):
        return _of_profile(Profile.load(folder))
    if (folder / HEAD).is_file():
        return _of_capture(Capture.load(folder))
    hint = f"ktc profile -o {folder} -- PROGRAM, or ktc capture -o {folder} -- PROGRAM, writes one"
    raise KtcError("E-CAPTURE", f"{folder} is neither a profile nor a capture", hint=hint, exit_code=2)


def _of_profile(p: Profile) -> ProgramRecord:
    kernels, unusable = [], []
    rows = ranked(p)
    for row in rows:
        usable = [f for f in row.launched if f.sized]
        kept = _kept(row.launched)
        records = [
            Record(s.geometry, s.arguments, {x.offset: ObservedBuffer(x.address, x.base, max(0, x.bytes), kept.get(x))
                                             for x in s.pointers}, s.launches + s.captured, s.times.total)
            for s in row.shapes if not s.others
        ]  # fmt: skip
        if not usable or not records:
            unusable.append((row.kernel, "its launches were not seen, only that it ran" if not row.launched
                             else "the sizes of its arguments are not known"))  # fmt: skip
            continue
        alignments: dict[int, int] = {}
        for f in usable:
            for at, a in f.alignments.items():
                alignments[at] = min(a, alignments.get(at, a))
        equal = frozenset(pair for f in usable for pair in f.equal)
        kernels.append(KernelRecord(row.kernel, row.symbol, usable[0].parameters, tuple(records), row.most,
                                    row.elapsed, alignments, equal))  # fmt: skip
    return ProgramRecord(
        p.folder, p.command, "ktc profile", tuple(kernels), p.seconds, tuple(unusable),
        (str(p.sources),) if p.sources is not None else (), verdict(p, rows).advice,
    )  # fmt: skip


def _kept(launched: Sequence[Launched]) -> dict[PointerArgument, np.ndarray]:
    """What buffers held before the first launch, by the pointers to them: other launches that were passed the same ones
    count as having found them alike."""
    pairs = [(x, f.contents.get(x.offset)) for f in launched if f.shapes for x in f.shapes[0].pointers]
    return {x: np.memmap(path, np.uint8, "r") for x, path in pairs if path is not None}


def _of_capture(c: Capture) -> ProgramRecord:
    whole = {launch.kernel: launch for launch in c.launches}
    parts = [s.launch for s in c.skipped if s.launch is not None]
    by_kernel: dict[str, list[Launch]] = {}
    for launch in (*c.launches, *parts):
        by_kernel.setdefault(launch.kernel, []).append(launch)
    kernels = [
        KernelRecord(name, launches[0].symbol, launches[0].parameters, tuple(map(_record, launches)),
                     elapsed=sum(x.seconds for x in launches), alignments=_alignments(launches))
        for name, launches in by_kernel.items()
    ]  # fmt: skip
    kernels.sort(key=lambda k: -sum(r.seconds for r in k.records))
    lost = {s.kernel: s.reason for s in c.skipped if s.kernel not in by_kernel and s.kernel not in whole}
    return ProgramRecord(c.folder, c.command, "ktc capture", tuple(kernels), 0.0, tuple(lost.items()))


def _record(launch: Launch) -> Record:
    pointers = {}
    for offset in range(0, len(launch.arguments) - 7, 8):
        address = int.from_bytes(launch.arguments[offset : offset + 8], "little")
        held = launch.holding(address) if address else None
        if held is not None:
            at = address - held.address
            content = launch.content(held, "before")[at:] if held.before else None
            pointers[offset] = ObservedBuffer(address, held.address, held.bytes - at, content)
    geometry = Geometry(launch.grid, launch.block, launch.shared, cooperative=launch.cooperative)
    variables = {
        m.name.split("::")[-1]: ObservedBuffer(m.address, m.address, m.bytes, launch.content(m, "before"))
        for m in launch.memories
        if m.is_variable and m.before
    }
    return Record(geometry, launch.arguments, pointers, 1, launch.seconds, variables)


def _alignments(launches: Sequence[Launch]) -> dict[int, int]:
    seen: dict[int, int] = {}
    for launch in launches:
        for offset in range(0, len(launch.arguments) - 7, 8):
            address = int.from_bytes(launch.arguments[offset : offset + 8], "little")
            if address and launch.holding(address) is not None:
                seen[offset] = seen.get(offset, 0) | address
    return {at: bits & -bits for at, bits in seen.items()}


def calls_of(program: ProgramRecord, k: KernelRecord, found: Instance) -> ObservedCalls:
    """The calls of ``k``, by the names of the parameters of ``found``.

    Raises:
        KtcError: E-SCAFFOLD, the kernel is passed an array of pointers.
    """
    slots = {s.name: s for s in found.slots}
    if rows := next((p.sym.name for p in found.kernel.params if p.rows), ""):
        what = f"'{rows}' is an array of pointers, and a profile keeps nothing of what they point to"
        raise KtcError("E-SCAFFOLD", what, found.kernel.loc, hint="ktc init FILE drafts a workload from the source")
    buffers = {
        p.sym.name: slots[p.sym.name].offset
        for p in found.kernel.params
        if p.sym.name in slots and isinstance(p.sym.type, Ptr) and not slots[p.sym.name].inline
    }
    names = {offset: name for name, offset in buffers.items()}
    calls = tuple(_merged(_call(r, found, buffers) for r in k.records))
    equal = {(names[a], names[b]) for a, b in k.equal if a in names and b in names}
    alignments = {names[at]: a for at, a in k.alignments.items() if at in names}
    return ObservedCalls(program.program, program.by, calls, alignments, frozenset(equal) | equal_buffers(calls))


def _call(r: Record, found: Instance, buffers: Mapping[str, int]) -> ObservedCall:
    g = r.geometry
    held = {}
    for name, offset in buffers.items():
        address = int.from_bytes(r.arguments[offset : offset + 8], "little")
        held[name] = r.pointers.get(offset, ObservedBuffer(address))
    own = (p.sym.name for p in found.kernel.params if p.symbol)
    held |= {name: r.variables[name] for name in own if name in r.variables}
    return ObservedCall(g.grid, g.block, g.shared, scalars_of(found, r.arguments), held, r.launches, r.seconds)


def _merged(calls: Iterator[ObservedCall]) -> list[ObservedCall]:
    """Calls that are alike in one, those that took longest first."""
    found: dict[tuple[object, ...], ObservedCall] = {}
    for c in calls:
        missing = tuple(n for n, b in c.buffers.items() if b.null)
        key = (c.grid, c.block, c.shared, missing, tuple(c.scalars.items()))
        old = found.get(key)
        if old is not None:
            c = replace(old, launches=old.launches + c.launches, seconds=old.seconds + c.seconds)
        found[key] = c
    return sorted(found.values(), key=lambda c: (-c.seconds, -c.launches))


__all__ = ["KernelRecord", "ProgramRecord", "Record", "calls_of", "loaded"]
