"""Which kernel a compiled program launched, and where its parameter block has the values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.entry_points import parse_unit
from ktc.ir.frontend.host.captured import Instance, instance
from ktc.ir.frontend.host.kernel_names import as_source, spelled
from ktc.ir.nodes import Const
from ktc.ir.text.printer import print_kernel

SOURCE = """
struct Small { char tag; double weight; float3 at; int counts[2]; };
struct Flags { unsigned a : 3; int b : 7; unsigned char c; };
struct Table { float values[100]; int n; };
namespace one { __global__ void k(float *x, char c, Small s, Flags f) { x[0] = s.weight + s.counts[1] + f.b + c; } }
namespace two { __global__ void k(float *x, float4 v, const Table t) { x[0] = v.y + t.values[t.n]; } }
template <typename T, int N = 4> __global__ void __launch_bounds__(128) scale(T *x) {
  extern __shared__ T part[];
  part[threadIdx.x] = x[threadIdx.x]; x[threadIdx.x] = part[threadIdx.x] * N;
}
"""


@pytest.fixture(scope="module")
def unit():
    return parse_unit(SOURCE, "k.cu", None, ())


def launched(unit, name: str, parameters: list[tuple[int, int]], shared: int = 0) -> Instance:
    return instance(unit, name, parameters, (2, 3, 1), (64, 1, 1), shared)


def places(found: Instance) -> dict[str, tuple[int, int]]:
    return {s.name: (s.offset, s.size) for s in found.slots}


def axes(name: str, offset: int, letters: str) -> dict[str, tuple[int, int]]:
    """The places of a vector's components of four bytes each."""
    return {f"{name}_{axis}": (offset + 4 * k, 4) for k, axis in enumerate(letters)}


def test_members_are_found_where_the_abi_has_them(unit):
    found = launched(unit, "one::k(float*, char, Small, Flags)", [(0, 8), (8, 1), (16, 40), (56, 4)])
    assert places(found) == {
        "x": (0, 8), "c": (8, 1), "s_tag": (16, 1), "s_weight": (24, 8), **axes("s_at", 32, "xyz"),
        "s_counts_0": (44, 4), "s_counts_1": (48, 4), "f_a": (56, 4), "f_b": (56, 4), "f_c": (58, 1),
    }  # fmt: skip
    assert {s.name: s.bits for s in found.slots if s.bits} == {"f_a": (0, 3), "f_b": (3, 7)}
    assert {p.sym.name for p in found.kernel.params} == set(places(found))


def test_the_namespace_decides_and_large_arrays_stay_in_the_block(unit):
    found = launched(unit, "two::k(float*, float4, Table)", [(0, 8), (16, 16), (32, 404)])
    assert places(found) == {"x": (0, 8), "t_values": (32, 400), "t_n": (432, 4), **axes("v", 16, "xyzw")}
    assert [s.name for s in found.slots if s.inline] == ["t_values"]


def test_template_arguments_and_geometry_are_those_of_the_launch(unit):
    found = launched(unit, "void scale<double, 8>(double*)", [(0, 8)], shared=512)
    k = found.kernel
    assert k.params[0].sym.type.elem.name == "f64"
    assert [e.value for e in (*k.launch.grid, *k.launch.block)] == [2, 3, 1, 64, 1, 1]
    assert k.launch.dynamic_shared == Const(512, k.launch.dynamic_shared.type) and k.launch.max_threads is not None


@pytest.mark.parametrize(
    ("name", "parameters", "code"),
    [
        ("one::k(float*, char, Small, Flags)", [(0, 8), (8, 1), (16, 32), (48, 4)], "E-CAPTURE-MISMATCH"),
        ("one::k(float*)", [(0, 8)], "E-CAPTURE-MISMATCH"),
        ("void scale<double>(double*)", [(0, 8)], "E-CAPTURE-MISMATCH"),
        ("void scale<Unknown, 8>(Unknown*)", [(0, 8)], "E-TEMPLATE-VALUE"),
        ("other(float*)", [(0, 8)], "E-KERNEL-UNKNOWN"),
        ("void f<main::{lambda()#1}>(int)", [(0, 4)], "E-KERNEL-UNKNOWN"),
        ("?", [], "E-CAPTURE-NAME"),
    ],
)
def test_what_does_not_agree_is_refused(unit, name, parameters, code):
    with pytest.raises(KtcError) as e:
        launched(unit, name, parameters)
    assert e.value.code == code


def test_demangled_names():
    assert spelled("k(float*, int)") == replace(spelled("k"), params=("float*", "int"))
    assert spelled("a::b::k(float*)").namespace == ("a", "b")
    one = spelled("void n::k<float, 16u, std::plus<int>, (Mode)1>(float*, n::P<3>)")
    assert (one.namespace, one.name, one.args) == (("n",), "k", ("float", "16u", "std::plus<int>", "(Mode)1"))
    assert spelled("(anonymous namespace)::k(int)").name == "k"
    assert spelled("void k<>(int)").args == ()


