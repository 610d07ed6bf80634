"""Several kernels of one name: overloads, specialisations, namespaces. What is launched is taken, or nothing is."""

from __future__ import annotations

import pytest

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import list_kernels, load
from ktc.ir.frontend.entry_points import parse_unit
from ktc.ir.frontend.host.captured import instance
from ktc.ir.text.printer import print_kernel

OVERLOADS = """
__global__ void step(float* x, float s) { x[threadIdx.x] *= s; }
__global__ void step(int* x, int s) { x[threadIdx.x] += s; }
"""
SPECIALISED = """
template <typename T> __global__ void step(T* x, T s) { x[threadIdx.x] = x[threadIdx.x] * s; }
template <> __global__ void step<int>(int* x, int s) { x[threadIdx.x] = x[threadIdx.x] + s; }
"""
SPACES = """
namespace a { __global__ void step(float* x) { x[threadIdx.x] = 1; } }
namespace b { __global__ void step(float* x) { x[threadIdx.x] = 2; } }
"""


def body(text: str, **how: object) -> str:
    printed = print_kernel(load(text, name="k.cu", **how))  # type: ignore[arg-type]
    return " ".join(
        line.strip() for line in printed.splitlines() if "[tid" in line or "[thread" in line or " = " in line
    )


def refusal(text: str, **how: object) -> KtcError:
    with pytest.raises(KtcError) as e:
        load(text, name="k.cu", **how)  # type: ignore[arg-type]
    return e.value


@pytest.mark.parametrize(
    ("text", "host", "has"),
    [
        (OVERLOADS, "void go(int* x, int s) { step<<<1, 256>>>(x, s); }", "+= s"),
        (OVERLOADS, "void go(float* x) { step<<<1, 256>>>(x, 2); }", "*= s"),
        (OVERLOADS, "void go(void* x) { step<<<1, 256>>>((int*)x, 2); }", "+= s"),
        (OVERLOADS, "template <typename T> void go(T* x) { step<<<1, 2>>>(x, T(1)); }"
         "void all(int* p) { go(p); }", "+= s"),
        (OVERLOADS + "template <typename T> __global__ void step(T* x) { x[threadIdx.x] = 7; }",
         "void go(int* x) { step<<<1, 256>>>(x); }", "= 7"),
        (OVERLOADS + "template <typename T> __global__ void step(T* x, T s) { x[threadIdx.x] = 7; }",
         "void go(int* x) { step<<<1, 256>>>(x, 1); }", "+= s"),
        (OVERLOADS + "template <typename T> __global__ void step(T* x, T s) { x[threadIdx.x] = 7; }",
         "void go(int* x) { step<int><<<1, 256>>>(x, 1); }", "= 7"),
        (SPECIALISED, "void go(int* x, int s) { step<int><<<1, 256>>>(x, s); }", "+= s"),
        (SPECIALISED, "void go(int* x, int s) { step<<<1, 256>>>(x, s); }", "+= s"),
        (SPECIALISED, "void go(float* x, float s) { step<<<1, 256>>>(x, s); }", "*= s"),
        (SPECIALISED.replace("step<int>", "step"), "void go(int* x, int s) { step<<<1, 256>>>(x, s); }", "+= s"),
        (SPECIALISED, "template __global__ void step<int>(int*, int);", "+= s"),
        (SPACES, "void go(float* x) { b::step<<<1, 256>>>(x); }", "= 2"),
        (SPACES, "namespace a { void go(float* x) { step<<<1, 256>>>(x); } }", "= 1"),
        (SPACES, "using namespace b; void go(float* x) { step<<<1, 256>>>(x); }", "= 2"),
        ("template <unsigned N> __global__ void step(int* x) { x[threadIdx.x] = 1; }"
         "template <> __global__ void step<4>(int* x) { x[threadIdx.x] = 2; }",
         "void go(int* x) { step<4><<<1, 256>>>(x); }", "= 2"),
        ("template <typename T> __global__ void step(T* x);"
         "template <> __global__ void step<int>(int* x) { x[threadIdx.x] = 2; }",
         "void go(int* x) { step<<<1, 256>>>(x); }", "= 2"),
    ],
)  # fmt: skip
def test_the_launched_one_is_read(text: str, host: str, has: str) -> None:
    assert has in body(text + host)


