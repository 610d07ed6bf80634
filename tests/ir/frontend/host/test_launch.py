"""Launch geometry from host code."""

from __future__ import annotations

import pytest

from ktc.ir.fold import evaluate
from ktc.ir.frontend import list_kernels, load
from ktc.ir.text import print_expr
from ktc.ir.verifier import check
from ktc.ir.walk import used

KERNEL = "__global__ void k(float* p, int n, int m) { p[threadIdx.x] = n + m; }\n"


def dims(host: str, env: dict[str, int], prelude: str = "") -> tuple:
    k = load(prelude + KERNEL + host, name="k.cu")
    assert k.launch is not None
    shared = k.launch.dynamic_shared
    values = [evaluate(e, env) for e in (*k.launch.grid, *k.launch.block)]
    return (*values, None if shared is None else evaluate(shared, env))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("k<<<n, 128>>>(p, n, m);", (100, 1, 1, 128, 1, 1, None)),
        ("k << <n, 128 >> > (p, n, m);", (100, 1, 1, 128, 1, 1, None)),
        ("int t = 256; int b = (n + t - 1) / t; k<<<b, t, 0, 0>>>(p, n, m);", (1, 1, 1, 256, 1, 1, None)),
        ("dim3 block(16, 8); dim3 grid((n + block.x - 1) / block.x, m); k<<<grid, block>>>(p, n, m);", (7, 7, 1, 16,
        8, 1, None)),
        ("dim3 g = dim3(n, m, 2); k<<<g, dim3(std::min(n, 1024))>>>(p, n, m);", (100, 7, 2, 100, 1, 1, None)),
        ("uint3 t = {8, 4, 1}; k<<<n, t>>>(p, n, m);", (100, 1, 1, 8, 4, 1, None)),
        ("k<<<n, make_uint3(8, m, 2)>>>(p, n, m);", (100, 1, 1, 8, 7, 2, None)),
        ("16<<<n, 8>>>(p, n, m); k<<<n, 128>>>(p, n, m);", (100, 1, 1, 128, 1, 1, None)),
        ("dim3 g; g.x = n; g.y = 3; k<<<g, 32>>>(p, n, m);", (100, 3, 1, 32, 1, 1, None)),
        ("size_t sh = 2 * n * sizeof(float); k<<<1, n, sh>>>(p, n, m);", (1, 1, 1, 100, 1, 1, 800)),
        ("k<<<ceil_div(n, 32), TILE * 2>>>(p, n, m);", (4, 1, 1, 32, 1, 1, None)),
        ("const int big = n > 50 ? 512 : 64; k<<<1, big>>>(p, n, m);", (1, 1, 1, 512, 1, 1, None)),
        ("const long most = properties()->maxGridSize[1]; k<<<dim3(1, std::min<long>(n, most)), 128>>>(p, n, m);",
        (1, 100, 1, 128, 1, 1, None)),
        ("cudaDeviceProp d; k<<<std::min(n, d.maxGridSize[0]), d.maxThreadsPerBlock>>>(p, n, m);",
        (100, 1, 1, 1024, 1, 1, None)),
    ],
)  # fmt: skip
def test_expressions(body, expected):
    prelude = "#define TILE 16\ntemplate <typename T> constexpr T ceil_div(T a, T b) { return (a + b - 1) / b; }\n"
    assert dims(f"void f(float* p, int n, int m) {{ {body} }}", {"n": 100, "m": 7}, prelude) == expected


DOUBLING = [
    ("int t = 32; while (t < n && t < 512) t *= 2;", [32, 32, 128, 512], [1, 32, 100, 5000]),
    ("int t = 1; while (t < 64 && t < n / 2) t *= 2;", [1, 2, 64, 64], [1, 5, 90, 5000]),
    ("int t; for (t = 1024; t > 32 && t >= 2 * n; t >>= 1);", [32, 64, 256, 1024], [1, 60, 200, 5000]),
    ("int t = 512; do { t /= 2; } while (t > n && t > 64);", [64, 128, 256, 256], [1, 130, 256, 5000]),
    ("int t = 1; if (n > 8) { while (2 * t <= n && t < 256) t *= 2; }", [1, 64, 256, 256], [8, 100, 300, 5000]),
    ("int t = 1, r = 256; while (r > 8 && t < n) { t *= 2; r /= 2; } t *= r / 8;", [32, 32, 32, 32], [1, 5, 30, 5000]),
]


@pytest.mark.parametrize(("host", "threads", "sizes"), DOUBLING)
@pytest.mark.parametrize("called", [False, True])
def test_threads_that_a_loop_doubles(host: str, threads: list[int], sizes: list[int], called: bool) -> None:
    way = f"int threads(int n) {{ {host} return t; }}\n" if called else ""
    before = "int t = threads(n);" if called else host
    source = f"{KERNEL}{way}void f(float* p, int n, int m) {{ {before} k<<<n, t>>>(p, n, m); }}"
    assert [dims(source[len(KERNEL) :], {"n": n})[3] for n in sizes] == threads


@pytest.mark.parametrize(
    "host",
    [
        "int t = 1; while (t < n) t *= 2;",
        "int t = m; while (t < 64) t *= 2;",
        "int t = 1; while (t < 64 && m < n) { t *= 2; m++; }",
        "int t = 1; while (t < 64 && t < n) { t *= 2; note(t); }",
    ],
)
def test_threads_that_no_constant_bounds_are_a_number_of_the_host(host: str) -> None:
    source = KERNEL + f"void note(int); void f(float* p, int n, int m) {{ {host} k<<<n, t>>>(p, n, m); }}"
    k = load(source, name="k.cu")
    assert k.launch is not None and print_expr(k.launch.block[0]) == "t"


def test_host_names_map_to_kernel_parameters_by_position():
    k = load(
        KERNEL + "void f(float* q, int rows, int cols, int batch) { k<<<batch, cols>>>(q, rows, cols); }", name="k.cu"
    )
    assert evaluate(k.launch.block[0], {"m": 9}) == 9  # cols is the kernel's m
    (host,) = [p for p in k.params if p.host]
    assert host.sym.name == "batch" and evaluate(k.launch.grid[0], {"batch": 3}) == 3


