"""Running a body for all threads of one block on symbols instead of numbers, to prove that two bodies do the same.

What a body finds (variables, memory) is opaque, the same for both. Integers that are known are computed; everything
else becomes a term (:mod:`.terms`). Threads run in lockstep, a statement at a time: that every schedule gives the
same is what the sanitizer of the ladder says, so barriers must come in the same sequence in both. A statement that
cannot be followed (a loop whose end is not known, an atomic) is an unknown function of all that it reads: the same
statement on the same terms leaves the same terms.

Two bodies are the same where they leave the same terms in every variable and array that lives on, and in memory.
NaNs are left aside, as everywhere in the exact rungs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ktc.ir.fold import INT_FUNCS, INT_OPS, evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Barrier,
    Binary,
    Body,
    Break,
    Call,
    Cast,
    Const,
    Continue,
    Decl,
    Expr,
    For,
    HwIndex,
    If,
    Knob,
    Load,
    Return,
    Select,
    Stmt,
    Store,
    Sym,
    Unary,
    Var,
    WarpOp,
    While,
)  # fmt: skip
from ktc.ir.types import Array, Ptr, Scalar, Vec
from ktc.ir.walk import all_exprs, assigned, declared, used_in, walk

from .formats import formats
from .terms import PREDICATES, Term, Terms

WARP = 32
ROUNDS = 80
MOST_THREADS = 1024
MOST_WORK = 200_000
"""Statements times threads; beyond, there is no proof."""


PLAIN = (Decl, Alloc, Assign, Store, If, For, While, Break, Continue)
"""Statements that do no more than change variables and memory."""


class Lost(Exception):
    """This cannot be followed on symbols."""


Active = dict[int, Term]
"""Threads that are here, each with the condition under which it is."""


def same_effect(a: Body, b: Body, kernel: Kernel, after: Body | None, part: bool = False) -> str:
    """Why ``a`` and ``b`` do the same wherever they stand in ``kernel``; '' if that is not shown.

    ``after``: what runs behind them, as far as it is known; None where they are followed by anything at all.
    ``part``: of a body, whose rest sees what they declare.
    """
    if _extents(a) != _extents(b):
        return ""  # subscripts are not held against extents here
    known = formats(kernel)
    outer = {s for body in (a, b) for s in assigned(body)} - {*declared(a), *declared(b)}
    if part:
        outer |= {s.sym for body in (a, b) for s in body if isinstance(s, Decl | Alloc)}
    if after is not None:
        reads = used_in(after)
        outer = {s for s in outer if isinstance(s.type, Ptr) or s in reads}
    for threads in _blocks(kernel, (*a, *b)):
        terms, left = Terms("reassociates" in kernel.flags), []
        try:
            for body in (a, b):
                run = _Run(terms, kernel, known, threads)
                run.body(body, dict.fromkeys(range(threads.count), terms.const(True, "bool")))
                left.append(run.summary(outer))
        except Lost:
            continue
        if left[0] == left[1]:
            one = "every thread" if threads.count == 1 else f"{threads.count} symbolic threads"
            return f"{one}: the same terms are left behind"
    return ""


def _extents(body: Body) -> list[Any]:
    """Element types and extents of the arrays that a body declares."""
    arrays = [s.sym.type for s in walk(body) if isinstance(s, Decl | Alloc) and isinstance(s.sym.type, Array)]
    return [(t.elem, t.shape) for t in arrays]


@dataclass(frozen=True)
class _Threads:
    count: int
    extents: tuple[int, int, int] | None


def _blocks(kernel: Kernel, body: Body) -> list[_Threads]:
    """Any one thread, where threads do not act together; all threads of a block, where its size is known."""
    together = any(isinstance(e, WarpOp) for e in all_exprs(body)) or any(
        isinstance(s.type, Array) and s.type.space == "shared" for s in {*used_in(body), *assigned(body)}
    )
    found = [] if together else [_Threads(1, None)]
    extents = [evaluate(e, kernel.knob_values) for e in kernel.launch.block] if kernel.launch is not None else [None]
    if all(e is not None for e in extents):
        x, y, z = (int(e) for e in extents if e is not None)
        if x * y * z <= MOST_THREADS:
            found.append(_Threads(x * y * z, (x, y, z)))
    return found


@dataclass
class _Memory:
    """An array or buffer: known cells on top of an opaque base."""

    base: Term
    cells: dict[tuple[Term, ...], Term] = field(default_factory=dict)


class _Run:
    def __init__(self, terms: Terms, kernel: Kernel, known: dict[Sym, str], threads: _Threads) -> None:
        self.t, self.kernel, self.formats, self.threads = terms, kernel, known, threads
        self.env: list[dict[Sym, Term]] = [{} for _ in range(threads.count)]
        self.memory: dict[tuple[Sym, int], _Memory] = {}
        self.uniform = {p.sym for p in kernel.params}
        self.trace: list[Any] = []
        self.work = 0

    # ------------------------------------------------------------------------------------------------- statements

    def body(self, body: Body, act: Active) -> Active:
        for s in body:
            if not act:
                break
            self.work += len(act)
            if self.work > MOST_WORK:
                raise Lost
            before = [dict(e) for e in self.env], dict(self.memory), list(self.trace)
            try:
                act = self.statement(s, act)
            except Lost:
                if any(isinstance(x, Return) for x in walk((s,))):
                    raise
                self.env, self.memory, self.trace = before
                self._unknown(s, act)
        return act

    def statement(self, s: Stmt, act: Active) -> Active:
        t = self.t
        if isinstance(s, Decl) and not isinstance(s.sym.type, Array | Vec):
            for k in act:
                self.env[k][s.sym] = self.of(s.init, k, act) if s.init is not None else t.make("undefined", s.sym)
        elif isinstance(s, Alloc) or (isinstance(s, Decl) and isinstance(s.sym.type, Array)):
            self._allocate(s.sym)
        elif isinstance(s, Assign) and isinstance(s.sym.type, Scalar):
            new = {k: self.of(s.value, k, act) for k in act}
            for k, v in new.items():
                self.env[k][s.sym] = t.choose(act[k], v, self._var(s.sym, k))
        elif isinstance(s, Store):
            self._store(s, act)
        elif isinstance(s, Barrier):
            self.trace.append(("barrier", s.scope, tuple(act.items())))
        elif isinstance(s, If):
            return self._if(s, act)
        elif isinstance(s, For):
            self._for(s, act)
        else:
            raise Lost
        return act

    def _if(self, s: If, act: Active) -> Active:
        conds = {k: self.of(s.cond, k, act) for k in act}
        yes = self._narrowed(act, conds)
        no = self._narrowed(act, {k: self.t.predicate("!", c) for k, c in conds.items()})
        if len(s.then) == 1 and isinstance(s.then[0], Return) and not s.orelse:
            return no
        if any(isinstance(x, Return) for x in walk((s,))):
            raise Lost
        for body, lanes in ((s.then, yes), (s.orelse, no)):
            self.body(body, lanes)
        return act

    def _narrowed(self, act: Active, conds: dict[int, Term]) -> Active:
        out = {}
        for k, c in conds.items():
            both = self.t.choose(act[k], c, self.t.const(False, "bool"))
            if self.t.node(both)[:2] != ("const", "False"):
                out[k] = both
        return out

    def _for(self, s: For, act: Active) -> None:
        for k in act:
            self.env[k][s.var] = self.of(s.init, k, act)
        live = dict(act)
        for _ in range(ROUNDS):
            going = {}
            for k, pred in live.items():
                n = self.t.node(self.of(s.cond, k, live))
                if n[0] != "const":
                    raise Lost
                if n[1] == "True":
                    going[k] = pred
            live = going
            if not live:
                return
            if any(not isinstance(x, Decl | Assign | Store | If | For | Barrier | Alloc) for x in walk(s.body)):
                raise Lost
            self.body(s.body, live)
            for k in live:
                self.env[k][s.var] = self.of(s.step, k, live)
        raise Lost

    def _unknown(self, s: Stmt, act: Active) -> None:
        """``s`` as a function of everything it reads."""
        inside = {*declared((s,)), *(x.var for x in walk((s,)) if isinstance(x, For))}
        reads = sorted((used_in((s,)) | assigned((s,))) - inside, key=lambda x: x.id)
        inputs: list[Any] = [tuple(act.items())]
        for sym in reads:
            if isinstance(sym.type, Scalar | Vec):
                inputs.append((sym, tuple(self._var(sym, k) for k in act)))
            else:
                inputs.append((sym, self._memory_state(sym)))
        what = self.t.make("effect", s, tuple(inputs))
        if not all(isinstance(x, PLAIN) for x in walk((s,))):
            self.trace.append(("effect", what))
        for sym in assigned((s,)) - inside:
            if isinstance(sym.type, Scalar | Vec):
                for k in act:
                    self.env[k][sym] = self.t.opaque(self.formats.get(sym, ""), "after", what, sym, k)
            else:
                for row in range(self._rows(sym)):
                    self.memory[sym, row] = _Memory(self.t.make("memory after", what, sym, row))

    # ----------------------------------------------------------------------------------------------------- memory

    def _rows(self, sym: Sym) -> int:
        private = isinstance(sym.type, Vec) or (isinstance(sym.type, Array) and sym.type.space != "shared")
        return self.threads.count if private else 1

    def _at(self, sym: Sym, k: int) -> tuple[tuple[Sym, int], _Memory]:
        key = (sym, k if self._rows(sym) > 1 else 0)
        if key not in self.memory:
            self.memory[key] = _Memory(self.t.make("memory", *key))
        return key, self.memory[key]

    def _allocate(self, sym: Sym) -> None:
        for row in range(self._rows(sym)):
            self.memory[sym, row] = _Memory(self.t.make("undefined", sym))

    def _memory_state(self, sym: Sym) -> tuple:
        rows = [self._at(sym, row)[1] for row in range(self._rows(sym))]
        return tuple((m.base, tuple(sorted(m.cells.items()))) for m in rows)

    def _load(self, e: Load, k: int, act: Active) -> Term:
        if e.width != 1 or isinstance(e.buffer.type, Vec):
            raise Lost
        index = tuple(self.of(i, k, act) for i in e.index)
        _, m = self._at(e.buffer, k)
        if index in m.cells:
            return m.cells[index]
        if m.cells and not self._apart(index, m):
            raise Lost
        return self.t.opaque(self.formats.get(e.buffer, ""), "load", m.base, index)

    def _apart(self, index: tuple[Term, ...], m: _Memory) -> bool:
        """Whether ``index`` is no cell that is known: all are numbers."""
        return all(self.t.node(i)[0] == "const" for i in (*index, *(i for cell in m.cells for i in cell)))

    def _store(self, s: Store, act: Active) -> None:
        if s.width != 1 or isinstance(s.buffer.type, Vec):
            raise Lost
        writes = {k: (tuple(self.of(i, k, act) for i in s.index), self.of(s.value, k, act)) for k in act}
        if isinstance(s.buffer.type, Ptr):
            key, m = self._at(s.buffer, 0)
            done = self.t.make("stored", m.base, tuple(sorted({(act[k], *w) for k, w in writes.items()})))
            self.memory[key] = _Memory(done)
            return
        fresh: dict[tuple[Sym, int], _Memory] = {}
        for k, (index, value) in writes.items():
            key, m = self._at(s.buffer, k)
            if m.cells and index not in m.cells and not self._apart(index, m):
                raise Lost
            new = fresh.setdefault(key, _Memory(m.base, dict(m.cells)))
            old = new.cells.get(index)
            if old is None:
                old = self.t.opaque(self.formats.get(s.buffer, ""), "load", m.base, index)
            new.cells[index] = self.t.choose(act[k], value, old)
        self.memory.update(fresh)

    # ------------------------------------------------------------------------------------------------ expressions

    def _var(self, sym: Sym, k: int) -> Term:
        found = self.env[k].get(sym)
        if found is not None:
            return found
        return self.t.opaque(self.formats.get(sym, ""), "given", sym, None if sym in self.uniform else k)

    def of(self, e: Expr, k: int, act: Active) -> Term:
        t = self.t
        if isinstance(e, Const):
            return t.const(float(e.value) if e.ty.is_float else e.value, _kind(e.ty))
        if isinstance(e, Knob):
            return t.const(self.kernel.knob_values[e.name], "int")
        if isinstance(e, Var):
            return t.given(self._var(e.sym, k), act[k])
        if isinstance(e, HwIndex):
            return self._index(e, k)
        if isinstance(e, Load):
            return self._load(e, k, act)
        if isinstance(e, Binary):
            return self._binary(e, k, act)
        if isinstance(e, Cast) and isinstance(e.to, Scalar) and isinstance(e.x.type, Scalar) and e.style != "bit":
            return self._cast(self.of(e.x, k, act), e.x.type, e.to)
        if isinstance(e, Select):
            return t.choose(*(self.of(x, k, act) for x in (e.cond, e.a, e.b)))
        if isinstance(e, Unary):
            x = self.of(e.x, k, act)
            return t.predicate("!", x) if e.op == "!" else t.negate(x) if e.op == "-" and _float(e) else self._int(e, x)
        if isinstance(e, Call) and e.effects == "pure":
            return self._call(e, [self.of(a, k, act) for a in e.args])
        if isinstance(e, WarpOp) and e.kind.startswith("shfl"):
            return self._shuffle(e, k, act)
        raise Lost

    def _index(self, e: HwIndex, k: int) -> Term:
        extents = self.threads.extents
        if extents is not None and e.level in ("thread", "block_dim"):
            axis = "xyz".index(e.axis)
            stride = (1, extents[0], extents[0] * extents[1])[axis]
            return self.t.const(k // stride % extents[axis] if e.level == "thread" else extents[axis], "int")
        launch = self.kernel.launch
        if launch is not None and e.level in ("grid_dim", "block"):
            blocks = evaluate(launch.grid["xyz".index(e.axis)], self.kernel.knob_values)
            if blocks is not None and (e.level == "grid_dim" or blocks == 1):
                return self.t.const(int(blocks) if e.level == "grid_dim" else 0, "int")
        return self.t.make("hardware", e.level, e.axis)

    def _binary(self, e: Binary, k: int, act: Active) -> Term:
        a, b = self.of(e.a, k, act), self.of(e.b, k, act)
        if e.op in ("&&", "||"):
            other = self.t.const(e.op == "||", "bool")
            return self.t.choose(a, b, other) if e.op == "&&" else self.t.choose(a, other, b)
        if _float(e.a) and e.op in ("+", "-", "*"):
            kind = e.a.type.name  # type: ignore[attr-defined]
            return {"+": self.t.add, "-": self.t.subtract, "*": self.t.multiply}[e.op](a, b, kind)
        if not _float(e.a):
            x, y = self._known(a), self._known(b)
            if x is not None and y is not None and e.op in INT_OPS and not (e.op in "/%" and y == 0):
                return self._literal(INT_OPS[e.op](x, y), e.type)
        order = sorted((a, b)) if e.op in ("+", "*", "==", "!=", "&", "|", "^") else (a, b)
        return self.t.make("op", e.op, str(e.a.type), *order)

    def _known(self, a: Term) -> int | None:
        n = self.t.node(a)
        return {"True": 1, "False": 0}.get(n[1]) if n[0] == "const" and n[2] == "bool" else (
            int(n[1]) if n[0] == "const" and n[2] == "int" else None)  # fmt: skip

    def _literal(self, v: Any, to: Any) -> Term:
        if isinstance(v, bool):
            return self.t.const(v, "bool")
        if isinstance(to, Scalar) and to.is_int:
            v &= (1 << to.bits) - 1
            v -= (1 << to.bits) if to.is_signed and v >> (to.bits - 1) else 0
        return self.t.const(v, "int")

    def _int(self, e: Unary, x: Term) -> Term:
        v = self._known(x)
        if v is not None and e.op in "-~":
            return self._literal(-v if e.op == "-" else ~v, e.type)
        return self.t.make("op", e.op, x)

    def _cast(self, x: Term, src: Scalar, dst: Scalar) -> Term:
        if src == dst:
            return x
        if src.is_float and dst.is_float:
            return self.t.convert(x, src, dst)
        v = self._known(x)
        if v is not None and dst.is_int:
            return self._literal(v, dst)
        return self.t.make("cast", dst.name, x)

    def _call(self, e: Call, args: list[Term]) -> Term:
        if e.fn in ("min", "max") and len(args) == 2 and _float(e):
            return self.t.extreme(e.fn, *args)
        values = [self._known(a) for a in args]
        if e.fn in INT_FUNCS and not _float(e) and all(v is not None for v in values):
            return self._literal(INT_FUNCS[e.fn](*values), e.type)
        if e.fn in PREDICATES:
            return self.t.predicate(e.fn, args[0])
        return self.t.make("call", e.fn, str(e.ty), *args) if e.fn != "abs" else self.t.make("call", "abs", *args)

    def _shuffle(self, e: WarpOp, k: int, act: Active) -> Term:
        assert e.arg is not None
        arg, width, mask = (self._known(self.of(x, k, act)) for x in (e.arg, e.width, e.mask))
        if arg is None or width is None or mask is None or not 0 < width <= WARP or width & (width - 1):
            raise Lost
        if mask & 0xFFFFFFFF != 0xFFFFFFFF or arg < 0:
            raise Lost
        first = k - k % WARP
        source = first + source_lane(e.kind, k % WARP, arg, width)
        if any(act.get(j) != act[k] for j in range(first, min(first + WARP, self.threads.count))):
            raise Lost
        return self.of(e.value, source if source < self.threads.count else k, act)

    def summary(self, outer: set[Sym]) -> Any:
        """What the body leaves behind."""
        variables = [
            tuple(self._var(s, k) for k in range(self.threads.count))
            for s in sorted(outer, key=lambda s: s.id)
            if isinstance(s.type, Scalar)
        ]
        memory = [
            (s, self._memory_state(s)) for s in sorted(outer, key=lambda s: s.id) if not isinstance(s.type, Scalar)
        ]
        return variables, memory, self.trace


def source_lane(kind: str, lane: int, arg: int, width: int) -> int:
    """The lane that ``lane`` reads, by the rules of the CUDA C++ guide."""
    start = lane - lane % width
    if kind == "shfl":
        return start + arg % width
    if kind == "shfl_up":
        return lane - arg if lane - arg >= start else lane
    if kind == "shfl_down":
        return lane + arg if lane + arg < start + width else lane
    return lane ^ arg if lane ^ arg < start + width else lane


def _float(e: Expr) -> bool:
    return isinstance(e.type, Scalar) and e.type.is_float


def _kind(t: Scalar) -> str:
    return t.name if t.is_float else "bool" if t.kind == "bool" else "int"


__all__ = ["same_effect"]
