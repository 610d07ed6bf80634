"""raise: from threads and barriers to the loops they mean.

before                                                   after
    for (i = threadIdx.x; i < d; i += blockDim.x)            par token in 0..n @ [block.x]
        sum += x[blockIdx.x * d + i]                           reduce(+) sum over i in 0..d @ [thread.x 256, seq]
    smem[threadIdx.x] = sum; ...tree...; use(smem[0])          use(sum)

A guess (``raising``) followed by an exact comparison with the source in the interpreter: nothing is raised that was not
checked. The distributions attached reproduce the source's mapping, so lowering again gives the same work assignment.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Acc, Reduce
from ktc.ir.walk import walk

from .base import Arg, Pass, Refused, Result, Site
from .raising.block import Blocked

MAX_CANDIDATES = 16


class Raise(Pass):
    name = "raise"
    summary = "threads, strides and barriers to parallel loops and reductions, checked exactly"
    refusals = ("E-RAISE-DONE", "E-RAISE-LAUNCH", "E-RAISE-THREAD", "E-RAISE-CARRIED", "E-RAISE-BARRIER",
                "E-RAISE-DEPENDENCE", "E-RAISE-GRID-REDUCTION", "E-RAISE-MIXED", "E-RAISE-CHECK")  # fmt: skip

    def sites(self, kernel: Kernel) -> list[Site]:
        if kernel.is_parallel:
            return []
        outcome = self.apply(kernel, {})
        return [Site("raise", "the kernel's loops become explicit")] if isinstance(outcome, Result) else []

    def apply(self, kernel: Kernel, args: Mapping[str, Arg]) -> Result | Refused:
        from .raising.check import differs
        from .raising.coordinates import prepare
        from .raising.grid import candidates

        if kernel.is_parallel:
            return Refused("E-RAISE-DONE", "the kernel is in parallel form already")
        if kernel.launch is None:
            return Refused(
                "E-RAISE-LAUNCH",
                "the launch geometry is unknown",
                hint="give [launch] in workload.toml, or keep <<<>>> in the file",
            )
        body = prepare(kernel, kernel.launch)
        why = ""
        try:
            for guess in islice(candidates(body, kernel.launch), MAX_CANDIDATES):
                raised = kernel.with_(body=guess)
                why = differs(kernel, raised)
                if not why:
                    return Result(_flagged(raised), _notes(raised))
        except Blocked as b:
            if why:
                return _unlike(why)
            return Refused(b.code, b.why, (b.loc,) if b.loc else ())
        return _unlike(why)


def _unlike(why: str) -> Refused:
    return Refused("E-RAISE-CHECK", f"the guessed loops do not compute what the source computes: {why}")


def _flagged(kernel: Kernel) -> Kernel:
    """Floating-point sums lose their order when a tree becomes a ``reduce``."""
    accs: list[Acc] = [a for s in walk(kernel.body) if isinstance(s, Reduce) for a in s.accs]
    floating = any(getattr(a.sym.type, "is_float", False) and a.op in "+*" for a in accs)
    return kernel.with_(flags=kernel.flags | {"reassociates"}) if floating else kernel


def _notes(kernel: Kernel) -> tuple[str, ...]:
    from ktc.ir.nodes import Par

    loops = [s for s in walk(kernel.body) if isinstance(s, Par | Reduce)]
    names = ", ".join(f"{type(s).__name__.lower()} {s.var.name}" for s in loops)
    return (f"raised and checked exactly: {names}",)
