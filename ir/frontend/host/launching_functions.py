"""Functions of the file that launch a kernel which they are passed: a call of one is read as the launch that it makes.

    template <typename K, typename... Args>
    void start(K kernel, const Shape& s, Args&&... args) {         start(scale<float>, Shape(blocks, 256), x, n);
      kernel<<<s.grid, s.block>>>(std::forward<Args>(args)...);
    }                                                              scale<float><<<blocks, 256>>>(x, n);

What the function computes on the way is put in as the expressions that it is made of, members of an object that the
call makes as what it makes them of. A call that says less than the launch needs is no launch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.lowering.declarations.parameters import is_pack
from ktc.ir.frontend.meaning.methods import params_of
from ktc.ir.frontend.syntax.cxx_ast import (
    Construct,
    Function,
    Launch,
    NamedType,
    PackExpansion,
    QualName,
    TemplateParam,
)
from ktc.ir.frontend.syntax.program import Program, name_parts
from ktc.ir.frontend.syntax.syntax_walk import descendants, replaced
from ktc.ir.frontend.syntax.variable_uses import init_args

from .host_assignments import Env, current

DEEPEST = 6
"""Variables that an expression is made of, one through the other."""


@dataclass(frozen=True, eq=False)
class LaunchingFunction:
    """A function whose parameter is the kernel of ``launch``, which has names of parameters only."""

    params: tuple[Any, ...]
    template: tuple[TemplateParam, ...]
    launch: Launch

    def called(self, call: c_ast.FuncCall, env: Env, program: Program) -> Launch | None:
        """The launch that ``call`` makes where the names in scope hold ``env``; None if it does not say all of it."""
        args = list(call.args.exprs) if call.args is not None else []
        own, pack = self.params, is_pack(self.params[-1])
        if len(args) < len(own) - pack or (len(args) > len(own) and not pack):
            return None
        given = {p.name: a for p, a in zip(own[: len(own) - pack], args)}
        given |= {p.name: a for p, a in zip(self.template, name_parts(call.name)[2] or ()) if p.kind == "value"}
        rest = {own[-1].name: args[len(own) - 1 :]} if pack else {}
        objects = {p.name: _Object(given[p.name], p, env, program) for p in own if p.name in given}

        def member(n: c_ast.StructRef) -> Any | None:
            of = objects.get(n.name.name) if isinstance(n.name, c_ast.ID) else None
            return of.member(n.field) if of is not None else None

        config = [with_arguments(c, given, member) for c in self.launch.config[:3]]
        handed = [x for a in self.launch.args for x in _unpacked(a, rest) or (with_arguments(a, given, member),)]
        callee = given[self.launch.callee.name]
        own_names = {p.name for p in (*own, *self.template)} - names_in(args)
        if own_names & names_in([*config, *handed]) or any(isinstance(a, PackExpansion) for a in handed[:-1]):
            return None
        return Launch(callee, config, handed, coord=call.coord)


@dataclass(frozen=True, eq=False)
class _Object:
    """What a call passes for the parameter ``param``, where it is an object of a class of the file."""

    passed: Any
    param: Any
    env: Env
    program: Program

    def member(self, field: Any) -> Any | None:
        """The expression that its member ``field`` was made of; None where that is not said."""
        name = name_parts(field)[1] if isinstance(field, c_ast.ID | QualName) else ""
        held, made = self.passed, self.passed
        if isinstance(held, c_ast.ID):
            assigned = self.env.get(f"{held.name}.{name}")
            if assigned is not None:
                return assigned
            held = self.env.get(held.name)
            made = held.init if isinstance(held, c_ast.Decl) else held
        values = _values(made)
        return _member_of(_class_name(self.param.type), name, values, self.program) if values else None


def launching_function(f: Function, template: Sequence[TemplateParam], launch: Launch, env: Env) -> Any | None:
    """``f`` as a function that launches the kernel which it is passed; None where ``launch``, which is in it, launches
    another, or depends on what is not known when it is called. ``env``: what the names hold there."""
    params = tuple(params_of(f))
    names = {p.name for p in params if getattr(p, "name", None)}
    if len(names) < len(params) or not isinstance(launch.callee, c_ast.ID) or launch.callee.name not in names:
        return None
    config, args = (settled(x, env, names) for x in (launch.config, launch.args))
    if any(n in env and n not in names for n in names_in([*config, *args])):
        return None
    return LaunchingFunction(params, tuple(template), Launch(launch.callee, config, args, coord=launch.coord))


def with_arguments(
    node: Any, given: Mapping[str, Any], member: Callable[[c_ast.StructRef], Any | None] = lambda _: None
) -> Any:
    """A copy of ``node`` with what is ``given`` in the place of names, and what ``member`` says of members."""

    def passed(n: Any) -> Any | None:
        if isinstance(n, c_ast.StructRef):
            known = member(n)
            return known if known is not None else c_ast.StructRef(replaced(n.name, passed), n.type, n.field)
        return given.get(n.name) if isinstance(n, c_ast.ID) else None

    return replaced(node, passed)


def settled(nodes: list, env: Env, params: Iterable[str], left: int = DEEPEST) -> list:
    """``nodes`` with what the variables in them hold in their place."""

    def held(n: Any) -> Any | None:
        value = current(env, n.name) if isinstance(n, c_ast.ID) and n.name not in params else None
        return settled([value], env, params, left - 1)[0] if value is not None and left else None

    return list(replaced(nodes, held))


def _member_of(record: str, member: str, values: list, program: Program) -> Any | None:
    """The one of ``values`` that the ``member`` of a ``record`` which is made of them gets: by a constructor that
    hands it on, else in the order of the members."""
    for e in program.records.get(record, ()):
        for f in e.node.items:
            own = [p.name for p in params_of(f)] if isinstance(f, Function) and f.kind == "ctor" else []
            if len(own) != len(values):
                continue
            inits = {name_parts(n)[1]: args for n, args in f.inits}
            (got,) = inits[member] if len(inits.get(member, ())) == 1 else (None,)
            while isinstance(got, c_ast.Cast):
                got = got.expr
            if isinstance(got, c_ast.ID) and got.name in own:
                return values[own.index(got.name)]
        names = [d.name for d in e.node.items if isinstance(d, c_ast.Decl)]
        if member in names and not any(isinstance(f, Function) and f.kind == "ctor" for f in e.node.items):
            at = names.index(member)
            return values[at] if at < len(values) else None
    return None


def _values(made: Any) -> list[Any]:
    """The values between the brackets that an object is made of; [] where it is made otherwise."""
    args = init_args(made)
    if len(args) == 1 and isinstance(args[0], Construct | c_ast.InitList):
        made = args[0]
    return list(made.args) if isinstance(made, Construct) else init_args(made) if len(init_args(made)) > 1 else []


def _class_name(declared: Any) -> str:
    """The name of the class that a parameter is, or refers to; '' if it is none."""
    while isinstance(declared, c_ast.PtrDecl | c_ast.TypeDecl):
        declared = declared.type
    return str(name_parts(declared.name)[1]) if isinstance(declared, NamedType) else ""


def _unpacked(arg: Any, packs: dict[str, list]) -> list | None:
    """What ``args...`` or ``std::forward<Args>(args)...`` stands for; None for anything else."""
    names = names_in([arg]) & packs.keys() if isinstance(arg, PackExpansion) else set[str]()
    return packs[names.pop()] if len(names) == 1 else None


def names_in(nodes: Iterable[Any]) -> set[str]:
    """The names in ``nodes``, but for those of members."""
    found = [n for x in nodes for n in descendants(x)]
    fields = {id(n.field) for n in found if isinstance(n, c_ast.StructRef)}
    return {n.name for n in found if isinstance(n, c_ast.ID) and id(n) not in fields}


__all__ = ["LaunchingFunction", "launching_function", "names_in", "settled", "with_arguments"]
