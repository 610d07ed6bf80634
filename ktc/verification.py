"""A program against its original: the ladder without a device, then side by side on one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ktc.ir.diagnostics import KtcError

if TYPE_CHECKING:
    from ktc.backends.base import DeviceInfo, Emitted
    from ktc.ir.kernel import Kernel
    from ktc.ir.workload import Workload
    from ktc.search.verification import Verdict
    from ktc.search.workers.worker_protocol import Reply

    from .api import Program

NO_DEVICE = "none"
"""The ``device`` that asks for the ladder alone."""


def verify_program(
    program: Program,
    *,
    values: Mapping[str, int] | None = None,
    device: str | None = None,
    scenarios: Sequence[str] = (),
    seed: int = 0,
    twin: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> Verdict:
    """Verify ``program`` with its knobs at ``values`` (the rest at their defaults) against the kernel it came from.

    Args:
        device: where to run both kernels side by side; ``none`` leaves that rung out, None picks the best there is.
        scenarios: sizes for the device's rung; by default a few small awkward ones.
        twin: on the device, compare the programs' twins in exact arithmetic too, to the bit, at the scenarios' sizes.
        say: told about each stage.

    Raises:
        KtcError: E-NO-WORKLOAD without one, E-VERIFY-SOURCE for a kernel whose origin is not at hand, unknown knobs;
            E-ORIGINAL for a source that does not compute what the workload's reference says.
    """
    from ktc.search.verification import Rung, Verdict, check_reference, defects, verify, with_texts

    workload = need_workload(program, "verifying")
    original = program.original or program.kernel
    bound = program.bind(**dict(values or {}))
    candidate = bound.lowered()
    say("interpreter: the original by itself, then against the candidate")
    found = defects(original, workload, program.variant, seed)
    for d in found:
        if d.fatal:
            reason = f"called as the workload says, the original is defective: {d.failure}"
            return Verdict("REJECTED", "original", reason, (Rung("original", "fail", str(d.failure)),), 0.0, d.failure)
        say(f"the original: {d.failure}")
    check_reference(original, workload, program.variant, seed)
    verdict = verify(original, candidate, workload, variant=program.variant, seed=seed)
    unsound = tuple(Rung("original", "unknown", str(d.failure)) for d in found)
    verdict = dataclasses.replace(verdict, rungs=(*unsound, *verdict.rungs))
    if verdict.layer == "identity" and found:  # asked about the kernel itself
        reason = f"the kernel is the same, but not sound: {found[0].failure}"
        return dataclasses.replace(verdict, status="UNKNOWN", layer="original", reason=reason)
    if verdict.ok:
        say("front-end: the printed texts, read back")
        verdict = with_texts(verdict, original, candidate, workload, variant=program.variant, seed=seed)
    if not verdict.ok or device == NO_DEVICE:
        return verdict
    return _on_device(bound, verdict, device, scenarios, seed, twin, say)


def _on_device(
    bound: Program,
    verdict: Verdict,
    device: str | None,
    scenarios: Sequence[str],
    seed: int,
    twin: bool,
    say: Callable[[str], None],
) -> Verdict:
    """The device's rung on top of a passed ladder, in a process of its own: what hangs or crashes there ends as a
    verdict."""
    from ktc.search.verification import Rung
    from ktc.search.workers.executor import open_executor

    assert bound.workload is not None and bound.original is not None
    start = dataclasses.replace(bound, kernel=bound.original)
    executor = open_executor(device, compilers=1)
    try:
        info = executor.device
        say(f"{info.backend}: original against candidate on {info.name}")
        sizes = [bound.workload.scenario(s).sizes for s in scenarios] or None
        try:
            texts = start.lower(info.profile), bound.lower(info.profile)
        except KtcError as e:
            if device is not None or not e.code.startswith("E-BACKEND"):
                raise
            skipped = Rung("device", "skip", f"not printed for {info.name}: {e.message}")  # nobody asked for this one
            return dataclasses.replace(verdict, rungs=(*verdict.rungs, skipped))
        path = str(bound.workload.path)
        verdict = _on_top(verdict, executor.verify(*texts, path, variant=bound.variant, sizes=sizes, seed=seed), info)
        if twin and verdict.ok:
            say(f"{info.backend}: their twins in exact arithmetic")
            try:
                texts = _twin_text(start.kernel, info), _twin_text(bound.kernel, info)
                reply = executor.verify(*texts, path, variant=bound.variant, sizes=sizes, seed=seed, twin=True)
                verdict = _on_top(verdict, reply, info)
            except KtcError as e:  # what has no twin, or none that this device compiles, is left to the other rungs
                if e.exit_code != 1:  # the environment's fault, or ours
                    raise
                rung = Rung("twin", "skip", f"{e.code}: {e.message}")
                verdict = dataclasses.replace(verdict, rungs=(*verdict.rungs, rung))
    finally:
        executor.close()
    return verdict


def _twin_text(kernel: Kernel, info: DeviceInfo) -> Emitted:
    from ktc.backends.emitter import emit
    from ktc.search.verification import twin

    return emit(twin(kernel), info.profile)


def _on_top(verdict: Verdict, reply: Reply, info: DeviceInfo) -> Verdict:
    """``verdict`` with what the device's process answered."""
    from ktc.search.verification import Rung, Verdict

    message = str(reply.data.get("message", reply.status)).strip()
    if reply.status == "compile-error":
        raise KtcError("E-COMPILE", f"the {info.backend} compiler refuses the output:\n{message}")
    if reply.status == "internal":  # says nothing about the candidate: no verdict, not even a skipped rung
        hint = "this is a bug in ktc: send the kernel, its workload.toml and this message"
        raise KtcError("E-INTERNAL", f"ktc itself failed on the device's rung: {message}", hint=hint, exit_code=70)
    if reply.status == "lost":
        code = str(reply.data.get("code", "E-DEVICE-LOST"))
        raise KtcError(code, message, hint=str(reply.data.get("hint", "")), exit_code=3)
    if reply.ok:
        found = Verdict.from_json(reply.data["verdict"])
        rungs = found.rungs or (Rung("device", "pass" if found.ok else "fail", found.reason, found.seconds),)
    else:
        found = Verdict("REJECTED", "device", f"{reply.status}: {message}")
        rungs = (Rung("device", "fail", found.reason),)
    undecided = found.layer == "twin" and found.status == "UNKNOWN"
    worst = verdict if found.ok or undecided else found
    return dataclasses.replace(worst, rungs=(*verdict.rungs, *rungs), seconds=verdict.seconds + found.seconds)


def results_name(program: Program) -> str:
    """What the folder of a run's results is called: as the folder of its workload.toml, else as the kernel, of which
    others may have a workload file beside."""
    path = program.workload.path.resolve() if program.workload is not None else None
    return path.parent.name if path is not None and path.name == "workload.toml" else program.kernel.name


def need_workload(program: Program, what: str) -> Workload:
    """The program's workload.

    Raises:
        KtcError: E-NO-WORKLOAD (exit code 2) when it has none.
    """
    if program.workload is None:
        hint = "`ktc init FILE` writes a first workload.toml; --workload names one elsewhere"
        raise KtcError("E-NO-WORKLOAD", f"{what} needs a workload: sizes and data to run with", hint=hint, exit_code=2)
    return program.workload
