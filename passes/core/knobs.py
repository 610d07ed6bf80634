"""Declaring knobs: the same name used twice is one shared knob whose domains intersect."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ktc.ir.fold import KnobValues
from ktc.ir.kernel import Kernel, KnobDecl
from ktc.ir.nodes import Expr, Knob, Var, i32

from .refusals import Refusal
from .script import KnobRef

POWERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


def declare_knob(
    kernel: Kernel, ref: KnobRef, default_domain: Sequence[int], doc: str, owner: str, wish: int | None = None
) -> Kernel:
    """``kernel`` with the knob ``ref`` declared, or narrowed if it exists.

    The default is the first value of a domain that is not in ascending order, for that is an order of preference; else
    ``wish``, what an expert would start with, if the domain has it; else the middle of the domain.

    Raises:
        Refusal: E-KNOB-DOMAIN, E-KNOB-EMPTY.
    """
    old = next((k for k in kernel.knobs if k.name == ref.name), None)
    domain = tuple(ref.domain) if ref.domain is not None else tuple(default_domain)
    if ref.value is not None:
        domain = tuple(sorted({*domain, ref.value})) if ref.domain is None else domain
        if ref.value not in domain:
            raise Refusal("E-KNOB-DOMAIN", f"${ref.name}={ref.value} is not in its domain {list(domain)}")
    if old is not None:
        asked, domain = domain, tuple(v for v in old.domain if v in domain)
        if not domain:
            why = f"the uses of ${ref.name} leave no value in common: {list(old.domain)} and {list(asked)}"
            raise Refusal("E-KNOB-EMPTY", why, hint="give one of them another knob")
        value = ref.value if ref.value is not None else old.value
        if value is not None and value not in domain:
            raise Refusal("E-KNOB-DOMAIN", f"${ref.name}={value} is not in {list(domain)}")
        merged = dataclasses.replace(old, domain=domain, default=_default(domain, old.default), value=value)
        return kernel.with_(knobs=tuple(merged if k is old else k for k in kernel.knobs))
    if not domain:
        raise Refusal("E-KNOB-EMPTY", f"no value of ${ref.name} fits")
    decl = KnobDecl(ref.name, domain, _default(domain, wish), doc, owner, ref.value)
    return kernel.with_(knobs=(*kernel.knobs, decl))


def largest(kernel: Kernel) -> KnobValues:
    """The knobs of ``kernel`` at their values, the open ones at their largest."""
    return KnobValues((k.name, k.value if k.value is not None else max(k.domain)) for k in kernel.knobs)


def _default(domain: Sequence[int], wish: int | None) -> int:
    if list(domain) != sorted(domain):
        return domain[0]
    return wish if wish is not None and wish in domain else domain[len(domain) // 2]


def declared_size(
    kernel: Kernel,
    size: int | str | KnobRef,
    default_domain: Sequence[int],
    doc: str,
    owner: str,
    wish: int | None = None,
) -> tuple[Kernel, Expr]:
    """A size as it is written (number, knob, parameter's name) as an expression; the kernel with its knob declared.

    Raises:
        Refusal: E-ARG-RANGE, E-ARG-NAME, E-KNOB-DOMAIN, E-KNOB-EMPTY.
    """
    if isinstance(size, int):
        if size <= 0:
            raise Refusal("E-ARG-RANGE", f"{doc}: a size must be positive, got {size}")
        return kernel, i32(size)
    if isinstance(size, KnobRef):
        return declare_knob(kernel, size, default_domain, doc, owner, wish), Knob(size.name)
    for p in kernel.params:
        if p.sym.name == size:
            return kernel, Var(p.sym)
    known = ", ".join(p.sym.name for p in kernel.params)
    raise Refusal("E-ARG-NAME", f"no parameter named '{size}'", hint=f"a number, a knob such as $N, or one of: {known}")
