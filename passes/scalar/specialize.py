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
from dataclasses import dataclass

from ktc.ir.arith.size_equalities import equalities, shown_by_launch
from ktc.ir.fold import evaluate, simplify
from ktc.ir.kernel import Assume, Kernel, Param
from ktc.ir.nodes import Binary, Const, Expr, Sym, Var
from ktc.ir.text import print_expr
from ktc.ir.types import Ptr, Scalar
from ktc.ir.walk import all_exprs, assigned, substitute, substitute_expr, used
from ktc.passes.core.arguments import rest
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.refusals import Refusal, Result
from ktc.passes.core.script import Arg
from ktc.passes.shared.array_elements import with_elements_apart

from .pointer_values import NONNULL, bound_pointers
from .simplify import simplified


@dataclass(frozen=True)
class Arguments:
    values: tuple[tuple[str, Arg], ...] = rest("parameter=value: specialize{d=4096}; null or nonnull of a pointer")


class Specialize(Pass[Arguments]):
    name = "specialize"
    summary = "bind scalar parameters to constants, checked at launch"
    refusals = ("E-SPECIALIZE-PARAM", "E-SPECIALIZE-VALUE", "E-SPECIALIZE-FACT", "E-SPECIALIZE-ASSIGNED",
                "E-SPECIALIZE-NULL")  # fmt: skip

    def sites(self, kernel: Kernel) -> list[Site]:
        """One per integer parameter whose value the workload's facts pin down."""
        out = []
        for p in kernel.params:
            lo, hi = p.range
            if lo is not None and lo == hi and _mentions(kernel, p.sym):
                out.append(Site(self.step(**{p.sym.name: lo}), f"{p.sym.name} is always {lo}"))
        return out

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        if not args.values:
            raise Refusal("E-SPECIALIZE-PARAM", "name a parameter and its value", hint="specialize{d=4096}")
        asked = dict(args.values)
        pointers = [n for n in asked if any(p.sym.name == n and isinstance(p.sym.type, Ptr) for p in kernel.params)]
        if pointers:
            kernel = bound_pointers(kernel, {n: asked.pop(n) for n in pointers})
        said = tuple(f"{n} is {'not ' * (v == NONNULL)}null" for n, v in args.values if n in pointers)
        env: dict[Sym, Const] = {}
        for name, value in asked.items():
            p, const = _binding(kernel, name, value)
            env[p.sym] = const
        notes = [f"{s.name} = {c.value}" for s, c in env.items()]
        for e in (*equalities(kernel), *shown_by_launch(kernel)):
            follows = evaluate(substitute_expr(e.value, env), {})
            if follows is None or e.sym in env:
                continue
            _, env[e.sym] = _binding(kernel, e.sym.name, int(follows))
            notes.append(f"{e.sym.name} = {env[e.sym].value}, which is {print_expr(e.value)}")
        _check_assumptions(kernel, env)
        return Result(_substituted(kernel, env), (*said, *notes))


def _binding(kernel: Kernel, name: str, value: Arg) -> tuple[Param, Const]:
    """The parameter called ``name`` and its constant, if nothing known about it says otherwise."""
    p = next((p for p in kernel.params if p.sym.name == name), None)
    scalars = [q.sym.name for q in kernel.params if isinstance(q.sym.type, Scalar) and not q.sym.type.is_float]
    if p is None or p.sym.name not in scalars:
        hint = f"integer parameters: {', '.join(scalars) or 'none'}"
        raise Refusal("E-SPECIALIZE-PARAM", f"no integer parameter or pointer named '{name}'", hint=hint)
    if not isinstance(value, int):
        raise Refusal("E-SPECIALIZE-VALUE", f"'{name}' needs an integer, not {value!r}")
    ty = p.sym.type
    assert isinstance(ty, Scalar)
    const = Const(value, ty)
    lo, hi = p.range
    if (lo is not None and value < lo) or (hi is not None and value > hi) or value % p.divisible_by:
        raise Refusal("E-SPECIALIZE-FACT", f"{name}={value} contradicts what is known of it (range {lo}..{hi})")
    if p.sym in assigned(kernel.body):
        raise Refusal("E-SPECIALIZE-ASSIGNED", f"the kernel assigns to '{name}'")
    _check_assumptions(kernel, {p.sym: const})
    return p, const


def _check_assumptions(kernel: Kernel, env: Mapping[Sym, Const]) -> None:
    """What the kernel assumes may hold for these values, or it is refused."""
    for a in kernel.assumptions:
        holds = evaluate(substitute_expr(a.expr, env), {})
        if holds is not None and not holds:
            values = " ".join(f"{s.name}={c.value}" for s, c in env.items())
            raise Refusal("E-SPECIALIZE-FACT", f"{values} contradicts the assumption {print_expr(a.expr)}")


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
    before = set(kernel.assumptions)
    kernel = kernel.with_(
        params=params, launch=launch, body=substitute(kernel.body, env),
        assumptions=(*kernel.assumptions, *(f for f in facts if f not in before)),
    )  # fmt: skip
    known = kernel.with_(body=simplified(kernel))
    apart = with_elements_apart(known)
    return known if apart is known else apart.with_(body=simplified(apart))


def _pinned(p: Param, env: Mapping[Sym, Const]) -> Param:
    if p.sym not in env:
        return p
    value = int(env[p.sym].value)
    return dataclasses.replace(p, range=(value, value))


def _mentions(kernel: Kernel, s: Sym) -> bool:
    return any(s in used(e) for e in all_exprs(kernel.body))
