"""The verifier: a good kernel has no problems; each rule has a kernel that breaks it, and only it."""

from __future__ import annotations

import dataclasses

import pytest

from ktc.ir import nodes as n
from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel, Launch, Param
from ktc.ir.nodes import Cast, Par, fresh, i32
from ktc.ir.text import parse_kernel
from ktc.ir.types import BOOL, F32, U32, Array, Ptr
from ktc.ir.verifier import check, verify

GOOD = """\
kernel rms(out: f32*, in: f32 const*, d: i32, host rows: i32)
  launch grid(rows) block(256)
  knob $V in {1, 2, 4} default 2
  where $V * 256 <= 1024
  array part: shared f32[256]
  par row in 0..rows @ [block.x]
    reduce(+) s: f32 = 0.0 over i in 0..d @ [vec $V, thread.x 256, seq]
      let x: f32 = in.ldg[row * d + i]
      yield x * x
    par j in 0..d @ [vec $V, thread.x 256, seq]
      out[row * d + j] = in[row * d + j] / sqrt(s)
"""

SPMD = """\
kernel sum(out: f32*, in: f32 const*, n: i32)
  array tile: shared f32[256]
  var acc: f32 = 0.0
  for i: u32 in threadIdx.x..n step blockDim.x
    if in[i] < 0.0
      continue
    acc += in[i]
  tile[threadIdx.x] = acc
  barrier
  for s: i32 = 128; s > 0; s >> 1
    if threadIdx.x < s
      tile[threadIdx.x] += tile[threadIdx.x + s]
    barrier
  if threadIdx.x == 0
    out[blockIdx.x] = tile[0]
"""


def codes(text: str) -> list[str]:
    return [p.code for p in verify(parse_kernel(text))]


@pytest.mark.parametrize("text", [GOOD, SPMD])
def test_good_kernels_have_no_problems(text: str) -> None:
    assert verify(parse_kernel(text)) == []


HEAD = "kernel k(out: f32*, in: f32 const*, d: i32)\n"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("  in[0] = 1.0\n", "V-READONLY"),
        ("  out[0] = out.ldg[1]\n", "V-SPACE"),
        ("  break\n", "V-LOOP"),
        ("  for k in 0..d\n    par i in 0..d @ [seq]\n      continue\n", "V-LOOP"),
        ("  par i in 0..d\n    return\n", "V-LOOP"),
        ("  let x: f32 = 1.0\n  x = 2.0\n", "V-CONST"),
        ("  let x: f32x4 = in[0 +: 4]\n  x[1] = 2.0\n", "V-CONST"),
        ("  out[$W] = 1.0\n", "V-KNOB"),
        ("  knob $W in {1, 2} default 3\n  out[$W] = 1.0\n", "V-KNOB"),
        ("  launch grid(1) block(1024, 2)\n  pass\n", "V-LAUNCH"),
        ("  launch grid(1, 65536) block(32)\n  pass\n", "V-LAUNCH"),
        ("  launch grid(1) block(1, 1, 128)\n  pass\n", "V-LAUNCH"),
        ("  knob $T in {2048} default 2048 value 2048\n  launch grid(1) block($T)\n  pass\n", "V-LAUNCH"),
        ("  if threadIdx.x < 3\n    barrier\n", "V-BARRIER"),
        ("  for i in 0..d\n    if threadIdx.x == 3\n      break\n    barrier\n", "V-BARRIER"),
        ("  var t: f32 = in[threadIdx.x]\n  while t > 0.0\n    barrier\n    t -= 1.0\n", "V-BARRIER"),
        ("  par i in 0..d @ [thread.x 32, seq]\n    barrier\n", "V-BARRIER"),
        ("  par i in 0..d @ [seq, thread.x 4]\n    pass\n", "V-DIST"),
        ("  par i in 0..d @ [thread.x 4, vec 2]\n    pass\n", "V-DIST"),
        ("  par i in 0..d @ [vec 0, thread.x]\n    pass\n", "V-DIST"),
        ("  par i in 0..d @ [thread 4]\n    pass\n", "V-DIST"),
        ("  par i in 0..d @ [thread.x 4]\n    par j in 0..d @ [lane 32]\n      pass\n", "V-DIST"),
        ("  reduce(max) s: f32 = 0.0 over i in 0..d strategy magic\n    yield in[i]\n", "V-REDUCE"),
        ("  atomic cas out[0], 1.0\n", "V-ATOMIC"),
        ("  array a: shared i32[4]\n  atomic gt a[0], 1\n", "V-ATOMIC"),
        ("  array a: f32[4]\n  atomic add a[0], 1.0\n", "V-SPACE"),
        ("  array a: f32[4, 4]\n  a[0] = 1.0\n", "V-INDEX"),
        ("  out[1.0] = 1.0\n", "V-INDEX"),
        ("  let v: f32x(2) = in[0 +: 4]\n", "V-TYPE"),
        ("  let v: f32x(2) = in[0 +: 2]\n  out[0 +: 4] = v\n", "V-TYPE"),
        ("  let u: u32 = 1.0 as.bit u32\n  let v: u16 = 1.0 as.bit u16\n", "V-TYPE"),
        ("  array a: constant f32[4]\n  pass\n", "V-SPACE"),
        ("  array a: f32[4] dynamic\n  pass\n", "V-SPACE"),
    ],
)
def test_each_rule_is_checked(body: str, code: str) -> None:
    assert codes(HEAD + body) == [code]


