"""``ktc parse --stats``: every kernel of a tree gets a record, and no file can end the run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ktc.ir.diagnostics import KtcError, Loc
from ktc.project.source_trees import Tree
from ktc.survey import SurveyOptions, survey
from ktc.survey.assumptions import Builds
from ktc.survey.kernel_scan import kernels_in
from ktc.survey.pool import run_files
from ktc.survey.unit import UnitSurvey

SCALE = "__global__ void scale(float *x, int n) { int i = blockIdx.x * 256 + threadIdx.x; if (i < n) x[i] *= 2.f; }\n"


def put(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return root


def run(root: Path, **options: object) -> dict:
    return survey(SurveyOptions(str(root), **options), jobs=2).to_json()  # type: ignore[arg-type]


def kernel(result: dict, name: str) -> dict:
    return next(k for f in result["files"] for k in f["kernels"] if k["kernel"] == name)


def test_every_kernel_has_a_record(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            "a.cu": SCALE,
            "latin.cu": b"// caf\xe9\n" + SCALE.replace("scale", "latin").encode(),
            "bad.cu": "__global__ void broken(float *x) { x[0] = ((; }\n" + SCALE.replace("scale", "after"),
            "no_kernel.cu": "int f() { return 1; }",
            "nul.cu": b"__global__ void hidden(int *p) { p[0] = 1; }\0",
        },
    )
    result = run(tmp_path)
    assert result["totals"]["kernels"] == 4
    assert result["totals"]["parsed"] == result["totals"]["lowered"] == 3
    assert kernel(result, "broken")["refusal"]["code"] == "E-PARSE-SYNTAX"
    assert kernel(result, "after")["parsed"]
    assert result["refusals"] == {"E-PARSE-SYNTAX": 1, "E-SOURCE-BINARY": 1}


def test_kernels_of_headers_count_once_and_at_their_best(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            "include/k.cuh": "template <int N> __global__ void k(int *p) { p[threadIdx.x] = N + WIDTH; }\n",
            "src/one.cu": '#define WIDTH 3\n#include "k.cuh"\nvoid f(int *p) { k<4><<<1, 32>>>(p); }\n',
            "src/two.cu": '#include "k.cuh"\n',
            "alone.cuh": SCALE,
        },
    )
    result = run(tmp_path)
    assert result["totals"]["kernels"] == 2
    k = kernel(result, "k")
    assert (k["template"], k["assumed"], k["unit"]) == ({"N": "4"}, {}, "src/one.cu")
    assert kernel(result, "scale")["parsed"]


def test_a_header_that_needs_its_includer_is_read_with_it(tmp_path: Path) -> None:
    kernel = "__global__ void k(Args a) { a.p[threadIdx.x] = 1; }\n"
    put(tmp_path, {"k.cuh": kernel, "all.cuh": 'struct Args { int *p; };\n#include "k.cuh"\n', "other.cuh": SCALE})
    result = run(tmp_path)
    k = result["files"][[f["file"] for f in result["files"]].index("k.cuh")]["kernels"][0]
    assert result["totals"]["kernels"] == 2 and (k["parsed"], k["assumed"], k["unit"]) == (True, {}, "all.cuh")


def test_a_kernel_that_one_source_got_all_the_way_is_not_tried_again(tmp_path: Path) -> None:
    header = "template <int N> __global__ void k(int *p) { p[threadIdx.x] = N + WIDTH; }\n" + SCALE
    include = '#include "k.cuh"\n'
    put(
        tmp_path,
        {"k.cuh": header, "a.cu": include, "b.cu": "#define WIDTH 3\n" + include + SCALE.replace("scale", "own")},
    )
    files = [str(tmp_path / name) for name in ("a.cu", "b.cu")]
    one, two = run_files(files, SurveyOptions(str(tmp_path)), 1, lambda n, total: None)
    assert [k["kernel"] for k in one.records] == ["k", "scale"]
    assert [k["kernel"] for k in two.records] == ["k", "own"]  # a.cu assumed something for k


def test_a_missing_macro_is_assumed_and_said(tmp_path: Path) -> None:
    text = "__global__ void k(real *x) { __shared__ real s[BLOCK]; s[threadIdx.x] = x[0]; x[threadIdx.x] = s[0]; }"
    put(tmp_path, {"k.cu": text})
    with_guesses = run(tmp_path)
    assert kernel(with_guesses, "k")["assumed"] == {"BLOCK": "16", "real": "float"}
    assert with_guesses["totals"]["assumed"] == 1
    without = run(tmp_path, assume=False)
    assert kernel(without, "k")["refusal"]["code"] == "E-SEMA-TYPE"
    assert "-D real=" in kernel(without, "k")["refusal"]["hint"]
    given = run(tmp_path, assume=False, defines=(("real", "double"), ("BLOCK", "64")))
    assert kernel(given, "k")["params"] == ["f64* x"]


def test_a_file_that_hangs_or_eats_memory_costs_one_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker is told to hang and to crash by a module that stands in for a bug of the front-end."""
    bug = """
import os, time, ktc.survey.unit as u
real = u.UnitSurvey._load
def load(self, unit, found, record):
    if found.name == "hang":
        import signal; signal.signal(signal.SIGALRM, signal.SIG_IGN); time.sleep(3600)
    if found.name == "crash":
        os._exit(3)
    if found.name == "trip":
        raise RuntimeError("seeded")
    if found.name == "eat":
        x = bytearray(64 << 30)
    return real(self, unit, found, record)
u.UnitSurvey._load = load
"""
    put(tmp_path / "site", {"sitecustomize.py": bug})
    names = ("first", "hang", "crash", "trip", "eat", "last")
    put(tmp_path / "tree", {"k.cu": "".join(SCALE.replace("scale", n) for n in names)})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    monkeypatch.setattr("ktc.survey.pool.GRACE_S", 2.0)
    result = run(tmp_path / "tree", timeout_s=0.5)
    codes = {n: kernel(result, n).get("refusal", {}).get("code") for n in names}
    assert codes == {"first": None, "hang": "E-TIMEOUT", "crash": "E-CRASH", "trip": "E-INTERNAL", "eat": "E-MEMORY",
                     "last": None}  # fmt: skip


