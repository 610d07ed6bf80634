"""IR to ``.ktir`` text. Every node class has one method, named after it; the grammar is ``ktir.lark``."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping

from .. import nodes as n
from ..kernel import Kernel, Launch, Param
from ..nodes import Body, Expr, Stmt, Sym
from ..types import Array, Opaque, Ptr, Scalar, Struct, Type, Vec, Void
from .naming import unique_names
from .syntax import (
    ATOM,
    EFFECTS,
    FULL_MASK,
    FULL_WARP,
    HW_LEVELS,
    POSTFIX,
    PRECEDENCE,
    SPACE_WORDS,
    UNARY,
    result_type,
    spell_call,
    spell_name,
    uncoerce,
    written_args,
    written_operands,
)  # fmt: skip

INDENT = "  "
HEADER_WIDTH = 110


def print_kernel(k: Kernel) -> str:
    """The whole kernel as text; ``parse_kernel`` gives an equal tree back."""
    return Printer(unique_names(k)).kernel(k)


def print_body(body: Body) -> str:
    """Statements as text, for messages and debugging."""
    return "\n".join(Printer(unique_names(body)).body(body, 0))


def print_stmt(s: Stmt) -> str:
    """One statement as text, nested statements included."""
    return print_body((s,))


def print_expr(e: Expr, names: Mapping[Sym, str] | None = None) -> str:
    """One expression; symbols by ``names``, or by their own."""
    return Printer(names or {}).expr(e)


def print_type(t: Type) -> str:
    return Printer({}).type(t)


class Printer:
    """Prints with the given names; a symbol that has none prints its own."""

    def __init__(self, names: Mapping[Sym, str]) -> None:
        self.names = names

    def name(self, s: Sym) -> str:
        return spell_name(self.names.get(s, s.name))

    # ------------------------------------------------------------------------------------------------------- types

    def type(self, t: Type) -> str:
        """A type: ``f32``, ``f16x8``, ``f16 const* restrict``, ``shared f32[16, $V]``."""
        if isinstance(t, Scalar):
            return t.name
        if isinstance(t, Void):
            return "void"
        if isinstance(t, Vec):
            return f"{t.elem.name}x{t.n}" if isinstance(t.n, int) else f"{t.elem.name}x({self.expr(t.n)})"
        if isinstance(t, Struct):
            return (
                f"struct {spell_name(t.name)} {{"
                + ", ".join(f"{spell_name(f)}: {self.type(ft)}" for f, ft in t.fields)
                + "}"
            )
        if isinstance(t, Opaque):
            return f"opaque {_string(t.spelling)}"
        if isinstance(t, Ptr):
            space = "" if t.space == "global" else SPACE_WORDS[t.space] + " "
            quals = (" const" if t.const else "") + (" volatile" if t.volatile else "")
            return f"{space}{self._elem(t.elem)}{quals}*" + (" restrict" if t.restrict else "")
        assert isinstance(t, Array), t
        space = "" if t.space == "local" else SPACE_WORDS[t.space] + " "
        return f"{space}{self._elem(t.elem)}[{self.exprs(t.shape)}]"

    def _elem(self, t: Type) -> str:
        return f"({self.type(t)})" if isinstance(t, Ptr | Array) else self.type(t)

    def atomic_type(self, t: Type) -> str:
        """A type where more expression may follow: parenthesised unless it is one word."""
        return self.type(t) if isinstance(t, Scalar | Vec | Void) else f"({self.type(t)})"

    # ------------------------------------------------------------------------------------------------- expressions

    def expr(self, e: Expr, least: int = 0) -> str:
        """``e``, parenthesised when it binds weaker than ``least``."""
        text, strength = getattr(self, "e_" + type(e).__name__)(e)
        return f"({text})" if strength < least else text

    def exprs(self, es: Iterable[Expr]) -> str:
        return ", ".join(self.expr(e) for e in es)

    def value(self, e: Expr, to: Type) -> str:
        """``e`` where type ``to`` is expected."""
        return self.expr(uncoerce(e, to))

    def count(self, c: int | Expr) -> str:
        """A field that holds an int or an expression; a literal expression is told apart by parentheses."""
        return str(c) if isinstance(c, int) else self.expr(c, ATOM + 1 if isinstance(c, n.Const) else UNARY)

    def e_Const(self, e: n.Const) -> tuple[str, int]:
        text = _literal(e)
        return text, UNARY if text.startswith("-") else ATOM

    def e_Var(self, e: n.Var) -> tuple[str, int]:
        return self.name(e.sym), ATOM

    def e_Knob(self, e: n.Knob) -> tuple[str, int]:
        return f"${e.name}", ATOM

    def e_HwIndex(self, e: n.HwIndex) -> tuple[str, int]:
        return f"{HW_LEVELS[e.level]}.{e.axis}", ATOM

    def e_Unary(self, e: n.Unary) -> tuple[str, int]:
        x = uncoerce(e.x, n.BOOL) if e.op == "!" else e.x
        if isinstance(x, n.Const):  # -(1) is an operation, -1 a literal
            return f"{e.op}({_literal(x)})", UNARY
        return e.op + self.expr(x, POSTFIX if isinstance(x, n.Unary) and x.op == e.op else UNARY), UNARY

    def e_Binary(self, e: n.Binary) -> tuple[str, int]:
        p = PRECEDENCE[e.op]
        a, b = written_operands(e)
        return f"{self.expr(a, p)} {e.op} {self.expr(b, p + 1)}", p

    def e_Select(self, e: n.Select) -> tuple[str, int]:
        a, b = written_operands(n.Binary("+", e.a, e.b))
        return f"{self.expr(uncoerce(e.cond, n.BOOL), 2)} ? {self.expr(a)} : {self.expr(b, 1)}", 1

    def e_Cast(self, e: n.Cast) -> tuple[str, int]:
        if e.style == "c" and isinstance(e.to, Scalar | Vec):
            return f"{self.type(e.to)}({self.expr(e.x)})", ATOM
        style = "" if e.style == "implicit" else f".{e.style}"
        return f"{self.expr(e.x, POSTFIX)} as{style} {self.atomic_type(e.to)}", POSTFIX

    def access(self, buffer: Sym, index: tuple[Expr, ...], width: int | Expr = 1, cache: str = "") -> str:
        wide = "" if isinstance(width, int) and width == 1 else f" +: {self.count(width)}"
        return f"{self.name(buffer)}{'.' + cache if cache else ''}[{self.exprs(index)}{wide}]"

    def e_Load(self, e: n.Load) -> tuple[str, int]:
        return self.access(e.buffer, e.index, e.width, e.cache), ATOM

    def e_AddrOf(self, e: n.AddrOf) -> tuple[str, int]:
        return "&" + self.access(e.buffer, e.index), UNARY

    def e_Member(self, e: n.Member) -> tuple[str, int]:
        if isinstance(e.x.type, Struct) and dict(e.x.type.fields).get(e.name) == e.ty:
            return f"{self.expr(e.x, POSTFIX)}.{spell_name(e.name)}", POSTFIX
        return f"member({self.expr(e.x)}, {spell_name(e.name)}, {self.type(e.ty)})", ATOM

    def e_VecMake(self, e: n.VecMake) -> tuple[str, int]:
        return f"{self.type(e.ty)}{{" + ", ".join(self.value(a, e.ty.elem) for a in e.args) + "}", ATOM

    def e_VecGet(self, e: n.VecGet) -> tuple[str, int]:
        return f"lane({self.expr(e.x)}, {self.expr(e.lane)})", ATOM

    def e_Call(self, e: n.Call) -> tuple[str, int]:
        assert e.effects in EFFECTS, e
        effects = "" if e.effects == "pure" else f" !{e.effects}"
        result = "" if e.ty == result_type(e.fn, e.args) else f" -> {self.atomic_type(e.ty)}"
        return f"{spell_call(e.fn)}({self.exprs(written_args(e.fn, e.args))}){effects}{result}", POSTFIX

    def e_WarpOp(self, e: n.WarpOp) -> tuple[str, int]:
        args = [self.expr(e.value)] + ([self.expr(e.arg)] if e.arg is not None else [])
        args += [f"width={self.expr(e.width)}"] if e.width != FULL_WARP else []
        args += [f"mask={self.expr(e.mask)}"] if e.mask != FULL_MASK else []
        return f"{e.kind}({', '.join(args)})", POSTFIX

    def e_Raw(self, e: n.Raw) -> tuple[str, int]:
        return f"raw {self.atomic_type(e.ty)} {_string(e.text)} ({', '.join(map(self.name, e.uses))})", POSTFIX

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
        if isinstance(value, n.Binary) and value.op in PRECEDENCE and PRECEDENCE[value.op] not in (2, 3, 7, 8):
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
        lines = [f"{word} {self.value(s.cond, n.BOOL)}", *self.body(s.then, depth + 1)]
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
            case n.Binary("<", a, hi), n.Binary("+", b, by) if a == b == var and hi.type == by.type == ty:
                step = "" if by == n.Const(1, ty) else f" step {self.value(by, ty)}"  # type: ignore[arg-type]
                head += f" in {self.value(s.init, ty)}..{self.value(hi, ty)}{step}"
            case _:
                head += f" = {self.value(s.init, ty)}; {self.value(s.cond, n.BOOL)}; {self.value(s.step, ty)}"
        return [head + unroll, *self.body(s.body, depth + 1)]

    def s_While(self, s: n.While, depth: int) -> list[str]:
        body, cond = self.body(s.body, depth + 1), self.value(s.cond, n.BOOL)
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
        return ["barrier" if s.scope == "block" else f"barrier {s.scope}"]

    def s_Fence(self, s: n.Fence, depth: int) -> list[str]:
        return [f"fence {s.scope}"]

    def s_Atomic(self, s: n.Atomic, depth: int) -> list[str]:
        to = n.accessed_type(s.buffer, len(s.index))
        text = f"atomic {s.op} {self.access(s.buffer, s.index)}, {self.value(s.value, to)}"
        text += f" compare {self.value(s.compare, to)}" if s.compare is not None else ""
        text += f" order {s.order}" if s.order != "relaxed" else ""
        text += f" scope {s.scope}" if s.scope != "device" else ""
        return [f"{self.name(s.dst)} = {text}" if s.dst is not None else text]

    def s_AsyncCopy(self, s: n.AsyncCopy, depth: int) -> list[str]:
        return [
            f"async_copy {self.access(s.dst, s.dst_index, s.width)} = {self.access(s.src, s.src_index, cache=s.cache)}"
        ]

    def s_AsyncCommit(self, s: n.AsyncCommit, depth: int) -> list[str]:
        return ["async_commit"]

    def s_AsyncWait(self, s: n.AsyncWait, depth: int) -> list[str]:
        return [f"async_wait {self.count(s.pending)}"]

    def s_InlineAsm(self, s: n.InlineAsm, depth: int) -> list[str]:
        outs = ", ".join(f"{_string(c)} {self.name(o)}" for c, o in s.outputs)
        ins = ", ".join(f"{_string(c)} {self.expr(e)}" for c, e in s.inputs)
        return [f"asm{' volatile' if s.volatile else ''} {_string(s.text)} out({outs}) in({ins})"]

    def s_RawStmt(self, s: n.RawStmt, depth: int) -> list[str]:
        names = [", ".join(map(self.name, group)) for group in (s.reads, s.writes)]
        sync = " may_sync" if s.may_sync else ""
        return [f"raw {_string(s.text)} reads({names[0]}) writes({names[1]}){sync}"]

    # ----------------------------------------------------------------------------------------------- parallel form

    def dist(self, dist: n.Dist) -> str:
        """``@ [vec $V, thread.x 128, seq]``, or nothing."""
        levels = [
            f"{d.kind}{'.' + d.axis if d.axis else ''}{'' if d.n is None else ' ' + self.expr(d.n)}" for d in dist
        ]
        return f" @ [{', '.join(levels)}]" if dist else ""

    def _type_note(self, t: Type) -> str:
        return "" if t == n.I32 else f": {self.type(t)}"

    def _domain(self, s: n.Par | n.Reduce) -> str:
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

    # ------------------------------------------------------------------------------------------------------ kernel

    def kernel(self, k: Kernel) -> str:
        notes = [f"# {line}".rstrip() for c in k.comments for line in c.splitlines()]
        params = [self.param(p) for p in k.params]
        head = f"kernel {spell_name(k.name)}({', '.join(params)})"
        if len(head) > HEADER_WIDTH:
            head = f"kernel {spell_name(k.name)}(\n" + ",\n".join(INDENT * 2 + p for p in params) + ")"
        return "\n".join([*notes, head, *(INDENT + h for h in self.header(k)), *self.body(k.body, 1)]) + "\n"

    def param(self, p: Param) -> str:
        lo, hi = p.range
        facts = [
            f"align {p.align}" if p.align else "",
            f"divisible_by {p.divisible_by}" if p.divisible_by != 1 else "",
            f"range {'' if lo is None else lo}..{'' if hi is None else hi}" if p.range != (None, None) else "",
            "noalias" if p.noalias else "",
            "readonly" if p.readonly else "",
        ]
        host = "host " if p.host else ""
        return " ".join([f"{host}{self.name(p.sym)}: {self.type(p.sym.type)}", *filter(None, facts)])

    def launch(self, launch: Launch) -> str:
        def dims(word: str, es: tuple[Expr, ...]) -> str:
            while len(es) > 1 and es[-1] == n.Const(1, n.I32):
                es = es[:-1]
            return f" {word}({self.exprs(es)})"

        text = "launch" + dims("grid", launch.grid) + dims("block", launch.block)
        text += dims("cluster", launch.cluster) if launch.cluster else ""
        clauses = {"shared": launch.dynamic_shared, "max_threads": launch.max_threads, "min_blocks": launch.min_blocks}
        for word, e in clauses.items():
            text += f" {word}({self.expr(e)})" if e is not None else ""
        return text

    def header(self, k: Kernel) -> list[str]:
        """Launch, knobs, constraints, assumptions, flags and trace, one a line."""
        lines = [self.launch(k.launch)] if k.launch else []
        for d in k.knobs:
            line = f"knob ${d.name} in {{{', '.join(map(str, d.domain))}}} default {d.default}"
            line += f" value {d.value}" if d.value is not None else ""
            line += f" owner {_string(d.owner)}" if d.owner else ""
            lines.append(line + (f" doc {_string(d.doc)}" if d.doc else ""))
        lines += [f"where {self.expr(c)}" for c in k.constraints]
        for a in k.assumptions:
            lines.append(f"assume {self.expr(a.expr)}" + (f" origin {a.origin}" if a.origin != "user" else ""))
        lines += [f"flags {', '.join(sorted(map(spell_name, k.flags)))}"] if k.flags else []
        return lines + [f"trace {_string(t)}" for t in k.trace]


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _literal(c: n.Const) -> str:
    """Shortest spelling that reads back to the same value and type."""
    if c.ty.kind == "bool":
        return "true" if c.value else "false"
    if not c.ty.is_float:
        v = int(c.value)
        text = hex(v) if abs(v) > 0xFFFF and c.ty.kind == "uint" else str(v)
        return text if c.ty == n.I32 else f"{text}_{c.ty.name}"
    v = float(c.value)
    if math.isnan(v):
        text = "nan"
    else:
        text = repr(v)  # 'inf', '-inf' and '1e-06' included
    return text if c.ty.name == "f32" else f"{text}_{c.ty.name}"
