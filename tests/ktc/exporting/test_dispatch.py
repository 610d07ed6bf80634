"""Which kernel an export runs: sizes from shapes, the nearest measurement, conditions, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ktc.exporting.building import build
from ktc.exporting.shipped.dispatch import Call, Exported, overlapping
from ktc.ir.diagnostics import KtcError
from ktc.recipes import open_recipe
from tests.ktc.exporting.runs import SILU, SILU_SCRIPT, contested, recipe, silu, timing
from tests.paths import KERNELS, ROOT

FAR = 1 << 20
ADDRESSES = {"out": FAR, "input": 2 * FAR}


def exported(tmp_path: Path, *recipes: object, target: str = "cuda") -> Exported:
    opened = []
    for k, r in enumerate(recipes):
        r.save(tmp_path / f"{k}.json")  # type: ignore[attr-defined]
        opened.append(open_recipe(tmp_path / f"{k}.json"))
    built = build(opened, [], target)
    (tmp_path / "kernel.json").write_text(json.dumps(built.artefact.to_json()))
    return Exported(tmp_path)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return exported(tmp_path_factory.mktemp("silu"), silu())


def call(package: Exported, n: int, d: int, dtype: str = "f16") -> Call:
    return package.call({"out": (n, d), "input": (n, 2 * d)}, {"out": dtype, "input": dtype}, {})


def runs(package: Exported, n: int, d: int, arch: str = "sm_90", **addresses: int) -> str:
    """The file that runs for a call, without its ending."""
    found = call(package, n, d).launch({**ADDRESSES, **addresses}, 48 << 10, arch)
    return found.kernel.file.stem


@pytest.mark.parametrize(
    ("n", "d", "file"),
    [
        (16, 4096, "tuned0"),  # as measured
        (64, 8192, "tuned1"),
        (20, 4104, "tuned0"),  # nearest to the first
        (60, 8000, "tuned1"),
        (32, 8192, "original"),  # nothing was faster there
        (33, 8000, "original"),
        (8, 4096, "original"),  # below all that was measured to be faster: 0.9x there
        (15, 4096, "original"),
        (65, 8192, "original"),  # beyond
        (64, 8200, "original"),
        (16, 4098, "original"),  # d % 4 does not hold
    ],
)
def test_only_between_measurements_the_nearest_one_decides(package: Exported, n: int, d: int, file: str) -> None:
    assert runs(package, n, d) == file


CONTESTED = [
    (16, 4096, 8),  # as measured
    (18, 4096, 8),  # the second is more than twice as far
    (26, 4096, 4),  # the second is asked, too: eight lanes were slower there
    (64, 4096, 4),
]


@pytest.mark.parametrize(("n", "d", "lanes"), CONTESTED)
def test_the_least_speed_up_of_near_measurements_decides(tmp_path: Path, n: int, d: int, lanes: int) -> None:
    package = exported(tmp_path, contested())
    tuned = call(package, n, d).tuned
    assert tuned is not None and tuned.kernel.data["knobs"] == {"V": lanes}


def test_where_every_kernel_was_slower_at_a_near_measurement_the_original_runs(tmp_path: Path) -> None:
    won = contested().timings
    package = exported(tmp_path, recipe(SILU, {k: won[k] for k in "ab"}))
    assert package.instances[0].chosen({"num_tokens": 64, "d": 4096}) is not None
    slow = {"c": won["c"] | {"sizes": {"n": 50, "d": 4096}}}
    package = exported(tmp_path, recipe(SILU, {k: won[k] for k in "ab"} | slow))
    assert package.instances[0].chosen({"num_tokens": 58, "d": 4096}) is None


def test_an_address_that_vectors_cannot_take_runs_the_original(package: Exported) -> None:
    assert runs(package, 64, 8192, input=2 * FAR + 8) == "original"
    assert runs(package, 16, 4096, input=2 * FAR + 8) == "tuned0"


def test_geometry_follows_the_sizes(package: Exported) -> None:
    launch = call(package, 64, 8192).launch(ADDRESSES, 48 << 10, "sm_90")
    assert (launch.grid, launch.block, launch.shared) == ((64, 1, 1), (256, 1, 1), 0)
    assert call(package, 0, 8192).launch(ADDRESSES, 48 << 10, "sm_90").empty
    assert call(package, 5, 0).original.block == (0, 1, 1)


def test_a_size_that_no_scalar_carries_is_a_coordinate(tmp_path: Path) -> None:
    rope = KERNELS / "serving/rope"
    script = "raise | distribute{loop=i map=[thread.x $T, seq]}"
    at = {"h": 4, "d": 64}
    won = {
        "few": timing({"n": 16, "p": 32, **at}, script, 2.0, T=64),
        "many": timing({"n": 16, "p": 2048, **at}, script, 2.0, T=128),
    }
    package = exported(tmp_path, recipe(rope, won, "cuda"))
    dtypes = {"x": "f16", "cos_sin": "f32", "positions": "i32"}
    for rows, file in ((32, "tuned0"), (40, "tuned0"), (2000, "tuned1"), (2049, "original")):
        found = package.call({"x": (16, 4, 64), "cos_sin": (rows, 64), "positions": (16,)}, dtypes, {})
        assert (found.tuned or found.original).kernel.file.stem == file


def test_shapes_that_do_not_go_together(package: Exported) -> None:
    with pytest.raises(ValueError, match=r"out: shape \(4, 9\), expected \(4, 8\)"):
        package.call({"out": (4, 9), "input": (4, 16)}, {"out": "f16", "input": "f16"}, {})
    with pytest.raises(ValueError, match=r"input: shape \(4, 17\), expected \(4, 16\)"):
        package.call({"out": (4, 8), "input": (4, 17)}, {"out": "f16", "input": "f16"}, {})
    with pytest.raises(ValueError, match=r"input: 1 dimensions, expected shape \[n, 2 \* d\]"):
        package.call({"out": (8,), "input": (16,)}, {"out": "f16", "input": "f16"}, {})
    with pytest.raises(ValueError, match="does not fit into i32"):
        call(package, 1 << 31, 8)
    with pytest.raises(TypeError, match="no kernel for out f32, input f32; it has: out f16, input f16"):
        call(package, 4, 8, "f32")


def test_memory_that_the_source_rules_out_is_refused(package: Exported) -> None:
    assert overlapping(package, {"out": (0, 100), "input": (99, 300)}).startswith("out and input share memory")
    assert overlapping(package, {"out": (0, 100), "input": (100, 300)}) == ""


def test_one_export_of_several_dtypes(tmp_path: Path) -> None:
    package = exported(tmp_path, silu(), silu(variant="bf16"))
    assert [i.dtypes["input"] for i in package.instances] == ["f16", "bf16"]
    files = {k.file.name for i in package.instances for k in (i.original, *i.variants)}
    assert len(files) == 6, "each instance has files of its own"
    assert call(package, 16, 4096, "bf16").tuned is not None
    with pytest.raises(KtcError, match="two runs of the same dtypes"):
        exported(tmp_path, silu(), silu())


def test_runs_of_several_kernels_are_no_one_export(tmp_path: Path) -> None:
    other = recipe(ROOT / "kernels/dense/saxpy", {"a": timing({"n": 65536}, "raise", 2.0)})
    with pytest.raises(KtcError, match="several kernels"):
        exported(tmp_path, silu(), other)


def test_a_faster_point_whose_interval_reaches_below_one_decides_for_the_original(tmp_path: Path) -> None:
    doubtful = timing({"n": 16, "d": 4096}, SILU_SCRIPT, 1.005, V=4)
    package = exported(tmp_path, recipe(SILU, {"a": doubtful}))
    assert not package.instances[0].variants and runs(package, 16, 4096) == "original"


def test_shared_memory_and_architecture_of_the_device(tmp_path: Path) -> None:
    folder = ROOT / "kernels/dense/hgemm"
    script = (folder / "expert.ktp").read_text()
    package = exported(tmp_path, recipe(folder, {"a": timing({"m": 4096, "n": 4096, "k": 4096}, script, 2.0)}, "cuda"))
    shapes = dict.fromkeys("ABC", (4096, 4096))
    found = package.call(shapes, dict.fromkeys("ABC", "f16"), {})
    at = {n: FAR * k for k, n in enumerate("ABC", 1)}
    assert found.tuned is not None and found.tuned.kernel.matrices
    assert found.launch(at, 227 << 10, "sm_90") is found.tuned
    assert found.launch(at, 48 << 10, "sm_90") is found.original, "not enough shared memory"
    assert found.launch(at, 227 << 10, "sm_100") is found.original, "wgmma is of sm_90a alone"
