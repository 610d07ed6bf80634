"""Launches of a kernel in other grids or blocks than the one that is followed: a source may launch it in several."""

from __future__ import annotations

from collections.abc import Mapping

from ktc.ir.diagnostics import KtcError, Loc
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel, Launch
from ktc.ir.nodes import Expr
from ktc.ir.walk import used

from .entry_points import Unit, choose_kernel, deep_recursion, load_entity, parse_unit
from .host.launch_sites import LaunchSite, launch_sites
from .host.template_instances import choose_instance, instances, template_value
from .meaning.template_args import spell
from .meaning.values import Value
from .syntax.program import Entity

SIZES = (1, 7, 100, 1000, 4096, 65_537)
"""What parameters are to see whether two extents are the same, however they are written."""


def other_launches(
    path: str,
    *,
    kernel: str | None = None,
    template: Mapping[str, object] | None = None,
    defines: Mapping[str, object] | None = None,
    include_dirs: tuple[str, ...] = (),
    dialect: str | None = None,
) -> tuple[Loc | None, list[tuple[Loc | None, Launch]]]:
    """The place of the launch that :func:`.entry_points.load` follows, and those of the same instance that have another
    block, or another grid for some sizes, as far as they can be followed, with their places. Arguments as for ``load``.

    Raises:
        KtcError: as ``load`` does.
    """
    with deep_recursion(path):
        unit = parse_unit(path, None, defines, tuple(include_dirs), dialect=dialect)
        entity, given = choose_kernel(unit, kernel, template)
        lowering = unit.lowering()
        sites = launch_sites(lowering, entity.name)
        bindings, followed, host = choose_instance(lowering, entity, sites, given)
        if followed is None or len(sites) < 2:
            return None, []
        own = load_entity(unit, entity, bindings, followed, host)
        known = {n: template_value(lowering, entity, n, v) for n, v in given.items()}
        key = [spell(bindings[p.name]) for p in entity.params or ()]
        found: list[tuple[Loc | None, Launch]] = []
        for site in (s for s in sites if s is not followed and s.node is not None):
            other = _launched_at(unit, entity, site, known, key)
            if other is not None and other.launch is not None and not _same(own, other):
                found.append((site.loc, other.launch))
        return followed.loc, found


def _launched_at(
    unit: Unit, entity: Entity, site: LaunchSite, known: dict[str, Value], key: list[str]
) -> Kernel | None:
    """The instance with the template arguments ``key`` as ``site`` launches it; None if it does not, or cannot be
    followed."""
    try:
        for bound, where, caller in instances(unit.lowering(), entity, [site], known):
            if where is site and [spell(bound[p.name]) for p in entity.params or ()] == key:
                return load_entity(unit, entity, bound, site, caller)
    except KtcError:
        return None
    return None


def _same(a: Kernel, b: Kernel) -> bool:
    """Whether two launches of a kernel have the same block and, where no host variable decides it, the same grid."""
    assert b.launch is not None
    if a.launch is None:
        return False
    pairs = zip((*a.launch.grid, *a.launch.block), (*b.launch.grid, *b.launch.block))
    return all(_equal(x, y, {p.sym.name for k in (a, b) for p in k.params if p.host}) for x, y in pairs)


def _equal(x: Expr, y: Expr, host: set[str]) -> bool:
    names = sorted({s.name for e in (x, y) for s in used(e)})
    if host & {*names}:
        return True  # of which nothing is known
    for k, n in enumerate(SIZES):
        env = {name: n + k * i for i, name in enumerate(names)}
        if evaluate(x, env) != evaluate(y, env):
            return False
    return True


__all__ = ["other_launches"]
