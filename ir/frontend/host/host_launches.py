"""Mining host code for launches: ``kernel<T><<<grid, block, shared, stream>>>(args)`` as expressions.

A host function is followed statement by statement with symbolic values. What cannot be followed (a tensor's size, a
variable changed in a branch) becomes a host parameter of that name, if a launch needs it.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from pycparser import c_ast

from ktc.ir.arith.integer_casts import without_casts, without_implicit_integers
from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import evaluate
from ktc.ir.frontend.lowering.calls.inline import params_of
from ktc.ir.frontend.lowering.lower_kernel import KernelLowering
from ktc.ir.frontend.meaning.cxx_types import DIM3, Auto, Pointer, Reference
from ktc.ir.frontend.meaning.device_properties import with_device_properties
from ktc.ir.frontend.meaning.name_meanings import LazyVal, OpaqueVal, TypeVal
from ktc.ir.frontend.meaning.values import Dim3Val, RVal, Value, VarPlace
from ktc.ir.frontend.syntax.cxx_ast import Alias, Construct, CxxCast
from ktc.ir.frontend.syntax.syntax_walk import descendants, replaced
from ktc.ir.frontend.syntax.variable_uses import init_args
from ktc.ir.kernel import Launch, Param
from ktc.ir.nodes import Const, Expr, Load, Sym, Unary, Var, VecMake, fresh, i32
from ktc.ir.types import BOOL, I32, I64, U32, Ptr, Scalar, Type, Vec
from ktc.ir.walk import substitute_expr, used, walk_expr

from .allocated_lengths import allocated_bytes
from .asserted_sizes import asserted_equal, is_check
from .filled_values import values_filled
from .followed_values import followed
from .host_assignments import with_begun, with_elements, with_members
from .host_calls import function_of_call, name_of_call, name_of_function_call, name_of_member, with_named_calls
from .host_code import uses
from .host_conditions import said_by
from .host_types import HostTypes
from .host_variables import host_variables, member_variables
from .launch_math import as_written, described, float_value, integer_form
from .launch_sites import LaunchSite
from .made_members import in_terms_of_each_other
from .own_methods import with_own_methods
from .same_memory import memory_of, same_memory
from .struct_arguments import Member, members, told, unchosen
from .tensors.object_extents import ObjectExtents
from .tensors.tensor_accessors import asked_as

UNNAMED = re.compile(r"unnamed\d+")
"""Names of parameters that have none, which nothing but their place speaks of: no number of the host is called so."""


class HostLaunch:
    """Turns one launch site into a ``Launch`` over a kernel's parameters."""

    def __init__(
        self,
        lowering: KernelLowering,
        site: LaunchSite,
        params: tuple[Param, ...],
        bindings: dict[str, Value],
        instance: Mapping[str, Value],
        whole: tuple[str, ...] = (),
    ) -> None:
        self.lowering = lowering
        self.site = site
        self.params = params
        self.bindings = bindings
        self.instance = instance
        """Host names that are template arguments of the launch, with what the kernel's instance has for them."""

        self.whole = whole or tuple(p.sym.name for p in params if not p.host)
        """The kernel's parameters as they were written, structs whole."""

        assert site.node is not None
        self.node = self._with_own_methods(site.node)
        self.host: dict[str, Sym] = {}
        self.busy: set[str] = set()
        self.in_grid = False
        """Whether the number of blocks is described: one that cannot be followed is a number of its own."""

        self.first: dict[str, Expr] = {}
        """Counters of the loops around the launch that its extents depend on, with their first values."""

        self.in_extents = False
        """Whether extents are described."""

        self.units: dict[str, int] = {}
        """Strides of tensors that are numbers: 1 of the innermost dimension."""

        self.describing = False
        """Whether what the launch passes is described: elements of arrays that are not known are numbers then."""

        self.extents: ObjectExtents | None = None
        """What objects' numbers of elements are, while what this launch passes is described."""

    def launch(self) -> tuple[Launch, tuple[Param, ...]]:
        """The launch, and the host parameters it needs.

        Raises:
            KtcError: E-LAUNCH-EXPR when a dimension is not an expression that can be followed.
        """
        with self._followed() as effects:
            given = (*self._constants(), *self._numbers())
            config = self.node.config
            self.in_grid = self.in_extents = True
            grid = self._dim3(config[0])
            self.in_grid = False
            block = self._dim3(config[1])
            shared = self._int(config[2]) if len(config) > 2 else None
            self.in_extents = False
            grid, block = self._inlined(grid, effects), self._inlined(block, effects)
            shared = self._inlined((shared,), effects)[0] if shared is not None else None
            self._know_extents()
            passed = tuple(in_terms_of_each_other(self._passed(effects), self._objects()))
            passed += tuple(self._counted(effects, {n for n, _ in passed}))
            given += tuple((n, v) for n, v in self.units.items() if n not in dict(given))
            asserted = dict(self._asserted(effects, {*dict(passed), *dict(given)}))
            given += tuple((n, int(e.value)) for n, e in asserted.items() if isinstance(e, Const))
            passed += tuple((n, e) for n, e in asserted.items() if not isinstance(e, Const))
            reals = tuple(self._reals(effects, {*dict(given)}))
            computed = {p.sym: e for p in self.params for n, e in passed if n == p.sym.name}
            reached = tuple(substitute_expr(integer_form(e), computed) for e in self._reached(effects))
            first = tuple((n, e) for n, e in self.first.items() if n not in {s.name for s in self.host.values()})
            rounds, allocated = tuple(self._rounds(effects)), tuple(self._allocated(effects))
        grid, block = (tuple(map(integer_form, dims)) for dims in (grid, block))  # type: ignore[assignment]
        shared = integer_form(shared) if shared is not None else None
        if isinstance(shared, Const) and shared.value == 0:
            shared = None
        host = tuple(Param(s, host=True) for s in self.host.values() if self._used(s, grid, block, shared))
        reached = tuple(e for e in reached if used(e) <= {p.sym for p in (*self.params, *host)})
        together = same_memory(self.pairs(), self.site.env)
        told = {"given": given, "passed": passed, "reached": reached, "together": together, "first": first,
                "filled": tuple(self._filled()), "rounds": rounds, "allocated": allocated, "reals": reals}  # fmt: skip
        return Launch(grid, block, shared, **told), host  # type: ignore[arg-type]

    def passed(self) -> tuple[tuple[str, Expr], ...]:
        """What this launch computes for parameters, and what numbers of the host that it depends on are."""
        with self._followed() as effects:
            self._know_extents()
            passed = tuple(in_terms_of_each_other(self._passed(effects), self._objects()))
            passed += tuple(self._counted(effects, {n for n, _ in passed}))
            return passed + tuple(self._asserted(effects, {*dict(passed)}))

    def numbers(self, but: Collection[Sym]) -> dict[str, int]:
        """The integers that this launch passes as numbers for parameters, none of those of ``but``."""
        found: dict[str, int] = {}
        with self._followed() as effects:
            for p, a in self.pairs():
                if p.sym in but or not isinstance(p.sym.type, Scalar) or not p.sym.type.is_int:
                    continue
                try:
                    (e,) = self._inlined((self._int(a),), effects)
                except KtcError:
                    continue
                found |= {p.sym.name: int(e.value)} if isinstance(e := integer_form(e), Const) else {}
        return found

    def reals(self, given: Collection[str]) -> tuple[tuple[str, Expr], ...]:
        """What this launch computes of integers for floating-point parameters, but those ``given`` a number."""
        with self._followed() as effects:
            self._know_extents()
            return tuple(self._reals(effects, given))

    @contextmanager
    def _followed(self) -> Iterator[list]:
        """The scope in which expressions of the launch mean what they do at it; what following them does."""
        low = self.lowering
        low.host_number, low.passed_over = self._number, is_check
        try:
            with self._scoped() as effects:
                yield effects
        finally:
            low.passed_over = None

    @contextmanager
    def _scoped(self) -> Iterator[list]:
        low, site = self.lowering, self.site
        with low.scoped(namespace=site.function.namespace) as scope, low.capture() as effects:
            scope.names.update(self.bindings)
            names = {p.name for p in params_of(site.function.node) if getattr(p, "name", None)} | {
                n for n in site.env if "." not in n
            }
            for name, decl in host_variables(low.program):
                scope.names[name] = LazyVal(partial(self._variable, name, decl))
            for name, decl in member_variables(site.host.around):
                scope.names[name] = LazyVal(partial(self._member, name, decl))
            for name in names | site.first.keys():
                scope.names[name] = LazyVal(partial(self.value, name))
            scope.names.update(self.instance)
            self._scope = scope
            self._kernel_args()
            self._packed(effects)
            yield effects
            effects.clear()

    def _inlined(self, parts: Any, effects: list) -> Any:
        """Expressions with the values put in that following host functions has given to their variables.

        Raises:
            KtcError: E-LAUNCH-EXPR if a part depends on a variable whose value cannot be told (one of a loop).
        """
        env = followed(tuple(effects), {})
        known = {p.sym for p in self.params} | set(self.host.values())
        out = tuple(substitute_expr(e, env) for e in parts)
        if any(not used(e) <= known for e in out):
            raise self._refuse(self.node, None)
        return out

    def _used(self, s: Sym, grid, block, shared) -> bool:
        return any(s in used(e) for e in (*grid, *block, *([shared] if shared is not None else [])))

    def _kernel_args(self) -> None:
        """Host variables, and what methods of host objects return, are the parameters they are passed for."""
        self.known: dict[str, Sym] = {}
        for whole, p, a in self._members():
            if isinstance(a, c_ast.ID):
                member = p.sym.name[len(whole) :]
                for way in (member, *asked_as(member)):
                    self.known.setdefault(a.name + way, p.sym)
        for p, a in self.pairs():
            while isinstance(a, c_ast.Cast):
                a = a.expr
            name = self._name_of(a)
            if name is None or not isinstance(p.sym.type, Scalar) or UNNAMED.fullmatch(p.sym.name):
                continue
            if not (p.sym.type.is_float and self._is_whole(name)):
                self.known.setdefault(name, p.sym)
        self._same_numbers()

    def _is_whole(self, name: str) -> bool:
        """Whether the host's variable ``name`` is an integer: where one is passed for a real number, that is not it."""
        t = HostTypes(self.lowering, self.site.declared).of(c_ast.ID(name))
        return isinstance(t, Scalar) and t.is_int

    def _same_numbers(self) -> None:
        """What is asked of tensors is the parameter that it is passed for, however it is spelled."""
        asked = self.objects.laid_out
        for name, sym in list(self.known.items()):
            for same in asked.spellings.get(name, ()):
                self.known.setdefault(same, sym)
        for p, a in self.pairs() if asked.libraries else ():
            if isinstance(p.sym.type, Ptr) and isinstance(elem := p.sym.type.elem, Scalar):
                asked.points_to(memory_of(a, self.site.env) or "", elem.bits // 8)

    def _packed(self, effects: list) -> None:
        """Numbers of the host that a function puts into a struct as they are, beside what it makes of them, are the
        parameters that the kernel has for these members."""
        made = [
            (p, a) for p, a in self.pairs() if isinstance(a, c_ast.StructRef) and isinstance(a.name, c_ast.FuncCall)
        ]
        for p, a in made:
            self.describing = True
            try:
                e = without_casts(self._inlined((self._int(a),), effects)[0])
            except KtcError:
                continue
            finally:
                self.describing = False
            if isinstance(e, Var) and (name := next((n for n, s in self.host.items() if s == e.sym), None)) is not None:
                self.known.setdefault(name, p.sym)

    @functools.cached_property
    def objects(self) -> ObjectExtents:
        """The tensors and vectors of the function that the launch is in."""
        return ObjectExtents(self.site.function, self.site.env)

    def _name_of(self, a: Any) -> str | None:
        """The name, in launch expressions, of an argument that is a variable, a member of an object, or what a method
        of one returns or is asked of a tensor; None for any other."""
        if isinstance(a, c_ast.ID):
            return str(a.name)
        return self.objects.laid_out.named(a) or name_of_call(a) or name_of_member(a)

    def pairs(self) -> Iterator[tuple[Param, Any]]:
        """Parameters with the argument that each is passed in, members of structs with what they are made of."""
        found = self._members()
        single = {p.sym.name: p for p in self.params if not p.host and p not in [x for _, x, _ in found]}
        yield from ((single[name], a) for name, a in zip(self.whole, self.node.args) if name in single)
        yield from told(found, self.site.env, self._along)

    def _along(self, tensor: Any, k: int, dimensions: int) -> Any:
        """The extent of a tensor that is passed along dimension ``k``, of so many."""
        return self.objects.along(tensor, k, dimensions)

    def _members(self) -> list[Member]:
        return members(self.params, self.whole, self.node.args)

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
            if isinstance(e, Const) and (self.objects.laid_out.libraries or self._is_of_dimensions(p)):
                self.units[p.sym.name] = int(e.value)
            if isinstance(e, Const) or p.sym in used(e) or own:
                continue
            taken[p.sym] = e
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
            there = HostLaunch(self.lowering, dataclasses.replace(self.site, env=c.env), self.params, self.bindings,
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
                    if used(e) and _closed(e):
                        yield e if holds else Unary("!", e)

    def _know_extents(self) -> None:
        """From here on objects' numbers of elements mean what they are products of; a single extent is the kernel's
        parameter that it is passed as."""
        self.describing = True
        begun = {v: _begun(d, self.site.env) for v, d in self.site.env.items()}
        self.extents = self.objects = ObjectExtents(self.site.function, begun)
        self._same_numbers()
        for tensor, by in self.objects.laid_out.divided(begun.values()):
            width = self._value(by)
            if isinstance(width, RVal) and isinstance(n := width.expr, Const):
                self.objects.laid_out.widths.setdefault(tensor, int(n.value))
        for name, sym in list(self.known.items()):
            node = self.extents.product(name)
            if isinstance(node, c_ast.ID):
                self.known.setdefault(node.name, sym)

    def _product(self, name: str) -> Any:
        node = self.extents.product(name) if self.extents is not None else None
        for x in (node, *descendants(node)) if node is not None else ():
            if isinstance(x, c_ast.ID) and x.name not in self._scope.names:
                self._scope.names[x.name] = LazyVal(partial(self.value, x.name))
        return node

    def _constants(self) -> Iterator[tuple[str, int]]:
        """Integer parameters and truths that this launch passes a constant for; members of other structs are sizes, if
        not 0."""
        fixed = {*self.whole, *unchosen(self._members(), self.site.env)}
        for p, a in self.pairs():
            named = isinstance(a, c_ast.ID) and (a.name in self.instance or self._is_constant(a.name))
            plain = isinstance(_unsigned(a), c_ast.Constant)
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

    def value(self, name: str) -> Value:
        """What a host name means in launch expressions."""
        if name in self.known and not self._is_constant(name):
            return RVal(Var(self.known[name]))
        if name in self.busy:
            return self._opaque(name, None)
        decl = self._product(name) or self.site.env.get(name)
        if decl is None and name in self.site.first:
            return self._first(name)
        self.busy.add(name)
        try:
            return self._parameter(name) if decl is None else self._follow(name, decl)
        finally:
            self.busy.discard(name)

    def _variable(self, name: str, decl: Any) -> Value:
        """An integer at file scope that the host sets: the parameter that it is passed for, or a number of its own.

        Raises:
            KtcError: E-LAUNCH-EXPR, it is no integer, or it is not passed and another variable is made of it: that is a
                number then, as several that nobody knows say less than one.
        """
        t = self.lowering.resolve(decl.type)
        if not isinstance(t, Scalar) or not t.is_int or (self.busy and name not in self.known):
            raise self._refuse(self.node, None)
        return RVal(Var(self.known[name])) if name in self.known else self._opaque(name, t)

    def _member(self, name: str, decl: Any) -> Value:
        """An integer of the object whose method launches.

        Raises:
            KtcError: E-LAUNCH-EXPR, it is no integer.
        """
        t = self._type_of(decl.type)
        if not isinstance(t, Scalar) or not t.is_int:
            raise self._refuse(self.node, None)
        return self._number(name, t)

    def _first(self, name: str) -> Value:
        """What the counter ``name`` of a loop around the launch is: in extents, what it starts from; elsewhere a number
        of the host, or, of a variable that only the loop has, nothing.

        Raises:
            KtcError: E-LAUNCH-EXPR, a variable of the loop is asked for outside of extents.
        """
        if not self.in_extents:
            if name in self.site.env:
                return self._parameter(name)
            raise self._refuse(self.node, None)
        self.busy.add(name)
        try:
            e = self._int(self.site.first[name])
        finally:
            self.busy.discard(name)
        self.first[name] = e
        return RVal(e)

    def _is_constant(self, name: str) -> bool:
        """Whether ``name`` is a number's, or that of a copy of one: ``int step = 2; const int window = step;``."""
        seen: set[str] = set()
        while isinstance(decl := self.site.env.get(name), c_ast.Decl) and name not in seen:
            seen.add(name)
            init = _unsigned(decl.init)
            if not isinstance(init, c_ast.ID):
                return isinstance(init, c_ast.Constant)
            name = init.name
        return False

    def _follow(self, name: str, decl: Any) -> Value:
        low = self.lowering
        if isinstance(decl, Alias | c_ast.Typedef):
            return TypeVal(low.resolve(decl.type))
        init = decl.init if isinstance(decl, c_ast.Decl) else decl
        t = self._type_of(decl.type) if isinstance(decl, c_ast.Decl) and decl.type is not None else Auto()
        if t == DIM3 or (isinstance(t, Vec) and t.n == 3 and t.elem in (I32, U32) and init is not None):
            whole = self._dim3_value(init)
            return Dim3Val(*(self._extent(f"{name}.{a}", e) for a, e in zip("xyz", (whole.x, whole.y, whole.z))))
        if init is None:
            return self._opaque(name, t)
        try:
            args = init_args(init)
            if len(args) > 1:
                return self._opaque(name, t)
            v = self._evaluated(args[0]) if args else low.zero(t)
            if isinstance(v, RVal) and isinstance(t, Scalar):
                v = RVal(without_implicit_integers(low.convert(v, t).expr))
            if isinstance(v, RVal) and not _closed(v.expr):
                return self._opaque(name, t)
            if isinstance(v, RVal | Dim3Val):
                return v
        except KtcError:
            pass
        return self._opaque(name, t)

    def _extent(self, key: str, begun: Expr) -> Expr:
        """What a member of a ``dim3`` is at the launch: what was assigned to it, a host parameter of its name where
        that is not known, or what it has ``begun`` with."""
        if key not in self.site.env:
            return begun
        value = with_members(self.site.env[key], key.partition(".")[0], self.site.env)
        return self._int(value) if value is not None else self._unknown(key.replace(".", "_"))

    def _unknown(self, name: str) -> Expr:
        return Var(self.host.setdefault(name, fresh(name, I32)))

    def _evaluated(self, node: Any) -> Value:
        """What a variable is initialised with, members of structs that the kernel is passed as its parameters.

        Raises:
            KtcError: it cannot be followed.
        """
        low = self.lowering
        node = self._with_elements(node)
        try:
            v = low.load(low.eval(node))
            return RVal(Var(self.known[v.name])) if isinstance(v, OpaqueVal) and v.name in self.known else v
        except KtcError:
            members: set[str] = set()
            named = with_named_calls(node, members, self.known)
            told = members & self.known.keys()
            if low.rank is None and (not told or (told != members and self.extents is None)):
                raise  # a launch is made of what is known; its arguments may be described with names of their own
            self._scope.names.update({n: LazyVal(partial(self.value, n)) for n in members})
            return low.load(low.eval(named))

    def _parameter(self, name: str) -> Value:
        for p in params_of(self.site.function.node):
            if getattr(p, "name", None) == name:
                t = self._type_of(p.type)
                return self._opaque(name, t.elem if isinstance(t, Reference) else t)
        declared = self.site.declared.get(name)
        has_axes = isinstance(declared, c_ast.Decl) and self._type_of(declared.type) == DIM3
        return self._opaque(name, DIM3 if has_axes else None)

    def _type_of(self, declared: Any) -> Type:
        """The type that a declarator of the host says, a pointer where it is one to a type that is not known here."""
        try:
            return self.lowering.resolve(declared)
        except KtcError:
            return Pointer(Auto()) if type(declared) is c_ast.PtrDecl else Auto()

    def _number(self, name: str, t: Scalar) -> Value:
        """A number that is a member of a host object: the parameter that it is passed for, or one of its own."""
        return RVal(Var(self.known[name])) if name in self.known else self._opaque(name, t)

    def _opaque(self, name: str, t: Type | None) -> Value:
        if name in (asked := self.objects.laid_out).spellings:
            name, t = asked.shown(name), I64
        if t is None or isinstance(t, Auto) or (isinstance(t, Scalar) and not t.is_float):
            t = t if isinstance(t, Scalar) else I32
        if isinstance(t, Scalar):
            if name not in self.host:
                taken = {p.sym.name for p in self.params}
                self.host[name] = fresh(f"{name}_host" if name in taken else name, t)
            return VarPlace(self.host[name])
        return OpaqueVal(name, None if isinstance(t, Pointer) else t, t.elem if isinstance(t, Pointer) else t)

    # ------------------------------------------------------------------ dimensions
    def _dim3(self, node: Any) -> tuple[Expr, Expr, Expr]:
        v = self._dim3_value(node)
        return (v.x, v.y, v.z)

    def _dim3_value(self, node: Any) -> Dim3Val:
        low = self.lowering
        if node is None:
            return Dim3Val(i32(1), i32(1), i32(1))
        node = self._with_elements(node)
        while isinstance(node, c_ast.Cast | CxxCast) and self._type_of(node.to_type) == DIM3:
            node = node.expr  # (dim3)blocks
        args = init_args(node)
        if len(args) > 1 or (len(args) == 1 and args[0] is not node):
            whole = self._value(args[0]) if len(args) == 1 else None
            if isinstance(whole, Dim3Val):
                return whole
            parts = [self._int(a) for a in args]
            return Dim3Val(*(parts + [i32(1)] * 3)[:3])
        try:
            v = low.load(low.eval(node))
        except KtcError as error:
            return self._dim3_value(self._named(node, error))
        if isinstance(v, Dim3Val):
            return Dim3Val(*(as_written(e) for e in (v.x, v.y, v.z)))
        if isinstance(v, RVal) and isinstance(v.expr, VecMake):  # a uint3
            return Dim3Val(*([*v.expr.args, i32(1), i32(1)])[:3])
        if isinstance(v, RVal) and isinstance(v.expr.type, Scalar):
            return Dim3Val(self._int(node), i32(1), i32(1))
        if isinstance(v, OpaqueVal):
            return Dim3Val(*(self._unknown(f"{v.name}_{a}") for a in "xyz"))
        raise self._refuse(node, None)

    def _named(self, node: Any, why: KtcError) -> Any:
        """``node``, which cannot be followed for ``why``, with names in the place of calls of host objects' methods."""
        calls: set[str] = set()
        named = with_named_calls(node, calls, self.known, self._is_unknown, self.describing)
        if not calls:
            raise self._refuse(node, why) from None
        for n in calls - self._scope.names.keys():
            self._scope.names[n] = LazyVal(partial(self.value, n))
        return named

    def _is_unknown(self, call: Any) -> bool:
        """Whether ``call`` is a number of blocks that a function makes which cannot be followed, or is of another file:
        its name stands for what it returns."""
        if not self.in_grid or self._value(call) is not None:
            return False
        if self._returned(call) == DIM3:
            name = name_of_function_call(call)
            self._scope.names[name] = OpaqueVal(name, DIM3)
        return True

    def _returned(self, call: Any) -> Type | None:
        """What a function returns that the file has at least a declaration of; None if it has none."""
        name = function_of_call(call).rpartition("::")[2]
        for e in self.lowering.program.functions.get(name, []):
            try:
                return self.lowering.resolve(e.node.decl.type.type)
            except KtcError:
                continue
        return None

    def _value(self, node: Any) -> Value | None:
        try:
            return self.lowering.load(self.lowering.eval(node))
        except KtcError:
            return None

    def _with_own_methods(self, node: Any) -> Any:
        taken = {getattr(p, "name", None) or "" for p in params_of(self.site.function.node)}
        return with_own_methods(node, self.site.host.around, {*taken, *self.site.env, *self.site.declared})

    def _with_elements(self, node: Any) -> Any:
        node = with_device_properties(self._with_own_methods(node))
        node = with_elements(node, self.site.env, self.site.declared)
        return self._with_tensors(with_begun(node, self.site.env) if self.extents is not None else node)

    def _with_tensors(self, node: Any) -> Any:
        """A copy of an expression with names in the place of what it asks of tensors."""
        asked = self.objects.laid_out

        def named(n: Any) -> Any | None:
            name = asked.named(n)
            if name and name not in self._scope.names:
                self._scope.names[name] = LazyVal(partial(self.value, name))
            return c_ast.ID(name, n.coord) if name else None

        return replaced(node, named) if asked.libraries else node

    def _int(self, node: Any) -> Expr:
        low = self.lowering
        node = self._with_elements(node)
        try:
            e = without_implicit_integers(low.rvalue(low.eval(node), node).expr)
        except KtcError as error:
            return self._int(self._named(node, error))
        if not _closed(e):
            raise self._refuse(node, None)
        return e

    def _refuse(self, node: Any, cause: KtcError | None) -> KtcError:
        why = f": {cause.message}" if cause is not None else ""
        return KtcError("E-LAUNCH-EXPR", f"this launch dimension cannot be followed{why}",
        self.lowering.place(node) or self.site.loc,
                        hint="give [launch] grid and block in workload.toml")  # fmt: skip


def _begun(held: Any, env: Mapping[str, Any]) -> Any:
    """A declaration whose initialiser is made of arrays as they are where no branch has changed them."""
    if not isinstance(held, c_ast.Decl) or held.init is None:
        return held
    init = with_begun(held.init, dict(env))
    return c_ast.Decl(held.name, [], [], [], [], held.type, init, None)


def _number_of(e: Expr) -> Expr:
    """``e``, or the integer that it comes to where it is made of numbers alone."""
    value = None if isinstance(e, Const) or used(e) or not isinstance(e.type, Scalar) else evaluate(e, {})
    return e if value is None or not isinstance(t := e.type, Scalar) else Const(int(value), t)


def _number(node: Any) -> int | None:
    """The integer that ``node`` is written as; None if it is something else."""
    plain = _unsigned(node)
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


def _unsigned(node: Any) -> Any:
    """``node`` without the sign before it."""
    return node.expr if isinstance(node, c_ast.UnaryOp) and node.op in "+-" else node


def _closed(e: Expr) -> bool:
    """Whether a launch expression has only parameters, constants and integer functions."""
    return not any(isinstance(x, Load) for x in walk_expr(e))


__all__ = ["HostLaunch", "LaunchSite"]
