"""Which parameter of the kernel each argument of a launch is, and what names of the host stand for parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from pycparser import c_ast

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.host.asserted_sizes import is_check
from ktc.ir.frontend.host.followed_values import followed
from ktc.ir.frontend.host.host_assignments import with_begun
from ktc.ir.frontend.host.host_calls import (
    name_of_call,
    name_of_member,
)
from ktc.ir.frontend.host.host_types import HostTypes
from ktc.ir.frontend.host.host_variables import host_variables, member_variables
from ktc.ir.frontend.host.tensors.object_extents import ObjectExtents
from ktc.ir.frontend.host.tensors.tensor_accessors import asked_as
from ktc.ir.frontend.lowering.calls.inline import params_of
from ktc.ir.frontend.meaning.cxx_types import RecordType
from ktc.ir.frontend.meaning.name_meanings import LazyVal
from ktc.ir.frontend.meaning.values import RVal
from ktc.ir.frontend.syntax.cxx_ast import Construct, RefDecl
from ktc.ir.frontend.syntax.variable_uses import init_args
from ktc.ir.kernel import Param
from ktc.ir.nodes import Const, Var
from ktc.ir.types import Ptr, Scalar, Type
from ktc.ir.walk import substitute_expr, used

from .launch_extents import LaunchExtents
from .launch_math import described
from .same_memory import memory_of
from .struct_arguments import Member, constructed, members, told

UNNAMED = re.compile(r"unnamed\d+")
"""Names of parameters that have none, which nothing but their place speaks of: no number of the host is called so."""

OF_A_CALLER = "_argument"
"""How the number is called that an object is made of which the host function is passed, behind the object's name."""


class LaunchArguments(LaunchExtents):
    """The arguments of a launch, and the scope that it stands in."""

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

    def _kernel_args(self) -> None:
        """Host variables, and what methods of host objects return, are the parameters they are passed for."""
        self.known = {}
        for whole, p, a in self._members():
            if isinstance(a, c_ast.ID):
                member = p.sym.name[len(whole) :]
                for way in (member, *asked_as(member)):
                    for same in self._copied(a.name, member[1:]):
                        self.known.setdefault(same + way, p.sym)
        for p, a in self.pairs():
            while isinstance(a, c_ast.Cast):
                a = a.expr
            name = self._name_of(a)
            if name is None or not isinstance(p.sym.type, Scalar) or UNNAMED.fullmatch(p.sym.name):
                continue
            if not (p.sym.type.is_float and self._is_whole(name)):
                self.known.setdefault(name, p.sym)
        self._same_numbers()

    def _copied(self, name: str, member: str) -> Iterator[str]:
        """The object ``name``, and those that it is a copy of (``Graph there = here;``) where its ``member`` was not
        assigned since."""
        env, seen = self.site.env, set[str]()
        while name not in seen:
            yield name
            seen.add(name)
            held = env.get(name)
            begun = init_args(held.init) if isinstance(held, c_ast.Decl) and held.init is not None else []
            if len(begun) == 1 and isinstance(begun[0], c_ast.ID) and f"{name}.{member}" not in env:
                name = begun[0].name

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
            (p, a)
            for p, a in self.pairs()
            if isinstance(a, c_ast.StructRef) and (isinstance(a.name, c_ast.FuncCall) or _is_of_a_caller(a.name))
        ]
        for p, a in made:
            self.describing = True
            try:
                e = without_casts(described(self._inlined((self._int(a),), effects)[0]))
            except KtcError:
                continue
            finally:
                self.describing = False
            if isinstance(e, Var) and (name := next((n for n, s in self.host.items() if s == e.sym), None)) is not None:
                self.known.setdefault(name, p.sym)

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
        by_host = [*told(found, self.site.env, self._along)]
        yield from by_host
        yield from self._of_one_number([m for m in found if m[1] not in [p for p, _ in by_host]])

    def _of_one_number(self, found: list[Member]) -> Iterator[tuple[Param, Any]]:
        """Members of objects that a caller passes to the host function, where the only constructor of their class
        takes an integer: whatever that is, all of them are made of it."""
        types = {getattr(p, "name", None): p.type for p in params_of(self.site.function.node)}
        objects: dict[str, Construct] = {}
        for name, p, a in found:
            unknown = isinstance(a, c_ast.ID) and self.site.env.get(a.name) is None
            declared = types.get(a.name) if unknown else None
            declared = declared.type if isinstance(declared, RefDecl) else declared
            if isinstance(declared, c_ast.TypeDecl) and self._takes_one_integer(self._type_of(declared)):
                number = f"{a.name}{OF_A_CALLER}"
                self._scope.names[number] = LazyVal(partial(self.value, number))
                made = objects.setdefault(name, constructed(declared, (c_ast.ID(number),)))
                yield p, c_ast.StructRef(made, ".", c_ast.ID(p.sym.name[len(name) + 1 :]))

    def _takes_one_integer(self, t: Type) -> bool:
        """Whether objects of ``t`` are made of an integer, and otherwise only copied."""
        low = self.lowering
        ctors = [e.node for e in low.own_functions(t, "ctor")] if isinstance(t, RecordType) else []
        if len(ctors) != 1 or len(params_of(ctors[0])) != 1:
            return False
        (taken,) = low.first_parameters(t, ctors)  # type: ignore[arg-type]
        return isinstance(taken, Scalar) and taken.is_int

    def _along(self, tensor: Any, k: int, dimensions: int) -> Any:
        """The extent of a tensor that is passed along dimension ``k``, of so many."""
        return self.objects.along(tensor, k, dimensions)

    def _members(self) -> list[Member]:
        return members(self.params, self.whole, self.node.args)

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


def _is_of_a_caller(made: Any) -> bool:
    """Whether ``made`` is an object that the host function is passed, as it was made of a number."""
    of = made.args[0] if isinstance(made, Construct) and len(made.args) == 1 else None
    return isinstance(of, c_ast.ID) and of.name.endswith(OF_A_CALLER)


def _begun(held: Any, env: Mapping[str, Any]) -> Any:
    """A declaration whose initialiser is made of arrays as they are where no branch has changed them."""
    if not isinstance(held, c_ast.Decl) or held.init is None:
        return held
    init = with_begun(held.init, dict(env))
    return c_ast.Decl(held.name, [], [], [], [], held.type, init, None)


__all__ = ["LaunchArguments"]
