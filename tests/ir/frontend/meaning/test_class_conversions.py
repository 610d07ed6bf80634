"""Objects where another type is wanted: one function of either class converts them ([over.best.ics])."""

from __future__ import annotations

import numpy as np

CLASSES = """
struct Level {
  int v;
  Level() = default;
  __device__ explicit Level(int x) : v(x) {}
};
struct Slot {  // stands for a level in memory
  const Level* at;
  __device__ operator Level() const { return *at; }
  __device__ explicit operator float() const { return -1.0f; }
};
struct Meter {
  float v;
  __device__ Meter(float x) : v(x) {}
};
struct Plain { float v; __device__ operator float() const { return v; } };
__device__ int of(const Level& a) { return a.v; }
__device__ Level made(const Slot& s) { return s; }
"""


def values(execute, body: str, more: str = "") -> list[float]:
    """What ``body`` leaves in ``o``, with the level 7 at ``a[0]`` and 9 at ``a[1]``."""
    start = "Level a[2]; a[0].v = 7; a[1].v = n[0];"
    text = f"{CLASSES}{more}\n__global__ void k(float* o, const int* n) {{ {start}\n{body} }}"
    return execute(text, {"o": np.zeros(3, np.float32), "n": np.array([9], np.int32)})["o"].tolist()


def test_a_conversion_function_makes_an_object_of_another_class(execute) -> None:
    done = "Slot s{a + 1}; Level one = s, two(s), three; three = s; o[0] = one.v; o[1] = two.v; o[2] = three.v;"
    assert values(execute, done) == [9, 9, 9]


def test_a_reference_to_another_class_is_bound_to_a_new_object(execute) -> None:
    kept = "struct Kept { int v; __device__ Kept(const Level& l, Level* all) : v(l.v) { all[0].v = 1; v += l.v; } };"
    done = "o[0] = of(Slot{a + 1}); o[1] = made(Slot{a}).v; o[2] = Kept(Slot{a}, a).v;"
    assert values(execute, done, kept) == [9, 7, 14]


def test_a_reference_to_a_number_is_bound_to_what_the_object_was(execute) -> None:
    changed = "__device__ float after(const float& x, Plain& p) { p.v = 5.0f; return x; }"
    assert values(execute, "Plain p{2.5f}; o[0] = after(p, p); o[1] = p;", changed)[:2] == [2.5, 5]


def test_two_conversions_by_classes_are_none(execute, refuses) -> None:
    """``Plain`` is a float, of which a ``Meter`` can be made, but not both at once: the operator is not meant."""
    operator = (
        "__device__ Meter operator*(Meter a, Meter b) { return Meter(100.0f); }\n"
        "__device__ int take(Meter m) { return 1; }"
    )
    assert values(execute, "Plain p{2.5f}; o[0] = p * p; o[1] = (Meter(1.0f) * 2.0f).v;", operator)[:2] == [6.25, 100]
    text = f"{CLASSES}{operator}\n__global__ void k(int* o) {{ Plain p{{1.0f}}; o[0] = take(p); }}"
    assert refuses(text, "E-SEMA-OVERLOAD").message == "no 'take' accepts (Plain)"


def test_an_explicit_constructor_does_not_convert(execute) -> None:
    overloads = "__device__ int which(const Level& l) { return 1; }\n__device__ int which(Meter m) { return 2; }"
    assert values(execute, "o[0] = which(3.0f);", overloads)[0] == 2


def test_the_operator_of_the_language_is_meant_where_it_converts_less(execute) -> None:
    operator = "__device__ Meter operator+(float a, Meter b) { return Meter(100.0f); }"
    done = "Plain p{2.5f}; o[0] = p + 1.0f; o[1] = (p + Meter(1.0f)).v; o[2] = (1.0f + Meter(1.0f)).v;"
    assert values(execute, done, operator) == [3.5, 100, 100]


VIEW = """
template <typename T, int R> struct View {
  __device__ View(T* data) : data(data) {}
  __device__ T& operator()(int i, int j) { return data[j * R + i]; }
  T* data;
};
template <int M> __device__ void set(float q, View<float, M> v) { v(1, 0) = q; }
template <> __device__ void set<2>(float q, View<float, 2> v) { v(0, 1) = q; }
"""


def test_arrays_and_pointers_become_views_where_they_are_passed(execute) -> None:
    """A constructor that takes a pointer converts an array as well, also for a specialisation of a template."""
    assert values(execute, "float a[6] = {}; set<2>(3.0f, a); set<3>(4.0f, o); o[0] = a[2];", VIEW)[:2] == [3, 4]


def test_a_pointer_to_something_else_becomes_no_view(refuses) -> None:
    text = f"{VIEW}\n__global__ void k(int* o) {{ set<3>(1.0f, o); }}"
    assert refuses(text, "E-SEMA-OVERLOAD").message == "no 'set' accepts (float, int*)"
