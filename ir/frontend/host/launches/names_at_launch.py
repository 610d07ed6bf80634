"""What host names and expressions mean at a launch: integers over the kernel's parameters and numbers of the host.

What cannot be followed (a tensor's size, a variable changed in a branch) is a number of that name.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from functools import partial
from typing import Any

from pycparser import c_ast

from ktc.ir.arith.integer_casts import without_implicit_integers
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.context import Scope
from ktc.ir.frontend.host.host_assignments import with_begun, with_elements, with_members
from ktc.ir.frontend.host.host_calls import (
    with_named_calls,
)
from ktc.ir.frontend.host.launch_sites import LaunchSite
from ktc.ir.frontend.host.own_methods import with_own_methods
from ktc.ir.frontend.host.supposed_tensors import usual_way
from ktc.ir.frontend.host.tensors.object_extents import ObjectExtents
from ktc.ir.frontend.lowering.calls.inline import params_of
from ktc.ir.frontend.lowering.lower_kernel import KernelLowering
from ktc.ir.frontend.meaning.cxx_types import DIM3, Auto, Pointer, Reference
from ktc.ir.frontend.meaning.device_properties import with_device_properties
from ktc.ir.frontend.meaning.name_meanings import LazyVal, OpaqueVal, TypeVal
from ktc.ir.frontend.meaning.values import Dim3Val, RVal, Value, VarPlace
from ktc.ir.frontend.syntax.cxx_ast import Alias
from ktc.ir.frontend.syntax.syntax_walk import descendants, replaced
from ktc.ir.frontend.syntax.variable_uses import init_args
from ktc.ir.kernel import Param
from ktc.ir.nodes import Expr, Load, Sym, Var, fresh
from ktc.ir.types import I32, I64, U32, Scalar, Type, Vec
from ktc.ir.walk import walk_expr


class LaunchValues:
    """The values of host names at one launch site."""

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
        self.known: dict[str, Sym] = {}
        """Names of the host that stand for parameters of the kernel."""

        self._scope: Scope
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

    @functools.cached_property
    def objects(self) -> ObjectExtents:
        """The tensors and vectors of the function that the launch is in."""
        return ObjectExtents(self.site.function, self.site.env)

    def _product(self, name: str) -> Any:
        node = self.extents.product(name) if self.extents is not None else None
        for x in (node, *descendants(node)) if node is not None else ():
            if isinstance(x, c_ast.ID) and x.name not in self._scope.names:
                self._scope.names[x.name] = LazyVal(partial(self.value, x.name))
        return node

    def _dim3_value(self, node: Any) -> Dim3Val:
        """What is given for a ``dim3``."""
        raise NotImplementedError

    def _named(self, node: Any, why: KtcError) -> Any:
        """``node``, which cannot be followed for ``why``, with names in the place of what cannot."""
        raise NotImplementedError

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
            init = unsigned(decl.init)
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
            if isinstance(v, RVal) and not is_closed(v.expr):
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
        node = usual_way(node) if self.lowering.rank is not None else node
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
        if not is_closed(e):
            raise self._refuse(node, None)
        return e

    def _refuse(self, node: Any, cause: KtcError | None) -> KtcError:
        why = f": {cause.message}" if cause is not None else ""
        return KtcError("E-LAUNCH-EXPR", f"this launch dimension cannot be followed{why}",
        self.lowering.place(node) or self.site.loc,
                        hint="give [launch] grid and block in workload.toml")  # fmt: skip


def unsigned(node: Any) -> Any:
    """``node`` without the sign before it."""
    return node.expr if isinstance(node, c_ast.UnaryOp) and node.op in "+-" else node


def is_closed(e: Expr) -> bool:
    """Whether a launch expression has only parameters, constants and integer functions."""
    return not any(isinstance(x, Load) for x in walk_expr(e))


__all__ = ["LaunchValues", "is_closed", "unsigned"]
