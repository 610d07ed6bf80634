"""What counts as a source below a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktc.profiling.kernel_sources import SourceTree
from ktc.project.source_trees import Tree

KERNEL = "__global__ void scale(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] *= 2.0f; }\n"


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    (tmp_path / "main.cu").write_text(KERNEL)
    run = tmp_path / "ktc-out" / "scale"
    run.mkdir(parents=True)
    (run / "kernel.out.cu").write_text(KERNEL)
    (run / "run.json").write_text("{}")
    return tmp_path


@pytest.mark.parametrize("left", ["recipe.json", "report.json", "trajectory.jsonl"])
def test_what_runs_leave_below_the_sources_is_none_of_them(sources: Path, left: str) -> None:
    """A tuned kernel has its source's name, and may come before it in the order of files."""
    (sources / "ktc-out" / "scale" / left).write_text("{}")
    assert Tree(str(sources)).files == [str(sources / "main.cu")]
    assert [p.file for p in SourceTree((str(sources),)).places("scale(float*, int)")] == [str(sources / "main.cu")]


def test_other_folders_with_such_a_file_are_sources(sources: Path) -> None:
    assert len(Tree(str(sources)).with_kernels) == 2