def test_blocks_that_a_function_of_another_file_makes_are_host_parameters():
    k = load(
        "int rows_of(int); dim3 blocks_for(int, int);\n" + KERNEL + "void f(float* p, int n, int m) {"
        " k<<<dim3(rows_of(n), m), 64>>>(p, n, m); } void g(float* p, int n, int m) {"
        " k<<<blocks_for(n, 2 * m), 64>>>(p, n, m); }",
        name="k.cu",
    )  # fmt: skip
    assert [p.sym.name for p in k.params if p.host] == ["rows_of_n"]
    asks = KERNEL.replace("threadIdx.x", "threadIdx.x + blockIdx.y * blockIdx.z")
    k = load("dim3 blocks_for(int, int);\n" + asks + "void g(float* p, int n, int m) {"
             " dim3 grid = blocks_for(n, 2 * m); k<<<grid, 64>>>(p, n, m); }", name="k.cu")  # fmt: skip
    assert [p.sym.name for p in k.params if p.host] == [f"blocks_for_n_times_2_m_{a}" for a in "xyz"]
    assert k.launch is not None and evaluate(k.launch.grid[1], {"blocks_for_n_times_2_m_y": 3}) == 3


def test_threads_of_a_block_that_cannot_be_followed_are_not_guessed():
    k = load(
        "int many(int);\n" + KERNEL + "void f(float* p, int n, int m) { k<<<n, many(m)>>>(p, n, m); }", name="k.cu"
    )
    assert k.launch is None


@pytest.mark.parametrize(
    "change", ["for (g.x = 1; g.x < n; g.x *= 2);", "while (g.x < n) g.x += 7;", "do { ++g.x; } while (g.x % 3);"]
)
def test_what_a_loop_changes_of_a_grid_is_not_known_and_the_rest_of_it_is(change: str) -> None:
    """All of a grid that is not known would be a number of blocks along x, and whatever was along y nowhere."""
    k = load(
        KERNEL + f"void f(float* p, int n, int m) {{ dim3 g; g.y = m; {change} k<<<g, 32>>>(p, n, m); }}", name="k.cu"
    )
    assert k.launch is not None
    assert [print_expr(e) for e in k.launch.grid] == ["g_x", "m", "1"]
    assert [p.sym.name for p in k.params if p.host] == ["g_x"]


def test_a_function_that_is_given_a_grid_may_change_all_of_it() -> None:
    code = "void shape(dim3& g); void f(float* p, int n, int m) { dim3 g; g.y = m; shape(g); k<<<g, 32>>>(p, n, m); }"
    k = load(KERNEL + code, name="k.cu")
    assert k.launch is not None and "m" not in [print_expr(e) for e in k.launch.grid]


def test_what_a_branch_changes_is_followed_into_a_dispatch():
    k = load(
        KERNEL
        + """void f(torch::Tensor& x, int m) {
            const at::cuda::OptionalCUDAGuard guard(device_of(x));
            int n = x.numel() / m; int threads = 64;
            if (n > 1000) threads = 128;
            VLLM_DISPATCH(x.scalar_type(), "k", [&] { k<<<n, threads>>>(x.data_ptr<float>(), n, m); }); }""",
        name="k.cu",
    )
    assert not [p for p in k.params if p.host]  # n is the kernel's own parameter
    assert [evaluate(k.launch.block[0], {"n": n}) for n in (12, 1001)] == [64, 128]
    assert evaluate(k.launch.grid[0], {"n": 12}) == 12


TRUTHS = """void f(float* p, int n, int m) {{
  const bool small = n <= 128, wide = m > 4;
  int threads = small ? 32 : 256;
  {code}
}}"""


@pytest.mark.parametrize(
    ("code", "launched"),
    [
        ("if (small) k<<<n, threads>>>(p, n, m);", "32"),
        ("if (!small) k<<<n, threads>>>(p, n, m);", "256"),
        ("if (small) { } else k<<<n, threads>>>(p, n, m);", "256"),
        ("if (wide && !small) k<<<n, threads>>>(p, n, m);", "256"),
        ("if (small || wide) { } else { k<<<n, threads>>>(p, n, m); }", "256"),
        ("if (small) return; k<<<n, threads>>>(p, n, m);", "256"),
        ("if (small) { threads = 8; return; } k<<<n, threads>>>(p, n, m);", "256"),
        ("if (!small) { if (wide) return; } else k<<<n, threads>>>(p, n, m);", "32"),
    ],
)
def test_truths_that_lead_to_a_launch_are_known_there(code, launched):
    launch = load(KERNEL + TRUTHS.format(code=code), name="k.cu").launch
    assert print_expr(launch.block[0]) == launched


@pytest.mark.parametrize(
    "code",
    [
        "if (small || wide) k<<<n, threads>>>(p, n, m);",
        "if (small && wide) return; k<<<n, threads>>>(p, n, m);",
        "if (small) threads *= 1; k<<<n, threads>>>(p, n, m);",
    ],
)
def test_truths_that_need_not_hold_at_a_launch_are_not_taken_to(code):
    launch = load(KERNEL + TRUTHS.format(code=code), name="k.cu").launch
    assert [evaluate(launch.block[0], {"n": n, "m": 1}) for n in (128, 129)] == [32, 256]


def test_a_variable_is_what_a_truth_was_when_it_was_made():
    launch = load(
        KERNEL + "void f(float* p, int n, int m) { bool big = n > 9; int threads = big ? 64 : 32; big = m > 9;"
        " if (big) k<<<n, threads>>>(p, n, m); }", name="k.cu"
    ).launch  # fmt: skip
    assert [evaluate(launch.block[0], {"n": n, "m": 10}) for n in (9, 10)] == [32, 64]


def test_host_code_that_does_not_parse_is_skipped():
    k = load("int main() { std::cout << [](auto&&... x) requires true { }; @@ }\n" + KERNEL + "void f( { ", name="k.cu")
    assert k.name == "k" and k.launch is None


def test_launch_bounds():
    k = load(
        "__global__ void __launch_bounds__(256, 2) k(float* p) { *p = 0; }\nvoid f(float* p) { k<<<1, 256>>>(p); }",
        name="k.cu",
    )
    assert k.launch.max_threads.value == 256 and k.launch.min_blocks.value == 2


def test_list_kernels(tmp_path):
    path = tmp_path / "two.cu"
    path.write_text(
        "template <typename T, int N>\n__global__ void a(T* p) {}\n__global__ void b(int n) {}\n"
        "void f() { b<<<1,1>>>(2); }\n"
    )
    first, second = list_kernels(str(path))
    assert (first.name, [(t.name, t.kind) for t in first.template], first.params) == (
        "a",
        [("T", "type"), ("N", "value")],
        ("p",),
    )
    assert second.name == "b" and second.launches and second.loc.line == 3


