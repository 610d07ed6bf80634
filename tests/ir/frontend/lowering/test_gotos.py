"""Jumps: what C's ``goto``, labels and ``switch`` compute, by the interpreter; what is not reducible is refused."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.backends import emit
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from ktc.ir.interp import run

N = 32


def kernel_of(body: str, head: str = ""):
    text = f"{head}\n__global__ void k(int* y, int n) {{\n  const int t = threadIdx.x;\n{body}\n}}\n"
    return load(text + f"void host(int* y, int n) {{ k<<<1, {N}>>>(y, n); }}\n", name="k.cu")


def values(body: str, head: str = "", n: int = 5) -> list[int]:
    kernel = kernel_of(body, head)
    args = {"y": np.zeros(N, np.int32), "n": n}
    got = run(kernel, args)
    for language in ("cuda", "hip", "opencl"):
        printed = emit(kernel, language).text
        assert "goto" not in printed
        again = load(printed, name="again", kernel="k", dialect=language)
        again = again.with_(params=kernel.params, launch=kernel.launch) if not again.launch else again
    reread = load(emit(kernel, "cuda").text + f"void host(int* y, int n) {{ k<<<1, {N}>>>(y, n); }}\n", name="again.cu")
    assert (run(reread, args).outputs["y"] == got.outputs["y"]).all()
    assert not got.findings
    return got.outputs["y"].tolist()


def collatz(t: int) -> int:
    steps = 0
    while t > 1:
        t, steps = (t // 2 if t % 2 == 0 else 3 * t + 1), steps + 1
    return steps


CASES = {
    "forward": ("int v = 1; if (t < n) goto done; v = 2; if (t > 9) v = 3; done: y[t] = v;",
                lambda t: 1 if t < 5 else 2 if t <= 9 else 3),
    "two exits": ("int v = 0; if (t < n) goto small; if (t > 20) goto big; v = 7; goto end; small: v += 1; goto end;"
                  " big: v += 2; end: y[t] = v;", lambda t: 1 if t < 5 else 2 if t > 20 else 7),
    "fall into a label": ("int v = 0; if (t == 3) goto b; v = 10; b: v += 1; c: v += 1; if (v == 2) goto d; v += 5; d: "
                          "y[t] = v;", lambda t: 2 if t == 3 else 17),
    "out of two loops": ("int found = -1; for (int i = 0; i < n; ++i) { for (int j = 0; j < n; ++j) { "
                         "if (i * j == t) { found = i * 10 + j; goto out; } } } found = 99; out: y[t] = found;",
                         lambda t: next((i * 10 + j for i in range(5) for j in range(5) if i * j == t), 99)),
    "backward": ("int i = 0, s = 0; again: s += i; i += 1; if (i < t) goto again; y[t] = s;",
                 lambda t: sum(range(max(t, 1)))),
    "backward from the middle": ("int v = t, steps = 0; next: if (v <= 1) goto end; if (v % 2 == 0) { v /= 2; ++steps; "
                                 "goto next; } v = 3 * v + 1; ++steps; goto next; end: y[t] = steps;", collatz),
    "forward in a backward loop": ("int i = 0, s = 0; top: ++i; if (i % 2) goto odd; s += 1; goto next; odd: s += 10; "
                                   "next: if (i < t) goto top; y[t] = s;",
                                   lambda t: sum(10 if i % 2 else 1 for i in range(1, max(t, 1) + 1))),
    "two ways back": ("int i = 0, j = 0; a: ++i; b: ++j; if (i < t % 4) goto a; if (j < t) goto b; y[t] = i * 100 + j;",
                      lambda t: max(t % 4, 1) * 100 + max(t, t % 4, 1)),
    "nested backward": ("int i = 0, s = 0; outer: int j = 0; inner: s += i * j; ++j; if (j < 3) goto inner; ++i; "
                        "if (i < 4) goto outer; y[t] = s;", lambda t: sum(i * j for i in range(4) for j in range(3))),
    "a value made in the loop": ("int k = 0; retry: const int old = k * k; k += 1; if (old < t) goto retry; "
                                 "y[t] = old;",
                                 lambda t: next(k * k for k in range(99) if k * k >= t)),
    "retry from inside a loop": ("int tries = 0, s = 0; start: for (int i = 0; i < 4; ++i) { s += 1; if (i == 2 && "
                                 "tries < t % 3) { ++tries; goto start; } } y[t] = s * 10 + tries;",
                                 lambda t: (t % 3 * 3 + 4) * 10 + t % 3),
    "continue by label": ("int s = 0; for (int i = 0; i < 6; ++i) { if (i % 2 == t % 2) goto skip; s += i; skip: ; } "
                          "y[t] = s;", lambda t: sum(i for i in range(6) if i % 2 != t % 2)),
    "in a branch": ("int v = 5; if (t > 3) { if (t > 8) goto x; v = 6; x: v += 10; } y[t] = v;",
                    lambda t: 5 if t <= 3 else 16 if t <= 8 else 15),
    "out of a switch": ("int v = 0; switch (t % 4) { case 0: v = 1; break; case 1: if (t > 8) goto far; v = 2; break; "
                        "case 2: goto far; default: v = 3; } v += 100; far: y[t] = v;",
                        lambda t: {0: 101, 1: 0 if t > 8 else 102, 2: 0, 3: 103}[t % 4]),
    "nested break": ("int v = 0; switch (t % 3) { case 0: if (t > 6) { v = 1; break; } v = 2; case 1: v += 10; break; "
                     "case 2: for (int i = 0; i < 9; ++i) { if (i == 4) break; v += i; } { if (v == 6) break; } "
                     "v = 50; } y[t] = v;", lambda t: [1 if t > 6 else 12, 10, 6][t % 3]),
    "declared before the cases": ("int r = 0; switch (t) { int v; r = 1000; case 1: v = 4; r += v; default: v = 7; "
                                  "r += v; } y[t] = r;", lambda t: 11 if t == 1 else 7),
    "default first, falling through": ("int v = 0; switch (t) { default: v += 1; case 2: v += 2; break; case 3: "
                                       "v += 4; case 4: ; } y[t] = v;", lambda t: {2: 2, 3: 4, 4: 0}.get(t, 3)),
    "continue in a switch": ("int s = 0; for (int i = 0; i < 5; ++i) { switch (i) { case 1: continue; case 3: "
                             "if (t > 4) continue; s += 50; break; default: s += 1; } s += 10; } y[t] = s;",
                             lambda t: 33 + (0 if t > 4 else 60)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_jumps_compute(case: str) -> None:
    body, want = CASES[case]
    assert values("  " + body) == [want(t) for t in range(N)]


def test_in_a_function_with_returns() -> None:
    head = """__device__ int find(const int* a, int n, int x) {
      int i = 0;
    again:
      if (i >= n) goto missing;
      if (a[i] == x) return i;
      ++i;
      goto again;
    missing:
      return -1;
    }"""
    body = "int a[4]; for (int i = 0; i < 4; ++i) a[i] = i * 3; y[t] = find(a, 4, t);"
    assert values("  " + body, head) == [t // 3 if t % 3 == 0 and t < 12 else -1 for t in range(N)]


@pytest.mark.parametrize(
    "body, code, line",
    [
        ("  if (t > 3)\n    goto in;\n  for (int i = 0; i < n; ++i) {\n    y[t] = i;\n    in: y[t] += 1;\n  }",
         "E-UNSUPPORTED-GOTO", 5),  # into a loop
        ("  if (t > 3)\n    goto b;\na:\n  y[t] += 1;\nb:\n  y[t] += 2;\n  if (y[t] < n) goto a;",
         "E-UNSUPPORTED-GOTO", 5),  # a loop with two entries
        ("  goto nowhere;", "E-UNSUPPORTED-GOTO", 4),
        ("  for (int i = 0; i < n; ++i) {\n  l:\n    if (y[t] > 3) break;\n    y[t] += 1;\n    goto l;\n  }",
         "E-UNSUPPORTED-GOTO", 5),  # a break of the loop around the one that the goto makes
        ("  switch (t) {\n  case 0:\n    while (y[t] < 3) {\n      y[t]++;\n  case 1:\n      y[t]++;\n    }\n  }",
         "E-UNSUPPORTED-SWITCH", 6),  # Duff's device
        ("  if (t == 0) goto l;\n  int a[2] = {1, 2};\nl:\n  y[t] = a[0];", "E-UNSUPPORTED-GOTO", 5),
    ],
)  # fmt: skip
def test_what_is_not_reducible_is_refused_with_its_place(body: str, code: str, line: int) -> None:
    with pytest.raises(KtcError) as caught:
        kernel_of(body)
    assert (caught.value.code, caught.value.loc.line) == (code, line)  # type: ignore[union-attr]
