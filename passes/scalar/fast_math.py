"""fast-math: chosen f32 functions to their hardware approximations.

before                                  after fast-math{fns=exp,div}
    y = x / (1.0 + exp(-x))                 y = fast_div(x, 1.0 + fast_exp(-x))

Only the listed functions, only at f32 (the approximations exist at that width alone). Sets the kernel's ``fast_math``
flag: accuracy changes, so verification measures the error instead of expecting equality, and leaves out the special
values that the approximations give up (:data:`GIVES_UP`). Error bounds: CUDA C++
Programming Guide, mathematical functions, intrinsic functions.
"""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Call, Expr
from ktc.ir.types import F32
from ktc.ir.walk import all_exprs, keep, map_body
from ktc.ir.whole_powers import whole_power
from ktc.passes.core.arguments import option
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.refusals import Refusal, Result
from ktc.passes.core.script import listed

FAST: dict[str, str] = {
    "exp": "fast_exp", "exp2": "fast_exp2", "exp10": "fast_exp10", "log": "fast_log", "log2": "fast_log2",
    "log10": "fast_log10", "sin": "fast_sin", "cos": "fast_cos", "tanh": "fast_tanh", "pow": "fast_pow",
    "rcp": "fast_rcp", "div": "fast_div",
}  # fmt: skip
"""Function as named in ``fns`` -> canonical name of its approximation; ``div`` is the operator."""

_TINY = frozenset({"subnormal"})
_INFINITE = frozenset({"-inf", "inf", "nan"})
GIVES_UP: dict[str, frozenset[str]] = {
    "exp": _TINY, "exp2": _TINY, "exp10": _TINY, "log": _TINY, "log2": _TINY, "log10": _TINY, "tanh": _TINY,
    "sin": _INFINITE | {"largest"}, "cos": _INFINITE | {"largest"}, "pow": _INFINITE | _TINY,
    "rcp": _TINY | {"largest"}, "div": _TINY | {"largest"},
}  # fmt: skip
"""Special values (as in a workload's ``[check] special``) for which an approximation promises nothing: subnormals are
flushed, a division by more than 2^126 gives zero, sine and cosine are approximated near zero alone."""


@dataclass(frozen=True)
class Arguments:
    fns: tuple[str, ...] = option(
        ("all",), "functions to approximate, or all", code="E-FAST-FUNCTION", words=(*FAST, "all")
    )


class FastMath(Pass[Arguments]):
    name = "fast-math"
    summary = "listed f32 functions to fast hardware approximations"
    refusals = ("E-FAST-FUNCTION", "E-FAST-NONE")
    flags = ("fast_math",)

    def sites(self, kernel: Kernel) -> list[Site]:
        found = present(kernel)
        doc = "cheaper transcendentals; accuracy changes"
        return [Site(self.step(fns=listed(found)), doc)] if found else []

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        names = FAST if "all" in args.fns else args.fns
        hits = [x for x in present(kernel) if x in names]
        if not hits:
            hint = f"f32 functions here: {', '.join(present(kernel)) or 'none'}"
            raise Refusal("E-FAST-NONE", f"the kernel does not use {', '.join(map(str, names))} at f32", hint=hint)
        chosen = frozenset(hits)
        body = map_body(kernel.body, keep, lambda e: _fast(e, chosen))
        lost = sorted({value for name in hits for value in GIVES_UP[name]})
        said = f"approximated: {', '.join(hits)}; nothing is promised for {', '.join(lost)} values"
        return Result(kernel.with_(body=body, flags=kernel.flags | {"fast_math"}), (said,))


def present(kernel: Kernel) -> list[str]:
    """Functions of the table that the kernel uses at f32, in the table's order."""
    found = {_key(e) for e in all_exprs(kernel.body)}
    return [name for name in FAST if name in found]


def _key(e: Expr) -> str | None:
    """The table's name for what ``e`` does, if it does it at f32."""
    if e.type != F32:
        return None
    if isinstance(e, Binary):
        return "div" if e.op == "/" else None
    if whole_power(e) is not None:
        return None  # products, by the lowering
    return e.fn if isinstance(e, Call) and e.fn in FAST and e.fn != "div" else None


def _fast(e: Expr, chosen: frozenset[str]) -> Expr:
    key = _key(e)
    if key is None or key not in chosen:
        return e
    args = (e.a, e.b) if isinstance(e, Binary) else e.args  # type: ignore[attr-defined]
    return Call(FAST[key], args, F32)
