"""Bytes that must move and operations, of small kernels: against all threads one by one, and of kinds by hand."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import ktc
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Assign,
    Binary,
    Body,
    Break,
    Call,
    Cast,
    Const,
    Continue,
    Decl,
    Expr,
    For,
    HwIndex,
    If,
    Load,
    Par,
    Reduce,
    Return,
    Select,
    Store,
    Unary,
    Var,
)
from ktc.ir.text import parse_kernel
from ktc.ir.types import Ptr, Scalar, scalar_of
from ktc.ir.workload import Workload
from ktc.search.bounds.compulsory_work import compulsory_work
from ktc.search.bounds.workload_work import work_of


class Left(Exception):
    """A loop is left."""


class Thread:
    """One thread after the other, every access noted: what the module under test does for all of them at once."""

    def __init__(self, kernel: Kernel, values: Mapping[str, Any]) -> None:
        self.kernel, self.values = kernel, values
        self.env: dict[Any, Any] = {}
        self.read: dict[str, set[int]] = {}
        self.wrote: dict[str, set[int]] = {}

    def launch(self) -> None:
        if self.kernel.is_parallel:
            self.body(self.kernel.body)
            return
        assert self.kernel.launch is not None
        dims = [self.number(e) for e in (*self.kernel.launch.grid, *self.kernel.launch.block)]
        for at in itertools.product(*map(range, dims)):
            self.env = {}
            for (level, axis), i, n in zip(itertools.product(("block", "thread"), "xyz"), at, dims, strict=True):
                self.env[level, axis], self.env[{"block": "grid_dim", "thread": "block_dim"}[level], axis] = i, n
            self.body(self.kernel.body)

    def body(self, body: Body) -> bool:
        """Whether its end is reached."""
        return all(self.statement(s) for s in body)

    def statement(self, s: Any) -> bool:
        if isinstance(s, Decl | Assign):
            value = s.init if isinstance(s, Decl) else s.value
            self.env[s.sym] = self.number(value) if value is not None else None
        elif isinstance(s, Store):
            self.number(s.value)
            at = self.number(s.index[0])
            self.wrote.setdefault(s.buffer.name, set()).add(at)
        elif isinstance(s, If):
            return self.body(s.then if self.number(s.cond) else s.orelse)
        elif isinstance(s, Return | Continue):
            return False
        elif isinstance(s, Break):
            raise Left
        elif isinstance(s, For):
            self.env[s.var] = self.number(s.init)
            with suppress(Left):
                while self.number(s.cond):
                    self.body(s.body)
                    self.env[s.var] = self.number(s.step)
        elif isinstance(s, Par | Reduce):
            for i in range(self.number(s.lo), self.number(s.hi)):
                self.env[s.var] = i
                self.body(s.body)
                for a in s.accs if isinstance(s, Reduce) else ():
                    self.number(a.value)
            for a in s.accs if isinstance(s, Reduce) else ():
                self.env[a.sym] = 0.0
        else:
            raise TypeError(s)
        return True

    def number(self, e: Expr) -> Any:
        if isinstance(e, Const):
            return e.value
        if isinstance(e, Var):
            return self.env[e.sym] if e.sym in self.env else self.values[e.sym.name]
        if isinstance(e, HwIndex):
            return self.env[e.level, e.axis]
        if isinstance(e, Cast):
            x = self.number(e.x)
            return int(x) if isinstance(e.to, Scalar) and e.to.is_int else x
        if isinstance(e, Select):
            return self.number(e.a if self.number(e.cond) else e.b)
        if isinstance(e, Load):
            at = self.number(e.index[0])
            if at not in self.wrote.get(e.buffer.name, ()):
                self.read.setdefault(e.buffer.name, set()).add(at)
            return self.values[e.buffer.name][at].item()
        if isinstance(e, Binary) and e.op in ("&&", "||"):
            a = self.number(e.a)
            return self.number(e.b) if bool(a) == (e.op == "&&") else a
        if isinstance(e, Unary):
            return -self.number(e.x)
        if isinstance(e, Call):
            return CALLS[e.fn](*map(self.number, e.args))
        if isinstance(e, Binary):
            a, b = self.number(e.a), self.number(e.b)
            if e.op in ("/", "%") and scalar_of(e.type).is_int:
                q = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
                return q if e.op == "/" else a - q * b
            return OPERATORS[e.op](a, b)
        raise TypeError(e)


OPERATORS: dict[str, Any] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, ">>": lambda a, b: a >> b, "<<": lambda a, b: a << b,
    "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
}  # fmt: skip


CALLS: dict[str, Any] = {"cdiv": lambda a, b: -(-a // b), "min": min, "max": max, "fabs": abs}


def one_by_one(kernel: Kernel, values: Mapping[str, Any]) -> tuple[int, int]:
    """Bytes read and written."""
    t = Thread(kernel, values)
    t.launch()
    size = {p.sym.name: scalar_of(p.sym.type).bytes for p in kernel.params if isinstance(p.sym.type, Ptr)}
    return tuple(sum(len(x) * size[n] for n, x in found.items()) for found in (t.read, t.wrote))  # type: ignore[return-value]


def counted(kernel: Kernel, values: Mapping[str, Any]) -> Any:
    scalars = {k: v for k, v in values.items() if not isinstance(v, np.ndarray)}
    return compulsory_work(kernel, scalars, lambda n: values.get(n))


HEAD = "kernel k(y: f32*, x: f32 const*, ids: i32 const*, n: i32, m: i32, c: i32)\n"
SPMD = HEAD + "  launch grid({grid}) block({block})\n  let i: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32\n"

DATA = (np.arange(4000) % 3 - 1).astype(np.float32)

KERNELS = {
    "a thread an element": SPMD.format(grid="cdiv(n, 8)", block=8) + "  if i < n\n    y[i] = x[i] * 2.0\n",
    "early return": SPMD.format(grid="cdiv(n, 8)", block=8) + "  if i >= n\n    return\n  y[n - 1 - i] = x[i]\n",
    "rows by division": SPMD.format(grid="cdiv(n * m, 8)", block=8)
    + "  if i >= n * m\n    return\n  let r: i32 = i / m\n  let q: i32 = i % m\n"
    + "  if q <= r\n    y[r * m + q] = x[q * n + r]\n",
    "a block a row": HEAD
    + "  launch grid(n) block(8)\n  let r: i32 = blockIdx.x as i32\n"
    + "  for j: i32 = threadIdx.x as i32; j < m; j + 8\n    y[r * m + j] = x[r * m + j] + x[j]\n",
    "triangle": HEAD
    + "  par r in 0..n @ [block.x]\n    for j: i32 = 0; j <= r; j + 1\n      y[r * n + j] = x[j * n + r]\n",
    "a sum a row": HEAD
    + "  par r in 0..n @ [block.x]\n    reduce (+) s: f32 = 0.0 over j in 0..m\n"
    + "      yield x[r * m + j]\n    y[r] = s\n",
    "strided": HEAD + "  par r in 0..n @ [block.x]\n    y[r * 3] = x[r * c] + x[r * c + 1]\n",
    "rows by index": HEAD
    + "  par r in 0..n @ [block.x]\n    let w: i32 = ids[r]\n    par j in 0..m @ [thread.x]\n"
    + "      y[r * m + j] = x[w * m + j]\n",
    "sparse rows": HEAD
    + "  par r in 0..n @ [block.x]\n    var s: f32 = 0.0\n"
    + "    for j: i32 = r * 2; j < r * 2 + ids[r]; j + 1\n      s = s + x[ids[j] * 2]\n    y[r] = s\n",
    "flat over three": HEAD
    + "  par i in 0..n * m * c @ [thread.x 8, block.x]\n    let b: i32 = i / (m * c)\n    let r: i32 = i / c % m\n"
    + "    let q: i32 = i % c\n    if q <= r\n      y[i] = x[(b * c + q) * m + r]\n    else\n      y[i] = 0.0\n",
    "digits of blocks of threads": SPMD.format(grid="cdiv(n * m * c, 8)", block=8)
    + "  if i < n * m * c\n    let b: i32 = i / (m * c)\n    let r: i32 = i / c % m\n    let q: i32 = i % c\n"
    + "    y[b * m * c + r * c + q] = x[b * m + r] + x[q]\n",
    "a choice": HEAD + "  par i in 0..n @ [block.x]\n    y[i] = i < m ? x[i] : (i % 2 == 0 ? x[2 * i] : 1.0)\n",
    "downwards": HEAD
    + "  par r in 0..n @ [block.x]\n    for j: i32 = m - 1; j >= r; j - 2\n      y[r * m + j] = x[j]\n",
    "twice over": HEAD
    + "  par r in 0..n @ [block.x]\n    for j: i32 = 0; j <= r; j + 1\n      y[r * n + j] = x[j]\n"
    + "    for j: i32 = 0; j < n; j + 1\n      y[r * n + j] = j <= r ? y[r * n + j] * 2.0 : 0.0\n",
    "in place": HEAD + "  par i in 0..n @ [block.x]\n    y[i] = y[i] + x[i % m]\n",
    "either of two": HEAD + "  par i in 0..n @ [block.x]\n    if i == m || i > 2 * m\n      y[i] = x[i]\n",
    "clamped": HEAD
    + "  par i in 0..n @ [block.x]\n    let up: i32 = i > 0 ? i - 1 : 0\n    par j in 0..m @ [thread.x]\n"
    + "      y[i * m + j] = x[up * m + j] + x[min(i + 1, n - 1) * m + max(j - 2, 0)]\n",
    "a place that moves along": HEAD
    + "  par r in 0..n @ [block.x]\n    var at: i32 = r\n    var down: i32 = 2000 - r\n"
    + "    for j: i32 = 1; j < m; j + 1\n      y[at] = x[at + n] + x[down]\n      at = at + n\n      down = down - 3\n"
    + "    y[at] = x[down + 1]\n",
    "an index by extents in memory": HEAD
    + """
  par i in 0..n @ [block.x]
    var left: i32 = i
    var at: i32 = 0
    for d: i32 = 2; d >= 0; d - 1
      at = at + left % (ids[d] + 1) * (d + 1)
      left = left / (ids[d] + 1)
    y[i] = x[at]
