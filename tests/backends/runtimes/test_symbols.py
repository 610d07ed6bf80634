"""Variables at file scope at a launch: set before it, read back after it, never passed as arguments."""

from types import SimpleNamespace

import pytest

from ktc.backends import emit
from ktc.backends.runtimes.common import signature
from ktc.backends.runtimes.cuda_runtime import CudaExecutable
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load

TEXT = """__constant__ float table[4]; __device__ int count[2];
__global__ void k(float* out, int n) { out[n] = table[n]; count[1] = n; }
void f(float* out, int n) { k<<<1, 1>>>(out, n); }"""


class Missing(Exception):
    pass


def executable(known):
    """An executable of a module with the variables ``known``, and the log of what it does on the device."""
    log = []

    def address(name):
        if name not in known:
            raise Missing("not found")
        return known[name]

    def start(grid, block, args, shared, **_):
        log.append(("launch", len(args)))

    module = SimpleNamespace(load=lambda _: None, get_function=lambda _: Function(start), get_global_var=address)
    driver = SimpleNamespace(funcGetAttribute=lambda *_: 0, CUDADriverError=Missing)
    cp = SimpleNamespace(cuda=SimpleNamespace(function=SimpleNamespace(Module=lambda: module), driver=driver))
    runtime = SimpleNamespace(cp=cp, to_device=None, copy_bytes=lambda *what: log.append(what))
    return CudaExecutable(runtime, emit(load(TEXT), "cuda"), b"", "k"), log


class Function:
    ptr = 0

    def __init__(self, start):
        self._start = start

    def __call__(self, *args, **more):
        self._start(*args, **more)


def buffer(address, size):
    return SimpleNamespace(nbytes=size, data=SimpleNamespace(ptr=address))


def test_a_launch_sets_the_variables_and_reads_back_what_may_be_written():
    exe, log = executable({"table": 100, "count": 200})
    exe.launch({"out": buffer(1, 16), "n": 1, "table": buffer(2, 16), "count": buffer(3, 8)})
    assert log == [(100, 2, 16), (200, 3, 8), ("launch", 2), (3, 200, 8)]


def test_wrong_sizes_and_unknown_variables_are_refused_before_the_launch():
    exe, log = executable({"table": 100, "count": 200})
    with pytest.raises(KtcError, match="'table' is a variable of 16 bytes; its argument has 12"):
        exe.launch({"out": buffer(1, 16), "n": 1, "table": buffer(2, 12), "count": buffer(3, 8)})
    assert log == []
    with pytest.raises(KtcError, match="no variable 'count'"):
        executable({"table": 100})


def test_only_languages_without_file_scope_pass_them():
    kernel = load(TEXT)
    assert [n for n, _ in signature(kernel, symbols=False)] == ["out", "n"]
    assert [n for n, _ in signature(kernel)] == ["out", "n", "table", "count"]
