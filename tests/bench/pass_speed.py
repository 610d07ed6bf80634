"""Seconds of CPU time of passes, verifier, printers and facts on kernels of N statements: do they grow linearly?

    python -m tests.bench.pass_speed [--sizes 1000 2000 4000] [--only NAME ...]

The exponent is that of the last doubling: 1 is linear, 2 quadratic.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

from ktc.backends import emit
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.verifier import verify
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script


def straight(lines: int) -> str:
    """``lines`` statements: declarations, reads, sums, a store now and then."""
    rows = []
    for k in range(lines // 4):
        rows += [
            f"  const int j{k} = i * 3 + {k};",
            f"  const float a{k} = x[j{k}] * w[{k % 64}];",
            f"  s{k % 4} += a{k} + x[j{k}];",
            f"  if (j{k} < n) y[j{k}] = s{k % 4};",
        ]
    head = "__global__ void k(const float *x, const float *w, float *y, int n) {\n"
    return (
        head
        + "  int i = blockIdx.x * 256 + threadIdx.x;\n  float s0 = 0, s1 = 0, s2 = 0, s3 = 0;\n"
        + "\n".join(rows)
        + "\n}\n"
    )


SCRIPTS = [
    "simplify", "cse", "licm", "strength-reduce", "narrow-index", "cache-hints", "fast-math",
    "simplify | cse | simplify",
]  # fmt: skip


def cases(text: str, kernel: Any) -> dict[str, Callable[[], object]]:
    """What is timed, by name."""
    jobs: dict[str, Callable[[], object]] = {
        "load": lambda: load(text, name="k.cu"),
        "verify": lambda: list(verify(kernel)),
        "text": lambda: print_kernel(kernel),
        "read": lambda: parse_kernel(print_kernel(kernel)),
        "cuda": lambda: emit(kernel, "cuda"),
        "opencl": lambda: emit(kernel, "opencl"),
    }
    jobs |= {f"pass {s}": lambda s=s: apply_script(kernel, parse_script(s)) for s in SCRIPTS}  # type: ignore[misc]
    return jobs


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("--sizes", type=int, nargs="+", default=[1000, 2000, 4000])
    arguments.add_argument("--only", nargs="+", default=[])
    options = arguments.parse_args()
    times: dict[str, list[float]] = {}
    for size in options.sizes:
        text = straight(size)
        for name, job in cases(text, load(text, name="k.cu")).items():
            if options.only and not any(o in name for o in options.only):
                continue
            start = time.process_time()
            try:
                job()
            except KtcError as e:
                name = f"{name} ({e.code})"
            times.setdefault(name, []).append(time.process_time() - start)
    print(f"{'':32}" + "".join(f"{n:>9}" for n in options.sizes) + "  exponent")
    for name, spent in times.items():
        exponent = ""
        if len(spent) == len(options.sizes) > 1:
            growth = math.log(spent[-1] / spent[-2]) / math.log(options.sizes[-1] / options.sizes[-2])
            exponent = f"{growth:10.2f}"
        print(f"{name:32}" + "".join(f"{s:9.3f}" for s in spent) + exponent)


if __name__ == "__main__":
    main()
