"""Finding good knobs for a script quickly: many configurations lowered and compiled in parallel, each timed briefly.

The contest of ``expert.py`` needs winners within seconds, not the optimiser's ledgers and workers; what it finds is
verified and raced afterwards.
"""

from __future__ import annotations

import functools
import multiprocessing
import random
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.graphs import Contender


@dataclass
class Made:
    """A compiled configuration: the script with its knobs bound, the lowered kernel and its executable."""

    script: str
    kernel: Any
    emitted: Any
    exe: Any
    seconds: float = float("inf")


class Bench:
    """One CUDA runtime, and everything compiled so far by its text."""

    def __init__(self, jobs: int = 12) -> None:
        from ktc.backends.runtimes import open_runtime

        self.lowering = ProcessPoolExecutor(jobs, multiprocessing.get_context("fork"))
        list(self.lowering.map(abs, range(jobs)))  # all processes start before CUDA does
        self.runtime = open_runtime("cuda")
        self.pool = ThreadPoolExecutor(jobs)
        self._known: dict[tuple[str, str], Any] = {}

    def compile(self, emitted: Any) -> Any:
        """The executable, or the exception that the compiler gave."""
        key = (emitted.text, emitted.entry)
        if key not in self._known:
            try:
                self._known[key] = self.runtime.compile(emitted)
            except Exception as e:  # a refused configuration loses, it does not end the run
                self._known[key] = e
        return self._known[key]

    def configurations(self, work: Any, variant: str, script: str, sizes: Mapping[str, int], budget: int) -> list[str]:
        """Up to ``budget`` scripts with knobs bound that fit ``sizes`` and the device: default, then a sample."""
        from ktc.ir.workload.scenario_facts import scalars_of
        from ktc.passes.core.language import parse_script
        from ktc.passes.core.pipeline import apply_script
        from ktc.passes.lowering import materialise
        from ktc.search.space.device_limits import space_of

        applied = apply_script(work.load_kernel(variant or None), parse_script(script))
        if applied.refused is not None:
            raise ValueError(f"{work.kernel_name}: {applied.refused}")
        lowered = materialise(applied.kernel)
        values = {k: v for k, v in scalars_of(work, sizes).items() if isinstance(v, int)}
        space = space_of(lowered, self.runtime.device, [{**values, **sizes}])
        indices = list(range(space.size))
        if space.size > budget:
            indices = random.Random(space.size).sample(indices, budget)
        default = space.find(space.default())
        chosen = dict.fromkeys([default, *indices] if default >= 0 else indices)
        return [bound(script, space.config(i)) for i in chosen]

    def build(self, work: Any, variant: str, scripts: Sequence[str]) -> list[Made]:
        """What compiles of ``scripts`` (knobs bound; '' is the kernel as it is)."""
        lowered = self.lowering.map(_emitted, [work.path] * len(scripts), [variant] * len(scripts), scripts)
        made = [Made(script, emitted.kernel, emitted, None) for script, emitted in zip(scripts, lowered)]
        for m, exe in zip(made, self.pool.map(lambda m: self.compile(m.emitted), made)):
            m.exe = exe
        for m in made:
            if isinstance(m.exe, Exception):
                print(f"    {m.script}: does not compile: {str(m.exe)[:400]}", flush=True)
        return [m for m in made if not isinstance(m.exe, Exception)]

    def quick(self, made: Sequence[Made], sets: list[dict[str, Any]], samples: int = 5) -> list[Made]:
        """``made`` by time, fastest first; what does not launch is left out."""
        for m in made:
            c = Contender(m.script, launcher(m), sets)
            try:
                c.capture()
            except Exception as e:
                print(f"    {m.script}: {type(e).__name__}: {e}", flush=True)
                continue
            m.seconds = min(c.sample() for _ in range(samples))
        return sorted((m for m in made if m.seconds < float("inf")), key=lambda m: m.seconds)


def launcher(m: Made) -> Any:
    """Launches ``m`` on PyTorch's current stream, which a graph capture follows."""
    import cupy as cp
    import torch

    def launch(args: Mapping[str, Any]) -> None:
        with cp.cuda.Stream.from_external(torch.cuda.current_stream()):
            m.exe.launch(args)

    return launch


def lowered_kernel(work: Any, variant: str, script: str) -> Any:
    from ktc.ir.kernel import bind
    from ktc.passes.core.language import parse_script
    from ktc.passes.core.pipeline import apply_script
    from ktc.passes.lowering import materialise

    kernel = work.load_kernel(variant or None)
    if script:
        applied = apply_script(kernel, parse_script(script))
        if applied.refused is not None:
            raise ValueError(f"{work.kernel_name}: {applied.refused}")
        kernel = bind(applied.kernel, {})
    return materialise(kernel)


@functools.cache
def _workload(path: Path) -> Any:
    from ktc.ir.workload import Workload

    return Workload.load(path)


def _emitted(path: Path, variant: str, script: str) -> Any:
    """The CUDA code of a script, made in a process of its own."""
    from ktc.backends import emit

    try:
        return emit(lowered_kernel(_workload(path), variant, script), "cuda")
    except Exception as e:
        raise ValueError(f"{script}: {e}") from None  # an exception with data of its own does not travel


def bound(script: str, knobs: Mapping[str, int]) -> str:
    """``script`` with its knobs bound in the text and its constraints, which held, left out."""
    text = script.partition(" where ")[0]
    return re.sub(
        r"\$(\w+)(:\([^)]*\)|:\d+(?:,\d+)*|=\d+)?", lambda m: f"${m[1]}={knobs[m[1]]}" if m[1] in knobs else m[0], text
    )
