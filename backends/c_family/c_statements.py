"""Statements of the IR as C text, in the layout clang-format gives Google style."""

from __future__ import annotations

from collections.abc import Callable

from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Atomic,
    Barrier,
    Binary,
    Body,
    Break,
    Cast,
    Continue,
    Decl,
    Eval,
    Expr,
    Fence,
    For,
    GridDependency,
    GroupCopy,
    If,
    InlineAsm,
    Par,
    Produce,
    RawStmt,
    Reduce,
    Return,
    Scan,
    Stmt,
    Store,
    Sym,
    Var,
    While,
    accessed_type,
)
from ktc.ir.types import scalar_of

from .c_data import DataStatements
from .c_dialect import Dialect
from .device_statements import DEVICE_STATEMENTS, async_copy_if
from .line_layout import COLUMNS, INDENT, comment_lines, wrap
from .piece import LIMIT
from .producer_roles import Roles
from .protocol import const_int

ONE_LINERS = (Return, Break, Continue, Assign, Store, Eval)


class Statements(DataStatements):
    """Prints statements for one dialect and one kernel."""

    def __init__(self, dialect: Dialect, kernel: Kernel) -> None:
        super().__init__(dialect, kernel)
        self.roles = Roles(self)

    # -------------------------------------------------------------------------------------------------- blocks

    def body(self, body: Body, depth: int) -> list[str]:
        """The statements of one scope, as lines indented ``depth`` levels."""
        self.names.push()
        out: list[str] = []
        for k, s in enumerate(body):
            self.d.loc = s.loc or self.d.loc
            pad = INDENT * depth
            if s is self.roles.loop:
                out += [pad + line for line in self.roles.split()]
            merged = self._declared_atomic(body, k)
            if merged is None:
                continue
            out += [pad + line for c in s.comments for line in comment_lines(c)]
            for line in self.statement(merged, depth):
                out += wrap(line, pad)
            if s is self.roles.loop:
                out += [pad + line for line in self.roles.after()]
        self.names.pop()
        return out

    def _declared_atomic(self, body: Body, k: int) -> Stmt | None:
        """``int old; old = atomicAdd(...)`` prints as one declaration: the Decl goes, the Atomic declares.

        So does the event of a copy by the block."""
        s = body[k]
        if isinstance(s, Decl) and s.init is None and k + 1 < len(body):
            after = body[k + 1]
            if (isinstance(after, Atomic) and after.dst == s.sym) or (
                isinstance(after, GroupCopy) and after.event == s.sym
            ):
                self._declares = s.sym
                return None
        return s

    _declares: Sym | None = None

    def statement(self, s: Stmt, depth: int) -> list[str]:
        """The lines of ``s``, unindented (nested blocks carry their relative indent)."""
        printer = _STATEMENTS.get(type(s))
        if printer is None:
            raise KtcError("E-BACKEND-STATEMENT", f"no C form of {type(s).__name__}", s.loc, "lower the kernel first")
        return printer(self, s)

    def block(self, head: str, body: Body, tail: str = "}") -> list[str]:
        return [head + " {", *self.body(body, 1), tail]

    # ------------------------------------------------------------------------------------------------- control flow

    def _if(self, s: If, braces: bool = False) -> list[str]:
        if copy := async_copy_if(self, s):
            return copy
        head = f"if ({self.x.condition(s.cond).text})"
        if (
            not braces
            and not s.orelse
            and len(s.then) == 1
            and isinstance(s.then[0], ONE_LINERS)
            and not s.then[0].comments
        ):
            line = self.statement(s.then[0], 0)
            if len(line) == 1 and len(head) + len(line[0]) < COLUMNS - 20:
                return [f"{head} {line[0]}"]
        out = self.block(head, s.then)
        if not s.orelse:
            return out
        if len(s.orelse) == 1 and isinstance(s.orelse[0], If) and not s.orelse[0].comments:
            rest = self._if(s.orelse[0], braces=True)
            return [*out[:-1], "} else " + rest[0], *rest[1:]]
        return [*out[:-1], *self.block("} else", s.orelse)]

    def _for(self, s: For) -> list[str]:
        self.names.push()
        t = s.var.type
        init = self.x.assigned(s.init, t)
        first = self.x.piece(s.init)
        name = self.names.declare(s.var)
        if first.nonneg and isinstance(s.step, Binary) and s.step.op == "+" and self._nonneg(s.step.b):
            self.x.upper[s.var] = LIMIT
        cond = self.x.condition(s.cond).text
        head = f"for ({self.d.type_name(t)} {name} = {init}; {cond}; {self.step(s, name)})"
        body = self.roles.round(s) if s.body and isinstance(s.body[0], Produce) else self.body(s.body, 1)
        self.names.pop()
        return [*self.unroll(s.unroll), *([head + " {", *body, "}"] if body else [head + " {}"])]

    def _nonneg(self, e: Expr) -> bool:
        return self.x.piece(e.x if isinstance(e, Cast) and e.style == "implicit" else e).nonneg

    def step(self, s: For, name: str) -> str:
        text = self.update(name, s.step, s.var.type, lambda e: isinstance(e, Var) and e.sym == s.var)[:-1]
        return {f"{name} += 1": f"++{name}", f"{name} -= 1": f"--{name}"}.get(text, text)

    def unroll(self, factor: int | Expr | None) -> list[str]:
        if factor is None:
            return []
        if isinstance(factor, int):
            return ["#pragma unroll" if factor == 0 else f"#pragma unroll {factor}"]
        return [f"#pragma unroll {self.x.text(factor)}"]

    def _while(self, s: While) -> list[str]:
        cond = self.x.condition(s.cond).text
        if s.post:
            return self.block("do", s.body, f"}} while ({cond});")
        return self.block(f"while ({cond})", s.body)

    def _word(self, s: Stmt) -> list[str]:
        return [type(s).__name__.lower() + ";"]

    # ---------------------------------------------------------------------------------- synchronisation and the rest

    def _barrier(self, s: Barrier) -> list[str]:
        if self.roles.loop is not None and s.scope in ("block", "grid"):
            return [self.d.part_barrier(s.scope, self.x.text(self.roles.threads))]
        full = s.mask is None or const_int(s.mask) == 0xFFFFFFFF
        return [self.d.barrier(s.scope, None if full else self.x.piece(s.mask))]  # type: ignore[arg-type]

    def _fence(self, s: Fence) -> list[str]:
        return [self.d.async_fence() if s.scope == "async" else self.d.fence(s.scope)]

    def _grid_dependency(self, s: GridDependency) -> list[str]:
        return self.d.grid_dependency(s.what)

    def _atomic(self, s: Atomic) -> list[str]:
        t = scalar_of(accessed_type(s.buffer, len(s.index)))
        compare = self.x.exact(s.compare, t).text if s.compare is not None else None
        call = self.d.atomic(s, self.x.subscript(s.buffer, s.index), self.x.exact(s.value, t).text, compare, t)
        if s.dst is None:
            return [call + ";"]
        return [self.result(s.dst, call)]

    def result(self, dst: Sym, call: str) -> str:
        """``dst`` takes what ``call`` gives: its declaration, if that waited for this."""
        if self._declares != dst:
            return f"{self.names.of(dst)} = {call};"
        self._declares = None
        return f"{self.d.type_name(dst.type)} {self.names.declare(dst)} = {call};"

    def _asm(self, s: InlineAsm) -> list[str]:
        self.d.require("ptx", "inline PTX")
        text = s.text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        outs = ", ".join(f'"{c}"({self.names.of(o)})' for c, o in s.outputs)
        ins = ", ".join(f'"{c}"({self.x.text(e)})' for c, e in s.inputs)
        groups = [outs, ins, '"memory"' if s.memory else ""]
        while groups and not groups[-1]:
            groups.pop()
        tail = "".join(f" : {g}" if g else " :" for g in groups)
        return [f'asm{" volatile" if s.volatile else ""}("{text}"{tail});']

    def _raw(self, s: RawStmt) -> list[str]:
        self.d.require("raw", "source text carried through")
        return s.text.splitlines()


def _no_parallel(self: Statements, s: Stmt) -> list[str]:
    raise KtcError(
        "E-BACKEND-PARALLEL", "a par loop has no thread program yet", s.loc, "lower the kernel (materialise) first"
    )


_STATEMENTS: dict[type[Stmt], Callable[..., list[str]]] = {
    Decl: Statements._decl, Alloc: Statements._alloc, Assign: Statements._assign, Store: Statements._store,
    Eval: Statements._eval, If: Statements._if, For: Statements._for, While: Statements._while, Break: Statements._word,
    Continue: Statements._word, Return: Statements._word, Barrier: Statements._barrier, Fence: Statements._fence,
    GridDependency: Statements._grid_dependency,
    Atomic: Statements._atomic, InlineAsm: Statements._asm, RawStmt: Statements._raw, Par: _no_parallel,
    Reduce: _no_parallel, Scan: _no_parallel, **DEVICE_STATEMENTS,
}  # fmt: skip
