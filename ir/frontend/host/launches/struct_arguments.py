"""Structs that a launch passes by value: which parameters are members of one, and what host code makes each of.

A kernel's parameter ``Size s`` is a parameter for each member here, ``s_w`` and ``s_h``. What they are is told by
``k<<<...>>>(Size{w, h})``, by a variable that is initialised so, or by assignments ``s.w = w``; of a tensor's accessor
by what the tensor is made of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.host.host_calls import function_of_call
from ktc.ir.frontend.host.tensors.tensor_accessors import Extent, accessed_tensor, accessor_member
from ktc.ir.frontend.syntax.cxx_ast import Construct, CtorInit, NamedType
from ktc.ir.frontend.syntax.variable_uses import init_args
from ktc.ir.kernel import Param

MAKERS = re.compile(r"make_u?[a-z]+[234]")
"""Functions that make a vector of their arguments."""

Member = tuple[str, Param, Any]
"""The struct parameter's name, the parameter that is a member of it, and what the launch passes for the whole."""


def members(params: Sequence[Param], whole: Sequence[str], args: Sequence[Any]) -> list[Member]:
    """The members of structs. ``whole``: the kernel's parameters as declared, by name; ``args``: of the launch."""
    left = [p for p in params if not p.host and p.sym.name not in whole]
    of = {p.sym.name: max((n for n in whole if p.sym.name.startswith(f"{n}_")), key=len, default="") for p in left}
    return [(name, p, a) for name, a in zip(whole, args) for p in left if of[p.sym.name] == name]


def told(found: Sequence[Member], env: Mapping[str, Any], extent: Extent) -> Iterator[tuple[Param, Any]]:
    """The members of which host code says what they are made of, with that expression. ``env``: what it knows of its
    variables at the launch; ``extent``: of its tensors."""
    objects: dict[str, Construct] = {}
    for name, p, a in found:
        assigned = _assigned(a.name, p.sym.name[len(name) + 1 :], env) if isinstance(a, c_ast.ID) else None
        items = _items(_declared(a, env))
        mine = [x for n, x, _ in found if n == name]
        tensor = _tensor(a, env)
        if assigned is not None:
            yield p, assigned
        elif tensor is not None:
            told_of = accessor_member(tensor, p.sym.name[len(name) + 1 :], len(mine) // 2, extent)
            yield from [(p, told_of)] if told_of is not None else []
        elif len(items) == len(mine):
            yield p, items[mine.index(p)]
        elif items and [_place(x, name) for x in mine] == [0, 1, 2]:
            k = mine.index(p)
            yield p, items[k] if k < len(items) else c_ast.Constant("int", "1")
        elif function_of_call(made := _single(_declared(a, env))) or isinstance(made, Construct):
            yield p, c_ast.StructRef(made, ".", c_ast.ID(p.sym.name[len(name) + 1 :]))  # what a function returns
        elif isinstance(of := _declared(a, env), c_ast.Decl) and isinstance(of.init, CtorInit):
            made = objects.setdefault(name, constructed(of.type, tuple(init_args(of.init))))
            yield p, c_ast.StructRef(made, ".", c_ast.ID(p.sym.name[len(name) + 1 :]))


_ELEMENT = re.compile(r"(.+?)_(\d+)(?:_(.+))?")
"""A parameter that is an element of an array in a struct, or a member of one: the array, the number, the member."""


def _assigned(whole: str, member: str, env: Mapping[str, Any]) -> Any:
    """What was assigned to a member of the variable ``whole``; None if nothing was. Elements of the array in an object
    that is no more than an array are those of the object itself: ``strides[2]`` of ``Array<int> strides``."""
    if f"{whole}.{member}" in env:
        return env[f"{whole}.{member}"]
    if (m := _ELEMENT.fullmatch(member)) is None:
        return None
    array, at, inner = m.groups()
    held = next((env[k] for k in (f"{whole}.{array}.{at}", f"{whole}.{at}") if env.get(k) is not None), None)
    return held if held is None or inner is None else c_ast.StructRef(_made(held, env.get(whole)), ".", c_ast.ID(inner))


def _made(element: Any, whole: Any) -> Any:
    """An element of ``whole``, a variable whose type is a template's, as an object of its first argument's type: a
    number that is assigned is converted by a constructor."""
    if isinstance(element, Construct) or function_of_call(element) or not isinstance(whole, c_ast.Decl):
        return element
    of = getattr(whole.type, "type", None)
    args = of.name.parts[-1].args if isinstance(of, NamedType) else None
    return Construct(args[0], (element,), False) if args and isinstance(args[0], c_ast.Typename) else element


def unchosen(found: Sequence[Member], env: Mapping[str, Any]) -> set[str]:
    """The names of the members that the host does not choose as numbers of its own: those of a tensor's accessor, and
    what a ``dim3`` of fewer numbers is filled up with."""
    tensors = {p.sym.name for _, p, a in found if _tensor(a, env) is not None}
    return tensors | {p.sym.name for name, p, a in found if _place(p, name) >= len(_items(_declared(a, env))) > 0}


def _place(p: Param, name: str) -> int:
    """Which member of the ``dim3`` called ``name`` it is; -1 of something else."""
    member = p.sym.name[len(name) + 1 :]
    return "xyz".index(member) if member in ("x", "y", "z") else -1


def _declared(a: Any, env: Mapping[str, Any]) -> Any:
    """What the argument ``a`` is: the declaration of a variable, or the expression."""
    return env.get(a.name) if isinstance(a, c_ast.ID) else a


def _tensor(a: Any, env: Mapping[str, Any]) -> Any:
    """The tensor whose accessor the argument ``a`` is; None if it is none."""
    return accessed_tensor(_single(_declared(a, env)))


def _single(node: Any) -> Any:
    """What a variable is initialised with, or ``node`` itself."""
    args = init_args(node.init) if isinstance(node, c_ast.Decl) and node.init is not None else [node]
    return args[0] if len(args) == 1 else None


def constructed(declared: Any, args: tuple[Any, ...]) -> Construct:
    """The object that a constructor makes of ``args`` for a variable of the type ``declared``."""
    return Construct(c_ast.Typename(None, [], None, declared), args, False)


def _items(node: Any) -> list[Any]:
    """The values between the brackets of ``Size{w, h}``, ``Size s(w, h)``, ``Size s = {w, h}`` or
    ``make_int2(w, h)``."""
    node = node.init if isinstance(node, c_ast.Decl) else node
    if isinstance(node, Construct):
        return list(node.args)
    if isinstance(node, c_ast.FuncCall) and isinstance(node.name, c_ast.ID) and MAKERS.fullmatch(node.name.name):
        return list(node.args.exprs) if node.args is not None else []
    return init_args(node) if isinstance(node, CtorInit | c_ast.InitList) else []
