"""``ktc.export``: runs as a drop-in, from Python."""

from __future__ import annotations

from pathlib import Path

from .search_results import RunResult


def export(
    *runs: RunResult | str | Path, to: str = "auto", out: str | Path | None = None, check: bool = True,
    elsewhere: bool = False,
    deterministic: bool = False,
) -> Path:  # fmt: skip
    """Write runs of one kernel as a drop-in, as ``ktc export`` does.

    >>> ktc.export(run, to="torch")                                     # doctest: +SKIP
    PosixPath('ktc-export/silu_and_mul_kernel-torch')

    Args:
        runs: what :func:`ktc.optimize` gave, or folders of runs; one for each dtype.
        to: auto (what calls kernels of the run's own language), torch, cupy, numpy, pyopencl, source, cmake or hip.
        out: the folder to write; ``ktc-export/KERNEL-TARGET`` by default.
        check: compile C++ files, where their compiler is installed.
        elsewhere: export for GPUs what was measured on a CPU.
        deterministic: leave kernels out whose sums depend on timing (atomics on floats).

    Returns:
        the folder.

    Raises:
        KtcError: E-USAGE, there is no such target; what :func:`ktc.exporting.writing.export` raises.
    """
    from ktc.exporting.writing import TARGETS, own_target
    from ktc.exporting.writing import export as write
    from ktc.ir.diagnostics import KtcError
    from ktc.recipes import open_recipe

    recipes = [open_recipe(Path(r.folder) if isinstance(r, RunResult) else Path(r)) for r in runs]
    target = own_target(recipes) if to == "auto" else to
    if target not in TARGETS or not recipes:
        known = ", ".join(["auto", *TARGETS])
        raise KtcError("E-USAGE", f"ktc.export needs a run, and to= one of {known}", exit_code=2)
    folder = Path(out) if out is not None else Path("ktc-export") / f"{recipes[0].recipe.kernel}-{target}"
    return write(recipes, [], target, folder, check=check, elsewhere=elsewhere, ordered=deterministic).folder


__all__ = ["export"]