def test_a_host_function_with_branches_is_followed(cu):
    """Its variables are replaced by their values: nothing in the launch is undefined, and 130 / 64 rounds up."""
    from ktc.ir.fold import evaluate

    text = """int up(int a, int b) { int r = a / b; if (r * b < a) r = r + 1; else { r += 0; } return r; }
    template <class T> T ceil_div(T a, T b) { return (a + b - 1) / b; }
    __global__ void k(float* x, int n) { x[0] = n; }
    void run(float* x, int n, int size) { k<<<up(n, 64), ceil_div(size, 32)>>>(x, n); }"""
    launch = cu(text).launch
    assert [evaluate(e, {"n": n, "size": 33}) for n in (128, 130) for e in (launch.grid[0], launch.block[0])] == [
        2, 2, 3, 2,
    ]  # fmt: skip


def test_loops_of_the_host_are_not_guessed(cu):
    text = """int log2up(int n) { int r = 1; while (r < n) r *= 2; return r; }
    __global__ void k(float* x, int n) { x[0] = n; }
    void run(float* x, int n) { k<<<log2up(n), 32>>>(x, n); }"""
    assert cu(text).launch is None


@pytest.mark.parametrize(
    ("body", "grid", "block", "first"),
    [
        ("for (int t = 64; t < 512; t *= 2) k<<<n, t>>>(p, n, m);", "n", "64", ["t"]),
        ("int t; for (t = n / 4; t < n; t += 5) { dim3 g(t, 2); k<<<g, 32>>>(p, n, m); }", "n / 4", "32", ["t"]),
        ("for (int a = 2; a < n; ++a) for (int b = a * 32; b < n; ++b) k<<<n, b>>>(p, n, m);", "n", "64", ["a", "b"]),
        ("for (int t = 64; t < n; t *= 2) k<<<t, 32>>>(p, n, t);", "m", "32", []),
        ("for (int i = 0; i < 9; ++i) k<<<n, 32>>>(p, n, m);", "n", "32", []),
    ],
)
def test_a_launch_in_a_loop_is_that_of_its_first_round(cu, body, grid, block, first) -> None:
    launch = cu(KERNEL + f"void go(float* p, int n, int m) {{ {body} }}").launch
    assert (print_expr(launch.grid[0]), print_expr(launch.block[0])) == (grid, block)
    assert sorted(n for n, _ in launch.first) == first


@pytest.mark.parametrize(
    "body",
    [
        "for (int t = 64; t < n; ) { t *= 2; k<<<n, t>>>(p, n, m); }",
        "for (int t = n; t < m; ++t) { int n = 5; k<<<n, t>>>(p, n, m); }",
    ],
)
def test_what_a_loop_s_body_changes_is_not_what_it_starts_from(cu, body) -> None:
    launch = cu(KERNEL + f"void go(float* p, int n, int m) {{ {body} }}").launch
    assert launch is None or (not launch.first and print_expr(launch.block[0]) == "t")


@pytest.mark.parametrize(
    ("body", "grid"),
    [
        ("size_t g[2]; g[0] = (n + 31) / 32; g[1] = 3; k<<<dim3(g[0], g[1]), 32>>>(p, n, m);", "(n + 31) / 32"),
        ("int g[2] = {n, m}; g[0] /= 4; k<<<g[0], 32>>>(p, n, m);", "n / 4"),
        ("int g[1]; g[0] = n; if (m > 9) g[0] = m; k<<<g[0], 32>>>(p, n, m);", "m > 9 ? m : n"),
        ("dim3 g[2]; g[1] = dim3(n, 2); k<<<g[1], 32>>>(p, n, m);", "n"),
        ("int g[1] = {4}; choose(g); k<<<g[0], 32>>>(p, n, m);", None),
        ("int g[1] = {4}; int* at = g; at[0] = 5; k<<<g[0], 32>>>(p, n, m);", None),
        ("int g[2] = {4, 5}; for (int i = 0; i < 2; ++i) { k<<<g[0], 32>>>(p, n, m); g[i] = 6; }", None),
        ("int g[2]; g[m] = n; k<<<g[0], 32>>>(p, n, m);", None),
    ],
)
def test_elements_of_arrays_are_followed(cu, body, grid) -> None:
    launch = cu("void choose(int* g);\n" + KERNEL + f"void go(float* p, int n, int m) {{ {body} }}").launch
    assert (launch and print_expr(launch.grid[0])) == grid


def test_what_a_condition_chose_before_is_known_where_it_holds(cu) -> None:
    """... or does not, and what it asks of has not changed."""
    choice = "int b = 8, g = 1; if (!fast) { b = 64; g = n / b; } else g = ask(n);"
    texts = {
        "if (!fast) { %s }": ("n / 64", "64"),
        "if (fast) return; %s": ("n / 64", "64"),
        "if (fast) { b = 16; } if (!fast) { g = m; %s }": ("m", "64"),
        "fast = n > 3; if (!fast) { %s }": ("g", "b"),
    }
    for text, (grid, block) in texts.items():
        body = f"{choice} {text % 'k<<<g, b>>>(p, n, m);'}"
        launch = cu(KERNEL + f"void go(float* p, int n, int m, bool fast) {{ {body} }}").launch
        assert (print_expr(launch.grid[0]), print_expr(launch.block[0])) == (grid, block)


@pytest.mark.parametrize(
    ("body", "grid", "block"),
    [
        ("if (n > 64) { b = 64; g = m / b; } else { b = 32; g = m; }", "n > 64 ? m / 64 : m", "n > 64 ? 64 : 32"),
        ("if (n > 64) { g = m / b; b = 64; }", "n > 64 ? m / 8 : 1", "n > 64 ? 64 : 8"),
        ("if (g > 64) { g = 2; b = 64; }", "1", "8"),
        ("if (n > 64) { int t = b; b = g; g = t; }", "g", "n > 64 ? 1 : 8"),
        ("if (n > 64) { b = g; g = m; }", "n > 64 ? m : 1", "n > 64 ? 1 : 8"),
        ("if (n > 64) { in >> b; g = b; } else g = b;", "g", "b"),
    ],
)
def test_what_a_branch_changes_is_what_it_was_before_in_its_condition_and_values(cu, body, grid, block) -> None:
    launch = cu(KERNEL + f"void go(float* p, int n, int m) {{ int g = 1, b = 8; {body} k<<<g, b>>>(p, n, m); }}").launch
    assert (print_expr(launch.grid[0]), print_expr(launch.block[0])) == (grid, block)


