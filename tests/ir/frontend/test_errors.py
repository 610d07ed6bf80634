"""Everything that is not understood is refused, with its place and what to do; nothing is dropped silently."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from ktc.ir.frontend.entry_points import why_no_instance


def body(code: str, prelude: str = "", params: str = "float* p, int n") -> str:
    return f"{prelude}\n__global__ void k({params}) {{\n  {code}\n}}"


@pytest.mark.parametrize(
    ("text", "code", "hint"),
    [
        (body("p[0] = BLOCK_SIZE;"), "E-SEMA-NAME", "-D BLOCK_SIZE"),
        (body("real_t x = 0;"), "E-SEMA-TYPE", "-D real_t"),
        (body("p[0] = frobnicate(n);"), "E-SEMA-CALL", "header"),
        (body("p[0] = n"), "E-PARSE-SYNTAX", ""),
        (body("p[0] = (n;"), "E-PARSE-SYNTAX", ""),
        (body("goto in; { in: ; }"), "E-UNSUPPORTED-GOTO", "loop"),
        (body('float2 v; printf("%f", v);'), "E-UNSUPPORTED-PRINTF", "numbers"),
        (body("p[0] = f(n);", "__device__ int f(int x) { return x ? f(x - 1) : 0; }"), "E-UNSUPPORTED-RECURSION",
        "loop"),
        (body("p[0] = g;", "float g;"), "E-SEMA-CONSTANT", "__device__"),
        (body("p[0] = g[n];", "extern __constant__ float g[];"), "E-UNSUPPORTED-GLOBAL", "size"),
        (body("p[0] = s[n].a;", "struct S { char a; int b; }; __constant__ S s[2] = {{1}};"), "E-UNSUPPORTED-GLOBAL",
        "host"),
        (body("p[0] = s->b;", "struct __attribute__((packed)) S { char a; int b; };", params="int* p, S* s, int n"),
        "E-UNSUPPORTED-STRUCT", "align"),
        (body("p[0] = *v;", params="int* p, const void* v, int n"), "E-SEMA-POINTER", ""),
        (body("p[1.5f] = 0;"), "E-SEMA-SUBSCRIPT", ""),
        (body("const int c = 1; c = 2;"), "E-SEMA-ASSIGN", ""),
        (body("p[0] = h + 1.0f * n % 2;", params="float* p, __half h, int n"), "E-SEMA-OPERATOR", ""),
        (body("static_assert(sizeof(int) == 8, \"no\");"), "E-SEMA-STATIC-ASSERT", ""),
        (body("int a[n];"), "E-SEMA-CONSTANT", "-D"),
        (body("p = new float[3];"), "E-UNSUPPORTED-SYNTAX", ""),
        (body("p[0] = f(p);", "__device__ decltype(auto) f(float* x) { return *x; }"), "E-UNSUPPORTED-SYNTAX",
        "auto&&"),
        (body("at::PhiloxCudaState s;"), "E-SEMA-TYPE", "seed"),
        ("int main() { return 0; }\n", "E-KERNEL-NONE", "kernel"),
        ("__global__ void a() {}\n__global__ void b() {}\n", "E-KERNEL-SEVERAL", "--kernel a"),
        ("#error no\n__global__ void a() {}\n", "E-PP-DIRECTIVE", "-D"),
    ],
)  # fmt: skip
def test_refusals(refuses, text, code, hint):
    error = refuses(text, code)
    assert hint in error.hint
    assert error.code == "E-KERNEL-NONE" or error.code == "E-KERNEL-SEVERAL" or error.loc is not None


def test_the_caret_points_at_the_name(refuses):
    error = refuses("#define ONE 1\n" + body("p[ONE] = n + MISSING;"), "E-SEMA-NAME")
    assert error.loc.file == "k.cu" and error.loc.line == 4
    shown = str(error).splitlines()
    assert shown[1].strip() == "p[ONE] = n + MISSING;" and shown[2].strip() == "^"


def test_an_unknown_name_blames_the_missing_header(refuses):
    error = refuses('#include "helpers.cuh"\n' + body("p[0] = helper(n);"), "E-SEMA-CALL")
    assert "helpers.cuh" in error.message


def test_a_header_beside_the_source_s_folder_is_not_said_to_be_missing(tmp_path):
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "bound.h").write_text("#define BOUND(n) n\n")
    (tmp_path / "own").mkdir()
    source = tmp_path / "own" / "k.cu"
    source.write_text('#include "../common/bound.h"\n' + body("if (n < BOUND(3)) p[n] = 0;"))
    with pytest.raises(KtcError) as e:
        load(str(source))
    assert f"bound.h is outside the source's folder, and was not read (-I {tmp_path / 'common'} allows it)" in str(
        e.value
    )
    assert load(str(source), include_dirs=(str(tmp_path / "common"),))


def test_headers_that_are_named_from_the_project_s_root_are_found_above(tmp_path):
    """... and no instance of a template is said to be missing for that: what stops the first one is the error."""
    far = tmp_path / "src" / "project" / "kernels"
    far.mkdir(parents=True)
    (far / "sums.cuh").write_text("template <typename T> __device__ T twice(T x) { return x + x; }\n")
    source = far / "k.cu"
    source.write_text(
        '#include "src/project/kernels/sums.cuh"\n'
        "template <typename T> __global__ void k(T* p) { p[threadIdx.x] = twice(p[threadIdx.x]); }\n"
        "void run(float* p, double* q) { k<float><<<1, 32>>>(p); k<double><<<1, 32>>>(q); }\n"
    )
    why = why_no_instance(str(source))
    assert why is not None and "unknown function 'twice'" in why.message
    assert f"sums.cuh is outside the source's folder, and was not read (-I {tmp_path} allows it)" in why.message
    assert why_no_instance(str(source), include_dirs=(str(tmp_path),)) is None


def test_what_no_template_arguments_avoid_is_why_there_is_no_instance(tmp_path):
    """... where the file launches none; a parameter that is asked for more than guesses give is the user's to give."""
    source = tmp_path / "k.cu"
    kernel = "template <typename T> __global__ void k(T* p) { p[0] = %s; }\n"
    source.write_text('#include "far.h"\n' + kernel % "Limits<T>::lowest()")
    why = why_no_instance(str(source))
    assert why is not None and "unknown function 'Limits::lowest'; far.h was not found" in why.message
    source.write_text(kernel % "T::lowest()")
    assert why_no_instance(str(source)) is None
    source.write_text(kernel % "T(1)")
    assert why_no_instance(str(source)) is None


