"""What limits a program at given sizes: counted and timed where there is a GPU, else estimated for one of the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ktc.ir.diagnostics import KtcError

from .facts import ProgramFacts, largest_scenario

if TYPE_CHECKING:
    from ktc.search.limiters.limiter import Profile
    from ktc.search.target import DeviceInfo

    from .api import Program

TIMED_S = 0.3
"""Seconds of timing."""


@dataclass(frozen=True)
class Limited:
    """The ``profile`` of a program on ``device``, and what it took there: ``seconds`` of a launch (0: not measured)."""

    device: str
    profile: Profile
    seconds: float = 0.0


def limiting(program: Program, found: ProgramFacts, sizes: Mapping[str, int], device: str = "") -> Limited:
    """What limits ``program``, of which ``found`` are the facts at ``sizes``. ``device``: one of this machine, as
    :func:`ktc.backends.runtimes.open_runtime` takes it ('': a CUDA device, where there is one).

    Raises:
        KtcError: E-LIMITERS: the sizes or the launch are not known; a ``device`` that was named and is not there.
    """
    why = "the kernel has no workload, which would say what its arguments are"
    if program.workload is not None:
        try:
            return _on_device(program, found, sizes, device or "cuda")
        except KtcError as e:
            if device:
                raise
            why = f"no CUDA device: {e.message}"
    name = next(iter(found.estimates), "")
    if not name:
        raise KtcError("E-LIMITERS", "nothing is known of this launch", hint="give sizes: --size NAME=N")
    return Limited(name, _estimated(program, found, name, why, resources=_compiled(program)))


def _on_device(program: Program, found: ProgramFacts, sizes: Mapping[str, int], device: str) -> Limited:
    """Timed on a device, and its counters, where they may be read."""
    from ktc.search.limiters.counters import Launch, profile_of
    from ktc.search.limiters.ncu import count
    from ktc.search.workers.executor import FromWorkload, open_executor

    assert program.workload is not None
    scenario = largest_scenario(program) or {}
    inputs = FromWorkload(str(program.workload.path), {**scenario, **sizes}, program.variant)
    with open_executor(device) as executor:
        code = program.lower(executor.device.profile)
        timed = executor.time(code, inputs, budget_s=TIMED_S)
        if timed.timing is None:
            raise KtcError("E-LIMITERS", f"{timed.status}: {timed.details.get('message', '')}", exit_code=1)
        info, name, seconds = executor.device, executor.name, timed.timing.median
    counted = count(code, inputs, info, name)
    if isinstance(counted, Launch):
        return Limited(info.name, profile_of(counted), seconds)
    resources = timed.details.get("resources")
    return Limited(info.name, _estimated(program, found, info, str(counted), seconds, resources), seconds)


def _estimated(
    program: Program,
    found: ProgramFacts,
    device: str | DeviceInfo,
    why: str,
    seconds: float = 0.0,
    resources: Mapping[str, int] | None = None,
) -> Profile:
    from ktc.search.bounds.cost_model import estimate_of, machine_of
    from ktc.search.limiters.estimated import estimated

    name, units = (device, 0) if isinstance(device, str) else (device.name, device.compute_units)
    try:
        machine = machine_of(name, units)
    except KeyError:
        hint = "leave --device out for an estimate on a GPU of the table"
        raise KtcError("E-LIMITERS", f"no model of {name}, and {why}", hint=hint) from None
    registers = (resources or {}).get("registers") or found.registers or 0
    expected = estimate_of(program.bind().lowered(), found.sizes, machine, registers)
    if expected is None:
        raise KtcError("E-LIMITERS", f"a block does not fit a multiprocessor of {name}, and {why}")
    return estimated(expected, seconds=seconds, resources=resources, requests=found.requests, why=why)


def _compiled(program: Program) -> Mapping[str, int] | None:
    """What nvcc reports of the kernel: registers, spills; None where it is not installed or does not take it."""
    from ktc.backends.compile_check import check_compile

    try:
        return check_compile(program.lower("cuda")).resources
    except KtcError:
        return None
