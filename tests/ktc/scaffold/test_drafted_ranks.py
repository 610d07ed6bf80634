"""Drafts of kernels on tensors of any number of dimensions, strides in arrays in structs that a host loop fills."""

from __future__ import annotations

from pathlib import Path

from ktc import api
from ktc.scaffold import workload_text
from tests.ir.frontend.host.test_supposed_rank import DENSE, HEAD, HOST

PERMUTED = (
    DENSE
    + """
  for (int i = 0; i < dims; ++i)
    for (int j = 0; j < dims; ++j)
      if (order.perm[j] == i) steps[i] = strides[j];
"""
)


def test_a_tensor_of_four_dimensions_is_drafted(tmp_path: Path) -> None:
    """What is passed is made of extents, a divisor's multiplier included, and rows are as long as what goes over
    them."""
    file = tmp_path / "k.cu"
    file.write_text(HEAD + HOST.replace("BODY", PERMUTED).replace("STRIDES", "steps"))
    program = api.load(str(file), beside=False)
    assert program.source is not None
    text, todo = workload_text(program.kernel, program.source, tmp_path / "workload.toml")
    assert not [line for line in todo if "run at" in line or "its value" in line or "its shape" in line]
    assert any("4 dimensions" in line for line in todo)
    (tmp_path / "workload.toml").write_text(text)
    workload = api.load(str(tmp_path)).workload
    assert workload is not None
    values = {a.name: a.value for a in workload.args if a.role == "scalar"}
    assert values["dims"] == 4 and values["strides_data_3"] == "in_GetDim_0 * in_GetDim_1 * in_GetDim_2"
    assert values["by_data_2_shift"] == "ceil_log2(in_GetDim_3)"
    elements = {a.name: sorted(map(str, a.shape)) for a in workload.args if a.role != "scalar"}
    assert elements["x"] == elements["y"] == [f"in_GetDim_{k}" for k in range(4)]