def test_a_name_may_say_which() -> None:
    host = "void go(int* x, float* y) { step<<<1, 256>>>(x, 1); step<<<1, 256>>>(y, 1); }"
    error = refusal(OVERLOADS + host)
    assert error.code == "E-KERNEL-SEVERAL" and "step(int*, int) (line 3)" in error.message
    assert "--kernel 'step(float*, float)'" in error.hint
    assert "+= s" in body(OVERLOADS + host, kernel="step(int*, int)")
    assert "*= s" in body(OVERLOADS + host, kernel="step( float *, const float )")
    assert "+= s" in body(SPECIALISED, kernel="step<int>")
    assert "*= s" in body(SPECIALISED, kernel="step<float>")
    assert "= 2" in body(SPACES, kernel="b::step")
    assert "a::step (line 2), b::step (line 3)" in refusal(SPACES).message
    assert refusal(SPACES, kernel="c::step").code == "E-KERNEL-UNKNOWN"
    assert refusal(OVERLOADS, kernel="step(double)").code == "E-KERNEL-UNKNOWN"


def test_each_name_that_is_offered_means_one_kernel() -> None:
    """A kernel in no namespace, or in one whose name others end with, is named from the global one on."""
    text = """
__global__ void step(float* x) { x[threadIdx.x] = 0; }
namespace a { __global__ void step(float* x) { x[threadIdx.x] = 1; } }
namespace b { namespace a { __global__ void step(float* x) { x[threadIdx.x] = 2; } } }
"""
    error = refusal(text)
    assert "::step (line 2), ::a::step (line 3), b::a::step (line 4)" in error.message
    for name, value in {"::step": 0, "::a::step": 1, "b::a::step": 2, "::b::a::step": 2}.items():
        assert f"= {value}.0" in body(text, kernel=name)
    assert refusal(text, kernel="a::step").code == "E-KERNEL-SEVERAL"
    assert refusal(text, kernel="::b::step").code == "E-KERNEL-UNKNOWN"


def test_what_is_not_known_is_not_guessed() -> None:
    """An argument whose type nothing says leaves both overloads; a definition elsewhere, or one that does not parse,
    may be the one that is meant."""
    assert refusal(OVERLOADS + "void go(Unknown x) { step<<<1, 256>>>(x.p(), 1); }").code == "E-KERNEL-SEVERAL"
    declared = SPECIALISED.replace("{ x[threadIdx.x] = x[threadIdx.x] + s; }", ";")
    error = refusal(declared + "void go(int* x) { step<<<1, 256>>>(x, 1); }")
    assert error.code == "E-SEMA-BODY" and error.loc is not None and error.loc.line == 3
    broken = SPECIALISED.replace("+ s;", "+ ((;") + "void go(int* x) { step<int><<<1, 256>>>(x, 1); }"
    assert refusal(broken).code == "E-PARSE-SYNTAX"


def test_each_overload_has_its_own_launches(tmp_path) -> None:
    file = tmp_path / "k.cu"
    file.write_text(OVERLOADS + "void go(int* x) { step<<<1, 256>>>(x, 1); }\n")
    first, second = list_kernels(str(file))
    assert (first.name, first.launches) == ("step(float*, float)", ())
    assert second.name == "step(int*, int)" and len(second.launches) == 1
    assert load(str(file), kernel=second.name).launch is not None
    assert load(str(file), kernel=first.name).launch is None


def test_partial_specialisations_of_what_a_kernel_uses() -> None:
    text = """
    template <typename T, int N> struct Op { static __device__ T f(T x) { return x * 3; } };
    template <typename T> struct Op<T, 2> { static __device__ T f(T x) { return x * 5; } };
    template <int N> struct Op<int, N> { static __device__ int f(int x) { return x * 7; } };
    template <typename T, int N> __global__ void k(T* x) { x[threadIdx.x] = Op<T, N>::f(x[threadIdx.x]); }
    """
    for launch, factor in (("k<float, 1>", "*= 3"), ("k<float, 2>", "*= 5"), ("k<int, 1>", "*= 7")):
        assert factor in body(
            text + f"void go(float* x, int* y) {{ {launch}<<<1, 32>>>({'y' if 'int' in launch else 'x'}); }}"
        )


