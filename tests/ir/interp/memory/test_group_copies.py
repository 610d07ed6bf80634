"""Asynchronous copies by a work-group: when they take effect, what races with them, who must wait for them."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.backends import emit
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from ktc.ir.group_copies import by_threads, has_group_copies
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel, Launch
from ktc.ir.nodes import Barrier, Binary, Const, GroupCopy, GroupWait, HwIndex, If, i32
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.types import U32
from ktc.ir.verifier import verify
from ktc.ir.walk import walk
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from tests import devices

HEAD = "kernel void k(global int *p, global const int *q, int n) { local int s[32], t[32]; int i = get_local_id(0);"
IN = "event_t e = async_work_group_copy(s, q + 32 * get_group_id(0), 32, 0);"
WAIT = "wait_group_events(1, &e);"
OUT = "p[get_global_id(0)] = s[31 - i];"


def kernel(body: str) -> Kernel:
    k = load(f"{HEAD}\n{body}\n}}", name="k.cl")
    one = i32(1)
    return k.with_(launch=Launch((i32(2), one, one), (i32(32), one, one)))


def found(body: str) -> set[str]:
    q = np.arange(64, dtype=np.int32) * 3 + 1
    result = run(kernel(body), {"p": np.full(64, -1, np.int32), "q": q, "n": 32})
    return {f.kind for f in result.findings}


@pytest.mark.parametrize(
    "body, kinds",
    {
        "waited for": (f"{IN} {WAIT} {OUT}", set()),
        "two copies of one event": (
            "event_t e = async_work_group_copy(s, q, 16, 0); async_work_group_copy(s + 16, q + 16, 16, e);"
            f"{WAIT} {OUT}",
            set(),
        ),
        "one of two events": (
            "event_t e[2]; e[0] = async_work_group_copy(s, q, 16, 0); e[1] = async_work_group_copy(s + 16, q, 16, 0);"
            f"wait_group_events(1, e); {OUT}",
            {"race", "unwaited-copy", "uninitialised"},
        ),
        "never waited for": (f"{IN} p[get_global_id(0)] = 1;", {"unwaited-copy"}),
        "a barrier is no wait": (f"{IN} barrier(CLK_LOCAL_MEM_FENCE); {OUT} {WAIT}", {"race", "uninitialised"}),
        "written just before": (f"s[i] = 0; {IN} {WAIT} {OUT}", {"race"}),
        "written before a barrier": (f"s[i] = 0; barrier(CLK_LOCAL_MEM_FENCE); {IN} {WAIT} {OUT}", set()),
        "source written just before": (
            "s[i] = i; event_t e = async_work_group_copy(p + 32 * get_group_id(0), s, 32, 0); " + WAIT,
            {"race"},
        ),
        "source overwritten in flight": (
            "s[i] = i; barrier(CLK_LOCAL_MEM_FENCE);"
            f"event_t e = async_work_group_copy(p + 32 * get_group_id(0), s, 32, 0); s[i] = 7; {WAIT}",
            {"race"},
        ),
        "two in flight onto one place": (
            "s[i] = i; t[i] = -i - 7; barrier(CLK_LOCAL_MEM_FENCE); event_t e[2];"
            "e[0] = async_work_group_copy(p + 32 * get_group_id(0), s, 32, 0);"
            "e[1] = async_work_group_copy(p + 32 * get_group_id(0), t, 32, 0); wait_group_events(2, e);",
            {"race"},
        ),
        "one after the other onto one place": (
            "s[i] = i; t[i] = -i - 7; barrier(CLK_LOCAL_MEM_FENCE);"
            f"event_t e = async_work_group_copy(p + 32 * get_group_id(0), s, 32, 0); {WAIT}"
            f"e = async_work_group_copy(p + 32 * get_group_id(0), t, 32, 0); {WAIT}",
            set(),
        ),
        "both groups onto one place": (
            "s[i] = get_global_id(0); barrier(CLK_LOCAL_MEM_FENCE);"
            f"event_t e = async_work_group_copy(p, s, 32, 0); {WAIT}",
            {"race"},
        ),
        "sizes differ": (
            f"event_t e = async_work_group_copy(s, q, i == 3 ? 1 : 32, 0); {WAIT} {OUT}",
            {"barrier-divergence"},
        ),
        "only some copy": (
            "event_t e = async_work_group_copy(s, q, 32, 0); if (i < 5) e = async_work_group_copy(t, q, 32, e);"
            f"{WAIT} {OUT}",
            {"barrier-divergence"},
        ),
        "only some wait": (f"{IN} if (i < 5) {WAIT} p[get_global_id(0)] = i;", {"barrier-divergence"}),
        "different events": (
            "event_t e[2]; e[0] = async_work_group_copy(s, q, 32, 0); e[1] = async_work_group_copy(t, q, 32, 0);"
            "wait_group_events(1, e + i % 2); wait_group_events(2, e); p[get_global_id(0)] = s[i] + t[i];",
            {"barrier-divergence"},
        ),
        "no event": ("event_t e = 0; wait_group_events(1, &e); p[get_global_id(0)] = i;", {"invalid-event"}),
        "too many elements": (f"event_t e = async_work_group_copy(s, q, 33, 0); {WAIT} {OUT}", {"out-of-bounds"}),
        "far too many elements": (
            f"event_t e = async_work_group_copy(s, q, 1ul << 60, 0); {WAIT} {OUT}",
            {"out-of-bounds"},
        ),
    }.values(),
)
def test_findings(body: str, kinds: set[str]) -> None:
    assert found(body) == kinds


def outputs(k: Kernel) -> np.ndarray:
    q = np.arange(256, dtype=np.int32) * 3 + 1
    result = run(k, {"p": np.full(64, -1, np.int32), "q": q, "n": 20})
    assert not result.findings
    return result.outputs["p"]


SOUND = {
    "plain": (f"{IN} {WAIT} {OUT}", lambda g: 3 * (32 * g + 31 - np.arange(32)) + 1),
    "every third": (
        f"event_t e = async_work_group_strided_copy(s, q + g, 32, 3, 0); {WAIT} {OUT}".replace(
            "g,", "get_group_id(0),"
        ),
        lambda g: 3 * (g + 3 * (31 - np.arange(32))) + 1,
    ),
    "several, a size known at run time": (
        f"t[i] = 5; barrier(CLK_LOCAL_MEM_FENCE); event_t e = 0; for (int j = 0; j < 2; j++)"
        f" e = async_work_group_copy(j ? s : t, q + 32 * j, n, e); {WAIT} p[get_global_id(0)] = t[i];",
        lambda g: np.where(np.arange(32) < 20, 3 * np.arange(32) + 1, 5),
    ),
    "out again, strided": (
        f"{IN} {WAIT} barrier(CLK_LOCAL_MEM_FENCE);"
        f" e = async_work_group_strided_copy(p + get_group_id(0), s, 32, 2, 0); {WAIT}",
        None,
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_values_and_the_loop_of_threads(name: str) -> None:
    body, expected = SOUND[name]
    k = kernel(body)
    got = outputs(k)
    if expected is None:
        want = np.stack([3 * (32 * g + np.arange(32)) + 1 for g in (0, 1)], axis=1).reshape(-1)
    else:
        want = np.concatenate([expected(g) for g in (0, 1)])
    assert got.tolist() == want.tolist()
    plain = by_threads(k)
    assert has_group_copies(k) and not has_group_copies(plain) and not verify(plain)
    assert outputs(plain).tolist() == got.tolist()


def test_text_form_and_opencl_keep_the_copies() -> None:
    k = kernel(SOUND["every third"][0])
    assert not verify(k)
    assert print_kernel(parse_kernel(print_kernel(k))) == print_kernel(k)
    text = emit(k, "opencl").text
    assert "event_t e" in text and "async_work_group_strided_copy(&s[0], &q[" in text and ", 32, 3, 0)" in text
    again = load(text, name="k.cl", kernel="k").with_(launch=k.launch)
    assert outputs(again).tolist() == outputs(k).tolist()
    for target in ("cuda", "hip", "numba"):
        assert "event" not in emit(k, target).text


def test_passes_see_the_loop_of_threads() -> None:
    k = kernel(SOUND["plain"][0])
    done = apply_script(k, parse_script("simplify"))
    assert not has_group_copies(done.kernel) and outputs(done.kernel).tolist() == outputs(k).tolist()
    refused = apply_script(k, parse_script("unroll{loop=nowhere}"))
    assert refused.refused is not None and refused.kernel is k


def test_waits_that_follow_each_other_are_one_barrier() -> None:
    body = "event_t e[2]; e[0] = async_work_group_copy(s, q, 8, 0); e[1] = async_work_group_copy(t, q, 8, 0);"
    k = by_threads(kernel(f"{body} wait_group_events(2, e); p[i] = s[0] + t[0];"))
    assert sum(isinstance(s, Barrier) for s in walk(k.body)) == 1


def test_a_copy_that_only_some_threads_reach_does_not_verify() -> None:
    k = kernel(f"{IN} {WAIT} {OUT}")
    some = Binary("<", HwIndex("thread", "x"), Const(3, U32))
    bad = k.with_(body=tuple(If(some, (s,)) if isinstance(s, GroupCopy | GroupWait) else s for s in k.body))
    assert [p.code for p in verify(bad)].count("V-BARRIER") == 2


@pytest.mark.parametrize(
    "body, code",
    [
        ("event_t e = async_work_group_copy(s, q, 4, 0); wait_group_events(1, &e + 0 * (e + 1));", "E-SEMA-OPERATOR"),
        ("event_t e = 3; wait_group_events(1, &e);", "E-SEMA-CONVERT"),
        ("event_t e = async_work_group_copy(s, q, 4, 0); if (e) p[0] = 1;", "E-SEMA-CONVERT"),
        ("event_t e = async_work_group_copy(s, q, 4, 0); wait_group_events(n, &e);", "E-SEMA-CONSTANT"),
        ("wait_group_events(1, &n);", "E-SEMA-CONVERT"),
        ("event_t e = async_work_group_copy(s, q, 4);", "E-SEMA-OVERLOAD"),
    ],
)
def test_events_are_no_numbers(body: str, code: str) -> None:
    with pytest.raises(KtcError) as e:
        kernel(body)
    assert e.value.code == code


MEET = {
    "read, then written": "int y = 0; if (i == 0) y = s[0]; barrier(FLAGS); if (i == 1) s[0] = y;",
    "written, then read": "if (i == 0) s[0] = 1; barrier(FLAGS); if (i == 1) p[get_group_id(0)] = s[0];",
}


@pytest.mark.parametrize("name", MEET)
@pytest.mark.parametrize(
    "flags, kinds",
    [
        ("n", {"race"}),
        ("n + 1", set()),
        ("n + 3", set()),
        ("n + 2", {"race"}),
        ("i == 0 ? 1 : n", set()),
        ("i == 0 ? n : 1", {"race"}),
    ],
)
def test_fence_flags_known_at_run_time(name: str, flags: str, kinds: set[str]) -> None:
    k = kernel("s[i] = i; barrier(CLK_LOCAL_MEM_FENCE);" + MEET[name].replace("FLAGS", flags))
    result = run(k, {"p": np.zeros(64, np.int32), "q": np.zeros(1, np.int32), "n": 0})
    assert {f.kind for f in result.findings} == kinds
    assert print_kernel(parse_kernel(print_kernel(k))) == print_kernel(k)


def on(backend: str, k: Kernel) -> np.ndarray:
    device = devices.working(backend)
    args = {"p": np.full(64, -1, np.int32), "q": np.arange(256, dtype=np.int32) * 3 + 1, "n": 20}
    there = {name: device.to_device(v) if isinstance(v, np.ndarray) else v for name, v in args.items()}
    device.compile(emit(k, backend)).launch(there)
    device.synchronize()
    return device.to_host(there["p"], args["p"])


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize("backend", ["opencl", "numba"])
def test_devices_agree(backend: str, name: str) -> None:
    k = kernel(SOUND[name][0])
    assert on(backend, k).tolist() == outputs(k).tolist()
