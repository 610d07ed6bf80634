"""A pointer that the kernel asks about is null in some instances, though the workload does not speak of it."""

import pytest

from ktc.ir.text import parse_kernel
from ktc.ir.workload import Workload
from ktc.search.verification import verify
from ktc.search.verification.instances.optional_pointers import with_optional_pointers

KERNEL = """
kernel k(y: f32* noalias, x: f32 const* noalias, b: f32 const* noalias, n: i32)
  launch grid(cdiv(n, 32)) block(32)
  let i: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32
  if i < n
    let bias: f32 = {bias}
    y[i] = x[i] + bias
"""
ASKS = "!is_null(&b[0]) -> bool ? b[i] : 0.0"
BRANCH = """
kernel k(y: f32* noalias, x: f32 const* noalias, b: f32 const* noalias, n: i32)
  launch grid(cdiv(n, 32)) block(32)
  let i: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32
  if i < n
    var bias: f32 = {other}
    if !is_null(&b[0]) -> bool
      bias = b[i]
    y[i] = x[i] + bias
"""
WORKLOAD = """
[kernel]
source = "k.ktir"
name = "k"
[[args]]
name = "y"
dtype = "f32"
shape = ["n"]
role = "out"
[[args]]
name = "x"
dtype = "f32"
shape = ["n"]
role = "in"
[[args]]
name = "b"
dtype = "f32"
shape = ["n"]
role = "in"
{null}
[[args]]
name = "n"
dtype = "i32"
role = "scalar"
value = "n"
[[scenario]]
name = "main"
sizes = {{ n = 100 }}
"""


def workload(tmp_path, kernel, null="", reference=""):
    (tmp_path / "k.ktir").write_text(kernel)
    (tmp_path / "workload.toml").write_text(WORKLOAD.format(null=null) + reference)
    return Workload.load(tmp_path)


@pytest.mark.parametrize(("other", "status"), [("0.0", "TESTED"), ("1.0", "REJECTED")])
def test_what_is_done_without_the_pointer_is_checked(tmp_path, other, status):
    work = workload(tmp_path, KERNEL.format(bias=ASKS))
    verdict = verify(work.load_kernel(), parse_kernel(BRANCH.format(other=other)), work)
    assert verdict.status == status, verdict


@pytest.mark.parametrize("null", ["null = false", 'null = "n == 7"'])
def test_what_the_workload_says_stands(tmp_path, null):
    work = workload(tmp_path, KERNEL.format(bias=ASKS), null)
    assert with_optional_pointers(work, work.load_kernel(), None, 0) is work


def test_a_pointer_that_the_original_needs_is_never_null(tmp_path):
    needs = workload(tmp_path, KERNEL.format(bias="!is_null(&b[0]) -> bool ? b[i] : b[0]"))
    assert with_optional_pointers(needs, needs.load_kernel(), None, 0) is needs


def test_nor_is_one_that_the_reference_needs(tmp_path):
    work = workload(tmp_path, KERNEL.format(bias=ASKS), reference='[reference]\ny = "x + b"\n')
    assert with_optional_pointers(work, work.load_kernel(), None, 0) is work


FIVE = [f"p{k}" for k in range(5)]


def test_any_two_pointers_are_missing_together_and_each_without_the_other(tmp_path):
    asked = "\n".join(f"    if !is_null(&{p}[0]) -> bool\n      sum += {p}[i]" for p in FIVE)
    params = ", ".join(f"{p}: f32 const* noalias" for p in FIVE)
    kernel = f"""
kernel k(y: f32* noalias, {params}, n: i32)
  launch grid(cdiv(n, 32)) block(32)
  let i: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32
  if i < n
    var sum: f32 = 0.0
{asked}
    y[i] = sum
"""
    x, b = WORKLOAD.index('[[args]]\nname = "x"'), WORKLOAD.index('[[args]]\nname = "n"')
    args = "".join(f'[[args]]\nname = "{p}"\ndtype = "f32"\nshape = ["n"]\nrole = "in"\n' for p in FIVE)
    (tmp_path / "k.ktir").write_text(kernel)
    (tmp_path / "workload.toml").write_text((WORKLOAD[:x] + args + WORKLOAD[b:]).format())
    work = Workload.load(tmp_path)
    changed = with_optional_pointers(work, work.load_kernel(), None, 0)
    optional = [a for a in changed.args if a.name in FIVE]
    for a in optional:
        for b in optional:
            seen = {(a.is_null({"n": n}), b.is_null({"n": n})) for n in range(1, 60)}
            assert len(seen) == (4 if a is not b else 2), (a.name, b.name)
