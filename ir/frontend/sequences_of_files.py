"""The sequences of launches in a file's host functions: :func:`sequences_in`."""

from __future__ import annotations

from collections.abc import Mapping

from ktc.ir.frontend.entry_points import deep_recursion, parse_unit
from ktc.ir.frontend.host.sequences.host_sequences import Read, sequences_of


def sequences_in(
    path: str,
    function: str = "",
    template: Mapping[str, str] | None = None,
    defines: Mapping[str, object] | None = None,
    include_dirs: tuple[str, ...] = (),
) -> tuple[list[Read], Mapping[str, str]]:
    """What the file's host functions launch one after the other (those that launch several kernels, or ``function``
    alone), and the texts of its files, for carets in errors.

    Args:
        template: template arguments of kernels and host functions that have parameters of these names.

    Raises:
        KtcError: ``E-SOURCE-*``, ``E-PP-*``, ``E-PARSE-*``: the file cannot be read.
    """
    with deep_recursion(path):
        unit = parse_unit(path, None, defines, tuple(include_dirs))
        return list(sequences_of(unit.lowering(), function, template)), unit.source.sources


__all__ = ["sequences_in"]