@pytest.mark.parametrize(
    "body",
    [
        "std::ifstream in(name); in >> m >> n;",
        "if (!(in >> n)) return;",
        "options(p, n);",
        "if (parse(name, &n)) return;",
    ],
)
def test_what_a_stream_or_a_reference_changes_is_not_what_it_began_as(cu, body) -> None:
    head = "void options(float* p, int& count);\nbool parse(const char* text, int* n);\n"
    text = f"void go(float* p, const char* name) {{ int n = 0, m = 1; {body} k<<<(n + 31) / 32, 32>>>(p, n, m); }}"
    launch = cu(head + KERNEL + text).launch
    assert print_expr(launch.grid[0]) == "(n + 31) / 32" and "n" not in dict(launch.given)


def test_integers_of_the_file_that_the_host_sets_are_numbers_of_the_host(cu) -> None:
    kernel = cu(
        "int blocks = 1; static float scale;\n" + KERNEL + "void go(float* p, int n) { k<<<blocks, 32>>>(p, n, n); }"
    )
    assert print_expr(kernel.launch.grid[0]) == "blocks" and [p.sym.name for p in kernel.params if p.host] == ["blocks"]
    assert (
        cu("static float scale;\n" + KERNEL + "void go(float* p, int n) { k<<<scale, 32>>>(p, n, n); }").launch is None
    )


@pytest.mark.parametrize(
    "dims, n, expected",
    [
        ("(size_t)ceil((float)n / 32.0)", 1000, 32),
        ("(unsigned)ceil((float)n / (float)block.x), 1", 1024, 4),
        ("(int)ceil(n / 256.0f)", 257, 2),
        ("(int)(((float)n / (float)128) + 0.5)", 191, 1),
        ("(int)(((float)n / (float)128) + 0.5)", 192, 2),
        ("ceil((double)n / (2.0 * 256))", 512, 1),
        ("(size_t)(ceil((float)n) / ((float)32))", 1000, 31),
        ("(int)floor(n * 2.0 / 256)", 1000, 7),
        ("n > 360 ? ceil((float)n / 32.0f) : n", 1000, 32),
        ("n > 360 ? ceil((float)n / 32.0f) : n", 300, 300),
        ("(unsigned)fminf(ceilf(n / 32.0f), 16.0f)", 1000, 16),
        ("ceil(n / 32.0f) + 1.0f", 1000, 33),
    ],
)
def test_dimensions_computed_in_floating_point(dims: str, n: int, expected: int) -> None:
    text = "__global__ void k(int *p, int n) { p[0] = n; }\n"
    text += f"void f(int *p, int n) {{ dim3 block(256); dim3 grid({dims}); k<<<grid, block>>>(p, n); }}\n"
    launch = load(text, name="k.cu").launch
    assert launch is not None and evaluate(launch.grid[0], {"n": n}) == expected


def test_a_rounded_up_quotient_of_signed_and_unsigned_numbers_is_well_formed(cu):
    k = cu("""__global__ void k(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] = 1; }
    void f(float* x, int n, unsigned b) { k<<<(int)ceil((double)n / (double)b), b>>>(x, n); }""")
    assert k.launch is not None and evaluate(k.launch.grid[0], {"n": 100, "b": 32}) == 4


TILED = """template <const int W> __global__ void t(float* p, int n) { p[threadIdx.x] = n + W; }
void go(float* p, Tensor& x, int h, int d) { dim3 block(h); %s }
"""


@pytest.mark.parametrize(
    ("host", "block"),
    [
        ("switch (h) { case 32: t<32><<<1, block>>>(p, 8); break; case 64: t<64><<<1, block>>>(p, 8); break; }", 64),
        ("switch (h) { case 32: { t<32><<<1, block>>>(p, 8); break; } case 64: t<64><<<1, block>>>(p, 8); }", 64),
        ("switch (h) { case 32: d = 1; case 64: t<64><<<1, block>>>(p, 8); break; }", 7),  # 32 or 64
        ("switch (h) { case 64: h = 16; t<64><<<1, h>>>(p, 8); break; }", 16),
        ("switch (h) { default: t<64><<<1, block>>>(p, 8); }", 7),
        ("if (h == 64) t<64><<<1, block>>>(p, 8); else t<32><<<1, block>>>(p, 8);", 64),
        ("if (d > 3 && 64 == h) { t<64><<<1, block>>>(p, 8); }", 64),
        ("if (d > 3 || 64 == h) { t<64><<<1, block>>>(p, 8); }", 7),
    ],
)
def test_the_way_to_a_launch_says_what_its_variables_are(host: str, block: int) -> None:
    k = load(TILED % host, name="k.cu", template={"W": 64})
    assert k.launch is not None and evaluate(k.launch.block[0], {"h": 7}) == block


def test_a_template_argument_of_another_integer_type_is_the_same_launch() -> None:
    host = "const unsigned W = 64; t<W><<<d, W>>>(p, 8);"
    k = load(TILED % host, name="k.cu", template={"W": 64})
    assert k.launch is not None and evaluate(k.launch.block[0], {}) == 64


def test_what_a_method_of_the_host_returns_is_the_parameter_it_is_passed_for() -> None:
    k = load(TILED % "t<64><<<dim3((x.numel() + 63) / 64, x.size(0)), 64>>>(p, x.numel());", name="k.cu")
    assert k.launch is not None and evaluate(k.launch.grid[0], {"n": 130}) == 3
    assert [p.sym.name for p in k.params if p.host] == ["x_size_0"]


def test_constants_that_a_launch_passes_are_known() -> None:
    k = load(TILED % "t<64><<<1, 64>>>(p, 8);", name="k.cu")
    assert k.launch is not None and k.launch.given == (("n", 8),)


def test_a_host_name_that_is_a_template_argument_has_the_instance_s_value() -> None:
    text = """template <int ILP, typename T> __global__ void t(T* p, int n) { p[threadIdx.x] = n + ILP; }
    void go(Tensor& x, int n) {
      const int ILP = sizeof(vector_t) / x.element_size();
      dim3 grid(n / (64 * ILP));
      DISPATCH(x.type(), "t", [&] { const int ILP = sizeof(vector_t) / sizeof(scalar_t);
        t<ILP, scalar_t><<<grid, 16 * sizeof(scalar_t)>>>(x.data_ptr<scalar_t>(), n); });
    }"""
    k = load(text, name="k.cu", template={"ILP": 4, "T": "half"})  # whatever the host would make of it
    assert k.launch is not None and [p.sym.name for p in k.params if p.host] == []
    assert evaluate(k.launch.grid[0], {"n": 1024}) == 4 and evaluate(k.launch.block[0], {}) == 32