def test_defines_fill_in_macros():
    text = body("p[0] = BLOCK_SIZE; real_t x = n; p[1] = x;") + "\n"
    assert load(text, name="k.cu", defines={"BLOCK_SIZE": 16, "real_t": "float"}).name == "k"


def test_errors_in_a_device_function_are_reported_only_when_it_is_used():
    text = "__device__ int bad(int x) { return x +; }\n__global__ void k(int* p) { p[0] = 1; }\n"
    assert load(text, name="k.cu").name == "k"
    with pytest.raises(KtcError) as caught:
        load(text.replace("p[0] = 1", "p[0] = bad(1)"), name="k.cu")
    assert caught.value.code == "E-PARSE-SYNTAX" and caught.value.loc.line == 1


def test_the_wanted_kernel_did_not_parse(refuses):
    text = "__global__ void good(int* p) { *p = 1; }\n__global__ void k(int* p) { *p = ; }"
    assert refuses(text, "E-PARSE-SYNTAX", kernel="k").loc.line == 2
    assert load(text + "\n", name="k.cu").name == "good"
    refuses(text, "E-KERNEL-UNKNOWN", kernel="nope")


def test_text_that_macros_make_huge_is_refused(refuses):
    error = refuses(
        "#define A " + "x" * 300_000 + "\n" + body("p[0] = " + " + ".join(["A"] * 40) + ";"), "E-PP-EXPANSION"
    )
    assert "8 MiB after macro expansion" in error.message


def test_files(tmp_path):
    with pytest.raises(KtcError) as caught:
        load(str(tmp_path / "none.cu"))
    assert caught.value.code == "E-SOURCE-MISSING" and caught.value.exit_code == 2
    binary = tmp_path / "x.cu"
    binary.write_bytes(b"\x7fELF\0\0")
    with pytest.raises(KtcError) as caught:
        load(str(binary))
    assert caught.value.code == "E-SOURCE-BINARY"


def test_includes_come_only_from_allowed_folders(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "secret.h").write_text("#define VALUE 1\n")
    (tmp_path / "a" / "ok.h").write_text("#define VALUE 2\n__device__ int get() { return VALUE; }\n")
    kernel = "__global__ void k(int* p) { *p = get(); }\n"
    (tmp_path / "a" / "k.cu").write_text('#include "ok.h"\n' + kernel)
    assert load(str(tmp_path / "a" / "k.cu")).body[0].value.value == 2
    (tmp_path / "a" / "k.cu").write_text('#include "../secret.h"\n' + kernel.replace("get()", "VALUE"))
    with pytest.raises(KtcError) as caught:
        load(str(tmp_path / "a" / "k.cu"))
    assert caught.value.code == "E-SEMA-NAME"


