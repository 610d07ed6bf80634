"""Raised and lowered with nothing in between: the same thread touches the same elements, as often, as in the source."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.interp.memory import access
from ktc.ir.kernel import Kernel
from ktc.passes.lowering import materialise
from ktc.passes.raising.check.exact_check import Reference
from tests.passes.raising.raised_once import raised
from tests.passes.raising.reduction_sources import REDUCTIONS
from tests.passes.raising.staged_sources import STAGED
from tests.passes.spmd_sources import BROKEN_TREE, CARRIED, RAISABLE

SOURCES = {
    **{f"spmd-{n}": s for n, s in RAISABLE.items()},
    "spmd-broken-tree": BROKEN_TREE,
    "spmd-carried": CARRIED,
    **{n: REDUCTIONS[n][0] for n in ("tree-backwards", "shuffle-xor", "several", "warp-per-row", "cub-rms-norm")},
    "conv-extra-threads": STAGED["conv-extra-threads"][0],
}


def touched(kernel: Kernel, args: dict, monkeypatch: pytest.MonkeyPatch) -> Counter:
    """How often each (thread, buffer, element, read or write) of global memory occurs, threads in block order."""
    seen: Counter = Counter()

    def noting(how: str, original):
        def inner(self, *a, **k):
            if self.buffer.owner is None:
                lanes = self.frame.lanes(self.act) + self.state.first_thread
                pos = np.broadcast_to(np.asarray(self.pos).reshape(-1 if np.ndim(self.pos) < 2 else len(self.pos), 1)
                                      if np.ndim(self.pos) else self.pos, (len(lanes), 1))  # fmt: skip
                ok = np.ones(len(lanes), bool) if self.ok is None else np.broadcast_to(self.ok, (len(lanes),))
                for t, p in zip(lanes[ok].tolist(), pos[ok, 0].tolist()):
                    seen[t, self.buffer.sym.name, p, how] += 1
            return original(self, *a, **k)

        return inner

    with monkeypatch.context() as m:
        m.setattr(access.Access, "read", noting("read", access.Access.read))
        m.setattr(access.Access, "write", noting("write", access.Access.write))
        run(kernel, args, domain="int")
    return seen


SHIFTED = {"spmd-two-d"}
"""A range that a guard starts at 1 is dealt out from its first element: the work of thread t moves to thread t - 1."""

ASIDE = {"conv-extra-threads": "mask"}
"""Buffers that the source reads for results that it then does not store, beyond the edges."""


@pytest.mark.parametrize("name", SOURCES)
def test_each_thread_does_what_it_did(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, outcome = raised(SOURCES[name])
    lowered = materialise(outcome.kernel)
    args = Reference(kernel, instances=1, seed=23).sets[0]
    want, got = touched(kernel, args, monkeypatch), touched(lowered, args, monkeypatch)
    assert want, "the source touched nothing"
    if name in SHIFTED:
        want, got = (Counter(k[1:] for k in c.elements()) for c in (want, got))
    want, got = (Counter({k: n for k, n in c.items() if ASIDE.get(name) not in k}) for c in (want, got))
    assert got == want, sorted((got - want).items())[:3] + sorted((want - got).items())[:3]