def test_the_result_does_not_depend_on_the_number_of_workers(tmp_path: Path) -> None:
    put(tmp_path, {f"d{i % 3}/k{i}.cu": SCALE * (i % 2) + SCALE.replace("scale", f"s{i}") for i in range(9)})
    one = survey(SurveyOptions(str(tmp_path)), jobs=1).to_json()
    many = survey(SurveyOptions(str(tmp_path)), jobs=4).to_json()
    assert json.dumps(one) == json.dumps(many)


def test_scan_knows_definitions_from_declarations() -> None:
    text = """
// __global__ void comment() {}
const char *s = "__global__ void literal() {}";
__global__ void declared(int *p);
template <typename T> __launch_bounds__(256, 2) __global__ void
bounded(T *p, void (*f)(int)) { if (p) f(1); }
extern "C" __global__ __launch_bounds__(128) void plain(int n)
{ }
#line 70 "other.h"
__global__ void there() { }
"""
    found = [(k.name, k.file, k.line) for k in kernels_in(text, "k.cu")]
    assert found == [("bounded", "k.cu", 5), ("plain", "k.cu", 7), ("there", "other.h", 70)]


def test_a_header_is_found_by_the_end_of_its_path_and_the_nearest_wins(tmp_path: Path) -> None:
    put(tmp_path, {"a/inc/x/h.h": "", "b/inc/x/h.h": "", "b/src/k.cu": ""})
    tree = Tree(str(tmp_path))
    assert tree.find("x/h.h", str(tmp_path / "b/src/k.cu")) == str(tmp_path / "b/inc")
    assert tree.find("../x/h.h", str(tmp_path / "b/src/k.cu")) == str(tmp_path / "b/inc/_")
    assert tree.find("y.h", str(tmp_path / "b/src/k.cu")) is None


def test_a_header_of_the_project_is_nearer_than_that_of_a_part_beside(tmp_path: Path) -> None:
    put(tmp_path, {"p/csrc/attention/src/utils.h": "", "p/include/utils.h": "", "p/csrc/norm/k.cu": ""})
    tree = Tree(str(tmp_path))
    assert tree.find("utils.h", str(tmp_path / "p/csrc/norm/k.cu")) == str(tmp_path / "p/include")
    assert tree.find("utils.h", str(tmp_path / "p/csrc/attention/k.cu")) == str(tmp_path / "p/csrc/attention/src")


