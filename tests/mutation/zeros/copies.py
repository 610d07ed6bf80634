"""Copies that a guard gives values to, and where these go: into the same copy of something else, or to nobody.

Unrolled over rows or columns that may not exist, a kernel keeps one value per copy in a private array and guards every
use. What a copy holds that the guard does not let through may be anything, as long as every use of it, and of what is
computed of it, is guarded. Where another guard stands in its place it is enough if that one lets through no more of the
copies that are used: ``if i < 4 && i < n: s[u] = x[i]`` may become ``if t < 4 && i < n``, with ``i = t + 32 * u``, for
what is stored behind it ``if i < 4``. The guards must say the same of a copy whenever they are asked: they hang on the
copy, and on what keeps its value as long as the array lives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ktc.ir.analysis.uniformity import uniformity
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    AddrOf,
    Alloc,
    Assign,
    Atomic,
    Barrier,
    Binary,
    Body,
    Break,
    Continue,
    Decl,
    Expr,
    Fence,
    For,
    If,
    Load,
    Return,
    Stmt,
    Store,
    Sym,
    Unary,
    Var,
    WarpOp,
    While,
)  # fmt: skip
from ktc.ir.types import Array, Scalar
from ktc.ir.walk import all_exprs, assigned, stmt_exprs, substitute_expr, used, used_in, walk, walk_expr
from ktc.search.verification.integers import smt
from tests.mutation.proofs.definitions import definitions
from tests.mutation.sites import BRANCHES, sites

SIMPLE = (Alloc, Assign, Atomic, Barrier, Break, Continue, Decl, Fence, For, If, Return, Store, While)
"""Statements all of whose operands are expressions."""


@dataclass
class Copies:
    """What a guard gives values to: where ``guard`` holds of a copy, it holds the same whichever guard stands there.
    ``names``: where subscripts say which copy is meant, and how the guard calls it; nowhere for what there is one of.
    ``targets``: what may hold other values where the guard does not hold."""

    kernel: Kernel
    guard: Expr
    names: dict[int, Sym]
    targets: set[Sym]

    def __post_init__(self) -> None:
        body = self.kernel.body
        given = {p.sym for p in self.kernel.params} - assigned(body)
        found = [list(_scopes(body, sym)) for sym in used(self.guard) - given - set(self.names.values())]
        self.known = all(found) and not any(isinstance(e, AddrOf) for e in all_exprs(body))
        self.scopes = [scope for scopes in found for scope in scopes]
        self.facts = uniformity(self.kernel)
        self.for_the_block = self.facts.is_uniform(self.guard) and all(scope is body for scope in self.scopes)
        """The guard is the same for all threads of a block, as long as the block runs."""
        self._proved: dict[tuple[int, int], bool] = {}

    def may_hold(self, sym: Sym) -> bool:
        """Whether ``sym`` may hold such values: nobody else sees it, and it does not outlive what the guard says."""
        t = sym.type
        if isinstance(t, Array) and t.space == "shared":
            return self.for_the_block
        if not isinstance(t, Scalar | Array):
            return False
        return all(any(x == sym for x in _made(scope)) for scope in self.scopes)

    def read_under_their_guard(self) -> bool:
        """Whether all values that may be others, and all that is computed of them, are asked for under the guard."""
        if not self.known or not all(map(self.may_hold, self.targets)):
            return False
        while True:
            before = set(self.targets)
            for n, (at, here) in enumerate(sites(self.kernel.body, smt.Context(self.kernel))):
                if not self._fine(n, at, here):
                    return False
            if self.targets == before:
                return True

    def _fine(self, n: int, at: Stmt, here: smt.Context) -> bool:
        """Whether ``at``, statement ``n``, reads targets under the guard, or makes what it writes one of them."""
        if not isinstance(at, SIMPLE):
            return not ((used_in((at,)) | assigned((at,))) & self.targets)
        if isinstance(at, Atomic) and {at.buffer, at.dst} & self.targets:
            return False
        loose = [e for e in self._reads(at) if not self._under_guard(n, e, here)]
        return not loose or self._passed_on(at, loose)

    def _reads(self, at: Stmt) -> list[Expr]:
        parts = [e for top in stmt_exprs(at) for e in walk_expr(top)]
        return [e for e in parts if _names(e) in self.targets]

    def _under_guard(self, n: int, e: Expr, here: smt.Context) -> bool:
        copy, key = self._copy(e), (n, id(e))
        if key not in self._proved:
            guard = substitute_expr(self.guard, copy) if copy is not None else self.guard
            self._proved[key] = copy is not None and here.lasting(guard) and here.proves(here.truth(guard))
        return self._proved[key]

    def _copy(self, e: Expr | Store) -> dict[Sym, Expr] | None:
        """The copy that ``e`` reads or writes, by the guard's names; None if that cannot be seen."""
        index = e.index if isinstance(e, Load | Store) else ()
        several = isinstance(e, Load | Store) and e.width != 1 and len(index) - 1 in self.names
        if several or len(index) <= max(self.names, default=-1):
            return None
        return {sym: index[k] for k, sym in self.names.items()}

    def _passed_on(self, at: Stmt, loose: list[Expr]) -> bool:
        """Whether the values ``loose`` go nowhere but into the same copy of something else of this kernel's own."""
        value: Expr | None
        if isinstance(at, Store):
            value, into, copy = at.value, at.buffer, self._copy(at)
        elif isinstance(at, Assign | Decl) and not self.names:
            value, into, copy = at.value if isinstance(at, Assign) else at.init, at.sym, {}
        else:
            return False
        if value is None or copy is None or any(self._copy(e) != copy for e in loose) or not self.may_hold(into):
            return False
        inside = list(walk_expr(value))
        if any(not any(e is x for x in inside) for e in loose):
            return False  # it is a subscript of what is written
        if any(isinstance(e, WarpOp) for e in inside):
            same = all(map(self.facts.is_uniform, copy.values()))
            if not (self.for_the_block and same):
                return False  # lanes may lend each other values of other copies
        if any(_names(x) in self.targets for e in inside if isinstance(e, Load) for i in e.index for x in walk_expr(i)):
            return False  # it is a subscript of what is read
        self.targets.add(into)
        return True


