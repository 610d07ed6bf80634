"""Friends, definitions outside classes, packs, strings, conditions that declare, pointers that come from memory."""

from __future__ import annotations

import numpy as np

from ktc.ir.frontend import load
from ktc.ir.nodes import Decl, Var
from ktc.ir.walk import walk


def ints(execute, body: str, before: str = "", n: int = 5) -> list[int]:
    text = before + "__global__ void k(int* o, int n) {" + body + "}"
    return execute(text, {"o": np.zeros(8, np.int32), "n": n})["o"].tolist()


VEC = """class Vec { public: float x, y;
    __device__ Vec() : x(0), y(0) {} __device__ Vec(float a, float b); __device__ explicit Vec(float s) : Vec(s, s) {}
    __device__ Vec operator+(const Vec& o) const { return Vec(x + o.x, y + o.y); }
    __device__ float dot(const Vec& o) const; __device__ float dot(float s) const;
    friend __device__ Vec operator*(float s, const Vec& v) { return Vec(s * v.x, s * v.y); } friend class Other; };
__device__ Vec::Vec(float a, float b) : x(a), y(b) {}
__device__ float Vec::dot(const Vec& o) const { return x * o.x + y * o.y; }
__device__ float Vec::dot(float s) const { return s * (x + y); }
__device__ Vec operator-(const Vec& a, const Vec& b) { return Vec(a.x - b.x, a.y - b.y); }
"""


def test_friends_and_overloads_defined_outside_their_class(execute, round_trip):
    text = (
        VEC
        + """__global__ void k(Vec* v, float* o, int n) { Vec a(1, 2), b = Vec(2.0f); Vec c = 2.0f * (a + b) - a;
        v[0] = c; o[0] = a.dot(b); o[1] = a.dot(2.0f); v[1] = n > 2 ? a + b : Vec(); v[2] = n > 9 ? a : Vec(7, n); }"""
    )
    got = execute(text, {"v": np.zeros(6, np.float32), "o": np.zeros(2, np.float32), "n": 5})
    assert got["v"].tolist() == [5, 6, 3, 4, 7, 5] and got["o"].tolist() == [6, 6]
    round_trip(text)


def test_partial_specialisations_take_packs_apart(execute):
    before = """template <class... T> struct Tup; template <> struct Tup<> { __device__ int sum() const { return 0; } };
    template <class H, class... T> struct Tup<H, T...> { H h; Tup<T...> t;
        __device__ int sum() const { return h + t.sum(); } };
    template <int... I> struct Seq {};
    template <int... I> __device__ int dot(const int* p, Seq<I...>) { return ((p[I] * I) + ...); }
    template <class F, class... A> __device__ auto call(F f, A&&... a) { return f(static_cast<A&&>(a)...); }
    template <class T> __device__ auto next(T a) -> decltype(a + 1) { return a + 1; }
    """
    body = """Tup<int, float> t{1, {2.f, {}}}; o[1] = 5; o[3] = 6; o[0] = t.sum(); o[2] = dot(o, Seq<1, 3>{});
        o[4] = call([](int a, int b) { return a - b; }, 7, 2); o[5] = next((short)2); o[6] = sizeof(next((short)2));"""
    assert ints(execute, body, before) == [3, 5, 23, 6, 5, 3, 4, 0]


def test_a_base_class_template_reaches_the_class_that_derives_from_it(execute):
    before = """template <class D> struct Base {
        __device__ int run(int x) { return static_cast<D*>(this)->impl(x) + 1; } };
    struct Der : Base<Der> { int k; __device__ int impl(int x) { return x * k; } };
    template <class T> struct Two : public T {
        int extra; __device__ int go() { return this->impl(2) + extra + T::k; } };
    """
    body = "Der d; d.k = 3; o[0] = d.run(4); Two<Der> t; t.k = 1; t.extra = 5; o[1] = t.go(); o[2] = t.run(6);"
    assert ints(execute, body, before)[:3] == [13, 8, 7]


