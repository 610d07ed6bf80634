"""The integers that host code is seen to put into what a launch passes."""

from __future__ import annotations

import pytest

KERNEL = "__global__ void k(const int* a, int* out, int n) { out[threadIdx.x] = a[threadIdx.x] + n; }\n"
MAIN = "int main() {{ int n = 64; int *h, *d, *o; {fill} cudaMemcpy(d, h, n * 4, cudaMemcpyHostToDevice); {launch} }}"
LAUNCH = "k<<<1, 64>>>(d, o, n);"


def _filled(cu, fill: str, before: str = "", launch: str = LAUNCH):
    launch_ = cu(KERNEL + before + MAIN.format(fill=fill, launch=launch)).launch
    return {n: (a, b) for n, a, b in launch_.filled}


@pytest.mark.parametrize(
    ("fill", "expected"),
    [
        ("for (int i = 0; i < n; ++i) h[i] = rand() % 100;", (0, 99)),
        ("for (int i = 0; i < n; ++i) h[i] = 'a' + (char)(rand() % 26);", (97, 122)),
        ("for (int i = 0; i < n; ++i) { h[i] = 3 - i % 5; }", (-1, 3)),
        ("const int most = 8; for (int i = 0; i < n; ++i) h[i] = rand() % 2 ? most : -most;", (-8, 8)),
        ("std::generate(h, h + n, []() { return rand() % 10; });", (0, 9)),
        ("std::uniform_int_distribution<int> dist(5, 50); for (int i = 0; i < n; ++i) h[i] = dist(gen);", (5, 50)),
        ("for (int i = 0; i < n; ++i) h[i] = 1;", None),
        ("for (int i = 0; i < n; ++i) h[i] = rand();", None),
        ("for (int i = 0; i < n; ++i) h[i] = x % 9;", None),
        ("for (int i = 0; i < n; ++i) h[i] = rand() % 9; h[0] = read();", None),
        ("for (int i = 0; i < n; ++i) { h[i] = rand() % 9; h[i] *= 2; }", None),
        ("for (int i = 0; i < n; ++i) other[i] = rand() % 9;", None),
        ("swap(data(), h);", None),  # of this object
    ],
)
def test_what_statements_put_into_an_array(cu, fill, expected) -> None:
    assert _filled(cu, fill).get("a") == expected


def test_an_array_is_followed_into_functions_and_back_to_callers(cu) -> None:
    before = """void fill(int* x, int count) { for (int i = 0; i < count; ++i) x[i] = rand() % 7; }
    void wrap(int* d, int* o, int n) { k<<<1, 64>>>(d, o, n); }
    """
    assert _filled(cu, "fill(h, n);", before, "wrap(d, o, n);") == {"a": (0, 6)}


def test_functions_that_call_each_other_end(cu) -> None:
    before = "void b(int* y);\nvoid a(int* x) { b(x); x[0] = rand() % 3; }\nvoid b(int* y) { a(y); }\n"
    assert _filled(cu, "a(h);", before) == {"a": (0, 2)}