""",
    "a loop that is left early": HEAD
    + """
  var seen: i32 = 0
  for d: i32 = 0; d < 4; d + 1
    if ids[d] > 6
      break
    if ids[d] > 3
      continue
    seen = seen + 1
  par i in 0..n @ [block.x]
    for j: i32 = 0; j < m; j + 1
      if j == 2
        continue
      y[i * m + j] = x[i + seen]
""",
    "a place that moves at times": HEAD
    + "  par r in 0..n @ [block.x]\n    var at: i32 = r\n    for j: i32 = 0; j < m; j + 1\n      y[r * m + j] = x[at]\n"
    + "      if j < c\n        at = at + 1\n",
    "a place moved by a place": HEAD
    + "  par r in 0..n @ [block.x]\n    var at: i32 = 0\n    for j: i32 = 0; j < r; j + 2\n"
    + "      y[r * 40 + at] = x[at]\n      at = at + j\n",
    "shifts": HEAD + "  par i in 0..n * 16 @ [block.x]\n    y[i >> 2] = x[(i & 15) << 1]\n",
    "a bit put in": HEAD
    + "  par i in 0..n * 16 @ [block.x]\n    let at: i32 = (i >> 2 << 3) | (i & 3)\n"
    + "    y[at ^ 4] = x[at | 4] + x[8 | (i & 7)]\n",
    "bits that may be there": HEAD + "  par i in 0..n * 16 @ [block.x]\n    y[i ^ 4] = x[i | 12] + x[(i << 1) | 3]\n",
    "floats that decide": HEAD
    + """
  par i in 0..n @ [block.x]
    let d: f32 = x[ids[i] + i]
    if d != 0.0
      for j: i32 = 0; j < m; j + 1
        if -x[j] < fabs(d) as f64
          y[j * n + i] = x[j * n + i + 1000]
    y[2000 + i] = x[i + c] <= 1.0 ? x[i + 2000] : x[i + 3000]