def test_string_literals_are_arrays_of_characters(execute):
    before = 'static __device__ const char hex[] = "0123456789abcdef"; constexpr char ab[] = "a\\n" "b";\n'
    body = """const char h[] = "abc\\x41"; const char* p = "hi"; o[0] = h[1]; o[1] = h[3]; o[2] = sizeof(h);
        o[3] = p[1];
        o[4] = "hello"[n - 1]; o[5] = hex[10]; o[6] = ab[1] + ab[2]; o[7] = p[2];"""
    want = [ord("b"), 0x41, 5, ord("i"), ord("o"), ord("a"), ord("\n") + ord("b"), 0]
    assert ints(execute, body, before) == want


def test_string_literals_are_bytes_behind_pointers_of_other_types(execute):
    before = "__device__ int word(const unsigned char* p) { return p[0] | p[1] << 8; }\n"
    body = """const unsigned char* m = (unsigned char*)"ab\\xff" "c"; o[0] = word(m); o[1] = word(m + 2);
        o[2] = reinterpret_cast<const unsigned char*>("xyz")[1];"""
    assert ints(execute, body, before)[:3] == [0x6261, 0x63FF, ord("y")]


def test_shifts_into_the_sign_bit_are_constants(execute):
    before = "static const int BITS = sizeof(int) * 8; static const int TOP = 1 << (BITS - 1);\n"
    assert ints(execute, "o[0] = (unsigned)TOP >> 3; o[1] = TOP >> 30; o[2] = (n << 1) & ~TOP;", before)[:3] == [
        1 << 28, -2, 10,
    ]  # fmt: skip


def test_references_that_branches_return_are_choices(execute):
    before = """template <class T> __device__ T const& larger(const T& a, const T& b) {
        if (a < b) return b; else return a; }
    __device__ int& first(int* p, int n) { if (n > 3) return p[1]; return p[2]; }
    __device__ int& next(int* p, int& n) { if (++n > 3) return p[3]; return p[4]; }
    """
    body = "o[0] = larger(n, 3) + larger(2, 9); first(o, n) = 7; first(o, 1) += 4; int m = 2; next(o, m) = m; o[5] = m;"
    assert ints(execute, body, before)[:6] == [14, 7, 4, 0, 2, 3]


def test_qualifiers_stand_behind_the_star_of_a_type_too(execute):
    before = """template <class T> T const& __device__ __host__ larger(const T& a, const T& b) { return a < b ? b : a; }
    int* __device__ at(int* p, int i) { return p + i; }
    """
    assert ints(execute, "*at(o, 1) = larger(n, 3); *at(o, 2) = larger(n, 9);", before)[:3] == [0, 5, 9]


def test_conditions_that_declare(execute):
    before = "__device__ int x_of(int n) { return n - 2; }\n"
    body = """if (int x = n * 2; x > 4) o[0] = x; else o[0] = -x; if (auto y = x_of(n)) o[1] = y;
        switch (int y = n & 3; y) { case 1: o[2] = y + 10; break; default: o[2] = 7; }
        while (int z = n--) { if (z == 3) continue; o[3] += z; if (z < 2) break; } o[4] = n;"""
    assert ints(execute, body, before)[:5] == [10, 3, 11, 12, 0]


def test_using_brings_names_into_a_namespace(execute):
    before = """namespace { constexpr int W = 4; __device__ int times(int x) { return x * W; } }
    namespace a { namespace b { __device__ int h(int x) { return times(x); } struct S { int q; }; }
    using b::S; using b::h; }
    """
    assert ints(execute, "a::S s{3}; o[0] = a::h(s.q);", before)[0] == 12


def test_lists_are_followed_through_memory(cu, round_trip, refuses):
    text = """struct Node { int v; int pad; Node* next; };
    __global__ void k(Node* head, int* o, Node** roots) { int s = 0;
        for (Node* n = head; n != nullptr; n = n->next) s += n->v;
        Node* p = roots[threadIdx.x]; while (p) { s += p->v; p = p->next; }
        Node* q; if (s) q = head; else q = head->next;
        o[0] = s + q->v; }"""
    k = round_trip(text)
    assert [p.sym.name for p in k.params] == ["head", "o", "roots"]
    local = """struct Node { int v; int pad; Node* next; };
    __global__ void k(Node* h, int* o) { Node a[2]; Node* n = h; n = n->next; n = a; o[0] = n->v; }"""
    refuses(local, "E-UNSUPPORTED-POINTER")