TRUE = n.Const(True, BOOL)
X, OUT = fresh("x", F32), fresh("out", Ptr(F32))


def kernel(*body: n.Stmt) -> Kernel:
    return Kernel("k", (Param(OUT),), None, body)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ((n.Assign(sym=X, value=n.Const(1.0, F32)),), "V-UNDEFINED"),
        ((n.If(cond=TRUE, then=(n.Decl(sym=X),)), n.Assign(sym=X, value=n.Const(1.0, F32))), "V-UNDEFINED"),
        ((n.Decl(sym=X), n.Decl(sym=X)), "V-REDEFINED"),
        ((n.Decl(sym=X, init=i32(1)),), "V-TYPE"),
        ((n.Store(buffer=OUT, index=(i32(0),), value=i32(1)),), "V-TYPE"),
        ((n.If(cond=i32(1), then=()),), "V-TYPE"),
        ((n.Eval(value=n.Binary("+", i32(1), n.Const(1, U32))),), "V-TYPE"),
        ((n.Eval(value=n.Binary("%", n.Const(1.0, F32), n.Const(1.0, F32))),), "V-TYPE"),
        ((n.Eval(value=n.HwIndex("thread", "w")),), "V-TYPE"),
        ((n.Alloc(sym=fresh("a", Array(F32, (i32(4),), "global"))),), "V-SPACE"),
    ],
)  # fmt: skip
def test_rules_that_the_text_form_cannot_break(body: tuple[n.Stmt, ...], code: str) -> None:
    assert [p.code for p in verify(kernel(*body))] == [code]


def test_launch_may_only_use_parameters_and_knobs() -> None:
    k = kernel().with_(launch=Launch((n.Var(X), i32(1), i32(1)), (n.Knob("T"), i32(1), i32(1))))
    assert [p.code for p in verify(k)] == ["V-UNDEFINED", "V-KNOB"]


def test_problems_carry_the_place_and_check_raises_them() -> None:
    k = parse_kernel(HEAD + "  out[0] = 1.0\n  in[0] = 1.0\n", "k.ktir")
    assert str(verify(k)[0]).startswith("k.ktir:3:3: 'in' is read-only")
    with pytest.raises(KtcError) as caught:
        check(k)
    assert caught.value.code == "E-VERIFY" and caught.value.loc.line == 3  # type: ignore[union-attr]


def test_a_host_parameter_may_bound_a_parallel_loop() -> None:
    assert codes("kernel k(out: f32*, host n: i32)\n  par i in 0..n @ [block.x]\n    out[i] = 0.0\n") == []


def test_an_element_behind_a_vector_has_its_place() -> None:
    from ktc.ir.frontend import load

    lines = "float2 q;", "float* p = (float*)&q;", "p[1] = 2;", "p[2] = 3;", "y[0] = q.x;"
    source = "\n".join(["__global__ void k(float* y) {", *lines, "}", ""])
    with pytest.raises(KtcError, match="a vector of 2 elements has no element 2") as caught:
        check(load(source, name="k.cu"))
    assert caught.value.loc is not None and caught.value.loc.line == 5
    check(load(source.replace("p[2] = 3", "p[0] = 3"), name="k.cu"))


def test_a_parallel_loop_counts_in_the_type_of_its_ends() -> None:
    k = parse_kernel("kernel k(out: f32*, n: i64)\n  par i in 0..n @ [block.x]\n    out[i] = 0.0\n")
    assert verify(k) == []
    (loop,) = k.body
    assert isinstance(loop, Par) and isinstance(loop.hi, Cast)
    (problem,) = verify(k.with_(body=(dataclasses.replace(loop, hi=loop.hi.x),)))
    assert problem.code == "V-TYPE" and "'i' and its end differ in type: i32 and i64" in problem.message
