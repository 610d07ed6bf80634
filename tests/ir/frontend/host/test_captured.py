"""Which kernel a compiled program launched, and where its parameter block has the values."""

from __future__ import annotations

import pytest

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.entry_points import parse_unit
from ktc.ir.frontend.host.captured import Instance, instance, spelled
from ktc.ir.nodes import Const

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


def test_members_are_found_where_the_abi_has_them(unit):
    found = launched(unit, "one::k(float*, char, Small, Flags)", [(0, 8), (8, 1), (16, 40), (56, 4)])
    assert places(found) == {
        "x": (0, 8), "c": (8, 1), "s_tag": (16, 1), "s_weight": (24, 8), "s_at": (32, 12), "s_counts_0": (44, 4),
        "s_counts_1": (48, 4), "f_a": (56, 4), "f_b": (56, 4), "f_c": (58, 1),
    }  # fmt: skip
    assert {s.name: s.bits for s in found.slots if s.bits} == {"f_a": (0, 3), "f_b": (3, 7)}
    assert {p.sym.name for p in found.kernel.params} == set(places(found))


def test_the_namespace_decides_and_large_arrays_stay_in_the_block(unit):
    found = launched(unit, "two::k(float*, float4, Table)", [(0, 8), (16, 16), (32, 404)])
    assert places(found) == {"x": (0, 8), "v": (16, 16), "t_values": (32, 400), "t_n": (432, 4)}
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
    assert spelled("k(float*, int)") == spelled("k")
    assert spelled("a::b::k(float*)").namespace == ("a", "b")
    one = spelled("void n::k<float, 16u, std::plus<int>, (Mode)1>(float*, n::P<3>)")
    assert (one.namespace, one.name, one.args) == (("n",), "k", ("float", "16u", "std::plus<int>", "(Mode)1"))
    assert spelled("(anonymous namespace)::k(int)").name == "k"
    assert spelled("void k<>(int)").args == ()
