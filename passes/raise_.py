"""raise: from threads and barriers to the loops they mean.

before                                                   after
    for (i = threadIdx.x; i < d; i += blockDim.x)            par token in 0..n @ [block.x]
        sum += x[blockIdx.x * d + i]                           reduce(+) sum over i in 0..d @ [thread.x 256, seq]
    smem[threadIdx.x] = sum; ...tree...; use(smem[0])          use(sum)

A guess (``raising``) followed by an exact comparison with the source in the interpreter: nothing is raised that was not
checked. One thing is taken on trust: pointer parameters of different names do not overlap where one of them is written
(loops over independent iterations have no order, so an in-place launch may be raised only from a kernel that takes the
one buffer once). The distributions attached reproduce the source's mapping, so lowering again gives the same work
assignment.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import simplify
from ktc.ir.kernel import Kernel, Launch
from ktc.ir.nodes import Acc, Alloc, Body, Const, Expr, Par, Reduce, Sym, fresh
from ktc.ir.types import Array
from ktc.ir.walk import rename, substitute_expr, used, walk

from .base import Arg, Pass, Refused, Result, Site
from .raising.block import Blocked
from .raising.shape import Left

if TYPE_CHECKING:
    from .raising.check import Reference
    from .raising.general import Guess
    from .raising.report import Region

MAX_CANDIDATES = 16
HOST_THREADS = 256
"""Threads of a block whose size the host decides when it launches: what most would choose."""

KEPT = 16
_outcomes: OrderedDict[int, tuple[Kernel, Result | Refused]] = OrderedDict()
"""What became of the kernels raised last: a search applies scores of scripts to one kernel, and most begin alike.

