"""Parse trees of whole kernels to nodes: signature, facts, launch, knobs, constraints, assumptions."""

from __future__ import annotations

import dataclasses
from typing import Any

from ktc.ir import nodes as n
from ktc.ir.fold import simplify
from ktc.ir.kernel import ORIGINS, TESTABLE, Assume, Kernel, KnobDecl, Launch, Param, Repeat
from ktc.ir.nodes import Expr
from ktc.ir.types import BOOL, I32, I64, Scalar, scalar_of

from .read_stmts import StmtReader
from .read_types import Node, plain, unquote
from .stable_names import with_stems

_HEADERS = ("launch", "knob_decl", "where", "assume", "flags", "repeat", "stems", "trace", "staging")


class KernelReader(StmtReader):
    """Reads one kernel."""

    def kernel(self, t: Node) -> Kernel:
        name, *rest = [c for c in t.children if c is not None]
        given = [c for c in rest if c.data == "param"]
        symbols = [self.declare(c.children[1], self.type(c.children[2])) for c in given]
        params = tuple(map(self.param, symbols, given))  # the size of a buffer may name any of them
        heads = [c for c in rest if c.data in _HEADERS]
        parts: dict[str, list[Any]] = {word: [] for word in _HEADERS}
        for h in heads:
            parts[h.data].append(getattr(self, "h_" + h.data)(h))
        if len(parts["launch"]) > 1:
            self.fail(heads[-1], "a kernel has one launch line")
        body = self.stmts([c for c in rest if c.data != "param" and c.data not in _HEADERS])
        read = Kernel(
            plain(name), params, parts["launch"][0] if parts["launch"] else None, body, tuple(parts["knob_decl"]),
            tuple(parts["where"]), tuple(parts["assume"]), tuple(parts["trace"]),
            frozenset(f for fs in parts["flags"] for f in fs), next(iter(parts["repeat"]), None),
            tuple(parts["staging"]), self.loc(name), self.comments.get(name.line, ()),
        )  # fmt: skip
        return with_stems(read, {name: stem for line in parts["stems"] for name, stem in line})

    def param(self, symbol: n.Sym, t: Node) -> Param:
        host, _, _, *facts = t.children
        p = Param(symbol, host=host is not None)
        for f in facts:
            p = self.symbol_of(p, f) if f.data == "symbol" else dataclasses.replace(p, **self.facts(f))
            if f.data in TESTABLE and f.children[-1] is not None:
                p = dataclasses.replace(p, origins=(*p.origins, (str(f.data), self.origin(f.children[-1], f))))
        return p

    def origin(self, word: Any, at: Node) -> str:
        """Where a fact comes from."""
        if plain(word) not in ORIGINS:
            self.fail(at, f"no origin '{plain(word)}': one of {', '.join(ORIGINS)}")
        return plain(word)

    def symbol_of(self, p: Param, t: Node) -> Param:
        """``symbol constant 3 init (1.0, 2.0, 3.0)``: a variable at file scope."""
        storage, extent, values = t.children
        elem = scalar_of(p.sym.type)
        consts = [simplify(self.value(c, elem)) for c in values.children] if values is not None else []
        if not all(isinstance(c, n.Const) for c in consts):
            self.fail(t, "an initial value is not a constant")
        init = tuple(c.value for c in consts if isinstance(c, n.Const))
        return dataclasses.replace(p, symbol=plain(storage), extent=self.sint(extent), init=init)

    def facts(self, t: Node) -> dict[str, Any]:
        """What a fact says, by the fields of :class:`Param` that say it."""
        if t.data == "temporary":
            return {"scratch": self.count_of(t.children[0]), "temporary": True}
        return {str(t.data): self.fact(t)}

    def fact(self, t: Node) -> Any:
        if t.data in ("noalias", "readonly"):
            return True
        if t.data == "scratch":
            return self.count_of(t.children[0])
        if t.data == "rows":
            return plain(t.children[0])
        if t.data == "touches":
            return tuple(self.value(c, I64) for c in t.children[0].children)
        values = [None if c is None else self.sint(c) for c in t.children[:-1]]
        return tuple(values) if t.data == "range" else values[0]

    def count_of(self, t: Node) -> Expr:
        """A number of elements, in the type of integers that it has."""
        e = self.expr(t)
        return e if isinstance(e.type, Scalar) and e.type.is_int else self.value(t, I32)

    def h_launch(self, t: Node) -> Launch:
        return self.clauses(t, t.children)

    def s_launched(self, t: Node) -> n.Stmt:
        name, *clauses, apart, block = t.children
        said = self.clauses(t, clauses)
        if said.cluster is not None:
            self.fail(t, "a launch of a sequence has no clusters")
        restrict = tuple(self.symbol(c) for c in apart.children) if apart is not None else ()
        return n.Launched(
            unquote(name), said.grid, said.block, self.block(block), said.dynamic_shared, said.max_threads,
            said.min_blocks, restrict,
        )  # fmt: skip

    def clauses(self, t: Node, clauses: list[Node]) -> Launch:
        given: dict[str, tuple[Expr, ...]] = {str(c.children[0]): self.exprs(c.children[1]) for c in clauses}

        def dims(word: str) -> tuple[Expr, Expr, Expr]:
            es = given.get(word, ())
            if len(es) > 3:
                self.fail(t, f"{word} has at most three extents")
            padded = es + (n.i32(1),) * (3 - len(es))
            return padded[0], padded[1], padded[2]

        def one(word: str) -> Expr | None:
            return given[word][0] if word in given else None

        cluster = dims("cluster") if "cluster" in given else None
        return Launch(dims("grid"), dims("block"), one("shared"), cluster, one("max_threads"), one("min_blocks"))

    def h_knob_decl(self, t: Node) -> KnobDecl:
        name, domain, default, value, owner, doc = t.children
        values = tuple(self.sint(c) for c in domain.children) if domain is not None else ()
        return KnobDecl(
            str(name)[1:], values, self.sint(default), unquote(doc) if doc else "", unquote(owner) if owner else "",
            None if value is None else self.sint(value),
        )  # fmt: skip

    def h_where(self, t: Node) -> Expr:
        return self.value(t.children[0], BOOL)

    def h_assume(self, t: Node) -> Assume:
        expr, origin = t.children
        return Assume(self.value(expr, BOOL), "declared" if origin is None else self.origin(origin, t))

    def h_flags(self, t: Node) -> list[str]:
        return [plain(c) for c in t.children]

    def h_repeat(self, t: Node) -> Repeat:
        read, written, sweeps, launches = t.children
        counts = (1 if c is None else int(str(c)) for c in (sweeps, launches))
        return Repeat((plain(read), plain(written)), *counts)

    def h_stems(self, t: Node) -> list[tuple[str, str]]:
        return [(plain(c.children[0]), plain(c.children[1])) for c in t.children]

    def h_trace(self, t: Node) -> str:
        return unquote(t.children[0])

    h_staging = h_trace
