"""Comparing two kernels' outputs on the device, at sizes where copying them back would take longer than the contest.

The rule is that of ``ktc.search.verification.differential`` without a reference: with u the round-off of the output's
type and g the source's result, |h - g| <= (4 u + 256 u_f32) (|g| + rms(g)); integers are equal. Outputs are poisoned
before each launch, so an element left out shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PIECE = 1 << 25
"""Elements compared at once."""


class Judge:
    """The source's outputs on one set of inputs, to hold candidates against."""

    def __init__(self, work: Any, variant: str, naive: Any, arguments: Mapping[str, Any]) -> None:
        import cupy as cp

        self.roles = {a.name: a.role for a in work.args}
        self.dtypes = {a.name: work.dtype(a, variant or None) for a in work.args}
        self.arguments = dict(arguments)
        self.pristine = {n: arguments[n].copy() for n, r in self.roles.items() if r == "inout"}
        naive_out = self._outputs(naive)
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

    def _compare(self, name: str, want: Any, got: Any) -> str:
        import torch
        from ktc.ir.interp.rounding import UNIT_ROUNDOFF

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