def test_atomics_on_memory_of_another_type(round_trip):
    text = """__global__ void k(float* f) { unsigned* flag = (unsigned*)(f + 2); atomicAdd(flag, 1u);
        atomicMax((int*)&f[3], 9); atomicAdd(f, 1.0f); }"""
    assert [type(s).__name__ for s in round_trip(text).body if type(s).__name__ == "Atomic"] == ["Atomic"] * 3


def test_array_members_are_initialised_by_constructors(execute):
    before = """struct V { int d[3]; int n; __device__ V(int a, int b) : d{a, b, a + b}, n(3) {} };
    """
    assert ints(execute, "V v(4, n); o[0] = v.d[0] + 10 * v.d[1] + 100 * v.d[2] + v.n;", before)[0] == 4 + 50 + 900 + 3


def test_pointers_to_functions_that_are_known(execute, refuses):
    before = """typedef int (*Op)(int, int); __device__ int add(int a, int b) { return a + b; }
    __device__ int mul(int a, int b) { return a * b; } __device__ int both(Op f, int x) { return f(x, x); }
    template <int (*F)(int, int)> __device__ int fixed(int x) { return F(x, 2); }
    """
    body = """o[0] = both(add, 3) + both(&mul, 4) + fixed<add>(5); int (*g)(int, int) = mul; const Op h = add;
        o[1] = g(2, 3) + (*h)(3, 4);"""
    assert ints(execute, body, before)[:2] == [29, 13]
    changing = before + "__global__ void k(int* o, int n) { Op f = add; if (n) f = mul; o[0] = f(1, 2); }"
    refuses(changing, "E-UNSUPPORTED-POINTER")


def test_what_a_function_without_result_only_reads_is_no_copy() -> None:
    k = load(
        "__device__ void put(float* o, int n, float e) { int i = threadIdx.x; if (i < n) o[i] = e * n + e; }\n"
        "__device__ void bump(float* o, int n, int& m) { m += 1; o[m] = n; }\n"
        "__global__ void k(float* o, int n, float e, int m) { put(o, n, e); bump(o, m, m); }\n",
        name="k.cu",
    )
    copies = [s.sym.name for s in walk(k.body) if isinstance(s, Decl) and isinstance(s.init, Var)]
    assert copies == ["m", "n"]  # the kernel's own m, which bump changes, and what bump's n is made from it


def test_dot_products_of_four_bytes_take_vectors_and_words(execute) -> None:
    text = """__global__ void k(const char4* a, const uchar4* u, int* o, unsigned* w) {
      o[0] = __dp4a(a[0], a[1], o[0]);
      w[0] = __dp4a(u[0], u[1], 5u) + __dp4a(*(unsigned*)&u[0], *(unsigned*)&u[1], 0u);
    }"""
    args = {
        "a": np.int8([1, -2, 3, -4, 5, 6, -7, -128]), "u": np.uint8([1, 2, 3, 4, 255, 6, 7, 200]),
        "o": np.int32([10]), "w": np.uint32([0]),
    }  # fmt: skip
    got = execute(text, args)
    assert got["o"].tolist() == [10 + 5 - 12 - 21 + 512] and got["w"].tolist() == [5 + 2 * (255 + 12 + 21 + 800)]


def test_a_variable_that_only_loops_use_is_theirs_where_their_bodies_change_it_too(execute):
    body = """int at, sum = 0;
        for (int r = 0; r < 2; ++r) { for (at = 0; at < n; at++) { if (sum == 3) at++; sum += at; } }
        for (at = 9; at > n; ) at -= 2; o[0] = sum; int i; for (i = 0; i < 3; ++i) o[1] += i;"""
    assert ints(execute, body)[:2] == [2 * 10 - 3, 3]