def test_a_kernel_that_a_function_chooses() -> None:
    text = """template <int W> __global__ void t(float* p, int n) { p[threadIdx.x] = n + W; }
    typedef void (*fp_t)(float*, int);
    fp_t pick(const int w, bool b) { if (w == 2) return t<2>; if (w == 4) { return t<4>; } return NULL; }
    void go(float* p, int n, bool b) { int w = n / 7; fp_t kernel = pick(w, b); kernel<<<n, 32 * w>>>(p, n); }"""
    k = load(text, name="k.cu", template={"W": 4})
    assert k.launch is not None and evaluate(k.launch.block[0], {}) == 128
    assert evaluate(k.launch.grid[0], {"n": 5}) == 5


def test_infinity_for_an_integer_parameter_says_nothing_of_it() -> None:
    text = "__global__ void k(float *x, int n) { x[n] = 1.0f; } void go(float *x) { k<<<1, 32>>>(x, 1e400); }"
    assert not load(text).launch.given


BOXED = """struct Size { int w, h; float gain; };
__global__ void turn(float* o, Size s) { int i = blockIdx.x * 64 + threadIdx.x; if (i < s.w * s.h) o[i] = s.gain; }
"""


@pytest.mark.parametrize(
    "body",
    [
        "turn<<<(w * h + 63) / 64, 64>>>(o, Size{w, h, 2.f});",
        "turn<<<(w * h + 63) / 64, 64>>>(o, {w, h, 2.f});",
        "Size s{w, h, 2.f}; turn<<<(w * h + 63) / 64, 64>>>(o, s);",
        "Size s = {w, h, 2.f}; turn<<<(s.w * h + 63) / 64, 64>>>(o, s);",
        "Size s; s.w = w; s.h = h; s.gain = 2; turn<<<(w * s.h + 63) / 64, 64>>>(o, s);",
    ],
)
def test_members_of_a_struct_are_what_the_host_makes_it_of(body: str) -> None:
    k = load(BOXED + f"void run(float* o, int w, int h) {{ {body} }}", name="k.cu")
    assert [p.sym.name for p in k.params] == ["o", "s_w", "s_h", "s_gain"], "no variable of the host's besides"
    assert k.launch is not None and evaluate(k.launch.grid[0], {"s_w": 13, "s_h": 11}) == 3


def test_what_a_struct_is_made_of_is_passed() -> None:
    host = "void run(float* o, int n) { int m = 4 * n; turn<<<n, 64>>>(o, Size{n, m, 2.f}); }"
    k = load(BOXED + host, name="k.cu")
    assert k.launch is not None
    assert [(name, evaluate(e, {"s_w": 5})) for name, e in k.launch.passed] == [("s_h", 20)]


@pytest.mark.parametrize(
    ("launch", "expected"),
    [
        ("void run(Config* c, float* p) { k<<<c->rows, 64>>>(p, c->cols, 1); }", (5, 1, 1, 64, 1, 1, None)),
        ("void run(Config c, float* p) { k<<<(c.cols + 31) / 32, 32>>>(p, c.cols, 1); }", (4, 1, 1, 32, 1, 1, None)),
        ("void run(const Config& c, float* p) { k<<<c.rows, c.in.wide>>>(p, c.cols, 1); }", (5, 1, 1, 9, 1, 1, None)),
        ("void run(Config* c, float* p) { k<<<c->grid, 64>>>(p, c->cols, 1); }", (2, 1, 1, 64, 1, 1, None)),
    ],
)
def test_members_of_structs_are_numbers_as_their_class_says(launch: str, expected: tuple) -> None:
    """One that is passed for a parameter is that parameter; only a ``dim3`` has three extents."""
    prelude = "struct Inner { int wide; };\nstruct Config { int rows, cols; dim3 grid; Inner in; };\n"
    env = {"c_rows": 5, "n": 100, "c_in_wide": 9, "c_grid_x": 2, "c_grid_y": 3, "c_grid_z": 4}
    assert dims(launch, env, prelude) == expected


@pytest.mark.parametrize(
    ("asserted", "passed", "given"),
    [
        ("assert(m * 64 == n);", {"n": "m * 64"}, {}),
        ("assert(p != nullptr && n == m + 1);", {"n": "m + 1"}, {}),
        ('TORCH_CHECK(128 == n, "wrong size");', {}, {"n": 128}),
        ("CHECK_EQ(n / 2, m) << 1;", {"m": "n / 2"}, {}),
        ("assert(n == m); assert(m == n);", {"m": "n"}, {}),
        ("assert(n == other() || n < m);", {}, {}),
        ("if (!(m * 64 == n)) tensor_abort(__FILE__, m);", {"n": "m * 64"}, {}),
        ('if (n != 128 || p == nullptr) { puts("no"); exit(1); }', {}, {"n": 128}),
        ('if (m != n + 1) throw error("no");', {"m": "n + 1"}, {}),
        ("if (m != n + 1) warn(m);", {}, {}),
    ],
)
def test_what_a_host_function_asserts_of_sizes(asserted: str, passed: dict[str, str], given: dict[str, int]) -> None:
    k = load(f"{KERNEL}void run(float* p, int n, int m) {{ {asserted} k<<<n, 128>>>(p, n, m); }}", name="k.cu")
    assert k.launch is not None
    assert {name: print_expr(e) for name, e in k.launch.passed} == passed
    assert dict(k.launch.given) == given


@pytest.mark.parametrize(
    ("body", "reached"),
    [
        ("assert(n > m); k<<<n, 128>>>(p, n, m);", ["n > m"]),
        ("CHECK_EQ(n / 2, m); if (m > 1) k<<<n, 128>>>(p, n, m);", ["n / 2 == n / 2", "n / 2 > 1"]),
        ("if (!(n > m)) abort(); k<<<n, 128>>>(p, n, m);", ["n > m"]),
        ("if (n > 9) { assert(n < 5); } k<<<n, 128>>>(p, n, m);", []),  # not on all ways to the launch
        ("k<<<n, 128>>>(p, n, m); assert(n < 5);", []),
        ("int s = n / m; assert(s == 3); if (s < 1) s = 1; k<<<n, 128>>>(p, s, m);", ["n_host / m == 3"]),
        ('if (n % 64 != 0) { throw std::invalid_argument("n"); } k<<<n, 128>>>(p, n, m);', ["!(n % 64 != 0)"]),
        ("if (n > 9) exit(1); k<<<n, 128>>>(p, n, m);", ["!(n > 9)"]),
        ("TM_CHECK_GE(n, m); MY_CHECK(m > 2); k<<<n, 128>>>(p, n, m);", ["n >= m", "m > 2"]),
        ("int e = n + m; CUDA_CHECK(e); k<<<n, 128>>>(p, n, m);", []),  # an error, where that is not 0
        ("switch (n / 32) { case 1: break; case 4: k<<<n, 128>>>(p, n, m); break; }", ["n / 32 == 4"]),
        ("switch (n / 32) { case 1: m = 1; case 4: k<<<n, 128>>>(p, n, m); break; }", []),  # 1 or 4
        ("switch (n / 32) { default: k<<<n, 128>>>(p, n, m); }", []),
    ],
)
def test_what_is_asserted_before_a_launch_leads_to_it(body: str, reached: list[str]) -> None:
    """Of what was computed by then: a variable may get another value before it is passed."""
    k = load(f"{KERNEL}void run(float* p, int n, int m) {{ {body} }}", name="k.cu")
    assert k.launch is not None
    assert [print_expr(e) for e in k.launch.reached] == reached


