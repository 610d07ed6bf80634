"""Is the original itself sound? What the sanitizer finds in it, before anybody tries to improve it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from ktc.ir.analysis.float_values import floats_are_values
from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import Finding, RunResult, run
from ktc.ir.kernel import Kernel
from ktc.ir.workload import Workload
from ktc.search.verification.instances.instances import Instance, instances
from ktc.search.verification.members.literal_sizes import MOST_WORK, General, foreseen_work, generalised, takes_long
from ktc.search.verification.rungs.exact import from_finding

from .oracle import Oracle, oracle_for
from .original_reference import check_reference
from .verdict import Failure

FATAL = {
    "out-of-bounds": "it corrupts memory, or works by luck; check the guard, or the shapes in the workload",
    "fuel": "nothing can be compared with it, or timed",
    "barrier-divergence": "it hangs or works by luck: every thread of a block must reach a barrier together",
    "shared-overflow": "give the launch more dynamic shared memory",
    "division-by-zero": "the result is undefined",
}
"""Kinds of defect that leave nothing to compare with, and what to do. The others are worth a note."""

HARMLESS = frozenset({"redundant-store"})
"""What an original may do, as much of the world's code does. A candidate may not begin to."""

LONG = "allow smaller sizes: a lower range of what its loops are as long as; one that never ends would look alike"
"""What to do about a kernel that did not end within the interpreter's statements, which is no defect yet."""

COUNT = 4
"""Instances that are looked at, the smallest ones among the telling."""


@dataclass(frozen=True)
class Defect:
    """A finding in the original on an instance. ``fatal``: the kernel has no result that others could be held to."""

    finding: Finding
    failure: Failure

    @property
    def fatal(self) -> bool:
        return self.finding.kind in FATAL

    @property
    def hint(self) -> str:
        return FATAL.get(self.finding.kind, "")


def defects(original: Kernel, workload: Workload, variant: str | None = None, seed: int = 0) -> list[Defect]:
    """What is wrong with ``original`` by the sanitizer, one defect a kind and place, fatal ones first.

    Nothing is found in a kernel that the interpreter cannot follow; the device's checks remain.
    """
    chosen = _looked_at(original, workload)
    if chosen and takes_long(original, workload, chosen[0].sizes):
        general = generalised(original, workload, variant, seed)
        if isinstance(general, General) and not _found(
            general.original, general.workload, _looked_at(general.original, general.workload), variant, seed
        ):
            return []  # smaller numbers stand for those of the source
    return _found(original, workload, chosen, variant, seed)


def _looked_at(original: Kernel, workload: Workload) -> list[Instance]:
    """The first of :data:`COUNT` instances, as far as one after the other takes no more than one run may."""
    chosen = instances(original, original, workload, count=COUNT)
    work = itertools.accumulate(foreseen_work(original, workload, i.sizes) for i in chosen)
    return [i for k, (i, spent) in enumerate(zip(chosen, work)) if not k or spent <= MOST_WORK]


def _found(
    original: Kernel, workload: Workload, chosen: Sequence[Instance], variant: str | None, seed: int
) -> list[Defect]:
    """What the sanitizer finds on the ``chosen`` instances, fatal defects first."""
    oracle = oracle_for(original, workload, variant, seed)
    domain = "int" if floats_are_values(original) else "float"
    found: dict[tuple[str, str, str], Defect] = {}
    for instance in chosen:
        result = _sanitized(oracle, instance)
        for f in result.findings if result else ():
            if f.kind in HARMLESS:
                continue
            key = (f.kind, f.buffer, str(f.loc))
            found.setdefault(key, Defect(f, from_finding(f, instance, domain)))
        if any(d.finding.kind == "fuel" for d in found.values()):
            break
    return sorted(found.values(), key=lambda d: (not d.fatal, d.finding.kind != "fuel"))


def check_original(original: Kernel, workload: Workload, variant: str | None = None, seed: int = 0) -> list[str]:
    """Notes on defects that one can live with.

    Raises:
        KtcError: E-ORIGINAL-DEFECT for a fatal one, with its place; E-ORIGINAL-BUDGET where the kernel is only too long
            for the interpreter; E-ORIGINAL for a source that does not compute what the workload's reference says.
    """
    found = defects(original, workload, variant, seed)
    for d in found[:1]:
        if d.fatal:
            sizes = ", ".join(f"{k}={v}" for k, v in d.failure.sizes.items())
            message = d.failure.message + (f" (for {sizes})" if sizes else "")
            if not d.finding.certain:
                raise KtcError(
                    "E-ORIGINAL-BUDGET", f"the original kernel is not checked: {message}", d.finding.loc, LONG
                )
            what = f"called as the workload says, the original kernel is defective: {message}"
            raise KtcError("E-ORIGINAL-DEFECT", what, d.finding.loc, _hint(d, workload))
    check_reference(original, workload, variant, seed)
    return [f"the original kernel: {d.failure}" for d in found]


def _hint(d: Defect, workload: Workload) -> str:
    """What to do about ``d``, which may as well be a fault of the workload."""
    said = [d.hint]
    if not any(d.failure.sizes.items() <= s.sizes.items() for s in workload.scenarios):
        said.append('no scenario has these sizes: where no caller passes them, a range or assume = ["..."] says so')
    if any(a.guessed for a in workload.args):
        said.append(
            "the workload is a draft, and what it guesses may be wrong: its lines with CHECK, and what a buffer holds"
        )
    return "; ".join(said)


def _sanitized(oracle: Oracle, instance: Instance) -> RunResult | None:
    """A sanitized run; None if the interpreter cannot follow the kernel. Where an index, a branch or a loop may come of
    a float, the run is one in floats: the integers that stand for them elsewhere lead to places that no caller sees."""
    if floats_are_values(oracle.original):
        try:
            return oracle.run(instance.sizes, "int", "exact")
        except KtcError as e:
            if e.code != "E-INTERP-UNSUPPORTED":
                raise
    data = "exact" if floats_are_values(oracle.original) else "plain"
    args = oracle.inputs(instance.sizes, data)
    try:
        return run(oracle.original, args, domain="float", undefined=oracle.undefined)
    except KtcError as e:
        if e.code != "E-INTERP-UNSUPPORTED":
            raise
        return None