FORMS = """
typedef float (*op_t)(float, float);
__device__ float plus(float a, float b) { return a + b; }
__device__ int at;
namespace ns {
template <typename T> __device__ T larger(T a, T b) { return a > b ? a : b; }
__device__ float times(float a, float b) { return a * b; }
enum class Mode { A, B, C };
enum Old { X = -1, Y = 2 };
template <typename T, int N = 4> struct Pack { T d[N]; };
template <op_t F, Mode M> struct Op { __device__ static float f(float a, float b) { return F(a, b) + (int)M; } };
struct In { template <typename T> struct Deep { T v; }; };
}
namespace { struct Anon { int x; }; __device__ float hidden(float a, float b) { return a - b; } }
template <op_t F> __global__ void combine(float* o) { *o = F(o[0], o[1]); }
template <typename O> __global__ void types(float* o) { *o = sizeof(O); }
template <int N, unsigned U, bool B, char C, long L, unsigned long long Q, short S> __global__ void numbers(float* o) {
  *o = N + (int)U + B + C + L + (int)Q + S; }
template <ns::Mode M, ns::Old O> __global__ void enums(float* o) { *o = 10 * (int)M + (int)O; }
template <int... N> __global__ void ints(float* p) { *p = (N + ... + 0); }
template <template <typename, int> class C> __global__ void templ(float* p) { *p = sizeof(C<float, 3>); }
template <typename T, int N = 4> __global__ void deflt(T* p) { *p = N; }
template <auto N> __global__ void autos(float* p) { *p = N; }
"""
"""As nvcc's demangler writes the instances of these is what the next test looks for."""


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("void combine<&(plus(float, float))>(float*)", "o[0] += o[1]"),
        ("void combine<&(float ns::larger<float>(float, float))>(float*)", "a > b ? a : b"),
        ("void combine<&ns::times>(float*)", "o[0] *= o[1]"),
        ("void combine<&_INTERNAL_e82139b1_8_names_cu_19e8ed20::(anonymous namespace)::hidden>(float*)",
         "o[0] -= o[1]"),
        ("void types<ns::Op<&(plus(float, float)), (ns::Mode)1> >(float*)", "o[0] = 1"),
        ("void types<ns::Pack<float, 4> >(float*)", "o[0] = 16"),
        ("void types<ns::Pack<ns::Pack<double, 1>, 4> >(float*)", "o[0] = 32"),
        ("void types<(anonymous namespace)::Anon>(float*)", "o[0] = 4"),
        ("void types<ns::In::Deep<unsigned char> >(float*)", "o[0] = 1"),
        ("void types<float const*>(float*)", "o[0] = 8"),
        ("void types<float [4]>(float*)", "o[0] = 16"),
        ("void types<float (*)(float, float)>(float*)", "o[0] = 8"),
        ("void types<float4>(float*)", "o[0] = 16"),
        ("void types<unsigned long long>(float*)", "o[0] = 8"),
        ("void types<int volatile>(float*)", "o[0] = 4"),
        ("void types<float (*) [3]>(float*)", "o[0] = 8"),
        ("void numbers<-3, 4u, true, (char)97, -5l, 7ull, (short)-2>(float*)", "o[0] = 99"),
        ("void enums<(ns::Mode)2, (ns::Old)-1>(float*)", "o[0] = 19"),
        ("void ints<1, -2, 3>(float*)", "p[0] = 2"),
        ("void ints<>(float*)", "p[0] = 0"),
        ("void templ<ns::Pack>(float*)", "p[0] = 12"),
        ("void deflt<float, 4>(float*)", "p[0] = 4"),
        ("void autos<-3ll>(float*)", "p[0] = -3"),
        ("void autos<(char)120>(float*)", "p[0] = 120"),
        ("void autos<true>(float*)", "p[0] = 1"),
    ],
)  # fmt: skip
def test_every_demangled_form_of_an_instance_is_matched(name: str, printed: str) -> None:
    text = print_kernel(launched(parse_unit(FORMS, "k.cu", None, ()), name, [(0, 8)]).kernel)
    assert printed in text


@pytest.mark.parametrize(
    ("said", "source"),
    [
        ("&(plus(float, float))", "plus"),
        ("&(float n::f<float, (M)1>(float (*)(int), float))", "n::f<float, ((M)(1))>"),
        ("&n::g<&(plus(float))>::h", "&n::g<plus>::h"),
        ("(n::E<int>)-1", "((n::E<int>)(-1))"),
        ("(int*)0", "((int*)(0))"),
        ("n::P<&(a(int)), n::Q<-1, 3u> >", "n::P<a, n::Q<-1, 3u>>"),
        ("(anonymous namespace)::S", "S"),
    ],
)
def test_arguments_as_a_source_writes_them(said: str, source: str) -> None:
    assert as_source(said) == source
