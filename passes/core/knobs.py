"""Declaring knobs: the same name used twice is one shared knob whose domains intersect."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ktc.ir.kernel import Kernel, KnobDecl
from ktc.ir.nodes import Expr, Knob, Var, i32

from .base import Arg, KnobRef, Refused

POWERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


def declare_knob(
    kernel: Kernel, ref: KnobRef, default_domain: Sequence[int], doc: str, owner: str, wish: int | None = None
) -> Kernel | Refused:
    """``kernel`` with the knob ``ref`` declared, or narrowed if it exists.

    The default is ``wish``, what an expert would start with, if the domain has it; else the middle of the domain.
    """
    old = next((k for k in kernel.knobs if k.name == ref.name), None)
    domain = tuple(ref.domain) if ref.domain is not None else tuple(default_domain)
    if ref.value is not None:
        domain = tuple(sorted({*domain, ref.value})) if ref.domain is None else domain
        if ref.value not in domain:
            return Refused("E-KNOB-DOMAIN", f"${ref.name}={ref.value} is not in its domain {list(domain)}")
    if old is not None:
        domain = tuple(v for v in old.domain if v in domain)
        if not domain:
            return Refused("E-KNOB-EMPTY", f"the uses of ${ref.name} leave no value in common")
        value = ref.value if ref.value is not None else old.value
        if value is not None and value not in domain:
            return Refused("E-KNOB-DOMAIN", f"${ref.name}={value} is not in {list(domain)}")
        merged = dataclasses.replace(old, domain=domain, default=_default(domain, old.default), value=value)
        return kernel.with_(knobs=tuple(merged if k is old else k for k in kernel.knobs))
    if not domain:
        return Refused("E-KNOB-EMPTY", f"no value of ${ref.name} fits")
    decl = KnobDecl(ref.name, domain, _default(domain, wish), doc, owner, ref.value)
    return kernel.with_(knobs=(*kernel.knobs, decl))


def _default(domain: Sequence[int], wish: int | None) -> int:
    return wish if wish is not None and wish in domain else domain[len(domain) // 2]


def size_argument(
    kernel: Kernel, arg: Arg | None, default_domain: Sequence[int], doc: str, owner: str, wish: int | None = None
) -> tuple[Kernel, Expr | None] | Refused:
    """A size in pipeline text (integer, knob, parameter name) as an expression; knobs get declared."""
    if arg is None:
        return kernel, None
    if isinstance(arg, bool) or not isinstance(arg, int | str | KnobRef):
        return Refused("E-ARG-TYPE", f"expected a number, a knob or a parameter's name, got {arg!r}")
    if isinstance(arg, int):
        return (kernel, i32(arg)) if arg > 0 else Refused("E-ARG-RANGE", f"a size must be positive, got {arg}")
    if isinstance(arg, KnobRef):
        declared = declare_knob(kernel, arg, default_domain, doc, owner, wish)
        return declared if isinstance(declared, Refused) else (declared, Knob(arg.name))
    for p in kernel.params:
        if p.sym.name == arg:
            return kernel, Var(p.sym)
    return Refused("E-ARG-NAME", f"no parameter named '{arg}'")
