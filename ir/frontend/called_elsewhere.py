"""What a function that launches a kernel is called with in other files than the kernel's: ``extern "C"`` wrappers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Launch
from ktc.ir.nodes import Sym

from .entry_points import choose_kernel, deep_recursion, load_entity, parse_unit
from .host.host_code import uses
from .host.launch_sites import LaunchSite, launch_sites
from .host.template_instances import choose_instance
from .lowering.lower_kernel import KernelLowering


def launch_as_called(
    path: str,
    units: Callable[[str], Sequence[str]],
    *,
    kernel: str | None = None,
    template: Mapping[str, object] | None = None,
    defines: Mapping[str, object] | None = None,
    include_dirs: tuple[str, ...] = (),
    dialect: str | None = None,
) -> tuple[Launch, dict[str, Sym]] | None:
    """The launch of a kernel with what is said of it by callers in the files that ``units`` gives for the name of the
    function which launches it, and the kernel's parameters by name; None where it is of its file alone, is called
    there, or no other calls it. Other arguments as for :func:`.entry_points.load`.

    Raises:
        KtcError: as ``load`` does.
    """
    with deep_recursion(path):
        unit = parse_unit(path, None, defines, include_dirs, dialect=dialect)
        entity, given = choose_kernel(unit, kernel, template)
        lowering = unit.lowering()
        bindings, site, host = choose_instance(lowering, entity, launch_sites(lowering, entity.name), given)
        if site is None or site.node is None or not _is_shared(site):
            return None
        if _calls(lowering, site.function.name, unit.file):
            return None
        found = (_lowering(u, defines, include_dirs) for u in units(site.function.name))
        there = [low for low in found if low is not None]
        if not there:
            return None
        called = load_entity(unit, entity, bindings, site, host, there)
        return None if called.launch is None else (called.launch, {p.sym.name: p.sym for p in called.params})


def _is_shared(site: LaunchSite) -> bool:
    """Whether other files call the function at ``site`` by its name: a method of that name may be any class's."""
    own = "static" in (*site.function.node.specs, *(site.function.node.decl.storage or ()))
    return not (site.host.owner or own or site.function.name == "main")


def _calls(lowering: KernelLowering, name: str, file: str) -> bool:
    """Whether ``file`` itself calls a function: what its headers make of that is called from other files as well."""
    return any(
        u.call is not None and u.loc is not None and u.loc.file == file for u in uses(lowering, frozenset({name}))
    )


def _lowering(file: str, defines: Mapping[str, object] | None, folders: tuple[str, ...]) -> KernelLowering | None:
    """A file as it is read beside the kernel's, with the same macros and folders; None if it cannot be."""
    try:
        return parse_unit(file, None, defines, folders).lowering()
    except KtcError:
        return None


__all__ = ["launch_as_called"]
