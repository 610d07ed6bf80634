"""What the source calls in place: buffers for which its launch passes the same memory (``smooth<<<g, b>>>(x, x, n)``).

A workload gives each buffer memory of its own. Here both kernels are run once more with the buffers that are one in the
call as one parameter, on a few of the instances that the exact rung has been through. A candidate that takes them for
apart is tested by its launcher before it runs, and not here.
"""

from __future__ import annotations

from dataclasses import replace

from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import Sym, fresh
from ktc.ir.types import Ptr, scalar_of
from ktc.ir.walk import rename
from ktc.ir.workload import ArgSpec, Workload
from ktc.search.verification.job import Job, Outcome
from ktc.search.verification.oracle import TOLERATED, Oracle

from .exact import STEPS, told
from .scalar_values import SHARE, cheap_instances, compared


def in_place(job: Job) -> Outcome:
    """The original's bits where its buffers are one; ``unknown`` where it means nothing then, ``skip`` where the source
    passes none for another."""
    groups = [g for g in _together(job.original) if not _kept_apart(job.candidate, g)]
    if not groups:
        return Outcome("skip", "no buffer is passed for another")
    said = " and ".join(", ".join(g) for g in groups)
    before, after, work = job.original, job.candidate, job.workload
    for group in groups:
        before, after, work = _as_one(before, group), _as_one(after, group), _one_argument(work, group)
    one = Job(before, after, Oracle(before, work, job.oracle.variant, job.oracle.seed), [], work)
    for instance in cheap_instances(job, SHARE):
        try:
            want = one.oracle.run(instance.sizes, one.domains[0], "exact", STEPS)
        except KtcError as e:
            return Outcome("unknown", f"one memory for {said}, as the source passes it, is not checked: {e.message}")
        found = next((f for f in want.findings if f.kind not in TOLERATED - {"race"}), None)
        if found is not None:
            why = f"the source passes one memory for {said}, and the original means nothing then"
            return Outcome("unknown", f"{why}: {found.message}")
        failure = compared(one, instance)
        if failure is not None:
            outcome = told(replace(failure, sizes=instance.sizes))
            return replace(outcome, detail=f"with one memory for {said}, as the source passes it: {outcome.detail}")
    return Outcome("pass", f"also with one memory for {said}, as the source passes it")


def _together(k: Kernel) -> list[tuple[str, ...]]:
    """Groups of buffers of one type that the source's launch passes the same memory for, one of which is written."""
    there = {p.sym.name: p for p in k.params}
    groups = [g for g in (k.launch.together if k.launch is not None else ()) if {*g} <= there.keys()]
    return [g for g in groups if len({scalar_of(there[n].sym.type) for n in g}) == 1 and not all(
        there[n].readonly for n in g)]  # fmt: skip


def _kept_apart(candidate: Kernel, group: tuple[str, ...]) -> bool:
    """Whether somebody vouches, or a launcher tests, that the buffers of ``group`` are no single one."""
    return any(p.overlaps_nothing for p in candidate.params if p.sym.name in group)


def _as_one(k: Kernel, group: tuple[str, ...]) -> Kernel:
    """``k`` with the first buffer of ``group`` for all of them."""
    there = {p.sym.name: p for p in k.params}
    mine = [there[n] for n in group if n in there]
    first, *others = mine
    t = first.sym.type
    assert isinstance(t, Ptr)
    sym = fresh(first.sym.name, replace(t, const=False))
    gone = {p.sym: sym for p in others} | {first.sym: sym}
    params = tuple(_written(p, sym) if p is first else p for p in k.params if p not in others)
    return k.with_(params=params, body=rename(k.body, gone))


def _written(p: Param, sym: Sym) -> Param:
    return replace(p, sym=sym, readonly=False)


def _one_argument(work: Workload, group: tuple[str, ...]) -> Workload:
    """``work`` with one argument for ``group``: it holds what is read of it, and has room for each."""
    specs = [a for a in work.args if a.name in group]
    read = next((a for a in specs if a.role != "out"), specs[0])
    elements = ["*".join(f"({n})" for n in a.shape) or "1" for a in specs]
    size = read.shape if len({*elements}) == 1 else (" + ".join(elements),)
    merged: ArgSpec = replace(read, name=group[0], role="inout", shape=size, noalias=False, null=None)
    args = tuple(merged if a.name == group[0] else a for a in work.args if a.name == group[0] or a.name not in group)
    return replace(work, args=args)


__all__ = ["in_place"]
