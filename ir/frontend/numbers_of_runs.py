"""The integers that a source's launch of a kernel passes as numbers, computed ones too."""

from __future__ import annotations

from collections.abc import Mapping

from ktc.ir.fold import evaluate

from .entry_points import choose_kernel, deep_recursion, parse_unit
from .host.callers import numbers_passed
from .host.kernel_choice import definition
from .host.launch_sites import launch_sites
from .host.launches.host_launches import HostLaunch
from .host.launches.numbers_as_sizes import numbers_as_sizes
from .host.template_instances import choose_instance
from .lowering.calls.inline import params_of


def numbers_of_run(
    text: str,
    name: str,
    *,
    kernel: str | None = None,
    template: Mapping[str, object] | None = None,
    defines: Mapping[str, object] | None = None,
    include_dirs: tuple[str, ...] = (),
    dialect: str | None = None,
) -> dict[str, int]:
    """Integers by the names of the kernel's parameters, of the host's numbers that are sizes and of what the host
    functions that launch it are passed, and of the grid's axes, ``grid.x``; other arguments as for
    :func:`.entry_points.load`.

    Raises:
        KtcError: the source cannot be read, or its launch not be followed.
    """
    with deep_recursion(name):
        unit = parse_unit(text, name, defines, tuple(include_dirs), dialect=dialect)
        entity, arguments = choose_kernel(unit, kernel, template)
        lowering = unit.lowering()
        bindings, site, host = choose_instance(lowering, entity, launch_sites(lowering, entity.name), arguments)
        if site is None or site.node is None:
            return {}
        entity, inside = definition(lowering, entity, bindings)
        whole = tuple(getattr(p, "name", None) or f"unnamed{i}" for i, p in enumerate(params_of(entity.node)))
        here = HostLaunch(lowering, site, lowering.parameters(entity, inside), host, {}, whole)
        grid = {f"grid.{a}": evaluate(e, {}) for a, e in zip("xyz", here.launch()[0].grid)}
        found = {n: int(v) for n, v in grid.items() if v is not None} | numbers_passed(here)
        return numbers_as_sizes(site) | found


__all__ = ["numbers_of_run"]
