"""The rules of the IR, checked: front-end, passes and the ``.ktir`` reader must give kernels without problems.

Problems are data. Checked here: statements and where they may stand. Symbols and their scopes are in ``scope_rules``,
expressions in ``type_rules``, what a block or warp does as one in ``tile_rules``, distributions in
``parallel_rules``, knobs and launch in ``launch_rules``, producers of copies in ``producer_rules``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ktc.ir.analysis.uniform_control import control_of
from ktc.ir.analysis.uniformity import Uniformity
from ktc.ir.diagnostics import KtcError, Loc
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Atomic,
    Barrier,
    Body,
    Break,
    BulkCopy,
    Continue,
    Decl,
    Expr,
    For,
    GroupCopy,
    GroupWait,
    If,
    Launched,
    Par,
    Produce,
    Reduce,
    Return,
    Scan,
    Stmt,
    Store,
    Sym,
    While,
)  # fmt: skip
from ktc.ir.sequences import launch_kernels
from ktc.ir.types import Array, Ptr, Type
from ktc.ir.walk import stmt_exprs, walk

from .launch_rules import check_guards, check_knobs, check_launch, launch_exprs
from .parallel_rules import check_distribution, spread_over_threads
from .producer_rules import check_producer
from .scope_rules import Scopes, touched
from .sequence_rules import check_sequence
from .type_rules import check_expr, check_stmt_types, symbols_of


@dataclass(frozen=True)
class Problem:
    """A rule that does not hold: a stable code, one sentence, and the place in the source if there is one.

    ``unproved``: the rule may hold in every launch that the author meant, only the text does not show it. Such a kernel
    is printed in other languages with a word to its author; passes leave it alone.
    """

    code: str
    message: str
    loc: Loc | None = None
    unproved: bool = False

    def __str__(self) -> str:
        return f"{self.loc or 'kernel'}: {self.message} [{self.code}]"


def verify(kernel: Kernel) -> list[Problem]:
    """Every problem of ``kernel``, in source order; empty when it is well-formed."""
    found = _sequence_problems(kernel) if kernel.is_sequence else _Checker(kernel).run()
    return list(dict.fromkeys(found))


def _sequence_problems(kernel: Kernel) -> Iterator[Problem]:
    """Those of a sequence as a whole, then those of each launch as a kernel of its own."""
    yield from (Problem(code, message, loc or kernel.loc) for code, message, loc in check_sequence(kernel))
    if all(isinstance(s, Launched) for s in kernel.body):
        for k in launch_kernels(kernel):
            yield from _Checker(k).run()


def unproved(kernel: Kernel) -> list[Problem]:
    """What an author must look at: rules that only the launches meant can show to hold."""
    if not any(isinstance(s, Barrier) for s in walk(kernel.body)):
        return []
    return [p for p in verify(kernel) if p.unproved]


def check(kernel: Kernel) -> None:
    """Raise the problems of ``kernel``, if any; what is only not proved is none (see :func:`unproved`).

    Raises:
        KtcError: E-VERIFY, with the place of the first problem and all of them in the message.
    """
    problems = [p for p in verify(kernel) if not p.unproved]
    if problems:
        rows = "; ".join(f"{p.message} [{p.code}]" for p in problems[:5])
        more = f" (and {len(problems) - 5} more)" if len(problems) > 5 else ""
        raise KtcError("E-VERIFY", f"{kernel.name} is not well-formed: {rows}{more}", problems[0].loc)


@dataclass(frozen=True)
class _Context:
    """What encloses a statement."""

    loops: int = 0  # For and While since the last par
    pars: tuple[Par | Reduce | Scan, ...] = ()
    produces: bool = False


class _Checker:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.scopes = Scopes()
        self.constants: set[Sym] = set()
        self.written = {s.buffer for s in walk(kernel.body) if isinstance(s, Store | Atomic)}
        self.produced = {id(s.body[0]) for s in walk(kernel.body) if isinstance(s, For) and s.body}
        self.readonly = {p.sym for p in kernel.params if p.readonly}

    @cached_property
    def facts(self) -> Uniformity:
        """Who reaches what: only barriers ask."""
        return control_of(self.kernel)

    def run(self) -> Iterator[Problem]:
        yield from self.header()
        yield from self.body(self.kernel.body, _Context())
        for code, message in (*check_knobs(self.kernel), *check_guards(self.kernel), *check_launch(self.kernel)):
            yield Problem(code, message, self.kernel.loc)

    # ---------------------------------------------------------------------------------------------------- header

    def header(self) -> Iterator[Problem]:
        k = self.kernel
        names: set[str] = set()
        for p in k.params:
            if p.sym.name in names:
                yield Problem("V-PARAM", f"two parameters are called '{p.sym.name}'", k.loc)
            names.add(p.sym.name)
            yield from self.declare(p.sym, k.loc)
            lo, hi = p.range
            if p.divisible_by < 1 or p.align < 0 or (lo is not None and hi is not None and lo > hi):
                yield Problem("V-PARAM", f"'{p.sym.name}' has a fact that cannot hold", k.loc)
            if p.temporary and p.scratch is None:
                yield Problem("V-PARAM", f"'{p.sym.name}' is temporary and has no size", k.loc)
            if p.scratch is not None and not isinstance(p.sym.type, Ptr):
                yield Problem("V-PARAM", f"'{p.sym.name}' is scratch memory, so it must be a pointer", k.loc)
        sizes = [p.scratch for p in k.params if p.scratch is not None]
        for e in [*sizes, *k.constraints, *(a.expr for a in k.assumptions), *launch_exprs(k)]:
            yield from self.expr(e, k.loc)

    # ------------------------------------------------------------------------------------- symbols and expressions

    def declare(self, s: Sym, loc: Loc | None) -> Iterator[Problem]:
        yield from (Problem(code, message, loc) for code, message in self.scopes.declare(s))

    def use(self, s: Sym, loc: Loc | None) -> Iterator[Problem]:
        yield from (Problem(code, message, loc) for code, message in self.scopes.use(s))

    def expr(self, e: Expr, loc: Loc | None) -> Iterator[Problem]:
        for x in symbols_of(e):
            if isinstance(x, Sym):
                yield from self.use(x, loc)
        for code, message in check_expr(e, self.written):
            yield Problem(code, message, loc)

    # ------------------------------------------------------------------------------------------------ statements

    def body(self, body: Body, at: _Context) -> Iterator[Problem]:
        """``body`` in a scope of its own."""
        with self.scopes.inner():
            for s in body:
                yield from self.stmt(s, at)

    def stmt(self, s: Stmt, at: _Context) -> Iterator[Problem]:
        structural = isinstance(s, For | Par | Reduce | Scan | While)
        if not structural:
            for e in stmt_exprs(s):
                yield from self.expr(e, s.loc)
        for sym in touched(s):
            yield from self.use(sym, s.loc)
        for code, message in check_stmt_types(s):
            yield Problem(code, message, s.loc)
        match s:
            case Decl() | Alloc():
                yield from self.declare(s.sym, s.loc)
                yield from self.storage(s)
                if isinstance(s, Decl) and s.const and s.init is not None:
                    self.constants.add(s.sym)
            case Assign() if s.sym in self.constants:
                yield Problem("V-CONST", f"'{s.sym.name}' is constant and assigned", s.loc)
            case Store() if s.buffer in self.constants:
                yield Problem("V-CONST", f"'{s.buffer.name}' is constant and one of its lanes is assigned", s.loc)
            case Store() | Atomic():
                yield from self.writable(s.buffer, s.loc)
            case If():
                yield from self.body(s.then, at)
                yield from self.body(s.orelse, at)
            case For() | While():
                yield from self.loop(s, at)
            case Produce():
                yield from self.produce(s, at)
            case BulkCopy() if not at.produces:
                yield Problem("V-PRODUCE", f"a bulk copy to '{s.dst.name}' outside of a produce statement", s.loc)
            case Par() | Reduce() | Scan():
                yield from self.parallel(s, at)
            case Launched():
                yield Problem("V-SEQUENCE", f"the launch of '{s.kernel}' stands inside another statement", s.loc)
            case Break() | Continue() if at.loops == 0:
                yield Problem("V-LOOP", f"{type(s).__name__.lower()} outside a loop", s.loc)
            case Return() if at.pars:
                yield Problem("V-LOOP", "return inside a parallel loop", s.loc)
            case Barrier() | GroupCopy() | GroupWait():
                yield from self.barrier(s, at)

    def storage(self, s: Decl | Alloc) -> Iterator[Problem]:
        t = s.sym.type
        if isinstance(s, Alloc):
            if not isinstance(t, Array) or t.space not in ("shared", "local"):
                yield Problem("V-SPACE", f"the array '{s.sym.name}' must be shared or local", s.loc)
            elif s.dynamic and t.space != "shared":
                yield Problem("V-SPACE", f"'{s.sym.name}' is dynamic but not shared", s.loc)

    def writable(self, buffer: Sym, loc: Loc | None) -> Iterator[Problem]:
        t: Type = buffer.type
        if (isinstance(t, Ptr) and (t.const or t.space == "const")) or buffer in self.readonly:
            yield Problem("V-READONLY", f"'{buffer.name}' is read-only and stored to", loc)

    def loop(self, s: For | While, at: _Context) -> Iterator[Problem]:
        inner = _Context(at.loops + 1, at.pars)
        with self.scopes.inner():
            if isinstance(s, For):
                yield from self.expr(s.init, s.loc)
                yield from self.declare(s.var, s.loc)
                for e in (s.cond, s.step, s.unroll):
                    if isinstance(e, Expr):
                        yield from self.expr(e, s.loc)
            elif not s.post:
                yield from self.expr(s.cond, s.loc)
            for inside in s.body:
                yield from self.stmt(inside, inner)
            if isinstance(s, While) and s.post:
                yield from self.expr(s.cond, s.loc)

    def produce(self, s: Produce, at: _Context) -> Iterator[Problem]:
        """The producer runs copies and nothing else, and only it writes what they fill."""
        if id(s) not in self.produced:
            yield Problem("V-PRODUCE", "a produce statement is not the first of a serial loop", s.loc)
        yield from self.body(s.body, _Context(at.loops, at.pars, produces=True))
        for message, loc in check_producer(s, self.kernel):
            yield Problem("V-PRODUCE", message, loc)
        if self.facts.is_divergent(s):
            yield Problem("V-PRODUCE", "a producer of a loop that only some threads of the block may reach", s.loc)

    def parallel(self, s: Par | Reduce | Scan, at: _Context) -> Iterator[Problem]:
        for code, message in check_distribution(s, at.pars):
            yield Problem(code, message, s.loc)
        outer = [s.lo, s.hi, *(lv.n for lv in s.dist if lv.n is not None)]
        accs = s.accs if isinstance(s, Reduce) else (s.acc,) if isinstance(s, Scan) else ()
        for e in [*outer, *(a.init for a in accs)]:
            yield from self.expr(e, s.loc)
        inner = _Context(0, (*at.pars, s))
        with self.scopes.inner():
            yield from self.declare(s.var, s.loc)
            for inside in s.body:
                yield from self.stmt(inside, inner)
            for a in accs:
                yield from self.expr(a.value, s.loc)
            if isinstance(s, Scan):
                yield from self.declare(s.acc.sym, s.loc)
                for inside in s.then:
                    yield from self.stmt(inside, inner)
        if isinstance(s, Scan):
            self.scopes.reveal(s.acc.sym)
            return
        for a in accs:
            yield from self.declare(a.sym, s.loc)

    def barrier(self, s: Barrier | GroupCopy | GroupWait, at: _Context) -> Iterator[Problem]:
        if isinstance(s, Barrier) and s.scope == "warp":
            return
        what = "a barrier" if isinstance(s, Barrier) else "a copy or wait of the block"
        if any(spread_over_threads(p) for p in at.pars):
            yield Problem("V-BARRIER", f"{what} inside a loop spread over threads", s.loc)
        elif self.facts.is_divergent(s):
            message = f"{what} that only some threads of the block may reach"
            yield Problem("V-BARRIER", message, s.loc, unproved=True)
