"""Structs in memory: layouts, fields, copies, unions, bit-fields; their re-emission reads the same bytes."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load

POINT = "struct Point { float x; int id; float w[2]; };\n"
POINT_DTYPE = np.dtype([("x", "f4"), ("id", "i4"), ("w", "f4", 2)])


def points(n: int) -> np.ndarray:
    a = np.zeros(n, POINT_DTYPE)
    a["x"], a["id"], a["w"] = np.arange(n) + 0.5, np.arange(n) * 3, np.arange(2 * n).reshape(n, 2)
    return a


def as_units(a: np.ndarray, unit: str) -> np.ndarray:
    return a.copy().view(unit)


def test_fields_of_an_array_of_structs(execute, round_trip):
    text = (
        POINT
        + """__global__ void k(Point* p, int n) {
        int i = threadIdx.x;
        if (i < n) { p[i].x += p[i].w[1] * 2.f; p[i].id = p[i].id + i; p[i].w[i & 1] = p[i].id; } }"""
    )
    a = points(4)
    got = execute(text, {"p": as_units(a, "f4"), "n": 3}, threads=4)["p"].view(POINT_DTYPE)
    for i in range(3):
        a[i]["x"] += a[i]["w"][1] * 2
        a[i]["id"] += i
        a[i]["w"][i & 1] = a[i]["id"]
    np.testing.assert_array_equal(got, a)
    assert round_trip(text).param("p").sym.type.elem.name == "f32"


def test_pointers_and_references_to_structs(execute):
    text = (
        POINT
        + """__device__ void bump(Point& p, const Point* q) { p.id += q->id; p.w[0] = q[1].x; }
    __global__ void k(Point* p) {
        Point* second = &p[1]; bump(*second, p); second++; second->x = (*p).x;
        Point& last = p[3]; last.id = (int)(second - p); Point copy = last; copy.id = 77; p[0] = copy; }"""
    )
    got = execute(text, {"p": as_units(points(4), "f4")})["p"].view(POINT_DTYPE)
    want = points(4)
    want[1]["id"] += want[0]["id"]
    want[1]["w"][0] = want[1]["x"]
    want[2]["x"] = want[0]["x"]
    want[3]["id"] = 2
    want[0] = want[3]
    want[0]["id"] = 77
    np.testing.assert_array_equal(got, want)


def test_members_of_several_sizes_lie_where_the_compiler_puts_them(execute, round_trip):
    """char, short, int, double and a nested struct: offsets 0, 2, 4, 8, 16; 32 bytes in all."""
    text = """struct In { char c; float f; };
    struct Out { char a; short b; int c; double d; In e; bool g; };
    static_assert(sizeof(Out) == 32 && sizeof(In) == 8, "layout");
    __global__ void k(Out* o) { o[1].a = o[0].a; o[1].b = o[0].b + 1; o[1].c = o[0].c; o[1].d = o[0].d * 2;
        o[1].e.f = o[0].e.f; o[1].e.c = -1; o[1].g = !o[0].g; }"""
    inner = np.dtype([("c", "i1"), ("f", "f4")], align=True)
    outer = np.dtype([("a", "i1"), ("b", "i2"), ("c", "i4"), ("d", "f8"), ("e", inner), ("g", "?")], align=True)
    assert outer.itemsize == 32
    a = np.zeros(2, outer)
    a[0] = (5, -300, 70000, 1.25, (7, 2.5), True)
    got = execute(text, {"o": as_units(a, "u1")})["o"].view(outer)
    want = (5, -299, 70000, 2.5, (-1, 2.5), False)
    assert got[1].tolist() == want
    round_trip(text)


def test_alignment_counts(cu):
    cu("""struct __align__(16) A { float x; }; struct B { char c; alignas(8) int i; float3 v; double2 d; };
    static_assert(sizeof(A) == 16 && sizeof(B) == 48, ""); struct __attribute__((aligned(32))) C { int x; };
    static_assert(sizeof(C) == 32 && sizeof(float3) == 12, ""); struct D : A { int y; };
    struct alignas(double) E { float x; }; static_assert(sizeof(E) == 8, "");
    __global__ void k(int* p) { p[0] = sizeof(D); }""")


@pytest.mark.parametrize("packed", ["#pragma pack(push, 1)\nstruct S { char a; int b; };\n#pragma pack(pop)\n",
                                    "typedef struct { char a; int b; } __attribute__((packed)) S;\n"])  # fmt: skip
def test_packed_structs_are_refused(refuses, packed):
    refuses(packed + "__global__ void k(S* s) { s->b = 1; }", "E-UNSUPPORTED-STRUCT")


def test_shared_and_private_arrays_of_structs(execute):
    text = """struct Pair { float v; int i; };
    __global__ void k(float* out, const float* in) {
        __shared__ Pair s[4]; __shared__ Pair best;
        int t = threadIdx.x; s[t].v = in[t]; s[t].i = t;
        __syncthreads();
        if (t == 0) { best = s[0]; for (int j = 1; j < 4; ++j) if (s[j].v > best.v) best = s[j]; }
        __syncthreads();
        Pair mine[2] = {{1.f, 2}, {3.f, 4}}; mine[t & 1].v += best.v;
        out[t] = mine[t & 1].v * 10 + best.i + mine[1].i; }"""
    got = execute(text, {"out": np.zeros(4, np.float32), "in": np.float32([1, 5, 2, 3])}, threads=4)["out"]
    assert list(got) == [65, 85, 65, 85]


def test_struct_parameters_become_one_parameter_a_member(execute, cu):
    text = """struct Dims { int n; float scale[2]; }; struct P { const float* in; Dims d; };
    __global__ void k(float* out, P p, int last) { for (int i = 0; i < p.d.n; ++i)
        out[i] = p.in[i] * p.d.scale[i & 1] + last; }"""
    k = cu(text)
    names = [p.sym.name for p in k.params]
    assert names == ["out", "p_in", "p_d_n", "p_d_scale_0", "p_d_scale_1", "last"]
    from ktc.ir.interp import run
    from ktc.ir.kernel import Launch
    from ktc.ir.nodes import i32

    one = (i32(1),) * 3
    args = {"out": np.zeros(3, np.float32), "p_in": np.float32([1, 2, 3]), "p_d_n": 3, "p_d_scale_0": 10.0,
            "p_d_scale_1": 100.0, "last": 1}  # fmt: skip
    assert list(run(k.with_(launch=Launch(one, one)), args).outputs["out"]) == [11, 201, 31]


def test_unions_and_anonymous_members(execute):
    text = """union Bits { float f; unsigned u; unsigned char b[4]; };
    struct Tag { union { int i; float f; }; struct { short lo, hi; }; };
    __global__ void k(unsigned* out, float x, Tag* t) {
        Bits v; v.f = x; out[0] = v.u; out[1] = v.b[3]; v.u |= 0x80000000u; out[2] = v.f < 0; Bits w = v;
        out[3] = w.u; t->f = x; out[4] = t->i; t->hi = 7; out[5] = t->lo + t->hi; }"""
    bits = int(np.float32(1.5).view(np.uint32))
    args = {"out": np.zeros(6, np.uint32), "x": 1.5, "t": np.zeros(4, np.int16)}
    got = execute(text, args)["out"]
    assert list(got) == [bits, bits >> 24, 1, bits | 1 << 31, bits, 7]


def test_bit_fields(execute):
    """Widths, signs and packing as the ABI has it: a 5, b 27, c in the next unit; storing keeps the neighbours."""
    text = """struct F { int a : 5; unsigned b : 27; int c : 3, : 0; int d; };
    static_assert(sizeof(F) == 12, "");
    __global__ void k(int* out, F* f, int v) { f->a = v; f->b += 1; f->c = 7; f->d = 9;
        F g = *f; g.a = 31; out[0] = f->a; out[1] = f->b; out[2] = f->c; out[3] = g.a; out[4] = g.b; }"""
    for v in (-16, 15, 37):
        f = np.array([3 | 100 << 5, 0, 0], np.uint32)
        got = execute(text, {"out": np.zeros(5, np.int32), "f": f.copy().view("i4"), "v": v})
        a = ((v + 16) & 31) - 16
        assert list(got["out"]) == [a, 101, -1, -1, 101]
        assert list(got["f"].view("u4")) == [(a & 31) | 101 << 5, 7, 9]


def test_a_copy_is_a_copy(execute):
    """By-value variables, parameters and results do not follow their source."""
    text = """struct V { int a, b; };
    __device__ V twice(V v) { v.a *= 2; return v; }
    __device__ int late(V v, V& w) { w.a = 50; return v.a; }
    __global__ void k(int* out, V* mem) { V s = {1, 2}; auto t = s; s.a = 9; out[0] = t.a; V u = twice(s); out[1] = s.a;
        out[2] = u.a; out[3] = late(s, s); out[4] = late(mem[0], mem[0]); out[5] = mem[0].a; }"""
    got = execute(text, {"out": np.zeros(6, np.int32), "mem": np.int32([4, 5])})["out"]
    assert list(got) == [1, 9, 18, 9, 4, 50]


def test_buffers_are_declared_as_the_smallest_part_that_is_used(execute, cu):
    """A float2 buffer walked as floats, an int buffer as bytes: element types follow the accesses."""
    text = """__global__ void k(float2* v, int* w) { float* f = (float*)v + 1; f[0] = f[1] + v[1].y;
        unsigned char* b = (unsigned char*)w; b[5] = b[0] + 1; w[0] = 7; }"""
    k = cu(text)
    assert [p.sym.type.elem.name for p in k.params] == ["f32", "u8"] and [p.align for p in k.params] == [8, 4]
    w = np.array([0x01020304, 0], np.int32)
    got = execute(text, {"v": np.float32([1, 2, 3, 4]), "w": w.view("u1")})
    assert list(got["v"]) == [1, 7, 3, 4] and list(got["w"].view("i4")) == [7, 0x500]


def test_methods_operators_and_constructors(execute):
    text = """template <typename T> struct Acc { T sum; int n; __device__ Acc() : sum(0), n(0) {}
        __device__ void add(T x) { sum += x; ++n; } __device__ T mean() const { return sum / n; }
        __device__ Acc& operator+=(const Acc& o) { sum += o.sum; n += o.n; return *this; } };
    __global__ void k(float* out, const float* in) { __shared__ Acc<float> total; Acc<float> a;
        for (int i = 0; i < 4; ++i) a.add(in[i]); total.sum = 1.f; total.n = 1; total += a; out[0] = total.mean(); }"""
    got = execute(text, {"out": np.zeros(1, np.float32), "in": np.float32([1, 2, 3, 8])})["out"]
    assert got[0] == 3.0


def test_bases_and_members_are_constructed(execute):
    """Bases by the initialiser list or by default, members by their default constructor, arrays element by element."""
    text = """struct A { int x; __device__ A() : x(7) {} __device__ A(int v) : x(v) {} };
    struct B : A { int y; __device__ B() : y(1) {} __device__ B(int v) : A(v + 1), y(v) {} };
    struct C { A a; B b; int z = 4; };
    struct D { int n; __device__ D(int v) : n(v) {} __device__ D() : D(30) {} };
    __global__ void k(int* out) { B p; B q(5); C c; D d; A four[4]; out[0] = p.x * 10 + p.y; out[1] = q.x * 10 + q.y;
        out[2] = c.a.x + c.b.x + c.b.y + c.z; out[3] = d.n; out[4] = four[0].x + four[3].x; }"""
    assert list(execute(text, {"out": np.zeros(5, np.int32)})["out"]) == [71, 65, 19, 30, 14]


def test_members_defined_outside_their_class(execute):
    text = """template <class T> struct I { T lo, hi; __device__ I(T a, T b); __device__ T const& low() const;
        __device__ void widen(T by); };
    template <class U> __device__ I<U>::I(U a, U b) : lo(a), hi(b) {}
    template <class T> inline __device__ T const& I<T>::low() const { return lo; }
    template <class V> __device__ void I<V>::widen(V by) { lo -= by; hi += by; }
    struct P { int v; __device__ int twice() const; };
    __device__ int P::twice() const { return 2 * v; }
    __global__ void k(float* out) { I<float> i(1.f, 2.f); i.widen(0.5f); out[0] = i.low(); out[1] = i.hi;
        P p = {4}; out[2] = p.twice(); }"""
    assert list(execute(text, {"out": np.zeros(3, np.float32)})["out"]) == [0.5, 2.5, 8]


def test_atomics_on_members_and_reinterpreted_buffers(execute):
    text = """struct S { int n; float f; }; __device__ S total;
    __global__ void k(int* g, S* s) { atomicInc((unsigned*)&g[0], 2); g[1] = -5; atomicAdd(&s->f, 1.5f); s->n += 1;
        atomicAdd(&total.f, 2.f); }"""
    got = execute(text, {"g": np.uint32([2, 0]), "s": np.zeros(2, np.float32), "total": np.zeros(2, np.float32)})
    assert list(got["g"].view("i4")) == [0, -5] and got["s"][1] == 1.5 and got["s"].view("i4")[0] == 1
    assert got["total"][1] == 2


def test_arrays_inside_structs_take_their_initial_values(execute):
    text = """struct S { unsigned char f[1]; long long g[4]; int h; };
    __global__ void k(long long* out) {
      S s = {{1}, {2, 3, 4, 5}, 6}, t = {{7}, {8, 9}}, u = s;
      out[0] = s.f[0]; out[1] = s.g[3]; out[2] = s.h; out[3] = t.g[1]; out[4] = t.g[3]; out[5] = u.g[2]; out[6] = t.h;
    }"""
    got = execute(text, {"out": np.full(7, -1, np.int64)})["out"]
    assert got.tolist() == [1, 5, 6, 9, 0, 4, 0]


ELIDED = """
struct S { int g[2]; int h; }; struct In { int a, b; }; struct Out { In x; int c; In y[2]; };
struct F { float2 p; int k; };
"""


@pytest.mark.parametrize(
    "body, want",
    [
        ("S s = {1, 2, n}; o[0] = s.g[1] * 10 + s.h;", 27), ("S s{n}; o[0] = s.g[0] * 100 + s.g[1] + s.h;", 700),
        ("In m[2] = {1, 2, 3, n}; o[0] = m[0].b * 10 + m[1].b;", 27),
        ("In m[2][2] = {1, 2, 3, 4, 5, n}; o[0] = m[0][1].b * 100 + m[1][0].b * 10 + m[1][1].a;", 470),
        ("Out t = {1, 2, 3, 4, 5, 6, n}; o[0] = t.x.b * 100 + t.c * 10 + t.y[1].b;", 237),
        ("In i{7, 8}; Out t = {i, 9, i, {1, n}}; o[0] = t.c * 100 + t.y[0].b * 10 + t.y[1].b;", 987),
        ("In e[3] = {{1}, 2, 3, {n}}; o[0] = e[0].b * 100 + e[1].b * 10 + e[2].a;", 37),
        ("F f = {1.f, 2.f, n}; o[0] = (int)f.p.y * 10 + f.k;", 27),
        ("float2 v[2] = {1.f, 2.f, 3.f, (float)n}; o[0] = (int)(v[0].y * 10 + v[1].y);", 27),
        ("float4 v[2] = {{1, 2, 3, 4}, make_float4(5, 6, 7, n)}; o[0] = (int)v[1].w;", 7),
    ],
)  # fmt: skip
def test_values_go_to_members_whose_braces_are_left_out(execute, body: str, want: int) -> None:
    got = execute(ELIDED + "__global__ void k(int* o, int n) {" + body + "}", {"o": np.zeros(1, np.int32), "n": 7})
    assert got["o"][0] == want


@pytest.mark.parametrize("body", ["In i = {1, 2, 3};", "S s = {1, 2, 3, 4};", "In m[2] = {1, 2, 3, 4, 5};"])
def test_more_values_than_members_are_refused(body: str) -> None:
    with pytest.raises(KtcError) as e:
        load(ELIDED + "__global__ void k(int* o) {" + body + " o[0] = 1; }")
    assert e.value.code == "E-SEMA-INIT" and e.value.loc is not None


def test_unions_are_passed_by_the_member_that_has_all_of_them(execute) -> None:
    """The members of unnamed structs and unions are parameters by their own names."""
    text = """
    typedef struct Walls { union { struct { int low, high; }; int el[2]; }; } Walls;
    union Pair { char bytes[8]; struct { float a, b; } v; float el[2]; };
    __global__ void mark(int* x, Walls w, Pair p) {
      int i = threadIdx.x;
      p.v.a += 1;
      x[i] = (i == w.low ? w.el[1] : w.high) + w.el[i & 1] + (int)(p.el[1] + p.el[0]);
    }
    void go(int* x, Walls w, Pair p) { mark<<<1, 4>>>(x, w, p); }"""
    kernel = load(text, name="k.cu")
    assert [p.sym.name for p in kernel.params] == ["x", "w_low", "w_high", "p_v_a", "p_v_b"]
    got = execute(text, {"x": np.zeros(4, np.int32), "w_low": 2, "w_high": 5, "p_v_a": 3.0, "p_v_b": 20.0})["x"]
    assert got.tolist() == [5 + 2 + 24, 5 + 5 + 24, 5 + 2 + 24, 5 + 5 + 24]


def test_a_union_without_such_a_member_is_not_passed() -> None:
    text = "union Bits { char bytes[8]; float one; }; __global__ void k(int* x, Bits b) { x[0] = b.bytes[0]; }"
    with pytest.raises(KtcError) as raised:
        load(text, name="k.cu")
    assert raised.value.code == "E-UNSUPPORTED-PARAM"
