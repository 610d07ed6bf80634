"""What a launch says of the kernel's parameters beside its extents: what it passes, in sizes and in numbers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Any

from pycparser import c_ast

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import evaluate
from ktc.ir.frontend.host.asserted_sizes import asserted_equal
from ktc.ir.frontend.host.filled_values import values_filled
from ktc.ir.frontend.host.host_calls import (
    name_of_call,
)
from ktc.ir.frontend.host.host_code import uses
from ktc.ir.frontend.host.host_conditions import said_by
from ktc.ir.frontend.lowering.calls.inline import params_of
from ktc.ir.frontend.meaning.name_meanings import LazyVal
from ktc.ir.frontend.meaning.values import RVal
from ktc.ir.frontend.syntax.cxx_ast import Construct, CxxCast
from ktc.ir.kernel import Param
from ktc.ir.nodes import Binary, Const, Expr, Sym, Unary, Var
from ktc.ir.types import BOOL, Ptr, Scalar
from ktc.ir.walk import substitute_expr, used, walk_expr

from .allocated_lengths import allocated_bytes
from .launch_arguments import LaunchArguments
from .launch_math import described, float_value, integer_form
from .names_at_launch import is_closed, unsigned
from .struct_arguments import unchosen


class PassedValues(LaunchArguments):
    """What one launch passes."""

    def _passed(self, effects: list) -> Iterator[tuple[str, Expr]]:
        """Integer parameters that this launch computes, n * c * h * w, or passes what another one gets."""
        taken: dict[Sym, Expr] = {}
        passed_too = {p.sym for p in self.params if not p.host}
        for p, a in self.pairs():
            if not isinstance(p.sym.type, Scalar) or not p.sym.type.is_int:
                continue
            name = self._name_of(a)
            if name is not None and self.objects.factor_of(name) & self.known.keys():
                continue  # ``k = x.numel() / n``, beside what ``x.numel()`` is passed for: that is ``n * k``
            mine = name is not None and self.known.get(name) == p.sym
            told = name in self.site.env or self._product(name or "") is not None
            if mine and (not told or self._is_constant(name or "")):
                continue
            if mine:
                del self.known[name or ""]  # what is behind its own name
            try:
                e = described(self._inlined((self._int(a),), effects)[0])
            except KtcError:
                continue
            finally:
                if mine:
                    self.known[name or ""] = p.sym
            itself = not self.objects.laid_out.libraries or (isinstance(e, Var) and self.host.get(name or "") == e.sym)
            own = mine and isinstance(e, Var) and e.sym not in passed_too and itself  # a number by another name
            e = _number_of(substitute_expr(e, taken))
            none = isinstance(e, Const) and e.value == 0  # an offset that comes to nothing is no size
            if isinstance(e, Const) and (none or self.objects.laid_out.libraries or self._is_of_dimensions(p)):
                self.units[p.sym.name] = int(e.value)
            if isinstance(e, Const) or p.sym in used(e) or own:
                continue
            taken[p.sym] = e
            yield p.sym.name, e
        yield from self._rests(effects, {s for e in taken.values() for s in used(e)} | passed_too)

    def _rests(self, effects: list, told: Collection[Sym]) -> Iterator[tuple[str, Expr]]:
        """Truths about what a number leaves, ``count & 1``, ``n % 4 != 0``, of numbers that are ``told`` anyway: what
        else a flag may say is no matter of sizes."""
        for p, a in self.pairs():
            name = self._name_of(a) or ""
            if p.sym.type != BOOL or (name in self.known and name not in self.site.env):
                continue
            mine = self.known.pop(name, None)  # what is behind its own name
            try:
                e = without_casts(described(self._inlined((self._int(a),), effects)[0]))
            except KtcError:
                continue
            finally:
                if mine is not None:
                    self.known[name] = mine
            rests = [x for x in walk_expr(e) if isinstance(x, Binary) and x.op in ("%", "&")]
            if rests and used(e) and used(e) <= {*told}:
                yield p.sym.name, e

    def _is_of_dimensions(self, p: Param) -> bool:
        """Whether ``p`` is a member of a struct, where the number of dimensions is supposed: with that, a stride may
        come to a number."""
        return self.lowering.rank is not None and p.sym.name not in self.whole

    def _objects(self) -> dict[str, tuple[int, Sym]]:
        """The parameters that are members of an object which the host makes with arguments."""
        made = ((p, a.name) for p, a in self.pairs() if isinstance(a, c_ast.StructRef))
        return {p.sym.name: (id(o), p.sym) for p, o in made if isinstance(o, Construct | c_ast.FuncCall)}

    def _reals(self, effects: list, given: Collection[str]) -> Iterator[tuple[str, Expr]]:
        """Floating-point parameters that this launch computes of integers: ``1.0f / n``, ``(float)out / in``."""
        for p, a in self.pairs():
            t = p.sym.type
            if not isinstance(t, Scalar) or not t.is_float or p.sym.name in given or p.host:
                continue
            name = self._name_of(a) or ""
            if name in self.known and name not in self.site.env:
                continue  # what the host function is passed
            mine = self.known.pop(name, None)  # what is behind its own name
            try:
                (e,) = self._inlined((self._int(a),), effects)
            except KtcError:
                continue
            finally:
                if mine is not None:
                    self.known[name] = mine
            if used(e) and not (isinstance(e, Var) and e.type == t):  # a number that the host has
                yield p.sym.name, e

    def _counted(self, effects: list, taken: set[str]) -> Iterator[tuple[str, Expr]]:
        """Numbers of the host that this launch depends on and that are an object's number of elements."""
        for name, sym in list(self.host.items()):
            node = self._product(name)
            if node is None or sym.name in taken:
                continue
            try:
                e = described(self._inlined((self._int(node),), effects)[0])
            except KtcError:
                continue
            if sym not in used(e):
                yield sym.name, e

    def _rounds(self, effects: list) -> Iterator[tuple[str, Expr, Expr, Expr]]:
        """Integer parameters that are counters of loops around the launch, with their values there: the least, where
        they end, and how far apart they are."""
        for name, r in self.site.rounds.items():
            sym = self.known.get(name)
            if sym is None:
                continue
            try:
                least, end, step = self._inlined([self._int(x) for x in (r.least, r.end, r.step)], effects)
            except KtcError:
                continue
            if not any(sym in used(e) for e in (least, end, step)):
                yield sym.name, integer_form(least), integer_form(end), integer_form(step)

    def _allocated(self, effects: list) -> Iterator[tuple[str, Expr]]:
        """Buffers with the bytes that the host function allocates for them, where that is made of the same values."""
        for p, a in self.pairs():
            while isinstance(a, c_ast.Cast | CxxCast):
                a = a.expr
            node = allocated_bytes(self.site.function.node, a.name) if isinstance(a, c_ast.ID) else None
            if node is None or not isinstance(p.sym.type, Ptr):
                continue
            try:
                yield p.sym.name, integer_form(self._inlined((self._int(node),), effects)[0])
            except KtcError:
                continue

    def _asserted(self, effects: list, told: Collection[str]) -> Iterator[tuple[str, Expr]]:
        """Integer parameters, none of those ``told``, that the host asserts to be numbers, or what others are:
        ``assert(heads * 64 == channels)``."""
        computed, taken = {*told}, set[Sym]()
        for a, b in asserted_equal(self.site.function.node):
            for name, other in ((self._name_of(a), b), (self._name_of(b), a)):
                sym = self.known.get(name or "")
                if sym is None or sym.name in computed or sym in taken:
                    continue
                if (same := name_of_call(other)) and same not in self.known.keys() | self.host.keys():
                    self.known[same] = sym  # another name for it, of which nothing else is known
                    continue
                try:
                    e = described(self._inlined((self._int(other),), effects)[0])
                except KtcError:
                    continue
                if sym in used(e) or any(s.name in computed for s in used(e)):
                    continue
                computed.add(sym.name)
                taken |= used(e)
                yield sym.name, e
                break

    def _reached(self, effects: list) -> Iterator[Expr]:
        """The conditions on numbers that lead to the launch, as far as they can be followed. A variable that gets
        another value behind one is not yet what the launch passes."""
        for c in self.site.reached:
            there = type(self)(self.lowering, dataclasses.replace(self.site, env=c.env), self.params, self.bindings,
                               self.instance, self.whole)  # fmt: skip
            there.known = {n: s for n, s in self.known.items() if c.env.get(n) is self.site.env.get(n)}
            there.host, there._scope = dict(self.host), self._scope
            with self.lowering.scoped() as scope:
                names = {n for n in c.env if "." not in n} - self.instance.keys()
                scope.names.update({n: LazyVal(partial(there.value, n)) for n in names})
                for cond, holds in said_by(c.cond, c.holds):
                    try:
                        (e,) = self._inlined((self.lowering.condition(cond),), effects)
                    except KtcError:
                        continue
                    if used(e) and is_closed(e):
                        yield e if holds else Unary("!", e)

    def _constants(self) -> Iterator[tuple[str, int]]:
        """Integer parameters and truths that this launch passes a constant for; members of other structs are sizes, if
        not 0."""
        fixed = {*self.whole, *unchosen(self._members(), self.site.env)}
        for p, a in self.pairs():
            named = isinstance(a, c_ast.ID) and (a.name in self.instance or self._is_constant(a.name))
            plain = isinstance(unsigned(a), c_ast.Constant)
            t = p.sym.type
            if (
                (named or plain)
                and (p.sym.name in fixed or _number(a) == 0)
                and isinstance(t, Scalar)
                and (t.is_int or t == BOOL)
            ):
                e = self._int(a)
                if isinstance(e, Const) and math.isfinite(e.value):
                    yield p.sym.name, int(bool(e.value) if t == BOOL else e.value)
            elif p.sym.name in self.whole and (n := self._by_all_callers(a)) is not None:
                yield p.sym.name, n

    def _by_all_callers(self, a: Any) -> int | None:
        """The number that is no size, 0 or less, which every call in the file passes for ``a``, a parameter of the host
        function; None if there is none."""
        named = [getattr(p, "name", None) for p in params_of(self.site.function.node)]
        if not isinstance(a, c_ast.ID) or a.name not in named or a.name in self.site.env:
            return None
        at, found = named.index(a.name), set[int | None]()
        for use in uses(self.lowering, frozenset({self.site.function.name})):
            given = use.call[at] if use.call is not None and at < len(use.call) else None
            found.add(_number(_unless_there(given, use.env)))
        (n,) = found if len(found) == 1 else (None,)
        return n if n is not None and n <= 0 else None

    def _filled(self) -> Iterator[tuple[str, int, int]]:
        """Buffers of integers with the least and the largest number that the host puts into them."""
        for p, a in self.pairs():
            elem = p.sym.type.elem if isinstance(p.sym.type, Ptr) else None
            whole = isinstance(elem, Scalar) and elem.is_int
            if whole and (span := values_filled(self.lowering, self.site.function, a)) is not None:
                yield p.sym.name, *span

    def _numbers(self) -> Iterator[tuple[str, float]]:
        """Floating-point parameters that this launch passes a number for: a literal, or a name for one."""
        for p, a in self.pairs():
            if p.sym.name not in self.whole or not isinstance(p.sym.type, Scalar) or not p.sym.type.is_float:
                continue
            name = a.name if isinstance(a, c_ast.ID) else ""
            mine = self.known.pop(name, None)  # what is behind its own name
            try:
                v = self._value(a)
            finally:
                if mine is not None:
                    self.known[name] = mine
            number = float_value(v.expr) if isinstance(v, RVal) else None
            if number is not None:
                yield p.sym.name, number


