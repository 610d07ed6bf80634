"""narrow-index: 64-bit index arithmetic in 32 bits, where the sizes allow.

before                                          after narrow-index
    kernel k(out: f32*, n: i64, d: i64)             kernel k(out: f32*, n: i64, d: i64)
      par row: i64 in 0..n @ [block.x]                assume max(n, 1) * max(d, 1) <= 2130706431 origin guessed
        par i: i64 in 0..d @ [thread.x, seq]          par row: i32 in 0..i32(n) @ [block.x]
          out[row * d + i] = 0.0                        par i: i32 in 0..i32(d) @ [thread.x, seq]
                                                          out[row * i32(d) + i] = 0.0

64-bit integer arithmetic costs a GPU two to four instructions. Each index gets a bound: the sum of its terms'
magnitudes with every loop counter at its end and every size at least 1, which bounds every partial result as well.
Where the workload's ranges do not show that it fits, the launcher checks it (and runs the original kernel otherwise).
What is not a sum of products of counters and parameters stays 64 bits wide.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from ktc.ir.arith import REWRITES, Facts
from ktc.ir.arith.counted_loops import counting
from ktc.ir.arith.polynomial import Polynomial, polynomial
from ktc.ir.fold import add, cast, mul, simplify
from ktc.ir.kernel import Assume, Kernel
from ktc.ir.nodes import (
    Atomic,
    Binary,
    Body,
    Call,
    Cast,
    Const,
    Decl,
    Expr,
    For,
    Load,
    Par,
    Reduce,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
)  # fmt: skip
from ktc.ir.types import I32, I64, Scalar
from ktc.ir.walk import assigned, map_stmt_exprs, used, with_bodies
from ktc.passes.core.base import NoArguments, Pass, Site
from ktc.passes.core.refusals import Refusal, Result

SLACK = 1 << 24
"""How far a counter may run past its end before its guard is asked: the largest tile of a distribution."""
LIMIT = 2**31 - 1 - SLACK


class NarrowIndex(Pass[NoArguments]):
    name = "narrow-index"
    summary = "64-bit counters and indices in 32 bits, guarded by the sizes"
    refusals = ("E-NARROW-NOTHING", "E-NARROW-RANGE")

    def sites(self, kernel: Kernel) -> list[Site]:
        found = self.run(kernel)
        return [Site(self.step(), found.notes[0])] if isinstance(found, Result) else []

    def apply(self, kernel: Kernel, args: NoArguments) -> Result:
        job = _Narrowing(kernel)
        body = job.body(kernel.body)
        if not job.narrowed:
            raise Refusal("E-NARROW-NOTHING", "no 64-bit index here is a sum of products of counters and sizes")
        facts = Facts(kernel.with_(body=()), REWRITES)  # bounds are over parameters
        guards: list[Assume] = []
        for bound in _largest(job.bounds):
            sizes = facts.interval(bound)
            if sizes.high is not None and sizes.high <= LIMIT:
                continue
            if sizes.low is not None and sizes.low > LIMIT:
                raise Refusal("E-NARROW-RANGE", f"an index reaches {sizes.low}: 32 bits do not hold it")
            guards.append(Assume(Binary("<=", bound, Const(LIMIT, I64)), "guessed"))
        known = {a.expr for a in kernel.assumptions}
        added = tuple(a for a in guards if a.expr not in known)
        note = f"{job.narrowed} expressions" + (f", {len(added)} checked at launch" if added else "")
        return Result(kernel.with_(body=body, assumptions=(*kernel.assumptions, *added)), (note,))


@dataclass
class _Narrowing:
    kernel: Kernel
    narrowed: int = 0
    bounds: list[Expr] = field(default_factory=list)
    ends: dict[Sym, Expr] = field(default_factory=dict)  # counter -> what it stays below, over parameters
    replaced: dict[Sym, Sym] = field(default_factory=dict)  # 64-bit counter or name -> its 32-bit twin
    values: dict[Sym, Expr] = field(default_factory=dict)  # name -> its value, over counters and parameters

    def __post_init__(self) -> None:
        self.changed = assigned(self.kernel.body)
        self.params = {p.sym: p for p in self.kernel.params if _is_int(p.sym) and p.sym not in self.changed}

    def body(self, body: Body) -> Body:
        return tuple(self.stmt(s) for s in body)

    def stmt(self, s: Stmt) -> Stmt:
        if isinstance(s, Par | Reduce):
            s = self._loop(s, s.lo, s.hi)
        elif isinstance(s, For) and s.var not in self.changed:
            form = counting(s)
            if form is not None and not used(form.by) - set(self.params):
                s = self._counted(s, form.hi, form.by)
        elif isinstance(s, Decl) and s.init is not None and s.sym not in self.changed and _is_int(s.sym):
            s = self._name(s)
        return self._accesses(with_bodies(s, self.body))

    # ------------------------------------------------------------------------------------------------------ counters

    def _loop(self, s: Par | Reduce, lo: Expr, hi: Expr) -> Par | Reduce:
        low, end = self.bound(lo), self.bound(hi)
        if low is None or end is None:
            return s
        self.ends[s.var] = end
        if s.var.type != I64:
            return s
        var = self._twin(s.var, end)
        self.bounds.append(low)
        return dataclasses.replace(s, var=var, lo=self._to32(lo), hi=self._to32(hi))

    def _counted(self, s: For, hi: Expr, by: Expr) -> For:
        low, end, step = self.bound(s.init), self.bound(hi), self.bound(by)
        if low is None or end is None or step is None or _negative(by):
            return s
        self.ends[s.var] = end
        if s.var.type != I64:
            return s
        self.bounds += [low, simplify(add(end, step))]
        var = self._twin(s.var, end)
        return dataclasses.replace(
            s, var=var, init=self._to32(s.init), cond=Binary("<", Var(var), self._to32(hi)),
            step=Binary("+", Var(var), self._to32(by)),
        )  # fmt: skip

    def _twin(self, old: Sym, end: Expr) -> Sym:
        new = fresh(old.name, I32)
        self.replaced[old] = new
        self.ends[old] = self.ends[new] = end
        self.bounds.append(end)
        self.narrowed += 1
        return new

    def _name(self, s: Decl) -> Decl:
        assert s.init is not None
        bound = self.bound(s.init)
        if bound is None:
            return s
        self.ends[s.sym] = simplify(add(bound, Const(1, I64)))
        if s.sym.type != I64:
            return s
        new = self._twin(s.sym, self.ends[s.sym])
        return dataclasses.replace(s, sym=new, init=self._to32(s.init))

    # ------------------------------------------------------------------------------------------------------- accesses

    def _accesses(self, s: Stmt) -> Stmt:
        def on(e: Expr) -> Expr:
            if isinstance(e, Load):
                return dataclasses.replace(e, index=tuple(map(self._index, e.index)))
            return self._read(e)

        s = map_stmt_exprs(s, on)
        if isinstance(s, Store | Atomic):
            return dataclasses.replace(s, index=tuple(map(self._index, s.index)))
        return s

    def _read(self, e: Expr) -> Expr:
        """A narrowed variable where its 64-bit value is wanted."""
        if isinstance(e, Var) and e.sym in self.replaced:
            return Cast(I64, Var(self.replaced[e.sym]), "implicit")
        return e

    def _index(self, e: Expr) -> Expr:
        if e.type != I64:
            return e
        bound = self.bound(e)
        if bound is None:
            return e
        self.bounds.append(bound)
        self.narrowed += 1
        return self._to32(e)

    def _to32(self, e: Expr) -> Expr:
        """``e`` computed in 32 bits; its bound has been taken."""
        if isinstance(e, Var) and e.sym in self.replaced:
            return Var(self.replaced[e.sym])
        if isinstance(e, Cast) and e.style != "bit":
            return cast(self._to32(e.x) if _wide(e.x) else e.x, I32)
        if isinstance(e, Const):
            return Const(int(e.value), I32)
        if isinstance(e, Binary) and e.op in ("+", "-", "*") and _wide(e):
            return Binary(e.op, self._to32(e.a), self._to32(e.b))
        return cast(e, I32) if isinstance(e.type, Scalar) else e

    # --------------------------------------------------------------------------------------------------------- bounds

    def bound(self, e: Expr) -> Expr | None:
        """An i64 expression over parameters that no partial result of ``e`` exceeds in magnitude."""
        p: Polynomial = polynomial(e)
        total: Expr = Const(0, I64)
        for factors, c in p.items():
            term: Expr = Const(abs(c), I64)
            for f in factors:
                one = self._magnitude(f)
                if one is None:
                    return None
                term = mul(term, one)
            total = add(total, term)
        return simplify(total)

    def _magnitude(self, f: Expr) -> Expr | None:
        if isinstance(f, Var):
            if f.sym in self.ends:
                return self.ends[f.sym]
            if f.sym in self.params:
                size, least = cast(Var(f.sym), I64), self.params[f.sym].range[0]
                return size if least is not None and least >= 1 else Call("max", (size, Const(1, I64)), I64)
        if isinstance(f, Const):
            return Const(abs(int(f.value)), I64)
        return None


def _largest(bounds: list[Expr]) -> list[Expr]:
    """``bounds`` without those that another one exceeds term by term."""
    forms = [(b, polynomial(b)) for b in dict.fromkeys(bounds)]
    out: list[tuple[Expr, Polynomial]] = []
    for b, p in sorted(forms, key=lambda x: -sum(x[1].values())):
        if not any(all(q.get(k, 0) >= v for k, v in p.items()) for _, q in out):
            out.append((b, p))
    return [b for b, _ in out]


def _is_int(s: Sym) -> bool:
    return isinstance(s.type, Scalar) and s.type.is_int


def _wide(e: Expr) -> bool:
    return isinstance(e.type, Scalar) and e.type.is_int and e.type.bits == 64


def _negative(e: Expr) -> bool:
    return isinstance(e, Const) and e.value < 0