""",
}


DIVIDED = ("rows by division", "digits of blocks of threads", "shifts", "in place", "a choice",
           "an index by extents in memory", "a bit put in", "bits that may be there")  # fmt: skip
"""A loop is taken apart by a divisor, which need not divide it."""

MOVED = ("a place that moves at times", "a place moved by a place")
"""Where a place goes is followed round by round, which is done where rounds are few, and as many everywhere."""


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("seed", range(4))
def test_bytes_are_those_of_all_threads(name: str, seed: int) -> None:
    rng = random.Random(f"{name} {seed}")
    n, m, c = (rng.randint(1, 12) for _ in range(3))
    values: dict[str, Any] = {
        "n": n, "m": m, "c": c, "x": DATA, "y": np.zeros(4000, np.float32),
        "ids": np.array([rng.randint(0, 9) for _ in range(4000)], np.int32),
    }  # fmt: skip
    kernel = parse_kernel(KERNELS[name])
    found = counted(kernel, values)
    expected = one_by_one(kernel, values)
    assert found.bytes_in <= expected[0] and found.bytes_out <= expected[1]
    if found.whole:
        assert (found.bytes_in, found.bytes_out) == expected
    else:
        assert name in (*DIVIDED, *MOVED)


def test_most_of_these_are_counted_to_the_end() -> None:
    for m in (4, 40):
        values: dict[str, Any] = {
            "n": 12, "m": m, "c": 4, "x": DATA, "y": np.zeros(4000, np.float32),
            "ids": np.arange(4000, dtype=np.int32) % 10,
        }  # fmt: skip
        for name, text in KERNELS.items():
            followed = name not in MOVED or (m == 4 and name == MOVED[0])
            assert counted(parse_kernel(text), values).whole == followed, name


def test_what_depends_on_unknown_floats_or_ends_when_data_say_so_counts_nothing() -> None:
    text = HEAD + "  par i in 0..n @ [block.x]\n    if x[i] > 0.0\n      y[i] = x[i + n]\n"
    found = counted(parse_kernel(text), {"n": 8, "m": 1, "c": 1})
    assert (found.bytes_in, found.bytes_out, found.whole) == (32, 0, False)
    loop = (
        "kernel k(y: f32*, n: i32)\n  launch grid(1) block(1)\n  var v: f32 = y[0]\n  while v > 1.0\n    v = v * 0.5\n"
    )
    found = counted(parse_kernel(loop + "  y[0] = v\n"), {"n": 1})
    assert (found.bytes_in, found.bytes_out, found.operations.f32, found.whole) == (4, 4, 0.0, False)


def test_what_is_read_before_data_decide_is_counted_however_long_the_loops_are() -> None:
    """Each byte decides what is counted; 64 million of them are more than are looked at one by one."""
    text = (
        "kernel k(y: i32*, x: u8 const*, n: i32, m: i32)\n  launch grid(cdiv(n, 64)) block(64)\n"
        "  par i in 0..n @ [thread.x 64, block.x]\n    var s: i32 = 0\n    for j: i32 = 0; j < m; j + 1\n"
        "      let v: u8 = x[j * n + i]\n      if v == 48\n        s = s + 1\n    y[i] = s\n"
    )
    n, m = 8192, 8192
    found = compulsory_work(parse_kernel(text), {"n": n, "m": m}, lambda name: np.zeros(n * m, np.uint8), granule=32)
    assert (found.bytes_in, found.bytes_out, found.whole) == (n * m, 4 * n, False)


def test_what_comes_after_a_loop_that_may_end_the_thread_is_not_sure() -> None:
    loop = "kernel k(y: f32*, n: i32)\n  launch grid(1) block(1)\n  var v: f32 = y[0]\n"
    loop += "  while v > 1.0\n    v = v * 0.5\n    if v < 0.25\n      return\n"
    found = counted(parse_kernel(loop + "  y[0] = v\n"), {"n": 1})
    assert (found.bytes_in, found.bytes_out, found.whole) == (4, 0, False)


def test_what_a_serial_loop_wrote_before_is_not_read_from_memory() -> None:
    text = HEAD + "  par r in 0..1 @ [block.x]\n    for j: i32 = 1; j < n; j + 1\n      y[j] = y[j - 1] + x[j]\n"
    found = counted(parse_kernel(text), {"n": 9, "m": 1, "c": 1})
    assert found.bytes_in <= 32 + 4 and found.bytes_out == 32


def test_whole_sectors_move() -> None:
    kernel = parse_kernel(HEAD + "  par r in 0..n @ [block.x]\n    y[r] = x[r * 64]\n")
    found = compulsory_work(kernel, {"n": 32, "m": 1, "c": 1}, granule=32)
    assert (found.bytes_in, found.bytes_out) == (32 * 32, 32 * 4)


def test_what_a_loop_does_not_change_is_computed_once() -> None:
    text = HEAD + "  par r in 0..n @ [block.x]\n    let w: f32 = ids[r] as f32\n    for j: i32 = 0; j < m; j + 1\n"
    found = counted(parse_kernel(text + "      y[r * m + j] = x[j] * (exp(w) * w)\n"), {"n": 8, "m": 5, "c": 1})
    assert (found.operations.f32, found.operations.special) == (8 * 5 + 8, 8)


LOOPS = {
    "i: i32 = 0; i < n; i + 1": 8,
    "i: i32 = 0; i <= n; i + 1": 9,
    "i: i32 = n - 1; i >= 0; i - 1": 8,
    "i: i32 = n - 1; i > 0; i - 1": 7,
    "i: i32 = n - 1; 0 <= i; i + -1": 8,
    "i: i32 = 0; n > i; i + 2": 4,
    "i: i32 = n; i < 0; i + 1": 0,
    "i: i32 = 9; i > n; i + 1": None,  # away from its end
    "i: i32 = 1; i < n; i * 2": None,
    "i: i32 = 0; k < n; i + 1": None,  # another variable decides
}


@pytest.mark.parametrize("loop", LOOPS)
def test_operations_follow_the_direction_of_the_loop(loop: str) -> None:
    text = f"""
