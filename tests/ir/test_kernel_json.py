"""Kernels as JSON values: all that they hold comes back, and what is no kernel is an error."""

from __future__ import annotations

import copy
import json
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import add
from ktc.ir.kernel import Kernel
from ktc.ir.kernel_json import kernel_from_json, kernel_to_json
from ktc.ir.nodes import Assign, Const, Sym, Var
from ktc.ir.support.frozen import values_of
from ktc.ir.text import canonical, parse_kernel, print_kernel, symbols
from ktc.ir.types import F32, Ptr, Scalar
from ktc.ir.walk import walk
from ktc.ir.workload import Workload
from tests.ir.text.random_kernels import kernels
from tests.paths import KERNELS

SMALL = "kernel k(y: f32* restrict, n: i32)\n  launch grid(1) block(32)\n  y[threadIdx.x as i32] = f32(n)\n"


def travelled(k: Kernel) -> Kernel:
    return kernel_from_json(json.loads(json.dumps(kernel_to_json(k))))


def alike(a: object, b: object, symbols: dict[int, int]) -> bool:
    """Whether two trees are the same in every field, compared or not, but for the numbers of their symbols."""
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple):
        return len(a) == len(b) and all(alike(x, y, symbols) for x, y in zip(a, b))
    if isinstance(a, Sym):
        same = symbols.setdefault(a.id, b.id) == b.id
        return same and (a.name, a.stem) == (b.name, b.stem) and alike(a.type, b.type, symbols)
    if isinstance(a, float) and math.isnan(a):
        return math.isnan(b)
    if isinstance(a, frozenset):
        return a == b  # in whatever order
    if isinstance(a, Scalar) or not hasattr(a, "__dataclass_fields__"):
        return a == b and repr(a) == repr(b)  # tells -0.0 from 0.0
    return all(alike(x, y, symbols) for (_, x), (_, y) in zip(values_of(a), values_of(b)))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(kernels())
def test_every_kernel_comes_back_in_every_field(k: Kernel) -> None:
    back = travelled(k)
    assert alike(k, back, {}) and canonical(back) == canonical(k)
    assert not {s.id for s in symbols(k)} & {s.id for s in symbols(back)}
    assert json.dumps(kernel_to_json(back)) == json.dumps(kernel_to_json(k))  # of which a NaN equals itself


@pytest.mark.parametrize("folder", ["serving/rope", "training/layernorm", "dense/sgemm_tiled", "fusion/norm_then_fp8"])
def test_places_comments_and_sharing_come_back(folder) -> None:
    k = Workload.load(KERNELS / folder).load_kernel()
    back = travelled(k)
    assert print_kernel(back) == print_kernel(k)
    assert [s.loc for s in walk(back.body)] == [s.loc for s in walk(k.body)] and back.loc == k.loc
    assert len({id(s) for s in walk(back.body)}) == len({id(s) for s in walk(k.body)})


def test_a_symbol_seen_as_two_types_stays_one_symbol() -> None:
    k = parse_kernel(SMALL)
    y, n = (p.sym for p in k.params)
    other = Sym(y.name, Ptr(F32, const=True), y.id, y.stem)
    both = k.with_(body=(*k.body, Assign(n, Var(n)), Assign(other, Var(y))))
    back = travelled(both)
    assert alike(both, back, {}) and back.body[-1].sym == back.params[0].sym


def test_a_sum_of_ten_thousand_terms_travels() -> None:
    k = parse_kernel(SMALL)
    n = k.params[1].sym
    total = Var(n)
    for i in range(10_000):
        total = add(total, Const(i % 7 + 1, n.type)) if i % 2 else add(Var(n), total)
    assert len(kernel_to_json(travelled(k.with_(body=(*k.body, Assign(n, total)))))["nodes"]) > 10_000


def test_what_no_kernel_holds_is_not_written() -> None:
    k = parse_kernel(SMALL)
    with pytest.raises(TypeError, match="a dict, which cannot travel"):
        kernel_to_json(k.with_(trace=({},)))
    with pytest.raises(TypeError, match="a PosixPath, which cannot travel"):
        kernel_to_json(k.with_(trace=(KERNELS,)))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_values_are_an_error_or_some_kernel(data: st.DataObject) -> None:
    """What comes from elsewhere makes objects of kernels' classes, and nothing else."""
    value = copy.deepcopy(kernel_to_json(parse_kernel(SMALL)))
    row = data.draw(st.sampled_from([*value["classes"], *value["nodes"]]))
    place = data.draw(st.integers(0, len(row) - 1))
    row[place] = data.draw(st.sampled_from([None, -1, 0, 3, 99, "os", "Kernel", [], {}, {"node": 5}, {"call": 1}]))
    try:
        assert isinstance(kernel_from_json(value), Kernel)
    except KtcError as e:
        assert e.code == "E-KERNEL-JSON"


@pytest.mark.parametrize("value", [{}, {"classes": [], "nodes": []}, {"classes": [["Path"]], "nodes": [[0]]}])
def test_what_is_no_kernel_says_so(value) -> None:
    with pytest.raises(KtcError, match="not a kernel"):
        kernel_from_json(value)
