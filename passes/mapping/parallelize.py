"""parallelize: serial loops whose iterations are independent, or only add up, spread as parallel loops are.

before                                          after parallelize{loop=j.* map=[thread.x $T, seq]}
    par row in 0..n @ [block.x]                     par row in 0..n @ [block.x]
      var s: f32 = 0.0                                reduce(+) s: f32 = 0.0 over j in 0..c @ [thread.x $T, seq]
      for j in 0..c                                     yield x[row * c + j]
        s += x[row * c + j]                           par j_1 in 0..c @ [thread.x $T, seq]
      for j_1 in 0..c                                   y[row * c + j_1] = x[row * c + j_1] / s
        y[row * c + j_1] = x[row * c + j_1] / s

A loop of 2, 4, 8 or 16 neighbouring elements may become one access of its thread: ``map=[vec 8]``.

This is how a kernel that gives each thread a row gives it to a block or a warp: first ``distribute`` the loop over rows
to blocks alone, then parallelize the loops inside.

*What must hold.* The loop counts to an end that stands still, without jumps (by another number than one, or down, it
becomes one that counts up by one first, :mod:`ktc.passes.loops.unit_steps`). Either no iteration touches what
another one writes (apart from atomics of one commutative operation) and none hands a value to the next; or all that is
handed on is sums, products and extremes, and the iterations write nothing. A maximum and sums of exponentials below it,
kept in one sweep, are two loops then (``two_sweeps``). Pointer parameters are taken not to overlap,
as by ``raise``. The order of floating-point sums changes, of those in memory too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.dependence import iterations_independent
from ktc.ir.analysis.order import jump, pinned, places
from ktc.ir.arith import REWRITES, facts_of
from ktc.ir.arith.affine import is_unit_stride
from ktc.ir.fold import cast, evaluate, i32, lt
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Atomic, Body, Decl, For, Load, Par, Reduce, Stmt, Store, Var
from ktc.ir.types import Ptr, Scalar, scalar_of
from ktc.ir.walk import assigned, keep, map_body, stmt_exprs, substitute_expr, used, used_in, walk, walk_expr
from ktc.passes.core.argument_kinds import KnobSpec, Loops
from ktc.passes.core.arguments import option, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.distribution_limits import VECTOR_SIZES
from ktc.passes.core.named_loops import Loop, loops, narrowest_element
from ktc.passes.core.places import SERIAL, places_of
from ktc.passes.core.refusals import Refusal, Refused, Result, accepted, allowed, attempted
from ktc.passes.core.script import DistSpec, LevelSpec
from ktc.passes.loops.unit_steps import by_ones
from ktc.passes.shared.running.two_sweeps import parted
from ktc.passes.shared.serial_sums import converted, counted_to, known_count

from .distribute import DOMAINS, check_levels, set_distribution

THREADS = KnobSpec("T", DOMAINS["thread"], "threads that share the loop")


@dataclass(frozen=True)
class Arguments:
    loop: Loops = required("the serial loop")
    map: DistSpec = option(DistSpec.of("thread.x $T", "seq"), "its distribution", knobs=(THREADS,))


class Parallelize(Pass[Arguments]):
    name = "parallelize"
    summary = "serial loops whose iterations are independent or add up become parallel loops"
    refusals = ("E-PLACE", "E-PLACE-SPMD", "E-PARALLEL-LOOP", "E-PARALLEL-CARRIED", "E-DIST-LEVELS", "E-DIST-NEST")
    flags = ("reassociates",)

    def sites(self, kernel: Kernel) -> list[Site]:
        if not kernel.is_parallel:
            return []
        taken = any(lv.kind == "thread" for s in loops(kernel) for lv in s.dist)
        counts = {n: packed(found[-1]) for n, found in places_of(kernel, serial(kernel), SERIAL).items()}
        wanted = [n for n, count in counts.items() if not taken or count is not None]
        able = [n for n in wanted if allowed(spread, kernel, Loops(n))]
        if taken:
            doc = "neighbouring elements that a thread goes through one after another, in one access"
            maps = {n: _levels(*sizes) for n in able if (sizes := counts[n]) is not None}
            fits = [n for n, m in maps.items() if allowed(self.apply, kernel, Arguments(loop=Loops(n), map=m))]
            return [Site(self.step(loop=n, map=maps[n]), doc) for n in fits]
        doc = "iterations side by side in the threads of a block"
        return [Site(self.step(loop=n, map=DistSpec.of("thread.x $T", "seq")), doc) for n in able]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        after, found = spread(kernel, args.loop)
        new = [s for s in loops(after) if s.var in {f.var for f in found}]
        for s in new:
            check_levels(s, args.map)
        set_ = set_distribution(after, new, args.map, owner=self.name)
        flags = set_.kernel.flags | reassociated(new)
        kinds = ", ".join("reduce" if isinstance(s, Reduce) else "par" for s in new)
        return Result(set_.kernel.with_(flags=flags), (f"{new[0].var.name}: {kinds}",))


def reassociated(new: Sequence[Loop]) -> frozenset[str]:
    """The flag of a kernel in which loops are new parallel ones: whether sums of floats are in another order."""
    sums = [a for s in new if isinstance(s, Reduce) for a in s.accs]
    floating = any(getattr(a.sym.type, "is_float", False) and a.op in "+*" for a in sums) or any(
        isinstance(x, Atomic) and x.op in ("add", "sub", "mul") and scalar_of(x.buffer.type).is_float
        for s in new
        for x in walk(s.body)
    )
    return frozenset({"reassociates"} if floating else ())


def _levels(lanes: int, rounds: int) -> DistSpec:
    return DistSpec((LevelSpec("vec", lanes), *((LevelSpec("unroll", rounds),) if rounds > 1 else ())))


def packed(loop: For) -> tuple[int, int] | None:
    """How many neighbouring elements of a global buffer an access may have in ``loop``, and how many accesses there
    are; None where it goes through no few neighbouring elements."""
    count = known_count(loop) if evaluate(loop.init, {}) == 0 else None
    if count is None or count not in VECTOR_SIZES - {1}:
        return None
    local = {s.sym: s.init for s in loop.body if isinstance(s, Decl) and s.init is not None}

    def beside(x: Load | Store) -> bool:
        return isinstance(x.buffer.type, Ptr) and is_unit_stride(substitute_expr(x.index[0], local), loop.var)

    loads = (x for s in walk(loop.body) for e in stmt_exprs(s) for x in walk_expr(e) if isinstance(x, Load))
    stores = (s for s in walk(loop.body) if isinstance(s, Store))
    if not (any(map(beside, loads)) or any(map(beside, stores))):
        return None
    lanes = min(int(count), 16 // narrowest_element(loop))
    return lanes, int(count) // lanes


def serial(kernel: Kernel) -> list[For]:
    return [s for s in walk(kernel.body) if isinstance(s, For) and isinstance(s.var.type, Scalar)]


def spread(kernel: Kernel, named: Loops) -> tuple[Kernel, list[For]]:
    """``kernel`` with the serial loops ``named`` so parallel, not distributed yet; and those loops as they were."""
    if not kernel.is_parallel:
        raise Refusal("E-PLACE-SPMD", "the kernel has no parallel loops", hint="run raise first")
    found = [s for s in named.find(kernel, SERIAL) if isinstance(s, For) and isinstance(s.var.type, Scalar)]
    whole = parted(kernel, found)
    if whole is not kernel:
        others = {s.var for s in serial(kernel)} - {s.var for s in found}
        kernel, found = whole, [s for s in serial(whole) if s.var not in others]
    for loop in found:
        here = next(s for s in serial(kernel) if s.var == loop.var)
        plain = by_ones(here, lambda k=kernel, s=here: facts_of(k, REWRITES).at(s))  # type: ignore[misc]
        if plain is not None:
            kernel, here = _with(kernel, plain), plain
        done = attempted(_independent, kernel, here)
        if isinstance(done, Refused) and done.code == "E-PARALLEL-CARRIED":
            summed = attempted(converted, kernel, here)
            done = done if isinstance(summed, Refused) else summed
        kernel = accepted(done)
    return kernel, found


def _independent(kernel: Kernel, loop: For) -> Kernel:
    """``kernel`` with ``loop`` as a ``par``."""
    hi, t, name = counted_to(loop), loop.var.type, loop.var.name
    moving = assigned(loop.body)
    if hi is None or loop.var in moving or (used(hi) | used(loop.init)) & moving:
        why = f"'{name}' does not count to an end that stands still"
        raise Refusal("E-PARALLEL-LOOP", why, places(loop))
    bad = jump(loop.body) or pinned(loop.body)
    if bad is not None:
        why = f"an iteration of '{name}' may end the loop, or waits for other threads"
        raise Refusal("E-PARALLEL-LOOP", why, places(bad, loop))
    if not _apart(kernel, loop):
        why = f"an iteration of '{name}' needs what another one computes"
        raise Refusal("E-PARALLEL-CARRIED", why, places(loop), "fission parts what is independent from what is not")
    assert isinstance(t, Scalar)
    return _with(kernel, Par(loop.var, cast(loop.init, t), cast(hi, t), (), loop.body, loc=loop.loc,
                             comments=loop.comments, tags=loop.tags))  # fmt: skip


def _with(kernel: Kernel, loop: For | Par) -> Kernel:
    """``kernel`` with ``loop`` in place of the serial loop over its variable."""

    def on(s: Stmt) -> Stmt | Body:
        return loop if isinstance(s, For) and s.var == loop.var else s

    return kernel.with_(body=map_body(kernel.body, on))


def _apart(kernel: Kernel, loop: For) -> bool:
    """Whether no iteration of ``loop`` touches what another one writes; what names outside of it stand for, and sizes
    that are known to be positive, are strides that show it."""
    params = {p.sym for p in kernel.params}
    if iterations_independent(loop, params):
        return True
    names = definitions(kernel.body)
    within = map_body((loop,), keep, lambda e: expand(e, names) if isinstance(e, Var) else e)
    here = facts_of(kernel, REWRITES).at(loop)
    for s in walk(kernel.body):  # loops that run have a range
        if isinstance(s, Par) and any(x is loop for x in walk(s.body)):
            here = here.under(lt(s.lo, s.hi))
    sizes = (Var(s) for s in used_in(within) if isinstance(s.type, Scalar) and s.type.is_int)
    (plain,) = within
    assert isinstance(plain, For)
    return iterations_independent(plain, params, {e for e in sizes if here.below(i32(0), e)})