def test_links_that_lead_out_of_the_tree_are_not_read(tmp_path: Path) -> None:
    put(tmp_path, {"secret.h": "#define SECRET 1\n", "tree/src/k.cu": '#include "s.h"\n' + SCALE})
    (tmp_path / "tree/inc").mkdir()
    os.symlink(tmp_path / "secret.h", tmp_path / "tree/inc/s.h")
    os.mkfifo(tmp_path / "tree/inc/fifo.cu")
    result = run(tmp_path / "tree")
    assert result["totals"] | {"backends": 0, "dialects": 0} == {
        "files": 1, "kernels": 1, "parsed": 1, "lowered": 1, "compiled": None, "assumed": 0, "attention": 0,
        "backends": 0, "dialects": 0}  # fmt: skip


def test_the_command(ktc_run, tmp_path: Path) -> None:
    put(tmp_path, {"k.cu": SCALE + "void f(float *x) { scale<<<4, 256>>>(x, 1000); }\n"})
    listing = ktc_run("parse", str(tmp_path / "k.cu"))
    assert listing.returncode == 0 and "f32* x, i32 n" in listing.stdout and "k.cu:2:" in listing.stdout
    stats = ktc_run("parse", "--stats", str(tmp_path), "--no-compile")
    assert stats.returncode == 0 and "parsed" in stats.stdout and "100.0 %" in stats.stdout
    wrong = ktc_run("parse", str(tmp_path))
    assert wrong.returncode == 2 and "--stats" in wrong.stderr


NEEDS = """#if LEVELS < 2
#error (need LEVELS)
#endif
__global__ void k(float *x) { __shared__ float s[tile * 2]; s[threadIdx.x] = pi_2 * tile; x[0] = s[LEVELS]; }
"""


def test_build_files_and_tuning_scripts_say_what_macros_are(tmp_path: Path) -> None:
    files = {
        "a/k.cu": NEEDS,
        "a/Makefile": "CFLAGS = -O3 -DLEVELS=4 -DNAME=$(X)\n",
        "tune.py": 'tune_params["tile"] = [8, 16]\n',
    }
    found = kernel(run(put(tmp_path, files)), "k")
    assert found["parsed"] and found["assumed"] == {"LEVELS": "4", "tile": "8", "pi_2": "16"}
    strict = run(tmp_path, assume=False)
    assert strict["totals"]["parsed"] == 0 and strict["refusals"] == {"E-PP-DIRECTIVE": 1}


def test_guesses_end_where_they_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[object] = []

    def load(unit: object, entity: object, bindings: object, *rest: object) -> None:
        tried.append(bindings)
        raise KtcError("E-SEMA-CALL", f"unknown function of {len(tried)}", Loc("k.cu", 1))

    monkeypatch.setattr("ktc.survey.unit.load_entity", load)
    path = put(tmp_path, {"k.cu": "template <typename T, int N> __global__ void k(T *p) { p[N] = absent(); }"}) / "k.cu"
    tree = Tree(str(tmp_path))
    (record,) = UnitSurvey(str(path), tree, SurveyOptions(str(tmp_path)), Builds(tree)).records(0, lambda k: None)
    assert record["refusal"]["message"] == "unknown function of 1" and len(tried) == 10


def test_names_that_the_text_declares_are_no_macros(tmp_path: Path) -> None:
    text = "class Odd; extern Odd thing; __global__ void k(int *p) { p[0] = thing * 2; }\n"
    assert not kernel(run(put(tmp_path, {"k.cu": text})), "k")["assumed"]


