"""What ``ktc.optimize`` and ``ktc.tune`` give: the result of a run, as numbers, as code, as kernels to call."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from ktc.ir.support.quantities import count, duration

if TYPE_CHECKING:
    from ktc.agent.report import OptimizeReport, ScenarioResult
    from ktc.api import Program

    from .run_callables import RunKernel


@dataclass(frozen=True, repr=False)
class RunResult:
    """A finished run. ``folder`` has its files, ``report`` all that it found; ``notes``: what to check of a workload
    that was drafted."""

    folder: Path
    report: OptimizeReport
    notes: tuple[str, ...] = ()

    @property
    def speedup(self) -> float:
        """Geometric mean of the tuned scenarios' ratios, original over winner."""
        return self.report.speedup

    @property
    def script(self) -> str:
        """The passes of the kernel that won; '' where the original is kept."""
        return self.report.best_script

    @property
    def knobs(self) -> Mapping[str, int]:
        """The values of the winner's knobs."""
        return self.report.best_knobs

    @property
    def scenarios(self) -> Mapping[str, ScenarioResult]:
        """Times, ratio, verdict, script and knobs by scenario."""
        return {s.name: s for s in self.report.scenarios}

    @property
    def text(self) -> str:
        """The winner's code, in the device's language."""
        return Path(self.report.files["kernel"]).read_text(encoding="utf-8")

    @functools.cached_property
    def program(self) -> Program:
        """The kernel with the winner's passes applied and its knobs bound: to look at, to lower elsewhere, to go on
        from."""
        from ktc.api import load

        start = load(str(self.folder / "recipe.json"))
        return (start.apply(self.script).ok if self.script else start).bind(**self.knobs)

    @functools.cached_property
    def kernel(self) -> RunKernel:
        """The tuned kernels as a function of arrays: numpy's where the run was on a CPU, CuPy's on CUDA,
        pyopencl.array's on OpenCL. It takes the variant that was tuned for the sizes of a call, and the original where
        none may run.

        Raises:
            KtcError: what the target cannot express.
        """
        from .run_callables import kernel_of

        return kernel_of(self.folder, str(self.report.device["backend"]))

    def page(self, output: str | Path | None = None) -> Path:
        """Write the run's report as one HTML page (``report.html`` in the folder), and return where it is."""
        from ktc.page.document import html
        from ktc.page.run_report import report_of
        from ktc.runs import load_run

        target = Path(output) if output is not None else self.folder / "report.html"
        target.write_text(html(report_of([load_run(self.folder)])), encoding="utf-8")
        return target

    def __repr__(self) -> str:
        device = self.report.device
        won = f"{self.speedup:.2f}x by {self.script}" if self.script else "the original is kept"
        return f"<RunResult {self.report.kernel} on {device['name']} ({device['backend']}): {won}; in {self.folder}>"

    def __str__(self) -> str:
        from ktc.agent.report import table

        rows = table(self.report)
        widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
        return "\n".join([repr(self), *("  ".join(c.ljust(w) for c, w in zip(r, widths)).rstrip() for r in rows)])

    def _repr_html_(self) -> str:
        """In notebooks: the scenarios, how near the bound they come, and the winner."""
        from ktc.agent.report import table
        from ktc.page.figures.bound_bars import Bar, Group, bound_bars

        from .reprs import in_notebook

        header, *rows = table(self.report)
        head = "".join(f"<th>{escape(h)}</th>" for h in header)
        body = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in r) + "</tr>" for r in rows)
        known = [s for s in self.report.scenarios if s.bound]
        groups = [
            Group(s.name, duration(s.bound), [
                Bar("original", s.before.median, s.bound / s.before.median, "before"),
                Bar("winner", s.after.median, s.of_bound, "after"),
            ])
            for s in known
        ]  # fmt: skip
        bars = bound_bars(groups, 700) if groups else ""
        knobs = " ".join(f"{k}={v}" for k, v in self.knobs.items())
        won = f"<code>{escape(self.script)}</code> {escape(knobs)}" if self.script else escape(self.report.kept)
        title = f"{self.report.kernel}: {self.speedup:.2f}x, {count(self.report.measured, 'configuration')} measured"
        table_ = f'<table class="ktc-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        return in_notebook(f"<strong>{escape(title)}</strong>{table_}{bars}<p>{won}</p>")


__all__ = ["RunResult"]
