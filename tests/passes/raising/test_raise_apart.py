"""Loops that share out rows at a distance that is a parameter: independent where the launcher finds it large enough."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.fold import evaluate
from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run
from ktc.ir.kernel import Assume, Kernel
from ktc.ir.nodes import Par
from ktc.ir.text import print_kernel
from ktc.ir.walk import walk
from ktc.passes.core.base import Result
from ktc.passes.lowering import materialise
from ktc.passes.raising.raise_ import Raise

TURNED = """
__global__ void turn(const long long* __restrict__ at, float* __restrict__ q, const float* __restrict__ c, int rot,
                     long long ts, long long hs, int heads) {
  const float* mine = c + at[blockIdx.x] * rot;
  const int half = rot / 2;
  for (int i = threadIdx.x; i < heads * half; i += blockDim.x) {
    float* row = q + blockIdx.x * ts + i / half * hs;
    int k = i % half, x = FIRST, y = SECOND;
    float a = row[x], b = row[y];
    row[x] = a * mine[k] - b * mine[half + k];
    row[y] = b * mine[k] + a * mine[half + k];
  }
}
void go(const long long* at, float* q, const float* c, int rot, long long ts, long long hs, int heads, int tokens) {
  int n = heads * rot / 2;
  turn<<<tokens, n < 512 ? n : 512>>>(at, q, c, rot, ts, hs, heads);
}
"""


def attempt(source: str) -> tuple[Kernel, Kernel | None, list[Par]]:
    """The source, its parallel form, and the loops in that of which nothing is taken on trust."""
    kernel = load(source, name="source.cu")
    outcome = Raise().run(kernel)
    if not isinstance(outcome, Result):
        return kernel, None, []
    loops = [s for s in walk(outcome.kernel.body) if isinstance(s, Par) and s.dist[-1].kind == "seq"]
    trusted = any("do not depend on each other" in n for n in outcome.notes)
    return kernel, outcome.kernel, [] if trusted else loops


def new_facts(kernel: Kernel, form: Kernel) -> list[Assume]:
    return [a for a in form.assumptions if a not in kernel.assumptions]


def holds(facts: list[Assume], **numbers: int) -> bool:
    return all(evaluate(f.expr, numbers) for f in facts)


@pytest.mark.parametrize(("first", "second"), [("k", "half + k"), ("2 * k", "2 * k + 1"), ("k + half", "k")])
def test_halves_of_rows_turned_in_place(first: str, second: str) -> None:
    kernel, form, loops = attempt(TURNED.replace("FIRST", first).replace("SECOND", second))
    assert form is not None and len(loops) == 1
    facts = new_facts(kernel, form)
    assert facts and all(f.origin == "guessed" for f in facts)
    assert holds(facts, hs=8, rot=8) and holds(facts, hs=9, rot=9) and holds(facts, hs=64, rot=8)
    assert not holds(facts, hs=7, rot=8) and not holds(facts, hs=0, rot=8) and not holds(facts, hs=-1, rot=-4)
    q, c = np.arange(1, 4001, dtype=np.float32), np.arange(1, 1001, dtype=np.float32)
    at = np.arange(8, dtype=np.int64)[::-1].copy()
    for rot, hs, heads, tokens in ((2, 2, 1, 1), (8, 8, 5, 3), (6, 11, 4, 4), (64, 64, 20, 2), (5, 4, 3, 2)):
        args = {"at": at, "q": q, "c": c, "rot": rot, "hs": hs, "heads": heads, "tokens": tokens, "ts": heads * hs}
        assert holds(facts, **{n: v for n, v in args.items() if isinstance(v, int)})
        for domain in ("int", "field"):
            want = run(kernel, args, domain=domain)
            assert want.ok, want.findings
            for other in (form, materialise(form)):
                got = run(other, args, domain=domain)
                assert got.ok, (got.findings, print_kernel(other))
                np.testing.assert_array_equal(got.outputs["q"], want.outputs["q"])


def test_a_stride_of_none_would_be_one_thread_s_own_work() -> None:
    """Rows on each other, each element the same thread's by the size of the block: the source does them in turn."""
    kernel, form, _ = attempt(TURNED.replace("FIRST", "k").replace("SECOND", "half + k"))
    assert form is not None
    q, c = np.arange(1, 4001, dtype=np.float32), np.arange(1, 4001, dtype=np.float32)
    args = {"at": np.zeros(4, np.int64), "q": q, "c": c, "rot": 1024, "hs": 0, "heads": 3, "tokens": 1, "ts": 0}
    assert run(kernel, args, domain="int").ok, "the source has no race"
    assert not run(form, args, domain="int").ok, "the loop has"
    assert not holds(new_facts(kernel, form), hs=0, rot=1024), "so the launcher turns to the source"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("k", "half + k + 1"),  # meets the next iteration's
        ("k", "half / 2 + k"),
        ("2 * k", "2 * k + 2"),
        ("k", "heads + k"),
    ],
)
def test_rows_of_another_make_are_not_shared_out(first: str, second: str) -> None:
    _, form, loops = attempt(TURNED.replace("FIRST", first).replace("SECOND", second))
    assert form is None or not loops


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("i % half", "i % (half + 1)"),
        ("i / half * hs", "i / half * 0"),
        ("int i = threadIdx.x;", "int i = (int)threadIdx.x - 7;"),
        ("row[x] = a", "row[x + at[1]] = a"),
    ],
)
def test_other_indices_are_not(old: str, new: str) -> None:
    source = TURNED.replace("FIRST", "k").replace("SECOND", "half + k")
    assert source.count(old) == 1
    _, form, loops = attempt(source.replace(old, new))
    assert form is None or not loops


COMPACT = """
__global__ void gather(float* __restrict__ y, const float* __restrict__ x, int dim, int heads, long long xs) {
  for (int i = threadIdx.x; i < heads * dim; i += blockDim.x)
    y[(long long)(blockIdx.x * heads + i / dim) * dim + i % dim] = x[i / dim * xs + i % dim];
}
void go(float* y, const float* x, int dim, int heads, long long xs, int n) {
  gather<<<n, 128>>>(y, x, dim, heads, xs);
}
"""


def test_rows_next_to_each_other_need_nothing() -> None:
    kernel, form, loops = attempt(COMPACT)
    assert form is not None and len(loops) == 1 and not new_facts(kernel, form)