kernel k(y: f32*, n: i32, k: i32)
  launch grid(1) block(1)
  for {loop}
    y[i] = y[i] + 1.0
  for j: i32 = 0; j < 100; j + 1
    y[j] = y[j] * 2.0
"""
    found = counted(parse_kernel(text), {"n": 8, "k": 3})
    assert found.operations.f32 == (LOOPS[loop] or 0) + 100 and found.whole == (LOOPS[loop] is not None)


@pytest.mark.parametrize("end", ["cdiv(k, 8) * 8", "cdiv(k, 8_u32) * 8_u32", "cdiv(k * 4, 4)"])
def test_loops_to_a_quotient_that_is_rounded_up_are_gone_through(end: str) -> None:
    """What is raised of tiles ends there; a product whose terms were not counted had a bound of its bytes alone."""
    kernel = parse_kernel(
        "kernel p(a: f32 const*, b: f32 const*, c: f32*, m: i32, k: i32)\n  par r in 0..m @ [block.x]\n"
        f"    var s: f32 = 0.0\n    for i in 0..{end}\n      s += a[r * k + i as i32] * b[i as i32]\n    c[r] = s\n"
    )
    work = compulsory_work(kernel, {"m": 16, "k": 64})
    assert work.whole and work.operations.f32 == 2 * 16 * 64


def test_products_of_narrow_numbers_may_run_on_matrix_units() -> None:
    head = "kernel gemm(c: f32*, a: {t} const*, b: {t} const*, m: i32, n: i32, k: i32)\n"
    nest = (
        "  par i in 0..m @ [block.y]\n    par j in 0..n @ [block.x]\n"
        "      reduce (+) s: f32 = 0.0 over p in 0..k\n        yield {product}\n      c[i * n + j] = s\n"
    )
    sizes = {"m": 5, "n": 7, "k": 11}
    wide = parse_kernel(head.format(t="f32") + nest.format(product="a[i * k + p] * b[p * n + j]"))
    narrow = parse_kernel(head.format(t="f16") + nest.format(product="(a[i * k + p] as f32) * (b[p * n + j] as f32)"))
    assert counted(wide, sizes).operations.f32 == 2 * 5 * 7 * 11
    assert counted(narrow, sizes).operations.matrix == 2 * 5 * 7 * 11 and counted(narrow, sizes).operations.f32 == 0


@pytest.mark.parametrize(("kernel", "scenario", "read", "written"), [
    ("silu_and_mul", {"n": 64, "d": 4096}, 2 * 64 * 4096 * 2, 64 * 4096 * 2),
    ("transpose", {"rows": 512, "cols": 256}, 512 * 256 * 4, 512 * 256 * 4),
    ("softmax", {"n": 64, "d": 1024}, 64 * 1024 * 2, 64 * 1024 * 2),
])  # fmt: skip
def test_kernels_of_the_library(kernel: str, scenario: dict[str, int], read: int, written: int) -> None:
    program = ktc.load(kernel)
    assert program.workload is not None
    sizes = {n: scenario.get(n, v) for n, v in program.workload.scenarios[0].sizes.items()}
    found = work_of(program.workload, sizes, program.kernel, program.variant)
    assert (found.bytes_in, found.bytes_out) == (read, written)


LOOKUP = """
[kernel]
source = "k.cu"
name = "embed"
[[args]]
name = "out"
dtype = "f32"
role = "out"
shape = ["tokens", "width"]
[[args]]
name = "ids"
dtype = "i32"
role = "in"
shape = ["tokens"]
init = "index"
range = [0, "words - 1"]
[[args]]
name = "table"
dtype = "f32"
role = "in"
shape = ["words", "width"]
[[args]]
name = "tokens"
dtype = "i32"
role = "scalar"
value = "tokens"
[[args]]
name = "width"
dtype = "i32"
role = "scalar"
value = "width"
[[scenario]]
name = "main"
sizes = { tokens = 50, width = 8, words = 1000 }
"""


def test_only_the_rows_that_the_workloads_indices_name_are_read(tmp_path) -> None:
    (tmp_path / "k.cu").write_text(
        "__global__ void embed(float* out, const int* ids, const float* table, int tokens, int width) {\n"
        "  int t = blockIdx.x * blockDim.x + threadIdx.x;\n  if (t >= tokens) return;\n"
        "  for (int c = 0; c < width; c++) out[t * width + c] = table[ids[t] * width + c];\n}\n"
        "void run(float* out, const int* ids, const float* table, int tokens, int width) {\n"
        "  embed<<<(tokens + 31) / 32, 32>>>(out, ids, table, tokens, width);\n}\n"
    )
    (tmp_path / "workload.toml").write_text(LOOKUP)
    work = Workload.load(tmp_path / "workload.toml")
    sizes = work.scenarios[0].sizes
    found = work_of(work, sizes, work.load_kernel())
    rows = len(np.unique(work.make_inputs(sizes)["ids"]))
    assert rows < 60 and found.bytes_in == rows * 32 + 224 and found.bytes_out == 50 * 32 and found.whole


PAIRS = """
[kernel]
source = "k.cu"
name = "swap"
[[args]]
name = "v"
dtype = "f32"
role = "inout"
shape = ["n"]
[[args]]
name = "half"
dtype = "i32"
role = "scalar"
value = "n // 2"
[[scenario]]
name = "main"
sizes = { n = 4194304 }
"""


def test_places_in_a_private_array_are_followed(tmp_path) -> None:
    """Of two million threads, which are more than are gone through one by one."""
    (tmp_path / "k.cu").write_text(
        "__global__ void swap(float* v, int half) {\n  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  if (i >= half) return;\n  int at[2];\n  float kept[2];\n"
        "  at[0] = (i >> 3 << 4) | (i & 7);\n  at[1] = at[0] ^ 8;\n"
        "  for (int k = 0; k < 2; k++) kept[k] = v[at[k]];\n  for (int k = 0; k < 2; k++) v[at[k]] = kept[1 - k];\n}\n"
        "void run(float* v, int half) { swap<<<(half + 255) / 256, 256>>>(v, half); }\n"
    )
    (tmp_path / "workload.toml").write_text(PAIRS)
    work = Workload.load(tmp_path / "workload.toml")
    found = work_of(work, work.scenarios[0].sizes, work.load_kernel())
    assert (found.bytes_in, found.bytes_out, found.whole) == (4 * 4194304, 4 * 4194304, True)


def test_what_follows_a_loop_that_data_end_is_done_all_the_same() -> None:
    kernel = parse_kernel(
        """\