def copies_of(kernel: Kernel, s: If, other: Expr | None) -> Copies | None:
    """What the body of ``s`` gives values to, where its guard or ``other`` stands in front (None: nothing does); None
    where its copies are not told apart in one way."""
    targets: set[Sym] = assigned(s.then) - {x.sym for x in walk(s.then) if isinstance(x, Decl)}
    guard = s.cond if other is None else Binary("||", Unary("!", other), s.cond)
    read = used(guard) - {p.sym for p in kernel.params} - set(definitions(kernel.body))
    found: list[dict[int, Sym]] = []
    for x in walk(s.then):
        if isinstance(x, Store) and isinstance(x.buffer.type, Array):
            found.append({k: i.sym for k, i in enumerate(x.index) if isinstance(i, Var) and i.sym in read})
        elif isinstance(x, Store) or (isinstance(x, Assign) and not isinstance(x.sym.type, Scalar)):
            return None
        elif isinstance(x, Assign) and x.sym in targets:
            found.append({})
    if not found or any(x != found[0] for x in found) or len(set(found[0].values())) != len(found[0]):
        return None
    return Copies(kernel, guard, found[0], targets)


def _names(e: Expr) -> Sym | None:
    return e.buffer if isinstance(e, Load) else e.sym if isinstance(e, Var) else None


def _scopes(body: Body, sym: Sym) -> Iterator[Body]:
    """The bodies in which ``sym`` has one value each time they run: of its loop, or where it is defined."""
    for s in body:
        if isinstance(s, Decl | Alloc) and s.sym == sym:
            yield body
        if isinstance(s, For) and s.var == sym:
            yield s.body
        for name in BRANCHES:
            yield from _scopes(getattr(s, name, ()), sym)


def _made(body: Body) -> Iterator[Sym]:
    """What is declared in ``body``, anywhere."""
    return (s.sym for s in walk(body) if isinstance(s, Decl | Alloc))


__all__ = ["Copies", "copies_of"]
