"""The innermost declaration of a name is meant, whatever it declares, and using-declarations are declarations."""

from __future__ import annotations

import numpy as np


def numbers(execute, text: str, count: int) -> list[int]:
    return execute(text, {"o": np.zeros(count, np.int32)})["o"].tolist()


def test_an_alias_further_out_does_not_hide_a_class(execute) -> None:
    text = """
namespace lib {
template <typename T, int N> struct Row { T at[N]; };
template <typename T, int N, int A = sizeof(T) * N> struct alignas(A) Aligned : Row<T, N> { using Of = Row<T, 2>; };
template <template <typename, int> class R> __device__ int bytes() { return sizeof(R<short, 3>); }
__device__ int mine() { return bytes<Row>(); }
}
template <typename T, int N> using Row = lib::Aligned<T, N, 16>;
__global__ void k(int* o) {
  Row<int, 4> r; r.at[3] = 5;
  o[0] = r.at[3]; o[1] = alignof(Row<int, 4>); o[2] = sizeof(Row<int, 4>::Of); o[3] = lib::mine();
}"""
    assert numbers(execute, text, 4) == [5, 16, 8, 6]


def test_names_of_the_standard_library_in_other_namespaces(execute) -> None:
    text = """
namespace base { namespace platform {
using std::conditional; using std::is_same; using std::remove_reference_t; using std::is_same_v;
template <bool B> struct Pick { using type = typename conditional<B, char, short>::type; };
} }
namespace app {
template <typename T> struct Wide { using type = typename base::platform::conditional<sizeof(T) < 4, int, T>::type; };
}
using std::conditional_t;
__global__ void k(int* o) {
  o[0] = sizeof(app::Wide<char>::type); o[1] = sizeof(app::Wide<double>::type);
  o[2] = sizeof(base::platform::Pick<false>::type); o[3] = base::platform::is_same<int, int>::value;
  o[4] = base::platform::is_same_v<base::platform::remove_reference_t<int&>, int>;
  o[5] = sizeof(conditional_t<true, char, int>);
}"""
    assert numbers(execute, text, 6) == [4, 8, 2, 1, 1, 1]


def test_a_class_of_ones_own_with_a_name_of_the_standard_library(execute) -> None:
    text = """
namespace a { using std::conditional; }
namespace b { template <bool B, typename T, typename U> struct conditional { using type = double; }; }
__global__ void k(int* o) {
  o[0] = sizeof(a::conditional<true, char, int>::type); o[1] = sizeof(b::conditional<true, char, int>::type);
}"""
    assert numbers(execute, text, 2) == [1, 8]


def test_specialisations_for_qualified_types(execute) -> None:
    text = """
template <typename T> struct bits { static constexpr int value = int(sizeof(T)) * 8; };
template <typename T> struct bits<T const> : bits<T> {};
template <typename T> struct bits<T volatile> : bits<T> {};
template <typename T> struct bits<T const volatile> : bits<T> {};
template <typename T> struct kind { static constexpr int value = 0; };
template <typename T> struct kind<T const> { static constexpr int value = 1 + kind<T>::value; };
template <typename T> struct kind<T volatile> { static constexpr int value = 10 + kind<T>::value; };
template <typename T> struct kind<T const volatile> { static constexpr int value = 100 + kind<T>::value; };
template <typename T> struct outer { static constexpr int value = kind<T>::value; };
template <typename T> struct outer<const T> { static constexpr int value = 1000 + kind<T>::value; };
__global__ void k(int* o) {
  o[0] = bits<short>::value; o[1] = bits<const volatile short>::value; o[2] = kind<const float>::value;
  o[3] = kind<volatile float>::value; o[4] = kind<const volatile float>::value; o[5] = kind<const int*>::value;
  o[6] = kind<int* const>::value; o[7] = outer<const volatile int>::value;
}"""
    assert numbers(execute, text, 8) == [16, 16, 1, 10, 100, 0, 1, 1010]


def test_types_of_a_missing_header_that_say_their_width_have_it(execute) -> None:
    text = """#include "gone/types.h"
namespace app {
using ::int32;
template <typename T> struct Row { T at[2]; int32 pitch; };
__global__ void k(int* o) {
  Row<uint32> row; row.at[1] = 7; row.pitch = 1;
  o[0] = sizeof(int32) + sizeof(uint32) * 10 + sizeof(int64) * 100 + sizeof(uint64) * 1000;
  o[1] = static_cast<int32>(row.at[row.pitch]) + (int64)1; o[2] = uint32(-1) / 2 == 0x7fffffff;
}
}"""
    assert numbers(execute, text, 3) == [8844, 8, 1]
    own = "typedef short int32;\n__global__ void k(int* o) { o[0] = sizeof(int32); }"
    assert numbers(execute, own, 1) == [2]


def test_a_class_of_another_namespace_does_not_hide_a_function(execute) -> None:
    """... which functors of libraries are called as; where it is visible it does."""
    text = """
namespace lib {
namespace ops {
struct sqrt { __device__ static float of(float x) { return -x; } };
struct twice { int x; __device__ twice(int v) : x(4 * v) {} __device__ operator int() const { return x; } };
struct __align__(8) abs { int x; __device__ abs(int v) : x(v) {} };
__device__ int inside(int v) { return twice(v); }
}
__device__ int twice(int v) { return 2 * v; }
__global__ void k(int* o) {
  o[0] = sqrt(16.f); o[1] = twice(3); o[2] = ops::inside(3); o[3] = ops::sqrt::of(1); o[4] = abs(-5);
}
}"""
    assert numbers(execute, text, 5) == [4, 6, 12, -1, 5]
