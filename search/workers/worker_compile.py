"""Compiling ahead, in processes without a device context: the result lands in the content-addressed cache."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from .worker_protocol import code_from_json


class Compiler:
    """``device`` names the runtime for the targets whose compiler lives in the driver (OpenCL)."""

    def __init__(self, device: str) -> None:
        self.device = device
        self._runtimes: dict[str, Any] = {}

    def handlers(self) -> dict[str, Any]:
        return {"compile": self.compile, "ready": self.ready}

    def ready(self, m: Mapping[str, Any]) -> dict[str, Any]:
        """Load what compiling a kernel for ``arch`` takes."""
        if m["arch"]:
            from ktc.backends.runtimes.nvrtc import get_ready

            get_ready(m["arch"])
        return {}

    def compile(self, m: Mapping[str, Any]) -> dict[str, Any]:
        """Compile ``code`` for ``arch``; raises CompileFailure."""
        code = code_from_json(m["code"])
        start = time.perf_counter()
        out: dict[str, Any] = {"resources": {}}
        if code.target in ("cuda", "hip"):
            from ktc.backends.runtimes.nvrtc import cubin_of

            built = [cubin_of(one, m["arch"]) for one in code.launches or (code,)]
            out |= {
                "log": "\n".join(b.log for b in built if b.log), "cached": all(b.cached for b in built),
                "bytes": sum(len(b.code) for b in built),
            }  # fmt: skip
        else:
            out["resources"] = dict(self._runtime(code.target).compile(code).resources)
        return {**out, "seconds": time.perf_counter() - start}

    def _runtime(self, target: str) -> Any:
        if target not in self._runtimes:
            from ktc.backends.runtimes import open_runtime

            name = self.device if self.device.partition(":")[0] == target else target
            self._runtimes[target] = open_runtime(name)
        return self._runtimes[target]