@pytest.mark.parametrize(
    ("body", "grid", "block"),
    [
        ("p[threadIdx.x] = n;", "g_x, 1, 1", "b_x, 1, 1"),
        ("p[blockIdx.y * gridDim.x + threadIdx.x] = n;", "g_x, g_y, 1", "b_x, 1, 1"),
        ("p[threadIdx.x] = blockDim.z + blockIdx.z;", "g_x, 1, g_z", "b_x, 1, b_z"),
    ],
)
def test_axes_that_only_the_host_knows_and_the_kernel_does_not_ask_for(body: str, grid: str, block: str) -> None:
    k = load(f"__global__ void k(float* p, int n) {{ {body} }}\n"
             "void run(dim3 g, dim3 b, float* p, int n) { k<<<g, b>>>(p, n); }", name="k.cu")  # fmt: skip
    assert k.launch is not None
    assert [", ".join(map(print_expr, e)) for e in (k.launch.grid, k.launch.block)] == [grid, block]
    assert {p.sym.name for p in k.params if p.host} == {n for n in f"{grid}, {block}".split(", ") if n != "1"}


ASKS = KERNEL.replace("threadIdx.x", "threadIdx.x + blockIdx.y * 64")


@pytest.mark.parametrize(
    ("body", "grid"),
    [
        ("int b = n; b *= 2; k<<<b, 64>>>(p, n, m);", "n * 2, 1"),
        ("int b = n; b = b + 1; k<<<b, 64>>>(p, n, m);", "n + 1, 1"),
        ("int a = n, b = a; a = 5; k<<<b, a>>>(p, n, m);", "n, 1"),
        ("dim3 g(n); g.x /= 4; k<<<g, 64>>>(p, n, m);", "n / 4, 1"),
        ("dim3 g = dim3(n, m); g.y += 1; k<<<g, 64>>>(p, n, m);", "n, m + 1"),
        ("dim3 g(n, 2); if (n > 64) { g.x = 7; g.y = m; } k<<<g, 64>>>(p, n, m);", "n > 64 ? 7 : n, n > 64 ? m : 2"),
        ("dim3 g; if (n > 9) g.x = n; else { g.x = 9; g.y = m; } k<<<g, 64>>>(p, n, m);",
         "n > 9 ? n : 9, n > 9 ? 1 : m"),
        ("int b = m; if (m > 3) b += 1; else if (m > 2) b = n; k<<<b, 64>>>(p, n, m);",
         "m > 3 ? m + 1 : m > 2 ? n : m, 1"),
        ("dim3 g; g.x = n, g.y = m; k<<<g, 64>>>(p, n, m);", "n, m"),
        ("dim3 g(n); if (n > 9) g.x = 9, g.y = m; k<<<g, 64>>>(p, n, m);", "n > 9 ? 9 : n, n > 9 ? m : 1"),
        ("switch (n) { case 1: int b = m; if (m > 3) b = 3; k<<<b, 64>>>(p, n, m); }", "m > 3 ? 3 : m, 1"),
        ("switch (n) { RANGE(1, 16, 4); case 17 ... 32: m = 9; }", "4, 1"),
        # what changes in a loop, or is counted on, is a number of the host
        ("int b = 3; ++b; k<<<b, 64>>>(p, n, m);", "b, 1"),
        ("int b = 1; while (b < n) b *= 2; k<<<b, 64>>>(p, n, m);", "b, 1"),
        ("int b = n; for (int i = 0; i < 3; i++) { k<<<b, 64>>>(p, n, m); b /= 2; }", "b, 1"),
        ("int b = n; if (m > 3) { while (b > m) b /= 2; } k<<<b, 64>>>(p, n, m);", "b, 1"),
    ],
)  # fmt: skip
def test_what_is_assigned_before_a_launch(body: str, grid: str) -> None:
    of_range = "#define RANGE(A, B, N) case A ... B: k<<<N, 64>>>(p, n, m); break\n"
    k = load(f"{of_range}{ASKS}void run(float* p, int n, int m) {{ {body} }}", name="k.cu")
    assert k.launch is not None and ", ".join(map(print_expr, k.launch.grid[:2])) == grid


NARROW_OR_WIDE = """
__global__ void narrow(float* p) { p[blockIdx.x] = 1.0f; }
__global__ void wide(float* p) { p[blockIdx.x] = 2.0f; }
__global__ void widest(float* p) { p[blockIdx.x] = 3.0f; }
void go(float* p, int n, int bits) {
  auto kernel = narrow;
  dim3 grid(n * bits);
  if (bits == 8) {
    kernel = wide;
  } else if (bits == 16) {
    kernel = widest;
    grid.x = n;
  }
  kernel<<<grid, 32>>>(p);
}
"""


@pytest.mark.parametrize(("kernel", "blocks"), [("narrow", 5 * 4), ("wide", 5 * 8), ("widest", 5)])
def test_a_kernel_that_a_branch_chooses(kernel: str, blocks: int) -> None:
    """Each that the variable may hold is launched there, with the numbers of the way that leads to it."""
    k = load(NARROW_OR_WIDE, kernel=kernel, name="k.cu")
    assert k.launch is not None
    assert evaluate(k.launch.grid[0], {"n": 5, "bits": 4}) == blocks


HELPED = """
__global__ void part(const float* x, float* y, int first, int last, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) y[i] = i >= first && i < last ? x[i] : 0.f;
}
void helper(const float* x, float* y, int first, int last, int n) {
  part<<<(n + 255) / 256, 256>>>(x, y, first, last, n);
}
void whole(const float* x, float* y, int n) { helper(x, y, 0, n, n); }
void again(const float* x, float* y, int n) { helper(x, y, FIRST, 64, 1024); }
"""


