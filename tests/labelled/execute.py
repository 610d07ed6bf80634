"""One case: load, run instances under the sanitizer, and compare what it finds with the label."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import Finding, run
from ktc.ir.interp.domains.domain import Unsupported

from .arguments import MOST_ELEMENTS
from .case import FAULTS, Case, Instance

FUEL = 20_000


@dataclass(frozen=True)
class Outcome:
    """``result``: caught | missed | clean | false-alarm | unsupported | outside | no-instance.

    ``why``: the refusal's code, the finding that decided it, or why the label is out of scope. ``other``: findings of
    kinds that the label says nothing about. ``instances``: runs that met the kernel's preconditions.
    """

    name: str
    result: str
    faults: tuple[str, ...]
    why: str = ""
    other: tuple[str, ...] = ()
    instances: int = 0
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def execute(suite: Any, case: Case, seconds: float) -> Outcome:
    """Run ``case`` for at most about ``seconds`` (between instances)."""
    start = time.monotonic()

    def outcome(result: str, why: str = "", other: tuple[str, ...] = (), runs: int = 0) -> Outcome:
        return Outcome(case.name, result, case.faults, why, other, runs, round(time.monotonic() - start, 2))

    if case.outside:
        return outcome("outside", case.outside)
    try:
        kernels = suite.load_kernels(case)
    except KtcError as e:
        return outcome("unsupported", f"{e.code}: {e.message}")
    wanted = {kind for fault in case.faults for kind in FAULTS[fault]}
    if "redundant-store" in case.judged and "race" in case.faults:
        wanted.add("redundant-store")
    other: dict[str, None] = {}
    runs, refused = 0, ""
    for kernel in kernels:
        for instance in suite.instances(case, kernel):
            if time.monotonic() - start > seconds:
                break
            try:
                findings = _findings(instance)
            except (KtcError, Unsupported) as e:
                refused = refused or f"{getattr(e, 'code', 'E-INTERP-UNSUPPORTED')}: {getattr(e, 'message', e)}"
                break
            if any(suite.excused(case, f) for f in findings):
                continue
            runs += 1
            for f in findings:
                if wanted and f.kind in wanted:
                    return outcome("caught", str(f), tuple(other), runs)
                if not case.faults and f.kind in case.judged:
                    return outcome("false-alarm", f"{f} [{instance.what}]", tuple(other), runs)
                other[f.kind] = None
    if refused:
        return outcome("unsupported", refused, tuple(other), runs)
    if not runs:
        return outcome("no-instance", "no input met the preconditions", tuple(other))
    return outcome("missed" if case.faults else "clean", "", tuple(other), runs)


def _findings(instance: Instance) -> list[Finding]:
    """What the sanitizer reports, with buffers of parameters grown until no access leaves them, if ``grow``."""
    args = dict(instance.args)
    while True:
        found = run(instance.kernel, args, fuel=FUEL, undefined=instance.undefined).findings
        small = {f.buffer for f in found if f.kind == "out-of-bounds" and (f.index or 0) >= 0} & instance.growing
        small = {b for b in small if args[b].size < MOST_ELEMENTS}
        if not small:
            return [f for f in found if f.kind != "out-of-bounds" or f.buffer not in instance.growing]
        for name in small:
            args[name] = np.concatenate([args[name]] * 8)
