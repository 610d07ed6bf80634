"""What the analyses know about a program at given sizes: one document for people, planners and scripts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ktc.ir.diagnostics import KtcError
from ktc.ir.support.quantities import count

if TYPE_CHECKING:
    from ktc.ir.analysis.memory_costs import Request
    from ktc.ir.analysis.planner_facts import KernelFacts
    from ktc.ir.kernel import Kernel
    from ktc.search.bounds.compulsory_work import Work
    from ktc.search.bounds.cost_model import Estimate
    from ktc.search.bounds.occupancy import Occupancy
    from ktc.search.bounds.speed_of_light import Bound, Ceilings

    from .api import Program


@dataclass(frozen=True)
class ProgramFacts:
    """``kernel``: loops, buffers, operations. ``requests``: what a warp's accesses cost. ``registers``: an estimate.

    ``work``: what one launch of the source must move and compute; ``bounds``: the least time by device of the table,
    where no size is ``missing``; ``dependences``: edges of the dependence graph, as
    ``(line, line, kind, buffer, distance)``. ``guessed``: the launch, where the source has none.
    ``estimates``: what this schedule will take on devices whose multiprocessors are known, and why.
    """

    sizes: Mapping[str, int]
    kernel: KernelFacts
    requests: tuple[Request, ...]
    registers: int
    shared_bytes: int
    occupancy: Occupancy | None
    work: Work | None
    bounds: Mapping[str, Bound]
    dependences: tuple[tuple[int | None, int | None, str, str, tuple[int | None, ...]], ...]
    missing: tuple[str, ...] = ()
    guessed: str = ""
    estimates: Mapping[str, Estimate] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Where the numbers are, and not all of them."""
        at = ", ".join(f"{n}={v}" for n, v in self.sizes.items())
        moved = f", {self.work.bytes:,} bytes must move" if self.work else ""
        loops, dependences = count(len(self.kernel.loops), "loop"), count(len(self.dependences), "dependence")
        return f"<ProgramFacts at {at or 'no sizes'}: {loops}, {dependences}{moved}; as_json() has all>"

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def facts_of(
    program: Program, sizes: Mapping[str, int] | None = None, capability: str = "9.0", device: str = ""
) -> ProgramFacts:
    """The facts of ``program`` at ``sizes`` (by default the workload's largest tuned scenario). ``device``: one of this
    machine, as :func:`ktc.backends.runtimes.open_runtime` takes it, whose bound is wanted too.

    Raises:
        KtcError: the program was refused, or a size names no parameter.
    """
    from ktc.backends.launchers.launch_geometry import shared_bytes
    from ktc.ir.analysis.dependence_graph import dependence_graph
    from ktc.ir.analysis.memory_costs import requests
    from ktc.ir.analysis.planner_facts import facts
    from ktc.ir.analysis.register_pressure import register_estimate
    from ktc.ir.fold import evaluate
    from ktc.ir.group_copies import by_threads
    from ktc.ir.producer_launch import launched_block
    from ktc.scaffold.drafted_launches import with_launch
    from ktc.search.bounds.occupancy import occupancy

    program, launch = with_launch(program.ok)
    kernel = by_threads(program.bind().kernel)
    at = _sizes(program, sizes or {})
    threads = program.bind().lowered()
    found = facts(kernel, at)
    registers = register_estimate(threads)
    env = kernel.environment(at)
    block, shared = None, 0
    if threads.launch is not None:
        extents = [evaluate(e, env) for e in launched_block(threads)]
        block = extents[0] * extents[1] * extents[2] if all(isinstance(e, int) for e in extents) else None  # type: ignore[operator]
        shared = int(evaluate(shared_bytes(threads), env) or 0)
    graph = dependence_graph(kernel)
    lines = {n: d["line"] for n, d in graph.nodes(data=True)}
    missing = _missing(program, at)
    work = None if missing else _work(program, at, sizes or {})
    edges = {(lines[u], lines[v], d["kind"], d["buffer"], d["distance"]) for u, v, d in graph.edges(data=True)}
    return ProgramFacts(
        at,
        found,
        tuple(requests(threads, at)),
        registers,
        shared,
        occupancy(block, min(registers, 255), shared, capability) if block else None,
        work,
        {} if work is None else _bounds(work, device),
        tuple(sorted(edges, key=repr)),
        missing,
        launch,
        {} if missing else _estimates(threads, at, registers),
    )