CONSTRAINED = """
#include <type_traits>
template <typename T> struct Packs { static constexpr bool exists = false; };
template <> struct Packs<__half> { static constexpr bool exists = true; };
template <typename T, int width>
__global__ std::enable_if_t<(width > 0) && Packs<T>::exists> step(T* x) { x[threadIdx.x] = T(width); }
template <typename T, int width>
__global__ std::enable_if_t<(width == 0) || !Packs<T>::exists> step(T* x) { x[threadIdx.x] = T(9); }
"""
BY_PARAMETER = """
template <int N, std::enable_if_t<(N > 0), int> = 0> __global__ void step(int* x) { x[threadIdx.x] = N; }
template <int N, std::enable_if_t<(N == 0), int> = 0> __global__ void step(int* x) { x[threadIdx.x] = 9; }
"""
BY_REQUIREMENT = """
template <int N> requires (N > 0) __global__ void step(int* x) { x[threadIdx.x] = N; }
template <int N> requires (N == 0) __global__ void step(int* x) { x[threadIdx.x] = 9; }
"""


@pytest.mark.parametrize("text", [BY_PARAMETER, BY_REQUIREMENT])
def test_constraints_tell_kernels_apart(text: str) -> None:
    for n, has in ((0, "= 9"), (4, "= 4")):
        assert has in body(text + f"void go(int* x) {{ step<{n}><<<1, 256>>>(x); }}")
        assert has in body(text, kernel=f"step<{n}>")


def test_kernels_that_only_constraints_tell_apart_are_asked_for_by_their_arguments(tmp_path) -> None:
    host = "void go(__half* x, float* y) { step<__half, 8><<<1, 256>>>(x); step<float, 8><<<1, 256>>>(y); }"
    file = tmp_path / "k.cu"
    file.write_text(CONSTRAINED + host)
    names = [k.name for k in list_kernels(str(file))]
    assert names == ["step<__half, 8>", "step<float, 8>"]
    assert [len(k.launches) for k in list_kernels(str(file))] == [1, 1]
    assert "step<__half, 8> (line 6), step<float, 8> (line 8)" in refusal(CONSTRAINED + host).message
    assert "f16(8)" in body(CONSTRAINED + host, kernel=names[0])
    assert "= 9.0" in body(CONSTRAINED + host, kernel=names[1])
    assert "f16(9)" in body(CONSTRAINED + host, template={"T": "half", "width": 0})


@pytest.mark.parametrize("text", [BY_PARAMETER, BY_REQUIREMENT])
def test_what_a_constraint_leaves_out_is_no_instance(text: str) -> None:
    error = refusal(text.splitlines()[1], template={"N": 0})
    assert error.code == "E-TEMPLATE-VALUE" and "no instance" in error.message


@pytest.mark.parametrize(
    ("text", "name", "sizes", "has"),
    [
        (OVERLOADS, "step(int*, int)", (8, 4), "+= s"),
        (OVERLOADS, "step(float*, float)", (8, 4), "*= s"),
        (SPECIALISED, "void step<int>(int*, int)", (8, 4), "+= s"),
        (SPECIALISED, "void step<float>(float*, float)", (8, 4), "*= s"),
        (SPACES, "b::step(float*)", (8,), "= 2"),
        ("typedef int Index; struct S { int a; };"
         "__global__ void k(const Index* p, S s) { int i = p[threadIdx.x]; *(int*)0 = 0; }"
         "__global__ void k(int* p, unsigned s) { p[threadIdx.x] = 2; }", "k(int*, unsigned int)", (8, 4), "= 2"),
    ],
)  # fmt: skip
def test_a_captured_launch_means_one(text: str, name: str, sizes: tuple[int, ...], has: str) -> None:
    parameters = [(8 * i, size) for i, size in enumerate(sizes)]
    found = instance(parse_unit(text, "k.cu", None, ()), name, parameters, (1, 1, 1), (32, 1, 1), 0)
    assert has in print_kernel(found.kernel)
