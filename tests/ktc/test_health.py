"""What the doctor makes of AMD's GPUs, of ROCm's CuPy, and what it says to type first."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from ktc import health
from ktc.backends.runtimes import DeviceProbe, amd_gpus
from ktc.backends.runtimes.cuda_runtime import import_cupy
from ktc.ir.diagnostics import KtcError


def driver(folder: Path, *versions: int) -> Path:
    """The topology that AMD's driver shows: a node a device, the first one being the processor."""
    for n, version in enumerate(versions):
        (folder / str(n)).mkdir(parents=True)
        (folder / str(n) / "properties").write_text(f"cpu_cores_count 0\ngfx_target_version {version}\nsimd_count 4\n")
    return folder


def test_gpus_are_named_as_compilers_name_them(tmp_path: Path) -> None:
    assert amd_gpus.amd_gpus(driver(tmp_path, 0, 90010, 90402, 110000, 120001)) == [
        "gfx90a", "gfx942", "gfx1100", "gfx1201",
    ]  # fmt: skip
    assert amd_gpus.amd_gpus(tmp_path / "no driver") == []
    (tmp_path / ".info").mkdir()
    (tmp_path / ".info" / "version").write_text("7.0.1-38\n")
    assert amd_gpus.rocm_version(tmp_path) == "7.0.1" and amd_gpus.rocm_version(tmp_path / "none") == ""


def rows(monkeypatch: pytest.MonkeyPatch, gpus: list[str], opencl: list[DeviceProbe]) -> list[health.Finding]:
    monkeypatch.setattr("ktc.backends.runtimes.amd_gpus.amd_gpus", lambda: gpus)
    monkeypatch.setattr("ktc.backends.runtimes.amd_gpus.rocm_version", lambda: "7.0.1")
    monkeypatch.setattr("ktc.backends.runtimes.probe", lambda kind: opencl)
    monkeypatch.setattr(health, "CHECKS", (("device", health.AMD, health._amd),))
    return health.examine()


def test_an_amd_gpu_is_measured_through_its_opencl(monkeypatch: pytest.MonkeyPatch) -> None:
    pocl = DeviceProbe("opencl:1", "ok", "pthread-EPYC (Portable Computing Language)")
    rocm = DeviceProbe("opencl:0", "ok", "gfx942:sramecc+:xnack- (AMD Accelerated Parallel Processing)")
    (found,) = rows(monkeypatch, ["gfx942"], [rocm, pocl])
    assert found.status == "ok" and "gfx942, ROCm 7.0.1" in found.detail and "(0: gfx942:" in found.detail
    assert [c.partition(" --")[2] for c, _ in health.next_steps([found])] == ["device opencl", "to hip"]
    (found,) = rows(monkeypatch, ["gfx942"], [pocl])
    assert found.status == "missing" and "rocm-opencl-runtime" in found.remedy and not health.next_steps([found])
    assert rows(monkeypatch, [], [pocl]) == [], "nothing is said to those who have none"


def test_who_has_a_cpu_alone_is_told_what_to_do() -> None:
    cpu = health.Finding("device", health.CPU, "ok", "a CPU")
    assert health.next_steps([cpu])[0][0] == "ktc optimize silu_and_mul", "which target is found out"
    nvidia = health.Finding("device", health.NVIDIA, "ok", "a GPU")
    assert [c for c, _ in health.next_steps([cpu, nvidia])] == ["ktc optimize silu_and_mul --device cuda"]


def test_rocms_cupy_is_no_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = types.ModuleType("cupy")
    cupy.cuda = types.SimpleNamespace(runtime=types.SimpleNamespace(is_hip=True))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    with pytest.raises(KtcError, match="ROCm") as e:
        import_cupy()
    assert e.value.exit_code == 3 and "--device opencl" in e.value.hint
