"""Hostile input for the front-end: grammar-aware programs, mutations and bombs, each bounded in time and memory.

    python -m tests.fuzz.frontend_texts --cases 100000 --seed 0 [--jobs N] [--seconds S] [--only INDEX]

A case passes when ``load`` gives a well-formed kernel or a KtcError with a code, within ``SECONDS`` of CPU time and
``MEGABYTES`` of address space, having opened no file outside its own folder (an audit hook sees every ``open``).
Anything else -- another exception, a hang, a dead process, a foreign file -- is a finding, printed with its index;
``--only INDEX`` prints that case's text and runs it alone.
"""

from __future__ import annotations

# ruff: noqa: E501  (rows of the generators)
import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.paths import KERNELS, ROOT

SECONDS = 20.0
MEGABYTES = 3000

# ------------------------------------------------------------------------------------------------------- programs

TYPES = ["int", "unsigned", "float", "double", "long long", "short", "char", "bool", "size_t", "half", "float4", "int2"]
NAMES = ["a", "b", "c", "x", "y", "i", "j", "k", "n", "p", "tile", "T", "N", "threadIdx", "f", "S"]
BINARY = ["+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "<", "<=", "==", "!=", "&&", "||", ","]
CALLS = ["sinf", "min", "max", "__shfl_xor_sync", "atomicAdd", "__syncthreads", "fmaf", "f", "g", "sizeof", "__ldg"]
LITERALS = ["0", "1", "1.5f", "0x7fffffff", "1e30", "3u", "true", "'a'", "18446744073709551615", "0.1", "1e400", "-1"]


class Grammar:
    """Random programs that are nearly CUDA C++, of a bounded depth."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def expr(self, depth: int = 3) -> str:
        r, pick = self.rng, self.rng.choice
        if depth <= 0 or r.random() < 0.25:
            return pick([pick(NAMES), pick(LITERALS), "threadIdx.x", "blockIdx.y", f"{pick(NAMES)}.x"])
        sub = lambda: self.expr(depth - 1)  # noqa: E731
        return pick([
            lambda: f"{sub()} {pick(BINARY)} {sub()}", lambda: f"({sub()})", lambda: f"{pick('-!~*&')}{sub()}",
            lambda: f"({pick(TYPES)}){sub()}", lambda: f"{pick(NAMES)}[{sub()}]", lambda: f"{sub()} ? {sub()} : {sub()}",
            lambda: f"{pick(CALLS)}({', '.join(sub() for _ in range(r.randint(0, 4)))})",
            lambda: f"static_cast<{pick(TYPES)}>({sub()})", lambda: f"{pick(NAMES)}<{pick(TYPES)}>({sub()})",
            lambda: f"*reinterpret_cast<{pick(TYPES)}*>(&{sub()})", lambda: f"{pick(NAMES)}++",
            lambda: f"[&](int q) {{ return {sub()}; }}({sub()})", lambda: f"{pick(NAMES)} = {sub()}",
        ])()  # fmt: skip

    def statement(self, depth: int = 3) -> str:
        r, pick, e = self.rng, self.rng.choice, self.expr
        body = lambda: self.block(depth - 1)  # noqa: E731
        simple = [
            lambda: f"{pick(TYPES)} {pick(NAMES)} = {e()};", lambda: f"{pick(NAMES)}[{e()}] = {e()};",
            lambda: f"{e()};", lambda: f"__shared__ {pick(TYPES)} {pick(NAMES)}[{pick(LITERALS)}];", lambda: "__syncthreads();",
            lambda: f"auto {pick(NAMES)} = {e()};", lambda: f"{pick(TYPES)} {pick(NAMES)}[{r.randint(0, 40)}];",
            lambda: f"return{pick(['', ' ' + e(1)])};", lambda: pick(["break;", "continue;", ";", "goto out;", "out:;"]),
            lambda: f'asm volatile("mov.u32 %0, 1;" : "=r"({pick(NAMES)}));',
        ]  # fmt: skip
        if depth <= 0:
            return pick(simple)()
        return pick([
            *simple, lambda: f"if ({e()}) {body()} else {body()}", lambda: f"while ({e()}) {body()}",
            lambda: f"for (int {pick(NAMES)} = {e(1)}; {e(1)}; {e(1)}) {body()}", lambda: f"do {body()} while ({e()});",
            lambda: f"#pragma unroll\nfor (int i = 0; i < {r.randint(0, 99)}; i++) {body()}",
            lambda: f"switch ({e()}) {{ case {r.randint(0, 3)}: {self.statement(0)} default: {self.statement(0)} }}",
            lambda: f"struct {pick(NAMES)} {{ {pick(TYPES)} x; }} {pick(NAMES)};",
        ])()  # fmt: skip

    def block(self, depth: int) -> str:
        return "{ " + "\n".join(self.statement(depth) for _ in range(self.rng.randint(0, 4))) + " }"

    def program(self) -> str:
        r, pick = self.rng, self.rng.choice
        head = [
            lambda: f"#define {pick(NAMES)} {self.expr(1)}", lambda: f"template <typename T, int N = {r.randint(-1, 9)}>",
            lambda: f"__device__ {pick(TYPES)} f({pick(TYPES)} a) {{ return {self.expr()}; }}", lambda: "#include <cub/cub.cuh>",
            lambda: f"__constant__ {pick(TYPES)} {pick(NAMES)}[{r.randint(0, 9)}];", lambda: "namespace q {", lambda: "}",
            lambda: f"struct S {{ {pick(TYPES)} x; __device__ {pick(TYPES)} f() {{ return {self.expr(2)}; }} }};",
            lambda: f"constexpr int {pick(NAMES)} = {self.expr(2)};", lambda: f"using T = {pick(TYPES)};",
            lambda: f"#if {self.expr(2)}\n#else\n#endif",
        ]  # fmt: skip
        params = ", ".join(
            f"{pick(TYPES)} {pick(['', '*', '&', '**'])}{n}" for n in r.sample(NAMES[:9], r.randint(0, 5))
        )
        lines = [pick(head)() for _ in range(r.randint(0, 4))]
        lines.append(f"{pick(['', '', 'template <typename T> '])}__global__ void kernel_{r.randint(0, 2)}({params})")
        return "\n".join(lines) + "\n" + self.block(3) + "\n" + pick(["", "void h() { kernel_0<<<1, 2>>>(); }\n"])


def grammar(rng: random.Random, folder: Path) -> str:
    return Grammar(rng).program()


def opencl(rng: random.Random, folder: Path) -> str:
    text = Grammar(rng).program().replace("__global__", "__kernel").replace("threadIdx.x", "get_global_id(0)")
    return text.replace("float4 ", "__global float4 ").replace("static_cast", "convert_int4")


# ------------------------------------------------------------------------------------------------------ mutations


def _seeds() -> list[str]:
    return [p.read_text(encoding="utf-8") for p in sorted(KERNELS.glob("*/*/*.cu"))] or ["__global__ void k() {}"]


def mutate(rng: random.Random, folder: Path) -> str:
    """One of the library's sources with tokens deleted, doubled, swapped, replaced, or bytes flipped."""
    import re

    text = rng.choice(SEEDS)
    tokens = re.findall(r"\s+|\w+|[^\w\s]", text)
    for _ in range(rng.choice([1, 1, 2, 5, 20, 100])):
        at, to = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        what = rng.randrange(7)
        if what == 0:
            tokens[at] = ""
        elif what == 1:
            tokens[at] *= rng.choice([2, 3, 50])
        elif what == 2:
            tokens[at], tokens[to] = tokens[to], tokens[at]
        elif what == 3:
            tokens[at] = rng.choice(
                [*BINARY, *TYPES, *LITERALS, "(", ")", "{", "}", "<", ">", "#", "\\", '"', "'", "::"]
            )
        elif what == 4:
            tokens[at] = tokens[to]
        elif what == 5:
            tokens[at] = chr(rng.choice([0, 1, 7, 11, 12, 27, 127, 160, 233, 8232, 65279, 128512]))
        else:
            tokens[at:to] = []
            tokens = tokens or [" "]
    return "".join(tokens)


# ---------------------------------------------------------------------------------------------------------- bombs

KERNEL = "__global__ void k(int *p) { p[0] = %s; }\n"


def nesting(rng: random.Random, folder: Path) -> str:
    n = rng.choice([10, 100, 400, 1000, 5000, 20000])
    a, b, core = rng.choice([
        ("(", ")", "1"), ("-", "", "1"), ("!", "", "1"), ("(int)", "", "1"), ("p[", "]", "0"), ("f(", ")", "1"),
        ("1 ? ", " : 0", "1"), ("[&]{ return ", "; }()", "1"), ("{", "}", ""), ("if (1) ", "", ";"), ("(", "", "1"),
        ("for(;;) ", "", ";"), ("S<", ">", "int"), ("1 + ", "", "1"), ("*&", "", "p"), ("sizeof ", "", "1"),
        ("do ", " while(0);", ";"), ("#if 1\n", "#endif\n", "1\n"), ("struct A { ", " a; };", "int"), ("1, ", "", "1"),
    ])  # fmt: skip
    return KERNEL % (a * n + core + b * n)


def macros(rng: random.Random, folder: Path) -> str:
    n = rng.choice([3, 8, 20, 200, 3000])
    width = rng.choice([1, 2, 8])
    kind = rng.randrange(5)
    if kind == 0:
        lines = [f"#define M{i} " + f"M{i + 1} " * width for i in range(n)] + [f"#define M{n} 1"]
        return "\n".join(lines) + "\n" + KERNEL % "M0"
    if kind == 1:
        lines = [f"#define M{i}(x) " + f"M{i + 1}(x x) " * width for i in range(min(n, 200))]
        return "\n".join(lines) + "\n" + KERNEL % "M0(1)"
    if kind == 2:
        return "#define F(x) F(F(x))\n#define G(...) F(__VA_ARGS__, __VA_ARGS__)\n" + KERNEL % (
            "G(" * 30 + "1" + ")" * 30
        )
    if kind == 3:
        return f"#define A {'x' * n * 1000}\n" + KERNEL % " + ".join(["A"] * 50)
    return "#define CAT(a, b) a ## b\n#define S(x) #x\n" + KERNEL % ("CAT(" * n + "1" + ", 2)" * n)


def includes(rng: random.Random, folder: Path) -> str:
    name = rng.choice(["self.h", "ping.h", "fifo", "link.h", "deep0.h"])
    if name == "self.h":
        (folder / "self.h").write_text('#include "self.h"\n')
    elif name == "ping.h":
        (folder / "ping.h").write_text('#include "pong.h"\n#include "pong.h"\n')
        (folder / "pong.h").write_text('#include "ping.h"\n#include "ping.h"\n')
    elif name == "fifo":
        os.mkfifo(folder / "fifo")
    elif name == "link.h":
        (folder / "link.h").symlink_to("/etc/passwd")
    else:
        for i in range(100):
            (folder / f"deep{i}.h").write_text(f'#include "deep{i + 1}.h"\n')
    target = rng.choice([
        f'"{name}"', f'"{name}"', '"/etc/passwd"', "</etc/passwd>", '"../../../../../../etc/passwd"', '"/dev/zero"',
        '"/proc/self/mem"', '"."', '""', "<>", '"nul\\0.h"', f'"{"a/" * 3000}x.h"', "MACRO", '"%s"' % ("x" * 5000),
    ])  # fmt: skip
    return f'#define MACRO "/etc/shadow"\n#include {target}\n' + KERNEL % "1"


def templates(rng: random.Random, folder: Path) -> str:
    return rng.choice([
        "template <int N> struct S { enum { v = S<N - 1>::v + S<N - 2>::v }; };\n" + KERNEL % "S<60>::v",
        "template <typename T> struct A { A<A<T>> a; };\n__global__ void k(int *p) { A<int> a; }\n",
        "template <int N> __device__ int f(int x) { return f<N + 1>(x); }\n" + KERNEL % "f<0>(1)",
        "template <typename... T> __device__ int f(T... t) { return f(t..., t...); }\n" + KERNEL % "f(1, 2)",
        "template <typename T> __device__ auto f(T t) { return f([=] { return t; }); }\n" + KERNEL % "f(1)",
        "__device__ int f(int x) { return f(x - 1); }\n" + KERNEL % "f(9)",
        "__device__ int g(int); __device__ int f(int x) { return g(x); } __device__ int g(int x) { return f(x); }\n"
        + KERNEL % "f(9)",
        "constexpr int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\n" + KERNEL % "f(40)",
        "using A = B; using B = A;\n" + KERNEL % "A(1)",
        "struct A { A a; };\n__global__ void k(A a, int *p) { p[0] = 1; }\n",
        "enum E { a = b, b = a };\n" + KERNEL % "a",
        "const int a = b; const int b = a;\n" + KERNEL % "a",
    ])  # fmt: skip


def sizes(rng: random.Random, folder: Path) -> str:
    n = rng.choice([100, 10_000, 100_000])
    return rng.choice([
        lambda: KERNEL % "1" + "\0" * rng.randint(1, 5), lambda: KERNEL % ("9" * n), lambda: "x" * n * 10,
        lambda: KERNEL % ("a" * n), lambda: "__global__ void k(" + ", ".join(f"int a{i}" for i in range(n // 50)) + ") {}",
        lambda: KERNEL % ('"' + "s" * n), lambda: "/*" * n, lambda: "//" + "\\\n" * n, lambda: "\\\n" * n + KERNEL % "1",
        lambda: KERNEL % "1; }\n{ int y[2147483647][2147483647]; y[0][0] = 1", lambda: "\n" * n + KERNEL % "1",
        lambda: KERNEL % "1;\n#pragma unroll\nfor (int i = 0; i < 2000000000; i++) p[i] = 1",
        lambda: "int a[] = {" + "1," * n + "};\n" + KERNEL % "a[0]", lambda: "#" * n, lambda: "{" * n, lambda: "'" * n,
        lambda: "<" * n, lambda: "template <" * (n // 10), lambda: KERNEL % ("1" + " + 1" * (n // 10)), lambda: "R\"(" * n,
        lambda: "__global__ void k(int *p) {\n" + "p[0] = 1;\n" * (n // 10) + "}\n", lambda: "#line 4294967296 \"f\"\n" + KERNEL % "(",
        lambda: "#define X " + "(" * n + "\n" + KERNEL % "X", lambda: "" if n < 1000 else "y = 1;\n" * n * 10,
    ])()  # fmt: skip


KINDS: list[tuple[int, Callable[[random.Random, Path], str]]] = [
    (38, grammar), (12, opencl), (35, mutate), (5, nesting), (3, macros), (3, includes), (2, templates), (2, sizes)
]  # fmt: skip
"""Weights and generators."""

SEEDS: list[str] = _seeds()


def case(seed: int, index: int, folder: Path) -> tuple[str, str, str]:
    """(kind, text, file name) of a case."""
    rng = random.Random(f"{seed}:{index}")
    kind = rng.choices([k for _, k in KINDS], [w for w, _ in KINDS])[0]
    name = "k.cl" if kind is opencl else rng.choice(["k.cu", "k.cu", "k.cu", "k.hip"])
    return kind.__name__, kind(rng, folder), name


# ------------------------------------------------------------------------------------------------------------ run


class Overtime(BaseException):
    """The case used its CPU time up. Not an Exception, so that nothing swallows it."""


def check(seed: int, index: int) -> dict[str, object]:
    """Run one case in this process."""
    from ktc.ir.diagnostics import KtcError
    from ktc.ir.frontend import load
    from ktc.ir.frontend.entry_points import deep_recursion
    from ktc.ir.verifier import verify

    with tempfile.TemporaryDirectory(prefix="ktc-fuzz-") as name:
        folder = Path(name).resolve()
        kind, text, file = case(seed, index, folder)
        (folder / file).write_bytes(text.encode("utf-8", "surrogatepass"))
        OPENED.clear()
        start = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        finding = ""
        try:
            kernel = load(str(folder / file))
            with deep_recursion(file):
                result = next((wrong.code for wrong in verify(kernel)), "kernel")
        except KtcError as e:
            result = e.code
            if not e.message or (e.loc is not None and e.loc.line < 1):
                finding = f"an error without a message or place: {e.to_json()}"
        except Overtime:
            result, finding = "time", f"more than {SECONDS} s"
        except Exception as e:
            result, finding = "exception", f"{type(e).__name__}: {e}"[:300]
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        foreign = [p for p in OPENED if not p.startswith((str(folder), *OWN))]
        if foreign:
            finding = f"opened {foreign[:3]}"
        spent = time.process_time() - start
    return {"index": index, "kind": kind, "result": result, "finding": finding, "seconds": round(spent, 2)}


OPENED: list[str] = []
CACHE = os.path.expanduser(os.environ.get("KTC_CACHE", "~/.cache/ktc"))
"""Where tables of ktc's own grammars are kept between runs."""
OWN = tuple(dict.fromkeys(os.path.realpath(p) for p in (sys.prefix, sys.base_prefix, ROOT, CACHE, *sys.path) if str(p)))


def _watch(event: str, args: tuple) -> None:
    if event == "open" and isinstance(args[0], str):
        OPENED.append(os.path.realpath(args[0]))


def work(seed: int, first: int, last: int) -> None:
    """A worker: a line before and after every case."""
    import ktc.ir.frontend
    import ktc.ir.interp
    import ktc.ir.verifier  # noqa: F401

    resource.setrlimit(resource.RLIMIT_AS, (MEGABYTES << 20, MEGABYTES << 20))

    def ring(signum: int, frame: object) -> None:
        raise Overtime

    signal.signal(signal.SIGPROF, ring)
    sys.addaudithook(_watch)
    for index in range(first, last):
        print(json.dumps({"begin": index}), flush=True)
        print(json.dumps(check(seed, index)), flush=True)


def campaign(cases: int, seed: int, jobs: int, seconds: float = 1e9, chunk: int = 200) -> dict[str, object]:
    """Cases over ``jobs`` processes, as many as ``seconds`` allow; a process that dies or hangs is a finding."""
    from concurrent.futures import ThreadPoolExecutor

    results: list[dict[str, object]] = []

    over = time.monotonic() + seconds

    def run(first: int) -> None:
        last = min(first + chunk, cases)
        while first < last and time.monotonic() < over:
            command = [
                sys.executable,
                "-m",
                "tests.fuzz.frontend_texts",
                "--worker",
                f"{first}:{last}",
                "--seed",
                str(seed),
            ]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT) as p:
                assert p.stdout is not None
                watchdog = _watchdog(p, 60 + (last - first) * SECONDS)
                for line in p.stdout:
                    event = json.loads(line)
                    if "begin" in event:
                        first = event["begin"]
                    else:
                        results.append(event)
                        first = event["index"] + 1
                watchdog()
            if first < last:  # it stopped inside a case
                died = {"index": first, "kind": "?", "result": "died", "finding": f"process ended: {p.returncode}"}
                results.append({**died, "seconds": 0.0})
                first += 1

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(run, range(0, cases, chunk)))
    by_kind: dict[str, Counter] = {}
    for r in results:
        by_kind.setdefault(str(r["kind"]), Counter())[str(r["result"])] += 1
    slowest = max(results, key=lambda r: float(str(r["seconds"])), default={"seconds": 0})
    return {
        "cases": len(results), "seed": seed, "findings": [r for r in results if r["finding"]],
        "slowest": slowest, "results": {k: dict(v.most_common()) for k, v in sorted(by_kind.items())},
    }  # fmt: skip


def _watchdog(p: subprocess.Popen, seconds: float) -> Callable[[], None]:
    from threading import Timer

    timer = Timer(seconds, p.kill)
    timer.start()
    return timer.cancel


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("--cases", type=int, default=1000)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments.add_argument("--seconds", type=float, default=1e9)
    arguments.add_argument("--only", type=int)
    arguments.add_argument("--worker", help=argparse.SUPPRESS)
    o = arguments.parse_args()
    if o.worker:
        work(o.seed, *map(int, o.worker.split(":")))
        return 0
    if o.only is not None:
        with tempfile.TemporaryDirectory() as folder:
            kind, text, file = case(o.seed, o.only, Path(folder))
        print(f"// {kind}, {file}\n{text[:4000]}")
        work(o.seed, o.only, o.only + 1)
        return 0
    report = campaign(o.cases, o.seed, o.jobs, o.seconds)
    print(json.dumps(report, indent=1))
    return 1 if report["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