def _sizes(program: Program, given: Mapping[str, int]) -> dict[str, int]:
    """Scalar parameters by name: of the workload's largest scenario, else what the source's launch passes a constant
    for, where ``given`` does not say otherwise."""
    launch = program.kernel.launch
    given_now = () if launch is None or program.workload is not None else launch.given
    values = {n: v for n, v in given_now if isinstance(v, int)}
    names = {p.sym.name for p in program.kernel.params}
    known = set(names)
    largest = largest_scenario(program)
    if program.workload is not None and largest is not None:
        known |= set(largest)
        at = {**largest, **{k: v for k, v in given.items() if k in largest}}
        values = {k: v for k, v in program.workload.scalars(at).items() if isinstance(v, int)}
    for name in given:
        if name not in known:
            hint = f"sizes and parameters: {', '.join(sorted(known))}"
            raise KtcError("E-SIZE-NAME", f"the kernel has no size '{name}'", hint=hint, exit_code=2)
    return {**{k: v for k, v in values.items() if k in names}, **{k: v for k, v in given.items() if k in names}}


def largest_scenario(program: Program) -> Mapping[str, int] | None:
    """Sizes of the workload's largest scenario that is tuned for, if it has one."""
    if program.workload is None or not program.workload.scenarios:
        return None
    tuned = [s for s in program.workload.scenarios if s.tuned] or list(program.workload.scenarios)
    return max(tuned, key=lambda s: _volume(s.sizes)).sizes


def _missing(program: Program, at: Mapping[str, int]) -> tuple[str, ...]:
    """The sizes that extents, grid or loops depend on and ``at`` says nothing of."""
    from ktc.scaffold.roles import roles_of

    roles = roles_of(program.original or program.kernel)
    return tuple(n for n in roles.sizes if n not in at)


def _volume(sizes: Mapping[str, int]) -> int:
    out = 1
    for v in sizes.values():
        out *= max(1, int(v))
    return out


def _work(program: Program, at: Mapping[str, int], given: Mapping[str, int]) -> Work:
    """The work of the source: on the workload's arguments where it has one, else from the scalars ``at`` alone."""
    from ktc.search.bounds.compulsory_work import compulsory_work
    from ktc.search.bounds.workload_work import SECTOR, work_of

    source = program.original or program.kernel
    scenario = largest_scenario(program)
    if program.workload is not None and scenario is not None and set(given) <= set(scenario):
        return work_of(program.workload, {**scenario, **given}, source, program.variant)
    return compulsory_work(source, at, granule=SECTOR)


def _estimates(threads: Kernel, at: Mapping[str, int], registers: int) -> dict[str, Estimate]:
    """What the schedule will take on each device of the table whose multiprocessors are counted there."""
    from ktc.ir.analysis.schedule_counts import schedule_counts
    from ktc.search.bounds.cost_model import MULTIPROCESSORS, estimate, machine_of

    counts = schedule_counts(threads, at)
    found = {n: estimate(counts, registers, machine_of(n)) for n in MULTIPROCESSORS} if counts is not None else {}
    return {n: e for n, e in found.items() if e is not None}


def _bounds(work: Work, device: str) -> dict[str, Bound]:
    """The least time on ``device``, if one is named, by what it attains, and on each of the table, by datasheet."""
    from ktc.backends.device_table import DEVICES
    from ktc.search.bounds.speed_of_light import bound, datasheet

    known = {} if not device else {name: bound(work, c) for name, c in (_attained(device, work),)}
    return known | {" ".join(row.names): bound(work, datasheet(" ".join(row.names))) for row in DEVICES}


def _attained(device: str, work: Work) -> tuple[str, Ceilings]:
    """A device of this machine, by name, and its ceilings as measured: now, or of a CPU within a day."""
    from ktc.backends.runtimes import open_runtime
    from ktc.search.bounds.attained_rates import attained_rates
    from ktc.search.bounds.speed_of_light import ceilings
    from ktc.search.workers.timing import rotation

    runtime = open_runtime(device)
    touched = max(work.bytes_in, work.bytes_out)
    footprint = touched * rotation(touched, runtime.device.l2_bytes, runtime.device.global_bytes)
    return f"{runtime.device.name}, measured", ceilings(runtime.device, attained_rates(runtime), footprint)