@pytest.mark.parametrize(("first", "given"), [("0", (("first", 0),)), ("1", ()), ("n", ())])
def test_what_all_callers_of_a_host_function_pass_is_known_where_it_is_no_size(first: str, given: tuple) -> None:
    launch = load(HELPED.replace("FIRST", first), name="part.cu").launch
    assert launch is not None
    assert launch.given == given


@pytest.mark.parametrize("way", ["count(x, n, &m);", "auto y = count(x, n, &m);", "int y; y = count(x, n, &m);"])
def test_a_variable_that_a_call_is_given_the_address_of_is_not_what_it_began_as(cu, way):
    launch = cu(f"""int count(const int* x, int n, int* total);
    __global__ void k(const int* x, float* o, int m) {{ if (threadIdx.x < m) o[threadIdx.x] = x[threadIdx.x]; }}
    void go(const int* x, float* o, int n) {{ int m = 0; {way} k<<<(m + 255) / 256, 256>>>(x, o, m); }}""").launch
    assert print_expr(launch.grid[0]) == "(m + 255) / 256" and not launch.given


def test_a_method_of_a_base_class_by_its_name_is_no_number_of_elements(cu) -> None:
    text = "void go(float* p, Tensor& t, int m) { int n = t.Base::numel(); k<<<(n + 31) / 32, 32>>>(p, n, m); }"
    assert print_expr(cu(KERNEL + text).launch.grid[0]) == "(n + 31) / 32"


ROUNDS = """
__global__ void step(float* a, int n, int t) { a[n * t + threadIdx.x] = t; }
int order;
void go(float* a) {
  float* held;
  cudaMalloc((void**)&held, order * order * sizeof(float));
  HEAD step<<<(order + 31) / 32, 32>>>(held, order, t);
}
"""


@pytest.mark.parametrize(
    ("head", "rounds"),
    [
        ("for (int t = 0; t < order - 1; t++)", ["0", "n - 1", "1"]),
        ("for (int t = 1; t <= order; t += 4)", ["1", "n + 1", "4"]),
        ("for (int t = order - 1; t >= 0; --t)", ["0", "n - 1 + 1", "1"]),
        ("for (int t = 0; order > t; t = t + 2)", ["0", "n", "2"]),
        ("for (int t = 1; t < order; t *= 2)", []),
        ("for (int t = 0; t < order; t++, order--)", []),
        ("int t = 3;", []),
    ],
)
def test_the_values_of_a_counter_around_a_launch(head: str, rounds: list[str]) -> None:
    launch = load(ROUNDS.replace("HEAD", head), name="k.cu").launch
    assert launch is not None
    assert [print_expr(e) for _, *values in launch.rounds for e in values] == rounds


def test_a_variable_of_the_file_that_is_passed_is_the_parameter_wherever_others_are_made_of_it() -> None:
    blocks = "int blocks; blocks = order / 8 + (!(order % 8) ? 0 : 1); int t = 0;"
    k = load(ROUNDS.replace("HEAD", blocks).replace("(order + 31) / 32", "blocks"), name="k.cu")
    assert k.launch is not None and not any(p.host for p in k.params)
    assert [evaluate(k.launch.grid[0], {"n": n}) for n in (16, 17)] == [2, 3]


def test_bytes_that_the_host_allocates_for_what_it_passes() -> None:
    launch = load(ROUNDS.replace("HEAD", "int t = 0;"), name="k.cu").launch
    assert launch is not None and [(b, evaluate(e, {"n": 10})) for b, e in launch.allocated] == [("a", 400)]
    twice = ROUNDS.replace("HEAD", "int t = 0; if (t) cudaMalloc((void**)&held, 64);")
    launch = load(twice, name="k.cu").launch
    assert launch is not None and launch.allocated == ()


def test_an_extent_that_a_loop_s_body_assigns_is_what_it_assigned() -> None:
    host = """void f(float* p, int n, int m) {
      dim3 grid, block(16, 2);
      for (int i = 1; i < n; i++) { grid.x = i; k<<<grid, block>>>(p, n, i); }
    }"""
    assert dims(host, {"n": 100, "m": 7}) == (7, 1, 1, 16, 2, 1, None)


def test_conditions_that_lead_to_a_launch_are_in_integers() -> None:
    host = """void f(float* p, int n, int m) {
      int blocks = (int)ceil((float)n / (2.0f * 64));
      if (blocks > 1) k<<<blocks, 64>>>(p, n, m);
    }"""
    launch = load(KERNEL + host, name="k.cu").launch
    assert launch is not None
    assert [evaluate(e, {"n": n}) for e in launch.reached for n in (128, 129)] == [0, 1]


ROWS = """
__global__ void k(float* p, int n, int rows) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i < n) p[blockIdx.y * n + i] = 0.f;
}
"""


@pytest.mark.parametrize(
    ("layer", "grid"),
    [
        ("struct Layer { int n, rows; void run(float* p) { LAUNCH } };", ["(n + 63) / 64", "rows"]),
        ("struct Layer { int n, rows; void run(float* p); }; void Layer::run(float* p) { LAUNCH }",
         ["(n + 63) / 64", "rows"]),
        ("class Layer { int n; long rows = 0; static const int own = 5; void run(float* p) { LAUNCH } };",
         ["(n + 63) / 64", "rows"]),
        ("template <typename T> class Layer { const int n, rows; void run(T* p); };"
         "template <typename T> void Layer<T>::run(T* p) { LAUNCH }", ["(n + 63) / 64", "rows"]),
    ],
)  # fmt: skip
def test_numbers_of_the_object_whose_method_launches(layer: str, grid: list[str]) -> None:
    launch = "dim3 grid((n + 63) / 64, rows); k<<<grid, 64>>>(p, n, rows);"
    k = load(ROWS + layer.replace("LAUNCH", launch), name="k.cu")
    assert k.launch is not None
    assert [print_expr(e) for e in k.launch.grid] == [*grid, "1"]


def test_numbers_of_the_object_that_the_kernel_does_not_get() -> None:
    run = "void run(float* p) { k<<<dim3(n / 64, batch * length), 64>>>(p, n, 1); }"
    k = load(f"{ROWS}struct Layer {{ int n, batch, length; {run} }};", name="k.cu")
    assert k.launch is not None
    assert [print_expr(e) for e in k.launch.grid] == ["n / 64", "batch * length", "1"]
    assert [p.sym.name for p in k.params if p.host] == ["batch", "length"]