By identity, with the kernel itself, so that its ``id`` stays its own.
"""


class Raise(Pass):
    name = "raise"
    summary = "threads, strides and barriers to parallel loops and reductions, checked exactly"
    refusals = ("E-RAISE-DONE", "E-RAISE-LAUNCH", "E-RAISE-THREAD", "E-RAISE-CARRIED", "E-RAISE-BARRIER",
                "E-RAISE-DEPENDENCE", "E-RAISE-GRID-REDUCTION", "E-RAISE-MIXED", "E-RAISE-CHECK",
                "E-RAISE-OPAQUE", "E-RAISE-WARP", "E-RAISE-DIVERGENT")  # fmt: skip

    def sites(self, kernel: Kernel) -> list[Site]:
        if kernel.is_parallel:
            return []
        outcome = self.apply(kernel, {})
        if not isinstance(outcome, Result):
            return []
        left = [n for n in outcome.notes if "left: " in n]
        said = f"; {len(left)} parts stay loops over threads: {left[0]}" if left else ""
        return [Site("raise", f"the kernel's loops become explicit{said}")]

    def apply(self, kernel: Kernel, args: Mapping[str, Arg]) -> Result | Refused:
        if kernel.is_parallel:
            return Refused("E-RAISE-DONE", "the kernel is in parallel form already")
        if kernel.launch is None:
            return Refused(
                "E-RAISE-LAUNCH",
                "the launch geometry is unknown",
                hint="give [launch] in workload.toml, or keep <<<>>> in the file",
            )
        known = _outcomes.get(id(kernel))
        if known is None:
            known = _outcomes[id(kernel)] = kernel, self._attempt(kernel, kernel.launch)
            if len(_outcomes) > KEPT:
                _outcomes.popitem(last=False)
        return known[1]

    def _attempt(self, kernel: Kernel, launch: Launch) -> Result | Refused:
        try:
            return self._checked(kernel, launch)
        except KtcError as error:
            if not error.code.startswith("E-INTERP"):
                raise
            locs = (error.loc,) if error.loc else ()
            return Refused("E-RAISE-CHECK", f"nothing could be checked: {error.message}", locs, error.hint)

    def _checked(self, kernel: Kernel, launch: Launch) -> Result | Refused:
        from .raising.check import Reference
        from .raising.report import assumed_apart, threads_left, unchecked

        reference = Reference(kernel)
        why, blocked = "", None
        forms = islice(_forms(kernel, launch), MAX_CANDIDATES)
        while True:
            try:
                guess = next(forms)
            except StopIteration:
                break
            except (Blocked, Left) as b:
                blocked = blocked or b
                break
            raised = kernel.with_(body=guess.body)
            wrong = (
                threads_left(guess.body)
                or reference.differs(raised, guess.domains)
                or _lowers(reference, raised, guess.domains[:1])
                or reference.differs_afresh(raised, guess.domains)
            )
            if not wrong:
                said = (*guess.regions, *unchecked(reference.never_run), *assumed_apart(raised))
                return Result(_flagged(raised), _notes(raised, said))
            why = why or wrong
            if reference.late:
                break
        if blocked is not None and not why:
            return Refused(blocked.code, blocked.why, (blocked.loc,) if blocked.loc else ())
        return _unlike(why)


def _forms(kernel: Kernel, launch: Launch) -> Iterator[Guess]:
    """Candidate parallel forms, likeliest first, those that leave parts of the kernel to threads last; the reason why
    there is none, if there is none."""
    from .raising.coordinates import prepare

    blocked: Blocked | Left | None = None
    partial: list[Guess] = []
    for known, numbers in ((launch, {}), *numbered(kernel, launch)):
        try:
            body = with_numbers(prepare(kernel, known), numbers)
            for guess in _forms_at(kernel, body, known):
                if any(r.is_left for r in guess.regions):
                    partial.append(guess)
                else:
                    yield guess
        except (Blocked, Left) as b:
            blocked = blocked or b
    yield from partial
    if blocked is not None:
        raise blocked


Numbers: TypeAlias = Mapping[Sym, Expr]


def numbered(kernel: Kernel, launch: Launch) -> list[tuple[Launch, Numbers]]:
    """``launch`` with a number for the size of a block that the host chooses, if it does; and that number.

    What the threads of a block do together (shuffles, trees in shared memory) is understood at a known size. A kernel
    whose result depends on the size does not pass the check, which runs the source at several.
    """
    host = {p.sym for p in kernel.params if p.host}
    chosen = host & {s for e in launch.block for s in used(e)}
    if len(chosen) != 1:
        return []
    to: dict[Sym, Expr] = {s: Const(HOST_THREADS, s.type) for s in chosen}  # type: ignore[arg-type]

    def at(e: Expr) -> Expr:
        return simplify(substitute_expr(e, to))

    x, y, z = map(at, launch.block)
    shared = None if launch.dynamic_shared is None else at(launch.dynamic_shared)
    gx, gy, gz = map(at, launch.grid)
    return [(dataclasses.replace(launch, grid=(gx, gy, gz), block=(x, y, z), dynamic_shared=shared), to)]


def with_numbers(body: Body, numbers: Numbers) -> Body:
    """``body`` with arrays whose size is one of ``numbers`` of that size."""
    arrays: dict[Sym, Sym] = {}
    for s in walk(body) if numbers else ():
        t = s.sym.type if isinstance(s, Alloc) else None
        if isinstance(t, Array) and any(used(n) & numbers.keys() for n in t.shape):
            shape = tuple(simplify(substitute_expr(n, numbers)) for n in t.shape)
            arrays[s.sym] = fresh(s.sym.name, dataclasses.replace(t, shape=shape))  # type: ignore[attr-defined]
    return rename(body, arrays) if arrays else body


def _forms_at(kernel: Kernel, body: Body, launch: Launch) -> Iterator[Guess]:
    """The forms of ``body`` in a launch of this shape."""
    from .raising.general import Guess, guesses
    from .raising.grid import candidates

    blocked: Blocked | Left | None = None
    try:
        for guess in candidates(body, launch):
            yield Guess(guess, ())
    except Blocked as b:
        blocked = b
    try:
        yield from guesses(kernel, body, launch)
    except Left as b:
        raise (blocked or b) from None
    if blocked is not None:
        raise blocked


def _lowers(reference: Reference, raised: Kernel, domains: tuple[str, ...]) -> str:
    """'' if ``raised`` can be lowered again as it is, to a program that does the same without races."""
    from .lowering import LoweringError, materialise

    try:
        lowered = materialise(raised)
    except LoweringError as error:
        return f"it could not be lowered again: {error.message}"
    return reference.differs(lowered, domains, 2)


def _unlike(why: str) -> Refused:
    return Refused("E-RAISE-CHECK", f"the guessed loops do not compute what the source computes: {why}")


def _flagged(kernel: Kernel) -> Kernel:
    """Floating-point sums lose their order when a tree becomes a ``reduce``."""
    accs: list[Acc] = [a for s in walk(kernel.body) if isinstance(s, Reduce) for a in s.accs]
    floating = any(getattr(a.sym.type, "is_float", False) and a.op in "+*" for a in accs)
    return kernel.with_(flags=kernel.flags | {"reassociates"}) if floating else kernel


def _notes(kernel: Kernel, regions: tuple[Region, ...]) -> tuple[str, ...]:
    loops = [s for s in walk(kernel.body) if isinstance(s, Par | Reduce)]
    names = ", ".join(f"{type(s).__name__.lower()} {s.var.name}" for s in loops)
    return (f"raised and checked exactly: {names}", *map(str, regions))
