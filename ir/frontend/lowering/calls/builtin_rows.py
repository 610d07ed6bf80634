"""Choosing a row of ``ktc.ir.builtins`` for a call's arguments, and converting them to it."""

from __future__ import annotations

from typing import Any

from ktc.ir.builtins import ANY_ARGUMENTS, Builtin
from ktc.ir.fold import common_type
from ktc.ir.frontend.meaning.cxx_types import Pointer, show
from ktc.ir.frontend.meaning.templates import rank
from ktc.ir.frontend.meaning.values import Value
from ktc.ir.nodes import (
    Const,
    Expr,
)  # fmt: skip
from ktc.ir.types import F32, F64, I32, Scalar, Type

from .tensor_calls import TensorCalls


class BuiltinRows(TensorCalls):
    """Rows of built-ins: the cheapest for given arguments."""

    def best_row(self, rows: tuple[Builtin, ...], args: list[Value]) -> tuple[Builtin | None, int]:
        """The cheapest row for ``args``, and what it costs."""
        best, cost = None, 0
        for row in rows:
            c = self._row_cost(row, args)
            if c is not None and (best is None or c < cost):
                best, cost = row, c
        return best, cost

    def _row_cost(self, row: Builtin, args: list[Value]) -> int | None:
        if row.kind in ANY_ARGUMENTS:
            return 0
        if not row.required <= len(args) <= len(row.params):
            return None
        total = 0
        for p, a in zip(row.params, args):
            t = self.type_of(a)
            if p.pointer:
                if not isinstance(t, Pointer):
                    return None
                continue
            if isinstance(t, Pointer):
                return None
            if p.type == "H":
                if not (isinstance(t, Scalar) and t.is_float):
                    return None
                total += 0 if t.bits == 16 else 5
            elif p.type in ("F", "A"):
                if not isinstance(t, Scalar):
                    return None
                total += 3 if p.type == "F" and not t.is_float else 0
            elif not isinstance(p.type, str):
                c = rank(t, p.type)
                if c is None:
                    return None
                total += c
        return total

    def _converted(self, row: Builtin, args: list[Value], node: Any) -> tuple[list[Expr], dict[str, Type]]:
        """Arguments converted to the row's parameter types, with letters resolved; defaults filled in."""
        letters: dict[str, Type] = {}
        for p, a in zip(row.params, args):
            if isinstance(p.type, str) and not p.pointer:
                t = self.rvalue(a, node).type
                letters[p.type] = t if p.type not in letters else self._join(p.type, letters[p.type], t, node)
        if isinstance(letters.get("F"), Scalar):
            f = letters["F"]
            assert isinstance(f, Scalar)
            letters["F"] = f if f in (F32, F64) else (F32 if f.is_float else F64)
        if "A" in letters and isinstance(letters["A"], Scalar) and not letters["A"].is_float:
            letters["A"] = common_type(letters["A"], I32)
        if "H" in letters and isinstance(letters["H"], Scalar) and letters["H"].bits != 16:
            self.fail("E-SEMA-OVERLOAD", f"'{row.name}' needs half or bfloat16 arguments", node)
        out: list[Expr] = []
        for i, p in enumerate(row.params):
            t = letters[p.type] if isinstance(p.type, str) else p.type
            if i < len(args):
                v = self.rvalue(args[i], node)
                out.append(self.convert(v, t, "implicit", node).expr)
            elif p.default is not None and isinstance(t, Scalar):
                out.append(Const(p.default, t))
        return out, letters

    def _join(self, letter: str, a: Type, b: Type, node: Any) -> Type:
        if a == b:
            return a
        if isinstance(a, Scalar) and isinstance(b, Scalar):
            if letter == "H":
                return a if a.bits == 16 else b
            if letter == "F" and a.is_float != b.is_float:
                return (
                    F64
                    if (b if a.is_float else a).bits >= 8 and (a if a.is_float else b) == F64
                    else (F64 if letter == "F" else a)
                )
            return self.common(a, b, "()", node)
        self.fail("E-SEMA-OVERLOAD", f"arguments of types '{show(a)}' and '{show(b)}' do not agree", node)

    def _result(self, row: Builtin, letters: dict[str, Type]) -> Type:
        return letters[row.ret] if isinstance(row.ret, str) else row.ret
