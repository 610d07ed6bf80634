"""Configurations of a recipe against its original, on one device: the measurements that a recipe keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .api import Program
from .ir.diagnostics import KtcError
from .ir.workload import Scenario


class Contest:
    """Times scripts of ``program`` in turn with its original; ``say`` is told each result."""

    def __init__(self, program: Program, device: str | None, say: Callable[[str], None], seed: int = 0) -> None:
        from .agent.bench import Bench
        from .agent.build import Builder

        assert program.workload is not None and program.original is not None
        self.work, self.say = program.workload, say
        self._builder = Builder(program.original)
        self._bench = Bench(program.workload, program.original, variant=program.variant, device=device, seed=seed)

    def __enter__(self) -> Contest:
        return self

    def __exit__(self, *_: object) -> None:
        self._bench.close()

    def bytes_at(self, sizes: Mapping[str, int]) -> int:
        """What the arrays of a call take."""
        return self.work.call_bytes(sizes, self._bench.variant)

    def timed(self, script: str, knobs: Mapping[str, int], name: str, sizes: Mapping[str, int]) -> dict[str, Any]:
        """The entry of a recipe for ``script`` with ``knobs`` at the ``sizes`` that are called ``name``.

        Raises:
            KtcError: the script does not build; E-VERIFY-FAILED.
        """
        from .agent.build import Candidate
        from .agent.planner import Proposal

        built = self._builder.build(Proposal(script, ""))
        if not isinstance(built, Candidate):
            raise KtcError(built.code, f"{script}: {built.detail}")
        found = self._bench.compare(built, dict(knobs), Scenario(name, dict(sizes)))
        if found.verdict != "ok":
            raise KtcError("E-VERIFY-FAILED", f"{name}: what the timed launch left is wrong: {found.verdict}")
        ratio, low, high = found.ratio
        said = "".join(f" {k}={v}" for k, v in knobs.items())
        self.say(f"{name}: {ratio:.2f}x [{low:.2f}, {high:.2f}] by {script}{said}")
        return {
            "sizes": dict(sizes), "script": script, "knobs": dict(knobs), "ratio": [ratio, low, high],
            "seconds": found.after.median, "low": found.after.low, "high": found.after.high,
            "baseline_seconds": found.before.median,
        }  # fmt: skip