def _number_of(e: Expr) -> Expr:
    """``e``, or the integer that it comes to where it is made of numbers alone."""
    value = None if isinstance(e, Const) or used(e) or not isinstance(e.type, Scalar) else evaluate(e, {})
    return e if value is None or not isinstance(t := e.type, Scalar) else Const(int(value), t)


def _number(node: Any) -> int | None:
    """The integer that ``node`` is written as; None if it is something else."""
    plain = unsigned(node)
    if not isinstance(plain, c_ast.Constant) or "int" not in plain.type:
        return None
    digits = plain.value.rstrip("uUlL")
    number = int(digits, 8) if digits.isdigit() and digits.startswith("0") else int(digits, 0)
    return -number if plain is not node and node.op == "-" else number


def _unless_there(node: Any, env: Mapping[str, Any]) -> Any:
    """``node``, a variable that has another value only where a pointer is not null, as what it is where there is none:
    0 of ``int stride = 0; if (rows != nullptr) stride = ..;``."""
    held = env.get(node.name) if isinstance(node, c_ast.ID) else None
    chosen = held.init if isinstance(held, c_ast.Decl) else held
    if not isinstance(chosen, c_ast.TernaryOp) or not isinstance(chosen.cond, c_ast.BinaryOp):
        return node
    sides = {getattr(side, "name", getattr(side, "value", "")) for side in (chosen.cond.left, chosen.cond.right)}
    return chosen.iffalse if chosen.cond.op == "!=" and sides & {"nullptr", "NULL"} else node


__all__ = ["PassedValues"]
