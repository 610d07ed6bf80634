"""The launch of a kernel where tensors of the host are supposed to have a number of dimensions."""

from __future__ import annotations

from collections.abc import Mapping

from ktc.ir.kernel import Kernel

from .entry_points import Unit, choose_kernel, deep_recursion, load_entity, parse_unit
from .host.launch_sites import launch_sites
from .host.template_instances import choose_instance
from .lowering.lower_kernel import KernelLowering


class _Supposing(Unit):
    """A unit whose host code is read for tensors of ``rank`` dimensions."""

    rank: int

    def lowering(self) -> KernelLowering:
        low = super().lowering()
        low.rank = self.rank
        return low


def launched_of_rank(
    path: str,
    rank: int,
    *,
    kernel: str | None = None,
    template: Mapping[str, object] | None = None,
    defines: Mapping[str, object] | None = None,
    include_dirs: tuple[str, ...] = (),
    dialect: str | None = None,
) -> Kernel:
    """The kernel as :func:`.entry_points.load` reads it, launched for tensors of ``rank`` dimensions.

    Raises:
        KtcError: as ``load`` does.
    """
    with deep_recursion(path):
        read = parse_unit(path, None, defines, include_dirs, dialect=dialect)
        unit = _Supposing(read.file, read.source, read.program)
        unit.rank = rank
        entity, given = choose_kernel(unit, kernel, template)
        lowering = unit.lowering()
        bindings, site, host = choose_instance(lowering, entity, launch_sites(lowering, entity.name), given)
        return load_entity(unit, entity, bindings, site, host)


__all__ = ["launched_of_rank"]
