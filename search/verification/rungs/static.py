"""L0: what can be said without running anything, and no instance of a size that can be run would show.

A failure is a definite one: a thread and arguments for which something goes wrong. What is only not known is UNKNOWN.

* index arithmetic wraps for arguments that the workload promises, where the original's does not
  (:mod:`..integers.ranges`);
* no device takes the launch for such arguments, where it takes the original's (:mod:`..integers.launchable`);
* a function is approximated though no pass said so (``fast_math``);
* it does not wait for the launches before it, where the original does (programmatic dependent launch);
* memory that the kernel writes is read through the read-only cache, which need not see the writes;
* something is added up in a narrow integer type that the original does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ktc.ir.grid_dependencies import grid_dependencies
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Assign, Atomic, Binary, Call, Cast, Const, Expr, Load, Select, Var
from ktc.ir.sequences import launch_kernels
from ktc.ir.support.memo import by_identity
from ktc.ir.text import print_expr, print_stmt
from ktc.ir.types import Ptr, Scalar, Vec, scalar_of
from ktc.ir.walk import all_exprs, assigned, expressions, used, walk, walk_expr
from ktc.ir.workload import Workload, size_expressions
from ktc.ir.workload.scenario_facts import scalars_of
from ktc.search.verification.integers.argument_sources import sources_of
from ktc.search.verification.integers.launchable import impossible, with_launch
from ktc.search.verification.integers.ranges import KEPT, Interval, elements_of, narrowed, wraps
from ktc.search.verification.integers.statement_context import stays_in_type
from ktc.search.verification.integers.witness import Witness, witness
from ktc.search.verification.job import Job, Outcome
from ktc.search.verification.verdict import Failure

APPROXIMATE = "fast_"
"""Canonical names of approximations start so."""

FLOATS = ("f", "b", "e")

READ_ONLY = "ldg"

SHORT = 32
"""Bits of the integers that programs count in."""


def static(job: Job) -> Outcome:
    """L0 on one candidate."""
    for check in CHECKS:
        failure = check(job)
        if failure is not None:
            return Outcome("fail", str(failure), failure)
    for doubt in filter(None, (doubtful(job) for doubtful in DOUBTS)):
        return Outcome("unknown", doubt)
    return Outcome("pass", "no index wraps, no function approximated, no written memory cached")


def wrapped_index(job: Job) -> Failure | None:
    """An index that leaves its type at sizes of the workload for which the launcher runs the candidate."""
    original, candidate = _as_launched(job)
    for what, names in _environments(job.workload):
        if not wraps(candidate, names):
            continue
        if wraps(original, names) and _shown(job, (original,), names) is not None:
            continue  # what the original risks, its rewrite may
        found = _shown(job, (original, candidate), names)
        if found is not None:
            listing = print_stmt(found.stmt).strip().splitlines()[0]
            message = f"{print_expr(found.expr)} of type {found.expr.type} reaches {found.value} {what}: {found.where}"
            return Failure("overflow", message, loc=str(found.stmt.loc or ""), statement=listing)
    return None


def failing_launch(job: Job) -> Failure | None:
    """A launch that fails at sizes of the workload for which the launcher runs the candidate."""
    found = (impossible(job.original, job.candidate, names) for _, names in _environments(job.workload))
    return next((f for f in found if isinstance(f, Failure)), None)


def unproved_launch(job: Job) -> str:
    """A launch of which neither is known: that a device takes it, or arguments for which it does not."""
    found = (impossible(job.original, job.candidate, names) for _, names in _environments(job.workload))
    return next((f for f in found if isinstance(f, str) and f), "")


def unproved_wrap(job: Job) -> str:
    """An index of which neither is known: that it keeps to its type, or a thread for which it leaves it."""
    original, candidate = _as_launched(job)
    for what, names in _environments(job.workload):
        found = wraps(candidate, names)
        if found and not wraps(original, names):
            open_ = next((w for w in found if not stays_in_type(candidate, w.stmt, w.expr, names)), None)
            if open_ is not None:
                return f"it is not known whether {print_expr(open_.expr)} stays within {open_.expr.type} {what}"
    return ""


def _as_launched(job: Job) -> tuple[Kernel, Kernel]:
    """The original and the candidate for arguments that a launch of the original can have."""
    return with_launch(job.original, job.original), with_launch(job.candidate, job.original)


def _shown(job: Job, kernels: tuple[Kernel, ...], names: Mapping[str, Interval]) -> Witness | None:
    return _witness(kernels[-1], job.workload, kernels[0], frozenset(names.items()))


@by_identity(KEPT, subjects=3)
def _witness(
    kernel: Kernel, workload: Workload, original: Kernel, names: frozenset[tuple[str, Interval]]
) -> Witness | None:
    return witness((original, kernel), workload, dict(names))


def unproved_narrowing(job: Job) -> str:
    """An index computed in fewer bits than in the original, of values that nobody promised to be small."""
    for what, names in _environments(job.workload):
        found = [e for e in narrowed(job.candidate, names) if not _narrows_too(job.original, e, job.candidate)]
        found = [e for e in found if not _has_other_half(job.candidate, e)]
        if found and not narrowed(job.original, names):
            return f"it is not known whether {print_expr(found[0])} keeps all bits {what}"
    return ""


def _narrows_too(original: Kernel, e: Cast, candidate: Kernel) -> bool:
    """Whether ``original`` brings the same choice among numbers (a clamp, say) into the type that ``e`` of
    ``candidate`` has, of nothing else: a value that it stores, which the candidate has in a variable."""
    kind, mine = _clamp(e), sources_of(candidate).of(e)
    theirs = (x for x in expressions(original.body) if isinstance(x, Cast) and kind is not None and _clamp(x) == kind)
    return any(mine <= sources_of(original).of(x) for x in theirs)


def _has_other_half(candidate: Kernel, e: Cast) -> bool:
    """Whether ``e`` is the lower bits of a number of which ``candidate`` has the upper ones as well, ``x >> 32`` beside
    ``u32(x)``: a product of two words that is made of smaller ones."""
    bits = scalar_of(e.to).bits
    shifted = (x for x in expressions(candidate.body) if isinstance(x, Binary) and x.op == ">>" and x.a == e.x)
    return any(isinstance(x.b, Const) and x.b.value == bits for x in shifted)


def _clamp(e: Cast) -> tuple[object, ...] | None:
    """What a conversion of a choice among numbers comes down to, whatever its variables are called: the type it ends
    in, and all operators, numbers and types; None for any other."""
    core: Expr = e
    while isinstance(core, Cast):
        core = core.x
    chooses = isinstance(core, Select) or (isinstance(core, Call) and core.fn in ("min", "max"))
    if not chooses or not any(isinstance(x, Const) for x in walk_expr(core)):
        return None
    numbered: dict[Expr, int] = {}
    for x in walk_expr(core):
        if isinstance(x, Var):
            numbered.setdefault(x, len(numbered))
    parts = ((type(x), x.type, _operator(x), numbered.get(x)) for x in walk_expr(core))
    return e.to, *parts


def _operator(e: Expr) -> object:
    """What ``e`` does with its operands, or the number that it is."""
    return next((v for name in ("op", "fn", "value") if (v := getattr(e, name, None)) is not None), None)


def approximated(job: Job) -> Failure | None:
    """A function that is approximate in the candidate alone, though no pass declares it."""
    if "fast_math" in job.candidate.flags:
        return None
    known = _approximations(job.original)
    new = sorted(_approximations(job.candidate) - known)
    return Failure("approximate", f"{new[0]} is approximate, and no pass declares fast_math") if new else None


def early_start(job: Job) -> Failure | None:
    """The original waits for the launches before it, the candidate does not: it may read what is not written yet."""
    lost = "wait" in grid_dependencies(job.original) - grid_dependencies(job.candidate)
    return Failure("race", "it does not wait for the launches before it, as the original does") if lost else None


def stale_read(job: Job) -> Failure | None:
    """A buffer that only the candidate reads through the read-only cache although the kernel writes it."""
    known = {b.name for b in _cached_writes(job.original)}
    for b in _cached_writes(job.candidate):
        if b.name not in known:
            return Failure(
                "race", f"{b.name} is written by the kernel and read through the read-only cache", buffer=b.name
            )
    return None


def narrow_scope(job: Job) -> str:
    """Atomics of the candidate alone that are atomic within a block only, on memory that blocks share. Where two blocks
    meet at one element, the sanitizer sees it; that they never do, nobody has shown."""
    known = {s.buffer.name for s in walk(job.original.body) if isinstance(s, Atomic) and s.scope == "block"}
    for s in walk(job.candidate.body):
        if not isinstance(s, Atomic) or s.scope != "block":
            continue
        if isinstance(s.buffer.type, Ptr) and s.buffer.name not in known:
            return f"atomics on {s.buffer.name} are atomic within a block only, and other blocks may share it"
    return ""


CHECKS: tuple[Callable[[Job], Failure | None], ...] = (
    wrapped_index,
    failing_launch,
    approximated,
    stale_read,
    early_start,
)


def narrow_sum(job: Job) -> str:
    """A sum in an integer type of fewer than 32 bits that the original has nothing of: no instance need be long enough
    to fill it, as a counter of 16 bits takes 65,536 elements."""
    theirs = {scalar_of(p.sym.type) for p in job.original.params}
    theirs |= {scalar_of(e.type) for e in all_exprs(job.original.body) if isinstance(e.type, Scalar | Vec)}
    for s in walk(job.candidate.body):
        if isinstance(s, Assign) and isinstance(s.sym.type, Scalar) and _adds_up(s) and s.sym.type not in theirs:
            t = s.sym.type
            if t.is_int and t.kind != "bool" and t.bits < SHORT:
                return f"it is not known whether '{s.sym.name}' keeps its sums within {t}"
    return ""


def _adds_up(s: Assign) -> bool:
    value: Expr = s.value
    while isinstance(value, Cast):
        value = value.x
    return isinstance(value, Binary) and value.op in ("+", "-", "*") and s.sym in used(value)


DOUBTS: tuple[Callable[[Job], str], ...] = (
    unproved_wrap,
    unproved_launch,
    unproved_narrowing,
    narrow_scope,
    narrow_sum,
)


def _environments(workload: Workload) -> Iterator[tuple[str, dict[str, Interval]]]:
    """Ranges of the integer arguments: all that is promised, then each scenario."""
    arrays = [a for a in workload.args if a.role != "scalar" and a.range and not isinstance(a.range[0], float)]
    promised: dict[str, Interval] = {}
    scalars = [a for a in workload.args if a.role == "scalar" and not a.dtype.startswith(FLOATS)]
    for a in scalars:
        if a.range is not None and all(isinstance(v, int) for v in a.range):
            promised[a.name] = (a.range[0], a.range[1])
    if len(promised) == len(scalars):
        known = {elements_of(a.name): a.span for a in arrays if a.span and all(isinstance(v, int) for v in a.span)}
        promised |= known
        guessed = any("range" in a.guessed for a in scalars)
        yield f"for arguments {'that no promise rules out' if guessed else 'within the declared ranges'}", promised
    for s in workload.scenarios:
        values = {n: (v, v) for n, v in scalars_of(workload, s.sizes).items() if isinstance(v, int)}
        for a in arrays:
            low, high = (size_expressions.evaluate(v, s.sizes) if isinstance(v, str) else int(v) for v in a.span or ())
            values[elements_of(a.name)] = (low, high)
        yield f"in the scenario {s.name}", values


def _approximations(kernel: Kernel) -> set[str]:
    return {e.fn for e in all_exprs(kernel.body) if isinstance(e, Call) and e.fn.startswith(APPROXIMATE)}


def _cached_writes(kernel: Kernel) -> Iterator:
    """Buffers that a launch writes and reads through the read-only cache; what earlier launches wrote is there."""
    for body in (k.body for k in launch_kernels(kernel)):
        written = assigned(body)
        for e in all_exprs(body):
            if isinstance(e, Load) and e.cache == READ_ONLY and e.buffer in written and isinstance(e.buffer.type, Ptr):
                yield e.buffer


__all__ = ["static"]