kernel k(x: f64 const*, y: f64*)
  par i in 0..64 @ [thread.x 64]
    var s: f64 = x[i]
    for k in 0..20
      s = s * 0.5
      if s < 0.001
        LEAVE
    y[i] = exp(s)
""".replace("LEAVE", "break")
    )
    work = compulsory_work(kernel, {})
    assert (work.bytes_in, work.bytes_out, work.whole) == (512, 512, False)
    assert work.operations.f64 >= 64 * 12 and work.operations.special == 0


def test_a_modulus_beyond_64_bits_counts_what_does_not_depend_on_it() -> None:
    k = ktc.loads(
        """
        __global__ void f(float* a, float* o, unsigned long long seed, int n) {
          int i = blockIdx.x * 64 + threadIdx.x;
          unsigned long long next = (2806196910506780709ULL * (seed + i) + 1ULL) % 9223372036854775808ULL;
          if (i < n) o[i] = a[next % n];
        }
        void run(float* a, float* o, unsigned long long s, int n) { f<<<(n + 63) / 64, 64>>>(a, o, s, n); }
        """
    ).kernel
    assert compulsory_work(k, {"n": 256, "seed": (1 << 64) - 5}).bytes_out == 256 * 4


def test_products_of_loaded_integers_are_counted_and_those_of_indices_are_not():
    text = """\
kernel k(c: i32* restrict, a: i32 const* restrict, b: i32 const* restrict, at: i32 const* restrict, n: i32)
  launch grid(n, n) block(32)
  var s: i32 = 0
  for k: i32 = 0; k < n; k + 1
    let x: i32 = a[(blockIdx.y as i32) * n + k]
    s += x * b[k * n + (blockIdx.x as i32)]
  if threadIdx.x == 0_u32
    c[at[blockIdx.x as i32] * n + (blockIdx.y as i32)] = s * n
"""
    work = compulsory_work(parse_kernel(text), {"n": 16}, lambda name: np.arange(16, dtype=np.int32))
    assert work.operations.integer == 16**3 and work.operations.total == 16**3
