"""Negations under maxima, which ptxas loses: how the CUDA text keeps them, that it reads back, its machine code."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ktc.backends import emit
from ktc.ir.frontend.entry_points import load
from ktc.search.verification.rungs.parse_back import parse_back
from tests import devices

AROUND = (
    "__global__ void k(const int* __restrict__ a, int* __restrict__ o, int n) {{ int t = threadIdx.x; {} }}\n"
    "void run(const int* a, int* o, int n) {{ k<<<1, 32>>>(a, o, n); }}\n"
)
LOST = {
    "in a loop": ("int s = -9; for (int i = 0; i < n; ++i) s = max(s, -a[i]); o[t] = s;", "max(s, negated(a[i]))"),
    "two minima": ("o[t] = min(min(a[t], -a[t + 1]), a[t + 2]);", "min(min(a[t], negated(a[t + 1])), a[t + 2])"),
    "from a constant": (
        "int s = -9; for (int d = 0; d < 5; ++d) s = max(s, (d - 2) - a[t + d]); o[t] = s;",
        "max(s, d - 2 + negated(a[t + d]))",
    ),
    "times a constant": (
        "int s = -9; for (int d = 0; d < 3; ++d) s = max(s, (d - 1) * a[t + d]); o[t] = s;",
        "max(s, negated((0 - (d - 1)) * a[t + d]))",
    ),
    "minus one times": ("o[t] = max(max(a[t], a[t + 1] * -1), n);", "max(max(a[t], negated(a[t + 1])), n)"),
    "by assignments": (
        "int s = -9; for (int d = 0; d < 5; ++d) { int v = -a[t + d]; if (v > s) s = v; } o[t] = s;",
        "int v = negated(a[t + d]);",
    ),
    "by a conditional": (
        "int v = -a[t], s = a[t + 1]; for (int d = 0; d < n; ++d) s = v > s ? v : s; o[t] = s;",
        "int v = negated(a[t]);",
    ),
    "through shared memory": (
        "__shared__ int q[32]; q[t] = -a[t]; __syncthreads(); o[t] = max(max(q[t], a[t + 5]), a[t + 7]);",
        "q[t] = negated(a[t]);",
    ),
    "of what began as nothing": (
        "int s = 0, m = 0; for (int d = 0; d < 4; ++d) { s -= a[t + d]; m = min(m, s); } o[t] = m;",
        "s += negated(a[t + d]);",
    ),
    "unsigned": ("o[t] = max(max((int)(0u - (unsigned)a[t]), n), a[t + 2]);", "(int)negated((unsigned)a[t])"),
    "of 64 bits": ("o[t] = max(max((int)-(long long)a[t], n), a[t + 2]);", "(int)negated((long long)a[t])"),
    "narrow": (
        "short s = -9; for (int d = 0; d < 5; ++d) { short v = -a[t + d]; s = max(s, v); } o[t] = s;",
        "short v = negated(a[t + d]);",
    ),
}
KEPT = {
    "no maximum": "o[t] = -a[t];",
    "an index": "o[t] = a[min(max(t - 3, 0), n - 1)] - 2;",
    "a moving index": "int r = n, s = 0; for (int d = -r; d <= r; ++d) s += a[min(max(t + d, 0), n - 1)]; o[t] = s;",
    "a magnitude": "int x = a[t]; o[t] = x < 0 ? -x : x;",
    "beside a maximum": "o[t] = max(a[t], n) + -a[t + 1];",
    "unsigned maxima": "o[t] = max(max(0u - (unsigned)a[t], 7u), 9u);",
    "of floats": "float x = a[t]; o[t] = fmaxf(fmaxf(-x, 2.0f), 3.0f);",
}


def kernel(body: str):
    return load(AROUND.format(body), name="k.cu")


@pytest.mark.parametrize("name", LOST)
def test_a_negation_under_a_maximum_is_printed_apart_and_reads_back(name: str) -> None:
    body, printed = LOST[name]
    text = emit(kernel(body), "cuda").text
    assert printed in text and "not.b" in text, text
    assert parse_back(kernel(body), "cuda").status == "pass"


@pytest.mark.parametrize("name", KEPT)
def test_other_kernels_stay_as_they_are(name: str) -> None:
    assert "negated" not in emit(kernel(KEPT[name]), "cuda").text


def test_other_compilers_need_nothing() -> None:
    body, _ = LOST["in a loop"]
    for target in ("hip", "opencl"):
        text = emit(kernel(body), target).text
        assert "max(s, -a[i])" in text and "negated" not in text


def test_a_variable_of_that_name_gets_another() -> None:
    text = emit(kernel("int negated = a[t]; o[t] = max(max(-negated, n), a[t + 1]);"), "cuda").text
    assert "negated(negated" in text and "int negated = " not in text


COMPLEMENT = re.compile(r"LOP3\.LUT .*, 0x33,|IADD3? .*, -R\d|IMAD.* -R\d")
"""Instructions of sm_90 that take a complement or a negative."""


@pytest.mark.parametrize("name, negatives", [("in a loop", 5), ("two minima", 1), ("minus one times", 1)])
def test_the_assembler_keeps_them(name: str, negatives: int, tmp_path: Path) -> None:
    """The printed text's code has all of them, the author's has not; once ptxas keeps those too, all this can go."""
    body = LOST[name][0].replace("for", "\n#pragma unroll 4\nfor")
    kept = negatives_in(emit(kernel(body), "cuda").text, tmp_path)
    lost = negatives_in(AROUND.format(body), tmp_path)
    assert kept >= negatives
    if lost >= negatives:
        pytest.skip("this ptxas loses none")


def negatives_in(text: str, folder: Path) -> int:
    return len([i for i in listing(text, folder) if COMPLEMENT.search(i)])


def listing(text: str, folder: Path) -> list[str]:
    """The instructions that nvcc makes of ``text`` for sm_90."""
    devices.compiler("cuda")
    nvcc, nvdisasm = shutil.which("nvcc"), shutil.which("nvdisasm")
    if nvcc is None or nvdisasm is None:
        pytest.skip("needs nvcc and nvdisasm")
    (folder / "k.cu").write_text(text)
    subprocess.run([nvcc, "-w", "-arch=sm_90", "-cubin", "k.cu"], cwd=folder, check=True, timeout=120)
    done = subprocess.run([nvdisasm, "-c", "k.cubin"], cwd=folder, check=True, capture_output=True, text=True)
    return re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d )?(.*?) ;", done.stdout)
