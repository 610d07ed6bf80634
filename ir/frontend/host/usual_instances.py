"""Which instances of a template kernel a source launches at usual sizes: of ``case 64: k<64>`` .. ``case 4096: ..``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from pycparser import c_ast

from ktc.ir.frontend.meaning.template_args import spell
from ktc.ir.frontend.syntax.program import Entity

from .host_conditions import is_equality, said_by
from .launch_sites import LaunchSite
from .template_instances import Instance

USUAL_SIZE = 4096
"""What sizes are like where nothing says: rows of a model, positions of a sequence."""


def nearest_first(entity: Entity, found: Sequence[Instance]) -> list[Instance]:
    """``found`` in its order, but that instances of the same types which numbers decide about come with those numbers
    first that are nearest to usual sizes: a row of 64 elements says little of a kernel, and vectors of 1 are the last
    resort of its launcher."""
    kinds = [p.name for p in entity.params or () if p.kind == "type"]
    groups: dict[tuple[str, ...], list[Instance]] = {}
    keys = [tuple(spell(bindings[n]) for n in kinds) for bindings, _, _ in found]
    for key, instance in zip(keys, found):
        groups.setdefault(key, []).append(instance)
    nearest = {key: iter(sorted(group, key=lambda instance: _distance(instance[1]))) for key, group in groups.items()}
    return [next(nearest[key]) for key in keys]


def _distance(site: LaunchSite | None) -> int:
    """How far the numbers that lead to a launch, by equalities, are from usual sizes."""
    led = chain.from_iterable(said_by(c.cond, c.holds) for c in (site.reached if site is not None else ()))
    sides = (side for cond, holds in led if is_equality(cond, holds) for side in (cond.left, cond.right))
    numbers = (s.value.rstrip("uUlL") for s in sides if isinstance(s, c_ast.Constant) and "int" in s.type)
    return sum(abs(int(n) - USUAL_SIZE) for n in numbers if n.isdigit())


__all__ = ["USUAL_SIZE", "nearest_first"]
