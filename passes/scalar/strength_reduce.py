"""strength-reduce: cheaper operations for the same integers.

before                                          after strength-reduce
    let q: i32 = t / 32                             let q: i32 = t >> 5
    let r: i32 = t % 32                             let r: i32 = t & 31
    for k in 0..n                                   var k_d: i32 = 0
      s += a[k * d + t]                             for k in 0..n
                                                      s += a[k_d + t]
                                                      k_d += d

* ``division``: by a power of two, of what is shown not to be negative, becomes a shift or a mask; not in the bounds of
  loops over blocks, which the launcher computes.
* ``induction``: a product of a serial loop's counter and an invariant becomes a running sum. It is kept in an unsigned
  variable, so that one step beyond the last iteration cannot overflow.

Knobs count as powers of two only where their domain says so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from ktc.ir.arith import REWRITES, facts_of
from ktc.ir.arith.integer_casts import without_casts, without_widening
from ktc.ir.fold import add, cast, mul
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Assign,
    Binary,
    Body,
    Const,
    Continue,
    Decl,
    Expr,
    For,
    Par,
    Stmt,
    Sym,
    Var,
    fresh,
)  # fmt: skip
from ktc.ir.purity import is_movable
from ktc.ir.types import Scalar
from ktc.ir.walk import all_exprs, assigned, declared, map_body, used, walk
from ktc.passes.core.arguments import option
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.refusals import Refusal, Result

from .kept_forms import spared


@dataclass(frozen=True)
class Arguments:
    what: Literal["all", "division", "induction"] = option("all", "which of the two", code="E-STRENGTH-WHAT")


class StrengthReduce(Pass[Arguments]):
    name = "strength-reduce"
    summary = "shifts and masks for divisions by powers of two, running sums for products in loops"
    refusals = ("E-STRENGTH-WHAT", "E-STRENGTH-NOTHING")

    def sites(self, kernel: Kernel) -> list[Site]:
        found = self.run(kernel)
        return [Site(self.step(), found.notes[0])] if isinstance(found, Result) else []

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        what = args.what
        count = {"division": 0, "induction": 0}
        body = kernel.body
        if what != "induction":
            body = spared(body, lambda b: _divisions(kernel, b, count))
        if what != "division":
            body = spared(body, lambda b: _inductions(b, count))
        if not any(count.values()):
            raise Refusal("E-STRENGTH-NOTHING", "no division or product here gets cheaper")
        note = ", ".join(f"{n} {kind}{'s' if n > 1 else ''}" for kind, n in count.items() if n)
        return Result(kernel.with_(body=body), (note,))


# ---------------------------------------------------------------------------------------------------------- divisions


def _divisions(kernel: Kernel, body: Body, count: dict[str, int]) -> Body:
    facts = facts_of(kernel, REWRITES)
    by_launcher = {
        s.var: s for s in walk(body) if isinstance(s, Par) and any(level.kind == "block" for level in s.dist)
    }

    def on(e: Expr) -> Expr:
        if not isinstance(e, Binary) or e.op not in ("/", "%") or not isinstance(e.b, Const):
            return e
        n = e.b.value
        t = e.type
        if not isinstance(t, Scalar) or not t.is_int or not isinstance(n, int) or n < 2 or n & (n - 1):
            return e
        if t.is_signed and not facts.never_negative(e.a):
            return e
        if e.op == "/":
            return Binary(">>", e.a, Const(n.bit_length() - 1, t))
        return Binary("&", e.a, Const(n - 1, t))

    def on_device(s: Stmt) -> Stmt:
        """``s`` with its bounds as they were, if the launcher computes them: that costs the device nothing."""
        old = by_launcher.get(s.var) if isinstance(s, Par) else None
        if old is None or not isinstance(s, Par) or (s.lo, s.hi) == (old.lo, old.hi):
            return s
        return dataclasses.replace(s, lo=old.lo, hi=old.hi)

    found = map_body(body, on_device, on)
    count["division"] += _quotients(body) - _quotients(found)
    return found


def _quotients(body: Body) -> int:
    return sum(isinstance(e, Binary) and e.op in ("/", "%") for e in all_exprs(body))


# --------------------------------------------------------------------------------------------------------- inductions


def _inductions(body: Body, count: dict[str, int]) -> Body:
    def on(s: Stmt) -> Stmt | Body:
        return _running_sums(s, count) if isinstance(s, For) else s

    return map_body(body, on)


def _running_sums(s: For, count: dict[str, int]) -> Stmt | Body:
    """The loop with a variable for each product of its counter, and what has to stand before it."""
    changing = assigned(s.body) | set(declared(s.body)) | {s.var}
    match s.step:
        case Binary("+", Var(v), by) if v == s.var and not used(by) & changing and s.var not in assigned(s.body):
            pass
        case _:
            return s
    if any(isinstance(x, Continue) for x in walk(s.body)):  # would skip the increment
        return s
    products = dict.fromkeys(e for e in all_exprs(s.body) if _is_product(e, s.var, changing))
    if not products:
        return s
    before: list[Stmt] = []
    after: list[Stmt] = []
    to: dict[Expr, Expr] = {}
    for e in products:
        assert isinstance(e, Binary) and isinstance(e.type, Scalar)
        factor = e.b if _counter(e.a) == s.var else e.a
        kind = e.type
        wide = Scalar("uint", kind.bits)
        t = fresh(f"{s.var.name}_{_name(factor)}", wide)
        before.append(Decl(t, mul(cast(s.init, wide, "c"), cast(factor, wide, "c"))))
        step = mul(cast(by, wide, "c"), cast(factor, wide, "c"))
        after.append(Assign(t, add(Var(t), step)))
        to[e] = cast(Var(t), kind, "c")
        count["induction"] += 1
    inner = map_body(s.body, lambda x: x, lambda e: to.get(e, e))
    return (*before, dataclasses.replace(s, body=(*inner, *after)))


def _is_product(e: Expr, var: Sym, changing: Collection[Sym]) -> bool:
    if not isinstance(e, Binary) or e.op != "*" or not isinstance(e.type, Scalar) or not e.type.is_int:
        return False
    for counter, factor in ((e.a, e.b), (e.b, e.a)):
        if (
            _counter(counter) == var
            and is_movable(factor)
            and not isinstance(factor, Const)
            and not used(factor) & set(changing)
        ):
            return e.type.bits >= 32
    return False


def _counter(e: Expr) -> Sym | None:
    """The variable under widening casts, none of which makes a signed number of an unsigned one."""
    x = without_widening(e)
    alike = isinstance(x.type, Scalar) and isinstance(e.type, Scalar) and x.type.is_signed == e.type.is_signed
    return x.sym if isinstance(x, Var) and alike else None


def _name(factor: Expr) -> str:
    e = without_casts(factor)
    return e.sym.name if isinstance(e, Var) else "step"


__all__ = ["StrengthReduce"]