def test_the_axes_of_a_grid_that_a_function_changes_are_numbers_of_their_own() -> None:
    prelude = "static void fit(dim3& grid, int n) { while (n > 1) { grid.y *= 2; n /= 3; } }\n"
    host = "void f(float* p, int n, int m) { dim3 g(1, 1, 1); fit(g, n); k<<<g, 64>>>(p, n, m); }"
    kernel = "__global__ void k(float* p, int n, int m) { p[blockIdx.y * m + blockIdx.x] = n; }\n"
    k = load(prelude + kernel + host, name="k.cu")
    assert k.launch is not None
    assert [print_expr(e) for e in k.launch.grid] == ["g_x", "g_y", "1"]


@pytest.mark.parametrize(("divisor", "product"), [("m", "m * n"), ("(b * m)", "b * m * n")])
def test_a_quotient_of_a_number_of_elements_is_a_factor_of_it(divisor: str, product: str) -> None:
    k = load(
        f"""__global__ void k(float* p, int n, int m, int all) {{ if (threadIdx.x < all) p[threadIdx.x] = n + m; }}
        void f(torch::Tensor x, int m) {{
          int b = 1;
          for (int i = 0; i < 3; i++) b *= x.size(i);
          int n = x.numel() / {divisor};
          k<<<(x.numel() + 63) / 64, 64>>>(x.data_ptr<float>(), n, m, x.numel());
        }}""",
        name="k.cu",
    )
    assert {n: print_expr(e) for n, e in k.launch.passed} == {"all": product}


@pytest.mark.parametrize("function", ["::cuda::ceil_div<int64_t>", "cuda::ceil_div", "at::ceil_div<int64_t>"])
def test_quotients_that_libraries_round_up_are_followed(function: str) -> None:
    k = load(
        f"""__global__ void k(float* p, int n) {{ if (threadIdx.x < n) p[threadIdx.x] = n; }}
        void f(float* p, int n) {{ const int blocks = {function}(n, 64); k<<<blocks, 64>>>(p, n); }}""",
        name="k.cu",
    )
    assert not [p for p in k.params if p.host]
    assert [evaluate(k.launch.grid[0], {"n": n}) for n in (1, 64, 65)] == [1, 1, 2]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("Graph there = here; cudaMalloc(&there.ends, 4 * here.nodes);", True),
        ("Graph there = here; there.nodes = 7;", False),
        ("Graph there = here; shrink(&there);", False),
    ],
    ids=["a member's address", "assigned", "an address"],
)
def test_a_copy_has_the_members_of_what_it_was_copied_from(body: str, told: bool) -> None:
    kernel = load(
        f"""
    struct Graph {{ int nodes; int* ends; }};
    void shrink(Graph* g);
    __global__ void walk(const Graph g, float* x, int upper) {{
      int i = blockIdx.x * 64 + threadIdx.x;
      if (i < g.nodes) x[i * upper + g.ends[i]] = 1;
    }}
    void go(const Graph here, float* x) {{
      {body}
      const int upper = (here.nodes + 63) / 64 * 64;
      walk<<<(here.nodes + 63) / 64, 64>>>(there, x, upper);
    }}""",
        name="k.cu",
    )
    assert kernel.launch is not None
    names = {s.name for s in used(kernel.launch.grid[0])}
    assert (names == {"g_nodes"}) == told


def test_a_number_that_was_rounded_in_floating_point_is_of_the_type_of_what_it_is_in() -> None:
    kernel = load(
        """
    __global__ void k(float* x, int off) { x[blockIdx.x * 32 + threadIdx.x + off] = 1; }
    void go(float* x) {
      const int tiles = 510, step = 32;
      size_t all = (size_t)ceil((float)tiles / (float)step) * step;
      size_t before = 0 * (size_t)ceil((float)tiles / (float)step) / 100 * step;
      k<<<(all - before) / step, step>>>(x, before);
    }""",
        name="k.cu",
    )
    check(kernel)
    assert kernel.launch is not None and evaluate(kernel.launch.grid[0], {"off": 0}) == 16


def test_what_comes_to_nothing_is_given() -> None:
    kernel = load(
        """
    __global__ void k(float* x, int off, int n) { if (threadIdx.x < n) x[threadIdx.x + off] = 1; }
    void go(float* x) { const int part = 0, n = 4 * 16; int off = part * 128 / 100; k<<<1, 64>>>(x, off, n); }""",
        name="k.cu",
    )
    assert kernel.launch is not None and dict(kernel.launch.given) == {"off": 0}


def test_a_method_is_no_variable_of_its_name() -> None:
    """``threads`` was put in the place of the method that is called to give it another value."""
    source = """
struct Device { int blocks(int n); int threads(); };
__global__ void fill(int* a, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) a[i] = 2; }
__global__ void clear(int* a, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) a[i] = 0; }
void go(int* a, Device* d, int m, int most) {
  int threads = most < 512 ? most : 512, blocks = 8;
  if (m % 2 == 0) { fill<<<blocks, threads>>>(a, m); return; }
  blocks = d->blocks(m);
  threads = d->threads();
  clear<<<blocks, threads>>>(a, m);
}
"""
    launch = load(source, kernel="clear", name="k.cu").launch
    assert launch is not None
    assert [print_expr(e) for e in (launch.grid[0], launch.block[0])] == ["blocks", "threads"]


def test_a_kernel_that_a_function_chooses_is_found_among_others() -> None:
    many = "".join(
        f"__global__ void k{i}(float* p) {{ p[0] = {i}; }} void run{i}(float* p, int n) {{ k{i}<<<n, 64>>>(p); }}\n"
        for i in range(4)
    )
    host = """using Step = void (*)(float*);
    template <bool WIDE> __global__ void k(float* p) { p[blockIdx.x] = WIDE; }
    static Step chosen(int n) { if (n == 2) return k<true>; return k<false>; }
    void run(float* p, int n) { Step step = chosen(n); step<<<n, 32>>>(p); }
    """
    k = load(many + host, name="k.cu", kernel="k", template={"WIDE": "true"})
    assert k.launch is not None and print_expr(k.launch.grid[0]) == "2"  # what chooses it says so


def test_a_launch_without_blocks_is_none() -> None:
    """A program that forgets to round up runs nothing at its one size: that is no launch to keep to."""
    source = """
__global__ void add(const float* a, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i];
}
int main() {
  const int n = 10;
  float *a, *c;
  int block = 256, grid = ceil(n / block);
  add<<<grid, block>>>(a, c, n);
}
"""
    assert load(source, name="k.cu").launch is None
    rounded = load(source.replace("ceil(n / block)", "ceil(n / (float)block)"), name="k.cu").launch
    assert rounded is not None and print_expr(rounded.grid[0]) == "1"
