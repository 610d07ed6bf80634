"""Comparing two kernels' outputs on the device, at sizes where copying them back would take longer than the contest.

The rule is that of ``ktc.search.verification.device.differential`` without a reference: with u the round-off of the
output's type and g the source's result, |h - g| <= (4 u + 256 u_f32) (|g| + rms(g)); integers are equal. Outputs are
poisoned before each launch, so an element left out shows. Where the two are further apart, the source may be the one
that is off (a sum in one thread): the workload's float64 reference decides, by the rules of ``verification.large``.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping
from typing import Any

from tests.bench.tuning import Made

PIECE = 1 << 25
"""Elements compared at once."""

REFERENCE_ELEMENTS = 1 << 28
"""Array elements beyond which no float64 reference is computed."""


class Judge:
    """The outputs of the source, ``naive``, on one set of inputs, to hold candidates against."""

    def __init__(self, work: Any, variant: str, naive: Made, runtime: Any, arguments: Mapping[str, Any]) -> None:
        import cupy as cp

        self.work, self.naive, self.runtime = work, naive, runtime

        self.roles = {a.name: a.role for a in work.args}
        self.dtypes = {a.name: work.dtype(a, variant or None) for a in work.args}
        self.arguments = dict(arguments)
        self.pristine = {n: arguments[n].copy() for n, r in self.roles.items() if r == "inout"}
        self.seconds = float("inf")
        for _ in range(2):  # the first launch loads the code
            began = time.perf_counter()
            naive_out = self._outputs(naive.exe)
            self.seconds = min(self.seconds, time.perf_counter() - began)
        self.expected = {n: v.copy() for n, v in naive_out.items()}
        cp.cuda.runtime.deviceSynchronize()

    def _outputs(self, exe: Any) -> dict[str, Any]:
        import cupy as cp

        for n, r in self.roles.items():
            if r == "out":
                self.arguments[n].view(cp.uint8).fill(0xFF)
            elif r == "inout":
                self.arguments[n][...] = self.pristine[n]
        exe.launch(self.arguments)
        cp.cuda.runtime.deviceSynchronize()
        return {n: self.arguments[n] for n, r in self.roles.items() if r in ("out", "inout")}

    def differs(self, exe: Any) -> str:
        """'' if ``exe`` computes what the source does, else the worst element."""
        got = self._outputs(exe)
        return next((w for n in got if (w := self._compare(n, self.expected[n], got[n]))), "")

    @functools.cached_property
    def host(self) -> dict[str, Any]:
        """The arguments before any launch."""
        import cupy as cp

        start = self.arguments | self.pristine
        return {n: cp.asnumpy(v) if isinstance(v, cp.ndarray) else v for n, v in start.items()}

    @functools.cached_property
    def spreads(self) -> Mapping[str, Any]:
        """How widely the source's outputs spread (see ``ktc.search.verification.floats.moments``)."""
        from ktc.search.verification.floats.moments import spreads

        return spreads(self.runtime, self.naive.emitted, self.host, list(self.expected))

    @functools.cached_property
    def reference(self) -> Mapping[str, Any]:
        elements = sum(v.size for v in self.host.values() if hasattr(v, "size"))
        return (self.work.reference(self.host) or {}) if elements <= REFERENCE_ELEMENTS else {}

    def _compare(self, name: str, want: Any, got: Any) -> str:
        """'' if ``got`` agrees with ``want``, or is as near the reference."""
        why = self._difference(name, want, got)
        if not why or self.dtypes[name] not in ("f16", "f32", "f64"):
            return why
        import cupy as cp

        from ktc.search.verification.floats.accuracy import lost_accuracy
        from ktc.search.verification.floats.agreement import FEW_ELEMENTS
        from ktc.search.verification.floats.large import too_far

        h, g, y = cp.asnumpy(got), cp.asnumpy(want), self.reference.get(name)
        wide = self.spreads.get(name) if h.size < FEW_ELEMENTS else None
        if y is None and wide is None:
            return why
        found = too_far(h, g, y, wide) or (y is not None and lost_accuracy(h, g, y)) or None
        return f"{name}{list(found.index)}: {found}" if found else ""

    def _difference(self, name: str, want: Any, got: Any) -> str:
        import torch

        from ktc.ir.interp.domains.rounding import UNIT_ROUNDOFF

        kind = self.dtypes[name]
        a, b = (torch.as_tensor(x.reshape(-1), device="cuda") for x in (want, got))
        if torch.equal(a, b):
            return ""
        narrow = {"bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}.get(kind)
        if narrow is not None:
            a, b = a.view(narrow), b.view(narrow)
        if not a.dtype.is_floating_point:
            return f"{name}: {int((a != b).sum())} integers differ"
        rms = 0.0
        for k in range(0, a.numel(), PIECE):
            x = a[k : k + PIECE].double()
            rms += float(x[torch.isfinite(x)].square().sum())
        scale = (rms / a.numel()) ** 0.5
        bound = 4 * float(UNIT_ROUNDOFF[kind]) + 256 * 2.0**-24
        for k in range(0, a.numel(), PIECE):
            x, y = a[k : k + PIECE].double(), b[k : k + PIECE].double()
            wrong = ~((x == y) | (torch.isnan(x) & torch.isnan(y)) | ((x - y).abs() <= bound * (x.abs() + scale)))
            if bool(wrong.any()):
                at = int(wrong.nonzero()[0])
                return f"{name}[{k + at}] is {float(y[at])}, the source's {float(x[at])}"
        return ""
