"""Sizes that others say what they are are no sizes of their own: how that is put down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ktc.ir.kernel import Kernel

from ..footprints import computed_strides
from ..roles import Roles
from ..windows import names_in


def tying(k: Kernel, roles: Roles, ties: Mapping[str, str]) -> Roles:
    """``roles`` with sizes that ``ties`` say what they are, and strides that are computed from them. What would be
    made of itself stays a size: where ``z`` is passed ``n``, that rows are as many as ``z`` says nothing of ``n``."""
    computed, taken = computed_strides(k, roles), dict(roles.tied)
    for name, text in ties.items():
        if name not in names_behind(text, taken):
            taken[name] = text
    new = {n for n in ties if n in taken}
    gone = {*new, *(computed[n] for n in new if n in computed)}
    return replace(roles, sizes=tuple(n for n in roles.sizes if n not in gone), tied=taken)


def names_behind(text: str, ties: Mapping[str, str]) -> set[str]:
    """The names that ``text`` is made of, through ``ties``."""
    left, seen = list(names_in(text)), set[str]()
    while left:
        if (name := left.pop()) not in seen:
            seen.add(name)
            left += names_in(ties.get(name, ""))
    return seen


__all__ = ["names_behind", "tying"]
