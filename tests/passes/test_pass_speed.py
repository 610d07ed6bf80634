"""Scripts over long kernels take time in proportion to their length."""

from __future__ import annotations

from collections.abc import Callable

from ktc.ir.frontend import load
from ktc.ir.kernel import Kernel
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script


def straight(count: int) -> Kernel:
    """A kernel with ``count`` rounds of a read, a sum and a guarded store."""
    rounds = "\n".join(
        f"  const float a{k} = x[i * 3 + {k}] * w[{k % 64}];\n  s += a{k};\n  if (i < n) y[i * 3 + {k}] = s;"
        for k in range(count)
    )
    head = (
        "__global__ void k(const float *x, const float *w, float *y, int n) {\n  int i = threadIdx.x;\n  float s = 0;\n"
    )
    return load(f"{head}{rounds}\n}}\n", name="k.cu")


def test_time_is_linear_in_the_number_of_statements(linear: Callable[..., None]) -> None:
    script = parse_script("simplify | cse | licm | simplify")

    def run(kernel: Kernel) -> None:
        applied = apply_script(kernel, script)
        assert applied.refused is None
        assert len(applied.kernel.body) >= len(kernel.body) // 2

    linear(straight, run, 250, 1_000, 6.5, 0.15)
