"""A program against its original: the ladder without a device, then side by side on one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from .ir.diagnostics import KtcError

if TYPE_CHECKING:
    from .api import Program
    from .ir.workload import Workload
    from .search.gate import Verdict

NO_DEVICE = "none"
"""The ``device`` that asks for the ladder alone."""


def verify_program(
    program: Program,
    *,
    values: Mapping[str, int] | None = None,
    device: str | None = None,
    scenarios: Sequence[str] = (),
    seed: int = 0,
    say: Callable[[str], None] = lambda text: None,
) -> Verdict:
    """Verify ``program`` with its knobs at ``values`` (the rest at their defaults) against the kernel it came from.

    Args:
        device: where to run both kernels side by side; ``none`` leaves that rung out, None picks the best there is.
        scenarios: sizes for the device's rung; by default a few small awkward ones.
        say: told about each stage.

    Raises:
        KtcError: E-NO-WORKLOAD without one, E-VERIFY-SOURCE for a kernel whose origin is not at hand, unknown knobs.
    """
    from .search.gate import verify

    workload = need_workload(program, "verifying")
    original = program.original or program.kernel
    bound = program.bind(**dict(values or {}))
    candidate = bound.lowered()
    say("interpreter: original against candidate")
    verdict = verify(original, candidate, workload, variant=program.variant, seed=seed)
    if not verdict.ok or device == NO_DEVICE:
        return verdict
    return _on_device(bound, verdict, device, scenarios, seed, say)


def _on_device(
    bound: Program,
    verdict: Verdict,
    device: str | None,
    scenarios: Sequence[str],
    seed: int,
    say: Callable[[str], None],
) -> Verdict:
    """The device's rung on top of a passed ladder."""
    from .backends.base import CompileFailure
    from .backends.runtimes import open_runtime
    from .search.gate import Rung, differential

    assert bound.workload is not None and bound.original is not None
    runtime = open_runtime(device)
    backend = runtime.device.backend
    say(f"{backend}: original against candidate on {runtime.device.name}")
    sizes = [bound.workload.scenario(s).sizes for s in scenarios] or None
    start = dataclasses.replace(bound, kernel=bound.original)
    try:
        profile = runtime.device.profile
        texts = start.lower(profile), bound.lower(profile)
        found = differential(runtime, *texts, bound.workload, variant=bound.variant, sizes=sizes, seed=seed)
    except CompileFailure as e:
        raise KtcError("E-COMPILE", f"the {backend} compiler refuses the output:\n{e.log.strip()}") from e
    rungs = found.rungs or (Rung("device", "pass" if found.ok else "fail", found.reason, found.seconds),)
    worst = found if not found.ok else verdict
    return dataclasses.replace(worst, rungs=(*verdict.rungs, *rungs), seconds=verdict.seconds + found.seconds)


def need_workload(program: Program, what: str) -> Workload:
    """The program's workload.

    Raises:
        KtcError: E-NO-WORKLOAD (exit code 2) when it has none.
    """
    if program.workload is None:
        hint = "`ktc init FILE` writes a first workload.toml; --workload names one elsewhere"
        raise KtcError("E-NO-WORKLOAD", f"{what} needs a workload: sizes and data to run with", hint=hint, exit_code=2)
    return program.workload
