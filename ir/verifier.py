"""The rules of the IR, checked: every producer (front-end, pass, ``.ktir`` reader) must give a kernel without problems.

Problems are data. Checked here: symbols and their scopes, statements and where they may stand, knobs and launch.
Expressions are in ``verify_types``, distributions in ``verify_parallel``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .diagnostics import KtcError, Loc
from .fold import evaluate
from .kernel import Kernel
from .nodes import (
    Alloc,
    Assign,
    AsyncCopy,
    Atomic,
    Barrier,
    Body,
    Break,
    Continue,
    Decl,
    Expr,
    For,
    If,
    InlineAsm,
    Knob,
    MatrixLoad,
    Par,
    RawStmt,
    Reduce,
    Return,
    Scan,
    Stmt,
    Store,
    Sym,
    TileMma,
    While,
)  # fmt: skip
from .types import Array, Ptr, Type
from .uniformity import Uniformity, uniformity
from .verify_parallel import check_distribution, spread_over_threads
from .verify_types import check_expr, check_stmt_types, symbols_of
from .walk import all_exprs, stmt_exprs, walk

MAX_BLOCK = (1024, 1024, 64)
MAX_BLOCK_THREADS = 1024
MAX_GRID = ((1 << 31) - 1, 65535, 65535)
"""CUDA C++ Programming Guide, technical specifications per compute capability (the same from 5.0 to 10.0)."""


@dataclass(frozen=True)
class Problem:
    """A rule that does not hold: a stable code, one sentence, and the place in the source if there is one."""

    code: str
    message: str
    loc: Loc | None = None

    def __str__(self) -> str:
        return f"{self.loc or 'kernel'}: {self.message} [{self.code}]"


def verify(kernel: Kernel) -> list[Problem]:
    """Every problem of ``kernel``, in source order; empty when it is well-formed."""
    return list(dict.fromkeys(_Checker(kernel).run()))


def check(kernel: Kernel) -> None:
    """Raise the problems of ``kernel``, if any.

    Raises:
        KtcError: E-VERIFY, with the place of the first problem and all of them in the message.
    """
    problems = verify(kernel)
    if problems:
        rows = "; ".join(f"{p.message} [{p.code}]" for p in problems[:5])
        more = f" (and {len(problems) - 5} more)" if len(problems) > 5 else ""
        raise KtcError("E-VERIFY", f"{kernel.name} is not well-formed: {rows}{more}", problems[0].loc)


@dataclass(frozen=True)
class _Context:
    """What encloses a statement."""

    loops: int = 0  # For and While since the last par
    pars: tuple[Par | Reduce | Scan, ...] = ()


class _Checker:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.facts: Uniformity = uniformity(kernel)
        self.scopes: list[set[Sym]] = [set()]
        self.declared: set[Sym] = set()
        self.constants: set[Sym] = set()
        self.written = {s.buffer for s in walk(kernel.body) if isinstance(s, Store | Atomic)}
        self.readonly = {p.sym for p in kernel.params if p.readonly}

    def run(self) -> Iterator[Problem]:
        yield from self.header()
        yield from self.body(self.kernel.body, _Context())
        yield from self.knobs()
        yield from self.launch()

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
            if p.scratch is not None and not isinstance(p.sym.type, Ptr):
                yield Problem("V-PARAM", f"'{p.sym.name}' is scratch memory, so it must be a pointer", k.loc)
        sizes = [p.scratch for p in k.params if p.scratch is not None]
        for e in [*sizes, *k.constraints, *(a.expr for a in k.assumptions), *self.launch_exprs()]:
            yield from self.expr(e, k.loc)

    def launch_exprs(self) -> Iterator[Expr]:
        launch = self.kernel.launch
        if launch is not None:
            yield from (*launch.grid, *launch.block, *(launch.cluster or ()))
            yield from (e for e in (launch.dynamic_shared, launch.max_threads, launch.min_blocks) if e is not None)

    def knobs(self) -> Iterator[Problem]:
        k = self.kernel
        names = [d.name for d in k.knobs]
        for d in k.knobs:
            if names.count(d.name) > 1:
                yield Problem("V-KNOB", f"the knob ${d.name} is declared twice", k.loc)
            for v in (d.default, d.value):
                if v is not None and d.domain and v not in d.domain:
                    yield Problem("V-KNOB", f"${d.name}={v} is outside its domain {list(d.domain)}", k.loc)
        everywhere = [*all_exprs(k.body), *k.constraints, *(a.expr for a in k.assumptions), *self.launch_exprs()]
        used = {x.name for e in everywhere for x in symbols_of(e) if isinstance(x, Knob)}
        for name in sorted(used - set(names)):
            yield Problem("V-KNOB", f"the knob ${name} is used and not declared", k.loc)

    def launch(self) -> Iterator[Problem]:
        launch = self.kernel.launch
        if launch is None:
            return
        bound = {d.name: d.value for d in self.kernel.knobs if d.value is not None}
        block = [evaluate(e, bound) for e in launch.block]
        grid = [evaluate(e, bound) for e in launch.grid]
        rows = [("block", axis, v, limit) for axis, v, limit in zip("xyz", block, MAX_BLOCK)]
        rows += [("grid", axis, v, limit) for axis, v, limit in zip("xyz", grid, MAX_GRID)]
        bad = [row for row in rows if row[2] is not None and not 1 <= row[2] <= row[3]]
        for what, axis, v, limit in bad:
            yield Problem("V-LAUNCH", f"{what}.{axis} is {v}; it must be 1 to {limit}", self.kernel.loc)
        known = [v for v in block if v is not None]
        threads = known[0] * known[1] * known[2] if len(known) == 3 else 0
        if not bad and threads > MAX_BLOCK_THREADS:
            message = f"a block of {threads} threads; the limit is {MAX_BLOCK_THREADS}"
            yield Problem("V-LAUNCH", message, self.kernel.loc)

    # --------------------------------------------------------------------------------------------------- symbols

    def declare(self, s: Sym, loc: Loc | None) -> Iterator[Problem]:
        if s in self.declared:
            yield Problem("V-REDEFINED", f"'{s.name}' is defined more than once", loc)
        self.declared.add(s)
        self.scopes[-1].add(s)

    def use(self, s: Sym, loc: Loc | None) -> Iterator[Problem]:
        if not any(s in scope for scope in self.scopes):
            where = "outside its scope" if s in self.declared else "before any definition"
            yield Problem("V-UNDEFINED", f"'{s.name}' is used {where}", loc)

    def expr(self, e: Expr, loc: Loc | None) -> Iterator[Problem]:
        for x in symbols_of(e):
            if isinstance(x, Sym):
                yield from self.use(x, loc)
        for code, message in check_expr(e, self.written):
            yield Problem(code, message, loc)

    # ------------------------------------------------------------------------------------------------ statements

    def body(self, body: Body, at: _Context) -> Iterator[Problem]:
        """``body`` in a scope of its own."""
        self.scopes.append(set())
        for s in body:
            yield from self.stmt(s, at)
        self.scopes.pop()

    def stmt(self, s: Stmt, at: _Context) -> Iterator[Problem]:
        structural = isinstance(s, For | Par | Reduce | Scan | While)
        if not structural:
            for e in stmt_exprs(s):
                yield from self.expr(e, s.loc)
        for sym in _touched(s):
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
            case Store() | Atomic():
                yield from self.writable(s.buffer, s.loc)
            case If():
                yield from self.body(s.then, at)
                yield from self.body(s.orelse, at)
            case For() | While():
                yield from self.loop(s, at)
            case Par() | Reduce() | Scan():
                yield from self.parallel(s, at)
            case Break() | Continue() if at.loops == 0:
                yield Problem("V-LOOP", f"{type(s).__name__.lower()} outside a loop", s.loc)
            case Return() if at.pars:
                yield Problem("V-LOOP", "return inside a parallel loop", s.loc)
            case Barrier():
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
        self.scopes.append(set())
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
        self.scopes.pop()

    def parallel(self, s: Par | Reduce | Scan, at: _Context) -> Iterator[Problem]:
        for code, message in check_distribution(s, at.pars):
            yield Problem(code, message, s.loc)
        outer = [s.lo, s.hi, *(lv.n for lv in s.dist if lv.n is not None)]
        accs = s.accs if isinstance(s, Reduce) else (s.acc,) if isinstance(s, Scan) else ()
        for e in [*outer, *(a.init for a in accs)]:
            yield from self.expr(e, s.loc)
        self.scopes.append(set())
        yield from self.declare(s.var, s.loc)
        inner = _Context(0, (*at.pars, s))
        for inside in s.body:
            yield from self.stmt(inside, inner)
        for a in accs:
            yield from self.expr(a.value, s.loc)
        if isinstance(s, Scan):
            yield from self.declare(s.acc.sym, s.loc)
            for inside in s.then:
                yield from self.stmt(inside, inner)
            self.scopes.pop()
            self.scopes[-1].add(s.acc.sym)
            return
        self.scopes.pop()
        for a in accs:
            yield from self.declare(a.sym, s.loc)

    def barrier(self, s: Barrier, at: _Context) -> Iterator[Problem]:
        if s.scope == "warp":
            return
        if any(spread_over_threads(p) for p in at.pars):
            yield Problem("V-BARRIER", "a barrier inside a loop spread over threads", s.loc)
        elif self.facts.is_divergent(s):
            yield Problem("V-BARRIER", "a barrier that only some threads of the block may reach", s.loc)


def _touched(s: Stmt) -> Iterator[Sym]:
    """Symbols that ``s`` itself names other than in expressions, and does not declare."""
    match s:
        case Assign():
            yield s.sym
        case Store():
            yield s.buffer
        case Atomic():
            yield s.buffer
            if s.dst is not None:
                yield s.dst
        case AsyncCopy():
            yield from (s.dst, s.src)
        case MatrixLoad():
            yield from (s.dst, s.buffer)
        case TileMma():
            yield from (s.a, s.b)
        case InlineAsm():
            yield from (o for _, o in s.outputs)
        case RawStmt():
            yield from (*s.reads, *s.writes)
