"""Parse trees of statements to nodes. Scopes are lexical: a block's declarations end with it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager

from lark import Tree

from ktc.ir import nodes as n
from ktc.ir.nodes import Body, Expr, Stmt, Sym, fresh
from ktc.ir.types import BOOL, I32, Array, Type

from .read_tiles import TileReader
from .read_types import Node, plain, unquote
from .syntax import coerce


class StmtReader(TileReader):
    """Reads statements; ``comments`` are the ``#`` lines above each line of code."""

    def __init__(self, file: str, text: str) -> None:
        super().__init__(file, text)
        self.comments = comments_above(text)

    def declare(self, name: Node, ty: Type) -> Sym:
        key = plain(name)
        if key in self.scopes[-1]:
            self.fail(name, f"'{key}' is declared twice", code="E-TEXT-NAME")
        s = fresh(key, ty)
        self.scopes[-1][key] = s
        return s

    @contextmanager
    def scope(self) -> Iterator[None]:
        self.scopes.append({})
        yield
        self.scopes.pop()

    def stmts(self, trees: list[Node]) -> Body:
        return tuple(s for t in trees if (s := self.stmt(t)) is not None)

    def block(self, t: Node) -> Body:
        if t is None:
            return ()
        with self.scope():
            return self.stmts(t.children)

    def stmt(self, t: Node) -> Stmt | None:
        s = getattr(self, "s_" + t.data)(t)
        notes = self.comments.get(t.meta.line or 0, ())
        return s and dataclasses.replace(s, loc=self.loc(t), comments=notes)

    def s_pass_(self, t: Node) -> None:
        return None

    def s_decl(self, t: Node) -> Stmt:
        word, name, ty, init = t.children
        declared = self.type(ty)
        value = None if init is None else self.value(init, declared)
        return n.Decl(self.declare(name, declared), value, word == "let")

    def s_alloc(self, t: Node) -> Stmt:
        name, ty, dynamic, align = t.children
        declared = self.type(ty)
        if not isinstance(declared, Array):
            self.fail(t, "'array' needs an array type, such as f32[16]", code="E-TEXT-TYPE")
        return n.Alloc(self.declare(name, declared), dynamic is not None, 0 if align is None else self.sint(align))

    def s_assign(self, t: Node, op: str = "") -> Stmt:
        target, value = t.children[0], t.children[-1]
        if target.data == "name":
            sym = self.symbol(target.children[0])
            old: Expr = n.Var(sym)
        else:
            access = self.access(target)
            old = n.Load(*access)
        new = self.binary(op, old, self.expr(value), t) if op else self.expr(value)
        new = coerce(new, old.type)
        if isinstance(old, n.Var):
            return n.Assign(old.sym, new)
        return n.Store(old.buffer, old.index, new, old.width, old.cache)  # type: ignore[attr-defined]

    def s_update(self, t: Node) -> Stmt:
        return self.s_assign(t, str(t.children[1])[:-1])

    def s_eval(self, t: Node) -> Stmt:
        return n.Eval(self.expr(t.children[0]))

    def s_atomic_stmt(self, t: Node, dst: Sym | None = None) -> Stmt:
        op, cell, value, compare, order, scope = t.children[-1].children
        buffer, index, width, cache = self.access(cell)
        if cache or width != 1:
            self.fail(cell, "an atomic has no width and no cache hint")
        to = n.accessed_type(buffer, len(index))
        other = None if compare is None else self.value(compare, to)
        words = ("relaxed" if order is None else plain(order), "device" if scope is None else plain(scope))
        return n.Atomic(plain(op), buffer, index, self.value(value, to), other, dst, *words)

    def s_atomic_to(self, t: Node) -> Stmt:
        if t.children[0].data != "name":
            self.fail(t.children[0], "the old value goes to a variable")
        return self.s_atomic_stmt(t, self.symbol(t.children[0].children[0]))

    def s_break_(self, t: Node) -> Stmt:
        return n.Break()

    def s_continue_(self, t: Node) -> Stmt:
        return n.Continue()

    def s_return_(self, t: Node) -> Stmt:
        return n.Return()

    def s_barrier(self, t: Node) -> Stmt:
        scope, mask, memory, flags = t.children
        return n.Barrier(
            "block" if scope is None else plain(scope),
            None if mask is None else self.expr(mask),
            "all" if memory is None else plain(memory),
            None if flags is None else self.expr(flags),
        )

    def s_fence(self, t: Node) -> Stmt:
        return n.Fence(plain(t.children[0]))

    def s_grid_dependency(self, t: Node) -> Stmt:
        return n.GridDependency(plain(t.children[0]))

    def s_produce(self, t: Node) -> Stmt:
        slot, stages, hold, cluster, body = t.children
        held, together = (default if x is None else self.sint(x) for x, default in ((hold, 0), (cluster, 1)))
        return n.Produce(self.expr(slot), self.expr(stages), self.block(body), held, together)

    def s_asm(self, t: Node) -> Stmt:
        volatile, memory, text, *operands = t.children
        outs = tuple(
            (unquote(o.children[0]), self.symbol(o.children[1])) for o in operands if o and o.data == "out_operand"
        )
        ins = tuple(
            (unquote(o.children[0]), self.expr(o.children[1])) for o in operands if o and o.data == "in_operand"
        )
        return n.InlineAsm(unquote(text), outs, ins, volatile is not None, memory is not None)

    def s_raw_stmt(self, t: Node) -> Stmt:
        text, reads, writes, sync = t.children
        return n.RawStmt(unquote(text), self.symbols(reads), self.symbols(writes), sync is not None)

    # ----------------------------------------------------------------------------------------------------- control

    def s_if_(self, t: Node) -> Stmt:
        cond, then, *rest = t.children
        return self._if(cond, then, [r for r in rest if r is not None])

    def _if(self, cond: Node, then: Node, rest: list[Node]) -> Stmt:
        test, body = self.value(cond, BOOL), self.block(then)
        if not rest:
            return n.If(test, body)
        head, *tail = rest
        if head.data == "else_":
            return n.If(test, body, self.block(head.children[0]))
        nested = dataclasses.replace(self._if(head.children[0], head.children[1], tail), loc=self.loc(head))
        return n.If(test, body, (nested,))

    def s_for_range(self, t: Node) -> Stmt:
        name, ty, lo, hi, step, unroll, block = t.children
        var_type = I32 if ty is None else self.type(ty)
        init, bound = self.value(lo, var_type), self.value(hi, var_type)
        by = n.Const(1, var_type) if step is None else self.value(step, var_type)  # type: ignore[arg-type]
        times = self.unroll(unroll)
        with self.scope():
            i = self.declare(name, var_type)
            cond, nxt = n.Binary("<", n.Var(i), bound), n.Binary("+", n.Var(i), by)
            return n.For(i, init, cond, nxt, self.block(block), times)

    def s_for_(self, t: Node) -> Stmt:
        name, ty, init, cond, step, unroll, block = t.children
        var_type = I32 if ty is None else self.type(ty)
        first, times = self.value(init, var_type), self.unroll(unroll)
        with self.scope():
            i = self.declare(name, var_type)
            return n.For(i, first, self.value(cond, BOOL), self.value(step, var_type), self.block(block), times)

    def unroll(self, t: Node) -> int | Expr | None:
        if t is None:
            return None
        return 0 if t.children[0] is None else self.count(t.children[0])

    def s_while_loop(self, t: Node) -> Stmt:
        return n.While(self.value(t.children[0], BOOL), self.block(t.children[1]))

    def s_do_while(self, t: Node) -> Stmt:
        with self.scope():  # the condition of a do loop may use what its body declares
            body = self.stmts(t.children[0].children)
            return n.While(self.value(t.children[1], BOOL), body, post=True)

    def domain(self, t: Node) -> tuple[Node, Type, Expr, Expr, n.Dist]:
        name, ty, lo, hi, dist = t.children
        var_type = I32 if ty is None else self.type(ty)
        levels = () if dist is None else tuple(self.level(c) for c in dist.children)
        return name, var_type, self.value(lo, var_type), self.value(hi, var_type), levels

    def level(self, t: Node) -> n.Level:
        kind, axis, size, cut = t.children
        if plain(kind) not in n.LEVELS:
            self.fail(kind, f"'{kind}' is not a level", f"one of: {', '.join(n.LEVELS)}")
        name = "" if axis is None else plain(axis.children[0])
        return n.Level(plain(kind), None if size is None else self.expr(size), name, cut is not None)

    def s_par(self, t: Node) -> Stmt:
        name, ty, lo, hi, dist = self.domain(t.children[0])
        with self.scope():
            return n.Par(self.declare(name, ty), lo, hi, dist, self.block(t.children[1]))

    def s_reduce(self, t: Node) -> Stmt:
        accs = [c for c in t.children if isinstance(c, Tree) and c.data == "acc"]
        domain, strategy, *inner, last = t.children[len(accs) :]
        heads = []
        for a in accs:
            op, name, ty, init = a.children
            declared = self.type(ty)
            heads.append((str(op.children[0]), name, declared, self.value(init, declared)))
        var, var_type, lo, hi, dist = self.domain(domain)
        if len(last.children) != len(accs):
            self.fail(last, f"{len(accs)} accumulators need as many yielded values")
        with self.scope():
            i = self.declare(var, var_type)
            with self.scope():
                body = self.stmts(inner)
                values = [self.value(v, ty) for v, (_, _, ty, _) in zip(last.children, heads)]
        out = [n.Acc(self.declare(name, ty), op, init, v) for (op, name, ty, init), v in zip(heads, values)]
        return n.Reduce(tuple(out), i, lo, hi, dist, body, "auto" if strategy is None else plain(strategy))

    def s_scan(self, t: Node) -> Stmt:
        kind, acc, domain, strategy, *inner = t.children
        op, name, ty, init = acc.children
        declared = self.type(ty)
        start = self.value(init, declared)
        var, var_type, lo, hi, dist = self.domain(domain)
        at = next(k for k, c in enumerate(inner) if isinstance(c, Tree) and c.data == "yield_")
        if len(inner[at].children) != 1:
            self.fail(inner[at], "a scan yields one value")
        with self.scope():
            i = self.declare(var, var_type)
            with self.scope():
                body = self.stmts(inner[:at])
                value = self.value(inner[at].children[0], declared)
                total = self.declare(name, declared)
                then = self.stmts(inner[at + 1 :])
        self.scopes[-1][plain(name)] = total
        made = n.Acc(total, str(op.children[0]), start, value)
        how = "auto" if strategy is None else plain(strategy)
        return n.Scan(made, i, lo, hi, dist, body, then, str(kind.children[0]) == "exscan", how)


def comments_above(text: str) -> dict[int, tuple[str, ...]]:
    """Line number of each line of code that has ``#`` lines right above it -> those lines' texts."""
    out: dict[int, tuple[str, ...]] = {}
    pending: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if bare.startswith("#"):
            pending.append(bare[1:].strip())
        else:
            if pending and bare:
                out[number] = tuple(pending)
            pending = []
    return out
