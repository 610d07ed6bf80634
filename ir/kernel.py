"""A kernel: parameters, launch, knobs, constraints, assumptions, body."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .diagnostics import KtcError, Loc
from .fold import KnobValues, cast
from .nodes import KNOB_MARK, Body, Const, Expr, Launched, Par, Produce, Reduce, Scan, Sym
from .types import I32, Ptr
from .walk import walk

ORIGINS = ("declared", "proven", "observed", "guessed")
"""Where facts come from: :mod:`.fact_origins` says what each means."""

TESTABLE = frozenset({"align", "divisible_by", "range", "noalias"})
"""Facts of a parameter that a launcher can test, given the arguments; that a buffer overlaps no other one, where it is
known which elements of them the kernel touches."""


@dataclass(frozen=True)
class Param:
    """A kernel parameter.

    ``host=True`` marks a value that the launcher knows and the kernel's signature lacks (``num_tokens`` in
    ``grid = num_tokens``). Launch expressions and parallel loops may use it; lowering adds it to the emitted signature
    if the body does. ``align`` is the buffer's base alignment in bytes, ``divisible_by`` and ``range`` (inclusive) are
    facts about a scalar, ``readonly``/``noalias`` facts about a buffer. ``scratch`` marks working memory that the
    launcher provides: that many elements, zero before the first launch, and left by each launch fit for the next; if it
    is ``temporary``, working memory of one run, before which its contents mean nothing (what one launch of a sequence
    leaves for another one).

    ``symbol`` is set for a variable at file scope (``constant | device | managed``) of ``extent`` elements, with its
    initial values if the source gives them. CUDA and HIP declare it at file scope again; everywhere else (other
    languages, workloads, the interpreter) it is a buffer that is passed like any other.

    ``touches`` says of a buffer which elements the source can touch: the first, the last, and what has to be at least
    zero for that to hold (:mod:`.analysis.touched_ranges`), over scalar parameters. It is there where a launcher needs
    it to test a ``noalias``.

    ``rows`` names the parameter of the launcher that says how many elements the rows of the buffer are apart. It is set
    for rows that may lie anywhere, as an array of pointers to them has it: element ``i`` of row ``e`` is the element
    ``e * rows + i``, no row reaches another one, and nothing depends on how far they are apart (:mod:`.pointer_rows`).

    ``origins`` says of facts (``align``, ``divisible_by``, ``range``, ``noalias``) that the user did not declare where
    they come from; :mod:`.fact_origins` has the words, and is how to ask.
    """

    sym: Sym
    align: int = 0
    divisible_by: int = 1
    range: tuple[int | None, int | None] = (None, None)
    noalias: bool = False
    readonly: bool = False
    host: bool = False
    symbol: str = ""
    extent: int = 0
    init: tuple[int | float | bool, ...] = ()
    scratch: Expr | None = None
    temporary: bool = False
    touches: tuple[Expr, ...] = ()
    rows: str = ""
    origins: tuple[tuple[str, str], ...] = ()

    @property
    def overlaps_nothing(self) -> bool:
        """Whether no other parameter reaches what this one, a buffer, does."""
        return self.noalias or (isinstance(self.sym.type, Ptr) and self.sym.type.restrict)


@dataclass(frozen=True)
class Launch:
    """Launch geometry: expressions over parameters and knobs. ``dynamic_shared`` in bytes.

    ``given``: parameters for which the source's launch passes a constant, with that number. They describe that
    one call, not the kernel: no rewrite builds on them. ``passed``: the same for parameters that it passes something
    computed for, over other parameters and host variables, or that a workload computes of others; a rewrite that builds
    on one puts it on the kernel as an assumption (:mod:`ktc.ir.arith.size_equalities`). ``reached``: conditions over
    parameters and host variables under which the source comes to the launch: other launches are for other sizes.
    ``together``: the names of buffers for which it passes the same memory, in groups. ``first``: counters of loops of
    the host that the extents depend on, with what they are in the first round: the launch is that of this round.
    ``filled``: buffers of integers with the least and the largest number that the host is seen to put into them.
    ``rounds``: parameters that are counters of loops of the host around the launch, with the least value, where they
    end (which they do not come to) and the step from one to the next. ``allocated``: buffers with the bytes that the
    host allocates for them beside the launch. ``reals``: floating-point parameters that it passes something computed of
    integers for, over these and host variables, as ``passed`` has the integers: ``1.0f / n``.

    Extents of blocks that are numbers have the type i32, whatever type the source's host code has for them: lanes and
    warps are counted in it.
    """

    grid: tuple[Expr, Expr, Expr]
    block: tuple[Expr, Expr, Expr]
    dynamic_shared: Expr | None = None
    cluster: tuple[Expr, Expr, Expr] | None = None
    max_threads: Expr | None = None  # __launch_bounds__(max_threads, min_blocks)
    min_blocks: Expr | None = None
    given: tuple[tuple[str, int | float], ...] = field(default=(), compare=False)
    passed: tuple[tuple[str, Expr], ...] = field(default=(), compare=False)
    reached: tuple[Expr, ...] = field(default=(), compare=False)
    together: tuple[tuple[str, ...], ...] = field(default=(), compare=False)
    first: tuple[tuple[str, Expr], ...] = field(default=(), compare=False)
    filled: tuple[tuple[str, int, int], ...] = field(default=(), compare=False)
    rounds: tuple[tuple[str, Expr, Expr, Expr], ...] = field(default=(), compare=False)
    allocated: tuple[tuple[str, Expr], ...] = field(default=(), compare=False)
    reals: tuple[tuple[str, Expr], ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        block = tuple(cast(n, I32) if isinstance(n, Const) else n for n in self.block)
        object.__setattr__(self, "block", block)


@dataclass(frozen=True)
class KnobDecl:
    """A tunable integer: its domain (ordered), default, who introduced it, and its value once bound."""

    name: str
    domain: tuple[int, ...]
    default: int
    doc: str = ""
    owner: str = ""
    value: int | None = None


@dataclass(frozen=True)
class Assume:
    """A fact about parameters. ``origin`` as in :mod:`.fact_origins`: what the user declared, what is proven of the
    code, and what a pass wants so (guessed), which the launcher tests: where it does not hold, the original runs."""

    expr: Expr
    origin: str = "declared"


@dataclass(frozen=True)
class Repeat:
    """The host launches the kernel again and again and swaps two buffers in between, as iterative stencils do.

    ``swap`` names the buffer that is read and the one that is written. One launch does the work of ``sweeps`` launches
    of the source: ``temporal-block`` raises it. ``launches``: how often the interpreter launches the kernel in a run,
    so that a kernel of one sweep can be compared with one of several.
    """

    swap: tuple[str, str]
    sweeps: int = 1
    launches: int = 1


@dataclass(frozen=True)
class Kernel:
    """One ``__global__`` function in SPMD or parallel form; or a sequence of launches, whose ``body`` holds nothing but
    :class:`~ktc.ir.nodes.Launched` and which has no ``launch`` of its own.

    ``constraints`` are boolean expressions over knobs (and constants) that a feasible tuple satisfies.
    ``trace`` lists the pass steps applied so far. ``flags``: reassociates, rational (the same as its source by
    rational arithmetic, of which the ring of integers knows too little), fast_math (some functions are approximated),
    as_accurate (though approximated, it is held to the original's accuracy), grid_wait and grid_release
    (:mod:`ktc.ir.grid_dependencies`).
    ``staging`` are the steps that put back what ``raise`` took out of a kernel staged by hand; lowering applies them
    where no pass came after it.
    """

    name: str
    params: tuple[Param, ...]
    launch: Launch | None
    body: Body
    knobs: tuple[KnobDecl, ...] = ()
    constraints: tuple[Expr, ...] = ()
    assumptions: tuple[Assume, ...] = ()
    trace: tuple[str, ...] = field(default=(), compare=False)
    flags: frozenset[str] = frozenset()
    repeat: Repeat | None = None
    staging: tuple[str, ...] = field(default=(), compare=False)
    loc: Loc | None = field(default=None, compare=False, repr=False)
    comments: tuple[str, ...] = field(default=(), compare=False, repr=False)

    @functools.cached_property
    def is_parallel(self) -> bool:
        """Whether it is a program of steps instead of one of threads: any ``par``, ``reduce`` or ``scan`` is left (not
        yet lowered), or it is a sequence of launches."""
        return any(isinstance(s, Par | Reduce | Scan | Launched) for s in walk(self.body))

    @functools.cached_property
    def is_spmd(self) -> bool:
        """Whether it is a program of threads, or a sequence of launches each of which is: no ``par``, ``reduce`` or
        ``scan`` is left."""
        return not any(isinstance(s, Par | Reduce | Scan) for s in walk(self.body))

    @property
    def is_sequence(self) -> bool:
        """Whether it is a sequence of launches (:mod:`ktc.ir.sequences`) instead of one."""
        return any(isinstance(s, Launched) for s in self.body)

    @functools.cached_property
    def has_producer(self) -> bool:
        """Whether some threads of each block do nothing but hand data over to the others."""
        return any(isinstance(s, Produce) for s in walk(self.body))

    def param(self, name: str) -> Param:
        for p in self.params:
            if p.sym.name == name:
                return p
        raise KeyError(name)

    def knob(self, name: str) -> KnobDecl:
        for k in self.knobs:
            if k.name == name:
                return k
        raise KeyError(name)

    @property
    def may_lose_accuracy(self) -> bool:
        """Whether somebody asked for approximations, and so for their errors."""
        return "fast_math" in self.flags and "as_accurate" not in self.flags

    @property
    def sweeps(self) -> int:
        """Launches of the source that one launch of this kernel stands for."""
        return self.repeat.sweeps if self.repeat else 1

    @property
    def launches(self) -> int:
        """Launches that stand for one run of this kernel when it is compared with another."""
        return self.repeat.launches if self.repeat else 1

    @property
    def knob_values(self) -> KnobValues:
        """Every knob's bound value, or its default while open."""
        return KnobValues((k.name, k.default if k.value is None else k.value) for k in self.knobs)

    @property
    def bound_knobs(self) -> KnobValues:
        """The values of the knobs that are bound."""
        return KnobValues((k.name, k.value) for k in self.knobs if k.value is not None)

    def environment(self, values: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """For :func:`ktc.ir.fold.evaluate`: parameters by name as ``values`` has them, and this kernel's knobs. A knob
        may be called as a parameter is (``T``): each keeps its own value."""
        knobs = self.knob_values
        return {**knobs, **(values or {}), **{KNOB_MARK + k: v for k, v in knobs.items()}}

    def with_(self, **changes: object) -> Kernel:
        """A copy with fields replaced."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]


PRODUCER_THREADS = 128
"""Threads that a launch adds to each block for a producer: a warpgroup, which can hand over its registers."""


def producer_threads(kernel: Kernel) -> int:
    """Threads along x that a launch adds to each block: those of a :class:`Produce`, which run nothing else."""
    return PRODUCER_THREADS if kernel.has_producer else 0


def bind(kernel: Kernel, values: Mapping[str, int]) -> Kernel:
    """``kernel`` with its knobs bound to ``values`` (missing ones to their defaults), constraints re-checked.

    Knobs stay named constants in the code: binding records the value, it does not substitute.

    Raises:
        KtcError: E-KNOB-UNKNOWN, E-KNOB-DOMAIN or E-KNOB-INFEASIBLE.
    """
    from .fold import evaluate  # fold imports this module's nodes

    names = {k.name for k in kernel.knobs}
    for name in values:
        if name not in names:
            known = ", ".join(sorted(names)) or "none"
            raise KtcError(
                "E-KNOB-UNKNOWN", f"no knob named '{name}'", hint=f"the knobs of this script: {known}", exit_code=2
            )
    decls = []
    for k in kernel.knobs:
        v = values.get(k.name, k.default if k.value is None else k.value)
        if k.domain and v not in k.domain:
            raise KtcError("E-KNOB-DOMAIN", f"{k.name}={v} is not in its domain {list(k.domain)}")
        decls.append(dataclasses.replace(k, value=int(v)))
    bound = kernel.with_(knobs=tuple(decls))
    env = bound.knob_values
    for c in bound.constraints:
        if evaluate(c, env) is not None and not evaluate(c, env):
            from ktc.ir.text import print_expr

            tuple_ = ", ".join(f"{k}={v}" for k, v in env.items())
            raise KtcError("E-KNOB-INFEASIBLE", f"({tuple_}) violates {print_expr(c)}")
    return bound


__all__ = [
    "PRODUCER_THREADS", "Assume", "Const", "Kernel", "KnobDecl", "Launch", "Param", "Repeat", "bind",
    "producer_threads",
]  # fmt: skip
