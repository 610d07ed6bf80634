"""Kernels to ``.ktir`` text, and the functions that print one thing. The grammar is ``ktir.lark``."""

from __future__ import annotations

from ktc.ir import nodes as n
from ktc.ir.kernel import Kernel, Launch, Param, Repeat
from ktc.ir.nodes import Body, Expr, Stmt
from ktc.ir.types import I32, Type, scalar_of

from .naming import unique_names
from .print_exprs import quote
from .print_stmts import INDENT, StmtPrinter
from .stable_names import stems_to_say
from .syntax import spell_name

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


def print_expr(e: Expr) -> str:
    """One expression, symbols by their own names."""
    return Printer({}).expr(e)


def print_type(t: Type) -> str:
    """One type."""
    return Printer({}).type(t)


class Printer(StmtPrinter):
    """Adds the kernel: its parameters, and the lines above its body."""

    def kernel(self, k: Kernel) -> str:
        notes = [f"# {line}".rstrip() for c in k.comments for line in c.splitlines()]
        params = [self.param(p) for p in k.params]
        head = f"kernel {spell_name(k.name)}({', '.join(params)})"
        if len(head) > HEADER_WIDTH:
            head = f"kernel {spell_name(k.name)}(\n" + ",\n".join(INDENT * 2 + p for p in params) + ")"
        return "\n".join([*notes, head, *(INDENT + h for h in self.header(k)), *self.body(k.body, 1)]) + "\n"

    def param(self, p: Param) -> str:
        lo, hi = p.range
        said = {kind: f" origin {origin}" for kind, origin in p.origins}
        facts = [
            f"align {p.align}{said.get('align', '')}" if p.align else "",
            f"divisible_by {p.divisible_by}{said.get('divisible_by', '')}" if p.divisible_by != 1 else "",
            f"range {'' if lo is None else lo}..{'' if hi is None else hi}{said.get('range', '')}"
            if p.range != (None, None)
            else "",
            f"noalias{said.get('noalias', '')}" if p.noalias else "",
            "readonly" if p.readonly else "",
            f"symbol {p.symbol} {p.extent}{self._initial(p)}" if p.symbol else "",
            f"{'temporary' if p.temporary else 'scratch'}({self.exprs((p.scratch,))})" if p.scratch is not None else "",
            f"touches({self.exprs(p.touches)})" if p.touches else "",
            f"rows {spell_name(p.rows)}" if p.rows else "",
        ]
        host = "host " if p.host else ""
        return " ".join([f"{host}{self.name(p.sym)}: {self.type(p.sym.type)}", *filter(None, facts)])

    def _initial(self, p: Param) -> str:
        t = scalar_of(p.sym.type)
        return f" init ({', '.join(self.value(n.Const(v, t), t) for v in p.init)})" if p.init else ""

    def launch(self, launch: Launch) -> str:
        return f"launch{self.clauses(launch)}"

    def clauses(self, launch: Launch | n.Launched) -> str:
        def dims(word: str, es: tuple[Expr, ...]) -> str:
            while len(es) > 1 and es[-1] == n.Const(1, I32):
                es = es[:-1]
            return f" {word}({self.exprs(es)})"

        text = dims("grid", launch.grid) + dims("block", launch.block)
        text += dims("cluster", launch.cluster) if isinstance(launch, Launch) and launch.cluster else ""
        clauses = {"shared": launch.dynamic_shared, "max_threads": launch.max_threads, "min_blocks": launch.min_blocks}
        for word, e in clauses.items():
            text += f" {word}({self.expr(e)})" if e is not None else ""
        return text

    def s_Launched(self, s: n.Launched, depth: int) -> list[str]:
        apart = f" restrict({', '.join(map(self.name, s.restrict))})" if s.restrict else ""
        return [f"launch {quote(s.kernel)}{self.clauses(s)}{apart}", *self.body(s.body, depth + 1)]

    def repeat(self, r: Repeat) -> str:
        counts = {"sweeps": r.sweeps, "launches": r.launches}
        more = "".join(f" {word} {n}" for word, n in counts.items() if n != 1)
        return f"repeat swap {', '.join(map(spell_name, r.swap))}{more}"

    def header(self, k: Kernel) -> list[str]:
        """Launch, knobs, constraints, assumptions, flags and trace, one a line."""
        lines = [self.launch(k.launch)] if k.launch else []
        for d in k.knobs:
            line = f"knob ${d.name} in {{{', '.join(map(str, d.domain))}}} default {d.default}"
            line += f" value {d.value}" if d.value is not None else ""
            line += f" owner {quote(d.owner)}" if d.owner else ""
            lines.append(line + (f" doc {quote(d.doc)}" if d.doc else ""))
        lines += [f"where {self.expr(c)}" for c in k.constraints]
        for a in k.assumptions:
            lines.append(f"assume {self.expr(a.expr)}" + (f" origin {a.origin}" if a.origin != "declared" else ""))
        lines += [f"flags {', '.join(sorted(map(spell_name, k.flags)))}"] if k.flags else []
        lines += [self.repeat(k.repeat)] if k.repeat else []
        stems = [f"{spell_name(name)}: {spell_name(stem)}" for name, stem in stems_to_say(k, self.names)]
        lines += [f"stems {', '.join(stems)}"] if stems else []
        return lines + [f"trace {quote(t)}" for t in k.trace] + [f"staging {quote(t)}" for t in k.staging]