@pytest.mark.parametrize(
    "text",
    [
        "__global__ void k(int* p) { *p = " + "(" * 20000 + "1" + ")" * 20000 + "; }\n",
        "__global__ void k(int* p) { *p = " + "-" * 5000 + "1; }\n",
        "__global__ void k(int* p) { " + "{" * 5000 + "}" * 5000 + " }\n",
        "#define A A1 A1 A1 A1\n#define A1 A2 A2 A2 A2\n#define A2 A3 A3 A3 A3\n"
        "#define A3 A4 A4 A4 A4\n#define A4 A5 A5 A5 A5\n"
        "#define A5 A6 A6 A6 A6\n#define A6 A7 A7 A7 A7\n#define A7 1+1+1+1+1+1+1+1\n"
        "__global__ void k(int* p) { *p = A; }\n",
        "__global__ void k(int* p) { *p = 'abc; }\n",
        "template <int N> struct S { S<N + 1> s; };\n__global__ void k(int* p) { S<0> s; *p = 1; }\n",
        "__global__ void k(int* p) {",
        "__global__ void k(int* p) { a<b<c<d<e<f<g; }\n",
    ],
    ids=["parentheses", "minus", "braces", "macro bomb", "quote", "infinite template", "unclosed", "angles"],
)
def test_hostile_input_is_refused_not_fatal(text):
    """Each in a process of its own: a crash of the interpreter itself would go unseen otherwise."""
    code = "import sys\nfrom ktc.ir.frontend import load\nfrom ktc.ir.diagnostics import KtcError\n"
    code += "try:\n    load(sys.stdin.read(), name='k.cu')\nexcept KtcError as e:\n    print(e.code)\n"
    done = subprocess.run([sys.executable, "-c", code], input=text, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-500:]
    assert done.stdout.startswith("E-")


def test_a_macro_call_that_does_not_parse_ends_where_its_namespace_does() -> None:
    text = (
        "namespace a { namespace b {\n__global__ void k(int* y) { y[0] = 1; }\nEVAL(ONE, TWO)\nEVAL(ONE, TWO, 3)\n}}\n"
    )
    assert load(text + "__global__ void after(int* y) { y[0] = 2; }\n", name="k.cu", kernel="k").name == "k"


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        # Where only a type can stand, an unknown name is one.
        (body("pkg::Pair* q = (pkg::Pair*)p + n;"), "E-SEMA-TYPE",
         "unknown type 'pkg::Pair'; <pkg/pair.h> was not found"),
        (body("p[0] = ((Pair const*)p)->x;"), "E-SEMA-TYPE", "unknown type 'Pair'"),
        (body("p[0] = reinterpret_cast<Pair const*>(p)->x;"), "E-SEMA-TYPE", "unknown type 'Pair'"),
        (body("p[0] = get<Pair&>(p);", "template <typename T> __device__ float get(float* p) { T t; return t; }"),
         "E-SEMA-TYPE", "unknown type 'Pair'"),
        (body("p[0] = at<float>(p);", "template <typename T> using Two = pkg::Pair<T, 2>;\n"
              "template <typename T> __device__ T at(T* p) { return reinterpret_cast<Two<T> const*>(p)->x; }"),
         "E-SEMA-TYPE", "unknown type 'pkg::Pair'; <pkg/pair.h> was not found"),
        (body("p[0] = pkg::fold(p);"), "E-SEMA-CALL", "unknown function 'pkg::fold'; <pkg/pair.h> was not found"),
        (body("p[0] = pkg::LIMIT;"), "E-SEMA-NAME", "unknown name 'pkg::LIMIT'; <pkg/pair.h> was not found"),
    ],
)  # fmt: skip
def test_what_an_unknown_name_is(refuses, text, code, said):
    error = refuses("#include <pkg/pair.h>\n#include <other/thing.h>\n" + text, code)
    assert error.message == said and error.loc is not None


def test_why_the_only_function_of_a_name_is_not_meant(refuses):
    error = refuses(
        body("p[0] = g<1>(n);", "template <step_t f> __device__ float g(int x) { return f(x); }"), "E-SEMA-OVERLOAD"
    )
    assert error.message == "no 'g' accepts (int)" and error.hint == "unknown type 'step_t'"
