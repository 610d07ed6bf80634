"""The sequences of launches in a file's host functions: :func:`sequences_in`."""

from __future__ import annotations

from collections.abc import Mapping

from ktc.ir.frontend.entry_points import deep_recursion, parse_unit
from ktc.ir.frontend.host.sequences.host_sequences import Read, sequences_of
from ktc.ir.frontend.preprocess.preprocessor import Preprocessed


def sequences_in(
    path: str,
    function: str = "",
    template: Mapping[str, str] | None = None,
    defines: Mapping[str, object] | None = None,
    include_dirs: tuple[str, ...] = (),
) -> tuple[list[Read], Preprocessed]:
    """What the file's host functions launch one after the other (those that launch several kernels, or ``function``
    alone), and the file as it was preprocessed: its texts, for carets in errors, and the headers that were not found.

    Args:
        template: template arguments of kernels and host functions that have parameters of these names.

    Raises:
        KtcError: ``E-SOURCE-*``, ``E-PP-*``, ``E-PARSE-*``: the file cannot be read.
    """
    with deep_recursion(path):
        unit = parse_unit(path, None, defines, tuple(include_dirs))
        return list(sequences_of(unit.lowering(), function, template)), unit.source


__all__ = ["sequences_in"]