def test_opencl_takes_the_plainest_profile_that_can(tmp_path: Path) -> None:
    vote = "__global__ void vote(int *p) { p[threadIdx.x] = __shfl_xor_sync(~0u, p[threadIdx.x], 1); }\n"
    both = vote.replace("vote", "both").replace("; }", "; cooperative_groups::this_grid().sync(); p[0] = 1; }")
    result = run(put(tmp_path, {"k.cu": SCALE + vote + both}), backends=("cuda", "opencl"))
    refused = kernel(result, "both")["backends"]["opencl"]["refusal"]
    assert refused["code"] == "E-BACKEND-GRID", "what the most capable lacks, not that the plainest has no warps"
    assert kernel(result, "scale")["backends"]["opencl"]["profile"] == "opencl-cl12"
    assert kernel(result, "vote")["backends"]["opencl"]["profile"] == "opencl-cl30-subgroups"
    assert result["totals"]["backends"]["opencl"]["profiles"] == {"opencl-cl12": 1, "opencl-cl30-subgroups": 1}


def test_a_unit_that_includes_a_kernel_gives_it_the_types_defined_before(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            "color.cuh": "__global__ void fill(Color *c, Color v) { c[threadIdx.x] = v; }\n",
            "all.cuh": '#include "color.cuh"\n',
            "main.cpp": 'typedef unsigned Color;\n#include "all.cuh"\n',
            "other.cpp": "int main() { return 0; }\n",
        },
    )
    found = run(tmp_path)
    assert kernel(found, "fill")["params"] == ["u32* c", "u32 v"] and kernel(found, "fill")["unit"] == "main.cpp"
    assert "other.cpp" not in {f["file"] for f in found["files"]}


def test_a_declaration_does_not_stand_for_a_definition_that_is_refused(tmp_path: Path) -> None:
    text = "__global__ void k(int *p);\n__global__ void k(int *p) { int *q = new int(1); p[0] = *q; }\n"
    assert kernel(run(put(tmp_path, {"k.cu": text})), "k")["refusal"]["code"].startswith(("E-PARSE", "E-UNSUPPORTED"))


def test_a_barrier_not_proved_to_be_reached_by_all_is_taken_with_a_word(tmp_path: Path) -> None:
    body = "int i = blockIdx.x * 64 + threadIdx.x; if (i < n) { x[i] *= 2.f; __syncthreads(); }"
    put(tmp_path, {"a.cu": f"__global__ void some(float *x, int n) {{ {body} }}\n" + SCALE})
    result = run(tmp_path)
    assert result["totals"]["lowered"] == 2 and result["totals"]["attention"] == 1
    (told,) = kernel(result, "some")["attention"]
    assert told["code"] == "V-BARRIER" and told["place"].startswith("a.cu:1:")
    assert "attention" not in kernel(result, "scale")


def test_a_macro_that_switches_a_declaration_off_is_assumed_and_said(tmp_path: Path) -> None:
    text = """#ifdef WITH_NARROW
    template <typename T> __device__ T narrow(float x) { return T(x * 2); }
    #endif
    __global__ void k(float* y) { y[0] = narrow<float>(y[0]); }"""
    found = kernel(run(put(tmp_path, {"k.cu": text})), "k")
    assert found["lowered"] and found["assumed"] == {"WITH_NARROW": "1"}


def test_specialisations_and_overloads_are_records_of_their_own(tmp_path: Path) -> None:
    """Each with the types of its own definition; a template is not counted as read where its specialisation was."""
    text = """
    template <typename T> __global__ void step(T* x, T s) { x[threadIdx.x] *= s; }
    template <> __global__ void step<int>(int* x, int s) { x[threadIdx.x] += s; }
    __global__ void over(float* x) { x[threadIdx.x] = 1; }
    __global__ void over(int* x) { x[threadIdx.x] = 2; }
    void go(int* x, int s) { step<int><<<1, 256>>>(x, s); over<<<1, 256>>>(x); }
    """
    tree = Tree(str(tmp_path))
    path = put(tmp_path, {"k.cu": text}) / "k.cu"
    records = UnitSurvey(str(path), tree, SurveyOptions(str(tmp_path)), Builds(tree)).records(0, lambda k: None)
    by_line = {r["line"]: r for r in records}
    assert {line: r["params"] for line, r in by_line.items()} == {
        2: ["f32* x", "f32 s"], 3: ["i32* x", "i32 s"], 4: ["f32* x"], 5: ["i32* x"],
    }  # fmt: skip
    assert by_line[3]["template"] == {"T": "int"} and not by_line[3]["assumed"] and by_line[2]["assumed"]
    assert [len(by_line[n]["launches"]) for n in (4, 5)] == [0, 1]
