"""A compiled sequence: its launches in order, on buffers that it allocates itself where they are its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ktc.backends.base import Emitted

from .common import Scratch


class SequenceExecutable:
    """``steps``: the launches. ``resources``: of each kind the most that one of them needs."""

    def __init__(
        self, code: Emitted, compile_one: Callable[[Emitted], Any], to_device: Callable[[np.ndarray], Any]
    ) -> None:
        self.code = code
        self.steps: list[Any] = [compile_one(step) for step in code.launches]
        self._scratch = Scratch(code.kernel, to_device)
        kinds = {k for s in self.steps for k in s.resources}
        self.resources: Mapping[str, int] = {k: max(s.resources.get(k, 0) for s in self.steps) for k in sorted(kinds)}

    def launch(self, args: Mapping[str, object]) -> None:
        """All launches, one after the other in one stream."""
        args = self._scratch.complete(args)
        for step in self.steps:
            step.launch(args)

    def prepared(self, args: Mapping[str, object]) -> list[Any]:
        """What the runtime enqueues for one run of the sequence, launch by launch."""
        args = self._scratch.complete(args)
        return [one for step in self.steps for one in step.prepared(args)]


__all__ = ["SequenceExecutable"]
