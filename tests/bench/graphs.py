"""Timing on CUDA by replayed graphs over rotating buffers: one launcher per contender, all contenders interleaved.

An independent, smaller version of the harness inside ktc, so that its numbers have a second witness.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from statistics import median
from typing import Any

ROTATE_BYTES = 256 << 20
"""Buffer sets rotate through at least this much memory: several times the L2 of today's devices."""

LAUNCHES = 24
"""Launches captured per graph, at least, unless they are slow."""

GRAPH_SECONDS = 10e-3
"""A graph that runs for longer than this is long enough for the resolution of events."""


class Contender:
    """Something that launches work for one buffer set; captured once, replayed for every sample."""

    def __init__(self, name: str, launch: Callable[[Any], Any], sets: Sequence[Any]) -> None:
        self.name = name
        self.launch = launch
        self.sets = sets
        self.samples: list[float] = []
        self._keep: list[Any] = []

    def capture(self) -> None:
        """Warm up and capture. Raises what the launch raises."""
        import torch

        for s in self.sets[:2]:
            self.launch(s)
            self.launch(s)
        a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        a.record()
        self.launch(self.sets[0])
        b.record()
        torch.cuda.synchronize()
        enough = ceil(GRAPH_SECONDS / max(a.elapsed_time(b) * 1e-3, 1e-6))
        rounds = max(1, LAUNCHES // len(self.sets))
        self.launches = min(rounds * len(self.sets), enough)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for k in range(self.launches):
                self._keep.append(self.launch(self.sets[k % len(self.sets)]))
        self.graph.replay()
        torch.cuda.synchronize()

    def sample(self) -> float:
        """Seconds per launch of one replay."""
        import torch

        a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        a.record()
        self.graph.replay()
        b.record()
        b.synchronize()
        t = a.elapsed_time(b) * 1e-3 / self.launches
        self.samples.append(t)
        return t

    @property
    def time(self) -> float:
        return median(self.samples[2:])


def race(contenders: list[Contender], rounds: int = 25, capture: bool = True) -> None:
    """Sample every contender in turn, ``rounds`` times; the first two rounds are dropped."""
    for c in contenders if capture else ():
        c.capture()
    for _ in range(rounds + 2):
        for c in contenders:
            c.sample()
