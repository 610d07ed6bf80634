"""What a run of the interpreter leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ktc.ir.interp.sanitizer.findings import Finding
from ktc.ir.nodes import Stmt


@dataclass(frozen=True)
class RunResult:
    """What a run left behind.

    ``outputs``: every buffer the kernel may write, by parameter name, shaped like its argument, in the domain's storage
    (``float``: the element type itself; exact domains: words to compare bit for bit; ``bound``: y + bound*1j).
    ``written``: for buffers named ``undefined``, which elements were stored to. ``stored``: the buffers, by parameter
    name, that some thread stored to, in bounds or not. ``steps``: statements executed;
    ``spared``: how many more there would have been, had no rounds of loops run at once.
    ``work``: what the run cost, in statements of few threads; the same on every machine.
    ``unreached``: the first statement of every branch and loop body that no thread entered. ``once``: the loops that no
    thread went round twice, among them those that it never entered. With ``measure``:
    ``reach`` is the lowest and highest index of each buffer (of its scalars) that any thread asked for, in bounds or
    not, and ``accesses`` how many scalars all threads moved. With ``footprints``: ``reads`` has, of each load of a
    parameter's buffer, that parameter's name and which of its scalars it read. ``lanes``: how many a statement had on
    average, rounds of loops that run at once among them, and at most.
    """

    outputs: dict[str, np.ndarray]
    findings: list[Finding] = field(default_factory=list)
    written: dict[str, np.ndarray] = field(default_factory=dict)
    stored: frozenset[str] = frozenset()
    steps: int = 0
    work: float = 0.0
    unreached: tuple[Stmt, ...] = ()
    once: tuple[Stmt, ...] = ()
    outcomes: Mapping[int, int] = field(default_factory=dict)
    reach: dict[str, tuple[int, int]] = field(default_factory=dict)
    accesses: int = 0
    reads: tuple[tuple[str, np.ndarray], ...] = ()
    spared: int = 0
    lanes: tuple[float, float] = (0.0, 0.0)

    @property
    def ok(self) -> bool:
        return not self.findings

    @property
    def ended(self) -> bool:
        """Whether the run came to its end: it was not cut off for the statements that it took."""
        return not any(f.kind == "fuel" for f in self.findings)


def same(a: RunResult, b: RunResult) -> bool:
    """Equal results wherever the kernel stored, and the same findings at the same elements."""
    for name, x in a.outputs.items():
        y, mask = b.outputs[name], a.written.get(name)
        if mask is not None:
            if not np.array_equal(mask, b.written[name]):
                return False
            x, y = x[mask], y[mask]
        if x.tobytes() != y.tobytes():
            return False
    return [(f.kind, f.index) for f in a.findings] == [(f.kind, f.index) for f in b.findings]
