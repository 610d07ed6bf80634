"""Declarations, assignments and stores as C text."""

from __future__ import annotations

from collections.abc import Callable

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Binary,
    Call,
    Cast,
    Decl,
    Eval,
    Expr,
    Load,
    Store,
    Var,
    accessed_type,
)
from ktc.ir.types import Array, Scalar, Type, Vec, scalar_of
from ktc.ir.walk import expressions, used, walk, walk_expr

from .c_dialect import Dialect
from .c_expressions import PLAIN, Exprs
from .conversion_rules import is_constant, is_int32
from .piece import BINARY_PREC
from .symbol_names import Names


class DataStatements:
    """Prints what declares and writes, for one dialect and one kernel."""

    def __init__(self, dialect: Dialect, kernel: Kernel) -> None:
        self.d = dialect
        self.kernel = kernel
        called = {name for e in expressions(kernel.body) if isinstance(e, Call) and (name := dialect.called_name(e))}
        self.names = Names([*dialect.reserved, *called, *(k.name for k in kernel.knobs), kernel.name])
        self.x = Exprs(dialect, self.names)
        dialect.exprs = self.x
        self.dynamic: list[tuple[Alloc, str, str]] = []

    def _decl(self, s: Decl) -> list[str]:
        t = s.sym.type
        if s.init is None:
            name = self.names.declare(s.sym)
            return [f"{self.d.type_name(t)} {name}{self.extents(t)};"]
        text = self.x.assigned(s.init, t)
        start = self.x.piece(s.init)
        constant = s.const and is_constant(s.init) and all(map(_is_int, (t, *(x.type for x in walk_expr(s.init)))))
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
            return [] if self.dynamic else self._dynamic_arrays()
        if t.space == "shared":
            return self.d.shared_array(s, self.names.declare(s.sym), self.extents(t))
        align = f"{self.d.alignas(s.align)} " if s.align else ""
        return [f"{align}{self.d.type_name(t)} {self.names.declare(s.sym)}{self.extents(t)};"]

    def _dynamic_arrays(self) -> list[str]:
        """All of them at the first, in order: their offsets chain."""
        found = [a for a in walk(self.kernel.body) if isinstance(a, Alloc) and a.dynamic]
        for a in found:
            t = a.sym.type
            assert isinstance(t, Array)
            extents = t.shape if a is not found[-1] else ()  # the last one's extent is the launch's business
            for unknown in sorted({v.name for n in extents for v in used(n) if not self.names.has(v)}):
                self.d.loc = a.loc or self.d.loc
                message = f"the place after '{a.sym.name}' depends on '{unknown}', a host value"
                self.d.refuse("SHARED", message, "make it a parameter of the kernel")
            size = " * ".join(self.x.piece(n).at(BINARY_PREC["*"]) for n in extents)
            self.dynamic.append((a, self.names.declare(a.sym), size))
            self.d.flat.add(a.sym)
        return self.d.dynamic_arrays(self.dynamic)

    def _assign(self, s: Assign) -> list[str]:
        return [self.update(self.names.of(s.sym), s.value, s.sym.type, lambda e: isinstance(e, Var) and e.sym == s.sym)]

    def update(self, place: str, value: Expr, t: Type, is_place: Callable[[Expr], bool]) -> str:
        """``place = value;``, as ``place op= e;`` when that says the same."""
        compound = self._compound(value, t, is_place)
        return f"{place} {compound};" if compound else f"{place} = {self.x.assigned(value, t)};"

    def _compound(self, value: Expr, t: Type, is_place: Callable[[Expr], bool]) -> str | None:
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
        byte = self.d.is_byte(s.buffer)
        if not s.cache and not byte:
            compound = self._compound(s.value, t2, lambda e: e == Load(s.buffer, s.index))
            if compound:
                return [f"{place} {compound};"]
        if s.cache == "volatile":
            place = self.d.volatile_place(s.buffer, place, t2)
        value = self.x.exact(s.value).text if byte else self.x.assigned(s.value, t2)
        return [self.d.store(s.buffer, place, value, t2, s.cache)]

    def _eval(self, s: Eval) -> list[str]:
        return [self.x.text(s.value) + ";"]


def _is_int(t: Type) -> bool:
    return isinstance(t, Scalar) and t.is_int
