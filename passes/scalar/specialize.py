"""specialize: bind runtime scalars to the values they have in the workload.

before                                              after specialize{d=4096}
    kernel k(out: f32*, d: i32)                         kernel k(out: f32*, d: i32 range 4096..4096)
      par i in 0..d @ [...]                               assume d == 4096 origin guessed
        out[i] = out[i] / d                               par i in 0..4096 @ [...]
                                                            out[i] = out[i] / 4096

    specialize{b=null}, specialize{b=nonnull}: of a pointer that the kernel asks about, the answer

The parameter stays in the signature, and the launcher checks the assumption: other values run the original kernel.
A parameter that follows from those bound (``rows``, where the launch passes ``batch * length``) is bound with them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ktc.ir.arith.size_equalities import equalities, shown_by_launch
from ktc.ir.fold import evaluate, simplify
from ktc.ir.kernel import Assume, Kernel, Param
from ktc.ir.nodes import Binary, Const, Expr, Sym, Var
from ktc.ir.text import print_expr
from ktc.ir.types import Ptr, Scalar
from ktc.ir.walk import all_exprs, assigned, substitute, substitute_expr, used
from ktc.passes.core.base import Arg, ParamSpec, Pass, Refused, Result, Site

from .pointer_values import NONNULL, bound_pointers
from .simplify import simplified


class Specialize(Pass):
    name = "specialize"
    summary = "bind scalar parameters to constants, checked at launch"
    params = (ParamSpec("*", "parameter=value, one or more: specialize{d=4096}; null or nonnull of a pointer"),)
    refusals = ("E-SPECIALIZE-PARAM", "E-SPECIALIZE-VALUE", "E-SPECIALIZE-FACT", "E-SPECIALIZE-ASSIGNED",
                "E-SPECIALIZE-NULL")  # fmt: skip

    def sites(self, kernel: Kernel) -> list[Site]:
        """One per integer parameter whose value the workload's facts pin down."""
        out = []
        for p in kernel.params:
            lo, hi = p.range
            if lo is not None and lo == hi and _mentions(kernel, p.sym):
                out.append(Site(f"specialize{{{p.sym.name}={lo}}}", f"{p.sym.name} is always {lo}"))
        return out

    def apply(self, kernel: Kernel, args: Mapping[str, Arg]) -> Result | Refused:
        if not args:
            return Refused("E-SPECIALIZE-PARAM", "name a parameter and its value", hint="specialize{d=4096}")
        pointers = [n for n in args if any(p.sym.name == n and isinstance(p.sym.type, Ptr) for p in kernel.params)]
        found = bound_pointers(kernel, {n: args[n] for n in pointers}) if pointers else kernel
        if isinstance(found, Refused):
            return found
        kernel = found
        said = tuple(f"{n} is {'not ' * (args[n] == NONNULL)}null" for n in pointers)
        env: dict[Sym, Const] = {}
        for name, value in args.items():
            if name in pointers:
                continue
            bound = _binding(kernel, name, value)
            if isinstance(bound, Refused):
                return bound
            p, const = bound
            env[p.sym] = const
        notes = [f"{s.name} = {c.value}" for s, c in env.items()]
        for e in (*equalities(kernel), *shown_by_launch(kernel)):
            follows = evaluate(substitute_expr(e.value, env), {})
            if follows is None or e.sym in env:
                continue
            bound = _binding(kernel, e.sym.name, int(follows))
            if isinstance(bound, Refused):
                return bound
            env[e.sym] = bound[1]
            notes.append(f"{e.sym.name} = {bound[1].value}, which is {print_expr(e.value)}")
        return _contradiction(kernel, env) or Result(_substituted(kernel, env), (*said, *notes))


def _binding(kernel: Kernel, name: str, value: Arg) -> tuple[Param, Const] | Refused:
    """The parameter called ``name`` and its constant, if nothing known about it says otherwise."""
    p = next((p for p in kernel.params if p.sym.name == name), None)
    scalars = [q.sym.name for q in kernel.params if isinstance(q.sym.type, Scalar) and not q.sym.type.is_float]
    if p is None or p.sym.name not in scalars:
        hint = f"integer parameters: {', '.join(scalars) or 'none'}"
        return Refused("E-SPECIALIZE-PARAM", f"no integer parameter or pointer named '{name}'", hint=hint)
    if not isinstance(value, int):
        return Refused("E-SPECIALIZE-VALUE", f"'{name}' needs an integer, not {value!r}")
    ty = p.sym.type
    assert isinstance(ty, Scalar)
    const = Const(value, ty)
    lo, hi = p.range
    if (lo is not None and value < lo) or (hi is not None and value > hi) or value % p.divisible_by:
        return Refused("E-SPECIALIZE-FACT", f"{name}={value} contradicts what is known of it (range {lo}..{hi})")
    if p.sym in assigned(kernel.body):
        return Refused("E-SPECIALIZE-ASSIGNED", f"the kernel assigns to '{name}'")
    return _contradiction(kernel, {p.sym: const}) or (p, const)


def _contradiction(kernel: Kernel, env: Mapping[Sym, Const]) -> Refused | None:
    """What the kernel assumes that does not hold for these values."""
    for a in kernel.assumptions:
        holds = evaluate(substitute_expr(a.expr, env), {})
        if holds is not None and not holds:
            values = " ".join(f"{s.name}={c.value}" for s, c in env.items())
            return Refused("E-SPECIALIZE-FACT", f"{values} contradicts the assumption {print_expr(a.expr)}")
    return None


def _substituted(kernel: Kernel, env: Mapping[Sym, Const]) -> Kernel:
    def bound(e: Expr) -> Expr:
        return simplify(substitute_expr(e, env))

    launch = kernel.launch
    if launch is not None:
        (gx, gy, gz), (bx, by, bz), shared = launch.grid, launch.block, launch.dynamic_shared
        launch = dataclasses.replace(
            launch,
            grid=(bound(gx), bound(gy), bound(gz)),
            block=(bound(bx), bound(by), bound(bz)),
            dynamic_shared=None if shared is None else bound(shared),
        )
    facts = [Assume(Binary("==", Var(s), c), "guessed") for s, c in env.items()]
    params = tuple(_pinned(p, env) for p in kernel.params)
    body = simplified(substitute(kernel.body, env))
    known = set(kernel.assumptions)
    return kernel.with_(
        params=params, launch=launch, body=body,
        assumptions=(*kernel.assumptions, *(f for f in facts if f not in known)),
    )  # fmt: skip


def _pinned(p: Param, env: Mapping[Sym, Const]) -> Param:
    if p.sym not in env:
        return p
    value = int(env[p.sym].value)
    return dataclasses.replace(p, range=(value, value))


def _mentions(kernel: Kernel, s: Sym) -> bool:
    return any(s in used(e) for e in all_exprs(kernel.body))
