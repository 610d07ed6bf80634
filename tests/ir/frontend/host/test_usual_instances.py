"""Of the instances that numbers decide about, those for usual sizes come first."""

from __future__ import annotations

from pathlib import Path

from ktc.ir.frontend.entry_points import template_arguments

KERNEL = """
template <typename T, int N> __global__ void k(T* x, int n) {
  if (threadIdx.x < N) x[blockIdx.x * N + threadIdx.x] *= (T)2;
}
"""

ROWS = """
template <typename T> void rows(T* x, int n, int length) {
  switch (length) {
    case 64: k<T, 64><<<n, 64>>>(x, n); break;
    case 1024: k<T, 1024><<<n, 1024>>>(x, n); break;
    case 256: k<T, 256><<<n, 256>>>(x, n); break;
    default: break;
  }
}
template void rows<float>(float*, int, int);
template void rows<int>(int*, int, int);
"""

MODES = """
void run(float* x, int n, int wide) {
  if (wide) k<float, 256><<<n, 256>>>(x, n);
  else k<float, 32><<<n, 32>>>(x, n);
}
"""


def launched(folder: Path, host: str) -> list[tuple[str, str]]:
    file = folder / "k.cu"
    file.write_text(KERNEL + host)
    return [(found["T"], found["N"]) for found in template_arguments(str(file), guesses=False)]


def test_the_nearest_number_comes_first_of_each_type(tmp_path: Path) -> None:
    found = launched(tmp_path, ROWS)
    assert [n for t, n in found if t == "float"] == ["1024", "256", "64"]
    assert [n for t, n in found if t == "int"] == ["1024", "256", "64"]
    assert found[0][0] == "float"


def test_what_no_number_decides_stays_in_the_order_of_the_source(tmp_path: Path) -> None:
    assert launched(tmp_path, MODES) == [("float", "256"), ("float", "32")]
