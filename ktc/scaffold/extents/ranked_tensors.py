"""Tensors whose number of dimensions is an argument: ``TensorInfo`` of PyTorch, with room for 25 of them, whose members
are the parameters ``x_data``, ``x_sizes_0``, .., ``x_strides_0``, .. and ``x_dims``.

Where the host does not say how many there are, drafts pass elements that lie one after the other in one dimension: the
kernel asks for no more of the numbers than that.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ktc.ir.kernel import Kernel

from ..roles import Roles


def ranked_tensors(k: Kernel) -> tuple[str, ...]:
    """The names of such tensors."""
    names = {p.sym.name for p in k.params}
    found = (n.removesuffix("_dims") for n in names if n.endswith("_dims"))
    return tuple(sorted(t for t in found if {f"{t}_data", f"{t}_sizes_0", f"{t}_strides_0"} <= names))


def in_one_dimension(k: Kernel, roles: Roles) -> Roles:
    """``roles`` with one dimension of such tensors of which nothing says more."""
    names = [p.sym.name for p in k.params]
    fixed = dict[str, int]()
    for tensor in ranked_tensors(k):
        if not {f"{tensor}_dims"} & {*roles.tied, *roles.fixed}:
            member = re.compile(rf"{tensor}_(dims|strides_\d+|sizes_[1-9]\d*)")
            fixed |= {n: 1 for n in names if member.fullmatch(n)}
    if not fixed:
        return roles
    firsts = {f"{tensor}_sizes_0" for tensor in ranked_tensors(k)}
    sizes = tuple(n for n in names if n in firsts and n in roles.flags)
    kept = [tuple(n for n in mine if n not in fixed) for mine in (roles.sizes + sizes, roles.flags)]
    tied = {n: e for n, e in roles.tied.items() if n not in fixed}
    flags = tuple(n for n in kept[1] if n not in sizes)
    return replace(roles, sizes=kept[0], flags=flags, tied=tied, fixed={**roles.fixed, **fixed})


__all__ = ["in_one_dimension", "ranked_tensors"]
