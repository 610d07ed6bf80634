"""Profiles of programs from Python: ``ktc.profile(["./solver", "--size", "4096"], source="src")``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from ktc.ir.support.quantities import duration, percent

if TYPE_CHECKING:
    from ktc.profiling.kernel_sources import SourceTree
    from ktc.profiling.ranking import Ranked

SHOWN = 15
"""Kernels of a table."""


@dataclass(frozen=True)
class ProgramProfile:
    """What one run of a program launched. ``kernels``: the one that can give the program most first; ``facts``,
    ``advice``: what bounds the program, and what helps beside faster kernels; ``unseen``: what could not be watched."""

    command: tuple[str, ...]
    folder: Path
    seconds: float
    kernels: tuple[Ranked, ...]
    facts: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    tree: SourceTree | None = field(default=None, repr=False)

    def workload(self, kernel: str, out: str | Path | None = None) -> Path:
        """Draft the workload of a kernel as it ran, and give its folder, for :func:`ktc.optimize`.

        >>> ktc.optimize(profile.workload("Fan2"), budget=100)   # doctest: +SKIP

        Args:
            kernel: a part of its name.
            out: the folder [``ktc-out/KERNEL``]; a workload that lies there stays.

        Raises:
            KtcError: E-KERNEL-UNKNOWN, no such kernel ran; E-PROFILE-SOURCE, no source has it.
        """
        from ktc.observed.from_program import folder_name, matching, write_workload
        from ktc.observed.launch_records import loaded

        program = loaded(self.folder)
        chosen = matching(program, [kernel])[0]
        folder = Path(out) if out is not None else Path("ktc-out") / folder_name(chosen, set())
        if not (folder / "workload.toml").is_file():
            write_workload(program, chosen, self.tree or _tree((), {}, (), program.sources), folder / "workload.toml")
        return folder

    def __repr__(self) -> str:
        from ktc.profiling.program_limits import short_name

        first = self.kernels[0] if self.kernels else None
        name = "" if first is None else f", {short_name(first.kernel)} {percent(first.of_program)} of it"
        return (
            f"<ProgramProfile {' '.join(self.command)}: {duration(self.seconds)}, {len(self.kernels)} kernels{name}; "
            f"in {self.folder}>"
        )

    def _repr_html_(self) -> str:
        from ktc.profiling.program_limits import short_name

        from .reprs import in_notebook

        heads = "".join(
            f"<th>{h}</th>" for h in ("kernel", "of the program", "at most", "launches", "median", "source")
        )
        rows = "".join(
            f"<tr><td>{escape(short_name(k.kernel))}</td><td class=n>{percent(k.of_program)}</td>"
            f"<td class=n>{k.most:.2f}x</td><td class=n>{k.launches}</td><td class=n>{duration(k.median)}</td>"
            f"<td>{escape(k.source)}</td></tr>"
            for k in self.kernels[:SHOWN]
        )
        said = "".join(f"<p>{escape(x)}</p>" for x in (*self.facts, *self.advice, *self.unseen))
        return in_notebook(
            f'<table class="ktc-table"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>{said}'
        )


def profile(
    command: Sequence[str], /, *, source: str | Path | Sequence[str | Path] = (), out: str | Path = "ktc-profile",
    contents_mib: int = 0, clock: str = "auto", timeout: float = 0.0, defines: Mapping[str, str] | None = None,
    include_dirs: Sequence[str] = (),
) -> ProgramProfile:  # fmt: skip
    """Run a program and rank its kernels by what a faster one would give the whole program.

    >>> ktc.profile(["./solver", "--size", "4096"], source="src")   # doctest: +SKIP
    <ProgramProfile ./solver --size 4096: 772 ms, 2 kernels, Fan2 42 % of it; in ktc-profile>

    Args:
        command: the program and its arguments.
        source: folders or files with its sources: kernels are found there, and their distance to the bound computed.
        out: the folder of the profile; one that lies there is replaced.
        contents_mib: so much of what buffers hold before the first launch of each kernel is kept.
        clock: ``cupti``, ``events``, or ``auto``: CUPTI, and events where it is missing.
        timeout: seconds after which the program is stopped; 0: never.
        defines, include_dirs: how the sources are read.

    Raises:
        KtcError: E-CAPTURE, the program cannot be run; E-PROFILE-NOTHING, it launched no kernel that was seen.
    """
    from ktc.profiling import ProfileSettings, ranked, unseen, verdict
    from ktc.profiling import profile as run
    from ktc.profiling.kernel_bounds import bounded
    from ktc.profiling.ranking import in_order

    found = run([*command], Path(out), ProfileSettings(clock, timeout, False, contents_mib))
    given = [source] if isinstance(source, str | Path) else [*source]
    compiled = [found.sources] if found.sources is not None else []
    rows, tree = ranked(found), None
    if given or compiled:
        tree = _tree(given, defines or {}, include_dirs, compiled)
        device = next((p.device for p in found.processes if p.device), "")
        rows = in_order([bounded(r, tree, device) for r in rows])
    said = verdict(found, rows)
    return ProgramProfile(found.command, found.folder, found.seconds, tuple(rows), tuple(said.facts),
                          tuple(said.advice), tuple(unseen(found, rows, bool(given))), tree)  # fmt: skip


def _tree(
    source: Sequence[str | Path], defines: Mapping[str, str], include_dirs: Sequence[str], more: Sequence[str | Path]
) -> SourceTree:
    from ktc.profiling.kernel_sources import SourceTree

    return SourceTree(tuple(map(str, (*source, *more))), dict(defines), tuple(include_dirs))


__all__ = ["ProgramProfile", "profile"]
