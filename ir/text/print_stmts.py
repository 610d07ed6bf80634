"""Statements to ``.ktir`` text: one method per node class, named after it. The grammar is ``ktir.lark``."""

from __future__ import annotations

from ktc.ir import nodes as n
from ktc.ir.nodes import Body, Expr, Stmt
from ktc.ir.types import BOOL, I32, U64, Type
from ktc.ir.walk import used

from .print_exprs import ExprPrinter, quote
from .syntax import uncoerce, written_operands

INDENT = "  "
_NOT_UPDATES = frozenset({"||", "&&", "==", "!=", "<", "<=", ">", ">="})


class StmtPrinter(ExprPrinter):
    """Adds statements and indentation."""

    # -------------------------------------------------------------------------------------------------- statements

    def body(self, body: Body, depth: int) -> list[str]:
        """Lines of ``body``; an empty one is ``pass``."""
        lines: list[str] = []
        for s in body:
            lines += self.stmt(s, depth)
        return lines or [INDENT * depth + "pass"]

    def stmt(self, s: Stmt, depth: int) -> list[str]:
        pad = INDENT * depth
        notes = [f"{pad}# {line}".rstrip() for c in s.comments for line in c.splitlines()]
        first, *rest = getattr(self, "s_" + type(s).__name__)(s, depth)
        return [*notes, pad + first, *rest]

    def s_Decl(self, s: n.Decl, depth: int) -> list[str]:
        init = "" if s.init is None else f" = {self.value(s.init, s.sym.type)}"
        return [f"{'let' if s.const else 'var'} {self.name(s.sym)}: {self.type(s.sym.type)}{init}"]

    def s_Alloc(self, s: n.Alloc, depth: int) -> list[str]:
        extra = (" dynamic" if s.dynamic else "") + (f" align {s.align}" if s.align else "")
        return [f"array {self.name(s.sym)}: {self.type(s.sym.type)}{extra}"]

    def _assign(self, target: str, same: Expr, value: Expr, to: Type) -> str:
        value = uncoerce(value, to)
        if isinstance(value, n.Binary) and value.op not in _NOT_UPDATES:
            a, b = written_operands(value)
            if a == same:
                return f"{target} {value.op}= {self.expr(b)}"
        return f"{target} = {self.expr(value)}"

    def s_Assign(self, s: n.Assign, depth: int) -> list[str]:
        return [self._assign(self.name(s.sym), n.Var(s.sym), s.value, s.sym.type)]

    def s_Store(self, s: n.Store, depth: int) -> list[str]:
        cell = n.Load(s.buffer, s.index, s.width, s.cache)
        return [self._assign(self.access(s.buffer, s.index, s.width, s.cache), cell, s.value, cell.type)]

    def s_Eval(self, s: n.Eval, depth: int) -> list[str]:
        return [self.expr(s.value)]

    def s_If(self, s: n.If, depth: int, word: str = "if") -> list[str]:
        pad = INDENT * depth
        lines = [f"{word} {self.value(s.cond, BOOL)}", *self.body(s.then, depth + 1)]
        if len(s.orelse) == 1 and isinstance(s.orelse[0], n.If) and not s.orelse[0].comments:
            first, *rest = self.s_If(s.orelse[0], depth, "elif")
            return [*lines, pad + first, *rest]
        return lines + ([f"{pad}else", *self.body(s.orelse, depth + 1)] if s.orelse else [])

    def s_For(self, s: n.For, depth: int) -> list[str]:
        var, ty = n.Var(s.var), s.var.type
        unroll = {None: "", 0: " unroll"}.get(s.unroll) if not isinstance(s.unroll, Expr) else None  # type: ignore[arg-type]
        unroll = f" unroll {self.count(s.unroll)}" if unroll is None else unroll  # type: ignore[arg-type]
        head = f"for {self.name(s.var)}{self._type_note(ty)}"
        match s.cond, s.step:
            case n.Binary("<", a, hi), n.Binary("+", b, by) if (
                a == b == var and hi.type == by.type == ty and s.var not in used(hi) | used(by)
            ):
                step = "" if by == n.Const(1, ty) else f" step {self.value(by, ty)}"  # type: ignore[arg-type]
                head += f" in {self.value(s.init, ty)}..{self.value(hi, ty)}{step}"
            case _:
                head += f" = {self.value(s.init, ty)}; {self.value(s.cond, BOOL)}; {self.value(s.step, ty)}"
        return [head + unroll, *self.body(s.body, depth + 1)]

    def s_While(self, s: n.While, depth: int) -> list[str]:
        body, cond = self.body(s.body, depth + 1), self.value(s.cond, BOOL)
        return ["do", *body, f"{INDENT * depth}while {cond}"] if s.post else [f"while {cond}", *body]

    def s_Break(self, s: n.Break, depth: int) -> list[str]:
        return ["break"]

    def s_Continue(self, s: n.Continue, depth: int) -> list[str]:
        return ["continue"]

    def s_Return(self, s: n.Return, depth: int) -> list[str]:
        return ["return"]

    def s_Barrier(self, s: n.Barrier, depth: int) -> list[str]:
        if s.mask is not None:
            return [f"barrier {s.scope} mask {self.expr(s.mask)}"]
        if s.flags is not None:
            return [f"barrier {s.scope} flags {self.expr(s.flags)}"]
        if s.memory != "all":
            return [f"barrier {s.scope} memory {s.memory}"]
        return ["barrier" if s.scope == "block" else f"barrier {s.scope}"]

    def s_Fence(self, s: n.Fence, depth: int) -> list[str]:
        return [f"fence {s.scope}"]

    def s_GridDependency(self, s: n.GridDependency, depth: int) -> list[str]:
        return [f"grid_dependency {s.what}"]

    def s_Atomic(self, s: n.Atomic, depth: int) -> list[str]:
        to = n.accessed_type(s.buffer, len(s.index))
        text = f"atomic {s.op} {self.access(s.buffer, s.index)}, {self.value(s.value, to)}"
        text += f" compare {self.value(s.compare, to)}" if s.compare is not None else ""
        text += f" order {s.order}" if s.order != "relaxed" else ""
        text += f" scope {s.scope}" if s.scope != "device" else ""
        return [f"{self.name(s.dst)} = {text}" if s.dst is not None else text]

    def s_AsyncCopy(self, s: n.AsyncCopy, depth: int) -> list[str]:
        source = self.access(s.src, s.src_index, cache=s.cache)
        valid = f" if {self.expr(s.valid)}" if s.valid is not None else ""
        return [f"async_copy {self.access(s.dst, s.dst_index, s.width)} = {source}{valid}"]

    def s_AsyncCommit(self, s: n.AsyncCommit, depth: int) -> list[str]:
        return ["async_commit spread" if s.spread else "async_commit"]

    def s_AsyncWait(self, s: n.AsyncWait, depth: int) -> list[str]:
        return [f"async_wait {self.count(s.pending)}"]

    def s_GroupCopy(self, s: n.GroupCopy, depth: int) -> list[str]:
        text = f"{self.access(s.dst, s.dst_index)} = {self.access(s.src, s.src_index)} count {self.value(s.count, U64)}"
        text += f" stride {self.value(s.stride, U64)}" if s.stride is not None else ""
        text += f" after {self.expr(s.after)}" if s.after is not None else ""
        return [f"{self.name(s.event)} = group_copy {text}"]

    def s_GroupWait(self, s: n.GroupWait, depth: int) -> list[str]:
        return [f"group_wait {self.expr(s.event)}"]

    def s_Produce(self, s: n.Produce, depth: int) -> list[str]:
        hold = f" hold {s.hold}" if s.hold else ""
        together = f" cluster {s.cluster}" if s.cluster > 1 else ""
        head = f"produce {self.expr(s.slot)} of {self.expr(s.stages)}{hold}{together}"
        return [head, *self.body(s.body, depth + 1)]

    def s_BulkCopy(self, s: n.BulkCopy, depth: int) -> list[str]:
        source = f"{self.name(s.src)} ({self.exprs(s.origin)}) of ({self.exprs(s.extent)}) pitch {self.expr(s.pitch)}"
        shared = f" shared {s.shared}" if s.shared > 1 else ""
        return [f"bulk_copy {self.access(s.dst, s.dst_index)} rows {s.rows}{shared} = {source}"]

    def s_MatrixLoad(self, s: n.MatrixLoad, depth: int) -> list[str]:
        target = self.access(s.dst, s.dst_index, s.width)
        return [f"matrix_load {target} = {self.access(s.buffer, s.index)}{' trans' if s.trans else ''}"]

    def s_Mma(self, s: n.Mma, depth: int) -> list[str]:
        return [f"mma {s.fragment} ({self.exprs(s.acc)}), {self.expr(s.a)}, {self.expr(s.b)}"]

    def s_TileMma(self, s: n.TileMma, depth: int) -> list[str]:
        operands = f"{self.access(s.a, s.a_index)}, {self.access(s.b, s.b_index)}{' trans' if s.trans else ''}"
        flight = f" pending {s.pending}" if s.pending else ""
        keep = f" keep {self.expr(s.keep)}" if s.keep is not None else ""
        return [f"tile_mma {s.fragment} ({self.exprs(s.acc)}), {operands} depth {s.depth}{flight}{keep}"]

    def s_TileMmaWait(self, s: n.TileMmaWait, depth: int) -> list[str]:
        return [f"tile_mma_wait {s.pending}"]

    def s_InlineAsm(self, s: n.InlineAsm, depth: int) -> list[str]:
        outs = ", ".join(f"{quote(c)} {self.name(o)}" for c, o in s.outputs)
        ins = ", ".join(f"{quote(c)} {self.expr(e)}" for c, e in s.inputs)
        words = f"{' volatile' if s.volatile else ''}{' memory' if s.memory else ''}"
        return [f"asm{words} {quote(s.text)} out({outs}) in({ins})"]

    def s_RawStmt(self, s: n.RawStmt, depth: int) -> list[str]:
        names = [", ".join(map(self.name, group)) for group in (s.reads, s.writes)]
        sync = " may_sync" if s.may_sync else ""
        return [f"raw {quote(s.text)} reads({names[0]}) writes({names[1]}){sync}"]

    # ----------------------------------------------------------------------------------------------- parallel form

    def dist(self, dist: n.Dist) -> str:
        """``@ [vec $V, thread.x 128, seq]``, or nothing."""
        return f" @ [{', '.join(map(self.level, dist))}]" if dist else ""

    def level(self, d: n.Level) -> str:
        axis = f".{d.axis}" if d.axis else ""
        size = "" if d.n is None else f" {self.expr(d.n)}"
        return f"{d.kind}{axis}{size}{' cut' if d.cut else ''}"

    def _type_note(self, t: Type) -> str:
        return "" if t == I32 else f": {self.type(t)}"

    def _domain(self, s: n.Par | n.Reduce | n.Scan) -> str:
        ty = s.var.type
        span = f"{self.value(s.lo, ty)}..{self.value(s.hi, ty)}"
        return f"{self.name(s.var)}{self._type_note(ty)} in {span}{self.dist(s.dist)}"

    def s_Par(self, s: n.Par, depth: int) -> list[str]:
        return [f"par {self._domain(s)}", *self.body(s.body, depth + 1)]

    def s_Reduce(self, s: n.Reduce, depth: int) -> list[str]:
        accs = ", ".join(
            f"({a.op}) {self.name(a.sym)}: {self.type(a.sym.type)} = {self.value(a.init, a.sym.type)}" for a in s.accs
        )
        strategy = f" strategy {s.strategy}" if s.strategy != "auto" else ""
        values = ", ".join(self.value(a.value, a.sym.type) for a in s.accs)
        inner = self.body(s.body, depth + 1) if s.body else []
        return [f"reduce{accs} over {self._domain(s)}{strategy}", *inner, f"{INDENT * (depth + 1)}yield {values}"]

    def s_Scan(self, s: n.Scan, depth: int) -> list[str]:
        a = s.acc
        init = self.value(a.init, a.sym.type)
        value = self.value(a.value, a.sym.type)
        inner = self.body(s.body, depth + 1) if s.body else []
        kind = "exscan" if s.exclusive else "scan"
        head = f"{kind}({a.op}) {self.name(a.sym)}: {self.type(a.sym.type)} = {init} over {self._domain(s)}"
        head += f" strategy {s.strategy}" if s.strategy != "auto" else ""
        after = self.body(s.then, depth + 1) if s.then else []
        return [head, *inner, f"{INDENT * (depth + 1)}yield {value}", *after]
