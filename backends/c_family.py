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
    Call,
    Cast,
    Continue,
    Decl,
    Eval,
    Expr,
    Fence,
    For,
    GroupCopy,
    If,
    InlineAsm,
    Load,
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
from ktc.ir.types import Array, Scalar, Type, Vec, scalar_of
from ktc.ir.walk import all_exprs, used, walk

from .c_family_base import const_int
from .c_family_device import DEVICE_STATEMENTS
from .c_family_dialect import Dialect
from .c_family_expr import PLAIN, Exprs
from .c_family_layout import COLUMNS, INDENT, comment_lines, wrap
from .c_family_names import Names
from .c_family_piece import BINARY_PREC, LIMIT
from .c_family_roles import Roles
from .c_family_rules import is_constant, is_int32

ONE_LINERS = (Return, Break, Continue, Assign, Store, Eval)


class Statements:
    """Prints statements for one dialect and one kernel."""

    def __init__(self, dialect: Dialect, kernel: Kernel) -> None:
        self.d = dialect
        self.kernel = kernel
        called = {name for e in all_exprs(kernel.body) if isinstance(e, Call) and (name := dialect.called_name(e))}
        self.names = Names([*dialect.reserved, *called, *(k.name for k in kernel.knobs), kernel.name])
        self.x = Exprs(dialect, self.names)
        dialect.exprs = self.x
        self.dynamic: list[tuple[Alloc, str, str]] = []
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

    # ------------------------------------------------------------------------------------- declarations, assignments

    def _decl(self, s: Decl) -> list[str]:
        t = s.sym.type
        if s.init is None:
            name = self.names.declare(s.sym)
            return [f"{self.d.type_name(t)} {name}{self.extents(t)};"]
        text = self.x.assigned(s.init, t)
        start = self.x.piece(s.init)
        constant = s.const and is_constant(s.init) and isinstance(t, Scalar) and t.is_int
        name = self.names.declare(s.sym)
        if s.const and start.upper is not None:
            self.x.upper[s.sym] = start.upper
        qualifier = (self.d.constant_keyword if constant else "const") + " " if s.const else ""
        return [f"{qualifier}{self.d.type_name(t)} {name} = {text};"]

    def extents(self, t: Type) -> str:
        if not isinstance(t, Array):
            return ""
        if t.space == "local" and not all(is_constant(n) or isinstance(n, Var) for n in t.shape):
            self.d.refuse(
                "ARRAY", "a private array needs a size known at compile time", "bind it to a knob or a constant"
            )
        return "".join(f"[{self.x.text(n)}]" for n in t.shape)

    def _alloc(self, s: Alloc) -> list[str]:
        t = s.sym.type
        assert isinstance(t, Array)
        if s.dynamic:
            if not self.dynamic:  # all of them at the first, in order: their offsets chain
                found = [a for a in walk(self.kernel.body) if isinstance(a, Alloc) and a.dynamic]
                for a in found:  # the last one's extent is the launch's business
                    extents = a.sym.type.shape if a is not found[-1] else ()  # type: ignore[attr-defined]
                    for unknown in sorted({v.name for n in extents for v in used(n) if not self.names.has(v)}):
                        message = f"the place after '{a.sym.name}' depends on '{unknown}', a host value"  # type: ignore[attr-defined]
                        self.d.loc = a.loc or self.d.loc
                        self.d.refuse("SHARED", message, "make it a parameter of the kernel")
                    size = " * ".join(self.x.piece(n).at(BINARY_PREC["*"]) for n in extents)
                    self.dynamic.append((a, self.names.declare(a.sym), size))
                    self.d.flat.add(a.sym)
                return self.d.dynamic_arrays(self.dynamic)
            return []
        if t.space == "shared":
            return self.d.shared_array(s, self.names.declare(s.sym), self.extents(t))
        align = f"{self.d.alignas(s.align)} " if s.align else ""
        return [f"{align}{self.d.type_name(t)} {self.names.declare(s.sym)}{self.extents(t)};"]

    def _assign(self, s: Assign) -> list[str]:
        return [self.update(self.names.of(s.sym), s.value, s.sym.type, lambda e: isinstance(e, Var) and e.sym == s.sym)]

    def update(self, place: str, value: Expr, t: Type, is_place) -> str:
        """``place = value;``, as ``place op= e;`` when that says the same."""
        compound = self._compound(value, t, is_place)
        return f"{place} {compound};" if compound else f"{place} = {self.x.assigned(value, t)};"

    def _compound(self, value: Expr, t: Type, is_place) -> str | None:
        e = value
        if isinstance(e, Cast) and e.style == "implicit" and e.to == t and self.d.c_converts(e.x.type, e.to):
            e = e.x
        if not isinstance(e, Binary) or e.op not in "+-*/%<<>>&|^" or not isinstance(t, Scalar):
            return None
        a = e.a
        if isinstance(a, Cast) and a.style == "implicit" and self.d.c_converts(a.x.type, a.to):
            a = a.x
        if not is_place(a) or not self.d.has_compound(t):
            return None
        wrap = is_int32(t) and is_int32(e.type)
        right = self.x.piece(self.x.without_implicit(e.b, e.a.type), wrap)
        if e.op not in ("<<", ">>") and isinstance(e.a.type, Scalar):
            # ``t op right`` must be computed in the type the IR says.
            left_only = self.x._balance(e.op, self.x.piece(a), right, e.a.type, wrap and e.op in "+-*&|^")
            if left_only[0].text != self.x.piece(a).text:
                return None
            right = left_only[1]
        return f"{e.op}= {right.text}"

    def _store(self, s: Store) -> list[str]:
        place = self.x.subscript(s.buffer, s.index)
        if s.width != 1:
            if isinstance(s.value, Cast) and s.value.style == "bit" and s.cache in PLAIN:
                return [self.d.store_as(s.buffer, place, self.x.exact(s.value.x), s.value.x.type, s.cache)]
            t = Vec(scalar_of(accessed_type(s.buffer, len(s.index))), s.width)
            return [self.d.store_vector(s.buffer, place, self.x.piece(s.value), t, self.x.width(s.width), s.cache)]
        t2 = self.d.loaded_type(s.buffer, accessed_type(s.buffer, len(s.index)))
        if not s.cache:
            same = lambda e: isinstance(e, Load) and (e.buffer, e.index, e.width, e.cache) == (s.buffer, s.index, 1, "")  # noqa: E731
            compound = self._compound(s.value, t2, same)
            if compound:
                return [f"{place} {compound};"]
        if s.cache == "volatile":
            place = self.d.volatile_place(s.buffer, place, t2)
        return [self.d.store(s.buffer, place, self.x.assigned(s.value, t2), t2, s.cache)]

    def _eval(self, s: Eval) -> list[str]:
        return [self.x.text(s.value) + ";"]

    # ------------------------------------------------------------------------------------------------- control flow

    def _if(self, s: If, braces: bool = False) -> list[str]:
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
    Atomic: Statements._atomic, InlineAsm: Statements._asm, RawStmt: Statements._raw, Par: _no_parallel,
    Reduce: _no_parallel, Scan: _no_parallel, **DEVICE_STATEMENTS,
}  # fmt: skip
