"""What the driver is given for a launch, against a driver that writes down what it gets; and NVRTC, where it is."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest

from ktc.exporting.shipped import nvrtc_module
from ktc.exporting.shipped.dispatch import Kernel, Launch
from ktc.exporting.shipped.nvrtc_module import Functions

CODE: dict[str, Any] = {
    "file": "k.cu", "entry": "k", "options": [], "arch": "", "cooperative": False, "dynamic": False, "requires": [],
    "aligned": {}, "apart": [], "room": "", "scratch": [], "matrices": [], "then": [],
    "arguments": [["y", "*f32"], ["n", "i32"], ["x", "*f16"], ["scale", "f16"], ["eps", "f64"], ["far", "i64"],
                  ["b", "bf16"], ["on", "bool"], ["in", "u8"]],
    "grid": ["n // 64", "2", "1"], "block": ["64", "1", "1"], "shared": "n * 100",
}  # fmt: skip
NAMES = {"n": 640, "scale": 1.5, "eps": 1e-9, "far": -(1 << 40), "b": 3.14159, "on": True, "in_": 200}
KINDS = (ctypes.c_uint64, ctypes.c_int32, ctypes.c_uint64, ctypes.c_uint16, ctypes.c_double, ctypes.c_int64,
         ctypes.c_uint16, ctypes.c_bool, ctypes.c_uint8)  # fmt: skip


class Recorder:
    """A driver that reads the arguments of a launch as the real one would."""

    def __init__(self) -> None:
        self.launches: list[tuple[Any, ...]] = []
        self.attributes: list[tuple[Any, ...]] = []
        self.fails = 0

    def cuLaunchKernel(self, function: Any, *rest: Any) -> int:
        dims, shared, stream, pointers = rest[:6], rest[6], rest[7], rest[8]
        values = [ctypes.cast(pointers[k], ctypes.POINTER(kind)).contents.value for k, kind in enumerate(KINDS)]
        self.launches.append((function, dims, shared, stream, values))
        return self.fails

    def cuFuncSetAttribute(self, *args: Any) -> int:
        self.attributes.append(args)
        return 0

    def cuGetErrorString(self, code: int, text: Any) -> int:
        ctypes.cast(text, ctypes.POINTER(ctypes.c_char_p))[0] = b"too bad"
        return 0


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    made = Recorder()
    monkeypatch.setattr(nvrtc_module, "driver", lambda: made)
    return made


@pytest.fixture
def functions(monkeypatch: pytest.MonkeyPatch) -> Functions:
    monkeypatch.setattr(Functions, "get", lambda self, kernel, ordinal: ("function", 1000))
    return Functions()


def test_arguments_lie_where_the_driver_reads_them(driver: Recorder, functions: Functions) -> None:
    launch = Launch(Kernel(CODE, Path()), NAMES)
    for base in (1 << 40, 1 << 41):
        functions.launch(launch, 0, 77, {"y": base, "x": base + 4096})
    for base, (function, dims, shared, stream, values) in zip((1 << 40, 1 << 41), driver.launches):
        assert (function, dims, shared, stream) == ("function", (10, 2, 1, 64, 1, 1), 64000, 77)
        assert values == [base, 640, base + 4096, 0x3E00, 1e-9, -(1 << 40), 0x4049, True, 200]
    assert driver.attributes == [("function", 8, 64000)], "more shared memory is asked for once"


def test_a_buffer_that_is_not_there_is_null(driver: Recorder, functions: Functions) -> None:
    functions.launch(Launch(Kernel(CODE, Path()), NAMES), 0, 0, {"y": None, "x": 8})
    assert driver.launches[0][4][0] == 0 and driver.launches[0][4][2] == 8


def test_an_error_says_what_was_launched(driver: Recorder, functions: Functions) -> None:
    driver.fails = 1
    with pytest.raises(RuntimeError, match=r"CUDA error 1: too bad \(k, grid \(10, 2, 1\), block \(64, 1, 1\)\)"):
        functions.launch(Launch(Kernel(CODE, Path()), NAMES), 0, 0, {"y": 0, "x": 0})


def test_nvrtc_compiles_and_names(tmp_path: Path) -> None:
    try:
        nvrtc_module.nvrtc()
    except RuntimeError as e:
        pytest.skip(str(e))
    (tmp_path / "k.cu").write_text(
        "#include <cuda_fp16.h>\n__global__ void k(__half* x) { x[0] = __float2half(1.0f); }\n"
    )
    code, symbol = nvrtc_module.compiled(Kernel(CODE, tmp_path), "sm_90")
    assert symbol == b"_Z1kP6__half" and code[:4] == b"\x7fELF"
    (tmp_path / "k.cu").write_text("__global__ void k() { no }\n")
    with pytest.raises(RuntimeError, match="does not compile"):
        nvrtc_module.compiled(Kernel(CODE, tmp_path), "sm_90")
