"""Template arguments that nothing in a file says: what asserts ask for is searched for."""

from __future__ import annotations

import pytest

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.entry_points import deep_recursion, load_entity, parse_unit
from ktc.ir.frontend.host.guessing.guess_search import GuessSearch
from ktc.ir.frontend.host.launch_sites import launch_sites
from ktc.ir.frontend.meaning.template_args import spell


def searched(text: str) -> tuple[dict[str, str], KtcError | None]:
    """The first instance of the last kernel of ``text``, and what stopped the search where there is none."""
    with deep_recursion("k.cu"):
        unit = parse_unit(text, "k.cu", {}, ())
        entity = unit.program.kernels[-1]
        low = unit.lowering()
        search = GuessSearch(
            low, entity, launch_sites(low, entity.name), lambda b: load_entity(unit, entity, b, None, {})
        )
        for bindings, _ in search:
            return {p.name: spell(bindings[p.name]) for p in entity.params or ()}, None
        return {}, search.error


HALF = """\
template <typename T, int D> constexpr bool fits() { return std::is_same_v<T, __half> && (D == 64 || D % 512 == 0); }
template <typename T, int D> constexpr bool wide() { static_assert(fits<T, D>(), "a row of halves"); return D > 64; }
"""


def test_asserts_of_functions_that_are_called_are_met() -> None:
    kernel = """template <int D, bool P, typename T> __global__ void k(T* x) { static_assert(wide<T, D>());
    constexpr int n = D / 512; static_assert(n % 2 == 0); for (int i = 0; i < n; ++i) x[i] = T(0); }"""
    found, _ = searched(HALF + kernel)
    assert found["T"] == "__half" and int(found["D"]) % 1024 == 0


def test_arguments_that_depend_on_each_other_are_met() -> None:
    kernel = """template <int M, int A, int B, typename I> __global__ void k(float* x, const I* ids) {
    static_assert(M == A + B); static_assert(M % 32 == 0 && A >= B); x[0] = A >> ids[0]; }"""
    found, _ = searched(kernel)
    m, a, b = (int(found[n]) for n in "MAB")
    assert m == a + b and m % 32 == 0 and a >= b and found["I"] == "int"


def test_a_template_that_is_only_declared_has_the_bodies_of_its_specialisations() -> None:
    kernel = """template <typename T> __global__ void k(T* x);
    template <> __global__ void k<float>(float* x) { x[threadIdx.y] = 1.0f; }
    template <> __global__ void k<double>(double* x) { x[threadIdx.y] = 1.0; }"""
    found, _ = searched(kernel)
    assert found == {"T": "float"}


LAUNCHED = """\
template <int D, int V, typename T> __global__ void k(T* x) { for (int i = 0; i < D / V; ++i) x[i] = T(V); }
template <int Dim, typename E> struct Launcher {
  static_assert(Dim % 96 == 0, "rows of whole tiles");
  template <int V> static constexpr auto kernel = k<Dim, V, E>;
  void run(void* x) { static_assert(sizeof(E) == 2); go(kernel<8>, x); }
};
"""


def test_the_class_that_launches_says_what_its_arguments_are() -> None:
    found, _ = searched(LAUNCHED)
    assert int(found["D"]) % 96 == 0


def test_a_class_is_a_template_argument_through_the_launch() -> None:
    text = """template <int N_, typename E_> struct Traits { static constexpr int N = N_; using E = E_; };
    template <typename Tr> __global__ void k(float* o) { using E = typename Tr::E; static_assert(Tr::N % 48 == 0);
      E v = E(Tr::N); o[0] = v; }
    template <int N, typename E> struct L { using Tr = Traits<N, E>; static constexpr auto kernel = k<Tr>; };"""
    found, _ = searched(text)
    assert found["Tr"].startswith("Traits<192, ")


def test_an_enumeration_gives_its_own_values() -> None:
    text = """enum class Mode { off = 3, on = 9 };
    template <Mode m> __global__ void k(int* x) { static_assert(m != Mode::off); x[0] = static_cast<int>(m); }"""
    assert searched(text)[0] == {"m": "9"}


def test_classes_and_functions_of_the_file_are_taken_by_how_they_are_used() -> None:
    text = """struct Rows { static constexpr int step = 2; __device__ static int at(int i) { return i; } };
    struct Columns { static constexpr int step = 3; __device__ static int at(int i) { return i * 4; } };
    struct Other { static constexpr int step = 9; };
    __device__ float twice(float x) { return 2 * x; }
    __device__ float sum(float x, float y) { return x + y; }
    template <typename Order, auto Fn> __global__ void k(float* x) {
      static_assert(Order::step == 3); x[Order::at(threadIdx.x)] = Fn(x[0], x[1]); }"""
    assert searched(text)[0] == {"Order": "Columns", "Fn": "sum"}


def test_a_shared_array_without_elements_is_no_instance() -> None:
    text = """template <int N> __global__ void k(int* x) {
      __shared__ int s[N / 32]; if (threadIdx.x < N / 32) s[threadIdx.x] = x[0]; __syncthreads(); x[1] = s[0]; }"""
    assert int(searched(text)[0]["N"]) >= 32


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("template <int N> __global__ void k(int* x) { static_assert(N < 0 && N > 0); x[0] = N; }",
         "E-SEMA-STATIC-ASSERT"),
        ("template <int N> __global__ void k(int* x) { static_assert(N == 2048); x[0] = missing(N); }", "E-SEMA-CALL"),
    ],
)  # fmt: skip
def test_what_no_argument_helps_is_said(text: str, code: str) -> None:
    found, error = searched(text)
    assert found == {} and error is not None and error.code == code and error.loc is not None


FLAT = """template <int block_size> __global__ void k(float* x, int n) {
  int i = blockIdx.x * block_size + threadIdx.x; if (i < n) x[i] = 1; }
template <int block_size> void run(float* x, int n) { k<block_size><<<n / block_size + 1, block_size>>>(x, n); }
"""
TILED = """template <int TILE_X, int TILE_Y> __global__ void k(float* x, int w, int h) {
  int i = blockIdx.x * TILE_X + threadIdx.x, j = blockIdx.y * TILE_Y + threadIdx.y;
  if (i < w && j < h) x[j * w + i] = 1; }
template <int block_size> void run(float* x, int w, int h) {
  constexpr int wide = 32, high = block_size / wide;
  k<wide, high><<<dim3((w + wide - 1) / wide, (h + high - 1) / high), dim3(wide, high)>>>(x, w, h); }
"""
EDGE = """template <int BLOCK_SIZE> __global__ void k(float* x, int w) {
  x[(blockIdx.y * BLOCK_SIZE + threadIdx.y) * w + blockIdx.x * BLOCK_SIZE + threadIdx.x] = 1; }"""


@pytest.mark.parametrize(
    ("text", "first"),
    [(FLAT, {"block_size": "256"}), (TILED, {"TILE_X": "32", "TILE_Y": "8"}), (EDGE, {"BLOCK_SIZE": "16"})],
    ids=["flat", "tiled", "edge"],
)
def test_the_threads_of_a_block_are_as_many_as_usual(text: str, first: dict[str, str]) -> None:
    assert searched(text)[0] == first
