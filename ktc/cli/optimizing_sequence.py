"""``ktc optimize`` of a sequence of launches: fused, and each launch by itself, under one budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ktc.ir.diagnostics import KtcError
from ktc.ir.support.quantities import duration

from .output import note, print_json, styled, table

if TYPE_CHECKING:
    from ktc.agent.report import OptimizeReport
    from ktc.api import Program
    from ktc.search.workers.head_start import HeadStart

SearchOne = Callable[..., "OptimizeReport"]
"""The search of one workload: its folder, that of the results, measurements and seconds at most; ``ahead``: a process
that is opening the device already."""


@dataclass(frozen=True)
class Ways:
    """What a sequence takes in one scenario, in seconds: its launches as they are, each tuned by itself (None: one of
    them was not), and fused and tuned."""

    scenario: str
    before: float
    apart: float | None
    fused: float

    @property
    def best(self) -> str:
        """The fastest way."""
        if self.apart is not None and self.apart < min(self.fused, self.before):
            return "launches tuned apart"
        return "fused" if self.fused < self.before else "as they are"


def optimize_sequence(
    program: Program, folder: Path, budget: int, seconds: float, search: SearchOne, quiet: bool, ahead: HeadStart | None
) -> None:
    """Half of the budget goes to the fused sequence, the rest to its launches; one table says what each way takes."""
    from ktc.fused_sequences import in_one_text
    from ktc.launches_apart import launch_folders

    program = in_one_text(program, folder / "sequence")
    assert program.workload is not None
    parts = launch_folders(program, folder)
    say = (lambda text: None) if quiet else note
    say(f"{program.kernel.name}: {len(parts)} launches, fused and by themselves; results in {folder}")
    whole = search(
        program.workload.path.parent, folder / "fused", max(1, budget - budget // 2), seconds / 2, ahead=ahead
    )
    share = max(1, budget // 2 // len(parts))
    alone: list[OptimizeReport | None] = []
    for name, own in parts:
        say(f"\n{name} by itself")
        try:
            alone.append(search(own, own, share, seconds / 2 / len(parts)))
        except KtcError as e:
            if e.exit_code not in (0, 1):
                raise
            say(f"{name} is not tuned by itself: {e.message}")
            alone.append(None)
    ways = list(compared(whole, alone))
    if quiet:
        print_json({
            "fused": whole.to_json(), "apart": [r.to_json() if r is not None else None for r in alone],
            "scenarios": [{**vars(w), "best": w.best} for w in ways],
        })  # fmt: skip
        return
    _show(program.kernel.name, whole, ways)


def compared(whole: OptimizeReport, alone: Sequence[OptimizeReport | None]) -> list[Ways]:
    """By scenario, the sum of the launches' times beside that of the fused sequence."""
    out = []
    for s in whole.scenarios:
        times = [_after(r, s.name) for r in alone]
        known = [t for t in times if t is not None]
        apart = sum(known) if len(known) == len(times) and known else None
        out.append(Ways(s.name, s.before.median, apart, s.after.median))
    return out


def _after(report: OptimizeReport | None, scenario: str) -> float | None:
    found = (s.after.median for s in report.scenarios if s.name == scenario) if report is not None else iter(())
    return next(found, None)


def _show(name: str, whole: OptimizeReport, ways: Sequence[Ways]) -> None:
    rows = [
        (w.scenario, duration(w.before), "-" if w.apart is None else duration(w.apart), duration(w.fused), w.best)
        for w in ways
    ]
    print(f"\n{styled(name, 'bold')} on {whole.device['name']} ({whole.device['backend']})")
    print(table(["scenario", "as they are", "tuned apart", "fused", "fastest"], rows, right=(1, 2, 3)))
    if whole.best_script:
        print(f"\nscript  {whole.best_script}")
        print("knobs   " + (" ".join(f"{k}={v}" for k, v in whole.best_knobs.items()) or "none"))
    print("tuned apart: the sum of the launches' times, each measured by itself, on data that no launch before it left "
          "in the cache")  # fmt: skip
    for line in dict.fromkeys(whole.notes):
        note(f"note: {line}")
    for what, path in whole.files.items():
        print(f"{what}: {path}")


__all__ = ["Ways", "compared", "optimize_sequence"]
