"""What computes the meanings that were found of an exchange: reductions, scans and plain values, each made once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ktc.ir.analysis.accumulators import combine, identity
from ktc.ir.diagnostics import Loc
from ktc.ir.nodes import Acc, Body, Decl, Dist, Expr, Scan, Stmt, Sym, Var, fresh, i32
from ktc.ir.types import I32, scalar_of

from .tie_orders import Order

if TYPE_CHECKING:
    from .exchange_meanings import Prefix


class Steps:
    """Reductions and plain statements, in order, each made once."""

    def __init__(self) -> None:
        self.groups: list[tuple[list[Acc], list[Decl]]] = [([], [])]
        self.known: dict[tuple[str, Expr], Sym] = {}
        self.level: dict[Sym, int] = {}
        self.scans: dict[tuple[str, tuple[Sym, ...]], tuple[Sym, dict[int, Sym]]] = {}
        self.orders: dict[Sym, Order] = {}
        """Which ranks reductions of the least rank are about."""

    def scan(self, what: Prefix, name: str) -> Sym:
        """The running value of ``what.sources``: one scan for all that is asked of it."""
        t = scalar_of(what.sources[0].type)
        _, asked = self.scans.setdefault((what.op, what.sources), (fresh(name, t), {}))
        return asked.setdefault(what.own, fresh(name, t))

    def reduce(self, op: str, value: Expr, name: str, after: Sym | None = None) -> Sym:
        """The reduction of ``value`` over all threads, once ``after`` is known."""
        running = self.scans.get((op, (value.sym,))) if isinstance(value, Var) else None
        if running is not None:
            return running[0]  # after the loop, the total
        if (op, value) not in self.known:
            t = scalar_of(value.type)
            sym = fresh(name, t)
            at = self.level[after] + 1 if after is not None else 0
            while len(self.groups) <= at:
                self.groups.append(([], []))
            self.groups[at][0].append(Acc(sym, op, identity(op, t), value))
            self.known[op, value] = sym
            self.level[sym] = at
        return self.known[op, value]

    def running(self, total: Expr, dist: Dist, loc: Loc | None) -> Iterator[Scan]:
        """The scans over all threads; their ``then`` names what each thread sees."""
        for (op, sources), (sym, asked) in self.scans.items():
            t = scalar_of(sym.type)
            exclusive = any(own < len(sources) for own in asked)
            then: list[Stmt] = []
            for own, seen in asked.items():
                before = [sym, *sources[:own]] if exclusive else [sym]
                then.append(Decl(seen, _folded(op, before), const=True))
            value = _folded(op, sources)
            acc = Acc(sym, op, identity(op, t), value)
            yield Scan(acc, fresh("t", I32), i32(0), total, dist, (), tuple(then), exclusive, loc=loc)

    def name(self, name: str, value: Expr) -> Sym:
        """A plain value of the reductions so far."""
        if ("", value) not in self.known:
            sym = fresh(name, value.type)
            self.groups[0][1].append(Decl(sym, value, const=True))
            self.known["", value] = sym
            self.level[sym] = 0
        return self.known["", value]

    @property
    def plain(self) -> Body:
        return tuple(d for _, decls in self.groups for d in decls)


def _folded(op: str, syms: Sequence[Sym]) -> Expr:
    out: Expr = Var(syms[0])
    for s in syms[1:]:
        out = combine(op, out, Var(s))
    return out


__all__ = ["Steps"]
